"""Parts of a page as they are written into it. Little is imported: workers make them."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audio.errors import InputError

_PACK_FROM = 1000
"""Characters; ours: what is shorter gains nothing that can be felt."""


@dataclass(frozen=True, slots=True)
class Packed:
    """JSON of a part, ready to be written: in ASCII, or as base64 of its gzip. `late`: large, and
    not needed for the first picture; it comes behind the scripts."""

    text: str
    gzipped: bool
    late: bool = False


def pack(value: Any, *, where: Path | str = "report") -> Packed:
    """A part as it is written: compressed where that makes it a tenth smaller.

    Raises `InputError` for a number that is not finite.
    """
    text = json_text(value, where)
    if len(text) < _PACK_FROM:
        return Packed(text, False)
    gzipped = base64.b64encode(gzip.compress(text.encode(), compresslevel=5, mtime=0)).decode()
    return Packed(gzipped, True) if len(gzipped) < 0.9 * len(text) else Packed(text, False)


def json_text(value: Any, where: Path | str) -> str:
    """JSON in ASCII that cannot end the element it stands in."""
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        raise InputError.expected("finite numbers in the report", got=str(error),
                                  where=where) from error
    return text.replace("<", "\\u003c")
