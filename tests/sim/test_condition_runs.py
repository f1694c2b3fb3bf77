"""Runs under line conditions: the same bytes twice, the windows of the clean run, and both signals
kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rig_testkit as kit

from adapters.base import AudioReceived, Capabilities
from audio.buffers import Float32, float_to_pcm16
from audio.conditions import KINDS
from audio.files import read, read_channel, sha256_file
from audio.resample import resample
from rig.sent import HeardAudio
from rig.store import RunFolder

LISTEN, TAKE_TURN = "R2-C1-1-L2", "R1-C1-1-L2"
EACH = [kind.example for kind in KINDS.values()]
ALL = ",".join(EACH)


def content(run: Path) -> dict[str, bytes]:
    return {name: data for name, data in kit.files(run).items()
            if name not in ("attempts.jsonl", ".lock")}


def play(call_rig: Any, suite: Path, run: Path, condition: str, *more: Any,
         agent: str = "oracle") -> Path:
    assert call_rig("run", suite, "--adapter", agent, "--jobs", 1, "--out", run, "--condition",
                    condition, *more).code == 0
    return run


def record(run: Path, case: str = TAKE_TURN, trial: int = 1) -> Any:
    return RunFolder(run).read_record(case, trial)


@pytest.fixture(scope="module")
def clean(tiny_suite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The oracle on the tiny suite, without conditions. Read only."""
    from rig import cli

    run = tmp_path_factory.mktemp("clean") / "run"
    assert cli.main(["run", str(tiny_suite), "--adapter", "oracle", "--jobs", "1", "--out",
                     str(run)]) == 0
    assert cli.main(["score", str(run), "--jobs", "1"]) == 0
    return run


@pytest.mark.parametrize("condition", [*EACH, ALL], ids=[*KINDS, "all"])
def test_two_runs_are_the_same_bytes_and_windows_stay(
    condition: str, clean: Path, tiny_suite: Path, tmp_path: Path, call_rig: Any
) -> None:
    first = play(call_rig, tiny_suite, tmp_path / "1", condition)
    jobs = 2 if condition == ALL else 1
    second = play(call_rig, tiny_suite, tmp_path / "2", condition, "--jobs", jobs)
    for run in (first, second):
        assert call_rig("score", run, "--jobs", 1).code == 0
    assert content(first) == content(second)
    assert set(kit.outcomes(first).values()) == {"pass"}
    for case in kit.outcomes(clean):
        before, now = record(clean, case), record(first, case)
        assert now.windows == before.windows
        assert now.turns == before.turns
        # Channel 0 is what the user said, whatever the system was sent.
        assert np.array_equal(read_channel(first / "rec" / now.stereo.path, 0),
                              read_channel(clean / "rec" / before.stereo.path, 0))
        assert before.line is None
        sent = first / "rec" / now.line.sent.path
        assert sha256_file(sent) == now.line.sent.sha256
        assert now.line.sent.frames_n == now.recorded_n
        given = read_channel(sent, 0)
        user = read_channel(first / "rec" / now.stereo.path, 0)
        assert given.shape == user.shape
        # But for level=-26, which is what this voice speaks at already, it is another signal.
        assert condition.startswith("level") or not np.array_equal(given, user)


def test_no_condition_keeps_no_second_track(clean: Path) -> None:
    assert not list((clean / "rec").glob("*.sent.flac"))
    assert kit.scores(clean)["conditions"] == []
    assert json.loads((clean / "run.json").read_text())["conditions"] == {}


