"""The page: what it shows, that nothing in a file becomes markup, and damaged input."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import rig_testkit as kit

from adapters.base import AudioReceived, Capabilities, Interrupted, ResponseDone, ResponseStarted
from adapters.simulated import voice

YIELD = "R1-C3-1-L2"


class Page(HTMLParser):
    """Tags and addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs
                           if name in ("src", "href", "action") or name.startswith("on")]


def test_one_page_with_a_timeline_a_case_and_no_network(
    oracle_run: Path, tmp_path: Path, call_rig: Any
) -> None:
    out = tmp_path / "page.html"
    called = call_rig("report", oracle_run, "--out", out, "--json")
    assert called.code == 0
    text = out.read_text()
    assert json.loads(called.out)["bytes"] == len(text.encode())
    page = Page(text)
    assert page.tags.count("svg") == 9
    assert page.addresses == []
    assert "script" not in page.tags
    assert not re.search(r"(https?:)?//[a-z]", text)
    for case in kit.scores(oracle_run)["cases"]:
        assert case["case_id"] in text


def test_hostile_text_stays_text(oracle_run: Path, tmp_path: Path, call_rig: Any) -> None:
    run = shutil.copytree(oracle_run, tmp_path / "<img src=x onerror=alert(1)>")
    found = kit.scores(run)
    found["cases"][0]["reason"] = "</td><script>alert(2)</script>"
    found["cases"][0]["flags"] = ["<object onclick=alert(3)>"]
    found["cases"][0]["case_id"] = "\"><svg onload=alert(4)>"
    (run / "scores.json").write_text(json.dumps(found))
    out = tmp_path / "page.html"
    assert call_rig("report", run, "--out", out).code == 0
    page = Page(out.read_text())
    assert page.addresses == []
    assert not {"script", "img", "object"} & set(page.tags)
    assert "&lt;script&gt;alert(2)" in out.read_text()


def test_only_so_many_timelines_as_asked_for(
    oracle_run: Path, tmp_path: Path, call_rig: Any
) -> None:
    out = tmp_path / "page.html"
    assert call_rig("report", oracle_run, "--out", out, "--max-cases", 2).code == 0
    assert Page(out.read_text()).tags.count("svg") == 2


def test_the_picture_is_of_the_playout_that_decided(
    small_suite: Path, tmp_path: Path, call_rig: Any, add_adapter: Any
) -> None:
    """Three seconds in a burst, flushed 1.0 s after the first was heard."""
    def on_cue(session: kit.StubSession, name: str) -> None:
        session.state[name] = session.frames

    def on_frame(session: kit.StubSession, frame: Any) -> None:
        since = session.frames - session.state.get("turn1_end", 10**9)
        if since == 15:
            session.emit(ResponseStarted(session.now_ns, "r"),
                         AudioReceived(session.now_ns, voice.talk(3.0).samples, "r"),
                         ResponseDone(session.now_ns, "r"))
        if since == 65:
            session.emit(Interrupted(session.now_ns, "r"))

    add_adapter("burst", kit.stub(on_frame, on_cue, Capabilities(
        full_duplex=True, persona_prompt=True, reports_response_done=True)))
    run, out = tmp_path / "run", tmp_path / "page.html"
    assert call_rig("run", small_suite, "--adapter", "burst", "--jobs", 1, "--filter",
                    f"case={YIELD}", "--out", run).code == 0
    heard_s = {}
    for playout in ("hold", "flush"):
        assert call_rig("score", run, "--jobs", 1, "--playout", playout).code == 0
        assert call_rig("report", run, "--out", out).code == 0
        (start_s, end_s), = re.findall(r"<title>model ([0-9.]+) to ([0-9.]+) s", out.read_text())
        heard_s[playout] = float(end_s) - float(start_s)
    assert heard_s == {"hold": pytest.approx(3.0, abs=0.2), "flush": pytest.approx(1.0, abs=0.2)}


@pytest.mark.parametrize(("spoil", "message"), [
    (lambda run: (run / "scores.json").unlink(), "expected a scored run; run `rig score"),
    (lambda run: (run / "scores.json").write_text("[]"), "got a file without cases and ias"),
    (lambda run: (run / "scores.json").write_text("{"), "got an unreadable file"),
    (lambda run: (run / "scores.json").write_text('{"cases": [{}], "ias": {"all": {}}}'),
     "damaged ones (KeyError: 'playout')"),
    (lambda run: (run / "measurements.jsonl").write_text("{\n"), "got damaged ones"),
    (lambda run: (run / "measurements.jsonl").write_text('{"case_id": 1}\n'), "got damaged ones"),
    (lambda run: (run / "measurements.jsonl").write_bytes(b"\xff"), "got an unreadable file"),
    (lambda run: _without(run, "reason"), "expected scores as `rig score` writes them"),
    (lambda run: shutil.rmtree(run), "expected a scored run"),
])
def test_a_run_that_is_not_scored_or_damaged_is_one_line(
    spoil: Callable[[Path], Any], message: str, oracle_run: Path, tmp_path: Path, call_rig: Any
) -> None:
    run = shutil.copytree(oracle_run, tmp_path / "run")
    spoil(run)
    assert message in call_rig("report", run, "--out", tmp_path / "page.html").error
    assert not (tmp_path / "page.html").exists()


def _without(run: Path, name: str) -> None:
    found = kit.scores(run)
    for case in found["cases"]:
        del case[name]
    (run / "scores.json").write_text(json.dumps(found))


def test_a_place_that_cannot_be_written(oracle_run: Path, tmp_path: Path, call_rig: Any) -> None:
    line = call_rig("report", oracle_run, "--out", tmp_path / "nowhere" / "page.html").error
    assert "expected a file that can be written" in line
