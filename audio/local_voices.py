"""Files of models and voices on this machine: found in packages, or named by the user.

What a user names is data from anywhere: regular files only, bounded where they are read here, and
handed on by path to the process that speaks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from audio.errors import InputError
from audio.files import sha256_file

MAX_JSON_BYTES = 4 * 1024 * 1024
"""Ours: the configuration of a voice with 900 speakers has 40 kB, a tokenizer of XTTS 400 kB."""


def regular_file(path: str | Path, *, where: str) -> Path:
    """The absolute path of a regular file. Raises `InputError` for anything else."""
    found = Path(path).expanduser()
    try:
        if found.is_file():
            return found.resolve()
    except (OSError, ValueError):
        pass
    raise InputError.expected("a regular file", got=f"{str(path)[:200]!r}", where=where)


def read_json(path: Path, *, where: str) -> dict[str, Any]:
    """A JSON object of at most `MAX_JSON_BYTES`. Raises `InputError`."""
    size = path.stat().st_size
    if size > MAX_JSON_BYTES:
        raise InputError.expected(f"at most {MAX_JSON_BYTES} bytes", got=size, where=where)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise InputError.expected("a JSON file", got="something else", where=where) from None
    if not isinstance(value, dict):
        raise InputError.expected("a JSON object", got=type(value).__name__, where=where)
    return value


def package_files(distribution: str, suffix: str) -> tuple[Path, ...]:
    """Files of an installed distribution whose name ends with `suffix`; none if it is missing."""
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        return ()
    found = (Path(str(f.locate())) for f in files if f.name.endswith(suffix))
    return tuple(sorted(path for path in found if path.is_file()))


def names(text: str, *, where: str) -> tuple[str, ...]:
    """`A,B` to names in that order. Raises `InputError` for an empty or repeated one."""
    found = tuple(part.strip() for part in text.split(",")) if text else ()
    if any(not name or not name.isprintable() or len(name) > 100 for name in found) \
            or len(set(found)) != len(found):
        raise InputError.expected("different names, A,B,...", got=repr(text[:80]), where=where)
    return found


def sha256_of(files: Iterable[Path]) -> str:
    """One hash of several files: of their hashes in the order given."""
    return hashlib.sha256("".join(sha256_file(path) for path in files).encode()).hexdigest()


def whole_number(config: Mapping[str, Any], path: str, low: int, high: int, *, where: str) -> int:
    """The whole number at `a.b` of a configuration. Raises `InputError`."""
    value: Any = config
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InputError.expected(f"{path}: a whole number from {low} to {high}",
                                  got=repr(value)[:80], where=where)
    return value
