"""What the case view says when thresholds are moved, another playout is looked at, sounds overtake
each other, or the browser refuses the address."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_page import frame, until

from rig.report import case_list, clip, redecide
from rig.report.case_view import case_view
from rig.report.loading import ScoredRun, load_scored
from rig.report.packed import Packed
from rig.report.page import Section, write_page
from rig.report.sessions import session_facts
from rig.store import RunFolder
from rig.workers import Workers

HEAD = "() => document.getElementById('case-head').textContent"
HOLD_N, FLUSH_N = 24_000, 12_000


def _head(page: Any, text: str) -> None:
    until(page, f"text => ({HEAD})().startsWith(text)", text)


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> list[ScoredRun]:
    return load_scored([RunFolder(request.getfixturevalue("random_run"))])


def _read(part: Packed) -> Any:
    return json.loads(gzip.decompress(base64.b64decode(part.text)) if part.gzipped else part.text)


def _sections(runs: list[ScoredRun], change: Callable[[dict[str, Any]], None]) -> list[Section]:
    """Everything that knows cases, every case changed."""
    facts = session_facts(runs, frozenset(), Workers(1))
    view = case_view(runs, facts).section
    parts = {name: _read(part) for name, part in view.parts.items()}
    for part in parts.values():
        change(part)
    for policy, n in (("hold", HOLD_N), ("flush", FLUSH_N)):
        sound = clip.flac_base64(np.full((n, 2), 99, np.int16), 24_000)
        parts[f"s-{policy}"] = {"mime": clip.MIME, "base64": sound}
    first = Section(view.key, view.title, view.html, view.data, (), view.scripts, True, parts)
    return [first, case_list.section(runs, [fact.said for fact in facts]),
            redecide.section(runs)]


def _of_flush(part: dict[str, Any]) -> None:
    """Scored under flush, where it passed; under hold it would have failed."""
    empty = {"value": None, "unit": None, "limit": None, "measured": [], "deciding": None,
             "marks": []}
    part["scored_playout"] = "flush"
    part["verdict"] = {"hold": {"outcome": "fail", "reason": "by hold", **empty},
                       "flush": {"outcome": "pass", "reason": "by flush", **empty}}
    part["sound"] = {"hold": "case-s-hold", "flush": "case-s-flush"}


@pytest.fixture
def flushed(page: Any, runs: list[ScoredRun], tmp_path: Path) -> Any:
    """Not opened yet: `page.path` is the page."""
    page.path = tmp_path / "page.html"
    write_page("Flush", _sections(runs, _of_flush), page.path)
    return page


def test_the_heading_is_of_the_playout_that_was_scored(flushed: Any) -> None:
    flushed.goto(flushed.path.as_uri())
    _head(flushed, "PASS")
    assert "by flush" in flushed.evaluate(HEAD)
    assert "scored under" not in flushed.evaluate(HEAD)
    assert flushed.get_attribute("[data-side=flush]", "aria-pressed") == "true"
    assert flushed.get_attribute("[data-side=hold]", "aria-pressed") == "false"
    flushed.keyboard.press("h")
    _head(flushed, "FAIL")
    case = flushed.evaluate("rigData('case').cases.find(one => one[1] === 'fail')[1]")
    assert f" · under hold; scored under flush: {case}" in flushed.evaluate(HEAD)
    flushed.keyboard.press("a")
    _head(flushed, "PASS")


def test_of_two_sounds_the_last_one_asked_for_is_played(flushed: Any) -> None:
    """That of hold is asked for first and decoded last."""
    flushed.add_init_script("""
        const decode = OfflineAudioContext.prototype.decodeAudioData;
        window.decoded = [];
        OfflineAudioContext.prototype.decodeAudioData = async function (bytes) {
            const buffer = await decode.call(this, bytes);
            if (buffer.length === 24000) await new Promise(done => { window.release = done; });
            window.decoded.push(buffer.length);
            return buffer;
        };
        const start = AudioBufferSourceNode.prototype.start;
        window.played = [];
        AudioBufferSourceNode.prototype.start = function (...all) {
            window.played.push(this.buffer.length);
            return start.apply(this, all);
        };""")
    flushed.goto(flushed.path.as_uri())
    until(flushed, "() => !document.getElementById('case-play').disabled")
    flushed.keyboard.press("h")
    until(flushed, "() => window.release !== undefined")
    assert flushed.locator("#case-play").is_disabled()
    flushed.keyboard.press("f")
    until(flushed, "() => window.decoded.length === 2")
    flushed.evaluate("() => window.release()")
    until(flushed, "() => window.decoded.length === 3")
    frame(flushed)
    assert flushed.evaluate("window.decoded") == [FLUSH_N, FLUSH_N, HOLD_N]
    assert flushed.locator("#case-play").is_enabled()
    flushed.click("#case-play")
    until(flushed, "() => window.played.length === 1")
    assert flushed.evaluate("window.played") == [FLUSH_N]


@pytest.fixture
def moved(page: Any, runs: list[ScoredRun], tmp_path: Path) -> Any:
    page.path = tmp_path / "page.html"
    write_page("Moved", _sections(runs, lambda part: None), page.path)
    return page


def _turned(page: Any) -> list[int]:
    """Moves settings until a verdict turns; the rows of those that did."""
    for name, value in (("yield_max_latency_ms", "20"), ("take_turn_max_wait_s", "0.05"),
                        ("interrupt_max_latency_ms", "20"), ("readback_min_coverage", "0.01")):
        page.evaluate("""([name, value]) => {
            const at = rigData("redecide").settings.findIndex(one => one.name === name);
            const box = document.querySelector(`[data-setting="${at}"] input[type=number]`);
            box.value = value;
            box.dispatchEvent(new Event("input"));
        }""", [name, value])
        frame(page)
        rows = page.evaluate("""rigData("cases").key.map((_, row) => row).filter(row =>
            rigVerdicts.outcome(row) !== rigVerdicts.scored(row))""")
        if rows:
            return list(rows)
    pytest.fail("no setting turns a verdict of this run")


def test_moved_thresholds_reach_the_case(moved: Any, runs: list[ScoredRun]) -> None:
    moved.goto(moved.path.as_uri())
    moved.wait_for_selector("#case-head h3")
    rows = _turned(moved)
    outcomes = moved.evaluate(
        "rigData('cases').key.map((_, row) => rigVerdicts.outcome(row))")
    case = runs[0].cases[rows[0]]
    assert str(case.outcome) != outcomes[rows[0]]
    moved.evaluate("key => rigOpenCase(key)", case.key)
    said = (f"{str(case.outcome).upper()} as scored {outcomes[rows[0]].upper()} under the "
            f"thresholds as moved {case.case_id} t1")
    _head(moved, said)
    assert f"as scored: {case.reason}" in moved.evaluate(HEAD)
    assert "not as moved" in moved.inner_text("#case-note")
    failing_n = outcomes.count("fail")
    assert moved.inner_text("#case-count").endswith(
        f", {failing_n} failing under the thresholds as moved")
    assert failing_n != [str(c.outcome) for c in runs[0].cases].count("fail")
    option = moved.locator("#case-choice option").nth(rows[0]).inner_text()
    assert option == f"{case.case_id}/1 · {case.outcome} → {outcomes[rows[0]]}"
    # N goes through those that fail now.
    seen = set()
    for _ in range(failing_n):
        before = moved.input_value("#case-choice")
        moved.keyboard.press("n")
        if failing_n > 1:
            until(moved, "was => document.getElementById('case-choice').value !== was", before)
        seen.add(int(moved.input_value("#case-choice")))
    assert seen == {row for row, one in enumerate(outcomes) if one == "fail"}
    # The case that is shown follows at once, and goes back.
    moved.evaluate("key => rigOpenCase(key)", case.key)
    _head(moved, said)
    moved.click("#redecide-reset")
    assert moved.evaluate(HEAD).startswith(f"{str(case.outcome).upper()} {case.case_id} t1")
    assert "moved" not in moved.inner_text("#case-count")


def test_an_address_that_is_refused_holds_nothing_up(moved: Any) -> None:
    moved.add_init_script("""
        window.asked = 0;
        history.replaceState = () => {
            window.asked += 1;
            throw new DOMException("too many calls", "SecurityError");
        };""")
    moved.goto(moved.path.as_uri())
    moved.wait_for_selector("#case-head h3")
    rows = _turned(moved)
    assert moved.inner_text("#redecide-status").startswith(f"{len(rows)} of ")
    assert moved.locator("#cases-grid .outcome.turned").count() == len(rows)


def test_the_address_is_written_seldom_and_ends_right(moved: Any) -> None:
    moved.add_init_script("""
        const replace = history.replaceState;
        window.asked = 0;
        history.replaceState = function (...all) {
            window.asked += 1;
            return replace.apply(this, all);
        };""")
    moved.goto(moved.path.as_uri())
    moved.wait_for_selector("#case-head h3")
    until(moved, "() => location.hash.includes('case=')")
    took_ms = moved.evaluate("""async () => {
        window.asked = 0;
        const begun = performance.now();
        for (let i = 1; i <= 60; i += 1) {
            rigHash.set("q", ["word " + i]);
            await new Promise(done => setTimeout(done, 10));
        }
        return performance.now() - begun;
    }""")
    until(moved, "() => location.hash.includes('q=word+60')")
    assert 1 <= moved.evaluate("window.asked") <= took_ms / 400 + 2  # at once, and behind the last


def test_text_that_is_not_searched_is_told(moved: Any, runs: list[ScoredRun]) -> None:
    sections = _sections(runs, lambda part: None)
    part = dict(sections[1].parts["transcripts"])
    sections[1] = replace(sections[1], parts={"transcripts": {**part, "cut": [0, 2]}})
    write_page("Cut", sections, moved.path)
    moved.goto(moved.path.as_uri())
    assert "searched" not in moved.inner_text("#cases-status")
    moved.fill("#cases-search", "a")
    until(moved, "() => document.getElementById('cases-status').textContent.endsWith("
          "'; 2 cases say more than is searched: the first 20000 characters a side')")


def test_all_sections_begin_at_one_edge(open_page: Any, runs: list[ScoredRun], tmp_path: Path,
                                        call_rig: Any) -> None:
    out = tmp_path / "page.html"
    assert call_rig("report", runs[0].folder.path, "--out", out, "--audio", "none",
                    "--jobs", 1).code == 0
    for width in (1280, 1920):
        page = open_page(width=width)
        page.goto(out.as_uri())
        lefts = page.evaluate("""[...document.querySelectorAll("main > section > h2")]
            .map(head => head.getBoundingClientRect().left)""")
        assert len(lefts) >= 5
        assert len(set(lefts)) == 1


LONG = "a name that goes on and on " * 20


def _long_texts(part: dict[str, Any]) -> None:
    part["events"] = [[1.0, "state", LONG], [part["duration_s"] - 0.01, "state", "short"]]
    part["user_words"] = {"words": [["w" * 150, 2.0, 2.1], ["beside", 2.1, 2.2]],
                          "alignment": "forced", "left_out": 0}


def test_a_text_that_does_not_fit_is_cut_with_dots_behind(
    page: Any, runs: list[ScoredRun], tmp_path: Path
) -> None:
    """What the canvas is given to draw: a part of the text and "…", no wider than its room."""
    page.add_init_script("""
        const fill = CanvasRenderingContext2D.prototype.fillText;
        window.drawn = new Map();
        CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
            window.drawn.set(text, [x, x + this.measureText(text).width, this.canvas.clientWidth]);
            return fill.call(this, text, x, y);
        };""")
    out = tmp_path / "page.html"
    write_page("Long", _sections(runs, _long_texts), out)
    page.goto(out.as_uri())
    until(page, "() => window.drawn.has('short')")
    drawn = dict(page.evaluate("[...window.drawn]"))
    cut = {text: place for text, place in drawn.items() if text.endswith("…")}
    assert LONG not in drawn
    [name] = [text for text in cut if text.startswith("a name")]
    assert LONG.startswith(name[:-1].rstrip())
    assert 20 < len(name) < 200
    left, right, width = cut[name]
    assert right - left <= 360
    assert right <= width
    assert any(text == "…" or text.startswith("w") for text in cut)
    assert "w" * 150 not in drawn
    assert "short" in drawn  # at the edge: before its stroke, whole
    assert drawn["short"][1] <= width
