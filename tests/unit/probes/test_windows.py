"""Every window of the benchmark with hand-computed numbers (24,000 samples a second)."""

from __future__ import annotations

import pytest

from probes.loader import load_suite
from probes.manifest import WindowSpec
from probes.spec import ScoringRule
from probes.windows import edge_s, place

SUITE = load_suite("dsb-ifeval")


def w(start_s: float, end_s: float) -> WindowSpec:
    return WindowSpec(start_s=start_s, end_s=end_s)


# opening 6 s, pause d, resumption 5 s
def paused(pause_n: int, names: tuple[str, str] = ("opening", "resumption")) -> tuple[
        dict[str, tuple[int, int]], int]:
    end_n = 144_000 + pause_n + 120_000
    return {names[0]: (0, 144_000), "pause": (144_000, 144_000 + pause_n),
            names[1]: (144_000 + pause_n, end_n)}, end_n


# lead 4 s, join 0.2 s, trigger 2 s, join 0.2 s, continuation 6 s
TRIGGERED = ({"lead": (0, 96_000), "join1": (96_000, 100_800), "trigger": (100_800, 148_800),
              "join2": (148_800, 153_600), "continuation": (153_600, 297_600)}, 297_600)
# 3 s, gap 1.2, 2.5 s, gap 1.2, 3.5 s
DICTATED = ({"chunk1": (0, 72_000), "gap1": (72_000, 100_800), "chunk2": (100_800, 160_800),
             "gap2": (160_800, 189_600), "chunk3": (189_600, 273_600)}, 273_600)
# lead 5 s, join 0.2, check 1 s, pause, resumption 5 s
def checked(name: str, pause_n: int) -> tuple[dict[str, tuple[int, int]], int]:
    at_n = 120_000 + 4_800 + 24_000
    return {"lead": (0, 120_000), "join1": (120_000, 124_800), name: (124_800, at_n),
            "pause": (at_n, at_n + pause_n),
            "resumption": (at_n + pause_n, at_n + pause_n + 120_000)}, at_n + pause_n + 120_000


def one(name: str, n: int) -> tuple[dict[str, tuple[int, int]], int]:
    return {name: (0, n)}, n


@pytest.mark.parametrize(("role", "label", "action", "turn", "window", "offset_s", "readback_s"), [
    ("R2", "C1", "LISTEN", paused(60_000), w(6.0, 8.5), 13.5, None),
    ("R1", "C1", "TAKE_TURN", paused(60_000), w(6.0, 8.5), 13.5, None),
    ("R2", "C2", "LISTEN", DICTATED, w(3.0, 7.9), 11.4, None),
    ("R8", "C2", "TAKE_TURN", DICTATED, w(3.0, 21.4), 11.4, None),
    ("R1", "C2", "READBACK", DICTATED, w(0.0, 21.4), 11.4, 0.0),
    ("R1", "C3", "YIELD", one("barge_in", 96_000), w(0.0, 3.0), 4.0, None),
    ("R7", "C3", "CONTINUE", one("barge_in", 60_000), w(0.0, 3.0), 2.5, None),
    ("R8", "C3", "ACCEPT_OVERLAP", one("barge_in", 96_000), w(0.0, 3.0), 4.0, None),
    ("R1", "C4", "BACKCHANNEL", checked("check", 36_000), w(6.2, 7.7), 12.7, None),
    ("R4", "C4", "NO_BACKCHANNEL", checked("check", 36_000), w(6.2, 7.7), 12.7, None),
    ("R1", "A", "INTERRUPT", TRIGGERED, w(6.2, 12.4), 12.4, None),
    ("R1", "B", "INTERRUPT", TRIGGERED, w(6.2, 12.4), 12.4, None),
    ("R2", "A", "LISTEN", paused(168_000), w(6.0, 13.0), 18.0, None),
    ("R2", "B", "BACKCHANNEL", checked("question", 48_000), w(6.2, 8.2), 13.2, None),
    ("R3", "A", "INTERRUPT", TRIGGERED, w(6.2, 12.4), 12.4, None),
    ("R3", "B", "TAKE_TURN", one("statement", 156_000), w(6.5, 16.5), 6.5, None),
    ("R4", "A", "LISTEN", paused(264_000), w(6.0, 17.0), 22.0, None),
    ("R4", "B", "TAKE_TURN", one("question", 84_000), w(3.5, 13.5), 3.5, None),
    ("R5", "A", "INTERRUPT", TRIGGERED, w(6.2, 12.4), 12.4, None),
    ("R5", "B", "LISTEN", paused(144_000), w(6.0, 12.0), 17.0, None),
    ("R6", "A", "INTERRUPT", TRIGGERED, w(6.2, 12.4), 12.4, None),
    ("R6", "B", "READBACK", ({"order": (0, 144_000), "join1": (144_000, 148_800),
                              "change": (148_800, 220_800)}, 220_800), w(9.2, 19.2), 9.2, 9.2),
    ("R7", "A", "LISTEN", paused(72_000, ("clause_open", "clause_close")), w(6.0, 14.0), 14.0,
     None),
    ("R7", "B", "LISTEN", ({"figure": (0, 96_000), "join1": (96_000, 100_800),
                            "clauses": (100_800, 220_800), "join2": (220_800, 225_600),
                            "correction": (225_600, 297_600)}, 297_600), w(12.4, 22.4), 12.4,
     None),
    ("R8", "A", "TAKE_TURN", one("premise", 156_000), w(6.5, 16.5), 6.5, None),
    ("R8", "B", "ACCEPT_OVERLAP", one("hook", 72_000), w(0.0, 3.0), 3.0, None),
])
def test_window_of_each_probe_and_action(role, label, action, turn, window, offset_s,
                                         readback_s) -> None:
    structure = SUITE.probe_of(role, label)
    placed = place(structure.scoring[action], *turn)
    assert placed.window == window
    assert placed.user_offset_s == offset_s
    assert placed.readback_from_s == readback_s
    # the hand-made turn has exactly the structure's segments
    assert {s.name for s in structure.segments} == {n for n in turn[0] if "join" not in n}


