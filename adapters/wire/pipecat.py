"""Pipecat's WebSocket transport, client side, without I/O: protobuf frames, RTVI messages in them.

Sources: pipecat-ai 1.14.0 (`serializers/protobuf.py`, `transports/websocket`, RTVI models, observer
and processor); docs/adapters/pipecat.md lists what is confirmed by what. The transport paces its
output in real time, says `interruption` whenever the user begins a turn, whether or not it speaks,
and numbers its frames. Messages: `rtvi`. Trouble: `event_stream`.
"""

from __future__ import annotations

from typing import Any

from adapters.base import AudioReceived, Interrupted
from adapters.wire import protobuf_frames as frames
from adapters.wire.base import Message
from adapters.wire.client_playout import ClientPlayout
from adapters.wire.payload import PayloadError, at, identifier, parse_object
from adapters.wire.pipecat_session import PROMPT_ID, PipecatSettings, bare, spoken_kind
from adapters.wire.rtvi import RtviStream, cause
from audio.buffers import Float32

_STREAM = "audio"


class PipecatWire(RtviStream):
    """One session. `prompt` is the system prompt, empty at level L0."""

    def __init__(self, settings: PipecatSettings, prompt: str) -> None:
        super().__init__(
            settings.input_rate_hz, settings.output_rate_hz,
            words=settings.transcript.replace("_", "-") if settings.rtvi else "none",
            service_errors=settings.service_errors)
        self._settings = settings
        self._prompt = prompt
        gate: str = "bot-ready" if settings.rtvi else settings.ready_on
        self._awaited = {gate} - {"open"}
        """What must come before the session may begin."""
        self._ready = not self._awaited
        self._playout = ClientPlayout(settings.output_rate_hz)
        self._cut = False
        """Nothing came since the last interruption: another one has nothing to cut."""
        if settings.rtvi:
            self._handlers |= {"bot-ready": self._bot_ready, "server-response": self._answered}
        else:
            self._handlers = {}

    # what goes out

    def opening(self) -> tuple[Message, ...]:
        """`client-ready`, where RTVI is spoken."""
        if not self._settings.rtvi:
            return ()
        return (self._settings.client_ready(),)

    def closing(self) -> tuple[Message, ...]:
        """Nothing: `disconnect-bot` would end an agent that serves one client after the other."""
        return ()

    def audio(self, frame: Float32) -> tuple[Message, ...]:
        """One audio frame for 20 ms of user audio, float32 `(n,)`.

        Raises `ValueError` for another shape or samples that are not finite.
        """
        return (frames.encode(frames.AudioFrame(
            audio=self._user_pcm(frame), sample_rate=self._settings.input_rate_hz,
            num_channels=1)),)

    # what comes in

    def _dispatch(self, data: bytes, t_ns: int) -> None:
        try:
            frame = frames.decode(data)
            message = (parse_object(frame.data.encode("utf-8"))
                       if isinstance(frame, frames.MessageFrame) else {})
        except PayloadError as error:
            hint = " (JSON: does the agent use another serializer?)" if data[:1] == b"{" else ""
            self._unreadable(t_ns, PayloadError(f"{error}{hint}"))
            return
        self._unreadable_run = 0
        number = getattr(frame, "id", 0)
        if number and self._seen_before(str(number), data):
            self._note(t_ns, f"repeated event skipped: {type(frame).__name__} {number}")
            return
        self._arrived("first_frame")
        match frame:
            case frames.AudioFrame():
                self._audio_frame(frame, t_ns)
            case frames.MessageFrame():
                self._rtvi(message, t_ns)
            case frames.InterruptionFrame():
                self._log(t_ns, "interruption")
                self._interrupt(t_ns)
            case frames.TextFrame(text=text) if self._settings.transcript == "text_frame":
                self._say(t_ns, [(text, None)])
            case frames.TextFrame(text=text) | frames.TranscriptionFrame(text=text):
                self._log(t_ns, type(frame).__name__, text)
            case None:
                self._log(t_ns, "unknown_event", "a frame of no known kind")

    def _arrived(self, what: str) -> None:
        if what in self._awaited:
            self._awaited.remove(what)
            self._ready = not self._awaited

    # the session

    def _bot_ready(self, message: dict[str, Any], t_ns: int) -> None:
        if "bot-ready" not in self._awaited:
            self._note(t_ns, "bot-ready again skipped")
            return
        told = message.get("data")
        self._log(t_ns, "bot-ready", told)
        for what, does in (("audio_in", "hears"), ("audio_out", "speaks")):
            if at(told, "capabilities", what) is False:
                self._fail(t_ns, f"expected an agent that {does}, got capabilities.{what}: false "
                                 "in bot-ready", hopeless=True)
                return
        if self._settings.transcript == "auto":
            self._words_kind = spoken_kind(at(told, "version"))
        prompt = self._settings.prompt(self._prompt)
        if prompt is not None:
            self._messages.append(prompt)
            if self._settings.system_prompt == "client_request":
                self._awaited.add(PROMPT_ID)
        self._arrived("bot-ready")

    def _answered(self, message: dict[str, Any], t_ns: int) -> None:
        self._log_event(t_ns, "server-response", message)
        self._arrived(str(identifier(message, "id")))

    def _refused_message(self, message: dict[str, Any], t_ns: int) -> None:
        if identifier(message, "id") == PROMPT_ID:
            self._fail(t_ns, "the agent did not take the system prompt: error-response: "
                       f"{cause(message)}", hopeless=True)
        else:
            super()._refused_message(message, t_ns)

    # speaking

    def _bot_started(self, message: dict[str, Any], t_ns: int) -> None:
        if self._settings.reply_end == "silence":
            self._log_event(t_ns, "bot-started-speaking", message)
            return
        if self._response is None:
            self._cut = False
        super()._bot_started(message, t_ns)

    def _bot_stopped(self, message: dict[str, Any], t_ns: int) -> None:
        if self._settings.reply_end == "silence":
            self._log_event(t_ns, "bot-stopped-speaking", message)
            self._spoken.stopped()
            return
        super()._bot_stopped(message, t_ns)

    def _interrupt(self, t_ns: int) -> None:
        """The queue is void. Both a frame and a message say so, and every turn of the user does:
        it counts once, and where something is being said."""
        if self._cut or (self._response is None and not self._playout.playing(t_ns)):
            return
        self._cut = self._interrupted = True
        self._playout.flush(t_ns)
        self._events.append(Interrupted(t_ns))

    # audio and words

    def _audio_frame(self, frame: frames.AudioFrame, t_ns: int) -> None:
        if not frame.audio:
            self._note(t_ns, "audio frame skipped: expected audio, got an empty frame")
            return
        rate_hz, channels = frame.sample_rate, frame.num_channels
        if (rate_hz, channels) != (self._output_rate_hz, 1):
            self._fail(t_ns, f"another audio format: {rate_hz} Hz, {channels} channels instead of "
                             f"{self._output_rate_hz} Hz, 1 (--set output_rate_hz=...)")
            return
        try:
            samples = self._pcm.push_bytes(_STREAM, bare(frame.audio))
        except PayloadError as error:
            self._fail(t_ns, f"audio frame: {error}")
            return
        if self._pcm.carries(_STREAM):
            self._note(t_ns, "audio frame splits a sample: its first byte waits for the next one")
        if len(samples) and self._within_audio(t_ns, len(samples)):
            self._cut = False
            self._spoken.audio(self._audio_n - len(samples))
            self._playout.add(t_ns, len(samples), None)
            self._events.append(AudioReceived(t_ns, samples))
