"""`rig new-suite`: a small complete suite of the user's own, whole or not at all."""

from __future__ import annotations

import re
import secrets
import shutil
from importlib import resources
from pathlib import Path

from audio.errors import InputError
from audio.files import TEMP_PREFIX
from probes.names import IN_WORDS, SUITE_NAME
from probes.yamlfile import show

EXAMPLE = "order_line"
"""Folder of the suite that is written; a test builds and plays it."""
MAX_NAME = 60
"""As in suite.yaml."""


def write_new_suite(folder: str | Path, name: str | None = None) -> tuple[str, tuple[Path, ...]]:
    """Write the example suite into a new or empty folder; its name and its files are returned.

    `name` goes into suite.yaml; absent, the folder's name is made to fit. The folder appears with
    all its files at once, and nothing is ever overwritten. Raises `InputError` for a bad name, a
    folder that holds anything, is a file, is the current one or cannot be written.
    """
    target = Path(folder).resolve()
    chosen = _fitting(target.name) if name is None else name
    if not re.fullmatch(SUITE_NAME, chosen) or len(chosen) > MAX_NAME:
        raise InputError.expected(f"{IN_WORDS[SUITE_NAME]}, at most {MAX_NAME} characters",
                                  got=repr(chosen), where="--name")
    _check_free(target)
    source = Path(str(resources.files("probes"))) / "suites" / EXAMPLE
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.parent / f"{TEMP_PREFIX}{secrets.token_hex(8)}"
        part.mkdir()
        try:
            written = _fill(part, source, chosen)
            # Replaces an empty folder and nothing else, in one step.
            part.rename(target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise InputError.expected("a new or empty folder that can be written",
                                  got=error.strerror or str(error), where=show(target)) from None
    return chosen, tuple(target / path for path in written)


def _fitting(folder_name: str) -> str:
    """A suite name that resembles a folder's, or that of the example."""
    plain = re.sub(r"[^a-z0-9]+", "-", folder_name.lower()).lstrip("-0123456789")
    return plain[:MAX_NAME].strip("-") or EXAMPLE.replace("_", "-")


def _check_free(target: Path) -> None:
    wanted = "a new or empty folder"
    if target == Path.cwd() or target in Path.cwd().parents:
        raise InputError.expected(wanted, got="the current one", where=show(target))
    if target.is_dir():
        try:
            inside = sorted(p.name for p in target.iterdir())
        except OSError as error:
            raise InputError.expected(wanted, got=error.strerror or str(error),
                                      where=show(target)) from None
        if inside:
            raise InputError.expected(wanted, got=f"a folder with {inside[0]}", where=show(target))
    elif target.exists():
        raise InputError.expected(wanted, got="a file", where=show(target))


def _fill(part: Path, source: Path, name: str) -> list[Path]:
    written = []
    for path in sorted(source.rglob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        if path.name == "suite.yaml":
            # The width of the comment's column is kept where the name allows it.
            text, n = re.subn(r"^name: \S+ *(?=#)", f"{f'name: {name}':<31} ", text, count=1,
                              flags=re.MULTILINE)
            assert n == 1, "suite.yaml of the example has a name"
        inner = path.relative_to(source)
        (part / inner).parent.mkdir(exist_ok=True)
        (part / inner).write_text(text, encoding="utf-8")
        written.append(inner)
    return written
