"""Pipecat's WebSocket transport, client side, without I/O: protobuf frames, RTVI messages in them.

Sources: pipecat-ai 1.14.0 (`serializers/protobuf.py`, `transports/websocket`, RTVI models, observer
and processor); docs/adapters/pipecat.md lists what is confirmed by what. The transport paces its
output in real time, says `interruption` whenever the user begins a turn, whether or not it speaks,
and numbers its frames. Trouble: `event_stream`.
"""

from __future__ import annotations

from typing import Any

from adapters.base import AudioReceived, Interrupted, ResponseDone, ResponseStarted, TextDelta
from adapters.wire import protobuf_frames as frames
from adapters.wire.base import Message
from adapters.wire.client_playout import ClientPlayout
from adapters.wire.event_stream import EventStream
from adapters.wire.payload import (
    PayloadError,
    at,
    excerpt,
    identifier,
    parse_object,
    writable,
)
from adapters.wire.pipecat_session import (
    IGNORED,
    LOGGED,
    PROMPT_ID,
    PipecatSettings,
    bare,
    spoken_kind,
)
from adapters.wire.pipecat_words import Placed, SpokenWords
from adapters.wire.rtvi import LABEL
from audio.buffers import Float32

_STREAM = "audio"


class PipecatWire(EventStream):
    """One session. `prompt` is the system prompt, empty at level L0."""

    logged = LOGGED

    def __init__(self, settings: PipecatSettings, prompt: str) -> None:
        super().__init__(settings.input_rate_hz, settings.output_rate_hz)
        self._settings = settings
        self._prompt = prompt
        gate: str = "bot-ready" if settings.rtvi else settings.ready_on
        self._awaited = {gate} - {"open"}
        """What must come before the session may begin."""
        self._ready = not self._awaited
        self._spoken = SpokenWords()
        self._words_kind = settings.transcript.replace("_", "-")
        self._playout = ClientPlayout(settings.output_rate_hz)
        self._response: str | None = None
        self._responses_n = 0
        self._interrupted = False
        """The open response was interrupted."""
        self._cut = False
        """Nothing came since the last interruption: another one has nothing to cut."""
        if settings.rtvi:
            self._handlers = {
                "bot-ready": self._bot_ready,
                "bot-started-speaking": self._bot_started,
                "bot-stopped-speaking": self._bot_stopped,
                "bot-interrupted": self._bot_interrupted,
                "server-response": self._answered,
                "error-response": self._refused_message,
                "error": self._reported_error,
            }

    # what goes out

    def opening(self) -> tuple[Message, ...]:
        """`client-ready`, where RTVI is spoken."""
        if not self._settings.rtvi:
            return ()
        return (self._settings.client_ready(),)

    def closing(self) -> tuple[Message, ...]:
        """Nothing: `disconnect-bot` would end an agent that serves one client after the other."""
        return ()

    def audio(self, frame: Float32) -> tuple[Message, ...]:
        """One audio frame for 20 ms of user audio, float32 `(n,)`.

        Raises `ValueError` for another shape or samples that are not finite.
        """
        return (frames.encode(frames.AudioFrame(
            audio=self._user_pcm(frame), sample_rate=self._settings.input_rate_hz,
            num_channels=1)),)

    # what comes in

    def _dispatch(self, data: bytes, t_ns: int) -> None:
        try:
            frame = frames.decode(data)
            message = (parse_object(frame.data.encode("utf-8"))
                       if isinstance(frame, frames.MessageFrame) else {})
        except PayloadError as error:
            hint = " (JSON: does the agent use another serializer?)" if data[:1] == b"{" else ""
            self._unreadable(t_ns, PayloadError(f"{error}{hint}"))
            return
        self._unreadable_run = 0
        number = getattr(frame, "id", 0)
        if number and self._seen_before(str(number), data):
            self._note(t_ns, f"repeated event skipped: {type(frame).__name__} {number}")
            return
        self._arrived("first_frame")
        match frame:
            case frames.AudioFrame():
                self._audio_frame(frame, t_ns)
            case frames.MessageFrame():
                self._rtvi(message, t_ns)
            case frames.InterruptionFrame():
                self._log(t_ns, "interruption")
                self._interrupt(t_ns)
            case frames.TextFrame(text=text) if self._settings.transcript == "text_frame":
                self._say(t_ns, [(text, None)])
            case frames.TextFrame(text=text) | frames.TranscriptionFrame(text=text):
                self._log(t_ns, type(frame).__name__, text)
            case None:
                self._log(t_ns, "unknown_event", "a frame of no known kind")

    def _rtvi(self, message: dict[str, Any], t_ns: int) -> None:
        kind = identifier(message, "type")
        if message.get("label") != LABEL or kind is None:
            self._log(t_ns, "unknown_event", message)
        elif self._settings.rtvi and kind == self._words_kind:
            self._transcript(kind, message.get("data"), t_ns)
        elif kind not in IGNORED:
            self._handle(kind, message, t_ns)

    def _arrived(self, what: str) -> None:
        if what in self._awaited:
            self._awaited.remove(what)
            self._ready = not self._awaited

    # the session

    def _bot_ready(self, message: dict[str, Any], t_ns: int) -> None:
        if "bot-ready" not in self._awaited:
            self._note(t_ns, "bot-ready again skipped")
            return
        told = message.get("data")
        self._log(t_ns, "bot-ready", told)
        for what, does in (("audio_in", "hears"), ("audio_out", "speaks")):
            if at(told, "capabilities", what) is False:
                self._fail(t_ns, f"expected an agent that {does}, got capabilities.{what}: false "
                                 "in bot-ready", hopeless=True)
                return
        if self._settings.transcript == "auto":
            self._words_kind = spoken_kind(at(told, "version"))
        prompt = self._settings.prompt(self._prompt)
        if prompt is not None:
            self._messages.append(prompt)
            if self._settings.system_prompt == "client_request":
                self._awaited.add(PROMPT_ID)
        self._arrived("bot-ready")

    def _answered(self, message: dict[str, Any], t_ns: int) -> None:
        self._log_event(t_ns, "server-response", message)
        self._arrived(str(identifier(message, "id")))

    def _refused_message(self, message: dict[str, Any], t_ns: int) -> None:
        """`error-response`. One about our version says that it may not fit, and goes on."""
        reason = f"error-response: {excerpt(at(message, 'data', 'error') or 'no cause given', 300)}"
        if identifier(message, "id") == PROMPT_ID:
            self._fail(t_ns, f"the agent did not take the system prompt: {reason}", hopeless=True)
        else:
            self._note(t_ns, reason)

    def _reported_error(self, message: dict[str, Any], t_ns: int) -> None:
        """An error of the agent's services. What it did to the reply cannot be known from here."""
        fatal = at(message, "data", "fatal") is True
        told = excerpt(at(message, "data", "error") or "no cause given", 300)
        reason = f"the agent reports {'a fatal' if fatal else 'an'} error: {told}"
        if fatal or self._settings.service_errors == "end":
            self._fail(t_ns, reason)
        else:
            self._note(t_ns, reason)

    # speaking

    def _bot_started(self, message: dict[str, Any], t_ns: int) -> None:
        self._log_event(t_ns, "bot-started-speaking", message)
        if self._settings.reply_end == "silence":
            return
        if self._response is not None:
            self._note(t_ns, "bot-started-speaking again skipped")
            return
        self._responses_n += 1
        self._response = f"speech_{self._responses_n}"
        self._cut = self._interrupted = False
        self._events.append(ResponseStarted(t_ns, self._response))

    def _bot_stopped(self, message: dict[str, Any], t_ns: int) -> None:
        self._log_event(t_ns, "bot-stopped-speaking", message)
        self._spoken.stopped()
        if self._settings.reply_end == "silence":
            return
        if self._response is None:
            self._note(t_ns, "bot-stopped-speaking without a beginning skipped")
            return
        status = "interrupted" if self._interrupted else "completed"
        self._events.append(ResponseDone(t_ns, self._response, status))
        self._response = None

    def _bot_interrupted(self, message: dict[str, Any], t_ns: int) -> None:
        self._log_event(t_ns, "bot-interrupted", message)
        self._interrupt(t_ns)

    def _interrupt(self, t_ns: int) -> None:
        """The queue is void. Both a frame and a message say so, and every turn of the user does:
        it counts once, and where something is being said."""
        if self._cut or (self._response is None and not self._playout.playing(t_ns)):
            return
        self._cut = self._interrupted = True
        self._playout.flush(t_ns)
        self._events.append(Interrupted(t_ns))

    # audio and words

    def _audio_frame(self, frame: frames.AudioFrame, t_ns: int) -> None:
        if not frame.audio:
            self._note(t_ns, "audio frame skipped: expected audio, got an empty frame")
            return
        rate_hz, channels = frame.sample_rate, frame.num_channels
        if (rate_hz, channels) != (self._output_rate_hz, 1):
            self._fail(t_ns, f"another audio format: {rate_hz} Hz, {channels} channels instead of "
                             f"{self._output_rate_hz} Hz, 1 (--set output_rate_hz=...)")
            return
        try:
            samples = self._pcm.push_bytes(_STREAM, bare(frame.audio))
        except PayloadError as error:
            self._fail(t_ns, f"audio frame: {error}")
            return
        if self._pcm.carries(_STREAM):
            self._note(t_ns, "audio frame splits a sample: its first byte waits for the next one")
        if len(samples) and self._within_audio(t_ns, len(samples)):
            self._cut = False
            self._spoken.audio(self._audio_n - len(samples))
            self._playout.add(t_ns, len(samples), None)
            self._events.append(AudioReceived(t_ns, samples))

    def _transcript(self, kind: str, data: object, t_ns: int) -> None:
        read = self._spoken.output if kind == "bot-output" else self._spoken.tts_text
        try:
            self._say(t_ns, read(data, self._audio_n))
        except PayloadError as error:
            self._note(t_ns, f"{kind} skipped: {error}")

    def _say(self, t_ns: int, placed: list[Placed]) -> None:
        for text, audio_n in placed:
            if text and self._within_text(t_ns, text):
                self._events.append(TextDelta(t_ns, writable(text), None, audio_n))
