"""The OpenAI Realtime protocol (GA), client side, without I/O.

Sources: the GA event names and fields, the order of a server-VAD turn, and the rules for
interruption and truncation as the vendor documents them (docs/adapters/openai_realtime.md lists
what is confirmed by what). Beta names are understood as their GA successors.

Three kinds of trouble are told apart (contract): *transparent* faults are skipped and counted and
change nothing that is measured, *infrastructure* faults end the session, everything else the system
does or does not do is its behaviour and is reported as it came.
"""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import Callable
from typing import Any

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
from adapters.wire.base import Message, Output
from adapters.wire.client_playout import ClientPlayout, Item, cut_ms
from adapters.wire.openai_session import RATE_HZ, SessionSettings, compare
from adapters.wire.payload import (
    PayloadError,
    Pcm16Stream,
    at,
    excerpt,
    identifier,
    parse_object,
    writable,
)
from audio.buffers import Float32, float_to_pcm16

FRAME_N = 480
"""20 ms at 24 kHz (seed 002, appendix F.5)."""

MAX_MESSAGES = 200_000
"""Received in one session. Ours: a minute of talk is some thousands."""
MAX_AUDIO_N = 1_200 * RATE_HZ
"""Received in one session. Ours: 20 minutes, 20 times the longest schedule; more is a runaway."""
MAX_TEXT_CHARS = 1_000_000
"""Transcript received in one session. Ours: hours of talk."""
MAX_RESPONSES = 1_000
"""Ours: a schedule asks for two."""
MAX_UNREADABLE_RUN = 20
"""Messages in a row that are no events: the peer speaks another protocol. Ours."""
REMEMBERED_EVENTS = 4_096
"""How far back a repeated event is recognised. Ours: over a minute of deltas."""

FATAL_CODES = frozenset({
    "session_expired", "rate_limit_exceeded", "insufficient_quota", "invalid_api_key",
    "account_deactivated", "billing_hard_limit_reached"})
"""Error codes after which the session cannot be scored. The last four: livekit-agents."""

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
    "rate_limits.updated"})
"""Known events that change nothing here: kept in the log as they are."""

_UNSAID = ("type", "event_id", "delta", "audio")


