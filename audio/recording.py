"""One recording: what it is, and its samples in order.

The inside of `audio.files`, which is the door; `audio.inspection` finds out what a file is. A
decoder that stops before the frames that were counted is an error, as a shorter recording would be
a wrong measurement.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import soundfile

from audio.buffers import Float32
from audio.errors import AudioFileError
from audio.interrupts import held_back
from audio.timebase import n_to_s

BLOCK_VALUES = 1 << 18
"""Samples of all channels handled at once: 1 MiB of float32, our choice."""

SAMPLE_BYTES = {
    "PCM_U8": 1, "PCM_S8": 1, "ULAW": 1, "ALAW": 1, "PCM_16": 2, "PCM_24": 3, "PCM_32": 4,
    "FLOAT": 4, "DOUBLE": 8,
}


@dataclass(frozen=True, slots=True)
class AudioInfo:
    """What a recording is.

    path: as given. rate_hz: as the header says, right or wrong. frames_n: frames that can be read.
    subtype: libsndfile's name of the encoding (`PCM_16`, `ULAW`, `VORBIS` …). warnings: pairs of a
    code and a sentence.
    """

    path: Path
    rate_hz: int
    channels: int
    frames_n: int
    subtype: str
    warnings: tuple[tuple[str, str], ...] = ()

    @property
    def duration_s(self) -> float:
        """Length in seconds at the header's rate."""
        return n_to_s(self.frames_n, self.rate_hz)


@dataclass(frozen=True, slots=True)
class View:
    """The bytes a decoder gets to see: a prefix of ours, then `length` bytes of the file."""

    prefix: bytes
    offset: int
    length: int


class _Window:
    """A view as the file object that soundfile asks for.

    It has no name, so that no extension decides what the bytes are. A disk error cannot be raised
    through libsndfile's callbacks: it is kept in `error` and the reader raises it.
    """

    def __init__(self, handle: BinaryIO, view: View) -> None:
        self._handle = handle
        self._view = view
        self._size = len(view.prefix) + view.length
        self._at = 0
        self._furthest = 0
        self.error: OSError | None = None

    @property
    def exhausted(self) -> bool:
        """Has the decoder seen the last byte?"""
        return self._furthest >= self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:
        wanted = max(min(len(buffer), self._size - self._at), 0)
        head = self._view.prefix[self._at : self._at + wanted]
        try:
            tail = b""
            if len(head) < wanted:
                at = self._at + len(head) - len(self._view.prefix)
                self._handle.seek(self._view.offset + at)
                tail = self._handle.read(wanted - len(head))
        except OSError as error:
            self.error = error
            return 0
        data = head + tail
        buffer[: len(data)] = data
        self._at += len(data)
        self._furthest = max(self._furthest, self._at)
        return len(data)


class Decoder(soundfile.SoundFile):  # type: ignore[misc]
    """A decoder that is read straight on.

    soundfile seeks to where it already is after every read. For MP3 that starts the decoder anew,
    so that the samples depend on the block length and, in a damaged file, on luck.
    """

    def __init__(self, file: _Window) -> None:
        with held_back():
            super().__init__(file)

    def seekable(self) -> bool:
        return False

    # libsndfile asks for bytes from within: an interrupt there would be lost, and the file would
    # seem to end.

    def seek(self, frames: int, whence: int = io.SEEK_SET) -> int:
        with held_back():
            return int(super().seek(frames, whence))

    def read(self, *args: Any, **named: Any) -> Any:
        with held_back():
            return super().read(*args, **named)


