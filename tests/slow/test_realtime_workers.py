"""A local model on the real clock: it is fed by deadline and heard when it answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import rig_testkit as kit

from adapters.sound_card.loopback import find
from audio.files import read as read_audio

pytestmark = pytest.mark.slow
TOOLS = Path(__file__).parents[1] / "tools"
ECHO = Path(__file__).parents[2] / "adapters" / "workers" / "echo_worker.py"


def played(call_rig: Callable[..., object], suite: Path, run: Path, command: str,
           *more: object) -> int:
    return call_rig("run", suite, "--adapter", "worker", "--set",
                    f"command={sys.executable} {command}", "--set", "persona_prompt=no",
                    "--clock", "real", "--filter", "action=TAKE_TURN", "--out", run, *more).code


def test_an_echo_is_heard_as_late_as_it_is(
        call_rig: Callable[..., object], tiny_suite: Path, tmp_path: Path) -> None:
    """Four frames of 80 ms, and what a pipe and this machine add: under 40 ms, or it is void."""
    assert played(call_rig, tiny_suite, tmp_path / "run", f"{ECHO} --frames 3") == 0
    (case_id,) = kit.done(tmp_path / "run")
    audio, rate_hz = read_audio(tmp_path / "run" / "rec" / f"{case_id}.t1.stereo.wav")
    record = json.loads((tmp_path / "run" / "rec" / f"{case_id}.t1.rec.json").read_text())
    turn = record["turns"][0]
    said = audio[turn["onset_n"]:turn["end_n"], 0].astype(np.float32)
    # The second turn may say the same: only a second beyond the first is looked at.
    there = find(audio[turn["onset_n"]:turn["end_n"] + rate_hz, 1].astype(np.float32), said)
    assert there is not None
    late_ms = 1e3 * there.at_n / rate_hz
    print("late by", round(late_ms, 2), "ms")
    assert 320 <= late_ms < 360


def test_a_model_that_hangs_or_lags(
        call_rig: Callable[..., object], tiny_suite: Path, tmp_path: Path) -> None:
    bad = TOOLS / "bad_worker.py"
    assert played(call_rig, tiny_suite, tmp_path / "hangs", f"{bad} hangs 20", "--retries", 0,
                  "--set", "answer_timeout_s=1") == 3
    (line,) = kit.ledger(tmp_path / "hangs")
    assert "no answer to frame 20 within 1 s" in line["reason"]
    assert played(call_rig, tiny_suite, tmp_path / "slow", f"{bad} slow 3") == 0
    assert call_rig("score", tmp_path / "slow").code == 0
    (case,) = json.loads((tmp_path / "slow" / "scores.json").read_text())["cases"]
    assert "slower_than_real_time" in case["flags"]
    shown = json.loads(call_rig("inspect", tmp_path / "slow", case["case_id"], "--json").out)
    assert shown["worker"]["real_time_factor"] > 1
    assert shown["worker"]["waiting"] > 10


@pytest.mark.parametrize(("kind", "reason"), [
    ("hangs 40", "no answer to frame 40"), ("exits 40", "it ended with exit code 9")])
def test_a_model_that_stops_before_the_end_was_not_silent(
        call_rig: Callable[..., object], tiny_suite: Path, tmp_path: Path, kind: str,
        reason: str) -> None:
    """The session is over long before the patience of 20 s is."""
    assert played(call_rig, tiny_suite, tmp_path / "run", f"{TOOLS / 'bad_worker.py'} {kind}",
                  "--retries", 0, "--set", "answer_timeout_s=20") == 3
    (line,) = kit.ledger(tmp_path / "run")
    assert reason in line["reason"], line
