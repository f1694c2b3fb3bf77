"""Plays scenarios of a loopback server to an adapter, through the real orchestrator on the real
clock, and says whether the three kinds of trouble end as they must.

Transparent trouble leaves what is measured as in the undisturbed session; trouble of the connection
or the provider ends the session with its cause; behaviour is recorded. All sessions of a suite run
once, some at a time; each test looks at its own.
"""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import logging
import os
import re
import socket
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import pytest
import stalls
from faults import AT_ONCE
from realtime_server import Conversation, RealtimeServer

from adapters import registry
from adapters.base import SessionConfig
from audio.buffers import float_to_pcm16
from audio.timebase import n_to_ns, s_to_ns
from audio.vad import VadSettings
from rig.clock import loop_factory
from rig.orchestrator import Played, SessionFailedError, play
from rig.playout import Arrival, Interruption, place
from rig.record import (
    AudioEvent,
    FaultEvent,
    InterruptedEvent,
    ResponseDoneEvent,
    ResponseStartedEvent,
    TextEvent,
)
from rig.recorder import heard_track, hold_placements
from rig.schedule import Bounds, Plan

KEY = "sk-conformance-0123456789-abcdefghijklm"
RATE_HZ = 24_000
BOUNDS = Bounds(turn1_reply_s=2.0, settle_s=0.1, tail_s=0.1, turn2_reply_s=1.5, trailing_s=0.2,
                onset_s=1.0, after_window_s=0.1)
TOLERANCE_NS = 150_000_000
"""Between two runs of the same session, on a machine that keeps its deadlines."""
SAMPLE_NS = 41_667


def speech(seed: int, seconds: float = 0.4) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.2, 0.2, round(seconds * RATE_HZ)).astype(
        np.float32)


PLAN = Plan(turn1=speech(1), turn2=speech(2), window_end_s=0.3)
PROMPT = "Be brief: señal."


@dataclass(frozen=True)
class Subject:
    """The adapter that is put to the test, and how it is set; `changed` by scenario."""

    adapter: str
    key_variable: str
    settings: dict[str, str]
    changed: dict[str, dict[str, str]] = field(default_factory=dict)
    bounds: Bounds = BOUNDS


@dataclass
class Result:
    played: Played | None
    failure: SessionFailedError | None
    lasted_s: float
    conversation: Conversation | None
    rate_hz: int = RATE_HZ

    def of(self, kind: type) -> list[Any]:
        played = self.played or (self.failure.played if self.failure else None)
        return [e for e in (played.events if played else []) if isinstance(e, kind)]

    @property
    def audio(self) -> dict[str | None, bytes]:
        """What each response sounded like, as PCM16."""
        assert self.played is not None
        out: dict[str | None, bytes] = {}
        for event, samples in zip(self.of(AudioEvent), self.played.received, strict=True):
            assert event.n == len(samples)
            out[event.response_id] = out.get(event.response_id, b"") + float_to_pcm16(
                samples).astype("<i2").tobytes()
        return out

    @property
    def text(self) -> dict[str | None, str]:
        out: dict[str | None, str] = {}
        for event in self.of(TextEvent):
            out[event.response_id] = out.get(event.response_id, "") + event.text
        return out

    def heard(self, policy: str) -> list[tuple[int, int]]:
        """Stretches without a gap, in nanoseconds of the session."""
        arrivals = [Arrival(e.t_ns, e.n, e.response_id) for e in self.of(AudioEvent)]
        stops = [Interruption(e.t_ns, e.response_id) for e in self.of(InterruptedEvent)]
        runs: dict[int, tuple[int, int]] = {}
        for p in place(arrivals, stops, policy, self.rate_hz):
            start, _ = runs.get(p.run, (p.start_ns, 0))
            runs[p.run] = (start, p.start_ns + n_to_ns(p.n, self.rate_hz))
        return list(runs.values())

    def replies(self, policy: str) -> list[tuple[int, int]]:
        """Onset and sounding length of what is heard, in nanoseconds. A gap counts for nothing
        where the server itself, by its own log, fell so far behind, or this process did."""
        stall_ns = self.server_stall_ns + max([0, *self.played.late_ns])
        out: list[tuple[int, int]] = []
        end_ns = 0
        for a, b in self.heard(policy):
            if out and a - end_ns <= stall_ns:
                out[-1] = out[-1][0], out[-1][1] + b - a
            else:
                out.append((a, b - a))
            end_ns = b
        return out

    @property
    def server_stall_ns(self) -> int:
        """The longest that the server's pieces came too late to be heard without a gap, within a
        reply and by its own clock."""
        longest_ns, end_ns = 0, None
        for t_ns, n in getattr(getattr(self.conversation, "log", None), "audio", ()):
            if end_ns is not None and 0 < t_ns - end_ns < APART_NS:
                longest_ns = max(longest_ns, t_ns - end_ns)
            end_ns = max(t_ns, end_ns or t_ns) + n_to_ns(n, self.rate_hz)
        return longest_ns

    @property
    def void(self) -> bool:
        """Whether the machine was too busy for this session to mean anything."""
        return stalls.void(self.played)

    def tolerance_ns(self, other: Result | None = None) -> int:
        """What may lie between two sessions; more where the last try was void as well."""
        late_ns = max([0, *(max(r.played.late_ns) for r in (self, other or self) if r.void)])
        return TOLERANCE_NS + 4 * late_ns

    @property
    def log(self) -> str:
        played = self.played or (self.failure.played if self.failure else None)
        return "" if played is None else "\n".join(
            e.model_dump_json() for e in played.events)


