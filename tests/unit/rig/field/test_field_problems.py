"""Every reported problem of recordings has a test with its right value: rows as in the reference
table of field problems (areas VAD, recording, format, latency), and what was missing among them."""

from __future__ import annotations

import ast
import csv
import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from call_maker import RATE_HZ, Call, dialogue, speech

from audio.errors import InputError
from audio.resample import resample
from audio.vad import VadSettings
from rig.field import ingest
from rig.field.document import field_document
from rig.field.measures import FieldSettings, Skipped, measure_file
from rig.field.sources import CallSource, Track

ROOT = Path(__file__).resolve().parents[4]
PROBLEMS = ROOT.parent / "shared" / "reference" / "field_problems.tsv"
AREAS = {"VAD", "recording", "format", "latency"}

MADE = "tests/unit/rig/field/test_made_calls.py"
COMMAND = "tests/unit/rig/field/test_field_command.py"
HERE = "tests/unit/rig/field/test_field_problems.py"
VAD = "tests/unit/audio/test_vad.py"
FILES = "tests/unit/audio/test_files.py"
HEADERS = "tests/unit/audio/test_file_headers.py"
M4A = "tests/unit/audio/test_m4a.py"
BANDS = "tests/unit/audio/test_band_edges.py"
TURNS = "tests/unit/verifiers/calls/test_turns.py"
SUBSTANCE = "tests/unit/verifiers/calls/test_substance.py"
WORDS = "tests/unit/rig/field/test_words.py"
TESTS: dict[int, tuple[tuple[str, str], ...]] = {
    1: (
        (VAD, "test_row_1_a_word_at_the_start_does_not_depend_on_what_ran_before"),
        (HERE, "test_a_call_says_the_same_whatever_came_before"),
    ),
    2: (
        (HERE, "test_a_wrong_rate_is_named"),
        (HERE, "test_the_right_rate_is_no_problem"),
        (FILES, "test_the_rate_is_the_headers"),
    ),
    4: (
        (MADE, "test_every_turn_is_found_where_it_is"),
        (MADE, "test_line_noise_costs_little"),
        (BANDS, "test_edges_are_those_of_the_sound"),
    ),
    5: (
        (VAD, "test_row_5_short_words_are_found"),
        (MADE, "test_inner_pauses_fillers_overlap_and_backchannels"),
    ),
    6: ((VAD, "test_facts_name_the_weights_and_are_strict_json"),),
    8: (
        (VAD, "test_row_8_digital_silence_is_no_speech"),
        (MADE, "test_nothing_spoken_is_nothing_measured"),
    ),
    9: (
        (VAD, "test_row_9_tones_and_chords_are_no_speech"),
        (MADE, "test_hold_music_keys_and_ringback_make_no_turns"),
    ),
    10: ((VAD, "test_row_10_pads_keep_order_and_stay_inside"),),
    11: ((VAD, "test_live_and_offline_agree_on_a_real_call"),),
    13: (
        (VAD, "test_row_13_the_end_of_a_long_recording_is_analysed"),
        (MADE, "test_the_last_word_of_forty_minutes_is_found"),
    ),
    14: (
        (HERE, "test_a_pause_of_400_ms_ends_a_span"),
        (HERE, "test_long_spans_and_the_minimum_silence_are_shown"),
    ),
    15: (
        (HERE, "test_a_call_says_the_same_whatever_came_before"),
        (COMMAND, "test_a_study_goes_on_where_it_was"),
    ),
    17: ((HERE, "test_a_detector_that_fails_is_never_silence"),),
    18: (
        (VAD, "test_row_18_less_than_a_frame_is_no_speech"),
        (MADE, "test_nothing_spoken_is_nothing_measured"),
    ),
    21: ((HERE, "test_coughs_of_the_caller_are_no_turns"),),
    22: ((MADE, "test_one_signal_on_both_channels_is_no_call"),),
    23: (
        (MADE, "test_swapped_input_gives_swapped_figures_exactly"),
        (COMMAND, "test_the_channel_map_is_echoed_or_a_warning"),
    ),
    24: (
        (MADE, "test_a_leak_makes_no_phantom_turn"),
        (MADE, "test_a_leak_as_loud_as_the_voice_withholds_the_turns"),
    ),
    25: ((MADE, "test_agent_speech_without_its_silence_is_named"),),
    27: ((MADE, "test_channels_apart_are_named"),),
    29: ((MADE, "test_a_channel_that_dies_is_not_charged_with_silence"),),
    30: ((HERE, "test_a_tone_on_one_side_leaves_both_in_the_report"),),
    32: ((MADE, "test_voicemail_is_in_no_total"),),
    33: ((MADE, "test_hold_music_keys_and_ringback_make_no_turns"),),
    34: (
        (HEADERS, "test_streaming_headers_are_measured_without_a_warning"),
        (COMMAND, "test_every_kind_of_file_says_the_same"),
    ),
    36: (
        (MADE, "test_a_cut_file_is_analysed_as_far_as_it_goes"),
        (FILES, "test_a_real_call_cut_at_60_percent"),
    ),
    37: (
        (FILES, "test_mu_law_copy_gives_nearly_the_same_analysis"),
        (COMMAND, "test_every_kind_of_file_says_the_same"),
    ),
    39: (
        (COMMAND, "test_a_broken_file_never_stops_the_rest"),
        (M4A, "test_without_the_extra_one_line_says_what_to_install"),
    ),
    41: (
        (FILES, "test_a_long_recording_is_never_held_whole"),
        (HEADERS, "test_a_size_that_wrapped_at_4_gib"),
    ),
    43: ((HERE, "test_turns_without_a_reply_are_counted_beside_the_percentiles"),),
    44: ((HERE, "test_late_words_do_not_move_the_latency"),),
    45: (
        (SUBSTANCE, "test_a_holding_line_and_the_answer_four_seconds_later"),
        (WORDS, "test_l2_of_calls_with_fillers"),
    ),
    47: (
        (TURNS, "test_an_overlap_is_signed_and_in_no_latency"),
        (MADE, "test_inner_pauses_fillers_overlap_and_backchannels"),
    ),
    49: ((HERE, "test_late_words_do_not_move_the_latency"),),
    50: (
        (TURNS, "test_a_backchannel_may_end_with_the_caller"),
        (MADE, "test_inner_pauses_fillers_overlap_and_backchannels"),
    ),
}
"""Row to the tests that hold its right value."""


