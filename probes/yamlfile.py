"""Strict YAML with line numbers: safe scalars only, no duplicate keys, no aliases, bounded.

Every message begins with `FILE:LINE:`, also those of the data models, because `Located` keeps the
line of each value.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from audio.errors import InputError
from audio.suggest import did_you_mean, nearest
from probes.names import IN_WORDS
from probes.rules import PROBLEM

MAX_BYTES = 2 * 1024 * 1024
"""Ours: the largest file of the built-in suite is under 20 kB."""
MAX_DEPTH = 24
"""Ours: the deepest value of the built-in suite is at depth 6."""

Path_ = tuple[str | int, ...]
M = TypeVar("M", bound=BaseModel)

_PLAIN = {"tuple_type": "a list", "dict_type": "a mapping", "model_type": "a mapping",
          "model_attributes_type": "a mapping"}
"""What pydantic calls by names of Python."""
_SIZE = re.compile(r"^\w+ should have (at (?:least|most) \d+ \w+).*$")
_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("map", "seq", "str", "int", "float", "bool",
                                                  "null")}


def show(path: Path) -> str:
    """A path as messages print it: relative when it lies below the current folder."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError, RuntimeError):  # elsewhere, or a loop of links
        return str(path)


@dataclass(frozen=True, slots=True)
class Located:
    """Plain data of one file (sequences are tuples) and the line of every value."""

    path: Path
    data: Any
    lines: Mapping[Path_, int]

    def line(self, at: Path_) -> int:
        """Line of a value, or of the nearest thing that holds it."""
        while at and at not in self.lines:
            at = at[:-1]
        return self.lines.get(at, 1)

    def error(self, at: Path_, message: str) -> InputError:
        return InputError(f"{show(self.path)}:{self.line(at)}: {message}")


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses aliases and deep nesting while composing."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                None, None, "aliases are not allowed", event.start_mark)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                None, None, f"nested deeper than {MAX_DEPTH} levels", event.start_mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


