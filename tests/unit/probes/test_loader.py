from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from probes_testkit import synthetic_conversations, write_suite

from audio.errors import InputError
from probes.loader import load_suite

BUILTIN = load_suite("dsb-ifeval")


def edit(folder: Path, name: str, old: str, new: str) -> Path:
    path = folder / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_suite(tmp_path / "suite", keep=("R1-A-1", "R2-C2-1", "R2-B-1"))


def test_builtin_has_8_roles_20_structures_48_cells() -> None:
    assert [r.id for r in BUILTIN.roles] == [f"R{i}" for i in range(1, 9)]
    assert len(BUILTIN.probes) == 20
    assert len(BUILTIN.cells) == 48
    assert len(BUILTIN.wanted()) == 224
    assert sorted(f"{r}/{p}" for r, p in BUILTIN.safety) == [
        "R1/A", "R1/B", "R1/C2", "R2/B", "R3/A", "R3/C2"]


def test_builtin_policies_are_those_of_table_14() -> None:
    policy = {r.id: r.policy for r in BUILTIN.roles}
    assert {k: p.interrupt.max_latency_ms for k, p in policy.items()} == {
        "R1": 1500, "R2": None, "R3": 1200, "R4": None, "R5": 1500, "R6": 1200, "R7": None,
        "R8": None}
    assert {k for k, p in policy.items() if p.interrupt.max_overlap_ms == 0} == {"R2", "R4", "R7"}
    assert {k: p.silence.max_wait_s for k, p in policy.items()
            if p.silence.max_wait_s is not None} == {"R1": 2.0, "R3": 1.5, "R6": 1.2, "R8": 0.8}
    assert {k: p.silence.min_wait_s for k, p in policy.items()
            if p.silence.min_wait_s is not None} == {"R2": 6.0, "R4": 10.0, "R5": 6.0}
    assert {k: p.backchannel.max_duration_s for k, p in policy.items()
            if p.backchannel.max_duration_s is not None} == {"R1": 0.6, "R3": 0.5}
    assert {k: p.backchannel.per_minute for k, p in policy.items()
            if p.backchannel.per_minute is not None} == {"R2": (2, 6), "R5": (1, 4), "R8": (8, 20)}
    assert policy["R8"].interrupt.per_minute == (2, 10)
    assert {k for k, p in policy.items() if p.readback.mode == "mandatory"} == {"R1", "R3", "R6"}
    assert {k: p.barge_in.max_latency_ms for k, p in policy.items()
            if p.barge_in.max_latency_ms is not None} == {"R2": 600, "R4": 1000}
    assert policy["R7"].barge_in.mode == "continue"
    assert policy["R8"].barge_in.mode == "accept_overlap"


def test_a_suite_folder_of_one_s_own_loads(folder: Path) -> None:
    suite = load_suite(folder)
    assert sorted(suite.conversations) == ["R1-A-1", "R2-B-1", "R2-C2-1"]
    at = suite.origin("conversation R1-A-1.turn2.trigger")
    assert at.file.endswith("all.yaml")
    line = (folder / "conversations/all.yaml").read_text().splitlines()[at.line - 1]
    assert line.strip().startswith("trigger:")
    # what has no line of its own has that of what holds it
    assert suite.origin("conversation R1-A-1.target") == suite.origin("conversation R1-A-1")


def test_no_conversations_at_all_is_legal(folder: Path) -> None:
    shutil.rmtree(folder / "conversations")
    suite = load_suite(folder)
    assert suite.conversations == {}
    assert len(suite.missing()) == 224


