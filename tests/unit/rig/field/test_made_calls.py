"""Calls of known truth (tests/tools/call_maker.py): every turn found, times right, faults named."""

from __future__ import annotations

import copy
import functools

import numpy as np
import pytest
import soundfile
from call_maker import LINES, RATE_HZ, Call, dialogue, speech, tone

from adapters.simulated.voice import talk
from audio.resample import resample
from rig.field.document import field_document
from rig.field.measures import CallMeasures, FieldSettings, Skipped, measure_file
from rig.field.sources import CallSource, Track
from verifiers.calls.turns import Kind

SETTINGS = FieldSettings(sensitivity=False)
MS = 1_000_000
SLOW = pytest.mark.slow


@functools.cache
def ordinary(exchanges: int = 8, noise_db: float = -65.0) -> tuple[np.ndarray, tuple[float, ...]]:
    call, latencies = dialogue(exchanges, noise_db=noise_db)
    return call.stereo(), tuple(latencies)


@functools.cache
def _dialogue(exchanges: int) -> tuple[Call, list[float]]:
    return dialogue(exchanges)


def spoken(exchanges: int) -> tuple[Call, list[float]]:
    """A dialogue of one's own, to put more on."""
    return copy.deepcopy(_dialogue(exchanges))


def measured(path, samples, rate_hz=8_000, subtype="PCM_16", channels=(0, 1), **more):
    file = path / "call.wav"
    soundfile.write(file, samples, rate_hz, subtype=subtype)
    found = measure_file(CallSource("call.wav", Track(file, channels[0]), Track(file, channels[1])),
                         FieldSettings(sensitivity=False, **more), None)
    assert isinstance(found, CallMeasures), found
    return found


def codes(found) -> list[str]:
    return [code for code, _ in found.warnings]


def kinds(found) -> list[str]:
    return [turn.kind.value for turn in found.call.turns]


def turns_begun(found) -> list[str]:
    """Kinds without what goes on: some lines have a pause of over 0.3 s at a comma."""
    return [kind for kind in kinds(found) if kind != "continuation"]


def assert_nothing_invented(found, call: Call) -> None:
    """All that is found lies in what was said."""
    for side in ("caller", "agent"):
        for start, end in getattr(found.speech, side):
            assert any(a - 0.1 <= start / 1e9 and end / 1e9 <= b + 0.1
                       for a, b in call.truth[side]), (side, start, end)


def errors_ms(found, latencies) -> np.ndarray:
    assert len(found.l1.values_ns) == len(latencies)
    return np.abs(np.array(found.l1.values_ns) / MS - 1000 * np.array(latencies))


# Right values


@pytest.mark.parametrize(("rate_hz", "subtype"), [
    (8_000, "ULAW"), pytest.param(8_000, "PCM_16", marks=SLOW),
    pytest.param(8_000, "ALAW", marks=SLOW), pytest.param(16_000, "PCM_16", marks=SLOW),
    pytest.param(24_000, "FLOAT", marks=SLOW)])
def test_every_turn_is_found_where_it_is(tmp_path, rate_hz, subtype):
    call, latencies = spoken(8)
    found = measured(tmp_path, call.stereo(rate_hz), rate_hz, subtype)
    assert turns_begun(found) == ["greeting", *["reply"] * 8]
    errors = errors_ms(found, latencies)
    assert np.median(errors) <= 10
    assert np.percentile(errors, 95) <= 40
    assert found.warnings == ()
    assert (found.turn_take.n, found.turn_take.taken) == (8, 8)
    truth = call.truth["agent"]
    said = sum(end - start for start, end in truth)
    heard = sum(end - start for side in call.truth.values() for start, end in side)
    ratio = field_document([found], SETTINGS)["calls"][0]["talk_ratio"]
    assert ratio == pytest.approx(said / heard, abs=0.02)


@pytest.mark.parametrize(("noise_db", "median_ms", "p95_ms"), [
    (-40.0, 40, 120), pytest.param(-45.0, 30, 120, marks=SLOW),
    pytest.param(-35.0, 40, 140, marks=SLOW)])
def test_line_noise_costs_little(tmp_path, noise_db, median_ms, p95_ms):
    """In the telephone band 30, 25 and 20 dB under the speech."""
    samples, latencies = ordinary(8, noise_db)
    errors = errors_ms(measured(tmp_path, samples, subtype="ULAW"), latencies)
    assert np.median(errors) <= median_ms
    assert np.percentile(errors, 95) <= p95_ms
    detector = errors_ms(measured(tmp_path, samples, subtype="ULAW", edges="detector"), latencies)
    assert np.median(errors) < np.median(detector)


