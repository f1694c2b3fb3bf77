"""Silences inside a side's speech are bridged by how long they are heard (`merge_gap_s`, 0.3 s),
not by how far the detector's edges lie apart: those make them some 70 ms shorter."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
from call_maker import LINES, RATE_HZ, Call

from audio.band_edges import Edge
from audio.spans import Spans
from audio.vad import VadSettings
from rig.field.edges import Placed, placed
from rig.field.measures import CallMeasures, FieldSettings, measure_file
from rig.field.sources import CallSource, Track
from verifiers.calls.interruption import interruption
from verifiers.calls.latency import reply_latency
from verifiers.calls.turn_take import turn_take
from verifiers.calls.turns import Kind, classify

MS = 1_000_000
GAP_NS = 300 * MS
NO_COMMA = (1, 6, 8, 9, 10, 11)
"""Lines without a pause of 0.25 s and more."""


def measured(path, **settings) -> CallMeasures:
    found = measure_file(CallSource("call.wav", Track(path, 0), Track(path, 1)),
                         FieldSettings(sensitivity=False, **settings), None)
    assert isinstance(found, CallMeasures), found
    return found


def whole(spans: Spans, ms: int = 300) -> Spans:
    return spans.merge_gaps(ms * MS)


# Silences of known length


PAUSES_MS = (200, 250, 270, 280, 290, 310, 320, 330, 350, 370, 380, 400)


def with_pauses(side: str, noise_db: float) -> tuple[Call, list[tuple[float, float, float]]]:
    """One side says pairs of lines with `PAUSES_MS` in between, the other a line now and then.
    Gives the silences: seconds of the begin and the end, and ms."""
    other = "agent" if side == "caller" else "caller"
    call = Call(12 + 9.0 * len(PAUSES_MS), noise_db=noise_db)
    at = call.say(other, 1.0, 6) + 1.5
    pauses = []
    for k, pause_ms in enumerate(PAUSES_MS[5 * k % len(PAUSES_MS)] for k in range(12)):
        end = call.say(side, at, NO_COMMA[k % 6])
        at = end + pause_ms / 1000
        pauses.append((end, at, pause_ms))
        at = call.say(side, at, NO_COMMA[(k + 1) % 6]) + 1.5
    for name, samples in call.sides.items():
        call.sides[name] = samples[:round((at + 1.0) * RATE_HZ)]
    return call, pauses


def told(found: CallMeasures, side: str, pauses) -> list[tuple[int, float | None]]:
    """Every silence with the length that was found, `None` for one that was bridged."""
    out = []
    spans = getattr(found.speech, side)
    for begin, end, pause_ms in pauses:
        middle_ns = round((begin + end) / 2 * 1e9)
        if spans.at(middle_ns) is not None:
            out.append((pause_ms, None))
            continue
        (before, after), = ((a, b) for a, b in pairwise(spans) if a[1] <= middle_ns < b[0])
        out.append((pause_ms, (after[0] - before[1]) / MS))
    return out


@pytest.mark.parametrize("side", ["caller", "agent"])
def test_a_silence_is_bridged_by_its_length_as_heard(tmp_path, side):
    call, pauses = with_pauses(side, -70.0)
    found = told(measured(call.write(tmp_path / "x.wav", subtype="ULAW")), side, pauses)
    assert {ms for ms, heard in found if heard is None} == {200, 250, 270, 280, 290}
    for pause_ms, heard in found:
        assert heard is None or abs(heard - pause_ms) <= 20


@pytest.mark.parametrize(("noise_db", "wrong_most"), [
    (-50.0, 1), pytest.param(-45.0, 3, marks=pytest.mark.slow),
    pytest.param(-40.0, 7, marks=pytest.mark.slow), pytest.param(-35.0, 8, marks=pytest.mark.slow)])
def test_silences_in_noise(tmp_path, noise_db, wrong_most):
    """Of 24 silences of 0.2 to 0.4 s on both sides; between the detector's edges 8, 8, 9, 10 are
    told wrong. 25 dB under the speech (-40) noise covers last consonants, so silences of 0.25 s are
    heard as long as 0.3."""
    wrong = 0
    for side in ("caller", "agent"):
        call, pauses = with_pauses(side, noise_db)
        found = told(measured(call.write(tmp_path / f"{side}.wav", subtype="ULAW")), side, pauses)
        wrong += sum((heard is None) == (ms > 300) for ms, heard in found)
    assert wrong <= wrong_most


@pytest.mark.parametrize(("pause_ms", "kind"), [
    (250, "overlap"), (280, "overlap"), (320, "reply"), (340, "reply"), (370, "reply")])
def test_a_fast_reply_in_a_short_silence(tmp_path, pause_ms, kind):
    """The agent begins in the silence, the caller speaks again at once."""
    call = Call(34.0, noise_db=-70)
    for k, line in enumerate((1, 6, 10)):
        end = call.say("caller", 1.0 + 10 * k, line)
        call.say("agent", end + 0.15, 9)
        call.say("caller", end + pause_ms / 1000, "yes")
    found = measured(call.write(tmp_path / "x.wav"))
    assert [turn.kind.value for turn in found.call.turns] == [kind] * 3
    fast = [point.outcome.value for point in found.points].count("fast")
    if kind == "reply":
        assert fast == 3
        np.testing.assert_allclose(np.array(found.l1.values_ns) / MS, 150, atol=40)
        assert (found.interruption.count, found.interruption.n) == (0, 3)
    else:
        assert fast == 0
        assert (found.interruption.count, found.interruption.n) == (3, 3)


@pytest.mark.parametrize("gap_ms", [200, 340, 500])
def test_the_least_silence_is_a_setting(tmp_path, gap_ms):
    call, pauses = with_pauses("caller", -70.0)
    found = told(measured(call.write(tmp_path / "x.wav"), vad=VadSettings(
        merge_gap_s=gap_ms / 1000)), "caller", pauses)
    for pause_ms, heard in found:
        if abs(pause_ms - gap_ms) > 15:
            assert (heard is None) == (pause_ms < gap_ms), (pause_ms, heard)


# Calls of known truth with fast replies


def busy_call(seed: int) -> Call:
    """Five to twelve caller turns, each answered, interrupted, left alone, or answered fast with
    the caller saying "yes" over the reply at once."""
    r = random.Random(100 + seed)
    call = Call(length_s=260.0, noise_db=-70)

    def line() -> int:
        return r.randrange(len(LINES))

    at = 0.7
    if r.random() < 0.7:
        at = call.say("agent", at, "Good morning, how can I help you?") + r.uniform(0.4, 1.5)
    for _ in range(r.randint(5, 12)):
        end = call.say("caller", at, line())
        if r.random() < 0.35:
            end = call.say("caller", end + r.uniform(0.35, 1.6), line())
        what = r.choices(["reply", "overlap", "missed", "fast", "backchannel"],
                         [5, 2, 1.5, 1, 1])[0]
        if what == "missed":
            at = end + r.uniform(1.2, 3.6)
            continue
        if what == "backchannel":
            begun, past = call.truth["caller"][-1]
            call.say("agent", (begun + past) / 2 - 0.2, "Mm-hm.", -3)
        if what == "overlap":
            at = call.say("agent", end - r.uniform(0.25, 0.7), line()) + r.uniform(0.4, 1.4)
            continue
        if what == "fast":
            begun = end + r.uniform(0.15, 0.35)
            past = call.say("agent", begun, line())
            call.say("caller", begun + r.uniform(0.15, 0.35), "Yes.")
            at = past + r.uniform(0.5, 1.4)
            continue
        past = call.say("agent", end + r.uniform(0.2, 2.4), line())
        if r.random() < 0.3:
            past = call.say("agent", past + r.uniform(0.35, 1.2), line())
        at = past + r.uniform(0.4, 1.6)
    end = max(end for said in call.truth.values() for _, end in said) + r.uniform(0.3, 2.5)
    for side, samples in call.sides.items():
        call.sides[side] = samples[:round(end * RATE_HZ)]
    return call


def compared(call: Call, path) -> tuple[CallMeasures, list[float]]:
    """The call as measured, its turns those of the truth; and the errors of L1, ms."""
    found = measured(call.write(path))
    caller, agent = (whole(call.heard(side)) for side in ("caller", "agent"))
    known = classify(caller, agent)
    assert_same_kinds(found.call.turns, known.turns)
    assert found.interruption == interruption(known)
    recorded_ns = round(len(call.sides["caller"]) / RATE_HZ * 1e9)
    taken, true = found.turn_take, turn_take(caller, known, recorded_ns)
    assert (taken.n, taken.taken, taken.overlapped, taken.fast) == (
        true.n, true.taken, true.overlapped, true.fast)
    return found, [(a - b) / MS for a, b in zip(found.l1.values_ns, reply_latency(known).values_ns,
                                                strict=True)]


def assert_same_kinds(found, known) -> None:
    """Without what goes on: a pause at a comma lies on the limit."""
    assert [turn.kind for turn in found if turn.kind is not Kind.CONTINUATION] == [
        turn.kind for turn in known if turn.kind is not Kind.CONTINUATION]


def test_fast_replies_are_no_interruptions(tmp_path):
    found, errors = compared(busy_call(7), tmp_path / "x.wav")
    assert (found.interruption.count, found.interruption.n, found.turn_take.fast) == (0, 10, 3)
    assert np.abs(errors).max() <= 40


@pytest.mark.slow
def test_sixteen_calls_with_22_fast_replies(tmp_path):
    """Bridged between the detector's edges 4 of the 22 were interruptions: 29 of 136."""
    many, errors = [], []
    for seed in range(16):
        found, wrong = compared(busy_call(seed), tmp_path / f"{seed}.wav")
        many.append(found)
        errors += wrong
    assert sum(f.turn_take.fast for f in many) == 22
    assert (sum(f.interruption.count for f in many), sum(f.interruption.n for f in many)) == (
        25, 136)
    assert len(errors) == 111
    assert np.median(np.abs(errors)) <= 10
    assert np.percentile(np.abs(errors), 95) <= 40
    l1_ms = [ns / MS for f in many for ns in f.l1.values_ns]
    assert np.median(l1_ms) == pytest.approx(1050, abs=10)


