"""Calibration on built suites: true edges from construction, errors that were planted."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audio.active_level import active_level
from audio.timebase import NS_PER_MS
from audio.vad import VadSettings
from probes.built import load_built
from probes.manifest import SegmentAudio, TurnAudio, Word
from rig.calibrating import GAINS_DB, Turn, Utterance, document, read_turns, turns_of, utterances

MS = 24
"""Samples a millisecond at 24 kHz."""


def burst(ms: float) -> Any:
    random = np.random.default_rng(1)
    return (0.1 * random.standard_normal(round(ms * MS))).astype(np.float32)


def turn_audio(*parts: tuple[str, float]) -> tuple[TurnAudio, Any]:
    """`speech` or `silence` and milliseconds; speech has 10 ms of silence at both its ends."""
    segments, pieces, at_n = [], [], 0
    for index, (kind, ms) in enumerate(parts):
        edge = np.zeros(10 * MS, np.float32)
        pieces.append(np.concatenate((edge, burst(ms - 20), edge)) if kind == "speech"
                      else np.zeros(round(ms * MS), np.float32))
        end_n = at_n + len(pieces[-1])
        words = (Word(word="a", start_s=at_n / 24_000, end_s=end_n / 24_000),) \
            if kind == "speech" else ()
        segments.append(SegmentAudio(kind=kind, name=f"s{index}", start_n=at_n,  # type: ignore[arg-type]
                                     end_n=end_n, words=words,
                                     alignment="forced" if words else "none"))
        at_n = end_n
    samples = np.concatenate(pieces)
    return TurnAudio(path="audio/x.wav", audio_sha256="0" * 64, duration_n=at_n,
                     segments=tuple(segments)), samples


def test_utterances_lie_between_long_enough_silences() -> None:
    turn, samples = turn_audio(("speech", 500), ("silence", 499), ("speech", 500),
                               ("silence", 500), ("speech", 300), ("silence", 200))
    first, second = (u for u in utterances(turn, samples, 0.5) if u is not None)
    for got, true_ms in ((first.start_n, 10), (first.end_n, 1489), (second.start_n, 2009),
                         (second.end_n, 2289)):
        assert abs(got - true_ms * MS) <= 2.5 * MS
    assert first.words_ns == (0, 1499 * NS_PER_MS)
    assert second.words_ns == (1999 * NS_PER_MS, 2299 * NS_PER_MS)


def test_adjacent_silences_add_up_and_unaligned_words_are_none() -> None:
    turn, samples = turn_audio(("speech", 300), ("silence", 300), ("silence", 200),
                               ("speech", 300))
    turn = turn.model_copy(update={"segments": tuple(
        s.model_copy(update={"alignment": "uniform"}) for s in turn.segments)})
    found = utterances(turn, samples, 0.5)
    assert [u.words_ns for u in found if u is not None] == [(None, None)] * 2


def test_an_utterance_without_speech_is_none() -> None:
    turn, samples = turn_audio(("speech", 300), ("silence", 600), ("speech", 300))
    samples[:300 * MS] = 0.0
    assert [u is None for u in utterances(turn, samples, 0.5)] == [True, False]


@pytest.fixture(scope="module")
def turns(small_suite: Path) -> list[Turn]:
    return list(turns_of(load_built(small_suite), 0.3))


def test_distinct_turns_are_taken_once_and_evenly(small_suite: Path, turns: list[Turn]) -> None:
    # Four shapes; all share their first turn.
    assert len(turns) == 5
    few = list(turns_of(load_built(small_suite), 0.3, 2))
    assert [t.name for t in few] == [turns[0].name, turns[2].name]


def test_a_planted_shift_of_50_ms_shows_as_50_ms(turns: list[Turn]) -> None:
    turn = turns[0]
    late = replace(turn, samples=np.concatenate((np.zeros(50 * MS, np.float32), turn.samples)))
    found = {}
    for played in (turn, late):
        for r in read_turns([played], (0.0,), VadSettings()):
            found[r.detector, played is late] = r
    # The network has frames of 32 ms and a memory: what a shift does to its edges is no constant.
    for detector, within_ms in (("refined", 1.1), ("energy", 0.1)):
        for edge in ("onset_ns", "offset_ns"):
            before = getattr(found[detector, False].segment, edge)[0]
            after = getattr(found[detector, True].segment, edge)[0]
            assert (after - before) / NS_PER_MS == pytest.approx(50, abs=within_ms), detector


def test_refined_edges_are_those_of_construction(turns: list[Turn]) -> None:
    readings = [r for r in read_turns(turns, GAINS_DB, VadSettings()) if r.detector == "refined"]
    assert {r.gain_db for r in readings} == set(GAINS_DB)
    # One piece is cut inside a sound that 16 kHz does not hold: its end is 27 ms early.
    for edge, within_ms in (("onset_ns", 15), ("offset_ns", 30)):
        errors = [e for r in readings for e in getattr(r.segment, edge)]
        assert len(errors) == 4 * sum(len(t.utterances) for t in turns)
        known = [abs(e) / NS_PER_MS for e in errors if e is not None]
        assert len(known) == len(errors)
        assert np.percentile(known, 95) <= within_ms


def test_words_are_compared_where_they_are_aligned(turns: list[Turn]) -> None:
    turn = turns[0]
    first = turn.utterances[0]
    worded = replace(turn, utterances=(Utterance(
        first.start_n, first.end_n, (first.start_n * 1_000_000 // 24 - 7 * NS_PER_MS, None)),
        *turn.utterances[1:]))
    reading = read_turns([worded], (0.0,), VadSettings())[1]
    assert reading.words_offset_ns[0] is None
    assert reading.segment.onset_ns[0] is not None
    assert reading.words_onset_ns[0] == pytest.approx(
        reading.segment.onset_ns[0] + 7 * NS_PER_MS, abs=100_000)
    told = document([reading])
    assert {e["truth"]: e["n"] for e in told["edges"] if e["detector"] == "refined"
            and e["edge"] == "offset"}["words"] == 0


def test_the_command(small_suite: Path, tmp_path: Path, call_rig: Callable[..., Any]) -> None:
    out = tmp_path / "c.json"
    called = call_rig("calibrate", small_suite, "--gain", 0, "--gain", -20, "--turns", 3, "--jobs",
                      1, "--condition", "line=ulaw", "--out", out, "--json")
    assert called.code == 0
    told = json.loads(called.out)
    assert told == json.loads(out.read_text())
    assert (told["turns_n"], told["gains_db"], told["conditions"]) == (3, [0, -20], ["line=ulaw"])
    assert len(told["edges"]) == 3 * 2 * 2 * 2
    assert all(e["n"] == 0 for e in told["edges"] if e["truth"] == "words")
    shown = call_rig("calibrate", small_suite, "--gain", 0, "--turns", 1, "--jobs", 1).out
    assert "detected - segment, milliseconds, positive is late" in shown


def test_the_level_of_two_turns_lies_between_them(
    small_suite: Path, call_rig: Callable[..., Any]
) -> None:
    levels = [level.level_dbov for t in turns_of(load_built(small_suite), 0.3, 2)
              if (level := active_level(t.samples, 24_000)) is not None]
    assert len(set(levels)) == 2
    told = json.loads(call_rig("calibrate", small_suite, "--gain", 0, "--turns", 2, "--jobs", 1,
                               "--json").out)
    assert told["speech_dbov_at_0_db"] == pytest.approx(sum(levels) / 2)


@pytest.mark.slow
def test_processes_give_the_same(
    small_suite: Path, call_rig: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rig.calibrating.CHUNK", 2)
    one, two = (call_rig("calibrate", small_suite, "--gain", 0, "--jobs", n, "--json").out
                for n in (1, 2))
    assert one == two


@pytest.mark.parametrize(("options", "said"), [
    (("--condition", "noise=babble:10"), "no other voice"),
    (("--condition", "echo=100:-20"), "no other voice"),
    (("--set", "vad_treshold=0.4"), "did you mean"),
    (("--set", "onset_refine=1"), "expected one of"),
    (("--gain", "100"), "100"), (("--turns", "0"), "0")])
def test_what_it_cannot_do_is_refused(
    small_suite: Path, call_rig: Callable[..., Any], options: tuple[str, str], said: str
) -> None:
    assert said in call_rig("calibrate", small_suite, *options).error


def test_it_needs_a_suite(tmp_path: Path, call_rig: Callable[..., Any]) -> None:
    assert "suite" in call_rig("calibrate", tmp_path).error
