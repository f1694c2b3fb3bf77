"""What a worker's script asks of code that is not ours, read off the script: nothing is imported.

A call or an attribute is foreign unless its first name is a builtin, comes from the standard
library, numpy or the worker's kit, or is defined in the script; whatever else is ours the list in
`signatures/workers/*.toml` says.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

OUR_MODULES = {"numpy", "worker_kit", *sys.stdlib_module_names}
HOLE = "?"


@dataclass(frozen=True)
class Call:
    """`self._lm.step()` with so many places, these keywords, and whether more come by * or **."""

    text: str
    line: int
    positional_n: int
    keywords: tuple[str, ...]
    more: bool
    constants: tuple[str, ...]
    """Words among the places, as they are written."""


@dataclass
class Script:
    """Foreign imports by their full names; calls, and attributes that are no part of a call."""

    imports: dict[str, int] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    attributes: dict[str, int] = field(default_factory=dict)


def text(node: ast.AST) -> str:
    """The expression without its arguments and indices: `f(x)[0].cpu` is `f()[].cpu`."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            return f"{text(value)}.{attr}"
        case ast.Call(func=func):
            return f"{text(func)}()"
        case ast.Subscript(value=value):
            return f"{text(value)}[]"
    return HOLE


def root(of: str) -> str:
    return of.replace("[", ".").replace("(", ".").split(".")[0]


def read(path: Path, ours: list[str] | tuple[str, ...] = ()) -> Script:
    """What of a script is foreign; `ours`: expressions that are not, with all that is below."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    known, script = set(dir(builtins)), Script()
    for node in ast.walk(tree):
        for name, module, line in _imported(node):
            if module.split(".")[0] in OUR_MODULES:
                known.add(name)
            else:
                script.imports[module] = line
    known |= {node.name for node in tree.body
              if isinstance(node, ast.FunctionDef | ast.ClassDef)}

    def foreign(found: str) -> bool:
        if root(found) in known or found.startswith(HOLE):
            return False
        return not any(found == own or found.startswith((f"{own}.", f"{own}[", f"{own}("))
                       for own in ours)

    inner = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    inner |= {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    functions = {id(n) for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    local = _own_methods(tree)
    for node in _code(tree, functions):
        if isinstance(node, ast.Call):
            found = text(node.func)
            if foreign(found) and found not in local:
                script.calls.append(_call(node, found))
        elif isinstance(node, ast.Attribute) and id(node) not in inner:
            found = text(node)
            if foreign(found) and not (found.startswith("self.") and found.count(".") == 1):
                script.attributes.setdefault(found, node.lineno)
    return script


def _call(node: ast.Call, found: str) -> Call:
    more = (any(isinstance(a, ast.Starred) for a in node.args)
            or any(k.arg is None for k in node.keywords))
    return Call(found, node.lineno, sum(not isinstance(a, ast.Starred) for a in node.args),
                tuple(k.arg for k in node.keywords if k.arg is not None), more,
                tuple(a.value for a in node.args if isinstance(a, ast.Constant)
                      and isinstance(a.value, str)))


def _imported(node: ast.AST) -> Iterator[tuple[str, str, int]]:
    """The name here, the full name there, the line."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.asname or alias.name.split(".")[0], alias.name, node.lineno
    elif isinstance(node, ast.ImportFrom) and not node.level:
        for alias in node.names:
            yield alias.asname or alias.name, f"{node.module}.{alias.name}", node.lineno


def _own_methods(tree: ast.Module) -> set[str]:
    """`self.x` for every method and for nothing else: attributes may hold what is foreign."""
    return {f"self.{part.name}" for node in tree.body if isinstance(node, ast.ClassDef)
            for part in node.body if isinstance(part, ast.FunctionDef)}


def _code(tree: ast.Module, functions: set[int]) -> Iterator[ast.AST]:
    """Every node but annotations, which are no calls."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            skipped |= {id(n) for n in ast.walk(node.annotation)}
        elif id(node) in functions and isinstance(node, ast.FunctionDef) and node.returns:
            skipped |= {id(n) for n in ast.walk(node.returns)}
    for node in ast.walk(tree):
        if id(node) not in skipped:
            yield node
