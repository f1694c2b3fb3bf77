"""`rig gate` on runs that were played: codes, files, refusals."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import rig_testkit as kit

from rig.commands import gate as gate_command
from rig.gate.loading import load_gated
from rig.recount import aggregates
from rig.scores_model import CaseEntry
from verifiers.verdict import Outcome


def test_gates_that_are_met(oracle_run: Path, call_rig: Any) -> None:
    called = call_rig("gate", oracle_run, "--min", "ias_core.L2=1", "--min", "ias_all.L2=1",
                      "--max", "latency.reply.p90_ms=2000", "--max", "unscored=0", "--min",
                      "cases_passed=1", "--max", "flags.no_model_speech=9")
    assert called.code == 0
    assert "all gates are met" in called.out
    # n and interval stand beside every rate. The four cases are on two audio streams: Wilson's
    # lower end is that of 2 in 2, not 0.5101 as of 4 in 4.
    line, = (line for line in called.out.splitlines() if "ias_core.L2" in line)
    assert line.split() == ["min", "ias_core.L2", "1", "1", "4", "[0.3424,", "1]", "yes"]


def test_a_gate_that_is_not_met(
    random_run: Path, oracle_run: Path, tmp_path: Path, call_rig: Any
) -> None:
    called = call_rig(
        "gate", random_run, "--min", "ias_core.L2=0.35", "--baseline", oracle_run, "--max-drop",
        "ias_all=0.05", "--junit", tmp_path / "g.xml", "--markdown", tmp_path / "g.md", "--json")
    assert called.code == 1
    document = json.loads(called.out)
    assert (document["met"], document["exit_code"]) == (False, 1)
    rate, drop = document["gates"]
    assert (rate["path"], rate["value"], rate["n"], rate["met"]) == ("ias_core.L2", 0.0, 4, False)
    assert (rate["interval"], rate["drop"]) == ([0.0, rate["bootstrap"][1]], None)
    assert document["baseline"] == str(oracle_run)
    assert document["suite"] == "small 1"
    assert document["adapter"].startswith("random ")
    assert (drop["path"], drop["met"], drop["n"]) == ("ias_all.L2", False, 9)
    assert drop["value"] == 8 / 9
    assert drop["drop"]["only_first"] == 8
    assert document["sessions"] == {"n": 9, "pass": 1, "fail": 8, "unscored": 0, "unsupported": 0,
                                    "infra_error": 0, "void": 0, "not_played": 0}
    suite = ET.parse(tmp_path / "g.xml").getroot()[0]
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("11", "10")
    assert "gates not met" in (tmp_path / "g.md").read_text()


def test_the_entry_of_a_drop_is_that_of_rig_compare(
    random_run: Path, oracle_run: Path, call_rig: Any
) -> None:
    compared = json.loads(call_rig("compare", oracle_run, random_run, "--json").out)
    wanted, = (p for p in compared["pairs"] if p["pool"] == "core")
    called = call_rig("gate", random_run, "--baseline", oracle_run, "--max-drop", "ias_core=0.1",
                      "--json")
    found = json.loads(called.out)["gates"][0]["drop"]
    assert {k: found[k] for k in found if k not in ("first", "second")} == {
        k: wanted[k] for k in wanted if k not in ("first", "second")}


def test_gates_of_a_file_and_the_interval(
    oracle_run: Path, tmp_path: Path, call_rig: Any
) -> None:
    (tmp_path / "gates.yaml").write_text("schema_version: 1\nmin: {ias_core.L2: 0.6}\n")
    assert call_rig("gate", oracle_run, "--gates", tmp_path / "gates.yaml").code == 0
    called = call_rig("gate", oracle_run, "--gates", tmp_path / "gates.yaml", "--at", "interval")
    assert called.code == 1
    # Two audio streams, all passed: Wilson with streams for trials, wider than with four cases.
    assert "the lower end 0.3424 is below 0.6" in called.out


@pytest.fixture
def lost_run(tiny_suite: Path, tmp_path: Path, call_rig: Any, add_adapter: Any) -> Path:
    """LISTEN passes (the agent never speaks), BACKCHANNEL fails, TAKE_TURN was lost."""
    add_adapter("loses", kit.faulty("says so", frozenset({"R1-C1-1-L2"})))
    run = tmp_path / "lost"
    assert call_rig("run", tiny_suite, "--adapter", "loses", "--jobs", 1, "--retries", 0, "--out",
                    run).code == 3
    assert call_rig("score", run, "--jobs", 1).code == 3
    return run


def test_lost_sessions_are_counted_and_shown(
    lost_run: Path, tmp_path: Path, call_rig: Any
) -> None:
    met = call_rig("gate", lost_run, "--min", "by_action.LISTEN=1", "--junit", tmp_path / "g.xml")
    assert met.code == 3
    assert "of 3 sessions 1 infra_error: they are in no rate" in met.out
    assert "all gates are met, and sessions are missing" in met.out
    suite = ET.parse(tmp_path / "g.xml").getroot()[0]
    assert {k: suite.attrib[k] for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4", "failures": "1", "errors": "1", "skipped": "0"}
    lost, = suite.iter("error")
    assert lost.get("type") == "infra_error"
    assert "429: slow down" in str(lost.text)
    # The lost case is in no rate, so a gate on it alone has no evidence; and that wins.
    none = call_rig("gate", lost_run, "--min", "by_action.TAKE_TURN=0")
    assert none.code == 1
    assert "no evidence: no session scored (1 unscored)" in none.out
    assert call_rig("gate", lost_run, "--max", "infra_error=0.4").code == 3
    assert call_rig("gate", lost_run, "--max", "infra_error=0.3").code == 1


def test_a_run_that_was_broken_off_has_sessions_that_are_not_played(
    tiny_suite: Path, tmp_path: Path, call_rig: Any
) -> None:
    run = tmp_path / "half"
    assert call_rig("run", tiny_suite, "--adapter", "silent", "--jobs", 1, "--out", run).code == 0
    first = (run / "attempts.jsonl").read_bytes().splitlines(keepends=True)[0]
    (run / "attempts.jsonl").write_bytes(first)
    assert call_rig("score", run, "--jobs", 1).code == 0
    called = call_rig("gate", run, "--max", "unscored=1", "--json")
    assert called.code == 3
    assert json.loads(called.out)["sessions"]["not_played"] == 2


def test_no_case_id_makes_a_line_of_its_own(
    random_run: Path, tmp_path: Path, call_rig: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load_gated(random_run)
    evil = [replace(s, case_id="R1\nall gates are met\t\x1b[2J", outcome=Outcome.UNSCORED)
            for s in loaded.sessions]
    monkeypatch.setattr(gate_command, "load_gated",
                        lambda *_: replace(loaded, sessions=tuple(evil)))
    called = call_rig("gate", random_run, "--max", "unscored=0")
    assert called.code == 1
    assert "R1\\x0aall gates are met\\x09\\x1b[2J" in called.out
    assert not any(line.startswith("all gates") for line in called.out.splitlines())


def test_the_figures_are_listed(random_run: Path, call_rig: Any) -> None:
    called = call_rig("gate", random_run, "--list", "--json")
    assert called.code == 0
    found = {row["path"]: row for row in json.loads(called.out)["figures"]}
    assert found["ias_all.L2"]["value"] == 1 / 9
    assert "ias_all.L1" not in found
    # Each of them can be a gate.
    words = [w for path, row in found.items() for w in ("--max", f"{path}={row['value']!r}")]
    assert call_rig("gate", random_run, *words).code == 0
    assert "--list: expected no gates" in call_rig("gate", random_run, "--list", "--min",
                                                   "unscored=0").error


def test_recordings_of_others(call_rig: Any, tmp_path: Path, oracle_run: Path) -> None:
    manifest = tmp_path / "m.jsonl"
    wav = sorted((oracle_run / "rec").glob("R2-C1*.stereo.wav"))[0].name
    manifest.write_text(json.dumps({
        "id": "x|1", "wav": wav, "expected_action": "LISTEN",
        "window": {"start_s": 0.0, "end_s": 1.0}}) + "\n")
    out = tmp_path / "rescored"
    assert call_rig("rescore", manifest, "--audio", oracle_run / "rec", "--out", out).code == 0
    called = call_rig("gate", out, "--min", "ias_core.none=1", "--junit", tmp_path / "g.xml")
    assert called.code == 0
    assert ET.parse(tmp_path / "g.xml").getroot()[0].attrib["tests"] == "2"
    called = call_rig("gate", out, "--max", "infra_error=0")
    assert called.code == 1
    assert "no evidence: recordings of others: no ledger of sessions" in called.out
    assert "expected a run folder" in call_rig(
        "gate", out, "--baseline", oracle_run, "--max-drop", "ias_core=0").error


@pytest.mark.parametrize(("words", "said"), [
    ([], "expected at least one gate"),
    (["--min", "ias_cor.L2=0.3"], "did you mean 'ias_core.L2'?"),
    (["--min", "ias_core.L2=abc"], "expected a number, got 'abc'"),
    (["--min", "ias_core.L2=35"], "did you mean 0.35?"),
    (["--max-drop", "ias_core=0.1"], "--max-drop: expected --baseline RUN2 beside it, got none"),
    (["--min", "unscored=0", "--gates", "none.yaml"], "none.yaml: expected a readable file"),
    (["--min", "unscored=0", "--junit", "no/such/g.xml"], "no/such"),
    (["--min", "unscored=0", "--junit", "g", "--markdown", "./g"],
     "g: expected a file for each output, got one for --junit and --markdown"),
])
def test_wrong_words_are_one_line(
    words: list[str], said: str, oracle_run: Path, call_rig: Any, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in call_rig("gate", oracle_run, *words).error


@pytest.mark.parametrize("option", ["--junit", "--markdown"])
def test_no_output_lies_on_what_is_read_or_on_a_run(
    option: str, random_run: Path, tmp_path: Path, call_rig: Any
) -> None:
    run = shutil.copytree(random_run, tmp_path / "run")
    other = shutil.copytree(random_run, tmp_path / "other")
    gates = tmp_path / "gates.yaml"
    gates.write_text("schema_version: 1\nmax: {unscored: 1}\n")
    (tmp_path / "link").symlink_to(run / "attempts.jsonl")
    (tmp_path / "hard").hardlink_to(gates)
    before = kit.files(tmp_path)
    for target in (run / "attempts.jsonl", run / "scores.json", run / "rec" / "new.xml",
                   other / "run.json", gates, tmp_path / "link", tmp_path / "hard", run):
        error = call_rig("gate", run, "--gates", gates, option, target).error
        assert f"expected another file for {option}, got one" in error
    assert kit.files(tmp_path) == before
    # A new name beside the run's own files is nobody's.
    assert call_rig("gate", run, "--gates", gates, option, run / "gates.out").code == 0


def test_a_baseline_that_cannot_be_one_is_one_line(
    oracle_run: Path, random_run: Path, tmp_path: Path, call_rig: Any
) -> None:
    drop = ["--max-drop", "ias_core=0.1"]

    def error(*words: object) -> str:
        return str(call_rig("gate", random_run, *words).error)

    assert "got this one twice" in error("--baseline", random_run, *drop)
    assert "expected --max-drop beside it, got none" in error("--baseline", oracle_run, "--min",
                                                               "unscored=0")
    assert "expected a run folder" in error("--baseline", tmp_path, *drop)
    other = shutil.copytree(oracle_run, tmp_path / "other")
    for name, file, value in (("suite", "run.json", "another"), ("vad", "scores.json", {"x": 1})):
        before = (other / file).read_text()
        (other / file).write_text(json.dumps({**json.loads(before), name: value}))
        said = error("--baseline", other, *drop)
        assert "scored alike" in said or "expected" in said
        assert name in said
        (other / file).write_text(before)
    assert call_rig("gate", random_run, "--baseline", other, *drop).code == 1


def change(run: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    found = json.loads((run / "scores.json").read_text())
    edit(found)
    (run / "scores.json").write_text(json.dumps(found))


@pytest.mark.parametrize(("edit", "said"), [
    (lambda s: s["ias"]["core"]["L2"].update(passed=4, rate=1.0), "expected ias_core.L2 of 0 in 4"),
    (lambda s: s["ias"]["core"]["L2"].update(rate=float("nan")), "got"),
    (lambda s: s["latency"]["reply"].update(missing=0), "expected latency.reply of n 0, missing 1"),
    (lambda s: s["ias"]["core"].pop("L2"), "expected ias_core.L2 of 0 in 4"),
    (lambda s: s["cases"].pop(0), "expected ias_core.L2 of 0 in 3"),
    (lambda s: s["cases"].pop(0) and s.update(aggregates(
        [CaseEntry.model_validate(case) for case in s["cases"]])),
     "expected a verdict, or why there is none, for all of 9"),
    (lambda s: s["cases"].append(s["cases"][0]), "again"),
    (lambda s: s["cases"][0].update(outcome="passed"), "outcome: Input should be"),
    (lambda s: s["cases"][0].update(outcome="pass"), "expected ias_core.L2 of 1 in 4"),
    (lambda s: s["cases"][0].update(trial=True), "trial"),
    (lambda s: s["cases"][0].update(measured=[]), "measured"),
    (lambda s: s.pop("ias"), "expected scores as `rig score` writes them"),
    (lambda s: s.update(flags=[]), "flags"),
    (lambda s: s.update(schema_version=2), "expected scores of schema version 1, got 2, of anot"),
    (lambda s: s.update(cases={}), "expected scores as `rig score` writes them"),
    (lambda s: s["playout_differences"].append(
        {"case_id": "R1-C1-1-L2", "trial": 1, "hold": "pass", "flush": "fail"}),
     "expected one outcome of R1-C1-1-L2 t1, got fail and, among playout_differences, pass"),
])
def test_damaged_scores_never_meet_a_gate(
    edit: Callable[[dict[str, Any]], Any], said: str, random_run: Path, tmp_path: Path,
    call_rig: Any
) -> None:
    run = shutil.copytree(random_run, tmp_path / "run")
    change(run, edit)
    assert said in call_rig("gate", run, "--min", "ias_core.L2=0").error


def test_a_run_that_is_not_there_or_not_scored_or_went_on(
    random_run: Path, tmp_path: Path, call_rig: Any
) -> None:
    gate = ["--min", "ias_core.L2=0"]
    assert "expected a scored run" in call_rig("gate", tmp_path / "none", *gate).error
    run = shutil.copytree(random_run, tmp_path / "run")
    lines = (run / "attempts.jsonl").read_text().splitlines(keepends=True)
    (run / "attempts.jsonl").write_text("".join([*lines, lines[-1].replace(
        '"attempt":1', '"attempt":2')]))
    assert "run `rig score" in call_rig("gate", run, *gate).error
    (run / "scores.json").unlink()
    assert "expected a scored run" in call_rig("gate", run, *gate).error
