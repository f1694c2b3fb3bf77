"""The one module below `rig` that touches the disk: recordings in, files out whole or not at all.

Reading: whatever libsndfile decodes (WAV, RF64, FLAC, Ogg, MP3, AU, AIFF and more), as float32 in
the file's own scale: PCM is divided by its full scale, float samples come as they are. How the
true length is found: `audio.inspection`. Non-finite samples are never handed out. An MP3 without
its encoder's tag begins with the encoder's delay (576 to 1105 samples, the same in all channels),
as nothing in the file tells it.

Writing: to a temporary name in the same folder, flushed to the disk, then renamed.

Every failure is one line: `AudioFileError` when reading a recording, `InputError` when writing.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import secrets
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import soundfile

from audio.buffers import SAMPLE_LIMIT, Float32, Int16, float_to_pcm16
from audio.errors import AudioFileError, InputError
from audio.inspection import TRUNCATED, inspect
from audio.interrupts import held_back
from audio.recording import (
    BLOCK_VALUES,
    AudioInfo,
    reason,
    refuse_non_finite,
    show,
)
from audio.resample import RATE_MAX_HZ, RATE_MIN_HZ, StreamResampler
from audio.timebase import ANALYSIS_RATE_HZ, convert_n

__all__ = [
    "TEMP_PREFIX", "TRUNCATED", "AudioInfo", "atomic_path", "atomic_write_bytes",
    "atomic_write_text", "blocks", "channel_pair", "plain_pcm16", "probe", "read",
    "read_analysis_channel", "read_channel", "require_channel", "sha256_file", "sha256_samples",
    "write_flac_pcm16", "write_wav_pcm16",
]

WAV_HEADER_BYTES = 44
TEMP_PREFIX = ".part-"
"""Start of the name of every unfinished file. One that is left over comes from a killed process
and may be deleted."""


# --- Reading ---------------------------------------------------------------------------------


def probe(path: str | Path) -> AudioInfo:
    """Look at a recording without keeping its samples.

    Decodes only when the length is in doubt (a damaged FLAC or MP3). Raises `AudioFileError` for a
    file that is missing, no regular file, empty, not audio, or has a rate outside
    RATE_MIN_HZ..RATE_MAX_HZ. A recording of 0 frames is allowed.
    """
    return inspect(Path(path)).info


def require_channel(info: AudioInfo, channel: int) -> None:
    """Raise `AudioFileError` unless the recording has `channel`, counted from 0."""
    whole = isinstance(channel, int | np.integer) and not isinstance(channel, bool)
    if not whole or not 0 <= channel < info.channels:
        raise AudioFileError.expected(
            f"a recording with channel {channel!r}, counted from 0",
            got=f"{info.channels} channel{'s' if info.channels > 1 else ''}",
            where=show(info.path),
        )


def read(path: str | Path, start_n: int = 0, stop_n: int | None = None) -> tuple[Float32, int]:
    """Read frames `[start_n, stop_n)`, to the end by default.

    Returns float32 `(frames, channels)`, also for one channel, and the rate in Hz. Raises
    `AudioFileError` as `probe` does, for a range outside the recording, a non-finite sample (with
    its position) and a decoder that fails.
    """
    recording = inspect(Path(path))
    start_n, stop_n = _range(recording.info, start_n, stop_n)
    out = np.empty((stop_n - start_n, recording.info.channels), dtype=np.float32)
    for at, block in recording.decode(start_n, stop_n):
        refuse_non_finite(recording.info, block, at)
        out[at - start_n : at - start_n + len(block)] = block
    return out, recording.info.rate_hz


def read_channel(
    path: str | Path, channel: int, start_n: int = 0, stop_n: int | None = None
) -> Float32:
    """Read one channel, counted from 0, as float32 `(frames,)`; otherwise like `read`.

    Only this channel is held in memory and only this one has to be finite.
    """
    recording = inspect(Path(path))
    require_channel(recording.info, channel)
    start_n, stop_n = _range(recording.info, start_n, stop_n)
    out = np.empty(stop_n - start_n, dtype=np.float32)
    for at, samples in recording.decode_channel(channel, start_n, stop_n):
        out[at - start_n : at - start_n + len(samples)] = samples
    return out


def blocks(path: str | Path, block_n: int) -> Iterator[Float32]:
    """Read a recording in pieces of `block_n` frames (the last may be shorter), memory bounded.

    Gives float32 `(frames, channels)`, each piece a new array. Raises like `read`; the file is
    looked at when the first piece is asked for.
    """
    if block_n < 1:
        raise InputError.expected("a block of at least 1 frame", got=block_n, where="blocks")
    recording = inspect(Path(path))
    for at, block in recording.decode(0, recording.info.frames_n, block_n):
        refuse_non_finite(recording.info, block, at)
        yield block.copy()


def channel_pair(path: str | Path, first: int, second: int) -> Iterator[tuple[Float32, Float32]]:
    """Read two channels, counted from 0, side by side in pieces `(frames,)`, memory bounded.

    Samples that are not finite come as 0: this is for looking at a recording, not for measuring it.
    Raises like `read_channel`, but for them.
    """
    recording = inspect(Path(path))
    for channel in (first, second):
        require_channel(recording.info, channel)
    for _, block in recording.decode(0, recording.info.frames_n):
        one, other = (np.nan_to_num(block[:, c], nan=0.0, posinf=0.0, neginf=0.0)
                      for c in (first, second))
        yield one, other


def plain_pcm16(path: str | Path) -> tuple[Int16, int] | None:
    """A file that `write_wav_pcm16` wrote, without decoding it: its samples, `(frames, channels)`,
    as a read-only view of the file that is read where it is touched, and the rate in Hz.

    `None` for every other file, also one that is cut or cannot be read: `read` and `blocks` say
    what is wrong with it.
    """
    try:
        size = Path(path).stat().st_size
        with Path(path).open("rb") as handle:
            header = handle.read(WAV_HEADER_BYTES)
    except (OSError, ValueError):
        return None
    if len(header) < WAV_HEADER_BYTES or size == WAV_HEADER_BYTES:
        return None
    channels, rate_hz = struct.unpack("<HI", header[22:28])
    if not 0 < channels <= 1024 or rate_hz == 0 or (size - WAV_HEADER_BYTES) % (2 * channels) \
            or size > 0xFFFFFFFF or rate_hz * channels > 0x3FFFFFFF \
            or header != _wav_header(channels, rate_hz, size - WAV_HEADER_BYTES):
        return None
    samples = np.memmap(path, dtype="<i2", mode="r", offset=WAV_HEADER_BYTES)
    return samples.reshape(-1, channels).view(np.ndarray), rate_hz


def read_analysis_channel(path: str | Path, channel: int) -> tuple[Float32, AudioInfo]:
    """Read one channel for analysis: offset removed, at ANALYSIS_RATE_HZ.

    The channel is taken as it is, never mixed with another. The offset is the mean of all its
    samples at the file's own rate; it is measured in a first pass over the file and subtracted in
    a second one, before resampling, so that the ends of the recording show no step. Only the
    result is held in memory.

    Returns float32 `(convert_n(frames_n, rate_hz, 16000),)`, empty for an empty recording, and
    what the source is. Raises like `read_channel`, and for a sample beyond `SAMPLE_LIMIT`.
    """
    recording = inspect(Path(path))
    info = recording.info
    require_channel(info, channel)
    total = 0.0
    for at, samples in recording.decode_channel(channel, 0, info.frames_n):
        _refuse_off_scale(info, samples, at, channel)
        total += float(samples.sum(dtype=np.float64))
    mean = total / info.frames_n if info.frames_n else 0.0

    out = np.empty(convert_n(info.frames_n, info.rate_hz, ANALYSIS_RATE_HZ), dtype=np.float32)
    stream = StreamResampler(info.rate_hz, ANALYSIS_RATE_HZ)
    filled = 0
    for _, samples in recording.decode_channel(channel, 0, info.frames_n):
        piece = stream.push((samples.astype(np.float64) - mean).astype(np.float32))
        out[filled : filled + len(piece)] = piece
        filled += len(piece)
    out[filled:] = stream.flush()
    return out, info


def _refuse_off_scale(info: AudioInfo, samples: Float32, at: int, channel: int) -> None:
    """Raise `AudioFileError` with the position of the first sample beyond `SAMPLE_LIMIT`.

    samples: finite, `(frames,)` of `channel`. at: position of the first frame.
    """
    bad = np.abs(samples) > SAMPLE_LIMIT
    if bad.any():
        row = int(np.argmax(bad))
        raise AudioFileError.expected(
            f"samples on a full scale of 1, none beyond {SAMPLE_LIMIT:g}",
            got=f"{samples[row]:g} at sample {at + row} of channel {channel} (PCM numbers stored "
            "as floats?)", where=show(info.path),
        )


def _range(info: AudioInfo, start_n: int, stop_n: int | None) -> tuple[int, int]:
    stop_n = info.frames_n if stop_n is None else stop_n
    if not 0 <= start_n <= stop_n <= info.frames_n:
        raise AudioFileError.expected(
            f"a range inside the {info.frames_n} frames", got=f"[{start_n}, {stop_n})",
            where=show(info.path),
        )
    return start_n, stop_n


# --- Writing ---------------------------------------------------------------------------------


@contextmanager
def atomic_path(path: str | Path, *, durable: bool = True) -> Iterator[Path]:
    """Write a file whole or not at all.

    Gives the name of an empty temporary file in the same folder, with the same suffix. When the
    block ends well the file is flushed to the disk, renamed to `path` (over an older one) and the
    folder flushed; when it fails the temporary is removed and an older `path` stays as it was.
    `durable` false: without the flushes, for what comes in thousands and can be made again; only a
    machine that loses power can then leave a torn file.

    Raises `InputError` for every `OSError`, also of the block: a full or read-only disk, a missing
    folder, no permission. Other exceptions of the block pass unchanged.
    """
    target, temporary = _temporary_beside(path)
    try:
        try:
            yield temporary
            if durable:
                _flush(temporary)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        if durable:
            _flush(target.parent)
    except OSError as error:
        raise _cannot_write(target, error) from error


def check_targets(*paths: str | Path | None) -> None:
    """Raise `InputError` where `atomic_path` would, so that minutes of work are not lost to a path
    that was mistyped. `None` is no path."""
    for path in paths:
        if path is None:
            continue
        _, temporary = _temporary_beside(path)
        temporary.unlink(missing_ok=True)


def _temporary_beside(path: str | Path) -> tuple[Path, Path]:
    """What is to be written, links followed, and an empty temporary file beside it."""
    target = Path(path)
    try:
        if target.is_symlink():
            target = target.resolve()
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if target.exists() and not target.is_file():
            raise InputError.expected("a regular file to write", got="something else",
                                      where=show(target))
        name = f"{TEMP_PREFIX}{secrets.token_hex(8)}{target.suffix}"
        temporary = target.with_name(name)
        temporary.open("xb").close()
    except (OSError, ValueError) as error:
        raise _cannot_write(target, error) from error
    return target, temporary


def atomic_write_bytes(path: str | Path, data: bytes, *, durable: bool = True) -> None:
    """Write bytes through `atomic_path`."""
    with atomic_path(path, durable=durable) as temporary:
        temporary.write_bytes(data)


def atomic_write_text(path: str | Path, text: str, *, durable: bool = True) -> None:
    """Write text as UTF-8, line ends as they are, through `atomic_path`."""
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError.expected(
            "text that UTF-8 can hold", got=f"{error.reason} at character {error.start}",
            where=show(Path(path)),
        ) from None
    atomic_write_bytes(path, data, durable=durable)


def write_wav_pcm16(path: str | Path, samples: Float32 | Int16, rate_hz: int) -> None:
    """Write a 16-bit PCM WAV file, atomically; equal input gives equal bytes.

    `samples`: int16, written as they are, or float in [-1, 1] (rounded and saturated by
    `float_to_pcm16`), shape `(frames,)` or `(frames, channels)`; may be empty. The header is the
    plain one of 44 bytes. Raises `InputError` for wrong or non-finite samples, a wrong rate, more
    than 4 GiB, and a disk that cannot be written.
    """
    _check_samples(path, samples, rate_hz)
    frame_bytes = 2 * (1 if samples.ndim == 1 else samples.shape[1])
    data_bytes = len(samples) * frame_bytes
    if 36 + data_bytes > 0xFFFFFFFF:
        raise InputError.expected(
            "less than 4 GiB of samples in a WAV file", got=f"{data_bytes} bytes",
            where=show(Path(path)),
        )
    header = _wav_header(frame_bytes // 2, rate_hz, data_bytes)
    with atomic_path(path) as temporary, temporary.open("wb") as handle:
        handle.write(header)
        for piece in _pcm16_pieces(path, samples):
            handle.write(piece.astype("<i2", copy=False).tobytes())


def _wav_header(channels: int, rate_hz: int, data_bytes: int) -> bytes:
    """The 44 bytes before the samples of a plain 16-bit PCM WAV file."""
    return b"RIFF" + struct.pack("<I", 36 + data_bytes) + b"WAVEfmt " + struct.pack(
        "<IHHIIHH", 16, 1, channels, rate_hz, 2 * rate_hz * channels, 2 * channels, 16
    ) + b"data" + struct.pack("<I", data_bytes)


def write_flac_pcm16(path: str | Path, samples: Float32 | Int16, rate_hz: int) -> None:
    """Write a 16-bit FLAC file, atomically; samples and errors as in `write_wav_pcm16`.

    Equal input gives equal bytes with the same libFLAC (its name is in the file). At most 8
    channels and 655350 Hz, the format's own limits.
    """
    atomic_write_bytes(path, flac_pcm16(samples, rate_hz, where=path))


def flac_pcm16(samples: Float32 | Int16, rate_hz: int, *, where: str | Path = "FLAC",
               level: float | None = None) -> bytes:
    """The bytes that `write_flac_pcm16` writes, for audio inside something else. No tags: nothing
    but the samples, their rate and the encoder's name. `level`: effort from 0 (fastest) to 1
    (smallest); the encoder's own where it is not given."""
    _check_samples(where, samples, rate_hz)
    channels = 1 if samples.ndim == 1 else samples.shape[1]
    if channels > 8 or rate_hz > 655_350:
        raise InputError.expected(
            "at most 8 channels and 655350 Hz in a FLAC file",
            got=f"{channels} channels, {rate_hz} Hz", where=show(Path(where)),
        )
    if len(samples) == 0:
        return _empty_flac(channels, rate_hz)
    encoded = io.BytesIO()
    with held_back(), soundfile.SoundFile(
        encoded, "w", samplerate=rate_hz, channels=channels, format="FLAC", subtype="PCM_16",
        compression_level=level,
    ) as sound:
        for piece in _pcm16_pieces(where, samples):
            sound.write(piece)
    return encoded.getvalue()


