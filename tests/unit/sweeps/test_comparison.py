"""The whole comparison on a made-up set of systems whose figures are known."""

from __future__ import annotations

import json

import pytest

from sweeps.comparison import System, adjust, compare
from sweeps.effects import Case
from verifiers.scene import Action
from verifiers.verdict import Outcome


def system(name: str, rates: dict[str, int], *, n: int = 40, floor: bool = False,
           trials: int = 1) -> System:
    """Passes the first `rates[level]` of `n` conversations at each level, in every trial."""
    cases = tuple(
        Case(f"R1-A-{k}", f"S{k}", "R1", "A", level, Action.LISTEN, trial,
             Outcome.PASS if k < passed else Outcome.FAIL)
        for level, passed in rates.items() for k in range(n) for trial in range(1, trials + 1))
    return System(name, cases, floor)


def test_known_effects_are_found_and_noise_is_not() -> None:
    found = compare([system("big", {"L1": 30, "L2": 10, "L3": 10}),
                     system("none", {"L1": 20, "L2": 20, "L3": 20}),
                     system("floor", {"L1": 0, "L2": 0, "L3": 0}, floor=True)], draws_n=1_000)
    big = found["systems"]["big"]["effects"]["core"]
    assert big["entailment_gap"]["difference"] == pytest.approx(0.5)
    assert big["entailment_gap"]["p_mcnemar"] == pytest.approx(2 / 2**20)
    # Two systems under test, three effects each: the family is six.
    assert big["entailment_gap"]["family"] == 6
    assert big["entailment_gap"]["p_holm"] == pytest.approx(6 * 2 / 2**20)
    assert [e["verdict"] for e in big.values()] == ["resolved", "not resolved", "resolved"]
    none = found["systems"]["none"]["effects"]["core"]
    assert {e["verdict"] for e in none.values()} == {"not resolved"}
    # Nothing is claimed of a floor, and it is in no pair.
    floor = found["systems"]["floor"]["effects"]["core"].values()
    assert {(e["p_holm"], e["verdict"]) for e in floor} == {(None, "not adjusted")}
    # Nor of what is for looking, however small its p.
    by_role = [e for es in found["systems"]["big"]["effects_by_role"].values() for e in es.values()]
    assert min(e["p_clustered"] for e in by_role) < 0.001
    assert {e["verdict"] for e in by_role} == {"not adjusted"}
    assert {(p["first"], p["second"]) for p in found["pairs"]} == {("big", "none")}
    levels = {p["level"]: p for p in found["pairs"] if p["pool"] == "core"}
    assert levels["L1"]["difference"] == pytest.approx(0.25)
    assert levels["L1"]["family"] == 3
    zero = found["systems"]["floor"]["ias"]["core"]["L1"]
    assert zero["upper_bound_of_zero"] == pytest.approx(1 - 0.05 ** (1 / 40))
    json.dumps(found, allow_nan=False)


def test_repeating_a_deterministic_system_resolves_nothing_more() -> None:
    once = compare([system("a", {"L1": 4, "L2": 0, "L3": 0})], draws_n=1_000)
    often = compare([system("a", {"L1": 4, "L2": 0, "L3": 0}, trials=5)], draws_n=1_000)
    first, again = (d["systems"]["a"]["effects"]["core"]["entailment_gap"] for d in (once, often))
    assert again["p_mcnemar"] < 0.001 < first["p_mcnemar"]
    assert again["p_clustered"] == first["p_clustered"] == 0.125
    assert again["verdict"] == first["verdict"] == "not resolved"
    assert again["interval"] == pytest.approx(first["interval"])
    repeated = often["systems"]["a"]["repeated"]
    assert repeated["unstable"] == 0
    assert set(repeated["pass_hat"]) == {"1", "2", "3", "4", "5"}
    assert repeated["pass_hat"]["1"] == repeated["pass_hat"]["5"]
    assert once["systems"]["a"]["repeated"] is None


def test_trials_pool_nothing_over_l4a() -> None:
    plain = compare([system("a", {"L1": 4, "L2": 3}, trials=2)], draws_n=1_000)
    more = compare([system("a", {"L1": 4, "L2": 3, "L4a": 0}, trials=2)], draws_n=1_000)
    assert more["systems"]["a"]["repeated"] == plain["systems"]["a"]["repeated"]
    alone = compare([system("a", {"L4a": 3}, trials=2)], draws_n=1_000)["systems"]["a"]
    assert alone["trials"] == 2
    assert alone["repeated"]["pass_hat"] == {"1": None, "2": None}


def test_matched_audio_compares_roles_on_the_same_stream() -> None:
    cases = tuple(Case(f"{role}-C1-{k}", f"S-C1-{k}", role, "C1", "L2", Action.TAKE_TURN, 1,
                       Outcome.PASS if role == "R1" else Outcome.FAIL)
                  for role in ("R1", "R2") for k in range(8))
    alone = Case("R3-A-1", "R3-A-1", "R3", "A", "L2", Action.LISTEN, 1, Outcome.PASS)
    found = compare([System("a", (*cases, alone))], draws_n=1_000)["systems"]["a"]["matched_audio"]
    assert found["streams"] == 8
    assert set(found["by_role"]) == {"R1", "R2"}
    assert found["pairs"]["R1-R2"]["difference"] == 1.0
    assert found["pairs"]["R1-R2"]["p_clustered"] == pytest.approx(2 / 2**8)


def test_l4a_is_in_no_pool_and_missing_levels_are_no_numbers() -> None:
    found = compare([system("a", {"L1": 10, "L4a": 5})], draws_n=1_000)["systems"]["a"]
    assert found["by_role"]["R1"]["n"] == 40
    gap = found["effects"]["all"]["entailment_gap"]
    assert (gap["n"], gap["one_sided"], gap["difference"]) == (0, 40, None)
    assert gap["verdict"] == "no common cases"


def test_names_are_told_apart() -> None:
    with pytest.raises(ValueError, match="different names"):
        compare([system("a", {"L1": 1}), system("a", {"L1": 1})])


@pytest.mark.parametrize(("p", "said"), [
    (0.049, "resolved"), (0.05, "not resolved"), (0.051, "not resolved")])
def test_words_come_from_the_adjusted_p(p: float, said: str) -> None:
    entry = {"p_clustered": p, "p_holm": None, "verdict": "not adjusted"}
    adjust([entry])
    assert (entry["p_holm"], entry["verdict"]) == (p, said)


def test_cases_are_counted_by_what_became_of_them() -> None:
    outcomes = [Outcome.PASS, Outcome.FAIL, Outcome.FAIL, Outcome.UNSCORED, *[
        Outcome.UNSUPPORTED] * 3]
    cases = tuple(Case(f"R1-A-{k}", f"S{k}", "R1", "A", "L2", Action.LISTEN, 1, outcome)
                  for k, outcome in enumerate(outcomes))
    found = compare([System("a", cases)], draws_n=100)["systems"]["a"]
    assert (found["cases"], found["verdicts"], found["unscored"], found["unsupported"],
            found["levels"]) == (7, 3, 1, 3, ["L2"])


def test_flips_of_two_systems_are_named_but_on_l4a() -> None:
    found = compare([system("a", {"L1": 2, "L4a": 5}), system("b", {"L1": 0, "L4a": 0})],
                    draws_n=100)["flips"]
    assert [(f["name"], f["conversation"], f["passed"]) for f in found if f["kind"] == "pair"] == [
        ("L1", "R1-A-0", "a"), ("L1", "R1-A-1", "a")]
