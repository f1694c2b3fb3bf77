"""Calls that are shared out among processes."""

from __future__ import annotations

import os
from functools import partial

import pytest

from audio.errors import InputError
from rig.workers import Workers


def _squared(n: int) -> tuple[int, int]:
    return n * n, os.getpid()


def _refused(n: int) -> int:
    if n == 2:
        raise InputError("expected no 2, got 2")
    return n


def test_results_come_in_the_order_of_the_calls() -> None:
    with Workers(2) as workers:
        found = list(workers.in_order([partial(_squared, n) for n in range(6)]))
    assert [square for square, _ in found] == [0, 1, 4, 9, 16, 25]
    assert os.getpid() not in {pid for _, pid in found}


@pytest.mark.parametrize(("jobs", "calls"), [(1, 3), (2, 1), (2, 0)])
def test_what_needs_no_other_process_starts_none(jobs: int, calls: int) -> None:
    with Workers(jobs) as workers:
        found = list(workers.in_order([partial(_squared, n) for n in range(calls)]))
    assert found == [(n * n, os.getpid()) for n in range(calls)]


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_comes_in_its_turn(jobs: int) -> None:
    with Workers(jobs) as workers:
        results = workers.in_order([partial(_refused, n) for n in range(4)])
        assert [next(results), next(results)] == [0, 1]
        with pytest.raises(InputError, match="expected no 2"):
            next(results)