class RealtimeWire:
    """One session. `instructions` is the system prompt, empty at level L0."""

    def __init__(self, settings: SessionSettings, instructions: str) -> None:
        self._settings = settings
        self._asked = settings.session(instructions)
        self._ready = False
        self._created = False
        self._events: list[AgentEvent] = []
        self._messages: list[Message] = []
        self._sent = 0
        self._messages_n = 0
        self._audio_n = 0
        self._text_chars = 0
        self._unreadable_run = 0
        self._seen: set[tuple[str, int]] = set()
        self._seen_order: deque[tuple[str, int]] = deque()
        self._responses: dict[str, str | None] = {}
        """Every response by id, in order: its final status, `None` while it is open."""
        self._void: set[str] = set()
        self._pcm = Pcm16Stream()
        self._texts: dict[str, str] = {}
        self._playout = ClientPlayout(RATE_HZ)
        self._handlers: dict[str, Callable[[dict[str, Any], int], None]] = {
            "session.created": self._session_created,
            "session.updated": self._session_updated,
            "input_audio_buffer.speech_started": self._speech_started,
            "response.created": self._response_created,
            "response.output_audio.delta": self._audio_delta,
            "response.output_audio.done": self._audio_done,
            "response.output_audio_transcript.delta": self._text_delta,
            "response.output_audio_transcript.done": self._text_done,
            "response.done": self._response_done,
            "error": self._error,
        }

    @property
    def ready(self) -> bool:
        """The server has accepted our session: audio may be sent."""
        return self._ready

    def opening(self) -> tuple[Message, ...]:
        """Nothing: the server speaks first (`session.created`)."""
        return ()

    def closing(self) -> tuple[Message, ...]:
        """Nothing: closing the connection ends the session."""
        return ()

    def audio(self, frame: Float32) -> tuple[Message, ...]:
        """One `input_audio_buffer.append` for 20 ms of user audio, float32 `(480,)`.

        Raises `ValueError` for another shape or samples that are not finite.
        """
        if frame.shape != (FRAME_N,):
            raise ValueError(f"expected a frame of shape ({FRAME_N},), got {frame.shape}")
        pcm = float_to_pcm16(frame).astype("<i2").tobytes()
        return (self._client_event("audio", {"type": "input_audio_buffer.append",
                                             "audio": base64.b64encode(pcm).decode("ascii")}),)

    def receive(self, data: bytes, t_ns: int) -> Output:
        """One server event that arrived at `t_ns`."""
        self._events, self._messages = [], []
        self._messages_n += 1
        if self._messages_n > MAX_MESSAGES:
            self._fail(t_ns, f"the server sent more than {MAX_MESSAGES} messages")
        else:
            self._dispatch(data, t_ns)
        return Output(tuple(self._events), tuple(self._messages))

    def _dispatch(self, data: bytes, t_ns: int) -> None:
        try:
            event = parse_object(data)
            kind = identifier(event, "type")
            if kind is None:
                raise PayloadError("expected an event with a type, got none")
        except PayloadError as error:
            self._unreadable_run += 1
            if self._unreadable_run > MAX_UNREADABLE_RUN:
                self._fail(t_ns, f"{self._unreadable_run} messages in a row are no events; the "
                                 f"last: {error}")
            else:
                self._note(t_ns, f"unreadable message skipped: {error}")
            return
        self._unreadable_run = 0
        if self._is_repeated(event, data):
            self._note(t_ns, f"repeated event skipped: {excerpt(kind, 80)}")
            return
        kind = BETA_NAMES.get(kind, kind)
        handler = self._handlers.get(kind)
        if handler is not None:
            handler(event, t_ns)
        elif kind in LOGGED:
            self._log(t_ns, kind, {k: v for k, v in event.items() if k not in _UNSAID})
        else:
            self._log(t_ns, "unknown_event", excerpt(kind, 80))

    def _is_repeated(self, event: dict[str, Any], data: bytes) -> bool:
        """Whether this very event was received before: same id and same bytes."""
        event_id = identifier(event, "event_id")
        if event_id is None:
            return False
        key = (event_id, hash(data))
        if key in self._seen:
            return True
        self._seen.add(key)
        self._seen_order.append(key)
        if len(self._seen_order) > REMEMBERED_EVENTS:
            self._seen.discard(self._seen_order.popleft())
        return False

    # what goes out

    def _client_event(self, purpose: str, body: dict[str, Any]) -> str:
        """JSON with an id that says what it was for, should the server refuse it."""
        self._sent += 1
        return json.dumps({"event_id": f"{purpose}_{self._sent}", **body},
                          ensure_ascii=False, separators=(",", ":"))

    def _log(self, t_ns: int, name: str, detail: object = "") -> None:
        self._events.append(StateChanged(t_ns, name, excerpt(detail, 1_000) if detail else ""))

    def _note(self, t_ns: int, reason: str) -> None:
        self._events.append(Fault(t_ns, "transparent", reason))

    def _fail(self, t_ns: int, reason: str) -> None:
        self._events.append(Fault(t_ns, "infrastructure", reason))

    # the session

    def _session_created(self, event: dict[str, Any], t_ns: int) -> None:
        session = {k: at(event, "session", k) for k in ("id", "model", "expires_at")}
        self._log(t_ns, "session.created", {k: v for k, v in session.items() if v is not None})
        if not self._created:
            self._created = True
            self._messages.append(self._client_event(
                "session", {"type": "session.update", "session": self._asked}))

    def _session_updated(self, event: dict[str, Any], t_ns: int) -> None:
        granted = compare(self._asked, at(event, "session"))
        if granted.wrong_format:
            self._fail(t_ns, f"the server uses another audio format: "
                             f"{'; '.join(granted.wrong_format)}")
        elif granted.differs and self._settings.strict_session:
            self._fail(t_ns, f"the server did not apply the session that was asked for: "
                             f"{'; '.join(granted.differs)}")
        else:
            told = {"differs": granted.differs, "not_reported": granted.not_reported}
            self._log(t_ns, "session.updated", {k: v for k, v in told.items() if v})
            self._ready = True

    def _error(self, event: dict[str, Any], t_ns: int) -> None:
        kind, code, about = (identifier(event, "error", k) for k in ("type", "code", "event_id"))
        message = excerpt(at(event, "error", "message") or "no message", 300)
        told = ": ".join(excerpt(part, 80) for part in (kind, code) if part) or "no type"
        ours = "" if about is None else f" (in answer to {excerpt(about, 40)})"
        reason = f"error event: {told}: {message}{ours}"
        refused = about is not None and about.startswith(("audio_", "session_"))
        if (not self._ready or refused or code in FATAL_CODES
                or kind != "invalid_request_error"):
            self._fail(t_ns, reason)
        else:
            self._note(t_ns, reason)

    # responses

    def _open_id(self) -> str | None:
        """The open response that began last."""
        return next((r for r, status in reversed(self._responses.items()) if status is None), None)

    def _begin(self, response_id: str, t_ns: int) -> None:
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
            self._begin(response_id, t_ns)

    def _response_done(self, event: dict[str, Any], t_ns: int) -> None:
        response_id = identifier(event, "response", "id") or self._open_id()
        if response_id is None:
            self._note(t_ns, "response.done without an id skipped")
            return
        if self._responses.get(response_id) is not None:
            self._note(t_ns, f"response.done again for {response_id} skipped")
            return
        if response_id not in self._responses:
            self._note(t_ns, f"response.done of {response_id} without response.created")
            self._begin(response_id, t_ns)
        status = identifier(event, "response", "status") or "unknown"
        self._responses[response_id] = status
        if self._pcm.end(f"{response_id}/"):
            self._note(t_ns, f"half a sample left over at the end of {response_id}")
        details = at(event, "response", "status_details")
        self._log(t_ns, "response.done", {
            "id": response_id, "status": status, "reason": at(details, "reason"),
            "usage": at(event, "response", "usage")})
        self._events.append(ResponseDone(t_ns, response_id, status))
        if status == "failed":
            error = at(details, "error")
            told = ": ".join(excerpt(part, 300) for part in (
                at(error, "type"), at(error, "code"), at(error, "message")) if part)
            self._fail(t_ns, f"response {response_id} failed: {told or 'no cause given'}")

    # audio and words

    def _stream(self, event: dict[str, Any], t_ns: int) -> tuple[str | None, str]:
        """Response id and the key of one stream of audio or words within it."""
        response_id = identifier(event, "response_id") or self._open_id()
        if response_id is not None and response_id not in self._responses:
            self._note(t_ns, f"output of {response_id} before its response.created")
            self._begin(response_id, t_ns)
        item_id = identifier(event, "item_id") or ""
        return response_id, f"{response_id}/{item_id}/{_content_index(event)}"

    def _audio_delta(self, event: dict[str, Any], t_ns: int) -> None:
        response_id, key = self._stream(event, t_ns)
        try:
            samples = self._pcm.push(key, event.get("delta"))
        except PayloadError as error:
            self._note(t_ns, f"audio delta skipped: {error}")
            return
        if self._pcm.carries(key):
            self._note(t_ns, "audio delta splits a sample: its first byte waits for the next one")
        if not len(samples):
            return
        self._audio_n += len(samples)
        if self._audio_n > MAX_AUDIO_N:
            self._fail(t_ns, f"the server sent more than {MAX_AUDIO_N // RATE_HZ} s of audio")
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
        response_id, key = self._stream(event, t_ns)
        if self._pcm.end(key):
            self._note(t_ns, f"half a sample left over at the end of {response_id}")
        self._log(t_ns, "response.output_audio.done", {"response_id": response_id})

    def _text_delta(self, event: dict[str, Any], t_ns: int) -> None:
        response_id, key = self._stream(event, t_ns)
        text = event.get("delta")
        if not isinstance(text, str) or not text:
            self._note(t_ns, f"transcript delta skipped: expected text, got {excerpt(text, 40)}")
            return
        self._say(t_ns, key, text, response_id)

    def _text_done(self, event: dict[str, Any], t_ns: int) -> None:
        """The whole transcript: what no delta has brought is added, nothing is taken back."""
        response_id, key = self._stream(event, t_ns)
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
        self._text_chars += len(text)
        if self._text_chars > MAX_TEXT_CHARS:
            self._fail(t_ns, f"the server sent more than {MAX_TEXT_CHARS} characters of transcript")
            return
        self._texts[key] = self._texts.get(key, "") + text
        self._events.append(TextDelta(t_ns, writable(text), response_id))

    # barge-in

    def _speech_started(self, event: dict[str, Any], t_ns: int) -> None:
        """The server hears the user; a client that is playing a response stops there.

        A response that is open but not heard yet counts too: the server cancels it, and what still
        comes of it must not be played.
        """
        self._log(t_ns, "input_audio_buffer.speech_started",
                  {k: v for k, v in event.items() if k not in _UNSAID})
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
        audio_end_ms = cut_ms(cut, RATE_HZ)
        if (self._settings.truncate_on_barge_in and cut.item is not None and audio_end_ms > 0
                and (playing or heard_id == open_id)):
            self._messages.append(self._client_event("truncate", {
                "type": "conversation.item.truncate", "item_id": cut.item.item_id,
                "content_index": cut.item.content_index, "audio_end_ms": audio_end_ms}))


def _content_index(event: dict[str, Any]) -> int:
    index = event.get("content_index")
    return index if isinstance(index, int) and not isinstance(index, bool) and index >= 0 else 0
