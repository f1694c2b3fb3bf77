"""Our Pipecat adapter against pipecat-ai 1.14.0 itself, and the example of its page.

Transport, serializer, RTVI, voice activity detection, turns and pacing are theirs
(tests/tools/pipecat_server.py). DUPLEXRIG_PIPECAT_PYTHON names a Python that has it; without one
the tests are skipped, and say so. `make test-peers` installs it.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import subprocess
import wave
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
import stalls
from example_agent import example_of
from live_server import reply_pcm
from pipecat_peer import LIMIT_S, PYTHON, running
from pipecat_proto import decoded
from recorded_tracks import FLUSH_MS, TRACK_MS, compared
from websockets.asyncio.client import connect

from adapters import registry
from adapters.base import SessionConfig
from adapters.simulated import voice
from audio.buffers import float_to_pcm16
from audio.vad import VadSettings
from rig.clock import loop_factory
from rig.orchestrator import Played, play
from rig.playout import Arrival, Interruption, place
from rig.record import (
    AudioEvent,
    FaultEvent,
    InterruptedEvent,
    ResponseDoneEvent,
    ResponseStartedEvent,
    StateEvent,
    TextEvent,
)
from rig.schedule import Bounds, Plan
from rig.selftest import user_turn

pytestmark = [pytest.mark.peer, pytest.mark.skipif(
    not PYTHON, reason="DUPLEXRIG_PIPECAT_PYTHON names no Python that has pipecat-ai 1.14.0; "
                       "make test-peers")]
RATE_HZ = 24_000
REPLY_S, LONG_S = 1.2, 5.0
BOUNDS = Bounds(turn1_reply_s=6.0, turn2_reply_s=5.0, settle_s=0.3, trailing_s=0.3)
SAMPLE_NS = 10**9 // RATE_HZ + 1


@dataclass
class Peer:
    port: int
    out: IO[bytes]
    folder: Path
    url: str = field(init=False)

    def __post_init__(self) -> None:
        self.url = f"ws://127.0.0.1:{self.port}"


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    voice.prepare()
    folder = tmp_path_factory.mktemp("replies")
    with running("pipecat_server.py", folder) as (port, out):
        yield Peer(port, out, folder)


@dataclass
class Met:
    """One session, and what the peer wrote down of it."""

    played: Played
    diary: dict[str, Any]

    def of(self, kind: type) -> list[Any]:
        return [e for e in self.played.events if isinstance(e, kind)]

    @property
    def replies(self) -> list[bytes]:
        """Each reply as it was recorded, without silence at its ends."""
        pcm = float_to_pcm16(np.concatenate(self.played.received)).astype("<i2")
        ends = np.flatnonzero(np.diff([e.t_ns for e in self.of(AudioEvent)]) > 300_000_000) + 1
        cuts = np.cumsum([e.n for e in self.of(AudioEvent)])[ends - 1]
        return [bare(part.tobytes()) for part in np.split(pcm, cuts)]


def bare(pcm: bytes) -> bytes:
    samples = np.frombuffer(pcm, dtype="<i2")
    loud = np.flatnonzero(samples)
    return samples[loud[0]:loud[-1] + 1].tobytes()


def meet(peer: Peer, kind: str, first_s: float = REPLY_S, barge_in_after_s: float | None = None,
         **settings: str) -> Met:
    """Two turns with an agent of this kind; again while the machine was too busy to say much."""
    for number in range(1, 4):
        (peer.folder / f"reply{number}.pcm").write_bytes(
            reply_pcm(number, first_s if number == 1 else REPLY_S))
    adapter = registry.create("pipecat", {"url": f"{peer.url}/{kind}", **settings})
    plan = Plan(turn1=user_turn(1.2, 3), turn2=user_turn(1.2, 4), window_end_s=2.0,
                barge_in_after_s=barge_in_after_s)
    config = SessionConfig(case_id="case", trial=1, system_prompt="Be brief.", seed=1,
                           settings=adapter.settings)
    for _ in range(stalls.TRIES):
        with asyncio.Runner(loop_factory=loop_factory("real")) as loop:
            played = loop.run(play(plan, adapter, config, vad=VadSettings(), bounds=BOUNDS))
        met = Met(played, json.loads(peer.out.readline()))
        if not stalls.void(played):
            break
    return met


def assert_in_time(met: Met) -> None:
    """The track lies where the peer's own clock puts it, and every sample of it came."""
    origin_ns = met.played.origin_ns
    assert origin_ns is not None
    came = [(e.t_ns, e.n) for e in met.of(AudioEvent)]
    sent = [(t_ns - origin_ns, n) for t_ns, n in met.diary["audio"]]
    assert sum(n for _, n in came) == sum(n for _, n in sent)
    lag_ns, place_ns = compared(sent, came, RATE_HZ)
    lag_ms, place_ms = (float(np.percentile(np.abs(v), 95)) / 1e6 for v in (lag_ns, place_ns))
    late_ms, latest_ms = (float(np.percentile(met.played.wake_ns, p)) / 1e6 for p in (95, 99))
    print(f"{met.diary['kind']}: lag p95 {lag_ms:.2f} ms, place p95 {place_ms:.2f} ms, "
          f"own lateness p95 {late_ms:.2f} ms, p99 {latest_ms:.2f} ms")
    assert lag_ns.min() >= 0
    # What this process was late for its own frames, it is late for the peer's as well; and the
    # peer, on the same machine, was as late to hand over what it had stamped. A whole reply is
    # placed by its first piece: one draw of that, where the lag has many.
    assert lag_ms <= TRACK_MS + 2 * late_ms
    assert place_ms <= TRACK_MS + 2 * latest_ms


