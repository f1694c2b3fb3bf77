"""Our Twilio caller against agents, and our example agent against a caller, that others wrote.

- pipecat-ai 1.14.0 (tests/tools/pipecat_twilio.py): DUPLEXRIG_PIPECAT_PYTHON names a Python that
  has it; `make test-peers` installs it.
- streamdouble 0.3.0 plays Twilio to the example of docs/adapters/twilio.md: the extra `peers`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
import soundfile
import stalls
from agent_server import from_mu_law
from example_agent import likeness, running_example
from live_server import reply_pcm
from pipecat_peer import LIMIT_S, running
from recorded_tracks import FLUSH_MS, TRACK_MS, compared

from adapters import registry
from adapters.base import SessionConfig
from adapters.simulated import voice
from adapters.wire.twilio import Sids
from audio import g711
from audio.buffers import float_to_pcm16
from audio.resample import resample
from audio.vad import VadSettings
from rig.clock import loop_factory
from rig.orchestrator import Played, play
from rig.playout import Arrival, Interruption, place
from rig.record import AudioEvent, FaultEvent, InterruptedEvent
from rig.schedule import Bounds, Plan
from rig.selftest import user_turn

pytestmark = pytest.mark.peer
RATE_HZ = 8_000
REPLY_S, LONG_S = 1.2, 5.0
BOUNDS = Bounds(turn1_reply_s=6.0, turn2_reply_s=5.0, settle_s=0.3, trailing_s=0.3)


@dataclass
class Peer:
    port: int
    out: IO[bytes]
    folder: Path


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    voice.prepare()
    folder = tmp_path_factory.mktemp("replies")
    with running("pipecat_twilio.py", folder) as (port, out):
        yield Peer(port, out, folder)


@dataclass
class Met:
    """One session, and what the peer wrote down of it."""

    played: Played
    diary: dict[str, Any]

    def of(self, kind: type) -> list[Any]:
        return [e for e in self.played.events if isinstance(e, kind)]

    @property
    def busy_ms(self) -> float:
        return float(np.percentile(self.played.wake_ns, 95)) / 1e6


def meet(peer: Peer, first_s: float = REPLY_S, barge_in_after_s: float | None = None) -> Met:
    """Two turns with the agent; again while the machine was too busy to say much."""
    for number in range(1, 4):
        (peer.folder / f"reply{number}.pcm").write_bytes(
            reply_pcm(number, first_s if number == 1 else REPLY_S))
    adapter = registry.create("twilio", {
        "url": f"ws://127.0.0.1:{peer.port}/ws", "custom_parameters": "tenant=señal",
        "prompt_parameter": "system_prompt"})
    plan = Plan(turn1=user_turn(1.2, 3), turn2=user_turn(1.2, 4), window_end_s=2.0,
                barge_in_after_s=barge_in_after_s)
    config = SessionConfig(case_id="R1-A-1-L2", trial=1, system_prompt="Be brief.", seed=1,
                           settings=adapter.settings)
    for _ in range(stalls.TRIES):
        with asyncio.Runner(loop_factory=loop_factory("real")) as loop:
            played = loop.run(play(plan, adapter, config, vad=VadSettings(), bounds=BOUNDS))
        met = Met(played, json.loads(peer.out.readline()))
        if not stalls.void(played):
            break
    return met


def assert_exact_and_in_time(met: Met) -> None:
    """Every sample that was sent came, as their codec wrote it, and lies where their clock puts
    it."""
    origin_ns = met.played.origin_ns
    assert origin_ns is not None
    came = [(e.t_ns, e.n) for e in met.of(AudioEvent)]
    sent = [(t_ns - origin_ns, n) for t_ns, n in met.diary["audio"]]
    assert sum(n for _, n in came) == sum(n for _, n in sent)
    codes = g711.encode(np.concatenate(met.played.received))
    assert hashlib.sha256(codes).hexdigest() == met.diary["sent"]
    lag_ns, place_ns = compared(sent, came, RATE_HZ)
    lag_ms, place_ms = (float(np.percentile(np.abs(v), 95)) / 1e6 for v in (lag_ns, place_ns))
    print(f"lag p95 {lag_ms:.2f} ms, place p95 {place_ms:.2f} ms, own lateness p95 "
          f"{met.busy_ms:.2f} ms, {len(came)} pieces")
    assert lag_ns.min() >= 0
    assert lag_ms <= TRACK_MS + met.busy_ms
    assert place_ms <= TRACK_MS + met.busy_ms


def assert_reply(samples: np.ndarray, number: int, seconds: float) -> None:
    """It is the reply, through their resampling and mu-law."""
    whole = np.frombuffer(reply_pcm(number, seconds), dtype="<i2").astype(np.float32) / 32_768
    alike, _ = likeness(resample(whole, 24_000, RATE_HZ).astype(float), np.concatenate(
        [samples.astype(float), np.zeros(RATE_HZ)]))
    assert alike > 0.98


def test_pipecat_hears_the_call_and_is_heard(peer: Peer) -> None:
    met = meet(peer)
    assert met.of(FaultEvent) == []
    assert met.played.flags == set()
    sids = Sids.of("R1-A-1-L2", 1)
    diary = met.diary
    assert (diary["kind"], diary["stream_id"], diary["call_id"]) == (
        "twilio", sids.stream, sids.call)
    assert diary["body"] == {"tenant": "señal", "system_prompt": "Be brief."}
    assert_exact_and_in_time(met)
    heard = np.concatenate(met.played.received)
    gaps = np.flatnonzero(np.diff([e.t_ns for e in met.of(AudioEvent)]) > 300_000_000) + 1
    parts = np.split(heard, np.cumsum([e.n for e in met.of(AudioEvent)])[gaps - 1])
    assert len(parts) == 2
    for number, part in enumerate(parts, 1):
        assert_reply(part, number, REPLY_S)
    # What their decoder made of the user's audio is what was sent, sample for sample.
    theirs = np.frombuffer(base64.b64decode(diary["heard"]), dtype="<i2")
    assert diary["unread"] == 0
    sent = resample(met.played.user, 24_000, RATE_HZ)
    n = len(theirs)
    assert 0 <= len(sent) - n <= 2 * 160
    error = theirs.astype(np.float32) / 32_768 - sent[:n]
    assert 10 * np.log10(np.sum(sent[:n]**2) / np.sum(error**2)) > 33.0


def test_pipecat_clears_when_it_is_interrupted(peer: Peer) -> None:
    met = meet(peer, LONG_S, barge_in_after_s=1.0)
    assert met.of(FaultEvent) == []
    assert met.played.origin_ns is not None
    told_ns = [t_ns - met.played.origin_ns for t_ns in met.diary["clears"]]
    stops = [e.t_ns for e in met.of(InterruptedEvent)]
    assert len(stops) == len(told_ns) == 2  # one for each turn of the user
    late_ms = [(a - b) / 1e6 for a, b in zip(stops, told_ns, strict=True)]
    print(f"flush points {late_ms[0]:.2f} and {late_ms[1]:.2f} ms after the word")
    assert all(0 <= ms <= FLUSH_MS + met.busy_ms for ms in late_ms)
    arrivals = [Arrival(e.t_ns, e.n) for e in met.of(AudioEvent)]
    flushed = place(arrivals, [Interruption(t) for t in stops], "flush", RATE_HZ)
    cut_ns = max(p.start_ns + p.n * 125_000 for p in flushed if p.start_ns <= stops[1])
    assert cut_ns <= stops[1] + 125_000 // 2
    assert_exact_and_in_time(met)


def test_a_caller_that_others_wrote_is_answered_by_the_example(tmp_path: Path) -> None:
    if importlib.util.find_spec("streamdouble") is None:
        pytest.skip("streamdouble is not installed: the extra peers")
    voice.prepare()
    caller, reply = tmp_path / "caller.wav", tmp_path / "reply.wav"
    # It sends nothing after its file: the silence in which the agent finds its turn is in it.
    said = resample(np.concatenate([user_turn(1.2, 3), np.zeros(48_000, np.float32)]), 24_000,
                    RATE_HZ)
    soundfile.write(caller, float_to_pcm16(said), RATE_HZ, subtype="PCM_16")
    with running_example("twilio") as url:
        done = subprocess.run(
            [sys.executable, "-c", "import sys; from streamdouble.cli import main; "
             "sys.exit(main())", "call", url, "--audio", str(caller), "--out", str(reply),
             "--json"], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert (told["violations"], told["unknown_events"]) == ([], [])
    assert (told["marks_received"], told["closed_early"]) == (0, False)
    heard, rate_hz = soundfile.read(reply, dtype="float32")
    assert rate_hz == RATE_HZ
    # What was said, through their mu-law, from the first loud frame on.
    alike, at = likeness(heard.astype(float), said.astype(float))
    assert alike > 0.999
    assert at < 0.1 * RATE_HZ
    assert len(heard) > 1.2 * RATE_HZ


def test_libsndfile_and_ours_decode_alike() -> None:
    """The loopback agent's codec is libsndfile's."""
    codes = bytes(range(256))
    np.testing.assert_array_equal(from_mu_law(codes), float_to_pcm16(g711.decode(codes)))
