"""Frames between the rig and the process of a local model: docs/workers.md. No I/O.

Standard library and numpy alone: a worker's script imports this file from its own folder, in an
environment that knows nothing of the rig. Both ends are here, so that they cannot differ.

A message is one byte of kind, the length of what follows (unsigned, 32 bits, little endian), and
that many bytes. Numbers are little endian, audio is float32 at full scale 1.0, text is UTF-8.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]

VERSION = 1
"""Of this protocol. Another one is refused on both ends: nothing is guessed."""
MAX_BYTES = 2 * 1024 * 1024
"""Of a message: 10 s of float32 at 48 kHz. More is a process that writes something else. Ours."""
MAX_SETTINGS_BYTES = 64 * 1024
"""Of the settings of a hello, which every session's record holds. Ours."""
MAX_SETTINGS_DEPTH = 32
"""Objects and lists in one another; what records are written with has a limit, too. Ours."""
MIN_FRAME_S, MAX_FRAME_S = 0.001, 5.0
"""The longest frame known is 1 s (MiniCPM-o), the shortest 80 ms. Of frames of single samples a
session would be hours of messages. Ours."""
MAX_TEXT_CHARS = 20_000
"""Of one frame: far more than anybody says in it. Ours."""
MAX_NAME_CHARS = 200
"""Of a hello's name and version, which every session's record holds. Ours."""
MAX_PROMPT_MS = 86_400_000
"""A day: more is no time. Ours."""
RATES_HZ = (8_000, 48_000)

Transcript = Literal["none", "stream"]

_HEAD = struct.Struct("<BI")
_FRAME = struct.Struct("<I")
_OUT = struct.Struct("<IIII")
_U32 = 2**32 - 1


class ProtocolError(ValueError):
    """The other end did not keep to the protocol."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The worker's first message, when its model is loaded: what it is and how it is fed.

    A frame in and a frame out last equally long; `frame_in_n` samples at `input_rate_hz`.
    `settings`: what decides how it behaves (weights, decoding), for every session's record.
    """

    name: str
    version: str
    input_rate_hz: int
    output_rate_hz: int
    frame_in_n: int
    frame_out_n: int
    full_duplex: bool
    persona_prompt: bool
    transcript: Transcript = "none"
    settings: dict[str, Any] = field(default_factory=dict)
    protocol: int = VERSION

    @property
    def frame_s(self) -> float:
        return self.frame_in_n / self.input_rate_hz


@dataclass(frozen=True, slots=True)
class Reset:
    """A new session: forget everything, take this prompt and this seed. Answered by `Ready`."""

    session: int
    system_prompt: str
    seed: int


@dataclass(frozen=True, slots=True)
class Ready:
    """The session may begin; the prompt has been taken in, in `prompt_ms` of computing."""

    session: int
    prompt_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Frame:
    """What the user said in frame `index`, counted from 0 in each session."""

    index: int
    samples: Float32


@dataclass(frozen=True, slots=True)
class Out:
    """What the model says after it has heard frame `index`: as long, and its text.

    `compute_us`: how long it computed on it; `waiting`: frames that lay unread behind it.
    """

    index: int
    samples: Float32
    text: str = ""
    compute_us: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class WorkerFault:
    """The model failed. `hopeless`: another try can only end in the same way."""

    reason: str
    hopeless: bool = False


@dataclass(frozen=True, slots=True)
class Bye:
    """The rig needs the process no longer."""


DECLARED = ("input_rate_hz", "output_rate_hz", "full_duplex", "persona_prompt", "transcript")
"""Fields of a hello that the rig must know before the worker says them."""

Message = Hello | Reset | Ready | Frame | Out | WorkerFault | Bye

_KINDS: dict[int, type[Message]] = {
    ord("H"): Hello, ord("R"): Reset, ord("Y"): Ready, ord("F"): Frame, ord("O"): Out,
    ord("X"): WorkerFault, ord("B"): Bye,
}
_BYTES = {kind: byte for byte, kind in _KINDS.items()}


def encode(message: Message) -> bytes:
    """One message as bytes. Raises `ProtocolError` for one that is too long or out of range, for
    text that is no `str`, and for samples that are no array of floats of one dimension: a list,
    integers (PCM16 is none of full scale 1.0), a channel beside the time."""
    match message:
        case Frame(index, samples):
            payload = _FRAME.pack(_checked_u32(index, "index")) + _f32(samples)
        case Out(index, samples, text, compute_us, waiting):
            if not isinstance(text, str):
                raise ProtocolError(f"text of frame {index} is {type(text).__name__}, expected str")
            said = text.encode("utf-8", "replace")
            payload = _OUT.pack(_checked_u32(index, "index"), min(compute_us, _U32),
                                min(waiting, _U32), len(said)) + said + _f32(samples)
        case Bye():
            payload = b""
        case _:
            payload = json.dumps(asdict(message), allow_nan=False).encode()
    if len(payload) > MAX_BYTES:
        raise ProtocolError(f"a message of {len(payload)} bytes, expected at most {MAX_BYTES}")
    return _HEAD.pack(_BYTES[type(message)], len(payload)) + payload