# The rule


def test_only_edges_that_are_left_are_said_to_rest_on_the_detector():
    spans = Placed(((0, 10), (12, 20), (30, 40)), (0, 2, 10),
                   ((True, False), (True, True), (False, True)))
    assert spans.bridged(0) == (Spans(((0, 10), (12, 20), (30, 40))), 4)
    assert spans.bridged(2) == (Spans(((0, 10), (12, 20), (30, 40))), 4)
    assert spans.bridged(3) == (Spans(((0, 20), (30, 40))), 3)
    assert spans.bridged(11) == (Spans(((0, 40),)), 2)


class Heard:
    """Edges as they are written down, ms."""

    def __init__(self, starts: dict[int, int], ends: dict[int, int]) -> None:
        self._starts, self._ends = starts, ends

    def start(self, detected_n: int, not_before_n: int) -> Edge:
        return Edge(self._starts[round(detected_n / 16)] * 16, False)

    def end(self, detected_n: int, not_after_n: int) -> Edge:
        return Edge(self._ends[round(detected_n / 16)] * 16, False)


def in_n(*spans_ms: tuple[int, int]) -> Spans:
    return Spans(tuple((16 * a, 16 * b) for a, b in spans_ms))


def in_ms(spans: Spans) -> list[tuple[int, int]]:
    return [(a // MS, b // MS) for a, b in spans]


@pytest.mark.parametrize(("end_ms", "start_ms", "bridged"), [
    (2000, 2300, False), (2000, 2299, True), (1950, 2200, True), (1900, 2210, False)])
def test_silence_between_edges_of_the_sound(end_ms, start_ms, bridged):
    """The detector's edges lie 0.23 s apart; padding is 30 ms."""
    heard = Heard({1030: 1000, 2300: start_ms}, {2010: end_ms, 3970: 3900})
    found, bounded_n = placed(in_n((1000, 2040), (2270, 4000)), VadSettings(), heard,
                              80_000).bridged(GAP_NS)
    assert in_ms(found) == ([(1000, 3900)] if bridged else [(1000, end_ms), (start_ms, 3900)])
    assert bounded_n == 0


@pytest.mark.parametrize(("gap_ms", "expected"), [
    (290, [(1000, 3900)]), (300, [(1000, 1966), (2337, 3900)]),
    (400, [(1000, 1966), (2437, 3900)])])
def test_where_sound_fills_a_pause_the_detectors_counts(gap_ms, expected):
    """Neither edge tells: noise, a breath, another voice."""
    after = 2040 + gap_ms
    heard = Heard({1030: 1000, after + 30: 2100}, {2010: 2200, 3970: 3900})
    found, bounded_n = placed(in_n((1000, 2040), (after, 4000)), VadSettings(), heard,
                              80_000).bridged(GAP_NS)
    assert in_ms(found) == expected
    assert bounded_n == (0 if len(expected) == 1 else 2)


@pytest.mark.parametrize(("gap_ms", "bridged"), [(228, True), (229, False), (299, False)])
def test_edges_less_their_bias_are_as_heard(gap_ms, bridged):
    """The detector's silence is 71 ms shorter: its ends are 74 ms late, its starts 3."""
    found, _ = placed(in_n((1000, 2000), (2000 + gap_ms, 4000)), VadSettings(), None,
                      80_000).bridged(GAP_NS)
    assert len(found) == (1 if bridged else 2)


@pytest.mark.parametrize(("gap_ms", "bridged"), [(299, True), (300, False)])
def test_bare_edges_are_bridged_as_they_are(gap_ms, bridged):
    """What another tool would say."""
    found, bounded_n = placed(in_n((1000, 2000), (2000 + gap_ms, 4000)), VadSettings(), None,
                              80_000, bare=True).bridged(GAP_NS)
    assert in_ms(found) == ([(1000, 4000)] if bridged
                            else [(1000, 2000), (2000 + gap_ms, 4000)])
    assert bounded_n == 0


@pytest.mark.parametrize(("gap_ms", "expected"), [
    (0, [(1024, 1080), (1100, 1140)]), (21, [(1024, 1140)])])
def test_spans_of_no_least_length_may_meet(gap_ms, expected):
    """Of one frame each: the first, 20 ms at least, reaches into the second."""
    vad = VadSettings(min_speech_ms=0, min_silence_ms=0, speech_pad_ms=0)
    heard = Heard({992: 1024, 1056: 1030, 1120: 1100}, {1024: 1025, 1088: 1080, 1152: 1140})
    found, _ = placed(in_n((992, 1024), (1056, 1088), (1120, 1152)), vad, heard,
                      32_000).bridged(gap_ms * MS)
    assert in_ms(found) == expected
