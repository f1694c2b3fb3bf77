"""The page: what it shows, that nothing in a file becomes markup, and damaged input."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import rig_testkit as kit


class Page(HTMLParser):
    """Tags and addresses of a page; the text of its scripts is no markup."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.data: dict[str, Any] = {}
        self.text = ""
        self._script: dict[str, str | None] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if ("http-equiv", "Content-Security-Policy") in attrs:
            self.policy = str(dict(attrs)["content"])
        self.addresses += [value or "" for name, value in attrs
                           if name in ("src", "href", "action") or name.startswith("on")]
        self._script = dict(attrs) if tag == "script" else None

    def handle_endtag(self, tag: str) -> None:
        self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is None:
            self.text += data
        elif self._script.get("type") == "application/json":
            self.data[str(self._script["id"]).removeprefix("data-")] = json.loads(data)


def test_one_page_that_asks_no_network(oracle_run: Path, tmp_path: Path, call_rig: Any) -> None:
    out = tmp_path / "page.html"
    called = call_rig("report", oracle_run, "--out", out, "--json")
    assert called.code == 0
    text = out.read_text()
    assert json.loads(called.out)["bytes"] == len(text.encode())
    page = Page(text)
    assert [a for a in page.addresses if not a.startswith("#")] == ["data:,"]
    assert page.policy.startswith("default-src 'none'; script-src 'sha256-")


@pytest.mark.parametrize("left", [None, ""])
def test_a_run_without_its_measurements_is_told(oracle_run: Path, random_run: Path, tmp_path: Path,
                                                call_rig: Any, left: str | None) -> None:
    run = shutil.copytree(oracle_run, tmp_path / "run")
    (run / "measurements.jsonl").unlink()
    if left is not None:
        (run / "measurements.jsonl").write_text(left)
    done = call_rig("report", run, random_run, "--audio", "none", "--out", tmp_path / "page.html",
                    "--json")
    assert done.code == 0
    assert json.loads(done.out)["unmeasured"] == [str(run)]
    (told,) = [line for line in done.err.splitlines() if "no measurements" in line]
    assert told.startswith(f"{run / 'measurements.jsonl'}: no measurements: ")
    assert "no sweep; `rig score` makes them again" in told
    done = call_rig("report", random_run, "--audio", "none", "--out", tmp_path / "page.html")
    assert "no measurements" not in done.err


def test_hostile_text_stays_text(oracle_run: Path, tmp_path: Path, call_rig: Any) -> None:
    run = shutil.copytree(oracle_run, tmp_path / "<img src=x onerror=alert(1)>")
    found = kit.scores(run)
    found["cases"][0]["reason"] = "</td></script><script>alert(2)</script>"
    found["cases"][0]["flags"] = ["<object onclick=alert(3)>"]
    found["cases"][0]["measured"] = {"\"><svg onload=alert(4)>": 1}
    kit.write_scores(run, found)
    out = tmp_path / "page.html"
    assert call_rig("report", run, "--out", out).code == 0
    page = Page(out.read_text())
    assert [a for a in page.addresses if not a.startswith("#")] == ["data:,"]
    assert not {"img", "object", "svg"} & set(page.tags)
    assert "<img src=x onerror=alert(1)>" in page.text
    assert "<object onclick=alert(3)>" in page.text


@pytest.mark.parametrize(("spoil", "message"), [
    (lambda run: (run / "scores.json").unlink(), "expected a scored run; run `rig score"),
    (lambda run: (run / "scores.json").write_text("[]"), "got something else"),
    (lambda run: (run / "scores.json").write_text("{"), "got something else"),
    (lambda run: (run / "scores.json").write_text('{"cases": [{}], "ias": {"all": {}}}'),
     "got something else"),
    (lambda run: _changed(run, lambda s: s["ias"].pop("core")), "ias.core: Field required"),
    (lambda run: _changed(run, lambda s: s["latency"]["reply"].update(p50_ms=1.0)),
     "expected latency.reply of n 1, missing 0, p50_ms "),
    (lambda run: _changed(run, lambda s: s["flags"].update(forced=20)),
     "expected flags.forced of 0, as the cases have it, got 20; the file was changed"),
    (lambda run: _changed(run, lambda s: s["vad"].update(threshold=7)), "got others ("),
    (lambda run: _changed(run, lambda s: s["cases"][1].pop("reason")),
     "cases[1]: expected scores and measurements as `rig score` writes them, got reason"),
    (lambda run: _changed(run, lambda s: s["cases"][1].update(value=float("nan"))),
     "cases[1]: expected scores and measurements as `rig score` writes them, got value"),
    (lambda run: _changed(run, lambda s: s["cases"][2]["measured"].update(x=float("inf"))),
     "cases[2]: expected scores and measurements as `rig score` writes them, got measured"),
    (lambda run: _changed(run, lambda s: s["cases"].append(s["cases"][0])),
     "expected every case and trial once"),
    (lambda run: _changed(run, lambda s: s["playout_differences"].append({})),
     "playout_differences[0]: expected"),
    (lambda run: (run / "measurements.jsonl").write_text("{\n"),
     "measurements.jsonl:1: expected one JSON object a line"),
    (lambda run: (run / "measurements.jsonl").write_text('{"case_id": "1"}\n'),
     "measurements.jsonl:1: expected scores and measurements"),
    (lambda run: (run / "measurements.jsonl").write_bytes(b"\xff"), "got an unreadable file"),
    (lambda run: shutil.rmtree(run), "expected a scored run"),
])
def test_a_run_that_is_not_scored_or_damaged_is_one_line(
    spoil: Callable[[Path], Any], message: str, oracle_run: Path, tmp_path: Path, call_rig: Any
) -> None:
    run = shutil.copytree(oracle_run, tmp_path / "run")
    spoil(run)
    assert message in call_rig("report", run, "--out", tmp_path / "page.html").error
    assert not (tmp_path / "page.html").exists()


def _changed(run: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    found = kit.scores(run)
    change(found)
    (run / "scores.json").write_text(json.dumps(found))


def test_the_same_run_twice(oracle_run: Path, tmp_path: Path, call_rig: Any) -> None:
    assert "got this one twice" in call_rig("report", oracle_run, oracle_run, "--out",
                                            tmp_path / "page.html").error


def test_a_place_that_cannot_be_written(oracle_run: Path, tmp_path: Path, call_rig: Any) -> None:
    line = call_rig("report", oracle_run, "--out", tmp_path / "nowhere" / "page.html").error
    assert "expected a file that can be written" in line
