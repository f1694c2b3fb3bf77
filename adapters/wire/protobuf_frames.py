"""Pipecat's frames as protobuf: the few messages of its `frames.proto`, encoded and decoded.

Source: `pipecat/frames/frames.proto` of pipecat-ai 1.14.0 and the protobuf encoding (varints, wire
types, last value wins, unknown fields skipped). Five small messages need no code generator and no
dependency; what is accepted and what it means was compared with the official runtime and with
Pipecat's generated classes, on arbitrary bytes.

What a peer sent is decoded within bounds, or refused with `PayloadError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from adapters.wire.payload import PayloadError, excerpt

MAX_FIELDS = 1_000
"""Fields of one message, those of unknown groups included. Ours: real frames have six."""
MAX_GROUP_DEPTH = 32
"""Nested groups inside unknown fields. Ours; nothing has written groups for twenty years."""

_VARINT, _FIXED64, _BYTES, _GROUP, _END_GROUP, _FIXED32 = range(6)
_MAX_FIELD_NUMBER = 2**29 - 1
_MAX_VARINT_BYTES = 10
_MAX_TAG_BYTES = 5


@dataclass(frozen=True, slots=True)
class TextFrame:
    id: int = 0
    name: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class AudioFrame:
    """PCM16, little endian, interleaved; `pts` in nanoseconds, where there is one."""

    id: int = 0
    name: str = ""
    audio: bytes = b""
    sample_rate: int = 0
    num_channels: int = 0
    pts: int | None = None


@dataclass(frozen=True, slots=True)
class TranscriptionFrame:
    id: int = 0
    name: str = ""
    text: str = ""
    user_id: str = ""
    timestamp: str = ""


@dataclass(frozen=True, slots=True)
class MessageFrame:
    """`data` is JSON, an RTVI message as a rule."""

    data: str = ""


@dataclass(frozen=True, slots=True)
class InterruptionFrame:
    id: int = 0
    name: str = ""


Frame = TextFrame | AudioFrame | TranscriptionFrame | MessageFrame | InterruptionFrame
_Value = int | str | bytes

_KINDS: dict[int, type[Frame]] = {
    1: TextFrame, 2: AudioFrame, 3: TranscriptionFrame, 4: MessageFrame, 5: InterruptionFrame}
_NUMBERS = {kind: number for number, kind in _KINDS.items()}
_FIELDS: dict[type[Frame], tuple[tuple[str, str], ...]] = {
    kind: tuple((f.name, str(f.type)) for f in fields(kind)) for kind in _KINDS.values()}
"""Name and type of the fields of each kind; their numbers count from 1, in order."""
_UINT32 = ("sample_rate", "num_channels")


def encode(frame: Frame) -> bytes:
    """One `Frame` message. Fields that hold the default are left out, as proto3 does.

    Raises `ValueError` for numbers below zero or beyond their width, and for text with halves of
    surrogate pairs.
    """
    body = bytearray()
    for number, (name, _) in enumerate(_FIELDS[type(frame)], start=1):
        value = getattr(frame, name)
        if value is None or (not value and name != "pts"):
            continue
        if isinstance(value, int):
            if not 0 <= value < 2 ** (32 if name in _UINT32 else 64):
                raise ValueError(f"{name}: {value} does not fit")
            body += _varint(number << 3 | _VARINT) + _varint(value)
        else:
            data = value if isinstance(value, bytes) else value.encode("utf-8")
            body += _varint(number << 3 | _BYTES) + _varint(len(data)) + data
    return bytes(_varint(_NUMBERS[type(frame)] << 3 | _BYTES) + _varint(len(body)) + body)


def decode(data: bytes) -> Frame | None:
    """The frame that a `Frame` message holds; `None` when it holds none that is known.

    Raises `PayloadError` for bytes that are no such message, for text that is no UTF-8, and for a
    message of more than `MAX_FIELDS` fields.
    """
    kind: type[Frame] | None = None
    values: dict[str, _Value] = {}
    for number, value in _fields(data):
        found = _KINDS.get(number)
        if found is None or not isinstance(value, bytes):
            continue
        # Of a oneof the last one counts; the same one twice is merged.
        if found is not kind:
            kind, values = found, {}
        values |= _values(found, value)
    return None if kind is None else kind(**values)  # type: ignore[arg-type]


def _values(kind: type[Frame], data: bytes) -> dict[str, _Value]:
    """The fields of one message that are there, by name."""
    known = _FIELDS[kind]
    values: dict[str, _Value] = {}
    for number, value in _fields(data):
        if number > len(known):
            continue
        name, wanted = known[number - 1]
        if wanted == "bytes" and isinstance(value, bytes):
            values[name] = value
        elif wanted == "str" and isinstance(value, bytes):
            try:
                values[name] = value.decode("utf-8")
            except UnicodeDecodeError as error:
                raise PayloadError(f"expected UTF-8 in {kind.__name__}.{name}: "
                                   f"{excerpt(str(error), 80)}") from None
        elif wanted.startswith("int") and isinstance(value, int):
            values[name] = value & 0xFFFF_FFFF if name in _UINT32 else value
        # Another wire type than the field's is an unknown field.
    return values


def _fields(data: bytes) -> Iterator[tuple[int, _Value | None]]:
    """Every field of a message: number, and a varint as `int`, bytes as `bytes`, else `None`."""
    at, seen = 0, 0
    groups: list[int] = []
    while at < len(data):
        seen += 1
        if seen > MAX_FIELDS:
            raise PayloadError(f"expected at most {MAX_FIELDS} fields in a frame")
        tag, at = _read_varint(data, at, _MAX_TAG_BYTES)
        number, wire_type = tag >> 3, tag & 7
        if number > _MAX_FIELD_NUMBER or (number == 0 and not groups):
            raise PayloadError(f"expected a field of a protobuf message, got number {number}")
        value: _Value | None = None
        if wire_type == _VARINT:
            value, at = _read_varint(data, at, _MAX_VARINT_BYTES)
        elif wire_type == _BYTES:
            n, at = _read_varint(data, at, _MAX_TAG_BYTES)
            value, at = _take(data, at, n), at + n
        elif wire_type in (_FIXED64, _FIXED32):
            n = 8 if wire_type == _FIXED64 else 4
            _take(data, at, n)
            at += n
        elif wire_type == _GROUP:
            groups.append(number)
            if len(groups) > MAX_GROUP_DEPTH:
                raise PayloadError(f"expected at most {MAX_GROUP_DEPTH} nested groups")
            continue
        elif wire_type == _END_GROUP and groups and groups[-1] == number:
            groups.pop()
            continue
        else:
            raise PayloadError(f"expected a protobuf message, got wire type {wire_type} for field "
                               f"{number}")
        if not groups:
            yield number, value
    if groups:
        raise PayloadError("expected a protobuf message, got a group without an end")


def _take(data: bytes, at: int, n: int) -> bytes:
    if n > len(data) - at:
        raise PayloadError(f"expected {n} more bytes of a protobuf message, got {len(data) - at}")
    return data[at : at + n]


def _read_varint(data: bytes, at: int, limit: int) -> tuple[int, int]:
    """A number of at most `limit` bytes, cut to 64 bits, and where it ends."""
    value = 0
    for k, byte in enumerate(data[at : at + limit]):
        value |= (byte & 0x7F) << 7 * k
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + k + 1
    raise PayloadError("expected a protobuf message, got a number that does not end")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
