"""A session of JSON events, whatever they mean: bounds, repeats, unreadable runs, errors, the log.

The wire protocols of hosted systems build on it. Three kinds of trouble are told apart (contract):
*transparent* faults are skipped and counted and change nothing that is measured, *infrastructure*
faults end the session, everything else the system does or does not do is its behaviour and is
reported as it came.
"""

from __future__ import annotations

import base64
import json
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

from adapters.base import AgentEvent, Fault, StateChanged
from adapters.usage import Usage
from adapters.wire.base import Message, Output
from adapters.wire.openai_session import Granted
from adapters.wire.payload import (
    BrokenAudioError,
    PayloadError,
    Pcm16Stream,
    at,
    excerpt,
    identifier,
    parse_object,
)
from audio.buffers import Float32, float_to_pcm16
from audio.timebase import FRAMES_PER_S

MAX_MESSAGES = 200_000
"""Received in one session. Ours: a minute of talk is some thousands."""
MAX_AUDIO_S = 1_200
"""Received in one session. Ours: 20 minutes, 20 times the longest schedule; more is a runaway."""
MAX_TEXT_CHARS = 1_000_000
"""Transcript received in one session. Ours: hours of talk."""
MAX_UNREADABLE_RUN = 20
"""Messages in a row that are no events: the peer speaks another protocol. Ours."""
REMEMBERED_EVENTS = 4_096
"""How far back a repeated event is recognised. Ours: over a minute of deltas."""

PERMANENT_CODES = frozenset({
    "insufficient_quota", "invalid_api_key", "account_deactivated", "billing_hard_limit_reached",
    "invalid_model", "model_not_found"})
"""Error codes for which another try is no use. The first four: livekit-agents."""
FATAL_CODES = PERMANENT_CODES | {"session_expired", "rate_limit_exceeded"}
"""Error codes after which the session cannot be scored."""
THROTTLES = frozenset({"rate_limit_exceeded"})
"""Those that ask for fewer sessions, or slower ones."""

_UNSAID = ("type", "event_id", "delta", "audio")


