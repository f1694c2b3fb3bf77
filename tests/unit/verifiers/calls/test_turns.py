"""Calls drawn on paper, 100 ms a character, with the kind that each agent span must get."""

from __future__ import annotations

import pytest

from audio.spans import Spans
from verifiers.calls.interruption import Interruption, interruption
from verifiers.calls.latency import reply_latency
from verifiers.calls.percentiles import percentile
from verifiers.calls.talk_ratio import talk_ratio
from verifiers.calls.turn_take import SWEEP_NS, TurnTake, turn_take
from verifiers.calls.turns import Fate, Kind, Lookup, TurnRules, classify

MS = 1_000_000
CHARACTER_NS = 100 * MS
R, OV, B, G, C = (Kind.REPLY, Kind.OVERLAP, Kind.BACKCHANNEL, Kind.GREETING, Kind.CONTINUATION)


def spans(drawn: str) -> Spans:
    return Spans.of((i * CHARACTER_NS, (i + 1) * CHARACTER_NS)
                    for i, c in enumerate(drawn) if c == "#")


def ms(*intervals: tuple[int, int]) -> Spans:
    return Spans(tuple((a * MS, b * MS) for a, b in intervals))


def kinds(caller: str, agent: str) -> list[Kind]:
    assert len(caller) == len(agent), "both rows must be equally long"
    return [t.kind for t in classify(spans(caller), spans(agent)).turns]


DRAWN = [
    ("one reply", "####............", "........#####...", [R]),
    ("the caller's pause ends no turn", "###....####.......", "...............###", [R]),
    ("the agent's pause makes no second reply", "####....................",
     "........####.....####...", [R, C]),
    ("a filler, a long gap, the answer: the filler is the reply", "####" + "." * 60,
     "." * 9 + "####" + "." * 40 + "#####......", [R, C]),
    ("greeting before the caller ever spoke", "........####........", "#####...........####",
     [G, R]),
    ("two greetings", "..............####........", "####....####..........####", [G, G, R]),
    ("begins inside caller speech", "###########.........", "........##########..", [OV]),
    ("begins with the caller: inside", "..############..........",
     "..##################....", [OV]),
    ("an overlap start that goes on after a pause", "##########...................",
     "........########.....####....", [OV, C]),
    ("stopped for the caller, who went on: then it replies", "####################..........",
     ".....##########............###", [OV, R]),
    ("an agent's backchannel", "####################.........", ".........###............#####",
     [B, R]),
    ("a backchannel in a caller's pause below 0.5 s", "#########....########.........",
     "..........##............#####.", [B, R]),
    ("a pause of 0.5 s gives the floor", "#########.....########.........",
     "..........##..............####.", [R, R]),
    ("not contained: an early reply", "##########..........", ".........###........", [OV]),
    ("contained but 1.0 s long: an overlap", "###############..........",
     "...##########............", [OV]),
    ("contained and 0.9 s long", "###############..........", "...#########.............", [B]),
    ("a caller's backchannel is no turn", "####............##....................",
     "........##################.....#######", [R, C]),
    ("four of them", "####.......##....##....##....##.........",
     "........##########################.#####", [R, C]),
    ("a barge-in that the agent yields to is a turn", "####..........####...........",
     "........########........#####", [R, R]),
    ("stale audio ends 0.1 s after the barge-in: the next is the reply",
     "####..........####................", "........###########.........######", [R, R]),
    ("the agent talks over the barge-in", "####..........############............",
     "........############################.....###"[:38], [R]),
    ("and goes on after a pause of its own", "####..........############..............",
     "........#######################.....####", [R, C]),
    ("the same breath after a barge-in has begun", "####.......##########................",
     "........#####..####............####..", [R, C, R]),
]


@pytest.mark.parametrize(("caller", "agent", "expected"),
                         [row[1:] for row in DRAWN], ids=[row[0] for row in DRAWN])
def test_kinds(caller, agent, expected):
    assert kinds(caller, agent) == expected


def test_latency_is_from_the_last_offset_to_the_first_onset():
    call = classify(ms((1000, 2000), (2400, 3100)), ms((3850, 5000), (5600, 6000)))
    reply, later = call.turns
    assert reply.latency_ns == 750 * MS
    assert reply.caller_ns == (1000 * MS, 3100 * MS)
    assert later.kind is Kind.CONTINUATION
    assert later.latency_ns is None
    assert later.caller_ns == (1000 * MS, 3100 * MS)


