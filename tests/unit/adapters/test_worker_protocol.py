"""The frames between the rig and a local model, on exact bytes; cut anywhere, damaged anywhere."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.workers.worker_kit import protocol
from adapters.workers.worker_kit.protocol import (
    Bye,
    Decoder,
    Frame,
    Hello,
    Message,
    Out,
    ProtocolError,
    Ready,
    Reset,
    WorkerFault,
    encode,
)

HELLO = Hello("m", "1", 16_000, 22_050, 1280, 1764, full_duplex=True, persona_prompt=False,
              transcript="stream", settings={"temp": 0.8})
SAMPLES = np.array([0.5, -1.0], np.float32)
MESSAGES: tuple[Message, ...] = (
    HELLO, Reset(3, "You are \u00e9", 7), Ready(3, 12.5), Frame(0, SAMPLES),
    Out(0, SAMPLES, "h\u00e9llo", 4400, 2), WorkerFault("no", hopeless=True), Bye())


def same(a: Message, b: Message) -> bool:
    if isinstance(a, Frame | Out):
        return encode(a) == encode(b)
    return a == b


def decoded(data: bytes) -> list[Message]:
    return list(Decoder().feed(data))


def test_the_bytes_of_a_frame_and_of_an_answer() -> None:
    assert encode(Frame(1, SAMPLES)).hex() == "460c0000000100000000" "00003f000080bf"
    assert encode(Out(1, SAMPLES, "a", 5, 6)) == (
        b"O" + struct.pack("<IIIII", 25, 1, 5, 6, 1) + b"a" + struct.pack("<ff", 0.5, -1.0))
    assert encode(Bye()) == b"B\0\0\0\0"


@given(st.lists(st.integers(0, 400), max_size=12))
def test_however_the_stream_is_cut(cuts: list[int]) -> None:
    data = b"".join(encode(m) for m in MESSAGES)
    places = sorted({0, len(data), *(min(c, len(data)) for c in cuts)})
    decoder, got = Decoder(), []
    for a, b in pairwise(places):
        got += list(decoder.feed(data[a:b]))
    assert len(got) == len(MESSAGES)
    assert all(same(a, b) for a, b in zip(got, MESSAGES, strict=True))
    assert decoder.partial_n == 0


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    refused = ""
    try:
        decoded(data)
    except ProtocolError as error:
        refused = str(error)
    assert len(refused) < 300


@given(st.sampled_from(MESSAGES), st.data())
def test_a_damaged_message_is_another_one_or_refused(message: Message, data: st.DataObject) -> None:
    raw = bytearray(encode(message))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255))
    with suppress(ProtocolError):
        assert all(isinstance(got, Message) for got in decoded(bytes(raw)))


def test_a_half_message_waits() -> None:
    decoder = Decoder()
    assert list(decoder.feed(encode(MESSAGES[4])[:-1])) == []
    assert decoder.partial_n == len(encode(MESSAGES[4])) - 1


def head(kind: bytes, payload: bytes) -> bytes:
    return struct.pack("<BI", kind[0], len(payload)) + payload


def hello(**changes: object) -> bytes:
    facts = {"name": "m", "version": "1", "input_rate_hz": 16_000, "output_rate_hz": 16_000,
             "frame_in_n": 1280, "frame_out_n": 1280, "full_duplex": True,
             "persona_prompt": True, "protocol": 1, **changes}
    return head(b"H", json.dumps({k: v for k, v in facts.items() if v != "absent"}).encode())


def nested(depth: int) -> dict[str, object]:
    """Objects in one another, so many, the first one counted."""
    found: dict[str, object] = {}
    for _ in range(depth - 1):
        found = {"a": found}
    return found


def test_the_hello_of_these_tests_is_one() -> None:
    assert decoded(hello())[0] == Hello("m", "1", 16_000, 16_000, 1280, 1280, full_duplex=True,
                                        persona_prompt=True)


@pytest.mark.parametrize(("data", "says"), [
    (b"Loading checkpoint", "does the worker print to its standard output?"),
    (struct.pack("<BI", ord("O"), 2**31), "expected at most"),
    (struct.pack("<BI", ord("O"), protocol.MAX_BYTES + 1), "expected at most"),
    (head(b"F", b"abc"), "a frame of 3 bytes"),
    (head(b"F", b"\0\0\0\0abc"), "multiple of 4"),
    (head(b"O", b"\0" * 15), "an answer of 15 bytes"),
    (head(b"O", struct.pack("<IIII", 0, 0, 0, 9) + b"ab"), "9 bytes of text, only 2 came"),
    (head(b"O", struct.pack("<IIII", 0, 0, 0, 2) + b"\xff\xfe"), "expected UTF-8"),
    (head(b"O", struct.pack("<IIII", 0, 0, 0, 20_001) + b"a" * 20_001), "20001 characters"),
    (head(b"H", b"{"), "expected JSON"),
    (head(b"H", b"[" * 100_000), "expected JSON"),
    (head(b"H", b"[]"), "expected an object"),
    (hello(protocol=2), "speaks protocol 2, expected 1"),
    (hello(protocol="absent"), "speaks protocol None"),
    (hello(input_rate_hz=7_999), "from 8000 to 48000"),
    (hello(input_rate_hz=True), "from 8000 to 48000"),
    (hello(input_rate_hz=16e3), "from 8000 to 48000"),
    (hello(frame_in_n=0), "frame_in_n is 0"),
    (hello(frame_out_n=1281), "frames of one length"),
    (hello(frame_in_n=80_001, frame_out_n=80_001), "frames of 5.00006 s"),
    (hello(frame_in_n=15, frame_out_n=15), "frames of 0.0009375 s, expected 0.001 to 5"),
    (hello(full_duplex=1), "true or false"),
    (hello(transcript="maybe"), "none or stream"),
    (hello(settings=[]), "settings is [], expected an object"),
    (hello(name="absent"), "expected the fields name"),
    (hello(extra=1), "unknown field 'extra'"),
    (head(b"Y", b'{"session": -1}'), "session is -1"),
    (head(b"Y", b'{"session": 1, "prompt_ms": NaN}'), "prompt_ms is nan"),
    (head(b"Y", b'{"session": 1, "prompt_ms": -1}'), "prompt_ms is -1"),
    (head(b"X", b'{"reason": 5}'), "reason is 5, expected text"),
    (head(b"R", b'{"session": 1, "system_prompt": "", "seed": 4294967296}'), "seed is"),
    (head(b"Y", b'{"session": 1, "prompt_ms": 1' + b"0" * 400 + b"}"), "prompt_ms is 1000"),
    (head(b"X", b'{"reason": "\\udfff"}'), "reason is '\\udfff', expected text"),
    (hello(settings={"a": "\ud800"}), "settings {'a': '\\ud800'}: expected text, got half of a "
     "surrogate pair"),
    (hello(settings={"a": "x" * 65_528}), "65537 bytes, expected at most 65536"),
    (hello(settings={"a": "\u00e9" * 40_000}), "80009 bytes, expected at most 65536"),
    (hello(settings={"a": float("inf")}), "settings {'a': inf}: expected finite numbers"),
    (hello(settings=nested(33)), "expected at most 32 objects and lists in one another"),
    (hello(settings={"a": [nested(31)]}), "expected at most 32 objects and lists"),
    (hello(name=""), "name is '', expected text of 1 to 200 characters"),
    (hello(name=" \n"), "expected text of 1 to 200 characters"),
    (head(b"H", json.dumps({"name": "m"}).encode("utf-16")), "expected JSON in UTF-8"),
    (head(b"H", b"\xef\xbb\xbf{}"), "expected JSON in UTF-8"),
    (head(b"H", b'{"name": "a", "name": "m"}'), "the key 'name' stands twice"),
    (head(b"Y", b'{"session": 1, "session": 2}'), "Ready: the key 'session' stands twice"),
    (head(b"H", hello()[5:-1] + b', "settings": {"a": 1, "a": 1}}'),
     "the key 'a' stands twice"),
])
def test_what_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        decoded(data)
    assert says in str(caught.value)


def test_bounds_are_allowed() -> None:
    assert decoded(hello(frame_in_n=80_000, frame_out_n=80_000, input_rate_hz=16_000))
    assert decoded(hello(frame_in_n=16, frame_out_n=16))
    assert decoded(hello(settings=nested(32)))
    assert decoded(head(b"O", struct.pack("<IIII", 0, 0, 0, 20_000) + b"a" * 20_000))
    assert decoded(head(b"R", b'{"session": 4294967295, "system_prompt": "", "seed": 0}'))


def test_what_comes_before_a_fault_is_given() -> None:
    messages = Decoder().feed(encode(Bye()) + b"?????")
    assert next(messages) == Bye()
    with pytest.raises(ProtocolError):
        next(messages)


def test_nothing_out_of_range_is_sent() -> None:
    with pytest.raises(ProtocolError, match="32 bits"):
        encode(Frame(-1, SAMPLES))
    with pytest.raises(ProtocolError, match="expected at most"):
        encode(Reset(1, "x" * protocol.MAX_BYTES, 0))


@pytest.mark.parametrize(("samples", "says"), [
    ([0.0, 0.0], "samples are list, expected a numpy array of floats of one dimension"),
    (None, "samples are NoneType"),
    (np.zeros(2, np.int16), "samples are int16 of shape (2,), expected floats of one dimension"),
    (np.zeros(2, np.bool_), "samples are bool"),
    (np.zeros(2, np.complex64), "samples are complex64"),
    (np.zeros((1, 2), np.float32), "samples are float32 of shape (1, 2)"),
    (np.float32(0.0) * np.ones(()), "samples are"),
])
def test_samples_that_are_no_audio_are_a_fault(samples: object, says: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        encode(Out(0, samples))
    assert says in str(caught.value)


@pytest.mark.parametrize("text", [None, b"ab", ["a"]])
def test_text_that_is_none_is_a_fault(text: object) -> None:
    with pytest.raises(ProtocolError, match=f"text of frame 3 is {type(text).__name__}, expected"):
        encode(Out(3, np.zeros(4, np.float32), text))


def test_longer_floats_are_audio() -> None:
    assert encode(Out(0, SAMPLES.astype(np.float64))) == encode(Out(0, SAMPLES))
