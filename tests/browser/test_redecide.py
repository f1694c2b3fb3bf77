"""Thresholds moved in the page: the same verdicts and totals as `rig score`."""

from __future__ import annotations

import json
import math
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import made_runs
import pytest
from browser_page import frame, until

from audio.spans import Spans
from rig.report import case_list, redecide
from rig.report.loading import ScoredRun, load_scored
from rig.report.page import write_page
from rig.scores import _aggregate_row, decide_all
from rig.store import RunFolder
from sweeps.aggregate import ias
from sweeps.decision_tree import RANGES, turning_points
from sweeps.intervals import wilson
from verifiers.scene import Action, Scene, Window
from verifiers.thresholds import DEFAULTS, Thresholds

N_SETTINGS = 1000
DECIDE = """([data, list, all]) => {
  const rows = list.run.map((_, row) => row);
  const word = (name) => (row) => list[name][row] === null ? null
    : list.values[name][list[name][row]];
  const of = { action: word("action"), level: word("level"), role: word("role") };
  return JSON.stringify(all.map((moved) => {
    const leaves = rigRedecide.decide(data, list.run, moved);
    const outcomes = leaves.map((leaf) => data.leaves[leaf].outcome);
    return { outcomes: outcomes.map((one) => list.outcomes.indexOf(one)).join(""),
      totals: list.runs.map((_, run) => rigRedecide.totals(data, of,
        rows.filter((row) => list.run[row] === run), outcomes)) };
  }));
}"""


def _settings(rng: random.Random, runs: Sequence[ScoredRun], n: int) -> list[Thresholds]:
    """Some anywhere, most where something turns: at measured quantities, at turning points, a
    nanosecond and the least step beside them, and at the ends of what is allowed."""
    at: dict[str, list[float]] = {name: [within.least, within.largest]
                                  for name, within in RANGES.items()}
    for run in runs:
        for case in run.cases:
            for name, point in turning_points(redecide.case_tree(run, case)):
                if RANGES[name].whole:
                    at[name] += [point - 1, point, point + 1]
                    continue
                second = 1000 if name.endswith("_ms") else 1
                nearest = round(point / second, 9) * second
                at[name] += [point, nearest, nearest - second / 1e9, nearest + second / 1e9,
                             math.nextafter(point, 0), math.nextafter(point, math.inf)]
    out = []
    for _ in range(n):
        values: dict[str, Any] = {}
        for name, within in RANGES.items():
            default = asdict(DEFAULTS)[name]
            value = rng.choice((rng.choice(at[name]), rng.choice(at[name]), default,
                                rng.randint(1, 5) if within.whole else default * rng.random() * 2))
            values[name] = min(max(value, within.least), within.largest)
        out.append(Thresholds(**values))
    return out


def _expected(runs: Sequence[ScoredRun], settings: Thresholds) -> tuple[list[str], list[Any]]:
    outcomes, totals = [], []
    for run in runs:
        scored = decide_all(made_runs.measured_rows(run), settings, "hold")
        outcomes += [str(one.verdict.outcome) for one in scored]
        totals.append(ias([_aggregate_row(one) for one in scored]))
    return outcomes, totals


def _named(value: Any) -> Any:
    """Lists of [name, entry] to objects."""
    if isinstance(value, list):
        return {name: _named(entry) for name, entry in value}
    if isinstance(value, dict) and "by_level" in value:
        return {**value, "by_level": _named(value["by_level"])}
    return value


def _decided(page: Any, runs: Sequence[ScoredRun], settings: Sequence[Thresholds]) -> list[Any]:
    """What the page's own functions say of all settings, in one call."""
    page.goto("about:blank")
    page.add_script_tag(content=files("rig.report").joinpath(
        "static", "redecide.js").read_text(encoding="utf-8"))
    # As text, as the page holds them: the numbers go through JSON both ways.
    arguments = json.loads(json.dumps([redecide.data(runs), case_list.data(runs),
                                       [list(asdict(one).values()) for one in settings]]))
    return list(json.loads(page.evaluate(DECIDE, arguments)))


def _check(page: Any, runs: Sequence[ScoredRun], settings: Sequence[Thresholds]) -> int:
    """Compares everything; returns how many verdicts differ from those scored."""
    names = case_list.data(runs)["outcomes"]
    before = [str(case.outcome) for run in runs for case in run.cases]
    turned = 0
    for found, one in zip(_decided(page, runs, settings), settings, strict=True):
        outcomes, totals = _expected(runs, one)
        assert [names[int(code)] for code in found["outcomes"]] == outcomes, one
        got = [{pool: _named(entries) for pool, entries in run.items()} for run in found["totals"]]
        assert got == totals, one
        turned += sum(a != b for a, b in zip(outcomes, before, strict=True))
    return turned


