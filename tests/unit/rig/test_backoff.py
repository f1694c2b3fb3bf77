"""Waits between tries: bounded, within what jitter allows, never shorter than asked for."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rig.backoff import (
    CAP_S,
    MAX_RETRY_AFTER_S,
    WAITS_S,
    GivenUpError,
    TryAgainError,
    ceiling_s,
    full_jitter_s,
    patiently,
    retry_after_s,
)


def test_ceilings_double_up_to_the_cap() -> None:
    assert [ceiling_s(n) for n in (1, 2, 3, 4, 5, 6, 1_000)] == [2, 4, 8, 16, 32, CAP_S, CAP_S]


@given(st.integers(1, 100), st.floats(0, 120), st.integers(0, 2**32))
def test_a_wait_lies_between_what_was_asked_for_and_the_ceiling_above_it(
    failures: int, asked_s: float, seed: int
) -> None:
    wait_s = full_jitter_s(failures, asked_s, random.Random(seed))
    assert asked_s <= wait_s <= asked_s + ceiling_s(failures)
    assert wait_s == full_jitter_s(failures, asked_s, random.Random(seed)), "seeded"


def test_jitter_is_full() -> None:
    """Evenly from 0 to the ceiling, so that those turned away together do not return together."""
    chance = random.Random(1)
    waits = sorted(full_jitter_s(3, 0.0, chance) for _ in range(4_000))
    assert all(abs(waits[k] - 8.0 * k / 4_000) < 0.3 for k in range(0, 4_000, 400))


def _asking(waited: list[float], answers: list[TryAgainError | str]) -> str:
    def once(number: int) -> str:
        answer = answers[number - 1]
        if isinstance(answer, TryAgainError):
            raise answer
        return answer

    return patiently(once, wait=waited.append, note=lambda _: None)


def test_a_request_is_tried_again_with_the_waits_of_the_paper() -> None:
    waited: list[float] = []
    busy = TryAgainError("busy")
    assert _asking(waited, [busy, TryAgainError("busy", 5.0), busy, "good"]) == "good"
    assert waited == [WAITS_S[0], 5.0, WAITS_S[2]]


def test_it_is_given_up_after_the_last_try_or_when_too_much_patience_is_asked_for() -> None:
    waited: list[float] = []
    with pytest.raises(GivenUpError, match="busy; given up after 4 sends"):
        _asking(waited, [TryAgainError("busy")] * 4)
    assert waited == list(WAITS_S)
    with pytest.raises(GivenUpError, match=r"asks for 61 s of patience, more than 60 s"):
        _asking(waited, [TryAgainError("busy", MAX_RETRY_AFTER_S + 1)])
    assert waited == list(WAITS_S), "no wait before giving up"


def test_a_wait_of_any_length_is_a_wait() -> None:
    # Ten digits and more were once read as none at all, which means: go on trying.
    assert retry_after_s("9" * 12) == 1e9
