"""The f_actor worker under `rig run`: its horizon, what it heard, and that it is off by default."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import rig_testkit as kit

FAKE = Path(__file__).parents[1] / "tools" / "fake_f_actor.py"


def played(call_rig: Callable[..., object], suite: Path, run: Path, options: str) -> int:
    return call_rig("run", suite, "--adapter", "worker", "--set",
                    f"command={sys.executable} {FAKE} {options}", "--set", "input_rate_hz=22050",
                    "--set", "output_rate_hz=22050", "--filter", "action=TAKE_TURN",
                    "--retries", 0, "--out", run).code


def test_what_lies_beyond_the_horizon_is_unscored(
        call_rig: Callable[..., object], tiny_suite: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert played(call_rig, tiny_suite, run, "--echo --max-steps=50") == 3
    (line,) = kit.ledger(run)
    assert line["status"] == "infra_error"
    assert line["reason"] == (
        "worker: the model failed: CapError: its horizon of 50 steps is over after 3.76 s of the "
        "session; what comes after is not measured (--set max_steps)")
    call_rig("score", run)
    (case,) = json.loads((run / "scores.json").read_text())["cases"]
    assert case["outcome"] == "unscored"


def test_a_case_within_it_is_played_to_its_end(
        call_rig: Callable[..., object], tiny_suite: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert played(call_rig, tiny_suite, run, "--echo") == 0
    (case_id,) = kit.done(run)
    record = json.loads((run / "rec" / f"{case_id}.t1.rec.json").read_text())
    (said,) = [json.loads(e["detail"]) for e in record["events"]
               if e["kind"] == "state" and e["name"] == "worker_hello"]
    assert said["frame_ms"] == 80
    assert said["settings"]["max_steps"] == 1024
    assert said["settings"]["encode_lookahead"] == 0


def test_it_is_refused_in_one_line(
        call_rig: Callable[..., object], tiny_suite: Path, tmp_path: Path) -> None:
    called = call_rig("run", tiny_suite, "--adapter", "f_actor", "--out", tmp_path / "run")
    assert called.code == 2
    assert "--adapter f_actor: experimental, off by default" in called.error
    assert "expected --set experimental=yes" in called.error
    assert "\n" not in called.error.strip()
    assert not (tmp_path / "run").exists()
    assert "unverified: experimental, off by default" in call_rig("adapters", "f_actor").out
    assert "unverified: experimental, off by default" in call_rig("worker", "f_actor").out


def test_the_doctor_says_that_it_is_off(call_rig: Callable[..., object]) -> None:
    def status(*more: object) -> str | None:
        found = json.loads(call_rig("worker", *more, "--doctor", "--json").out)["checks"]
        return next((c["status"] for c in found if c["name"] == "experimental"), None)

    assert status("f_actor") == "missing"
    assert status("f_actor", "--set", "experimental=yes") == "ok"
    assert status("moshi") is None


def test_the_doctor_names_the_codec_beside_a_folder_with_weights(
        call_rig: Callable[..., object], tmp_path: Path) -> None:
    def weights(*more: object) -> str:
        called = call_rig("worker", "f_actor", "--doctor", "--json", "--set",
                          f"weights={tmp_path}", *more)
        return next(c["detail"] for c in json.loads(called.out)["checks"]
                    if c["name"] == "weights")

    assert "nvidia/nemo-nano-codec-22khz-0.6kbps-12.5fps comes from the hub" in weights()
    assert "nothing is downloaded" in weights("--set", "codec=codec.nemo")
