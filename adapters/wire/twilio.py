"""Twilio Media Streams as Twilio speaks them, without I/O: the rig calls, the agent is the server.

Sources: Twilio's page "Media Streams - WebSocket messages"; docs/adapters/twilio.md lists what is
confirmed by what. The agent's audio is queued and played in order at 8 kHz. A `mark` is returned
when playback reaches it, `clear` drops the queue and returns every mark that waits: both need a
clock of playback, which is kept here in the session's time. Nothing on this wire ends a response.
Trouble: `event_stream`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from adapters.base import AudioReceived, Interrupted
from adapters.wire.base import Message, Output
from adapters.wire.event_stream import EventStream
from adapters.wire.payload import (
    BrokenAudioError,
    PayloadError,
    at,
    audio_bytes,
    excerpt,
    identifier,
)
from adapters.wire.playout_clock import PlayoutClock
from audio import g711
from audio.buffers import Float32
from audio.timebase import FRAMES_PER_S

RATE_HZ = 8_000
"""Mu-law, mono: the only format of the protocol."""
FRAME_MS = 1000 // FRAMES_PER_S
MAX_WAITING_MARKS = 10_000
"""Ours: an agent that marks every 20 ms of three minutes of queued audio."""
MAX_MARK_CHARS = 4_096
"""Name of a mark: any text, which an agent may take from what is said. Ours."""
LOGGED = frozenset({"dtmf", "connected", "start", "stop"})
"""Twilio's own events, sent by an agent: they mean nothing here and are kept in the log."""


@dataclass(frozen=True, slots=True)
class Sids:
    """The ids of one call, in Twilio's form: two letters and 32 hexadecimal digits."""

    account: str
    call: str
    stream: str

    @classmethod
    def of(cls, case_id: str, trial: int, salt: str = "") -> Sids:
        """The same for the same case and trial; `salt` changes all of them."""
        def sid(prefix: str, *parts: object) -> str:
            text = json.dumps([prefix, salt, *parts])
            return prefix + hashlib.sha256(text.encode()).hexdigest()[:32]

        return cls(sid("AC"), sid("CA", case_id, trial), sid("MZ", case_id, trial))


@dataclass(frozen=True, slots=True)
class Call:
    """What the agent is told of the call."""

    sids: Sids
    parameters: Mapping[str, str] = field(default_factory=dict)


