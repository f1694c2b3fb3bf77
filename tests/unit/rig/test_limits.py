"""Limits of money and minutes through the command line, with virtual agents at a made-up price."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import rig_testkit as kit

from adapters.base import Capabilities, Fault
from adapters.spec import AtATime
from probes.render import load_built
from rig.budget import Budget, Limits
from rig.commands.run_text import so_far
from rig.job import planned_s
from rig.prices import ENVIRONMENT, Price, Tariff
from rig.schedule import Bounds
from rig.spending import Spent
from rig.store import RunFolder

REAL = Capabilities(full_duplex=True, persona_prompt=True, realtime_only=True)


@pytest.fixture(autouse=True)
def _no_prices_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    """Half a dollar a minute of session, for every agent of these tests."""
    path = tmp_path / "prices.yaml"
    path.write_text("version: 1\nprices:\n" + "".join(
        f'  - {{adapter: {name}, currency: USD, date: "2026-01-02", source: made up, '
        "per_minute: {session: 0.5}}\n" for name in ("silent", "monologue", "oracle")))
    return path


def total_minutes(run: Path) -> float:
    return sum(line["session_s"] for line in kit.ledger(run)) / 60


@pytest.mark.parametrize("agent", ["silent", "monologue", "oracle", "eager", "echo", "inverse"])
def test_no_session_is_longer_than_its_plan(
    agent: str, small_suite: Path, tmp_path: Path, call_rig: Any
) -> None:
    """What is reserved for a session is enough for it, whatever the system does."""
    run = tmp_path / "run"
    assert call_rig("run", small_suite, "--adapter", agent, "--jobs", 1, "--out", run).code == 0
    built = load_built(small_suite)
    by_id = {c.case_id: c for c in built.cases}
    for line in kit.ledger(run):
        case = by_id[line["case_id"]]
        record = RunFolder(run).read_record(case.case_id, 1)
        assert line["session_s"] >= record.recorded_n / 24_000 - 0.05
        assert line["session_s"] <= planned_s(case, built.streams[case.stream_id], Bounds())
        assert line["cost"] == 0.0
        assert "currency" not in line


def test_a_run_stops_within_the_limit_and_goes_on_with_a_higher_one(
    small_suite: Path, prices: Path, tmp_path: Path, call_rig: Any
) -> None:
    run = tmp_path / "run"
    command = ["run", small_suite, "--adapter", "silent", "--prices", prices, "--out", run]
    called = call_rig(*command, "--jobs", 1, "--max-cost", 0.5, "--json")
    assert called.code == 1
    found = json.loads(called.out)
    played = len(kit.ledger(run))
    assert 0 < played < 9
    assert found["not_played"] == 9 - played
    assert found["limit"].startswith("--max-cost 0.5: USD ")
    assert found["spent"]["currency"] == "USD"
    assert 0 < found["spent"]["cost"] <= 0.5
    assert found["spent"]["cost"] == pytest.approx(total_minutes(run) * 0.5, abs=1e-4)
    assert f"{9 - played} sessions were not played" in called.err
    assert f"Go on with a higher limit: rig run {small_suite} --adapter silent --jobs 1 " \
           f"--prices {prices} --out {run} --resume --max-cost ..." in called.err

    again = call_rig(*command, "--jobs", 1, "--max-cost", 0.5, "--resume")
    assert again.code == 1
    assert len(kit.ledger(run)) == played, "nothing is begun by a resumed run beyond the limit"

    rest = call_rig(*command, "--jobs", 1, "--max-cost", 99, "--resume", "--json")
    assert rest.code == 0
    found = json.loads(rest.out)
    assert (found["limit"], found["not_played"]) == (None, 0)
    assert found["spent"]["sessions"] == 9
    assert found["spent"]["cost"] == pytest.approx(total_minutes(run) * 0.5, abs=1e-4)


def test_the_command_that_goes_on_names_what_the_run_is(
    small_suite: Path, tmp_path: Path, call_rig: Any
) -> None:
    run = tmp_path / "run"
    called = call_rig("run", small_suite, "--adapter", "echo", "--set", "delay_s=0.7", "--filter",
                      "case=*", "--trials", 2, "--retries", 0, "--allow-unknown-cost", "--clock",
                      "virtual", "--out", run, "--max-minutes", 0.01, "--max-cost", 2.5)
    assert called.code == 1
    assert "--adapter echo --set delay_s=0.7 --filter 'case=*' --trials 2 --clock virtual " \
           "--retries 0 --allow-unknown-cost --out" in called.err
    assert called.err.rstrip().endswith("--resume --max-cost 2.5 --max-minutes ..."), \
        "the limit that was not reached holds on"


def test_the_command_that_goes_on_can_be_pasted(
    small_suite: Path, prices: Path, tmp_path: Path, call_rig: Any
) -> None:
    """Blanks and quotes in names, every option that was given, the adapter's listed name."""
    suite, run, listed = tmp_path / "my suite", tmp_path / "Ann's $(run)", tmp_path / "a list"
    suite.symlink_to(small_suite)
    listed.write_text(prices.read_text())
    called = call_rig("run", suite, "--adapter", "long-endpoint", "--set", "endpoint_s=0.8",
                      "--jobs", 1, "--prices", listed, "--max-minutes", 0.5, "--out", run)
    assert called.code == 1
    printed = called.err.partition("Go on with a higher limit: ")[2].strip()
    words = shlex.split(printed)
    assert words == ["rig", "run", str(suite), "--adapter", "long_endpoint", "--set",
                     "endpoint_s=0.8", "--jobs", "1", "--prices", str(listed), "--out", str(run),
                     "--resume", "--max-minutes", "..."]
    assert call_rig(*words[1:-1], 99).code == 0
    scored = call_rig("report", run, "--out", tmp_path / "page.html")
    assert f"run `rig score {shlex.quote(str(run))}` first" in scored.error


