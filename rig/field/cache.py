"""Frame features of calls by content: a study that was broken off goes on where it was.

What is kept depends on the samples, the channel map and the detector's weights alone, so another
threshold reads it too. A file that is damaged or foreign counts as missing; the folder may be
deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audio.band_edges import BANDS_HZ, HOP_N
from audio.crosstalk import Leak
from audio.errors import AudioFileError, InputError
from audio.files import atomic_path, sha256_file
from audio.silero import WEIGHTS_SHA256
from audio.silero_graph import FRAME_N
from rig.field.ingest import CallFeatures, SideFeatures, ingest
from rig.field.sources import CallSource

VERSION = 8
"""Of what is kept: raised when a feature means something else."""
SUFFIX = ".features"
MOST_BYTES = 1 << 30
"""Of one call: two days, at 132 bytes each 32 ms. More was not written here."""
_MAGIC = b"duplexrig field features\n"
_SEAL_N = 64
_SIDES = ("caller", "agent")
_ARRAYS: dict[str, tuple[str, int]] = {
    "probabilities": ("<f4", 1), "power": ("<f4", 1), "two": ("<f4", 1), "eight": ("<f4", 1),
    "bin": ("<i2", 1), "bands": ("u1", FRAME_N // HOP_N * (len(BANDS_HZ) - 1))}
"""What a side has for every frame of 32 ms: type, and how many."""


def load_features(source: CallSource, cache_dir: Path | None) -> CallFeatures:
    """Features of a call, kept or made. Raises `AudioFileError` when it cannot be used."""
    if cache_dir is None:
        return ingest(source)
    try:
        content = "\n".join([*(sha256_file(path) for path in source.paths),
                             str(source.caller.channel), str(source.agent.channel)])
    except InputError as error:
        raise AudioFileError(str(error)) from error
    key = hashlib.sha256(f"{content}\n{WEIGHTS_SHA256}\n{VERSION}".encode()).hexdigest()
    path = cache_dir / f"{key}{SUFFIX}"
    found = _read(path, key)
    if found is None:
        found = ingest(source)
        _write(path, key, found)
    return found


def _read(path: Path, key: str) -> CallFeatures | None:
    """What is kept under a key; `None` for nothing, for what is damaged, and for what somebody else
    wrote: a seal can be forged, so nothing in it is run and no size in it is believed."""
    data = _bytes(path)
    if data is None:
        return None
    head, body = len(_MAGIC), data.find(b"\n", len(_MAGIC) + _SEAL_N)
    if not data.startswith(_MAGIC) or body < 0:
        return None
    if data[head:head + _SEAL_N] != _seal(key, memoryview(data)[head + _SEAL_N:]):
        return None
    try:
        facts = json.loads(data[head + _SEAL_N:body])
        frames_n = max(0, -(-int(facts["samples_n"]) // FRAME_N))
        arrays: dict[str, NDArray[Any]] = {}
        at = body + 1
        for side in _SIDES:
            for name, (kind, columns) in _ARRAYS.items():
                count = frames_n * columns
                found = np.frombuffer(data, kind, count, at)
                at += found.nbytes
                if name == "bands":
                    found = found.reshape(-1, len(BANDS_HZ) - 1)
                arrays[f"{side}.{name}"] = found
        return _features(facts, arrays) if at == len(data) else None
    except Exception:  # noqa: BLE001 - what is sealed and no features fails in a dozen ways
        return None


def _bytes(path: Path) -> bytes | None:
    """The whole file in one read: opening an archive of arrays takes longer than measuring a short
    call. `None` for what is no plain file: a pipe would be waited for, a device never end."""
    try:
        with open(path, "rb", opener=_at_once) as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode) or state.st_size > MOST_BYTES:
                return None
            return file.read(state.st_size)
    except OSError:
        return None


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _write(path: Path, key: str, features: CallFeatures) -> None:
    """Keep features. Without a flush to the disk: after a crash of the machine a file may be torn,
    which its seal tells, and thousands of short calls would wait for the disk."""
    content = b"".join([json.dumps(_facts(features), sort_keys=True).encode(), b"\n", *(
        np.ascontiguousarray(getattr(getattr(features, side), name), kind).data.cast("B")
        for side in _SIDES for name, (kind, _) in _ARRAYS.items())])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path, durable=False) as temporary, temporary.open("wb") as file:
            file.write(_MAGIC)
            file.write(_seal(key, content))
            file.write(content)
    except (OSError, InputError):
        return  # a convenience: on a read-only disk the study goes on without


def _seal(key: str, content: bytes | memoryview) -> bytes:
    """What a file must carry to be believed: it is for these samples, and undamaged."""
    digest = hashlib.sha256(f"{key}\n".encode())
    digest.update(content)
    return digest.hexdigest().encode()


def _facts(features: CallFeatures) -> dict[str, Any]:
    sides = {side: {f.name: getattr(getattr(features, side), f.name)
                    for f in fields(SideFeatures) if f.name not in _ARRAYS}
             for side in _SIDES}
    leaks = {name: None if (leak := getattr(features, name)) is None else asdict(leak)
             for name in ("leak_to_caller", "leak_to_agent")}
    return {**sides, **leaks, "samples_n": features.samples_n,
            "correlation": features.correlation, "warnings": features.warnings,
            "channels_n": features.channels_n}


def _features(facts: dict[str, Any], arrays: dict[str, Any]) -> CallFeatures:
    def side(name: str) -> SideFeatures:
        kept = dict(facts[name])
        kept["bad_ns"] = [(int(a), int(b)) for a, b in kept["bad_ns"]]
        return SideFeatures(**kept, **{a: arrays[f"{name}.{a}"] for a in _ARRAYS})

    def leak(name: str) -> Leak | None:
        kept = facts[name]
        return None if kept is None else Leak(**{**kept, "lags_s": tuple(kept["lags_s"])})

    return CallFeatures(
        side("caller"), side("agent"), int(facts["samples_n"]), facts["correlation"],
        leak("leak_to_caller"), leak("leak_to_agent"),
        [(str(code), str(detail)) for code, detail in facts["warnings"]], int(facts["channels_n"]))