def measured(path, samples, rate_hz=8_000, **more):
    file = path / "call.wav"
    soundfile.write(file, samples, rate_hz)
    found = measure_file(CallSource("call.wav", Track(file, 0), Track(file, 1)),
                         FieldSettings(sensitivity=False, **more), None)
    assert not isinstance(found, Skipped), found
    return found


def codes(found) -> list[str]:
    return [code for code, _ in found.warnings]


@pytest.mark.skipif(not PROBLEMS.exists(), reason="the reference table is not there")
def test_every_row_about_recordings_has_a_test():
    with PROBLEMS.open(newline="") as file:
        rows = {int(row["id"]) for row in csv.DictReader(file, delimiter="\t")
                if row["area"] in AREAS}
    assert rows == set(TESTS)


@pytest.mark.parametrize("row", sorted(TESTS))
def test_the_tests_of_a_row_are_there(row):
    for path, name in TESTS[row]:
        tree = ast.parse((ROOT / path).read_text())
        names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert name in names, f"{path}::{name}"


# Row 2: the rate of the header is not that of the sound


@pytest.mark.parametrize(("made_hz", "declared_hz"), [(8_000, 16_000)])
def test_a_wrong_rate_is_named(tmp_path, made_hz, declared_hz):
    found = measured(tmp_path, dialogue(6)[0].stereo(made_hz), declared_hz)
    details = [detail for code, detail in found.warnings if code == "no_speech"]
    assert len(details) == 1
    assert details[0].startswith("caller: speech in ")
    assert details[0].endswith(f"is the file's {declared_hz} Hz the rate it was recorded at?")


@pytest.mark.parametrize("rate_hz", [8_000, 24_000])
def test_the_right_rate_is_no_problem(tmp_path, rate_hz):
    assert codes(measured(tmp_path, dialogue(4)[0].stereo(rate_hz), rate_hz)) == []


# Row 14: pauses that are not detected


def long_speech(pause_s: float) -> np.ndarray:
    """An agent's sentences with a pause after each, 40 s, as loud breath fills it; (frames, 2)."""
    call = Call(60.0)
    end = call.say("caller", 0.6, 0)
    at = end + 0.8
    k = 0
    while at < 44.0:
        end = call.say("agent", at, (3, 5, 4, 7, 9, 11)[k % 6])
        breath = np.random.default_rng(k).standard_normal(round(pause_s * RATE_HZ))
        call.put("agent", end, 0.5 * 10 ** (-40 / 20) * breath)
        at, k = end + pause_s, k + 1
    call.say("caller", at + 1.0, 6)
    return call.stereo()


def test_a_pause_of_400_ms_ends_a_span(tmp_path):
    """Breath 40 dB under full scale fills it. By default some pauses are bridged and no span is
    long; with a minimum silence of 600 ms all are one, and that is flagged."""
    samples = long_speech(0.4)
    found = measured(tmp_path, samples)
    channel = field_document([found], FieldSettings(sensitivity=False))["calls"][0]["channels"]
    assert channel["agent"]["spans_over_30s_n"] == 0
    assert channel["agent"]["spans_n"] >= 3
    merged = measured(tmp_path, samples, vad=VadSettings(min_silence_ms=600))
    channel = field_document([merged], FieldSettings(sensitivity=False))["calls"][0]["channels"]
    assert channel["agent"]["spans_over_30s_n"] == 1
    assert channel["agent"]["longest_span_s"] > 40


