"""Local models behind the worker protocol: known answers through the whole chain, and every way in
which their process can let the rig down."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import rig_testkit as kit

from audio.files import read as read_audio

TOOLS = Path(__file__).parents[1] / "tools"
ECHO = Path(__file__).parents[2] / "adapters" / "workers" / "echo_worker.py"
FRAME_S = 0.08


def echo(frames: int) -> tuple[str, ...]:
    return ("--adapter", "worker", "--set", f"command={sys.executable} {ECHO} --frames {frames}",
            "--set", "persona_prompt=no")


def bad(kind: str, at: int = 5) -> tuple[str, ...]:
    return ("--adapter", "worker", "--set",
            f"command={sys.executable} {TOOLS / 'bad_worker.py'} {kind} {at}",
            "--set", "persona_prompt=no")


def tracks(run: Path, case_id: str) -> tuple[np.ndarray, np.ndarray]:
    audio, rate_hz = read_audio(run / "rec" / f"{case_id}.t1.stereo.wav")
    assert rate_hz == 24_000
    return audio[:, 0], audio[:, 1]


def states(run: Path, case_id: str, name: str) -> list[dict[str, object]]:
    record = json.loads((run / "rec" / f"{case_id}.t1.rec.json").read_text())
    return [json.loads(e["detail"]) for e in record["events"]
            if e["kind"] == "state" and e["name"] == name]


@pytest.mark.parametrize("frames", [0, 3])
def test_in_lockstep_an_answer_comes_when_its_frame_is_complete(
        call_rig: Callable[..., object], tiny_suite: Path, tmp_path: Path, frames: int) -> None:
    """An echo of n frames is heard n + 1 frames later, to the sample."""
    called = call_rig("run", tiny_suite, *echo(frames), "--out", tmp_path / "run")
    assert called.code == 0, called.err
    for case_id in kit.done(tmp_path / "run"):
        user, model = tracks(tmp_path / "run", case_id)
        shift = round((frames + 1) * FRAME_S * 24_000)
        assert np.abs(user).max() > 0.1
        n = len(user) - shift - 1920
        np.testing.assert_array_equal(model[shift : shift + n], user[:n])
        assert not model[:shift].any()
        (said,) = states(tmp_path / "run", case_id, "worker_hello")
        assert said["settings"] == {"frames": frames}
        told = states(tmp_path / "run", case_id, "worker_frames")
        assert [t["first"] for t in told] == [25 * k for k in range(len(told))]
        assert all(w == 0 for t in told for w in t["waiting"])


def test_two_runs_are_the_same_but_for_compute_times(
        call_rig: Callable[..., object], tiny_suite: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert call_rig("run", tiny_suite, *echo(2), "--jobs", 2 if name == "b" else 1, "--out",
                        tmp_path / name).code == 0
    for path in sorted((tmp_path / "a" / "rec").iterdir()):
        if path.suffix != ".json":
            assert path.read_bytes() == (tmp_path / "b" / "rec" / path.name).read_bytes()


def test_a_process_that_fails_is_never_the_models_behaviour(
        call_rig: Callable[..., object], tiny_suite: Path, tmp_path: Path) -> None:
    called = call_rig("run", tiny_suite, *bad("nan"), "--retries", 0, "--out", tmp_path / "run")
    assert called.code == 3, called.err
    lines = kit.ledger(tmp_path / "run")
    assert [line["status"] for line in lines] == ["infra_error"] * 3
    assert {line["reason"] for line in lines} == {
        "worker: frame 5 holds samples that are not finite"}
    scored = call_rig("score", tmp_path / "run", "--json")
    assert all(c["outcome"] == "unscored" for c in
               json.loads((tmp_path / "run" / "scores.json").read_text())["cases"]), scored.err


def test_a_model_slower_than_its_frames_is_flagged_and_shown(
        call_rig: Callable[..., object], tiny_suite: Path, tmp_path: Path) -> None:
    """A frame in twelve takes 0.3 s instead of 0.08: what it says stays, with a flag."""
    call_rig("run", tiny_suite, *bad("slow", 12), "--filter", "action=TAKE_TURN", "--out",
             tmp_path / "slow")
    call_rig("run", tiny_suite, *echo(1), "--filter", "action=TAKE_TURN", "--out",
             tmp_path / "quick")
    for name, slow in (("slow", True), ("quick", False)):
        assert call_rig("score", tmp_path / name).code == 0
        scores = json.loads((tmp_path / name / "scores.json").read_text())
        (case,) = scores["cases"]
        assert ("slower_than_real_time" in case["flags"]) is slow
        shown = json.loads(call_rig("inspect", tmp_path / name, case["case_id"], "--json").out)
        assert shown["worker"]["slow"] is slow
        assert shown["worker"]["frame_ms"] == 80
        if slow:
            assert shown["worker"]["compute_p95_ms"] > 300
            assert shown["worker"]["real_time_factor"] < 1


def test_frames_of_a_second_are_flagged_as_well(
        call_rig: Callable[..., object], tiny_suite: Path, tmp_path: Path) -> None:
    """Ten seconds are ten of them: all are told, also at the end."""
    called = call_rig("run", tiny_suite, "--adapter", "worker", "--set",
                      f"command={sys.executable} {TOOLS / 'second_worker.py'}", "--set",
                      "persona_prompt=no", "--filter", "action=TAKE_TURN", "--out",
                      tmp_path / "run")
    assert called.code == 0, called.err
    (case_id,) = kit.done(tmp_path / "run")
    user, _ = tracks(tmp_path / "run", case_id)
    told = states(tmp_path / "run", case_id, "worker_frames")
    assert sum(len(t["compute_us"]) for t in told) == len(user) // 24_000
    assert call_rig("score", tmp_path / "run").code == 0
    (case,) = json.loads((tmp_path / "run" / "scores.json").read_text())["cases"]
    assert "slower_than_real_time" in case["flags"]


def test_a_run_goes_on_with_the_same_worker_alone(
        call_rig: Callable[..., object], tiny_suite: Path, tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    found = f"import sys\n\nsys.path.insert(0, {str(ECHO.parent)!r})\nimport argparse\n"
    script.write_text(ECHO.read_text().replace("import argparse\n", found))
    mine = ("--adapter", "worker", "--set", f"command={sys.executable} {script}", "--set",
            "persona_prompt=no", "--out", tmp_path / "run")
    assert call_rig("run", tiny_suite, *mine).code == 0
    assert call_rig("run", tiny_suite, *mine, "--resume").code == 0
    script.write_text(script.read_text() + "\n# another one\n")
    assert "cannot resume" in call_rig("run", tiny_suite, *mine, "--resume").error


def test_processes_are_as_many_as_asked_for(
        call_rig: Callable[..., object], tiny_suite: Path, tmp_path: Path) -> None:
    def planned(*more: object) -> int:
        return json.loads(call_rig("run", tiny_suite, *echo(1), "--dry-run", "--json",
                                   *more).out)["jobs"]

    assert planned() == 1
    assert planned("--set", "devices=0,1,2") == 3
    assert planned("--workers", 4) == planned("--jobs", 4) == 4
    assert "one number" in call_rig("run", tiny_suite, *echo(1), "--jobs", 2, "--workers", 3,
                                    "--out", tmp_path / "x").error
    assert "starts no process" in call_rig("run", tiny_suite, "--adapter", "silent", "--workers",
                                           2, "--out", tmp_path / "x").error


def test_no_case_is_played_twice_by_two_processes(
        call_rig: Callable[..., object], small_suite: Path, tmp_path: Path) -> None:
    called = call_rig("run", small_suite, *echo(1), "--workers", 2, "--trials", 2, "--out",
                      tmp_path / "run")
    assert called.code == 0
    played = [(line["case_id"], line["trial"]) for line in kit.ledger(tmp_path / "run")]
    assert len(played) == len(set(played)) == 18


def test_a_program_that_is_not_there_is_said(
        call_rig: Callable[..., object], tiny_suite: Path, tmp_path: Path) -> None:
    called = call_rig("run", tiny_suite, "--adapter", "worker", "--set", "command=/no/such thing",
                      "--retries", 0, "--out", tmp_path / "run")
    assert called.code == 3
    reason = kit.ledger(tmp_path / "run")[0]["reason"]
    assert "worker: cannot start /no/such: No such file" in reason
    assert "how the worker is started" in call_rig(
        "run", tiny_suite, "--adapter", "worker", "--out", tmp_path / "b").error
    assert "No closing quotation" in call_rig(
        "run", tiny_suite, "--adapter", "worker", "--set", "command='x", "--out",
        tmp_path / "b").error
