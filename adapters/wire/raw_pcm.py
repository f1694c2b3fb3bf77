"""Raw PCM over a WebSocket, without I/O: a protocol of our own for agents that have none.

Audio is PCM16 in binary frames, everything else a JSON object with a `type` in a text frame;
docs/adapters/raw_pcm.md is its definition. Nothing on this wire ends a response. Trouble:
`event_stream`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeGuard

from adapters.base import AudioReceived, Interrupted, TextDelta
from adapters.wire.base import Message, Output
from adapters.wire.event_stream import MAX_AUDIO_S, EventStream
from adapters.wire.payload import at, excerpt, writable
from audio.buffers import Float32, float_to_pcm16
from audio.timebase import FRAMES_PER_S

PROTOCOL = "duplexrig.raw_pcm"
VERSION = 1
"""Raised whenever an agent of before would not understand what is sent."""
_STREAM = "agent"


@dataclass(frozen=True, slots=True)
class RawPcmSettings:
    """Rates in hertz. `system_prompt`: `None` is sent as null, the agent keeps its own.

    `wait_ready`: the session begins with the agent's `ready`, else with the connection.
    """

    input_rate_hz: int = 24_000
    output_rate_hz: int = 24_000
    system_prompt: str | None = None
    wait_ready: bool = False

    def hello(self) -> dict[str, Any]:
        """The first message."""
        pcm = {"encoding": "pcm_s16le", "channels": 1}
        return {"type": "hello", "protocol": PROTOCOL, "version": VERSION,
                "user_audio": {**pcm, "rate_hz": self.input_rate_hz,
                               "frame_ms": 1000 // FRAMES_PER_S},
                "agent_audio": {**pcm, "rate_hz": self.output_rate_hz},
                "system_prompt": self.system_prompt}


class RawPcmWire(EventStream):
    """One session."""

    def __init__(self, settings: RawPcmSettings) -> None:
        super().__init__(settings.input_rate_hz, settings.output_rate_hz)
        self._settings = settings
        self._told_ready = False
        self._handlers = {"ready": self._on_ready, "clear": self._on_clear,
                          "transcript": self._on_transcript, "error": self._on_error}

    # what goes out

    def opening(self) -> tuple[Message, ...]:
        """`hello`, before anything else."""
        self._ready = not self._settings.wait_ready
        return (_text(self._settings.hello()),)

    def audio(self, frame: Float32) -> tuple[Message, ...]:
        """20 ms of user audio, float32 `(n,)`, as a binary frame of PCM16.

        Raises `ValueError` for another shape or samples that are not finite.
        """
        if frame.shape != (self._frame_n,):
            raise ValueError(f"expected a frame of shape ({self._frame_n},), got {frame.shape}")
        return (float_to_pcm16(frame).astype("<i2").tobytes(),)

    def closing(self) -> tuple[Message, ...]:
        """`bye`: the session is over."""
        return (_text({"type": "bye"}),)

    # what comes in

    def receive_binary(self, data: bytes, t_ns: int) -> Output:
        """Audio of any length that arrived at `t_ns`; it may end in the middle of a sample."""
        if self._begin(t_ns):
            self._unreadable_run = 0
            self._on_audio(data, t_ns)
        return Output(tuple(self._events), tuple(self._messages))

    def _on_audio(self, data: bytes, t_ns: int) -> None:
        if not data:
            self._note(t_ns, "an empty binary frame skipped")
            return
        samples = self._pcm.push_bytes(_STREAM, data)
        if self._pcm.carries(_STREAM):
            self._note(t_ns, "a binary frame splits a sample: its first byte waits for the next")
        if len(samples) and self._within_audio(t_ns, len(samples)):
            self._events.append(AudioReceived(t_ns, samples))

    def _on_ready(self, event: dict[str, Any], t_ns: int) -> None:
        if self._told_ready:
            self._note(t_ns, "ready again skipped")
            return
        self._told_ready = True
        wrong = _contradictions(self._settings.hello(), event)
        if wrong:
            self._fail(t_ns, f"the agent uses another format: {'; '.join(wrong)}")
            return
        self._log_event(t_ns, "ready", event)
        self._ready = True

    def _on_clear(self, _event: dict[str, Any], t_ns: int) -> None:
        """What has not been played is never heard."""
        if self._pcm.end(_STREAM):
            self._note(t_ns, "clear in the middle of a sample: its first byte is dropped")
        self._events.append(Interrupted(t_ns))

    def _on_transcript(self, event: dict[str, Any], t_ns: int) -> None:
        """Whole words of the agent, and where in all of its audio they begin: at `audio_s` seconds,
        or with what comes next."""
        text, audio_s = event.get("text"), event.get("audio_s")
        if not isinstance(text, str) or not text.strip():
            self._note(t_ns, f"transcript skipped: expected a text, got {excerpt(text, 40)}")
            return
        audio_n = self._audio_n
        if audio_s is not None:
            if not _is_time(audio_s):
                self._note(t_ns, "transcript skipped: expected audio_s in seconds, got "
                                 f"{excerpt(audio_s, 40)}")
                return
            audio_n = round(audio_s * self._output_rate_hz)
        if self._within_text(t_ns, text):
            self._events.append(TextDelta(t_ns, writable(text.strip()) + " ", None, audio_n))

    def _on_error(self, event: dict[str, Any], t_ns: int) -> None:
        message = event.get("message")
        told = excerpt(message, 300) if isinstance(message, str) and message else "no message"
        if event.get("fatal") is False:
            self._note(t_ns, f"the agent reports an error: {told}")
        else:
            self._fail(t_ns, f"the agent reports an error: {told}")


def _text(message: dict[str, Any]) -> str:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def _is_time(value: object) -> TypeGuard[float]:
    return (isinstance(value, int | float) and not isinstance(value, bool)
            and 0 <= value <= MAX_AUDIO_S)


def _contradictions(hello: dict[str, Any], ready: dict[str, Any]) -> list[str]:
    """What `ready` says of the version and the formats, where it is not what `hello` said."""
    found = []
    for path in (("version",), *((way, key) for way in ("user_audio", "agent_audio")
                                 for key in ("encoding", "channels", "rate_hz"))):
        said, wanted = at(ready, *path), at(hello, *path)
        if said is not None and (isinstance(said, bool) or said != wanted):
            found.append(f"{'.'.join(path)}: {excerpt(said, 40)} instead of {wanted}")
    return found
