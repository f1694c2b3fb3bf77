"""Folders of other benchmarks' recordings, read with care: what every layout needs.

What is found becomes lines of a `rig rescore` manifest. An entry that cannot be mapped is skipped
under its name and reason, and the others go on. No path leaves the folder, also not by a link.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from audio.errors import InputError
from audio.files import probe
from audio.timebase import n_to_s
from verifiers.measurement import RECORD_BEYOND_NS
from verifiers.thresholds import TAKE_TURN_MAX_WAIT_S

MAX_JSON_BYTES = 256 * 2**20
"""A larger file is refused (ours): tau2-bench's simulations with their audio inside stay below."""
MAX_ENTRIES = 100_000
"""More entries in a folder are refused (ours): Full-Duplex-Bench has 727 and 499 samples."""
MAX_RECORDING_S = 3600.0
"""A longer recording is skipped (ours): their longest are minutes."""
BARGE_IN_S = 3.0
"""Window from the onset of a barge-in (DSB-IFEval, table 15)."""
REPLY_S = 10.0
"""Window behind the user's end (DSB-IFEval, R3_B and others)."""
RECORD_BEYOND_S = RECORD_BEYOND_NS / 1e9


class Skip(Exception):
    """This entry cannot be mapped; the message says why."""


@dataclass(slots=True)
class Found:
    """What a layout gave: manifest lines; stereo files to be made of a user's and a model's file,
    by the lines' `wav`; what was skipped, in order, and why."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    pairs: dict[str, tuple[Path, Path]] = field(default_factory=dict)
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def add(self, line_id: str, wav: str, action: str, start_s: float, end_s: float, probe: str,
            params: dict[str, Any] | None = None) -> None:
        """One case. Raises `Skip` where a manifest cannot hold it."""
        if len(line_id) > 200:
            raise Skip("its name is longer than a manifest takes")
        if "\\" in wav:
            raise Skip("its name has a character that a manifest does not take")
        self.lines.append({
            "id": line_id, "wav": wav, "user_channel": 0, "model_channel": 1,
            "expected_action": action, "window": {"start_s": start_s, "end_s": end_s},
            **({"params": params} if params else {}), "probe": probe})


class Tree:
    """A folder whose files are opened only inside it."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise InputError.expected("a folder of recordings", got="no such folder", where=root)
        self.root = root.resolve()

    def entries(self, folder: Path) -> list[Path]:
        """Sorted by name. Raises `InputError` for a folder that is too large or unreadable."""
        try:
            found = sorted(folder.iterdir())
        except OSError as error:
            raise InputError.expected("a readable folder", got=error.strerror or "another",
                                      where=folder) from error
        if len(found) > MAX_ENTRIES:
            raise InputError.expected(f"at most {MAX_ENTRIES} entries", got=len(found),
                                      where=folder)
        return found

    def name(self, path: Path) -> str:
        """Relative to the folder, for people and manifests; bytes that are no text are spelled."""
        name = path.relative_to(self.root).as_posix()
        return name.encode("utf-8", "backslashreplace").decode()

    def file(self, path: Path) -> Path:
        """A regular file inside. Raises `Skip`."""
        try:
            real = path.resolve()
        except (OSError, RuntimeError) as error:
            raise Skip(f"{path.name} cannot be followed") from error
        if not real.is_relative_to(self.root):
            raise Skip(f"{path.name} is a link out of the folder")
        if not real.is_file():
            raise Skip(f"no {path.name}")
        return path

    def json(self, path: Path) -> Any:
        """A JSON file inside, its numbers finite. Raises `Skip`."""
        self.file(path)
        try:
            if path.stat().st_size > MAX_JSON_BYTES:
                raise Skip(f"{path.name} is larger than {MAX_JSON_BYTES} bytes")
            return json.loads(path.read_bytes(), parse_constant=_refuse)
        except (OSError, ValueError, RecursionError) as error:
            raise Skip(f"{path.name} is not JSON that can be read") from error

    def length_s(self, path: Path, channels: int) -> float:
        """Length of a recording with exactly so many channels. Raises `Skip`."""
        try:
            info = probe(self.file(path))
        except InputError as error:
            raise Skip(f"{path.name} is not audio that can be read") from error
        if info.channels != channels:
            raise Skip(f"{path.name} has {info.channels} channels, not {channels}")
        length = n_to_s(info.frames_n, info.rate_hz)
        if not 0 < length <= MAX_RECORDING_S:
            raise Skip(f"{path.name} lasts {length:g} s, not up to {MAX_RECORDING_S:g} s")
        return length


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def span(value: Any, where: str, length_s: float) -> tuple[float, float]:
    """`[start, end]` in seconds inside a recording. Raises `Skip`."""
    good = (isinstance(value, list) and len(value) == 2
            and all(type(v) in (int, float) and math.isfinite(v) for v in value))
    if not good or not 0 <= value[0] < value[1]:
        raise Skip(f"{where} is not [start, end] in seconds")
    if value[0] >= length_s:
        raise Skip(f"{where} begins at {value[0]:g} s, behind the recording's {length_s:g} s")
    return float(value[0]), float(value[1])


def reply_window(user_end_s: float, recorded_s: float) -> tuple[float, float]:
    """Behind a user's end: 10 s, or what was recorded, but never less than the longest wait, so
    that an early end leaves the case unscored and does not fail it."""
    end = max(user_end_s + TAKE_TURN_MAX_WAIT_S,
              min(user_end_s + REPLY_S, recorded_s - RECORD_BEYOND_S))
    return user_end_s, end