def spoken_at(met: Met) -> list[tuple[str, float]]:
    """Each word and its place in its reply, in seconds."""
    out = []
    for event in met.of(TextEvent):
        at_n = event.received_n if event.audio_n is None else event.audio_n
        first_n = 0 if not out or len(out) < 4 else round(REPLY_S * RATE_HZ / 960 + 0.4999) * 960
        out.append((event.text.strip(), (at_n - first_n) / RATE_HZ))
    return out


@pytest.mark.parametrize("kind", ["words", "sentences", "wav", "gated"])
def test_two_turns_are_recorded_exactly_and_in_time(peer: Peer, kind: str) -> None:
    met = meet(peer, kind)
    assert met.of(FaultEvent) == []
    assert met.played.flags == set()
    assert met.replies == [bare(reply_pcm(k, REPLY_S)) for k in (1, 2)]
    assert [(e.response_id, e.status) for e in met.of(ResponseDoneEvent)] == [
        ("speech_1", "completed"), ("speech_2", "completed")]
    assert [e.response_id for e in met.of(ResponseStartedEvent)] == ["speech_1", "speech_2"]
    assert met.of(InterruptedEvent) == []
    said = [e.name for e in met.of(StateEvent)]
    assert said.count("user-started-speaking") == said.count("interruption") == 2
    assert_in_time(met)
    # Evenly spread by the voice; by characters where it tells nothing: 6, 2, 4, 4 of 16.
    shares = (0.0, 0.25, 0.5, 0.75) if kind == "words" else (0.0, 6 / 16, 8 / 16, 12 / 16)
    words = spoken_at(met)
    assert [w for w, _ in words] == ["reply1", "is", "this", "one.", "reply2", "is", "this", "one."]
    for (word, at_s), share in zip(words, shares * 2, strict=True):
        # Frames of 40 ms, up to two of them ahead.
        assert at_s == pytest.approx(share * REPLY_S, abs=0.15), (word, at_s)
    # From the first to the last 20 ms, the agent heard what was sent.
    sent_n = len(met.played.user) * 2 // 3
    assert 0 <= sent_n - met.diary["heard_n"] <= 2 * 320