class Decoder:
    """Messages out of a stream of bytes, however it is cut. Single use after an error."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Take bytes; give the messages that are complete.

        Raises `ProtocolError` at the first that is none. Holds at most one message back.
        """
        self._buffer += data
        at = 0
        try:
            while len(self._buffer) - at >= _HEAD.size:
                byte, size = _HEAD.unpack_from(self._buffer, at)
                if byte not in _KINDS:
                    shown = bytes(self._buffer[at : at + 40])
                    raise ProtocolError(f"expected a message, got bytes that begin {shown!r}; "
                                        "does the worker print to its standard output?")
                if size > MAX_BYTES:
                    raise ProtocolError(f"a message of {size} bytes, expected at most {MAX_BYTES}")
                if len(self._buffer) - at - _HEAD.size < size:
                    break
                payload = bytes(self._buffer[at + _HEAD.size : at + _HEAD.size + size])
                at += _HEAD.size + size
                yield _decoded(_KINDS[byte], payload)
        finally:
            del self._buffer[:at]

    @property
    def partial_n(self) -> int:
        """Bytes of a message whose end has not come."""
        return len(self._buffer)


def _decoded(kind: type[Message], payload: bytes) -> Message:
    if kind is Bye:
        return Bye()
    if kind is Frame:
        if len(payload) < _FRAME.size:
            raise ProtocolError(f"a frame of {len(payload)} bytes, expected {_FRAME.size} or more")
        return Frame(_FRAME.unpack_from(payload)[0], _samples(payload[_FRAME.size :]))
    if kind is Out:
        return _decoded_out(payload)
    try:
        # As text: given bytes, the module would guess at other encodings.
        found = json.loads(payload.decode(), object_pairs_hook=_without_twins)
    except _TwinError as error:
        raise ProtocolError(f"{kind.__name__}: the key {ascii(error.args[0])[:40]} stands twice in "
                            "an object") from error
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"{kind.__name__}: expected JSON in UTF-8, got {payload[:40]!r}"
                            ) from error
    if not isinstance(found, dict):
        raise ProtocolError(f"{kind.__name__}: expected an object, got {type(found).__name__}")
    return _from_json(kind, found)


class _TwinError(Exception):
    """A key of an object stands there twice: which one is meant?"""


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _TwinError(name)
        found[name] = value
    return found


def _decoded_out(payload: bytes) -> Out:
    if len(payload) < _OUT.size:
        raise ProtocolError(f"an answer of {len(payload)} bytes, expected {_OUT.size} or more")
    index, compute_us, waiting, text_n = _OUT.unpack_from(payload)
    said = payload[_OUT.size : _OUT.size + text_n]
    if len(said) < text_n:
        raise ProtocolError(f"an answer with {text_n} bytes of text, only {len(said)} came")
    try:
        text = said.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"text of frame {index}: expected UTF-8, got {said[:40]!r}") from error
    if len(text) > MAX_TEXT_CHARS:
        raise ProtocolError(f"text of frame {index}: {len(text)} characters, expected at most "
                            f"{MAX_TEXT_CHARS}")
    return Out(index, _samples(payload[_OUT.size + text_n :]), text, compute_us, waiting)


T = TypeVar("T", bound=Message)


def _from_json(kind: type[T], found: dict[str, Any]) -> T:
    """Checked field by field; what a newer worker adds is not known here, and refused."""
    if kind is Hello and found.get("protocol") != VERSION:
        raise ProtocolError(f"the worker speaks protocol {found.get('protocol')!r}, expected "
                            f"{VERSION}")
    expected = {f.name: f for f in fields(kind)}
    if unknown := sorted(set(found) - set(expected)):
        raise ProtocolError(f"{kind.__name__}: unknown field {unknown[0][:40]!r}")
    for name in expected:
        if name in found and not _fits(name, found[name]):
            raise ProtocolError(f"{kind.__name__}: {name} is {ascii(found[name])[:40]}, expected "
                                f"{_EXPECTED[name]}")
    if kind is Hello and (why := _unfit(found.get("settings", {}))) is not None:
        raise ProtocolError(f"Hello: settings {ascii(found['settings'])[:40]}: {why}")
    try:
        message = kind(**found)
    except TypeError as error:
        missing = [n for n in expected if n not in found]
        raise ProtocolError(f"{kind.__name__}: expected the fields {', '.join(missing)}"
                            ) from error
    if isinstance(message, Hello):
        _check_frames(message)
    return message


