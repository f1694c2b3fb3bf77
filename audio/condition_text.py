"""Conditions as text: `noise=babble:15,line=ulaw`, and what may be written.

    KIND=VALUE[:VALUE...][,KIND=...]

Values that must be given come first, in their order; every value may also be given by name
(`loss=3:burst=4`, `noise=white:snr_db=10`). A unit may stand behind a number (`120ms`, `-30dB`,
`3%`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from audio.condition_base import Arg
from audio.conditions import KINDS, AnyCondition, ordered
from audio.errors import InputError
from audio.files import sha256_file
from audio.noise_file import check_noise_file
from audio.suggest import did_you_mean

WHERE = "--condition"
_NUMBER = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))\s*([A-Za-z%]*)")
_NEXT = re.compile(r",(?=\s*[A-Za-z0-9_]*=)")
_UNITS = {"": {""}, "ms": {"", "ms"}, "dB": {"", "db"}, "dBov": {"", "db", "dbov"},
          "%": {"", "%"}, "packets": {""}}


def parse_all(texts: Iterable[str]) -> tuple[AnyCondition, ...]:
    """Conditions in the order in which they act. Raises `InputError`, one line."""
    return ordered([parse(one) for text in texts for one in _NEXT.split(text)])


def parse(text: str) -> AnyCondition:
    """One condition. A file of noise is looked at and hashed. Raises `InputError`, one line."""
    text = text.strip()
    name, equals, values = text.partition("=")
    if name not in KINDS:
        raise InputError(f"{WHERE} {text or repr(text)}: expected one of "
                         f"{', '.join(f'{k}=...' for k in KINDS)} (see: rig conditions)"
                         f"{did_you_mean(name, KINDS)}")
    kind = KINDS[name]
    if not equals or not values:
        raise InputError(f"{WHERE} {text}: expected values, for instance {kind.example}")
    if name == "noise" and values.startswith("file:"):
        return _file_noise(text, values.removeprefix("file:"))
    args = [a for a in kind.args if not a.text]
    default = {f.name: f.default for f in fields(kind)}
    found: dict[str, Any] = {}
    by_name = {a.name: a for a in args}
    waiting = list(args)
    for part in values.split(":"):
        given, named, value = part.partition("=")
        if named and given not in by_name:
            raise InputError(f"{WHERE} {text}: expected one of {', '.join(by_name)}, got {given!r}"
                             f"{did_you_mean(given, by_name)}")
        if not named and not waiting:
            raise InputError(f"{WHERE} {text}: expected at most {len(args)} values "
                             f"({usage(name)}), got {part!r} more")
        arg = by_name[given] if named else waiting[0]
        waiting = [a for a in waiting if a is not arg]
        if arg.name in found:
            raise InputError(f"{WHERE} {text}: {arg.name} is given twice")
        found[arg.name] = _value(arg, value if named else part, text)
    missing = [a.name for a in args if a.name not in found and default[a.name] is MISSING]
    if missing:
        raise InputError(f"{WHERE} {text}: expected {usage(name)}, got no {missing[0]}")
    return _made(kind, found, text)


def usage(name: str) -> str:
    """How a condition is written: `loss=PERCENT[:burst=...]`."""
    kind = KINDS[name]
    default = {f.name: f.default for f in fields(kind)}
    must = [a.name.upper() for a in kind.args if default[a.name] is MISSING]
    may = [f"[:{a.name}={_plain(default[a.name])}]" for a in kind.args
           if default[a.name] is not MISSING and not a.text]
    return f"{name}={':'.join(must)}{''.join(may)}"


def described() -> list[dict[str, Any]]:
    """Every condition for a listing, in the order in which they act."""
    return [{"name": name, "usage": usage(name), "example": kind.example, "what": kind.what,
             "values": [{"name": a.name, "what": a.what, "allowed": a.allowed()}
                        for a in kind.args if not a.text]}
            for name, kind in KINDS.items()]


def _file_noise(text: str, rest: str) -> AnyCondition:
    """`file:PATH:SNR[:seed=N]`; a path may hold colons."""
    seed = 0
    head, _, tail = rest.rpartition(":")
    if tail.startswith("seed="):
        seed = _value(_arg("noise", "seed"), tail.removeprefix("seed="), text)
        head, _, tail = head.rpartition(":")
    if not head:
        raise InputError(f"{WHERE} {text}: expected noise=file:PATH:SNR_DB")
    snr_db = _value(_arg("noise", "snr_db"), tail.removeprefix("snr_db="), text)
    path = Path(head)
    check_noise_file(path)
    return _made(KINDS["noise"], {"noise": "file", "snr_db": snr_db, "seed": seed, "file": head,
                                  "sha256": sha256_file(path)}, text)


def _arg(kind: str, name: str) -> Arg:
    return next(a for a in KINDS[kind].args if a.name == name)


def _made(kind: Any, values: dict[str, Any], text: str) -> AnyCondition:
    try:
        made: AnyCondition = kind(**values)
    except InputError as error:
        raise InputError(f"{WHERE} {text}: {error}") from error
    return made


def _value(arg: Arg, text: str, where: str) -> Any:
    if arg.choices:
        return text
    match = _NUMBER.fullmatch(text.strip())
    if match is None or match[2].lower() not in _UNITS.get(arg.unit, {""}):
        raise InputError(f"{WHERE} {where}: expected {arg.name} as a number ({arg.allowed()}), got "
                         f"{text!r}")
    return int(float(match[1])) if arg.whole and float(match[1]).is_integer() else float(match[1])


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
