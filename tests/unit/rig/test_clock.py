"""Virtual time jumps exactly, in order, and says so when it can never end."""

from __future__ import annotations

import asyncio

import pytest

from rig.clock import SessionClock, VirtualDeadlockError, loop_factory


def in_virtual_time(main):
    with asyncio.Runner(loop_factory=loop_factory("virtual")) as runner:
        return runner.run(main)


def test_deadlines_are_met_to_the_nanosecond():
    async def main() -> list[int]:
        clock = SessionClock()
        clock.start()
        late = []
        for k in range(1, 20_001):  # 400 s of 20 ms frames
            await clock.sleep_until(k * 20_000_000)
            late.append(clock.now_ns() - k * 20_000_000)
        return late

    assert set(in_virtual_time(main())) == {0}


def test_two_sleepers_wake_in_order_of_their_deadlines():
    async def main() -> list[tuple[str, int]]:
        clock = SessionClock()
        clock.start()
        seen: list[tuple[str, int]] = []

        async def sleeper(name: str, step_ns: int) -> None:
            for k in range(1, 4):
                await clock.sleep_until(k * step_ns)
                seen.append((name, clock.now_ns()))

        await asyncio.gather(sleeper("a", 30_000_001), sleeper("b", 20_000_000))
        return seen

    assert in_virtual_time(main()) == [
        ("b", 20_000_000), ("a", 30_000_001), ("b", 40_000_000), ("b", 60_000_000),
        ("a", 60_000_002), ("a", 90_000_003)]


def test_the_session_clock_counts_from_start():
    async def main() -> tuple[int, int]:
        clock = SessionClock()
        await asyncio.sleep(5)
        before = clock.now_ns()
        clock.start()
        return before, clock.now_ns()

    assert in_virtual_time(main()) == (5_000_000_000, 0)


def test_waiting_for_nothing_is_an_error_and_not_a_hang():
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(VirtualDeadlockError, match="every task waits"):
        in_virtual_time(main())


def test_timeouts_work_in_virtual_time():
    async def main() -> float:
        loop = asyncio.get_running_loop()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await asyncio.sleep(7200)
        return loop.time()

    assert in_virtual_time(main()) == 3600.0


def test_real_time_never_wakes_early():
    async def main() -> list[int]:
        clock = SessionClock()
        clock.start()
        late = []
        for k in range(1, 6):
            await clock.sleep_until(k * 5_000_000)
            late.append(clock.now_ns() - k * 5_000_000)
        return late

    with asyncio.Runner(loop_factory=loop_factory("real")) as runner:
        assert min(runner.run(main())) >= 0
