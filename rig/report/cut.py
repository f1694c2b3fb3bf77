"""Text of others in a page: as much of it as can be read, and how much was left out."""

from __future__ import annotations

MAX_REASON = 1_000
"""Characters; ours: reasons of the rig itself have some 300 at most."""


def cut(text: str, most: int = MAX_REASON) -> str:
    """The text, or its first `most` characters and how many more there are."""
    left_n = len(text) - most
    return text if left_n <= 0 else f"{text[:most]}… ({left_n} characters more)"
