"""Session faults, retries, resume and the run folder, through the command line."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import rig_testkit as kit

from adapters import registry
from adapters.base import (
    AudioReceived,
    Capabilities,
    Fault,
    SessionConfig,
    StateChanged,
    TextDelta,
)
from adapters.websocket_opening import ConnectionRefusedByPeerError
from audio.errors import InfrastructureError, InputError, RigError, SynthesisError
from audio.vad import VadSettings
from rig import pace
from rig.clock import loop_factory
from rig.orchestrator import play
from rig.record import FaultEvent
from rig.schedule import Plan
from rig.store import RunFolder

BROKEN = "R1-C1-1-L2"
OTHER = "R2-C1-1-L2"
WHOLE = {OTHER, "R1-C4-1-L2"}

FAULTS = {name: reason for name, (_, reason) in kit.FAULTS.items()} | {
    "raises on opening": "opening the session failed: ConnectionRefusedError",
    "hangs on opening": "had not ended after",
    "raises in cue": "cue failed: KeyError",
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_broken_session_is_an_infrastructure_error_and_the_rest_is_played(
    kind: str, tiny_suite: Path, tmp_path: Path, call_rig: Any, add_adapter: Any
) -> None:
    add_adapter("faulty", kit.faulty(kind, frozenset({BROKEN})))
    run = tmp_path / "run"
    called = call_rig("run", tiny_suite, "--adapter", "faulty", "--jobs", 1, "--retries", 1,
                      "--filter", f"case={BROKEN}|{OTHER}", "--out", run)
    assert called.code == 3
    assert kit.done(run) == {OTHER}
    tries = [a for a in kit.ledger(run) if a["case_id"] == BROKEN]
    assert [(a["attempt"], a["status"]) for a in tries] == [(1, "infra_error"), (2, "infra_error")]
    assert all(FAULTS[kind] in a["reason"] for a in tries), tries
    assert f"{BROKEN} t1: infra_error: " in called.err
    assert not list((run / "rec").glob(f"{BROKEN}*"))

    assert call_rig("score", run, "--jobs", 1).code == 3
    case, = (c for c in kit.scores(run)["cases"] if c["case_id"] == BROKEN)
    assert case["outcome"] == "unscored"
    assert case["reason"].startswith("infra_error: ")
    assert FAULTS[kind] in case["reason"]
    stat = kit.scores(run)["ias"]["all"]["L2"]
    assert (stat["n"], stat["unscored"]) == (1, 1)


@pytest.mark.parametrize("kind", ["raises on closing", "hangs on closing"])
def test_trouble_while_closing_touches_nothing_that_was_recorded(
    kind: str, tiny_suite: Path, tmp_path: Path, call_rig: Any, add_adapter: Any
) -> None:
    add_adapter("faulty", kit.faulty(kind, frozenset({BROKEN})))
    run = tmp_path / "run"
    assert call_rig("run", tiny_suite, "--adapter", "faulty", "--jobs", 1, "--out",
                    run).code == 0
    assert kit.done(run) == WHOLE | {BROKEN}
    events = RunFolder(run).read_record(BROKEN, 1).events
    fault, = (e for e in events if isinstance(e, FaultEvent))
    assert fault.severity == "transparent"
    assert ("peer reset" in fault.reason) == (kind == "raises on closing")


def test_other_trouble_that_the_system_reports_changes_nothing(
    tiny_suite: Path, tmp_path: Path, call_rig: Any, add_adapter: Any
) -> None:
    def on_frame(session: kit.StubSession, frame: Any) -> None:
        if session.frames == 100:
            session.emit(Fault(session.now_ns, "transparent", "an unknown event"),
                         StateChanged(session.now_ns, "odd", "bytes"),
                         TextDelta(session.now_ns, "text without sound"),
                         AudioReceived(session.now_ns, np.zeros(0, dtype=np.float32)))

    add_adapter("noisy", kit.stub(on_frame))
    add_adapter("quiet", kit.stub(kit.nothing))
    for name in ("noisy", "quiet"):
        run = tmp_path / name
        assert call_rig("run", tiny_suite, "--adapter", name, "--jobs", 1, "--out", run).code == 0
        assert call_rig("score", run, "--jobs", 1).code == 0
    assert kit.outcomes(tmp_path / "noisy") == kit.outcomes(tmp_path / "quiet")
    noisy, quiet = (RunFolder(tmp_path / n).read_record(BROKEN, 1) for n in ("noisy", "quiet"))
    assert noisy.stereo.sha256 == quiet.stereo.sha256


def test_a_failed_attempt_is_repeated_at_once_and_counted(
    tiny_suite: Path, tmp_path: Path, call_rig: Any, add_adapter: Any
) -> None:
    (tmp_path / "marks").mkdir()
    add_adapter("flaky", kit.faulty("says so", frozenset({BROKEN}),
                                    first_attempts_only=tmp_path / "marks"))
    run = tmp_path / "run"
    assert call_rig("run", tiny_suite, "--adapter", "flaky", "--jobs", 1, "--out", run).code == 0
    tries = [(a["case_id"], a["attempt"], a["status"], a.get("reason")) for a in kit.ledger(run)]
    assert tries == [(BROKEN, 1, "infra_error", "429: slow down"), (BROKEN, 2, "done", None),
                     ("R2-C1-1-L2", 1, "done", None), ("R1-C4-1-L2", 1, "done", None)]
    assert call_rig("score", run, "--jobs", 1).code == 0
    assert kit.scores(run)["attempts"] == {"done": 3}


@pytest.mark.parametrize("retries", [0, 2])
def test_retries_are_bounded_and_resume_plays_what_failed(
    retries: int, tiny_suite: Path, tmp_path: Path, call_rig: Any, add_adapter: Any
) -> None:
    add_adapter("faulty", kit.faulty("says so", frozenset({BROKEN})))
    run = tmp_path / "run"
    command = ["run", tiny_suite, "--adapter", "faulty", "--jobs", 1, "--out", run]
    assert call_rig(*command, "--retries", retries).code == 3
    counts = Counter((a["case_id"], a["status"]) for a in kit.ledger(run))
    assert counts[BROKEN, "infra_error"] == retries + 1
    before = kit.files(run / "rec")

    add_adapter("faulty", kit.faulty("says so", frozenset()))
    called = call_rig(*command, "--resume", "--json")
    assert called.code == 0
    assert json.loads(called.out)["skipped_as_done"] == 2
    last = kit.ledger(run)[-1]
    assert (last["case_id"], last["attempt"], last["status"]) == (BROKEN, retries + 2, "done")
    after = kit.files(run / "rec")
    assert {name: after[name] for name in before} == before
    assert call_rig(*command, "--resume").code == 0
    assert kit.ledger(run)[-1] == last, "a run that is complete plays nothing"


def test_a_lost_recording_that_cannot_be_played_again_is_no_longer_done(
    tiny_suite: Path, tmp_path: Path, call_rig: Any, add_adapter: Any
) -> None:
    add_adapter("faulty", kit.faulty("says so", frozenset()))
    run = tmp_path / "run"
    command = ["run", tiny_suite, "--adapter", "faulty", "--jobs", 1, "--out", run]
    assert call_rig(*command).code == 0
    RunFolder(run).stereo_path(BROKEN, 1).unlink()

    # No room for it: it is left, and the run is not complete.
    called = call_rig(*command, "--resume", "--max-minutes", 0.001, "--json")
    assert (called.code, json.loads(called.out)["not_played"]) == (1, 1)

    add_adapter("faulty", kit.faulty("says so", frozenset({BROKEN})))
    called = call_rig(*command, "--resume", "--retries", 0, "--json")
    assert called.code == 3
    assert json.loads(called.out)["status"] == {"done": 2, "infra_error": 1}

    add_adapter("faulty", kit.faulty("says so", frozenset()))
    assert call_rig(*command, "--resume").code == 0


@pytest.mark.parametrize("error", [InputError("--set key: expected a key, got none"),
                                   SynthesisError("no voice")])
def test_an_adapter_that_is_configured_wrongly_stops_the_run_with_its_own_line(
    error: RigError, tiny_suite: Path, tmp_path: Path, call_rig: Any, add_adapter: Any
) -> None:
    """To try again would not help. What was done before stays done."""
    @asynccontextmanager
    async def opened(config: Any, clock: Any) -> AsyncIterator[Any]:
        if config.case_id == "R1-C4-1-L2":
            raise error
        session = kit.StubSession(config, clock, kit.nothing)
        yield session
        session.emit(None)

    add_adapter("unset", kit.StubAdapter(opened))
    run = tmp_path / "run"
    called = call_rig("run", tiny_suite, "--adapter", "unset", "--jobs", 1, "--out", run)
    assert called.error == f"rig: error: {error}"
    assert [(a["case_id"], a["status"]) for a in kit.ledger(run)] == [
        (BROKEN, "done"), ("R2-C1-1-L2", "done")]


def test_a_session_over_its_timing_budget_is_void_and_played_again_twice(
    tiny_suite: Path, tmp_path: Path, call_rig: Any, add_adapter: Any
) -> None:
    """A send of 60 ms in the scored pause; of 35 ms anywhere, which the budget allows."""
    def slow(case_id: str, delay_ms: int) -> Any:
        async def on_frame(session: kit.StubSession, frame: Any) -> None:
            # Turn 2 begins at 7.2 s, its pause 2.1 s later, at frame 465.
            if session.config.case_id == case_id and session.frames == 480:
                await session.clock.sleep_until(session.now_ns + delay_ms * 1_000_000)
        return on_frame

    add_adapter("late", kit.stub(slow(BROKEN, 60)))
    run = tmp_path / "run"
    called = call_rig("run", tiny_suite, "--adapter", "late", "--jobs", 1, "--out", run)
    assert called.code == 3
    tries = [a for a in kit.ledger(run) if a["case_id"] == BROKEN]
    assert [a["status"] for a in tries] == ["void"] * 3
    assert all("60.0 ms late (budget 40 ms)" in a["reason"] for a in tries)
    assert "3 of 5 sessions were void: frames of the user were late, because" in called.err
    assert kit.done(run) == WHOLE
    assert not list((run / "rec").glob(f"{BROKEN}*"))
    assert call_rig("score", run, "--jobs", 1).code == 3
    case, = (c for c in kit.scores(run)["cases"] if c["case_id"] == BROKEN)
    assert (case["outcome"], case["reason"][:5]) == ("unscored", "void:")

    add_adapter("late", kit.stub(slow(BROKEN, 35)))
    assert call_rig("run", tiny_suite, "--adapter", "late", "--jobs", 1, "--out",
                    tmp_path / "again").code == 0
    timing = RunFolder(tmp_path / "again").read_record(BROKEN, 1).timing
    assert (timing.late_max_ms, timing.void) == (35.0, False)


# --- clocks --------------------------------------------------------------------------------------

REAL = Capabilities(full_duplex=True, persona_prompt=True, realtime_only=True)
VIRTUAL = Capabilities(full_duplex=True, persona_prompt=True, virtual_only=True)


def refusing(status: int, retry_after_s: float | None = None) -> kit.StubAdapter:
    """A hosted system that answers every handshake with HTTP `status`."""
    @asynccontextmanager
    async def opened(config: Any, clock: Any) -> AsyncIterator[Any]:
        raise ConnectionRefusedByPeerError(f"HTTP {status}", status, retry_after_s)
        yield

    return kit.StubAdapter(opened, REAL)


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_key_that_is_refused_stops_the_run_at_once(
    status: int, tiny_suite: Path, tmp_path: Path, call_rig: Any, add_adapter: Any
) -> None:
    """1,038 cases must not knock three times each with a key that no server takes."""
    add_adapter("hosted", refusing(status))
    run = tmp_path / "run"
    called = call_rig("run", tiny_suite, "--adapter", "hosted", "--out", run, "--json")
    assert called.code == 3
    assert json.loads(called.out)["stopped"] == f"HTTP {status}"
    assert f"stopped: HTTP {status}; no further case was tried" in called.err
    assert [(a["attempt"], a["status"]) for a in kit.ledger(run)] == [(1, "infra_error")]


@pytest.mark.parametrize(("asked_s", "tries", "why"), [
    (3.0, 9, "has refused 9 times in a row"),
    (9_999.0, 1, "asks for 9999 s of patience, more than 120 s")])
def test_a_peer_that_asks_to_wait_is_waited_for_within_bounds(
    asked_s: float, tries: int, why: str, tiny_suite: Path, tmp_path: Path, call_rig: Any,
    add_adapter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The waits themselves have their tests on a clock that jumps."""
    asked: list[float] = []

    def wait_s(_failures: int, seconds: float, _chance: Any) -> float:
        asked.append(seconds)
        return 0.001

    monkeypatch.setattr(pace, "full_jitter_s", wait_s)
    add_adapter("hosted", refusing(429, asked_s))
    run = tmp_path / "run"
    called = call_rig("run", tiny_suite, "--adapter", "hosted", "--retries", 1, "--out", run,
                      "--json")
    assert called.code == 3
    assert [a["case_id"] for a in kit.ledger(run)] == [BROKEN] * tries, "no try of other cases"
    assert {(a["status"], a["session_s"]) for a in kit.ledger(run)} == {("infra_error", 0)}
    assert why in json.loads(called.out)["stopped"]
    assert asked == [asked_s] * (tries - 1)
    assert called.err.count("HTTP 429: no new session for ") == tries - 1


