"""A `scores.json` that contradicts its own cases is refused by everyone who reads it."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_runs
import pytest
import rig_testkit as kit

from audio.errors import InputError
from rig import api
from rig.comparing import load_runs
from rig.judge.judging import verdicts_of
from rig.ledger import dumps
from rig.recount import check_scores, latency_ms
from rig.report.loading import load_scored
from rig.store import RunFolder
from rig.vad_sweep import read_scored
from verifiers.scene import Action

Edit = Callable[[dict[str, Any]], Any]


@pytest.fixture
def scores(random_run: Path) -> dict[str, Any]:
    return kit.scores(random_run)


def of(said: dict[str, Any], *keys: str) -> dict[str, Any]:
    for key in keys:
        said = said[key]
    return said


@pytest.mark.parametrize(("edit", "said"), [
    (lambda s: of(s, "ias", "core", "L2").update(passed=1), "ias_core.L2 of 0 in 4"),
    (lambda s: of(s, "ias", "core", "L2").update(unscored=1), "ias_core.L2 of 0 in 4"),
    (lambda s: of(s, "ias", "core", "L2").update(rate=0.9), "'rate': 0.9"),
    (lambda s: of(s, "ias", "core", "L2").update(rate=0), None),
    (lambda s: of(s, "ias", "all", "L2").update(rate=1 / 9 + 1e-5), "ias_all.L2 of 1 in 9"),
    (lambda s: of(s, "ias", "all", "L2").update(rate=1 / 9 + 1e-12), None),
    (lambda s: of(s, "ias", "all", "L2").update(ci=[0.1, 0.435]), "ias_all.L2 of 1 in 9"),
    (lambda s: of(s, "ias", "all", "L2").update(ci=None), "ias_all.L2 of 1 in 9"),
    (lambda s: of(s, "ias", "all", "L2").pop("ci"), "ias_all.L2 of 1 in 9"),
    (lambda s: of(s, "ias", "all", "L2").update(later="more"), None),
    (lambda s: of(s, "ias", "all_live", "L2").update(rate="1"), "ias_all_live.L2 of "),
    (lambda s: of(s, "ias", "all_live", "L2").update(rate=10**400), "ias_all_live.L2 of "),
    (lambda s: of(s, "ias", "core_live").update(L2=[]), "ias_core_live.L2 of"),
    (lambda s: s["ias"].pop("core_live"), "ias_core_live.L2 of "),
    (lambda s: s["ias"].update(later={"L2": 1}), None),
    (lambda s: of(s, "ias", "core").update(L1=s["ias"]["core"]["L2"]), "no ias_core.L1"),
    (lambda s: of(s, "ias", "by_role").update({"X.L1": s["ias"]["by_role"]["R8"]}),
     'no by_role."X.L1"'),
    (lambda s: of(s, "ias", "by_action").pop("YIELD"), "by_action.YIELD of 0 in 1"),
    (lambda s: of(s, "ias", "by_action", "YIELD").update(n=2), "by_action.YIELD of 0 in 1"),
    (lambda s: of(s, "ias", "by_action", "YIELD", "by_level", "L2").update(passed=1),
     "by_action.YIELD.L2 of 0 in 1"),
    (lambda s: of(s, "ias", "by_action", "YIELD").pop("by_level"), "by_action.YIELD.L2 of 0 in 1"),
    (lambda s: of(s, "latency", "reply").update(missing=0), "latency.reply of n 0, missing 1"),
    (lambda s: of(s, "latency", "reply").pop("missing"), "latency.reply of n 0, missing 1"),
    (lambda s: of(s, "latency", "reply").update(n=1), "latency.reply of n 0, missing 1"),
    (lambda s: of(s, "latency", "reply").update(p50_ms=1.0), "latency.reply of n 0, missing 1"),
    (lambda s: s["latency"].pop("yield"), "latency.yield of n "),
    (lambda s: s["flags"].update(forced=20), "flags.forced of 0"),
    (lambda s: s["flags"].update(forced=0), None),
    (lambda s: s["flags"].clear(), "flags."),
    (lambda s: s["cases"][0].update(flags=["forced"]), "ias_core_excluding_forced.L2 of 0 in 3"),
    (lambda s: s["cases"][0].update(outcome="unscored"), "ias_core.L2 of 0 in 3"),
    (lambda s: s["cases"].append(s["cases"][0]), "cases[9]: expected every case and trial once"),
    (lambda s: s["playout_differences"].append({
        "case_id": "R9-none", "trial": 1, "hold": "pass", "flush": "fail"}),
     "one outcome of R9-none t1, got none and, among playout_differences, pass"),
    (lambda s: s["playout_differences"].append({
        "case_id": "R8-B-1-L2", "trial": 1, "hold": "pass", "flush": "fail"}), None),
])
def test_what_the_cases_contradict_is_refused(
    edit: Edit, said: str | None, scores: dict[str, Any]
) -> None:
    check_scores(scores, "RUN/scores.json")
    edit(scores)
    if said is None:
        check_scores(scores, "RUN/scores.json")
        return
    with pytest.raises(InputError) as caught:
        check_scores(scores, "RUN/scores.json")
    assert said in str(caught.value)
    assert str(caught.value).startswith("RUN/scores.json: ")
    assert "\n" not in str(caught.value)


def test_every_reader_refuses_it(random_run: Path, tmp_path: Path, call_rig: Any) -> None:
    run = shutil.copytree(random_run, tmp_path / "run")
    found = kit.scores(run)
    found["latency"]["reply"]["missing"] = 7
    (run / "scores.json").write_text(json.dumps(found))
    folder, said = RunFolder(run), r"expected latency\.reply of n 0, missing 1"
    for read in (lambda: load_scored([folder]), lambda: load_runs([run]),
                 lambda: read_scored(folder)):
        with pytest.raises(InputError, match=said):
            read()
    assert "expected latency.reply of n 0" in (verdicts_of(folder, "hold")[1] or "")
    for words in (["gate", run, "--max", "unscored=1"], ["gate", run, "--list"], ["compare", run],
                  ["report", run, "--out", tmp_path / "page.html"]):
        assert "expected latency.reply of n 0, missing 1" in call_rig(*words).error
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize(("action", "measured", "limited", "wanted"), [
    (Action.TAKE_TURN, {"genuine_onset_s": 0.5}, False, ("reply", 500.0)),
    (Action.TAKE_TURN, {"genuine_onset_s": None}, True, ("reply", None)),
    (Action.TAKE_TURN, {"genuine_onset_s": None, "spans_in_window": None}, True, None),
    (Action.TAKE_TURN, {"genuine_onset_s": None, "spans_in_window": 0}, True, ("reply", None)),
    (Action.TAKE_TURN, {"genuine_onset_s": "1"}, True, ("reply", None)),
    (Action.TAKE_TURN, {"genuine_onset_s": True}, True, ("reply", None)),
    (Action.TAKE_TURN, {}, True, None), (Action.TAKE_TURN, None, True, None),
    (Action.LISTEN, {"genuine_onset_s": 0.5}, True, None),
    (Action.INTERRUPT, {"genuine_onset_s": 0.6}, True, ("interrupt", 600.0)),
    (Action.YIELD, {"first_offset_s": 0.2, "held_at_w0": True}, True, ("yield", 200.0)),
    (Action.YIELD, {"first_offset_s": 0.2, "held_at_w0": False}, True, ("yield", None)),
    (Action.BACKCHANNEL, {"genuine_onset_s": 0.4, "label": "backchannel"}, True,
     ("backchannel", 400.0)),
    (Action.BACKCHANNEL, {"genuine_onset_s": 0.4, "label": "backchannel"}, False,
     ("backchannel", None)),
    (Action.BACKCHANNEL, {"genuine_onset_s": 0.4, "label": "floor_take"}, True,
     ("backchannel", None)),
])
def test_which_case_has_a_latency(action: Action, measured: dict[str, Any] | None, limited: bool,
                                  wanted: tuple[str, float | None] | None) -> None:
    assert latency_ms(action, measured, limited) == wanted


@pytest.mark.parametrize("seed", range(3))
def test_what_rig_score_writes_of_a_whole_suite_is_agreed_with_at_once(seed: int) -> None:
    """Every action, override and kind of ending, many exactly on a limit, windows outside the
    recording, lost sessions: 1,038 cases, in less than half a second."""
    made = made_runs.scored_run("made", made_runs.scenes(seed, 1_037))
    scores = json.loads(dumps({**made.scores}))
    assert len(scores["cases"]) == 1_038
    assert any(c["measured"].get("spans_in_window", 0) is None for c in scores["cases"])
    assert all(stat["n"] and stat["missing"] for stat in scores["latency"].values())
    begun = time.process_time()
    check_scores(scores, "here")
    assert time.process_time() - begun < 0.5


@pytest.mark.parametrize(("edit", "said"), [
    (lambda cases: cases[1:], r"for all of 9 sessions, got 8, none for {0} t1; the file was chan"),
    (lambda cases: [], r"for all of 9 sessions, got 0, none for {0} t1, .*, \.\.\.;"),
    (lambda cases: [{**cases[0], "trial": 2}, *cases[1:]],
     r"cases\[0\]: expected a case of this run with its verdict, got .*trial 2 of 1"),
    (lambda cases: [{**cases[0], "case_id": "other"}, *cases[1:]],
     r"cases\[0\]: .*other is none of its cases"),
])
def test_a_session_taken_out_of_the_cases_and_of_every_rate_is_missed(
    random_run: Path, tmp_path: Path, edit: Callable[[list[Any]], list[Any]], said: str
) -> None:
    """By the page and the tables of `rig.api` as by a comparison and a gate."""
    run = shutil.copytree(random_run, tmp_path / "run")
    scores = kit.scores(run)
    first = scores["cases"][0]["case_id"]
    kit.write_scores(run, {**scores, "cases": edit(scores["cases"]), "playout_differences": []})
    for read in (lambda: load_scored([RunFolder(run)]), lambda: api.verdicts(run),
                 lambda: load_runs([run])):
        with pytest.raises(InputError, match=said.format(re.escape(first))):
            read()
