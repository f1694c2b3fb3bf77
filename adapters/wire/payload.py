"""Reading what a peer sent: JSON objects and base64 PCM16, within bounds, never trusted."""

from __future__ import annotations

import base64
import binascii
import json
from itertools import islice
from typing import Any

import numpy as np

from audio.buffers import Float32, pcm16_to_float
from audio.errors import InfrastructureError

MAX_ID_CHARS = 256
"""Ids of responses, items and events. Ours: real ones have some 30 characters."""


EXCERPT_DEPTH = 6
EXCERPT_ITEMS = 50
"""How deep and how wide a value is shown. Ours: what is longer is cut to a line anyway."""
_ADDRESS_ALPHABET = str.maketrans("-_", "+/")


class PayloadError(InfrastructureError):
    """A message, or a field of one, that does not follow the protocol."""


def parse_object(data: bytes) -> dict[str, Any]:
    """A JSON object in UTF-8. Raises `PayloadError` for anything else, however nested or long."""
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise PayloadError("expected a JSON object, got one nested too deeply") from None
    except ValueError as error:  # bad UTF-8, bad JSON, a number of thousands of digits
        raise PayloadError(f"expected a JSON object, got {len(data)} bytes that are none: "
                           f"{excerpt(str(error), 120)}") from None
    if not isinstance(value, dict):
        raise PayloadError(f"expected a JSON object, got {type(value).__name__}")
    return value


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def at(value: object, *path: str) -> object:
    """The value at a path of keys, `None` where any step is missing or no object."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def identifier(value: object, *path: str) -> str | None:
    """An id at a path: a non-empty printable string of bounded length, else `None`."""
    found = at(value, *path)
    if isinstance(found, str) and 0 < len(found) <= MAX_ID_CHARS and found.isprintable():
        return found
    return None


def writable(text: str) -> str:
    """The same text; halves of surrogate pairs, which no file can hold, become `?`."""
    return text.encode("utf-8", "replace").decode("utf-8")


def excerpt(value: object, limit: int = 200) -> str:
    """One printable line of at most `limit` characters for logs and error messages.

    Takes microseconds whatever the value holds: an event may carry a minute of audio, and the
    frames of other sessions wait for this.
    """
    if isinstance(value, str):
        text = value[: 4 * limit]
    else:
        text = json.dumps(_pruned(value, limit, EXCERPT_DEPTH), ensure_ascii=False,
                          separators=(",", ":"), default=str)[: 4 * limit]
    line = "".join(c if c.isprintable() else " " for c in text)
    return line if len(line) <= limit else line[: limit - 3] + "..."


def _pruned(value: object, limit: int, depth: int) -> object:
    """The value with long texts and collections cut, and nothing below `depth` levels."""
    if isinstance(value, str):
        return value[:limit]
    if isinstance(value, int) and abs(value) > 10**30:
        return "a huge number"
    if isinstance(value, dict):
        return {str(k)[:limit]: _pruned(v, limit, depth - 1)
                for k, v in islice(value.items(), EXCERPT_ITEMS)} if depth else "{...}"
    if isinstance(value, list | tuple):
        return [_pruned(v, limit, depth - 1)
                for v in islice(value, EXCERPT_ITEMS)] if depth else "[...]"
    return value


class BrokenAudioError(PayloadError):
    """Audio that cannot be decoded: what was said in it is lost."""


def audio_bytes(text: object) -> bytes:
    """Base64 audio, at least one byte.

    Line breaks, missing padding and the alphabet of addresses (`-_`) are understood: encoders
    differ in what they write, and none of that loses a sample. Raises `BrokenAudioError` for what
    cannot be decoded, `PayloadError` for a piece without audio.
    """
    if text is None:
        raise PayloadError("expected audio, got null")
    if not isinstance(text, str):
        raise BrokenAudioError(f"expected base64 text, got {type(text).__name__}")
    bare = "".join(text.split()).translate(_ADDRESS_ALPHABET).rstrip("=")
    try:
        data = base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BrokenAudioError(f"expected base64, got {len(text)} characters that are none: "
                               f"{excerpt(str(error), 120)}") from None
    if not data:
        raise PayloadError("expected audio, got an empty piece")
    return data


class Pcm16Stream:
    """PCM16, little endian, in pieces that may split a sample.

    A byte that is left over is carried to the next piece of the same `key` (a stream of audio).
    """

    def __init__(self) -> None:
        self._carried: dict[str, bytes] = {}

    def push(self, key: str, text: object) -> Float32:
        """Decode one piece in base64: float32 `(n,)`.

        Raises as `audio_bytes`; the carried byte is kept.
        """
        return self.push_bytes(key, audio_bytes(text))

    def push_bytes(self, key: str, data: bytes) -> Float32:
        """Take one piece as it is: float32 `(n,)`."""
        data = self._carried.pop(key, b"") + data
        if len(data) % 2:
            self._carried[key] = data[-1:]
            data = data[:-1]
        return pcm16_to_float(np.frombuffer(data, dtype="<i2").astype(np.int16))

    def carries(self, key: str) -> bool:
        """Whether half a sample waits for its other byte."""
        return key in self._carried

    def end(self, prefix: str) -> bool:
        """Streams whose key begins so are over; whether half a sample was left and is forgotten."""
        left = [key for key in self._carried if key.startswith(prefix)]
        for key in left:
            del self._carried[key]
        return bool(left)
