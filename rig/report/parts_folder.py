"""Parts of a page as files beside it, in a folder that no other page reads.

The folder is named by what it holds, so that writing one page never touches what another shows:
broken off anywhere, the old page still shows its own parts, or the new one its own. What the pages
before left is removed once the new page stands: of sound that was left out, nothing stays.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from audio.errors import InputError
from audio.files import TEMP_PREFIX, atomic_write_bytes
from rig.store import make_folder

_BEGIN = "rigStore("
_HASH = 16
"""Hexadecimal digits of SHA-256; ours: names that no two of a folder's pages share by chance."""


def part_file(name: str, text: str, gzipped: bool) -> bytes:
    """The script that gives a part to the page that asked for it."""
    return f"{_BEGIN}{json.dumps(name)},{json.dumps(text)},{json.dumps(gzipped)});\n".encode()


def name_of(stem: str, data: Mapping[str, str], contents: Mapping[str, bytes]) -> str:
    """`STEM-HASH`, over the page's data and its parts."""
    digest = hashlib.sha256(json.dumps(sorted(data.items())).encode())
    for name, content in sorted(contents.items()):
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return f"{stem}-{digest.hexdigest()[:_HASH]}"


def write_parts(folder: Path, contents: Mapping[str, bytes]) -> int:
    """Write `NAME.js` for each; returns the bytes. Raises `InputError` where that cannot be."""
    make_folder(folder)
    for name, content in contents.items():
        atomic_write_bytes(folder / f"{name}.js", content)
    return sum(len(content) for content in contents.values())


def remove_others(stem: Path, keep: str) -> None:
    """Remove what other pages had beside `STEM`: folders named as here, or `STEM` alone as before,
    that hold nothing but parts. Raises `InputError` where one cannot be removed."""
    ours = re.compile(rf"{re.escape(stem.name)}(-[0-9a-f]{{{_HASH}}})?")
    for folder in sorted(stem.parent.iterdir()):
        if folder.name == keep or not ours.fullmatch(folder.name) or not _only_parts(folder):
            continue
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise InputError(f"{folder}: the new page is written, but parts of the page before "
                             f"cannot be removed: {error.strerror}") from error


def _only_parts(folder: Path) -> bool:
    if folder.is_symlink() or not folder.is_dir():
        return False
    for path in folder.iterdir():
        if path.is_symlink() or not path.is_file():
            return False
        if path.name.startswith(TEMP_PREFIX):
            continue
        with path.open("rb") as file:
            if path.suffix != ".js" or file.read(len(_BEGIN)) != _BEGIN.encode():
                return False
    return True
