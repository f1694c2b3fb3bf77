"""What the header of an AIFF, AU, CAF or Wave64 file says of its length, against the bytes there.

libsndfile reads such a file as far as it goes or as its header says, and says nothing of the rest.
RIFF/WAVE has `audio.wavheader`. Layouts: AIFF and AIFF-C (Apple, 1989 and 1991), AU (Sun,
`audio_filehdr`), Core Audio Format (Apple, 2005), Sony Wave64.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import BinaryIO, Literal

from audio.chunks import CAF, CHUNKS_MAX, IFF, WAVE64, unread_bytes

_UNKNOWN_32 = 0x7F000000
"""From here on a 32-bit size is what writers into a pipe put for "unknown" (SoX 0x7F000000 and
above, others 0xFFFFFFFF)."""
_UNKNOWN_64 = 1 << 62
_CAF_UNKNOWN = (1 << 64) - 1
_CAF_HEAD_MAX = 1 << 20
"""Our bound on what stands before the samples of a CAF; some writers leave 4 kB free."""
_AU_HEAD_N = 24
_WAVE64_DATA = bytes.fromhex("64617461f3acd3118cd100c04f8edb8a")


@dataclass(frozen=True, slots=True)
class DeclaredSize:
    """Bytes of samples, as declared (`None`: nothing is claimed) and as present.

    data_offset: first byte of the samples. frames_n: frames, where the header tells of them beside.
    behind_bytes: what lies behind the declared samples and is no chunk. head: what a decoder is to
    see before the samples, where the file's own is of no use. broken: why it cannot be read.
    """

    declared_bytes: int | None
    data_bytes: int
    data_offset: int = 0
    frames_n: int | None = None
    behind_bytes: int = 0
    head: bytes | None = None
    broken: str | None = None

    @property
    def missing_bytes(self) -> int:
        """Bytes that the header declares and the file does not have."""
        return max(0, (self.declared_bytes or 0) - self.data_bytes)


def declared_size(handle: BinaryIO, size: int) -> DeclaredSize | None:
    """Of a file of `size` bytes; `None` for another format and for one without samples."""
    handle.seek(0)
    head = handle.read(40)
    if head[:4] == b"caff":
        return _caf(handle, size)
    if len(head) < 12:
        return None
    if head[:4] in (b".snd", b"dns."):
        order: Literal["big", "little"] = "big" if head[:4] == b".snd" else "little"
        offset, declared = (int.from_bytes(head[at:at + 4], order) for at in (4, 8))
        offset = max(offset, _AU_HEAD_N)
        known = declared if declared < _UNKNOWN_32 else None
        behind = 0 if known is None else unread_bytes(handle, offset + known, size)
        return DeclaredSize(known, max(0, size - offset), offset, behind_bytes=behind)
    if head[:4] == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
        return _aiff(handle, size)
    if head[:4] == b"riff" and head[24:28] == b"wave":
        return _wave64(handle, size)
    return None


def _aiff(handle: BinaryIO, size: int) -> DeclaredSize | None:
    at = 12
    frames_n = None
    for _ in range(CHUNKS_MAX):
        found = IFF.head(handle, at, size)
        if found is None:
            return None
        name, length = found
        body = handle.read(8)
        if name == b"COMM" and len(body) == 8:
            channels, told, bits = struct.unpack(">HIH", body)
            frame_bytes = max(1, channels * bits // 8)
            frames_n = told if 0 < told < _UNKNOWN_32 // frame_bytes else None
        elif name == b"SSND":
            # Offset and block size stand before the samples, which begin `offset` further on.
            offset = at + IFF.head_n + 8 + int.from_bytes(body[:4], "big")
            end = at + IFF.head_n + length
            if length >= _UNKNOWN_32:
                return DeclaredSize(None, max(0, size - offset), offset, frames_n)
            return DeclaredSize(max(0, end - offset), max(0, size - offset), offset, frames_n,
                                IFF.bytes_behind(handle, max(end, at + IFF.head_n + 8), size))
        at = IFF.after(at, length)
    return None


def _wave64(handle: BinaryIO, size: int) -> DeclaredSize | None:
    at = 40
    for _ in range(CHUNKS_MAX):
        found = WAVE64.head(handle, at, size)
        if found is None:
            return None
        name, length = found
        if name == _WAVE64_DATA:
            offset = at + WAVE64.head_n
            present = size - offset
            if length >= _UNKNOWN_64 - WAVE64.head_n:
                return DeclaredSize(None, present, offset)
            declared = max(0, length)
            return DeclaredSize(declared, present, offset, behind_bytes=WAVE64.bytes_behind(
                handle, offset + declared, size))
        if not 0 <= length < _UNKNOWN_64:
            return None
        at = WAVE64.after(at, length)
    return None


def _caf(handle: BinaryIO, size: int) -> DeclaredSize:
    """libsndfile refuses a data chunk that is longer than the file, and one without a length."""
    at = 8
    for _ in range(CHUNKS_MAX):
        found = CAF.head(handle, at, size)
        if found is None:
            return DeclaredSize(None, 0, broken=f"a CAF that ends after {size} bytes, before its "
                                "samples")
        name, length = found
        if name == b"data":
            # A count of edits stands before the samples.
            offset = at + CAF.head_n + 4
            present = max(0, size - offset)
            declared = None if length == _CAF_UNKNOWN else length - 4
            if declared is not None and not 0 <= declared < _UNKNOWN_64:
                return DeclaredSize(None, present, broken=f"a CAF whose data chunk has {length} "
                                    "bytes")
            if declared is not None and declared <= present:
                return DeclaredSize(declared, present, offset, behind_bytes=CAF.bytes_behind(
                    handle, offset + declared, size))
            if offset > min(size, _CAF_HEAD_MAX):
                return DeclaredSize(None, present, broken=f"a CAF of {size} bytes whose samples "
                                    f"begin at byte {offset}")
            handle.seek(0)
            head = bytearray(handle.read(offset))
            head[at + 4:at + 12] = (present + 4).to_bytes(8, "big")
            return DeclaredSize(declared, present, offset, head=bytes(head))
        at = CAF.after(at, length)
    return DeclaredSize(None, 0, broken=f"a CAF without samples in its first {CHUNKS_MAX} chunks")
