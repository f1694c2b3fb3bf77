"""Full-Duplex-Bench's figures on drawn scenes, each value worked out by hand, at each boundary; and
where ours says something else of the same scene."""

from __future__ import annotations

import pytest

from audio.spans import Spans
from verifiers.decide import verify
from verifiers.definitions.full_duplex_bench import (
    METRICS,
    NO_WORD_HEARD,
    NO_WORDS,
    Sample,
    backchannels,
    cut,
    raw_latency_ns,
    read,
    response_latencies_ns,
    stop_latencies_ns,
    take_over,
)
from verifiers.definitions.talk import Talk
from verifiers.scene import Action, Scene, Window
from verifiers.verdict import Outcome

MS = 1_000_000
S = 1000 * MS


def spans(*pairs: tuple[float, float]) -> Spans:
    """From seconds."""
    return Spans(tuple((round(a * S), round(b * S)) for a, b in pairs))


def sample(*model: tuple[int, int], words: tuple[int, ...] | None = None, length: int = 10 * S,
           end: int | None = None) -> Sample:
    return Sample(Spans(model), words, length, end)


def talk(*model: tuple[float, float], user: tuple[tuple[float, float], ...] = ((4, 6),),
         window: tuple[float, float] = (6, 16), recorded: float = 20,
         words: tuple[float, ...] | None = None) -> Talk:
    """Turn 1 at 1 to 2 s, the last turn as given."""
    return Talk((spans((1, 2)), spans(*user)), spans(*model), round(recorded * S),
                (round(window[0] * S), round(window[1] * S)),
                None if words is None else tuple(round(w * S) for w in words))


def ours(action: Action, of: Talk) -> Outcome:
    """Our verdict of the same scene."""
    scene = Scene(action, Window(*of.window_ns), of.model, of.user, of.recorded_ns)
    return verify(scene)[1].outcome


def value(action: Action, of: Talk, key: str) -> float | str:
    reading = read(action, of)[key]
    return reading.total / reading.n if reading.n else reading.reason


@pytest.mark.parametrize(("model", "words", "expected"), [
    ((), None, (False, "")),
    ((), (), (False, "")),
    (((0, S),), None, (True, "")),
    (((0, S - 1),), None, (None, NO_WORDS)),
    (((0, S - 1),), (1, 2, 3), (False, "")),
    (((0, S - 1),), (1, 2, 3, 4), (True, "")),
    # From the first onset to the last offset: two short words a second apart take the turn.
    (((0, 200 * MS), (900 * MS, S)), (0, 900 * MS), (True, "")),
    (((0, 200 * MS), (700 * MS, S - 1)), (0, 700 * MS), (False, "")),
    # Sound without a word in the transcript: their recogniser may have heard any number.
    (((0, 5 * S),), (), (None, NO_WORD_HEARD)),
])
def test_take_over(model, words, expected):
    assert take_over(sample(*model, words=words)) == expected


def test_a_cut_takes_words_and_speech_inside_and_cuts_what_runs_over():
    found = cut(talk((3, 5), (8, 9), words=(3.0, 4.0, 4.5, 7.0, 8.0, 9.0)), 4 * S, 8 * S, 6 * S)
    assert found == Sample(spans((0, 1)), (0, 500 * MS, 3 * S), 4 * S, 2 * S)
    assert cut(talk((3, 5)), 4 * S, 8 * S) == Sample(spans((0, 1)), None, 4 * S, None)


def test_raw_latency_keeps_its_sign():
    assert raw_latency_ns(sample((3 * S, 4 * S), end=S)) == 2 * S
    assert raw_latency_ns(sample((S, 4 * S), end=3 * S)) == -2 * S
    assert raw_latency_ns(sample(end=S)) is None
    assert raw_latency_ns(sample((S, 4 * S))) is None


# Differences from ours, one scene each.

def test_a_short_sound_in_a_pause_is_no_take_over_and_fails_listen():
    scene = talk((5.0, 5.4), user=((4, 4.8), (7.3, 8)), window=(4.8, 7.3), words=(5.1,))
    assert value(Action.LISTEN, scene, "pause.tor") == 0
    assert ours(Action.LISTEN, scene) == "fail"


def test_a_turn_before_the_pause_is_a_take_over_and_passes_listen():
    scene = talk((4.1, 5.9), user=((4, 6), (8.5, 9)), window=(6, 8.5))
    assert value(Action.LISTEN, scene, "pause.tor") == 1
    assert ours(Action.LISTEN, scene) == "pass"


