"""The Gemini Live adapter's declaration, what is asked for, the log, ends, errors and bounds."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from driven_gemini import PCM, Driven
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters import registry
from adapters.base import (
    AudioReceived,
    Fault,
    ResponseDone,
    ResponseStarted,
    SessionConfig,
    StateChanged,
    TextDelta,
)
from adapters.gemini_live import _SESSION_SETTINGS, KEY, OUTPUT_RATE_HZ, SETTINGS
from adapters.wire import event_stream, gemini_live, gemini_setup
from adapters.wire.gemini_live import CONTENT_LOGGED, LOGGED, GeminiWire
from adapters.wire.gemini_setup import GeminiSettings, close_cause
from audio.errors import InputError

SECRET = "AIzaSy-test-0123456789abcdefghijklmnop"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", SECRET)
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)


# the declaration

def test_the_defaults_are_the_papers_and_the_declared_ones_those_of_the_protocol() -> None:
    # DSB-IFEval, appendices E.1, E.2, F.4, F.5; it names no voice and no VAD setting
    chosen = registry.create("gemini-live").settings
    assert {k: chosen[k] for k in ("model", "input_rate_hz", "voice", "keepalive_s")} == {
        "model": "gemini-3.8-live", "input_rate_hz": 24_000, "voice": "", "keepalive_s": 20.0}
    declared = {s.name: s.default for s in SETTINGS if s.name in _SESSION_SETTINGS}
    assert declared == {name: getattr(GeminiSettings(), name)
                        for name in GeminiSettings.__dataclass_fields__}
    assert OUTPUT_RATE_HZ == gemini_setup.OUTPUT_RATE_HZ


def test_what_it_can_do_follows_its_settings() -> None:
    can = registry.create("gemini_live").capabilities
    assert can.full_duplex
    assert can.server_vad
    assert can.reports_response_done
    assert can.reports_interruption
    assert can.transcript == "response"
    changed = registry.create("gemini_live", {
        "activity_handling": "no_interruption", "output_transcription": "off",
        "input_rate_hz": "16000"}).capabilities
    assert not changed.reports_interruption
    assert changed.transcript == "none"
    assert (changed.input_rate_hz, changed.output_rate_hz) == (16_000, 24_000)


def test_the_key_goes_bare_into_its_header_the_first_variable_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "another-key-0123456789")
    assert KEY.read() == ({"x-goog-api-key": SECRET}, (SECRET,))
    monkeypatch.delenv("GOOGLE_API_KEY")
    assert KEY.read()[0] == {"x-goog-api-key": "another-key-0123456789"}


def test_settings_and_version_hold_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = registry.create("gemini_live")
    assert SECRET not in repr((adapter, vars(adapter), adapter.settings, adapter.version))
    assert "+gemini-live." in adapter.version
    monkeypatch.delenv("GOOGLE_API_KEY")
    with pytest.raises(InputError, match="GOOGLE_API_KEY is not set"):
        registry.create("gemini_live")
    with pytest.raises(InputError, match="GOOGLE_API_KEY: expected a key in the environment"):
        adapter.session(SessionConfig("R1-A-1-L0", 1, "", 1), None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("setting", "value", "message"), [
    ("base_url", "ws://generativelanguage.googleapis.com", r"--set base_url \(adapter gemini_live"),
    ("api_version", "v2", "one of v1, v1beta, v1alpha"),
    ("model", "", r"--set model \(adapter gemini_live\): expected a name, got ''"),
    ("input_rate_hz", "22051", r"--set input_rate_hz \(adapter gemini_live\): expected a multiple "
                               "of 50, got 22051"),
    ("vad_start_sensitivity", "medium", "one of server, low, high"),
    ("vad_silence_duration_ms", "-2", "a whole number from -1 to 10000")])
def test_wrong_settings_are_refused_before_anything_is_dialled(
    setting: str, value: str, message: str,
) -> None:
    with pytest.raises(InputError, match=message):
        registry.create("gemini_live", {setting: value})


def test_listing_it_loads_no_network_library() -> None:
    code = ("import sys; from adapters import registry; registry.spec('gemini_live'); "
            "sys.exit(any(m.split('.')[0] == 'websockets' or m.startswith('adapters.wire') "
            "for m in sys.modules))")
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# what is sent

def test_a_session_asks_for_no_more_than_it_needs() -> None:
    (message,) = GeminiWire(GeminiSettings(), "Be kind: señal.").opening()
    assert json.loads(message) == {"setup": {
        "model": "models/gemini-3.8-live",
        "generationConfig": {"responseModalities": ["AUDIO"]},
        "systemInstruction": {"parts": [{"text": "Be kind: señal."}]},
        "outputAudioTranscription": {}}}
    assert "señal" in str(message)


@pytest.mark.parametrize("prompt", ["", "  \n"])
def test_a_blank_prompt_is_left_out_and_a_whole_model_name_is_kept(prompt: str) -> None:
    chosen = GeminiSettings(model="tunedModels/mine", output_transcription=False)
    assert chosen.setup(prompt) == {
        "model": "tunedModels/mine", "generationConfig": {"responseModalities": ["AUDIO"]}}


def test_everything_that_can_be_set_is_sent_in_its_place() -> None:
    chosen = GeminiSettings(
        voice="Kore", vad_start_sensitivity="low", vad_end_sensitivity="high",
        vad_prefix_padding_ms=0, vad_silence_duration_ms=800, activity_handling="no_interruption",
        input_transcription=True, context_compression=True)
    assert chosen.setup("") == {
        "model": "models/gemini-3.8-live",
        "generationConfig": {"responseModalities": ["AUDIO"], "speechConfig": {
            "voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}}},
        "realtimeInputConfig": {
            "automaticActivityDetection": {
                "startOfSpeechSensitivity": "START_SENSITIVITY_LOW",
                "endOfSpeechSensitivity": "END_SENSITIVITY_HIGH",
                "prefixPaddingMs": 0, "silenceDurationMs": 800},
            "activityHandling": "NO_INTERRUPTION"},
        "inputAudioTranscription": {}, "outputAudioTranscription": {},
        "contextWindowCompression": {"slidingWindow": {}}}
    assert GeminiSettings(activity_handling="interrupts").setup("")["realtimeInputConfig"] == {
        "activityHandling": "START_OF_ACTIVITY_INTERRUPTS"}


@pytest.mark.parametrize("rate_hz", [16_000, 24_000])
def test_user_audio_declares_its_rate(rate_hz: int) -> None:
    wire = GeminiWire(GeminiSettings(input_rate_hz=rate_hz), "")
    frame = np.linspace(-1, 1, rate_hz // 50, dtype=np.float32)
    (message,) = wire.audio(frame)
    sent = json.loads(message)["realtimeInput"]["audio"]
    assert sent["mimeType"] == f"audio/pcm;rate={rate_hz}"
    pcm = np.frombuffer(base64.b64decode(sent["data"]), dtype="<i2")
    assert np.array_equal(pcm, np.clip(np.round(frame * 32768), -32768, 32767).astype("<i2"))
    with pytest.raises(ValueError, match=r"expected a frame of shape"):
        wire.audio(frame[1:])
    assert wire.closing() == ()


# the log, ends, errors, bounds

def test_what_changes_nothing_is_logged_and_the_rest_by_name() -> None:
    d = Driven()
    for name in sorted(LOGGED):
        d.give({name: {"x": "y" * 5_000}})
    for name in CONTENT_LOGGED:
        d.content(**{name: {"text": "z" * 5_000}})
    assert [e.name for e in d.of(StateChanged)] == [*sorted(LOGGED), *CONTENT_LOGGED]
    assert max(len(e.detail) for e in d.of(StateChanged)) <= 1_000
    d.give({"mood": {"x": 1}, "serverContent": {"tempo": 3}})
    assert [e.detail for e in d.of(StateChanged)[-2:]] == ["mood", "serverContent.tempo"]
    assert d.of(Fault) == []
    d.give({"serverContent": [1], "toolCall": "x"})
    assert [f.reason for f in d.of(Fault)] == [
        "serverContent skipped: expected an object, got [1]",
        "toolCall skipped: expected an object, got x"]


def test_a_tool_call_is_logged_and_never_answered() -> None:
    d = Driven()
    output = d.wire.receive(json.dumps({"toolCall": {"functionCalls": [
        {"id": "f1", "name": "hang_up", "args": {}}]}}).encode(), 5)
    assert output.messages == ()
    (event,) = output.events
    assert isinstance(event, StateChanged)
    assert "hang_up" in event.detail


def test_a_handle_is_not_written_down() -> None:
    d = Driven()
    d.give({"sessionResumptionUpdate": {"newHandle": "secret-handle", "resumable": True}})
    assert d.events == [StateChanged(0, "sessionResumptionUpdate",
                                     '{"resumable":true,"handle":true}')]


@pytest.mark.parametrize(("code", "reason", "told", "hopeless"), [
    (1007, "API key not valid. Please pass a valid API key.", "the key was refused", True),
    (1007, "Request contains an invalid argument.", "does not take what was sent", True),
    (1007, "error when processing input audio, please check", "input_rate_hz", False),
    (1008, "models/x is not found for API version v1, or is not supported for "
           "bidiGenerateContent", "no such model", True),
    (1008, "Operation is not implemented, or supported, or enabled.", "known to pass", False),
    (1008, "The operation was aborted.", "time of the session or connection is over", False),
    (1008, "", "policy", False),
    (1011, "Deadline expired before operation could complete.", "time of the session", False),
    (1011, "You exceeded your current quota, please check your plan", "quota or rate", False),
    (1011, "Internal error encountered.", "an error inside the server", False)])
def test_closes_are_known_by_their_reason_and_then_by_their_code(
    code: int, reason: str, told: str, hopeless: bool,
) -> None:
    cause = Driven(ready=False).wire.closed(code, reason)
    assert cause is not None
    assert told in cause.text
    assert cause.hopeless == hopeless
    assert cause.throttled == ("quota or rate" in told)
    assert close_cause(code, reason.upper()) == cause


def test_1007_in_the_middle_of_a_session_does_not_stop_a_run() -> None:
    before, after = (Driven(ready=ready).wire.closed(1007, "Request contains an invalid argument.")
                     for ready in (False, True))
    assert before is not None
    assert after is not None
    assert (before.hopeless, after.hopeless) == (True, False)
    assert before.text == after.text


@pytest.mark.parametrize(("left", "told"), [("60s", "60s"), (None, "unknown"), (7, "7")])
def test_a_close_that_was_announced_says_so(left: Any, told: str) -> None:
    d = Driven()
    assert d.wire.closed(1000, "") is None
    d.give({"goAway": {"timeLeft": left}})
    assert d.events == [StateChanged(0, "goAway", f'{{"timeLeft":"{told}"}}')]
    for code in (1000, 1006):
        cause = d.wire.closed(code, "")
        assert cause is not None
        assert cause.text == f"announced by goAway, time left {told}"
    cause = d.wire.closed(1011, "Deadline expired")
    assert cause is not None
    assert cause.text.startswith("the time of the session or connection is over; announced by go")
    cause = d.wire.closed(1011, "You exceeded your current quota")
    assert cause is not None
    assert cause.throttled


@pytest.mark.parametrize(("body", "told", "hopeless", "throttled"), [
    ({"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow down"},
     "error message: 429: RESOURCE_EXHAUSTED: slow down", False, True),
    ({"code": 403}, "error message: 403", True, False),
    ({}, "error message: no cause given", False, False)])
def test_an_error_in_a_message_ends_the_session(
    body: dict[str, Any], told: str, hopeless: bool, throttled: bool,
) -> None:
    d = Driven()
    d.give({"error": body})
    assert d.of(Fault) == [Fault(0, "infrastructure", told, hopeless, throttled)]


def test_what_is_no_message_is_skipped_until_there_is_nothing_else() -> None:
    d = Driven()
    for data in (b"", b"{}", b"[]", b"\xff", b'{"serverContent": null}'):
        d.give(data)
    assert [f.severity for f in d.of(Fault)] == ["transparent"] * 5
    for _ in range(16):
        d.give(b"hello")
    assert d.of(Fault)[-1].severity == "infrastructure"
    assert "21 messages in a row are no events" in d.of(Fault)[-1].reason


def test_what_a_server_may_send_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "MAX_AUDIO_S", 0.1)
    monkeypatch.setattr(event_stream, "MAX_TEXT_CHARS", 3)
    monkeypatch.setattr(gemini_live, "MAX_TURNS", 2)
    d = Driven()
    d.audio(data=PCM[:4_800])
    d.text("abc")
    assert d.of(Fault) == []
    d.audio(data=PCM[:2])
    d.text("d")
    d.content(turnComplete=True)
    monkeypatch.setattr(event_stream, "MAX_AUDIO_S", 10)
    for _ in range(2):
        d.audio(data=PCM[:2], turnComplete=True)
    assert [f.reason for f in d.of(Fault)] == [
        "the server sent more than 0.1 s of audio",
        "the server sent more than 3 characters of transcript",
        "the server began more than 2 turns"]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=5) | st.sampled_from(["parts", "inlineData", "data", "text",
                                                             "mimeType", "timeLeft", "code"]),
                      inner, max_size=3), max_leaves=8)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.dictionaries(
    st.sampled_from(["setupComplete", "serverContent", "toolCall", "goAway", "usageMetadata",
                     "sessionResumptionUpdate", "error", "x"]),
    _JSON | st.dictionaries(st.sampled_from([
        "modelTurn", "outputTranscription", "generationComplete", "interrupted", "turnComplete",
        "turnCompleteReason", "inputTranscription"]), _JSON, max_size=4), max_size=3), max_size=5))
def test_no_message_of_whatever_shape_raises(messages: list[dict[str, Any]]) -> None:
    d = Driven()
    for message in messages:
        d.give(message)
    d.wire.closed(1011, "x")


@given(st.lists(st.sampled_from(["audio", "text", "generationComplete", "interrupted",
                                 "turnComplete"]), max_size=30), st.floats(0, 2))
def test_however_messages_come_responses_begin_once_end_once_and_hold_their_audio(
    steps: list[str], apart_s: float,
) -> None:
    d = Driven()
    for k, step in enumerate(steps):
        if step == "audio":
            d.audio(k * apart_s)
        elif step == "text":
            d.text(f"w{k} ", k * apart_s)
        else:
            d.content(k * apart_s, **{step: True})
    started = [e.response_id for e in d.of(ResponseStarted)]
    assert started == [f"turn_{k + 1}" for k in range(len(started))]
    done = [e.response_id for e in d.of(ResponseDone)]
    assert len(set(done)) == len(done)
    assert set(done) <= set(started)
    begun: set[str] = set()
    for event in d.events:
        if isinstance(event, ResponseStarted):
            begun.add(event.response_id)
        elif isinstance(event, AudioReceived | TextDelta | ResponseDone):
            assert event.response_id in begun
    assert len(d.of(AudioReceived)) == steps.count("audio")
    assert all(f.severity == "transparent" for f in d.of(Fault))
