"""M4A and other MPEG-4 audio, which libsndfile does not read: through PyAV, the extra `m4a`.

The length is found by decoding once, as the container's is of the encoder's frames and not of the
sound. The encoder's delay is cut off where the file tells it (FFmpeg does that by itself). Samples
come in the file's own rate, integer formats divided by their full scale.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from audio.buffers import Float32
from audio.errors import AudioFileError
from audio.recording import BLOCK_VALUES, AudioInfo, Recording, View, reason, show
from audio.resample import CHANNELS_MAX, RATE_MAX_HZ, RATE_MIN_HZ


def inspect_m4a(path: Path) -> Recording:
    """What the file is. Raises `AudioFileError`, also when the extra is missing."""
    av = _library(path)
    rate_hz = channels = frames_n = 0
    for block in _blocks(av, path):
        rate_hz, channels = block[1], block[0].shape[1]
        frames_n += len(block[0])
    if not frames_n:
        raise AudioFileError.expected("an M4A file with sound", got="none", where=show(path))
    if not RATE_MIN_HZ <= rate_hz <= RATE_MAX_HZ or not 1 <= channels <= CHANNELS_MAX:
        raise AudioFileError.expected(
            f"a sample rate of {RATE_MIN_HZ} to {RATE_MAX_HZ} Hz",
            got=f"{rate_hz} Hz, {channels} channels", where=show(path))
    return _M4aRecording(AudioInfo(path, rate_hz, channels, frames_n, "AAC"), View(b"", 0, 0),
                         counted=True)


class _M4aRecording(Recording):
    __slots__ = ()

    def decode(
        self, start_n: int, stop_n: int, block_n: int | None = None
    ) -> Iterator[tuple[int, Float32]]:
        """As `Recording.decode`."""
        if start_n >= stop_n:
            return
        info = self.info
        size_n = block_n or max(BLOCK_VALUES // info.channels, 1)
        held: list[Float32] = []
        held_n = at = 0
        position = start_n
        for samples, _ in _blocks(_library(info.path), info.path):
            part = samples[max(0, start_n - at) : max(0, stop_n - at)]
            at += len(samples)
            if len(part):
                held.append(part)
                held_n += len(part)
            while held_n >= size_n or (held_n and position + held_n == stop_n):
                whole = np.concatenate(held)
                yield position, whole[:size_n]
                position += min(size_n, held_n)
                held, held_n = [whole[size_n:]], max(0, held_n - size_n)
            if position == stop_n:
                return
        raise AudioFileError.expected(f"{info.frames_n} frames",
                                      got=f"a decoder that stops after {at}",
                                      where=show(info.path))


def _library(path: Path) -> Any:
    try:
        return importlib.import_module("av")
    except ImportError as error:
        raise AudioFileError.expected(
            "audio that libsndfile decodes (convert others first, or add the extra for M4A: pip "
            "install -c constraints.txt -e '.[m4a]' where duplexrig is)",
            got="M4A", where=show(path)) from error


def _blocks(av: Any, path: Path) -> Iterator[tuple[Float32, int]]:
    """Decoded frames `(frames, channels)` with their rate."""
    try:
        # A handle and a named format: nothing in the file can make FFmpeg open something else.
        with path.open("rb") as handle, av.open(handle, mode="r", format="mp4") as container:
            if not container.streams.audio:
                raise AudioFileError.expected("an audio track", got="none", where=show(path))
            stream = container.streams.audio[0]
            resampler = av.AudioResampler(format="fltp", layout=stream.layout, rate=stream.rate)
            for frame in container.decode(stream):
                for part in resampler.resample(frame):
                    yield np.ascontiguousarray(part.to_ndarray().T, dtype=np.float32), stream.rate
    except av.FFmpegError as error:
        raise AudioFileError.expected("an M4A file that can be decoded",
                                      got=f"'{' '.join(str(error).split())}'",
                                      where=show(path)) from error
    except OSError as error:
        raise AudioFileError.expected("a file that can be read", got=reason(error),
                                      where=show(path)) from error
