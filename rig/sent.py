"""What the system is sent: the user's turns at its input rate, through the line conditions if any.

The clean user track stays what it is: channel 0 of the recording, and what every window, barge-in
and verdict is about. What was sent under conditions is kept beside it (`CASE.tK.sent.flac`).
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from adapters.base import Capabilities
from audio.active_level import active_level
from audio.buffers import Float32
from audio.conditions import MIN_ECHO_MS, AnyCondition, Chain, Context, Echo, Line, Noise
from audio.errors import InputError
from audio.files import read_channel
from audio.narrowband import LINE_RATE_HZ
from audio.noise import TALKERS_N, at_unit_level
from audio.resample import resample
from audio.timebase import SESSION_RATE_HZ, convert_n, ns_to_n
from probes.expand import base_stream_id
from probes.manifest import Stream
from rig.schedule import FRAME_N, Plan, mix

CACHED_VOICES_N = 64
"""Voices kept for babble, about 1.5 MB each. Ours."""


class UserAudio(Protocol):
    """Where the orchestrator takes its frames from."""

    def frame(self, k: int, turn2_onset_n: int | None) -> Float32:
        """Frame `k`: the same 20 ms as the schedule's, at the input rate."""
        ...


class WireUser:
    """The user's frames at the system's own input rate.

    The turns are known beforehand, so each is resampled as a whole and placed, sample-exact:
    a streaming resampler would hold back tens of milliseconds and shift what the system hears.
    """

    def __init__(self, plan: Plan, rate_hz: int) -> None:
        self.rate_hz = rate_hz
        self.turn1 = resample(plan.turn1, SESSION_RATE_HZ, rate_hz)
        self.turn2 = resample(plan.turn2, SESSION_RATE_HZ, rate_hz)

    def frame(self, k: int, turn2_onset_n: int | None) -> Float32:
        """Frame `k`: the same 20 ms as the schedule's, at the input rate."""
        return self.samples(*self.frame_n(k), turn2_onset_n)

    def frame_n(self, k: int) -> tuple[int, int]:
        """Where frame `k` lies, in samples at the input rate."""
        return (convert_n(k * FRAME_N, SESSION_RATE_HZ, self.rate_hz),
                convert_n((k + 1) * FRAME_N, SESSION_RATE_HZ, self.rate_hz))

    def samples(self, start_n: int, end_n: int, turn2_onset_n: int | None) -> Float32:
        """What the user says in `[start_n, end_n)`; `turn2_onset_n` is at the session rate."""
        out = np.zeros(end_n - start_n, dtype=np.float32)
        mix(out, start_n, self.turn1, 0)
        if turn2_onset_n is not None:
            mix(out, start_n, self.turn2,
                convert_n(turn2_onset_n, SESSION_RATE_HZ, self.rate_hz))
        return out


@dataclass(frozen=True, slots=True)
class LineFacts:
    """What a record says of the line: conditions as in the fingerprint, and what they came to."""

    rate_hz: int
    conditions: dict[str, dict[str, Any]]
    achieved: dict[str, float | int | None]


class LineUser:
    """The user's frames behind the line conditions of one session. Single use.

    The chain is fed `lead_n` samples ahead, so that its delay moves nothing. Turn 2 is known that
    far ahead unless it begins at the coming frame, unplanned (`forced`, `spoke_over_turn1`, a
    system without a "done"): then its first `lead_n` samples are missing, 2.5 ms at most, which lie
    within the margin of 5 ms before the speech of a turn.
    """

    def __init__(self, conditions: Sequence[AnyCondition], plan: Plan, capabilities: Capabilities,
                 case_id: str, trial: int, voices: Sequence[Path] = ()) -> None:
        """Costs some 0.1 s. Raises `InputError` when a condition cannot be made."""
        rate_hz = capabilities.input_rate_hz
        self._wire = WireUser(plan, rate_hz)
        self.heard = HeardAudio(capabilities.output_rate_hz, rate_hz)
        speech = np.concatenate((self._wire.turn1, self._wire.turn2))
        level = active_level(speech, rate_hz)
        context = Context(
            rate_hz, case_id, trial, None if level is None else level.level_dbov, self.heard,
            lambda: [_voice(path, rate_hz) for path in voices])
        self._conditions = tuple(conditions)
        self._babble = {"babble_conversations": len(voices)} if needs_voices(conditions) else {}
        self._chain = Chain(conditions, context)
        self._chain.prime(self._wire.samples(0, self._chain.lead_n, None))

    def frame(self, k: int, turn2_onset_n: int | None) -> Float32:
        """Frame `k` as the system hears it; in order, each once."""
        start_n, end_n = self._wire.frame_n(k)
        lead_n = self._chain.lead_n
        return self._chain.push(self._wire.samples(start_n + lead_n, end_n + lead_n,
                                                   turn2_onset_n))

    def facts(self) -> LineFacts:
        """What to record of it."""
        return LineFacts(self._wire.rate_hz, conditions_facts(self._conditions),
                         self._chain.achieved() | self._babble)