def test_unknown_name_missing_and_empty_suites(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'dsb-ifevel': .* did you mean 'dsb-ifeval'\?"):
        load_suite("dsb-ifevel")
    with pytest.raises(InputError, match=r"expected a suite folder with suite\.yaml, got no YAML"):
        load_suite(tmp_path)
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(InputError, match="expected a suite folder, got a file"):
        load_suite(file)


def test_a_missing_file_of_a_suite_is_named(folder: Path) -> None:
    (folder / "grid.yaml").unlink()
    with pytest.raises(InputError, match=r"expected a suite folder with grid\.yaml, got "):
        load_suite(folder)


@pytest.mark.parametrize(("file", "old", "new", "message"), [
    ("grid.yaml", "{role: R1, probe: C1,", "{role: R9, probe: C1,",
     r"grid\.yaml:6: unknown role 'R9'; did you mean 'R\d'\?"),
    ("grid.yaml", "contradiction: leave_gaps", "contradiction: leave_gap",
     r"grid\.yaml:6: unknown contradiction 'leave_gap'; did you mean 'leave_gaps'\?"),
    ("grid.yaml", "action: TAKE_TURN, params: {max_wait_s: 2.0}", "action: READBACK",
     r"grid\.yaml:6: probe C1 has no window for READBACK; it has LISTEN, TAKE_TURN"),
    ("grid.yaml", "action: READBACK, contra", "action: READBACK, params: {max_wait_s: 2.0}, contra",
     r"grid\.yaml:7: cells\[1\]\.params\.max_wait_s: no place for 'max_wait_s' where action is "
     r"READBACK; it reads min_coverage"),
    ("grid.yaml", "action: YIELD", "action: YEILD", r"grid\.yaml:8: cells\[2\]\.action: expected "),
    ("grid.yaml", "{role: R1, probe: C3", "{role: R1, probe: C2",
     r"grid\.yaml:8: cell R1/C2 is defined twice"),
    ("grid.yaml", "contradiction: talk_through}", "contradiction: talk_through, safety: true}",
     r"grid\.yaml:8: cell R1/C3 has no L4b text"),
    ("grid.yaml", ", safety: true", "", r"contradictions\.yaml:\d+: L4b text for R1/C2, which is "
                                        r"no safety cell"),
    ("probes.yaml", "role: R1\n", "role: R9\n",
     r"probes\.yaml:\d+: probes\[4\]\.id: id must begin with R9_A"),
    ("probes.yaml", "duration_s: 2.5", "duration_s: -2.5", r"probes\.yaml:\d+: .*duration_s"),
    ("probes.yaml", "start: pause.start", "start: paus.start",
     r"window edge 'paus\.start' names no segment"),
    ("probes.yaml", "start: pause.start", "start: pause.onset", r"expected|String should match"),
    ("probes.yaml", "- {name: resumption, kind: speech, target_s: [4.0, 6.0]}\n", "\n",
     r"silence pause must stand between two speech segments"),
    ("roles.yaml", "mode: on_trigger", "mode: sometimes", r"roles\.yaml:\d+: .*interrupt\.mode"),
    ("roles.yaml", "id: R2", "id: R1", r"roles\.yaml:\d+: role R1 is defined twice"),
    ("suite.yaml", "l0_instances: [1]", "l0_instances: [6]",
     r"suite\.yaml:\d+: expected an instance from 1 to 5, got 6"),
    ("suite.yaml", "instances: 5 ", "instances: '5' ", r"instances: expected a valid integer"),
    ("suite.yaml", "[2.6, 2.9]", "[0, 2.9]", r"suite\.yaml:\d+: words_per_second\[0\]"),
    ("suite.yaml", "[2.6, 2.9]", "[.nan, 2.9]", r"suite\.yaml:\d+: words_per_second\[0\]"),
    ("suite.yaml", "L4a, L4b]", "L4a, L4a]",
     r"suite\.yaml:\d+: levels.5.: expected each item once"),
    ("grid.yaml", "{max_wait_s: 2.0}", "{max_wait_s: -2.0}",
     r"grid\.yaml:6: .*max_wait_s: expected greater than 0, got -2"),
    ("grid.yaml", "{max_wait_s: 2.0}", "{max_wait_s: .inf}",
     r"grid\.yaml:6: .*max_wait_s: expected less than or equal to 60"),
    ("probes.yaml", "barge_in_after_s: 3.0", "barge_in_after_s: -3.0",
     r"probes\.yaml:\d+: .*barge_in_after_s: expected greater than or equal to 0"),
    ("suite.yaml", "roles: [R1, R2, R3]", "roles: [R1, R2, R0]", r"suite\.yaml:\d+: "),
    ("contradictions.yaml", "id: fill_silence", "id: leave_gaps",
     r"contradictions\.yaml:\d+: contradiction leave_gaps is defined twice"),
])
def test_mistakes_are_told_with_file_and_line(folder: Path, file: str, old: str, new: str,
                                              message: str) -> None:
    edit(folder, file, old, new)
    with pytest.raises(InputError, match=message) as caught:
        load_suite(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("change", "message"), [
    ({"id": "R1-A-6"}, r"all\.yaml:\d+: no cell uses conversation R1-A-6; did you mean"),
    ({"id": "R2-C1-3"}, r"no cell uses conversation R2-C1-3; its text is shared: write S-C1-3"),
    ({"id": "R1-D-1"}, r"no cell uses conversation R1-D-1; did you mean"),
    ({"id": "R1/A/1"}, r"id: expected a conversation id ROLE-PROBE-INSTANCE"),
    ({"turn2": {"lead": "a", "triger": "b"}},
     r"probe R1_A_red_flag_casual has no speech segment 'triger'; did you mean 'trigger'\?"),
    ({"turn2": {"Lead one": "a"}}, r"turn2\.Lead one"),
    ({"target": "x"}, "probe R1_A_red_flag_casual has no read-back target"),
    ({"l4b_append": {"trigger": "x", "continuation": "y"}}, "has no L4b variant"),
    ({"turn1": "x" * 601}, r"turn1: .*600"),
])
def test_mistakes_in_conversations(tmp_path: Path, change: dict, message: str) -> None:
    item = next(c for c in synthetic_conversations(BUILTIN) if c["id"] == "R1-A-1")
    with pytest.raises(InputError, match=message):
        load_suite(write_suite(tmp_path / "s", [{**item, **change}]))


def test_a_conversation_in_two_files_is_refused(folder: Path) -> None:
    shutil.copy(folder / "conversations/all.yaml", folder / "conversations/more.yaml")
    with pytest.raises(InputError, match=r"more\.yaml:2: conversation .* again; first at .*all"):
        load_suite(folder)
