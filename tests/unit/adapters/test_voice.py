"""The clips, measured by the detector that measures the agents."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from adapters.simulated import voice
from audio.buffers import Float32
from audio.errors import InputError
from audio.resample import resample
from audio.vad import VadSettings, speech_spans

UNMERGED = VadSettings(merge_gap_s=0.0)
STRICTEST_CEILING_S = 0.5
"""Role R3 (DSB-IFEval, table 14)."""
PHASES = range(0, 768, 96)
"""4 ms steps over the detector's grid of 32 ms."""


def spans_s(samples: Float32, lead_n: int = 24_000) -> list[tuple[float, float]]:
    """Detected speech in seconds from the first sample, with silence around."""
    padded = np.concatenate([np.zeros(lead_n, np.float32), samples, np.zeros(24_000, np.float32)])
    found = speech_spans(resample(padded, 24_000, 16_000), UNMERGED)
    return [(a / 16_000 - lead_n / 24_000, b / 16_000 - lead_n / 24_000) for a, b in found]


def test_the_endless_talk_is_one_span_without_any_merging() -> None:
    talk = voice.talk_on()
    assert talk.loop
    samples = np.concatenate([talk.samples, talk.samples])
    (span,) = spans_s(samples)
    assert span == pytest.approx((0.0, len(samples) / 24_000), abs=0.2)
    assert len(samples) / 24_000 > 60
    assert np.abs(samples).max() < 0.9


@pytest.mark.parametrize("length_s", [0.4, 1.0, 1.5, 2.5, 4.2])
@pytest.mark.parametrize("sentence", range(len(voice.TALK)))
def test_talk_has_its_length_and_is_one_span(length_s: float, sentence: int) -> None:
    speech = voice.talk(length_s, sentence)
    assert len(speech.samples) == round(length_s * 24_000)
    for phase in (0, 384):
        (span,) = spans_s(speech.samples, 24_000 + phase)
        assert span[0] == pytest.approx(0.0, abs=0.1)
        # Digital silence after a cut is noticed late: up to 0.17 s were measured.
        assert -0.05 < span[1] - length_s < 0.2


def test_the_backchannel_is_one_span_below_the_strictest_ceiling() -> None:
    """Wherever it falls on the detector's grid, fresh or after earlier speech."""
    clip = voice.backchannel().samples
    assert len(clip) == round(0.32 * 24_000)
    lengths = []
    for phase in PHASES:
        ((start, end),) = spans_s(clip, 24_000 + phase)
        lengths.append(end - start)
        before = np.concatenate([voice.talk(1.5).samples, np.zeros(2 * 24_000, np.float32)])
        after = [s for s in spans_s(np.concatenate([before, clip]), 24_000 + phase) if s[0] > 2]
        ((start, end),) = after
        lengths.append(end - start)
    assert min(lengths) > 0.3
    assert max(lengths) < STRICTEST_CEILING_S - 0.03


@pytest.mark.parametrize("gain", [0.2, 2.0])
def test_the_backchannel_is_detected_at_other_levels_too(gain: float) -> None:
    clip = voice.backchannel().samples * np.float32(gain)
    assert all(len(spans_s(clip, 24_000 + phase)) == 1 for phase in PHASES)


@pytest.mark.parametrize(("target", "spoken"), [
    ("four one five", "four one five"),
    ("415 Oak St.", "four one five Oak St"),
    ("B12-7", "B one two seven"),
    ("mom's boat", "mom's boat"),
    ("2% milk; 3x <b>", "two milk three x b"),
    ("'quoted' -- \u00e9", "quoted"),
])
def test_spoken_form_says_digits_singly(target: str, spoken: str) -> None:
    assert voice.spoken_form(target) == spoken


def test_read_back_speaks_digits_and_keeps_the_written_words() -> None:
    written, spelled = voice.read_back("gate 415 north"), voice.read_back(
        "gate four one five north")
    assert [w for w, _ in written.words] == ["gate", "415", "north"]
    assert np.array_equal(written.samples, spelled.samples)
    onsets = [n for _, n in written.words]
    assert onsets == sorted(set(onsets))
    assert onsets[0] == 0
    assert onsets[-1] < len(written.samples)
    assert len(spans_s(written.samples)) == 1


@pytest.mark.parametrize("target", ["", " -- ", "\u0645\u0631\u062d\u0628\u0627"])
def test_a_target_without_words_is_refused(target: str) -> None:
    with pytest.raises(InputError, match="read-back target: expected a target with at least one"):
        voice.read_back(target)


def test_a_target_beyond_all_measure_is_refused() -> None:
    with pytest.raises(InputError, match="expected a target of at most 400 characters, got 401"):
        voice.read_back("a" * 401)


def test_talk_holds_no_digits_and_no_number_words() -> None:
    numbers = {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
               "ten", "half", "oh"}
    for text in (*voice.TALK, voice.BACKCHANNEL_WORD, voice.UNRELATED):
        assert text.replace(" ", "").isalpha()
        assert not numbers & set(text.lower().split())


def test_clips_are_the_same_in_every_process() -> None:
    code = ("import hashlib; from adapters.simulated import voice; "
            "print(hashlib.sha256(voice.talk(2.0).samples.tobytes()"
            " + voice.backchannel().samples.tobytes()).hexdigest())")
    digests = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                              check=True).stdout for _ in range(2)}
    assert len(digests) == 1
