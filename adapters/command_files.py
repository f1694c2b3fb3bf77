"""The files of a command that decide what its process does, as far as the command names them.

A run goes on with the same ones alone, so its fingerprint holds their content. What a command loads
without naming it (installed packages, modules beside a script) is not seen: a worker's hello can
say it. Nothing is started.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MAX_FILE_BYTES = 1_000_000
"""Larger files are weights, which a hello names, and not read. Ours."""
MAX_FILES_N = 2000
"""Of one command: far more than a model's own code has. Ours."""
MAX_BYTES = 32_000_000
"""Of all of them. Ours: read in a tenth of a second."""
MAX_FOLDERS_N = 5000
"""Below a folder that is named: "/" is one, too. Ours."""
KIT = "worker_kit"
"""The folder that a script finds beside itself."""
_LOOKED_INTO_BYTES = 4096

_SHARED_PROGRAM = re.compile(r"(?:python|pypy)[\d.]*|(?:ba|da|z|k|fi)?sh|env|uv|conda|mamba|nice")
"""Found on the PATH under these names, it is no model's own script, also where it is a script
(the shims of a version manager)."""
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_NOT_OURS = frozenset({"__pycache__", "site-packages", "node_modules"})


@dataclass(frozen=True, slots=True)
class CommandFiles:
    """`sha256` over what was read, empty where nothing was; `whole` is false where there was more
    than is looked at."""

    sha256: str
    whole: bool

    @property
    def caution(self) -> str | None:
        """What the fingerprint cannot tell, in one line."""
        if not self.sha256:
            return ("no file of the worker's command is part of the run's fingerprint: another "
                    "model behind the same command is known by its hello alone")
        if not self.whole:
            return (f"the worker's command names more code than is looked at ({MAX_FILES_N} files, "
                    f"{MAX_BYTES // 10**6} MB, {MAX_FOLDERS_N} folders): only the first of it is "
                    "part of the run's fingerprint")
        return None


def command_files(command: Sequence[str]) -> CommandFiles:
    """Read what a command names: scripts, files of at most `MAX_FILE_BYTES`, the Python files of
    folders and of modules (`-m`) below the working folder, the words of a shell's command line, and
    the folder `worker_kit` beside a script."""
    search = _Search()
    search.command(command)
    digest = hashlib.sha256()
    for content in search.contents:
        # Without names: a checkout may be moved.
        digest.update(b"%d " % len(content) + content)
    return CommandFiles(digest.hexdigest() if search.contents else "", search.whole)


class _Search:
    """Looks at one command; every file is read once, in the order in which it is named."""

    def __init__(self) -> None:
        self.contents: list[bytes] = []
        self.whole = True
        self._seen: set[Path] = set()
        self._bytes_n = 0

    def command(self, words: Sequence[str]) -> None:
        if words:
            self._program(words[0])
            self._arguments(words[1:], deeper=True)

    def _program(self, word: str) -> None:
        """The program itself where it is a script: its text is what is run."""
        if Path(word).name == word:
            found = shutil.which(word)
            if found is None or _SHARED_PROGRAM.fullmatch(word):
                return
            word = found
        if _is_small_file(Path(word)) and _is_text(Path(word)):
            self._script(Path(word))

    def _arguments(self, words: Sequence[str], deeper: bool) -> None:
        before = ""
        for word in words:
            if before == "-m" or word.startswith("-m"):
                self._module(word if before == "-m" else word[2:])
            before = word
            value = word.partition("=")[2]
            found = self._named(word) or (bool(value) and self._named(value))
            if not found and deeper and len(word.split()) > 1:
                self._arguments(_shell_words(word), deeper=False)

    def _named(self, word: str) -> bool:
        path = Path(word)
        if _is_small_file(path):
            self._script(path)
        elif _is_folder(path) and word:
            self._code_below(path)
        else:
            return False
        return True

    def _module(self, name: str) -> None:
        """`package.module`, by its place below the working folder: of a package, all of it."""
        if _MODULE.fullmatch(name):
            top = name.partition(".")[0]
            self._named(f"{top}.py")
            if _is_folder(Path(top)):
                self._code_below(Path(top))

    def _script(self, path: Path) -> None:
        """It, and the kit where Python looks for it: beside the file that a link leads to."""
        self._read(path)
        kit = path.resolve().parent / KIT
        if _is_folder(kit):
            self._code_below(kit)

    def _code_below(self, folder: Path) -> None:
        left_n = MAX_FOLDERS_N
        for root, folders, files in os.walk(folder):
            folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in _NOT_OURS)
            left_n -= 1
            if left_n < 0:
                self.whole = False
            if not self.whole:
                return
            for name in sorted(files):
                path = Path(root, name)
                if name.endswith(".py") and not name.startswith(".") and _is_small_file(path):
                    self._read(path)

    def _read(self, path: Path) -> None:
        real = path.resolve()
        if real in self._seen:
            return
        self._seen.add(real)
        try:
            with real.open("rb") as file:
                content = file.read(MAX_FILE_BYTES)
        except OSError:
            return  # what the rig cannot read, a worker with its rights cannot either
        self._bytes_n += len(content)
        if len(self.contents) >= MAX_FILES_N or self._bytes_n > MAX_BYTES:
            self.whole = False
            return
        self.contents.append(content)


def _shell_words(text: str) -> list[str]:
    """The words of a shell's command line, its operators among them."""
    words = shlex.shlex(text, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    try:
        return list(words)
    except ValueError:  # quotes that are not closed
        return text.split()


def _is_small_file(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size <= MAX_FILE_BYTES
    except (OSError, ValueError):  # a name that is too long is an error, too
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _is_text(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return b"\0" not in file.read(_LOOKED_INTO_BYTES)
    except OSError:
        return False