@asynccontextmanager
async def deaf_peer(answer: bytes) -> AsyncIterator[str]:
    """Takes connections; says `answer` and nothing else."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def one(subject: Subject, name: str, base_url: str, server: RealtimeServer | None,
              bounds: Bounds) -> Result:
    """Play one scenario once."""
    adapter = registry.create(subject.adapter, {
        **subject.settings, "base_url": base_url, "model": name, **subject.changed.get(name, {})})
    config = SessionConfig(case_id="R1-A-1-L2", trial=1, system_prompt=PROMPT, seed=1,
                           settings=adapter.settings)
    began = asyncio.get_running_loop().time()
    played, failure = None, None
    try:
        played = await play(PLAN, adapter, config, vad=VadSettings(), bounds=bounds)
    except SessionFailedError as error:
        failure = error
    lasted_s = asyncio.get_running_loop().time() - began
    met = server.conversations.get(name, []) if server else []
    return Result(played, failure, lasted_s, met[-1] if met else None)


@dataclass
class Suite:
    results: dict[str, Result]
    server: RealtimeServer
    library_log: str
    adapter_facts: str


async def _everything(subject: Subject, served: RealtimeServer, bounds: dict[str, Bounds],
                      library_log: io.StringIO) -> Suite:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"ws://127.0.0.1:{free.getsockname()[1]}/v1"
    gate = asyncio.Semaphore(AT_ONCE)
    results: dict[str, Result] = {}

    async def run(name: str, base_url: str, server: RealtimeServer | None) -> None:
        async with gate:
            for _ in range(stalls.TRIES):
                results[name] = await one(subject, name, base_url, server,
                                          bounds.get(name, subject.bounds))
                if not results[name].void:
                    break

    async with (served.running() as server, deaf_peer(b"") as mute,
                deaf_peer(b"220 mail.example ESMTP\r\n") as mail, asyncio.TaskGroup() as group):
        for name in server.scenarios:
            group.create_task(run(name, server.url_of(name), server))
        for name, url in (("refused", closed), ("mute", mute), ("not_http", mail)):
            group.create_task(run(name, url, None))
        adapter = registry.create(subject.adapter, {"base_url": "ws://127.0.0.1:1/v1"})
    facts = repr((vars(adapter), adapter.settings, adapter.version, adapter.capabilities))
    return Suite(results, server, library_log.getvalue(), facts)


def played_suite(subject: Subject, server: RealtimeServer,
                 bounds: dict[str, Bounds]) -> Iterator[Suite]:
    """Every scenario of `server`, played: the body of a fixture. `bounds` by scenario."""
    library_log = io.StringIO()
    handler = logging.StreamHandler(library_log)
    root = logging.getLogger()
    level = root.level
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(subject.key_variable, KEY)
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
            patch.setenv(name, "http://127.0.0.1:9")  # must not be used for this machine
        root.addHandler(handler)
        root.setLevel(logging.DEBUG)
        # The library's server side logs the requests that it gets; what matters is our side.
        logging.getLogger("websockets.server").setLevel(logging.CRITICAL)
        try:
            with asyncio.Runner(loop_factory=loop_factory("real")) as runner:
                yield runner.run(_everything(subject, server, bounds, library_log))
        finally:
            root.removeHandler(handler)
            root.setLevel(level)
            logging.getLogger("websockets.server").setLevel(logging.NOTSET)


SILENCE_N = 2_400
"""So many zeros in a row are between replies: 0.1 s."""
APART_NS = 500_000_000
"""So far apart are replies, and never the pieces of one."""


def spoken(result: Result, rate_hz: int = RATE_HZ) -> list[tuple[int, bytes]]:
    """Each stretch of the heard track that is not silence: onset in nanoseconds, PCM16."""
    assert result.played is not None
    if not result.played.received:
        return []
    pcm = float_to_pcm16(np.concatenate(result.played.received))
    at_ns = np.concatenate([p.start_ns + np.arange(p.n) * (10**9 / rate_hz)
                            for p in hold_placements(result.played, rate_hz)])
    loud = np.flatnonzero(pcm)
    if not len(loud):
        return []
    apart_ns = np.diff(at_ns[loud])  # a server that streams no silence leaves none to be counted
    cuts = np.flatnonzero((np.diff(loud) > SILENCE_N) | (apart_ns > APART_NS)) + 1
    return [(int(at_ns[run[0]]), pcm[run[0]:run[-1] + 1].astype("<i2").tobytes())
            for run in np.split(loud, cuts)]


def bare(pcm: bytes) -> bytes:
    """Without the silence at both ends."""
    samples = np.frombuffer(pcm, dtype="<i2")
    loud = np.flatnonzero(samples)
    return samples[loud[0]:loud[-1] + 1].tobytes()


def waited_as_it_should(reply: tuple[int, bytes], turn2_ns: int, rate_hz: int = RATE_HZ) -> bool:
    """Whether turn 2 began after a second of silence, as the rig hears it."""
    onset_ns, pcm = reply
    return 1_000_000_000 < turn2_ns - (onset_ns + n_to_ns(len(pcm) // 2, rate_hz)) < 1_600_000_000


def met(suite: Suite, name: str) -> tuple[Result, Conversation]:
    result = suite.results[name]
    assert result.failure is None, result.failure
    assert result.conversation is not None
    return result, result.conversation


def assert_same_responses(result: Result, calm: Result) -> None:
    """Every response sounds, reads, begins and ends as in the calm session, and when it did."""
    assert result.audio == calm.audio
    assert result.text == calm.text
    for kind in (ResponseStartedEvent, ResponseDoneEvent, InterruptedEvent):
        assert [e.model_dump(exclude={"seq", "t_ns"}) for e in result.of(kind)] == [
            e.model_dump(exclude={"seq", "t_ns"}) for e in calm.of(kind)]
    for policy in ("hold", "flush"):
        mine, theirs = result.replies(policy), calm.replies(policy)
        assert len(mine) == len(theirs)
        assert all(abs(a - b) < SAMPLE_NS  # lengths of pieces are rounded to nanoseconds
                   for (_, a), (_, b) in zip(mine, theirs, strict=True))
        assert all(abs(a - b) < result.tolerance_ns(calm)
                   for (a, _), (b, _) in zip(mine, theirs, strict=True))
    assert abs(n_to_ns(result.played.turn2_onset_n - calm.played.turn2_onset_n, RATE_HZ)
               ) < result.tolerance_ns(calm)


CODEC_FLOOR = 0.001
"""What a codec makes of silence is below, and speech above: -60 dB."""
LIKENESS = 0.9
"""Between two recordings of the same reply. One packet in 20 missing takes a twentieth of its
energy: the root of 0.95 is 0.97; the codec goes on from other samples after each."""


def sounding(result: Result, rate_hz: int) -> list[tuple[int, bytes]]:
    """As `spoken`, of the track as it is heard, holes within a reply included: at 24 kHz."""
    assert result.played is not None
    track = heard_track(result.played, rate_hz)
    loud = np.flatnonzero(np.abs(track) > CODEC_FLOOR)
    if not len(loud):
        return []
    cuts = np.flatnonzero(np.diff(loud) > APART_NS * RATE_HZ // 10**9) + 1
    return [(n_to_ns(int(run[0]), RATE_HZ),
             float_to_pcm16(track[run[0]:run[-1] + 1]).astype("<i2").tobytes())
            for run in np.split(loud, cuts)]


def likeness(mine: bytes, theirs: bytes) -> float:
    """The largest correlation coefficient of two sounds over 40 ms either way."""
    a, b = (np.frombuffer(pcm, dtype="<i2").astype(np.float64) for pcm in (mine, theirs))
    n = 1 << (len(a) + len(b)).bit_length()
    products = np.fft.irfft(np.fft.rfft(a, n) * np.conj(np.fft.rfft(b, n)), n)
    near = np.r_[products[:960], products[-960:]]
    return float(near.max() / (np.linalg.norm(a) * np.linalg.norm(b)))


def assert_same_speech(result: Result, calm: Result, later_s: float,
                       rate_hz: int = RATE_HZ, *, by_likeness: bool = False) -> None:
    """The model is heard to say the same in a stream without responses, and when it did."""
    heard = sounding if by_likeness else spoken
    mine, theirs = heard(result, rate_hz), heard(calm, rate_hz)
    if by_likeness:
        rate_hz = RATE_HZ
        assert len(mine) == len(theirs)
        found = [likeness(a, b) for (_, a), (_, b) in zip(mine, theirs, strict=True)]
        assert min(found) > LIKENESS, found
    else:
        assert [pcm for _, pcm in mine] == [pcm for _, pcm in theirs]
    # A sound is heard when its piece is whole: up to the length of one later.
    tolerance_ns = result.tolerance_ns(calm) + s_to_ns(later_s)
    assert abs(mine[0][0] - theirs[0][0]) < tolerance_ns
    # Where its silence begins is the detector's to say, and may be a syllable apart.
    turn2_ns, calm_turn2_ns = (n_to_ns(r.played.turn2_onset_n, RATE_HZ) for r in (result, calm))
    assert waited_as_it_should(mine[0], turn2_ns, rate_hz)
    assert abs(mine[1][0] - turn2_ns - (theirs[1][0] - calm_turn2_ns)) < tolerance_ns
    assert result.text == calm.text


def assert_transparent(suite: Suite, name: str, trace: str | None) -> None:
    """What is measured equals the calm session; the log holds `trace`."""
    calm, (result, _) = suite.results["calm"], met(suite, name)
    assert_same_responses(result, calm)
    assert result.played.flags == calm.played.flags
    assert all(e.severity == "transparent" for e in result.of(FaultEvent))
    assert trace is None or trace in result.log.replace("\\", "")


def assert_ended(suite: Suite, name: str, cause: str) -> None:
    """The session broke off, soon, and says why in one line."""
    result = suite.results[name]
    assert result.failure is not None, result.log
    assert re.search(cause, str(result.failure)), str(result.failure)
    assert "\n" not in str(result.failure)
    assert result.lasted_s < 8.0


def assert_no_websocket(suite: Suite, path: str) -> None:
    """Peers that are none; `path` is where sessions are opened."""
    reasons = {n: str(suite.results[n].failure) for n in ("refused", "mute", "not_http")}
    assert "cannot connect: ConnectionRefusedError: " in reasons["refused"]
    assert reasons["mute"].endswith(f"{path}: no WebSocket within 2 s")
    assert "cannot connect: InvalidMessage: did not receive a valid" in reasons["not_http"]
    assert all(suite.results[n].lasted_s < 4.0 for n in reasons)


class Kept(Protocol):
    """What a suite leaves behind that must not hold the key."""

    library_log: str
    adapter_facts: str

    @property
    def results(self) -> dict[str, Result]: ...


def assert_no_key(suite: Kept) -> None:
    """The key is in no log, no error, no record and no object, and was in use all the while."""
    assert_key_unseen(suite)
    assert KEY in os.environ.values()


def assert_key_unseen(suite: Kept) -> None:
    """The key is in no log, no error, no record and no object."""
    texts = [suite.library_log, suite.adapter_facts]
    for result in suite.results.values():
        texts.append(result.log)
        if result.failure is not None:
            texts.append("".join(traceback.format_exception(result.failure)))
            seen: BaseException | None = result.failure
            while seen is not None:
                texts += [repr(seen), str(vars(seen))]
                seen = seen.__cause__ or seen.__context__
        if result.played is not None:
            texts.append(json.dumps(dataclasses.asdict(
                replace(result.played, events=[], received=[], user=[])), default=str))
    assert len(suite.results) == len({*suite.results})
    whole = "\n".join(texts)
    assert len(whole) > 10_000
    assert KEY not in whole
    assert "Bearer" not in whole
