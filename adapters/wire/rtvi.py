"""RTVI messages, as Pipecat's transports carry them beside or among the audio, without I/O.

One message is a JSON object `{"label": "rtvi-ai", "type": ..., "data": {...}}`. Source: pipecat-ai
1.14.0, `processors/frameworks/rtvi/models.py` (protocol 2.2.0; 1.x is read as well).
`RtviStream` reads them for every transport; `Rtvi` is a data channel beside a track of audio. A
peer that sends none of it is as good: the rig then hears for itself when it speaks.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from adapters.base import AgentEvent, Interrupted, ResponseDone, ResponseStarted, TextDelta
from adapters.wire.event_stream import EventStream
from adapters.wire.payload import PayloadError, at, excerpt, identifier, parse_object, writable
from adapters.wire.pipecat_words import Placed, SpokenWords

LABEL = "rtvi-ai"
PROTOCOL = "2.2.0"

Words = Literal["bot-output", "bot-tts-text", "none"]
"""Which messages are the model's transcript (`pipecat_words`)."""
ServiceErrors = Literal["end", "log"]

LOGGED = frozenset({
    "user-started-speaking", "user-stopped-speaking", "vad-user-started-speaking",
    "vad-user-stopped-speaking", "user-mute-started", "user-mute-stopped", "user-input",
    "user-transcription", "stt-raw-text", "user-llm-text", "bot-llm-started", "bot-llm-stopped",
    "bot-llm-text", "bot-llm-marker", "llm-raw-text", "bot-tts-started", "bot-tts-stopped",
    "tts-raw-text", "bot-transcription", "bot-output", "bot-tts-text", "llm-function-call",
    "llm-function-call-started", "llm-function-call-in-progress", "llm-function-call-stopped",
    "bot-ready", "bot-started-speaking", "bot-stopped-speaking", "bot-interrupted", "error",
    "error-response", "server-response", "metrics", "system-log", "server-message", "ui-command",
    "ui-job-group"})
"""Known, and kept in the log alone where no handler takes them and they are no transcript."""
IGNORED = frozenset({"user-audio-level", "bot-audio-level"})
"""Seven a second, and of no use: the audio is here."""


def envelope(kind: str, message_id: str, data: dict[str, Any]) -> str:
    """A client's message."""
    return json.dumps({"label": LABEL, "type": kind, "id": message_id, "data": data},
                      separators=(",", ":"))


def client_ready(about: str, message_id: str = "ready_1", version: str = PROTOCOL) -> str:
    """What a client says once its channel is open; some bots greet only then."""
    return envelope("client-ready", message_id, {
        "version": version, "about": {"library": about}})


class RtviStream(EventStream):
    """What a Pipecat agent says of itself. `words`: the type of message that is its transcript, if
    any. `service_errors`: whether an error of its services that is not fatal ends the session."""

    logged = LOGGED

    def __init__(self, input_rate_hz: int, output_rate_hz: int, *, words: str,
                 service_errors: ServiceErrors) -> None:
        super().__init__(input_rate_hz, output_rate_hz)
        self._words_kind = words
        self._service_errors = service_errors
        self._spoken = SpokenWords()
        self._response: str | None = None
        self._responses_n = 0
        self._interrupted = False
        """The open response was interrupted."""
        self._handlers = {
            "bot-started-speaking": self._bot_started,
            "bot-stopped-speaking": self._bot_stopped,
            "bot-interrupted": self._bot_interrupted,
            "error-response": self._refused_message,
            "error": self._reported_error,
        }

    def _rtvi(self, message: dict[str, Any], t_ns: int) -> None:
        """One message."""
        kind = identifier(message, "type")
        if message.get("label") != LABEL or kind is None:
            self._log(t_ns, "unknown_event", message)
        elif kind == self._words_kind and kind in ("bot-output", "bot-tts-text"):
            self._transcript(kind, message.get("data"), t_ns)
        elif kind not in IGNORED:
            self._handle(kind, message, t_ns)

    def _refused_message(self, message: dict[str, Any], t_ns: int) -> None:
        """`error-response`. One about our version says that it may not fit, and goes on."""
        self._note(t_ns, f"error-response: {cause(message)}")

    def _reported_error(self, message: dict[str, Any], t_ns: int) -> None:
        """An error of the agent's services. What it did to the reply cannot be known from here."""
        fatal = at(message, "data", "fatal") is True
        reason = f"the agent reports {'a fatal' if fatal else 'an'} error: {cause(message)}"
        if fatal or self._service_errors == "end":
            self._fail(t_ns, reason)
        else:
            self._note(t_ns, reason)

    # speaking

    def _bot_started(self, message: dict[str, Any], t_ns: int) -> None:
        self._log_event(t_ns, "bot-started-speaking", message)
        if self._response is not None:
            self._note(t_ns, "bot-started-speaking again skipped")
            return
        self._responses_n += 1
        self._response = f"speech_{self._responses_n}"
        self._interrupted = False
        self._events.append(ResponseStarted(t_ns, self._response))

    def _bot_stopped(self, message: dict[str, Any], t_ns: int) -> None:
        self._log_event(t_ns, "bot-stopped-speaking", message)
        self._spoken.stopped()
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
        """Pipecat says so at every turn of the user's: it counts once, and where something is being
        said."""
        if self._response is not None and not self._interrupted:
            self._interrupted = True
            self._events.append(Interrupted(t_ns))

    # words

    def _transcript(self, kind: str, data: object, t_ns: int) -> None:
        read = self._spoken.output if kind == "bot-output" else self._spoken.tts_text
        try:
            self._say(t_ns, read(data, self._audio_n))
        except PayloadError as error:
            self._note(t_ns, f"{kind} skipped: {error}")

    def _say(self, t_ns: int, placed: list[Placed]) -> None:
        for text, audio_n in placed:
            if text and not self._within_text(t_ns, text):
                return
            if text:
                self._events.append(TextDelta(t_ns, writable(text), None, audio_n))


class Rtvi(RtviStream):
    """A data channel. Single use; never raises for what the peer sent."""

    def __init__(self, words: Words = "bot-output", service_errors: ServiceErrors = "end") -> None:
        super().__init__(48_000, 48_000, words=words, service_errors=service_errors)

    def message(self, data: bytes, t_ns: int, audio_n: int) -> tuple[AgentEvent, ...]:
        """One message that arrived at `t_ns`, when `audio_n` samples had come."""
        self._audio_n = audio_n
        return self.receive(data, t_ns).events

    def _dispatch(self, data: bytes, t_ns: int) -> None:
        try:
            message = parse_object(data)
        except PayloadError as error:
            self._unreadable(t_ns, error)
            return
        self._unreadable_run = 0
        if message.get("type") == "signalling" and at(message, "message", "type") == "peerLeft":
            self._fail(t_ns, "the agent says that it leaves")
        else:
            self._rtvi(message, t_ns)

    def _bot_started(self, message: dict[str, Any], t_ns: int) -> None:
        super()._bot_started(message, t_ns)
        # The track goes on in silence: what is said begins here.
        self._spoken.audio(self._audio_n)


def cause(message: dict[str, Any]) -> str:
    """What a message says of an error, in one line."""
    return excerpt(at(message, "data", "error") or at(message, "data", "message")
                   or "no cause given", 300)
