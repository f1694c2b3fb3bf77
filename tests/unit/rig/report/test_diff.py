"""Which cases changed, how near they were, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import made_runs
import pytest
import rig_testkit as kit

from audio.spans import Spans
from audio.vad import VadSettings
from rig.comparing import load_runs
from rig.report import case_list, diff
from rig.report.case_margin import case_margin
from rig.report.loading import ScoredRun, load_scored
from rig.scenes import Identity
from rig.scoring import Measured
from rig.store import RunFolder
from sweeps.effects import Case, Draws
from sweeps.effects import difference as difference_of
from verifiers.measurement import measure
from verifiers.scene import Action, CaseParams, Scene, TimedText, Window

MS = 1_000_000
S = 1000 * MS
W0 = 10 * S


def _run(name: str, index: int, *cases: tuple[str, Action, str, int | None]) -> ScoredRun:
    """Cases as `(id, action, level, moment)`: a model span of 0.5 s begins at the moment from w0
    (YIELD: one that began before ends there), or the case was lost."""
    rows = []
    for case_id, action, level, moment in cases:
        identity = Identity(case_id, 1, "R1", "C1", level, action, CaseParams())
        if moment is None:
            rows.append(Measured(identity, None, "infra_error: lost", "hold", same_as_hold=True))
            continue
        span = ((W0 - S, W0 + moment) if action is Action.YIELD
                else (W0 + moment, W0 + moment + 500 * MS))
        scene = Scene(action, Window(W0, W0 + 3 * S), Spans((span,)), Spans(), W0 + 10 * S,
                      target_text="four one", transcript=(
                          TimedText("four" if moment else "four one", W0, W0 + S),))
        rows.append(Measured(
            identity, measure(scene), None, "hold", same_as_hold=True,
            recorded_ns=scene.recorded_ns, user=scene.user, model=scene.model,
            window_ns=(scene.window.start_ns, scene.window.end_ns)))
    return made_runs.run_of(name, rows, index=index)


def _names(some: Sequence[diff.Change]) -> list[str]:
    return [change.first.case_id for change in some]


def test_changes_by_kind_and_by_closeness() -> None:
    take, give = Action.TAKE_TURN, Action.YIELD
    first = _run("a", 0,
                 ("far", take, "L1", 500 * MS), ("near", take, "L1", 1990 * MS),
                 ("middle", give, "L2", 550 * MS), ("words", Action.READBACK, "L1", 0),
                 ("none", take, "L1", S), ("mended", take, "L2", 2100 * MS),
                 ("retained", take, "L4a", S), ("lost", take, "L1", S),
                 ("found", take, "L1", None), ("gone", take, "L1", None),
                 ("same", take, "L1", S), ("alone", take, "L1", S))
    second = _run("b", 1,
                  ("far", take, "L1", 2900 * MS), ("near", take, "L1", 2300 * MS),
                  ("middle", give, "L2", 640 * MS), ("words", Action.READBACK, "L1", 1),
                  ("none", take, "L1", 4 * S), ("mended", take, "L2", 1900 * MS),
                  ("retained", take, "L4a", 2500 * MS), ("lost", take, "L1", None),
                  ("found", take, "L1", 2200 * MS), ("gone", take, "L1", None),
                  ("same", take, "L1", 1100 * MS), ("other", take, "L1", S))
    found = diff.changes(first, second)
    # seconds by closeness (10, 40, 500 ms, 1 s of which one side has no distance), then words
    assert _names(found.to_fail) == ["near", "middle", "far", "none", "words"]
    assert [c.closeness for c in found.to_fail] == [
        pytest.approx(0.01), pytest.approx(0.04), pytest.approx(0.5), pytest.approx(1.0),
        pytest.approx(0.1)]
    assert [m.margin for m in found.to_fail[0].margins] == [pytest.approx(0.01),
                                                            pytest.approx(-0.3)]
    assert found.to_fail[3].margins[1].reason == "no onset in the window"
    assert diff._heading("now failed", found.to_fail) == (
        "now failed: 5, 2 of them within 0.1 s of a bound")
    assert diff._heading("not scored", found.unscored) == "not scored: 2"
    assert _names(found.to_pass) == ["mended"]
    assert _names(found.retention) == ["retained"]
    assert _names(found.unscored) == ["found", "lost"]
    assert (found.common_n, found.same_n, found.neither_n) == (11, 2, 1)


def test_a_margin_of_a_stored_case_looks_around_the_window() -> None:
    run = _run("a", 0, ("x", Action.LISTEN, "L1", 3050 * MS), ("lost", Action.LISTEN, "L1", None))
    near, lost = (case_margin(run, case) for case in run.cases)
    assert (near.margin, near.bound_name) == (pytest.approx(0.05), "window end")
    assert (lost.margin, lost.reason) == (None, "infra_error: lost")


def test_the_bound_of_a_margin_is_named_in_the_diff_and_in_the_list() -> None:
    """A quick stop is nearer to the barge-in than to the limit, 0.600 s."""
    run = _run("a", 0, ("quick", Action.YIELD, "L1", 228 * MS),
               ("slow", Action.YIELD, "L1", 500 * MS), ("spoke", Action.LISTEN, "L1", 100 * MS))
    margins = [case_margin(run, case) for case in run.cases]
    assert [diff._measured(m) for m in margins] == [
        "model offset (bound: barge-in)", "model offset (bound: maximum latency)",
        "model speech in the window"]
    assert case_list.data([run])["margin_text"] == [
        "model offset 0.228 s; nearest bound: barge-in 0.000 s",
        "model offset 0.500 s; nearest bound: maximum latency 0.600 s",
        "model speech in the window 0.500 s; nearest bound: no speech 0.000 s"]


def test_deltas_are_those_of_rig_compare(oracle_run: Path, random_run: Path) -> None:
    first, second = load_runs([random_run, oracle_run])
    found = diff.by_action(first, second)
    want = kit.outcomes(random_run)
    failed = sorted(kit.scores(random_run)["cases"], key=lambda c: c["expected_action"])
    assert len(found) == len(want) == 9
    for case in failed:
        entry = found[case["expected_action"]]
        gained = case["outcome"] == "fail"
        assert (entry["n"], entry["only_first"], entry["only_second"]) == (1, gained, 0)
        assert entry["difference"] == gained

    def of(run: object, action: Action) -> list[Case]:
        return [c for c in run.system.cases if c.action is action]  # type: ignore[attr-defined]

    draws = Draws({c.stream for run in (first, second) for c in run.system.cases})
    for action in Action:
        direct = difference_of(of(second, action), of(first, action),
                               lambda c: (c.conversation, c.level, c.trial), draws)
        assert direct.p_clustered == found[str(action)]["p_clustered"]
        assert found[str(action)]["family"] == 9


def test_the_section(oracle_run: Path, random_run: Path) -> None:
    runs = load_scored([RunFolder(oracle_run), RunFolder(random_run)])
    found = diff.section(runs)
    assert found is not None
    assert found.title == "Diff: random against oracle"
    failed = [case for case in runs[1].cases if case.outcome == "fail"]
    assert failed
    for case in failed:
        assert f'data-case="{case.key}"' in found.html
    assert f"{len(failed)} passed in oracle and fail in random" in " ".join(found.html.split())
    chart, = found.charts
    assert len(chart.rows) == 9
    assert diff.section(runs[:1]) is None
    assert diff.section([*runs, replace(runs[0], index=2)]) is None


def test_what_rig_compare_refuses_is_refused(
    oracle_run: Path, random_run: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(random_run, tmp_path / "<b>other")
    scores = kit.scores(other)
    scores["vad"] = VadSettings(threshold=0.6).facts()
    (other / "scores.json").write_text(json.dumps(scores))
    found = diff.section(load_scored([RunFolder(oracle_run), RunFolder(other)]))
    assert found is not None
    assert "These two runs are not compared" in found.html
    assert "vad.threshold 0.5 and 0.6" in found.html
    assert "<b>" not in found.html
    assert found.charts == ()
