"""What the known peer and its adapter say to each other over a WebSocket.

Text messages are JSON objects with a `type`; audio is binary. Client to peer: one `open`, then
user audio, PCM16 little endian at 24 kHz, 20 ms (960 bytes) a message. Peer to client: `ready`,
then `response_started`, `text`, `response_done`, `frames`, `truth`, and audio as one byte
`AUDIO_MARK`, the number of the response as four bytes little endian, and PCM16.

Times of `frames` and `truth` are readings of the peer's own clock, `time.perf_counter_ns`. On Linux
and macOS every process of a machine reads the same clock with it (CLOCK_MONOTONIC,
mach_absolute_time), on Windows as well (QueryPerformanceCounter); across machines nothing holds.
"""

from __future__ import annotations

import math
import struct
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

import numpy as np

from audio.buffers import Float32, float_to_pcm16, pcm16_to_float
from audio.errors import InputError

VERSION = 1
FRAME_N = 480
"""20 ms at 24 kHz, both ways."""
FRAME_BYTES = 2 * FRAME_N
AUDIO_MARK = 1
"""No JSON text begins with this byte."""
FRAMES_A_MESSAGE = 50
"""Times of received frames are reported once a second."""
MAX_RESPONSES = 1_000_000

AgentKind = Literal["reply", "hold", "backchannel", "silent"]
AGENT_KINDS: tuple[AgentKind, ...] = get_args(AgentKind)

_HEAD = struct.Struct("<BI")
_BOUNDS = {"latency_s": (0.02, 10.0), "reply_s": (0.3, 60.0), "yield_s": (0.02, 5.0),
           "backchannel_s": (0.1, 2.0), "delay_ms": (0.0, 2000.0)}


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What the peer does in one session. Raises `InputError` for a value out of its bounds."""

    agent: AgentKind = "reply"
    latency_s: float = 0.7
    """From the last sound of the user to the first of the agent."""
    reply_s: float = 1.5
    yield_s: float = 0.2
    """`hold`: from the first sound of a barge-in to the last of the agent."""
    backchannel_s: float = 0.32
    delay_ms: float = 0.0
    """Added to everything that is sent, behind the back of the peer's own log."""

    def __post_init__(self) -> None:
        if self.agent not in AGENT_KINDS:
            raise InputError.expected("one of " + ", ".join(AGENT_KINDS), got=repr(self.agent),
                                      where="agent")
        for name, (low, high) in _BOUNDS.items():
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not math.isfinite(value) or not low <= value <= high:
                raise InputError.expected(f"a number from {low:g} to {high:g}", got=repr(value),
                                          where=name)

    @classmethod
    def bounds(cls, name: str) -> tuple[float, float]:
        """Inclusive bounds of a number."""
        return _BOUNDS[name]

    @classmethod
    def of(cls, value: object) -> Behaviour:
        """From the object of an `open` message. Raises `InputError` for anything else."""
        known = {f.name for f in fields(cls)}
        if not isinstance(value, dict) or set(value) - known:
            raise InputError.expected("an object with " + ", ".join(sorted(known)),
                                      got=repr(value)[:100], where="behaviour")
        return cls(**value)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)


def pack_user(frame: Float32) -> bytes:
    """20 ms of user audio, float32 `(480,)`, as a message. Raises `ValueError` otherwise."""
    if frame.shape != (FRAME_N,):
        raise ValueError(f"expected a frame of shape ({FRAME_N},), got {frame.shape}")
    return float_to_pcm16(frame).astype("<i2").tobytes()


def unpack_user(data: bytes) -> Float32:
    """The reverse. Raises `ValueError` for another length."""
    if len(data) != FRAME_BYTES:
        raise ValueError(f"expected {FRAME_BYTES} bytes of user audio, got {len(data)}")
    return pcm16_to_float(np.frombuffer(data, dtype="<i2").astype(np.int16))


def pack_audio(response: int, samples: Float32) -> bytes:
    """Audio of response number `response`, float32 `(n,)`, as a message."""
    return _HEAD.pack(AUDIO_MARK, response) + float_to_pcm16(samples).astype("<i2").tobytes()


def unpack_audio(data: bytes) -> tuple[int, Float32]:
    """The reverse. Raises `ValueError` for a message that is none."""
    if len(data) < _HEAD.size or data[0] != AUDIO_MARK or (len(data) - _HEAD.size) % 2:
        raise ValueError(f"expected a message of PCM16 audio, got {len(data)} bytes that are none")
    _, response = _HEAD.unpack_from(data)
    if not 0 < response <= MAX_RESPONSES:
        raise ValueError(f"expected a response number from 1 to {MAX_RESPONSES}, got {response}")
    samples = np.frombuffer(data, dtype="<i2", offset=_HEAD.size).astype(np.int16)
    return int(response), pcm16_to_float(samples)
