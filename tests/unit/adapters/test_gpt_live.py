"""The GPT-Live adapter's declaration, and its protocol, message by message."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters import registry
from adapters.base import AgentEvent, AudioReceived, Fault, StateChanged, TextDelta
from adapters.gpt_live import _SESSION_SETTINGS, SETTINGS
from adapters.wire import event_stream
from adapters.wire.gpt_live import LOGGED, LiveSettings, LiveWire, Timeline
from audio.errors import InputError

KEY = "sk-test-0123456789abcdef"
PCM = np.random.default_rng(3).integers(-20_000, 20_000, 24_000).astype("<i2").tobytes()


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


# the declaration

def test_the_defaults_are_the_papers_and_the_declared_ones_those_of_the_protocol() -> None:
    # DSB-IFEval, appendices E.1, E.2, F.4, F.5
    settings = registry.create("gpt-live").settings
    assert {k: settings[k] for k in ("model", "voice", "rate_hz", "backend_model")} == {
        "model": "gpt-live-1", "voice": "marin", "rate_hz": "24000",
        "backend_model": "gpt-5.6-terra"}
    declared = {s.name: s.default for s in SETTINGS if s.name in _SESSION_SETTINGS}
    assert {**declared, "rate_hz": 24_000} == {
        name: getattr(LiveSettings(), name) for name in LiveSettings.__dataclass_fields__}


def test_it_reports_no_end_and_no_interruption_and_its_rate_is_the_setting() -> None:
    can = registry.create("gpt_live").capabilities
    assert can.full_duplex
    assert not can.server_vad
    assert not can.reports_response_done
    assert not can.reports_interruption
    assert can.transcript == "stream"
    changed = registry.create("gpt_live", {"rate_hz": "16000"}).capabilities
    assert (changed.input_rate_hz, changed.output_rate_hz) == (16_000, 16_000)


def test_settings_and_version_hold_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = registry.create("gpt_live")
    assert KEY not in repr((adapter, vars(adapter), adapter.settings, adapter.version))
    assert "+gpt-live." in adapter.version
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(InputError, match="OPENAI_API_KEY is not set"):
        registry.create("gpt_live")


@pytest.mark.parametrize(("setting", "value", "message"), [
    ("base_url", "ws://api.openai.com/v1", r"--set base_url \(adapter gpt_live\): expected"),
    ("rate_hz", "8000", "one of 16000, 24000"),
    ("close_timeout_s", "8", "a number from 0 to 7.5"),
    ("voice", "a\nb", r"--set voice \(adapter gpt_live\): expected a name")])
def test_wrong_settings_are_refused_before_anything_is_dialled(
    setting: str, value: str, message: str,
) -> None:
    with pytest.raises(InputError, match=message):
        registry.create("gpt_live", {setting: value})


def test_listing_it_loads_no_network_library() -> None:
    code = ("import sys; from adapters import registry; registry.spec('gpt_live'); "
            "sys.exit(any(m.split('.')[0] == 'websockets' or m.startswith('adapters.wire') "
            "for m in sys.modules))")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=900)


# the wire

class Driven:
    def __init__(self, *, ready: bool = True, prompt: str = "Be kind.", **changes: Any) -> None:
        self.settings = LiveSettings(**changes)
        self.wire = LiveWire(self.settings, prompt)
        self.events: list[AgentEvent] = []
        if ready:
            self.give({"type": "session.started", "session": self.settings.session(prompt)})
            assert self.wire.ready
            self.events.clear()

    def give(self, event: dict[str, Any], t_ns: int = 0) -> None:
        output = self.wire.receive(json.dumps(event).encode(), t_ns)
        assert output.messages == ()
        self.events += output.events

    def audio(self, data: bytes, **more: Any) -> None:
        self.give({"type": "session.output_audio.delta",
                   "delta": base64.b64encode(data).decode(), **more})

    def text(self, text: Any, **times: Any) -> None:
        self.give({"type": "session.output_transcript.delta", "delta": text, **times})

    def of(self, kind: type) -> list[Any]:
        return [e for e in self.events if isinstance(e, kind)]


def test_the_session_is_asked_for_before_anything_has_come() -> None:
    (message,) = LiveWire(LiveSettings(), "Be kind.").opening()
    assert json.loads(message) == {"event_id": "session_1", "type": "session.start", "session": {
        "model": "gpt-live-1", "instructions": "Be kind.",
        "audio": {"format": {"type": "audio/pcm", "rate": 24000}, "output": {"voice": "marin"}},
        "delegation": {"type": "responses", "responses": {"model": "gpt-5.6-terra"}}}}


@pytest.mark.parametrize("prompt", ["", "  \n"])
def test_blank_instructions_and_no_backend_are_left_out(prompt: str) -> None:
    assert LiveSettings(backend_model="").session(prompt) == {
        "model": "gpt-live-1",
        "audio": {"format": {"type": "audio/pcm", "rate": 24000}, "output": {"voice": "marin"}}}


@pytest.mark.parametrize(("change", "strict", "reason"), [
    ({"audio": {"format": {"type": "audio/pcmu", "rate": 8000}}}, False,
     "the server uses another audio format: audio.format.type: audio/pcmu instead of audio/pcm; "
     "audio.format.rate: 8000 instead of 24000"),
    ({"model": "gpt-live-1.1"}, True, "did not apply .*model: gpt-live-1.1 instead of gpt-live-1"),
    ({"model": "gpt-live-1.1"}, False, None),
    ({"delegation": {"type": "client"}}, True, "delegation.type: client instead of responses"),
    ({"audio": None, "instructions": None}, True, None)])
def test_the_session_that_is_reported_is_compared(
    change: dict[str, Any], strict: bool, reason: str | None,
) -> None:
    d = Driven(ready=False, strict_session=strict)
    d.give({"type": "session.started",
            "session": {**d.settings.session("Be kind."), "id": "s1", "expires_at": 9, **change}})
    assert d.wire.ready == (reason is None)
    if reason is None:
        assert '"id":"s1"' in d.of(StateChanged)[0].detail
    else:
        (fault,) = d.of(Fault)
        assert fault.severity == "infrastructure"
        assert re.search(reason, fault.reason)


def test_user_audio_is_an_append_of_even_length_at_the_rate() -> None:
    (message,) = LiveWire(LiveSettings(rate_hz=16_000), "").audio(np.full(320, 0.5, np.float32))
    event = json.loads(message)
    assert event["type"] == "session.input_audio.append"
    assert set(event) == {"type", "event_id", "audio"}
    assert len(base64.b64decode(event["audio"])) == 640
    with pytest.raises(ValueError, match=r"expected a frame of shape \(480,\), got \(320,\)"):
        LiveWire(LiveSettings(), "").audio(np.zeros(320, np.float32))


@given(cuts=st.lists(st.integers(1, 4_799), max_size=12))
def test_audio_in_any_pieces_is_the_same_audio_without_a_response(cuts: list[int]) -> None:
    d = Driven()
    edges = [0, *sorted(set(cuts)), 4_800]
    for a, b in pairwise(edges):
        d.audio(PCM[a:b])
    got = np.concatenate([e.samples for e in d.of(AudioReceived)])
    assert (got * 32768).astype("<i2").tobytes() == PCM[:4_800]
    assert {e.response_id for e in d.of(AudioReceived)} == {None}
    assert all(f.severity == "transparent" for f in d.of(Fault))


def test_broken_audio_ends_the_session_and_an_empty_piece_does_not() -> None:
    d = Driven()
    d.give({"type": "session.output_audio.delta", "delta": ""})
    assert [f.severity for f in d.of(Fault)] == ["transparent"]
    d.give({"type": "session.output_audio.delta", "delta": "!!!!"})
    assert [f.severity for f in d.of(Fault)] == ["transparent", "infrastructure"]


# words

def test_words_are_placed_in_the_audio_received() -> None:
    d = Driven()
    d.audio(PCM[:9_600])  # 200 ms
    d.text("one", start_ms=0, end_ms=200)
    d.text("two", start_ms=100, end_ms=200)
    d.text("at the end", start_ms=199.5)
    assert [(e.text, e.audio_n) for e in d.of(TextDelta)] == [
        ("one", 0), ("two", 2_400), ("at the end", 4_788)]


@pytest.mark.parametrize("start_ms", [None, True, "100", -1, float("1e300"), 1_300_000, [1]])
def test_a_time_that_is_none_places_nothing(start_ms: Any) -> None:
    d = Driven()
    d.audio(PCM)
    d.text("one", start_ms=start_ms)
    assert [e.audio_n for e in d.of(TextDelta)] == [None]
    assert d.of(Fault) == []


def test_text_ahead_of_its_audio_is_tied_to_what_has_come_and_told_once() -> None:
    d = Driven()
    d.audio(PCM[:9_600])
    d.text("later", start_ms=200)
    d.text("still", start_ms=400)
    assert [e.audio_n for e in d.of(TextDelta)] == [None, None]
    assert [e.name for e in d.of(StateChanged)] == ["transcript_ahead"]


def test_times_are_not_used_when_that_is_asked_for() -> None:
    d = Driven(transcript_times="arrival")
    d.audio(PCM)
    d.text("one", start_ms=100, end_ms=200)
    assert [e.audio_n for e in d.of(TextDelta)] == [None]


def test_audio_that_names_its_time_moves_what_follows() -> None:
    d = Driven()
    d.audio(PCM[:4_800], start_ms=0)  # 100 ms
    d.audio(PCM[:4_800], start_ms=500)  # 400 ms were dropped
    for start_ms in (50, 100, 300, 500, 550):
        d.text("x", start_ms=start_ms)
    assert [e.audio_n for e in d.of(TextDelta)] == [1_200, 2_400, 2_400, 2_400, 3_600]


@given(st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 2_400)), max_size=20),
       st.lists(st.floats(0, 1e6), min_size=2, max_size=2).map(sorted))
def test_a_later_time_is_never_an_earlier_sample(
    pieces: list[tuple[float, int]], times: list[float],
) -> None:
    timeline = Timeline(24_000)
    n = 0
    for t_ms, length in pieces:
        timeline.anchor(t_ms, n)
        n += length
    first, second = (timeline.sample(t) for t in times)
    assert 0 <= first <= second


@pytest.mark.parametrize("text", ["", None, 5, ["x"]])
def test_a_transcript_that_is_no_text_is_skipped(text: Any) -> None:
    d = Driven()
    d.text(text, start_ms=0)
    assert d.of(TextDelta) == []
    assert [f.severity for f in d.of(Fault)] == ["transparent"]


# ends, errors, bounds

def test_the_end_is_asked_for_once_and_waited_for() -> None:
    d = Driven(close_timeout_s=3.0)
    assert d.wire.linger_s == 3.0
    (message,) = d.wire.closing()
    assert json.loads(message)["type"] == "session.close"
    assert d.wire.closing() == ()
    assert not d.wire.over
    d.give({"type": "session.closed", "reason": "close_requested"})
    assert d.wire.over
    assert d.of(Fault) == []


@pytest.mark.parametrize(("reason", "told"), [
    ("expired", "expired"), ("content", "content"), (None, "no reason given"), (["x"], '["x"]')])
def test_an_end_that_nobody_asked_for_is_trouble_of_the_connection(reason: Any, told: str) -> None:
    d = Driven()
    d.give({"type": "session.closed", "reason": reason})
    assert d.of(Fault) == [Fault(0, "infrastructure", f"the server ended the session: {told}")]
    assert d.wire.over
    assert d.wire.closing() == ()


@pytest.mark.parametrize(("code", "about", "ready", "severity", "hopeless"), [
    ("immutable_field_update", "x_1", True, "transparent", False),
    ("invalid_audio", "audio_4", True, "infrastructure", False),
    ("insufficient_quota", None, True, "infrastructure", True),
    ("rate_limit_exceeded", None, True, "infrastructure", False),
    ("unknown_parameter", "session_1", False, "infrastructure", False),
    ("invalid_model", None, False, "infrastructure", True)])
@pytest.mark.parametrize("inside", [True, False])
def test_errors_by_code(code: str, about: str | None, ready: bool, severity: str, hopeless: bool,
                        inside: bool) -> None:
    d = Driven(ready=ready)
    error = {"type": "invalid_request_error", "code": code, "message": "because"}
    event: dict[str, Any] = {"type": "error", "error": error}
    (error if inside else event)["client_event_id"] = about
    d.give(event)
    (fault,) = d.of(Fault)
    assert (fault.severity, fault.hopeless) == (severity, hopeless)
    assert f"{code}: because" in fault.reason


def test_every_known_event_is_logged_and_an_unknown_one_by_name() -> None:
    d = Driven()
    for kind in sorted(LOGGED):
        d.give({"type": kind, "x": "y" * 5_000})
    assert [e.name for e in d.of(StateChanged)] == sorted(LOGGED)
    assert max(len(e.detail) for e in d.of(StateChanged)) <= 1_000
    d.give({"type": "session.elapsed"})
    assert d.events[-1] == StateChanged(0, "unknown_event", "session.elapsed")
    d.give({"type": "session.started"})
    assert d.of(Fault) == [Fault(0, "transparent", "session.started again skipped")]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(kind=st.sampled_from([
    "session.started", "session.output_audio.delta", "session.output_transcript.delta",
    "session.input_transcript.delta", "session.closed", "error", "info"]),
    body=st.dictionaries(
        st.sampled_from(["session", "delta", "start_ms", "end_ms", "reason", "error", "event_id"]),
        st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
                     lambda inner: st.lists(inner, max_size=3)
                     | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=6)))
def test_no_event_of_whatever_shape_raises(kind: str, body: dict[str, Any]) -> None:
    for ready in (False, True):
        wire = Driven(ready=ready).wire
        wire.receive(json.dumps({**body, "type": kind}).encode(), 0)


def test_what_a_server_may_send_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "MAX_AUDIO_S", 0.1)
    monkeypatch.setattr(event_stream, "MAX_TEXT_CHARS", 3)
    d = Driven()
    d.audio(PCM[:4_800])
    d.text("abc")
    assert d.of(Fault) == []
    d.audio(PCM[:2])
    d.text("d")
    assert [f.reason for f in d.of(Fault)] == [
        "the server sent more than 0.1 s of audio",
        "the server sent more than 3 characters of transcript"]
