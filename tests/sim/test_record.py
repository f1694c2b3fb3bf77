"""What is recorded is what was played and heard, sample for sample: checked against the suite's own
files and against a second reckoning of the playout that shares no code with the first."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rig_testkit as kit
import soundfile
import soxr

from adapters.base import (
    AudioReceived,
    Capabilities,
    ResponseDone,
    ResponseStarted,
)
from probes.render import load_built
from rig import cli

RATE = 24_000


@dataclass(frozen=True)
class Session:
    """Files of one session, read without the rig."""

    record: dict[str, Any]
    user: np.ndarray
    model: np.ndarray
    arrivals: np.ndarray
    arrivals_rate_hz: int

    @classmethod
    def read(cls, run: Path, case_id: str) -> Session:
        stem = run / "rec" / f"{case_id}.t1"
        record = json.loads(stem.with_name(stem.name + ".rec.json").read_text())
        stereo, rate_hz = soundfile.read(stem.with_name(stem.name + ".stereo.wav"), dtype="int16")
        assert rate_hz == RATE
        assert stereo.shape[1] == 2
        flac = stem.with_name(stem.name + ".arrivals.flac")
        arrivals, arrivals_rate_hz = (soundfile.read(flac, dtype="int16") if flac.exists()
                                      else (np.zeros(0, np.int16), RATE))
        return cls(record, stereo[:, 0], stereo[:, 1], arrivals, arrivals_rate_hz)

    @property
    def onset_n(self) -> int:
        return int(self.record["turns"][1]["onset_n"])


def heard_again(session: Session) -> np.ndarray:
    """The model's track from the arrival log alone, in exact fractions of a second: every chunk
    begins when it arrived or when the one before has ended, whichever is later."""
    rate_hz = session.arrivals_rate_hz
    track = np.zeros(len(session.model), dtype=np.int16)
    stretches: list[tuple[Fraction, list[np.ndarray]]] = []
    at = 0
    end = Fraction(-1)
    for event in session.record["events"]:
        if event["kind"] != "audio_received":
            continue
        samples = session.arrivals[at : at + event["n"]]
        at += event["n"]
        arrival = Fraction(event["t_ns"], 10**9)
        # An arrival is logged in whole nanoseconds, the end of a chunk is not one of them.
        if arrival > end + Fraction(1, 10**9):
            stretches.append((arrival, []))
            end = arrival
        stretches[-1][1].append(samples)
        end += Fraction(len(samples), rate_hz)
    assert at == len(session.arrivals)
    for start, pieces in stretches:
        whole = np.concatenate(pieces)
        if rate_hz != RATE:
            resampled = soxr.resample(whole.astype(np.float64) / 32768, rate_hz, RATE, "VHQ")
            whole = np.clip(np.round(resampled * 32768), -32768, 32767).astype(np.int16)
        first = int(start * RATE + Fraction(1, 2))
        part = whole[: max(0, len(track) - first)]
        track[first : first + len(part)] = part
    return track


@pytest.fixture(scope="module")
def runs(oracle_run: Path, random_run: Path, small_suite: Path,
         tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    silent = tmp_path_factory.mktemp("recorded") / "silent"
    assert cli.main(["run", str(small_suite), "--adapter", "silent", "--jobs", "1", "--out",
                     str(silent)]) == 0
    return {"oracle": oracle_run, "random": random_run, "silent": silent}


CASES = [f"{role}-{probe}-1-L2" for role, probe, _, _ in kit.CELLS]
AGENTS = ("oracle", "random", "silent")


@pytest.mark.parametrize("agent", AGENTS)
def test_the_user_channel_is_the_suite_and_nothing_else(
    agent: str, runs: Mapping[str, Path], small_suite: Path
) -> None:
    built = load_built(small_suite)
    for case in built.cases:
        stream = built.streams[case.stream_id]
        session = Session.read(runs[agent], case.case_id)
        turn1, _ = soundfile.read(small_suite / stream.turn1.path, dtype="int16")
        turn2, _ = soundfile.read(small_suite / stream.turn2.path, dtype="int16")
        expected = np.zeros(len(session.user), dtype=np.int16)
        expected[: len(turn1)] = turn1
        expected[session.onset_n : session.onset_n + len(turn2)] = turn2
        assert np.array_equal(session.user, expected)
        silence = np.concatenate([session.user[len(turn1) : session.onset_n],
                                  session.user[session.onset_n + len(turn2) :]])
        assert len(silence) > RATE
        assert not silence.any()


@pytest.mark.parametrize("agent", AGENTS)
def test_windows_and_spans_are_construction_moved_by_the_onset(
    agent: str, runs: Mapping[str, Path], small_suite: Path
) -> None:
    built = load_built(small_suite)
    for case in built.cases:
        stream = built.streams[case.stream_id]
        session = Session.read(runs[agent], case.case_id)
        record = session.record
        onset_s = session.onset_n / RATE
        windows = record["windows"]
        assert windows["turn2_onset_s"] == onset_s
        assert windows["scored"] == pytest.approx(
            {"start_s": onset_s + case.window.start_s, "end_s": onset_s + case.window.end_s},
            abs=1e-9)
        assert windows["user_offset_s"] == pytest.approx(onset_s + case.user_offset_s, abs=1e-9)
        assert record["recorded_n"] == len(session.user)
        assert len(session.user) / RATE >= windows["scored"]["end_s"] + 0.5
        expected = [[[s.start_n, s.end_n] for s in turn.segments if s.kind == "speech"]
                    for turn in (stream.turn1, stream.turn2)]
        moved = [[[a - turn["onset_n"], b - turn["onset_n"]] for a, b in turn["speech_n"]]
                 for turn in record["turns"]]
        assert moved == expected
        names = {e["name"]: e["t_ns"] for e in record["events"] if e["kind"] == "user"}
        assert list(names) == ["turn1_start", "turn1_end", "turn2_start", "turn2_end", "end"]
        assert names["turn2_start"] == round(Fraction(session.onset_n * 10**9, RATE))
        assert names["end"] == round(Fraction(len(session.user) * 10**9, RATE))


@pytest.mark.parametrize("agent", AGENTS)
def test_the_model_channel_is_what_was_heard(agent: str, runs: Mapping[str, Path]) -> None:
    spoken = 0
    for case_id in CASES:
        session = Session.read(runs[agent], case_id)
        assert np.array_equal(session.model, heard_again(session))
        spoken += bool(session.model.any())
    assert spoken == {"oracle": 9, "random": 9, "silent": 0}[agent]


def test_scores_carry_the_spans_of_construction(
    runs: Mapping[str, Path], small_suite: Path
) -> None:
    lines = (runs["oracle"] / "measurements.jsonl").read_text().splitlines()
    assert len(lines) == 9
    for line in map(json.loads, lines):
        session = Session.read(runs["oracle"], line["case_id"])
        spans = [[a / RATE, b / RATE] for turn in session.record["turns"]
                 for a, b in turn["speech_n"]]
        # Exact silence below 0.3 s between two segments leaves two spans: nothing is inferred.
        assert line["user_spans_s"] == pytest.approx(np.array(spans), abs=1e-9)
        scored = session.record["windows"]["scored"]
        assert line["window_s"] == pytest.approx([scored["start_s"], scored["end_s"]], abs=1e-9)


@dataclass
class Ears:
    """What a stub was sent, by case."""

    frames: dict[str, list[np.ndarray]] = field(default_factory=dict)

    def user(self, case_id: str) -> np.ndarray:
        return np.concatenate(self.frames[case_id])


def burst(ears: Ears, rate_hz: int, at_frame: int, chunks: int) -> kit.StubAdapter:
    """Answers once: chunks of 100 ms, all at one moment, samples on the PCM16 grid."""
    grid = np.round(kit.tone(rate_hz // 10) * 32768).astype(np.float32) / np.float32(32768)

    def on_frame(session: kit.StubSession, frame: np.ndarray) -> None:
        ears.frames.setdefault(session.config.case_id, []).append(frame.copy())
        if session.frames == at_frame:
            now_ns = session.now_ns
            session.emit(ResponseStarted(now_ns, "r1"),
                         *(AudioReceived(now_ns, grid, "r1") for _ in range(chunks)),
                         ResponseDone(now_ns, "r1"))

    return kit.stub(on_frame, capabilities=Capabilities(
        full_duplex=True, persona_prompt=True, reports_response_done=True,
        input_rate_hz=rate_hz, output_rate_hz=rate_hz, transcript="response"))


@pytest.mark.parametrize("rate_hz", [24_000, 16_000, 48_000])
def test_turn_2_begins_to_the_sample_and_other_rates_keep_their_place(
    rate_hz: int, tiny_suite: Path, tmp_path: Path, call_rig: Any, add_adapter: Any
) -> None:
    ears = Ears()
    add_adapter("burst", burst(ears, rate_hz, at_frame=100, chunks=11))
    run = tmp_path / "run"
    assert call_rig("run", tiny_suite, "--adapter", "burst", "--jobs", 1, "--out", run).code == 0
    for case_id in ("R1-C1-1-L2", "R1-C4-1-L2"):
        session = Session.read(run, case_id)
        # Frame 100 is complete at 2.0 s; 1.1 s are heard until 3.1 s; turn 2 settles 0.6 s after.
        assert session.onset_n == round(3.7 * RATE)
        assert (len(session.arrivals), session.arrivals_rate_hz) == (rate_hz * 11 // 10, rate_hz)
        again = heard_again(session)
        difference = np.abs(session.model.astype(int) - again.astype(int))
        assert difference.max() <= (0 if rate_hz == RATE else 1)
        active = np.flatnonzero(np.abs(session.model.astype(int)) > 500)
        assert active[0] == pytest.approx(2.0 * RATE, abs=10)
        assert active[-1] == pytest.approx(3.1 * RATE, abs=10)
        heard_n = len(session.user) * rate_hz // RATE
        user = ears.user(case_id)
        assert len(user) == heard_n
        expected = session.user.astype(np.float32) / np.float32(32768)
        if rate_hz == RATE:
            assert np.array_equal(user, expected)
        else:
            whole = soxr.resample(expected.astype(np.float64), RATE, rate_hz, "VHQ")
            error = np.sqrt(np.mean((user - whole[: len(user)]) ** 2) / np.mean(whole**2))
            assert error < 0.01
            assert not user[: 0].any()
            settle = user[round(2.0 * rate_hz) : round(3.6 * rate_hz)]
            assert not settle.any(), "silence must stay exactly zero"


def test_chunks_that_come_unevenly_are_heard_one_after_the_other_or_on_arrival(
    tiny_suite: Path, tmp_path: Path, call_rig: Any, add_adapter: Any
) -> None:
    """Chunks of about 95 ms, 60 to 140 ms apart, of many lengths: some wait in the queue,
    some find it empty."""
    rng = np.random.default_rng(3)
    at_frames = set(np.cumsum(rng.integers(3, 8, 60)) + 100)

    def on_frame(session: kit.StubSession, frame: np.ndarray) -> None:
        if session.frames in at_frames:
            n = 1400 + 7 * (session.frames % 30)
            grid = np.round(kit.tone(n) * 32768).astype(np.float32) / np.float32(32768)
            session.emit(AudioReceived(session.now_ns, grid))

    add_adapter("uneven", kit.stub(on_frame, capabilities=Capabilities(
        full_duplex=True, persona_prompt=True, output_rate_hz=16_000)))
    run = tmp_path / "run"
    assert call_rig("run", tiny_suite, "--adapter", "uneven", "--jobs", 1, "--filter", "role=R2",
                    "--out", run).code == 0
    session = Session.read(run, "R2-C1-1-L2")
    again = heard_again(session)
    assert np.abs(session.model.astype(int) - again.astype(int)).max() <= 1
    gaps = np.diff(np.flatnonzero(session.model))
    assert (gaps > 240).sum() > 5, "none came late"
    assert (gaps > 240).sum() < 50, "none came early"


def test_without_a_reply_turn_2_waits_for_the_bound(runs: Mapping[str, Path]) -> None:
    """Turn 1 lasts 1.6 s, the bound is 5 s, settling takes 0.6 s."""
    for case_id in ("R1-C1-1-L2", "R2-C1-1-L2", "R1-A-1-L2"):
        session = Session.read(runs["silent"], case_id)
        assert session.onset_n == round((1.6 + 5.0 + 0.6) * RATE)
        assert "turn1_no_reply" in session.record["flags"]
    for case_id in ("R1-C3-1-L2", "R8-B-1-L2"):
        session = Session.read(runs["silent"], case_id)
        assert session.onset_n == round((1.6 + 10.0) * RATE)
        assert session.record["flags"] == ["forced", "turn2_no_reply"]


def test_a_barge_in_counts_from_the_heard_onset(runs: Mapping[str, Path]) -> None:
    """The oracle begins 0.3 s after turn 1; the barge-in comes 2.0 s after its detected onset."""
    for case_id in ("R1-C3-1-L2", "R7-C3-1-L2", "R8-B-1-L2"):
        session = Session.read(runs["oracle"], case_id)
        detected_s = session.record["barge_in_model_onset_s"]
        assert detected_s == pytest.approx(1.6 + 0.3, abs=0.08)
        assert session.onset_n / RATE == pytest.approx(detected_s + 2.0, abs=1 / RATE)
