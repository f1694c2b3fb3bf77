"""The raw PCM adapter's declaration, and its protocol, message by message."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters import registry
from adapters.base import AgentEvent, AudioReceived, Fault, Interrupted, StateChanged, TextDelta
from adapters.wire.raw_pcm import RawPcmSettings, RawPcmWire
from audio.errors import InputError

PCM = np.random.default_rng(5).integers(-32_768, 32_768, 24_000).astype("<i2")


def made(**settings: Any) -> RawPcmWire:
    wire = RawPcmWire(RawPcmSettings(**settings))
    wire.opening()
    return wire


def text(wire: RawPcmWire, event: Any, t_ns: int = 0) -> list[AgentEvent]:
    out = wire.receive(event if isinstance(event, bytes) else json.dumps(event).encode(), t_ns)
    assert out.messages == ()
    return list(out.events)


def binary(wire: RawPcmWire, data: bytes, t_ns: int = 0) -> list[AgentEvent]:
    out = wire.receive_binary(data, t_ns)
    assert out.messages == ()
    return list(out.events)


def reasons(events: list[AgentEvent], severity: str) -> list[str]:
    assert all(isinstance(e, Fault) and e.severity == severity for e in events), events
    return [e.reason for e in events if isinstance(e, Fault)]


# the declaration

def test_what_it_can_do_follows_from_its_settings() -> None:
    can = registry.create("raw-pcm").capabilities
    assert (can.input_rate_hz, can.output_rate_hz) == (24_000, 24_000)  # DSB-IFEval, F.4
    assert can.full_duplex
    assert can.persona_prompt
    assert can.realtime_only
    assert can.reports_interruption
    assert not can.reports_response_done
    assert can.transcript == "none"
    changed = registry.create("raw_pcm", {
        "input_rate_hz": "16000", "output_rate_hz": "22050", "send_prompt": "no",
        "transcripts": "yes", "full_duplex": "no"}).capabilities
    assert (changed.input_rate_hz, changed.output_rate_hz) == (16_000, 22_050)
    assert (changed.persona_prompt, changed.full_duplex, changed.transcript) == (
        False, False, "stream")


@pytest.mark.parametrize(("setting", "value", "message"), [
    ("input_rate_hz", "11025", r"--set input_rate_hz \(adapter raw_pcm\): expected a multiple of"),
    ("output_rate_hz", "96000", "a whole number from 8000 to 48000"),
    ("url", "ws://10.0.0.1", "allow_plain_ws=true"),
    ("url", "http://127.0.0.1", "expected wss://")])
def test_wrong_settings_are_refused_before_anything_is_dialled(
    setting: str, value: str, message: str,
) -> None:
    with pytest.raises(InputError, match=message):
        registry.create("raw_pcm", {setting: value})


def test_listing_it_loads_no_network_library() -> None:
    code = ("import sys; from adapters import registry; registry.spec('raw_pcm'); "
            "sys.exit(any(m in sys.modules for m in ('websockets', 'asyncio')))")
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# what goes out

def test_hello_says_all_that_an_agent_must_know() -> None:
    wire = RawPcmWire(RawPcmSettings(16_000, 48_000, "Sei nett: señal."))
    assert not wire.ready
    (hello,) = wire.opening()
    assert isinstance(hello, str)
    assert json.loads(hello) == {
        "type": "hello", "protocol": "duplexrig.raw_pcm", "version": 1,
        "user_audio": {"encoding": "pcm_s16le", "channels": 1, "rate_hz": 16000, "frame_ms": 20},
        "agent_audio": {"encoding": "pcm_s16le", "channels": 1, "rate_hz": 48000},
        "system_prompt": "Sei nett: señal."}
    assert wire.ready
    assert json.loads(made().closing()[0]) == {"type": "bye"}
    assert RawPcmSettings().hello()["system_prompt"] is None


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 24_000, 44_100, 48_000])
def test_a_frame_is_20_ms_of_pcm16_in_a_binary_frame(rate_hz: int) -> None:
    n = rate_hz // 50
    (message,) = made(input_rate_hz=rate_hz).audio(
        PCM[:n].astype(np.float32) / np.float32(32_768))
    assert message == PCM[:n].tobytes()
    with pytest.raises(ValueError, match="expected a frame of shape"):
        made(input_rate_hz=rate_hz).audio(np.zeros(n + 1, np.float32))


# what comes in

def test_audio_of_any_length_is_heard_as_it_comes() -> None:
    wire = made()
    (event,) = binary(wire, PCM.tobytes(), 7)
    assert isinstance(event, AudioReceived)
    assert (event.t_ns, event.response_id) == (7, None)
    np.testing.assert_array_equal(event.samples, PCM.astype(np.float32) / np.float32(32_768))


@given(st.lists(st.integers(0, 900), max_size=20))
def test_cuts_within_samples_lose_nothing(cuts: list[int]) -> None:
    wire, data = made(), PCM[:400].tobytes()
    edges = [0, *sorted(min(c, len(data)) for c in cuts), len(data)]
    events = [e for a, b in pairwise(edges) for e in binary(wire, data[a:b])]
    heard = [e.samples for e in events if isinstance(e, AudioReceived)]
    np.testing.assert_array_equal(np.concatenate(heard),
                                  PCM[:400].astype(np.float32) / np.float32(32_768))
    assert all(e.severity == "transparent" for e in events if isinstance(e, Fault))


def test_clear_is_an_interruption_and_ends_a_half_sample() -> None:
    wire = made()
    assert text(wire, {"type": "clear"}, 5) == [Interrupted(5)]
    binary(wire, b"\x01\x02\x03")
    assert text(wire, {"type": "clear"}, 6)[0] == Fault(
        6, "transparent", "clear in the middle of a sample: its first byte is dropped")
    (event,) = binary(wire, b"\x00\x40")
    assert isinstance(event, AudioReceived)
    assert event.samples.tolist() == [0.5]


def test_words_are_placed_with_the_audio_that_comes_next_or_where_they_say() -> None:
    wire = made(output_rate_hz=8_000)
    assert text(wire, {"type": "transcript", "text": "Good morning."}, 1) == [
        TextDelta(1, "Good morning. ", None, 0)]
    binary(wire, PCM[:800].tobytes())
    assert text(wire, {"type": "transcript", "text": " señal\ud800 "}, 2) == [
        TextDelta(2, "señal? ", None, 800)]
    assert text(wire, {"type": "transcript", "text": "late", "audio_s": 0.05}, 3) == [
        TextDelta(3, "late ", None, 400)]


def test_a_session_may_wait_for_ready() -> None:
    wire = made(wait_ready=True)
    assert not wire.ready
    assert text(wire, {"type": "ready", "model": "m1"}) == [
        StateChanged(0, "ready", '{"model":"m1"}')]
    assert wire.ready
    assert reasons(text(wire, {"type": "ready"}), "transparent") == ["ready again skipped"]


@pytest.mark.parametrize(("ready", "told"), [
    ({"version": 2}, "version: 2 instead of 1"),
    ({"version": True}, "version: true instead of 1"),
    ({"agent_audio": {"rate_hz": 16000}}, "agent_audio.rate_hz: 16000 instead of 24000"),
    ({"user_audio": {"channels": 2, "encoding": "opus"}},
     "user_audio.encoding: opus instead of pcm_s16le; user_audio.channels: 2 instead of 1")])
@pytest.mark.parametrize("wait_ready", [False, True])
def test_an_agent_that_says_another_format_is_not_played(
    ready: dict[str, Any], told: str, wait_ready: bool,
) -> None:
    wire = made(wait_ready=wait_ready)
    assert reasons(text(wire, {"type": "ready", **ready}), "infrastructure") == [
        f"the agent uses another format: {told}"]
    assert wire.ready is not wait_ready


@pytest.mark.parametrize("ready", [{"version": 1, "agent_audio": {"rate_hz": 24000}},
                                   {"agent_audio": 7, "user_audio": None}])
def test_a_ready_that_agrees_or_says_nothing_is_taken(ready: dict[str, Any]) -> None:
    wire = made(wait_ready=True)
    text(wire, {"type": "ready", **ready})
    assert wire.ready


@pytest.mark.parametrize(("event", "severity", "reason"), [
    ({"type": "error", "message": "no GPU"}, "infrastructure",
     "the agent reports an error: no GPU"),
    ({"type": "error"}, "infrastructure", "the agent reports an error: no message"),
    ({"type": "error", "message": "slow", "fatal": False}, "transparent",
     "the agent reports an error: slow"),
    ({"type": "error", "message": "x" * 999, "fatal": 0}, "infrastructure",
     "the agent reports an error: xxx"),
    ({"type": "transcript"}, "transparent", "transcript skipped: expected a text, got null"),
    ({"type": "transcript", "text": " \n"}, "transparent", "transcript skipped"),
    ({"type": "transcript", "text": "a", "audio_s": "1"}, "transparent",
     "transcript skipped: expected audio_s in seconds, got 1"),
    ({"type": "transcript", "text": "a", "audio_s": -1}, "transparent", "transcript skipped"),
    ({"type": "transcript", "text": "a", "audio_s": True}, "transparent", "transcript skipped"),
    ({"type": "transcript", "text": "a", "audio_s": 1e30}, "transparent", "transcript skipped"),
    ({"kind": "clear"}, "transparent", "unreadable message skipped: expected an event with a type"),
    (b"{", "transparent", "unreadable message skipped"),
    (b"[" * 9_000, "transparent", "unreadable message skipped")])
def test_odd_messages(event: Any, severity: str, reason: str) -> None:
    (found,) = reasons(text(made(), event), severity)
    assert found.startswith(reason)
    assert len(found) < 400


def test_an_unknown_event_is_logged_and_an_empty_frame_counted() -> None:
    wire = made()
    assert text(wire, {"type": "mood"}) == [StateChanged(0, "unknown_event", "mood")]
    assert reasons(binary(wire, b""), "transparent") == ["an empty binary frame skipped"]


def test_audio_text_messages_and_gibberish_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = "adapters.wire.event_stream"
    monkeypatch.setattr(f"{stream}.MAX_AUDIO_S", 0.5)
    wire = made()
    assert isinstance(binary(wire, PCM[:12_000].tobytes())[0], AudioReceived)
    assert "more than 0.5 s of audio" in reasons(binary(wire, b"\0\0"), "infrastructure")[0]
    monkeypatch.setattr(f"{stream}.MAX_TEXT_CHARS", 3)
    assert "more than 3 characters" in reasons(
        text(made(), {"type": "transcript", "text": "four"}), "infrastructure")[0]
    wire = made()
    found = [e for _ in range(21) for e in text(wire, b"hello")]
    assert reasons(found[20:], "infrastructure")[0].startswith("21 messages in a row")
    wire = made()
    for _ in range(3):  # audio in between shows that it is the protocol after all
        assert [e for _ in range(20) for e in text(wire, b"x") if e.severity != "transparent"] == []
        binary(wire, b"\0\0")
    monkeypatch.setattr(f"{stream}.MAX_MESSAGES", 1)
    wire = made()
    assert isinstance(binary(wire, b"\0\0")[0], AudioReceived)
    assert "more than 1 messages" in reasons(binary(wire, b"\0\0"), "infrastructure")[0]


Json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner,
                                                                max_size=3), max_leaves=8)
EVENTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["ready", "clear", "transcript", "error", "x"]) | Json},
    optional=dict.fromkeys(("text", "audio_s", "message", "fatal", "version", "user_audio",
                            "agent_audio"), Json))


@given(st.lists(EVENTS.map(lambda e: json.dumps(e).encode()) | st.binary(max_size=30),
                max_size=12), st.booleans())
def test_nothing_that_an_agent_sends_raises(messages: list[bytes], wait: bool) -> None:
    wire = made(wait_ready=wait)
    for k, data in enumerate(messages):
        events = wire.receive(data, k).events + wire.receive_binary(data, k).events
        for event in events:
            if isinstance(event, AudioReceived):
                assert len(event.samples)
            if isinstance(event, TextDelta):
                event.text.encode()
                assert event.audio_n is not None
                assert event.audio_n >= 0
