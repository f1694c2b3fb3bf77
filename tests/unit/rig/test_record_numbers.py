"""Numbers that no session can have had: a record that holds one is refused in one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from audio.errors import InputError
from rig.record import MAX_RECORDED_N
from rig.store import RunFolder
from rig.worker_load import _told

HUGE = ["-1", "1e999", "-1e999", "NaN", "1" + "0" * 20, "1" + "0" * 400]
PLACES: dict[str, tuple[str | int, ...]] = {
    "recorded_n": ("recorded_n",), "stereo.frames_n": ("stereo", "frames_n"),
    "arrivals.frames_n": ("arrivals", "frames_n"),
    "line.sent.frames_n": ("line", "sent", "frames_n"),
    "timing.frames_n": ("timing", "frames_n"), "turns.0.onset_n": ("turns", 0, "onset_n"),
    "turns.1.end_n": ("turns", 1, "end_n"), "turns.0.speech_n": ("turns", 0, "speech_n", 0, 0),
    "events.n": ("events", "audio_received", "n"),
}
TIMES: dict[str, tuple[str | int, ...]] = {
    "events.t_ns": ("events", "audio_received", "t_ns"),
    "windows.turn2_onset_s": ("windows", "turn2_onset_s"),
    "windows.user_offset_s": ("windows", "user_offset_s"),
    "windows.readback_from_s": ("windows", "readback_from_s"),
    "barge_in_model_onset_s": ("barge_in_model_onset_s",),
    "scored.end_s": ("windows", "scored", "end_s"),
    "timing.late_p99_ms": ("timing", "late_p99_ms"), "timing.drift_ppm": ("timing", "drift_ppm"),
}


@pytest.fixture(scope="module")
def run(oracle_run: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    copy = tmp_path_factory.mktemp("numbers") / "run"
    shutil.copytree(oracle_run, copy)
    return RunFolder(copy)


@pytest.fixture
def record(run: RunFolder) -> Any:
    """One with model audio, and as if it had been played under line conditions; it is put back."""
    path = next(p for p in sorted(run.rec_dir.glob("*.rec.json"))
                if json.loads(p.read_text())["arrivals"] is not None)
    before = path.read_text()
    value = json.loads(before)
    sent = run.sent_path(value["case_id"], value["trial"]).name
    value["line"] = {"conditions": {}, "achieved": {}, "sent": {
        **value["stereo"], "path": sent, "rate_hz": 8_000, "frames_n": value["recorded_n"] // 3}}
    yield path, value
    path.write_text(before)


def put(path: Path, value: Any, place: tuple[str | int, ...], text: str) -> None:
    at = value
    for step in place[:-1]:
        at = next(e for e in at if e["kind"] == step) \
            if isinstance(at, list) and isinstance(step, str) else at[step]
    at[place[-1]] = "@"
    path.write_text(json.dumps(value).replace('"@"', text))


def refusal(run: RunFolder, value: Any) -> str:
    with pytest.raises(InputError) as refused:
        run.read_record(value["case_id"], value["trial"])
    said = str(refused.value)
    assert "\n" not in said
    assert len(said) < 600
    assert "expected a session record, got " in said
    return said


def test_a_record_as_written_is_read(run: RunFolder, record: Any) -> None:
    path, value = record
    path.write_text(json.dumps(value))
    assert run.read_record(value["case_id"], value["trial"]).recorded_n == value["recorded_n"]


@pytest.mark.parametrize("text", HUGE)
@pytest.mark.parametrize("name", PLACES)
def test_no_session_has_so_many_samples(run: RunFolder, record: Any, name: str, text: str) -> None:
    path, value = record
    put(path, value, PLACES[name], text)
    said = refusal(run, value)
    assert name.split(".")[0] in said
    assert name.split(".")[-1] in said


@pytest.mark.parametrize("text", [t for t in HUGE if t != "-1"])
@pytest.mark.parametrize("name", TIMES)
def test_no_session_has_such_a_time(run: RunFolder, record: Any, name: str, text: str) -> None:
    path, value = record
    put(path, value, TIMES[name], text)
    assert name.split(".")[0] in refusal(run, value)


@pytest.mark.parametrize(("place", "more", "said"), [
    (("stereo", "frames_n"), 1, "stereo.frames_n to be recorded_n"),
    (("line", "sent", "frames_n"), 8_001, "line.sent.frames_n of at most"),
    (("timing", "frames_n"), 2, "timing.frames_n of 0 to"),
    (("recorded_n",), MAX_RECORDED_N, "recorded_n: Input should be less than or equal to 1073741")])
def test_a_length_that_the_recording_cannot_have(
        run: RunFolder, record: Any, place: tuple[str, ...], more: int, said: str) -> None:
    path, value = record
    at = value
    for step in place:
        at = at[step]
    put(path, value, place, str(at + more))
    assert said in refusal(run, value)


def test_what_is_in_no_order_is_refused(run: RunFolder, record: Any) -> None:
    path, value = record
    put(path, value, ("windows", "scored", "end_s"), str(value["windows"]["scored"]["start_s"]))
    assert "a window that ends after it starts" in refusal(run, value)
    value = json.loads(path.read_text())
    value["windows"]["scored"]["end_s"] += 1
    put(path, value, ("turns", 0, "end_n"), "0")
    assert "speech in order between onset_n and end_n" in refusal(run, value)


def test_such_a_session_is_unscored_with_its_reason(run: RunFolder, record: Any,
                                                    call_rig: Any) -> None:
    path, value = record
    put(path, value, ("recorded_n",), "1" + "0" * 400)
    said = call_rig("score", run.path, "--jobs", 1, "--json")
    assert said.code in (0, 3)
    case, = (c for c in json.loads(run.scores_path.read_text())["cases"]
             if (c["case_id"], c["trial"]) == (value["case_id"], value["trial"]))
    assert case["outcome"] == "unscored"
    assert "recorded_n" in case["reason"]


@pytest.mark.parametrize("field", ["compute_us", "waiting"])
def test_a_worker_cannot_tell_of_years(field: str) -> None:
    def told(n: int) -> str:
        return json.dumps({"first": 0, "frame_ms": 80.0, "compute_us": [1], "waiting": [0],
                           field: [n]})

    assert _told(told(1000)) is not None
    assert _told(told(10**12)) is None
    assert _told(told(10**400)) is None
