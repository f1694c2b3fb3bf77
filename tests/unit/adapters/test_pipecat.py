"""The Pipecat adapter's declaration, and its protocol, message by message."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipecat_proto import FRAME, encoded

from adapters import registry
from adapters.base import (
    AgentEvent,
    AudioReceived,
    Fault,
    Interrupted,
    ResponseDone,
    ResponseStarted,
    StateChanged,
    TextDelta,
)
from adapters.pipecat import _WIRE_SETTINGS, SETTINGS
from adapters.wire import event_stream
from adapters.wire.pipecat import PipecatWire
from adapters.wire.pipecat_session import PipecatSettings
from adapters.wire.rtvi import IGNORED, LOGGED
from audio.buffers import float_to_pcm16
from audio.errors import InputError

PCM = np.random.default_rng(3).integers(-20_000, 20_000, 24_000).astype("<i2").tobytes()
MS = 1_000_000


class Driven:
    """A wire, what was told of what it received, and what it answered."""

    def __init__(self, prompt: str = "Be brief.", ready: bool = True, **settings: Any) -> None:
        self.wire = PipecatWire(PipecatSettings(**settings), prompt)
        self.events: list[AgentEvent] = []
        self.sent = [self.read(m) for m in self.wire.opening()]
        self._ids = 0
        if ready and self.wire._settings.rtvi:
            self.bot_ready()

    @staticmethod
    def read(message: bytes) -> dict[str, Any]:
        frame = FRAME.FromString(message)
        assert frame.WhichOneof("frame") == "message"
        return json.loads(frame.message.data)

    def take(self, data: bytes, t_ms: float = 0.0) -> None:
        output = self.wire.receive(data, round(t_ms * MS))
        self.events += output.events
        self.sent += [self.read(m) for m in output.messages]

    def say(self, kind: str, t_ms: float = 0.0, **more: Any) -> None:
        self.take(encoded("message", data=json.dumps(
            {"label": "rtvi-ai", "type": kind, **more})), t_ms)

    def bot_ready(self, version: str = "2.2.0", **more: Any) -> None:
        self.say("bot-ready", id="1", data={"version": version, **more})

    def audio(self, pcm: bytes = PCM[:1920], t_ms: float = 0.0, **more: Any) -> None:
        self._ids += 1
        self.take(encoded("audio", **{"id": self._ids, "audio": pcm, "sample_rate": 24_000,
                                      "num_channels": 1, **more}), t_ms)

    def interruption(self, t_ms: float = 0.0) -> None:
        self._ids += 1
        self.take(encoded("interruption", id=self._ids), t_ms)

    def spoken(self, segment: int, told: str, rest: str, status: str) -> None:
        self.say("bot-output", data={
            "text": told + rest, "segment_id": segment, "spoken_status": status,
            "spoken_progress": {"accumulated_text": told, "remaining_text": rest}})

    def of(self, kind: type) -> list[Any]:
        return [e for e in self.events if isinstance(e, kind)]

    @property
    def faults(self) -> list[tuple[str, str]]:
        return [(f.severity, f.reason) for f in self.of(Fault)]

    @property
    def words(self) -> list[tuple[str, int | None]]:
        return [(e.text, e.audio_n) for e in self.of(TextDelta)]


# the declaration

def test_the_defaults_are_pipecats_and_the_declared_ones_those_of_the_protocol() -> None:
    settings = registry.create("pipecat").settings
    assert (settings["input_rate_hz"], settings["output_rate_hz"]) == (16_000, 24_000)
    assert settings["url"] == "ws://127.0.0.1:7860/ws-client"
    assert {s.name: s.default for s in SETTINGS} == {
        name: getattr(PipecatSettings(), name) for name in _WIRE_SETTINGS}
    assert set(_WIRE_SETTINGS) == set(PipecatSettings.__dataclass_fields__)


@pytest.mark.parametrize(("settings", "persona", "done", "transcript"), [
    ({}, False, True, "stream"),
    ({"system_prompt": "send_text"}, True, True, "stream"),
    ({"reply_end": "silence"}, False, False, "stream"),
    ({"transcript": "none"}, False, True, "none"),
    ({"rtvi": "false"}, False, False, "none"),
    ({"rtvi": "false", "transcript": "text_frame"}, False, False, "stream")])
def test_what_it_can_do_follows_from_the_settings(
    settings: dict[str, str], persona: bool, done: bool, transcript: str,
) -> None:
    can = registry.create("pipecat", settings).capabilities
    assert (can.persona_prompt, can.reports_response_done, can.transcript) == (
        persona, done, transcript)
    assert can.full_duplex
    assert can.reports_interruption
    assert not registry.create("pipecat", {"full_duplex": "false"}).capabilities.full_duplex


@pytest.mark.parametrize(("settings", "message"), [
    ({"url": "ws://agent.example"}, r"--set url \(adapter pipecat\): expected wss://"),
    ({"input_rate_hz": "16001"}, r"--set input_rate_hz \(adapter pipecat\): expected a multiple"),
    ({"prompt_message": ""}, r"--set prompt_message \(adapter pipecat\): expected a name"),
    ({"rtvi": "no", "system_prompt": "send_text"}, "expected none while rtvi=false")])
def test_wrong_settings_are_refused_before_anything_is_dialled(
    settings: dict[str, str], message: str,
) -> None:
    with pytest.raises(InputError, match=message):
        registry.create("pipecat", settings)


def test_listing_it_loads_no_network_library() -> None:
    code = ("import sys; from adapters import registry; registry.spec('pipecat'); "
            "print([m for m in ('websockets', 'google.protobuf', 'numpy.random') "
            "if m in sys.modules])")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "websockets" not in out.stdout
    assert "google.protobuf" not in out.stdout


# what goes out

def test_client_ready_is_said_first_and_bot_ready_makes_it_ready() -> None:
    d = Driven(ready=False)
    assert d.sent == [{"label": "rtvi-ai", "type": "client-ready", "id": "client_ready_1",
                       "data": {"version": "2.2.0", "about": {"library": "duplexrig"}}}]
    d.audio()
    d.say("bot-llm-started")
    assert not d.wire.ready
    d.bot_ready()
    assert d.wire.ready
    d.bot_ready()
    assert d.faults == [("transparent", "bot-ready again skipped")]
    assert d.wire.closing() == ()
    assert len(d.sent) == 1


def test_without_rtvi_nothing_is_said_and_the_connection_or_a_frame_is_enough() -> None:
    assert Driven(rtvi=False).wire.ready
    d = Driven(rtvi=False, ready_on="first_frame")
    assert not d.wire.ready
    d.take(b"\xff")
    assert not d.wire.ready
    d.audio()
    assert d.wire.ready
    assert d.sent == []
    for kind in ("bot-started-speaking", "bot-ready", "error", "bot-interrupted"):
        d.say(kind, data={"error": "x", "fatal": True})
    assert d.of(ResponseStarted) == []
    assert [s for s, _ in d.faults] == ["transparent"]


def test_user_audio_is_pcm16_with_its_rate_and_nothing_else() -> None:
    frame = np.linspace(-1, 1, 320, dtype=np.float32)
    (message,) = Driven().wire.audio(frame)
    audio = FRAME.FromString(message).audio
    assert audio.audio == float_to_pcm16(frame).astype("<i2").tobytes()
    assert (audio.sample_rate, audio.num_channels, audio.id, audio.name) == (16_000, 1, 0, "")
    assert not audio.HasField("pts")
    for wrong in (np.zeros(480, np.float32), np.full(320, np.nan, np.float32)):
        with pytest.raises(ValueError):
            Driven().wire.audio(wrong)


@pytest.mark.parametrize(("how", "kind", "data"), [
    ("client_message", "client-message", {"t": "system-prompt", "d": {"system_prompt": "Brief"}}),
    ("client_request", "client-message", {"t": "system-prompt", "d": {"system_prompt": "Brief"}}),
    ("send_text", "send-text", {"content": "Brief", "options": {"run_immediately": False}}),
    ("append_to_context", "append-to-context",
     {"role": "system", "content": "Brief", "run_immediately": False})])
def test_the_prompt_follows_bot_ready(how: str, kind: str, data: dict[str, Any]) -> None:
    d = Driven("Brief", system_prompt=how)
    assert d.sent[1:] == [{"label": "rtvi-ai", "type": kind, "id": "system_prompt_1",
                           "data": data}]
    assert d.wire.ready is (how != "client_request")
    empty = Driven("", system_prompt=how).sent[1:]
    assert len(empty) == kind.startswith("client")  # an agent may hold the one before


def test_a_request_is_answered_before_the_session_begins() -> None:
    d = Driven(system_prompt="client_request")
    d.say("server-response", id="other", data={"t": "x"})
    assert not d.wire.ready
    d.say("server-response", id="system_prompt_1", data={"t": "system-prompt", "d": "ok"})
    assert d.wire.ready
    assert d.faults == []


def test_a_refused_prompt_ends_the_session_and_a_doubted_version_does_not() -> None:
    d = Driven(system_prompt="append_to_context")
    d.say("error-response", id="client_ready_1", data={"error": "version may not fit"})
    d.say("error-response", id="system_prompt_1", data={"error": "Unsupported type"})
    assert d.faults == [
        ("transparent", "error-response: version may not fit"),
        ("infrastructure", "the agent did not take the system prompt: error-response: "
                           "Unsupported type")]
    assert d.of(Fault)[1].hopeless


# speaking

def test_a_reply_begins_and_ends_as_the_agent_says() -> None:
    d = Driven()
    d.audio(PCM[:1920], 10)
    d.say("bot-started-speaking", 11)
    d.audio(PCM[1920:3840], 12)
    d.say("bot-started-speaking", 13)
    d.say("bot-stopped-speaking", 90)
    d.say("bot-stopped-speaking", 91)
    told = [e for e in d.events if isinstance(e, AudioReceived | ResponseStarted | ResponseDone)]
    assert [type(e).__name__ for e in told] == [
        "AudioReceived", "ResponseStarted", "AudioReceived", "ResponseDone"]
    assert (told[1].response_id, told[3].response_id, told[3].status) == (
        "speech_1", "speech_1", "completed")
    assert [e.response_id for e in d.of(AudioReceived)] == [None, None]
    sound = np.concatenate([e.samples for e in d.of(AudioReceived)])
    assert float_to_pcm16(sound).astype("<i2").tobytes() == PCM[:3840]
    assert [r for _, r in d.faults] == ["bot-started-speaking again skipped",
                                        "bot-stopped-speaking without a beginning skipped"]


def test_where_silence_ends_a_reply_its_messages_are_only_logged() -> None:
    d = Driven(reply_end="silence")
    for kind in ("bot-started-speaking", "bot-stopped-speaking", "bot-stopped-speaking"):
        d.say(kind)
    assert d.of(ResponseStarted) == d.of(ResponseDone) == d.of(Fault) == []
    assert [e.name for e in d.of(StateChanged)][1:] == [
        "bot-started-speaking", "bot-stopped-speaking", "bot-stopped-speaking"]


def test_an_interruption_counts_once_and_only_while_something_is_said() -> None:
    d = Driven()
    d.interruption(5)
    d.say("bot-interrupted", 5)
    assert d.of(Interrupted) == []
    d.audio(t_ms=10)
    d.say("bot-started-speaking", 11)
    d.interruption(30)
    d.say("bot-interrupted", 31)
    d.say("bot-stopped-speaking", 32)
    assert [e.t_ns for e in d.of(Interrupted)] == [30 * MS]
    assert d.of(ResponseDone)[0].status == "interrupted"
    d.audio(t_ms=40)  # what was on its way, or the next reply
    d.interruption(50)
    assert [e.t_ns for e in d.of(Interrupted)] == [30 * MS, 50 * MS]
    d.audio(t_ms=60)
    d.interruption(101)  # 40 ms of audio have been heard
    assert len(d.of(Interrupted)) == 2
    assert all(e.response_id is None for e in d.of(Interrupted))


def test_in_a_pause_of_an_open_reply_an_interruption_counts() -> None:
    d = Driven()
    d.audio(t_ms=0)
    d.say("bot-started-speaking", 1)
    d.interruption(500)
    assert [e.t_ns for e in d.of(Interrupted)] == [500 * MS]


# audio

@pytest.mark.parametrize(("fields", "reason"), [
    ({"sample_rate": 16_000}, "another audio format: 16000 Hz, 1 channels instead of 24000 Hz, 1"),
    ({"num_channels": 2}, "another audio format: 24000 Hz, 2 channels instead of 24000 Hz, 1"),
    ({"sample_rate": 0}, "another audio format: 0 Hz")])
def test_audio_of_another_format_ends_the_session(fields: dict[str, int], reason: str) -> None:
    d = Driven()
    d.audio(**fields)
    ((severity, told),) = d.faults
    assert severity == "infrastructure"
    assert told.startswith(reason)
    assert "--set output_rate_hz=" in told
    assert d.of(AudioReceived) == []


def test_empty_split_and_repeated_frames_lose_nothing() -> None:
    d = Driven()
    d.audio(b"")
    d.audio(PCM[:3])
    d.audio(PCM[3:8])
    d.take(encoded("audio", id=3, audio=PCM[3:8], sample_rate=24_000, num_channels=1))
    sound = np.concatenate([e.samples for e in d.of(AudioReceived)])
    assert float_to_pcm16(sound).astype("<i2").tobytes() == PCM[:8]
    assert d.faults == [
        ("transparent", "audio frame skipped: expected audio, got an empty frame"),
        ("transparent", "audio frame splits a sample: its first byte waits for the next one"),
        ("transparent", "repeated event skipped: AudioFrame 3")]


def test_frames_without_a_number_are_never_taken_for_repeated() -> None:
    d = Driven()
    for _ in range(2):
        d.audio(PCM[:4], id=0)
    assert len(d.of(AudioReceived)) == 2


def test_a_wav_header_is_taken_off_and_another_one_ends_the_session() -> None:
    import io
    import wave

    for width, wanted in ((2, None), (3, "audio frame: expected PCM16 after a WAV header")):
        buffer = io.BytesIO()
        with wave.open(buffer, "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(width)
            file.setframerate(24_000)
            file.writeframes(PCM[:48])
        d = Driven()
        d.audio(buffer.getvalue())
        if wanted is None:
            assert float_to_pcm16(d.of(AudioReceived)[0].samples).tobytes() == PCM[:48]
        else:
            assert d.faults[0][1].startswith(wanted)


# words

def test_words_that_are_told_as_they_are_spoken_are_tied_to_what_has_come() -> None:
    d = Driven()
    d.audio()
    d.spoken(1, "", "One two. ", "new")
    d.spoken(1, "One", " two. ", "in-progress")
    d.audio()
    d.spoken(1, "One two.", " ", "in-progress")
    d.spoken(1, "One two. ", "", "completed")
    d.spoken(2, "Three", "", "completed")
    assert "".join(t for t, _ in d.words) == "One two. Three"
    assert [n for _, n in d.words[:3]] == [None] * 3
    d.spoken(1, "One", " two.", "in-progress")
    assert d.faults[-1] == ("transparent", "bot-output skipped: expected bot-output to go on from "
                            "what it said was spoken, got One")


def test_a_sentence_told_when_it_is_over_is_spread_over_its_audio() -> None:
    d = Driven()
    d.audio(PCM[:2_000])
    d.spoken(1, "One three", "", "completed")
    d.audio(PCM[:1_600])
    d.spoken(2, "abcd", "", "completed")
    assert d.words == [("One", 0), (" three", 375), (" abcd", 1_000)]
    d.say("bot-stopped-speaking")
    d.audio(PCM[:800])  # 1800 samples were before
    d.audio(PCM[:800])
    d.spoken(3, "x", "", "completed")
    assert d.words[-1] == (" x", 1_800)


def test_of_a_text_without_end_the_first_words_get_a_place_each() -> None:
    d = Driven()
    d.audio(PCM[:4_008])
    d.spoken(1, "a " * 2_000 + "b c d", "", "completed")
    assert "".join(t for t, _ in d.words) == "a " * 2_000 + "b c d"
    assert d.words[1_999:] == [(" a", 1_999 * 2_004 // 2_005), (" b c d", 2_000 * 2_004 // 2_005)]


def test_text_beyond_the_bound_is_told_once_a_message() -> None:
    d = Driven()
    d.audio(PCM[:2_000])
    d.spoken(1, "a " * 3_000_000, "", "completed")
    assert len(d.words) == 2_000
    assert [r for _, r in d.faults] == ["the server sent more than 1000000 characters of "
                                        "transcript"]


def test_of_messages_that_tell_the_same_words_one_kind_counts() -> None:
    def texts(version: str, **settings: Any) -> str:
        d = Driven(ready=False, **settings)
        d.bot_ready(version)
        d.audio()
        for kind in ("bot-llm-text", "bot-transcription", "tts-raw-text"):
            d.say(kind, data={"text": "written "})
        d.spoken(1, "output", "", "completed")
        d.say("bot-tts-text", data={"text": "tts"})
        d.take(encoded("text", text="frame"))
        assert d.faults == []
        return "".join(t for t, _ in d.words)

    assert texts("2.2.0") == "output"
    assert texts("1.2.0") == texts("", transcript="bot_tts_text") == "tts"
    assert texts("2.0.0", transcript="text_frame") == "frame"
    assert texts("2.0.0", transcript="none") == ""


def test_words_of_a_voice_are_parted_and_its_sentences_spread() -> None:
    d = Driven(transcript="bot_tts_text")
    d.audio(PCM[:2_000])
    for text in ("Hello", "world.", "Good day"):
        d.say("bot-tts-text", data={"text": text})
    assert "".join(t for t, _ in d.words) == "Hello world. Good day"
    for text in (" it", "self"):
        d.say("bot-tts-text", data={"text": text})
    assert "".join(t for t, _ in d.words).endswith("Good day itself")
    d.say("bot-tts-text", data={"text": 3})
    assert d.faults == [("transparent",
                         "bot-tts-text skipped: expected a text in bot-tts-text, got 3")]


# trouble

def test_errors_of_the_agent_end_the_session_unless_they_are_let_pass() -> None:
    for how, fatal, severity in (("end", False, "infrastructure"), ("log", False, "transparent"),
                                 ("log", True, "infrastructure")):
        d = Driven(service_errors=how)
        d.say("error", data={"error": "no credit", "fatal": fatal})
        assert d.faults == [(severity, f"the agent reports {'a fatal' if fatal else 'an'} error: "
                                       "no credit")]


@pytest.mark.parametrize("what", ["audio_in", "audio_out"])
def test_an_agent_without_ears_or_voice_is_no_subject(what: str) -> None:
    d = Driven(ready=False)
    d.bot_ready(capabilities={"audio_in": True, "audio_out": True, what: False})
    assert not d.wire.ready
    assert f"capabilities.{what}: false" in d.faults[0][1]
    assert d.of(Fault)[0].hopeless


def test_levels_are_dropped_and_everything_else_is_kept_in_the_log() -> None:
    d = Driven()
    for kind in (*IGNORED, *sorted(LOGGED - set(d.wire._handlers)), "new-thing"):
        d.say(kind, data={"mine": 1} if kind != "bot-output" else {"text": "x"})
    names = [e.name for e in d.of(StateChanged)]
    assert set(names) == (LOGGED - set(d.wire._handlers) - {"bot-output"}) | {
        "unknown_event", "bot-ready"}
    assert d.faults == []


def test_a_peer_that_speaks_json_is_told_apart() -> None:
    d = Driven(ready=False)
    for _ in range(event_stream.MAX_UNREADABLE_RUN + 1):
        d.take(b'{"label": "rtvi-ai", "type": "bot-ready"}')
    assert {s for s, _ in d.faults[:-1]} == {"transparent"}
    assert d.faults[-1][0] == "infrastructure"
    assert d.faults[-1][1].endswith("(JSON: does the agent use another serializer?)")


@given(st.sampled_from(sorted(LOGGED | IGNORED | {"x"})), st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.integers()
    | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["text", "spoken_progress", "accumulated_text", "error", "fatal", "id",
                         "version", "capabilities", "segment_id", "spoken_status"])
        | st.text(max_size=5), inner, max_size=4), max_leaves=8))
def test_no_message_of_whatever_shape_raises(kind: str, data: Any) -> None:
    for settings in ({}, {"transcript": "bot_tts_text"}, {"rtvi": False}):
        d = Driven(**settings)  # type: ignore[arg-type]
        d.audio()
        d.take(encoded("message", data=json.dumps(
            {"label": "rtvi-ai", "type": kind, "id": data, "data": data})))
        d.take(encoded("message", data=json.dumps(data)))


@given(st.binary(max_size=60))
def test_no_bytes_raise(data: bytes) -> None:
    Driven().take(data)


def test_what_an_agent_may_send_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "MAX_AUDIO_S", 0.1)
    monkeypatch.setattr(event_stream, "MAX_TEXT_CHARS", 3)
    monkeypatch.setattr("adapters.wire.pipecat_words.MAX_SEGMENTS", 2)
    d = Driven()
    d.audio(PCM[:4_800])
    d.spoken(1, "abc", "", "completed")
    assert d.faults == []
    d.audio(PCM[:2])
    d.spoken(2, "d", "", "completed")
    d.spoken(3, "e", "", "completed")
    assert [r for _, r in d.faults] == [
        "the server sent more than 0.1 s of audio",
        "the server sent more than 3 characters of transcript",
        "bot-output skipped: expected at most 2 segments of bot-output"]