def test_what_is_said_of_it(tiny_suite: Path, tmp_path: Path, call_rig: Any) -> None:
    run = play(call_rig, tiny_suite, tmp_path / "run", "noise=pink:12,loss=10:seed=3")
    assert call_rig("score", run, "--jobs", 1).code == 0
    texts = ["noise=pink:12", "loss=10:seed=3"]
    assert kit.scores(run)["conditions"] == texts
    fingerprint = json.loads((run / "run.json").read_text())["conditions"]
    assert fingerprint["loss"] == {"text": "loss=10:seed=3", "percent": 10.0, "burst": 0.0,
                                   "good": 0.0, "bad": 100.0, "conceal": "silence", "seed": 3}
    achieved = record(run).line.achieved
    assert achieved["snr_db"] == pytest.approx(12, abs=0.1)
    assert achieved["packets"] == record(run).recorded_n // 480
    assert 0 < achieved["lost"] < achieved["packets"] / 4
    shown = call_rig("inspect", run, TAKE_TURN).out
    assert "line conditions: noise=pink:12, loss=10:seed=3" in shown
    assert "sent.flac" in shown
    assert "noise=pink:12" in call_rig("score", run, "--jobs", 1).out
    assert call_rig("report", run, "--out", tmp_path / "r.html").code == 0
    page = (tmp_path / "r.html").read_text()
    assert "noise=pink:12, loss=10:seed=3" in page
    planned = call_rig("run", tiny_suite, "--adapter", "oracle", "--dry-run", "--json",
                       "--condition", "noise=pink:12")
    assert json.loads(planned.out)["conditions"] == ["noise=pink:12"]


def test_resuming_under_other_conditions_is_refused(
    tiny_suite: Path, tmp_path: Path, call_rig: Any
) -> None:
    run = play(call_rig, tiny_suite, tmp_path / "run", "loss=10")
    again = ("run", tiny_suite, "--adapter", "oracle", "--jobs", 1, "--out", run, "--resume")
    for other, why in (("loss=11", "conditions.loss.text was loss=10, now loss=11"),
                       ("loss=10,level=-26", "conditions.level.text was not set, now level=-26")):
        error = call_rig(*again, "--condition", other).error
        assert "cannot resume" in error
        assert why in error
    assert "conditions.loss.text was loss=10, now not set" in call_rig(*again).error
    done = play(call_rig, tiny_suite, run, "loss=10.0", "--resume")
    assert len(kit.ledger(done)) == 3


def test_trials_and_cases_meet_other_losses(
    tiny_suite: Path, tmp_path: Path, call_rig: Any
) -> None:
    run = play(call_rig, tiny_suite, tmp_path / "run", "loss=30,silence=digital", "--trials", 2,
               agent="silent")
    sent = [sha256_file(p) for p in sorted((run / "rec").glob("*.sent.flac"))]
    assert len(sent) == len(set(sent)) == 6


@pytest.mark.parametrize(("condition", "why"), [
    ("nois=white:3", "did you mean 'noise'"),
    ("noise=white:99", "snr_db as -20 to 60 dB"),
    ("level=-26,level=-20", "expected one level"),
])
def test_mistakes_are_told_before_anything_is_made(
    condition: str, why: str, tiny_suite: Path, tmp_path: Path, call_rig: Any
) -> None:
    error = call_rig("run", tiny_suite, "--adapter", "silent", "--out", tmp_path / "run",
                     "--condition", condition).error
    assert why in error
    assert not (tmp_path / "run").exists()


def test_a_suite_of_one_conversation_cannot_babble(tmp_path: Path, call_rig: Any) -> None:
    suite = kit.write_small_suite(tmp_path / "suite", ("LISTEN",))
    error = call_rig("run", suite, "--adapter", "silent", "--out", tmp_path / "run",
                     "--condition", "noise=babble:10").error
    assert "another conversation, whose voice can babble" in error
    assert not (tmp_path / "run").exists()


# --- echo: live, of what is heard ----------------------------------------------------------------


@pytest.mark.parametrize(("output_hz", "input_hz"), [(24_000, 24_000), (24_000, 8_000),
                                                     (16_000, 24_000)])
