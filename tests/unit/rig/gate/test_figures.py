"""Figures of made sessions whose values are known beforehand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rig.gate.figures import KNOWN_FLAGS, Figure, Session, catalogue
from rig.gate.readings import Reading, latencies_ms, read
from sweeps.effects import Case, Draws
from verifiers.scene import Action
from verifiers.verdict import Outcome

PASS, FAIL, UNSCORED = Outcome.PASS, Outcome.FAIL, Outcome.UNSCORED


def session(number: int, outcome: Outcome = PASS, *, action: Action = Action.TAKE_TURN,
            level: str = "L2", trial: int = 1, stream: str | None = None, **more: Any) -> Session:
    conversation = f"R1-C1-{number}"
    paired = Case(conversation, stream or f"S-{number}", "R1", "C1", level, action, trial, outcome)
    return Session(f"{conversation}-{level}", trial, action, level, "R1", outcome, "because",
                   **{"measured": {"label": "silent"}, "paired": paired, **more})


def reading(path: str, sessions: Sequence[Session], *, drawn: bool = True) -> Reading:
    draws = Draws(s.paired.stream for s in sessions if s.paired) if drawn else None
    flags = {flag for s in sessions for flag in s.flags}
    return read(catalogue(sessions, flags)[path], sessions, draws)


CORE = [session(k, PASS if k < 7 else FAIL) for k in range(20)]


def test_a_rate_with_its_two_intervals() -> None:
    found = reading("ias_core.L2", CORE)
    assert (found.value, found.n, found.passed) == (0.35, 20, 7)
    # Wilson of 7 of 20, to four digits (Newcombe's tables).
    assert found.wilson == pytest.approx((0.1812, 0.5671), abs=5e-5)
    # Every case has a stream of its own: draws of 20 with a chance of 0.35 are binomial.
    assert found.bootstrap == pytest.approx((0.15, 0.55), abs=0.051)
    assert found.interval == (min(found.wilson[0], found.bootstrap[0]),
                              max(found.wilson[1], found.bootstrap[1]))
    assert found.about_interval == (
        "the wider ends of Wilson and of the bootstrap over audio streams")


def test_trials_of_one_stream_are_no_more_evidence() -> None:
    """Four streams, 25 trials each, all alike within a stream: the interval is that of four."""
    sessions = [session(k, PASS if k < 2 else FAIL, trial=t + 1)
                for k in range(4) for t in range(25)]
    found = reading("ias_core.L2", sessions)
    assert found.wilson == pytest.approx((0.4038, 0.5962), abs=5e-5)
    assert found.bootstrap == (0.0, 1.0)
    assert found.interval == (0.0, 1.0)


def test_recordings_of_others_have_wilson_alone() -> None:
    others = [replace(s, paired=None) for s in CORE]
    found = reading("ias_core.L2", others, drawn=False)
    assert found.bootstrap is None
    assert found.interval == found.wilson
    assert found.about_interval == "Wilson"
    assert reading("infra_error", others, drawn=False).why_none == (
        "recordings of others: no ledger of sessions")


def test_what_a_rate_is_over() -> None:
    sessions = [
        session(1, PASS), session(2, FAIL, action=Action.YIELD, flags=("forced",)),
        session(3, PASS, action=Action.CONTINUE),
        session(4, PASS, action=Action.LISTEN, flags=("no_model_speech",)),
        session(5, FAIL, level="L4a"), session(6, PASS, level="L1"),
        session(7, UNSCORED, measured={}), session(8, Outcome.UNSUPPORTED, measured={})]

    def counts(path: str) -> tuple[object, ...]:
        found = reading(path, sessions)
        return found.passed, found.n, found.unscored, found.unsupported

    assert counts("ias_core.L2") == (2, 3, 1, 1)
    assert counts("ias_all.L2") == (3, 4, 1, 1)
    assert counts("ias_core_live.L2") == (1, 2, 0, 0)
    assert counts("ias_all_excluding_forced.L2") == (3, 3, 1, 1)
    # Without a level L4a is left out, with it it is there.
    assert counts("by_action.TAKE_TURN") == (2, 2, 1, 1)
    assert counts("by_action.TAKE_TURN.L4a") == (0, 1, 0, 0)
    assert counts("by_role.R1") == (4, 5, 1, 1)


def test_no_evidence_is_no_value() -> None:
    lost = [session(1, UNSCORED, measured={}), session(2, Outcome.UNSUPPORTED, measured={})]
    found = reading("ias_core.L2", lost)
    assert (found.value, found.n, found.interval) == (None, 0, None)
    assert found.why_none == "no session scored (1 unscored, 1 unsupported)"
    found = reading("ias_core.L3", lost)
    assert found.why_none == "no session of ias_core.L3 in this run"
    assert reading("flags.forced", lost).why_none == "no session was measured"
    assert reading("cases_passed", lost).why_none == "no session scored"
    assert reading("unscored", []).why_none == "no session in this run"
    found = reading("latency.reply.p90_ms", replies([None, None]))
    assert (found.why_none, found.missing) == ("none of 2 measured has one", 2)
    found = reading("latency.yield.p90_ms", replies([0.4]))
    assert found.why_none == "no session that could have one"


def replies(values: Sequence[float | None]) -> list[Session]:
    return [session(k, measured={"label": "floor_take", "genuine_onset_s": v})
            for k, v in enumerate(values)]


def test_a_percentile_and_between_which_values_it_lies() -> None:
    """100 replies of 10 to 1000 ms: the p90 lies between the 84th and the 96th of them."""
    values = [(k + 1) / 100 for k in range(100)]
    found = reading("latency.reply.p90_ms", [*replies(values), *replies([None] * 3)])
    assert found.value == pytest.approx(901.0)
    assert (found.n, found.missing) == (100, 3)
    assert found.interval == pytest.approx((840.0, 960.0))
    assert found.about_interval == "order statistics"


def test_few_latencies_have_no_upper_end() -> None:
    found = reading("latency.reply.p90_ms", replies([0.4] * 35))
    assert found.interval == (400.0, None)
    assert found.about_interval == "order statistics; 35 values give a p90 no upper end"


def test_which_sessions_have_a_latency() -> None:
    def one(action: Action, limited: bool = True, **measured: Any) -> Session:
        return session(1, action=action, measured=measured, limited=limited)

    sessions = [
        one(Action.TAKE_TURN, genuine_onset_s=0.5), one(Action.INTERRUPT, genuine_onset_s=0.6),
        one(Action.YIELD, first_offset_s=0.2, held_at_w0=True),
        one(Action.YIELD, first_offset_s=0.3, held_at_w0=False),
        one(Action.YIELD, first_offset_s=None, held_at_w0=True),
        one(Action.BACKCHANNEL, genuine_onset_s=0.4, label="backchannel"),
        one(Action.BACKCHANNEL, genuine_onset_s=0.7, label="floor_take"),
        one(Action.BACKCHANNEL, limited=False, genuine_onset_s=0.8, label="backchannel"),
        one(Action.TAKE_TURN, genuine_onset_s=None), one(Action.TAKE_TURN)]
    assert {kind: latencies_ms(kind, sessions) for kind in (
        "reply", "interrupt", "yield", "backchannel")} == {
            "reply": [500.0, None], "interrupt": [600.0], "yield": [200.0, None, None],
            "backchannel": [400.0, None, None]}


def test_flags_are_counted_among_measured_sessions() -> None:
    sessions = [session(1, flags=("forced",)), session(2), session(3, UNSCORED, measured={})]
    assert reading("flags.forced", sessions).value == 1.0
    found = reading("flags.no_opportunity", sessions)
    assert (found.value, found.n, found.interval) == (0.0, 2, None)
    # A flag of a recording of others, which no page lists.
    other = [replace(sessions[0], flags=("dc_offset",))]
    assert reading("flags.dc_offset", other).value == 1.0


def test_shares_of_all_sessions() -> None:
    sessions = [session(1), session(2, UNSCORED, measured={}, status="infra_error"),
                session(3, UNSCORED, measured={}, status="void"),
                session(4, UNSCORED, measured={}, status="not_played"), session(5, UNSCORED),
                session(6, Outcome.UNSUPPORTED, measured={}), session(7, FAIL), session(8)]
    wanted = {"unscored": 0.5, "unsupported": 0.125, "infra_error": 0.125, "void": 0.125,
              "not_played": 0.125}
    assert {path: reading(path, sessions).value for path in wanted} == wanted
    assert reading("infra_error", sessions).named == ("R1-C1-2-L2",)


def test_cases_that_pass_in_most_of_their_trials() -> None:
    """Two of three pass; one of two does not; a trial without a verdict has not shown it."""
    trials = {1: (PASS, PASS, FAIL), 2: (PASS, FAIL), 3: (PASS, UNSCORED, UNSCORED), 4: (PASS,),
              5: (Outcome.UNSUPPORTED,)}
    sessions = [session(k, outcome, trial=t) for k, found in trials.items()
                for t, outcome in enumerate(found, start=1)]
    found = reading("cases_passed", sessions)
    assert (found.value, found.n, found.passed, found.unsupported) == (0.5, 4, 2, 1)
    assert found.named == ("R1-C1-2-L2", "R1-C1-3-L2")


def test_which_rates_two_runs_can_be_paired_on() -> None:
    figures = catalogue(CORE)
    assert {path: figures[path].droppable for path in (
        "ias_core.L2", "by_action.YIELD", "by_role.R1.L2", "ias_core_live.L2",
        "ias_all_excluding_forced.L2", "latency.reply.p90_ms", "flags.forced", "unscored")} == {
            "ias_core.L2": True, "by_action.YIELD": True, "by_role.R1.L2": True,
            "ias_core_live.L2": False, "ias_all_excluding_forced.L2": False,
            "latency.reply.p90_ms": False, "flags.forced": False, "unscored": False}
    assert isinstance(figures["unscored"], Figure)


def test_known_flags_are_those_of_the_page() -> None:
    page = (Path(__file__).parents[4] / "docs" / "formats.md").read_text(encoding="utf-8")
    table = page.split("## Flags")[1].split("\n## ")[0]
    listed = {flag for line in table.splitlines() if line.startswith("| `")
              for flag in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert listed == KNOWN_FLAGS


NAMES = ("X", "X.L1", "X.L1.L2", "", ".", "L1", '"X.L1"', '"X', "X.", " X", "X\n",
         "\ud800", "a=b", "none")


def test_every_role_has_figures_of_its_own() -> None:
    """A role that reads like another one at a level is quoted; one without a name too."""
    sessions = [replace(session(k), role=name, level=level)
                for k, name in enumerate(NAMES) for level in ("L1", "L2", "L1.L2")]
    figures = catalogue(sessions, NAMES)
    paths = {name: next(f.path for f in figures.values() if f.keys == ("ias", "by_role", name))
             for name in NAMES}
    assert (paths["X"], paths["X.L1"], paths[""]) == ("by_role.X", 'by_role."X.L1"', 'by_role.""')
    # No name is taken twice: none has fallen on another's.
    assert sum(f.keys[1:2] == ("by_role",) for f in figures.values()) == len(NAMES) * (1 + 8)
    assert sum(f.keys[0] == "flags" for f in figures.values()) == len(KNOWN_FLAGS | {*NAMES})
    assert all(path == f.path and path.isprintable() for path, f in figures.items())

    def n(path: str) -> int:
        wanted = figures[path].wanted
        assert wanted is not None
        return sum(map(wanted, sessions))

    assert (n("by_role.X.L1"), n('by_role."X.L1"'), n('by_role."X.L1".L1')) == (1, 3, 1)
    assert (n('by_role."".L2'), n('by_role.X."L1.L2"')) == (1, 1)
