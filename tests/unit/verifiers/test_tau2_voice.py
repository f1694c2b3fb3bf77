"""The voice panel of tau2-bench on drawn ticks, each value counted by hand, and where ours differs.

A tick is a character of 0.2 s.
"""

from __future__ import annotations

import pytest

from audio.spans import Spans
from verifiers.decide import verify
from verifiers.definitions.talk import Talk
from verifiers.definitions.tau2_voice import (
    METRICS,
    TICK_NS,
    Ticks,
    agent_interruptions,
    holds,
    read,
    responses,
    ticks_of,
    yields,
)
from verifiers.scene import Action, Scene, Window

MS = 1_000_000
S = 1000 * MS


def drawn(user: str, agent: str, hold: int | None = None) -> Ticks:
    """`#` speaks."""
    assert len(user) == len(agent)

    def runs(line: str) -> Spans:
        return Spans.of((k, k + 1) for k, c in enumerate(line) if c == "#")

    return Ticks(runs(user), runs(agent), len(user), hold)


@pytest.mark.parametrize(("user", "agent", "latencies", "unanswered", "dropped"), [
    # answered two ticks behind the turn
    ("##......", "....##..", [2], 0, 0),
    # the least latency there is: one tick
    ("##......", "...##...", [1], 0, 0),
    # begins in the tick behind: the turn is dropped, and so in the tick of its end
    ("##......", "..###...", [], 0, 1),
    (".##.....", "..###...", [], 0, 1),
    # runs on from before the last tick: no fast answer, dropped all the same
    (".###....", "..###...", [], 0, 0),
    # the user speaks again first
    ("##..##..", ".......#", [1], 1, 0),
    # a fast answer drops the second turn, so that it is an answer to the first, four ticks late
    ("##..##..", "......#.", [4], 0, 1),
    # both begin in one tick: answered, and the second turn is left while the agent speaks
    ("##..##..", "....####", [2], 0, 0),
    ("##..##...", "....##...", [2], 0, 0),
    # nobody speaks again: the last turn is no event, though nobody answered it
    ("##..##..", "........", [], 1, 0),
    ("##......", "........", [], 0, 0),
    # an agent that spoke before has not answered
    (".##.....", "#.......", [], 0, 0),
])
def test_responses(user, agent, latencies, unanswered, dropped):
    found = responses(drawn(user, agent))
    assert (list(found.latencies), found.unanswered, found.fast_dropped) == (
        latencies, unanswered, dropped)
    assert found.total == len(latencies) + unanswered


@pytest.mark.parametrize(("spoken", "found"), [
    (1, ([1], 0)), (9, ([9], 0)), (10, ([], 1)), (15, ([], 1))])
def test_yields(spoken, found):
    agent = ".#" + "#" * spoken
    ticks = drawn(("..###" + "." * 20)[:25], (agent + "." * 25)[:25])
    assert (list(yields(ticks).latencies), yields(ticks).held) == found
    assert yields(ticks).cut_off == 0


def test_no_yield_where_the_agent_is_silent_in_the_first_tick():
    assert yields(drawn("..##..", "##....")).latencies == ()
    assert yields(drawn("..##..", "###...")).latencies == (1,)


def test_a_silent_tick_is_a_yield_though_the_agent_goes_on():
    assert yields(drawn("..####......", "####.#######")).latencies == (2,)


def test_an_end_that_was_not_observed_is_left_out():
    found = yields(drawn("..####.", "#######"))  # no yield in theirs
    assert (found.latencies, found.held, found.cut_off) == ((), 0, 1)
    assert yields(drawn("..####." + "." * 5, "#" * 12)).held == 1  # ten ticks were observed
    assert yields(drawn("..####." + "." * 4, "#" * 11)).cut_off == 1


def test_what_is_to_be_talked_through_is_in_no_other_figure():
    ticks = drawn("##....##....", ".....#######", hold=6)
    assert holds(ticks).held == 1
    assert yields(ticks).latencies == ()
    assert yields(ticks).held == 0
    assert yields(ticks).cut_off == 0
    assert responses(ticks).latencies == (3,)
    assert holds(drawn("##....##....", ".....######.", hold=6)).held == 1
    assert holds(drawn("##....##....", ".....#####..", hold=6)).latencies == (4,)
    # its later segments are not asked again; an earlier turn is as ever
    again = drawn(".##...##.##.", "############", hold=6)
    assert holds(again).held == 1
    assert (yields(again).held, yields(again).cut_off) == (1, 0)
    assert holds(drawn("##....##....", "............")).held == 0


def test_agent_interruptions_count_every_segment_that_begins_in_user_speech():
    assert agent_interruptions(drawn("..####..", "#..#.#..")) == 2
    assert agent_interruptions(drawn("..####..", "#.....#.")) == 0
    assert agent_interruptions(drawn("..####..", "..#.....")) == 1


