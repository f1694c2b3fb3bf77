"""What a session used, as its provider counts it: the names that wire protocols and prices share.

Counts are those of one whole session. A count that is not there was not reported: unknown, not 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol, runtime_checkable

from adapters.wire.payload import at

Unit = Literal[
    "session_s", "session_s_so_far", "audio_in_tokens", "text_in_tokens", "image_in_tokens",
    "cached_audio_in_tokens", "cached_text_in_tokens", "cached_image_in_tokens",
    "audio_out_tokens", "text_out_tokens", "unsplit_tokens", "transcription_tokens",
    "transcription_s", "delegations", "unreported_responses"]
"""`*_in_tokens` are those that were not cached. `unsplit_tokens`: of unknown kind or direction.
`session_s_so_far`: seconds by a report before the end. `transcription_*`: of the user's words, by
another model. `delegations`: work given to another model, billed apart. `unreported_responses`:
ended without a count, or never."""
Usage = Mapping[Unit, float]

MAX_COUNT = 10**9
"""More than a session can use: such a count is nonsense. Ours."""


@runtime_checkable
class Metered(Protocol):
    """A session, or a wire protocol, whose provider says what was used."""

    @property
    def usage(self) -> Usage | None:
        """What was reported so far; `None` while nothing can be told of it."""
        ...


class Tally:
    """Counts that grow."""

    def __init__(self) -> None:
        self.counts: dict[Unit, float] = {}

    def add(self, unit: Unit, n: float) -> None:
        """Zeros are left out."""
        if n:
            self.counts[unit] = self.counts.get(unit, 0) + n

    def split(self, total: float | None, parts: Mapping[Unit, float]) -> None:
        """Add the parts of a total, and what they leave of it as unsplit."""
        for unit, n in parts.items():
            self.add(unit, n)
        self.add("unsplit_tokens", max(0.0, (total or 0.0) - sum(parts.values())))

    def openai_tokens(self, usage: object) -> bool:
        """Add the `usage` of a `response.done`; whether it holds counts at all.

        The tokens of each kind include the cached ones, which are told apart. What the kinds leave
        of a total (or all of it, where no kinds are given) is unsplit.
        """
        n_in, n_out = number(usage, "input_tokens"), number(usage, "output_tokens")
        if n_in is None or n_out is None:
            return False
        parts: dict[Unit, float] = {}
        for kind, plain, cached in _KINDS:
            n = number(usage, "input_token_details", f"{kind}_tokens") or 0.0
            n_cached = number(usage, "input_token_details", "cached_tokens_details",
                              f"{kind}_tokens") or 0.0
            parts[cached] = min(n, n_cached)
            parts[plain] = n - parts[cached]
        self.split(n_in, parts)
        out: tuple[tuple[str, Unit], ...] = (("audio", "audio_out_tokens"),
                                             ("text", "text_out_tokens"))
        self.split(n_out, {unit: number(usage, "output_token_details", f"{kind}_tokens") or 0.0
                           for kind, unit in out})
        return True


_KINDS: tuple[tuple[str, Unit, Unit], ...] = (
    ("audio", "audio_in_tokens", "cached_audio_in_tokens"),
    ("text", "text_in_tokens", "cached_text_in_tokens"),
    ("image", "image_in_tokens", "cached_image_in_tokens"))


def number(value: object, *path: str) -> float | None:
    """A count at a path of keys: finite, not negative and not absurd, else `None`."""
    found = at(value, *path)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= MAX_COUNT:
        return None
    return float(found)
