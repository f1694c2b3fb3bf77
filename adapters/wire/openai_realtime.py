"""The OpenAI Realtime protocol (GA), client side, without I/O.

Sources: the GA event names and fields, the order of a server-VAD turn, and the rules for
interruption and truncation as the vendor documents them (docs/adapters/openai_realtime.md lists
what is confirmed by what). Beta names are understood as their GA successors; what a server of the
beta dialect is asked for is in `beta_session`. Trouble: `event_stream`.
"""

from __future__ import annotations

from typing import Any

from adapters.base import (
    AudioReceived,
    Interrupted,
    ResponseDone,
    ResponseStarted,
    TextDelta,
    Throttled,
)
from adapters.usage import Tally, Usage, number
from adapters.wire.base import Message
from adapters.wire.client_playout import ClientPlayout, Item, cut_ms
from adapters.wire.event_stream import PERMANENT_CODES, THROTTLES, EventStream
from adapters.wire.openai_session import AskedSession, compare
from adapters.wire.payload import (
    at,
    excerpt,
    identifier,
    writable,
)
from audio.buffers import Float32

MAX_RESPONSES = 1_000
"""Ours: a schedule asks for two."""

MAX_LIMITS = 20
"""Ours: the vendor names two, requests and tokens."""

BETA_NAMES = {
    "response.audio.delta": "response.output_audio.delta",
    "response.audio.done": "response.output_audio.done",
    "response.audio_transcript.delta": "response.output_audio_transcript.delta",
    "response.audio_transcript.done": "response.output_audio_transcript.done",
    "response.text.delta": "response.output_text.delta",
    "response.text.done": "response.output_text.done",
    "conversation.item.created": "conversation.item.added",
}

LOGGED = frozenset({
    "conversation.created", "conversation.item.added", "conversation.item.done",
    "conversation.item.retrieved", "conversation.item.deleted", "conversation.item.truncated",
    "conversation.item.input_audio_transcription.delta",
    "conversation.item.input_audio_transcription.completed",
    "conversation.item.input_audio_transcription.failed",
    "conversation.item.input_audio_transcription.segment",
    "input_audio_buffer.committed", "input_audio_buffer.cleared",
    "input_audio_buffer.speech_stopped", "input_audio_buffer.timeout_triggered",
    "input_audio_buffer.dtmf_event_received",
    "response.output_item.added", "response.output_item.done",
    "response.content_part.added", "response.content_part.done",
    "response.output_text.delta", "response.output_text.done",
    "response.function_call_arguments.delta", "response.function_call_arguments.done",
    "output_audio_buffer.started", "output_audio_buffer.stopped", "output_audio_buffer.cleared",
    "response.thinking.delta", "response.thinking.done",
    "rate_limits.updated"})
"""Known events that change nothing here: kept in the log as they are."""