def test_an_answer_behind_the_listening_window_is_in_neither():
    scene = talk((9, 12), user=((4, 6), (8.5, 9)), window=(6, 8.5))
    assert value(Action.LISTEN, scene, "pause.tor") == 0


def test_an_early_answer_has_latency_0_and_fails_take_turn():
    scene = talk((5.5, 9))
    assert value(Action.TAKE_TURN, scene, "turn.tor") == 1
    assert value(Action.TAKE_TURN, scene, "turn.latency") == 0
    assert ours(Action.TAKE_TURN, scene) == "fail"


def test_a_late_answer_is_a_take_over_and_fails_take_turn():
    scene = talk((9, 12))
    assert value(Action.TAKE_TURN, scene, "turn.tor") == 1
    assert value(Action.TAKE_TURN, scene, "turn.latency") == 3
    assert ours(Action.TAKE_TURN, scene) == "fail"


def test_a_short_answer_is_no_take_over_and_passes_take_turn():
    scene = talk((6.5, 7.0), words=(6.7,))
    assert value(Action.TAKE_TURN, scene, "turn.tor") == 0
    assert value(Action.TAKE_TURN, scene, "turn.latency") == "no take-over"
    assert ours(Action.TAKE_TURN, scene) == "pass"


def test_a_short_answer_of_unknown_words_is_null():
    scene = talk((6.5, 7.0))
    assert value(Action.TAKE_TURN, scene, "turn.tor") == NO_WORDS
    assert value(Action.TAKE_TURN, scene, "turn.latency") == NO_WORDS


def test_a_model_that_never_yields_has_the_best_latency_there_and_fails_ours():
    scene = talk((2.5, 15), window=(4, 7))
    assert value(Action.YIELD, scene, "interruption.tor") == 1
    assert value(Action.YIELD, scene, "interruption.latency") == 0
    assert value(Action.YIELD, scene, "interruption.latency_running") == 1
    assert ours(Action.YIELD, scene) == "fail"
    # its stop is the user's two seconds, ours would be eleven
    assert value(Action.YIELD, scene, "v1.5.stop") == 2


def test_a_model_that_yields_for_good_has_no_take_over_there_and_passes_ours():
    scene = talk((2.5, 4.4), window=(4, 7))
    assert value(Action.YIELD, scene, "interruption.tor") == 0
    assert value(Action.YIELD, scene, "interruption.latency_running") == "no take-over"
    assert ours(Action.YIELD, scene) == "pass"
    assert value(Action.YIELD, scene, "v1.5.stop") == pytest.approx(0.4)


def test_one_that_yields_and_answers():
    scene = talk((2.5, 4.4), (7.5, 12), window=(4, 7))
    assert value(Action.YIELD, scene, "interruption.tor") == 1
    assert value(Action.YIELD, scene, "interruption.latency") == 1.5
    assert value(Action.YIELD, scene, "interruption.latency_running") == 0


# Backchannels.

@pytest.mark.parametrize(("model", "words", "count", "last", "any_took"), [
    ((), None, 0, False, False),
    (((0, S - 1),), (5, 6), 1, False, False),
    (((0, S - 1),), (5, 6, 7), 1, True, True),
    (((0, S - 1),), None, 1, None, None),
    (((0, S - 1),), (), 1, False, False),
    (((0, S),), (), 1, True, True),  # counted as a backchannel and a take-over at once
    (((0, 3 * S),), None, 1, True, True),
    (((0, 3 * S + 1),), None, 0, True, True),
    # What follows a segment longer than 3 s is not read.
    (((0, S - 1), (2 * S, 6 * S), (7 * S, 8 * S)), (5,), 1, True, True),
    # The last segment decides there: a turn of two seconds and a "mm" is none.
    (((0, 2 * S), (3 * S, 3 * S + 300 * MS)), (3 * S,), 2, False, True),
    (((0, 2 * S), (3 * S, 3 * S + 300 * MS)), None, 2, None, True),
    # Words in neither segment, at its end, at its start.
    (((S, S + 500 * MS),), (0, S + 500 * MS, 5 * S), 1, False, False),
    (((S, S + 500 * MS),), (S, S + 1, S + 2), 1, True, True),
    (((S, S + 500 * MS),), (S, S + 1, S + 500 * MS), 1, False, False),
    (((S, S + 500 * MS),), (S, S + 1, 5 * S), 1, False, False),
])
def test_backchannels(model, words, count, last, any_took):
    found = backchannels(sample(*model, words=words))
    assert (found.count, found.last_took, found.any_took) == (count, last, any_took)