def sha256_file(path: str | Path) -> str:
    """SHA-256 of a file's bytes, in hex. Raises `InputError` when it cannot be read."""
    try:
        with Path(path).open("rb") as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise InputError.expected(
            "a file that can be read", got=why, where=show(Path(path))
        ) from error


def sha256_samples(samples: Float32 | Int16) -> str:
    """SHA-256 of the samples alone, in hex: little-endian, frame by frame, int16 or float32.

    For int16 this is the hash of the `data` chunk of a WAV file. Neither the rate nor the number
    of channels is in it; int16 and float of the same sound differ. Other types: `InputError`.
    """
    if samples.dtype not in (np.int16, np.float32):
        raise InputError.expected(
            "int16 or float32 samples", got=samples.dtype, where="sha256_samples"
        )
    little = samples.astype(samples.dtype.newbyteorder("<"), copy=False)
    return hashlib.sha256(np.ascontiguousarray(little).tobytes()).hexdigest()


def _check_samples(path: str | Path, samples: Float32 | Int16, rate_hz: int) -> None:
    where = show(Path(path))
    if samples.ndim not in (1, 2) or (samples.ndim == 2 and not 1 <= samples.shape[1] <= 0x7FFF):
        raise InputError.expected(
            "samples of shape (frames,) or (frames, channels)", got=samples.shape, where=where
        )
    if samples.dtype not in (np.int16, np.float32, np.float64):
        raise InputError.expected("int16 or float samples", got=samples.dtype, where=where)
    whole = isinstance(rate_hz, int | np.integer) and not isinstance(rate_hz, bool)
    if not whole or not RATE_MIN_HZ <= rate_hz <= RATE_MAX_HZ:
        raise InputError.expected(
            f"a sample rate of {RATE_MIN_HZ} to {RATE_MAX_HZ} Hz", got=repr(rate_hz), where=where
        )