def test_a_barge_in_cuts_the_reply_at_the_agents_word(peer: Peer) -> None:
    met = meet(peer, "words", LONG_S, barge_in_after_s=1.0)
    assert met.of(FaultEvent) == []
    assert met.played.flags == set()
    (stop,) = met.of(InterruptedEvent)
    assert [e.status for e in met.of(ResponseDoneEvent)] == ["interrupted", "completed"]
    assert met.played.origin_ns is not None
    told_ns = [t_ns - met.played.origin_ns for t_ns in met.diary["interruptions"]]
    assert len(told_ns) == 2  # one for each turn of the user
    busy_ms = float(np.percentile(met.played.wake_ns, 95)) / 1e6
    print(f"flush point {(stop.t_ns - told_ns[1]) / 1e6:.2f} ms after the interruption")
    assert 0 <= (stop.t_ns - told_ns[1]) / 1e6 <= FLUSH_MS + busy_ms
    arrivals = [Arrival(e.t_ns, e.n, e.response_id) for e in met.of(AudioEvent)]
    flushed = place(arrivals, [Interruption(stop.t_ns)], "flush", RATE_HZ)
    cut_ns = max(p.start_ns + p.n * 10**9 // RATE_HZ for p in flushed if p.start_ns <= stop.t_ns)
    assert -SAMPLE_NS < stop.t_ns - cut_ns < 50_000_000
    assert met.replies[1] == bare(reply_pcm(2, REPLY_S))
    assert bare(reply_pcm(1, LONG_S)).startswith(met.replies[0][:-4_000])
    assert len(met.replies[0]) < 3 * RATE_HZ * 2
    # Only what was spoken was told.
    assert "reply1 is" in "".join(e.text for e in met.of(TextEvent)).split("reply2")[0]
    assert "one." not in "".join(e.text for e in met.of(TextEvent)).split("reply2")[0]
    assert_in_time(met)


def test_without_rtvi_silence_ends_the_turns_and_an_interruption_still_cuts(peer: Peer) -> None:
    met = meet(peer, "bare", LONG_S, barge_in_after_s=1.0, rtvi="false")
    assert met.of(FaultEvent) == []
    assert len(met.of(InterruptedEvent)) == 1
    assert met.of(ResponseStartedEvent) == met.of(TextEvent) == []
    assert met.replies[1] == bare(reply_pcm(2, REPLY_S))
    assert met.diary["messages"] == []


def test_the_system_prompt_reaches_the_agent(peer: Peer) -> None:
    met = meet(peer, "words", system_prompt="client_request")
    ready, prompt = met.diary["messages"]
    assert ready["type"] == "client-ready"
    assert prompt["data"] == {"t": "system-prompt", "d": {"system_prompt": "Be brief."}}
    assert "server-response" in [e.name for e in met.of(StateEvent)]


@pytest.mark.parametrize("how", ["end", "log"])
def test_an_error_of_a_service_is_told(peer: Peer, how: str) -> None:
    if how == "log":
        met = meet(peer, "error", service_errors="log")
        assert {e.severity for e in met.of(FaultEvent)} == {"transparent"}
        assert "the voice is out of credit" in met.of(FaultEvent)[0].reason
        return
    with pytest.raises(Exception, match=r"reports an error: .*the voice is out of credit"):
        meet(peer, "error")
    peer.out.readline()


def test_arbitrary_bytes_mean_what_the_generated_classes_make_of_them(peer: Peer) -> None:
    """Our codec is compared with the official runtime in the unit tests; the descriptor that is
    used there is Pipecat's."""
    random_ = random.Random(5)
    lines = [random_.randbytes(random_.randrange(12)) for _ in range(300)]
    for kind in range(1, 6):
        for number in range(1, 7):
            for value in (b"\x00", b"\x07", b"\x80\x01", b"\xff\xff\xff\xff\xff\x01"):
                body = bytes([number << 3]) + value
                lines.append(bytes([kind << 3 | 2, len(body)]) + body)
            text = bytes([number << 3 | 2, 2]) + "é".encode()
            lines.append(bytes([kind << 3 | 2, len(text)]) + text)

    async def ask() -> list[Any]:
        async with connect(f"{peer.url}/decode", proxy=None) as socket_:
            await socket_.send("\n".join(line.hex() for line in lines))
            return json.loads(await socket_.recv())

    theirs = asyncio.run(ask())
    assert theirs == [decoded(line) for line in lines]
    assert sum(isinstance(one, dict) for one in theirs) > 100


def test_the_example_of_the_page_completes_a_session(tmp_path: Path) -> None:
    bot = tmp_path / "bot.py"
    bot.write_text(example_of("pipecat"), "utf-8")
    reply = reply_pcm(1, REPLY_S)
    with wave.open(str(tmp_path / "reply.wav"), "wb") as file:
        file.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
        file.writeframes(reply)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [str(Path(PYTHON).absolute()), str(bot), "-t", "websocket", "--host", "127.0.0.1",
         "--port", str(port)],
        cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        asyncio.run(listening(port, server))
        adapter = registry.create("pipecat", {"url": f"ws://127.0.0.1:{port}/ws-client"})
        config = SessionConfig(case_id="case", trial=1, system_prompt="", seed=1,
                               settings=adapter.settings)
        plan = Plan(turn1=user_turn(1.2, 3), turn2=user_turn(1.2, 4), window_end_s=1.0)
        with asyncio.Runner(loop_factory=loop_factory("real")) as loop:
            played = loop.run(play(plan, adapter, config, vad=VadSettings(), bounds=BOUNDS))
    finally:
        server.kill()
        server.wait(LIMIT_S)
    done = [e for e in played.events if isinstance(e, ResponseDoneEvent)]
    assert len(done) >= 2
    sound = float_to_pcm16(np.concatenate(played.received)).astype("<i2").tobytes()
    assert sound == reply * len(done)


async def listening(port: int, server: subprocess.Popen[bytes]) -> None:
    """Until the server takes connections at `port`."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            assert server.poll() is None
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
                continue
            writer.close()
            await writer.wait_closed()
            return