_EXPECTED = {
    "name": f"text of 1 to {MAX_NAME_CHARS} characters",
    "version": f"text of at most {MAX_NAME_CHARS} characters",
    "reason": "text", "system_prompt": "text",
    "input_rate_hz": f"a whole number from {RATES_HZ[0]} to {RATES_HZ[1]}",
    "output_rate_hz": f"a whole number from {RATES_HZ[0]} to {RATES_HZ[1]}",
    "frame_in_n": "a whole number above 0", "frame_out_n": "a whole number above 0",
    "full_duplex": "true or false", "persona_prompt": "true or false",
    "hopeless": "true or false", "transcript": "none or stream", "settings": "an object",
    "protocol": str(VERSION), "session": "a whole number of 32 bits",
    "seed": "a whole number of 32 bits", "prompt_ms": f"a number from 0 to {MAX_PROMPT_MS}",
}


def _fits(name: str, value: Any) -> bool:
    match _EXPECTED[name]:
        case "text":
            return isinstance(value, str) and _is_text(value)
        case "true or false":
            return isinstance(value, bool)
        case "an object":
            return isinstance(value, dict)
        case "none or stream":
            return value in ("none", "stream")
    if name in ("name", "version"):
        least_n = 0 if name == "version" else 1
        return isinstance(value, str) and _is_text(value) \
            and least_n <= len(value.strip()) and len(value) <= MAX_NAME_CHARS
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if name == "prompt_ms":
        return 0 <= value <= MAX_PROMPT_MS
    if not isinstance(value, int):
        return False
    if name.endswith("_hz"):
        return RATES_HZ[0] <= value <= RATES_HZ[1]
    return (1 if name.startswith("frame_") else 0) <= value <= _U32


def _is_text(value: str) -> bool:
    """Halves of surrogate pairs are none: no file can hold them."""
    return value.encode("utf-8", "ignore").decode() == value


def _unfit(settings: dict[str, Any]) -> str | None:
    """Why settings are no part of a record."""
    try:
        text = json.dumps(settings, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        return "expected finite numbers, and no deep nesting"
    if _depth(settings) > MAX_SETTINGS_DEPTH:
        return f"expected at most {MAX_SETTINGS_DEPTH} objects and lists in one another"
    if not _is_text(text):
        return "expected text, got half of a surrogate pair"
    size_n = len(text.encode())
    return None if size_n <= MAX_SETTINGS_BYTES else (
        f"{size_n} bytes, expected at most {MAX_SETTINGS_BYTES}")


def _depth(value: Any) -> int:
    """Objects and lists in one another, counted to just beyond the limit."""
    depth, level = 0, [value]
    while (level := [v for v in level if isinstance(v, dict | list)]) \
            and depth <= MAX_SETTINGS_DEPTH:
        depth += 1
        level = [v for holder in level
                 for v in (holder.values() if isinstance(holder, dict) else holder)]
    return depth


def _check_frames(hello: Hello) -> None:
    if hello.frame_in_n * hello.output_rate_hz != hello.frame_out_n * hello.input_rate_hz:
        raise ProtocolError(
            f"Hello: {hello.frame_in_n} samples at {hello.input_rate_hz} Hz and "
            f"{hello.frame_out_n} at {hello.output_rate_hz} Hz, expected frames of one length")
    if not MIN_FRAME_S <= hello.frame_s <= MAX_FRAME_S:
        raise ProtocolError(f"Hello: frames of {hello.frame_s:g} s, expected {MIN_FRAME_S:g} to "
                            f"{MAX_FRAME_S:g}")


def _checked_u32(value: int, name: str) -> int:
    if not 0 <= value <= _U32:
        raise ProtocolError(f"{name} is {value}, expected a whole number of 32 bits")
    return value


def _f32(samples: Float32) -> bytes:
    if not isinstance(samples, np.ndarray):
        raise ProtocolError(f"samples are {type(samples).__name__}, expected a numpy array of "
                            "floats of one dimension")
    if samples.dtype.kind != "f" or samples.ndim != 1:
        raise ProtocolError(f"samples are {samples.dtype} of shape {samples.shape}, expected "
                            "floats of one dimension, full scale 1.0")
    return np.ascontiguousarray(samples, dtype="<f4").tobytes()


def _samples(data: bytes) -> Float32:
    if len(data) % 4:
        raise ProtocolError(f"audio of {len(data)} bytes, expected a multiple of 4")
    return np.frombuffer(data, dtype="<f4").astype(np.float32)
