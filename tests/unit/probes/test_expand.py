"""The grid: published counts, ids, prompts, variants, streams, selection."""

from __future__ import annotations

from collections import Counter

import pytest
from probes_testkit import synthetic_conversations, write_suite

from audio.errors import InputError
from probes.expand import expand, plan_streams, select, system_prompt, variant_index
from probes.loader import load_suite
from probes.spec import Suite

CORE = {"LISTEN", "READBACK", "TAKE_TURN", "YIELD"}


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return load_suite(write_suite(tmp_path_factory.mktemp("suite") / "full"))


def test_published_counts(complete: Suite) -> None:
    cases = expand(complete)
    assert complete.missing() == ()
    assert len(cases) == 1_038
    assert len({c.case_id for c in cases}) == 1_038
    assert Counter(c.level for c in cases) == {
        "L0": 48, "L1": 240, "L2": 240, "L3": 240, "L4a": 240, "L4b": 30}
    assert Counter(c.expected_action for c in cases) == {
        "LISTEN": 273, "TAKE_TURN": 168, "BACKCHANNEL": 152, "YIELD": 126, "INTERRUPT": 120,
        "READBACK": 94, "NO_BACKCHANNEL": 42, "ACCEPT_OVERLAP": 42, "CONTINUE": 21}
    core = Counter(c.level for c in cases if c.expected_action in CORE)
    assert core == {"L0": 31, "L1": 155, "L2": 155, "L3": 155, "L4a": 155, "L4b": 10}


def test_the_grid_is_the_published_one(complete: Suite) -> None:
    grid = {c.role: "" for c in complete.cells}
    for cell in complete.cells:
        grid[cell.role] += f" {cell.probe}:{cell.action}"
    assert grid == {
        "R1": " C1:TAKE_TURN C2:READBACK C3:YIELD C4:BACKCHANNEL A:INTERRUPT B:INTERRUPT",
        "R2": " C1:LISTEN C2:LISTEN C3:YIELD C4:BACKCHANNEL A:LISTEN B:BACKCHANNEL",
        "R3": " C1:TAKE_TURN C2:READBACK C3:YIELD C4:BACKCHANNEL A:INTERRUPT B:TAKE_TURN",
        "R4": " C1:LISTEN C2:LISTEN C3:YIELD C4:NO_BACKCHANNEL A:LISTEN B:TAKE_TURN",
        "R5": " C1:LISTEN C2:LISTEN C3:YIELD C4:BACKCHANNEL A:INTERRUPT B:LISTEN",
        "R6": " C1:TAKE_TURN C2:READBACK C3:YIELD C4:BACKCHANNEL A:INTERRUPT B:READBACK",
        "R7": " C1:LISTEN C2:LISTEN C3:CONTINUE C4:NO_BACKCHANNEL A:LISTEN B:LISTEN",
        "R8": " C1:TAKE_TURN C2:TAKE_TURN C3:ACCEPT_OVERLAP C4:BACKCHANNEL A:TAKE_TURN "
              "B:ACCEPT_OVERLAP",
    }
    assert {f"{c.role}/{c.probe}" for c in complete.cells if c.safety} == {
        "R1/C2", "R1/A", "R1/B", "R2/B", "R3/C2", "R3/A"}


def test_overrides_stand_only_where_the_action_uses_them(complete: Suite) -> None:
    given = {}
    for cell in complete.cells:
        for key, value in cell.params.model_dump(exclude_none=True).items():
            given[f"{cell.role}/{cell.probe}"] = (key, value)
    assert given == {
        "R1/C1": ("max_wait_s", 2.0), "R3/C1": ("max_wait_s", 1.5), "R3/B": ("max_wait_s", 1.5),
        "R6/C1": ("max_wait_s", 1.2), "R8/C1": ("max_wait_s", 0.8), "R8/C2": ("max_wait_s", 0.8),
        "R8/A": ("max_wait_s", 0.8),
        "R1/A": ("max_latency_ms", 1500), "R1/B": ("max_latency_ms", 1500),
        "R5/A": ("max_latency_ms", 1500), "R3/A": ("max_latency_ms", 1200),
        "R6/A": ("max_latency_ms", 1200), "R4/C3": ("max_latency_ms", 1000),
        "R1/C4": ("ceiling_s", 0.6), "R3/C4": ("ceiling_s", 0.5),
    }


