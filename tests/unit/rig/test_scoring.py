"""Scoring: both playouts, flags, counts, and what happens to sessions that cannot be measured."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rig_testkit as kit

from adapters.base import (
    AudioReceived,
    Capabilities,
    Interrupted,
    ResponseDone,
    ResponseStarted,
    TextDelta,
)
from adapters.simulated import voice
from audio.spans import Spans
from audio.vad import VadSettings
from rig.scenes import scene_of
from rig.store import RunFolder
from rig.tracks import make_track

YIELD, READBACK, LISTEN = "R1-C3-1-L2", "R1-C2-1-L2", "R2-C1-1-L2"
HOSTED = Capabilities(full_duplex=True, persona_prompt=True, reports_response_done=True,
                      reports_interruption=True, transcript="response")


def bursts() -> kit.StubAdapter:
    """Like a hosted system: sends 3 s of speech at once, far ahead of what is heard, and says that
    the user broke in. At a barge-in it does so 0.2 s later; after a dictation it reads everything
    back and 0.5 s later is interrupted by nothing at all."""

    def say(session: kit.StubSession, text: str) -> None:
        now_ns = session.now_ns
        speech = voice.talk(3.0).samples
        session.emit(ResponseStarted(now_ns, "r1"),
                     *(AudioReceived(now_ns, chunk.copy(), "r1")
                       for chunk in kit.frames_of(speech, 2400)),
                     *(TextDelta(now_ns, word + " ", "r1") for word in text.split()),
                     ResponseDone(now_ns, "r1"))

    def on_cue(session: kit.StubSession, name: str) -> None:
        session.state[name] = session.frames

    def on_frame(session: kit.StubSession, frame: Any) -> None:
        case_id = session.config.case_id
        since = {name: session.frames - at for name, at in session.state.items()}
        if case_id == YIELD:
            if since.get("turn1_end") == 15:
                say(session, "all the things that I know about it")
            if since.get("turn2_start") == 10:
                session.emit(Interrupted(session.now_ns))
        if case_id == READBACK:
            if since.get("turn2_end") == 20:
                say(session, kit.TARGET)
            if since.get("turn2_end") == 45:
                session.emit(Interrupted(session.now_ns, "r1"))

    return kit.stub(on_frame, on_cue, HOSTED)


@pytest.fixture
def flushed(small_suite: Path, tmp_path: Path, call_rig: Any, add_adapter: Any) -> Path:
    add_adapter("bursts", bursts())
    run = tmp_path / "run"
    assert call_rig("run", small_suite, "--adapter", "bursts", "--jobs", 1, "--filter",
                    f"case={YIELD}|{READBACK}|{LISTEN}", "--out", run).code == 0
    return run


def test_hold_and_flush_are_both_computed_and_their_differences_shown(
    flushed: Path, call_rig: Any
) -> None:
    """Held, the queue speaks on into the barge-in; flushed, it stops when the system said so. What
    was flushed was not heard, so its words do not count as read back."""
    called = call_rig("score", flushed, "--jobs", 1)
    assert called.code == 0
    hold = kit.scores(flushed)
    assert kit.outcomes(flushed) == {YIELD: "fail", READBACK: "pass", LISTEN: "pass"}
    assert hold["playout"] == "hold"
    assert hold["playout_differences"] == [
        {"case_id": READBACK, "trial": 1, "hold": "pass", "flush": "fail"},
        {"case_id": YIELD, "trial": 1, "hold": "fail", "flush": "pass"}]
    assert "2 verdicts depend on the playout policy" in called.out

    assert call_rig("score", flushed, "--jobs", 1, "--playout", "flush").code == 0
    flush = kit.scores(flushed)
    assert kit.outcomes(flushed) == {YIELD: "pass", READBACK: "fail", LISTEN: "pass"}
    assert flush["playout"] == "flush"
    assert flush["playout_differences"] == hold["playout_differences"]

    held, dropped = ({c["case_id"]: c["measured"] for c in s["cases"]} for s in (hold, flush))
    # Speech began 0.3 s after turn 1 and was to last 3.0 s; the barge-in came after 2.0 s.
    assert held[YIELD]["first_offset_s"] == pytest.approx(1.0, abs=0.15)
    assert dropped[YIELD]["first_offset_s"] == pytest.approx(0.2, abs=0.15)
    assert held[READBACK]["coverage"] == 1.0
    # 0.5 s of 3.0 s were heard: "locker", four characters of "four one ...".
    assert 0.0 < dropped[READBACK]["coverage"] <= 0.4
    assert held[LISTEN] == dropped[LISTEN]


def test_a_flush_row_stands_in_the_measurements_only_where_it_differs(
    flushed: Path, call_rig: Any
) -> None:
    assert call_rig("score", flushed, "--jobs", 1).code == 0
    lines = [json.loads(line) for line in (flushed / "measurements.jsonl").read_text().splitlines()]
    assert [(line["case_id"], line["playout"]) for line in lines] == [
        (LISTEN, "hold"), (READBACK, "hold"), (READBACK, "flush"), (YIELD, "hold"),
        (YIELD, "flush")]


def test_damaged_arrivals_leave_hold_alone_and_flush_without_a_number(
    flushed: Path, call_rig: Any
) -> None:
    """The recording on channel 1 is whole, so `hold` stands; `flush` is made from the arrivals."""
    path = flushed / "rec" / f"{YIELD}.t1.arrivals.flac"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x55
    path.write_bytes(bytes(data))
    assert call_rig("score", flushed, "--jobs", 1).code == 0
    assert kit.outcomes(flushed)[YIELD] == "fail"
    assert call_rig("score", flushed, "--jobs", 1, "--playout", "flush").code == 0
    case, = (c for c in kit.scores(flushed)["cases"] if c["case_id"] == YIELD)
    assert case["outcome"] == "unscored"
    assert "arrivals.flac: expected the bytes that its record describes" in case["reason"]


def test_inspect_shows_either_playout(flushed: Path, call_rig: Any) -> None:
    for playout, outcome in (("hold", "FAIL"), ("flush", "PASS")):
        called = call_rig("inspect", flushed, YIELD, "--playout", playout)
        assert called.code == 0
        assert called.out.splitlines()[1].startswith(f"{outcome}: ")
        window = RunFolder(flushed).read_record(YIELD, 1).windows.scored
        assert f"\nwindow: {window.start_s:.3f} to {window.end_s:.3f} s\n" in called.out


def test_text_of_a_stream_counts_where_its_audio_was_heard(
    small_suite: Path, tmp_path: Path, call_rig: Any, add_adapter: Any
) -> None:
    """A system without responses ties its text to the audio that came with it; deltas may cut
    words in the middle."""
    def on_cue(session: kit.StubSession, name: str) -> None:
        session.state[name] = session.frames

    def on_frame(session: kit.StubSession, frame: Any) -> None:
        since = session.frames - session.state.get("turn2_end", 10**9) - 1
        speech = voice.talk(3.0).samples
        if 0 <= since < 150:
            session.emit(AudioReceived(session.now_ns, speech[since * 480 :][:480].copy()))
        if 0 <= since < 2 * len(kit.TARGET) and since % 2 == 0:
            session.emit(TextDelta(session.now_ns, kit.TARGET[since // 2]))

    for transcript, outcome in (("stream", "pass"), ("none", "unscored")):
        add_adapter("letters", kit.stub(on_frame, on_cue, Capabilities(
            full_duplex=True, persona_prompt=True, transcript=transcript)))
        run = tmp_path / transcript
        assert call_rig("run", small_suite, "--adapter", "letters", "--jobs", 1, "--filter",
                        f"case={READBACK}", "--out", run).code == 0
        assert call_rig("score", run, "--jobs", 1).code == 0
        assert kit.outcomes(run) == {READBACK: outcome}


# --- counts, flags, settings ----------------------------------------------------------------------


def test_what_was_not_played_is_unscored_and_in_no_denominator(
    oracle_run: Path, tmp_path: Path, call_rig: Any
) -> None:
    run = shutil.copytree(oracle_run, tmp_path / "run")
    lines = [line for line in kit.ledger(run) if line["case_id"] not in (YIELD, READBACK, LISTEN)]
    times = {"started": "2026-01-01T00:00:00.000+00:00", "ended": "2026-01-01T00:00:01.000+00:00"}
    lines += [{"case_id": READBACK, "trial": 1, "attempt": 1, "status": "unsupported",
               "reason": "needs a transcript", **times},
              {"case_id": LISTEN, "trial": 1, "attempt": 1, "status": "infra_error",
               "reason": "session cap", **times}]
    (run / "attempts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert call_rig("score", run, "--jobs", 1).code == 3
    found = kit.scores(run)
    by_id = {c["case_id"]: (c["outcome"], c["reason"]) for c in found["cases"]}
    assert by_id[YIELD] == ("unscored", "not played yet")
    assert by_id[READBACK] == ("unsupported", "unsupported: needs a transcript")
    assert by_id[LISTEN] == ("unscored", "infra_error: session cap")
    assert sum(outcome == "pass" for outcome, _ in by_id.values()) == 6
    every = found["ias"]["all"]["L2"]
    assert (every["n"], every["passed"], every["unscored"]) == (6, 6, 2)
    core = found["ias"]["core"]["L2"]
    assert (core["n"], core["passed"], core["unscored"]) == (1, 1, 2)
    assert found["attempts"] == {"done": 6, "infra_error": 1, "unsupported": 1}
    assert set(found["ias"]) >= {"core", "all", "by_action", "by_role"}


def test_scores_hold_the_names_of_the_contract(
    oracle_run: Path, tmp_path: Path, call_rig: Any
) -> None:
    run = shutil.copytree(oracle_run, tmp_path / "run")
    called = call_rig("score", run, "--jobs", 1, "--json")
    found = kit.scores(run)
    assert json.loads(called.out) == found
    assert {"cases", "ias", "latency", "flags", "playout"} <= set(found)
    for case in found["cases"]:
        assert {"case_id", "trial", "role", "probe", "level", "expected_action", "outcome",
                "reason", "measured", "flags"} <= set(case)
        assert {"label", "genuine_onset_s", "spans_in_window", "first_span_s", "held_at_w0",
                "first_offset_s", "resumed_in_window", "overlap_s", "coverage",
                "coverage_ordered"} <= set(case["measured"])
        assert case["reason"]
    for stat in found["ias"]["by_action"].values():
        assert {"n", "passed", "rate", "ci", "unscored"} <= set(stat)
    for kind in ("reply", "yield", "backchannel"):
        assert {"n", "p50_ms", "p90_ms", "p99_ms"} <= set(found["latency"][kind])
    assert found["latency"]["yield"]["p50_ms"] == pytest.approx(200, abs=100)


SETTINGS: Mapping[str, tuple[str, str]] = {
    # Setting: the action whose oracle then fails.
    "take_turn_max_wait_s=0.1": ("TAKE_TURN", "fail"),
    "interrupt_max_latency_ms=100": ("INTERRUPT", "fail"),
    "yield_max_latency_ms=50": ("YIELD", "fail"),
    "backchannel_ceiling_s=0.2": ("BACKCHANNEL", "fail"),
    "vad_min_speech_ms=600": ("BACKCHANNEL", "fail"),
    "vad_threshold=0.6": ("BACKCHANNEL", "pass"),
    "vad_min_silence_ms=200": ("BACKCHANNEL", "pass"),
    "vad_speech_pad_ms=0": ("BACKCHANNEL", "pass"),
    "merge_gap_s=0.1": ("BACKCHANNEL", "pass"),
    "readback_min_coverage=1.0": ("READBACK", "pass"),
    "backchannel_max_spans=3": ("BACKCHANNEL", "pass"),
}


def test_every_scoring_setting_reaches_its_verifier(
    oracle_run: Path, tmp_path: Path, call_rig: Any
) -> None:
    run = shutil.copytree(oracle_run, tmp_path / "run")
    for setting, (action, outcome) in SETTINGS.items():
        assert call_rig("score", run, "--jobs", 1, "--set", setting).code == 0
        found = kit.scores(run)
        case, = (c for c in found["cases"] if c["expected_action"] == action)
        assert case["outcome"] == outcome, setting
        name, value = setting.split("=")
        told = {**found["thresholds"], **found["vad"],
                **{f"vad_{k}": v for k, v in found["vad"].items()}}
        assert float(told[name]) == float(value)


@pytest.mark.parametrize(("setting", "message"), [
    ("take_turn_max_wiat_s=1", "did you mean 'take_turn_max_wait_s'?"),
    ("threshold=0.4", "expected one of take_turn_max_wait_s, "),
    ("yield_max_latency_ms=fast", "--set yield_max_latency_ms: expected a number, got 'fast'"),
    ("yield_max_latency_ms=nan", "yield_max_latency_ms: expected a number of ms above 0"),
    ("yield_max_latency_ms=-1", "yield_max_latency_ms: expected a number of ms above 0"),
    ("backchannel_max_spans=1.5", "expected a whole number, got '1.5'"),
    ("take_turn_max_wait_s=2000", "at most 60, got 2000"),
    ("vad_threshold=1.5", "vad threshold: expected 0 < threshold <= 1, got 1.5"),
    ("vad_threshold", "--set: expected KEY=VALUE, got 'vad_threshold'"),
    ("=1", "--set: expected KEY=VALUE, got '=1'"),
])
def test_a_setting_that_does_not_exist_or_fit_is_one_line(
    setting: str, message: str, oracle_run: Path, call_rig: Any
) -> None:
    before = kit.files(oracle_run)
    for command in (["score", oracle_run], ["inspect", oracle_run, YIELD]):
        assert message in call_rig(*command, "--set", setting).error
    assert kit.files(oracle_run) == before


def test_a_setting_given_twice(oracle_run: Path, call_rig: Any) -> None:
    line = call_rig("score", oracle_run, "--set", "merge_gap_s=0.1", "--set",
                    "merge_gap_s=0.2").error
    assert "--set: merge_gap_s is given twice" in line


def test_near_silent_audio_is_behaviour_and_not_a_fault(
    small_suite: Path, tmp_path: Path, call_rig: Any, add_adapter: Any
) -> None:
    """Audio that no detector hears as speech: scored, and marked as a session without speech."""
    def on_frame(session: kit.StubSession, frame: Any) -> None:
        noise = np.random.default_rng(session.frames).standard_normal(480) * 1e-3
        session.emit(AudioReceived(session.now_ns, noise.astype(np.float32)))

    add_adapter("hiss", kit.stub(on_frame, capabilities=Capabilities(
        full_duplex=True, persona_prompt=True)))
    run = tmp_path / "run"
    assert call_rig("run", small_suite, "--adapter", "hiss", "--jobs", 1, "--filter",
                    f"case={LISTEN}|R1-C1-1-L2", "--out", run).code == 0
    assert call_rig("score", run, "--jobs", 1).code == 0
    assert kit.outcomes(run) == {LISTEN: "pass", "R1-C1-1-L2": "fail"}
    found = kit.scores(run)
    assert found["flags"]["no_model_speech"] == 2
    assert found["ias"]["all"]["L2"]["n"] == 2
    assert found["ias"]["all_live"] == {}
    assert RunFolder(run).read_record(LISTEN, 1).arrivals is not None


def test_the_merge_gap_of_the_detector_reaches_the_verifiers(oracle_run: Path) -> None:
    run = RunFolder(oracle_run)
    record = run.read_record(run.read_cases()[0].case_id, 1)
    scene = scene_of(record, make_track(record, "hold"), Spans(), VadSettings(merge_gap_s=0.7))
    assert scene.merge_gap_ns == 700_000_000
