"""What a user may set as a gate, and what the refusals say."""

from __future__ import annotations

from pathlib import Path

import pytest

from audio.errors import InputError
from rig.gate.asked import MAX_GATES, Gate, check_gates, gates_of
from rig.gate.figures import Session, catalogue
from verifiers.scene import Action
from verifiers.verdict import Outcome

SESSIONS = [Session("R1-C1-1-L2", 1, Action.TAKE_TURN, "L2", "R1", Outcome.PASS, "")]
FIGURES = catalogue(SESSIONS)


def asked(*, least: tuple[str, ...] = (), most: tuple[str, ...] = (),
          drops: tuple[str, ...] = (), file: Path | None = None) -> list[Gate]:
    return gates_of({"min": least, "max": most, "max_drop": drops}, file)


def checked(**options: tuple[str, ...]) -> list[Gate]:
    found = asked(**options)
    check_gates(found, FIGURES)
    return found


def test_what_is_set_is_read() -> None:
    found = checked(least=("ias_core.L2=0.35",), most=("latency.reply.p90_ms=1500",),
                    drops=("ias_core=0.05", "by_role.R1=0"))
    assert [(g.bound, g.path, g.limit) for g in found] == [
        ("min", "ias_core.L2", 0.35), ("max", "latency.reply.p90_ms", 1500.0),
        ("max_drop", "ias_core", 0.05), ("max_drop", "by_role.R1", 0.0)]
    assert found[0].name == "min ias_core.L2 0.35"


@pytest.mark.parametrize(("options", "said"), [
    ({"least": ("x",)}, "--min: expected NAME=NUMBER, as ias_core.L2=0.35, got 'x'"),
    ({"least": ("=1",)}, "--min: expected NAME=NUMBER"),
    ({"least": ("ias_core.L2=abc",)}, "--min ias_core.L2: expected a number, got 'abc'"),
    ({"least": ("ias_core.L2=",)}, "--min ias_core.L2: expected a number, got ''"),
    ({"most": ("latency.reply.p90_ms=1_5",)}, "expected a number, got '1_5'"),
    ({"least": ("ias_core.L2=\u0660.\u0665",)}, "expected a number, got '\u0660.\u0665'"),
    ({"least": ("ias_core.L2=35%",)}, "got '35%'; did you mean 0.35?"),
    ({"least": ("ias_core.L2=nan",)}, "expected a finite number, got 'nan'"),
    ({"most": ("unscored=inf",)}, "expected a finite number, got 'inf'"),
    ({"least": ("ias_core.L2=35",)},
     "--min ias_core.L2: expected a share from 0 to 1, got 35; did you mean 0.35?"),
    ({"least": ("ias_core.L2=-0.1",)}, "expected a share from 0 to 1, got -0.1"),
    ({"least": ("ias_core.L2=101",)}, "expected a share from 0 to 1, got 101"),
    ({"drops": ("ias_core=5",)}, "got 5; did you mean 0.05?"),
    ({"most": ("unscored=2",)}, "got 2; did you mean 0.02?"),
    ({"most": ("latency.reply.p90_ms=-1",)}, "expected at least 0, got -1"),
    ({"most": ("flags.forced=0.5",)}, "expected a whole number: it counts cases, got 0.5"),
    ({"most": ("flags.forced=-1",)}, "expected at least 0, got -1"),
    ({"least": ("ias_cor.L2=0.3",)}, "got no such name; did you mean 'ias_core.L2'?"),
    ({"least": ("ias.core.L2=0.3",)}, "did you mean 'ias_core.L2'?"),
    ({"least": ("by_action.YEILD=0.3",)}, "did you mean 'by_action.YIELD'?"),
    ({"most": ("latency.reply.p90ms=3",)}, "did you mean 'latency.reply.p90_ms'?"),
    ({"most": ("flags.no_modelspeech=0",)}, "did you mean 'flags.no_model_speech'?"),
    ({"most": ("infra=0",)}, "did you mean 'infra_error'?"),
    ({"least": ("by_role.R9=1",)}, "did you mean 'by_role.R1'?"),
    ({"least": ("ias_core=0.3",)}, "expected a level behind it (ias_core.L2), got none"),
    ({"drops": ("latency.reply.p90_ms=0",)}, "expected a rate that two runs can be paired on"),
    ({"drops": ("ias_core_live.L2=0",)}, "expected a rate that two runs can be paired on"),
    ({"drops": ("ias_cor=0",)}, "did you mean 'ias_core'?"),
    ({"least": ("ias_core.L2=0.3", "ias_core.L2=0.4")},
     "--min ias_core.L2: expected one limit of ias_core.L2, got 0.4 after 0.3 (--min ias_core.L2)"),
    ({"least": ("ias_core.L2=0.3", "ias_core.L2=0.3")}, "expected one limit of ias_core.L2"),
    ({"least": ("ias_core.L2=0.5",), "most": ("ias_core.L2=0.4",)},
     "expected at most 0.4 (--max ias_core.L2), got 0.5: no value of ias_core.L2 could meet both"),
    ({}, "expected at least one gate (--min, --max, --max-drop or --gates), got none"),
])
def test_what_cannot_be_a_gate_is_one_line(options: dict[str, tuple[str, ...]],
                                           said: str) -> None:
    with pytest.raises(InputError) as caught:
        checked(**options)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_ends_of_a_range_are_in_it() -> None:
    checked(least=("ias_core.L2=1", "by_action.YIELD=0"), most=(
        "ias_core.L2=1", "unscored=0", "flags.forced=0", "latency.reply.p50_ms=0"))
    checked(least=("ias_core.L2=0.3",), most=("ias_core.L2=0.4",))


