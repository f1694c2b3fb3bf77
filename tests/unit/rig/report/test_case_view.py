"""What the case view is given of a run: against what the run folder holds, and damaged input."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
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
from audio.errors import InputError
from rig.playout import Arrival
from rig.report.build import write_report
from rig.report.case_data import _waiting
from rig.report.case_view import case_view
from rig.report.choice import chosen, parse_audio
from rig.report.early import begin_early
from rig.report.loading import ScoredRun, load_scored
from rig.report.packed import Packed
from rig.report.said import MAX_TEXT
from rig.report.sessions import session_facts
from rig.store import RunFolder
from rig.workers import Workers

YIELD = "R1-C3-1-L2"


def _read(part: Packed) -> Any:
    text = gzip.decompress(base64.b64decode(part.text)) if part.gzipped else part.text
    return json.loads(text)


def _runs(*paths: Path) -> list[ScoredRun]:
    return load_scored([RunFolder(path) for path in paths])


def _parts(path: Path, audio: str | int = "none") -> dict[str, Any]:
    """Every part of a run's cases, by case id, and sounds by part name."""
    runs = _runs(path)
    out: dict[str, Any] = {}
    for fact in session_facts(runs, chosen(runs, audio), Workers(1)):
        for name, part in fact.parts.parts.items():
            data = _read(part)
            out[data.get("case_id", name)] = data
    return out


def _peaks(wave: dict[str, Any]) -> Any:
    return np.frombuffer(base64.b64decode(wave["peaks"]), dtype=np.int8).reshape(-1, 2)


def test_a_case_holds_what_was_scored(oracle_run: Path) -> None:
    parts = _parts(oracle_run)
    rows = [json.loads(line) for line in
            (oracle_run / "measurements.jsonl").read_text().splitlines()]
    scores = {c["case_id"]: c for c in kit.scores(oracle_run)["cases"]}
    assert parts.keys() == scores.keys()
    for row in rows:
        part = parts[row["case_id"]]
        assert part["problem"] is None
        assert part["spans"]["model"][row["playout"]] == row["model_spans_s"]
        assert part["spans"]["user"] == row["user_spans_s"]
        window = part["windows"][0]
        assert (window["start_s"], window["end_s"], window["scored"]) == (*row["window_s"], True)
        assert part["verdict"]["hold"]["reason"] == scores[row["case_id"]]["reason"]
        assert part["duration_s"] == row["recorded_s"]
        # The wave lies where the speech does.
        wave = part["waves"]["user"]
        loud = np.flatnonzero(np.abs(_peaks(wave).astype(int)).max(axis=1) > 3) / wave["rate_hz"]
        assert loud[0] == pytest.approx(row["user_spans_s"][0][0], abs=0.05)
        assert loud[-1] == pytest.approx(row["user_spans_s"][-1][1], abs=0.05)


def test_probability_is_that_of_the_detector(oracle_run: Path) -> None:
    """Where the detector found speech its probability lies above the threshold, nowhere else for
    long."""
    for part in _parts(oracle_run).values():
        curve = part["probability"]["hold"]
        values = np.frombuffer(base64.b64decode(curve["values"]), dtype=np.uint8) / 255
        at_s = (np.arange(len(values)) + 0.5) / curve["rate_hz"]
        inside = np.zeros(len(values), dtype=bool)
        for start_s, end_s in part["spans"]["model"]["hold"]:
            inside |= (at_s >= start_s) & (at_s < end_s)
            middle = values[(at_s >= start_s) & (at_s < end_s)]
            assert middle.max() > part["threshold"]
        assert (values[~inside] > part["threshold"]).sum() <= 2


def test_what_a_verdict_hung_on(oracle_run: Path) -> None:
    part = _parts(oracle_run)["R1-C1-1-L2"]
    deciding, measured = part["verdict"]["hold"]["deciding"], dict(
        part["verdict"]["hold"]["measured"])
    assert deciding["value"] == pytest.approx(measured["genuine_onset_s"])
    assert part["verdict"]["hold"]["outcome"] == "pass"
    assert deciding["margin"] == pytest.approx(abs(deciding["bound"] - deciding["value"]))
    (onset_s, name), *_ = part["verdict"]["hold"]["marks"]
    assert name == "onset"
    assert onset_s == pytest.approx(part["windows"][0]["start_s"] + measured["genuine_onset_s"])