def test_a_thousand_settings_on_random_measurements_as_scored(page: Any) -> None:
    runs = [made_runs.scored_run("one", made_runs.scenes(3, 63)),
            made_runs.scored_run("two", made_runs.scenes(4, 27), index=1,
                                 thresholds=replace(DEFAULTS, take_turn_max_wait_s=1.5))]
    settings = _settings(random.Random(1), runs, N_SETTINGS)
    turned = _check(page, runs, settings)
    assert turned > 2 * N_SETTINGS  # the settings do move something


@pytest.fixture(scope="module")
def agent_runs(request: pytest.FixtureRequest) -> list[ScoredRun]:
    """Asked for here and not as arguments: a run is played in a loop of its own, which may not
    start while the browser's counts as running (`pytest_fixture_setup` of this folder)."""
    return load_scored([RunFolder(request.getfixturevalue(name))
                        for name in ("oracle_run", "random_run")])


def test_a_thousand_settings_on_played_runs_as_scored(
        page: Any, agent_runs: list[ScoredRun]) -> None:
    settings = _settings(random.Random(2), agent_runs, N_SETTINGS)
    assert _check(page, agent_runs, settings) > N_SETTINGS


def test_rig_score_says_the_same(page: Any, agent_runs: list[ScoredRun], tmp_path: Path,
                                 call_rig: Callable[..., Any]) -> None:
    """The command itself, on settings that turn verdicts of this run."""
    [run] = load_scored([agent_runs[1].folder])
    wanted = [one for one in _settings(random.Random(5), [run], 200)
              if _expected([run], one)[0] != [str(case.outcome) for case in run.cases]][:4]
    assert len(wanted) == 4
    copy = shutil.copytree(run.folder.path, tmp_path / "run")
    for found, one in zip(_decided(page, [run], wanted), wanted, strict=True):
        pairs = [f"{name}={value!r}" for name, value in asdict(one).items()]
        options = [text for pair in pairs for text in ("--set", pair)]
        document = json.loads(call_rig("score", copy, "--jobs", "1", "--json", *options).out)
        names = case_list.data([run])["outcomes"]
        assert [names[int(code)] for code in found["outcomes"]] == [
            case["outcome"] for case in document["cases"]]
        assert {pool: _named(entries) for pool, entries in found["totals"][0].items()} \
            == document["ias"]


def test_numbers_are_written_as_python_writes_them(page: Any) -> None:
    page.goto("about:blank")
    page.add_script_tag(content=files("rig.report").joinpath(
        "static", "redecide.js").read_text(encoding="utf-8"))
    values = [6.25, 93.75, 0.05, 12.5, 0.0, 100.0, 100 / 3, 0.35, 2.5, 3.5, 99.95]
    for digits in (0, 1):
        assert page.evaluate("([values, d]) => values.map((x) => rigRedecide.fixed(x, d))",
                             [values, digits]) == [f"{value:.{digits}f}" for value in values]


def test_intervals_are_equal_to_the_last_bit(page: Any) -> None:
    page.goto("about:blank")
    page.add_script_tag(content=files("rig.report").joinpath(
        "static", "redecide.js").read_text(encoding="utf-8"))
    counts = [(passed, n) for n in (*range(41), 240, 1038) for passed in range(n + 1)]
    found = json.loads(page.evaluate(
        "(counts) => JSON.stringify(counts.map(([passed, n]) => rigRedecide.wilson(passed, n)))",
        counts))
    for pair, (passed, n) in zip(found, counts, strict=True):
        expected = wilson(passed, n)
        assert pair == (None if expected is None else list(expected)), (passed, n)


# --- the form -----------------------------------------------------------------------------------


@pytest.fixture
def shown(page: Any, tmp_path: Path) -> Any:
    """A page with two runs, one of them scored with another wait."""
    runs = [made_runs.scored_run("one", made_runs.scenes(3, 108)),
            made_runs.scored_run("two", made_runs.scenes(4, 54), index=1,
                                 thresholds=replace(DEFAULTS, take_turn_max_wait_s=1.5))]
    out = tmp_path / "page.html"
    write_page("Thresholds", [redecide.section(runs), made_runs.listed(runs)], out)
    page.goto(out.as_uri())
    page.made = runs
    return page


def _outcomes(page: Any) -> list[str]:
    return list(page.evaluate(
        "rigData('cases').key.map((_, row) => rigVerdicts.outcome(row))"))


def _as_scored(page: Any) -> list[str]:
    return [str(case.outcome) for run in page.made for case in run.cases]


