"""The picture in characters of `rig inspect`, and what its numbers count from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import rig_testkit as kit

from rig.timeline import Timeline, ascii_lines, label_n


def test_a_picture_says_what_its_characters_are_and_cuts_no_name() -> None:
    timeline = Timeline(recorded_s=5.0, user=((0.0, 1.0),), model=((2.0, 2.75), (3.5, 3.6)),
                        window=(1.0, 3.0), alternates=(("from_user_offset", (1.5, 4.0)),))
    assert label_n(timeline) == 16
    assert ascii_lines(timeline, 10) == [
        "            user ##........",
        "           model ....##.+..",
        "          window   [---]   ",
        "from_user_offset    [----] ",
        "                 |         ",
        "               s 0.0       ",
        "speech in a cell of 0.500 s: # half of it or more, + less, . none"]


def test_the_names_of_rows_leave_the_cells_on_one_line(
    oracle_run: Path, call_rig: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    for case in kit.scores(oracle_run)["cases"]:
        text = call_rig("inspect", oracle_run, case["case_id"]).out.splitlines()
        picture = text[3:next(i for i, line in enumerate(text) if "speech in a cell" in line)]
        assert max(map(len, picture)) == 69


def test_a_number_from_the_window_says_so(oracle_run: Path, call_rig: Any) -> None:
    """The length of a span, and what its name says the start of, stand as they are."""
    (case,) = (c for c in kit.scores(oracle_run)["cases"] if c["expected_action"] == "YIELD")
    text = call_rig("inspect", oracle_run, case["case_id"]).out
    rows = [line for line in text.splitlines() if line.startswith("first_offset_s")]
    assert [row.split() for row in rows] == [
        ["first_offset_s", "(from", "the", "window's", "start)",
         str(case["measured"]["first_offset_s"])]]
    assert "overlap_s (from" not in text
    shown = json.loads(call_rig("inspect", oracle_run, case["case_id"], "--json").out)
    assert shown["measured"]["first_offset_s"] == case["measured"]["first_offset_s"]