def test_scheduled_against_actual(oracle_run: Path) -> None:
    rows = {row[0]: row for row in _parts(oracle_run)[YIELD]["schedule"]}
    assert rows["turn1_start"][1] == rows["turn1_start"][4] == 0
    # What follows from what happened was planned at no moment.
    assert all(row[1] is None for name, row in rows.items() if not name.startswith("turn1"))
    _, _, how, was_s, wanted_s = rows["turn2_start"]
    assert how == "2 s after the model is heard to begin"
    assert was_s == pytest.approx(wanted_s, abs=1 / 24_000)
    assert rows["turn2_end"][4] == pytest.approx(rows["turn2_end"][3])
    assert rows["window end"][4] == pytest.approx(rows["window end"][3])
    take_turn = {row[0]: row for row in _parts(oracle_run)["R1-C1-1-L2"]["schedule"]}
    assert take_turn["turn2_start"][1:3] == [None, "after the reply to turn 1 and a pause"]


def _burst(text: str = "") -> kit.StubAdapter:
    """Three seconds in a burst, 0.3 s after turn 1, flushed 1.0 s after the first was heard."""
    def on_cue(session: kit.StubSession, name: str) -> None:
        session.state[name] = session.frames

    def on_frame(session: kit.StubSession, frame: Any) -> None:
        since = session.frames - session.state.get("turn1_end", 10**9)
        if since == 15:
            session.emit(ResponseStarted(session.now_ns, "r"),
                         AudioReceived(session.now_ns, voice.talk(3.0).samples, "r"))
            if text:
                session.emit(TextDelta(session.now_ns, text, "r"))
            session.emit(ResponseDone(session.now_ns, "r"))
        if since == 65:
            session.emit(Interrupted(session.now_ns, "r"))

    return kit.stub(on_frame, on_cue, Capabilities(
        full_duplex=True, persona_prompt=True, reports_response_done=True,
        transcript="response" if text else "none"))


@pytest.fixture
def play(small_suite: Path, tmp_path: Path, call_rig: Any, add_adapter: Any,
         ) -> Callable[[kit.StubAdapter], Path]:
    """Plays and scores one YIELD case."""
    def run(adapter: kit.StubAdapter) -> Path:
        add_adapter("burst", adapter)
        out = tmp_path / "run"
        assert call_rig("run", small_suite, "--adapter", "burst", "--jobs", 1, "--filter",
                        f"case={YIELD}", "--out", out).code == 0
        assert call_rig("score", out, "--jobs", 1).code == 0
        return out

    return run


def test_hold_flush_and_arrivals(play: Callable[[kit.StubAdapter], Path]) -> None:
    part = _parts(play(_burst()), "all")[YIELD]
    lengths = {policy: sum(b - a for a, b in spans)
               for policy, spans in part["spans"]["model"].items()}
    assert lengths == {"hold": pytest.approx(3.0, abs=0.2), "flush": pytest.approx(1.0, abs=0.2)}
    start_s = part["spans"]["model"]["hold"][0][0]
    for policy, wave in part["waves"]["model"].items():
        loud = np.flatnonzero(np.abs(_peaks(wave).astype(int)).max(axis=1) > 3) / wave["rate_hz"]
        assert loud[-1] - start_s == pytest.approx(lengths[policy], abs=0.2)
    # All three seconds arrived at once, and waited until they were heard.
    most = max(value for _, value in part["waiting"])
    assert most == pytest.approx(3.0, abs=0.001)
    assert {"hold", "flush"} == part["verdict"].keys() == part["sound"].keys()
    assert ["model", "interrupted"] in [event[1:] for event in part["events"]]


