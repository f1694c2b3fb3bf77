"""Runs of local models that are broken off: by Ctrl-C, by Ctrl-C twice, by SIGTERM."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import rig_testkit as kit

from rig.clock import Stopwatch

BAD = Path(__file__).parents[1] / "tools" / "bad_worker.py"
PATIENCE_S = 4 * kit.GUARD_S
"""With the model: whoever waits for it does not end before the test gives up."""

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


def runs(pid: int) -> bool:
    """Whether a process is there and not dead."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def arguments(suite: Path, run: Path, notes: Path, *more: str) -> list[str]:
    return ["run", str(suite), "--adapter", "worker", "--set",
            f"command={sys.executable} {BAD} hangs 5 {notes}", "--set", "persona_prompt=no",
            "--set", f"answer_timeout_s={PATIENCE_S}", "--out", str(run), *more]


@pytest.mark.parametrize(("workers", "clock", "signals"), [
    (2, "virtual", [signal.SIGINT]),
    (2, "virtual", [signal.SIGTERM]),
    (2, "virtual", [signal.SIGINT, signal.SIGINT]),
    (1, "virtual", [signal.SIGTERM]),
    (1, "virtual", [signal.SIGINT, signal.SIGINT]),
    (2, "real", [signal.SIGINT]),
    pytest.param(2, "real", [signal.SIGTERM], marks=pytest.mark.slow),
    pytest.param(2, "real", [signal.SIGINT, signal.SIGINT], marks=pytest.mark.slow),
    pytest.param(2, "virtual", [signal.SIGHUP], marks=pytest.mark.slow),
    pytest.param(2, "virtual", [signal.SIGKILL], marks=pytest.mark.slow),
])
def test_a_model_that_hangs_does_not_hold_up_whoever_ends_the_run(
        call_rig: Callable[..., object], tiny_suite: Path, tmp_path: Path, workers: int,
        clock: str, signals: list[signal.Signals]) -> None:
    notes, run = tmp_path / "notes", tmp_path / "run"
    notes.mkdir()
    asked = arguments(tiny_suite, run, notes, "--workers", str(workers), "--clock", clock)
    process = subprocess.Popen([sys.executable, "-m", "rig.cli", *asked], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True,
                               preexec_fn=kit.heed_interrupts)

    def hanging() -> list[int]:
        return [int(note.name) for note in notes.iterdir() if note.read_text() == "hangs"]

    kit.wait_until(lambda: len(hanging()) == workers or process.poll() is not None, "nothing hangs")
    assert process.poll() is None, process.stderr and process.stderr.read()
    watch = Stopwatch()
    for number in signals:
        process.send_signal(number)
        select.select([], [], [], 0.2)  # the second comes while the first is being taken
    _, err = process.communicate(timeout=kit.GUARD_S)
    print("ended after", round(watch.elapsed_s, 2), "s")
    kit.wait_until(lambda: not any(map(runs, hanging())), "a model is left")
    assert "Traceback" not in err, err
    if signal.SIGKILL in signals:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 130
        assert "--resume" in err
    assert not list(run.rglob(".part-*"))
    assert kit.done(run) == set()
    if clock == "virtual":
        (notes / "mended").touch()
        called = call_rig(*asked, "--resume")
        assert called.code == 0, called.err
        lines = kit.ledger(run)
        assert [line["status"] for line in lines] == ["done"] * 3
        assert len({line["case_id"] for line in lines}) == 3


def test_processes_share_the_cases_and_the_devices(
        call_rig: Callable[..., object], small_suite: Path, tmp_path: Path) -> None:
    """Two devices are two processes; one ledger, and no case twice."""
    notes = tmp_path / "notes"
    notes.mkdir()
    called = call_rig("run", small_suite, "--adapter", "worker", "--set",
                      f"command={sys.executable} {BAD} good 0 {notes}", "--set",
                      "persona_prompt=no", "--set", "devices=4,7", "--out", tmp_path / "run")
    assert called.code == 0, called.err
    played = [(line["case_id"], line["trial"], line["status"])
              for line in kit.ledger(tmp_path / "run")]
    assert len(played) == len(set(played)) == 9
    assert sorted(note.read_text() for note in notes.iterdir()) == ["4", "7"]
    kit.wait_until(lambda: not any(runs(int(note.name)) for note in notes.iterdir()),
                   "a model is left")


def test_the_case_of_a_process_that_dies_is_played_by_another_one(
        call_rig: Callable[..., object], small_suite: Path, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    called = call_rig("run", small_suite, "--adapter", "worker", "--set",
                      f"command={sys.executable} {BAD} dies_once 5 {notes}", "--set",
                      "persona_prompt=no", "--workers", "2", "--out", tmp_path / "run")
    assert called.code == 0, called.err
    lines = kit.ledger(tmp_path / "run")
    (failed,) = [line for line in lines if line["status"] != "done"]
    assert failed["reason"] == "worker: it ended with exit code 9"
    done = [(line["case_id"], line["attempt"]) for line in lines if line["status"] == "done"]
    assert len(done) == len(set(done)) == 9
    assert (failed["case_id"], 2) in done
    processes = [note for note in notes.iterdir() if note.name != "died"]
    assert len(processes) == 3


@pytest.mark.slow
def test_when_a_process_of_ours_is_killed_its_model_ends_and_the_run_says_so(
        tiny_suite: Path, tmp_path: Path) -> None:
    """As the kernel does where memory is short: the other processes and their models end too."""
    notes, run = tmp_path / "notes", tmp_path / "run"
    notes.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "rig.cli", *arguments(tiny_suite, run, notes, "--workers", "2")],
        stderr=subprocess.PIPE, text=True)
    kit.wait_until(lambda: sum(n.read_text() == "hangs" for n in notes.iterdir()) == 2,
                   "nothing hangs")
    models = [int(note.name) for note in notes.iterdir()]
    parents = {int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
               for pid in models}
    os.kill(parents.pop(), signal.SIGKILL)
    _, err = process.communicate(timeout=kit.GUARD_S)
    assert "a worker process died" in err
    kit.wait_until(lambda: not any(map(runs, models)), "a model is left")
