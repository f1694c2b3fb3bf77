"""The real event loop: waits to less than a millisecond, hears its sockets, leaves no trace."""

from __future__ import annotations

import asyncio
import gc
import selectors
import socket
import sys

import pytest

from rig.clock import SessionClock, loop_factory, punctual


def test_garbage_collection_and_switching_are_as_before_afterwards():
    before = gc.get_threshold(), sys.getswitchinterval(), gc.get_freeze_count(), gc.isenabled()
    with punctual():
        assert gc.get_threshold() != before[0]
        assert sys.getswitchinterval() < 0.001
        assert gc.get_freeze_count() > 10_000
    assert (gc.get_threshold(), sys.getswitchinterval(), gc.get_freeze_count(),
            gc.isenabled()) == before


def test_so_they_are_after_an_error():
    before = gc.get_threshold(), sys.getswitchinterval()
    with pytest.raises(KeyError), punctual():
        raise KeyError
    assert (gc.get_threshold(), sys.getswitchinterval()) == before


def test_cycles_are_still_collected_inside():
    import weakref

    class Node:
        pass

    with punctual():
        node = Node()
        node.self = node
        ref = weakref.ref(node)
        del node
        gc.collect(0)
        assert ref() is None


async def _waits(count: int) -> list[float]:
    clock = SessionClock()
    late_ms = []
    for k in range(1, count + 1):
        await clock.sleep_until(k * 5_000_000)
        late_ms.append((clock.now_ns() - k * 5_000_000) / 1e6)
    return late_ms


def test_no_wait_ends_early():
    with asyncio.Runner(loop_factory=loop_factory("real")) as runner:
        assert min(runner.run(_waits(40))) >= 0


@pytest.mark.skipif(not hasattr(selectors, "EpollSelector"), reason="only epoll rounds up to 1 ms")
def test_waits_are_finer_than_a_millisecond():
    """4.3 ms end after 5 ms in epoll, always; of many waits some are finer on any load."""
    async def waits() -> list[float]:
        clock, late_ms = SessionClock(), []
        for _ in range(60):
            due_ns = clock.now_ns() + 4_300_000
            await clock.sleep_until(due_ns)
            late_ms.append((clock.now_ns() - due_ns) / 1e6)
        return sorted(late_ms)

    with asyncio.Runner(loop_factory=loop_factory("real")) as runner:
        assert runner.run(waits())[15] < 0.6


def test_what_comes_ends_a_wait():
    async def both() -> bytes:
        here, there = socket.socketpair()
        here.setblocking(False)
        with here, there:
            loop = asyncio.get_running_loop()
            loop.call_later(0.02, there.send, b"x")
            return await asyncio.wait_for(loop.sock_recv(here, 1), 30)

    with asyncio.Runner(loop_factory=loop_factory("real")) as runner:
        assert runner.run(both()) == b"x"


def test_long_waits_and_many_descriptors_work_as_well():
    """From descriptor 1024 on `select` takes none; the loop's own must not matter."""
    async def wait() -> float:
        clock = SessionClock()
        await clock.sleep_until(30_000_000)
        return clock.now_ns() / 1e6

    holders = []
    try:
        try:
            while not holders or holders[-1].fileno() < 1_030:
                holders.append(socket.socket())
        except OSError:
            pytest.skip("this machine allows fewer than 1030 descriptors")
        with asyncio.Runner(loop_factory=loop_factory("real")) as runner:
            assert runner.run(wait()) >= 30
    finally:
        for holder in holders:
            holder.close()


def test_the_origin_is_a_reading_of_the_shared_clock():
    import time

    async def origin() -> int | None:
        clock = SessionClock()
        clock.start()
        return clock.origin_ns

    before = time.perf_counter_ns()
    with asyncio.Runner(loop_factory=loop_factory("real")) as runner:
        found = runner.run(origin())
    assert found is not None
    assert before <= found <= time.perf_counter_ns()
    with asyncio.Runner(loop_factory=loop_factory("virtual")) as runner:
        assert runner.run(origin()) is None