def test_seconds_that_wait_to_be_heard() -> None:
    def waiting(*arrivals: tuple[float, int]) -> list[list[float]]:
        return _waiting(SimpleNamespace(  # type: ignore[arg-type]
            arrivals=SimpleNamespace(rate_hz=1000),
            arrival_list=lambda: [Arrival(round(s * 1e9), n) for s, n in arrivals]))

    assert waiting() == []
    assert waiting((1.0, 500), (1.2, 500), (3.0, 100)) == [
        [0.0, 0.0], [1.0, 0.0], [1.0, 0.5], [1.2, 0.3], [1.2, 0.8], [2.0, 0.0],
        [3.0, 0.0], [3.0, 0.1], [3.1, 0.0]]
    flood = waiting(*((i / 1000, 1) for i in range(10_000)))
    assert len(flood) < 6100
    assert flood[-1] == [10.0, 0.0]


def test_a_megabyte_of_transcript_is_cut_and_said(play: Callable[[kit.StubAdapter], Path]) -> None:
    part = _parts(play(_burst("<script>alert(1)</script> " * 40_000)))[YIELD]
    assert part["problem"] is None
    assert len(part["text"]) == MAX_TEXT
    assert part["text_left_out"] == 26 * 40_000 - MAX_TEXT
    found = part["model_words"]["hold"]
    assert len(found["words"]) == 4000
    assert found["left_out"] == 36_000
    assert found["words"][0][0] == "<script>alert(1)</script>"


def test_aligned_words_of_the_user(tmp_path: Path, call_rig: Any) -> None:
    suite = kit.build_talking_suite(tmp_path / "suite", lambda c: c.case_id == "R1-C1-1-L2")
    run = tmp_path / "run"
    assert call_rig("run", suite, "--adapter", "silent", "--jobs", 1, "--out", run).code == 0
    assert call_rig("score", run, "--jobs", 1).code == 0
    part = _parts(run)["R1-C1-1-L2"]
    assert part["user_words"]["alignment"] == "uniform"
    record = RunFolder(run).read_record("R1-C1-1-L2", 1)
    spoken = " ".join(text for turn in record.turns for text in turn.texts)
    words = part["user_words"]["words"]
    assert [w[0] for w in words] == spoken.split()
    starts = {round(turn.onset_n / 24_000, 3) for turn in record.turns}
    assert starts <= {round(w[1], 3) for w in words}
    assert all(a < b <= part["duration_s"] for _, a, b in words)
    # Without the words, or with those of other audio, each segment's text stands over its length.
    (run / "streams.jsonl").unlink()
    part = _parts(run)["R1-C1-1-L2"]
    assert part["user_words"]["alignment"] == "segments"
    assert [w[1:] for w in part["user_words"]["words"]] == [
        [pytest.approx(a / 24_000), pytest.approx(b / 24_000)]
        for turn in record.turns for a, b in turn.speech_n]


