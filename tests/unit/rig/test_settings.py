"""Names and values from the command line: what is unknown is said with what was meant."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rig_testkit as kit

from rig.settings import default_jobs, key_values, scoring_settings


def test_pairs_keep_what_stands_behind_the_first_equals_sign() -> None:
    assert key_values(["a=1", "b=x=y", "c="], "--set") == {"a": "1", "b": "x=y", "c": ""}


def test_scoring_settings_go_to_thresholds_or_detector() -> None:
    thresholds, vad = scoring_settings(["yield_max_latency_ms=400", "vad_threshold=0.4",
                                        "backchannel_max_spans=2", "merge_gap_s=0.2"])
    assert (thresholds.yield_max_latency_ms, thresholds.backchannel_max_spans) == (400.0, 2)
    assert thresholds.take_turn_max_wait_s == 2.0
    assert (vad.threshold, vad.merge_gap_s, vad.min_speech_ms) == (0.4, 0.2, 90)


def test_default_jobs_are_the_cores_that_may_be_used() -> None:
    assert 1 <= default_jobs() <= (os.cpu_count() or 1)


# --- rig run --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "message"), [
    (["--adapter", "sillent"], "did you mean 'silent'?"),
    (["--adapter", "sillent", "--dry-run"], "did you mean 'silent'?"),
    (["--adapter", "echo", "--set", "dealy_s=1"], "did you mean 'delay_s'?"),
    (["--adapter", "silent", "--set", "delay_s=1"], "--set delay_s: adapter silent has no such"),
    (["--adapter", "echo", "--set", "delay_s=soon"],
     "--set delay_s (adapter echo): expected a number from 0.02 to 10, got 'soon'"),
    (["--adapter", "echo", "--set", "delay_s=nan"], "expected a number from 0.02 to 10, got 'nan'"),
    (["--adapter", "echo", "--set", "delay_s=11"], "expected a number from 0.02 to 10, got '11'"),
    (["--adapter", "echo", "--set", "delay_s"], "--set: expected KEY=VALUE, got 'delay_s'"),
    (["--adapter", "random", "--set", "min_talk_s=5"], "expected min_talk_s of at most max_talk_s"),
    (["--adapter", "silent", "--level", "L5"], "level=L5"),
    (["--adapter", "silent", "--level", "L1"], "level=L1"),
    (["--adapter", "silent", "--filter", "rolle=R1"],
     "unknown field 'rolle'; did you mean 'role'?"),
    (["--adapter", "silent", "--filter", "role=R9"], "no case with role=R9"),
    (["--adapter", "silent", "--filter", "role"], "--filter: expected field=value"),
    (["--adapter", "silent", "--filter", "role=R1,action=LISTEN"],
     "expected at least one case to play, got none of 9"),
    (["--adapter", "silent", "--trials", "0"], "'--trials'"),
    (["--adapter", "silent", "--jobs", "0"], "'--jobs'"),
    (["--adapter", "silent", "--retries", "-1"], "'--retries'"),
    (["--adapter", "silent", "--clock", "solar"], "'--clock'"),
    ([], "Missing option '--adapter'"),
])
def test_a_run_that_cannot_be_meant_is_one_line_and_writes_nothing(
    options: list[str], message: str, small_suite: Path, tmp_path: Path, call_rig: Any
) -> None:
    out = tmp_path / "run"
    assert message in call_rig("run", small_suite, *options, "--out", out).error
    assert not out.exists()


def _unfinished(suite: Path) -> None:
    (suite / "suite.json").unlink()


def _empty(suite: Path) -> None:
    shutil.rmtree(suite)
    suite.mkdir()


def _half_a_case(suite: Path) -> None:
    path = suite / "cases.jsonl"
    path.write_bytes(path.read_bytes()[:-20])


def _less_audio(suite: Path) -> None:
    next((suite / "audio").glob("*.wav")).unlink()


def _other_audio(suite: Path) -> None:
    path = sorted((suite / "audio").glob("*.wav"))[0]
    data = bytearray(path.read_bytes())
    data[4000] ^= 0x11
    path.write_bytes(bytes(data))


def _not_built(suite: Path) -> None:
    _empty(suite)
    (suite / "suite.yaml").write_text("suite: own\n")


def _edited(suite: Path) -> None:
    path = suite / "cases.jsonl"
    path.write_text(path.read_text().replace("You are R1", "You are R2", 1))


@pytest.mark.parametrize(("spoil", "message"), [
    (shutil.rmtree, "expected a built suite folder (rig build makes one), got no such folder"),
    (_empty, "expected suite.json (rig build makes it), got a folder without it"),
    (_not_built, "expected suite.json (rig build makes it), got a suite that is not built"),
    (_unfinished, "expected suite.json (rig build makes it), got an unfinished build"),
    (lambda suite: (suite / "suite.json").write_text("{"), "suite.json"),
    (_half_a_case, "cases.jsonl:3: expected a complete last line"),
    (_less_audio, "expected an audio file, got No such file"),
    (_other_audio, "the file has changed; build again"),
    (_edited, "something was edited; build again"),
])
def test_a_suite_that_is_not_whole_is_one_line_and_nothing_is_played(
    spoil: Callable[[Path], Any], message: str, tiny_suite: Path, tmp_path: Path, call_rig: Any
) -> None:
    suite = shutil.copytree(tiny_suite, tmp_path / "suite")
    spoil(suite)
    out = tmp_path / "run"
    line = call_rig("run", suite, "--adapter", "silent", "--out", out).error
    assert message in line
    assert not out.exists()


def test_a_dry_run_asks_for_no_key(
    small_suite: Path, call_rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    planned = call_rig("run", small_suite, "--adapter", "openai-realtime", "--dry-run", "--json")
    assert planned.code == 0
    assert json.loads(planned.out)["clock"] == "real"
    assert "before this can be played: the environment variable OPENAI_API_KEY" in planned.err


def test_a_dry_run_counts_and_writes_nothing(small_suite: Path, tmp_path: Path, call_rig: Any
                                             ) -> None:
    out = tmp_path / "run"
    plan = json.loads(call_rig("run", small_suite, "--adapter", "silent", "--trials", 3,
                               "--filter", "action=YIELD|LISTEN", "--out", out, "--dry-run",
                               "--json").out)
    assert (plan["cases"], plan["sessions"], plan["clock"]) == (2, 6, "virtual")
    assert plan["cost_usd"] == 0.0
    assert not out.exists()
    assert call_rig("run", small_suite, "--adapter", "silent", "--trials", 3, "--jobs", 1,
                    "--filter", "action=YIELD|LISTEN", "--out", out).code == 0
    played_s = sum(json.loads(p.read_text())["recorded_n"] / 24_000
                   for p in (out / "rec").glob("*.rec.json"))
    assert 0.5 * plan["max_session_minutes"] < played_s / 60 <= plan["max_session_minutes"]


# --- rig inspect ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("arguments", "message"), [
    (["R1-C1-1-L3"], "did you mean 'R1-C1-1-L2'?"),
    (["R1-C1-1-L2", "--trial", 2], "--trial: expected a trial from 1 to 1, got 2"),
    (["R1-C1-1-L2"], "expected a done session of R1-C1-1-L2 t1, but its last attempt ended in "
     "infra_error: 429: slow down"),
])
def test_a_case_that_cannot_be_shown_says_why(
    arguments: list[Any], message: str, tiny_suite: Path, tmp_path: Path, call_rig: Any,
    add_adapter: Any
) -> None:
    add_adapter("faulty", kit.faulty("says so", frozenset({"R1-C1-1-L2"})))
    run = tmp_path / "run"
    assert call_rig("run", tiny_suite, "--adapter", "faulty", "--jobs", 1, "--retries", 0,
                    "--filter", "role=R1", "--out", run).code == 3
    assert message in call_rig("inspect", run, *arguments).error
