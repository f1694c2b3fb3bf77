"""What stands in the picture of a call, and that nothing in a document can break out of it."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from typing import Any

import pytest

from rig.field.pictures import MARKS_MAX, ROWS_MAX, call_svg, overlaps, write_pictures

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '"><script>alert(1)</script>\x00\x1b\ud800\n&amp;'


def turn(kind: str, start_s: float, end_s: float, latency_ms: float | None = None,
         **more: Any) -> dict[str, Any]:
    return {"kind": kind, "agent_start_s": start_s, "agent_end_s": end_s,
            "latency_ms": latency_ms, "doubtful": False} | more


def call(**more: Any) -> dict[str, Any]:
    return {"file": "a.wav", "duration_s": 250.0, "warnings": [],
            "speech": {"caller": [[1.0, 5.0], [100.0, 130.0]],
                       "agent": [[0.2, 0.8], [5.5, 9.0], [128.0, 131.0]]},
            "turns": [turn("greeting", 0.2, 0.8), turn("reply", 5.5, 9.0, 500.0),
                      turn("overlap", 128.0, 131.0, -2000.0, doubtful=True)],
            "yield_points": [{"at_s": 5.0, "outcome": "taken"},
                             {"at_s": 130.0, "outcome": "overlapped"},
                             {"at_s": 131.0, "outcome": "missed"}]} | more


def drawn(one: dict[str, Any]) -> ET.Element:
    return ET.fromstring(call_svg(one))


def classes(picture: ET.Element, tag: str = "rect") -> Counter[str]:
    return Counter(e.get("class", "") for e in picture.iter(SVG + tag))


def test_everything_is_where_it_is() -> None:
    """250 s are three rows of 120 s; 934 px are a row. What crosses a row's end is cut there."""
    picture = drawn(call())
    assert picture.get("viewBox") == f"0 0 1000 {46 + 3 * 84}"
    assert classes(picture) == {"caller": 3, "greeting": 1, "reply": 1, "overlap": 1, "doubt": 1,
                                "both": 1}
    assert classes(picture, "path") == {"yield taken": 1, "yield overlapped": 1, "yield missed": 1}
    bars = {e.find(SVG + "title").text: e for e in picture.iter(SVG + "rect")}  # type: ignore[union-attr]
    reply = bars["reply 5.50 to 9.00 s, 500 ms"]
    assert float(reply.get("x", "")) == pytest.approx(58 + 5.5 * 934 / 120, abs=0.1)
    assert float(reply.get("width", "")) == pytest.approx(3.5 * 934 / 120, abs=0.1)
    overlap = bars["overlap 128.00 to 131.00 s, -2000 ms"]
    assert float(overlap.get("y", "")) == 46 + 84 + 42
    assert float(overlap.get("x", "")) == pytest.approx(58 + 8 * 934 / 120, abs=0.1)
    assert "both speak 128.00 to 130.00 s" in bars
    letters = [e.text for e in picture.iter(SVG + "text") if e.get("font-size") == "9"]
    assert letters == ["G", "R", "O"]


def test_names_and_warnings_are_text() -> None:
    picture = drawn(call(file=HOSTILE, warnings=[{"code": HOSTILE, "detail": HOSTILE * 100}] * 99,
                         turns=[turn(HOSTILE, 5.5, 9.0)]))
    assert [e for e in picture.iter() if e.tag.endswith("script")] == []
    assert any("<script>" in (e.text or "") for e in picture.iter(SVG + "text"))
    assert not re.search("[\x00-\x08\x0b-\x1f\ud800-\udfff]", call_svg(call(file=HOSTILE)))


def test_a_call_without_figures_is_drawn_all_the_same() -> None:
    picture = drawn(call(turns=[], yield_points=[], duration_s=0.0))
    assert classes(picture)["agent"] == 0
    assert drawn(call(turns=[], yield_points=[]))
    assert classes(drawn(call(turns=[], yield_points=[])))["agent"] == 3


def test_hours_stay_bounded() -> None:
    """Four hours with a turn every five seconds: 120 rows, half a megabyte."""
    spans = [[5.0 * k, 5.0 * k + 2] for k in range(2880)]
    long = call(duration_s=14_400.0, turns=[turn("reply", a, b, 100.0) for a, b in spans],
                speech={"caller": [[a + 2.1, b + 2.1] for a, b in spans], "agent": spans},
                yield_points=[{"at_s": b + 2.1, "outcome": "taken"} for _, b in spans])
    svg = call_svg(long)
    assert len(svg) < 2_000_000
    assert ET.fromstring(svg).get("viewBox", "").endswith(str(46 + ROWS_MAX * 84))
    assert classes(drawn(long))["reply"] >= 2880
    assert "are drawn" not in svg
    huge = call(duration_s=1e9, speech={"caller": [[0.0, 1e9]] * 1000, "agent": []}, turns=[],
                yield_points=[])
    svg = call_svg(huge)
    assert svg.count("<rect") == MARKS_MAX
    assert f"only the first {MARKS_MAX} marks are drawn" in svg


def test_overlaps() -> None:
    assert overlaps([(0, 4), (5, 9)], [(1, 2), (3, 6), (9, 10)]) == [(1, 2), (3, 4), (5, 6)]


def test_files_have_plain_names(tmp_path) -> None:
    names = ("x/a b.wav", "y/a b.wav", "../../\n<é>.wav", "")
    written = write_pictures(tmp_path / "new" / "pictures", [call(file=name) for name in names])
    assert [p.name for p in written] == ["0001-a_b.svg", "0002-a_b.svg", "0003-call.svg",
                                         "0004-call.svg"]
    assert {p.parent for p in written} == {tmp_path / "new" / "pictures"}
