"""The page of a field study: its numbers are the document's, and a foreign document is refused."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from call_maker import dialogue

from audio.errors import InputError
from rig.report.field_page import read_field_document, reply_gaps_ms, sections, write_field_page

HOSTILE = '</script><img src=x onerror="window.hacked=1">'


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    """Two calls measured, one skipped, grouped."""
    from rig.field.document import field_document
    from rig.field.measures import FieldSettings, Skipped, measure_file
    from rig.field.sources import CallSource, Track

    folder = tmp_path_factory.mktemp("calls")
    settings = FieldSettings(sensitivity=False)
    found = []
    for k, gap_s in enumerate((0.5, 1.4)):
        call, _ = dialogue(2, gap_s=gap_s)
        call.say("agent", 4.0, "mm")
        path = call.write(folder / f"{k}.wav")
        found.append(measure_file(CallSource(str(path), Track(path, 0), Track(path, 1)), settings,
                                  None))
    made = field_document([*found, Skipped(HOSTILE, HOSTILE)], settings,
                          groups={HOSTILE: [found[0]]})
    return json.loads(json.dumps(made))


def test_charts_hold_the_numbers_of_the_document(document):
    figures, timing, calls = sections(document)
    gaps, sweep = timing.charts
    l1 = document["aggregate"]["l1"]
    assert len(reply_gaps_ms(document)) == l1["n"] > 2
    assert sum(gaps.figure["data"][0]["y"]) == l1["n"]
    assert f"half of them within {l1['p50_ms']:.0f} ms" in gaps.text
    assert f"nine of ten within {l1['p90_ms']:.0f} ms" in gaps.text
    for low, high, n in gaps.rows:
        assert n == sum(low <= gap < high for gap in reply_gaps_ms(document))
    points = document["aggregate"]["turn_take_sweep"]
    ours, published, gate = sweep.figure["data"]
    assert ours["x"] == [0.5, 0.75, 1.0, 1.5, 2.0, 3.0]
    assert ours["y"] == [100 * p["rate"] for p in points]
    assert (published["x"], published["y"]) == ([0.5, 3.0], [37.0, 68.0])
    assert gate["y"] == [78.0, 78.0]
    assert str(calls.html).count("<svg") == 2
    assert "L1 p50 ms" in str(figures.html)


def test_replies_of_a_call_that_is_in_no_total_are_in_no_chart(document):
    changed = copy.deepcopy(document)
    changed["calls"][0]["left_out_of_totals"] = "possible voicemail: a beep"
    assert len(reply_gaps_ms(changed)) < len(reply_gaps_ms(document))
    left = len(reply_gaps_ms(changed))
    next(t for t in changed["calls"][1]["turns"] if t["kind"] == "reply")["doubtful"] = True
    assert len(reply_gaps_ms(changed)) == left - 1


def test_every_name_is_text(document, tmp_path):
    changed = copy.deepcopy(document)
    changed["calls"][0]["file"] = HOSTILE
    changed["calls"][0]["warnings"] = [{"code": HOSTILE, "detail": HOSTILE}]
    changed["calls"][0]["turns"][0]["kind"] = HOSTILE
    out = tmp_path / "page.html"
    assert write_field_page(changed, out) == out.stat().st_size
    assert "<img" not in out.read_text()


def test_nothing_measured_is_said(document, tmp_path):
    changed = copy.deepcopy(document)
    changed["calls"] = []
    changed["aggregate"]["turn_take_sweep"] = []
    assert write_field_page(changed, tmp_path / "page.html") < 200_000
    assert "Nothing was measured" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(("text", "said"), [
    ("", "no JSON"), ("[" * 100_000, "no JSON"), ("[]", "another document"),
    ('{"schema_version": 1, "calls": []}', "another document"),
    ('{"schema_version": NaN}', "NaN is no number of JSON"),
    ('{"schema_version": 2, "settings": {}, "calls": [], "aggregate": {}, "skipped": []}',
     "expected schema_version 1, got 2"),
    ('{"schema_version": 1, "settings": {}, "calls": [{"file": "a"}], "aggregate": {}, '
     '"skipped": []}', "run `rig field` again"),
    ('{"schema_version": 1, "settings": {}, "calls": 7, "aggregate": {}, "skipped": []}',
     "another document"),
])
def test_a_foreign_document_is_one_line(tmp_path, text, said):
    path = tmp_path / "d.json"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_field_document(path)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("change", [
    lambda d: d["calls"][0].pop("turns"),
    lambda d: d["calls"][0]["turns"].append(None),
    lambda d: d["calls"][0].update(duration_s="long"),
    lambda d: d["calls"][0].update(duration_s=1e400),
    lambda d: d["aggregate"]["l1"].pop("n"),
    lambda d: d["aggregate"]["turn_take_sweep"][0].update(rate="high"),
    lambda d: d.update(calls={"a": 1}),
    lambda d: d["aggregate"].update(gates={}),
])
def test_a_document_with_other_things_inside_is_one_line(document, tmp_path, change):
    changed = copy.deepcopy(document)
    change(changed)
    with pytest.raises(InputError) as error:
        write_field_page(changed, tmp_path / "page.html", where="d.json")
    assert "d.json: expected a document as `rig field --json` makes it" in str(error.value)
    assert not (tmp_path / "page.html").exists()


def test_rig_report_takes_one_document_or_runs(call_rig, document, tmp_path):
    path = tmp_path / "study.json"
    path.write_text(json.dumps(document))
    out = tmp_path / "page.html"
    done = call_rig("report", path, "--out", out, "--json")
    assert done.code == 0
    assert json.loads(done.out)["bytes"] == out.stat().st_size
    assert "got 2 paths, among them a file" in call_rig("report", path, Path(path), "--out",
                                                         out).error