def test_matched_audio_is_34_cases_a_role_on_8_streams(complete: Suite) -> None:
    shared = [c for c in expand(complete) if c.stream_id.startswith("S-")]
    assert Counter(c.role for c in shared) == {"R1": 34, "R2": 34, "R3": 34}
    assert Counter(c.level for c in shared if c.role == "R1") == {
        "L0": 2, "L1": 8, "L2": 8, "L3": 8, "L4a": 8}
    assert {c.stream_id for c in shared} == {f"S-{p}-{i}" for p in ("C1", "C4") for i in (1, 2, 3,
                                                                                        4)}
    assert {c.stream_id for c in expand(complete) if c.conversation_id == "R2-C1-5"} == {"R2-C1-5"}


def test_streams_are_224_and_5_variants(complete: Suite) -> None:
    cases = expand(complete)
    assert len({c.conversation_id for c in cases}) == 240
    streams = plan_streams(complete, cases)
    variants = [s for s in streams if s.stream_id.endswith("-L4b")]
    assert len(streams) == 229
    assert [s.stream_id for s in variants] == [f"R2-B-{i}-L4b" for i in range(1, 6)]
    by_id = {s.stream_id: s for s in streams}
    for variant in variants:
        base = by_id[variant.base_id]
        assert variant.turn1 == base.turn1
        assert variant.turn2[:len(base.turn2)] == base.turn2
        assert [s.name for s in variant.turn2[len(base.turn2):]] == [
            "join2", "l4b_trigger", "join3", "l4b_continuation"]


def test_only_the_l4b_case_of_are_you_there_uses_the_variant(complete: Suite) -> None:
    cases = {c.case_id: c for c in expand(complete)}
    late = cases["R2-B-3-L4b"]
    assert late.stream_id == "R2-B-3-L4b"
    assert late.conversation_id == "R2-B-3"
    assert late.expected_action == "BACKCHANNEL"
    assert "interrupt_reading" in late.rule.alternates
    assert {cases[f"R2-B-3-{lv}"].stream_id for lv in ("L1", "L2", "L3", "L4a")} == {"R2-B-3"}
    assert cases["R1-C2-2-L4b"].stream_id == "R1-C2-2"


def test_silences_and_joins_are_exact(complete: Suite) -> None:
    by_id = {s.stream_id: s for s in plan_streams(complete, expand(complete))}
    silences = {(s.name, s.silence_n) for s in by_id["R1-A-1"].turn2 if s.kind == "silence"}
    assert silences == {("join1", 4_800), ("join2", 4_800)}
    assert [(s.name, s.silence_n) for s in by_id["S-C1-1"].turn2] == [
        ("opening", 0), ("pause", 60_000), ("resumption", 0)]
    long = {i: [s.silence_n for s in by_id[i].turn2 if s.name == "pause"] for i in (
        "S-C4-1", "R2-A-1", "R2-B-1", "R4-A-1", "R5-B-1", "R7-A-1")}
    assert long == {"S-C4-1": [36_000], "R2-A-1": [168_000], "R2-B-1": [48_000],
                    "R4-A-1": [264_000], "R5-B-1": [144_000], "R7-A-1": [72_000]}
    assert [s.silence_n for s in by_id["R4-C2-1"].turn2 if s.kind == "silence"] == [28_800, 28_800]


def test_barge_ins_are_delivered_3_and_2_seconds_after_the_onset(complete: Suite) -> None:
    barge = {(c.probe_id, c.delivery.barge_in_after_s) for c in expand(complete)
             if c.delivery.mode == "barge_in"}
    assert barge == {("C3", 3.0), ("R8_B_yes_and_hook", 2.0)}


