"""A local model on the real clock: it is fed by deadline and heard when it answers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rig_testkit as kit
import stalls

from adapters.sound_card.loopback import find
from audio.files import read as read_audio

pytestmark = pytest.mark.slow
TOOLS = Path(__file__).parents[1] / "tools"
ECHO = Path(__file__).parents[2] / "adapters" / "workers" / "echo_worker.py"
BAD = TOOLS / "bad_worker.py"


def played(call_rig: Callable[..., Any], suite: Path, run: Path, command: str,
           *more: object) -> int:
    code: int = call_rig("run", suite, "--adapter", "worker", "--set",
                         f"command={sys.executable} {command}", "--set", "persona_prompt=no",
                         "--clock", "real", "--filter", "action=TAKE_TURN", "--out", run,
                         *more).code
    return code


def echo_ms(run: Path, turn: int) -> float | None:
    """How late the user's turn is heard on the agent's track; `None` where it is not there whole.
    """
    (case_id,) = kit.done(run)
    audio, rate_hz = read_audio(run / "rec" / f"{case_id}.t1.stereo.wav")
    record = json.loads((run / "rec" / f"{case_id}.t1.rec.json").read_text())
    begin_n, end_n = (record["turns"][turn][edge] for edge in ("onset_n", "end_n"))
    said = audio[begin_n:end_n, 0].astype(np.float32)
    # The other turn may say the same: only a second beyond this one is looked at.
    there = find(audio[begin_n:end_n + rate_hz, 1].astype(np.float32), said)
    return None if there is None else 1e3 * there.at_n / rate_hz


def scored(call_rig: Callable[..., Any], run: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The one case of a run, and what `rig inspect` says of its worker."""
    assert call_rig("score", run).code == 0
    (case,) = json.loads((run / "scores.json").read_text())["cases"]
    shown = json.loads(call_rig("inspect", run, case["case_id"], "--json").out)
    return case, shown["worker"]


def test_an_echo_is_heard_as_late_as_it_is(
        call_rig: Callable[..., Any], quick_suite: Path, tmp_path: Path) -> None:
    """Four frames of 80 ms, and what a pipe and this machine add: under 40 ms, or the rig says so.
    """
    def play(k: int) -> Path:
        code = played(call_rig, quick_suite, tmp_path / str(k), f"{ECHO} --frames 3")
        assert code == (0 if kit.done(tmp_path / str(k)) else 3)
        return tmp_path / str(k)

    run = stalls.undisturbed(play, stalls.in_run)
    for turn in (0, 1):
        late_ms = echo_ms(run, turn)
        print("late by", late_ms, "ms")
        assert late_ms is not None
        assert 320 <= late_ms < 360


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
def test_a_stall_of_the_machine_is_void_and_one_of_the_model_is_the_models(
        call_rig: Callable[..., Any], quick_suite: Path, tmp_path: Path) -> None:
    """Both stand still for 0.3 s in turn 1, long before the window. An echo never catches up: what
    the machine did to it says nothing, and is played again; what held up the model alone is heard,
    and the case says so."""
    def play(who: str) -> Callable[[int], Path]:
        def once(k: int) -> Path:
            run = tmp_path / f"{who}{k}"
            played(call_rig, quick_suite, run,
                   f"{TOOLS / 'stalling_worker.py'} {who} 300 4 {tmp_path / who}{k}.stalled")
            return run
        return once

    run = stalls.undisturbed(play("machine"), stalls.in_run)
    first, *_, last = kit.ledger(run)
    assert (first["status"], last["status"]) == ("void", "done"), kit.ledger(run)
    stalled_ms = float(first["reason"].split(" ms late")[0].split()[-1])
    assert stalled_ms >= 290
    assert 320 <= (echo_ms(run, 1) or 0.0) < 360

    def but_for_the_model(run: Path) -> list[str]:
        return [said for said in stalls.in_run(run) if "the model's process" not in said]

    run = stalls.undisturbed(play("worker"), but_for_the_model)
    case, worker = scored(call_rig, run)
    late_ms = echo_ms(run, 1)
    assert late_ms is not None
    assert "slower_than_real_time" in case["flags"]
    assert worker["late_ms"] > 150
    assert late_ms - 320 == pytest.approx(worker["late_ms"], abs=stalls.BUSY_MS)


def test_a_model_that_hangs_or_lags(
        call_rig: Callable[..., Any], quick_suite: Path, tmp_path: Path) -> None:
    assert played(call_rig, quick_suite, tmp_path / "hangs", f"{BAD} hangs 20", "--retries", 0,
                  "--set", "answer_timeout_s=1") == 3
    (line,) = kit.ledger(tmp_path / "hangs")
    assert "no answer to frame 20 within 1 s" in line["reason"]

    def play(k: int) -> Path:
        played(call_rig, quick_suite, tmp_path / f"slow{k}", f"{BAD} slow 3")
        return tmp_path / f"slow{k}"

    # Every third frame takes 0.3 s: what the process was held up by is the model's own.
    run = stalls.undisturbed(play, lambda run: [said for said in stalls.in_run(run)
                                                if "void" in said])
    case, worker = scored(call_rig, run)
    assert "slower_than_real_time" in case["flags"]
    assert worker["real_time_factor"] > 1
    assert worker["waiting"] > 10


@pytest.mark.parametrize(("kind", "reason"), [
    ("hangs 40", "no answer to frame 40"), ("exits 40", "it ended with exit code 9")])
def test_a_model_that_stops_before_the_end_was_not_silent(
        call_rig: Callable[..., Any], quick_suite: Path, tmp_path: Path, kind: str,
        reason: str) -> None:
    """It stops at 3.3 s, and the session of 6 s is over before the patience of 5 s is."""
    assert played(call_rig, quick_suite, tmp_path / "run", f"{BAD} {kind}", "--retries", 0,
                  "--set", "answer_timeout_s=5") == 3
    (line,) = kit.ledger(tmp_path / "run")
    assert reason in line["reason"], line
