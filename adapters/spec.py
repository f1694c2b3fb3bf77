"""How an adapter declares itself: its name, what it can do, and its settings with bounds.

A declaration is light: reading it imports no wire protocol, model or network package. Settings
come from the command line as text and are parsed and bounds-checked here, once for all adapters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

from adapters.base import Adapter, Capabilities
from audio.errors import InputError
from audio.suggest import did_you_mean

Kind = Literal["float", "int", "bool", "str"]
Value = float | int | bool | str

_BOOLS = {"true": True, "yes": True, "on": True, "1": True,
          "false": False, "no": False, "off": False, "0": False}


@dataclass(frozen=True, slots=True)
class Setting:
    """One typed setting. Bounds are inclusive; `choices` restricts a `str`."""

    name: str
    kind: Kind
    default: Value
    help: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def expectation(self) -> str:
        """What a value must be, in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.kind == "bool":
            return "true or false"
        if self.kind == "str":
            return "text in UTF-8"
        noun = "a whole number" if self.kind == "int" else "a number"
        if self.minimum is not None and self.maximum is not None:
            return f"{noun} from {self.minimum:g} to {self.maximum:g}"
        if self.minimum is not None:
            return f"{noun} of at least {self.minimum:g}"
        if self.maximum is not None:
            return f"{noun} of at most {self.maximum:g}"
        return noun

    def parse(self, text: str, *, where: str) -> Value:
        """Read a value from text. Raises `InputError` when it is not what the setting takes."""
        value = self._read(text.strip())
        if value is None or not self._allows(value):
            raise InputError.expected(self.expectation, got=repr(text), where=where)
        return value

    def _read(self, text: str) -> Value | None:
        if self.kind == "str":
            # Bytes of a command line that are no UTF-8 come as halves of surrogate pairs: neither a
            # file nor a message holds those.
            return text if text.encode("utf-8", "ignore").decode() == text else None
        if self.kind == "bool":
            return _BOOLS.get(text.lower())
        try:
            return int(text) if self.kind == "int" else float(text)
        except ValueError:
            return None

    def _allows(self, value: Value) -> bool:
        if isinstance(value, str):
            return not self.choices or value in self.choices
        if isinstance(value, bool):
            return True
        if not math.isfinite(value):
            return False
        if self.minimum is not None and value < self.minimum:
            return False
        return self.maximum is None or value <= self.maximum


@dataclass(frozen=True, slots=True)
class AtATime:
    """How many sessions a provider lets be open together, and where that is stated.

    Of an account of the lowest kind, so that it holds for every account. `models`: for which
    models, each counted by itself; none named: whatever is set. `fixed`: no account has more.
    """

    sessions: int
    source: str
    models: tuple[str, ...] = ()
    fixed: bool = False


def package_version(distribution: str = "duplexrig") -> str:
    """The installed version of a distribution, for an adapter's version; `unknown` without it."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "unknown"


def _nothing_missing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class AdapterSpec:
    """An adapter before it is built.

    `build` gets the effective settings, defaults filled in. `missing` says in one line what the
    adapter lacks on this machine and how to get it, or gives `None` when it can run.
    """

    name: str
    summary: str
    capabilities: Capabilities
    build: Callable[[dict[str, Any]], Adapter]
    settings: tuple[Setting, ...] = ()
    missing: Callable[[], str | None] = _nothing_missing
    at_a_time: AtATime | None = None
    """`None`: nobody states it."""
    unverified: str | None = None
    """What of it nobody could run, and why; `None`: all of it has run."""
    own_process: bool = False
    """Each session at a time has a process and a model of its own: no more than are asked for."""

    def address(self, settings: Mapping[str, Any]) -> tuple[Any, Any]:
        """Where the system is by these settings (`base_url`, else `url`), and where by default."""
        named = "base_url" if "base_url" in settings else "url"
        default = next((s.default for s in self.settings if s.name == named), None)
        return settings.get(named), default

    def effective(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Defaults overlaid with what was given as text.

        Raises `InputError` for a name that the adapter does not have (with the nearest one that
        it has), and for a value outside type or bounds.
        """
        known = {s.name: s for s in self.settings}
        for name in given:
            if name not in known:
                raise InputError(f"--set {name}: adapter {self.name} has no such setting"
                                 f"{did_you_mean(name, known)}; it has: "
                                 f"{', '.join(known) or 'none'}")
        return {
            name: (s.parse(given[name], where=f"--set {name} (adapter {self.name})")
                   if name in given else s.default)
            for name, s in known.items()
        }