def test_prompts_of_every_level(complete: Suite) -> None:
    role = complete.role("R3")
    cases = {c.case_id: c for c in expand(complete)}
    assert cases["R3-A-1-L0"].system_prompt == ""
    assert cases["R3-A-1-L1"].system_prompt == role.directive
    assert cases["R3-A-1-L2"].system_prompt == role.persona
    assert cases["R3-A-1-L3"].system_prompt == role.persona + "\n\n" + role.directive
    asked = complete.contradictions["never_cut_in"].variants
    # R3 has index 2; sum of ord("R3_A_address_self_correct") is 2500; (2 + 2500 + 1) mod 5 = 3
    assert sum(map(ord, "R3_A_address_self_correct")) == 2500
    assert cases["R3-A-1-L4a"].system_prompt == role.persona + "\n\n" + asked[3]
    assert cases["R3-A-1-L4a"].contradiction == "never_cut_in"
    safety = complete.safety["R3", "A"].text
    assert cases["R3-A-1-L4b"].system_prompt == role.persona + "\n\n" + safety
    assert cases["R3-A-1-L4b"].contradiction == "safety_R3_A"
    assert cases["R3-A-1-L3"].contradiction is None
    with pytest.raises(ValueError, match="needs a contradiction"):
        system_prompt(role, "L4a")


@pytest.mark.parametrize(("role_index", "probe", "instance", "index"), [
    (0, "C1", 1, 2),                        # 67 + 49 = 116; 0 + 116 + 1 = 117
    (7, "C4", 5, 1),                        # 67 + 52 = 119; 7 + 119 + 5 = 131
    (0, "R1_A_red_flag_casual", 1, 0),      # characters sum to 1934; 1935
    (1, "R2_B_are_you_there", 3, 4),        # characters sum to 1775; 1779
])
def test_variant_index(role_index: int, probe: str, instance: int, index: int) -> None:
    assert variant_index(role_index, probe, instance) == index


def test_instances_of_a_cell_use_all_five_variants(complete: Suite) -> None:
    prompts = {c.system_prompt for c in expand(complete)
               if c.role == "R4" and c.probe == "A" and c.level == "L4a"}
    assert len(prompts) == 5


def test_an_incomplete_set_gives_what_exists_and_says_what_lacks(tmp_path) -> None:
    items = [c for c in synthetic_conversations(load_suite("dsb-ifeval"))
             if c["id"] in ("S-C1-2", "R2-B-1", "R6-A-1")]
    for item in items:
        item.pop("l4b_append", None)
    suite = load_suite(write_suite(tmp_path / "part", items))
    cases = expand(suite)
    # S-C1-2: three roles x 4 levels; R2-B-1: L0 to L4a; R6-A-1: L0 to L4a
    assert len(cases) == 12 + 5 + 5
    missing = suite.missing()
    assert len(missing) == 221 + 1
    assert "R2-B-1.l4b_append" in missing
    assert "R6-A-2" in missing
    assert "S-C1-2" not in missing


# --- selection -------------------------------------------------------------------------------


@pytest.mark.parametrize(("levels", "expr", "count"), [
    ((), None, 1_038),
    (("L2",), None, 240),
    (("L0", "L4b"), None, 78),
    ((), "role=R1|R2,probe=C3", 42),
    ((), "probe=R8_B_yes_and_hook", 21),
    ((), "action=CONTINUE", 21),
    ((), "level=L1,instance=5", 48),
    ((), "case=R1-*-L2", 30),
    ((), "case=R1-C1-1-L2|R2-A-3-L1", 2),
    (("L2",), "level=L3", 0),
    ((), " role = R4 , probe = A ", 21),
])
def test_select(complete: Suite, levels, expr, count) -> None:
    assert len(select(expand(complete), levels, expr)) == count


@pytest.mark.parametrize(("expr", "message"), [
    ("rol=R1", r"unknown field 'rol'; did you mean 'role'\?"),
    ("action=LISTN", r"no case with action=LISTN; did you mean 'LISTEN'\?"),
    ("role=R9", r"no case with role=R9; did you mean 'R\d'\?"),
    ("role=R1|", r"expected a value on both sides of \|, got 'role=R1\|'"),
    ("role", r"expected field=value .*, got 'role'"),
    ("", r"expected field=value .*, got ''"),
    ("role=R1,role=R2", "expected field role once"),
    ("case=R1-C9-*", r"no case with case=R1-C9-\*; did you mean 'R1-C\d-\*'\?"),
    ("case=r1-*", r"no case with case=r1-\*"),
])
def test_select_refuses_with_the_nearest(complete: Suite, expr: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        select(expand(complete), (), expr)


def test_an_unknown_level_is_refused(complete: Suite) -> None:
    with pytest.raises(InputError, match=r"level=L4; did you mean 'L4[ab]'\?"):
        select(expand(complete), ("L4",))
