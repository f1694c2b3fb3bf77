"""Signatures of code that workers call, written down by us in `signatures/*.toml`.

A table is of one source: a repository at a commit, or a package of a version.

    [source]      repository and commit, or package and version; note: what else is to be known
    [functions."module.Class.method"]
        at        file:line in the source; "" for what is compiled
        takes     its parameters without self: "a, b=, *, c=, **more"; = is a default
        reads     of names that come by **: where each is read (file:line)
        keys      of the dictionary that it gives
        gives     in words
    [attributes]  "module.Class.name" = file:line, re-exported names too

Standard library alone: the tool that checks the tables runs in the models' environments.
"""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "signatures"
Parameter = inspect.Parameter


@dataclass(frozen=True)
class Function:
    name: str
    at: str
    signature: inspect.Signature
    reads: dict[str, str] = field(default_factory=dict)
    keys: tuple[str, ...] = ()

    def refusal(self, positional_n: int, keywords: Iterable[str]) -> str | None:
        """Why it would not take so many places and these keywords; None if it does."""
        keywords = list(keywords)
        try:
            bound = self.signature.bind(*range(positional_n), **dict.fromkeys(keywords))
        except TypeError as error:
            return str(error)
        by_name = next((bound.arguments.get(p.name, {}) for p in self.signature.parameters.values()
                        if p.kind is Parameter.VAR_KEYWORD), {})
        unread = sorted(set(by_name) - set(self.reads))
        return f"reads no {', '.join(unread)}" if unread else None


@dataclass(frozen=True)
class Table:
    path: Path
    source: dict[str, str]
    functions: dict[str, Function]
    attributes: dict[str, str]


def signature(takes: str) -> inspect.Signature:
    """`a, b=, *, c=, **more` as a signature; a parameter with `=` has a default."""
    text = re.sub(r"=(?=\s*(,|$))", "=None", takes)
    (made,) = ast.parse(f"def f({text}): ...").body
    assert isinstance(made, ast.FunctionDef)
    return inspect.Signature(parameters(made.args))


def parameters(a: ast.arguments, skip: int = 0) -> list[Parameter]:
    """Names, kinds, and whether there is a default (`...`)."""
    plain = [(n, Parameter.POSITIONAL_ONLY) for n in a.posonlyargs]
    plain += [(n, Parameter.POSITIONAL_OR_KEYWORD) for n in a.args]
    first_default = len(plain) - len(a.defaults)
    found = [Parameter(n.arg, kind, default=... if i >= first_default else Parameter.empty)
             for i, (n, kind) in enumerate(plain)][skip:]
    if a.vararg:
        found.append(Parameter(a.vararg.arg, Parameter.VAR_POSITIONAL))
    found += [Parameter(n.arg, Parameter.KEYWORD_ONLY,
                        default=Parameter.empty if default is None else ...)
              for n, default in zip(a.kwonlyargs, a.kw_defaults, strict=True)]
    if a.kwarg:
        found.append(Parameter(a.kwarg.arg, Parameter.VAR_KEYWORD))
    return found


def load(name: str) -> Table:
    """The table of that name, or of that path."""
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    functions = {n: Function(n, f["at"], signature(f["takes"]), f.get("reads", {}),
                             tuple(f.get("keys", ()))) for n, f in raw["functions"].items()}
    return Table(path, raw["source"], functions, raw.get("attributes", {}))


@cache
def _tables(name: str) -> Table:
    return load(name)


def known(name: str) -> Function:
    """`table:full.name`."""
    table, _, full = name.partition(":")
    return _tables(table).functions[full]


class Strict:
    """A fake whose methods take what the real ones take, and nothing else.

    `names`: for each method `table:full.name`; `__call__` for calling the fake itself. What has no
    name in it (a fake's own notes) is handed through.
    """

    def __init__(self, fake: Any, names: dict[str, str]) -> None:
        functions = {method: known(name) for method, name in names.items()}
        object.__setattr__(self, "_fake", fake)
        object.__setattr__(self, "_functions", functions)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._fake, name)
        return checked(found, self._functions[name]) if name in self._functions else found

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._fake, name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return checked(self._fake, self._functions["__call__"])(*args, **kwargs)


def checked(made: Callable[..., Any], function: Function) -> Callable[..., Any]:
    """`made`, refusing by `TypeError` what the real function would refuse."""
    def call(*args: Any, **kwargs: Any) -> Any:
        refusal = function.refusal(len(args), kwargs)
        if refusal:
            raise TypeError(f"{function.name}: {refusal}")
        return made(*args, **kwargs)

    return call