def test_virtual_time_and_real_peers_refuse_each_other(
    tiny_suite: Path, tmp_path: Path, call_rig: Any, add_adapter: Any
) -> None:
    add_adapter("hosted", kit.stub(kit.nothing, capabilities=REAL))
    add_adapter("frames", kit.stub(kit.nothing, capabilities=VIRTUAL))
    run = tmp_path / "run"
    for name, clock, other in (("hosted", "virtual", "real"), ("frames", "real", "virtual")):
        line = call_rig("run", tiny_suite, "--adapter", name, "--clock", clock, "--out", run).error
        assert line.startswith(f"rig: error: --clock {clock}: adapter {name} ")
        assert line.endswith(f"expected --clock {other}")
    assert not run.exists()
    plan = call_rig("run", tiny_suite, "--adapter", "hosted", "--dry-run", "--json")
    assert json.loads(plan.out)["clock"] == "real"


def test_the_orchestrator_itself_refuses_a_real_peer_in_virtual_time() -> None:
    plan = Plan(np.zeros(480, dtype=np.float32), np.zeros(480, dtype=np.float32), 1.0)
    config = SessionConfig("R1-C1-1-L2", 1, "", 0)
    hosted = kit.stub(kit.nothing, capabilities=REAL)
    with (asyncio.Runner(loop_factory=loop_factory("virtual")) as runner,
          pytest.raises(InfrastructureError, match="cannot run in virtual time")):
        runner.run(play(plan, hosted, config, vad=VadSettings()))