@pytest.mark.parametrize(("source", "gain_db"), [
    ("agent", -20), *(pytest.param(source, gain_db, marks=SLOW) for source in ("agent", "caller")
                      for gain_db in (-40, -30, -21, -10))])
def test_a_leak_makes_no_phantom_turn(tmp_path, source, gain_db):
    call, latencies = spoken(6)
    assert len(call.truth["caller"]) == 6
    call.leak(source, gain_db, 0.15)
    found = measured(tmp_path, call.stereo())
    assert codes(found) == ["crosstalk"]
    assert f"at {gain_db} dB, 150 ms late" in found.warnings[0][1]
    assert turns_begun(found) == ["greeting", *["reply"] * 6]
    # One line of the caller has a pause of 305 ms, which the leak may cover.
    assert len(found.speech.caller) in (len(call.truth["caller"]), len(call.truth["caller"]) + 1)
    assert_nothing_invented(found, call)
    errors = errors_ms(found, latencies)
    assert np.median(errors) <= 40
    assert np.percentile(errors, 95) <= 80


def test_a_leak_would_have_made_turns(tmp_path):
    call, _ = spoken(6)
    call.leak("agent", -20, 0.15)
    detail = dict(measured(tmp_path, call.stereo()).warnings)["crosstalk"]
    invented = int(detail.split("late: ")[1].split(" ")[0])
    assert invented >= 6, detail


def test_a_leak_as_loud_as_the_voice_withholds_the_turns(tmp_path):
    call, _ = spoken(4)
    call.leak("agent", -3, 0.15)
    found = measured(tmp_path, call.stereo())
    assert found.refused is not None
    assert "cannot be told apart" in found.refused
    document = field_document([found], SETTINGS)["calls"][0]
    assert document["l1"]["p50_ms"] is None
    assert document["turn_take"]["yield_silence_s"] == 1.0
    assert document["interruption_rate"]["rate"] is None
    assert document["interruption_rate"]["reason"] == found.refused
    assert document["turns"] == []


def test_speech_over_a_leak_is_kept(tmp_path):
    call = Call(20.0)
    end = call.say("caller", 1.0, 0)
    begun = end + 0.8
    last = call.say("agent", begun, "The price depends on the weight, so let me ask you a few "
                                    "questions about it before we go on with the parcel.")
    call.say("caller", begun + 1.0, 1)
    call.say("agent", last + 2.0, 4)
    call.leak("agent", -20, 0.1)
    found = measured(tmp_path, call.stereo())
    assert len(found.speech.caller) == 2
    assert kinds(found)[0] == "reply"


def test_speech_hardly_above_a_leak_is_in_no_rate(tmp_path):
    call = Call(24.0)
    end = call.say("caller", 1.0, 0)
    begun = end + 0.8
    end = call.say("agent", begun, "The price depends on the weight, so let me ask you a few "
                                   "questions about it before we go on with the parcel.")
    faint = call.say("caller", begun + 1.0, 1, gain_db=-14.0)
    call.say("agent", end + 2.0, 4)
    call.leak("agent", -20, 0.1)
    found = measured(tmp_path, call.stereo())
    document = field_document([found], SETTINGS)["calls"][0]
    heard = document["crosstalk"]["caller"]
    assert list(document["crosstalk"]) == ["caller"]
    assert heard["gain_db"] == pytest.approx(-20, abs=1)
    assert heard["lag_ms"] == pytest.approx(100, abs=1)
    assert any(begun + 0.8 < start and end < faint + 0.3 for start, end in heard["withheld"])
    assert document["turns"][-1]["doubtful"]


@pytest.mark.parametrize("line", [0, 1, 5, 9])
def test_two_words_that_end_together_are_no_leak(tmp_path, line):
    """Digitally silent channels; the agent says "mm" over the caller every second, and both stop
    where a block of the estimate begins: there one ending stands alone beside the other, and looks
    like a path from -18 to -45 dB."""
    edge_s = 12 * 0.512
    call = Call(length_s=9.0, noise_db=-300.0)
    said = speech(LINES[line], 3)
    end_s = edge_s - 0.08
    while end_s > 0.3:
        first_s = max(0.0, end_s - len(said) / RATE_HZ)
        call.put("caller", first_s, said[len(said) - round((end_s - first_s) * RATE_HZ):])
        end_s = first_s - 0.2
    clip = talk(0.4).samples
    for k in range(6):
        call.put("agent", edge_s + 0.03 - len(clip) / RATE_HZ - k, clip)
    found = measured(tmp_path, call.stereo(16_000), 16_000)
    assert codes(found) == []
    assert set(kinds(found)) == {"backchannel", "overlap"}


