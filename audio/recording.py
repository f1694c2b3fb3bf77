"""One recording: what it is, how much of it is really there, and its samples in order.

The inside of `audio.files`, which is the door. The length is what is present, not what a header
says: streaming headers, sizes wrapped at 4 GiB, cut files and MP3s without a length tag are
measured (`wavheader`, `mp3header`). What a file lacks at its end becomes the warning `truncated`;
a decoder that stops anywhere else is an error, as a shorter recording would be a wrong measurement.
"""

from __future__ import annotations

import io
import mmap
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import soundfile

from audio import mp3header, wavheader
from audio.buffers import Float32
from audio.errors import AudioFileError
from audio.resample import RATE_MAX_HZ, RATE_MIN_HZ
from audio.timebase import n_to_s

TRUNCATED = "truncated"
"""Warning code (design, contracts): the file ends before its header or its format says."""

BLOCK_VALUES = 1 << 18
"""Samples of all channels handled at once: 1 MiB of float32, our choice."""

_SAMPLE_BYTES = {
    "PCM_U8": 1, "PCM_S8": 1, "ULAW": 1, "ALAW": 1, "PCM_16": 2, "PCM_24": 3, "PCM_32": 4,
    "FLOAT": 4, "DOUBLE": 8,
}
_OGG_PAGE_MAX = 27 + 255 + 255 * 255
_UNKNOWN_LENGTH = 1 << 62
"""libsndfile reports about 2**63 frames for a FLAC stream that does not know its length."""


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
class _View:
    """The bytes a decoder gets to see: a prefix of ours, then `length` bytes of the file."""

    prefix: bytes
    offset: int
    length: int


class _Window:
    """A view as the file object that soundfile asks for.

    It has no name, so that no extension decides what the bytes are. A disk error cannot be raised
    through libsndfile's callbacks: it is kept in `error` and the reader raises it.
    """

    def __init__(self, handle: BinaryIO, view: _View) -> None:
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


