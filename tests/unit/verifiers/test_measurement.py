from __future__ import annotations

import pytest

from audio.errors import InputError
from verifiers.measurement import measure

MS = 1_000_000
S = 1000 * MS


@pytest.fixture
def read(make):
    return lambda *model, **fields: measure(make("LISTEN").scene(*model, **fields)).scored


def test_silence(read):
    got = read()
    assert (got.length_ns, got.recorded_ns, got.spans_ns) == (3 * S, 10 * S, ())
    assert (got.spans_in_window, got.spans_begun, got.onset_ns, got.first_span_ns) == \
        (0, 0, None, None)
    assert (got.held_at_w0, got.first_offset_ns, got.resumed, got.overlap_ns) == \
        (False, None, None, 0)
    assert (got.first_span_cut, got.first_offset_cut) == (False, False)
    assert got.user_speech_ns == 3 * S
    assert got.complete
    assert not got.outside


def test_lengths_are_unclipped_and_the_first_begun_span_gives_the_onset(read):
    got = read((-2 * S, -S), (-500 * MS, 200 * MS), (S, 2 * S), (2900 * MS, 5 * S), (6 * S, 7 * S))
    assert got.spans_ns == ((-500 * MS, 200 * MS), (S, 2 * S), (2900 * MS, 5 * S))
    assert (got.spans_in_window, got.spans_begun) == (3, 2)
    assert (got.onset_ns, got.first_span_ns) == (S, S)
    assert (got.held_at_w0, got.first_offset_ns, got.resumed) == (True, 200 * MS, True)
    assert got.overlap_ns == 200 * MS + S + 100 * MS


@pytest.mark.parametrize(("start", "begun", "held"), [(-1, 0, True), (0, 1, True), (1, 1, False)])
def test_an_onset_at_the_window_start_is_inside(read, start, begun, held):
    got = read((start, S))
    assert (got.spans_begun, got.held_at_w0) == (begun, held)
    assert got.onset_ns == (start if begun else None)


@pytest.mark.parametrize(("start", "touching"), [(3 * S - 1, 1), (3 * S, 0)])
def test_an_onset_at_the_window_end_is_outside(read, start, touching):
    got = read((start, 5 * S))
    assert (got.spans_begun, got.spans_in_window) == (touching, touching)


@pytest.mark.parametrize(("end", "offset", "touching", "held"), [
    (-1, None, 0, False), (0, 0, 0, False), (1, 1, 1, True)])
def test_an_offset_at_the_window_start_counts_and_holds_no_floor(read, end, offset, touching, held):
    got = read((-2 * S, end))
    assert (got.first_offset_ns, got.spans_in_window, got.held_at_w0) == (offset, touching, held)


def test_the_first_offset_may_lie_behind_the_window(read):
    assert read((-S, 4 * S)).first_offset_ns == 4 * S
    assert read((5 * S, 6 * S)).first_offset_ns == 6 * S


@pytest.mark.parametrize(("end", "cut"), [(10 * S - 300 * MS, False), (10 * S - 300 * MS + 1, True),
                                          (10 * S, True)])
def test_a_span_nearer_to_the_end_than_the_merge_gap_is_cut(read, end, cut):
    got = read((S, end))
    assert (got.first_span_cut, got.first_offset_cut) == (cut, cut)
    assert got.first_span_ns == end - S


@pytest.mark.parametrize(("gap", "end", "cut"), [
    (0, 10 * S - MS, False), (0, 10 * S - MS + 1, True), (2 * MS, 10 * S - 2 * MS, False),
    (2 * MS, 10 * S - 2 * MS + 1, True)])
def test_the_margin_is_the_merge_gap_but_never_below_one_millisecond(read, gap, end, cut):
    assert read((S, end), merge_gap_ns=gap).first_span_cut is cut


def test_only_the_span_that_is_near_the_end_is_cut(read):
    got = read((0, S), (2 * S, 10 * S))
    assert (got.first_span_cut, got.first_offset_cut) == (False, False)


@pytest.mark.parametrize(("model", "recorded", "resumed"), [
    (((-S, S),), 10 * S, False),
    (((-S, S), (2 * S, 4 * S)), 10 * S, True),
    (((-S, S), (3 * S, 4 * S)), 10 * S, False),     # begins where the window ends
    (((-S, S),), 3500 * MS, False),
    (((-S, S),), 3500 * MS - 1, None),              # might have resumed unseen
    (((-S, S), (2 * S, 2200 * MS)), 3 * S, True),
    (((-S, 10 * S),), 10 * S, None),                # no known offset
    (((4 * S, 5 * S),), 10 * S, False),
    (((S, 2 * S),), 10 * S, False),                 # its own onset is not a resumption
    (((-2 * S, 0), (1, S)), 10 * S, True),          # stopped at w0 and began again
])
def test_resumption(read, model, recorded, resumed):
    assert read(*model, recorded=recorded).resumed is resumed


@pytest.mark.parametrize(("recorded", "complete"), [(3500 * MS, True), (3500 * MS - 1, False)])
def test_complete_means_half_a_second_behind_the_window(read, recorded, complete):
    got = read(recorded=recorded)
    assert got.complete is complete
    assert got.seen_ns == recorded - 500 * MS


