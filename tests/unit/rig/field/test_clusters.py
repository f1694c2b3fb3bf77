"""Groups of calls by tilt and centroid: two made voices are two, one voice is none."""

from __future__ import annotations

import builtins

import numpy as np
import pytest
import soundfile

from audio.spans import Spans
from rig.field import clusters as module
from rig.field.clusters import CALLS_MOST, clusters, clusters_facts, silhouette
from rig.field.prosody import Prosody, measure_prosody, prosody_clusters, prosody_totals
from rig.field.sources import Track
from rig.field.tables import prosody_lines
from verifiers.calls.turns import classify

S = 1_000_000_000
AGENT = Spans(((3 * S, 6 * S),))
CALL = classify(Spans(((0, 2 * S),)), AGENT)


def cloud(count: int, seed: int, tilt: float = -6.0, hz: float = 800.0) -> np.ndarray:
    """Calls of one voice: tilt and centroid go together, as they do in speech."""
    both = np.random.default_rng(seed).multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], count)
    return both * [0.3, 30] + [tilt, hz]


def recorded(path, number: int, slope: float, rate_hz: int) -> Prosody:
    """A call whose agent is a harmonic tone with amplitudes k**-slope, its pitch going up and
    down around a pitch of its own."""
    random = np.random.default_rng(number)
    t = np.arange(3 * rate_hz) / rate_hz
    pitch = random.uniform(110, 190)
    depth = 0.05 if slope > 1.5 else 0.3
    phase = 2 * np.pi * np.cumsum(pitch * (1 + depth * np.sin(4 * t))) / rate_hz
    said = 0.1 * sum(np.sin(k * phase) * k**-(slope + random.uniform(-0.05, 0.05))
                     for k in range(1, int(3_900 / pitch / (1 + depth))))
    both = 1e-4 * random.standard_normal((7 * rate_hz, 2))
    both[3 * rate_hz:6 * rate_hz, 1] += said
    file = path / f"{number}.wav"
    soundfile.write(file, both, rate_hz, subtype="FLOAT")
    return measure_prosody(Track(file, 1), AGENT, CALL, np.full(300, 0.01, np.float32))


def test_two_made_voices_are_two(tmp_path):
    pytest.importorskip("parselmouth")
    pytest.importorskip("scipy")
    # Amplitudes 1/k and 1/k²: -6 and -12 dB an octave; one rate or another is no other voice.
    calls = [recorded(tmp_path, k, 1.0 + k % 2, (8_000, 16_000)[k % 3 == 0]) for k in range(8)]
    found, labels = prosody_clusters(["not asked for", *calls], None)
    assert (found["k"], found["best_k"], found["calls_n"]) == (2, 2, 8)
    assert found["silhouette"] > 0.9
    assert "reason" not in found
    assert labels == [None, 2, 1, 2, 1, 2, 1, 2, 1], "1 is the darker"
    dark, bright = found["groups"]
    assert (dark["cluster"], dark["calls_n"], bright["calls_n"]) == (1, 4, 4)
    assert dark["tilt_db_per_octave"] == pytest.approx(-12, abs=1.0)
    assert bright["tilt_db_per_octave"] == pytest.approx(-6, abs=1.0)
    # What they were not clustered on stands beside: the darker is the flatter.
    assert dark["f0_iqr_st"] < 2 < 4 < bright["f0_iqr_st"]


def test_one_made_voice_is_none(tmp_path):
    pytest.importorskip("parselmouth")
    pytest.importorskip("scipy")
    calls = [recorded(tmp_path, k, 1.0, 8_000) for k in range(8)]
    found, labels = prosody_clusters(calls, None)
    assert found["k"] is None
    assert "no groups" in found["reason"]
    assert found["silhouette"] < 0.7
    assert found["groups"] == []
    assert labels == [None] * 8


@pytest.mark.parametrize("count", [3, 29])
def test_two_clouds(count):
    pytest.importorskip("scipy")
    points = np.concatenate([cloud(count, 1), cloud(count, 2, -9.0, 500.0)])
    found = clusters(*points.T)
    assert found.k == found.best_k == 2
    assert found.silhouette > 0.7
    assert found.chance <= 0.05
    assert found.chance_silhouette < found.silhouette
    assert found.labels == (2,) * count + (1,) * count
    assert clusters(*points.T) == found
    # Units are of no account, and neither is the order of the calls.
    assert clusters(*(points * [3.0, 0.01]).T).labels == found.labels
    order = np.random.default_rng(3).permutation(2 * count)
    assert clusters(*points[order].T).labels == tuple(found.labels[k] for k in order)


def test_three_clouds_and_one_call_apart():
    pytest.importorskip("scipy")
    points = np.concatenate([cloud(8, 1), cloud(8, 2, -9, 500), cloud(8, 3, -3, 500)])
    found = clusters(*points.T)
    assert (found.k, found.best_k) == (3, 3)
    assert set(found.labels) == {1, 2, 3}
    apart = clusters(*np.concatenate([cloud(8, 1), cloud(8, 2, -9, 500), [[6.0, 2000.0]]]).T)
    assert apart.labels == (2,) * 8 + (1,) * 8 + (None,)
    assert (apart.best_k, apart.k) == (3, 2)
    assert clusters_facts(apart)["outliers_n"] == 1


