"""Finds out what a recording is and how much of it is really there.

The length is what is present, not what a header says: streaming headers, sizes wrapped at 4 GiB,
cut files and MP3s without a length tag are measured (`wavheader`, `declared_size`, `mp3header`).
What a file lacks at its end becomes the warning `truncated`.
"""

from __future__ import annotations

import mmap
import stat
from pathlib import Path
from typing import BinaryIO

import numpy as np
import soundfile

from audio import mp3header, wavheader
from audio.declared_size import DeclaredSize, declared_size
from audio.errors import AudioFileError
from audio.m4a import inspect_m4a
from audio.recording import (
    BLOCK_VALUES,
    SAMPLE_BYTES,
    AudioInfo,
    Decoder,
    Recording,
    View,
    fill,
    opened,
    reason,
    show,
)
from audio.resample import RATE_MAX_HZ, RATE_MIN_HZ
from audio.wavheader import WavLayout

TRUNCATED = "truncated"
"""Warning code (design, contracts): the file ends before its header or its format says, or another
part of it is read than its header declares."""

_OGG_PAGE_MAX = 27 + 255 + 255 * 255
_UNKNOWN_LENGTH = 1 << 62
"""libsndfile reports about 2**63 frames for a FLAC stream that does not know its length."""


def inspect(path: Path) -> Recording:
    """Find out what a file is and how much of it can be read.

    Raises `AudioFileError` as `audio.files.probe` says.
    """
    size = _size(path)
    if _is_m4a(path):
        return inspect_m4a(path)
    view = View(b"", 0, size)
    warnings: list[str] = []
    try:
        with path.open("rb") as handle:
            wav = wavheader.read_layout(handle, size)
            if wav is not None and wav.rewrite:
                view = View(wav.fresh_header(), wav.data_offset, wav.data_bytes)
            other = None if wav is not None else declared_size(handle, size)
            if other is not None and other.broken is not None:
                raise AudioFileError.expected("a recording", got=other.broken, where=show(path))
            if other is not None and other.head is not None:
                view = View(other.head, other.data_offset, other.data_bytes)
            with opened(path, view) as (sound, _):
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
        view = View(mp3.tag_frame(), mp3.audio_offset, mp3.audio_end - mp3.audio_offset)

    with opened(path, view) as (sound, _):
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
    header = wav or other
    if header is not None:
        warnings += _against(header, SAMPLE_BYTES.get(subtype, 0) * channels, frames_n)
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


def _is_m4a(path: Path) -> bool:
    """An ISO base media file (ISO/IEC 14496-12): not libsndfile's, so `audio.m4a` has it."""
    try:
        with path.open("rb") as handle:
            return handle.read(8)[4:] == b"ftyp"
    except OSError:
        return False  # told with its reason below


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


def _has_last_frame(sound: Decoder) -> bool:
    """Can the last declared frame be decoded?"""
    frames_n: int = sound.frames
    if frames_n == 0 or frames_n >= _UNKNOWN_LENGTH:
        return frames_n == 0
    try:
        sound.seek(frames_n - 1)
        return bool(len(sound.read(1, dtype="float32")) == 1)
    except soundfile.LibsndfileError:
        return False


def _count(path: Path, view: View, channels: int) -> tuple[int, bool]:
    """Frames that really decode, and whether the decoder went through the whole file."""
    out = np.empty((max(BLOCK_VALUES // channels, 1), channels), dtype=np.float32)
    frames_n = 0
    with opened(path, view) as (sound, window):
        while True:
            got_n = fill(sound, window, out, give_up=True)
            frames_n += got_n
            if got_n < len(out):
                return frames_n, window.exhausted


def _against(header: WavLayout | DeclaredSize, frame_bytes: int, frames_n: int) -> list[str]:
    """What a header says that is not so, in one sentence. `frame_bytes`: 0 where frames have no
    fixed length."""
    declared = header.declared_bytes
    if header.missing_bytes:
        return [f"the header declares {declared} bytes of samples, {header.data_bytes} are there "
                f"({frames_n} frames)"]
    read_bytes = frames_n * frame_bytes
    odd_bytes = (header.data_bytes if declared is None else declared) - read_bytes
    beside_n = header.frames_n if isinstance(header, DeclaredSize) else None
    if odd_bytes == 1 and read_bytes % 2 == 1 and beside_n == frames_n:
        odd_bytes = 0  # libsndfile counts the padding of AIFF to an even length
    if frame_bytes and not 0 <= odd_bytes < frame_bytes:
        there = (f"{header.data_bytes} bytes of samples are there" if declared is None else
                 f"the header declares {declared} bytes of samples")
        return [f"{there}, {read_bytes} are read ({frames_n} frames)"]
    if frame_bytes and beside_n not in (None, frames_n):
        return [f"the header declares {beside_n} frames, {frames_n} are read"]
    if header.behind_bytes:
        return [f"the header declares {declared} bytes of samples ({frames_n} frames); "
                f"{header.behind_bytes} more lie behind them that are no chunk and are not read"]
    if odd_bytes > 0 and frame_bytes:
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
