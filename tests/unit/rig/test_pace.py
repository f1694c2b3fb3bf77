"""When sessions of a provider may begin, on a clock that jumps."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rig.backoff import ceiling_s
from rig.clock import VirtualLoop
from rig.pace import MAX_ASKED_S, MAX_HELD_S, MAX_REFUSALS, Pace

GOOD = {"ready": True, "throttled": False, "asked_s": 0.0, "why": ""}
REFUSED = {"ready": False, "throttled": True, "asked_s": 0.0, "why": "429"}


def on_a_jumping_clock(body: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(body())  # type: ignore[arg-type]


def made(jobs: int = 8, per_minute: float | None = None, seed: int = 1,
         notes: list[str] | None = None) -> Pace:
    return Pace(jobs, per_minute, random.Random(seed), ([] if notes is None else notes).append)


async def until_free(pace: Pace) -> float:
    """Seconds that a start had to wait."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    while (wait_s := pace.wait_s()) != 0:
        assert wait_s is not None
        await pace.rest(wait_s)
    return loop.time() - began


@given(st.floats(1, 600), st.integers(2, 8))
@settings(max_examples=20, deadline=None)
def test_starts_keep_their_distance(per_minute: float, n: int) -> None:
    async def body() -> None:
        pace = made(n, per_minute)
        starts = []
        for _ in range(n):
            await until_free(pace)
            pace.begin()
            starts.append(asyncio.get_running_loop().time())
        gaps = [b - a for a, b in itertools.pairwise(starts)]
        assert all(gap == pytest.approx(60 / per_minute, abs=1e-6) for gap in gaps)

    on_a_jumping_clock(body)


def test_no_more_are_open_than_there_may_be() -> None:
    async def body() -> None:
        pace = made(2)
        pace.begin()
        began = pace.begin()
        assert pace.wait_s() is None
        pace.ended(began, **GOOD)
        assert pace.wait_s() == 0

    on_a_jumping_clock(body)


def test_a_refusal_holds_all_starts_with_growing_jitter_and_the_same_seed_the_same() -> None:
    async def waits(seed: int, asked_s: float) -> list[float]:
        pace, out = made(seed=seed), []
        for _ in range(5):
            pace.ended(pace.begin(), **{**REFUSED, "asked_s": asked_s})
            out.append(await until_free(pace))
        return out

    async def body() -> None:
        found = await waits(3, 0.0)
        assert await waits(3, 0.0) == pytest.approx(found, abs=1e-6)
        assert await waits(4, 0.0) != pytest.approx(found, abs=1e-3)
        assert all(0 <= w <= ceiling_s(n) for n, w in enumerate(found, start=1))
        asked = await waits(3, 30.0)
        assert asked == pytest.approx([w + 30 for w in found], abs=1e-6)

    on_a_jumping_clock(body)


def test_many_turned_away_together_are_one_refusal() -> None:
    async def body() -> None:
        pace = made(64)
        began = [pace.begin() for _ in range(64)]
        for b in began:
            pace.ended(b, **REFUSED)
        assert pace.stopped is None
        assert await until_free(pace) <= ceiling_s(1)

    on_a_jumping_clock(body)


def test_what_an_open_session_hears_of_a_limit_hides_no_refusal() -> None:
    """A session that says again and again that nothing is left, for a moment each time."""
    async def body() -> None:
        pace = made(2)
        pace.begin()
        for refusals in range(1, MAX_REFUSALS + 2):
            assert pace.stopped is None
            pace._at_a_time = 2.0
            await until_free(pace)
            began = pace.begin()
            pace.hold(0.001, "rate limit: no tokens are left")
            await asyncio.sleep(0.01)
            pace.ended(began, **REFUSED)
            assert pace._refusals == refusals
        assert pace.stopped is not None

    on_a_jumping_clock(body)


def test_refusals_in_a_row_end_the_run_and_a_good_session_starts_the_count_anew() -> None:
    async def body() -> None:
        pace = made()
        for _ in range(MAX_REFUSALS):
            pace.ended(pace.begin(), **REFUSED)
            await until_free(pace)
        pace.ended(pace.begin(), **GOOD)
        for _ in range(MAX_REFUSALS):
            pace.ended(pace.begin(), **REFUSED)
            await until_free(pace)
        assert pace.stopped is None
        pace.ended(pace.begin(), **REFUSED)
        assert pace.stopped is not None
        assert pace.stopped.startswith("429; the provider has refused 9 times in a row")

    on_a_jumping_clock(body)


def test_the_time_held_up_is_bounded_as_well() -> None:
    async def body() -> None:
        pace = made()
        loop = asyncio.get_running_loop()
        began = loop.time()
        while pace.stopped is None:
            pace.ended(pace.begin(), **{**REFUSED, "asked_s": MAX_ASKED_S})
            await until_free(pace)
        assert loop.time() - began <= MAX_HELD_S + MAX_ASKED_S + ceiling_s(MAX_REFUSALS)

    on_a_jumping_clock(body)


def test_more_patience_than_there_is_ends_the_run_at_once() -> None:
    async def body() -> None:
        pace = made()
        pace.ended(pace.begin(), **{**REFUSED, "asked_s": MAX_ASKED_S + 1})
        assert pace.stopped is not None
        assert "asks for 121 s of patience, more than 120 s" in pace.stopped

    on_a_jumping_clock(body)


def test_what_a_session_hears_of_a_limit_holds_the_others_within_bounds() -> None:
    async def body() -> None:
        notes: list[str] = []
        pace = made(notes=notes)
        pace.hold(7.0, "rate limit: no requests are left")
        assert await until_free(pace) == pytest.approx(7.0)
        pace.hold(86_400.0, "rate limit: no requests are left")
        assert await until_free(pace) == pytest.approx(MAX_ASKED_S)
        assert notes[0].startswith("rate limit: no requests are left: no new session for 7.0 s")

    on_a_jumping_clock(body)


def test_a_start_refused_beside_others_tells_how_many_there_may_be() -> None:
    """A provider that takes five at a time: the rest is never more than a fraction refused."""
    async def body() -> None:
        pace = made(8, notes=[])
        open_now, refused, done = 0, 0, 0
        loop = asyncio.get_running_loop()

        async def worker() -> None:
            nonlocal open_now, refused, done
            while done < 100:
                assert pace.stopped is None
                wait_s = pace.wait_s()
                if wait_s != 0:
                    await pace.rest(wait_s)
                    continue
                began = pace.begin()
                if open_now == 5:
                    refused += 1
                    pace.ended(began, **REFUSED)
                    continue
                open_now += 1
                await asyncio.sleep(60)
                open_now -= 1
                done += 1
                pace.ended(began, **GOOD)

        async with asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(worker())
        assert refused < 20
        assert loop.time() < 1.5 * 100 / 5 * 60, "nearly five at a time all along"

    on_a_jumping_clock(body)
