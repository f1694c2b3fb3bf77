"""The Realtime protocol: audio in pieces, broken pieces, events that are none or come twice."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest
from driven_realtime import MS, PCM, Driven
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.base import (
    AudioReceived,
    ResponseStarted,
    StateChanged,
)
from adapters.wire import openai_realtime as module
from adapters.wire.openai_realtime import RealtimeWire
from adapters.wire.openai_session import SessionSettings


@pytest.mark.parametrize(("delta", "severity"), [
    *((d, "transparent") for d in ("", "\n", None)),
    *((d, "infrastructure") for d in ("!!!!", "A", "AA=A", "AAAA====A", "é", 5, True, ["AAAA"],
                                      {"a": 1}))])
def test_a_piece_without_audio_is_counted_and_audio_that_is_lost_ends_the_session(
    delta: Any, severity: str
) -> None:
    d = Driven()
    d.begin()
    d.audio(PCM[:960])
    d.give({"type": "response.output_audio.delta", "response_id": "r1", "item_id": "i1",
            "content_index": 0, "delta": delta})
    d.audio(PCM[960:1920])
    assert d.pcm == PCM[:1920]
    (found,) = d.faults
    assert found[0] == severity
    assert re.match("audio delta( skipped)?: expected ", found[1])


@pytest.mark.parametrize("write", [
    lambda b: base64.b64encode(b).decode().rstrip("="),
    lambda b: base64.urlsafe_b64encode(b).decode(),
    lambda b: base64.encodebytes(b).decode(),
    lambda b: " \r\n" + base64.b64encode(b).decode() + "\t",
])
def test_every_way_to_write_base64_is_the_same_audio(write: Any) -> None:
    d = Driven()
    d.begin()
    for k in range(0, 1_000, 200):
        d.give({"type": "response.output_audio.delta", "response_id": "r1", "item_id": "i1",
                "content_index": 0, "delta": write(PCM[k : k + 200])})
    assert d.pcm == PCM[:1_000]
    assert d.faults == []


@pytest.mark.parametrize("event", [
    {"type": "response.output_audio.delta", "response_id": "ghost", "delta": ""},
    {"type": "response.output_audio.done", "response_id": "ghost"},
    {"type": "response.output_audio_transcript.done", "response_id": "ghost", "transcript": ""},
    {"type": "response.output_audio_transcript.delta", "response_id": "ghost", "delta": ""}])
def test_an_end_or_an_empty_piece_begins_no_response(event: dict[str, Any]) -> None:
    """Nothing would ever end it, and the schedule would wait for that."""
    d = Driven()
    d.begin()
    d.give(event)
    assert [e.response_id for e in d.events if isinstance(e, ResponseStarted)] == ["r1"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 400), min_size=1, max_size=12))
def test_audio_in_any_pieces_is_the_same_audio(cuts: list[int]) -> None:
    whole = PCM[:1_000]
    d = Driven()
    d.begin()
    at = 0
    for cut in [*cuts, len(whole)]:
        d.audio(whole[at:at + cut])
        at = min(len(whole), at + cut)
    d.give({"type": "response.output_audio.done", "response_id": "r1", "item_id": "i1",
            "content_index": 0})
    assert d.pcm == whole[:at]  # `at` is even or a half sample was left over
    assert all(s == "transparent" for s, _ in d.faults)


def test_half_a_sample_is_carried_within_one_item_and_never_into_another() -> None:
    d = Driven()
    d.begin()
    d.audio(PCM[:3], item="a")
    d.audio(PCM[10:13], item="b")
    d.audio(PCM[3:6], item="a")
    d.audio(PCM[20:22], item="b", content_index=1)
    assert d.pcm == PCM[:2] + PCM[10:12] + PCM[2:6] + PCM[20:22]
    d.give({"type": "response.output_audio.done", "response_id": "r1", "item_id": "a",
            "content_index": 0})
    assert not any("left over" in reason for _, reason in d.faults)
    d.done()
    assert d.faults[-1] == ("transparent", "half a sample left over at the end of r1")


def test_a_single_byte_is_no_event_and_not_lost() -> None:
    d = Driven()
    d.begin()
    for k in range(5):
        d.audio(PCM[k:k + 1], float(k))
    assert [(e.t_ns, len(e.samples)) for e in d.of(AudioReceived)] == [(MS, 1), (3 * MS, 1)]
    assert d.pcm == PCM[:4]


@pytest.mark.parametrize("data", [
    b"", b"{", b"[]", b"null", b"3", b'"x"', b"\xff\xfe", b'{"type": 5}', b'{"type": ""}',
    b'{"type": "' + b"x" * 300 + b'"}', b'{"a": NaN, "type": "x"}', b"[" * 100_000,
    b'{"type": "x", "n": ' + b"9" * 5_000 + b"}", b'{"type": null}', b'{"a":' * 50_000])
def test_a_message_that_is_no_event_is_skipped_and_counted(data: bytes) -> None:
    d = Driven()
    d.begin()
    d.give(data, 7)
    d.audio(PCM[:960])
    assert d.pcm == PCM[:960]
    ((severity, reason),) = d.faults
    assert severity == "transparent"
    assert reason.startswith("unreadable message skipped: ")
    assert len(reason) < 300
    assert "\n" not in reason


@settings(max_examples=100, deadline=None)
@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(
        st.sampled_from(["id", "response", "session", "error", "item_id", "delta", "status",
                         "status_details", "transcript", "audio", "code", "response_id"]),
        below, max_size=6), max_leaves=12),
    st.sampled_from(sorted({*module.LOGGED, *RealtimeWire(SessionSettings(), "")._handlers})))
def test_no_event_of_whatever_shape_raises(body: Any, kind: str) -> None:
    d = Driven()
    event = {**(body if isinstance(body, dict) else {"response": body, "error": body}),
             "type": kind}
    for t_ms in (1, 2):
        d.give(event, t_ms)
    d.begin("fresh")
    d.give({**event, "response_id": "fresh", "response": {"id": "fresh", "status": body}}, 3)
    assert all(isinstance(e.t_ns, int) for e in d.events)


def test_an_unknown_event_is_kept_by_name() -> None:
    d = Driven()
    d.give({"type": "response.mood.delta", "mood": "fine"}, 2)
    assert d.events == [StateChanged(2 * MS, "unknown_event", "response.mood.delta")]


def test_a_repeated_event_is_skipped_but_equal_audio_is_not() -> None:
    d = Driven()
    d.begin()
    d.audio(PCM[:960], event_id="e1")
    d.audio(PCM[:960], event_id="e1")
    d.audio(PCM[:960], event_id="e2")
    d.audio(PCM[:960])
    d.audio(PCM[:960])
    d.audio(PCM[960:1920], event_id="e1")  # the same id, other audio: a careless server
    assert d.pcm == PCM[:960] * 4 + PCM[960:1920]
    assert d.faults == [("transparent", "repeated event skipped: response.output_audio.delta")]
