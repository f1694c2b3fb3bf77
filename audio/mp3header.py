"""How long an MP3 file really is: its frames are walked, not estimated.

An MP3 has no length field. Encoders put one (`Xing` or `Info`) into a first frame without sound;
when it is missing, decoders estimate the length from the bit rate of the first frame and stop
there: with a variable bit rate, libsndfile 1.2.2 loses most of a call without a word. So every
frame header is counted (ISO/IEC 11172-3, 13818-3), and where the file's own figure is missing or
too small, a tag frame with the true count is built for the decoder to read first.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass

_V1, _V2, _V25 = 3, 2, 0
_RATES_HZ = {
    _V1: (44100, 48000, 32000),
    _V2: (22050, 24000, 16000),
    _V25: (11025, 12000, 8000),
}
_KBPS_V1 = (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)
_KBPS_V2 = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_RESYNCS_MAX = 1_000_000
"""Our bound on the search for the next frame in damaged or hostile bytes."""


@dataclass(frozen=True, slots=True)
class Mp3Layout:
    """Counted frames of a Layer III file.

    audio_offset, audio_end: bytes of the frames with sound. frames: whole frames with sound.
    frame_n: samples a channel in each. tagged: frames that the file's own tag promises, None
    without a tag. cut: the bytes end inside a frame. first: the first frame's four header bytes.
    """

    audio_offset: int
    audio_end: int
    frames: int
    frame_n: int
    tagged: int | None
    cut: bool
    first: bytes

    @property
    def rewrite(self) -> bool:
        """True when the decoder would estimate the length or stop early."""
        return self.tagged is None or self.tagged < self.frames

    def tag_frame(self) -> bytes:
        """A frame without sound that tells a decoder the true count (`Xing` tag)."""
        header = bytearray(self.first)
        header[1] |= 1  # no checksum
        kbps = 9 if header[1] >> 3 & 3 == _V1 else 8  # 128 or 64 kbit/s: room for the tag
        header[2] = kbps << 4 | header[2] & 0x0C  # this bit rate, same rate, no padding
        parsed = _parse(bytes(header))
        if parsed is None:
            raise AssertionError("a counted MP3 frame has a header that does not parse")
        tag = b"Xing" + (1).to_bytes(4, "big") + self.frames.to_bytes(4, "big")
        body = bytes(header) + bytes(_side_bytes(self.first)) + tag
        return body + bytes(parsed[0] - len(body))


def read_layout(data: mmap.mmap) -> Mp3Layout | None:
    """Count the Layer III frames of a file. None when there are none (Layer I, II, free format)."""
    at, size = _after_id3(data), len(data)
    resyncs = frames = 0
    first: bytes | None = None
    first_at = audio_offset = audio_end = at
    tagged: int | None = None
    cut = False
    while at + 4 <= size:
        head = data[at : at + 4]
        parsed = _parse(head)
        if parsed is None or (first is not None and not _same_stream(first, head)) or (
            first is None and not _followed(data, at, head, parsed[0])
        ):
            if data[at : at + 3] == b"TAG" or data[at : at + 8] == b"APETAGEX":
                break
            resyncs += 1
            at = data.find(b"\xff", at + 1)
            if at < 0 or resyncs > _RESYNCS_MAX:
                break
            continue
        if first is None:
            first, first_at = head, at
            audio_offset = at
        if at + parsed[0] > size:
            cut = True
            break
        at += parsed[0]
        if frames == 0 and audio_offset == first_at:
            is_tag, tagged = _read_tag(data[first_at:at], first)
            if is_tag:
                audio_offset = audio_end = at
                continue
        frames += 1
        audio_end = at
    if first is None:
        return None
    frame_n = 1152 if first[1] >> 3 & 3 == _V1 else 576
    return Mp3Layout(audio_offset, audio_end, frames, frame_n, tagged, cut, first)


def _parse(head: bytes) -> tuple[int, int] | None:
    """Length in bytes and rate in Hz of the Layer III frame that `head` opens."""
    if head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return None
    version, layer = head[1] >> 3 & 3, head[1] >> 1 & 3
    rate_index, kbps_index = head[2] >> 2 & 3, head[2] >> 4
    if version == 1 or layer != 1 or rate_index == 3 or kbps_index in (0, 15):
        return None
    rate_hz = _RATES_HZ[version][rate_index]
    kbps = (_KBPS_V1 if version == _V1 else _KBPS_V2)[kbps_index]
    scale = 144_000 if version == _V1 else 72_000
    return scale * kbps // rate_hz + (head[2] >> 1 & 1), rate_hz


def _same_stream(first: bytes, head: bytes) -> bool:
    """Same version, layer and rate, and mono stays mono."""
    mono = (first[3] >> 6 == 3) == (head[3] >> 6 == 3)
    return (first[1] & 0xFE) == (head[1] & 0xFE) and (first[2] & 0x0C) == (head[2] & 0x0C) and mono


def _followed(data: mmap.mmap, at: int, head: bytes, length: int) -> bool:
    """Does another frame, or the end of the file, follow? If not, this was a chance byte."""
    after = data[at + length : at + length + 4]
    return len(after) < 4 or (_parse(after) is not None and _same_stream(head, after))


def _side_bytes(head: bytes) -> int:
    mono = head[3] >> 6 == 3
    if head[1] >> 3 & 3 == _V1:
        return 17 if mono else 32
    return 9 if mono else 17


def _read_tag(frame: bytes, head: bytes) -> tuple[bool, int | None]:
    """Is this frame a tag, and how many frames does it promise?"""
    at = 4 + _side_bytes(head)
    if frame[at : at + 4] in (b"Xing", b"Info"):
        if frame[at + 7 : at + 8] and frame[at + 7] & 1:
            return True, int.from_bytes(frame[at + 8 : at + 12], "big")
        return True, None
    # Fraunhofer's tag; the decoder does not know it, so its figure helps nobody.
    return frame[36:40] == b"VBRI", None


def _after_id3(data: mmap.mmap) -> int:
    head = data[:10]
    if len(head) < 10 or head[:3] != b"ID3":
        return 0
    size = (head[6] & 127) << 21 | (head[7] & 127) << 14 | (head[8] & 127) << 7 | head[9] & 127
    return 10 + size + (10 if head[5] & 0x10 else 0)
