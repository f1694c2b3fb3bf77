"""What a session of vLLM-Omni's duplex endpoint is asked for, and whether it was granted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from adapters.wire.openai_session import Granted, compare
from adapters.wire.payload import at, excerpt
from audio.timebase import FRAMES_PER_S

SAMPLE_BYTES = {"pcm16": 2, "pcm_f32le": 4}
OUTPUT_FORMAT = "pcm16"
"""Every preset of the project's client has it."""
_SAME_FORMATS = frozenset({"pcm16", "pcm_s16le", "s16le", "pcm"})
"""Names of PCM16 that the server takes or gives back."""
OWN_FIELDS = frozenset({
    "model", "modalities", "input_audio_format", "output_audio_format", "sample_rate_hz", "audio",
    "instructions", "voice", "ref_audio", "overlap_policy", "playback_commit_policy"})
"""Of the `session` object: made from settings, so that what was measured is what was set."""


@dataclass(frozen=True, slots=True)
class DuplexSettings:
    """What is asked of the server, and how the client behaves. Empty texts are not sent.

    `ref_audio` is a data URL. `blank_instructions`: whether an empty system prompt is sent.
    `append_ms`: user audio of one message, a multiple of 20. `transcript_times`: whether a piece
    of text begins with the piece of audio before it (`paired`) or when it arrived (`arrival`).
    `more`: further fields of the session; its `extra_body` is merged with ours.
    """

    model: str
    input_format: Literal["pcm16", "pcm_f32le"] = "pcm16"
    input_rate_hz: int = 16_000
    output_rate_hz: int = 24_000
    voice: str = ""
    ref_audio: str = field(default="", repr=False)
    blank_instructions: bool = False
    overlap_policy: str = ""
    playback_commit_policy: str = ""
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    append_ms: int = 20
    transcript_times: Literal["paired", "arrival"] = "paired"
    strict_session: bool = True
    heartbeat_s: float = 30.0
    ack_interval_s: float = 0.2
    close_timeout_s: float = 7.5

    @property
    def frames_per_append(self) -> int:
        return self.append_ms * FRAMES_PER_S // 1000

    @property
    def acks_playback(self) -> bool:
        """Under the other policies the server takes all that it sent for heard."""
        return self.playback_commit_policy == "ack_only"

    def session(self, instructions: str) -> dict[str, Any]:
        """The `session` object of the first `session.update`, as the project's own client has it.

        Encodings do not pin the rates: the server reads the input rate from the top-level field
        and the output rate from `audio.output`.
        """
        session: dict[str, Any] = {
            "model": self.model,
            "modalities": ["audio", "text"],
            "input_audio_format": self.input_format,
            "output_audio_format": OUTPUT_FORMAT,
            "sample_rate_hz": self.input_rate_hz,
            "audio": {"input": {"sample_rate_hz": self.input_rate_hz},
                      "output": {"sample_rate_hz": self.output_rate_hz}},
            "turn_detection": None}
        if instructions.strip() or self.blank_instructions:
            session["instructions"] = instructions
        for name in ("voice", "ref_audio", "overlap_policy", "playback_commit_policy"):
            if getattr(self, name):
                session[name] = getattr(self, name)
        more = dict(self.more)
        extra = {"auto_response": True, **self.extra_body, **more.pop("extra_body", {})}
        return {**session, **more, "extra_body": extra}

    def granted(self, instructions: str, reported: object) -> Granted:
        """What `session.created` reports, against what was asked."""
        asked = {name: value for name, value in self.session(instructions).items()
                 if name in ("model", "instructions", "voice", "overlap_policy",
                             "playback_commit_policy")}
        asked |= {"audio": {"input": {"format": {"rate": self.input_rate_hz}},
                            "output": {"format": {"rate": self.output_rate_hz}}}}
        found = compare(asked, reported)
        wrong = list(found.wrong_format)
        for name, want in (("input_audio_format", self.input_format),
                           ("output_audio_format", OUTPUT_FORMAT)):
            have = at(reported, name)
            if have is not None and not same_format(want, have):
                wrong.append(f"{name}: {excerpt(have, 40)} instead of {want}")
        for way, rate_hz in (("input", self.input_rate_hz), ("output", self.output_rate_hz)):
            have = at(reported, "audio", way, "sample_rate_hz")
            if have is not None and (isinstance(have, bool) or have != rate_hz):
                wrong.append(f"audio.{way}.sample_rate_hz: {excerpt(have, 40)} instead of "
                             f"{rate_hz}")
        return Granted(tuple(wrong), found.differs, found.not_reported)


def same_format(want: str, have: object) -> bool:
    """Whether two names mean the same samples."""
    return have == want or (want in _SAME_FORMATS and isinstance(have, str)
                            and have in _SAME_FORMATS)