@pytest.mark.parametrize(("recorded", "outside"), [(1, False), (0, True), (-S, True)])
def test_a_window_that_begins_where_the_recording_ends_is_outside(read, recorded, outside):
    assert read(recorded=recorded).outside is outside


@pytest.mark.parametrize(("shift", "outside"), [(-10 * S, False), (-10 * S - 1, True)])
def test_a_window_that_begins_before_the_recording_is_outside(read, shift, outside):
    assert read(shift=shift).outside is outside


def test_overlap_is_clipped_to_the_window_and_to_the_user(read):
    user = ((-S, S), (1500 * MS, 2 * S), (2500 * MS, 4 * S))
    got = read((-2 * S, 1800 * MS), (2 * S, 5 * S), user=user)
    assert got.overlap_ns == S + 300 * MS + 500 * MS
    assert got.user_speech_ns == S + 500 * MS + 500 * MS


@pytest.mark.parametrize(("end", "fits"), [(10 * S + MS, True), (10 * S + MS + 1, False)])
def test_model_speech_behind_the_recording_is_refused(read, end, fits):
    if fits:
        assert read((S, end)).first_span_cut
    else:
        with pytest.raises(InputError, match="expected model speech inside the recording"):
            read((S, end))


def test_proof_of_life_looks_at_the_whole_session(make):
    assert not measure(make("LISTEN").scene()).model_speaks
    assert measure(make("LISTEN").scene((-9 * S, -8 * S))).model_speaks


@pytest.mark.parametrize(("model", "offset", "expected"), [
    (((S, 2 * S),), None, None),
    (((S, 2 * S),), 2 * S, None),
    (((S, 2 * S), (2500 * MS, 4 * S)), 2 * S, 500 * MS),
    (((2 * S, 4 * S),), 2 * S, 0),
    (((3 * S, 4 * S),), 2 * S, None),               # behind the window
    (((-S, -S // 2), (S, 2 * S)), -2 * S, 3 * S),   # the window still bounds it
])
def test_onset_after_the_user_offset(make, model, offset, expected):
    fields = {} if offset is None else {"user_offset_ns": offset}
    got = measure(make("TAKE_TURN").scene(*model, **fields))
    assert got.onset_after_user_offset_ns == expected
    assert got.user_offset_ns == offset


def test_readback_counts(make):
    def read(target, says, **fields):
        return measure(make("READBACK").scene((S, 2 * S), target_text=target, says=says, **fields))

    got = read("four one five", ((S, "5 1"), (2 * S, "four")))
    assert (got.target_given, got.transcript_given) == (True, True)
    assert (got.readback.target_n, got.readback.matched_n, got.readback.heard) == (3, 3, True)
    assert (got.readback.ordered_target_n, got.readback.ordered_matched_n) == (3, 1)
    assert (got.readback.coverage, got.readback.coverage_ordered) == (1.0, pytest.approx(1 / 3))
    thirty_six = read("three six", ((S, "thirty six"),)).readback
    assert (thirty_six.coverage, thirty_six.coverage_ordered) == (0.5, 1.0)
    assert read("415", ()).readback.matched_n == 0
    assert read("415", None).readback is None
    assert not read("415", None).transcript_given
    for empty in (None, "", " .,"):
        missing = read(empty, ((S, "415"),))
        assert (missing.readback, missing.target_given) == (None, False)


@pytest.mark.parametrize(("since", "expected"), [(None, 2), (0, 2), (S, 1), (S + 1, 1),
                                                 (-S, 3), (2 * S, 1), (2 * S + 1, 0)])
def test_only_words_heard_from_the_moment_on_count(make, since, expected):
    fields = {} if since is None else {"readback_from_ns": since}
    says = ((-1, "4"), (S - 1, "1"), (2 * S, "5"))
    got = measure(make("READBACK").scene((0, S), target_text="415", says=says, **fields))
    assert got.readback.matched_n == expected


@pytest.mark.parametrize(("model", "heard"), [
    ((), False), (((-3 * S, -2 * S),), False), (((-3 * S, -S),), False),
    (((-3 * S, -S + 1),), True), (((5 * S, 6 * S),), True)])
def test_words_without_speech_are_not_heard(make, model, heard):
    scene = make("READBACK").scene(*model, target_text="4", says=((0, "4"),), readback_from_ns=-S)
    assert measure(scene).readback.heard is heard


def test_alternates_are_read_like_the_scored_window(make):
    scene = make("LISTEN").scene((-S, 500 * MS), (S, 2 * S), user_offset_ns=S,
                                 alternates={"before": (-2 * S, 0), "late": (1500 * MS, 4 * S)})
    got = measure(scene)
    assert [name for name, _ in got.alternates] == ["before", "late"]
    before = got.through("before")
    assert (before.scored.onset_ns, before.scored.first_span_ns) == (S, 1500 * MS)
    assert before.scored.length_ns == 2 * S
    assert (before.alternates, before.user_offset_ns, before.onset_after_user_offset_ns) == \
        ((), None, None)
    assert got.through("late").scored.held_at_w0
    with pytest.raises(KeyError):
        got.through("missing")
