"""Recordings as background noise: what is taken, and at which rate and power."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from audio.active_level import rms_dbov
from audio.buffers import Float32
from audio.errors import InputError
from audio.files import probe, read_channel, sha256_file
from audio.noise import unit_power
from audio.resample import resample

MAX_NOISE_FILE_S = 600.0
MIN_NOISE_FILE_S = 1.0
"""Ours: a second is the least that does not sound like a buzz when it is repeated."""
MAX_NOISE_LOST_DB = 40.0
"""What a recording may lose of its power to the band of the system. Ours: noise that must be raised
by more is not what was recorded."""
SILENT_NOISE_DBOV = -140.0
"""`unit_power` refuses 1e-14. A mean in float32 is exact to -150 dB of what it is the mean of."""


def file_loop(path: Path, sha256: str, rate_hz: int) -> Float32:
    """Channel 0 of a recording at `rate_hz`, mean power 1. Raises `InputError` when it is not the
    file of that hash, silent, shorter than a second or longer than ten minutes."""
    if sha256_file(path) != sha256:
        raise InputError.expected("the recording that the run was planned with",
                                  got="other bytes (SHA-256 differs)", where=path)
    check_noise_file(path)
    info = probe(path)
    given, given_dbov = _without_mean(path)
    loop = resample(given, info.rate_hz, rate_hz)
    left_dbov = rms_dbov(loop)
    if left_dbov is None or given_dbov is None or given_dbov - left_dbov > MAX_NOISE_LOST_DB:
        # What is left then is the ringing of the filter at both ends.
        raise InputError.expected(f"a recording with sound below {min(rate_hz, info.rate_hz) // 2} "
                                  "Hz", got="next to none", where=path)
    return unit_power(loop.astype(np.float64))


def _without_mean(path: Path) -> tuple[Float32, float | None]:
    """Channel 0 without its offset, which would ring at both ends, and its level; `None` where it
    is below what `unit_power` takes for silence."""
    samples = read_channel(path, 0)
    centred = samples - np.float32(samples.mean(dtype=np.float64))
    level = rms_dbov(centred)
    return centred, None if level is None or level <= SILENT_NOISE_DBOV else level


def check_noise_file(path: Path) -> None:
    """Raises `InputError` unless `path` is a recording of a useful length with some sound in it."""
    info = probe(path)
    if not MIN_NOISE_FILE_S <= info.frames_n / info.rate_hz <= MAX_NOISE_FILE_S:
        raise InputError.expected(f"a recording of {MIN_NOISE_FILE_S:g} to {MAX_NOISE_FILE_S:g} s",
                                  got=f"{info.frames_n / info.rate_hz:.1f} s", where=path)
    if _without_mean(path)[1] is None:
        raise InputError.expected("a recording with sound in channel 0", got="silence", where=path)
