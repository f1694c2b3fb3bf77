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

LABEL = "rtvi-ai"
PROTOCOL = "2.2.0"

Words = Literal["bot-output", "bot-tts-text", "bot-transcription", "none"]
"""Which messages are the model's transcript. `bot-output`: what has been spoken so far;
`bot-tts-text`: what is handed to speech synthesis; `bot-transcription`: sentences as the language
model writes them, before they are spoken and whether or not they will be."""
WORDS: tuple[Words, ...] = ("bot-output", "bot-tts-text", "bot-transcription", "none")

LOGGED = frozenset({
    "bot-ready", "user-started-speaking", "user-stopped-speaking", "user-transcription",
    "bot-llm-started", "bot-llm-stopped", "bot-tts-started", "bot-tts-stopped", "server-message"})
"""Known, and kept in the log as they are."""
DROPPED = frozenset({
    "bot-llm-text", "llm-raw-text", "tts-raw-text", "bot-output", "bot-tts-text",
    "bot-transcription", "metrics", "bot-audio-level", "user-audio-level", "user-llm-text"})
"""Known, many, and of no use here (transcripts: those that were not chosen)."""
MAX_SEGMENTS = 10_000
"""Pieces of text in one session. Ours: a minute of talk is some dozen."""


def client_ready(about: str) -> str:
    """What a client says once its channel is open; some bots greet only then."""
    return json.dumps({"label": LABEL, "type": "client-ready", "id": "ready_1", "data": {
        "version": PROTOCOL, "about": {"library": about}}}, separators=(",", ":"))


class Rtvi:
    """What one peer says of itself. Single use; never raises for what the peer sent."""

    def __init__(self, words: Words = "bot-output") -> None:
        self._words = words
        self._spoken: dict[str, str] = {}
        """Of each piece of text, what is known to have been spoken."""
        self._response: str | None = None
        self._responses_n = 0
        self._interrupted = False
        self._messages_n = 0
        self._text_chars = 0
        self._unreadable_run = 0

    def receive(self, data: bytes, t_ns: int) -> tuple[AgentEvent, ...]:
        """One message that arrived at `t_ns`."""
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
        return self._message(kind, message, t_ns)

    def _message(self, kind: str, message: dict[str, Any], t_ns: int) -> tuple[AgentEvent, ...]:
        if kind == self._words:
            return self._text(kind, message, t_ns)
        match kind:
            case "bot-started-speaking":
                return self._started(t_ns)
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

    def _text(self, kind: str, message: dict[str, Any], t_ns: int) -> tuple[AgentEvent, ...]:
        text = self._new_words(kind, message.get("data"))
        if text is None:
            return (Fault(t_ns, "transparent", f"{kind} skipped: expected text, got "
                          f"{excerpt(message.get('data') or 'nothing', 80)}"),)
        self._text_chars += len(text)
        if self._text_chars > MAX_TEXT_CHARS:
            return (Fault(t_ns, "infrastructure",
                          f"the agent sent more than {MAX_TEXT_CHARS} characters of transcript"),)
        return (TextDelta(t_ns, writable(text)),) if text else ()

    def _new_words(self, kind: str, data: object) -> str | None:
        """What was not told before; empty where that is nothing, `None` where there is no text."""
        text = at(data, "text")
        if not isinstance(text, str):
            return None
        if kind != "bot-output":
            return _apart(text)
        spoken = at(data, "spoken_progress", "accumulated_text")
        if not isinstance(spoken, str):
            # Protocol 1.x says only whether it was spoken; text that never will be is no speech.
            return _apart(text) if at(data, "spoken") is True else ""
        segment = str(at(data, "segment_id"))[:80]
        before = self._spoken.get(segment, "")
        if len(self._spoken) < MAX_SEGMENTS or segment in self._spoken:
            self._spoken[segment] = spoken
        if not spoken.startswith(before):
            return ""  # corrected: what was told stays told
        return (spoken[len(before):] if before else _apart(spoken))


def _apart(text: str) -> str:
    """A piece of its own: a space keeps it from the one before, which may have none at its end."""
    return text if text[:1].isspace() or not text else f" {text}"


def _reason(message: dict[str, Any]) -> object:
    return at(message, "data", "error") or at(message, "data", "message") or "no reason given"
