"""What a local model has really loaded is part of its run: another one is not mixed in."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import rig_testkit as kit

from adapters import worker_process

BAD = Path(__file__).parents[1] / "tools" / "bad_worker.py"
ONE, OTHER = "1" * 40, "2" * 40


def worker(kind: str, folder: Path, *more: object) -> tuple[object, ...]:
    return ("--adapter", "worker", "--set", f"command={sys.executable} {BAD} {kind} 5 {folder}",
            "--set", "persona_prompt=no", *more)


def played(call_rig: Callable[..., object], suite: Path, tmp_path: Path, name: str,
           *more: object) -> object:
    # As when `rig` is started anew: nothing is kept that has loaded something before.
    for processes in worker_process._STARTED.values():
        processes.close()
    return call_rig("run", suite, *worker("weights", tmp_path), "--out", tmp_path / name, *more)


def test_a_run_does_not_go_on_with_other_weights_under_the_same_name(
        call_rig: Callable[..., object], tiny_suite: Path, tmp_path: Path) -> None:
    (tmp_path / "commit").write_text(ONE)
    run = tmp_path / "run"
    assert played(call_rig, tiny_suite, tmp_path, "run", "--filter", "action=TAKE_TURN").code == 0
    said = json.loads((run / "system.json").read_text())
    assert said == {"schema_version": 1, "said": {
        "name": "bad", "version": "1", "settings": {"weights_commit": ONE}, "frame_ms": 80.0}}
    before = kit.files(run)
    # Something that was done has to be played again: by other weights it is not.
    (case_id,) = kit.done(run)
    (run / "rec" / f"{case_id}.t1.rec.json").unlink()
    (tmp_path / "commit").write_text(OTHER)
    called = played(call_rig, tiny_suite, tmp_path, "run", "--filter", "action=TAKE_TURN",
                    "--resume")
    assert called.code == 3
    line = kit.ledger(run)[-1]
    assert line["status"] == "infra_error"
    assert line["reason"] == (
        "another system than the one that this run was begun with: settings.weights_commit was "
        f"{ONE}, now {OTHER}; nothing is mixed: load what system.json says, or choose another "
        "--out")
    assert "stopped: another system" in called.err
    assert kit.files(run)["system.json"] == before["system.json"]
    assert not list((run / "rec").glob("*.rec.json"))
    (tmp_path / "commit").write_text(ONE)
    assert played(call_rig, tiny_suite, tmp_path, "run", "--filter", "action=TAKE_TURN",
                  "--resume").code == 0


def test_a_second_process_that_loads_something_else_ends_the_run(
        call_rig: Callable[..., object], small_suite: Path, tmp_path: Path) -> None:
    """Two processes, each with weights of its own: the cases of one of them are played."""
    notes = tmp_path / "notes"
    notes.mkdir()
    called = call_rig("run", small_suite, *worker("moves", notes), "--workers", 2, "--retries", 0,
                      "--out", tmp_path / "run")
    assert called.code == 3
    assert "stopped: another system" in called.err
    said = json.loads((tmp_path / "run" / "system.json").read_text())["said"]
    hellos = set()
    for case_id in kit.done(tmp_path / "run"):
        record = json.loads((tmp_path / "run" / "rec" / f"{case_id}.t1.rec.json").read_text())
        hellos |= {e["detail"] for e in record["events"]
                   if e["kind"] == "state" and e["name"] == "worker_hello"}
    assert [json.loads(hello) for hello in hellos] in ([said], [])
    assert {line["status"] for line in kit.ledger(tmp_path / "run")} <= {"done", "infra_error"}


def test_a_run_of_an_older_rig_is_held_to_what_its_sessions_say(
        call_rig: Callable[..., object], tiny_suite: Path, tmp_path: Path) -> None:
    (tmp_path / "commit").write_text(ONE)
    assert played(call_rig, tiny_suite, tmp_path, "run").code == 0
    run = tmp_path / "run"
    said = (run / "system.json").read_bytes()
    (run / "system.json").unlink()
    case_id = sorted(kit.done(run))[0]
    (run / "rec" / f"{case_id}.t1.stereo.wav").unlink()
    (tmp_path / "commit").write_text(OTHER)
    assert played(call_rig, tiny_suite, tmp_path, "run", "--resume").code == 3
    assert (run / "system.json").read_bytes() == said


def test_runs_are_compared_and_reported_by_what_was_loaded(
        call_rig: Callable[..., object], tiny_suite: Path, tmp_path: Path) -> None:
    for name, commit in (("a", ONE), ("b", OTHER)):
        (tmp_path / "commit").write_text(commit)
        assert played(call_rig, tiny_suite, tmp_path, name).code == 0
        assert call_rig("score", tmp_path / name).code == 0
    told = json.loads(call_rig("compare", tmp_path / "a", tmp_path / "b", "--json").out)
    for name, commit in (("a", ONE), ("b", OTHER)):
        assert f"the system says: bad 1 (weights_commit {commit})" in told["systems"][name]["notes"]
    assert call_rig("report", tmp_path / "a", tmp_path / "b", "--out",
                    tmp_path / "page.html").code == 0
    page = (tmp_path / "page.html").read_text()
    assert "system.settings.weights_commit" in page
    assert OTHER in page


@pytest.mark.parametrize(("text", "says"), [
    ('{"said": ', "system.json: expected what the system said"),
    (json.dumps({"said": {"name": "bad", "version": "1", "settings": {"weights_commit": OTHER},
                          "frame_ms": 80.0}}),
     f"settings.weights_commit is {ONE}, expected {OTHER}"),
    (json.dumps({"said": {}}), "name is bad, expected not set; version is 1")])
def test_a_run_that_is_whole_is_held_to_what_its_system_says(
        call_rig: Callable[..., object], tiny_suite: Path, tmp_path: Path, text: str,
        says: str) -> None:
    (tmp_path / "commit").write_text(ONE)
    assert played(call_rig, tiny_suite, tmp_path, "run").code == 0
    assert call_rig("score", tmp_path / "run").code == 0
    (tmp_path / "run" / "system.json").write_text(text)
    before = kit.files(tmp_path / "run")
    for called in (played(call_rig, tiny_suite, tmp_path, "run", "--resume"),
                   call_rig("report", tmp_path / "run", "--out", tmp_path / "page.html"),
                   call_rig("score", tmp_path / "run")):
        assert called.code == 2
        assert says in called.error, called.error
        assert kit.files(tmp_path / "run") == before


def test_a_command_without_a_file_is_told_of(
        call_rig: Callable[..., object], tiny_suite: Path, tmp_path: Path) -> None:
    """Whenever something may be played: what is behind the command is not known."""
    code = f"import runpy,sys;sys.argv=['w','good'];runpy.run_path('{BAD}',run_name='__main__')"
    told = "no file of the worker's command is part of the run's fingerprint"
    mine = ("--adapter", "worker", "--set", f'command={sys.executable} -c "{code}"', "--set",
            "persona_prompt=no", "--filter", "action=TAKE_TURN", "--out", tmp_path / "run")
    assert told in call_rig("run", tiny_suite, *mine).err
    assert told in call_rig("run", tiny_suite, *mine, "--resume").err
    (tmp_path / "commit").write_text(ONE)
    assert told not in played(call_rig, tiny_suite, tmp_path, "other", "--filter",
                              "action=TAKE_TURN").err