def _pcm16_pieces(path: str | Path, samples: Float32 | Int16) -> Iterator[Int16]:
    """PCM16 in pieces, so that the conversion needs no second copy of a long recording."""
    size_n = max(BLOCK_VALUES // (1 if samples.ndim == 1 else samples.shape[1]), 1)
    for at in range(0, len(samples), size_n):
        piece = samples[at : at + size_n]
        if piece.dtype == np.int16:
            yield np.ascontiguousarray(piece, dtype=np.int16)
            continue
        rows = np.isfinite(piece) if piece.ndim == 1 else np.isfinite(piece).all(axis=1)
        if not rows.all():
            raise InputError.expected(
                "finite samples to write",
                got=f"NaN or infinity at sample {at + int(rows.argmin())}",
                where=show(Path(path)),
            )
        yield float_to_pcm16(piece.astype(np.float32, copy=False))


def _empty_flac(channels: int, rate_hz: int) -> bytes:
    """A FLAC file of 0 frames (RFC 9639, section 8.2); libsndfile writes 0 bytes for it, which no
    decoder opens."""
    facts = rate_hz << 44 | (channels - 1) << 41 | 15 << 36
    info = struct.pack(">HH", 4096, 4096) + bytes(6) + facts.to_bytes(8, "big") + bytes(16)
    return b"fLaC" + bytes([0x80, 0, 0, len(info)]) + info


def _flush(path: Path) -> None:
    """Flush a file or a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems cannot flush a folder; the rename itself has happened.
        if error.errno != errno.EINVAL or not path.is_dir():
            raise
    finally:
        os.close(descriptor)


def _cannot_write(path: Path, error: OSError | ValueError) -> InputError:
    why = reason(error) if isinstance(error, OSError) else str(error)
    return InputError.expected("a file that can be written", got=why, where=show(path))
