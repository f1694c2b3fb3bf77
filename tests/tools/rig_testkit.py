"""Helpers of the tests of the whole chain: small built suites with real speech, the command line
in this process, and adapters that misbehave on purpose.

Importable by name (`tests/conftest.py` puts this folder on the path), also from scripts.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import json
import os
import select
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from adapters import registry
from adapters.base import (
    AgentEvent,
    AudioReceived,
    Capabilities,
    Clock,
    Fault,
    Session,
    SessionConfig,
)
from adapters.simulated import voice
from adapters.spec import AdapterSpec, AtATime
from audio.buffers import Float32, float_to_pcm16
from audio.edges import measure_edges, trim
from audio.files import atomic_write_text, sha256_samples, write_wav_pcm16
from probes.built import construction_of_suite
from probes.expand import expand
from probes.loader import load_suite
from probes.manifest import (
    Case,
    Delivery,
    Params,
    SegmentAudio,
    Stream,
    SuiteInfo,
    TurnAudio,
    WindowSpec,
)
from probes.render import build_suite
from rig import handover
from rig.clock import Stopwatch
from rig.recount import aggregates
from rig.scores_model import CaseEntry

RATE_HZ = 24_000
TARGET = "locker four one nine key under the blue mat"

# --- a small suite ------------------------------------------------------------------------------

SHAPES: Mapping[str, tuple[tuple[str, float], ...]] = {
    "pause": (("a", 2.1), ("pause", -2.5), ("b", 1.5)),
    "short_pause": (("a", 2.1), ("pause", -1.5), ("b", 1.5)),
    "barge": (("a", 3.2),),
    "trigger": (("a", 1.5), ("join", -0.05), ("b", 3.0)),
    "quick": (("a", 0.6), ("pause", -0.8), ("b", 0.5)),
}
"""Segments of turn 2: name and seconds; negative seconds are exact silence."""

WINDOWS: Mapping[str, tuple[float, float]] = {
    "pause": (2.1, 4.6), "short_pause": (2.1, 3.6), "barge": (0.0, 3.0), "trigger": (1.5, 4.55),
    "quick": (0.6, 1.4),
}

CELLS: tuple[tuple[str, str, str, str], ...] = (
    ("R1", "C1", "TAKE_TURN", "pause"),
    ("R2", "C1", "LISTEN", "pause"),
    ("R1", "C2", "READBACK", "pause"),
    ("R1", "C3", "YIELD", "barge"),
    ("R7", "C3", "CONTINUE", "barge"),
    ("R8", "B", "ACCEPT_OVERLAP", "barge"),
    ("R1", "C4", "BACKCHANNEL", "short_pause"),
    ("R4", "C4", "NO_BACKCHANNEL", "short_pause"),
    ("R1", "A", "INTERRUPT", "trigger"),
)
"""Role, probe, expected action, shape of turn 2."""


def write_small_suite(folder: Path, actions: Sequence[str] = (), *, level: str = "L2",
                      shape: str | None = None) -> Path:
    """A built suite of one case an action, with short turns of real speech; all nine actions, or
    those named. `shape` is that of every turn 2. The same bytes every time."""
    (folder / "audio").mkdir(parents=True)
    cells = [(*c[:3], shape or c[3]) for c in CELLS if not actions or c[2] in actions]
    streams = {shape: _stream(folder, shape) for shape in dict.fromkeys(c[3] for c in cells)}
    cases = [_case(cell, streams[cell[3]], level) for cell in cells]
    by_id = {s.stream_id: s for s in streams.values()}
    info = SuiteInfo(
        suite="small", suite_version="1", engine={"name": "talk", "version": "1"},
        aligner={"name": "none", "version": "1"},
        construction_sha256=construction_of_suite("small", "1", cases, by_id),
        n_cases=len(cases), n_conversations=len(cases), n_streams=len(streams),
        mean_conversation_s=6.0)
    atomic_write_text(folder / "streams.jsonl", _jsonl(by_id.values()))
    atomic_write_text(folder / "cases.jsonl", _jsonl(cases))
    atomic_write_text(folder / "suite.json", info.model_dump_json(indent=2) + "\n")
    return folder


def _jsonl(models: Any) -> str:
    return "".join(m.model_dump_json() + "\n" for m in models)


def _stream(folder: Path, shape: str) -> Stream:
    def turn(name: str, segments: tuple[tuple[str, float], ...]) -> TurnAudio:
        pieces, placed, at_n = [], [], 0
        for index, (label, seconds) in enumerate(segments):
            n = round(abs(seconds) * RATE_HZ)
            speech = seconds > 0
            pieces.append(float_to_pcm16(voice.talk(seconds, 3 + index).samples) if speech
                          else np.zeros(n, dtype=np.int16))
            placed.append(SegmentAudio(kind="speech" if speech else "silence", name=label,
                                       start_n=at_n, end_n=at_n + n,
                                       text="words" if speech else None))
            at_n += n
        pcm = np.concatenate(pieces)
        path = f"audio/{shape}.{name}.wav"
        write_wav_pcm16(folder / path, pcm, RATE_HZ)
        return TurnAudio(path=path, audio_sha256=sha256_samples(pcm), duration_n=len(pcm),
                         segments=tuple(placed))

    return Stream(stream_id=f"S-{shape}", engine="talk", voice="a",
                  construction_sha256=hashlib.sha256(shape.encode()).hexdigest(),
                  turn1=turn("turn1", (("turn1", 1.6),)), turn2=turn("turn2", SHAPES[shape]))


def _case(cell: tuple[str, str, str, str], stream: Stream, level: str) -> Case:
    role, probe, action, shape = cell
    start_s, end_s = WINDOWS[shape]
    barge = shape == "barge"
    offset_s = stream.turn2.duration_n / RATE_HZ
    readback = action == "READBACK"
    return Case(
        case_id=f"{role}-{probe}-1-{level}", conversation_id=f"{role}-{probe}-1",
        stream_id=stream.stream_id, role=role, probe=probe, probe_id=probe, instance=1,
        level=level, expected_action=action,  # type: ignore[arg-type]
        # Line separators that are none in JSON lines.
        system_prompt=f"You are {role}.\u2028Speak\x85softly.", params=Params(),
        delivery=Delivery(mode="barge_in" if barge else "take_turn",
                          barge_in_after_s=2.0 if barge else None),
        window=(WindowSpec(start_s=0.0, end_s=offset_s + 10.0) if readback
                else WindowSpec(start_s=start_s, end_s=end_s)),
        user_offset_s=offset_s, target_text=TARGET if readback else None,
        readback_from_s=0.0 if readback else None)


# --- the built-in suite, spoken by the agents' own voice -----------------------------------------


@dataclass(frozen=True)
class _Word:
    word: str
    start_n: int
    end_n: int


@dataclass(frozen=True)
class _Rendered:
    samples: Float32
    words: tuple[_Word, ...]
    alignment: str = "uniform"


class TalkEngine:
    """Says something else than it is asked to, at the right length and without a pause: real
    speech at no cost, for tests that need sound and not words."""

    engine: Mapping[str, str] = {"name": "talk", "version": "1"}
    aligner: Mapping[str, str] = {"name": "uniform", "version": "1"}
    voices = ("a",)
    WORD_S = 0.37

    def render(self, text: str, voice_name: str, seed: int) -> _Rendered:
        words = text.split()
        length_s = self.WORD_S * len(words)
        samples = voice.talk(length_s, seed % len(voice.TALK)).samples
        # The cut may fall into a closure; then the segment ends with what is audible before it.
        while len(samples) - measure_edges(samples, RATE_HZ).end_n > 0.01 * RATE_HZ:
            samples, _ = trim(samples, RATE_HZ)
        step_n = len(samples) // len(words)
        return _Rendered(samples, tuple(_Word(w, step_n * i, step_n * (i + 1))
                                        for i, w in enumerate(words)))


def build_talking_suite(folder: Path, wanted: Callable[[Any], bool]) -> Path:
    """The cases of the built-in suite that `wanted` names, rendered by `TalkEngine`."""
    suite = load_suite("dsb-ifeval")
    build_suite(suite, folder, TalkEngine(), select=[c for c in expand(suite) if wanted(c)])
    return folder


def made_once(shared: Path, name: str, build: Callable[[Path], object]) -> Path:
    """`shared/name` as `build` makes it, by whichever process comes first; the others wait for it.
    Where there are no file locks each process makes its own."""
    if os.name != "posix":
        shared = shared.with_name(f"{shared.name}-{os.getpid()}")
    shared.mkdir(exist_ok=True)
    folder, whole = shared / name, shared / f"{name}.whole"
    with (shared / f"{name}.lock").open("w") as lock:
        if os.name == "posix":
            # The lock of a process that was killed is free.
            fcntl: Any = importlib.import_module("fcntl")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            shutil.rmtree(folder, ignore_errors=True)
            build(folder)
            whole.touch()
    return folder


# --- waiting for what other processes do ----------------------------------------------------------

GUARD_S = 900.0
"""No test judges by this: it ends one that would hang for ever, on however busy a machine."""


def wait_until(true: Callable[[], bool], what: str) -> None:
    """Wait for the event itself; `what` says what never came."""
    watch = Stopwatch()
    while not true():
        assert watch.elapsed_s < GUARD_S, what
        select.select([], [], [], 0.02)


def least(measured: Callable[[], float], enough: float) -> float:
    """The least of up to 20 measurements of what a busy machine makes larger and never smaller;
    one that is below `enough` is the last."""
    found = measured()
    for _ in range(19):
        if found < enough:
            break
        found = min(found, measured())
    return found


# --- reading a run folder ------------------------------------------------------------------------


def heed_interrupts() -> None:
    """`preexec_fn` of a child that will get Ctrl-C: where tests run in the background (`... &` in a
    script) SIGINT is ignored, and a child inherits that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def end_this_process(*_: object) -> None:
    """As an out-of-memory killer would. By name, so that it can be sent to a process."""
    os._exit(1)