def test_minutes_are_limited_without_a_price_and_by_several_processes(
    small_suite: Path, tmp_path: Path, call_rig: Any
) -> None:
    run = tmp_path / "run"
    called = call_rig("run", small_suite, "--adapter", "monologue", "--jobs", 2, "--out", run,
                      "--max-minutes", 2, "--json")
    assert called.code == 1
    found = json.loads(called.out)
    assert 0 < found["spent"]["minutes"] <= 2
    assert found["spent"]["cost"] == 0
    assert found["spent"]["minutes"] == pytest.approx(total_minutes(run), abs=1e-3)
    assert len((run / "starts.jsonl").read_text().splitlines()) == len(kit.ledger(run))


def test_a_limit_that_is_enough_changes_nothing(
    tiny_suite: Path, prices: Path, tmp_path: Path, call_rig: Any
) -> None:
    plan = json.loads(call_rig("run", tiny_suite, "--adapter", "silent", "--prices", prices,
                               "--dry-run", "--json").out)
    assert plan["cost"] == pytest.approx(plan["max_session_minutes"] * 0.5, abs=0.01)
    run = tmp_path / "run"
    called = call_rig("run", tiny_suite, "--adapter", "silent", "--prices", prices, "--jobs", 1,
                      "--max-minutes", plan["max_session_minutes"] + 0.01, "--max-cost",
                      plan["cost"] + 0.01, "--out", run)
    assert called.code == 0
    assert "used by all attempts: " in called.out
    assert "USD " in called.out


def test_what_failed_and_was_void_is_paid_for_as_well(
    tiny_suite: Path, prices: Path, tmp_path: Path, call_rig: Any, add_adapter: Any
) -> None:
    add_adapter("faulty", kit.faulty("says so", frozenset({"R1-C1-1-L2"})))
    prices.write_text(prices.read_text().replace("silent", "faulty"))
    run = tmp_path / "run"
    called = call_rig("run", tiny_suite, "--adapter", "faulty", "--jobs", 1, "--prices", prices,
                      "--out", run, "--json")
    assert called.code == 3
    failed = [line for line in kit.ledger(run) if line["status"] == "infra_error"]
    # Each broke off after two seconds.
    assert [line["session_s"] for line in failed] == pytest.approx([2.0] * 3, abs=0.1)
    assert [line["cost"] for line in failed] == pytest.approx([0.0167] * 3, abs=1e-3)
    assert json.loads(called.out)["spent"]["cost"] == pytest.approx(
        sum(line["cost"] for line in kit.ledger(run)), abs=1e-5)


