"""From answers to figures: keys and answers whose figures are known beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from validation_kit import validation_key

from rig.validation.agreeing import agree, majority, plain
from rig.validation.answers import Answer, Returned
from rig.validation.figures import Bootstrap
from rig.validation.key import JudgeSaid, Key
from rig.validation.text import as_csv

BOOT = Bootstrap(draws=200)


def _returned(key: Key, answers: Sequence[Sequence[dict[str, Any] | None]]) -> list[Returned]:
    """Answers by annotator, then by item; `None` is none."""
    return [Returned(f"A{k}", tuple(
        Answer(item.item_id, f"A{k}", values)
        for item, values in zip(key.items, given, strict=True) if values is not None), 0,
        sum(v is None for v in given)) for k, given in enumerate(answers, start=1)]


def _figures(key: Key, answers: Sequence[Sequence[dict[str, Any] | None]]) -> dict[str, Any]:
    found = agree(key, _returned(key, answers), BOOT)["figures"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(("values", "found"), [
    (["yes", "yes", "no"], "yes"), (["yes", "no"], None), ([], None), (["a", "b", "c"], None),
    (["no"], "no"), (["a", "a", "b", "c"], None)])
def test_a_majority_is_more_than_half(values: list[str], found: str | None) -> None:
    assert majority(values) == found


def test_h1_counts_answers_that_name_the_target() -> None:
    key = validation_key("h1", 4, action=("YIELD", "YIELD", "LISTEN", "LISTEN"),
                         role=("R1", "R2", "R1", "R2"))

    def said(action: str, confidence: str, at: float) -> dict[str, Any]:
        return {"action": action, "confidence": confidence, "earliest_s": at, "latest_s": at + 1}

    f = _figures(key, [
        [said("YIELD", "3", 0), said("YIELD", "3", 1), said("LISTEN", "1", 0),
         said("BACKCHANNEL", "1", 0)],
        [said("YIELD", "3", 2), said("CONTINUE", "1", 9), said("LISTEN", "3", 0),
         said("LISTEN", "2", 0)]])
    target = f["target_agreement"]
    assert target["all"].value == 6 / 8
    assert target["by_role"]["R1"].value == 1
    assert target["by_role"]["R2"].value == 2 / 4
    assert target["by_action"]["YIELD"].value == 3 / 4
    assert target["by_confidence"]["3"].value == 1
    assert target["by_confidence"]["1"].value == pytest.approx(1 / 3)
    # By hand: two of four items agree; shares 3, 3, 1, 1 of 8: (9 + 9 + 1 + 1) / 64 = 0.3125.
    assert f["fleiss_kappa"]["all"].value == pytest.approx((0.5 - 0.3125) / (1 - 0.3125))
    assert f["answered_by_all"] == 4
    assert f["chosen"]["YIELD"] == {"YIELD": 3, "CONTINUE": 1}
    assert f["timing"]["YIELD"] == {"n": 3, "earliest_s": 1, "latest_s": 2, "reason": None}


def test_h1_fleiss_kappa_leaves_out_what_not_all_answered() -> None:
    key = validation_key("h1", 3)
    one = {"action": "YIELD", "confidence": "3", "earliest_s": 0, "latest_s": 1}
    two = {"action": "LISTEN", "confidence": "3"}
    f = _figures(key, [[one, two, one], [one, two, None]])
    assert f["answered_by_all"] == 2
    assert f["fleiss_kappa"]["all"].n == 2
    assert f["fleiss_kappa"]["all"].value == 1
    assert f["target_agreement"]["all"].n == 3


def test_h2_takes_the_majority_for_the_truth() -> None:
    key = validation_key("h2", 6, verdict=("pass", "pass", "pass", "fail", "fail", "fail"),
                         near=(True, True, False, False, False, None))
    yes, no = {"met": "yes", "functional": "yes"}, {"met": "no", "functional": "no_speech"}
    odd = {"met": "yes", "functional": "no"}
    # Majority: yes, no, yes, no, no, no.
    f = _figures(key, [[yes, no, odd, no, no, no], [yes, no, odd, no, no, no],
                       [no, yes, yes, no, yes, no]])
    every = f["all"]
    assert every["precision"].value == pytest.approx(2 / 3)
    assert every["recall"].value == 1
    assert every["f1"].value == pytest.approx(0.8)
    assert every["accuracy"].value == pytest.approx(5 / 6)
    assert every["kappa"].value == pytest.approx((5 / 6 - 1 / 2) / (1 / 2))
    assert (every["items"], every["no_majority"]) == (6, 0)
    assert f["near"]["accuracy"].value == 0.5
    assert f["near"]["items"] == 2
    assert f["away"]["accuracy"].value == 1
    assert f["away"]["items"] == 3
    assert every["functional"].value == 0.5  # item 1 yes, item 3 no; the rest say nothing
    assert every["functional_by_verdict"]["pass"] == {"yes": 1, "no_speech": 1, "no": 1}
    assert f["by_action"]["TAKE_TURN"]["accuracy"].n == 6


def test_h2_a_tie_is_no_majority_and_no_variance_is_no_kappa() -> None:
    key = validation_key("h2", 2, verdict=("pass", "pass"))
    yes, no = {"met": "yes", "functional": "yes"}, {"met": "no", "functional": "yes"}
    f = _figures(key, [[yes, yes], [yes, no]])["all"]
    assert f["no_majority"] == 1
    assert f["accuracy"].n == 1
    assert f["kappa"].value is None
    assert "no variance" in f["kappa"].reason


def test_h3_takes_the_mean_of_annotators() -> None:
    def judged(pas: int, label: str | None) -> dict[str, JudgeSaid]:
        return {"j": JudgeSaid(pas=pas, register_fit=3, content_fit=2, conflict=label)}  # type: ignore[arg-type]

    key = validation_key("h3", 4, judges=(judged(10, None), judged(30, "balanced"),
                                          judged(50, "persona-wins"), judged(90, "balanced")))

    def said(pas: int, label: str | None = None) -> dict[str, Any]:
        return {"register": "3", "content": "2", "pas": pas} | (
            {"conflict": label} if label else {})

    f = _figures(key, [
        [said(0), said(20, "balanced"), said(60, "persona-wins"), said(80, "balanced")],
        [said(20), said(40, "balanced"), said(60, "persona-wins"), said(100, "persona-wins")],
        [said(10), said(30, "incoherent"), said(60, "persona-wins"), said(90, "persona-wins")]])
    one = f["judges"]["j"]
    assert one["pas"]["mae"].value == pytest.approx(10 / 4)  # means 10, 30, 60, 90
    assert one["pas"]["mean_difference"].value == pytest.approx(-10 / 4)
    assert one["pas"]["spearman"].value == pytest.approx(1)
    assert one["register"]["mae"].value == 0
    assert one["register"]["pearson"].value is None
    # Majority: balanced, persona-wins, persona-wins; the judge: balanced, persona-wins, balanced.
    assert one["conflict"]["accuracy"].value == pytest.approx(2 / 3)
    assert one["conflict"]["macro_f1"].value == pytest.approx(2 / 3)
    assert one["conflict"]["kappa"].value == pytest.approx((2 / 3 - 4 / 9) / (1 - 4 / 9))
    assert f["human"]["conflict_kappa"].n == 3
    assert f["human"]["pas_pairs"]["mae"].value == pytest.approx((15 + 7.5 + 7.5) / 3)


def test_audit_counts_by_system_and_takes_the_worse_middle() -> None:
    key = validation_key("audit", 4, system=("a", "a", "a", "b"))
    good, minor, major = ({"fidelity": f} for f in ("faithful", "minor", "major"))
    f = _figures(key, [[good, minor, good, major], [good, good, good, None]])
    assert f["by_system"]["a"]["faithful"].value == pytest.approx(2 / 3)
    assert f["by_system"]["a"]["minor"].value == pytest.approx(1 / 3)
    assert f["by_system"]["b"]["major"].value == 1
    low, high = f["by_system"]["a"]["major"].interval
    assert low == 0
    assert high == pytest.approx(3.8415 / (3 + 3.8415), abs=1e-4)  # Wilson: z²/(n + z²)
    assert f["human_kappa"].n == 3


def test_what_is_missing_is_said() -> None:
    key = validation_key("audit", 2)
    found = agree(key, _returned(key, [[{"fidelity": "minor"}, None]]), BOOT)
    assert not found["complete"]
    assert found["not_given_back"] == ["A2", "A3"]
    assert found["annotators"] == [
        {"annotator": "A1", "complete": 1, "partial": 0, "unanswered": 1}]
    assert found["figures"]["all"]["unanswered"] == 1


def test_undefined_figures_are_null_and_empty_never_zero() -> None:
    key = validation_key("h2", 2)
    found = agree(key, [], BOOT)
    told = plain(found)["figures"]["all"]["kappa"]
    assert told == {"value": None, "n": 0, "interval": None, "reason": "no item"}
    row = next(r for r in as_csv(found).splitlines() if r.startswith("all.kappa,"))
    assert row == "all.kappa,,,,0,no item"
