"""The session that is asked of a server of OpenAI's beta dialect: one flat object.

Field names as StepFun documents them. Its turn detection has an energy threshold from 0 to 5000
instead of a probability, and no say in whether a reply is begun or broken off. Defaults:
DSB-IFEval, appendix E, where it gives them; otherwise the vendor's own example
(docs/adapters/stepfun.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

LEAVE = -1
"""Of a number that the server has a default for: do not send it."""


@dataclass(frozen=True, slots=True)
class BetaSessionSettings:
    """What is asked of the server, and how the client behaves. An `AskedSession`.

    The rates are no fields of the session: the protocol cannot state them. `empty_prompt` as in
    `SessionSettings`.
    """

    voice: str = "soft-spoken-gentleman"
    input_rate_hz: int = 24_000
    output_rate_hz: int = 24_000
    vad_energy_threshold: int = 2_500
    vad_prefix_padding_ms: int = 500
    vad_silence_duration_ms: int = 800
    max_output_tokens: int = 0
    interrupt_on_speech: bool = True
    empty_prompt: Literal["send", "omit"] = "send"
    strict_session: bool = True

    @property
    def interrupt_response(self) -> bool:
        return self.interrupt_on_speech

    @property
    def truncate_on_barge_in(self) -> bool:
        """Never: the dialect has no `conversation.item.truncate`."""
        return False

    @property
    def created_confirms(self) -> bool:
        """A documented answer to `session.update` is called `session.created`."""
        return True

    def session(self, instructions: str) -> dict[str, Any]:
        """The `session` object of `session.update`; what is left to the server is left out."""
        detection: dict[str, Any] = {"type": "server_vad"}
        for key, value in (("prefix_padding_ms", self.vad_prefix_padding_ms),
                           ("silence_duration_ms", self.vad_silence_duration_ms),
                           ("energy_awakeness_threshold", self.vad_energy_threshold)):
            if value != LEAVE:
                detection[key] = value
        session: dict[str, Any] = {
            "modalities": ["text", "audio"], "voice": self.voice,
            "input_audio_format": "pcm16", "output_audio_format": "pcm16",
            "turn_detection": detection}
        if instructions or self.empty_prompt == "send":
            session["instructions"] = instructions
        if self.max_output_tokens:
            session["max_response_output_tokens"] = self.max_output_tokens
        return session
