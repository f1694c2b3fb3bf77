"""What a Pipecat agent is asked for, and what a client tells it before a session; without I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from adapters.wire import protobuf_frames as frames
from adapters.wire.payload import PayloadError, excerpt
from adapters.wire.rtvi import PROTOCOL, ServiceErrors, client_ready, envelope

READY_ID, PROMPT_ID = "client_ready_1", "system_prompt_1"
_WAV_HEADER_N = 44


@dataclass(frozen=True, slots=True)
class PipecatSettings:
    """How the client behaves; docs/adapters/pipecat.md says what each setting is for."""

    input_rate_hz: int = 16_000
    output_rate_hz: int = 24_000
    rtvi: bool = True
    rtvi_version: str = PROTOCOL
    ready_on: Literal["open", "first_frame"] = "open"
    system_prompt: Literal["none", "client_message", "client_request", "send_text",
                           "append_to_context"] = "none"
    prompt_message: str = "system-prompt"
    reply_end: Literal["bot_stopped", "silence"] = "bot_stopped"
    transcript: Literal["auto", "bot_output", "bot_tts_text", "text_frame", "none"] = "auto"
    service_errors: ServiceErrors = "end"

    def client_ready(self) -> bytes:
        """The message that asks for `bot-ready`."""
        return frames.encode(frames.MessageFrame(
            client_ready("duplexrig", READY_ID, self.rtvi_version)))

    def prompt(self, prompt: str) -> bytes | None:
        """The message that brings the system prompt; `None` where none is to be sent."""
        if self.system_prompt in ("client_message", "client_request"):
            # Sent even when empty: an agent may hold the prompt of the session before.
            return _message("client-message", PROMPT_ID, {
                "t": self.prompt_message, "d": {"system_prompt": prompt}})
        if self.system_prompt == "none" or not prompt.strip():
            return None
        if self.system_prompt == "send_text":
            return _message("send-text", PROMPT_ID, {
                "content": prompt, "options": {"run_immediately": False}})
        return _message("append-to-context", PROMPT_ID, {
            "role": "system", "content": prompt, "run_immediately": False})


def spoken_kind(version: object) -> str:
    """The message that tells what is spoken, for a protocol version as `bot-ready` gives it."""
    major = excerpt(version, 20).partition(".")[0]
    return "bot-output" if major.isdecimal() and int(major[:9]) >= 2 else "bot-tts-text"


def bare(data: bytes) -> bytes:
    """Samples without the WAV header that a transport with `add_wav_header` puts before them.

    Raises `PayloadError` for another header than that one.
    """
    if data[:4] != b"RIFF" or data[8:16] != b"WAVEfmt ":
        return data
    if data[16:22] != b"\x10\0\0\0\x01\0" or data[34:40] != b"\x10\0data":
        raise PayloadError("expected PCM16 after a WAV header of 44 bytes, got another header")
    return data[_WAV_HEADER_N:]


def _message(kind: str, message_id: str, data: dict[str, Any]) -> bytes:
    """A client's RTVI message."""
    return frames.encode(frames.MessageFrame(envelope(kind, message_id, data)))
