"""What a client may set, and what the server can honour of it.

A setting is taken only if the agent really behaves so; everything else is refused with an error
event, and nothing of that `session.update` is applied. Names of model, voice and transcription
model are the exception: they are labels, kept and reported as given (there is one of each here).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from adapters.cascade.hearing import RATE_HZ, TurnSettings
from adapters.wire.payload import excerpt

MODEL = "cascade"
VOICE = "hibari"
INSTRUCTIONS = "Answer simply."
"""What the agent does when it is told nothing; shown in `session.created`."""
MAX_INSTRUCTIONS_CHARS = 100_000
"""Ours: 20 times the longest system prompt of the suite."""
MAX_LABEL_CHARS = 128
MAX_MS = 10_000
"""Longest padding and silence taken. Ours."""
MAX_OUTPUT_TOKENS = 4096
"""The protocol's own bound. A token is a spoken word here."""

FORMAT = {"type": "audio/pcm", "rate": RATE_HZ}
ErrorType = Literal["invalid_request_error", "server_error"]


class ClientError(Exception):
    """What a client asked for cannot be done; becomes an `error` event."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param


@dataclass(frozen=True, slots=True)
class Detection:
    """`turn_detection` of type `server_vad`."""

    turns: TurnSettings = field(default_factory=TurnSettings)
    create_response: bool = True
    interrupt_response: bool = True

    def as_dict(self) -> dict[str, Any]:
        return {"type": "server_vad", "threshold": self.turns.threshold,
                "prefix_padding_ms": self.turns.prefix_padding_ms,
                "silence_duration_ms": self.turns.silence_duration_ms, "idle_timeout_ms": None,
                "create_response": self.create_response,
                "interrupt_response": self.interrupt_response}


@dataclass(frozen=True, slots=True)
class Settings:
    """The session as it is in force."""

    model: str = MODEL
    instructions: str = INSTRUCTIONS
    voice: str = VOICE
    max_output_tokens: int | None = None
    transcription: dict[str, Any] | None = None
    detection: Detection | None = field(default_factory=Detection)

    def as_dict(self, session_id: str) -> dict[str, Any]:
        """The `session` object of `session.created` and `session.updated`."""
        return {
            "type": "realtime", "object": "realtime.session", "id": session_id,
            "model": self.model, "output_modalities": ["audio"],
            "instructions": self.instructions, "tools": [], "tool_choice": "auto",
            "max_output_tokens": self.max_output_tokens or "inf", "tracing": None, "prompt": None,
            "audio": {
                "input": {"format": dict(FORMAT), "transcription": self.transcription,
                          "noise_reduction": None,
                          "turn_detection": self.detection and self.detection.as_dict()},
                "output": {"format": dict(FORMAT), "voice": self.voice, "speed": 1.0}},
        }


def updated(settings: Settings, change: object, *, voice_locked: bool) -> Settings:
    """The settings after `session.update`. Raises `ClientError`; nothing is applied then."""
    session = _mapping(change, "session")
    if session.get("type") != "realtime":
        given = session.get("type")
        raise ClientError(
            "missing_required_parameter" if given is None else "invalid_value",
            f"expected session.type 'realtime', got {excerpt(given, 40)}", "session.type")
    changes: dict[str, Any] = {}
    for name, value in session.items():
        where = f"session.{name}"
        if name == "instructions":
            changes[name] = read_instructions(value, where)
        elif name == "max_output_tokens":
            changes[name] = read_max_tokens(value, where)
        elif name == "model":
            changes[name] = _label(value, where)
        elif name == "audio":
            changes |= _audio(settings, _mapping(value, where))
        elif name in _ONLY:
            only(name, value, where)
        elif name != "type":
            raise unknown(where)
    if voice_locked and changes.get("voice", settings.voice) != settings.voice:
        raise ClientError("cannot_update_voice", "the voice cannot change once there is audio",
                          "session.audio.output.voice")
    return replace(settings, **changes)


def read_instructions(value: object, where: str) -> str:
    if not isinstance(value, str) or len(value) > MAX_INSTRUCTIONS_CHARS:
        raise ClientError("invalid_value", f"expected a text of at most {MAX_INSTRUCTIONS_CHARS} "
                          "characters", where)
    return value


def read_max_tokens(value: object, where: str) -> int | None:
    if value in ("inf", None):
        return None
    return _whole(value, where, 1, MAX_OUTPUT_TOKENS)


def unknown(where: str) -> ClientError:
    return ClientError("unknown_parameter", f"unknown parameter: '{excerpt(where, 80)}'",
                       excerpt(where, 80))


def only(name: str, value: object, where: str) -> None:
    """A field that the agent takes at its one value alone. Raises `ClientError`."""
    expected, allowed = _ONLY[name]
    if value not in allowed:
        raise ClientError("invalid_value", f"this server takes {expected} alone, got "
                          f"{excerpt(value, 60)}", where)


_ONLY: dict[str, tuple[str, tuple[object, ...]]] = {
    "output_modalities": ('["audio"]', (["audio"],)),
    "tools": ("an empty list: it calls no functions", ([], None)),
    "tool_choice": ('"auto" or "none"', ("auto", "none", None)),
    "parallel_tool_calls": ("true or false", (True, False, None)),
    "include": ("an empty list", ([], None)),
    "tracing": ("null", (None,)),
    "prompt": ("null", (None,)),
    "reasoning": ("null", (None,)),
    "truncation": ('"auto" or "disabled"', ("auto", "disabled", None)),
    "noise_reduction": ("null", (None,)),
    "speed": ("1", (1,)),
    "idle_timeout_ms": ("null", (None,)),
}


def _audio(settings: Settings, audio: Mapping[str, object]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for name, value in audio.items():
        if name == "input":
            changes |= _input(settings, _mapping(value, "session.audio.input"))
        elif name == "output":
            changes |= read_output(_mapping(value, "session.audio.output"), "session.audio.output")
        else:
            raise unknown(f"session.audio.{name}")
    return changes


def _input(settings: Settings, audio: Mapping[str, object]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for name, value in audio.items():
        where = f"session.audio.input.{name}"
        if name == "format":
            _format(value, where)
        elif name == "transcription":
            changes["transcription"] = None if value is None else _transcription(value, where)
        elif name == "turn_detection":
            changes["detection"] = None if value is None else _detection(
                settings.detection or Detection(), _mapping(value, where), where)
        elif name == "noise_reduction":
            only(name, value, where)
        else:
            raise unknown(where)
    return changes


def read_output(audio: Mapping[str, object], where: str) -> dict[str, Any]:
    """`voice`, if it is given, of an `audio.output` object."""
    changes: dict[str, Any] = {}
    for name, value in audio.items():
        if name == "format":
            _format(value, f"{where}.{name}")
        elif name == "voice":
            changes["voice"] = _label(value, f"{where}.{name}")
        elif name == "speed":
            only(name, value, f"{where}.{name}")
        else:
            raise unknown(f"{where}.{name}")
    return changes


def _format(value: object, where: str) -> None:
    given = _mapping(value, where)
    if given.get("type") != "audio/pcm" or given.get("rate", RATE_HZ) != RATE_HZ:
        raise ClientError("invalid_value", f"this server takes audio/pcm at {RATE_HZ} Hz alone, "
                          f"got {excerpt(dict(given), 60)}", where)


def _transcription(value: object, where: str) -> dict[str, Any]:
    given = _mapping(value, where)
    for name, part in given.items():
        if name not in ("model", "language", "prompt"):
            raise unknown(f"{where}.{name}")
        if part is not None:
            _label(part, f"{where}.{name}")
    return dict(given)


def _detection(current: Detection, given: Mapping[str, object], where: str) -> Detection:
    if given.get("type") != "server_vad":
        raise ClientError("invalid_value", "this server takes turn_detection of type 'server_vad' "
                          f"or null, got {excerpt(given.get('type'), 40)}", f"{where}.type")
    turns: dict[str, Any] = {}
    flags: dict[str, Any] = {}
    readers: dict[str, Callable[[object, str], object]] = {
        "threshold": _threshold,
        "prefix_padding_ms": lambda v, w: _whole(v, w, 0, MAX_MS),
        "silence_duration_ms": lambda v, w: _whole(v, w, 0, MAX_MS),
    }
    for name, value in given.items():
        if name in readers:
            turns[name] = readers[name](value, f"{where}.{name}")
        elif name in ("create_response", "interrupt_response"):
            if not isinstance(value, bool):
                raise ClientError("invalid_type", "expected true or false", f"{where}.{name}")
            flags[name] = value
        elif name == "idle_timeout_ms":
            only(name, value, f"{where}.{name}")
        elif name != "type":
            raise unknown(f"{where}.{name}")
    return replace(current, turns=replace(current.turns, **turns), **flags)


def _threshold(value: object, where: str) -> float:
    # Compared before anything else: JSON has integers that no float can hold.
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise ClientError("invalid_value", "expected a number from 0 to 1", where)
    return float(value)


def _whole(value: object, where: str, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ClientError("invalid_value", f"expected a whole number from {least} to {most}", where)
    return value


def _label(value: object, where: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_LABEL_CHARS:
        raise ClientError("invalid_value", f"expected a name of 1 to {MAX_LABEL_CHARS} characters",
                          where)
    return value


def _mapping(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ClientError("invalid_type", f"expected an object, got {excerpt(value, 40)}", where)
    return value