def end_this_process_once(run: Any, *about: Any) -> Any:
    """The first writer dies, the second one writes."""
    marker = run.path / "died"
    if not marker.exists():
        marker.touch()
        os._exit(1)
    return handover._write(run, *about)


def ledger(run: Path) -> list[dict[str, Any]]:
    """Every line of the ledger; raises when one is not whole."""
    data = (run / "attempts.jsonl").read_bytes()
    assert data.endswith(b"\n") or not data, "the last line is not whole"
    return [json.loads(line) for line in data.splitlines()]


def done(run: Path) -> set[str]:
    return {line["case_id"] for line in ledger(run) if line["status"] == "done"}


def files(folder: Path) -> dict[str, bytes]:
    """Content of every file below a folder, by relative path; empty when there is no folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*"))
            if p.is_file()}


def scores(run: Path) -> dict[str, Any]:
    found = json.loads((run / "scores.json").read_text())
    assert isinstance(found, dict)
    return found


def write_scores(run: Path, document: dict[str, Any]) -> None:
    """Cases that a test changed, with the rates, latencies and flags that follow from them."""
    cases = [CaseEntry.model_validate(case) for case in document["cases"]]
    (run / "scores.json").write_text(json.dumps({**document, **aggregates(cases)}))


def outcomes(run: Path) -> dict[str, str]:
    return {case["case_id"]: case["outcome"] for case in scores(run)["cases"]}


# --- adapters made for a test --------------------------------------------------------------------

Behaviour = Callable[["StubSession", Float32], Any]


@dataclass
class StubSession:
    """A session that a test writes: `on_frame` is called with every frame of user audio."""

    config: SessionConfig
    clock: Clock
    on_frame: Callable[[StubSession, Float32], Any]
    on_cue: Callable[[StubSession, str], Any] | None = None
    queue: asyncio.Queue[AgentEvent | BaseException | None] = field(default_factory=asyncio.Queue)
    frames: int = 0
    state: dict[str, Any] = field(default_factory=dict)

    @property
    def now_ns(self) -> int:
        return self.clock.now_ns()

    def emit(self, *events: AgentEvent | BaseException | None) -> None:
        """Give events to the rig; an exception is raised out of `events`, `None` ends them."""
        for event in events:
            self.queue.put_nowait(event)

    async def send(self, frame: Float32) -> None:
        self.frames += 1
        answer = self.on_frame(self, frame)
        if asyncio.iscoroutine(answer):
            await answer

    async def events(self) -> AsyncIterator[AgentEvent]:
        while (event := await self.queue.get()) is not None:
            if isinstance(event, BaseException):
                raise event
            yield event

    def cue(self, name: str) -> None:
        if self.on_cue is not None:
            self.on_cue(self, name)


@dataclass
class StubAdapter:
    """An adapter around a function that makes its sessions."""

    open: Callable[[SessionConfig, Clock], AbstractAsyncContextManager[Session]]
    capabilities: Capabilities = field(default_factory=lambda: Capabilities(
        full_duplex=True, persona_prompt=True, reports_response_done=True,
        transcript="response"))
    name: str = "stub"
    version: str = "1"
    settings: dict[str, Any] = field(default_factory=dict)
    at_a_time: AtATime | None = None

    def session(self, config: SessionConfig, clock: Clock) -> AbstractAsyncContextManager[Session]:
        return self.open(config, clock)


def stub(on_frame: Callable[[StubSession, Float32], Any],
         on_cue: Callable[[StubSession, str], Any] | None = None,
         capabilities: Capabilities | None = None) -> StubAdapter:
    """A well-behaved adapter whose sessions do what `on_frame` says."""

    @asynccontextmanager
    async def opened(config: SessionConfig, clock: Clock) -> AsyncIterator[Session]:
        session = StubSession(config, clock, on_frame, on_cue)
        yield session
        session.emit(None)

    return StubAdapter(opened) if capabilities is None else StubAdapter(opened, capabilities)


def register(name: str, adapter: StubAdapter, patch: Callable[[dict[str, str], str, str], Any],
             namespace: Any) -> None:
    """Make an adapter known under `name`: `patch(mapping, key, value)` sets the entry."""
    adapter.name = name
    spec = AdapterSpec(name, "made for a test", adapter.capabilities, lambda _settings: adapter,
                       at_a_time=adapter.at_a_time)
    attribute = f"SPEC_{name.upper()}"
    setattr(namespace, attribute, spec)
    patch(registry._WHERE, name, f"{namespace.__name__}:{attribute}")


def nothing(session: StubSession, frame: Float32) -> None:
    """What a silent stub does with a frame."""


def tone(n: int, level: float = 0.1) -> Float32:
    return (level * np.sin(np.arange(n) * 2 * np.pi * 200 / RATE_HZ)).astype(np.float32)


def _at(session: StubSession, second: float) -> bool:
    return session.frames == round(second * 50)


async def _forever() -> None:
    await asyncio.Event().wait()


def _emits(make: Callable[[StubSession], AgentEvent | BaseException | None]) -> Behaviour:
    def on_frame(session: StubSession, frame: Float32) -> None:
        if _at(session, 2.0):
            session.emit(make(session))
    return on_frame


def _raises(error: BaseException) -> Behaviour:
    def on_frame(session: StubSession, frame: Float32) -> None:
        if _at(session, 2.0):
            raise error
    return on_frame


def _sends(samples: Any, t_ns: Callable[[StubSession], int] = lambda s: s.now_ns) -> Behaviour:
    return _emits(lambda s: AudioReceived(t_ns(s), samples))


def _nan() -> Float32:
    samples = tone(480)
    samples[7] = np.nan
    return samples


def _blocks(session: StubSession, frame: Float32) -> Any:
    return _forever() if session.frames >= 100 else None


FAULTS: Mapping[str, tuple[Behaviour, str]] = {
    "raises in send": (_raises(RuntimeError("no more frames")),
                       "sending failed: RuntimeError: no more frames"),
    "own timeout in send": (_raises(TimeoutError("slow peer")), "sending failed: TimeoutError"),
    "cancels itself in send": (_raises(asyncio.CancelledError()), "sending failed: Cancelled"),
    "raises in events": (_emits(lambda s: ConnectionResetError(104, "peer reset")),
                         "receiving failed: ConnectionResetError"),
    "cancels itself in events": (_emits(lambda s: asyncio.CancelledError()),
                                 "receiving failed: Cancelled"),
    "ends its events early": (_emits(lambda s: None), "ended before the schedule did"),
    "says so": (_emits(lambda s: Fault(s.now_ns, "infrastructure", "429: slow down")),
                "429: slow down"),
    "sends NaN": (_sends(_nan()), "non-finite samples"),
    "sends infinity": (_sends(np.full(480, np.inf, dtype=np.float32)), "non-finite samples"),
    "sends PCM16 numbers as floats": (_sends(tone(480) * 32768), "full scale"),
    "sends float64": (_sends(tone(480).astype(np.float64)), "float32"),
    "sends two channels": (_sends(np.zeros((480, 2), dtype=np.float32)), "float32"),
    "stamps audio before the session": (_sends(tone(480), lambda s: -5), "stamped"),
    "stamps audio in the future": (_sends(tone(480), lambda s: s.now_ns + 10**9), "stamped"),
    "never reads": (_blocks, "had not ended after"),
}
"""Ways to break a session two seconds into it, and what the reason must say."""


def faulty(kind: str, broken_cases: frozenset[str], *, first_attempts_only: Path | None = None,
           ) -> StubAdapter:
    """Silent in every case but those named, which break as `kind` says.

    With `first_attempts_only` (a folder) a case breaks the first time and never again, whatever
    process plays it.
    """
    @asynccontextmanager
    async def opened(config: SessionConfig, clock: Clock) -> AsyncIterator[Session]:
        breaks = config.case_id in broken_cases
        if breaks and first_attempts_only is not None:
            mark = first_attempts_only / config.case_id
            breaks = not mark.exists()
            mark.touch()
        if breaks and kind == "raises on opening":
            raise ConnectionRefusedError(111, "nobody listens")
        if breaks and kind == "hangs on opening":
            await _forever()
        behaviour = FAULTS[kind][0] if breaks and kind in FAULTS else nothing
        def cued(session: StubSession, name: str) -> None:
            if breaks and kind == "raises in cue" and name == "turn2_start":
                raise KeyError(name)
        session = StubSession(config, clock, behaviour, cued)
        yield session
        session.emit(None)
        if breaks and kind == "raises on closing":
            raise ConnectionResetError(104, "peer reset")
        if breaks and kind == "hangs on closing":
            await _forever()

    return StubAdapter(opened)


def frames_of(samples: Float32, n: int = 480) -> Iterator[Float32]:
    for start in range(0, len(samples), n):
        yield samples[start : start + n]