# --- unknown is unknown --------------------------------------------------------------------------


@pytest.fixture
def _a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPFUN_API_KEY", "k" * 24)


def test_a_dry_run_calls_unknown_what_is_not_known(tiny_suite: Path, call_rig: Any) -> None:
    shown = call_rig("run", tiny_suite, "--adapter", "raw_pcm", "--dry-run").out
    rows = [line.split(maxsplit=1) for line in shown.splitlines()]
    assert ["cost", "unknown"] in rows
    assert ["sessions_at_a_time", "unknown"] in rows
    assert "None" not in shown
    assert "currency" not in shown
    assert "cost_usd" not in shown


@pytest.mark.parametrize(("price", "limits", "shown"), [
    (None, Limits(), "1.5 min used"),
    (0.5, Limits(), "1.5 min used, USD 0.7500"),
    (0.5, Limits(max_cost=9, max_minutes=4), "1.5 min used of at most 4.0, USD 0.7500 of at most "
     "9.00"),
])
def test_progress_tells_what_was_used_and_no_bound_that_is_none(
    price: float | None, limits: Limits, shown: str
) -> None:
    """Nothing of a price that nobody knows, at each step."""
    entry = None if price is None else Price(
        adapter="x", currency="USD", date="2026-01-02", source="made up",
        per_minute={"session": price})
    budget = Budget(Tariff(entry, free=False, why="no price"), limits)
    budget.settle("a", Spent(90.0, 90.0, 0.0))
    assert so_far(budget) == shown
    assert budget.totals().cost_text() == (
        "USD 0.7500" if price else "cost unknown: 1 session of unknown price")


def test_sessions_that_never_became_ready_cost_nothing_in_no_currency() -> None:
    budget = Budget(Tariff(None, free=False, why="no price"), Limits())
    budget.settle("a", Spent())
    assert budget.totals().cost_text() == "no cost"


@pytest.mark.usefixtures("_a_key")
def test_an_unknown_price_is_said_and_refuses_a_limit(
    tiny_suite: Path, tmp_path: Path, call_rig: Any
) -> None:
    command = ["run", tiny_suite, "--adapter", "stepfun", "--out", tmp_path / "run"]
    called = call_rig(*command, "--dry-run", "--json")
    plan = json.loads(called.out)
    assert (plan["cost"], plan["cost_usd"]) == (None, None)
    assert plan["cost_reason"].startswith(
        "cost unknown (no price for stepfun, model stepaudio-3-realtime-preview; add it to a file")
    line = call_rig(*command, "--max-cost", 5).error
    assert "--max-cost: no price for stepfun" in line
    assert line.endswith("or allow what cannot be counted with --allow-unknown-cost")
    assert not (tmp_path / "run").exists()


def test_tokens_without_an_estimate_refuse_a_limit(
    tiny_suite: Path, prices: Path, tmp_path: Path, call_rig: Any
) -> None:
    prices.write_text(prices.read_text().replace("per_minute: {session: 0.5}",
                                                 "per_million_tokens: {audio_in: 1}"))
    command = ["run", tiny_suite, "--adapter", "silent", "--prices", prices, "--out",
               tmp_path / "run"]
    assert "add estimate_per_minute to it" in call_rig(*command, "--max-cost", 5).error
    plan = json.loads(call_rig(*command, "--dry-run", "--json").out)
    assert plan["cost"] is None
    assert "estimate_per_minute" in plan["cost_reason"]


def test_a_sum_with_unknown_parts_is_a_lower_bound(
    tiny_suite: Path, prices: Path, tmp_path: Path, call_rig: Any
) -> None:
    """The agent reports no tokens: their price is of no use."""
    prices.write_text(prices.read_text().replace(
        "per_minute: {session: 0.5}",
        "per_minute: {session: 0.1}, per_million_tokens: {audio_in: 1}"))
    run = tmp_path / "run"
    called = call_rig("run", tiny_suite, "--adapter", "silent", "--jobs", 1, "--prices", prices,
                      "--out", run, "--max-cost", 5, "--allow-unknown-cost")
    assert called.code == 0
    assert "at least USD 0." in called.out
    assert "3 sessions of unknown price" in called.out
    assert "not in the cost: the tokens, which were not reported" in called.err
    assert {tuple(line["cost_missing"]) for line in kit.ledger(run)} == {
        ("the tokens, which were not reported",)}


