"""Limits, tries and waits of a run, with sessions that only take time: no audio, a clock that
jumps."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rig.budget import Budget, Limits
from rig.clock import VirtualLoop
from rig.job import Outcome
from rig.ledger import Ledger, read
from rig.player import Player
from rig.prices import Price, Tariff
from rig.spending import Meter, Spent
from rig.starts import Starts, lost

PLANNED_S = 60.0
BY_THE_MINUTE = Tariff(Price(adapter="silent", currency="USD", date="2026-01-02", source="made up",
                             per_minute={"session": 0.5}), free=False, why="made up")


def outcome(seconds: float, status: str = "done", **more: Any) -> Outcome:
    reason = None if status == "done" else more.pop("reason", "trouble")
    return Outcome(status, reason, "t0", "t1", spent=Spent(seconds, seconds, seconds),  # type: ignore[arg-type]
                   **more)


@dataclass
class Played:
    """What a test's run did: begins and ends by the loop's time, and the most at a time."""

    player: Player
    budget: Budget
    ledger: list[Any]
    begun: list[tuple[float, str]] = field(default_factory=list)
    most_open: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)


def play(folder: Path, answer: Callable[[str, int], Outcome], *, n: int = 10, jobs: int = 1,
         limits: Limits | None = None, retries: int = 2, seed: int = 1,
         tariff: Tariff = BY_THE_MINUTE, per_minute: float | None = None,
         hold: Callable[[Meter, str], None] | None = None) -> Played:
    """`n` cases; `answer(case, number of the attempt)` says how each session ends, and it takes as
    long as it says that it used."""
    jobs_to_play = [SimpleNamespace(key=(f"c{k}", 1), case=SimpleNamespace(case_id=f"c{k}"),
                                    trial=1) for k in range(n)]
    with Ledger(folder / "attempts.jsonl") as ledger, Starts(folder / "starts.jsonl") as starts:
        budget = Budget(tariff, limits or Limits())
        budget.count_before(ledger.attempts, lost(starts.before, ledger.attempts),
                            lambda _: PLANNED_S)
        found = Played(None, budget, ledger.attempts)  # type: ignore[arg-type]
        open_now = 0

        async def beside(function: Callable[..., Any], *arguments: Any) -> Any:
            return function(*arguments)

        async def session(job: Any, meter: Meter, _live: Any, _writer: Any) -> Outcome:
            nonlocal open_now
            loop = asyncio.get_running_loop()
            found.begun.append((loop.time(), job.key[0]))
            open_now += 1
            found.most_open = max(found.most_open, open_now)
            if hold is not None:
                hold(meter, job.key[0])
            ends = answer(job.key[0], ledger.next_attempt(*job.key))
            await asyncio.sleep(ends.spent.session_s)
            open_now -= 1
            return ends

        found.player = Player(
            jobs=jobs, retries=retries, ledger=ledger, starts=starts, budget=budget,
            planned_s=lambda _: PLANNED_S, total=n, already=0, play=None,  # type: ignore[arg-type]
            play_beside=session, note=found.notes.append, starts_per_minute=per_minute, seed=seed,
            beside=beside)
        done = {a.case_id for a in ledger.attempts if a.status == "done"}
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            loop = runner.get_loop()
            runner.run(found.player.play_side_by_side(
                [j for j in jobs_to_play if j.key[0] not in done]))
            found.seconds = loop.time()
    return found


# --- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limits", "played_n", "option"), [
    (Limits(max_minutes=5.0), 5, "--max-minutes 5: "), (Limits(max_cost=2.5), 5, "--max-cost 2.5"),
    (Limits(max_minutes=4.999), 4, "--max-minutes 4.999"), (Limits(max_minutes=0.5), 0, "--max-m"),
    (Limits(max_cost=1.5, max_minutes=9), 3, "--max-cost 1.5: USD 1.5000 are used, and the next")])
def test_nothing_begins_that_may_go_beyond_a_limit(
    limits: Limits, played_n: int, option: str, tmp_path: Path
) -> None:
    found = play(tmp_path, lambda *_: outcome(PLANNED_S), limits=limits)
    assert len(found.begun) == played_n
    assert found.player.limit is not None
    assert found.player.limit.startswith(option)
    assert found.player.stopped is None


def test_sessions_shorter_than_their_longest_leave_room_for_more(tmp_path: Path) -> None:
    found = play(tmp_path, lambda *_: outcome(30.0), limits=Limits(max_minutes=3.0))
    # Five of half a minute; before the sixth 2.5 minutes are used, and it may take one.
    assert len(found.begun) == 5
    assert found.budget.totals().minutes == pytest.approx(2.5)


def test_what_is_in_flight_is_reserved_and_finishes(tmp_path: Path) -> None:
    found = play(tmp_path, lambda *_: outcome(30.0), jobs=8, limits=Limits(max_minutes=3.0))
    assert found.most_open == 3
    assert [a.status for a in found.ledger] == ["done"] * 5, "it waits for those in flight"
    assert [case for _, case in found.begun] == ["c0", "c1", "c2", "c3", "c4"]
    assert found.player.limit is not None


def test_everything_counts_what_failed_and_what_was_void(tmp_path: Path) -> None:
    def answer(_case: str, number: int) -> Outcome:
        return outcome(60.0, ("infra_error", "void", "done")[number - 1])

    found = play(tmp_path, answer, limits=Limits(max_minutes=7.0), n=3)
    assert [a.status for a in found.ledger] == ["infra_error", "void", "done"] * 2 + ["infra_error"]
    assert found.budget.totals().minutes == pytest.approx(7.0)
    assert found.budget.totals().cost == pytest.approx(3.5)
    assert [a.cost for a in found.ledger] == [0.5] * 7
    assert {a.currency for a in found.ledger} == {"USD"}


def test_a_resumed_run_goes_on_counting(tmp_path: Path) -> None:
    limits = Limits(max_minutes=3.0)
    first = play(tmp_path, lambda *_: outcome(60.0), limits=limits)
    again = play(tmp_path, lambda *_: outcome(60.0), limits=limits)
    assert (len(first.begun), len(again.begun)) == (3, 0)
    more = play(tmp_path, lambda *_: outcome(60.0), limits=Limits(max_cost=2.5))
    assert len(more.begun) == 2
    assert more.budget.totals().cost == pytest.approx(2.5)


def test_what_a_killed_run_had_in_flight_counts_at_its_longest(tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    def killing(case: str, _number: int) -> Outcome:
        if case == "c2":
            raise Killed
        return outcome(30.0)

    with pytest.raises((Killed, BaseExceptionGroup)):
        play(tmp_path, killing, limits=Limits(max_minutes=9.0))
    found = play(tmp_path, lambda *_: outcome(30.0), limits=Limits(max_minutes=3.0))
    # 0.5 + 0.5, and 1 for the one that never was booked: one more session may be begun.
    assert [case for _, case in found.begun] == ["c2"]
    assert found.budget.totals().assumed_n == 1
    assert found.budget.totals().minutes == pytest.approx(2.5)


def test_attempts_of_an_older_rig_count_at_their_longest(tmp_path: Path) -> None:
    (tmp_path / "attempts.jsonl").write_text(
        '{"case_id":"c0","trial":1,"attempt":1,"status":"done","started":"a","ended":"b"}\n')
    found = play(tmp_path, lambda *_: outcome(30.0), limits=Limits(max_minutes=2.0))
    assert found.budget.totals().assumed_n == 1
    assert [case for _, case in found.begun] == ["c1"]


@given(st.lists(st.floats(0.0, PLANNED_S), min_size=1, max_size=12), st.integers(1, 5),
       st.floats(0.2, 15.0))
@settings(max_examples=60, deadline=None)
def test_no_limit_is_ever_overshot_by_sessions_within_their_plan(
    tmp_path_factory: Any, lengths: list[float], jobs: int, minutes: float
) -> None:
    folder = tmp_path_factory.mktemp("run")
    found = play(folder, lambda case, _: outcome(lengths[int(case[1:])]), n=len(lengths),
                 jobs=jobs, limits=Limits(max_minutes=minutes, max_cost=minutes * 0.4))
    totals = found.budget.totals()
    assert totals.minutes <= minutes * (1 + 1e-9)
    assert totals.cost <= minutes * 0.4 * (1 + 1e-9)
    if found.player.limit is None:
        assert len(found.ledger) == len(lengths)


def test_the_overshoot_is_bounded_by_what_sessions_take_beyond_their_plan(tmp_path: Path) -> None:
    """A session that hangs is ended 30 s after its plan and closed within 10 s."""
    found = play(tmp_path, lambda *_: outcome(PLANNED_S + 40.0), jobs=3,
                 limits=Limits(max_minutes=3.0))
    assert len(found.begun) == 3
    assert found.budget.totals().minutes == pytest.approx(3.0 + 3 * 40 / 60)


def test_tokens_dearer_than_the_estimate_raise_it(tmp_path: Path) -> None:
    price = Price(adapter="silent", currency="USD", date="2026-01-02", source="x",
                  per_million_tokens={"audio_out": 1.0}, estimate_per_minute=0.1)
    tariff = Tariff(price, free=False, why="")

    def answer(*_: Any) -> Outcome:
        return Outcome("done", None, "a", "b", spent=Spent(60.0, 60.0, 60.0,
                                                           {"audio_out_tokens": 400_000.0}))

    found = play(tmp_path, answer, tariff=tariff, limits=Limits(max_cost=1.0))
    # 0.4 each: by the estimate three would be begun, by what the first cost two.
    assert len(found.begun) == 2
    assert found.budget.totals().cost == pytest.approx(0.8)


# --- tries ---------------------------------------------------------------------------------------


def test_tries_are_bounded_and_wait_with_jitter(tmp_path: Path) -> None:
    found = play(tmp_path, lambda *_: outcome(1.0, "infra_error"), n=1)
    assert [a.status for a in found.ledger] == ["infra_error"] * 3
    first, second = (b - a - 1.0 for (a, _), (b, _) in itertools.pairwise(found.begun))
    assert 0 <= first <= 2
    assert 0 <= second <= 4
    (tmp_path / "other").mkdir()
    other = play(tmp_path / "other", lambda *_: outcome(1.0, "infra_error"), n=1)
    assert other.begun == found.begun, "the same seed waits the same"


def test_a_hopeless_cause_within_a_session_stops_the_run(tmp_path: Path) -> None:
    """No credit is left: every further session would end in the same way."""
    def answer(case: str, _number: int) -> Outcome:
        if case == "c2":
            return outcome(10.0, "infra_error", hopeless=True, reason="insufficient_quota")
        return outcome(60.0)

    found = play(tmp_path, answer, jobs=4)
    assert found.player.stopped == "insufficient_quota"
    assert sorted(a.case_id for a in found.ledger) == ["c0", "c1", "c2", "c3"], "in flight finish"


def test_a_throttle_holds_all_cases_and_uses_up_no_try(tmp_path: Path) -> None:
    def answer(case: str, number: int) -> Outcome:
        if case == "c0" and number <= 4:
            return outcome(0.0, "infra_error", throttled=True, retry_after_s=20.0)
        return outcome(60.0)

    found = play(tmp_path, answer, n=2, jobs=2, retries=0)
    assert [a.status for a in found.ledger if a.case_id == "c0"] == ["infra_error"] * 4 + ["done"]
    starts = [t for t, case in found.begun if case == "c0"]
    assert all(b - a >= 20 for a, b in itertools.pairwise(starts))
    assert found.player.stopped is None


def test_a_throttle_within_a_session_counts_as_a_try(tmp_path: Path) -> None:
    """It was paid for: it must not be repeated without bounds."""
    found = play(tmp_path, lambda *_: outcome(5.0, "infra_error", throttled=True), n=1, retries=1)
    assert len(found.ledger) == 2


def test_a_limit_that_a_session_hears_of_holds_the_next_start(tmp_path: Path) -> None:
    def hold(meter: Meter, case: str) -> None:
        if case == "c0":
            meter.hold(90.0, "rate limit: no requests are left")

    found = play(tmp_path, lambda *_: outcome(10.0), n=3, hold=hold)
    assert [t for t, _ in found.begun] == pytest.approx([0.0, 90.0, 100.0])
    assert "no requests are left: no new session for 90.0 s" in found.notes[0]


def test_starts_are_spaced(tmp_path: Path) -> None:
    found = play(tmp_path, lambda *_: outcome(60.0), n=6, jobs=6, per_minute=12)
    assert [t for t, _ in found.begun] == pytest.approx([0, 5, 10, 15, 20, 25])
    assert found.most_open == 6


# --- interrupts ----------------------------------------------------------------------------------


class _AtOnce:
    """Workers whose sessions are over as soon as they are asked for."""

    jobs = 3

    def submit(self, function: Callable[..., Any], job: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(function(job))
        return done

    def stop(self) -> None:
        pass


@pytest.fixture
def heeds_interrupts() -> Iterator[None]:
    """Where tests run in the background SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_interrupts")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize("moment", ["before the line is written", "while it is synced"])
