"""Sessions written by another process: the same files, and no session lost in silence."""

from __future__ import annotations

import asyncio
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rig_testkit as kit

from adapters.base import Capabilities
from audio.errors import InfrastructureError
from probes.render import load_built
from rig import handover
from rig.handover import SessionWriter
from rig.orchestrator import Played
from rig.record import AudioEvent, StateEvent
from rig.recorder import adapter_facts, write_session
from rig.sent import LineFacts
from rig.store import RunFolder

CASE = "R1-C1-1-L2"
RATE = 24_000


def session(chunks: int, states: int) -> Played:
    """A session with an odd number of everything, so that no piece is full."""
    rng = np.random.default_rng(3)
    received = [rng.uniform(-0.5, 0.5, 480 + k).astype(np.float32) for k in range(chunks)]
    events: list[Any] = [AudioEvent(seq=k, t_ns=k * 20_000_000, n=len(c), response_id="r1")
                         for k, c in enumerate(received)]
    events += [StateEvent(seq=chunks + k, t_ns=k, name="state", detail="{}") for k in range(states)]
    n = 20 * RATE
    return Played(user=rng.uniform(-0.5, 0.5, n).astype(np.float32), events=events,
                  received=received, flags={"forced"}, turn1_end_n=RATE, turn2_onset_n=5 * RATE,
                  turn2_end_n=11 * RATE, model_onset_ns=3, late_ns=[1] * (n // 480),
                  wake_ns=[1] * (n // 480), ready_ns=7, origin_ns=9, detection_behind_ns=11,
                  sent=[c[:160] for c in received],
                  line=LineFacts(8_000, {"loss": {"text": "loss=3"}}, {"lost": chunks}))


@pytest.mark.parametrize(("chunks", "states"), [(0, 0), (1, 0), (0, 1), (200, 200), (411, 203)])
def test_a_session_comes_out_as_it_went_in(chunks: int, states: int) -> None:
    before = session(chunks, states)
    after = handover._joined(list(handover._pieces(before)))
    for field in fields(Played):
        if field.name in ("user", "received", "sent"):
            continue
        assert getattr(after, field.name) == getattr(before, field.name), field.name
    np.testing.assert_array_equal(after.user, before.user)
    empty = [np.zeros(0, np.float32)]
    np.testing.assert_array_equal(np.concatenate(empty + after.received),
                                  np.concatenate(empty + before.received))
    np.testing.assert_array_equal(np.concatenate(empty + after.sent),
                                  np.concatenate(empty + before.sent))


def write_elsewhere(played: Played, *args: Any) -> Any:
    async def main() -> Any:
        with SessionWriter() as writer:
            await writer.start()
            return await writer.write(*args, played)

    return asyncio.run(main())


def test_the_other_process_writes_the_same_bytes(tiny_suite: Path, tmp_path: Path) -> None:
    built = load_built(tiny_suite)
    case, = (c for c in built.cases if c.case_id == CASE)
    facts = adapter_facts(kit.stub(kit.nothing, capabilities=Capabilities(
        full_duplex=True, persona_prompt=True)))
    here, there = RunFolder(tmp_path / "here"), RunFolder(tmp_path / "there")
    for run in (here, there):
        run.rec_dir.mkdir(parents=True)
    played = session(411, 203)
    about = (case, built.streams[case.stream_id], 1, 7, facts)
    write_session(here, *about, played, "real")
    assert write_elsewhere(played, there, *about).void_reason is None
    assert kit.files(there.path) == kit.files(here.path) != {}

    late = replace(played, late_ns=[50_000_000] * len(played.late_ns))
    reason = write_elsewhere(late, there, case, built.streams[case.stream_id], 2, 7, facts)
    assert "late" in reason.void_reason
    assert kit.files(there.path) == kit.files(here.path)


def test_a_writer_that_dies_is_replaced_and_the_session_written(
    tiny_suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = load_built(tiny_suite)
    case, = (c for c in built.cases if c.case_id == CASE)
    facts = adapter_facts(kit.stub(kit.nothing, capabilities=Capabilities(
        full_duplex=True, persona_prompt=True)))
    run = RunFolder(tmp_path / "run")
    run.rec_dir.mkdir(parents=True)
    monkeypatch.setattr(handover, "_write", kit.end_this_process_once)
    written = write_elsewhere(session(3, 3), run, case, built.streams[case.stream_id], 1, 7, facts)
    assert written.void_reason is None
    assert run.read_record(CASE, 1).recorded_n == 20 * RATE
    assert (run.path / "died").exists()


def test_a_writer_that_dies_again_is_an_infrastructure_error(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    # The function that is sent to the process is the one that ends it.
    monkeypatch.setattr(handover, "_write", kit.end_this_process)
    with pytest.raises(InfrastructureError, match="a worker process died"):
        write_elsewhere(session(1, 1), *[None] * 6)
