"""Which files make a call: a stereo file, or two mono files of one length."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from audio.errors import AudioFileError, InputError
from audio.files import TEMP_PREFIX

SUFFIXES = frozenset({
    ".wav", ".wave", ".rf64", ".w64", ".flac", ".mp3", ".ogg", ".oga", ".opus", ".m4a", ".mp4",
    ".aac", ".aif", ".aiff", ".au", ".caf", ".3gp", ".wma", ".webm", ".mka"})
"""What is taken from a folder; a file that is named is always tried."""
_SIDE = re.compile(r"(?i)^(.*?)([._ -]?)(caller|agent)(.*)$")


@dataclass(frozen=True, slots=True)
class Track:
    """One channel of one file."""

    path: Path
    channel: int


@dataclass(frozen=True, slots=True)
class CallSource:
    """A call to be measured. `name` is what the report calls it: the path as given. `words`,
    `reference`: files with what was heard and what was said (`rig.field.words`)."""

    name: str
    caller: Track
    agent: Track
    words: tuple[Path, ...] = ()
    reference: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """The one or two files."""
        if self.caller.path == self.agent.path:
            return (self.caller.path,)
        return (self.caller.path, self.agent.path)

    @property
    def files(self) -> tuple[Path, ...]:
        """Every file that is read for it."""
        more = () if self.reference is None else (self.reference,)
        return (*self.paths, *self.words, *more)


@dataclass(frozen=True, slots=True)
class ChannelMap:
    """Which channel of a stereo file is whose, counted from 0; `guessed` when nobody said,
    `both_named` when both were said and none was concluded from the other."""

    caller: int
    agent: int
    guessed: bool
    both_named: bool


def channel_map(caller: str | None, agent: str | None) -> ChannelMap:
    """From `--caller-channel` and `--agent-channel`; one given implies the other of the two.

    Nothing given: left is the caller, marked as a guess. Who speaks first is never asked: agents
    greet on inbound calls and callees on outbound ones. Raises `InputError`.
    """
    first = None if caller is None else _channel(caller, "--caller-channel")
    second = None if agent is None else _channel(agent, "--agent-channel")
    if first is None and second is None:
        return ChannelMap(0, 1, guessed=True, both_named=False)
    both_named = first is not None and second is not None
    if first is None or second is None:
        known = second if first is None else first
        if known not in (0, 1):
            raise InputError.expected("--caller-channel and --agent-channel both, for channels "
                                      "beyond the second", got=known, where="channel map")
        other = 1 - (known or 0)
        first, second = (other, known) if first is None else (first, other)
    assert first is not None
    assert second is not None
    if first == second:
        raise InputError.expected("different channels for caller and agent",
                                  got=f"{first} for both", where="channel map")
    return ChannelMap(first, second, guessed=False, both_named=both_named)


def _channel(text: str, option: str) -> int:
    named = {"left": 0, "right": 1, "l": 0, "r": 1}
    if text.lower() in named:
        return named[text.lower()]
    if text.isascii() and text.isdigit() and int(text) < 1024:
        return int(text)
    raise InputError.expected("left, right, or a channel counted from 0", got=repr(text),
                              where=option)


def find_calls(
    paths: Sequence[Path], pairs: Sequence[tuple[Path, Path]], channels: ChannelMap
) -> list[CallSource]:
    """The calls of files, folders (searched through) and named pairs, each once, in order.

    In a folder, two files whose names differ only in `caller` and `agent` are one call of two mono
    files. Raises `InputError` for a path that does not exist and when nothing is found.
    """
    out: list[CallSource] = []
    for path in paths:
        if not path.exists():
            raise InputError.expected("a recording or a folder", got="no such path", where=path)
        if path.is_dir():
            out += _folder(path, channels)
        else:
            out.append(_stereo(path, channels))
    for caller, agent in pairs:
        for path in (caller, agent):
            if not path.exists():
                raise InputError.expected("a recording", got="no such path", where=path)
        out.append(_pair(caller, agent))
    unique = {tuple(p.resolve() for p in source.paths): source for source in reversed(out)}
    found = [source for source in out
             if unique[tuple(p.resolve() for p in source.paths)] is source]
    if not found:
        searched = any(path.is_dir() for path in paths)
        raise InputError.expected(
            "at least one recording", where=", ".join(map(str, paths)) or "rig field",
            got="none; folders whose names begin with a dot are not searched" if searched
            else "none")
    return found


def _folder(folder: Path, channels: ChannelMap) -> list[CallSource]:
    """What cannot be looked into is a call too, so that it is skipped with its reason and never
    missing in silence: a folder without permission, a link to nothing. Folders whose names begin
    with a dot are caches and kept versions of other programs: passed over."""
    closed: list[Path] = []
    files: list[Path] = []
    for where, inside, names in os.walk(folder, onerror=lambda e: closed.append(Path(e.filename))):
        inside[:] = [name for name in inside if not name.startswith(".")]
        files += (path for name in names
                  if (path := Path(where, name)).suffix.lower() in SUFFIXES
                  and not name.startswith((TEMP_PREFIX, "._"))
                  and (path.is_file() or (path.is_symlink() and not path.exists())))
    files.sort()
    sides: dict[tuple[Path, str], dict[str, Path]] = {}
    for path in files:
        match = _SIDE.match(path.stem)
        if match is not None:
            rest = (path.parent, f"{match[1]}{match[2]}\0{match[4]}{path.suffix}".lower())
            sides.setdefault(rest, {})[match[3].lower()] = path
    paired = {p: both for both in sides.values() if len(both) == 2 for p in both.values()}
    out = []
    for path in files:
        if path not in paired:
            out.append(_stereo(path, channels))
        elif path == paired[path]["caller"]:
            out.append(_pair(path, paired[path]["agent"]))
    return out + [_stereo(path, channels) for path in sorted(closed)]


def _stereo(path: Path, channels: ChannelMap) -> CallSource:
    return CallSource(named(path), Track(path, channels.caller), Track(path, channels.agent))


def _pair(caller: Path, agent: Path) -> CallSource:
    return CallSource(f"{named(caller)} + {named(agent)}", Track(caller, 0), Track(agent, 0))


def named(path: Path) -> str:
    """A path as text. Bytes that are no UTF-8, which no JSON, CSV or page could hold, are written
    as `\\xff`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def require_two_sides(source: CallSource, channels: int) -> None:
    """Raise `AudioFileError` when a file has not the channels that the call needs."""
    wanted = max(source.caller.channel, source.agent.channel)
    if source.caller.path == source.agent.path and channels <= wanted:
        hint = "; two mono files a call: --pair CALLER AGENT" if channels == 1 else ""
        raise AudioFileError.expected(
            f"a recording with caller and agent on channels {source.caller.channel} and "
            f"{source.agent.channel}, counted from 0",
            got=f"{channels} channel{'s' if channels > 1 else ''}{hint}", where=source.name)
