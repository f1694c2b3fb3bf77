"""Pipecat's frames: exact bytes, and what the official runtime makes of the same bytes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipecat_proto import KINDS, decoded, encoded

from adapters.wire import protobuf_frames as pf
from adapters.wire.payload import PayloadError

CLASSES = dict(zip(KINDS, (pf.TextFrame, pf.AudioFrame, pf.TranscriptionFrame, pf.MessageFrame,
                           pf.InterruptionFrame), strict=True))
NUMBERS = st.sampled_from([0, 1, 127, 128, 2**31, 2**32 - 1]) | st.integers(0, 2**32 - 1)


def ours(data: bytes) -> dict[str, Any] | str | None:
    """In the form of `pipecat_proto.decoded`."""
    try:
        frame = pf.decode(data)
    except PayloadError:
        return "refused"
    if frame is None:
        return None
    kind = next(k for k, c in CLASSES.items() if isinstance(frame, c))
    fields = {k: v.hex() if isinstance(v, bytes) else v
              for k, v in dataclasses.asdict(frame).items() if k != "pts" or v is not None}
    return {"kind": kind, **fields}


@pytest.mark.parametrize(("frame", "data"), [
    (pf.AudioFrame(audio=b"\1\2", sample_rate=16_000, num_channels=1),
     "12091a02010220807d2801"),
    (pf.AudioFrame(id=300, name="a", pts=0), "120808ac021201613000"),
    (pf.MessageFrame("{}"), "22040a027b7d"),
    (pf.TextFrame(text="é"), "0a041a02c3a9"),
    (pf.TranscriptionFrame(user_id="u"), "1a03220175"),
    (pf.InterruptionFrame(), "2a00")])
def test_the_bytes_are_those_of_the_encoding(frame: pf.Frame, data: str) -> None:
    assert pf.encode(frame).hex() == data
    assert pf.decode(bytes.fromhex(data)) == frame


TEXTS = st.text(max_size=20).filter(lambda t: t.encode("utf-8", "replace").decode() == t)


@given(st.one_of(
    st.builds(pf.TextFrame, NUMBERS, TEXTS, TEXTS),
    st.builds(pf.AudioFrame, NUMBERS, TEXTS, st.binary(max_size=300), NUMBERS, NUMBERS,
              st.none() | NUMBERS),
    st.builds(pf.TranscriptionFrame, NUMBERS, TEXTS, TEXTS, TEXTS, TEXTS),
    st.builds(pf.MessageFrame, TEXTS), st.builds(pf.InterruptionFrame, NUMBERS, TEXTS)))
def test_every_frame_is_read_and_written_as_the_official_runtime_does(frame: pf.Frame) -> None:
    kind = next(k for k, c in CLASSES.items() if isinstance(frame, c))
    fields = {k: v for k, v in dataclasses.asdict(frame).items() if v is not None}
    data = pf.encode(frame)
    assert data == encoded(kind, **fields)
    assert pf.decode(data) == frame


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _field(number: int, wire_type: int, number_value: int, body: bytes) -> bytes:
    tag = _varint(number << 3 | wire_type)
    return tag + {0: _varint(number_value), 1: bytes(8), 2: _varint(len(body)) + body,
                  3: body + _varint(number << 3 | 4), 5: bytes(4)}.get(wire_type, b"")


NUMBER = st.sampled_from([*range(1, 8), 15, 16, 2**29 - 1])
WIRE_TYPE = st.sampled_from([0, 0, 1, 2, 2, 2, 3, 5, 4, 6])
MESSAGES = st.recursive(
    st.sampled_from([b"", b"abc", b"\xff\xfe", "é€".encode()]) | st.binary(max_size=8),
    lambda inner: st.lists(st.builds(
        _field, NUMBER, WIRE_TYPE, st.sampled_from([0, 1, 300, 2**32, 2**64 - 1]), inner),
        max_size=4).map(b"".join), max_leaves=8)


@given(MESSAGES, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 255)), max_size=2),
       st.none() | st.integers(0, 40))
def test_any_bytes_mean_what_the_official_runtime_makes_of_them(
    data: bytes, changes: list[tuple[int, int]], cut: int | None,
) -> None:
    changed = bytearray(data[:cut])
    for at, value in changes:
        if at < len(changed):
            changed[at] = value
    assert ours(bytes(changed)) == decoded(bytes(changed))


@pytest.mark.parametrize(("data", "message"), [
    (b"\x12\x05ab", "expected 5 more bytes of a protobuf message, got 2"),
    (b"\x0a\x03\x1a\x01\xff", "expected UTF-8 in TextFrame.text"),
    (b"\x00", "expected a field of a protobuf message, got number 0"),
    (b"\x0e", "got wire type 6 for field 1"),
    (b"\x80" * 11, "a number that does not end"),
    (b"\x0b", "a group without an end"),
    (b"\x38\x01" * (pf.MAX_FIELDS + 1), "expected at most 1000 fields"),
    (b"\x3b" * (pf.MAX_GROUP_DEPTH + 1), "expected at most 32 nested groups")])
def test_what_is_no_frame_is_refused_with_its_reason(data: bytes, message: str) -> None:
    with pytest.raises(PayloadError, match=message):
        pf.decode(data)


@pytest.mark.parametrize("frame", [
    pf.AudioFrame(sample_rate=2**32), pf.AudioFrame(sample_rate=-1), pf.TextFrame(id=2**64),
    pf.TextFrame(text="\ud800")])
def test_what_cannot_be_written_is_refused(frame: pf.Frame) -> None:
    with pytest.raises(ValueError):
        pf.encode(frame)