def test_swapped_input_gives_swapped_figures_exactly(tmp_path):
    samples, _ = ordinary()
    one = measured(tmp_path, samples)
    other = measured(tmp_path, samples[:, ::-1], channels=(1, 0))
    assert one.call == other.call
    assert one.turn_take == other.turn_take


def test_inner_pauses_fillers_overlap_and_backchannels(tmp_path):
    call = Call(70.0)
    end = call.say("agent", 0.5, "Good morning, how can I help you?")
    # a caller's utterance cut in two by a pause of half a second
    end = call.say("caller", end + 1.0, 0)
    end = call.say("caller", end + 0.5, 1)
    # a filler, a long gap, the substance: L1 is the filler's
    filler = end + 0.5
    end = call.say("agent", filler, "um")
    end = call.say("agent", end + 2.5, 3)
    # the agent says "mm-hm" inside the caller's speech
    start = end + 1.0
    end = call.say("caller", start, "I would like to move my appointment to the end of next week, "
                                    "if there is any room left for me on Friday.")
    call.say("agent", start + 1.5, "mm")
    reply = end + 0.7
    end = call.say("agent", reply, 4)
    # the caller says "mm-hm" inside the agent's speech: no turn
    start = end + 1.2
    end = call.say("caller", start, 2)
    begun = end + 0.9
    end = call.say("agent", begun, "The price depends on the weight, so let me ask you a few "
                                   "questions about it before we go on with the parcel.")
    call.say("caller", begun + 2.0, "mm")
    # an interruption: 1 s before the caller's end
    start = end + 1.0
    over = call.say("caller", start, 8)
    call.say("agent", over - 1.0, 9)
    found = measured(tmp_path, call.stereo())
    assert turns_begun(found) == ["greeting", "reply", "backchannel", "reply", "reply", "overlap"]
    np.testing.assert_allclose(np.array(found.l1.values_ns) / MS, [500, 700, 900], atol=80)
    np.testing.assert_allclose(found.l1.overlaps_ns[0] / MS, -1000, atol=80)
    assert (found.interruption.count, found.interruption.n) == (1, 4)
    assert found.interruption.backchannels_n == 1
    assert len(found.call.caller_backchannels) == 1


# Faults


def test_one_signal_on_both_channels_is_no_call(tmp_path):
    samples, _ = ordinary()
    for right in (1.0, 0.9, -1.0):
        found = measured(tmp_path, np.stack([samples[:, 0], right * samples[:, 0]], axis=1))
        assert "identical_channels" in codes(found)
        assert found.refused == "identical channels: not a two-channel call"


def test_channels_apart_are_named(tmp_path):
    samples, _ = ordinary()
    late_n = round(0.9 * 8_000)
    early = np.stack([np.pad(samples[:, 0], (late_n, 0)), np.pad(samples[:, 1], (0, late_n))], 1)
    found = measured(tmp_path, early)
    assert codes(found) == ["misaligned"]
    assert all(value < 0 for value in found.l1.overlaps_ns), "never clamped"
    assert len(found.l1.overlaps_ns) >= 4


def test_a_line_on_the_agents_channel_and_a_clean_caller_hint_at_a_swap(tmp_path):
    clean, noisy = ordinary(4, -200.0)[0], ordinary(4, -60.0)[0]
    samples = np.stack([noisy[:, 0], clean[:, 1]], axis=1)
    assert codes(measured(tmp_path, samples)) == []
    assert codes(measured(tmp_path, samples, channels=(1, 0))) == ["possible_swap"]


def test_agent_speech_without_its_silence_is_named(tmp_path):
    call = Call(40.0)
    at = 0.5
    for line in (3, 4, 5):
        at = call.say("agent", at, line) + 0.4
    call.say("caller", at + 1, 0)
    call.say("caller", at + 9, 1)
    assert "misaligned" in codes(measured(tmp_path, call.stereo()))


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [(8_000, 8_040), (8_040, 8_000)])
def test_a_drifting_clock_is_named(tmp_path, ratio):
    samples, _ = ordinary(16)
    drifted = resample(np.ascontiguousarray(samples[:, 1]), *ratio)[:len(samples)]
    drifted = np.pad(drifted, (0, len(samples) - len(drifted)))
    found = measured(tmp_path, np.stack([samples[:, 0], drifted], axis=1))
    assert "clock_drift" in codes(found)
    assert "clock_drift" not in codes(measured(tmp_path, samples))


