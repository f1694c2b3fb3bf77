from __future__ import annotations

from dataclasses import replace

import pytest

from audio.spans import Spans
from sweeps.aggregate import Row, Tally, ias, latency
from sweeps.intervals import wilson
from verifiers.decide import verify
from verifiers.scene import Action, CaseParams, Scene, Window
from verifiers.verdict import Outcome, Verdict, unsupported

MS = 1_000_000
S = 1000 * MS


def row(action, outcome, level="L1", role="R1", flags=(), measurement=None):
    return Row(Action(action), level, role, Verdict(Outcome(outcome), "because"), measurement,
               flags)


NO_PARAMS = CaseParams()


def played(action, *model, level="L1", role="R1", recorded=20 * S, params=NO_PARAMS, **fields):
    scene = Scene(Action(action), Window(10 * S, 13 * S), Spans(tuple(
        (10 * S + a, 10 * S + b) for a, b in model)), Spans(((9 * S, 12 * S),)), recorded,
        params=params, **fields)
    measurement, verdict = verify(scene)
    return Row(scene.expected_action, level, role, verdict, measurement, verdict.flags)


def test_counts_first_ratios_last():
    tally = Tally.of([Outcome.PASS, Outcome.PASS, Outcome.FAIL, Outcome.UNSCORED,
                      Outcome.UNSUPPORTED, Outcome.UNSUPPORTED])
    assert tally == Tally(passed=2, n=3, unscored=1, unsupported=2)
    assert tally.as_dict() == {"n": 3, "passed": 2, "rate": 2 / 3, "ci": list(wilson(2, 3)),
                               "unscored": 1, "unsupported": 2}


def test_no_case_has_no_rate():
    assert Tally.of([Outcome.UNSCORED]).as_dict() == {
        "n": 0, "passed": 0, "rate": None, "ci": None, "unscored": 1, "unsupported": 0}
    assert Tally(0, 1).rate == 0.0


def test_core_and_all_by_level():
    got = ias([row("LISTEN", "pass"), row("READBACK", "fail"), row("TAKE_TURN", "pass"),
               row("YIELD", "pass", "L2"), row("INTERRUPT", "fail"), row("CONTINUE", "pass", "L0"),
               row("BACKCHANNEL", "unscored")])
    assert {level: (t["passed"], t["n"]) for level, t in got["core"].items()} == {
        "L1": (2, 3), "L2": (1, 1)}
    assert {level: (t["passed"], t["n"]) for level, t in got["all"].items()} == {
        "L0": (1, 1), "L1": (2, 4), "L2": (1, 1)}
    assert list(got["all"]) == ["L0", "L1", "L2"]
    assert got["all"]["L1"]["unscored"] == 1


def test_by_action_and_role_pool_every_level_but_l4a():
    rows = [row("LISTEN", "pass", level) for level in ("L0", "L1", "L2", "L3", "L4b")]
    rows += [row("LISTEN", "fail", "L4a", role="R2"), row("YIELD", "fail", "L4a")]
    got = ias(rows)
    assert (got["by_action"]["LISTEN"]["passed"], got["by_action"]["LISTEN"]["n"]) == (5, 5)
    assert got["by_action"]["LISTEN"]["by_level"]["L4a"]["n"] == 1
    assert got["by_action"]["LISTEN"]["by_level"]["L0"]["passed"] == 1
    assert (got["by_action"]["YIELD"]["n"], got["by_action"]["YIELD"]["rate"]) == (0, None)
    assert got["by_role"]["R2"]["rate"] is None
    assert got["by_role"]["R1"]["n"] == 5
    assert got["core"]["L4a"]["reading"] == "persona_default_retention"
    assert "reading" not in got["core"]["L3"]
    assert set(got["by_action"]) == {"LISTEN", "YIELD"}


def test_recordings_of_no_suite_have_the_level_none():
    got = ias([row("LISTEN", "pass", level=None, role=None), row("LISTEN", "fail", level="X9")])
    assert list(got["all"]) == ["none", "X9"]
    assert list(got["by_role"]) == ["R1"]


def test_live_sessions_and_forced_barge_ins():
    speaks = played("LISTEN", (-5 * S, -4 * S))
    silent = played("LISTEN")
    assert (speaks.verdict.outcome, silent.verdict.outcome) == ("pass", "pass")
    forced = played("YIELD", (S, 2 * S), forced=True)
    assert forced.flags[0] == "forced"
    lost = Row(Action.LISTEN, "L1", "R1", unsupported("x"), None)
    by_flag = replace(speaks, flags=("forced",))
    got = ias([speaks, silent, forced, lost, by_flag])
    assert got["core"]["L1"]["n"] == 4
    assert got["core_live"]["L1"]["n"] == 3
    assert got["core_live"]["L1"]["unsupported"] == 0
    assert got["all_excluding_forced"]["L1"]["n"] == 2
    assert got["all_excluding_forced"]["L1"]["unsupported"] == 1
    assert set(got) == {"core", "all", "core_live", "all_live", "core_excluding_forced",
                        "all_excluding_forced", "by_action", "by_role"}


def test_latency_percentiles_interpolate():
    rows = [played("TAKE_TURN", (i * 100 * MS, i * 100 * MS + S)) for i in range(1, 12)]
    rows += [played("TAKE_TURN"), Row(Action.TAKE_TURN, "L1", "R1", unsupported("x"), None)]
    got = latency(rows)
    # 100 .. 1100 ms: type 7 puts p90 at place 9 of 0..10, p99 at 9.9
    assert got["reply"] == {"n": 11, "missing": 1, "p50_ms": 600.0, "p90_ms": 1000.0,
                            "p99_ms": pytest.approx(1090.0)}
    assert got["yield"] == {"n": 0, "missing": 0, "p50_ms": None, "p90_ms": None, "p99_ms": None}


def test_what_each_latency_is():
    got = latency([
        played("INTERRUPT", (700 * MS, S)),
        played("YIELD", (-S, 400 * MS)),
        played("YIELD", (S, 2 * S)),                                  # held no floor
        played("YIELD", (-S, 4 * S), recorded=14 * S),                # cut
        played("YIELD", (-S, 100 * MS), recorded=9 * S + 1100 * MS),  # cut
        played("YIELD", recorded=10 * S),                             # window outside
        played("BACKCHANNEL", (300 * MS, 700 * MS)),
        played("BACKCHANNEL", (300 * MS, 900 * MS), params=CaseParams(ceiling_s=0.6)),
        played("BACKCHANNEL", (200 * MS, 2 * S)),                     # a turn
        played("BACKCHANNEL"),
        played("LISTEN", (S, 2 * S)),
    ])
    assert [(name, found["n"], found["missing"], found["p50_ms"])
            for name, found in got.items()] == [
        ("reply", 0, 0, None), ("interrupt", 1, 0, 700.0), ("yield", 1, 3, 400.0),
        ("backchannel", 1, 3, 300.0)]
    unread = Row(Action.BACKCHANNEL, "L1", "R1", Verdict(Outcome.UNSCORED, "x"),
                 played("BACKCHANNEL", (0, S)).measurement)
    assert latency([unread])["backchannel"]["missing"] == 1
