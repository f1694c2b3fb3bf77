"""The Gemini Live adapter's declaration, and its protocol, message by message."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters import registry
from adapters.base import (
    AgentEvent,
    AudioReceived,
    Fault,
    Interrupted,
    ResponseDone,
    ResponseStarted,
    SessionConfig,
    StateChanged,
    TextDelta,
)
from adapters.gemini_live import _SESSION_SETTINGS, KEY, OUTPUT_RATE_HZ, SETTINGS
from adapters.wire import event_stream, gemini_live, gemini_setup
from adapters.wire.gemini_live import CONTENT_LOGGED, LOGGED, GeminiWire
from adapters.wire.gemini_setup import GeminiSettings, close_cause, wrong_audio
from audio.errors import InputError

SECRET = "AIzaSy-test-0123456789abcdefghijklmnop"
PCM = np.random.default_rng(3).integers(-20_000, 20_000, 24_000).astype("<i2").tobytes()


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


# what is received

class Driven:
    """A wire and all its events; `at` in seconds."""

    def __init__(self, *, ready: bool = True, **chosen: Any) -> None:
        self.wire = GeminiWire(GeminiSettings(**chosen), "Be kind.")
        self.events: list[AgentEvent] = []
        self.t_ns = 0
        if ready:
            self.give({"setupComplete": {}})
            self.events.clear()

    def give(self, message: dict[str, Any] | bytes, at: float | None = None) -> None:
        if at is not None:
            self.t_ns = round(at * 1e9)
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.events += self.wire.receive(data, self.t_ns).events

    def content(self, at: float | None = None, **fields: Any) -> None:
        self.give({"serverContent": fields}, at)

    def audio(self, at: float | None = None, data: bytes = PCM[:960], **more: Any) -> None:
        self.content(at, modelTurn=turn(data), **more)

    def text(self, text: Any, at: float | None = None) -> None:
        self.content(at, outputTranscription={"text": text})

    def of(self, kind: type) -> list[Any]:
        return [e for e in self.events if isinstance(e, kind)]

    @property
    def told(self) -> list[AgentEvent]:
        """Without the log, and audio by length."""
        return [e for e in self.events if not isinstance(e, StateChanged)]


def turn(data: bytes, mime_type: str | None = "audio/pcm;rate=24000") -> dict[str, Any]:
    inline: dict[str, Any] = {"data": base64.b64encode(data).decode()}
    if mime_type is not None:
        inline["mimeType"] = mime_type
    return {"parts": [{"inlineData": inline}]}


def names(events: list[AgentEvent]) -> list[tuple[str, str | None]]:
    return [(type(e).__name__, getattr(e, "response_id", None)) for e in events]


@pytest.mark.parametrize("message", [
    {"setupComplete": {}}, {"setupComplete": {"sessionId": "s1"}}, {"setup_complete": {}},
    {"setupComplete": {}, "usageMetadata": {"totalTokenCount": 3}}])
def test_a_session_is_ready_when_its_setup_is_complete(message: dict[str, Any]) -> None:
    d = Driven(ready=False)
    assert not d.wire.ready
    d.give({"usageMetadata": {"totalTokenCount": 1}})
    d.give({"setupComplete": None})
    assert not d.wire.ready
    d.give(message)
    assert d.wire.ready
    d.give({"setupComplete": {}})
    assert d.of(Fault)[-1] == Fault(0, "transparent", "setupComplete again skipped")


def test_a_turn_ends_when_all_of_it_has_come_and_not_when_it_has_been_heard() -> None:
    d = Driven()
    d.audio(1.0)
    d.text("Hello", 1.1)
    d.audio(1.2)
    d.content(1.3, generationComplete=True)
    d.text(" there.", 1.4)
    d.content(9.0, turnComplete=True)
    d.audio(9.1)
    assert names(d.told) == [
        ("ResponseStarted", "turn_1"), ("AudioReceived", "turn_1"), ("TextDelta", "turn_1"),
        ("AudioReceived", "turn_1"), ("ResponseDone", "turn_1"), ("TextDelta", "turn_1"),
        ("ResponseStarted", "turn_2"), ("AudioReceived", "turn_2")]
    (done,) = d.of(ResponseDone)
    assert done == ResponseDone(1_300_000_000, "turn_1", "completed")
    assert b"".join((e.samples * 32768).astype("<i2").tobytes()
                    for e in d.of(AudioReceived)) == PCM[:960] * 3


def test_an_interrupted_turn_has_no_generation_complete() -> None:
    d = Driven()
    d.audio(1.0)
    d.content(1.5, interrupted=True)
    d.content(1.6, turnComplete=True)
    d.audio(1.7)
    assert names(d.told) == [
        ("ResponseStarted", "turn_1"), ("AudioReceived", "turn_1"), ("Interrupted", "turn_1"),
        ("ResponseDone", "turn_1"), ("ResponseStarted", "turn_2"), ("AudioReceived", "turn_2")]
    assert d.of(Interrupted)[0].t_ns == 1_500_000_000
    assert d.of(ResponseDone)[0].status == "interrupted"


def test_a_turn_may_be_interrupted_while_it_is_only_being_heard() -> None:
    d = Driven()
    d.audio(1.0)
    d.content(1.1, generationComplete=True)
    d.content(4.0, interrupted=True)
    d.content(4.0, interrupted=True)
    d.content(4.1, turnComplete=True)
    assert [type(e) for e in d.told] == [
        ResponseStarted, AudioReceived, ResponseDone, Interrupted, Fault]
    assert d.of(Interrupted) == [Interrupted(4_000_000_000, "turn_1")]
    assert d.of(ResponseDone)[0].status == "completed"
    assert d.of(Fault)[0].reason == "interrupted again for turn_1 skipped"


def test_an_interruption_after_the_turn_is_of_whatever_is_still_heard() -> None:
    d = Driven()
    d.audio(1.0)
    d.content(1.1, turnComplete=True)
    d.content(1.2, interrupted=True)
    d.content(1.3, turnComplete=True)
    assert d.of(Interrupted) == [Interrupted(1_200_000_000, None)]
    assert [e.status for e in d.of(ResponseDone)] == ["completed"]
    assert d.of(Fault) == []


def test_what_stands_beside_an_end_comes_before_it() -> None:
    """Gemini 3 sends its last words and sounds together with the end."""
    d = Driven()
    d.give({"usageMetadata": {"totalTokenCount": 9}, "serverContent": {
        "turnComplete": True, "generationComplete": True,
        "outputTranscription": {"text": "Hi", "finished": True}, "modelTurn": turn(PCM[:960])}})
    assert names(d.told) == [
        ("ResponseStarted", "turn_1"), ("AudioReceived", "turn_1"), ("TextDelta", "turn_1"),
        ("ResponseDone", "turn_1")]
    assert d.events[-1] == StateChanged(0, "usageMetadata", '{"totalTokenCount":9}')
    d.content(interrupted=True, modelTurn=turn(PCM[:960]))
    assert names(d.told)[-3:] == [
        ("AudioReceived", "turn_2"), ("Interrupted", "turn_2"), ("ResponseDone", "turn_2")]


@pytest.mark.parametrize(("after_s", "late"), [(0.1, True), (0.3, True), (0.31, False)])
@pytest.mark.parametrize("end", ["generationComplete", "interrupted"])
def test_audio_after_an_end_is_of_that_turn_only_if_it_comes_at_once(
    end: str, after_s: float, late: bool,
) -> None:
    d = Driven()
    d.audio(1.0)
    d.content(2.0, **{end: True})
    d.audio(2.0 + after_s)
    assert d.of(AudioReceived)[-1].response_id == ("turn_1" if late else "turn_2")
    told = {"generationComplete": "completed", "interrupted": "interrupted"}[end]
    assert [f.reason for f in d.of(Fault)] == [
        f"late audio of turn_1, which is {told}" if late else "turn_1 got no turnComplete"]


def test_a_turn_complete_alone_ends_a_turn_with_its_reason() -> None:
    d = Driven()
    d.audio(1.0)
    d.content(2.0, turnComplete=True, turnCompleteReason="RESPONSE_REJECTED")
    assert d.of(ResponseDone) == [ResponseDone(2_000_000_000, "turn_1", "RESPONSE_REJECTED")]
    assert "RESPONSE_REJECTED" in d.of(StateChanged)[-1].detail
    d.content(3.0, turnComplete=True, interactionStatus="IN_PROGRESS", waitingForInput=True)
    assert len(d.of(ResponseDone)) == 1
    assert "IN_PROGRESS" in d.of(StateChanged)[-1].detail
    assert d.of(Fault) == []


@pytest.mark.parametrize(("at", "response_id"), [(4.0, "turn_1"), (4.1, "turn_2")])
def test_a_turn_without_an_end_is_over_after_two_seconds_of_silence(
    at: float, response_id: str,
) -> None:
    d = Driven()
    d.audio(1.0, PCM)  # 1 s: heard from 1 s to 2 s
    d.audio(at)
    d.text("word", at)
    assert [e.response_id for e in d.of(AudioReceived)] == ["turn_1", response_id]
    assert d.of(TextDelta)[0].response_id == response_id
    ended = response_id == "turn_2"
    assert [(e.response_id, e.status) for e in d.of(ResponseDone)] == [
        ("turn_1", "unknown")] * ended
    assert [f.reason for f in d.of(Fault)] == ["turn_1 got no end"] * ended


@pytest.mark.parametrize("value", [False, None, "true", 1, {}])
def test_only_true_ends_anything(value: Any) -> None:
    d = Driven()
    d.audio(1.0)
    d.content(2.0, generationComplete=value, turnComplete=value, interrupted=value)
    assert [type(e) for e in d.told] == [ResponseStarted, AudioReceived]


def test_both_spellings_say_the_same() -> None:
    camel, snake = Driven(), Driven()
    messages = [
        {"serverContent": {"modelTurn": turn(PCM[:960])}},
        {"serverContent": {"outputTranscription": {"text": "Hi"}}},
        {"serverContent": {"inputTranscription": {"text": "user"}, "interrupted": True}},
        {"serverContent": {"turnComplete": True, "turnCompleteReason": "NEED_MORE_INPUT"}},
        {"goAway": {"timeLeft": "5s"}},
        {"sessionResumptionUpdate": {"newHandle": "h", "resumable": True}},
        {"toolCall": {"functionCalls": []}}]
    for message in messages:
        camel.give(message)
        text = json.dumps(message)
        for name in ("serverContent", "modelTurn", "inlineData", "mimeType", "outputTranscription",
                     "inputTranscription", "turnComplete", "turnCompleteReason", "goAway",
                     "timeLeft", "sessionResumptionUpdate", "newHandle", "toolCall"):
            text = text.replace(f'"{name}"', f'"{gemini_live._snake(name)}"')
        assert "modelTurn" not in text
        snake.give(text.encode())
    assert camel.of(Fault) == []
    camel_told, snake_told = (
        [(type(e), getattr(e, "name", ""), getattr(e, "response_id", "")) for e in d.events]
        for d in (camel, snake))
    assert camel_told == snake_told
    assert len(camel_told) > 8


# audio

@given(cuts=st.lists(st.integers(1, 4_799), max_size=12))
def test_audio_in_any_pieces_is_the_same_audio(cuts: list[int]) -> None:
    d = Driven()
    for a, b in pairwise([0, *sorted(set(cuts)), 4_800]):
        d.audio(data=PCM[a:b])
    got = np.concatenate([e.samples for e in d.of(AudioReceived)])
    assert (got * 32768).astype("<i2").tobytes() == PCM[:4_800]
    assert {e.response_id for e in d.of(AudioReceived)} == {"turn_1"}
    assert all(f.severity == "transparent" for f in d.of(Fault))


def test_several_parts_of_a_message_are_taken_in_order_and_text_is_no_speech() -> None:
    d = Driven()
    d.content(modelTurn={"parts": [
        {"text": "thinking", "thought": True}, *turn(PCM[:100])["parts"], {"text": "aside"},
        *turn(PCM[100:300])["parts"], {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]})
    assert [len(e.samples) for e in d.of(AudioReceived)] == [50, 100]
    assert d.of(TextDelta) == []
    assert [e.detail for e in d.of(StateChanged)] == [
        '{"text":"thinking","thought":true}', '{"text":"aside"}', '{"mimeType":"image/png"}']
    assert d.of(Fault) == []


def test_broken_audio_ends_the_session_and_an_empty_piece_begins_nothing() -> None:
    d = Driven()
    for nothing in ("", None):
        d.content(modelTurn={"parts": [{"inlineData": {"data": nothing}}]})
    assert [f.severity for f in d.of(Fault)] == ["transparent"] * 2
    assert d.of(ResponseStarted) == []
    d.content(modelTurn={"parts": [{"inlineData": {"data": "!!!!"}}]})
    assert d.of(Fault)[-1].severity == "infrastructure"
    assert d.of(ResponseStarted) == []


@pytest.mark.parametrize(("said", "reason"), [
    ("AAAA", "expected a modelTurn with a list of parts, got AAAA"),
    ([], "expected a modelTurn with a list of parts, got []"),
    ({"parts": {"inlineData": 1}}, "expected a modelTurn with a list of parts, got {"),
    ({"parts": [{"text": "x"}] * 1_001}, "expected a modelTurn of at most 1000 parts, got 1001")])
def test_a_turn_that_cannot_be_read_ends_the_session(said: object, reason: str) -> None:
    d = Driven()
    d.content(modelTurn=said)
    (fault,) = d.of(Fault)
    assert fault.severity == "infrastructure"
    assert fault.reason.startswith(reason)


def test_a_turn_without_parts_and_one_of_many_are_none_of_these() -> None:
    d = Driven()
    for said in (None, {}, {"parts": None}, {"parts": []}):
        d.content(modelTurn=said, waitingForInput=True)
    d.content(modelTurn={"parts": turn(PCM[:2])["parts"] * 1_000})
    assert d.of(Fault) == []
    assert [len(e.samples) for e in d.of(AudioReceived)] == [1] * 1_000


def test_of_a_thousand_unknown_fields_some_are_named_and_the_rest_counted() -> None:
    d = Driven()
    d.give({f"mood{k}": 1 for k in range(1_000)})
    d.content(**{f"tempo{k}": 1 for k in range(21)})
    d.content(**{f"key{k}": 1 for k in range(20)})
    told = [e.detail for e in d.of(StateChanged)]
    assert told == [*(f"mood{k}" for k in range(20)), "and 980 more of this message",
                    *(f"serverContent.tempo{k}" for k in range(20)), "and 1 more of this message",
                    *(f"serverContent.key{k}" for k in range(20))]


def test_half_a_sample_at_the_end_of_a_turn_is_told_and_spoils_no_other() -> None:
    d = Driven()
    d.audio(data=PCM[:3])
    d.content(generationComplete=True, turnComplete=True)
    d.audio(data=PCM[:4])
    assert "half a sample left over at the end of turn_1" in [f.reason for f in d.of(Fault)]
    assert (d.of(AudioReceived)[-1].samples * 32768).astype("<i2").tobytes() == PCM[:4]


@pytest.mark.parametrize(("mime_type", "wrong"), [
    (None, None), ("audio/pcm", None), ("audio/pcm;rate=24000", None),
    ("Audio/PCM; rate=24000", None), ("audio/L16;codec=pcm;rate=24000", None),
    ("audio/pcm;rate=24000;channels=1", None),
    ("audio/pcm;rate=16000", "another sample rate: audio/pcm;rate=16000 instead of "
                             "audio/pcm;rate=24000"),
    ("audio/pcm;rate=24000;channels=2", "more than one channel"),
    ("audio/ogg;codecs=opus", "another format"), ("audio/L16;codec=opus", "another format"),
    ({"a": 1}, "another format"), ("", "another format")])
def test_audio_that_is_declared_as_something_else_ends_the_session(
    mime_type: Any, wrong: str | None,
) -> None:
    found = wrong_audio(mime_type, 24_000)
    assert (found is None) == (wrong is None)
    assert wrong is None or (found is not None and found.startswith(wrong))
    if isinstance(mime_type, str) and mime_type.lower().startswith("audio/"):
        d = Driven()
        d.content(modelTurn=turn(PCM[:960], mime_type))
        assert bool(d.of(AudioReceived)) == (wrong is None)
        assert [f.reason for f in d.of(Fault)] == ([f"the server sends {found}"] if wrong else [])


# words

def test_words_ahead_of_any_sound_wait_for_it() -> None:
    d = Driven()
    d.text("Hi", 0.5)
    assert [e.name for e in d.of(StateChanged)] == ["transcript_ahead"]
    d.text(" there", 0.6)
    assert d.of(TextDelta) == []
    d.audio(1.0)
    assert names(d.told) == [("ResponseStarted", "turn_1"), ("TextDelta", "turn_1"),
                             ("TextDelta", "turn_1"), ("AudioReceived", "turn_1")]
    assert "".join(e.text for e in d.of(TextDelta)) == "Hi there"


@pytest.mark.parametrize(("after_s", "response_id"), [(0.9, "turn_1"), (1.1, "turn_2")])
@pytest.mark.parametrize("interrupted", [True, False])
def test_words_after_a_turn_are_of_that_turn_only_if_they_come_at_once(
    after_s: float, response_id: str, interrupted: bool,
) -> None:
    d = Driven()
    d.audio(1.0)
    d.content(2.0, interrupted=interrupted, turnComplete=True)
    d.text("late", 2.0 + after_s)
    d.audio(5.0)
    assert [e.response_id for e in d.of(TextDelta)] == [response_id]


def test_words_wait_after_an_interruption_whose_turn_is_never_completed() -> None:
    d = Driven()
    d.audio(1.0)
    d.content(2.0, interrupted=True)
    d.text("late", 2.5)
    d.text("new", 3.5)
    d.audio(3.6)
    assert [(e.text, e.response_id) for e in d.of(TextDelta)] == [
        ("late", "turn_1"), ("new", "turn_2")]


@pytest.mark.parametrize("said", [{"text": ""}, {"text": None}, {"text": 5}, {}, ["x"], "x"])
def test_a_transcript_that_is_no_text_is_skipped(said: Any) -> None:
    d = Driven()
    d.content(outputTranscription=said)
    assert [f.severity for f in d.of(Fault)] == ["transparent"]
    assert d.of(TextDelta) == []


def test_the_mark_of_a_finished_transcript_is_no_fault() -> None:
    d = Driven()
    d.content(outputTranscription={"finished": True})
    assert d.events == []


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