@pytest.mark.slow
@pytest.mark.parametrize(("noise_db", "dead_s"), [(-65.0, 60), (-200.0, 60)])
def test_a_channel_that_dies_is_not_charged_with_silence(tmp_path, noise_db, dead_s):
    samples = ordinary(16, noise_db)[0].copy()
    samples[np.abs(samples) < 1e-4] = 0.0
    samples[dead_s * 8_000:, 1] = 0.0
    found = measured(tmp_path, samples)
    assert codes(found) == ["channel_dead"]
    assert found.turn_take.n == found.turn_take.taken
    assert found.turn_take.doubtful_n >= 5


def test_a_dead_channel_is_refused(tmp_path):
    samples = ordinary()[0].copy()
    samples[:, 1] = 0.0
    found = measured(tmp_path, samples)
    assert codes(found) == ["channel_dead"]
    assert found.refused == "the agent's channel is dead"


@pytest.mark.parametrize(("change", "code"), [
    (lambda x: x * np.array([0.02, 1.0]), "too_quiet"),
    (lambda x: np.clip(6 * x, -1, 1), "clipped"),
    (lambda x: 0.5 * x + 0.05, "dc_offset")])
def test_levels(tmp_path, change, code):
    samples, latencies = ordinary()
    found = measured(tmp_path, change(samples))
    assert set(codes(found)) == {code}
    assert np.median(errors_ms(found, latencies)) <= 60


@pytest.mark.parametrize("subtype", ["ULAW", pytest.param("ALAW", marks=SLOW)])
def test_clipping_of_telephone_codes(tmp_path, subtype):
    found = measured(tmp_path, np.clip(6 * ordinary()[0], -1, 1), subtype=subtype)
    assert "clipped" in codes(found)


def test_samples_that_are_not_finite_are_no_evidence(tmp_path):
    samples, _ = ordinary()
    clean = measured(tmp_path, samples, subtype="FLOAT")
    turn = clean.call.of(Kind.REPLY)[2]
    broken = samples.astype(np.float32).copy()
    at = round((turn.agent_ns[0] - 200 * MS) * 8_000 / 1e9)
    broken[at:at + 40, 0] = np.nan
    found = measured(tmp_path, broken, subtype="FLOAT")
    assert codes(found) == ["non_finite"]
    assert found.l1.doubtful_n == 1
    assert len(found.l1.values_ns) == len(clean.l1.values_ns) - 1
    assert found.turn_take.doubtful_n == 1


@pytest.mark.parametrize("samples", [
    np.zeros((80_000, 2)), np.random.default_rng(1).integers(-1, 2, (80_000, 2)) / 32768,
    np.full((80_000, 2), 0.1), np.zeros((1, 2)), np.zeros((80, 2))])
def test_nothing_spoken_is_nothing_measured(tmp_path, samples):
    document = field_document([measured(tmp_path, samples)], SETTINGS)
    (call,) = document["calls"]
    assert call["turns"] == []
    for name in ("rate", "ci"):
        assert call["interruption_rate"][name] is None
        assert call["turn_take"][name] is None
    assert call["l1"]["p50_ms"] is None
    assert call["talk_ratio"] is None
    assert call["l1"]["reason"]
    assert document["aggregate"]["gates"]["l1_p50_ms"]["met"] is None