def test_a_reply_at_the_very_offset_has_latency_zero():
    (turn,) = classify(ms((0, 1000)), ms((1000, 2000))).turns
    assert (turn.kind, turn.latency_ns) == (Kind.REPLY, 0)


def test_an_overlap_is_signed_and_in_no_latency():
    call = classify(ms((0, 3000), (9000, 9500)), ms((2700, 5000), (10100, 11000)))
    assert [t.latency_ns for t in call.turns] == [-300 * MS, 600 * MS]
    found = reply_latency(call)
    assert found.values_ns == (600 * MS,)
    assert found.overlaps_ns == (-300 * MS,)
    assert interruption(call) == Interruption(count=1, n=2, backchannels_n=0, doubtful_n=0)


def test_a_greeting_has_no_caller_and_no_latency():
    (turn,) = classify(Spans(), ms((0, 900))).turns
    assert (turn.kind, turn.caller_ns, turn.latency_ns) == (Kind.GREETING, None, None)


@pytest.mark.parametrize(("gap_ms", "expected"), [(499, C), (500, R)])
def test_same_breath_is_strictly_below_the_pause(gap_ms, expected):
    # the caller spoke up 100 ms before the agent stopped, and briefly
    caller = ms((0, 1000), (2900, 3100))
    agent = ms((1500, 3000), (3000 + gap_ms, 6000))
    assert classify(caller, agent).turns[1].kind is expected


@pytest.mark.parametrize("start_ms", [3000, 3050])
def test_a_caller_that_began_once_the_agent_had_ended_is_answered(start_ms):
    # not even touching, so nothing is continued
    caller = ms((0, 1000), (start_ms, 3100))
    agent = ms((1500, 3000), (3300, 3550))
    assert [t.kind for t in classify(caller, agent).turns] == [R, R]


@pytest.mark.parametrize(("after_ms", "expected"), [(499, R), (500, C), (700, C)])
def test_an_agent_that_holds_on_for_the_pause_has_not_yielded(after_ms, expected):
    caller = ms((0, 1000), (3000, 5000))
    agent = ms((1500, 5000 + after_ms), (8000, 9000))
    assert classify(caller, agent).turns[1].kind is expected


@pytest.mark.parametrize(("after_ms", "n"), [(499, 0), (500, 1)])
def test_a_caller_backchannel_asks_that_the_agent_goes_on(after_ms, n):
    call = classify(ms((0, 1000), (3000, 3300)), ms((1500, 3300 + after_ms)))
    assert len(call.caller_backchannels) == n


@pytest.mark.parametrize(("length_ms", "n"), [(999, 1), (1000, 0)])
def test_a_caller_backchannel_is_strictly_below_the_ceiling(length_ms, n):
    call = classify(ms((0, 1000), (3000, 3000 + length_ms)), ms((1500, 9000)))
    assert len(call.caller_backchannels) == n


def test_a_backchannel_may_end_with_the_caller():
    assert classify(ms((0, 3000)), ms((2400, 3000))).turns[0].kind is B
    assert classify(ms((0, 3000)), ms((2400, 3001))).turns[0].kind is OV


def test_an_answer_begun_with_the_caller_goes_on():
    # begun at the very onset of the caller's second turn, still going when that turn ends
    call = classify(ms((0, 1000), (3000, 5000)), ms((3000, 5100), (5700, 6000)))
    assert [t.kind for t in call.turns] == [OV, C]


def test_an_answer_begun_inside_the_caller_goes_on():
    call = classify(ms((0, 5000)), ms((1000, 5100), (5700, 6000)))
    assert [t.kind for t in call.turns] == [OV, C]


def test_an_answer_that_ends_with_the_caller_was_given_up():
    call = classify(ms((0, 5000)), ms((1000, 5000), (5600, 6000)))
    assert [t.kind for t in call.turns] == [OV, R]


def test_rules_are_settings():
    caller, agent = ms((0, 3000)), ms((1000, 1400), (3500, 4000))
    assert [t.kind for t in classify(caller, agent).turns] == [B, R]
    strict = TurnRules(backchannel_ns=400 * MS, pause_ns=200 * MS)
    assert [t.kind for t in classify(caller, agent, strict).turns] == [OV, R]