class _Decoder(soundfile.SoundFile):  # type: ignore[misc]
    """A decoder that is read straight on.

    soundfile seeks to where it already is after every read. For MP3 that starts the decoder anew,
    so that the samples depend on the block length and, in a damaged file, on luck.
    """

    def seekable(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Recording:
    """An inspected file.

    counted: the length was found by decoding to the point where the decoder gave up, so it may
    give up there again.
    """

    info: AudioInfo
    view: _View
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
        with _opened(info.path, self.view) as (sound, window):
            at = 0
            # Only sample-by-sample formats can be entered in the middle without doubt.
            if start_n and info.subtype in _SAMPLE_BYTES and not self.counted:
                at = sound.seek(start_n)
            while at < stop_n:
                # Up to start_n the frames are decoded and dropped.
                end = min(at + size_n, stop_n if at >= start_n else start_n)
                block = out[: end - at]
                try:
                    got_n, why = _fill(sound, window, block, give_up=self.counted), "stops"
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
def _opened(path: Path, view: _View) -> Iterator[tuple[_Decoder, _Window]]:
    """A decoder on a view of a file. Whatever goes wrong below becomes an `AudioFileError`."""
    window: _Window | None = None
    try:
        with path.open("rb") as handle:
            window = _Window(handle, view)
            with _Decoder(window) as sound:
                yield sound, window
    except soundfile.LibsndfileError as error:
        why = error.error_string.rstrip(".")
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


def _fill(
    sound: _Decoder, window: _Window, out: Float32, *, give_up: bool = False
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


def inspect(path: Path) -> Recording:
    """Find out what a file is and how much of it can be read.

    Raises `AudioFileError` as `audio.files.probe` says.
    """
    size = _size(path)
    view = _View(b"", 0, size)
    warnings: list[str] = []
    try:
        with path.open("rb") as handle:
            wav = wavheader.read_layout(handle, size)
            if wav is not None and wav.rewrite:
                view = _View(wav.fresh_header(), wav.data_offset, wav.data_bytes)
            with _opened(path, view) as (sound, _):
                kind = sound.format
            mp3 = None
            if kind == "MP3":
                with mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    mp3 = mp3header.read_layout(data)
            if kind == "OGG" and not _ogg_is_whole(handle, size):
                warnings.append("the Ogg stream has no end mark")
    except OSError as error:
        raise AudioFileError.expected(
            "a file that can be read", got=reason(error), where=show(path)
        ) from error
    if mp3 is not None and mp3.rewrite:
        view = _View(mp3.tag_frame(), mp3.audio_offset, mp3.audio_end - mp3.audio_offset)

    with _opened(path, view) as (sound, _):
        rate_hz, channels, subtype = sound.samplerate, sound.channels, sound.subtype
        declared_n = frames_n = sound.frames
        doubtful = kind == "FLAC" and not _has_last_frame(sound)
    if not RATE_MIN_HZ <= rate_hz <= RATE_MAX_HZ:
        raise AudioFileError.expected(
            f"a sample rate of {RATE_MIN_HZ} to {RATE_MAX_HZ} Hz", got=f"{rate_hz} Hz",
            where=show(path),
        )
    if mp3 is not None:
        doubtful = mp3.tagged is not None and mp3.tagged > mp3.frames
        if mp3.rewrite and abs(frames_n - mp3.frames * mp3.frame_n) > 2 * mp3.frame_n:
            raise AudioFileError.expected(
                f"an MP3 whose {mp3.frames} frames can be decoded (convert it to WAV)",
                got=f"{frames_n} samples", where=show(path),
            )
    exhausted = True
    if doubtful:
        frames_n, exhausted = _count(path, view, channels)
    if wav is not None:
        warnings += _wav_warnings(wav, subtype, channels, frames_n)
    if mp3 is not None and (mp3.cut or (mp3.tagged or 0) > mp3.frames + 1):
        promised = "" if mp3.tagged is None else f" of {mp3.tagged}"
        warnings.append(f"the file ends after {mp3.frames} whole MP3 frames{promised}")
    if kind == "FLAC" and doubtful and declared_n < _UNKNOWN_LENGTH:
        warnings.append(f"{frames_n} frames of the {declared_n} declared can be decoded")
    elif not exhausted:
        warnings.append(f"decoding stops after {frames_n} frames, before the end of the file")
    info = AudioInfo(
        path, rate_hz, channels, frames_n, subtype, tuple((TRUNCATED, text) for text in warnings)
    )
    return Recording(info, view, counted=doubtful)


def _size(path: Path) -> int:
    """Bytes of a regular file; anything else is refused before it is opened (a pipe would wait)."""
    wanted = "an audio file"
    try:
        status = path.stat()
    except OSError as error:
        raise AudioFileError.expected(wanted, got=reason(error), where=show(path)) from error
    except ValueError as error:
        raise AudioFileError.expected(
            wanted, got=f"a bad name: {error}", where=show(path)
        ) from error
    if stat.S_ISDIR(status.st_mode):
        raise AudioFileError.expected(wanted, got="a folder", where=show(path))
    if not stat.S_ISREG(status.st_mode):
        raise AudioFileError.expected(wanted, got="a device or pipe", where=show(path))
    if status.st_size == 0:
        raise AudioFileError.expected(wanted, got="an empty file (0 bytes)", where=show(path))
    return status.st_size


def _has_last_frame(sound: _Decoder) -> bool:
    """Can the last declared frame be decoded?"""
    frames_n: int = sound.frames
    if frames_n == 0 or frames_n >= _UNKNOWN_LENGTH:
        return frames_n == 0
    try:
        sound.seek(frames_n - 1)
        return bool(len(sound.read(1, dtype="float32")) == 1)
    except soundfile.LibsndfileError:
        return False


def _count(path: Path, view: _View, channels: int) -> tuple[int, bool]:
    """Frames that really decode, and whether the decoder went through the whole file."""
    out = np.empty((max(BLOCK_VALUES // channels, 1), channels), dtype=np.float32)
    frames_n = 0
    with _opened(path, view) as (sound, window):
        while True:
            got_n = _fill(sound, window, out, give_up=True)
            frames_n += got_n
            if got_n < len(out):
                return frames_n, window.exhausted


def _wav_warnings(
    wav: wavheader.WavLayout, subtype: str, channels: int, frames_n: int
) -> list[str]:
    if wav.missing_bytes:
        return [f"the header declares {wav.declared_bytes} bytes of samples, {wav.data_bytes} are "
                f"there ({frames_n} frames)"]
    frame_bytes = _SAMPLE_BYTES.get(subtype, 0) * channels
    odd_bytes = wav.data_bytes - frames_n * frame_bytes
    if frame_bytes and 0 < odd_bytes < frame_bytes:
        return [f"the last frame has {odd_bytes} of its {frame_bytes} bytes"]
    return []


def _ogg_is_whole(handle: BinaryIO, size: int) -> bool:
    """Is the last page complete and marked as the end of its stream (RFC 3533, section 6)?"""
    start = max(size - _OGG_PAGE_MAX, 0)
    handle.seek(start)
    tail = handle.read(size - start)
    at = tail.rfind(b"OggS")
    while at >= 0:
        head = tail[at : at + 27]
        if len(head) == 27 and head[4] == 0:
            lacing = tail[at + 27 : at + 27 + head[26]]
            if at + 27 + len(lacing) + sum(lacing) == len(tail):
                return bool(head[5] & 4)
        at = tail.rfind(b"OggS", 0, at)
    return False


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
