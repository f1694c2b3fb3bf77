"""What a RIFF/WAVE file really holds: where its samples lie and how many bytes are there.

Recorders that write into a pipe cannot go back to fill in the size, recorders that die leave the
size of a file that never came to be, and a 32-bit size wraps at 4 GiB. So the size that the header
declares is checked against the bytes present, and where it is no measure at all, a fresh header
for the same samples is built. Layout: RIFF/WAVE (IBM and Microsoft, 1991), RF64 (EBU Tech 3306).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import BinaryIO

from audio.chunks import CHUNKS_MAX, RIFF

_FMT_MAX = 1_024
"""Our bound on the `fmt ` chunk; the longest in use, WAVE_FORMAT_EXTENSIBLE, has 40 bytes."""
_UNKNOWN_32 = 0xFFFFFFFF

_OPEN_ENDED_SIZES = (
    range(0x7FFF0000, 0x80000001),  # SoX 0x7FFFF000, arecord 0x80000000, others 0x7FFFFFFF
    range(0xFFFF0000, 0x100000000),  # FFmpeg 0xFFFFFFFF, less the header with some writers
)
"""Sizes that writers into a pipe put for "unknown", each with room for a subtracted header."""


@dataclass(frozen=True, slots=True)
class WavLayout:
    """Where the samples of a WAVE file are.

    fmt: the body of the `fmt ` chunk. data_offset: first byte of the samples. data_bytes: bytes of
    samples that are present. declared_bytes: what the header claims, None where it claims nothing
    (a streaming header). rewrite: the size field is useless, read through `fresh_header`.
    behind_bytes: what lies behind the declared samples and is no chunk: nobody reads it.
    """

    fmt: bytes
    data_offset: int
    data_bytes: int
    declared_bytes: int | None
    rewrite: bool
    behind_bytes: int = 0

    @property
    def missing_bytes(self) -> int:
        """Bytes that the header declares and the file does not have; 0 for a streaming header."""
        return 0 if self.declared_bytes is None else self.declared_bytes - self.data_bytes

    def fresh_header(self) -> bytes:
        """A header for exactly the bytes present, to be put before them."""
        fmt = b"fmt " + struct.pack("<I", len(self.fmt)) + self.fmt + b"\0" * (len(self.fmt) % 2)
        riff_bytes = 4 + len(fmt) + 8 + self.data_bytes
        if riff_bytes < _UNKNOWN_32:
            return (
                b"RIFF" + struct.pack("<I", riff_bytes) + b"WAVE" + fmt
                + b"data" + struct.pack("<I", self.data_bytes)
            )
        ds64 = b"ds64" + struct.pack("<IQQQI", 28, riff_bytes + 36, self.data_bytes, 0, 0)
        unknown = struct.pack("<I", _UNKNOWN_32)
        return b"RF64" + unknown + b"WAVE" + ds64 + fmt + b"data" + unknown


def read_layout(handle: BinaryIO, size: int) -> WavLayout | None:
    """Walk the chunks of a RIFF or RF64 WAVE file of `size` bytes up to its samples.

    Returns None when it is not such a file or has no `fmt ` chunk before a `data` chunk.
    """
    handle.seek(0)
    head = handle.read(12)
    if len(head) < 12 or head[:4] not in (b"RIFF", b"RF64") or head[8:] != b"WAVE":
        return None
    fmt: bytes | None = None
    data_64: int | None = None
    at = 12
    for _ in range(CHUNKS_MAX):
        found = RIFF.head(handle, at, size)
        if found is None:
            return None
        name, declared = found
        if name == b"data":
            if fmt is None:
                return None
            return _layout(handle, size, at + RIFF.head_n, declared, fmt, data_64)
        if name == b"fmt ":
            fmt = handle.read(min(declared, _FMT_MAX))
        elif name == b"ds64" and head[:4] == b"RF64":
            sizes = handle.read(16)
            data_64 = int.from_bytes(sizes[8:16], "little") if len(sizes) == 16 else None
        at = RIFF.after(at, declared)
    return None


def _layout(
    handle: BinaryIO, size: int, offset: int, declared: int, fmt: bytes, data_64: int | None
) -> WavLayout:
    present = size - offset
    # In RF64 the 32-bit field is all ones and the 64-bit one counts.
    is_64 = data_64 is not None and declared == _UNKNOWN_32
    if data_64 is not None and is_64:
        declared = data_64
    if _is_open_ended(declared, present, is_64) and not (
        declared == 0 and RIFF.chain(handle, offset, size)
    ):
        return WavLayout(fmt, offset, present, None, rewrite=True)
    # A writer that does not know of RF64 lets the size wrap at 4 GiB.
    wrapped = 0 if is_64 else max(present - declared, 0) >> 32 << 32
    declared += wrapped
    return WavLayout(fmt, offset, min(declared, present), declared, rewrite=wrapped > 0,
                     behind_bytes=RIFF.bytes_behind(handle, offset + declared, size))


def _is_open_ended(declared: int, present: int, is_64: bool) -> bool:
    if declared == 0:
        return present > 0
    if declared <= present:
        return False
    if is_64:
        return declared >= 1 << 62
    return any(declared in sizes for sizes in _OPEN_ENDED_SIZES)