@pytest.mark.parametrize(("spoil", "message"), [
    (lambda rec: rec.with_suffix("").with_suffix(".stereo.wav").unlink(),
     "expected the session's recording, got no such file"),
    (lambda rec: rec.with_suffix("").with_suffix(".stereo.wav").write_bytes(b"RIFF"),
     "the file was changed or damaged"),
    (lambda rec: rec.unlink(), "expected a session record, got no such file"),
    (lambda rec: rec.write_text("{}"), "expected a session record, got"),
])
def test_a_case_without_its_recording_says_so(
    spoil: Callable[[Path], Any], message: str, oracle_run: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(oracle_run, tmp_path / "run")
    spoil(run / "rec" / f"{YIELD}.t1.rec.json")
    parts = _parts(run, "all")
    assert message in parts[YIELD]["problem"]
    assert parts[YIELD]["verdict"]["hold"]["outcome"] == "pass"
    assert parts[YIELD]["spans"]["model"]["hold"] != []
    assert parts[YIELD]["sound"] == {}
    assert sum(part["problem"] is not None for part in parts.values() if "problem" in part) == 1


def test_verdicts_alone_still_make_a_page(oracle_run: Path, tmp_path: Path) -> None:
    """As after `rig rescore`, whose folder holds no recordings."""
    run = tmp_path / "run"
    run.mkdir()
    shutil.copy(oracle_run / "scores.json", run)
    part = _parts(run)[YIELD]
    assert part["problem"].startswith("the recording is not part of this folder")
    assert (part["windows"], part["duration_s"]) == ([], 0.0)
    assert part["verdict"]["hold"]["outcome"] == "pass"


def test_case_ids_of_others_may_hold_anything(oracle_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    scores = kit.scores(oracle_run)
    scores["cases"] = scores["cases"][:2]
    odd = "../../x/</script> \ud800\u2028\"'\0"
    scores["cases"][0]["case_id"] = odd
    kit.write_scores(run, scores)
    runs = _runs(run)
    view = case_view(runs, session_facts(runs, frozenset(), Workers(1)))
    assert view.section.data["cases"][0][0] == f"0/{odd}/1"
    assert set(view.section.parts) == {"0", "1"}
    report = write_report([RunFolder(run)], tmp_path / "folder", as_folder=True)
    names = sorted(p.name for p in (tmp_path / "folder").glob("cases-*/case-*"))
    assert names == ["case-0.js", "case-1.js"]
    assert report.page_bytes == (tmp_path / "folder" / "index.html").stat().st_size
    assert report.bytes == sum(p.stat().st_size for p in (tmp_path / "folder").rglob("*")
                               if p.is_file())


def test_which_cases_have_sound(oracle_run: Path, random_run: Path) -> None:
    runs = _runs(oracle_run, random_run)
    failed = {f"1/{c['case_id']}/1" for c in kit.scores(random_run)["cases"]
              if c["outcome"] == "fail"}
    assert 2 <= len(failed) <= 8
    assert chosen(runs, "none") == frozenset()
    assert chosen(runs, "failed") == failed
    assert len(chosen(runs, "all")) == 18
    assert len(chosen(runs, 2)) == 2
    assert chosen(runs, 2) < failed
    # Beyond those that failed the runs take turns.
    more = chosen(runs, len(failed) + 2)
    assert failed < more
    assert {key[0] for key in more - failed} == {"0", "1"}
    view = case_view(runs, session_facts(runs, chosen(runs, 2), Workers(1)))
    assert (view.cases_n, view.with_audio_n) == (18, 2)
    assert sum(case[3] for case in view.section.data["cases"]) == 2


def test_the_page_is_the_same_whoever_makes_it(random_run: Path, tmp_path: Path) -> None:
    """Here, or by two workers that began before anybody knew what to do."""
    pages = [tmp_path / "alone.html", tmp_path / "workers.html"]
    write_report([RunFolder(random_run)], pages[0], audio="all")
    with Workers(2) as workers:
        begin_early(workers)
        write_report([RunFolder(random_run)], pages[1], audio="all", workers=workers)
    assert pages[0].read_bytes() == pages[1].read_bytes()


@pytest.mark.parametrize("text", ["some", "-1", "1.5", "", "faild", "٣", "9999999999"])
def test_audio_is_a_word_or_a_number(text: str) -> None:
    with pytest.raises(InputError, match="--audio: expected all, failed, none or a number"):
        parse_audio(text)
    with pytest.raises(InputError, match="failed"):
        parse_audio("faild")


def test_out_and_folder_are_one_too_many(oracle_run: Path, tmp_path: Path, call_rig: Any) -> None:
    assert "expected --out (one file) or --folder" in call_rig(
        "report", oracle_run, "--out", tmp_path / "a.html", "--folder", tmp_path / "a").error


def test_sizes_are_printed(oracle_run: Path, tmp_path: Path, call_rig: Any) -> None:
    out = tmp_path / "page.html"
    called = call_rig("report", oracle_run, "--out", out, "--audio", 3, "--jobs", 1)
    assert called.code == 0
    assert f"{out.stat().st_size / 1e6:.2f} MB; sound of 3 of 9 cases" in called.out


def test_what_has_no_recording_takes_nobodys_place(random_run: Path, tmp_path: Path) -> None:
    run = shutil.copytree(random_run, tmp_path / "run")
    failed = [c["case_id"] for c in kit.scores(run)["cases"] if c["outcome"] == "fail"]
    (run / "rec" / f"{failed[0]}.t1.stereo.wav").unlink()
    (run / "rec" / f"{failed[1]}.t1.rec.json").unlink()
    runs = _runs(run)
    assert chosen(runs, 2) == {f"0/{case_id}/1" for case_id in failed[2:4]}
    # More than there are: all that have one.
    assert len(chosen(runs, 99)) == 9 - 2
    # What was scored from a manifest has no recording here.
    assert chosen([replace(runs[0], info=None)], 2) == frozenset()
