"""Trying again: how long to wait, how often, and when to give up.

Two kinds of waits. A request to an endpoint that is asked one thing at a time (`patiently`) waits
as the paper's judge does. Sessions of a provider wait with full jitter (`full_jitter_s`), because
many of them may have been turned away at once (rig/pace.py).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

from adapters.wire import http_exchange
from audio.errors import InfrastructureError

T = TypeVar("T")

SENDS = 4
"""How often one request is sent at most, and the waits between (the judge of DSB-IFEval, appendix
D.3: 4 attempts, 2, 4 and 6 s, 90 s)."""
WAITS_S = (2.0, 4.0, 6.0)
MAX_RETRY_AFTER_S = 60.0
"""Ours: an endpoint that wants a longer pause is left alone; the run can be repeated later."""
NO_CREDIT = b"insufficient_quota"
"""OpenAI's code for an account without credit: status 429, and waiting does not help."""
STATUS_AGAIN = frozenset({408, 425, 429})

BASE_S = 2.0
CAP_S = 60.0
"""The first ceiling, which doubles, and the highest one. Ours: a minute is what limits by the
minute need to be full again."""


class TryAgainError(Exception):
    """A try that another may mend: `why`, and the seconds that the peer asks to wait (0: none)."""

    def __init__(self, why: str, asked_s: float = 0.0) -> None:
        super().__init__(why)
        self.asked_s = asked_s


class GivenUpError(InfrastructureError):
    """No further try is made."""


def patiently(once: Callable[[int], T], *, wait: Callable[[float], None],
              note: Callable[[str], None]) -> T:
    """`once(number of the try, from 1)`, again for as long as it raises `TryAgainError`.

    At most `SENDS` tries with `WAITS_S` between them, longer where the peer asks for it; each wait
    is noted. Raises `GivenUpError` after the last one, and at once when the peer asks for more than
    `MAX_RETRY_AFTER_S`.
    """
    for number in range(1, SENDS + 1):
        try:
            return once(number)
        except TryAgainError as error:
            why, asked_s = str(error), error.asked_s
        if asked_s > MAX_RETRY_AFTER_S:
            raise GivenUpError(f"{why}; it asks for {asked_s:g} s of patience, more than "
                               f"{MAX_RETRY_AFTER_S:g} s: run the command again later")
        if number < SENDS:
            wait_s = max(WAITS_S[number - 1], asked_s)
            note(f"{why}; sent again in {wait_s:g} s")
            wait(wait_s)
    raise GivenUpError(f"{why}; given up after {SENDS} sends")


def ceiling_s(failures: int) -> float:
    """The longest wait after `failures` in a row, from 1: `BASE_S`, doubled, up to `CAP_S`."""
    return min(CAP_S, BASE_S * 2.0 ** min(failures - 1, 30))


def full_jitter_s(failures: int, asked_s: float, chance: random.Random) -> float:
    """Seconds until the next try: anything from 0 to `ceiling_s`, evenly, after what was asked for.

    Full jitter: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015. What the
    peer asks for is a lower bound; the jitter comes on top, so that not everybody returns at once.
    """
    return asked_s + chance.uniform(0.0, ceiling_s(failures))


def retry_after_s(value: str | None) -> float:
    """Seconds that a `Retry-After` header asks for; 0 for none, for a date and for nonsense."""
    return http_exchange.retry_after_s(value) or 0.0