def test_a_price_file_with_a_mistake_stops_before_anything_is_played(
    tiny_suite: Path, prices: Path, tmp_path: Path, call_rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    prices.write_text(prices.read_text().replace("0.5", "cheap", 1))
    monkeypatch.setenv(ENVIRONMENT, str(prices))
    run = tmp_path / "run"
    line = call_rig("run", tiny_suite, "--adapter", "silent", "--out", run).error
    assert "prices.yaml:3: prices[0].per_minute.session: expected a valid number" in line
    assert not run.exists()


@pytest.mark.parametrize("option", ["--max-cost", "--max-minutes", "--starts-per-minute"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "much"])
def test_limits_that_are_none_are_refused(
    option: str, value: str, tiny_suite: Path, tmp_path: Path, call_rig: Any
) -> None:
    line = call_rig("run", tiny_suite, "--adapter", "silent", "--out", tmp_path / "run", option,
                    value).error
    assert option in line


# --- a real clock --------------------------------------------------------------------------------


def test_no_credit_within_a_session_stops_the_run(
    tiny_suite: Path, tmp_path: Path, call_rig: Any, add_adapter: Any
) -> None:
    def on_frame(session: kit.StubSession, _frame: Any) -> None:
        if session.frames == 10:
            session.emit(Fault(session.now_ns, "infrastructure", "error event: insufficient_quota",
                               hopeless=True))

    add_adapter("hosted", kit.stub(on_frame, capabilities=REAL))
    run = tmp_path / "run"
    called = call_rig("run", tiny_suite, "--adapter", "hosted", "--out", run, "--json")
    assert called.code == 3
    assert json.loads(called.out)["stopped"] == "error event: insufficient_quota"
    attempt, = kit.ledger(run)
    assert 0.1 < attempt["session_s"] < 2
    assert "cost" not in attempt, "no price is known for it"
    assert json.loads(called.out)["spent"]["cost"] is None
    assert (run / "starts.jsonl").read_text() == \
        f'{{"case_id":"{attempt["case_id"]}","trial":1,"attempt":1}}\n'


@pytest.mark.parametrize(("given", "jobs", "most", "said"), [
    ((), 25, 25, "--jobs 26: 25 at a time (the vendor's documentation: 25 to 500 by tier, each "
     "model by itself); for an account that may have more: --at-a-time 26"),
    (("--at-a-time", 500), 26, 500, None),
    (("--at-a-time", 3), 3, 3, "--jobs 26: 3 at a time (--at-a-time)"),
    (("--set", "base_url=ws://127.0.0.1:9/v1"), 26, None, None),
    (("--set", "model=another"), 26, None, None),
    (("--set", "model=gpt-live-1.1"), 25, 25, "--jobs 26: 25 at a time"),
])
def test_jobs_never_go_beyond_what_a_provider_lets_be_open(
    given: tuple[Any, ...], jobs: int, most: int | None, said: str | None, tiny_suite: Path,
    call_rig: Any
) -> None:
    """What is stated is of the vendor's own address and of the models that it names."""
    called = call_rig("run", tiny_suite, "--adapter", "gpt_live", "--jobs", 26, "--dry-run",
                      "--json", *given)
    plan = json.loads(called.out)
    assert (plan["jobs"], plan["sessions_at_a_time"]) == (jobs, most)
    assert plan["sessions_at_a_time_source"] == (
        "unknown" if most is None else "--at-a-time" if "--at-a-time" in given
        else "the vendor's documentation: 25 to 500 by tier, each model by itself")
    assert ("--jobs 26" in called.err) == (said is not None)
    assert said is None or said in called.err


def test_the_price_of_gpt_live_is_told_before(tiny_suite: Path, call_rig: Any) -> None:
    plan = json.loads(call_rig("run", tiny_suite, "--adapter", "gpt_live", "--dry-run",
                               "--json").out)
    assert plan["jobs"] == 1
    assert plan["cost"] == pytest.approx(plan["max_session_minutes"] * 0.05, abs=1e-3)


def test_a_sound_card_carries_one_session_whatever_is_said(
    tiny_suite: Path, call_rig: Any
) -> None:
    called = call_rig("run", tiny_suite, "--adapter", "sound_card", "--jobs", 2, "--at-a-time", 2,
                      "--dry-run", "--json")
    assert json.loads(called.out)["jobs"] == 1
    assert called.err.splitlines()[0] == \
        "--jobs 2: 1 at a time (a sound card carries one conversation)"


@pytest.mark.parametrize(("given", "most"), [((), 2), (("--at-a-time", 3), 3)])
def test_no_more_sessions_are_open_than_there_may_be_over_resumes(
    given: tuple[Any, ...], most: int, tiny_suite: Path, tmp_path: Path, call_rig: Any,
    add_adapter: Any
) -> None:
    """A provider that states two at a time, asked for nine: two are open together, not one more,
    in the run and in the one that goes on with it."""
    seen: list[int] = []
    open_now: set[int] = set()

    def on_frame(session: kit.StubSession, _frame: Any) -> None:
        open_now.add(id(session))
        seen.append(len(open_now))
        if session.frames == 10:
            open_now.discard(id(session))
            session.emit(Fault(session.now_ns, "infrastructure", "broke off"))

    adapter = kit.stub(on_frame, capabilities=REAL)
    adapter.at_a_time = AtATime(2, "the test")
    add_adapter("hosted", adapter)
    command = ["run", tiny_suite, "--adapter", "hosted", "--jobs", 9, "--retries", 0, *given,
               "--trials", 3, "--out", tmp_path / "run"]
    for again in ((), ("--resume",)):
        called = call_rig(*command, *again)
        assert called.code == 3
        assert f"--jobs 9: {most} at a time ({'--at-a-time' if given else 'the test'})" \
            in called.err
        assert max(seen) == most
        seen.clear()


def test_a_dry_run_says_how_many_sessions_the_limits_have_room_for(
    tiny_suite: Path, call_rig: Any
) -> None:
    def plan(*limits: object) -> tuple[dict[str, Any], str]:
        called = call_rig("run", tiny_suite, "--adapter", "gpt_live", "--trials", 2, "--dry-run",
                          "--json", *limits)
        assert called.code == 0
        return json.loads(called.out), called.err

    whole, _ = plan()
    assert "fit_within_limits" not in whole, "nothing is limited"
    minutes = whole["max_session_minutes"]
    assert plan("--max-minutes", minutes + 0.01)[0]["fit_within_limits"] == 6
    assert plan("--max-minutes", minutes * 0.99)[0]["fit_within_limits"] == 5
    assert plan("--max-cost", (minutes + 0.01) * 0.05)[0]["fit_within_limits"] == 6
    some, said = plan("--max-cost", minutes / 2 * 0.05 + 1e-3)
    assert some["fit_within_limits"] == 3
    assert "nothing would be played" not in said
    none, said = plan("--max-cost", 1e-3)
    assert none["fit_within_limits"] == 0
    assert "nothing would be played: --max-cost 0.001" in said


def test_a_dry_run_of_how_a_run_goes_on_counts_what_it_has_used(
    tiny_suite: Path, prices: Path, tmp_path: Path, call_rig: Any
) -> None:
    asked = ("run", tiny_suite, "--adapter", "silent", "--prices", prices, "--out",
             tmp_path / "run", "--jobs", 1, "--json")
    whole = json.loads(call_rig(*asked, "--dry-run").out)["max_session_minutes"]
    limit = ("--max-minutes", whole * 0.7)
    first = json.loads(call_rig(*asked, "--dry-run", *limit).out)["fit_within_limits"]
    assert first == 2
    assert call_rig(*asked, *limit).code == 1
    played = len(kit.ledger(tmp_path / "run"))
    assert played >= first
    again = call_rig(*asked, "--resume", "--dry-run", *limit)
    assert json.loads(again.out)["fit_within_limits"] == 0
    assert "nothing would be played: --max-minutes" in again.err
    assert len(kit.ledger(tmp_path / "run")) == played, "a dry run"
    more = call_rig(*asked, "--resume", "--dry-run", "--max-minutes", 2 * whole)
    assert json.loads(more.out)["fit_within_limits"] == 3 - played