def test_unmoved_is_as_scored_and_reset_returns(shown: Any) -> None:
    assert _outcomes(shown) == _as_scored(shown)
    assert shown.inner_text("#redecide-status") == (
        "Nothing is moved: verdicts and totals as scored.")
    assert shown.locator("#redecide-reset").is_disabled()
    before = shown.inner_text("#redecide-totals")
    first = shown.locator("[data-setting='0']")
    assert "1.5" in first.locator(".note").inner_text()
    assert "runs differ" in first.locator(".note").inner_text()

    first.locator("input[type=number]").fill("0.2")
    frame(shown)
    moved = replace(DEFAULTS, take_turn_max_wait_s=0.2)
    expected = _expected(shown.made, moved)[0]
    assert _outcomes(shown) == expected
    n = sum(a != b for a, b in zip(expected, _as_scored(shown), strict=True))
    assert n > 0
    assert shown.inner_text("#redecide-status").startswith(f"{n} of 164 verdicts turn: ")
    assert shown.inner_text("#redecide-totals") != before
    assert shown.locator("#redecide-totals .turned").count() > 0
    assert "moved" in str(first.get_attribute("class"))
    until(shown, "location.hash.includes('set=take_turn_max_wait_s')")

    shown.click("#redecide-reset")
    assert _outcomes(shown) == _as_scored(shown)
    assert shown.inner_text("#redecide-totals") == before
    until(shown, "location.hash === '#cases'")


def test_the_slider_moves_the_totals(shown: Any) -> None:
    slider = shown.locator("#redecide-yield_max_latency_ms")
    slider.focus()
    shown.keyboard.press("Home")
    frame(shown)
    # the second run keeps its own wait
    own = _expected(shown.made[1:], replace(shown.made[1].thresholds, yield_max_latency_ms=20))
    expected = _expected(shown.made[:1], replace(DEFAULTS, yield_max_latency_ms=20))[0] + own[0]
    assert _outcomes(shown) == expected
    shown.select_option("#redecide-pool", "by_action")
    row = shown.locator("#redecide-totals tbody tr").nth(1)
    names = shown.locator("#redecide-totals thead th").all_inner_texts()
    entry = own[1][0]["by_action"]["YIELD"]
    text = row.locator("td").nth(names.index("YIELD") - 1).inner_text()
    assert text.startswith(f"{100 * entry['rate']:.1f} {100 * entry['ci'][0]:.0f}–")
    assert f"n={entry['n']}" in text


def test_what_no_setting_can_be_is_refused(shown: Any) -> None:
    place = shown.locator("[data-setting='4']")
    for text in ("0", "1.5", "1001", "-1", ""):
        place.locator("input[type=number]").fill(text)
        frame(shown)
        assert place.locator("input[type=number]").get_attribute("aria-invalid") == "true"
        assert place.locator(".note").inner_text() == (
            "expected a whole number from 1 to 1000 spans")
        assert _outcomes(shown) == _as_scored(shown)
    place.locator("input[type=number]").fill("1000")
    frame(shown)
    assert place.locator("input[type=number]").get_attribute("aria-invalid") is None
    assert _outcomes(shown) != _as_scored(shown)


def test_an_address_brings_the_settings_back_and_nonsense_none(shown: Any) -> None:
    base = shown.url.split("#")[0]
    shown.goto("about:blank")
    shown.goto(base + "#cases?set=take_turn_max_wait_s%3A0.2&set=yield_max_latency_ms%3A1e9"
               "&set=__proto__%3A1&set=backchannel_max_spans%3A&set=%E0%A4%A")
    assert _outcomes(shown) == _expected(
        shown.made, replace(DEFAULTS, take_turn_max_wait_s=0.2))[0]
    assert shown.locator(".setting.moved").count() == 1
    shown.evaluate("location.hash = '#cases?set=take_turn_max_wait_s:2.0'")
    until(shown, "document.querySelector(`[data-setting='0'] input[type=number]`).value === '2'")


def test_flags_follow_and_where_a_verdict_turns_is_told(page: Any, tmp_path: Path) -> None:
    ms, w0 = 1_000_000, 10_000_000_000
    made = Scene(Action.BACKCHANNEL, Window(w0, w0 + 3000 * ms),
                 Spans(((w0 + 200 * ms, w0 + 600 * ms), (w0 + 1500 * ms, w0 + 2400 * ms))),
                 Spans(), w0 + 10_000 * ms)
    runs = [made_runs.scored_run("one", [made])]
    out = tmp_path / "page.html"
    write_page("Flags", [redecide.section(runs), made_runs.listed(runs)], out)
    page.goto(out.as_uri())
    assert page.evaluate("[rigVerdicts.outcome(0), rigVerdicts.flags(0), rigVerdicts.turns(0)]") \
        == ["fail", ["architecture_constrained"], "2 spans"]
    page.locator("[data-setting='4'] input[type=number]").fill("2")
    page.locator("[data-setting='3'] input[type=number]").fill("0.9")
    frame(page)
    assert page.evaluate("[rigVerdicts.outcome(0), rigVerdicts.flags(0), rigVerdicts.turns(0)]") \
        == ["pass", ["architecture_constrained", "floor_taken_besides"], "2 spans, 0.900 s"]
