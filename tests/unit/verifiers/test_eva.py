"""EVA's turn taking on drawn sessions, each value worked out by hand, and where ours differs."""

from __future__ import annotations

import pytest

from audio.spans import Spans
from verifiers.decide import verify
from verifiers.definitions.eva import (
    METRICS,
    count_score,
    latency_score,
    overlap_score,
    percentile,
    read,
    turns_of,
    yield_score,
)
from verifiers.definitions.talk import Talk
from verifiers.scene import Action, Scene, Window

S = 1_000_000_000
MS = S // 1000


def spans(*pairs: tuple[float, float]) -> Spans:
    return Spans(tuple((round(a * S), round(b * S)) for a, b in pairs))


def talk(*model: tuple[float, float], first: tuple[tuple[float, float], ...] = ((1, 2),),
         last: tuple[tuple[float, float], ...] = ((6, 8),), recorded: float = 20) -> Talk:
    return Talk((spans(*first), spans(*last)), spans(*model), round(recorded * S),
                (8 * S, 18 * S))


def values(of: Talk) -> dict[str, float | str]:
    return {k: r.total / r.n if r.n else r.reason for k, r in read(of).items()}


@pytest.mark.parametrize(("ms", "score"), [
    # the table of their page
    (-600, 0), (-500, 0), (0, 0.5), (200, 0.7), (500, 1), (2000, 1), (2750, 0.5),
    (3000, 1 / 3), (3500, 0), (4000, 0), (1000, 1)])
def test_latency_curve(ms, score):
    assert latency_score(ms) == pytest.approx(score)


@pytest.mark.parametrize(("ms", "score"), [(0, 0.5), (500, 0.375), (1000, 0.25), (2000, 0),
                                           (2500, 0)])
def test_overlap_curve(ms, score):
    assert overlap_score(ms) == pytest.approx(score)


@pytest.mark.parametrize(("n", "score"), [(1, 0.5), (2, 0.25), (3, 0), (4, 0)])
def test_count_curve(n, score):
    assert count_score(n) == pytest.approx(score)


@pytest.mark.parametrize(("ms", "score"), [(0, 1), (600, 0.7), (1000, 0.5), (2000, 0), (9000, 0)])
def test_yield_curve(ms, score):
    assert yield_score(ms) == pytest.approx(score)


def test_latency_turns():
    found = values(talk((2.2, 4), (11, 13)))
    assert found["mean_latency"] == pytest.approx(1600)   # 200 and 3000
    assert found["score"] == pytest.approx((0.7 + 1 / 3) / 2)
    assert found["p50_latency"] == 3000                    # the larger of two; the median is 1600
    assert found["p90_latency"] == 3000
    assert (found["early"], found["on_time"], found["late"]) == (0, 0.5, 0.5)
    assert found["agent_interruption"] == found["user_interruption"] == 0
    assert found["overlap"] == found["yield"] == found["yield_score"] == "no such turn"


@pytest.mark.parametrize(("onset", "early", "late"), [
    (2.199, 0.5, 0), (2.2, 0, 0), (4.749, 0, 0), (4.75, 0, 0.5)])
def test_early_and_late(onset, early, late):
    found = values(talk((onset, onset + 0.5), (9, 10)))
    assert (found["early"], found["late"]) == (early, late)
    assert found["on_time"] == 1 - early - late


@pytest.mark.parametrize(("values_", "p", "found"), [
    ([3, 1, 2], 0.5, 2), ([1, 2], 0.5, 2), ([1], 0.9, 1), ([2, 1], 1.0, 2),
    (list(range(10)), 0.9, 9), (list(range(20)), 0.9, 18)])
def test_percentile(values_, p, found):
    assert percentile(values_, p) == found


def test_a_greeting_is_left_out():
    assert [t.latency_ms for t in turns_of(talk((0, 0.5), (3, 4)))] == [1000]


def test_audio_belongs_to_the_turn_behind_whose_start_it_begins():
    found = turns_of(talk((3, 5), (6.0, 6.5)))
    assert [t.latency_ms for t in found] == [1000, -2000]
    assert not found[1].user_interrupted  # it begins with the user: it was not running before
    assert found[1].agent_interrupted


