"""Timing, uncertainty, and what was not scored; the published figures are those of the page."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import made_runs
import pytest
import rig_testkit as kit

from audio.vad import VadSettings
from rig.report import inputs, instrument
from rig.report.loading import ScoredRun, load_scored
from rig.report.said import MAX_TEXT
from rig.report.session_facts import SessionFacts, facts_of
from rig.report.sessions import jobs, session_facts
from rig.report.vad_flips import (
    CALIBRATION_MS,
    MAX_SESSIONS,
    PUBLISHED_FLIPS,
    RunFlips,
    plan_alone,
    vad_flips,
)
from rig.store import RunFolder
from rig.workers import Workers
from verifiers.thresholds import DEFAULTS, Thresholds

PAGE = Path(__file__).resolve().parents[4] / "docs" / "instrument.md"


def _rows(text: str, heading: str, first: str) -> list[list[str]]:
    part = text[text.index(heading):]
    lines = part[part.index(first):].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")]
            for line in lines[:next(i for i, line in enumerate(lines) if not line.strip())]]


def _facts(run: ScoredRun, most: int = MAX_SESSIONS) -> list[SessionFacts]:
    return [fact for job in jobs([run], frozenset(), most) for fact in facts_of(job)]


def _counts(found: RunFlips) -> dict[str, list[int]]:
    return {action: [flips.n_cases, *map(int, flips.total)]
            for action, flips in found.flips.items()}


def test_published_figures_are_those_of_the_page() -> None:
    text = PAGE.read_text()
    edge = ""
    found = {}
    for row in _rows(text, "## How far off edges are", "| onset | 0 |"):
        edge = row[0] or edge
        found[edge, int(row[1])] = tuple(int(v) for v in row[2].split(" / "))
    assert found == CALIBRATION_MS
    head, _, n, *rows = _rows(text, "### Measured", "| | all |")
    table = {row[0]: row[1:] for row in rows}
    flips = {action: (int(cases), float(median), float(most)) for action, cases, median, most
             in zip(head[1:], n[1:], table["grid, median"], table["grid, most"], strict=True)}
    assert flips == PUBLISHED_FLIPS
    assert "627 utterances" in text
    assert "405 settings" in text


def test_one_setting_at_a_time() -> None:
    plan = plan_alone(VadSettings())
    assert plan.settings[plan.default].name == "default"
    assert len(plan.settings) == plan.grid_n == 13
    assert all(len(setting.varied) == 1 for setting in plan.settings[1:])
    assert len({setting.name for setting in plan.settings}) == 13


def test_what_flips_is_counted_on_the_run_itself(random_run: Path) -> None:
    run, = load_scored([RunFolder(random_run)])
    facts = _facts(run)
    found = vad_flips(run, facts)
    assert (found.reason, found.sessions_n, found.decided_n) == (None, 9, 9)
    total = found.flips["all"]
    assert total.n_cases == found.decided_n
    assert int(total.total[0]) == 0
    three = vad_flips(run, _facts(run, most=3))
    assert three.decided_n == 3
    shown = instrument.section([run], facts)
    assert [chart.key for chart in shown.charts] == ["flips"]
    assert "random: 9 of 9 sessions" in shown.html


def test_without_a_cache_the_same_flips_are_found(random_run: Path, tmp_path: Path) -> None:
    """What the case view infers is enough."""
    path = shutil.copytree(random_run, tmp_path / "random")
    shutil.rmtree(path / "cache")
    with_cache, without = (load_scored([RunFolder(p)])[0] for p in (random_run, path))
    assert _counts(vad_flips(without, _facts(without))) == _counts(
        vad_flips(with_cache, _facts(with_cache)))


def test_words_without_end_are_compared_with_a_target_once_and_not_a_setting(
    random_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The read-back is left out; of all others no word is looked at."""
    path = shutil.copytree(random_run, tmp_path / "random")
    records = {name.stem: json.loads(name.read_text())
               for name in (path / "rec").glob("*.rec.json")}
    for name, record in records.items():
        said = next(e for e in record["events"] if e["kind"] == "audio_received")
        record["events"].append({
            "kind": "text", "seq": 10**6, "t_ns": said["t_ns"],
            "text": "word " * (MAX_TEXT // 5 + 1),
            "response_id": said["response_id"], "received_n": said["n"]})
        (path / "rec" / f"{name}.json").write_text(json.dumps(record))
    run, = load_scored([RunFolder(path)])
    monkeypatch.setattr("rig.scenes.heard_transcript", None)
    facts = _facts(run)
    assert all(fact.said.cut for fact in facts)
    assert [str(case.action) for case, fact in zip(run.cases, facts, strict=True)
            if fact.codes is None] == ["READBACK"]
    assert vad_flips(run, facts).decided_n == 8


def test_without_recordings_the_published_figures_are_shown(
    random_run: Path, tmp_path: Path
) -> None:
    path = shutil.copytree(random_run, tmp_path / "random")
    for recording in (path / "rec").glob("*.stereo.wav"):
        recording.unlink()
    run, = load_scored([RunFolder(path)])
    found = vad_flips(run, _facts(run))
    assert (found.decided_n, found.flips) == (0, {})
    assert "can still be read" in (found.reason or "")
    shown = instrument.section([run], _facts(run))
    assert shown.charts == []
    assert "Published, not of these runs" in shown.html


def test_recordings_that_no_longer_give_the_verdicts_are_told(
    random_run: Path, tmp_path: Path
) -> None:
    path = shutil.copytree(random_run, tmp_path / "random")
    scores = kit.scores(path)
    for case in scores["cases"]:
        case["outcome"] = "pass" if case["outcome"] == "fail" else "fail"
    kit.write_scores(path, scores)
    run, = load_scored([RunFolder(path)])
    found = vad_flips(run, _facts(run))
    assert "no longer give the verdicts" in (found.reason or "")


def test_timing_is_the_worst_of_the_certificates(random_run: Path, tmp_path: Path) -> None:
    path = shutil.copytree(random_run, tmp_path / "random")
    records = sorted((path / "rec").glob("*.rec.json"))

    def change(record: Path, **timing: Any) -> None:
        data = json.loads(record.read_text())
        data["timing"] |= timing
        record.write_text(json.dumps(data))

    change(records[0], late_p99_ms=7.5, late_max_ms=21.0, drift_ppm=-3.0, user_underruns_n=2)
    change(records[1], late_p99_ms=9.25, late_max_near_window_ms=11.0, drift_ppm=4.0,
           user_underruns_n=1, model_underruns_n=3, model_underrun_max_ms=120.0)
    records[2].write_text("{")
    run, = load_scored([RunFolder(path)])
    found = instrument.timing_of(run, _facts(run))
    assert (found.sessions_n, found.unreadable_n) == (8, 1)
    assert (found.late_p99_ms, found.late_max_ms, found.late_near_window_ms) == (9.25, 21.0, 11.0)
    assert found.drift_ppm == (-3.0, 4.0)
    assert (found.user_underruns_n, found.model_underruns_n, found.peers_n) == (3, 3, 0)
    assert "3 (longest 120 ms)" in instrument.section([run], _facts(run)).html


def test_the_page_says_which_latencies_would_follow_a_threshold() -> None:
    """And it is so: with every threshold moved, those of backchannels alone change."""
    scored = made_runs.scenes(2, 300)
    moved = Thresholds(take_turn_max_wait_s=1.0, interrupt_max_latency_ms=900,
                       yield_max_latency_ms=300, backchannel_ceiling_s=0.4,
                       backchannel_max_spans=1, readback_min_coverage=0.5)
    before, after = (made_runs.scored_run("made", scored, thresholds=t).scores["latency"]
                     for t in (DEFAULTS, moved))
    assert [kind for kind in before if before[kind] != after[kind]] == ["backchannel"]
    html = instrument.section([run := made_runs.scored_run("made", scored)],
                              session_facts([run], frozenset(), Workers(1))).html
    assert "No threshold changes reply, interrupt and yield; backchannel counts" in html


def test_verdicts_near_their_bound_are_counted() -> None:
    run = made_runs.scored_run("made", made_runs.scenes(2, 300))
    table = instrument._near([run])
    row = [int(value) for value in table.rows[0][1:]]
    scored, with_distance, *near, words, none = row
    assert scored == sum(case.outcome in ("pass", "fail") for case in run.cases)
    assert 0 < near[0] <= near[1] <= near[2] <= with_distance
    assert with_distance + words + none == scored


def test_what_was_not_scored_is_counted_with_reasons(random_run: Path, tmp_path: Path) -> None:
    path = shutil.copytree(random_run, tmp_path / "random")
    lines = (path / "attempts.jsonl").read_text().splitlines()
    first, second = json.loads(lines[0]), json.loads(lines[1])
    failed = {**{k: first[k] for k in ("case_id", "trial", "attempt", "started", "ended")},
              "status": "infra_error", "reason": "<script>429</script>"}
    made = [json.dumps({**failed, "attempt": 1}), json.dumps({**failed, "attempt": 2,
                                                              "reason": "<script>503</script>"}),
            json.dumps({**second, "status": "void", "reason": "late"}), *lines[2:]]
    (path / "attempts.jsonl").write_text("".join(line + "\n" for line in made))
    scores = kit.scores(path)
    for case in scores["cases"]:
        if case["case_id"] in (first["case_id"], second["case_id"]):
            case |= {"outcome": "unscored", "reason": "infra_error: 1.5 s", "measured": {}}
    scores["attempts"] = {"done": 7, "infra_error": 1, "void": 1}
    scores["attempts_n"] = len(made)
    kit.write_scores(path, scores)
    run, = load_scored([RunFolder(path)])
    sessions = inputs._sessions([run]).rows[0]
    assert sessions == ["random", 9, 7, 1, 1, 0, 0, 2, 0]
    attempts = inputs._attempts([run])
    reasons = inputs._reasons([run])
    assert attempts is not None
    assert reasons is not None
    # reasons that differ in numbers alone are one; of two attempts at a session one decides
    assert [row[1:4] for row in attempts.rows] == [["infra_error", 2, 1], ["void", 1, 1]]
    assert [row[1:3] for row in reasons.rows] == [["unscored", 2]]
    html = inputs.section([run]).html
    assert "<script" not in html
    assert "&lt;script&gt;429" in html


def test_every_input_has_its_fingerprint(random_run: Path) -> None:
    run, = load_scored([RunFolder(random_run)])
    facts = dict(inputs._fingerprint(run).rows)
    assert run.info is not None
    for name in ("suite_construction_sha256", "suite_audio_sha256", "cases_sha256"):
        assert facts[name] == getattr(run.info, name)
    assert facts["adapter.name"] == "random"
    assert facts["scored: weights_sha256"] == run.scores["vad"]["weights_sha256"]
    for name in ("run.json", "cases.jsonl", "attempts.jsonl", "measurements.jsonl",
                 "scores.json"):
        assert re.fullmatch(r"[0-9a-f]{64}", facts[f"sha256 {name}"])


def test_a_latency_says_from_where_it_counts(oracle_run: Path) -> None:
    table = instrument._latency(load_scored([RunFolder(oracle_run)]))
    assert table.columns[-1] == "counts from"
    told = {row[1]: str(row[-1]) for row in table.rows}
    assert told["reply"].startswith("user's end; from a gap within the user's turn: ")
    assert (told["interrupt"], told["yield"], told["backchannel"]) == (
        "trigger", "barge-in", "window's start")