class HeardAudio:
    """The system's audio as heard, sample by sample, at another rate: what an echo is made of.

    Called with places that never go back. Between rates it interpolates with a windowed sinc that
    looks `LOOK_S` ahead, so nothing is moved; at the same rate samples are copied.
    """

    HALF_N = 16
    """Samples of the lower rate on either side."""
    BETA = 8.0

    def __init__(self, from_hz: int, to_hz: int) -> None:
        self._from_hz = from_hz
        self._pieces: deque[tuple[int, Float32]] = deque()
        whole = math.gcd(from_hz, to_hz)
        self._up, self._down = to_hz // whole, from_hz // whole
        self._half_n = math.ceil(self.HALF_N * max(1.0, from_hz / to_hz))
        self._table = _sinc_table(self._up, self._down, self._half_n, self.BETA)

    def add(self, start_ns: int, samples: Float32) -> None:
        """`samples` at the system's rate are heard from `start_ns` on."""
        self._pieces.append((ns_to_n(start_ns, self._from_hz), samples))

    def __call__(self, start_n: int, n: int) -> Float32:
        """What is heard in `[start_n, start_n + n)` of the other rate; zeros where nothing is."""
        if self._up == self._down:
            return self._window(start_n, n)
        at = np.arange(start_n, start_n + n) * self._down
        first = at // self._up
        reach = np.arange(1 - self._half_n, self._half_n + 1)
        if not n:
            return np.zeros(0, dtype=np.float32)
        begin = int(first[0]) + int(reach[0])
        source = self._window(begin, int(first[-1]) + int(reach[-1]) + 1 - begin)
        near = source[(first - begin)[:, None] + reach[None, :]]
        return np.asarray((near * self._table[at % self._up]).sum(axis=1), dtype=np.float32)

    def _window(self, start_n: int, n: int) -> Float32:
        while self._pieces and self._pieces[0][0] + len(self._pieces[0][1]) <= start_n:
            self._pieces.popleft()
        out = np.zeros(n, dtype=np.float32)
        for at_n, samples in self._pieces:
            if at_n >= start_n + n:
                break
            mix(out, start_n, samples, at_n)
        return out


def _sinc_table(up: int, down: int, half_n: int, beta: float) -> NDArray[np.float64]:
    """One row a phase: weights of the `2 * half_n` samples around a place between two of them."""
    cut = min(1.0, up / down)
    distance = (np.arange(1 - half_n, half_n + 1)[None, :] - (np.arange(up) / up)[:, None])
    inside = np.clip(1 - (distance / half_n) ** 2, 0.0, None)
    weights = cut * np.sinc(cut * distance) * np.i0(beta * np.sqrt(inside)) / np.i0(beta)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@functools.lru_cache(maxsize=CACHED_VOICES_N)
def _voice(path: Path, rate_hz: int) -> Float32:
    samples = resample(read_channel(path, 0), SESSION_RATE_HZ, rate_hz)
    return at_unit_level(samples, rate_hz)


def conditions_facts(conditions: Sequence[AnyCondition]) -> dict[str, dict[str, Any]]:
    """Conditions as run.json and a record hold them: by kind, with the text and every value."""
    out: dict[str, dict[str, Any]] = {}
    for condition in conditions:
        facts = condition.facts()
        text = condition.text
        if isinstance(condition, Noise) and condition.file:
            text = text.replace(condition.file, str(facts["file"]), 1)
        kind = str(facts.pop("kind"))
        out[kind] = {"text": text, **facts}
    return out


def condition_texts(facts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What was given, from the facts, in the order in which it acts."""
    return [str(entry.get("text", kind)) for kind, entry in facts.items()]


def needs_voices(conditions: Sequence[AnyCondition]) -> bool:
    """Whether other people's speech is asked for."""
    return any(isinstance(c, Noise) and c.noise == "babble" for c in conditions)


def other_voices(suite_dir: Path, streams: Mapping[str, Stream], own: str, case_id: str,
                 trial: int) -> tuple[Path, ...]:
    """Turns 2 of other conversations of the suite, for babble behind a case: `TALKERS_N` at most,
    drawn by case and trial alone. Of a stream and the variant that goes on where it ends, one."""
    def rank(stream_id: str) -> bytes:
        return hashlib.sha256(f"{case_id}\0{trial}\0{stream_id}".encode()).digest()

    others = {base_stream_id(s): s for s in sorted(streams, key=rank, reverse=True)
              if base_stream_id(s) != base_stream_id(own)}
    chosen = sorted(others.values(), key=rank)[:TALKERS_N]
    return tuple(suite_dir / streams[s].turn2.path for s in chosen)


def check_conditions(conditions: Sequence[AnyCondition], capabilities: Capabilities,
                     stream_ids: Iterable[str]) -> None:
    """Raises `InputError` for what this system, or a suite of these streams, cannot have."""
    rate_hz = capabilities.input_rate_hz
    if any(isinstance(c, Line) for c in conditions) and rate_hz % LINE_RATE_HZ:
        raise InputError.expected("a system whose input rate is a multiple of 8000 Hz",
                                  got=f"{rate_hz} Hz", where="--condition line")
    least_ms = MIN_ECHO_MS + capabilities.heard_behind_ms
    for echo in (c for c in conditions if isinstance(c, Echo)):
        if echo.delay_ms < least_ms:
            raise InputError.expected(
                f"a delay of at least {least_ms:g} ms for a system that is heard "
                f"{capabilities.heard_behind_ms} ms before it can be told of it", got=echo.text,
                where="--condition")
    if needs_voices(conditions) and len({base_stream_id(s) for s in stream_ids}) < 2:
        raise InputError.expected("a suite with another conversation, whose voice can babble",
                                  got="one conversation", where="--condition noise=babble")
