"""The session that is asked of an OpenAI Realtime server (GA), and whether it was granted.

Field names: the GA protocol. Defaults: DSB-IFEval, appendices E.2, F.1 and F.5, where given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from adapters.wire.payload import at, excerpt

RATE_HZ = 24_000
"""Both directions, PCM16 mono: the only rate of `audio/pcm` in the GA protocol."""

_FORMAT = {"type": "audio/pcm", "rate": RATE_HZ}
_TOLERANCE = 1e-4
"""Numbers may come back as single precision."""


class AskedSession(Protocol):
    """What the wire needs of the settings of one session, in either dialect."""

    @property
    def input_rate_hz(self) -> int: ...

    @property
    def output_rate_hz(self) -> int: ...

    @property
    def interrupt_response(self) -> bool:
        """Whether the user's beginning to speak breaks off what is heard of a reply."""
        ...

    @property
    def truncate_on_barge_in(self) -> bool: ...

    @property
    def strict_session(self) -> bool: ...

    @property
    def created_confirms(self) -> bool:
        """Whether a second `session.created` may stand for `session.updated`."""
        ...

    def session(self, instructions: str) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What is asked of the server, and how the client behaves.

    `empty_prompt`: what to do with an empty system prompt (level L0). `send` sends
    `instructions: ""`, which replaces the server's own default instructions; `omit` leaves those in
    force. A non-empty prompt is always sent as it is.
    """

    voice: str = "alloy"
    turn_detection: Literal["server_vad", "semantic_vad"] = "server_vad"
    vad_threshold: float = 0.5
    vad_prefix_padding_ms: int = 300
    vad_silence_duration_ms: int = 800
    vad_eagerness: Literal["low", "medium", "high", "auto"] = "auto"
    create_response: bool = True
    interrupt_response: bool = True
    noise_reduction: Literal["off", "near_field", "far_field"] = "off"
    input_transcription_model: str = ""
    max_output_tokens: int = 0
    empty_prompt: Literal["send", "omit"] = "send"
    truncate_on_barge_in: bool = False
    strict_session: bool = True

    @property
    def input_rate_hz(self) -> int:
        return RATE_HZ

    @property
    def output_rate_hz(self) -> int:
        return RATE_HZ

    @property
    def created_confirms(self) -> bool:
        return False

    def session(self, instructions: str) -> dict[str, Any]:
        """The `session` object of `session.update`; what is off is left out."""
        audio_in: dict[str, Any] = {"format": dict(_FORMAT), "turn_detection": self._detection()}
        if self.noise_reduction != "off":
            audio_in["noise_reduction"] = {"type": self.noise_reduction}
        if self.input_transcription_model:
            audio_in["transcription"] = {"model": self.input_transcription_model}
        session: dict[str, Any] = {
            "type": "realtime",
            "output_modalities": ["audio"],
            "audio": {"input": audio_in,
                      "output": {"format": dict(_FORMAT), "voice": self.voice}},
        }
        if instructions or self.empty_prompt == "send":
            session["instructions"] = instructions
        if self.max_output_tokens:
            session["max_output_tokens"] = self.max_output_tokens
        return session

    def _detection(self) -> dict[str, Any]:
        common = {"create_response": self.create_response,
                  "interrupt_response": self.interrupt_response}
        if self.turn_detection == "semantic_vad":
            return {"type": "semantic_vad", "eagerness": self.vad_eagerness, **common}
        return {"type": "server_vad", "threshold": self.vad_threshold,
                "prefix_padding_ms": self.vad_prefix_padding_ms,
                "silence_duration_ms": self.vad_silence_duration_ms, **common}


@dataclass(frozen=True, slots=True)
class Granted:
    """How the session that the server reports compares with the one that was asked for.

    `wrong_format` would make every sample wrong; `differs` means another system than the one on
    record; `not_reported` could not be compared.
    """

    wrong_format: tuple[str, ...]
    differs: tuple[str, ...]
    not_reported: tuple[str, ...]


def compare(asked: dict[str, Any], reported: object) -> Granted:
    """Compare field by field what was asked with what `session.updated` reports."""
    wrong: list[str] = []
    differs: list[str] = []
    silent: list[str] = []
    for path, want in _leaves(asked):
        name = ".".join(path)
        have = at(reported, *path)
        if have is None and _no_detection(reported, path):
            differs.append(f"{name}: turn detection is off")
        elif have is None:
            silent.append(name)
        elif not _same(want, have):
            told = (f"{name}: {len(have)} characters instead of {len(want)}"
                    if name == "instructions" and isinstance(have, str)
                    else f"{name}: {excerpt(have, 60)} instead of {excerpt(want, 60)}")
            (wrong if any(key.endswith("format") for key in path) else differs).append(told)
    return Granted(tuple(wrong), tuple(differs), tuple(silent))


def _no_detection(reported: object, path: tuple[str, ...]) -> bool:
    """Whether a flat session reports turn detection, and as none: what StepFun has by default."""
    return (path[0] == "turn_detection" and isinstance(reported, dict)
            and path[0] in reported and not isinstance(reported[path[0]], dict))


def _leaves(value: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    leaves: list[tuple[tuple[str, ...], Any]] = []
    for key, below in value.items():
        if isinstance(below, dict):
            leaves += _leaves(below, (*path, key))
        else:
            leaves.append(((*path, key), below))
    return leaves


def _same(want: object, have: object) -> bool:
    if isinstance(want, bool) or isinstance(have, bool):
        return want is have
    if isinstance(want, float) and isinstance(have, int | float):
        if abs(have) > 1e300:  # JSON has integers that no float can hold
            return False
        return math.isclose(want, have, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    if isinstance(want, str) and isinstance(have, str):
        return want.strip() == have.strip()
    if isinstance(want, list) and isinstance(have, list):
        return sorted(map(str, want)) == sorted(map(str, have))  # kinds of output, in any order
    return want == have