def test_an_agent_interruption():
    """Two barge-ins of 0.4 and 0.6 s, then an answer 1.5 s behind the user."""
    turn, = turns_of(talk((6.2, 6.6), (7.0, 7.6), (9.5, 11)))
    assert turn.agent_interrupted
    assert turn.overlap_ms == pytest.approx(1000)
    assert turn.segments_n == 2
    assert turn.settled_ms == pytest.approx(1500)
    assert turn.score == pytest.approx(0.25)               # the count; overlap 0.25 too
    assert turn.latency_ms == pytest.approx(-1800)         # in the means and early all the same
    assert values(talk((6.2, 6.6), (9.5, 11)))["early"] == 1
    assert values(talk((3, 4), (6.2, 6.6), (9.5, 11)))["agent_interruption"] == 0.5
    assert values(talk((6.2, 6.6), (9.5, 11)))["overlap"] == pytest.approx(400)
    late, = turns_of(talk((6.2, 6.3), (11.25, 12)))
    assert late.score == pytest.approx(latency_score(3250))  # brief, then silent for 3.25 s


def test_an_agent_segment_that_spans_the_users_end_leaves_no_gap():
    turn, = turns_of(talk((7.5, 9), (12, 13)))
    assert turn.settled_ms is None
    assert turn.score == pytest.approx(0.375)              # 0.5 s of overlap
    never, = turns_of(talk((7.0, 7.5)))
    assert never.settled_ms is None
    exactly, = turns_of(talk((7.0, 7.5), (8, 9)))
    assert exactly.settled_ms is None                       # begins as the user ends


@pytest.mark.parametrize(("overlap", "n"), [(MS, 0), (MS + 1, 1)])
def test_overlap_of_a_millisecond_is_no_segment(overlap, n):
    model = Spans(((8 * S - overlap, 10 * S),))
    turn, = turns_of(Talk((spans((1, 2)), spans((6, 8))), model, 20 * S, (8 * S, 18 * S)))
    assert turn.agent_interrupted
    assert turn.segments_n == n


def test_a_user_interruption():
    turn, = turns_of(Talk((spans((6, 8)),), spans((3, 6.6), (9, 10)), 20 * S, (8 * S, 18 * S)))
    assert turn.user_interrupted
    assert turn.yield_ms == pytest.approx(600)
    assert turn.score == pytest.approx(0.7)                # its latency of 1 s would be 1.0
    found = values(talk((3, 6.6), (9, 10)))
    assert found["user_interruption"] == 0.5
    assert found["yield"] == pytest.approx(600)
    assert found["yield_score"] == pytest.approx(0.7)


def test_both_interruptions_take_the_less():
    turns = turns_of(talk((3, 6.2), (7, 7.5), (9, 10)))
    assert turns[1].agent_interrupted
    assert turns[1].user_interrupted
    assert turns[1].score == pytest.approx(0.375)          # overlap 0.5 s; the yield gives 0.9
    slow = turns_of(talk((3, 7.6), (7.9, 7.95), (9, 10)))
    assert slow[1].score == pytest.approx(yield_score(1600))


def test_a_stop_before_the_user_is_no_negative_yield():
    turn = turns_of(talk((3, 5), (9, 10)))[1]
    assert turn.yield_ms == 0
    assert not turn.user_interrupted
    assert turns_of(talk((9, 10)))[0].yield_ms is None


def test_a_model_that_yields_for_good_is_not_counted_there_and_passes_ours():
    scene = talk((3, 6.4))
    found = values(scene)
    assert found["user_interruption"] == 0
    assert found["yield"] == "no such turn"
    ours = verify(Scene(Action.YIELD, Window(6 * S, 9 * S), scene.model, scene.user, 20 * S))
    assert ours[1].outcome == "pass"


def test_a_reply_in_a_pause_is_no_interruption_and_early():
    scene = talk((7.2, 7.6), first=((1, 2),), last=((6, 7), (8, 9)))
    found = values(scene)
    assert found["agent_interruption"] == 0
    assert found["mean_latency"] == pytest.approx(-1800)
    assert found["early"] == 1
    assert found["score"] == 0
    ours = verify(Scene(Action.TAKE_TURN, Window(7 * S, 8 * S), scene.model, scene.user, 20 * S))
    assert ours[1].outcome == "pass"


def test_overlap_is_of_what_the_agent_began_in_the_turn():
    scene = talk((3, 6.5), (7.8, 9))
    assert values(scene)["overlap"] == pytest.approx(200)
    ours, _ = verify(Scene(Action.ACCEPT_OVERLAP, Window(6 * S, 9 * S), scene.model, scene.user,
                           20 * S))
    assert ours.scored.overlap_ns == 700 * MS


def test_a_silent_session_is_null_and_not_0():
    assert set(values(talk()).values()) == {
        "no turn in which the model answers (theirs: score 0)"}
    assert set(read(talk())) == set(read(talk((3, 4)))) == {metric.key for metric in METRICS}