class EventStream:
    """One session's events. A protocol fills `_handlers` and names what it only logs."""

    logged: ClassVar[frozenset[str]] = frozenset()
    """Known events that change nothing: kept in the log as they are."""
    permanent_codes: ClassVar[frozenset[str]] = PERMANENT_CODES
    throttles: ClassVar[frozenset[str]] = THROTTLES

    def __init__(self, input_rate_hz: int, output_rate_hz: int) -> None:
        self._frame_n = input_rate_hz // FRAMES_PER_S
        self._output_rate_hz = output_rate_hz
        self._ready = False
        self._events: list[AgentEvent] = []
        self._messages: list[Message] = []
        self._sent = 0
        self._messages_n = 0
        self._audio_n = 0
        self._text_chars = 0
        self._unreadable_run = 0
        self._seen: set[tuple[str, int]] = set()
        self._seen_order: deque[tuple[str, int]] = deque()
        self._pcm = Pcm16Stream()
        self._handlers: dict[str, Callable[[dict[str, Any], int], None]] = {}
        """What is done with each type of event. A protocol fills it."""

    @property
    def usage(self) -> Usage | None:
        """What the server says that the session used; `None` where nothing is known of it."""
        return None

    @property
    def ready(self) -> bool:
        """The server has accepted our session: audio may be sent."""
        return self._ready

    def receive(self, data: bytes, t_ns: int) -> Output:
        """One server event that arrived at `t_ns`."""
        if self._begin(t_ns):
            self._dispatch(data, t_ns)
        return Output(tuple(self._events), tuple(self._messages))

    def _begin(self, t_ns: int) -> bool:
        """Count a message that came; whether there may be so many."""
        self._events, self._messages = [], []
        self._messages_n += 1
        if self._messages_n > MAX_MESSAGES:
            self._fail(t_ns, f"the server sent more than {MAX_MESSAGES} messages")
            return False
        return True

    def _handle(self, kind: str, event: dict[str, Any], t_ns: int) -> None:
        """Take one event of type `kind`, seen for the first time."""
        handler = self._handlers.get(kind)
        if handler is not None:
            handler(event, t_ns)
        elif kind in self.logged:
            self._log_event(t_ns, kind, event)
        else:
            self._log(t_ns, "unknown_event", excerpt(kind, 80))

    def _dispatch(self, data: bytes, t_ns: int) -> None:
        try:
            event = parse_object(data)
            kind = self._kind(event)
        except PayloadError as error:
            self._unreadable(t_ns, error)
            return
        self._unreadable_run = 0
        if self._is_repeated(event, data):
            self._note(t_ns, f"repeated event skipped: {excerpt(kind, 80)}")
            return
        self._handle(kind, event, t_ns)

    def _unreadable(self, t_ns: int, error: PayloadError) -> None:
        """A message that is no event: skipped, unless nothing else comes."""
        self._unreadable_run += 1
        if self._unreadable_run > MAX_UNREADABLE_RUN:
            self._fail(t_ns, f"{self._unreadable_run} messages in a row are no events; the "
                             f"last: {error}")
        else:
            self._note(t_ns, f"unreadable message skipped: {error}")

    def _kind(self, event: dict[str, Any]) -> str:
        """What an event is. Raises `PayloadError` for one that does not say."""
        kind = identifier(event, "type")
        if kind is None:
            raise PayloadError("expected an event with a type, got none")
        return kind

    def _is_repeated(self, event: dict[str, Any], data: bytes) -> bool:
        """Whether this very event was received before: same id and same bytes."""
        event_id = identifier(event, "event_id")
        return event_id is not None and self._seen_before(event_id, data)

    def _seen_before(self, event_id: str, data: bytes) -> bool:
        """Whether these bytes came under this id before; from now on they have."""
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

    def _append(self, kind: str, frame: Float32) -> str:
        """20 ms of user audio as an event of type `kind`. Raises `ValueError` as `_base64`."""
        return self._client_event("audio", {"type": kind, "audio": self._base64(frame)})

    def _base64(self, frame: Float32) -> str:
        """20 ms of user audio, PCM16 in base64. Raises `ValueError` as `_user_pcm`."""
        return base64.b64encode(self._user_pcm(frame)).decode("ascii")

    def _user_pcm(self, frame: Float32) -> bytes:
        """20 ms of user audio, PCM16, little endian.

        Raises `ValueError` for another shape or samples that are not finite.
        """
        if frame.shape != (self._frame_n,):
            raise ValueError(f"expected a frame of shape ({self._frame_n},), got {frame.shape}")
        return float_to_pcm16(frame).astype("<i2").tobytes()

    # what is told of it

    def _log(self, t_ns: int, name: str, detail: object = "") -> None:
        self._events.append(StateChanged(t_ns, name, excerpt(detail, 1_000) if detail else ""))

    def _log_event(self, t_ns: int, name: str, event: dict[str, Any]) -> None:
        """A known event, without what is long or said already."""
        self._log(t_ns, name, {k: v for k, v in event.items() if k not in _UNSAID})

    def _note(self, t_ns: int, reason: str) -> None:
        self._events.append(Fault(t_ns, "transparent", reason))

    def _fail(self, t_ns: int, reason: str, *, hopeless: bool = False,
              throttled: bool = False) -> None:
        self._events.append(Fault(t_ns, "infrastructure", reason, hopeless, throttled))

    def _error(self, event: dict[str, Any], t_ns: int) -> None:
        """An `error` event. Harmless only when the session is up, the request was at fault, and the
        request was neither audio nor the session itself."""
        kind, code, about = (identifier(event, "error", k) for k in ("type", "code", "event_id"))
        about = about or identifier(event, "error", "client_event_id") \
            or identifier(event, "client_event_id")
        message = excerpt(at(event, "error", "message") or "no message", 300)
        told = ": ".join(excerpt(part, 80) for part in (kind, code) if part) or "no type"
        ours = "" if about is None else f" (in answer to {excerpt(about, 40)})"
        lasting = code in self.permanent_codes
        reason = f"error event: {told}: {message}{ours}{'; retrying will not help' * lasting}"
        refused = about is not None and about.startswith(("audio_", "session_"))
        if (not self._ready or refused or lasting or code in FATAL_CODES
                or kind != "invalid_request_error"):
            self._fail(t_ns, reason, hopeless=lasting, throttled=code in self.throttles)
        else:
            self._note(t_ns, reason)

    # what protocols have in common

    def _refused(self, granted: Granted, t_ns: int, *, strict: bool) -> bool:
        """Whether the session that the server reports cannot be used, which is then said."""
        if granted.wrong_format:
            self._fail(t_ns, f"the server uses another audio format: "
                             f"{'; '.join(granted.wrong_format)}")
        elif granted.differs and strict:
            self._fail(t_ns, f"the server did not apply the session that was asked for: "
                             f"{'; '.join(granted.differs)}")
        else:
            return False
        return True

    def _samples(self, key: str, event: dict[str, Any], t_ns: int) -> Float32 | None:
        """The audio of a delta in the stream `key`; `None` where there is none of it."""
        try:
            samples = self._pcm.push(key, event.get("delta"))
        except BrokenAudioError as error:
            # What the model said in it is lost, so the recording is not what was said.
            self._fail(t_ns, f"audio delta: {error}")
            return None
        except PayloadError as error:
            self._note(t_ns, f"audio delta skipped: {error}")
            return None
        if self._pcm.carries(key):
            self._note(t_ns, "audio delta splits a sample: its first byte waits for the next one")
        return samples if len(samples) else None

    def _words(self, event: dict[str, Any], t_ns: int) -> str | None:
        """The text of a transcript delta; `None` where there is none, which is counted."""
        text = event.get("delta")
        if isinstance(text, str) and text:
            return text
        self._note(t_ns, f"transcript delta skipped: expected text, got {excerpt(text, 40)}")
        return None

    # bounds of a session

    def _within_audio(self, t_ns: int, n: int) -> bool:
        """Count `n` samples that came; whether there may be so many."""
        self._audio_n += n
        if self._audio_n > MAX_AUDIO_S * self._output_rate_hz:
            self._fail(t_ns, f"the server sent more than {MAX_AUDIO_S:g} s of audio")
            return False
        return True

    def _within_text(self, t_ns: int, text: str) -> bool:
        """Count characters of transcript that came; whether there may be so many."""
        self._text_chars += len(text)
        if self._text_chars > MAX_TEXT_CHARS:
            self._fail(t_ns, f"the server sent more than {MAX_TEXT_CHARS} characters of transcript")
            return False
        return True