@pytest.mark.parametrize("name", [n for n in registry.names()
                                  if registry.spec(n).capabilities.realtime_only])
def test_every_network_adapter_refuses_virtual_time(
    name: str, tiny_suite: Path, tmp_path: Path, call_rig: Any, monkeypatch: Any
) -> None:
    """Its declaration says so; no key and no peer is needed to be told."""
    adapter = kit.stub(kit.nothing, capabilities=registry.spec(name).capabilities)
    adapter.name = name
    spec = replace(registry.spec(name), missing=lambda: None, build=lambda _settings: adapter)
    module = ModuleType("network_adapter_of_this_test")
    module.__dict__["SPEC"] = spec
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(registry._WHERE, name, f"{module.__name__}:SPEC")
    called = call_rig("run", tiny_suite, "--adapter", name, "--clock", "virtual", "--out",
                      tmp_path / "run")
    assert f"--clock virtual: adapter {name} speaks to a real peer" in called.error


def test_there_is_nothing_to_go_on_with(tiny_suite: Path, tmp_path: Path, call_rig: Any,
                                        monkeypatch: Any) -> None:
    """A new run begins, and is said to; an adapter's other spelling is not its folder's name."""
    monkeypatch.chdir(tmp_path)
    command = ["run", tiny_suite, "--adapter", "long-endpoint", "--jobs", 1, "--resume", "--json"]
    called = call_rig(*command)
    assert called.code == 0
    assert "runs/long_endpoint: no run is there to go on with; a new one begins" in called.err
    found = json.loads(called.out)
    assert (found["resumed"], found["run"], found["adapter"]) == (
        False, "runs/long_endpoint", "long_endpoint")
    called = call_rig(*command)
    assert "no run is there" not in called.err
    assert json.loads(called.out)["resumed"] is True


