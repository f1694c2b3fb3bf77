from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from probes_testkit import FakeRendered, FakeWord, ToneEngine

from audio.errors import SynthesisError
from probes.segments import (
    SegmentCache,
    SegmentJob,
    canonical_json,
    choose_voice,
    render_all,
    render_job,
    segment_seed,
    sha256_json,
)

JOB = SegmentJob("apple barn", "mid", 7, "R1-A-1 turn 2 lead")


def cache(folder: Path, engine: ToneEngine | None = None) -> SegmentCache:
    engine = engine or ToneEngine()
    return SegmentCache(folder, engine.engine, engine.aligner)


def test_voice_is_sha1_of_the_key_modulo_n() -> None:
    # sha1 by sha1sum, remainders by bc: R1-A-1 is 1 mod 3 and 47 mod 56, S-C1-1 0 and 42
    studio = tuple(f"v{i}" for i in range(56))
    assert choose_voice("R1-A-1", ("low", "mid", "high")) == "mid"
    assert choose_voice("S-C1-1", ("low", "mid", "high")) == "low"
    assert choose_voice("R1-A-1", studio) == "v47"
    assert choose_voice("S-C1-1", studio) == "v42"
    assert choose_voice("anything", ("only",)) == "only"
    with pytest.raises(SynthesisError, match="at least one voice"):
        choose_voice("x", ())


def test_seed_depends_on_the_segment_alone() -> None:
    seeds = {segment_seed(k, t, n) for k in ("R1-A-1", "R1-A-2") for t in (1, 2)
             for n in ("lead", "trigger")}
    assert len(seeds) == 8
    assert all(0 <= s < 2**31 for s in seeds)
    assert segment_seed("R1-A-1", 2, "lead") == segment_seed("R1-A-1", 2, "lead")


def test_canonical_json() -> None:
    assert canonical_json({"b": 1, "a": ["é", 2.5]}) == '{"a":["é",2.5],"b":1}'
    # sha256 of the two characters {}
    assert sha256_json({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_cache_round_trip(tmp_path: Path) -> None:
    store = cache(tmp_path / "c")
    assert store.load(JOB) is None
    spoken = render_job(ToneEngine(), JOB)
    store.store(JOB, spoken)
    found = store.load(JOB)
    assert found is not None
    assert np.array_equal(found.pcm, spoken.pcm)
    assert found.pcm.size == 17_600
    assert [(w.word, w.start_n, w.end_n) for w in found.words] == [
        ("apple", 0, 8_800), ("barn", 8_800, 17_600)]
    assert found.alignment == "uniform"


@pytest.mark.parametrize("other", [
    SegmentJob("apple barns", "mid", 7), SegmentJob("apple barn", "low", 7),
    SegmentJob("apple barn", "mid", 8)])
def test_what_shapes_a_segment_is_in_its_key(tmp_path: Path, other: SegmentJob) -> None:
    assert cache(tmp_path).key(other) != cache(tmp_path).key(JOB)


def test_engine_settings_are_in_the_key_and_labels_are_not(tmp_path: Path) -> None:
    key = cache(tmp_path).key(JOB)
    assert cache(tmp_path, ToneEngine(settings={"speed": "1.1"})).key(JOB) != key
    assert cache(tmp_path).key(SegmentJob("apple barn", "mid", 7, "other label")) == key


def test_a_segment_that_is_forgotten_is_rendered_again(tmp_path: Path) -> None:
    store = cache(tmp_path / "c")
    store.store(JOB, render_job(ToneEngine(), JOB))
    store.forget(JOB)
    assert store.load(JOB) is None
    store.forget(JOB)  # it may never have been there


@pytest.mark.parametrize("words", [
    [], [["apple", -5000, 10]], [["apple", 0, 10]] * 9])
def test_words_of_an_entry_are_under_its_hash(tmp_path: Path, words: object) -> None:
    store = cache(tmp_path / "c")
    store.store(JOB, render_job(ToneEngine(), JOB))
    (path,) = (tmp_path / "c").glob("*.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "words": words}))
    assert store.load(JOB) is None


@pytest.mark.parametrize("damage", ["truncate wav", "swap samples", "no wav", "no json",
                                    "half json", "other json"])
def test_a_damaged_entry_is_rendered_again(tmp_path: Path, damage: str) -> None:
    store = cache(tmp_path)
    store.store(JOB, render_job(ToneEngine(), JOB))
    wav, meta = tmp_path / f"{store.key(JOB)}.wav", tmp_path / f"{store.key(JOB)}.json"
    if damage == "truncate wav":
        wav.write_bytes(wav.read_bytes()[:2_000])
    elif damage == "swap samples":
        data = bytearray(wav.read_bytes())
        data[1_000] ^= 0x10
        wav.write_bytes(bytes(data))
    elif damage == "no wav":
        wav.unlink()
    elif damage == "no json":
        meta.unlink()
    elif damage == "half json":
        meta.write_text(meta.read_text()[:40])
    else:
        meta.write_text(json.dumps({"words": 3}))
    assert store.load(JOB) is None
    render_all(ToneEngine(), store, [JOB])
    found = store.load(JOB)
    assert found is not None
    assert np.array_equal(found.pcm, render_job(ToneEngine(), JOB).pcm)


class Odd(ToneEngine):
    def __init__(self, out: FakeRendered) -> None:
        object.__setattr__(self, "out", out)

    def render(self, text: str, voice: str, seed: int) -> FakeRendered:
        return self.out  # type: ignore[attr-defined]


@pytest.mark.parametrize(("out", "message"), [
    (FakeRendered(np.zeros(0, np.float32), ()), r"shape \(0,\)"),
    (FakeRendered(np.zeros((3, 2), np.float32), ()), r"shape \(3, 2\)"),
    (FakeRendered(np.array([0.0, np.nan], np.float32), ()), "expected finite samples"),
    (FakeRendered(np.zeros(5, np.float32), (FakeWord("x", 2, 9),)),
     r"word 'x' inside 5 samples, got \[2, 9\)"),
])
def test_what_an_engine_gives_is_checked(out: FakeRendered, message: str) -> None:
    with pytest.raises(SynthesisError, match=f"^R1-A-1 turn 2 lead: .*{message}"):
        render_job(Odd(out), JOB)


def test_each_distinct_segment_is_rendered_once_and_progress_counts_them(tmp_path: Path) -> None:
    told: list[tuple[int, int, str]] = []
    jobs = [JOB, SegmentJob("candle", "low", 1, "b"), JOB]
    render_all(ToneEngine(), cache(tmp_path), jobs, progress=lambda *a: told.append(a))
    assert told == [(0, 2, "from cache"), (1, 2, JOB.label), (2, 2, "b")]
    told.clear()
    render_all(ToneEngine(), cache(tmp_path), jobs, progress=lambda *a: told.append(a))
    assert told == [(2, 2, "from cache")]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failure_names_the_segment_and_keeps_what_is_done(tmp_path: Path, workers: int) -> None:
    engine = ToneEngine(fail_on="candle")
    store = cache(tmp_path, engine)
    jobs = [JOB, SegmentJob("candle", "low", 1, "R9 turn 1 turn1"), SegmentJob("door", "low", 2)]
    with pytest.raises(SynthesisError, match=r"R9 turn 1 turn1: tone engine: .* broken reed"):
        render_all(engine, store, jobs, workers=workers)
    assert store.load(JOB) is not None
    assert store.load(jobs[1]) is None
