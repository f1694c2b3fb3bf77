"""Chunks one after the other, as RIFF, AIFF, CAF and Wave64 files have them: a name, a length, a
body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, Literal

_PADDING_MAX = 4096
"""A block of a disk: ours. More may be samples that are silent."""
CHUNKS_MAX = 10_000
"""Our bound on the chunks that are walked: a hostile file may hold millions of empty ones."""
_TAGS = (b"LIST", b"id3 ", b"ID3", b"TAG", b"bext", b"iXML", b"axml", b"_PMX", b"cue ", b"smpl",
         b"APET", b"LYRI")
"""What is known to stand behind samples, also where it is cut or is no chunk (ID3)."""


@dataclass(frozen=True, slots=True)
class ChunkForm:
    """How a family of files writes its chunks; `counts_head`: the length is that of all of it."""

    name_n: int
    length_n: int
    order: Literal["big", "little"]
    align: int
    counts_head: bool = False

    @property
    def head_n(self) -> int:
        return self.name_n + self.length_n

    def head(self, handle: BinaryIO, at: int, size: int) -> tuple[bytes, int] | None:
        """Name and length of the body of the chunk at `at`; `None` where the file, of `size` bytes,
        ends before."""
        if at >= size:  # or a disk that cannot seek so far says so
            return None
        handle.seek(at)
        head = handle.read(self.head_n)
        if len(head) < self.head_n:
            return None
        length = int.from_bytes(head[self.name_n:], self.order)
        return head[:self.name_n], length - (self.head_n if self.counts_head else 0)

    def after(self, at: int, length: int) -> int:
        """Where the chunk behind the one at `at` begins."""
        whole = length + (self.head_n if self.counts_head else 0)
        return at + whole + -whole % self.align + (0 if self.counts_head else self.head_n)

    def chain(self, handle: BinaryIO, at: int, size: int) -> bool:
        """Are the bytes from `at` chunks, up to the very end of a file of `size` bytes?"""
        for _ in range(CHUNKS_MAX):
            if size <= at < size + self.align:
                return True
            found = self.head(handle, at, size)
            if found is None or found[1] < 0 or not _is_name(found[0]):
                return False
            at = self.after(at, found[1])
        return False

    def bytes_behind(self, handle: BinaryIO, end: int, size: int) -> int:
        """Bytes behind the samples, which end at `end`, that are no chunks: nobody reads them."""
        if end >= size:  # cut: no disk can seek to where a hostile header says that it ends
            return 0
        handle.seek(end)
        padded = end + (handle.read(1) == b"\0")  # libsndfile pads CAF to even, too
        for at in {end, padded, end + -end % self.align}:
            handle.seek(at)
            if handle.read(4).startswith(_TAGS) or self.chain(handle, at, size):
                return 0
        return unread_bytes(handle, end, size)


RIFF = ChunkForm(4, 4, "little", 2)
IFF = ChunkForm(4, 4, "big", 2)
CAF = ChunkForm(4, 8, "big", 1)
WAVE64 = ChunkForm(16, 8, "little", 8, counts_head=True)


def unread_bytes(handle: BinaryIO, at: int, size: int) -> int:
    """Bytes from `at` on, but for zeros as writers put them to fill a block."""
    if at >= size:
        return 0
    handle.seek(at)
    if size - at <= _PADDING_MAX and not any(handle.read(_PADDING_MAX)):
        return 0
    return size - at


def _is_name(name: bytes) -> bool:
    return len(name) != 4 or all(32 <= byte < 127 for byte in name)
