"""The trials of a comparison in text, spreadsheet and LaTeX: figures counted by hand."""

from __future__ import annotations

import csv

import pytest

from rig.comparison_text import as_csv, as_latex, print_comparison
from rig.console import Output
from sweeps.comparison import System, compare
from sweeps.effects import Case
from verifiers.scene import Action
from verifiers.verdict import Outcome


def trials(name: str, **passed: str) -> System:
    """A conversation each, a letter a trial: p passed, f failed, u unscored."""
    outcomes = {"p": Outcome.PASS, "f": Outcome.FAIL, "u": Outcome.UNSCORED}
    return System(name, tuple(
        Case(conversation=c, stream=c, role="R1", probe="A", level="L2", action=Action.LISTEN,
             trial=k, outcome=outcomes[letter])
        for c, letters in passed.items() for k, letter in enumerate(letters, 1)))


def printed(systems: list[System], capsys: pytest.CaptureFixture[str]) -> str:
    print_comparison(Output(as_json=False), compare(systems, draws_n=1_000))
    return " ".join(capsys.readouterr().out.split())


def rows(systems: list[System]) -> dict[str, dict[str, str]]:
    text = as_csv(compare(systems, draws_n=1_000))
    return {row["name"]: row for row in csv.DictReader(text.splitlines())
            if row["kind"] == "trials"}


# Within: 2/3 in six degrees of freedom. Between: mean squares 7/9 less 1/9, by three trials.
THREE = trials("a", x="ppp", y="pff", z="fff")


def test_trials_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    said = printed([THREE], capsys)
    assert ("trials, all levels but L4a: 1 of 3 cases have both verdicts; variance of a verdict "
            "within cases 0.1111, between cases 0.2222; pass^1 44.4, pass^2 33.3, pass^3 33.3"
            in said)


def test_trials_in_a_spreadsheet() -> None:
    found = rows([THREE])
    assert list(found) == ["unstable", "variance_within", "variance_between", "pass^1", "pass^2",
                           "pass^3"]
    assert [float(row["value"]) for row in found.values()] == pytest.approx(
        [1, 1 / 9, 2 / 9, 4 / 9, 1 / 3, 1 / 3])
    assert [row["n"] for row in found.values()] == ["3", "3", "3", "", "", ""]
    assert {(row["system"], row["rate"]) for row in found.values()} == {("a", "")}


def test_trials_in_latex() -> None:
    once = trials("once", x="p", y="f")
    tables = as_latex(compare([THREE, once], draws_n=1_000)).split(r"\begin{tabular}")[1:]
    assert len(tables) == 3
    lines = tables[2].splitlines()
    assert lines[2] == ("System & Cases & Both verdicts & Variance within & between & "
                        r"pass\textasciicircum{}1 & pass\textasciicircum{}2 & "
                        r"pass\textasciicircum{}3 \\")
    assert lines[4:6] == [r"a & 3 & 1 & 0.1111 & 0.2222 & 44.4 & 33.3 & 33.3 \\",
                          r"\bottomrule"]
    assert as_latex(compare([once], draws_n=1_000)).count(r"\begin{tabular}") == 2


def test_what_trials_do_not_tell_is_not_made_up(capsys: pytest.CaptureFixture[str]) -> None:
    """One case that was scored twice has nothing between cases; none that was, no variance."""
    one = trials("a", x="pf", y="pu")
    assert "1 of 1 cases have both verdicts; variance of a verdict within cases 0.5000, between " \
        "cases -; pass^1 75.0, pass^2 0.0" in printed([one], capsys)
    assert rows([one])["variance_between"]["value"] == ""
    # No case was scored twice: nothing is told of trials.
    for never in (trials("a", x="pu", y="fu"), trials("a", x="p")):
        assert "trials, all levels" not in printed([never], capsys)
        assert rows([never]) == {}
