"""RTVI messages, as Pipecat's transports carry them beside the audio, without I/O.

One message is a JSON object `{"label": "rtvi-ai", "type": ..., "data": {...}}`. Source: pipecat-ai
1.14.0, `processors/frameworks/rtvi/models.py` (protocol 2.2.0; 1.x is read as well). A peer that
sends none of it is as good: the rig then hears for itself when it speaks.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from adapters.base import (
    AgentEvent,
    Fault,
    Interrupted,
    ResponseDone,
    ResponseStarted,
    StateChanged,
    TextDelta,
)
from adapters.wire.event_stream import MAX_MESSAGES, MAX_TEXT_CHARS, MAX_UNREADABLE_RUN
from adapters.wire.payload import PayloadError, at, excerpt, identifier, parse_object, writable
from adapters.wire.pipecat_words import SpokenWords

LABEL = "rtvi-ai"
PROTOCOL = "2.2.0"

Words = Literal["bot-output", "bot-tts-text", "none"]
"""Which messages are the model's transcript (`pipecat_words`)."""

LOGGED = frozenset({
    "bot-ready", "user-started-speaking", "user-stopped-speaking", "user-transcription",
    "bot-llm-started", "bot-llm-stopped", "bot-tts-started", "bot-tts-stopped", "server-message"})
"""Known, and kept in the log as they are."""
DROPPED = frozenset({
    "bot-llm-text", "llm-raw-text", "tts-raw-text", "bot-output", "bot-tts-text",
    "bot-transcription", "metrics", "bot-audio-level", "user-audio-level", "user-llm-text"})
"""Known, many, and of no use here (transcripts: those that were not chosen)."""


def envelope(kind: str, message_id: str, data: dict[str, Any]) -> str:
    """A client's message."""
    return json.dumps({"label": LABEL, "type": kind, "id": message_id, "data": data},
                      separators=(",", ":"))


def client_ready(about: str, message_id: str = "ready_1", version: str = PROTOCOL) -> str:
    """What a client says once its channel is open; some bots greet only then."""
    return envelope("client-ready", message_id, {
        "version": version, "about": {"library": about}})


class Rtvi:
    """What one peer says of itself. Single use; never raises for what the peer sent."""

    def __init__(self, words: Words = "bot-output") -> None:
        self._words = words
        self._spoken = SpokenWords()
        self._response: str | None = None
        self._responses_n = 0
        self._interrupted = False
        self._messages_n = 0
        self._text_chars = 0
        self._unreadable_run = 0

    def receive(self, data: bytes, t_ns: int, audio_n: int) -> tuple[AgentEvent, ...]:
        """One message that arrived at `t_ns`, when `audio_n` samples had come."""
        self._messages_n += 1
        if self._messages_n > MAX_MESSAGES:
            return (Fault(t_ns, "infrastructure",
                          f"the agent sent more than {MAX_MESSAGES} messages"),)
        try:
            message = parse_object(data)
            kind = identifier(message, "type")
            if kind is None:
                raise PayloadError("expected a message with a type, got none")
        except PayloadError as error:
            self._unreadable_run += 1
            over = self._unreadable_run > MAX_UNREADABLE_RUN
            return (Fault(t_ns, "infrastructure" if over else "transparent",
                          f"unreadable message{' again and again' * over}: {error}"),)
        self._unreadable_run = 0
        return self._message(kind, message, t_ns, audio_n)

    def _message(self, kind: str, message: dict[str, Any], t_ns: int,
                 audio_n: int) -> tuple[AgentEvent, ...]:
        if kind == self._words:
            return self._text(kind, message, t_ns, audio_n)
        match kind:
            case "bot-started-speaking":
                started = self._started(t_ns)
                # The track goes on in silence: what is said begins here.
                self._spoken.audio(audio_n)
                return started
            case "bot-stopped-speaking":
                return self._stopped(t_ns)
            case "bot-interrupted":
                return self._cut(t_ns)
            case "error":
                reason = f"the agent reports an error: {excerpt(_reason(message), 300)}"
                fatal = at(message, "data", "fatal") is True
                return (Fault(t_ns, "infrastructure" if fatal else "transparent", reason),)
            case "signalling" if at(message, "message", "type") == "peerLeft":
                return (Fault(t_ns, "infrastructure", "the agent says that it leaves"),)
            case "error-response":
                return (Fault(t_ns, "transparent", "the agent refused a message: "
                              f"{excerpt(_reason(message), 300)}"),)
            case _ if kind in DROPPED:
                return ()
            case _ if kind in LOGGED:
                return (StateChanged(t_ns, kind, excerpt(message.get("data") or "", 1_000)),)
        return (StateChanged(t_ns, "unknown_event", excerpt(kind, 80)),)

    # speaking

    def _started(self, t_ns: int) -> tuple[AgentEvent, ...]:
        ended = self._stopped(t_ns)
        self._responses_n += 1
        self._response = f"bot-{self._responses_n}"
        self._interrupted = False
        return (*ended, ResponseStarted(t_ns, self._response))

    def _stopped(self, t_ns: int) -> tuple[AgentEvent, ...]:
        self._spoken.stopped()
        response, self._response = self._response, None
        if response is None:
            return ()
        return (ResponseDone(t_ns, response, "interrupted" if self._interrupted else "completed"),)

    def _cut(self, t_ns: int) -> tuple[AgentEvent, ...]:
        """Pipecat says so at every turn of the user's: it counts where something is being said."""
        if self._response is None or self._interrupted:
            return (StateChanged(t_ns, "bot-interrupted", "nothing was being said"),)
        self._interrupted = True
        return (Interrupted(t_ns),)

    # words

    def _text(self, kind: str, message: dict[str, Any], t_ns: int,
              audio_n: int) -> tuple[AgentEvent, ...]:
        read = self._spoken.output if kind == "bot-output" else self._spoken.tts_text
        try:
            placed = read(message.get("data"), audio_n)
        except PayloadError as error:
            return (Fault(t_ns, "transparent", f"{kind} skipped: {error}"),)
        self._text_chars += sum(len(text) for text, _ in placed)
        if self._text_chars > MAX_TEXT_CHARS:
            return (Fault(t_ns, "infrastructure",
                          f"the agent sent more than {MAX_TEXT_CHARS} characters of transcript"),)
        return tuple(TextDelta(t_ns, writable(text), None, at_n) for text, at_n in placed if text)


def _reason(message: dict[str, Any]) -> object:
    return at(message, "data", "error") or at(message, "data", "message") or "no reason given"
