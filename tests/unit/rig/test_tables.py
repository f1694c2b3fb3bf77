"""Scores as text: why sessions have no verdict, and a warning where none has one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rig.console import Output
from rig.recount import counted_from
from rig.tables import print_scores, unscored_lines


def case(case_id: str, outcome: str, reason: str = "", trial: int = 1) -> dict[str, Any]:
    return {"case_id": case_id, "trial": trial, "outcome": outcome, "reason": reason}


def test_a_line_a_kind_of_reason_the_most_frequent_first() -> None:
    lines = unscored_lines([
        case("a", "unscored", "no target"), case("b", "unscored", "b.wav: gone, 0.5 s"),
        case("c", "unscored", "c.wav: gone, 12 s"), case("d", "pass"),
        case("e", "unsupported", "unsupported: no persona")])
    assert lines == ["unscored: 2 sessions: b.wav: gone, 0.5 s (of b t1)",
                     "unscored: 1 session: no target"]


def test_a_name_that_is_a_word_of_the_reason_parts_no_kind() -> None:
    """`rig rescore`: cases "a", "b", "the system"; recordings that are not called like them."""
    mono = "expected a recording with channel 1, counted from 0, got 1 channel"
    lines = unscored_lines([
        case("a", "unscored", f"rec/left.wav: {mono}"),
        case("b", "unscored", f"rec/my own.wav: {mono}"),
        case("m", "unscored", f"rec/m.wav: {mono}"),
        case("the system", "unscored", "the system gives no transcript"),
        case("y", "unscored", "the system gives no transcript"),
        case("one", "unscored", "no words of 'one'"), case("two", "unscored", "no words of 'two'")])
    assert lines[:3] == [
        f"unscored: 3 sessions: rec/left.wav: {mono} (of a t1)",
        "unscored: 2 sessions: the system gives no transcript",
        "unscored: 2 sessions: no words of 'one' (of one t1)"]


def test_a_file_is_no_run_folder(call_rig: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert call_rig("score", tmp_path / "file").error.endswith("expected a run folder, got a file")
    assert call_rig("score", tmp_path / "no").error.endswith("got no such folder")


def test_kinds_beyond_the_most_frequent_are_counted() -> None:
    kinds = [case(f"c{k}", "unscored", f"reason {'x' * (k + 1)}") for k in range(22)]
    lines = unscored_lines([*kinds, case("z", "unscored", "reason x"), case("y", "fail")])
    assert lines[0] == "unscored: 2 sessions: reason x"
    assert len(lines) == 21
    assert lines[-1] == "unscored: 2 sessions for 2 more reasons"


def test_where_nothing_has_a_verdict_that_is_told() -> None:
    warning = "WARNING: nothing is scored: no verdict on any of 2 sessions"
    two = [case("a", "unscored", "x"), case("b", "unsupported", "y")]
    assert unscored_lines(two)[-1] == warning
    for outcome in ("pass", "fail"):
        assert warning not in unscored_lines([case("a", "unscored", "x"), case("b", outcome)])
    assert unscored_lines([]) == []


def test_a_run_without_its_recordings_and_one_that_is_not_played(
    call_rig: Callable[..., Any], oracle_run: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(oracle_run, run)
    for recording in (run / "rec").glob("*.wav"):
        recording.unlink()
    done = call_rig("score", run, "--jobs", "1")
    assert done.code == 0
    lines = done.out.splitlines()
    (told,) = [line for line in lines if line.startswith("unscored: ")]
    assert told.startswith("unscored: 9 sessions: ")
    assert ".stereo.wav: expected the session's recording, got no such file" in told
    warning = "WARNING: nothing is scored: no verdict on any of 9 sessions"
    assert warning in lines
    (run / "attempts.jsonl").write_text("")
    done = call_rig("score", run, "--jobs", "1")
    assert done.code == 0
    lines = done.out.splitlines()
    assert "unscored: 9 sessions: not played yet" in lines
    assert warning in lines
    document = json.loads(call_rig("score", run, "--jobs", "1", "--json").out)
    assert {c["outcome"] for c in document["cases"]} == {"unscored"}


def reply(onset_s: float | None, after_end_s: float | None, action: str = "TAKE_TURN",
          ) -> dict[str, Any]:
    return {"expected_action": action, "measured": {
        "genuine_onset_s": onset_s, "onset_from_user_offset_s": after_end_s}}


@pytest.mark.parametrize(("cases", "said"), [
    ([reply(0.8, 0.8), reply(1.2, 1.2)], "user's end"),
    # 0.8 s after the pause began, 5.6 s before the user ended; 10.6 s after a gap, 0.8 s after it.
    ([reply(0.8, 0.8), reply(0.8, -5.6), reply(10.6, 0.8)],
     "user's end; from a gap within the user's turn: 2"),
    ([reply(0.8, 0.8004), reply(0.8, 0.7996)], "user's end"),
    ([reply(0.8, None)], "window's start"),
    ([reply(0.8, 0.8), reply(None, None), reply(0.3, -4.0, "INTERRUPT"),
      {"expected_action": "TAKE_TURN", "measured": {}}], "user's end"),
    ([], "user's end")])
def test_a_wait_from_a_gap_within_the_turn_is_said(cases: list[dict[str, Any]], said: str) -> None:
    assert counted_from("reply", cases) == said


def test_each_kind_says_from_where_it_counts(
        oracle_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = json.loads((oracle_run / "scores.json").read_text())
    print_scores(Output(), "oracle", scores)
    rows = capsys.readouterr().out.split("latency\n")[1].splitlines()[:5]
    assert rows[0].split() == ["n", "p50", "ms", "p90", "ms", "p99", "ms", "counts", "from"]
    told = {row.split()[0]: row for row in rows[1:]}
    # The only TAKE_TURN cases that count from within the turn are those of C1 and C2.
    within = sum(c["expected_action"] == "TAKE_TURN" and c["probe"] in ("C1", "C2")
                 and c["measured"]["genuine_onset_s"] is not None for c in scores["cases"])
    assert within > 0
    assert told["reply"].endswith(f"user's end; from a gap within the user's turn: {within}")
    assert told["interrupt"].endswith(" trigger")
    assert told["yield"].endswith(" barge-in")
    assert told["backchannel"].endswith(" window's start")
