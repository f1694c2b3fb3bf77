"""vLLM-Omni's full-duplex endpoint, client side, without I/O.

Sources: the project's page "Realtime Duplex API", its client and its tests
(docs/adapters/vllm_omni.md lists what is confirmed by what). OpenAI's names with other rules: a
response may begin without a commit, or be opened and end in a decision to listen; both spellings
of an event are known; the model itself decides, and says when a response was interrupted. The
client tells how far it has played, and that it is there. Trouble: `event_stream`.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from adapters.base import AudioReceived, Interrupted, ResponseDone, ResponseStarted, TextDelta
from adapters.wire.base import Message, Output
from adapters.wire.client_playout import Item
from adapters.wire.event_stream import PERMANENT_CODES, THROTTLES
from adapters.wire.numbered_stream import NumberedStream
from adapters.wire.payload import at, excerpt, identifier, writable
from adapters.wire.playback_reports import PlaybackReports
from adapters.wire.vllm_omni_session import OUTPUT_FORMAT, DuplexSettings, same_format
from audio.buffers import Float32
from audio.timebase import FRAMES_PER_S, s_to_ns

MAX_RESPONSES = 1_000
"""Ours: a schedule asks for two."""
FRAME_MS = 1_000 // FRAMES_PER_S

LOGGED = frozenset({
    "session.updated", "session.resumed", "session.heartbeat_ack", "session.resync_required",
    "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped",
    "input_audio_buffer.committed", "input_audio_buffer.cleared",
    "conversation.item.added", "conversation.item.created", "conversation.item.done",
    "conversation.item.retrieved", "conversation.item.deleted", "conversation.item.truncated",
    "conversation.item.input_audio_transcription.completed",
    "response.output_item.added", "response.output_item.done",
    "response.content_part.added", "response.content_part.done",
    "response.output_text.delta", "response.output_text.done",
    "response.function_call_arguments.delta", "response.function_call_arguments.done",
    "duplex.function_call.done", "rate_limits.updated", "playback.acknowledged", "turn.event"})
"""Known events that change nothing here: kept in the log as they are."""


class DuplexWire(NumberedStream):
    """One session. `instructions` is the system prompt, empty at level L0."""

    logged = LOGGED
    permanent_codes = PERMANENT_CODES | {"ref_audio_required", "unsupported_turn_detection"}
    throttles = THROTTLES | {"resource_exhausted"}

    def __init__(self, settings: DuplexSettings, instructions: str) -> None:
        super().__init__(settings.input_rate_hz, settings.output_rate_hz)
        self._settings = settings
        self._instructions = instructions
        self._held: list[bytes] = []
        self._appended_ms = 0
        self._closing = False
        self._listening = False
        self._truncates = False
        self._responses: dict[str, str | None] = {}
        """Every response by id, in order: its final status, `None` while it is open."""
        self._begun: set[str] = set()
        """Those of which something was heard or said."""
        self._void: set[str] = set()
        self._texts: dict[str, str] = {}
        self._piece_n: dict[str | None, int] = {}
        """Where in all audio the last piece of a response begins."""
        self._playback = PlaybackReports(settings.output_rate_hz, settings.ack_interval_s,
                                         self._played if settings.acks_playback else None)
        self._heartbeat_ns: int | None = None
        self._handlers = {
            "session.created": self._created,
            "session.closed": self._closed,
            "session.expired": self._closed,
            "session.replaced": self._closed,
            "response.created": self._response_created,
            "response.speak": self._speak,
            "response.listen": self._listen,
            "response.output_audio.delta": self._audio_delta,
            "response.output_audio.done": self._audio_done,
            "response.output_audio_transcript.delta": self._text_delta,
            "response.output_audio_transcript.done": self._text_done,
            "response.done": self._response_done,
            "output_audio_buffer.cleared": self._cleared,
            "overlap.decision": self._overlap,
            "error": self._on_error,
        }

    @property
    def linger_s(self) -> float:
        return self._settings.close_timeout_s

    # what goes out

    def opening(self) -> tuple[Message, ...]:
        """The `session.update` that opens the session: the server waits for it."""
        return (self._client_event("session", {
            "type": "session.update", "session": self._settings.session(self._instructions)}),)

    def closing(self) -> tuple[Message, ...]:
        """`session.close`, once, unless the server has ended the session already."""
        if self._over or self._closing:
            return ()
        self._closing = True
        return (self._client_event("close", {"type": "session.close"}),)

    def audio(self, frame: Float32) -> tuple[Message, ...]:
        """20 ms of user audio, float32 `(n,)`: an append when `append_ms` of them are there.

        Raises `ValueError` for another shape or samples that are not finite.
        """
        data = self._user_pcm(frame)  # also the check of shape and samples
        if self._settings.input_format == "pcm_f32le":
            data = np.ascontiguousarray(frame, dtype="<f4").tobytes()
        self._held.append(data)
        if len(self._held) < self._settings.frames_per_append:
            return ()
        pcm, ms = b"".join(self._held), len(self._held) * FRAME_MS
        self._held.clear()
        self._appended_ms += ms
        return (self._client_event("audio", {
            "type": "input_audio_buffer.append", "audio": base64.b64encode(pcm).decode("ascii"),
            "format": self._settings.input_format,
            "sample_rate_hz": self._settings.input_rate_hz,
            "duration_ms": ms, "audio_end_ms": self._appended_ms}),)

    @property
    def due_ns(self) -> int | None:
        """When the server is next told how far playback is, or that we are there."""
        due = [t for t in (self._playback.due_ns, self._heartbeat_ns) if t is not None]
        return min(due) if due and not self._over else None

    def tick(self, t_ns: int) -> tuple[Message, ...]:
        """What is due at `t_ns`."""
        if self._over:
            return ()
        messages: list[Message] = []
        if self._heartbeat_ns is not None and self._heartbeat_ns <= t_ns:
            messages.append(self._client_event("heartbeat", {"type": "session.heartbeat"}))
            self._heartbeat_ns = t_ns + s_to_ns(self._settings.heartbeat_s)
        return (*messages, *self._playback.tick(t_ns))

    def _played(self, item: Item, ms: int, cut_off: bool) -> str:
        """How much of a response was heard; `cut_off`: the rest never will be."""
        body: dict[str, Any] = {"type": "playback.ack", "response_id": item.response_id,
                                "item_id": item.item_id, "played_ms": ms, "committed_ms": ms}
        if cut_off and self._truncates:
            body["truncate"] = True
        return self._client_event("playback", body)

    # what comes in

    def receive(self, data: bytes, t_ns: int) -> Output:
        """One event that arrived at `t_ns`, after what was due before."""
        due = self.tick(t_ns)
        output = super().receive(data, t_ns)
        return Output(output.events, due + output.messages)

    # the session

    def _created(self, event: dict[str, Any], t_ns: int) -> None:
        if self._ready:
            self._note(t_ns, "session.created again skipped")
            return
        session = event.get("session")
        capabilities = at(session, "capabilities")
        if not isinstance(capabilities, dict):
            # The project's page: a deployment that is not duplex answers as the ordinary realtime
            # endpoint does, without them.
            self._fail(t_ns, "session.created: expected capabilities, got none: the server does "
                             "not serve this model in full duplex", hopeless=True)
            return
        if capabilities.get("supports_input_append") is False:
            self._fail(t_ns, "the server takes no audio while it runs: supports_input_append is "
                             "false", hopeless=True)
            return
        granted = self._settings.granted(self._instructions, session)
        if self._refused(granted, t_ns, strict=self._settings.strict_session):
            return
        self._truncates = capabilities.get("supports_audio_truncate") is True
        told = {"id": at(session, "id"), "model": at(session, "model"),
                "capabilities": capabilities, "differs": granted.differs,
                "not_reported": granted.not_reported}
        self._log(t_ns, "session.created", {k: v for k, v in told.items() if v})
        self._ready = True
        if self._settings.heartbeat_s:
            self._heartbeat_ns = t_ns + s_to_ns(self._settings.heartbeat_s)

    def _closed(self, event: dict[str, Any], t_ns: int) -> None:
        kind = excerpt(event.get("type"), 40)
        self._over = True
        self._log_event(t_ns, kind, event)
        if not self._closing:
            reason = excerpt(event.get("reason") or "no reason given", 80)
            self._fail(t_ns, f"the server ended the session: {kind}: {reason}")

    def _on_error(self, event: dict[str, Any], t_ns: int) -> None:
        """An `error` in either shape: of the handshake, it is flat."""
        if isinstance(event.get("error"), str):
            event = {**event, "error": {"type": "session_error", "code": event.get("code"),
                                        "message": event["error"]}}
        self._error(event, t_ns)

    # responses

    def _open_id(self) -> str | None:
        """The open response that began last."""
        return next((r for r, status in reversed(self._responses.items()) if status is None), None)

    def _id_of(self, event: dict[str, Any]) -> str | None:
        return identifier(event, "response_id") or identifier(event, "response", "id") \
            or self._open_id()

    def _response_created(self, event: dict[str, Any], t_ns: int) -> None:
        """Opened, which says nothing yet: the model may decide to listen."""
        response_id = identifier(event, "response", "id") or identifier(event, "response_id")
        if response_id is None:
            self._note(t_ns, "response.created without an id skipped")
        elif response_id in self._responses:
            self._note(t_ns, f"response.created again for {response_id} skipped")
        elif self._room(t_ns):
            self._responses[response_id] = None
            self._log(t_ns, "response.created", {"id": response_id})

    def _room(self, t_ns: int) -> bool:
        if len(self._responses) < MAX_RESPONSES:
            return True
        self._fail(t_ns, f"the server began more than {MAX_RESPONSES} responses")
        return False

    def _begin_response(self, response_id: str | None, t_ns: int) -> None:
        """Sound or words of a response are there."""
        self._listening = False
        if response_id is None or response_id in self._begun:
            return
        if response_id not in self._responses:
            if not self._room(t_ns):
                return
            self._note(t_ns, f"output of {response_id} before its response.created")
            self._responses[response_id] = None
        self._begun.add(response_id)
        self._events.append(ResponseStarted(t_ns, response_id))

    def _speak(self, event: dict[str, Any], t_ns: int) -> None:
        self._listening = False
        self._log_event(t_ns, "response.speak", event)

    def _listen(self, event: dict[str, Any], t_ns: int) -> None:
        """Comes with every unit of the model: the first of a run is logged, and each that ends a
        response (whose `response.done` follows)."""
        if not self._listening or identifier(event, "response_id"):
            self._log_event(t_ns, "response.listen", event)
        self._listening = True

    def _response_done(self, event: dict[str, Any], t_ns: int) -> None:
        response_id = self._id_of(event)
        if response_id is None:
            self._note(t_ns, "response.done without an id skipped")
            return
        if self._responses.get(response_id) is not None:
            self._note(t_ns, f"response.done again for {response_id} skipped")
            return
        status = identifier(event, "response", "status") or "unknown"
        details = at(event, "response", "status_details")
        if response_id not in self._responses:
            if not self._room(t_ns):
                return
            self._note(t_ns, f"response.done of {response_id} without response.created")
        self._responses[response_id] = status
        if self._pcm.end(f"{response_id}/"):
            self._note(t_ns, f"half a sample left over at the end of {response_id}")
        self._log(t_ns, "response.done", {
            "id": response_id, "status": status, "reason": at(details, "reason"),
            "playback": at(event, "response", "metadata", "playback")})
        if status == "cancelled":
            self._interrupt(response_id, t_ns)
        if response_id in self._begun:
            self._events.append(ResponseDone(t_ns, response_id, status))
        if status == "failed":
            told = ": ".join(excerpt(part, 300) for part in (
                at(details, "reason"), at(details, "error", "code"),
                at(details, "error", "message")) if part)
            self._fail(t_ns, f"response {response_id} failed: {told or 'no cause given'}")

    # audio and words

    def _audio_delta(self, event: dict[str, Any], t_ns: int) -> None:
        if not self._format_holds(event, t_ns):
            return
        response_id = self._id_of(event)
        item_id = identifier(event, "item_id")
        samples = self._samples(f"{response_id}/{item_id or ''}", event, t_ns)
        if samples is None:
            return
        self._begin_response(response_id, t_ns)
        self._piece_n[response_id] = self._audio_n
        if not self._within_audio(t_ns, len(samples)):
            return
        status = None if response_id is None else self._responses.get(response_id)
        if status is not None:
            self._note(t_ns, f"late audio of {response_id}, which is {status}")
        self._events.append(AudioReceived(t_ns, samples, response_id))
        if response_id not in self._void:
            named = response_id is not None and item_id is not None
            self._playback.add(t_ns, len(samples),
                               Item(response_id, item_id or "", 0) if named else None)

    def _format_holds(self, event: dict[str, Any], t_ns: int) -> bool:
        """Whether a piece is what was agreed; read as anything else it would be noise."""
        rate_hz, name = event.get("sample_rate_hz"), event.get("format")
        if rate_hz is not None and (isinstance(rate_hz, bool) or rate_hz != self._output_rate_hz):
            self._fail(t_ns, f"audio delta: sample_rate_hz: {excerpt(rate_hz, 40)} instead of "
                             f"{self._output_rate_hz}")
        elif name is not None and not same_format(OUTPUT_FORMAT, name):
            self._fail(t_ns, f"audio delta: format: {excerpt(name, 40)} instead of "
                             f"{OUTPUT_FORMAT}")
        else:
            return True
        return False

    def _audio_done(self, event: dict[str, Any], t_ns: int) -> None:
        response_id = self._id_of(event)
        if self._pcm.end(f"{response_id}/"):
            self._note(t_ns, f"half a sample left over at the end of {response_id}")
        self._log(t_ns, "response.output_audio.done", {"response_id": response_id})

    def _text_delta(self, event: dict[str, Any], t_ns: int) -> None:
        if event.get("delta") == "":
            return  # one comes with each piece of audio, words or not
        text = self._words(event, t_ns)
        if text is not None:
            self._say(t_ns, text, self._id_of(event))

    def _text_done(self, event: dict[str, Any], t_ns: int) -> None:
        """The whole transcript: what no delta has brought is added, nothing is taken back."""
        response_id = self._id_of(event)
        whole, so_far = event.get("transcript"), self._texts.get(str(response_id), "").lstrip()
        self._log(t_ns, "response.output_audio_transcript.done", {"response_id": response_id})
        if not isinstance(whole, str):
            return
        whole = whole.lstrip()
        if whole.startswith(so_far):
            if len(whole) > len(so_far):
                self._say(t_ns, whole[len(so_far):], response_id)
        elif not so_far.startswith(whole) and whole.split() != so_far.split():
            self._note(t_ns, f"the transcript of {response_id} is not what its deltas said: "
                             f"{excerpt(whole, 80)}")

    def _say(self, t_ns: int, text: str, response_id: str | None) -> None:
        """Words begin with the piece of audio before them: each piece has one delta."""
        if not self._within_text(t_ns, text):
            return
        self._begin_response(response_id, t_ns)
        if self._texts and str(response_id) not in self._texts:
            text = f" {text}"  # no word goes on from one response into the next
        self._texts[str(response_id)] = self._texts.get(str(response_id), "") + text
        at_n = None
        if self._settings.transcript_times == "paired":
            # Words without audio before them begin with what comes next.
            at_n = self._piece_n.get(response_id, self._audio_n)
        self._events.append(TextDelta(t_ns, writable(text), response_id, at_n))

    # interruptions

    def _cleared(self, event: dict[str, Any], t_ns: int) -> None:
        self._log_event(t_ns, "output_audio_buffer.cleared", event)
        self._interrupt(self._id_of(event), t_ns)

    def _overlap(self, event: dict[str, Any], t_ns: int) -> None:
        """What the server made of the user's speaking over a response."""
        self._log_event(t_ns, "overlap.decision", event)
        if event.get("action") == "barge_in":
            self._interrupt(self._open_id(), t_ns)

    def _interrupt(self, response_id: str | None, t_ns: int) -> None:
        """A response is cancelled: what is queued is not heard any more, and what still comes of it
        never. Said once of each."""
        if response_id in self._void:
            return
        playing, heard_id, messages = self._playback.cut(t_ns)
        stopped = response_id or heard_id
        if playing or stopped in self._begun - self._void:
            self._events.append(Interrupted(t_ns, stopped))
        if stopped is not None:
            self._void.add(stopped)
        self._messages += messages