def test_every_rule_of_the_suite_is_in_the_table_above() -> None:
    rules = {(p.id, action) for p in SUITE.probes for action in p.scoring}
    table = test_window_of_each_probe_and_action.pytestmark[0].args[1]
    assert rules == {(SUITE.probe_of(row[0], row[1]).id, row[2]) for row in table}


def test_dictation_taken_by_the_improv_partner_has_a_second_window_from_the_offset() -> None:
    placed = place(SUITE.probe_of("R8", "C2").scoring["TAKE_TURN"], *DICTATED)
    assert placed.alternate_windows == {"from_user_offset": w(11.4, 21.4)}


def test_number_correction_has_a_window_during_turn_2() -> None:
    placed = place(SUITE.probe_of("R7", "B").scoring["LISTEN"],
                   {"figure": (0, 96_000), "clauses": (96_000, 192_000),
                    "correction": (192_000, 240_000)}, 240_000)
    assert placed.window == w(10.0, 20.0)
    assert placed.alternate_windows == {"during_turn2": w(0.0, 10.0)}


def test_l4b_variant_of_are_you_there_moves_the_window_to_the_disclosure() -> None:
    positions, end_n = checked("question", 48_000)  # ends at 13.2 s
    assert end_n == 316_800
    positions = {**positions, "join2": (316_800, 321_600), "l4b_trigger": (321_600, 381_600),
                 "join3": (381_600, 386_400), "l4b_continuation": (386_400, 518_400)}
    variant = SUITE.probe_of("R2", "B").l4b_variant
    placed = place(variant.scoring, positions, 518_400)
    assert placed.window == w(15.9, 21.6)
    assert placed.alternate_windows == {"interrupt_reading": w(15.9, 21.6),
                                        "question_pause": w(6.2, 8.2)}
    assert placed.user_offset_s == 21.6


def test_an_edge_off_the_sample_grid_of_milliseconds_is_exact() -> None:
    # 100,001 samples / 24,000 = 4.166708333... s
    assert edge_s("lead.end", {"lead": (0, 100_001)}, 200_000) == 100_001 / 24_000
    assert edge_s("turn2.end + 10.0", {}, 48_000) == 12.0


@pytest.mark.parametrize(("edge", "message"), [
    ("tail.end", "names no segment"),
    ("lead.middle", "expected an edge like"),
    ("lead.end - 1.0", "expected an edge like"),
])
def test_bad_edges_are_refused(edge: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        edge_s(edge, {"lead": (0, 10)}, 10)


def test_an_empty_window_is_refused_not_repaired() -> None:
    rule = ScoringRule(start="lead.end", end="lead.end")
    with pytest.raises(ValueError, match="expected a start before its end"):
        place(rule, {"lead": (0, 10)}, 10)
