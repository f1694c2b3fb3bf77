"""The WebRTC adapter against agents that others wrote, and against the example of its page.

- pipecat-ai 1.14.0 with its SmallWebRTC transport (tests/tools/pipecat_webrtc.py):
  DUPLEXRIG_PIPECAT_PYTHON names a Python that has it; `make test-peers` installs it.
- the example of docs/adapters/webrtc.md: the extras `webrtc` and `peers`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import pytest
from example_agent import running_example
from live_server import reply_pcm
from pipecat_peer import running
from test_webrtc import CODEC_MS, JITTER_MS, TRACK_MS, Result, delay_ms

from adapters import registry
from adapters.base import SessionConfig
from adapters.simulated import voice
from audio.resample import resample
from audio.vad import VadSettings
from rig.clock import loop_factory, punctual
from rig.live import LiveDetection
from rig.orchestrator import Played, play
from rig.record import (
    FaultEvent,
    InterruptedEvent,
    ResponseDoneEvent,
    ResponseStartedEvent,
    StateEvent,
    TextEvent,
)
from rig.schedule import Bounds, Plan
from rig.selftest import user_turn

pytestmark = pytest.mark.peer
BOUNDS = Bounds(turn1_reply_s=6.0, turn2_reply_s=5.0, settle_s=0.3, trailing_s=0.3)


@pytest.fixture(autouse=True, scope="module")
def _installed() -> None:
    pytest.importorskip("aiortc", reason="the extra `webrtc` is not installed")


def session(url: str, **settings: str) -> Played:
    voice.prepare()
    adapter = registry.create("webrtc", {"url": url, **settings})
    config = SessionConfig("R1-A-1-L2", 1, "Be brief.", 1, adapter.settings)
    plan = Plan(turn1=user_turn(1.0, 3), turn2=user_turn(0.8, 4), window_end_s=1.0)
    with punctual(), LiveDetection() as live, asyncio.Runner(
            loop_factory=loop_factory("real")) as loop:
        return loop.run(play(plan, adapter, config, vad=VadSettings(), bounds=BOUNDS, live=live))


@dataclass
class Peer:
    port: int
    out: IO[bytes]
    folder: Path

    def meet(self, *replies_s: float, **settings: str) -> Result:
        for number, seconds in enumerate(replies_s, 1):
            (self.folder / f"reply{number}.pcm").write_bytes(reply_pcm(number, seconds))
        played = session(f"http://127.0.0.1:{self.port}/api/offer", **settings)
        return Result(played, None, 0.0, json.loads(self.out.readline()))


@pytest.fixture(scope="module")
def pipecat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    folder = tmp_path_factory.mktemp("replies")
    with running("pipecat_webrtc.py", folder) as (port, out):
        yield Peer(port, out, folder)


def said_at(result: Result) -> list[tuple[int, np.ndarray]]:
    """Of each reply: when Pipecat's track gave its first sound to aiortc, and the sound, at
    48 kHz."""
    assert result.played is not None
    said = np.array(result.log["said"], dtype=np.float32) / 32768
    sent = [(t - result.played.origin_ns, at) for t, at in result.log["audio"]]
    firsts = [k for k in range(len(sent)) if k == 0 or sent[k][0] - sent[k - 1][0] > 5e8]
    ends = [*(sent[k][1] for k in firsts[1:]), len(said)]
    return [(sent[k][0], resample(said[sent[k][1]:end], 24_000, 48_000))
            for k, end in zip(firsts, ends, strict=True)]


def test_pipecat_holds_a_conversation(pipecat: Peer) -> None:
    result = pipecat.meet(1.2, 0.8, trickle="true")
    assert result.played is not None
    assert result.played.flags == set()
    assert [e for e in result.of(FaultEvent) if e.severity != "transparent"] == []
    assert "".join(e.text for e in result.of(TextEvent)).split() == [
        "reply1", "is", "this", "one.", "reply2", "is", "this", "one."]
    assert len(result.of(ResponseStartedEvent)) == len(result.of(ResponseDoneEvent)) == 2
    assert "bot-ready" in {e.name for e in result.of(StateEvent)}
    assert result.of(InterruptedEvent) == []
    track = result.track()
    replies = said_at(result)
    assert [round(len(said) / 48_000, 1) for _, said in replies] == [1.2, 0.8]
    for sent_ns, said in replies:
        found_ms, likeness = delay_ms(track, said, sent_ns)
        assert likeness > 0.9
        # Its frames have 10 ms and 24 kHz; aiortc makes 20 ms at 48 kHz of two, some ms later.
        assert 0 < found_ms - JITTER_MS - CODEC_MS < 20 + TRACK_MS


def test_pipecat_is_interrupted(pipecat: Peer) -> None:
    result = pipecat.meet(9.0, 0.8)
    (stop,) = result.of(InterruptedEvent)
    assert result.of(ResponseDoneEvent)[0].status == "interrupted"
    (_, first), (second_ns, _) = said_at(result)
    assert len(first) < 8.5 * 48_000
    assert stop.t_ns < second_ns
    assert "turn1_overrun" in result.played.flags


def test_the_example_of_the_page_is_an_agent() -> None:
    pytest.importorskip("aiohttp", reason="the extra `peers` is not installed")
    with running_example("webrtc") as url:
        played = session(f"{url.replace('ws://', 'http://')}/api/offer", data_channel="false")
    assert [e for e in played.events if isinstance(e, FaultEvent)] == []
    # It says back what it hears, at once.
    result = Result(played, None, 0.0)
    track = result.track()
    for start_n, end_n in ((0, played.turn1_end_n), (played.turn2_onset_n, played.turn2_end_n)):
        said = resample(played.user[start_n:end_n], 24_000, 48_000)
        found_ms, likeness = delay_ms(track, said, start_n * 10**9 // 24_000)
        assert likeness > 0.7  # twice through the codec, and the agent's buffer
        assert 0 < found_ms < 245
