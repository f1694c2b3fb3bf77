"""What every line condition is: values with bounds, a text, facts, a seed; and the session that it
is made for."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar

from audio.buffers import Float32
from audio.condition_streams import Heard
from audio.errors import InputError
from audio.suggest import did_you_mean

Voices = Callable[[], Sequence[Float32]]
"""Speech of other people at the rate of the chain, each at an active level of 0 dBov
(`audio.noise.at_unit_level`); asked for by babble alone."""


@dataclass(frozen=True, slots=True)
class Context:
    """The session that conditions are made for. `speech_dbov`: level of the speech that is pushed,
    `None` where there is none."""

    rate_hz: int
    case_id: str
    trial: int
    speech_dbov: float | None
    heard: Heard | None = None
    voices: Voices | None = None


@dataclass(frozen=True, slots=True)
class Arg:
    """A value of a condition: its name, what it says, what it may be."""

    name: str
    what: str
    low: float = -math.inf
    high: float = math.inf
    unit: str = ""
    choices: tuple[str, ...] = ()
    text: bool = False
    whole: bool = False

    def allowed(self) -> str:
        if self.choices:
            return ", ".join(self.choices)
        return "text" if self.text else f"{self.low:g} to {self.high:g} {self.unit}".strip()

    def check(self, value: Any, where: str) -> None:
        """Raises `InputError` for a value that is not allowed."""
        if self.text:
            return
        if self.choices:
            if value not in self.choices:
                raise InputError(f"{where}: expected {self.name} as one of {self.allowed()}, got "
                                 f"{value!r}{did_you_mean(str(value), self.choices)}")
            return
        if isinstance(value, bool) or not isinstance(value, int | float) or not (
                self.low <= value <= self.high) or (self.whole and value != int(value)):
            kind = "a whole number of " if self.whole else ""
            raise InputError.expected(f"{self.name} as {kind}{self.allowed()}", got=repr(value),
                                      where=where)


SEED = Arg("seed", "another one gives other random numbers", 0, 999_999, whole=True)


@dataclass(frozen=True, slots=True)
class Condition:
    """Base of all conditions. `kind` is its name, `args` its values in the order of the text."""

    kind: ClassVar[str]
    what: ClassVar[str]
    args: ClassVar[tuple[Arg, ...]]
    example: ClassVar[str]

    def __post_init__(self) -> None:
        for arg in self.args:
            value = getattr(self, arg.name)
            arg.check(value, self.kind)
            if not (arg.choices or arg.text):
                # 15, 15.0 and -0.0 are spellings: text, facts and seed must not tell them apart.
                object.__setattr__(self, arg.name, int(value) if arg.whole else float(value) + 0.0)

    @property
    def text(self) -> str:
        """As it is written on the command line: values that must be given, then those that differ
        from their defaults by name."""
        default = {f.name: f.default for f in fields(self)}
        parts = [short(getattr(self, a.name)) if default[a.name] is MISSING
                 else f"{a.name}={short(getattr(self, a.name))}"
                 for a in self.args if getattr(self, a.name) != default[a.name]]
        return f"{self.kind}={':'.join(parts)}"

    def facts(self) -> dict[str, Any]:
        """Every value, defaults filled in: part of the fingerprint of a run."""
        return {"kind": self.kind, **{a.name: getattr(self, a.name) for a in self.args}}

    def seed_of(self, context: Context) -> int:
        """A seed of case, trial and condition alone; order and clock never matter."""
        facts = "\0".join(f"{k}={v}" for k, v in sorted(self.facts().items()) if k != "file")
        text = f"{context.case_id}\0{context.trial}\0{facts}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def speech_dbov(context: Context, where: str) -> float:
    if context.speech_dbov is None:
        raise InputError.expected("speech, to whose level this is relative", got="none",
                                  where=where)
    return context.speech_dbov


def short(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)
