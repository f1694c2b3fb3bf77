"""The GPT-Live protocol, client side, without I/O.

Sources: the vendor's `openai` package and documentation; docs/adapters/gpt_live.md lists what is
confirmed by what. Nothing on this wire begins or ends a response and nothing reports a barge-in:
the output is one stream of audio, silence included, and the rig finds speech in it by listening.
Trouble: `event_stream`.
"""

from __future__ import annotations

import bisect
import math
from dataclasses import dataclass
from typing import Any, Literal

from adapters.base import AudioReceived, TextDelta
from adapters.usage import Tally, Usage, number
from adapters.wire.base import Message
from adapters.wire.event_stream import MAX_AUDIO_S, EventStream
from adapters.wire.openai_session import compare
from adapters.wire.payload import (
    at,
    excerpt,
    writable,
)
from audio.buffers import Float32

LOGGED = frozenset({
    "session.updated", "session.usage.updated", "session.paused", "session.resumed",
    "session.input_audio.muted", "session.input_audio.unmuted",
    "session.output_audio.fixture.playing", "session.output_audio.fixture.played",
    "session.instructions.appended", "session.thinking.appended", "session.commentary.appended",
    "session.delegation.created", "response.event", "info"})
"""Known events that change nothing here: kept in the log as they are."""

_STREAM = "output"


@dataclass(frozen=True, slots=True)
class LiveSettings:
    """What is asked of the server, and how the client behaves.

    `backend_model` does the delegated work; empty leaves delegation to a client, and this one does
    not answer. `transcript_times`: whether the times of a transcript count the audio that was
    received (`output`), or are not used (`arrival`).
    """

    model: str = "gpt-live-1"
    voice: str = "marin"
    rate_hz: int = 24_000
    backend_model: str = "gpt-5.6-terra"
    transcript_times: Literal["output", "arrival"] = "output"
    strict_session: bool = True
    close_timeout_s: float = 7.5

    def session(self, instructions: str) -> dict[str, Any]:
        """The `session` object of `session.start`. The server rejects fields that it does not know;
        without instructions, or with blank ones, it uses its own."""
        session: dict[str, Any] = {
            "model": self.model,
            "audio": {"format": {"type": "audio/pcm", "rate": self.rate_hz},
                      "output": {"voice": self.voice}}}
        if instructions.strip():
            session["instructions"] = instructions
        if self.backend_model:
            session["delegation"] = {"type": "responses",
                                     "responses": {"model": self.backend_model}}
        return session


class Timeline:
    """Where in the received audio a time of the session lies.

    The stream is taken to begin with the session and to have no gaps, until a piece of audio names
    another time; from there on that one counts.
    """

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._times_ms = [0.0]
        self._samples = [0]

    def anchor(self, t_ms: float, sample: int) -> None:
        """The audio from `sample` on begins at `t_ms`. Earlier than what was named before: the
        times cannot be trusted, and the anchor is ignored."""
        if t_ms > self._times_ms[-1]:
            self._times_ms.append(t_ms)
            self._samples.append(sample)

    def sample(self, t_ms: float) -> int:
        """The sample at `t_ms`; within a gap, the first one after it."""
        k = bisect.bisect_right(self._times_ms, t_ms) - 1
        n = self._samples[k] + round((t_ms - self._times_ms[k]) * self._rate_hz / 1000)
        return min(n, self._samples[k + 1]) if k + 1 < len(self._samples) else n


