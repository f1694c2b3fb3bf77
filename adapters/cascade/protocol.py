"""The OpenAI Realtime protocol (GA), server side, without I/O and without a clock.

What a client sent goes in, what the brain found out goes in; events to send and work for the brain
come out. The order of events within a turn, and what is refused, follow the vendor's documents
(docs/cascade.md lists what is honoured). Whatever arrives, an `error` event is the worst answer.

Time is the audio's: `audio_start_ms` and `audio_end_ms` count what was written to the buffer.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from adapters.cascade import policy
from adapters.cascade.conversation import Conversation, Item, client_item
from adapters.cascade.hearing import (
    N_PER_MS,
    RATE_HZ,
    Edge,
    InputBuffer,
    SpeechStarted,
    TurnDetector,
)
from adapters.cascade.session import (
    FORMAT,
    MODEL,
    ClientError,
    Settings,
    only,
    read_instructions,
    read_max_tokens,
    read_output,
    unknown,
    updated,
)
from adapters.cascade.speech import Piece
from adapters.wire.payload import PayloadError, excerpt, identifier, parse_object
from audio.buffers import Int16

MAX_APPEND_BYTES = 15 * 1024 * 1024
"""Of decoded audio in one event: the vendor's bound."""
MAX_HELD_N = 120 * RATE_HZ
"""Audio that may wait in the buffer without turn detection, and the longest turn with it. Ours."""
IDLE_HELD_N = 30 * RATE_HZ
"""Audio kept while nobody speaks, for padding and for a commit by the client. Ours."""
STEP_N = RATE_HZ // 2
"""A long append is worked through in steps of half a second."""

Event = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Recognise:
    """Work: what was said in this audio (PCM16 `(n,)` at 24 kHz); answered by `recognised`."""

    item_id: str
    pcm: Int16


@dataclass(frozen=True, slots=True)
class Say:
    """Work: speak these sentences; answered by `deliver` for every piece, then `finish`."""

    response_id: str
    sentences: tuple[str, ...]


Job = Recognise | Say


@dataclass(frozen=True, slots=True)
class Output:
    """Events to send, in order, and work to begin."""

    events: tuple[Event, ...] = ()
    jobs: tuple[Job, ...] = ()


@dataclass(slots=True)
class _Response:
    id: str
    instructions: str
    max_output_tokens: int | None
    voice: str
    metadata: dict[str, str] | None
    asked: list[Item]
    """What it answers."""
    item: Item | None = None
    said: list[str] = field(default_factory=list)
    saying: bool = False
    cut_short: bool = False
    """`max_output_tokens` left something unsaid."""