def read_yaml(path: Path) -> Located:
    """Read one document. Raises `InputError` with file and line; never returns empty data."""
    if path.exists() and not path.is_file():
        raise InputError.expected("a file", got="something else", where=show(path))
    try:
        with path.open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError.expected("a readable file", got=error.strerror or str(error),
                                  where=show(path)) from None
    if len(raw) > MAX_BYTES:
        raise InputError.expected(f"at most {MAX_BYTES} bytes", got="more", where=show(path))
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError.expected("UTF-8 text", got=f"byte 0x{raw[error.start]:02x}",
                                  where=f"{show(path)}:{line}") from None
    loader: _Loader | None = None
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
        if root is None:
            raise InputError.expected("a YAML mapping", got="an empty file",
                                      where=f"{show(path)}:1")
        lines: dict[Path_, int] = {}
        return Located(path, _plain(loader, root, (), lines, path), lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(part for part in (error.context, error.problem) if part)
        if "'\\t'" in what:
            what += " (write spaces instead of a tab)"
        where = f"{show(path)}:{mark.line + 1 if mark else 1}"
        raise InputError.expected("valid YAML", got=what.replace("\n", " "), where=where) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError.expected("printable text", got=f"character U+{error.character:04X}",
                                  where=f"{show(path)}:{line}") from None
    finally:
        if loader is not None:
            loader.dispose()


def _plain(
    loader: _Loader, node: yaml.Node, at: Path_, lines: dict[Path_, int], path: Path
) -> Any:
    line = node.start_mark.line + 1
    lines.setdefault(at, line)
    if node.tag not in _TAGS:
        raise InputError.expected("text, a number, true/false or null (quote the text)",
                                  got=f"{node.tag.rsplit(':', 1)[-1]} {str(node.value)[:40]!r}",
                                  where=f"{show(path)}:{line}")
    if isinstance(node, yaml.MappingNode):
        out: dict[str, Any] = {}
        for key_node, value_node in node.value:
            where = f"{show(path)}:{key_node.start_mark.line + 1}"
            if key_node.tag != "tag:yaml.org,2002:str":
                raise InputError.expected("a word as key", got=repr(key_node.value), where=where)
            key = str(key_node.value)
            if key in out:
                raise InputError.expected(f"key {key!r} once",
                                          got=f"it again (first on line {lines[(*at, key)]})",
                                          where=where)
            lines[(*at, key)] = key_node.start_mark.line + 1
            out[key] = _plain(loader, value_node, (*at, key), lines, path)
        return out
    if isinstance(node, yaml.SequenceNode):
        return tuple(_plain(loader, item, (*at, i), lines, path)
                     for i, item in enumerate(node.value))
    try:
        return loader.construct_object(node)
    except (ValueError, LookupError) as error:  # a tag set by hand on other text
        raise InputError.expected("a value of its tag", got=str(error) or repr(node.value)[:40],
                                  where=f"{show(path)}:{line}") from None


def parse(model: type[M], source: Located) -> M:
    """Validate a file's data. One problem is told, with the number of the others: a misspelt key
    before the key that it leaves missing, else the first."""
    try:
        return model.model_validate(source.data)
    except ValidationError as error:
        problems = error.errors(include_url=False)
    first = min(problems, key=lambda p: p["type"] != "extra_forbidden")
    at = tuple(p for p in first["loc"] if p != "[key]")
    if first["type"] == PROBLEM:
        at += first["ctx"]["at"]
    n = len(problems) - 1
    more = f" (and {n} more problem{'s' if n > 1 else ''})" if n else ""
    raise source.error(at, _explain(model, first, at) + more)


def _explain(model: type[BaseModel], problem: Any, at: Path_) -> str:
    where = _dotted(at)
    if problem["type"] == "extra_forbidden":
        return f"unknown key {str(at[-1])!r} in {_dotted(at[:-1])}" + nearest(
            str(at[-1]), fields_at(model, at[:-1]))
    if problem["type"] == "missing":
        what = f"key {at[-1]!r}" if isinstance(at[-1], str) else f"item {at[-1] + 1}"
        return f"expected {what} in {_dotted(at[:-1])}, got none"
    got = _shown(problem["input"])
    wanted = _SIZE.sub(r"\1", str(problem["msg"]).removeprefix("Input should be "))
    context = problem.get("ctx", {})
    if problem["type"] == PROBLEM:
        return f"{where}: {context['message']}"
    if problem["type"] == "string_pattern_mismatch":
        wanted = IN_WORDS.get(context["pattern"], wanted)
    elif problem["type"] == "literal_error":
        known = re.findall(r"'([^']*)'", context["expected"])
        got += did_you_mean(str(problem["input"]), known) if known else ""
    elif problem["type"] in _PLAIN:
        wanted = _PLAIN[problem["type"]]
    elif problem["type"] == "string_type" and isinstance(problem["input"], bool | int | float):
        got += " (quote the text)"
    return f"{where}: expected {wanted}, got {got}"


def _shown(value: Any) -> str:
    """A value as YAML has it, shortened."""
    got = repr(list(value) if isinstance(value, tuple) else value)
    return got if len(got) <= 60 else got[:57] + "..."


def _dotted(at: Path_) -> str:
    out = ""
    for part in at:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else str(part)
    return out or "the file"


def fields_at(model: type[BaseModel], at: Path_) -> list[str]:
    """Field names of the model that stands at a path of an error."""
    kind: Any = model
    for part in at:
        kind = _unwrap(kind)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found = kind.model_fields.get(str(part))
            kind = found.annotation if found is not None else None
        else:
            args = typing.get_args(kind)
            kind = args[-1 if typing.get_origin(kind) is dict else 0] if args else None
    kind = _unwrap(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return list(kind.model_fields)
    return []


def _unwrap(kind: Any) -> Any:
    """Strip `Annotated` and `| None`."""
    while True:
        origin = typing.get_origin(kind)
        if origin is typing.Annotated:
            kind = typing.get_args(kind)[0]
        elif origin in (types.UnionType, typing.Union):
            kind = next((a for a in typing.get_args(kind) if a is not type(None)), None)
        else:
            return kind