# --- Ctrl-C --------------------------------------------------------------------------------------


def _interrupted(suite: Path, run: Path, *, group: bool, when: str,
                 number: int = signal.SIGINT) -> tuple[int, str]:
    """Start `rig run --jobs 2`, send a signal, to it alone or to all its processes as a terminal
    or `timeout` does, and give exit code and standard error."""
    process = subprocess.Popen(
        [sys.executable, "-m", "rig.cli", "run", str(suite), "--adapter", "silent", "--trials",
         "40", "--jobs", "2", "--out", str(run)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=kit.heed_interrupts)
    ledger = run / "attempts.jsonl"
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")

    def reached() -> bool:
        if when == "playing":
            return ledger.exists() and b"\n" in ledger.read_bytes()
        # One is the resource tracker, the others are workers that are still importing.
        return children.exists() and len(children.read_text().split()) >= 2

    kit.wait_until(lambda: reached() or process.poll() is not None, "it does not begin")
    assert process.poll() is None, process.stderr and process.stderr.read()
    if group:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    _, err = process.communicate(timeout=kit.GUARD_S)
    return process.returncode, err


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize(("group", "when", "number"), [
    (False, "playing", signal.SIGINT), (True, "starting", signal.SIGINT),
    pytest.param(True, "playing", signal.SIGINT, marks=pytest.mark.slow),
    (True, "playing", signal.SIGTERM), (True, "playing", getattr(signal, "SIGHUP", None)),
])
def test_ctrl_c_leaves_a_run_that_can_be_resumed(
    group: bool, when: str, number: int, tiny_suite: Path, tmp_path: Path, call_rig: Any
) -> None:
    if when == "starting" and not Path("/proc/self/task").exists():
        pytest.skip("needs /proc to see the workers start")
    run = tmp_path / "run"
    code, err = _interrupted(tiny_suite, run, group=group, when=when, number=number)
    assert code == 130
    assert "Traceback" not in err
    assert f"--out {run} --resume" in err
    lines = kit.ledger(run)
    assert len(lines) < 120, "it was over before it was interrupted"
    assert all(line["status"] == "done" for line in lines)
    for line in lines:
        assert RunFolder(run).read_record(line["case_id"], line["trial"]).recorded_n > 0
    assert not list(run.rglob(".part-*"))
    plan = call_rig("run", tiny_suite, "--adapter", "silent", "--trials", 40, "--jobs", 1,
                    "--out", run, "--resume", "--dry-run")
    assert plan.code == 0


@pytest.mark.parametrize("then", [None, "rig.budget.Budget.count_abandoned", "rig.runner.latest",
                                  "rig.commands.run.spent", "rig.commands.run.void_texts"])
def test_however_often_ctrl_c_comes_it_is_told_how_to_go_on(
    then: str | None, tiny_suite: Path, tmp_path: Path, call_rig: Any,
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """A further one comes while the first is being taken, or while what was played is told."""
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("rig.runner.play_job", interrupted)
        if then is not None:
            patch.setattr(then, interrupted)
        called = call_rig("run", tiny_suite, "--adapter", "silent", "--jobs", 1, "--max-minutes",
                          9, "--out", tmp_path / "run")
    assert called.code == 130
    assert called.err.count(f"--out {tmp_path / 'run'} --resume --max-minutes 9") == 1
    again = call_rig("run", tiny_suite, "--adapter", "silent", "--jobs", 1, "--max-minutes", 9,
                     "--out", tmp_path / "run", "--resume")
    assert again.code == 0
    assert len(kit.ledger(tmp_path / "run")) == 3
