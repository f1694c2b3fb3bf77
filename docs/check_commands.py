"""Runs the commands that README.md, docs/*.md and docs/models/*.md show; what `make docs` calls.

    python docs/check_commands.py [--list] [--jobs N] [FILE ...]

In blocks fenced as sh, bash, shell or console:

- a line that begins with `rig` is run, in order, in one empty folder a document; it must exit 0;
- in a block fenced with the extra word `no-run` (it needs a key, a microphone, hours) its command
  and options are only parsed;
- `make TARGET` must name a target of the Makefile; it is not run;
- anything else (git, pip, cd, export) is listed and left alone.

Documents run side by side, each told when it is through.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

import click

from rig.cli import app
from rig.clock import Stopwatch

ROOT = Path(__file__).resolve().parent.parent
LIMIT_S = 900.0
TOLD_S = 5.0
_FENCE = re.compile(r"^\s*```\s*(?P<info>.*)$")
_SHELLS = {"sh", "bash", "shell", "console"}


@dataclass(frozen=True, slots=True)
class Shown:
    """One command of a document: where it stands, its text, whether it may be run."""

    file: Path
    line: int
    text: str
    run: bool


def commands(file: Path) -> Iterator[Shown]:
    """The command lines of a document; backslash continuations joined, comments left out."""
    info: list[str] | None = None
    pending = ""
    begin = 0
    for number, raw in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        fence = _FENCE.match(raw)
        if fence:
            info = fence["info"].split() or [""] if info is None else None
            continue
        if info is None or info[0] not in _SHELLS:
            continue
        text = raw.strip()
        if info[0] == "console" and not pending:
            if not text.startswith("$ "):
                continue
            text = text[2:].strip()
        if not text or (text.startswith("#") and not pending):
            continue
        begin = begin if pending else number
        pending += text.removesuffix("\\")
        if not text.endswith("\\"):
            yield Shown(file, begin, pending, run="no-run" not in info)
            pending = ""


def _parse(text: str) -> str | None:
    """What is wrong with the words of a `rig` command, without running it."""
    words = shlex.split(text, comments=True)[1:]
    stop = next((i for i, word in enumerate(words)
                 if word in {"|", ">", "2>", "&&", "||", ";"}), None)
    words = words[:stop]
    try:
        # --version and --help print while they are parsed.
        with click.Context(app, info_name="rig") as context, contextlib.redirect_stdout(
                io.StringIO()):
            name, command, rest = app.resolve_command(context, words)
            if command is None:
                return f"no such command: {name}"
            command.make_context(name, list(rest), parent=context)
    except click.exceptions.Exit:
        return None
    except click.ClickException as error:
        return error.format_message()
    return None


def _run(text: str, folder: Path) -> str | None:
    """Why a command failed, or None."""
    scripts = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}"}
    try:
        done = subprocess.run(["bash", "-o", "pipefail", "-c", text], cwd=folder, env=env,
                              capture_output=True, text=True, timeout=LIMIT_S, check=False,
                              stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return f"not finished after {LIMIT_S:g} s"
    if done.returncode:
        return f"exit {done.returncode}: {done.stderr.strip() or done.stdout.strip()}"
    return None


def _make_targets() -> set[str]:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][a-z-]*):", text, flags=re.MULTILINE))


def check(shown: Shown, folder: Path, list_only: bool) -> tuple[str, str | None]:
    """What was done with a command (ran, parsed, target, left) and what was wrong with it."""
    first, _, rest = shown.text.partition(" ")
    if first == "make":
        targets = {word for word in shlex.split(rest, comments=True) if "=" not in word}
        unknown = sorted(targets - _make_targets())
        return "target", f"no such target: {', '.join(unknown)}" if unknown else None
    if first != "rig":
        return "left", None
    wrong = _parse(shown.text)
    if wrong is not None or list_only or not shown.run:
        return "parsed", wrong
    return "ran", _run(shown.text, folder)


def check_file(file: Path, list_only: bool) -> tuple[list[str], int, int]:
    """One document: what to print of it, how many commands it shows, how many failed."""
    lines: list[str] = []
    count = failed = 0
    with tempfile.TemporaryDirectory(prefix="rig_docs_") as folder:
        for shown in commands(file):
            watch = Stopwatch()
            done, wrong = check(shown, Path(folder), list_only)
            took_s = watch.elapsed_s
            count += 1
            failed += wrong is not None
            took = f" ({took_s:.0f} s)" if took_s >= TOLD_S else ""
            lines.append(f"{file.name}:{shown.line}: {'FAILED' if wrong else done}{took}: "
                         f"{shown.text}")
            if wrong:
                lines.append(f"    {wrong}")
    return lines, count, failed


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the commands that the documents show.")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE",
                        help="documents (default: README.md, docs/*.md, docs/models/*.md)")
    parser.add_argument("--list", action="store_true", help="parse only, run nothing")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), metavar="N",
                        help="documents at a time (default: %(default)s)")
    options = parser.parse_args()
    docs = ROOT / "docs"
    files = options.files or [ROOT / "README.md", *sorted(docs.glob("*.md")),
                              *sorted(docs.glob("models/*.md"))]
    count = failed = 0
    # Processes: parsing silences this process's standard output.
    with ProcessPoolExecutor(max(1, options.jobs)) as pool:
        for lines, n, wrong_n in pool.map(check_file, files, repeat(options.list)):
            for line in lines:
                print(line, flush=True)
            count += n
            failed += wrong_n
    print(f"{count} commands, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