@pytest.mark.parametrize(("limit", "hint"), [
    ("-0.1", ""), ("101", ""), ("100", "; did you mean 1?"), ("1.3", ""),
    ("2", "; did you mean 0.02?")])
def test_percent_are_told_from_what_is_no_share_at_all(limit: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        checked(least=(f"ias_core.L2={limit}",))
    assert str(caught.value) == (
        f"--min ias_core.L2: expected a share from 0 to 1, got {limit}{hint}")


def test_only_so_many_gates() -> None:
    names = [f"x{k}=0" for k in range(MAX_GATES + 2)]
    assert len(asked(least=tuple(names[:MAX_GATES]))) == MAX_GATES
    for n in (1, 2):
        with pytest.raises(InputError, match=f"expected at most 1000 gates, got {MAX_GATES + n}"):
            asked(least=tuple(names[:MAX_GATES + n]))


def test_gates_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "gates.yaml"
    file.write_text("schema_version: 1\nmin:\n  ias_core.L2: 0.35\nmax: {unscored: 0}\n"
                    "max_drop:\n  ias_core: 0.05\n")
    assert [(g.bound, g.path, g.limit) for g in asked(most=("flags.forced=2",), file=file)] == [
        ("max", "flags.forced", 2.0), ("min", "ias_core.L2", 0.35), ("max", "unscored", 0.0),
        ("max_drop", "ias_core", 0.05)]


@pytest.mark.parametrize(("text", "said"), [
    ("min: {ias_core.L2: 0.3}\n", "expected key 'schema_version' in the file, got none"),
    ("schema_version: 2\n", "schema_version: expected 1, got 2"),
    ("schema_version: 1\nminn: {}\n", ":2: unknown key 'minn' in the file; did you mean 'min'?"),
    ("schema_version: 1\nmin:\n  ias_core.L2: high\n",
     ":3: min.ias_core.L2: expected a valid number, got 'high'"),
    ("schema_version: 1\nmin:\n  ias_core.L2: true\n", "expected a valid number, got True"),
    ("schema_version: 1\nmin:\n  ias_core.L2: .nan\n", "expected a finite number, got nan"),
    ("schema_version: 1\nmin:\n  ias_core.L2: 0.3\n  ias_core.L2: 0.4\n",
     ":4: expected key 'ias_core.L2' once, got it again (first on line 3)"),
    ("schema_version: 1\nmin: [1]\n", "min: expected"),
    ("schema_version: 1\nmin: &a {unscored: 0}\nmax: *a\n", "aliases are not allowed"),
    ("schema_version: 1\nmin: !!python/object:os.system {}\n", "expected text, a number"),
    ("schema_version: 1\n", "expected at least one gate"),
    ("", "expected a YAML mapping, got an empty file"),
])
def test_a_file_that_is_none_is_one_line(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "gates.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        asked(file=file)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_gate_of_the_file_and_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "gates.yaml"
    file.write_text("schema_version: 1\nmin:\n  ias_core.L2: 0.35\n")
    with pytest.raises(InputError, match=r"gates.yaml:3: min ias_core.L2: expected one limit of "
                       r"ias_core.L2, got 0.35 after 0.4 \(--min ias_core.L2\)"):
        asked(least=("ias_core.L2=0.4",), file=file)


def test_a_wrong_limit_of_a_file_names_its_line(tmp_path: Path) -> None:
    file = tmp_path / "gates.yaml"
    file.write_text("schema_version: 1\nmin:\n  ias_core.L2: 35\n")
    with pytest.raises(InputError, match=r"gates.yaml:3: min ias_core.L2: expected a share"):
        check_gates(asked(file=file), FIGURES)