def test_an_interrupt_finds_an_attempt_booked_or_not_begun(
    number: int, pool: bool, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal comes inside the second booking: what is counted is what the ledger holds, and no
    session that is over is left out or written twice."""
    path = tmp_path / "attempts.jsonl"
    appended = itertools.count(1)
    told: list[int] = []
    with Ledger(path) as ledger:
        append, fsync = ledger.append, os.fsync

        def interrupted(attempt: Any) -> None:
            if next(appended) == 2:
                if moment == "while it is synced":
                    monkeypatch.setattr(os, "fsync", synced)
                else:
                    signal.raise_signal(number)
            append(attempt)

        def synced(fd: int) -> None:
            monkeypatch.setattr(os, "fsync", fsync)
            fsync(fd)
            signal.raise_signal(number)

        monkeypatch.setattr(ledger, "append", interrupted)
        player = Player(
            jobs=1, retries=0, ledger=ledger, starts=None, budget=Budget(BY_THE_MINUTE, Limits()),
            planned_s=lambda _: PLANNED_S, total=6, already=0, play=lambda _: outcome(1.0),
            play_beside=None, on_attempt=lambda _a, settled, _n: told.append(settled),  # type: ignore[arg-type]
            workers=_AtOnce() if pool else None)  # type: ignore[arg-type]
        jobs = [SimpleNamespace(key=(f"c{k}", 1), case=SimpleNamespace(case_id=f"c{k}"), trial=1)
                for k in range(6)]
        assert player.play(jobs, "virtual"), "it was not broken off"  # type: ignore[arg-type]
        written = [a.case_id for a in read(path)]
        assert [a.case_id for a in ledger.attempts] == written
    # In a pool the sessions that are over already are booked too.
    assert sorted(written) == (["c0", "c1", "c2", "c3", "c4", "c5"] if pool else ["c0", "c1"])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_session_that_is_over_is_booked_though_the_run_is_broken_off(tmp_path: Path) -> None:
    """In real time two end together; one is being written and the other waits for it when Ctrl-C
    cancels the run."""
    with Ledger(tmp_path / "attempts.jsonl") as ledger:
        async def beside(function: Callable[..., Any], *arguments: Any) -> Any:
            await asyncio.sleep(1.0)
            return function(*arguments)

        async def session(*_: Any) -> Outcome:
            await asyncio.sleep(PLANNED_S)
            return outcome(PLANNED_S)

        player = Player(
            jobs=2, retries=0, ledger=ledger, starts=None, budget=Budget(BY_THE_MINUTE, Limits()),
            planned_s=lambda _: PLANNED_S, total=2, already=0, play=None,  # type: ignore[arg-type]
            play_beside=session, seed=1, beside=beside)
        jobs = [SimpleNamespace(key=(f"c{k}", 1), case=SimpleNamespace(case_id=f"c{k}"), trial=1)
                for k in range(2)]

        async def broken_off() -> None:
            run = asyncio.ensure_future(player.play_side_by_side(jobs))  # type: ignore[arg-type]
            # Starts are written one after the other, so the sessions end at 61 and 62 s: at 61.9
            # one is being written; it takes a second, for which the other waits from 62 on.
            await asyncio.sleep(PLANNED_S + 2.0 - 0.1)
            assert ledger.attempts == []
            await asyncio.sleep(0.1)
            run.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await run

        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(broken_off())
        assert sorted(a.case_id for a in ledger.attempts) == ["c0", "c1"]


# --- what is not on record ---------------------------------------------------------------------


BY_AUDIO = Tariff(Price(adapter="silent", currency="USD", date="2026-01-02", source="made up",
                        per_minute={"audio_in": 6, "audio_out": 24}), free=False, why="made up")


def test_a_lost_session_costs_its_audio_too() -> None:
    """Nobody knows what it heard and said: not nothing."""
    budget = Budget(BY_AUDIO, Limits(max_cost=100))
    budget.count_before((), [("c1", 1)] * 3, lambda _: PLANNED_S)
    assert budget.totals().cost == pytest.approx(3 * 30.0)
    assert budget.totals().assumed_n == 3
    assert budget.refusal(PLANNED_S) is not None


def test_what_was_broken_off_counts_at_its_longest() -> None:
    budget = Budget(BY_AUDIO, Limits())
    budget.reserve("a", PLANNED_S)
    budget.reserve("b", PLANNED_S)
    budget.settle("a", Spent(30.0, 30.0, 0.0))
    budget.count_abandoned()
    totals = budget.totals()
    assert (totals.sessions, totals.assumed_n, budget.in_flight) == (2, 1, 0)
    assert totals.cost == pytest.approx(3.0 + 30.0)


def test_a_dear_session_raises_the_estimate_also_when_not_all_of_it_is_known() -> None:
    tokens = Tariff(Price(adapter="silent", currency="USD", date="2026-01-02", source="made up",
                          per_million_tokens={"audio_in": 10}, estimate_per_minute=1), free=False,
                    why="made up")
    budget = Budget(tokens, Limits(max_cost=12))
    budget.reserve("a", PLANNED_S)
    budget.settle("a", Spent(60.0, 60.0, 60.0, {"audio_in_tokens": 1e6, "unsplit_tokens": 1}))
    assert budget.totals().unknown_n == 1
    assert "the next session may cost USD 10.0000" in (budget.refusal(PLANNED_S) or "")