def test_the_system_hears_itself(
    output_hz: int, input_hz: int, tiny_suite: Path, tmp_path: Path, call_rig: Any,
    add_adapter: Any
) -> None:
    """A system that speaks in bursts, faster than it can be heard: its echo follows the heard
    track and not the arrivals, 100 ms later, 6 dB down, and nothing of the schedule notices."""
    pace = output_hz // 50
    got: list[Float32] = []

    def on_frame(session: kit.StubSession, frame: Float32) -> None:
        got.append(frame)
        if session.frames % 200 == 25:
            n = 20 * pace
            said = resample(kit.tone(24_000, 0.2)[: n * 24_000 // output_hz], 24_000, output_hz)
            session.emit(AudioReceived(session.now_ns, said))
            session.emit(AudioReceived(session.now_ns, -said))

    can = Capabilities(full_duplex=True, persona_prompt=True, input_rate_hz=input_hz,
                       output_rate_hz=output_hz)
    add_adapter("loud", kit.stub(on_frame, capabilities=can))
    tracks: dict[str, Any] = {}
    for name, condition in (("clean", "silence=digital"), ("echo", "echo=100ms:-6")):
        got.clear()
        run = play(call_rig, tiny_suite, tmp_path / name, condition, "--filter",
                   f"case={TAKE_TURN}", agent="loud")
        found = record(run)
        stereo, _ = read(run / "rec" / found.stereo.path)
        tracks[name] = (found, stereo, np.concatenate(got))
    (before, clean_stereo, user), (now, stereo, sent) = tracks["clean"], tracks["echo"]
    assert now.windows == before.windows
    assert now.flags == before.flags
    assert np.array_equal(clean_stereo, stereo)
    heard = resample(stereo[:, 1], 24_000, input_hz)
    assert np.abs(heard).max() > 0.1
    late_n = input_hz // 10
    expected = np.concatenate((np.zeros(late_n, dtype=np.float32), heard))[: len(user)]
    echo = sent - user
    expected *= 10 ** (-6 / 20)
    # The recorded track is PCM16; at another rate its hard edges ring differently. One sample more
    # or less would be an error of 5 % (24 kHz) to 16 % (8 kHz) of this tone of 200 Hz.
    tolerance = 1e-3 if output_hz == input_hz else 0.03
    assert np.sqrt(np.mean((echo - expected) ** 2) / np.mean(expected**2)) < tolerance
    written = read_channel(tmp_path / "echo" / "rec" / now.line.sent.path, 0)
    assert np.array_equal(float_to_pcm16(written), float_to_pcm16(sent))
    assert now.line.sent.rate_hz == input_hz
    assert now.line.achieved["echo_dbov"] is not None


def test_a_barge_in_is_not_moved_by_the_echo(
    small_suite: Path, tmp_path: Path, call_rig: Any
) -> None:
    """YIELD, CONTINUE and ACCEPT_OVERLAP wait for the onset of the system, which echoes loudly."""
    runs = {condition: play(call_rig, small_suite, tmp_path / condition[:4], condition, "--filter",
                            "case=*-C3-*")
            for condition in ("silence=digital", "echo=40:0")}
    cases = [line["case_id"] for line in kit.ledger(runs["echo=40:0"])]
    assert len(cases) == 2
    for case in cases:
        before, now = (record(run, case) for run in runs.values())
        assert before.barge_in_model_onset_s is not None
        assert now.barge_in_model_onset_s == before.barge_in_model_onset_s
        assert now.windows == before.windows


# --- the heard track at another rate -------------------------------------------------------------


@pytest.mark.parametrize(("from_hz", "to_hz"), [(24_000, 8_000), (8_000, 24_000), (24_000, 16_000),
                                                (16_000, 24_000), (44_100, 24_000)])
def test_heard_audio_is_in_place_at_another_rate_whatever_the_pieces(
    from_hz: int, to_hz: int
) -> None:
    rng = np.random.default_rng(4)
    low = min(from_hz, to_hz)
    sound = resample(resample(rng.uniform(-0.2, 0.2, low // 2).astype(np.float32), low // 2, low),
                     low, from_hz)
    start_ns = 250_000_000
    n = 2 * to_hz
    whole = _heard(from_hz, to_hz, sound, start_ns)(0, n)
    at = round(0.25 * to_hz)
    expected = resample(sound, from_hz, to_hz)
    inner = slice(at + 300, at + len(expected) - 300)
    np.testing.assert_allclose(whole[inner], expected[300:-300], atol=0.004)
    assert not whole[: at - 100].any()
    piecewise = _heard(from_hz, to_hz, sound, start_ns)
    parts = [piecewise(k, min(333, n - k)) for k in range(0, n, 333)]
    assert np.array_equal(np.concatenate(parts), whole)


def _heard(from_hz: int, to_hz: int, sound: Float32, start_ns: int) -> HeardAudio:
    heard = HeardAudio(from_hz, to_hz)
    step = from_hz // 50
    for k in range(0, len(sound), step):
        heard.add(start_ns + k * 1_000_000_000 // from_hz, sound[k : k + step])
    return heard