class RealtimeWire(EventStream):
    """One session. `instructions` is the system prompt, empty at level L0."""

    logged = LOGGED

    def __init__(self, settings: AskedSession, instructions: str) -> None:
        super().__init__(settings.input_rate_hz, settings.output_rate_hz)
        self._settings = settings
        self._asked = settings.session(instructions)
        self._created = False
        self._responses: dict[str, str | None] = {}
        """Every response by id, in order: its final status, `None` while it is open."""
        self._void: set[str] = set()
        self._texts: dict[str, str] = {}
        self._playout = ClientPlayout(settings.output_rate_hz)
        self._tally = Tally()
        self._handlers = {
            "session.created": self._session_created,
            "session.updated": self._session_updated,
            "input_audio_buffer.speech_started": self._speech_started,
            "response.created": self._response_created,
            "response.output_audio.delta": self._audio_delta,
            "response.output_audio.done": self._audio_done,
            "response.output_audio_transcript.delta": self._text_delta,
            "response.output_audio_transcript.done": self._text_done,
            "response.done": self._response_done,
            "response.cancelled": self._response_cancelled,
            "conversation.item.input_audio_transcription.completed": self._transcribed,
            "rate_limits.updated": self._rate_limits,
            "error": self._error,
        }

    @property
    def usage(self) -> Usage:
        """Tokens of all responses; those that are still open have not been counted by anybody."""
        counts = dict(self._tally.counts)
        open_n = sum(status is None for status in self._responses.values())
        if open_n:
            counts["unreported_responses"] = counts.get("unreported_responses", 0) + open_n
        return counts

    def opening(self) -> tuple[Message, ...]:
        """Nothing: the server speaks first (`session.created`)."""
        return ()

    def closing(self) -> tuple[Message, ...]:
        """Nothing: closing the connection ends the session."""
        return ()

    def audio(self, frame: Float32) -> tuple[Message, ...]:
        """One `input_audio_buffer.append` for 20 ms of user audio, float32 `(n,)`.

        Raises `ValueError` for another shape or samples that are not finite.
        """
        return (self._append("input_audio_buffer.append", frame),)

    def _handle(self, kind: str, event: dict[str, Any], t_ns: int) -> None:
        super()._handle(BETA_NAMES.get(kind, kind), event, t_ns)

    # the session

    def _session_created(self, event: dict[str, Any], t_ns: int) -> None:
        session = {k: at(event, "session", k) for k in ("id", "model", "expires_at")}
        self._log(t_ns, "session.created", {k: v for k, v in session.items() if v is not None})
        if not self._created:
            self._created = True
            self._messages.append(self._client_event(
                "session", {"type": "session.update", "session": self._asked}))
        elif self._settings.created_confirms and not self._ready:
            # A server that misnames its answer; one that only repeats itself reports another
            # session than ours, and the answer is still to come.
            granted = compare(self._asked, at(event, "session"))
            if not granted.wrong_format and not granted.differs:
                self._session_updated(event, t_ns)

    def _session_updated(self, event: dict[str, Any], t_ns: int) -> None:
        if not isinstance(event.get("session"), dict):
            self._fail(t_ns, "session.updated: expected a session, got "
                             f"{excerpt(event.get('session'), 40)}")
            return
        granted = compare(self._asked, at(event, "session"))
        if not self._refused(granted, t_ns, strict=self._settings.strict_session):
            told = {"differs": granted.differs, "not_reported": granted.not_reported}
            self._log(t_ns, "session.updated", {k: v for k, v in told.items() if v})
            self._ready = True

    # responses

    def _open_id(self) -> str | None:
        """The open response that began last."""
        return next((r for r, status in reversed(self._responses.items()) if status is None), None)

    def _begin_response(self, response_id: str, t_ns: int) -> None:
        if len(self._responses) >= MAX_RESPONSES:
            self._fail(t_ns, f"the server began more than {MAX_RESPONSES} responses")
            return
        self._responses[response_id] = None
        self._events.append(ResponseStarted(t_ns, response_id))

    def _response_created(self, event: dict[str, Any], t_ns: int) -> None:
        response_id = identifier(event, "response", "id")
        if response_id is None:
            self._note(t_ns, "response.created without an id skipped")
        elif response_id in self._responses:
            self._note(t_ns, f"response.created again for {response_id} skipped")
        else:
            self._begin_response(response_id, t_ns)

    def _response_cancelled(self, event: dict[str, Any], t_ns: int) -> None:
        """StepFun's documents name such an event; OpenAI's say `response.done` instead."""
        response_id = identifier(event, "response", "id") or identifier(event, "response_id")
        response = {**_object(event.get("response")), "id": response_id, "status": "cancelled"}
        self._response_done({"response": response}, t_ns)

    def _response_done(self, event: dict[str, Any], t_ns: int) -> None:
        if at(event, "response", "status") == "in_progress":
            # No end, whatever it is called: in StepFun's documents a beginning is so misnamed.
            self._response_created(event, t_ns)
            return
        response_id = identifier(event, "response", "id") or self._open_id()
        if response_id is None:
            self._note(t_ns, "response.done without an id skipped")
            return
        if self._responses.get(response_id) is not None:
            self._note(t_ns, f"response.done again for {response_id} skipped")
            return
        if response_id not in self._responses:
            self._note(t_ns, f"response.done of {response_id} without response.created")
            self._begin_response(response_id, t_ns)
        status = identifier(event, "response", "status") or "unknown"
        self._responses[response_id] = status
        if self._pcm.end(f"{response_id}/"):
            self._note(t_ns, f"half a sample left over at the end of {response_id}")
        if not self._tally.openai_tokens(at(event, "response", "usage")):
            self._tally.add("unreported_responses", 1)
        details = at(event, "response", "status_details")
        self._log(t_ns, "response.done", {
            "id": response_id, "status": status, "reason": at(details, "reason"),
            "usage": at(event, "response", "usage")})
        self._events.append(ResponseDone(t_ns, response_id, status))
        if status == "failed":
            error = at(details, "error")
            told = ": ".join(excerpt(part, 300) for part in (
                at(error, "type"), at(error, "code"), at(error, "message")) if part)
            code = identifier(error, "code")
            self._fail(t_ns, f"response {response_id} failed: {told or 'no cause given'}",
                       hopeless=code in PERMANENT_CODES, throttled=code in THROTTLES)

    # what is used

    def _transcribed(self, event: dict[str, Any], t_ns: int) -> None:
        """The user's words, by another model than the one that answers."""
        self._log_event(t_ns, "conversation.item.input_audio_transcription.completed", event)
        usage = event.get("usage")
        seconds, tokens = number(usage, "seconds"), number(usage, "total_tokens")
        self._tally.add("transcription_s", seconds or 0.0)
        self._tally.add("transcription_tokens", tokens or 0.0)
        if seconds is None and tokens is None:
            self._tally.add("unreported_responses", 1)

    def _rate_limits(self, event: dict[str, Any], t_ns: int) -> None:
        """What is left of each limit; where nothing is, others must not begin either."""
        self._log_event(t_ns, "rate_limits.updated", event)
        limits = event.get("rate_limits")
        for limit in limits[:MAX_LIMITS] if isinstance(limits, list) else ():
            reset_s = number(limit, "reset_seconds")
            if number(limit, "remaining") == 0 and reset_s:
                name = excerpt(at(limit, "name") or "calls", 40)
                self._events.append(Throttled(t_ns, reset_s, f"rate limit: no {name} are left"))

    # audio and words

    def _stream(self, event: dict[str, Any]) -> tuple[str | None, str]:
        """Response id and the key of one stream of audio or words within it."""
        response_id = identifier(event, "response_id") or self._open_id()
        item_id = identifier(event, "item_id") or ""
        return response_id, f"{response_id}/{item_id}/{_content_index(event)}"

    def _must_have_begun(self, response_id: str | None, t_ns: int) -> None:
        """Sound or words are there: their response has begun, whether or not the server said so.
        An end or an empty piece alone begins nothing; nobody would ever end it."""
        if response_id is not None and response_id not in self._responses:
            self._note(t_ns, f"output of {response_id} before its response.created")
            self._begin_response(response_id, t_ns)

    def _audio_delta(self, event: dict[str, Any], t_ns: int) -> None:
        response_id, key = self._stream(event)
        samples = self._samples(key, event, t_ns)
        if samples is None:
            return
        self._must_have_begun(response_id, t_ns)
        if not self._within_audio(t_ns, len(samples)):
            return
        status = None if response_id is None else self._responses.get(response_id)
        if status is not None:
            self._note(t_ns, f"late audio of {response_id}, which is {status}")
        self._events.append(AudioReceived(t_ns, samples, response_id))
        if response_id not in self._void:
            item_id = identifier(event, "item_id")
            item = None if item_id is None else Item(response_id, item_id, _content_index(event))
            self._playout.add(t_ns, len(samples), item)

    def _audio_done(self, event: dict[str, Any], t_ns: int) -> None:
        response_id, key = self._stream(event)
        if self._pcm.end(key):
            self._note(t_ns, f"half a sample left over at the end of {response_id}")
        self._log(t_ns, "response.output_audio.done", {"response_id": response_id})

    def _text_delta(self, event: dict[str, Any], t_ns: int) -> None:
        response_id, key = self._stream(event)
        text = self._words(event, t_ns)
        if text is not None:
            self._say(t_ns, key, text, response_id)

    def _text_done(self, event: dict[str, Any], t_ns: int) -> None:
        """The whole transcript: what no delta has brought is added, nothing is taken back."""
        response_id, key = self._stream(event)
        whole, so_far = event.get("transcript"), self._texts.get(key, "")
        self._log(t_ns, "response.output_audio_transcript.done", {"response_id": response_id})
        if not isinstance(whole, str):
            return
        if whole.startswith(so_far):
            if len(whole) > len(so_far):
                self._say(t_ns, key, whole[len(so_far):], response_id)
        elif not so_far.startswith(whole) and whole.split() != so_far.split():
            self._note(t_ns, f"the transcript of {response_id} is not what its deltas said: "
                             f"{excerpt(whole, 80)}")

    def _say(self, t_ns: int, key: str, text: str, response_id: str | None) -> None:
        if not self._within_text(t_ns, text):
            return
        self._must_have_begun(response_id, t_ns)
        self._texts[key] = self._texts.get(key, "") + text
        self._events.append(TextDelta(t_ns, writable(text), response_id))

    # barge-in

    def _speech_started(self, event: dict[str, Any], t_ns: int) -> None:
        """The server hears the user; a client that is playing a response stops there.

        A response that is open but not heard yet counts too: the server cancels it, and what still
        comes of it must not be played.
        """
        self._log_event(t_ns, "input_audio_buffer.speech_started", event)
        if not self._settings.interrupt_response:
            return
        open_id = self._open_id()
        if open_id in self._void:
            open_id = None
        playing = self._playout.playing(t_ns)
        if open_id is None and not playing:
            return
        cut = self._playout.flush(t_ns)
        heard_id = None if cut.item is None else cut.item.response_id
        response_id = open_id or heard_id
        self._events.append(Interrupted(t_ns, response_id))
        if response_id is not None:
            self._void.add(response_id)
        audio_end_ms = cut_ms(cut, self._output_rate_hz)
        if (self._settings.truncate_on_barge_in and cut.item is not None and audio_end_ms > 0
                and (playing or heard_id == open_id)):
            self._messages.append(self._client_event("truncate", {
                "type": "conversation.item.truncate", "item_id": cut.item.item_id,
                "content_index": cut.item.content_index, "audio_end_ms": audio_end_ms}))


def _content_index(event: dict[str, Any]) -> int:
    index = event.get("content_index")
    return index if isinstance(index, int) and not isinstance(index, bool) and index >= 0 else 0


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