class ServerSession:
    """One client's session. Not thread-safe: the driver calls it from one place at a time."""

    def __init__(self, session_id: str, model: str | None = None) -> None:
        self._id = session_id
        self._settings = Settings(model=model or MODEL)
        self._last_id = 0
        self._events: list[Event] = []
        self._jobs: list[Job] = []
        self._buffer = InputBuffer()
        self._conversation = Conversation()
        self._detector: TurnDetector | None = None
        self._turn: tuple[str, int] | None = None
        """The user is speaking: id of the item to come, first sample of it."""
        self._response: _Response | None = None
        self._turn_waits = False
        """A turn ended while a response could not be interrupted: it is answered afterwards."""
        self._spoke = False
        self._handlers: dict[str, Callable[[Event], None]] = {
            "session.update": self._session_update,
            "input_audio_buffer.append": self._append,
            "input_audio_buffer.commit": self._client_commit,
            "input_audio_buffer.clear": self._clear,
            "conversation.item.create": self._item_create,
            "conversation.item.retrieve": self._item_retrieve,
            "conversation.item.delete": self._item_delete,
            "conversation.item.truncate": self._item_truncate,
            "response.create": self._response_create,
            "response.cancel": self._response_cancel,
        }
        self._reset_detector()

    @property
    def active_response(self) -> str | None:
        """The id of the response that is under way."""
        return None if self._response is None else self._response.id

    # what goes in

    def opening(self) -> Output:
        """What the server says first."""
        self._begin()
        self._emit("session.created", session=self._settings.as_dict(self._id))
        return self._output()

    def receive(self, data: str | bytes) -> Output:
        """One message of the client. Never raises for what it holds."""
        self._begin()
        about: str | None = None
        try:
            event = parse_object(data if isinstance(data, bytes) else data.encode("utf-8"))
            about = identifier(event, "event_id")
            kind = event.get("type")
            handler = self._handlers.get(kind) if isinstance(kind, str) else None
            if handler is None:
                raise ClientError("invalid_value", f"no client event of type {excerpt(kind, 60)}; "
                                  f"known: {', '.join(self._handlers)}", "type")
            handler(event)
        except PayloadError as error:
            self._error("invalid_json", str(error), None, about)
        except UnicodeEncodeError:
            self._error("invalid_json", "expected UTF-8, got half a surrogate pair", None, about)
        except ClientError as error:
            self._error(error.code, str(error), error.param, about)
        return self._output()

    def recognised(self, item_id: str, words: Sequence[str] | None) -> Output:
        """The brain's answer to `Recognise`; `None` where it failed."""
        self._begin()
        try:
            item = self._conversation.get(item_id)
        except ClientError:  # deleted in the meantime
            return self._output()
        item.text = " ".join(words or ())
        if self._settings.transcription is not None:
            where = {"item_id": item_id, "content_index": 0}
            if words is None:
                self._emit("conversation.item.input_audio_transcription.failed", **where,
                           error={"type": "server_error", "code": "recognition_failed",
                                  "message": "the recogniser failed", "param": None})
            else:
                self._emit("conversation.item.input_audio_transcription.completed", **where,
                           transcript=item.text, usage=_usage_tokens(0, len(words)))
        response = self._response
        if words is None and response is not None and item in response.asked:
            self._end("failed", _failure("recognition_failed", "the recogniser failed"))
        self._think()
        return self._output()

    def deliver(self, response_id: str, piece: Piece) -> Output:
        """A piece of speech is ready to be sent; nothing comes of it once the response is over."""
        self._begin()
        response = self._response
        if response is not None and response.id == response_id:
            self._send_piece(response, piece)
        return self._output()

    def finish(self, response_id: str, failure: str | None = None) -> Output:
        """Everything of the response has been delivered, or the voice failed."""
        self._begin()
        response = self._response
        if response is not None and response.id == response_id:
            if failure is not None:
                self._end("failed", _failure("synthesis_failed", failure))
            elif response.cut_short:
                self._end("incomplete", {"type": "incomplete", "reason": "max_output_tokens"})
            else:
                self._end("completed", None)
        return self._output()

    # what comes out

    def _begin(self) -> None:
        self._events, self._jobs = [], []

    def _output(self) -> Output:
        return Output(tuple(self._events), tuple(self._jobs))

    def _next_id(self, kind: str) -> str:
        self._last_id += 1
        return f"{kind}_{self._last_id}"

    def _gives(self, item_id: str) -> bool:
        """Whether this id is that of the turn being heard, or one that is still to be given."""
        number = re.fullmatch(r"item_(\d{1,18})", item_id)
        return ((number is not None and int(number[1]) > self._last_id)
                or (self._turn is not None and item_id == self._turn[0]))

    def _emit(self, kind: str, **fields: Any) -> None:
        self._events.append({"type": kind, "event_id": self._next_id("event"), **fields})

    def _error(self, code: str, message: str, param: str | None, about: str | None) -> None:
        self._emit("error", error={"type": "invalid_request_error", "code": code,
                                   "message": message, "param": param, "event_id": about})

    # the session

    def _session_update(self, event: Event) -> None:
        before = self._settings.detection
        self._settings = updated(self._settings, event.get("session"), voice_locked=self._spoke)
        after = self._settings.detection
        if (before and before.turns) != (after and after.turns):
            self._reset_detector()
        self._emit("session.updated", session=self._settings.as_dict(self._id))

    def _reset_detector(self) -> None:
        """Detection begins anew here. A turn that was going on is forgotten: no item comes."""
        self._turn = None
        detection = self._settings.detection
        self._detector = None if detection is None else TurnDetector(
            detection.turns, self._buffer.written_n)

    # the user's audio

    def _append(self, event: Event) -> None:
        pcm = _pcm(event.get("audio"))
        if self._detector is None and self._buffer.held_n + len(pcm) > MAX_HELD_N:
            raise ClientError("input_audio_buffer_full", f"the buffer holds at most "
                              f"{MAX_HELD_N // RATE_HZ} s without turn detection; commit or clear "
                              "it", "audio")
        for at_n in range(0, len(pcm), STEP_N):
            samples = self._buffer.append(pcm[at_n:at_n + STEP_N])
            if self._detector is not None:
                for edge in self._detector.push(samples):
                    self._edge(edge)
                self._bound_turn()

    def _bound_turn(self) -> None:
        if self._turn is None:
            self._buffer.keep_last(IDLE_HELD_N)
        elif self._buffer.written_n - self._turn[1] >= MAX_HELD_N:
            self._end_turn(self._buffer.written_n)
            self._reset_detector()

    def _edge(self, edge: Edge) -> None:
        detection = self._settings.detection
        assert detection is not None
        if isinstance(edge, SpeechStarted):
            padding_n = detection.turns.prefix_padding_ms * N_PER_MS
            start_n = max(self._buffer.start_n, edge.at_n - padding_n)
            self._turn = (self._next_id("item"), start_n)
            self._emit("input_audio_buffer.speech_started",
                       audio_start_ms=start_n // N_PER_MS, item_id=self._turn[0])
            if detection.interrupt_response and self._response is not None:
                self._end("cancelled", {"type": "cancelled", "reason": "turn_detected"})
        else:
            self._end_turn(edge.at_n)

    def _end_turn(self, end_n: int) -> None:
        assert self._turn is not None
        assert self._settings.detection is not None
        item_id, start_n = self._turn
        self._turn = None
        self._emit("input_audio_buffer.speech_stopped", audio_end_ms=end_n // N_PER_MS,
                   item_id=item_id)
        self._commit(item_id, start_n, end_n)
        if self._settings.detection.create_response:
            if self._response is None:
                self._respond()
            else:
                self._turn_waits = True

    def _commit(self, item_id: str, start_n: int, end_n: int) -> None:
        item = Item(item_id, "user", "input_audio", None)
        previous = self._conversation.add(item)
        self._emit("input_audio_buffer.committed", item_id=item_id, previous_item_id=previous)
        self._show(item, previous, "added", "done")
        self._jobs.append(Recognise(item_id, self._buffer.take(start_n, end_n)))

    def _client_commit(self, event: Event) -> None:
        del event
        if not self._buffer.held_n:
            raise ClientError("input_audio_buffer_commit_empty",
                              "the input audio buffer is empty")
        item_id = self._turn[0] if self._turn else self._next_id("item")
        self._commit(item_id, self._buffer.start_n, self._buffer.written_n)
        self._reset_detector()

    def _clear(self, event: Event) -> None:
        del event
        self._buffer.clear()
        self._reset_detector()
        self._emit("input_audio_buffer.cleared")

    # items

    def _show(self, item: Item, previous: str | None, *what: Literal["added", "done"]) -> None:
        for kind in what:
            self._emit(f"conversation.item.{kind}", item=item.as_dict(), previous_item_id=previous)

    def _item_create(self, event: Event) -> None:
        item = client_item(event.get("item"), self._next_id("item"))
        if self._gives(item.id):
            raise ClientError("invalid_value", f"{item.id}: this server gives such ids itself; "
                              "expected another", "item.id")
        previous = self._conversation.add(item, event.get("previous_item_id"))
        self._show(item, previous, "added", "done")

    def _item_retrieve(self, event: Event) -> None:
        self._emit("conversation.item.retrieved",
                   item=self._conversation.get(event.get("item_id")).as_dict())

    def _item_delete(self, event: Event) -> None:
        item = self._conversation.get(event.get("item_id"))
        if self._response is not None and item is self._response.item:
            raise ClientError("invalid_value", "this item is being generated", "item_id")
        self._conversation.delete(item.id)
        self._emit("conversation.item.deleted", item_id=item.id)
        self._think()

    def _item_truncate(self, event: Event) -> None:
        audio_end_ms = event.get("audio_end_ms")
        item = self._conversation.truncate(event.get("item_id"), event.get("content_index"),
                                           audio_end_ms)
        self._emit("conversation.item.truncated", item_id=item.id, content_index=0,
                   audio_end_ms=audio_end_ms)

    # responses

    def _response_create(self, event: Event) -> None:
        if self._response is not None:
            raise ClientError("conversation_already_has_active_response",
                              f"response {self._response.id} is under way")
        self._respond(**_response_fields(event.get("response")))

    def _response_cancel(self, event: Event) -> None:
        wanted = event.get("response_id")
        if self._response is None or wanted not in (None, self._response.id):
            raise ClientError("response_cancel_not_active", "there is no such active response",
                              "response_id")
        self._end("cancelled", {"type": "cancelled", "reason": "client_cancelled"})

    def _respond(self, **given: Any) -> None:
        settings = self._settings
        self._turn_waits = False
        self._response = _Response(
            self._next_id("resp"), given.get("instructions", settings.instructions),
            given.get("max_output_tokens", settings.max_output_tokens),
            given.get("voice", settings.voice), given.get("metadata"),
            self._conversation.unanswered())
        self._emit("response.created", response=self._resource(self._response, "in_progress"))
        self._think()

    def _think(self) -> None:
        """Decide what to say once everything that it answers is recognised."""
        response = self._response
        if response is None or response.saying or any(i.text is None for i in response.asked):
            return
        response.saying = True
        sentences = policy.reply([i.text or "" for i in response.asked], response.instructions,
                                 opening=self._conversation.last_id is None)
        if response.max_output_tokens is not None:
            kept = _first_words(sentences, response.max_output_tokens)
            response.cut_short = kept != sentences
            sentences = kept
        self._jobs.append(Say(response.id, sentences))

    def _send_piece(self, response: _Response, piece: Piece) -> None:
        item = response.item or self._open_item(response)
        where = self._where(response, item)
        if piece.text:
            response.said.append(piece.text)
            item.words.append((piece.text, item.sent_n))
            self._emit("response.output_audio_transcript.delta", **where, delta=piece.text)
        if len(piece.pcm):
            item.sent_n += len(piece.pcm)
            self._spoke = True
            self._emit("response.output_audio.delta", **where, delta=base64.b64encode(
                piece.pcm.astype("<i2").tobytes()).decode("ascii"))

    def _open_item(self, response: _Response) -> Item:
        item = Item(self._next_id("item"), "assistant", "output_audio", None, "in_progress")
        response.item = item
        self._emit("response.output_item.added", response_id=response.id, output_index=0,
                   item=item.as_dict())
        self._show(item, self._conversation.add(item), "added")
        self._emit("response.content_part.added", **self._where(response, item),
                   part={"type": "audio", "transcript": ""})
        return item

    def _where(self, response: _Response, item: Item) -> dict[str, Any]:
        return {"response_id": response.id, "item_id": item.id, "output_index": 0,
                "content_index": 0}

    def _end(
        self, status: Literal["completed", "cancelled", "incomplete", "failed"],
        details: dict[str, Any] | None,
    ) -> None:
        """Close everything that is open of the response, and say how it ended."""
        response = self._response
        assert response is not None
        self._response = None
        if response.item is not None:
            item, transcript = response.item, "".join(response.said)
            where = self._where(response, item)
            item.status = "completed" if status == "completed" else "incomplete"
            item.text = "".join(text for text, _ in item.words)
            self._emit("response.output_audio.done", **where)
            self._emit("response.output_audio_transcript.done", **where, transcript=transcript)
            self._emit("response.content_part.done", **where,
                       part={"type": "audio", "transcript": transcript})
            self._emit("response.output_item.done", response_id=response.id, output_index=0,
                       item=item.as_dict())
            self._show(item, self._conversation.previous_id(item), "done")
        self._emit("response.done", response=self._resource(response, status, details))
        if self._turn_waits:
            self._respond()

    def _resource(
        self, response: _Response, status: str, details: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        over = status != "in_progress"
        heard = sum(len((item.text or "").split()) for item in response.asked)
        said = len("".join(response.said).split())
        return {
            "object": "realtime.response", "id": response.id, "status": status,
            "status_details": details, "conversation_id": f"conv_{self._id}",
            "output": [response.item.as_dict()] if over and response.item is not None else [],
            "output_modalities": ["audio"],
            "max_output_tokens": response.max_output_tokens or "inf",
            "audio": {"output": {"format": dict(FORMAT), "voice": response.voice}},
            "metadata": response.metadata, "usage": _usage(heard, said) if over else None,
        }


def _pcm(audio: object) -> Int16:
    """PCM16 samples of an `append`. Raises `ClientError`; nothing is taken then."""
    if not isinstance(audio, str):
        raise ClientError("invalid_type", f"expected base64 text, got {excerpt(audio, 40)}",
                          "audio")
    if len(audio) > (MAX_APPEND_BYTES + 2) // 3 * 4:
        raise ClientError("string_above_max_length", f"expected at most {MAX_APPEND_BYTES} bytes "
                          "of audio in one event", "audio")
    try:
        data = base64.b64decode(audio, validate=True)
    except (binascii.Error, ValueError):
        raise ClientError("invalid_value", f"expected base64, got {len(audio)} characters that are "
                          "none", "audio") from None
    if len(data) % 2:
        raise ClientError("invalid_value", f"expected whole samples of PCM16, got {len(data)} "
                          "bytes", "audio")
    return np.frombuffer(data, "<i2").astype(np.int16)


def _response_fields(given: object) -> dict[str, Any]:
    """What `response.create` may say of its one response. Raises `ClientError`."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise ClientError("invalid_type", f"expected an object, got {excerpt(given, 40)}",
                          "response")
    fields: dict[str, Any] = {}
    for name, value in given.items():
        where = f"response.{name}"
        if name == "instructions":
            fields[name] = read_instructions(value, where)
        elif name == "max_output_tokens":
            fields[name] = read_max_tokens(value, where)
        elif name == "metadata":
            fields[name] = _metadata(value)
        elif name == "audio":
            output = value.get("output") if isinstance(value, dict) else None
            if not isinstance(output, dict) or len(value) > 1:
                raise ClientError("invalid_value", "expected {\"output\": {...}}", where)
            fields |= read_output(output, f"{where}.output")
        elif name == "conversation":
            if value not in ("auto", None):
                raise ClientError("invalid_value", "this server takes 'auto' alone", where)
        elif name in ("output_modalities", "tools", "tool_choice", "parallel_tool_calls",
                      "prompt", "reasoning"):
            only(name, value, where)
        else:
            raise unknown(where)
    return fields


def _metadata(value: object) -> dict[str, str] | None:
    """At most 16 texts of at most 512 characters, keys of at most 64: the vendor's bounds."""
    if value is None:
        return None
    if not isinstance(value, dict) or len(value) > 16 or not all(
            len(k) <= 64 and isinstance(v, str) and len(v) <= 512 for k, v in value.items()):
        raise ClientError("invalid_value", "expected at most 16 short texts", "response.metadata")
    return dict(value)


def _first_words(sentences: tuple[str, ...], most: int) -> tuple[str, ...]:
    """The sentences up to `most` words; what is cut ends with a full stop."""
    out: list[str] = []
    for sentence in sentences:
        words = sentence.split()
        if most <= 0:
            break
        kept = " ".join(words[:most]).rstrip(",;:")
        out.append(sentence if len(words) <= most else f"{kept}.")
        most -= len(words)
    return tuple(out)


def _failure(code: str, message: str) -> dict[str, Any]:
    return {"type": "failed", "error": {"type": "server_error", "code": code, "message": message}}


def _usage(heard: int, said: int) -> dict[str, Any]:
    """Words for tokens: this agent has no others."""
    return {"total_tokens": heard + said, "input_tokens": heard, "output_tokens": said}


def _usage_tokens(heard: int, said: int) -> dict[str, Any]:
    return {"type": "tokens", **_usage(heard, said)}
