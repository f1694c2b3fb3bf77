"""Floors beside a run: shown where they are its own measure, restricted to its cases."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from audio.errors import InputError
from audio.vad import VadSettings
from probes.built import load_built
from rig.comparing import FLOORS, Loaded, load_runs
from rig.floor_data import FloorFile, beside, floor_file, mismatch, read_floors
from rig.floors import Played
from rig.schedule import Bounds
from verifiers.thresholds import DEFAULTS
from verifiers.verdict import Outcome


@pytest.fixture
def file(small_suite: Path) -> FloorFile:
    """Two agents on the small suite: one passes all, one every other case."""
    built = load_built(small_suite)
    ids = [c.case_id for c in built.cases]
    outcomes = {"oracle": dict.fromkeys(ids, Outcome.PASS),
                "echo": {c: Outcome.UNSCORED if k == 2 else Outcome.PASS if k % 2 else Outcome.FAIL
                         for k, c in enumerate(ids)}}
    return floor_file(built, built.cases, Played(outcomes, {"oracle": 9, "echo": 4}, None, 0),
                      made_with="1+agents.1", bounds=Bounds(), vad=VadSettings(),
                      thresholds=DEFAULTS)


@pytest.fixture
def loaded(random_run: Path) -> Loaded:
    return load_runs([random_run])[0]


def test_they_are_shown_on_the_cases_of_the_run(file: FloorFile, loaded: Loaded) -> None:
    file = FloorFile.model_validate_json(file.model_dump_json())
    floors, why = beside([loaded], file)
    assert why == []
    assert [s.name for s in floors] == ["oracle", "echo"]
    assert all(s.floor for s in floors)
    echo = floors[1].cases
    assert [c.outcome.value for c in echo] == ["fail", "pass", "unscored", "pass", "fail", "pass",
                                               "fail", "pass", "fail"]
    assert [(c.conversation, c.level, c.action) for c in echo] == [
        (c.conversation, c.level, c.action) for c in loaded.system.cases]
    # A run of part of the cases has floors on that part alone.
    part = dict(list(loaded.planned.items())[1:3])
    floors, why = beside([replace(loaded, planned=part)], file)
    assert [c.outcome.value for c in floors[1].cases] == ["pass", "unscored"]
    assert why == []


def test_two_runs_of_different_cases_have_floors_of_their_own(
    file: FloorFile, loaded: Loaded
) -> None:
    other = replace(loaded, planned=dict(list(loaded.planned.items())[:4]),
                    system=replace(loaded.system, name="part"))
    floors, _ = beside([loaded, other], file)
    name = loaded.system.name
    assert [(s.name, len(s.cases)) for s in floors] == [
        (f"oracle ({name})", 9), (f"echo ({name})", 9), ("oracle (part)", 4), ("echo (part)", 4)]


def test_a_run_of_an_agent_wins_over_its_shipped_verdicts(
    file: FloorFile, loaded: Loaded, oracle_run: Path
) -> None:
    floors, _ = beside([loaded, load_runs([oracle_run])[0]], file)
    assert [s.name for s in floors] == ["echo"]
    # A system that is merely called like one of them is no such run.
    named = replace(loaded, system=replace(loaded.system, name="echo"))
    floors, _ = beside([named], file)
    assert [s.name for s in floors] == ["oracle", "echo (floors)"]


@pytest.mark.parametrize(("change", "said"), [
    (lambda f: {"suite": "another"}, "of suite another"),
    (lambda f: {"bounds": {**f.bounds, "settle_s": 1.0}}, "schedule bounds (settle_s 0.6 and 1.0)"),
    (lambda f: {"vad": {**f.vad, "threshold": 0.4}}, "another detector (threshold 0.5 and 0.4)"),
    (lambda f: {"thresholds": {**f.thresholds, "take_turn_max_wait_s": 1.5}},
     "thresholds (take_turn_max_wait_s 2.0 and 1.5)"),
    (lambda f: {"suite_construction_sha256": "0" * 64, "cases": {
        c: "0" * 16 if k == 4 else h for k, (c, h) in enumerate(f.cases.items())}},
     "1 of its 9 cases are not theirs"),
    (lambda f: {"suite_construction_sha256": "0" * 64}, None),
])
def test_where_they_say_nothing_the_reason_and_the_way_out_are_told(
    file: FloorFile, loaded: Loaded, change: Callable[[FloorFile], dict[str, Any]],
    said: str | None
) -> None:
    other = file.model_copy(update=change(file))
    floors, why = beside([loaded], other)
    if said is None:
        assert why == []
        return
    assert floors == []
    assert len(why) == 1
    assert said in why[0]
    assert "rig floors SUITE_DIR" in why[0]
    assert "\n" not in why[0]


def test_other_reasons(file: FloorFile, loaded: Loaded) -> None:
    noisy = replace(loaded, info=loaded.info.model_copy(update={"conditions": {"line": {}}}))
    assert "line conditions" in (mismatch(noisy, file) or "")
    built_otherwise = file.model_copy(update={"suite_construction_sha256": "0" * 64})
    assert "an older rig" in (mismatch(replace(loaded, streams=None), built_otherwise) or "")
    # The whole suite is theirs: nothing of the streams has to be known.
    assert mismatch(replace(loaded, streams=None), file) is None
    # A case whose stream the run does not name is not theirs.
    assert "9 of its 9 cases" in (mismatch(replace(loaded, streams={}), built_otherwise) or "")


@pytest.mark.parametrize(("change", "said"), [
    ({"verdicts": {"echo": "pf"}}, "for each of 9 cases"),
    ({"verdicts": {"echo": "z" * 9}}, "expected one of pfux"),
    ({"cases": {"R1-A-1-L2": "0"}}, "for each of 1 cases"),
    ({"more": 1}, "more"), ({"schema_version": 2}, "schema_version"),
])
def test_damaged_files_are_told_in_one_line(
    file: FloorFile, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    path = tmp_path / "f.json"
    path.write_text(json.dumps({**file.model_dump(mode="json"), **change}))
    with pytest.raises(InputError, match=r"f\.json: expected a file of `rig floors`") as caught:
        read_floors(path)
    assert said in str(caught.value)
    with pytest.raises(InputError, match="no such file"):
        read_floors(tmp_path / "none.json")


def test_what_ships_is_whole() -> None:
    """All cases of the built-in suite, by default settings."""
    file = read_floors()
    assert set(file.verdicts) == FLOORS
    assert len(file.cases) == 1038
    assert file.thresholds == json.loads(json.dumps(vars_of(DEFAULTS)))
    assert file.vad == json.loads(json.dumps(VadSettings().facts()))
    assert set(file.verdicts["oracle"]) == {"p"}
    assert set(file.verdicts["inverse"]) == {"f"}
    # Persona-blind: the same on L1, L2 and L3 of every conversation.
    for agent in FLOORS - {"oracle", "inverse", "random"}:
        found = file.outcomes(agent)
        for case_id, outcome in found.items():
            if case_id.endswith("-L1"):
                base = case_id.removesuffix("L1")
                assert found[f"{base}L2"] == found[f"{base}L3"] == outcome, (agent, case_id)


def vars_of(thresholds: Any) -> dict[str, Any]:
    return {name: getattr(thresholds, name) for name in thresholds.__dataclass_fields__}


def test_compare_shows_them(
    random_run: Path, file: FloorFile, tmp_path: Path, call_rig: Any
) -> None:
    path = tmp_path / "floors.json"
    path.write_text(file.model_dump_json())
    system = tmp_path / "system"
    shutil.copytree(random_run, system)
    info = json.loads((system / "run.json").read_text())
    info["adapter"]["name"] = "mine"
    (system / "run.json").write_text(json.dumps(info))
    found = call_rig("compare", system, "--floors", path, "--draws", 1000, "--json")
    document = json.loads(found.out)
    assert {n: s["floor"] for n, s in document["systems"].items()} == {
        "system": False, "oracle": True, "echo": True}
    assert document["floors_missing"] == []
    assert document["systems"]["oracle"]["ias"]["all"]["L2"]["rate"] == 1.0
    # What ships is of another suite, and says so.
    shown = call_rig("compare", system, "--draws", 1000)
    assert shown.code == 0
    assert "no floors beside it: they are of suite dsb-ifeval" in shown.out