class TwilioWire(EventStream):
    """One call."""

    logged = LOGGED

    def __init__(self, call: Call) -> None:
        super().__init__(RATE_HZ, RATE_HZ)
        self._call = call
        self._sequence = 0
        self._chunk = 0
        self._queue = PlayoutClock(RATE_HZ)
        self._marks: deque[tuple[int, str]] = deque()
        """When playback reaches each, and its name; in order."""
        self._handlers = {"media": self._media, "mark": self._mark, "clear": self._clear}

    # what goes out

    def opening(self) -> tuple[Message, ...]:
        """`connected` and `start`. Nothing on this wire answers them: the call is on."""
        sids = self._call.sids
        connected = json.dumps({"event": "connected", "protocol": "Call", "version": "1.0.0"})
        start = self._numbered("start", start={
            "accountSid": sids.account, "streamSid": sids.stream, "callSid": sids.call,
            "tracks": ["inbound"],
            "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": RATE_HZ, "channels": 1},
            "customParameters": dict(self._call.parameters)})
        self._ready = True
        return connected, start

    def audio(self, frame: Float32) -> tuple[Message, ...]:
        """One `media` for 20 ms of user audio, float32 `(160,)`.

        Its timestamp is the end of the frame: the moment of the session at which it is sent. Raises
        `ValueError` for another shape or samples that are not finite.
        """
        if frame.shape != (self._frame_n,):
            raise ValueError(f"expected a frame of shape ({self._frame_n},), got {frame.shape}")
        payload = base64.b64encode(g711.encode(frame)).decode("ascii")
        self._chunk += 1
        return (self._numbered("media", media={
            "track": "inbound", "chunk": str(self._chunk),
            "timestamp": str(self._chunk * FRAME_MS), "payload": payload}),)

    def closing(self) -> tuple[Message, ...]:
        """`stop`: the caller hangs up."""
        sids = self._call.sids
        return (self._numbered("stop", stop={"accountSid": sids.account, "callSid": sids.call}),)

    def _numbered(self, event: str, **body: object) -> str:
        self._sequence += 1
        # In ASCII: a name goes back as it came, also one that UTF-8 cannot hold.
        return json.dumps({"event": event, "sequenceNumber": str(self._sequence), **body,
                           "streamSid": self._call.sids.stream}, separators=(",", ":"))

    # playback

    @property
    def due_ns(self) -> int | None:
        """When playback reaches the next mark."""
        return self._marks[0][0] if self._marks else None

    def tick(self, t_ns: int) -> tuple[Message, ...]:
        """The marks that playback has reached by `t_ns`, returned."""
        self._messages = []
        self._return_marks(t_ns)
        return tuple(self._messages)

    def _return_marks(self, until_ns: int | None) -> None:
        """Return the marks up to a moment; `None`: all that wait."""
        while self._marks and (until_ns is None or self._marks[0][0] <= until_ns):
            self._messages.append(self._numbered("mark", mark={"name": self._marks.popleft()[1]}))

    # what comes in

    def receive(self, data: bytes, t_ns: int) -> Output:
        """One event of the agent that arrived at `t_ns`, after the marks that were due before."""
        due = self.tick(t_ns)
        output = super().receive(data, t_ns)
        return Output(output.events, due + output.messages)

    def _kind(self, event: dict[str, Any]) -> str:
        kind = identifier(event, "event")
        if kind is None:
            raise PayloadError('expected an "event" with a name, got none')
        return kind

    def _handle(self, kind: str, event: dict[str, Any], t_ns: int) -> None:
        stream = event.get("streamSid")
        if kind in self._handlers and stream != self._call.sids.stream:
            # Twilio plays nothing of another stream, so nothing of it is heard.
            named = "none" if stream is None else repr(excerpt(stream, 40))
            self._note(t_ns, f"{kind} of another stream skipped: expected streamSid "
                             f"{self._call.sids.stream}, got {named}")
            return
        super()._handle(kind, event, t_ns)

    def _media(self, event: dict[str, Any], t_ns: int) -> None:
        """Audio of any length, to be played after what is queued."""
        try:
            codes = audio_bytes(at(event, "media", "payload"))
        except BrokenAudioError as error:
            # What the agent said in it is lost, so the recording is not what was said.
            self._fail(t_ns, f"media payload: {error}")
            return
        except PayloadError as error:
            self._note(t_ns, f"media skipped: {error}")
            return
        if self._within_audio(t_ns, len(codes)):
            self._queue.add(t_ns, len(codes))
            self._events.append(AudioReceived(t_ns, g711.decode(codes)))

    def _mark(self, event: dict[str, Any], t_ns: int) -> None:
        """To be returned when what is queued now has been played; at once where nothing is."""
        name = at(event, "mark", "name")
        if not isinstance(name, str) or not 0 < len(name) <= MAX_MARK_CHARS:
            self._note(t_ns, "mark skipped: expected a mark with a name, got "
                             f"{excerpt(event.get('mark'), 60)}")
        elif len(self._marks) >= MAX_WAITING_MARKS:
            self._fail(t_ns, f"more than {MAX_WAITING_MARKS} marks wait for playback")
        else:
            self._log(t_ns, "mark", name)
            self._marks.append((max(t_ns, self._queue.end_ns), name))
            self._return_marks(t_ns)

    def _clear(self, _event: dict[str, Any], t_ns: int) -> None:
        """What is queued is never heard, and every mark that waits is returned now."""
        self._queue.drop(t_ns)
        self._return_marks(None)
        self._events.append(Interrupted(t_ns))