def test_long_spans_and_the_minimum_silence_are_shown(call_rig, tmp_path):
    path = tmp_path / "call.wav"
    soundfile.write(path, long_speech(0.4), 8_000)
    done = call_rig("field", path, "--caller-channel", "left", "--no-cache", "--jobs", "1",
                    "--set", "vad_min_silence_ms=600")
    text = " ".join(done.out.split())
    assert "agent: 1 spans over 30 s, the longest 4" in text
    assert "over the minimum silence alone: L1 p50 " in text


# Row 17: a detector that fails


def test_a_detector_that_fails_is_never_silence(tmp_path, monkeypatch):
    def broken(streams, pieces):
        raise InputError("frame: wrong size")

    monkeypatch.setattr(ingest, "push_together", broken)
    file = dialogue(1)[0].write(tmp_path / "call.wav")
    found = measure_file(CallSource("call.wav", Track(file, 0), Track(file, 1)),
                         FieldSettings(), None)
    assert isinstance(found, Skipped)
    assert "frame: wrong size" in found.reason


# Row 21: sounds of the caller that are no words


def test_coughs_of_the_caller_are_no_turns(tmp_path):
    call = Call(30.0)
    end = call.say("caller", 0.6, 0)
    begun = end + 0.8
    end = call.say("agent", begun, "The price depends on the weight, so let me ask you a few "
                                   "questions about it before we go on with the parcel.")
    for k in range(3):
        t = np.arange(round(0.25 * RATE_HZ)) / RATE_HZ
        noise = np.random.default_rng(k).standard_normal(len(t))
        call.put("caller", begun + 0.5 + k, 0.3 * noise * np.exp(-t / 0.06))
    end = call.say("caller", end + 1.0, 6)
    call.say("agent", end + 0.7, 4)
    found = measured(tmp_path, call.stereo())
    assert len(found.speech.caller) == 2
    assert [t.kind.value for t in found.call.turns if t.kind.value != "continuation"] == [
        "reply", "reply"]


# Rows 44, 49: latency is the waveform's


def test_late_words_do_not_move_the_latency(tmp_path):
    samples = dialogue(3)[0].stereo()
    bare = measured(tmp_path, samples)
    late = {"schema_version": 1, "words": [
        {"side": "agent", "word": "hello", "start_s": t.agent_ns[0] / 1e9 + 0.8,
         "end_s": t.agent_ns[0] / 1e9 + 1.0} for t in bare.call.turns]}
    words = tmp_path / "call.words.json"
    words.write_text(json.dumps(late))
    found = measure_file(CallSource("call.wav", Track(tmp_path / "call.wav", 0),
                                    Track(tmp_path / "call.wav", 1), (words,)),
                         FieldSettings(sensitivity=False), None)
    assert found.l1 == bare.l1
    assert found.words.substance.l2_ns == tuple(v + 800_000_000 for v in found.l1.values_ns)


# Row 30: one channel without a voice


def test_a_tone_on_one_side_leaves_both_in_the_report(tmp_path):
    samples = dialogue(3)[0].stereo()
    t = np.arange(len(samples)) / 8_000
    samples = np.stack([0.2 * np.sin(2 * np.pi * 440 * t), samples[:, 1]], axis=1)
    found = measured(tmp_path, samples)
    document = field_document([found], FieldSettings(sensitivity=False))["calls"][0]
    assert document["channels"]["caller"]["speech_s"] == 0
    assert document["channels"]["caller"]["peak_db"] == pytest.approx(-14, abs=0.1)
    assert document["channels"]["agent"]["speech_s"] > 5
    assert found.refused == "the caller never speaks"


# Row 43: a turn that is too quiet to be detected


def test_turns_without_a_reply_are_counted_beside_the_percentiles(tmp_path):
    call, at = Call(80.0), 0.6
    for k in range(5):
        end = call.say("caller", at, (0, 1, 2, 6, 8)[k])
        at = end + (6.0 if k == 3 else 1.0)
        if k != 3:
            at = call.say("agent", end + 0.8, (3, 5, 4, 7, 9)[k]) + 1.2
    found = measured(tmp_path, call.stereo())
    l1 = field_document([found], FieldSettings(sensitivity=False))["calls"][0]["l1"]
    assert (l1["n"], l1["caller_turns_n"]) in {(4, 4), (4, 5)}
    assert l1["p50_ms"] == pytest.approx(800, abs=40)


# Row 1, 15: nothing of one call reaches the next


def test_a_call_says_the_same_whatever_came_before(tmp_path):
    quiet = np.pad(resample(speech("Yes.", 3), RATE_HZ, 8_000), (0, 24_000))
    samples = np.stack([quiet, 0.5 * np.roll(quiet, 12_000)], axis=1)
    first = measured(tmp_path, samples)
    measured(tmp_path, dialogue(3)[0].stereo())
    again = measured(tmp_path, samples)
    assert again.speech == first.speech
    assert again.call == first.call
