"""What the header of an AIFF, AU or Wave64 file says of its length, against the bytes there.

libsndfile reads such a file as far as it goes and says nothing. RIFF/WAVE has `audio.wavheader`.
Layouts: AIFF and AIFF-C (Apple, 1989 and 1991), AU (Sun, `audio_filehdr`), Sony Wave64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, Literal

_CHUNKS_MAX = 10_000
"""Our bound on the chunks that are walked: a hostile file may hold millions of empty ones."""
_UNKNOWN_32 = 0x7F000000
"""From here on a 32-bit size is what writers into a pipe put for "unknown" (SoX 0x7F000000 and
above, others 0xFFFFFFFF)."""
_UNKNOWN_64 = 1 << 62
_WAVE64_DATA = bytes.fromhex("64617461f3acd3118cd100c04f8edb8a")


@dataclass(frozen=True, slots=True)
class DeclaredSize:
    """Bytes of samples, as declared and as present."""

    declared_bytes: int
    data_bytes: int

    @property
    def missing_bytes(self) -> int:
        """Bytes that the header declares and the file does not have."""
        return max(0, self.declared_bytes - self.data_bytes)


def declared_size(handle: BinaryIO, size: int) -> DeclaredSize | None:
    """Of a file of `size` bytes; `None` for another format and for a header that claims nothing."""
    handle.seek(0)
    head = handle.read(40)
    if len(head) < 12:
        return None
    if head[:4] in (b".snd", b"dns."):
        order: Literal["big", "little"] = "big" if head[:4] == b".snd" else "little"
        offset, declared = (int.from_bytes(head[at:at + 4], order) for at in (4, 8))
        return _found(declared, offset, size, _UNKNOWN_32)
    if head[:4] == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
        return _aiff(handle, size)
    if head[:4] == b"riff" and head[24:28] == b"wave":
        return _wave64(handle, size)
    return None


def _aiff(handle: BinaryIO, size: int) -> DeclaredSize | None:
    at = 12
    for _ in range(_CHUNKS_MAX):
        handle.seek(at)
        chunk = handle.read(12)
        if len(chunk) < 12:
            return None
        length = int.from_bytes(chunk[4:8], "big")
        if chunk[:4] == b"SSND":
            # Offset and block size stand before the samples, which begin `offset` further on.
            before = 8 + int.from_bytes(chunk[8:12], "big")
            return _found(length - before, at + 8 + before, size, _UNKNOWN_32)
        at += 8 + length + length % 2
    return None


def _wave64(handle: BinaryIO, size: int) -> DeclaredSize | None:
    at = 40
    for _ in range(_CHUNKS_MAX):
        handle.seek(at)
        chunk = handle.read(24)
        if len(chunk) < 24:
            return None
        length = int.from_bytes(chunk[16:24], "little")  # with these 24 bytes
        if chunk[:16] == _WAVE64_DATA:
            return _found(length - 24, at + 24, size, _UNKNOWN_64)
        if not 24 <= length < _UNKNOWN_64:
            return None
        at += length + -length % 8
    return None


def _found(declared: int, offset: int, size: int, unknown: int) -> DeclaredSize | None:
    if not 0 < declared < unknown:
        return None
    return DeclaredSize(declared, max(0, size - offset))