def test_the_frequency_is_over_the_turn_and_ours_over_its_pause():
    scene = talk((6.2, 6.6), (8.0, 8.3), user=((4, 6), (7.5, 9)), window=(6, 7.5),
                 words=(6.4, 8.1))
    assert value(Action.BACKCHANNEL, scene, "backchannel.frequency") == pytest.approx(2 / 5)
    assert value(Action.BACKCHANNEL, scene, "backchannel.tor_last") == 0
    assert value(Action.BACKCHANNEL, scene, "backchannel.tor_any") == 0
    assert ours(Action.BACKCHANNEL, scene) == "pass"


def test_a_segment_of_2_4_s_is_counted_whatever_the_rate_of_the_file():
    # Read at 24 kHz as if at 16 kHz it would last 3.6 s there and not be counted.
    scene = talk((6.0, 8.4), user=((4, 6), (9, 14)))
    assert value(Action.BACKCHANNEL, scene, "backchannel.frequency") == pytest.approx(1 / 10)


def test_jsd_and_unknown_words_are_null():
    scene = talk((6.2, 6.6), user=((4, 6), (7.5, 9)))
    assert "human" in str(value(Action.BACKCHANNEL, scene, "backchannel.jsd"))
    assert value(Action.BACKCHANNEL, scene, "backchannel.tor_last") == NO_WORDS
    assert value(Action.BACKCHANNEL, scene, "backchannel.tor_any") == NO_WORDS


# v1.5.

def test_stops_are_overlaps_also_those_that_the_model_began():
    assert stop_latencies_ns(spans((1, 3), (6, 9)), spans((2, 7), (8, 10))) == (S, S, S)


@pytest.mark.parametrize(("gap", "stops"), [(0, 1), (1, 2)])
def test_pauses_of_exactly_the_gap_are_merged(gap, stops):
    user = Spans(((0, S), (S + 600 * MS + gap, 5 * S)))
    assert len(stop_latencies_ns(user, Spans(((0, 5 * S),)))) == stops
    model = Spans(((0, S), (S + 500 * MS + gap, 5 * S)))
    assert len(stop_latencies_ns(Spans(((0, 5 * S),)), model)) == stops
    # The user ends in the model's pause: bridged, nothing begins behind.
    assert len(response_latencies_ns(Spans(((0, S + 100 * MS),)), model)) == gap
    assert len(response_latencies_ns(user, Spans(((S + 1, S + 2), (6 * S, 7 * S))))) == stops


def test_a_response_begins_strictly_behind_the_user_and_counts_once():
    assert response_latencies_ns(spans((0, 1)), spans((1, 2))) == ()
    assert response_latencies_ns(spans((0, 1)), Spans(((S + 1, 2 * S),))) == (1,)
    # Two user segments before one answer: from the later.
    assert response_latencies_ns(spans((0, 1), (3, 4)), spans((5, 6))) == (S,)
    # A model that never stopped begins a new sentence: a response there.
    assert response_latencies_ns(spans((3, 4)), spans((0, 8), (9, 10))) == (5 * S,)


def test_v1_5_is_null_without_overlap_or_answer():
    scene = talk((2.5, 3.0), window=(4, 7))
    assert value(Action.CONTINUE, scene, "v1.5.stop") == "the two never speak at once"
    assert value(Action.CONTINUE, scene, "v1.5.response") == 0.5  # of turn 1
    assert "never begins" in str(value(Action.ACCEPT_OVERLAP, talk((0, 0.5)), "v1.5.response"))


def test_the_last_turn_is_the_scored_one_also_where_it_is_the_only_one():
    scene = Talk((spans((4, 6)),), spans((7, 9)), 20 * S, (6 * S, 16 * S))
    assert value(Action.TAKE_TURN, scene, "turn.latency") == 1


def test_every_figure_is_read_on_its_actions_and_on_no_other():
    for action in Action:
        keys = {m.key for m in METRICS if str(action) in m.actions}
        assert set(read(action, talk((2.5, 4.4), (7.5, 12)))) == keys