@dataclass(frozen=True, slots=True)
class Recording:
    """An inspected file.

    counted: the length was found by decoding to the point where the decoder gave up, so it may
    give up there again.
    """

    info: AudioInfo
    view: View
    counted: bool

    def decode(
        self, start_n: int, stop_n: int, block_n: int | None = None
    ) -> Iterator[tuple[int, Float32]]:
        """Give `(position, block)` for the frames `[start_n, stop_n)`.

        The block is overwritten by the next one. Raises `AudioFileError` when the decoder gives
        fewer frames than were counted.
        """
        if start_n >= stop_n:
            return
        info = self.info
        size_n = block_n or max(BLOCK_VALUES // info.channels, 1)
        out = np.empty((min(size_n, stop_n), info.channels), dtype=np.float32)
        with opened(info.path, self.view) as (sound, window):
            at = 0
            # Only sample-by-sample formats can be entered in the middle without doubt.
            if start_n and info.subtype in SAMPLE_BYTES and not self.counted:
                at = sound.seek(start_n)
            while at < stop_n:
                # Up to start_n the frames are decoded and dropped.
                end = min(at + size_n, stop_n if at >= start_n else start_n)
                block = out[: end - at]
                try:
                    got_n, why = fill(sound, window, block, give_up=self.counted), "stops"
                except soundfile.LibsndfileError as error:
                    got_n, why = 0, f"fails ('{error.error_string.rstrip('.')}')"
                if window.error is not None:
                    raise window.error
                if got_n < len(block):
                    raise AudioFileError.expected(
                        f"{info.frames_n} frames", got=f"a decoder that {why} after {at + got_n}",
                        where=show(info.path),
                    )
                if at >= start_n:
                    yield at, block
                at = end

    def decode_channel(
        self, channel: int, start_n: int, stop_n: int
    ) -> Iterator[tuple[int, Float32]]:
        """Give `(position, samples)` of one channel; refuse non-finite ones."""
        for at, block in self.decode(start_n, stop_n):
            samples = block[:, channel]
            refuse_non_finite(self.info, samples, at, channel)
            yield at, samples


@contextmanager
def opened(path: Path, view: View) -> Iterator[tuple[Decoder, _Window]]:
    """A decoder on a view of a file. Whatever goes wrong below becomes an `AudioFileError`."""
    window: _Window | None = None
    try:
        with path.open("rb") as handle:
            window = _Window(handle, view)
            with Decoder(window) as sound:
                yield sound, window
    except soundfile.LibsndfileError as error:
        why = error.error_string.rstrip(".")
        if "SF_INFO" in why or why.startswith("Internal error"):
            # Of a rate or a number of channels that no recording has; its words are for its makers.
            why = "a header whose rate or channels make no sense"
        if window is not None and window.error is not None:
            why = reason(window.error)
        raise AudioFileError.expected(
            "audio that libsndfile decodes, such as WAV, FLAC, Ogg or MP3 (convert others first)",
            got=f"'{why}'", where=show(path),
        ) from error
    except OSError as error:
        raise AudioFileError.expected(
            "a file that can be read", got=reason(error), where=show(path)
        ) from error


def fill(
    sound: Decoder, window: _Window, out: Float32, *, give_up: bool = False
) -> int:
    """Decode into `out` and say how many frames came.

    With `give_up` a decoder that fails is one that ended. libsndfile has then written the good
    frames but soundfile raises before it tells their number, so they are told apart by a mark that
    no integer format can hold.
    """
    if give_up:
        out.fill(np.nan)
    try:
        got_n = len(sound.read(out=out))
    except soundfile.LibsndfileError:
        if not give_up or window.error is not None:
            raise
        got_n = int(np.count_nonzero(~np.isnan(out[:, 0])))
    if window.error is not None:
        raise window.error
    return got_n


def refuse_non_finite(
    info: AudioInfo, samples: Float32, at: int, channel: int | None = None
) -> None:
    """Raise `AudioFileError` with the position of the first sample that is not finite.

    samples: `(frames, channels)`, or `(frames,)` of `channel`. at: position of the first frame.
    """
    bad = ~np.isfinite(samples)
    if not bad.any():
        return
    rows = bad if bad.ndim == 1 else bad.any(axis=1)
    row = int(np.argmax(rows))
    if channel is None:
        channel = int(np.argmax(bad[row]))
    value = samples[row] if samples.ndim == 1 else samples[row, channel]
    raise AudioFileError.expected(
        "finite samples", got=f"{value} at sample {at + row} of channel {channel}",
        where=show(info.path),
    )


def reason(error: OSError) -> str:
    """What the system says, without the path."""
    return error.strerror or str(error)


def show(path: Path) -> str:
    """A path on one line: what cannot be printed is escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(path))