def test_one_cloud_is_rarely_called_two():
    """At the most 5 % of single clouds; of these, none."""
    pytest.importorskip("scipy")
    for count, seed in [(8, 1), (8, 2), (30, 3), (30, 4)]:
        found = clusters(*cloud(count, seed).T)
        assert found.k is None, seed
        assert set(found.labels) == {None}
        assert clusters_facts(found)["outliers_n"] == 0


def test_a_high_silhouette_that_chance_reaches_is_no_claim():
    pytest.importorskip("scipy")
    # A line cut in the middle: over 0.5 with nothing there.
    found = clusters(np.linspace(-7, -5, 40), np.linspace(700, 900, 40))
    assert found.silhouette > 0.5
    assert found.chance > 0.05
    assert found.k is None
    assert "one voice gives a silhouette of" in found.reason


def test_too_few_too_many_and_all_the_same():
    assert "at least 6 calls with tilt and centroid, got 5" in clusters([1.0] * 5, [2.0] * 5).reason
    assert "at least 6" in clusters([], []).reason
    many = np.arange(CALLS_MOST + 1.0)
    assert f"at most {CALLS_MOST}" in clusters(many, many).reason
    assert "the same tilt" in clusters([1.0] * 6, np.arange(6.0)).reason
    with pytest.raises(ValueError, match="finite"):
        clusters([1.0, np.nan], [1.0, 2.0])


def test_splits_that_leave_no_two_groups():
    pytest.importorskip("scipy")
    # Six calls of which no three lie together.
    found = clusters([0.0, 0.0, 50, 50, 100, 100], [0.0, 1.0, 0.0, 1.0, 0.0, 1.0])
    assert found.best_k is None
    assert "fewer than 3 calls" in found.reason
    assert found.labels == (None,) * 6


def test_without_the_extra(monkeypatch):
    real = builtins.__import__

    def absent(name, *rest, **more):
        if name.startswith("scipy"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    found = clusters(np.arange(8.0), np.arange(8.0))
    assert found.reason == module.MISSING
    assert found.labels == (None,) * 8


def test_reasons_of_calls_without_a_voice():
    flat = Prosody(0.2, None, None, None, None, 1, 60.0, 1.0, 20.0)
    assert prosody_clusters([flat, flat], None)[0]["reason"] == "too little speech"
    assert prosody_clusters(["not asked for"], None) == (
        {"calls_n": 0, "k": None, "best_k": None, "silhouette": None, "silhouette_by_k": {},
         "chance_p": None, "chance_silhouette_p95": None, "outliers_n": 0,
         "reason": "not asked for", "groups": []}, [None])
    assert prosody_clusters([flat, "not asked for"], None)[0]["reason"] == "in no call"
    assert prosody_clusters([], "refused")[0]["reason"] == "refused"


# Silhouette


def test_a_silhouette_by_hand():
    # On a line: 0, 1 | 4. s(0) = (4 - 1)/4, s(1) = (3 - 1)/3, alone = 0.
    apart = np.abs(np.subtract.outer([0.0, 1.0, 4.0], [0.0, 1.0, 4.0]))
    assert silhouette(apart, np.array([0, 0, 1])) == pytest.approx((3 / 4 + 2 / 3) / 3)
    assert silhouette(np.zeros((4, 4)), np.array([0, 0, 1, 1])) == 0.0


@pytest.mark.slow
def test_a_silhouette_as_another_library_has_it():
    metrics = pytest.importorskip("sklearn.metrics")
    random = np.random.default_rng(4)
    for _ in range(20):
        points = random.standard_normal((15, 2))
        labels = np.unique(random.integers(0, 5, 15), return_inverse=True)[1]
        apart = np.linalg.norm(points[:, None] - points[None], axis=2)
        assert silhouette(apart, labels) == pytest.approx(
            metrics.silhouette_score(points, labels), abs=1e-12)


# In words


def test_lines_of_clusters_and_of_none():
    pytest.importorskip("scipy")
    calls = [Prosody(9.0, 100.0, iqr, tilt, hz, 1, 60.0, 1.0, 20.0) for points, iqr in (
        (cloud(5, 1), 9.0), (cloud(5, 2, -9.0, 500.0), 4.0)) for tilt, hz in points]
    total = prosody_totals(calls, None)
    total["clusters"], _ = prosody_clusters(calls, None)
    said = prosody_lines(total)
    assert said[0].startswith("prosody, median of 10 calls: f0_median_hz 100.00")
    assert said[1].startswith("2 clusters of 10 calls on tilt and centroid, silhouette 0.91")
    assert "calls in none 0; silhouettes: k=2 0.91, " in said[1]
    assert said[2].startswith("cluster 1, medians of 5 calls: f0_median_hz 100.00, f0_iqr_st 4.00")
    assert said[3].startswith("cluster 2, medians of 5 calls: f0_median_hz 100.00, f0_iqr_st 9.00")
    total["clusters"], _ = prosody_clusters(calls[:5], None)
    assert prosody_lines(total)[1:] == [
        "clusters on tilt and centroid: expected at least 6 calls with tilt and centroid, got 5"]
    group = {**prosody_totals(calls, None), "calls_by_cluster": {"1": 2}}
    assert prosody_lines(group)[1] == "clusters: 2 calls in 1"
    assert prosody_lines(prosody_totals(["not asked for"], None)) == ["prosody: not asked for"]
