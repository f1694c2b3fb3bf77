"""The Twilio adapter's declaration, and its protocol, message by message."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters import registry
from adapters.base import AgentEvent, AudioReceived, Fault, Interrupted, StateChanged
from adapters.twilio import custom_parameters
from adapters.wire import twilio
from adapters.wire.playout_clock import PlayoutClock
from adapters.wire.twilio import Call, Sids, TwilioWire
from audio import g711
from audio.errors import InputError
from audio.resample import resample
from audio.timebase import NS_PER_MS
from rig.playout import Arrival, Interruption, PlayoutQueue, place

SIDS = Sids.of("R1-A-1-L2", 1)
MS = NS_PER_MS


@pytest.fixture
def wire() -> TwilioWire:
    made = TwilioWire(Call(SIDS, {"tenant": "señal"}))
    made.opening()
    return made


def says(wire: TwilioWire, event: dict[str, Any] | bytes, t_ms: float = 0.0,
         ) -> tuple[list[AgentEvent], list[dict[str, Any]]]:
    """What an event of the agent amounts to: events, and messages that go back."""
    data = event if isinstance(event, bytes) else json.dumps(
        {"streamSid": SIDS.stream, **event}).encode()
    out = wire.receive(data, round(t_ms * MS))
    return list(out.events), [json.loads(m) for m in out.messages]


def media(n: int, code: int = 0x10) -> dict[str, Any]:
    return {"event": "media", "media": {"payload": base64.b64encode(bytes([code]) * n).decode()}}


def mark(name: str) -> dict[str, Any]:
    return {"event": "mark", "mark": {"name": name}}


CLEAR = {"event": "clear"}


def names(messages: list[dict[str, Any]]) -> list[str]:
    assert all(m["event"] == "mark" for m in messages)
    return [m["mark"]["name"] for m in messages]


# the declaration

def test_what_it_can_do_follows_from_its_settings() -> None:
    can = registry.create("twilio").capabilities
    assert (can.input_rate_hz, can.output_rate_hz) == (8_000, 8_000)
    assert can.full_duplex
    assert can.realtime_only
    assert can.reports_interruption
    assert not can.reports_response_done
    assert not can.persona_prompt
    assert can.transcript == "none"
    told = registry.create("twilio", {"prompt_parameter": "prompt", "full_duplex": "false"})
    assert told.capabilities.persona_prompt
    assert not told.capabilities.full_duplex
    assert "+twilio." in told.version


def test_listing_it_loads_no_network_library() -> None:
    code = ("import sys; from adapters import registry; registry.spec('twilio'); "
            "sys.exit(any(m in sys.modules for m in ('websockets', 'asyncio')))")
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(("text", "parameters"), [
    ("", {}), ("  ", {}), ("{}", {}),
    ("tenant=a", {"tenant": "a"}), ("tenant=a, locale=de-DE", {"tenant": "a", "locale": "de-DE"}),
    ("a=", {"a": ""}), ("a=b=c", {"a": "b=c"}),
    ('{"a": "x,y", "b": "{}"}', {"a": "x,y", "b": "{}"})])
def test_parameters_are_json_or_key_value(text: str, parameters: dict[str, str]) -> None:
    assert custom_parameters(text, where="here") == parameters
    made = registry.create("twilio", {"custom_parameters": text})
    assert made.settings["custom_parameters"] == text.strip()


@pytest.mark.parametrize(("text", "message"), [
    ("tenant", "expected a JSON object"), ("a=1,b", "expected a JSON object"),
    ('{"a": 1}', "no text under 'a'"), ('{"a": {"b": "c"}}', "no text under 'a'"),
    ('{"a": "b"', "JSON that cannot be read"), ('{"a": "1", "a": "2"}', "different names"),
    ("a=1,a=2", "different names"), ("=1", "different names"), ("a\tb=1", "different names"),
    ('{"a": "' + "x" * 2_001 + '"}', "at most 2000"), ("{" * 100_000, "cannot be read"),
    (",".join(f"k{i}=v" for i in range(51)), "at most 50")])
def test_other_parameters_are_refused_before_anything_is_dialled(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        registry.create("twilio", {"custom_parameters": text})
    assert str(error.value).startswith("--set custom_parameters (adapter twilio): expected")
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("name", ["a\nb", "x" * 101, "tenant"])
def test_the_prompt_has_a_parameter_of_its_own(name: str) -> None:
    with pytest.raises(InputError, match=r"--set prompt_parameter \(adapter twilio\): expected"):
        registry.create("twilio", {"custom_parameters": "tenant=a", "prompt_parameter": name})


# what goes out

def test_a_call_opens_as_twilio_opens_one(wire: TwilioWire) -> None:
    fresh = TwilioWire(Call(SIDS, {"tenant": "señal"}))
    assert not fresh.ready
    assert [json.loads(m) for m in fresh.opening()] == [
        {"event": "connected", "protocol": "Call", "version": "1.0.0"},
        {"event": "start", "sequenceNumber": "1", "streamSid": SIDS.stream, "start": {
            "accountSid": SIDS.account, "streamSid": SIDS.stream, "callSid": SIDS.call,
            "tracks": ["inbound"],
            "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1},
            "customParameters": {"tenant": "señal"}}}]
    assert fresh.ready


def test_sids_have_twilios_form_and_belong_to_the_case() -> None:
    assert re.fullmatch("AC[0-9a-f]{32}", SIDS.account)
    assert re.fullmatch("CA[0-9a-f]{32}", SIDS.call)
    assert re.fullmatch("MZ[0-9a-f]{32}", SIDS.stream)
    assert Sids.of("R1-A-1-L2", 1) == SIDS
    others = [Sids.of("R1-A-1-L2", 2), Sids.of("R1-A-2-L2", 1), Sids.of("R1-A-1-L2", 1, "x")]
    assert len({SIDS.stream, *(o.stream for o in others)}) == 4
    assert len({SIDS.call, *(o.call for o in others)}) == 4
    assert [o.account == SIDS.account for o in others] == [True, True, False]


def test_media_numbers_are_texts_and_count_on(wire: TwilioWire) -> None:
    pcm = np.random.default_rng(1).integers(-32_768, 32_768, 160).astype(np.int16)
    sent = [json.loads(m) for _ in range(3)
            for m in wire.audio(pcm.astype(np.float32) / np.float32(32_768))]
    assert [m["sequenceNumber"] for m in sent] == ["2", "3", "4"]
    assert [(m["media"]["chunk"], m["media"]["timestamp"]) for m in sent] == [
        ("1", "20"), ("2", "40"), ("3", "60")]
    for m in sent:
        assert set(m) == {"event", "sequenceNumber", "media", "streamSid"}
        assert set(m["media"]) == {"track", "chunk", "timestamp", "payload"}
        assert m["media"]["track"] == "inbound"
        assert base64.b64decode(m["media"]["payload"]) == g711.encode_pcm16(pcm).tobytes()
    assert [json.loads(m) for m in wire.closing()] == [
        {"event": "stop", "sequenceNumber": "5", "streamSid": SIDS.stream,
         "stop": {"accountSid": SIDS.account, "callSid": SIDS.call}}]


@pytest.mark.parametrize("frame", [np.zeros(480, np.float32), np.zeros((160, 1), np.float32),
                                   np.full(160, np.nan, np.float32)])
def test_a_frame_of_another_shape_is_refused(wire: TwilioWire, frame: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"expected a frame of shape|must be finite"):
        wire.audio(frame)


def test_the_way_to_8_khz_and_back_delays_nothing(wire: TwilioWire) -> None:
    """The declared delay is 0: what the agent decodes lies where the user said it."""
    t = np.arange(24_000) / 24_000
    chirp = (0.5 * np.sin(2 * np.pi * (300 * t + 1_400 * t**2)) * np.hanning(24_000)).astype(
        np.float32)
    said = resample(chirp, 24_000, 8_000)  # as the rig does: a turn as a whole
    sent = [json.loads(wire.audio(said[k:k + 160])[0]) for k in range(0, len(said), 160)]
    heard = resample(g711.decode(b"".join(base64.b64decode(m["media"]["payload"]) for m in sent)),
                     8_000, 24_000)
    lags = np.arange(-24, 25)
    match = [float(np.dot(chirp[100:-100], np.roll(heard, -k)[100:-100])) for k in lags]
    assert lags[int(np.argmax(match))] == 0
    error = heard[100:-100] - chirp[100:-100]
    snr_db = 10 * np.log10(np.sum(chirp[100:-100]**2) / np.sum(error**2))
    assert snr_db > 35.0  # G.712 asks 33 dB of a whole connection; mu-law alone has about 38


# playback: media, mark, clear

def test_media_of_any_size_is_audio_as_it_comes(wire: TwilioWire) -> None:
    for n in (1, 159, 160, 161, 80_000):
        (event,), messages = says(wire, media(n, 0x35), 5)
        assert isinstance(event, AudioReceived)
        assert (event.t_ns, event.response_id) == (5 * MS, None)
        assert g711.encode(event.samples) == b"\x35" * n
        assert messages == []


def test_a_mark_is_returned_when_playback_reaches_it(wire: TwilioWire) -> None:
    says(wire, media(800), 10)      # until 110
    assert says(wire, mark("a"), 12)[1] == []
    says(wire, media(80), 14)       # until 120
    says(wire, mark("b"), 14)
    assert wire.due_ns == 110 * MS
    assert wire.tick(110 * MS - 1) == ()
    (message,) = wire.tick(110 * MS)
    assert json.loads(message) == {"event": "mark", "sequenceNumber": "2",
                                   "streamSid": SIDS.stream, "mark": {"name": "a"}}
    assert wire.due_ns == 120 * MS
    assert names([json.loads(m) for m in wire.tick(500 * MS)]) == ["b"]
    assert wire.due_ns is None
    assert wire.tick(600 * MS) == ()


def test_a_mark_with_nothing_queued_is_returned_at_once(wire: TwilioWire) -> None:
    assert names(says(wire, mark("a"), 10)[1]) == ["a"]
    says(wire, media(80), 20)
    assert names(says(wire, mark("b"), 30)[1]) == ["b"]  # 20 + 10 ms are over


def test_what_was_due_before_a_message_is_returned_before_it(wire: TwilioWire) -> None:
    """However late the clock is asked: a clear at 200 ms finds the mark of 110 ms returned."""
    says(wire, media(800), 10)
    says(wire, mark("a"), 10)
    says(wire, media(8_000), 10)
    says(wire, mark("b"), 10)
    events, messages = says(wire, CLEAR, 200)
    assert names(messages) == ["a", "b"]
    assert events == [Interrupted(200 * MS)]


def test_clear_drops_the_queue_and_returns_every_mark_at_once(wire: TwilioWire) -> None:
    says(wire, media(8_000), 0)
    for name in ("a", "b", "a"):
        says(wire, mark(name), 0)
    events, messages = says(wire, CLEAR, 300)
    assert events == [Interrupted(300 * MS)]
    assert names(messages) == ["a", "b", "a"]
    assert wire.due_ns is None
    says(wire, media(80), 310)
    says(wire, mark("c"), 310)
    assert wire.due_ns == 320 * MS  # and not after the second that was dropped


def test_clear_with_nothing_queued_is_an_interruption_as_well(wire: TwilioWire) -> None:
    assert says(wire, CLEAR, 7) == ([Interrupted(7 * MS)], [])


def test_all_that_is_sent_is_numbered_in_one_row(wire: TwilioWire) -> None:
    sent = [*wire.audio(np.zeros(160, np.float32))]
    sent += [json.dumps(m) for m in says(wire, mark("a"))[1]]
    sent += [*wire.audio(np.zeros(160, np.float32)), *wire.closing()]
    assert [(json.loads(m)["event"], json.loads(m)["sequenceNumber"]) for m in sent] == [
        ("media", "2"), ("mark", "3"), ("media", "4"), ("stop", "5")]


Step = st.tuples(st.integers(0, 400), st.sampled_from(["media", "mark", "clear", "tick"]),
                 st.integers(1, 3_000))


@settings(max_examples=200, deadline=None)
@given(st.lists(Step, max_size=40))
def test_marks_agree_with_the_playout_that_is_measured(steps: list[tuple[int, str, int]]) -> None:
    """A mark is returned at the end of the last sample before it on the `flush` track, or at the
    clear that dropped it: recomputed from all arrivals at once, by the module that makes tracks."""
    wire = TwilioWire(Call(SIDS))
    arrivals: list[Arrival] = []
    clears: list[Interruption] = []
    asked: list[tuple[str, int, int]] = []
    returned: dict[str, int] = {}
    t_ms = 0

    def note(messages: list[str], t_ns: int) -> None:
        for message in messages:
            name = json.loads(message)["mark"]["name"]
            assert name not in returned
            returned[name] = t_ns

    for gap_ms, kind, n in steps:
        t_ms += gap_ms
        while wire.due_ns is not None and wire.due_ns <= t_ms * MS:
            due = wire.due_ns
            note(list(wire.tick(due)), due)
        if kind == "media":
            arrivals.append(Arrival(t_ms * MS, n))
            says(wire, media(n), t_ms)
        elif kind == "mark":
            asked.append((f"m{len(asked)}", t_ms * MS, len(arrivals)))
            note([json.dumps(m) for m in says(wire, mark(asked[-1][0]), t_ms)[1]], t_ms * MS)
        elif kind == "clear":
            clears.append(Interruption(t_ms * MS))
            note([json.dumps(m) for m in says(wire, CLEAR, t_ms)[1]], t_ms * MS)
    while wire.due_ns is not None:
        due = wire.due_ns
        note(list(wire.tick(due)), due)
    for name, t_ns, n_arrivals in asked:
        before = [c for c in clears if c.t_ns <= t_ns]
        heard = place(arrivals[:n_arrivals], before, "flush", 8_000)
        # Clears at the very moment of an arrival count before it: as they may in the wire.
        end_ns = max([p.start_ns + p.n * 125_000 for p in heard], default=0)
        due_ns = max(t_ns, end_ns)
        stopped = min([c.t_ns for c in clears if c.t_ns > t_ns], default=None)
        if any(c.t_ns == t_ns or c.t_ns in {a.t_ns for a in arrivals} for c in clears):
            continue
        assert returned[name] == (due_ns if stopped is None else min(due_ns, stopped))


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 20_000)), max_size=30))
def test_the_clock_is_that_of_the_playout_model(pieces: list[tuple[int, int]]) -> None:
    clock, queue = PlayoutClock(8_000), PlayoutQueue(8_000)
    t_ns = 0
    for gap_ns, n in pieces:
        t_ns += gap_ns
        clock.add(t_ns, n)
        queue.add(Arrival(t_ns, n), 0)
        assert clock.end_ns == queue.end_ns


# trouble

def test_events_of_another_stream_are_counted_and_play_nothing(wire: TwilioWire) -> None:
    for event in (media(80), mark("a"), CLEAR):
        for sid, told in (("MZ0", "'MZ0'"), (7, "'7'"), (None, "none")):
            events, messages = says(wire, {**event, "streamSid": sid})
            assert messages == []
            (fault,) = events
            assert isinstance(fault, Fault)
            assert fault.severity == "transparent"
            assert fault.reason == (f"{event['event']} of another stream skipped: expected "
                                    f"streamSid {SIDS.stream}, got {told}")
    assert wire.due_ns is None


@pytest.mark.parametrize(("event", "severity", "reason"), [
    ({"event": "media", "media": {"payload": "!!!!"}}, "infrastructure",
     "media payload: expected base64, got 4 characters that are none"),
    ({"event": "media", "media": {"payload": 7}}, "infrastructure",
     "media payload: expected base64 text, got int"),
    ({"event": "media", "media": {"payload": ""}}, "transparent",
     "media skipped: expected audio, got an empty piece"),
    ({"event": "media", "media": []}, "transparent", "media skipped: expected audio, got null"),
    ({"event": "media"}, "transparent", "media skipped: expected audio, got null"),
    ({"event": "mark"}, "transparent", "mark skipped: expected a mark with a name, got null"),
    ({"event": "mark", "mark": {"name": ""}}, "transparent", "mark skipped"),
    ({"event": "mark", "mark": {"name": "x" * 4_097}}, "transparent", "mark skipped"),
    ({"event": 5}, "transparent", 'unreadable message skipped: expected an "event" with a name'),
    ({"type": "media"}, "transparent", "unreadable message skipped"),
    (b"\xff\xfe", "transparent", "unreadable message skipped: expected a JSON object"),
    (b"[" * 5_000, "transparent", "unreadable message skipped"),
    (b"null", "transparent", "unreadable message skipped: expected a JSON object, got NoneType")])
def test_odd_messages(wire: TwilioWire, event: Any, severity: str, reason: str) -> None:
    events, messages = says(wire, event)
    (fault,) = events
    assert isinstance(fault, Fault)
    assert (fault.severity, messages) == (severity, [])
    assert fault.reason.startswith(reason), fault.reason


def test_other_forms_of_base64_lose_nothing(wire: TwilioWire) -> None:
    codes = bytes(range(256)) + b"\xff"
    text = base64.urlsafe_b64encode(codes).decode().rstrip("=")
    lines = "\r\n".join(text[k:k + 76] for k in range(0, len(text), 76))
    (event,), _ = says(wire, {"event": "media", "media": {"payload": lines}})
    assert isinstance(event, AudioReceived)
    np.testing.assert_array_equal(event.samples, g711.decode(codes))


@pytest.mark.parametrize("name", [
    "x" * 4_096, "a sentence,\nand the next", "señal \u200d", "\ud800 half a pair", " "])
def test_a_mark_comes_back_by_the_very_name_that_it_was_given(wire: TwilioWire, name: str) -> None:
    out = wire.receive(json.dumps({"streamSid": SIDS.stream, **mark(name)}).encode(), 0)
    (message,) = out.messages
    assert isinstance(message, str)
    assert names([json.loads(message.encode("utf-8"))]) == [name]
    assert all(isinstance(e, StateChanged) and e.detail.isprintable() for e in out.events)


def test_unknown_events_and_twilios_own_are_logged(wire: TwilioWire) -> None:
    assert says(wire, {"event": "mood"})[0] == [StateChanged(0, "unknown_event", "mood")]
    (event,), _ = says(wire, {"event": "dtmf", "dtmf": {"track": "inbound_track", "digit": "1"}})
    assert isinstance(event, StateChanged)
    assert event.name == "dtmf"
    assert '"digit":"1"' in event.detail
    assert "MZ" not in event.detail or SIDS.stream in event.detail
    assert says(wire, {"event": "stop"})[0][0].name == "stop"


def test_a_peer_that_speaks_something_else_is_given_up(wire: TwilioWire) -> None:
    for _ in range(20):
        assert says(wire, b"hello")[0][0].severity == "transparent"
    assert says(wire, b"hello")[0][0].severity == "infrastructure"


def test_audio_marks_and_messages_are_bounded(
    wire: TwilioWire, monkeypatch: pytest.MonkeyPatch,
) -> None:
    says(wire, media(8_000), 0)
    monkeypatch.setattr(twilio, "MAX_WAITING_MARKS", 2)
    assert [says(wire, mark(n))[0][0] for n in "ab"] == [
        StateChanged(0, "mark", "a"), StateChanged(0, "mark", "b")]
    (fault,), _ = says(wire, mark("c"))
    assert fault == Fault(0, "infrastructure", "more than 2 marks wait for playback")
    monkeypatch.setattr("adapters.wire.event_stream.MAX_AUDIO_S", 1.5)
    assert isinstance(says(wire, media(4_000))[0][0], AudioReceived)
    (fault,), _ = says(wire, media(1))
    assert fault == Fault(0, "infrastructure", "the server sent more than 1.5 s of audio")


Json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner,
                                                                max_size=3), max_leaves=8)
AGENT_EVENTS = st.fixed_dictionaries(
    {"event": st.sampled_from(["media", "mark", "clear", "dtmf", "stop", "x"]) | Json},
    optional={"streamSid": st.just(SIDS.stream) | Json,
              "media": st.fixed_dictionaries({"payload": st.text(max_size=20) | Json}) | Json,
              "mark": st.fixed_dictionaries({"name": st.text(max_size=9) | Json}) | Json})


@given(st.lists(AGENT_EVENTS.map(lambda e: json.dumps(e).encode()) | st.binary(max_size=30),
                max_size=15))
def test_nothing_that_an_agent_sends_raises(messages: list[bytes]) -> None:
    wire = TwilioWire(Call(SIDS))
    wire.opening()
    for k, data in enumerate(messages):
        out = wire.receive(data, k * 10 * MS)
        for event in out.events:
            assert isinstance(event, AudioReceived | Fault | StateChanged | Interrupted)
            if isinstance(event, AudioReceived):
                assert len(event.samples)
                assert np.isfinite(event.samples).all()
        for message in out.messages:
            assert json.loads(message)["event"] == "mark"
        wire.tick(k * 10 * MS + 5)