class LiveWire(EventStream):
    """One session. `instructions` is the system prompt, empty at level L0."""

    logged = LOGGED

    def __init__(self, settings: LiveSettings, instructions: str) -> None:
        super().__init__(settings.rate_hz, settings.rate_hz)
        self._settings = settings
        self._asked = settings.session(instructions)
        self._closing = False
        self._over = False
        self._ahead = False
        self._timeline = Timeline(settings.rate_hz)
        self._tally = Tally()
        self._handlers = {
            "session.started": self._started,
            "session.output_audio.delta": self._audio_delta,
            "session.output_transcript.delta": self._text_delta,
            "session.input_transcript.delta": self._user_text,
            "session.usage.updated": self._used,
            "session.delegation.created": self._delegated,
            "session.closed": self._closed,
            "error": self._error,
        }

    @property
    def usage(self) -> Usage:
        """Seconds as the server counts them, and work that went to another model."""
        return dict(self._tally.counts)

    @property
    def over(self) -> bool:
        """The server has ended the session."""
        return self._over

    @property
    def linger_s(self) -> float:
        return self._settings.close_timeout_s

    def opening(self) -> tuple[Message, ...]:
        """`session.start`, before anything else."""
        return (self._client_event("session", {"type": "session.start", "session": self._asked}),)

    def closing(self) -> tuple[Message, ...]:
        """`session.close`, once, unless the server has ended the session already."""
        if self._over or self._closing:
            return ()
        self._closing = True
        return (self._client_event("close", {"type": "session.close"}),)

    def audio(self, frame: Float32) -> tuple[Message, ...]:
        """One `session.input_audio.append` for 20 ms of user audio, float32 `(n,)`.

        Raises `ValueError` for another shape or samples that are not finite.
        """
        return (self._append("session.input_audio.append", frame),)

    # the session

    def _started(self, event: dict[str, Any], t_ns: int) -> None:
        if self._ready:
            self._note(t_ns, "session.started again skipped")
            return
        session = at(event, "session")
        granted = compare(self._asked, session)
        if not self._refused(granted, t_ns, strict=self._settings.strict_session):
            told: dict[str, Any] = {k: at(session, k) for k in ("id", "model", "expires_at")}
            told |= {"differs": granted.differs, "not_reported": granted.not_reported}
            self._log(t_ns, "session.started", {k: v for k, v in told.items() if v})
            self._ready = True

    def _closed(self, event: dict[str, Any], t_ns: int) -> None:
        self._over = True
        self._log_event(t_ns, "session.closed", event)
        seconds = number(event, "usage", "seconds")
        if seconds is not None:
            self._tally.counts["session_s"] = seconds
        if not self._closing:
            reason = excerpt(event.get("reason") or "no reason given", 80)
            self._fail(t_ns, f"the server ended the session: {reason}")

    def _used(self, event: dict[str, Any], t_ns: int) -> None:
        self._log_event(t_ns, "session.usage.updated", event)
        seconds = number(event, "usage", "seconds")
        if seconds is not None:
            # It only grows: a lower one later is nonsense.
            so_far = self._tally.counts.get("session_s_so_far", 0.0)
            self._tally.counts["session_s_so_far"] = max(so_far, seconds)

    def _delegated(self, event: dict[str, Any], t_ns: int) -> None:
        """Work for another model: the server's, which is billed apart, or a client's, which nobody
        does."""
        self._log_event(t_ns, "session.delegation.created", event)
        if self._settings.backend_model:
            self._tally.add("delegations", 1)

    # audio and words

    def _audio_delta(self, event: dict[str, Any], t_ns: int) -> None:
        samples = self._samples(_STREAM, event, t_ns)
        if samples is None:
            return
        start_ms = _time_ms(event, "start_ms")
        if start_ms is not None:
            self._timeline.anchor(start_ms, self._audio_n)
        if self._within_audio(t_ns, len(samples)):
            self._events.append(AudioReceived(t_ns, samples))

    def _text_delta(self, event: dict[str, Any], t_ns: int) -> None:
        text = self._words(event, t_ns)
        if text is not None and self._within_text(t_ns, text):
            self._events.append(TextDelta(t_ns, writable(text), None, self._begins(event, t_ns)))

    def _begins(self, event: dict[str, Any], t_ns: int) -> int | None:
        """The sample at which a piece of transcript begins, `None` where it cannot be told."""
        start_ms = _time_ms(event, "start_ms")
        if self._settings.transcript_times == "arrival" or start_ms is None:
            return None
        sample = self._timeline.sample(start_ms)
        if sample < self._audio_n:
            return sample
        if not self._ahead:
            self._ahead = True
            self._log(t_ns, "transcript_ahead", f"a transcript begins at {start_ms:g} ms, of which "
                      "no audio has come: from here on such text is tied to what has")
        return None

    def _user_text(self, event: dict[str, Any], t_ns: int) -> None:
        """What the server understood of the user, for the log alone."""
        self._log(t_ns, "session.input_transcript.delta",
                  {k: event.get(k) for k in ("delta", "start_ms", "end_ms")})


def _time_ms(event: dict[str, Any], key: str) -> float | None:
    """A time of the session in milliseconds, `None` for what cannot be one."""
    value = event.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value <= MAX_AUDIO_S * 1000 or not math.isfinite(value):
        return None
    return float(value)