def test_caller_turns_and_their_fates():
    caller = ms((0, 1000), (1200, 2000), (5000, 6000), (9000, 9900), (13_000, 16_000),
                (20_000, 21_000), (22_000, 23_000), (30_000, 31_000))
    agent = ms((2500, 4500), (5800, 8000), (10_500, 17_000), (24_000, 25_000), (31_500, 32_000))
    call = classify(caller, agent)
    assert [(t.caller_ns[0] // MS, t.caller_ns[1] // MS, t.fate) for t in call.caller] == [
        (0, 2000, Fate.ANSWERED), (5000, 6000, Fate.OVERLAPPED), (9000, 9900, Fate.ANSWERED),
        (13_000, 23_000, Fate.ANSWERED), (30_000, 31_000, Fate.ANSWERED)]
    found = reply_latency(call)
    assert (found.caller_turns_n, found.missing_n) == (5, 1)


def test_a_turn_that_the_agent_only_talks_over_is_not_answered():
    call = classify(ms((0, 1000), (3000, 5000)), ms((1500, 7000), (7400, 9000)))
    assert [t.fate for t in call.caller] == [Fate.ANSWERED, Fate.TALKED_OVER]
    assert reply_latency(call).missing_n == 1


def test_an_onset_shared_with_the_caller_belongs_to_that_turn():
    call = classify(ms((0, 1000), (3000, 5000), (8000, 9000)), ms((3000, 5200), (9500, 9900)))
    assert [t.fate for t in call.caller] == [Fate.OVERLAPPED, Fate.ANSWERED]
    assert [t.caller_ns for t in call.turns] == [(0, 5000 * MS), (8000 * MS, 9000 * MS)]


def test_an_agent_backchannel_answers_nothing():
    call = classify(ms((0, 3000), (3600, 5000)), ms((1000, 1300)))
    assert [(t.caller_ns, t.fate) for t in call.caller] == [((0, 5000 * MS), Fate.UNANSWERED)]
    assert call.agent_floor == Spans()
    assert interruption(call) == Interruption(0, 0, backchannels_n=1, doubtful_n=0)


@pytest.mark.parametrize(("blind", "doubtful"), [
    ((1101, 1200), 1), ((1099, 1200), 1), ((1800, 1900), 0), ((1799, 1900), 1),
    ((100, 900), 0), ((100, 901), 1), ((1200, 1300), 1)])
def test_turns_at_blind_stretches_are_doubtful(blind, doubtful):
    call = classify(ms((0, 1000)), ms((1700, 2500)), blind=ms(blind))
    found = reply_latency(call)
    assert len(found.values_ns) == 1 - doubtful
    assert found.doubtful_n == doubtful
    assert interruption(call).doubtful_n == doubtful
    assert call.doubtful_n(B) == 0


def test_over_one_second_is_strict():
    gaps_ms = (400, 500, 600, 1000, 1001, 1500)
    caller = ms(*((k * 5000, k * 5000 + 1000) for k in range(6)))
    agent = ms(*((k * 5000 + 1000 + gap, k * 5000 + 4000) for k, gap in enumerate(gaps_ms)))
    found = reply_latency(classify(caller, agent))
    assert found.values_ns == tuple(gap * MS for gap in gaps_ms)
    assert found.over_n == 2


# Yield points


def take(caller: Spans, agent: Spans, recorded_ms: int, silence_ms: int = 1000, **more) -> TurnTake:
    call = classify(caller, agent)
    return turn_take(caller, call, recorded_ms * MS, silence_ms * MS, **more)


@pytest.mark.parametrize(("resumed_ms", "n"), [(1999, 0), (2000, 1)])
def test_a_yield_point_needs_its_silence(resumed_ms, n):
    found = take(ms((0, 1000), (resumed_ms, 3000)), Spans(), 3100)
    assert (found.n, found.taken) == (n, 0)


@pytest.mark.parametrize(("recorded_ms", "n"), [(1999, 0), (2000, 1)])
def test_the_end_of_the_recording_ends_the_silence(recorded_ms, n):
    assert take(ms((0, 1000)), Spans(), recorded_ms).n == n


@pytest.mark.parametrize(("agent", "taken"), [
    ((1500, 1900), 1), ((1000, 1900), 1), ((2999, 3900), 1), ((3000, 3900), 0)])
def test_taken_before_the_caller_resumes(agent, taken):
    found = take(ms((0, 1000), (3000, 5000)), ms(agent), 5500)
    assert (found.n, found.taken, found.overlapped) == (1, taken, 0)


@pytest.mark.parametrize("agent", [(900, 2500), (900, 1001)])
def test_a_yield_point_in_agent_speech_is_apart(agent):
    found = take(ms((0, 1000), (6000, 7000)), ms(agent), 7500)
    assert (found.n, found.taken, found.overlapped) == (0, 0, 1)


def test_an_agent_that_only_pauses_is_speaking():
    found = take(ms((500, 1000), (6000, 7000)), ms((0, 900), (1399, 2500)), 7500)
    assert (found.n, found.overlapped) == (0, 1)
    found = take(ms((500, 1000), (6000, 7000)), ms((0, 900), (1400, 2500)), 7500)
    assert (found.n, found.taken, found.overlapped) == (1, 1, 0)


def test_a_fast_reply_followed_by_yes_is_apart():
    # offset at 1.0 s, reply at 1.3 s, "yes" at 1.6 s: a silence of 0.6 s
    caller, agent = ms((0, 1000), (1600, 1900)), ms((1300, 4000))
    found = take(caller, agent, 4500)
    # the offset of "yes" is an overlapped one: its silence lasts to the end
    assert found == TurnTake(1000 * MS, n=0, taken=0, overlapped=1, fast=1, doubtful_n=0)
    assert take(caller, agent, 4500, silence_ms=600).fast == 0
    assert take(caller, agent, 4500, silence_ms=600).taken == 1


def test_a_caller_that_never_speaks_yields_nothing():
    assert take(Spans(), ms((0, 1000)), 5000) == TurnTake(1000 * MS, 0, 0, 0, 0, 0)


def test_an_agent_backchannel_takes_no_floor():
    found = take(ms((0, 1000), (1400, 3000)), ms((1100, 1300)), 3500)
    assert (found.n, found.taken, found.fast) == (0, 0, 0)


@pytest.mark.parametrize(("blind", "doubtful"), [
    ((800, 900), 0), ((800, 901), 1), ((2999, 3000), 1), ((3000, 3050), 0)])
def test_yield_points_at_blind_stretches_are_left_out(blind, doubtful):
    found = take(ms((0, 1000), (3000, 5000)), ms((1500, 2000)), 5500, blind=ms(blind))
    assert (found.n, found.doubtful_n) == (1 - doubtful, doubtful)


def test_the_sweep_is_the_published_range():
    assert [ns // MS for ns in SWEEP_NS] == [500, 750, 1000, 1500, 2000, 3000]


# The small parts


def test_talk_ratio():
    assert talk_ratio([(ms((0, 3000)), ms((2000, 3000)))]) == 0.25
    assert talk_ratio([(Spans(), ms((0, 10)))]) == 1.0
    assert talk_ratio([(Spans(), Spans())]) is None
    assert talk_ratio([]) is None


def test_talk_ratios_of_calls_are_pooled_before_the_ratio():
    calls = [(ms((0, 3000)), ms((2000, 3000))), (Spans(), ms((0, 1000)))]
    assert talk_ratio(calls) == 0.4


@pytest.mark.parametrize(("values", "percent", "expected"), [
    ([], 50, None), ([7.0], 90, 7.0), ([1.0, 2.0], 50, 1.5), ([4.0, 1.0, 2.0], 50, 2.0),
    ([0.0, 10.0, 20.0, 30.0], 90, 27.0), ([3.0, 1.0], 100, 3.0), ([3.0, 1.0], 0, 1.0)])
def test_percentile(values, percent, expected):
    assert percentile(values, percent) == expected


def test_lookup_agrees_with_spans():
    found = ms((0, 2), (3, 5), (9, 10))
    lookup = Lookup(found)
    assert [lookup.at(t * MS) for t in range(-1, 12)] == [found.at(t * MS) for t in range(-1, 12)]
    assert Lookup(Spans()).at(0) is None
