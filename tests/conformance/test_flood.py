"""An agent that sends its audio byte by byte: all of it is recorded, and a session that is late
says whose doing that was."""

from __future__ import annotations

import asyncio
import json

import numpy as np
from websockets.asyncio.server import ServerConnection, serve

from adapters import registry
from adapters.base import SessionConfig
from adapters.simulated import voice
from audio.buffers import float_to_pcm16
from audio.vad import VadSettings
from rig.clock import loop_factory, punctual
from rig.event_log import MAX_TOLD
from rig.flow import FLOOD_PER_S, FLOODED
from rig.live import LiveDetection
from rig.orchestrator import Played, play
from rig.record import AudioEvent, FaultEvent
from rig.recorder import certificate
from rig.schedule import Bounds, Plan
from rig.selftest import user_turn

N = 20_000
"""Bytes, each in a frame of its own."""
BOUNDS = Bounds(turn1_reply_s=1.0, settle_s=0.1, tail_s=0.1, turn2_reply_s=1.0, trailing_s=0.2,
                onset_s=1.0, after_window_s=0.2)


async def agent(socket: ServerConnection) -> None:
    json.loads(await socket.recv())
    frames = 0
    async for message in socket:
        frames += isinstance(message, bytes)
        if frames == 25 and isinstance(message, bytes):
            for first in range(0, N, 500):
                socket.transport.write(b"".join(bytes([0x82, 1, k % 251])
                                                for k in range(first, first + 500)))
                await asyncio.sleep(0)


async def session() -> Played:
    voice.prepare()
    async with serve(agent, "127.0.0.1", 0, ping_interval=None, compression=None) as server:
        port = server.sockets[0].getsockname()[1]
        adapter = registry.create("raw_pcm", {"url": f"ws://127.0.0.1:{port}"})
        plan = Plan(turn1=user_turn(1.0, 3), turn2=user_turn(0.8, 4), window_end_s=1.0)
        with LiveDetection() as live, punctual():
            return await play(plan, adapter, SessionConfig("R1-A-1-L2", 1, "", 1, adapter.settings),
                              vad=VadSettings(), bounds=BOUNDS, live=live)


def test_audio_byte_by_byte_is_recorded_whole_and_told_in_few_lines() -> None:
    with asyncio.Runner(loop_factory=loop_factory("real")) as loop:
        played = loop.run(session())
    expected = np.frombuffer(bytes(k % 251 for k in range(N)), dtype="<i2")
    assert np.array_equal(float_to_pcm16(np.concatenate(played.received)), expected)
    assert [e.n for e in played.events if isinstance(e, AudioEvent)] == [1] * (N // 2)
    faults = [e.reason for e in played.events if isinstance(e, FaultEvent)]
    split = "a binary frame splits a sample: its first byte waits for the next"
    assert faults == [split] * MAX_TOLD + [f"{split} (and {N // 2 - MAX_TOLD} more)"]
    assert (played.events_per_s or 0) >= FLOOD_PER_S
    timing = certificate(played, 24_000, None)
    assert timing.void_reason is None or FLOODED in timing.void_reason
