"""How an agent speaks, on recordings whose pitch and pauses are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import soundfile

from audio.errors import RigError
from audio.spans import Spans
from rig.field import prosody
from rig.field.prosody import Prosody, measure_prosody, prosody_figures, prosody_totals
from rig.field.sources import Track
from verifiers.calls.turns import classify

S = 1_000_000_000
RATE_HZ = 8_000
CALLER = Spans(((0, 2 * S), (10 * S, 12 * S)))
AGENT = Spans(((3 * S, 5 * S), (6 * S, 8 * S), (13 * S, 15 * S)))
CALL = classify(CALLER, AGENT)


def recorded(path, low_hz=100.0, high_hz=200.0, *, package=True) -> Track:
    """A glide of a harmonic tone wherever the agent speaks, noise on the caller's channel."""
    if package:
        pytest.importorskip("parselmouth")
    both = np.zeros((16 * RATE_HZ, 2))
    both[:, 0] = 0.1 * np.random.default_rng(2).standard_normal(len(both))
    t = np.arange(2 * RATE_HZ) / RATE_HZ
    hz = low_hz * (high_hz / low_hz) ** (t / 2)
    phase = 2 * np.pi * np.cumsum(hz) / RATE_HZ
    said = 0.2 * sum(np.where(k * hz < 3_900, np.sin(k * phase) / k, 0) for k in range(1, 40))
    for start, _ in AGENT:
        first = start * RATE_HZ // S
        both[first:first + len(said), 1] = said
    soundfile.write(path / "call.wav", both, RATE_HZ, subtype="FLOAT")
    return Track(path / "call.wav", 1)


def power() -> np.ndarray:
    """Half of the frames of each span 20 dB under the others."""
    out = np.full(500, 1e-9, np.float32)
    for start, end in AGENT:
        first, last = start // 32_000_000, -(-end // 32_000_000)
        out[first:last] = np.where(np.arange(last - first) % 2, 0.01, 0.0001)
    return out


@pytest.mark.parametrize("piece_s", [30, 1])
def test_a_voice_of_known_range(tmp_path, monkeypatch, piece_s):
    monkeypatch.setattr(prosody, "PIECE_S", piece_s)
    found = measure_prosody(recorded(tmp_path), AGENT, CALL, power())
    assert isinstance(found, Prosody)
    assert found.f0_iqr_st == pytest.approx(6.0, abs=0.15)
    assert found.f0_median_hz == pytest.approx(141.4, rel=0.01)
    assert found.voiced_s == pytest.approx(6.0, abs=0.3)
    # One pause in 5 + 2 s of answers.
    assert (found.pauses_n, found.answers_s) == (1, 7.0)
    assert found.pauses_per_min == pytest.approx(60 / 7)
    assert found.energy_range_db == pytest.approx(20.0)
    assert found.tilt_db_per_octave == pytest.approx(-6.0, abs=0.6)
    assert 300 < found.centroid_hz < 1000


def test_too_little_voice_has_no_range(tmp_path):
    found = measure_prosody(recorded(tmp_path), Spans(((3 * S, 3 * S + S // 2),)), CALL, power())
    assert 0 < found.voiced_s < 1
    assert found.f0_iqr_st is None
    assert found.centroid_hz is None
    silent = measure_prosody(recorded(tmp_path), Spans(), classify(CALLER, Spans()), power())
    assert silent == Prosody(0.0, None, None, None, None, 0, 0.0, None, None)


def test_samples_that_are_no_numbers_are_silence(tmp_path):
    track = recorded(tmp_path)
    samples, _ = soundfile.read(track.path)
    samples[4 * RATE_HZ:4 * RATE_HZ + 5, 1] = np.nan
    soundfile.write(track.path, samples, RATE_HZ, subtype="FLOAT")
    assert measure_prosody(track, AGENT, CALL, power()).f0_iqr_st == pytest.approx(6.0, abs=0.15)


def test_a_missing_extra_is_a_reason_and_takes_the_voice_alone(tmp_path, monkeypatch):
    track = recorded(tmp_path, package=False)

    def absent(*_):
        raise prosody.ProsodyError("pitch needs the extra prosody")

    monkeypatch.setattr(prosody, "voiced_frames", absent)
    found = measure_prosody(track, AGENT, CALL, power())
    assert issubclass(prosody.ProsodyError, RigError)
    call = prosody_figures(found, None)
    for name in ("voiced_s", "f0_median_hz", "f0_iqr_st", "tilt_db_per_octave", "centroid_hz"):
        assert call[name] is None
    assert call["reason"] == "pitch needs the extra prosody"
    assert (call["pauses_n"], call["answers_s"]) == (1, 7.0)
    assert call["energy_range_db"] == pytest.approx(20.0)
    total = prosody_totals([found, found], None)
    assert total["reason"] == "pitch needs the extra prosody"
    assert total["f0_iqr_st"] == {"n": 0, "median": None, "ci": None}
    assert total["pauses_per_min"]["median"] == pytest.approx(60 / 7)
    assert "reason" not in prosody_totals([found, replace(found, reason=None)], None)


def test_totals_are_medians_over_calls():
    calls = [Prosody(9.0, 100.0, iqr, -6.0, 700.0, 1, 60.0, 1.0, 20.0) for iqr in (2.0, 4.0, 9.0)]
    total = prosody_totals([*calls, "not asked for"], None)
    assert total["calls_n"] == 3
    assert total["f0_iqr_st"]["median"] == 4.0
    assert total["f0_iqr_st"]["n"] == 3
    assert total["f0_iqr_st"]["ci"][0] <= 4.0 <= total["f0_iqr_st"]["ci"][1]
    assert "reason" not in total
    refused = prosody_totals([], "no call could be measured")
    assert refused["f0_iqr_st"] == {"n": 0, "median": None, "ci": None}
    assert refused["reason"] == "no call could be measured"