def talk(*model: tuple[int, int], user=((1 * S, 3 * S),), recorded=10 * S, hold=False) -> Talk:
    return Talk(tuple(Spans((u,)) for u in user), Spans(model), recorded, (3 * S, 8 * S),
                hold_through=hold)


def test_ticks_hold_any_speech():
    found = ticks_of(talk((TICK_NS - 1, TICK_NS + 1), (20 * TICK_NS, 21 * TICK_NS), hold=True))
    assert found == Ticks(Spans(((5, 15),)), Spans(((0, 2), (20, 21))), 50, 5)
    assert ticks_of(talk(recorded=10 * S + 1)).n == 51
    assert ticks_of(talk((9 * S, 10 * S + 1), recorded=10 * S)).agent == Spans(((45, 50),))
    assert ticks_of(talk((4 * S, 5 * S)), tick_ns=S).agent == Spans(((4, 5),))


def values(of: Talk) -> dict[str, float | str]:
    return {k: r.total / r.n if r.n else r.reason for k, r in read(of).items()}


def test_a_fast_answer_is_dropped_there_and_passes_ours():
    scene = talk((3 * S + 100 * MS, 6 * S))
    found = values(scene)
    assert found["l_r"] == "no turn was answered"
    assert found["r_r"] == "no user segment that counts as a turn"
    ours = verify(Scene(Action.TAKE_TURN, Window(3 * S, 8 * S), scene.model, scene.user, 10 * S))
    assert ours[1].outcome == "pass"
    assert ours[0].scored.onset_ns == 100 * MS


def test_latency_is_in_whole_ticks():
    # 0.59 s is 0.4 s there: the answer's tick begins before it does.
    assert values(talk((3 * S + 590 * MS, 6 * S)))["l_r"] == pytest.approx(0.4)


def test_panel_of_a_session():
    scene = talk((2 * S, 2400 * MS), (4 * S, 6 * S), (8 * S, 9 * S),
                 user=((1 * S, 3 * S), (5 * S, 7 * S)))
    found = values(scene)
    assert found["l_r"] == pytest.approx(1.0)      # 3.0 -> 4.0, 7.0 -> 8.0
    assert found["r_r"] == 1
    assert found["fast_dropped"] == 0
    assert found["l_y"] == pytest.approx(1.0)      # 5.0 -> 6.0
    assert found["r_y"] == 1
    assert found["cut_off"] == 0
    assert found["i_a"] == 0.5                      # the "mm" at 2.0 s, over two turns
    assert "s_hold" not in found
    assert all(str(found[k]).startswith("no ") for k in ("s_bc", "s_vt", "s_nd"))


def test_interruptions_of_a_session_without_a_response_event_count():
    # Theirs sums both counts over simulations before it divides: an agent that talks over the
    # user to the end must not drop out of I_A.
    found = read(talk((2 * S, 10 * S)))
    assert (found["i_a"].total, found["i_a"].n) == (1, 0)
    assert (found["r_r"].total, found["r_r"].n) == (0, 0)
    assert found["i_a"].reason == found["r_r"].reason == "no user segment that counts as a turn"


def test_a_late_yield_is_one_there_and_fails_ours():
    scene = talk((0, 2800 * MS))
    assert values(scene)["r_y"] == 1
    assert values(scene)["l_y"] == pytest.approx(1.8)
    ours = verify(Scene(Action.YIELD, Window(S, 4 * S), scene.model, scene.user, 10 * S))
    assert ours[1].outcome == "fail"
    assert read(talk((0, 3 * S)))["r_y"].n == 1
    assert values(talk((0, 3 * S)))["r_y"] == 0     # exactly 2.0 s: their loop ends before it


def test_selectivity_on_continue():
    assert values(talk((0, 5 * S), hold=True))["s_hold"] == 1
    assert values(talk((0, 1900 * MS), hold=True))["s_hold"] == 1  # still in the fifth tick
    assert values(talk((0, 1800 * MS), hold=True))["s_hold"] == 0
    assert values(talk(hold=True))["s_hold"] == "the user never begins over the agent"
    assert values(talk((0, 9 * S), recorded=9 * S))["r_y"] == 0
    assert values(talk((0, 2 * S), recorded=2 * S))["cut_off"] == 1


def test_a_silent_agent_is_in_no_rate_there_and_fails_ours():
    found = values(talk())
    assert found["r_r"] == "no user segment that counts as a turn"
    assert values(talk(user=((S, 2 * S), (4 * S, 5 * S))))["r_r"] == 0  # the first of two turns


def test_every_figure_is_read():
    assert set(read(talk(hold=True))) == {metric.key for metric in METRICS}