def test_a_cut_file_is_analysed_as_far_as_it_goes(tmp_path):
    samples, _ = ordinary()
    file = tmp_path / "cut.wav"
    soundfile.write(file, samples, 8_000, subtype="ULAW")
    data = file.read_bytes()
    file.write_bytes(data[:len(data) * 6 // 10 + 1])
    found = measure_file(CallSource("cut.wav", Track(file, 0), Track(file, 1)), SETTINGS, None)
    assert codes(found) == ["truncated"]
    assert found.duration_ns == pytest.approx(0.6e9 * len(samples) / 8_000, rel=0.01)
    assert 3 <= len(found.l1.values_ns) <= 6


# Sounds that are no speech


def test_hold_music_keys_and_ringback_make_no_turns(tmp_path):
    call = Call(75.0)
    for k in range(2):
        call.put("caller", k * 6.0, tone(2.0, 440, 480, level=0.2))
    end = call.say("caller", 10.0, 0)
    end = call.say("agent", end + 0.7, 9)
    t = np.arange(15 * RATE_HZ) / RATE_HZ
    root = np.where((t // 2) % 2 == 0, 220.0, 196.0)
    chords = sum(np.sin(2 * np.pi * root * third * h * t) / h
                 for third in (1, 1.26, 1.5) for h in (1, 2, 3))
    call.put("agent", end + 1.0, 0.06 * np.exp(-2 * (t % 1.0)) * chords)
    end = call.say("agent", end + 17.5, 3)
    end = call.say("caller", end + 1.0, 6)
    for low, high in ((697, 1209), (770, 1336), (852, 1477)):
        call.put("caller", end + 0.4, tone(0.15, low, high))
        end += 0.3
    call.say("agent", end + 1.5, 4)
    found = measured(tmp_path, call.stereo())
    assert codes(found) == ["music_or_tone", "music_or_tone"]
    assert len(found.speech.caller) == 2
    # Three lines of the agent, of which one has a pause of 341 ms at its comma.
    assert len(found.speech.agent) == 4
    assert kinds(found) == ["reply", "continuation", "continuation", "reply"]
    assert_nothing_invented(found, call)


def test_voicemail_is_in_no_total(tmp_path):
    call = Call(40.0)
    end = 0.0
    for line in (0, 1, 2):
        end = call.say("caller", end + 0.2, line)
    beep = call.put("caller", end + 0.6, tone(0.5, 1_000))
    call.say("agent", 3.0, 3)
    call.say("agent", beep + 0.5, 4)
    found = measured(tmp_path, call.stereo())
    assert "possible_voicemail" in codes(found)
    total = field_document([found], SETTINGS)["aggregate"]
    assert total["l1"]["n"] == 0
    assert total["interruption_rate"]["n"] == 0
    assert total["left_out"][0]["reason"].startswith("possible voicemail")
    for figure in ("l1", "interruption_rate", "turn_take", "l2", "filler_rate", "u1"):
        assert total[figure]["reason"] == "every call that was measured is left out"
    assert total["talk_ratio"] is not None


def test_an_ordinary_beginning_is_no_voicemail(tmp_path):
    assert "possible_voicemail" not in codes(measured(tmp_path, ordinary()[0]))


# Long recordings


@pytest.mark.slow
def test_the_last_word_of_forty_minutes_is_found(tmp_path):
    """snakers4/silero-vad#619: only the first 8 of 33 minutes were analysed."""
    word = resample(speech("Yes.", 3), RATE_HZ, 8_000)
    samples = np.random.default_rng(1).standard_normal((40 * 60 * 8_000, 2)) * 5e-4
    for minute in range(40):
        at = (minute * 60 + 59) * 8_000
        samples[at:at + len(word), 0] += word[:8_000]
        samples[at - 20 * 8_000:at - 20 * 8_000 + len(word), 1] += word
    found = measured(tmp_path, samples)
    assert len(found.speech.caller) == len(found.speech.agent) == 40
    assert found.speech.caller.items[-1][0] == pytest.approx((39 * 60 + 59) * 1e9, abs=1e8)
    assert found.duration_ns == 2_400 * 1_000_000_000
    assert len(found.l1.values_ns) == 39


# Two files a call


def test_two_mono_files_give_what_the_stereo_file_gives(tmp_path):
    samples, _ = ordinary()
    one = measured(tmp_path, samples)
    files = []
    for k, name in enumerate(("caller", "agent")):
        files.append(tmp_path / f"x_{name}.wav")
        soundfile.write(files[k], samples[:, k], 8_000)
    two = measure_file(CallSource("x", Track(files[0], 0), Track(files[1], 0)), SETTINGS, None)
    assert two.call == one.call
    soundfile.write(files[1], resample(np.ascontiguousarray(samples[:, 1]), 8_000, 16_000), 16_000)
    wide = measure_file(CallSource("x", Track(files[0], 0), Track(files[1], 0)), SETTINGS, None)
    assert kinds(wide) == kinds(one)


def test_files_of_different_length_are_named(tmp_path):
    samples, _ = ordinary()
    files = [tmp_path / "caller.wav", tmp_path / "agent.wav"]
    soundfile.write(files[0], samples[:, 0], 8_000)
    soundfile.write(files[1], samples[:-40_000, 1], 8_000)
    found = measure_file(CallSource("x", Track(files[0], 0), Track(files[1], 0)), SETTINGS, None)
    assert "misaligned" in codes(found)
    assert found.duration_ns == len(samples) * 125_000


def test_what_cannot_be_read_is_skipped(tmp_path):
    file = tmp_path / "mono.wav"
    soundfile.write(file, np.zeros(8_000), 8_000)
    found = measure_file(CallSource("mono.wav", Track(file, 0), Track(file, 1)), SETTINGS, None)
    assert isinstance(found, Skipped)
    assert "--pair" in found.reason
