"""Figures of agreement against published tables, and intervals against the same figure drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn import metrics

from audio.errors import RigError
from rig.validation import figures
from rig.validation.figures import (
    Bootstrap,
    binary,
    cohen_kappa,
    fleiss_category,
    fleiss_kappa,
    macro_f1,
    on_scale,
    pooled_share,
    share,
)
from sweeps import agreement

BOOT = Bootstrap(draws=400)
_ROWS = """
    00060 03003 01401 00006 03030 20400 00402 20310 20040 00006 10050 11040 03300 10050 02031
    00501 30012 51000 02040 10203 00006 01050 02013 20040 10041 05010 40002 02040 10500 00006"""
DIAGNOSES = [[int(count) for count in row] for row in _ROWS.split()]
"""Fleiss (1971), table 1: 30 patients, six psychiatrists, five diagnoses."""
FOURTEEN = [[0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
            [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7]]
"""A worked example often printed with kappa 0.210: ten items, fourteen raters."""
TWO = ((75, 1, 4), (5, 4, 1), (0, 0, 10))
"""Fleiss, Levin and Paik (2003), table 18.1: kappa 0.68 (0.676)."""


def _pairs(table: tuple[tuple[int, ...], ...]) -> tuple[list[str], list[str]]:
    pairs = [(str(i), str(j)) for i, row in enumerate(table) for j, n in enumerate(row)
             for _ in range(n)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def test_fleiss_kappa_of_published_tables() -> None:
    found = fleiss_kappa(DIAGNOSES, BOOT)
    assert found.value == pytest.approx(0.430, abs=5e-4)
    assert found.n == 30
    assert found.interval is not None
    assert found.interval[0] < 0.430 < found.interval[1]
    assert fleiss_kappa(FOURTEEN, BOOT).value == pytest.approx(0.210, abs=5e-4)


def test_fleiss_kappa_of_single_categories_as_published() -> None:
    assert [fleiss_category(DIAGNOSES, k).value for k in range(5)] == pytest.approx(
        [0.245, 0.245, 0.520, 0.471, 0.566], abs=5e-4)


def test_fleiss_kappa_as_statsmodels_has_it() -> None:
    raters = pytest.importorskip("statsmodels.stats.inter_rater")
    rng = np.random.default_rng(3)
    for _ in range(20):
        table = rng.multinomial(5, [0.5, 0.3, 0.1, 0.1], size=25)
        assert fleiss_kappa(table.tolist(), BOOT).value == pytest.approx(
            raters.fleiss_kappa(table))


def test_fleiss_kappa_with_unequal_raters_is_refused() -> None:
    with pytest.raises(ValueError, match="as many raters"):
        fleiss_kappa([[2, 1], [2, 2]], BOOT)


@pytest.mark.parametrize(("table", "why"), [
    ([], "no item"), ([[1, 0], [0, 1]], "two annotators"), ([[3, 0], [3, 0]], "no variance")])
def test_fleiss_kappa_that_is_not_defined(table: list[list[int]], why: str) -> None:
    found = fleiss_kappa(table, BOOT)
    assert found.value is None
    assert why in str(found.reason)


@pytest.mark.parametrize(("table", "category", "why"), [
    ([], 0, "no item"), ([[1, 0]], 0, "two annotators"), ([[2, 0], [2, 0]], 1, "nobody"),
    ([[2, 0], [2, 0]], 0, "all gave")])
def test_a_category_without_variance_has_none(table: list[list[int]], category: int,
                                              why: str) -> None:
    found = fleiss_category(table, category)
    assert found.value is None
    assert why in str(found.reason)


def test_cohen_kappa_of_a_published_table() -> None:
    first, second = _pairs(TWO)
    found = cohen_kappa(first, second, BOOT)
    assert found.value == pytest.approx(0.676, abs=5e-4)
    assert found.n == 100
    assert found.interval is not None
    assert found.interval[0] < 0.676 < found.interval[1]


def test_cohen_kappa_without_variance_or_items() -> None:
    assert cohen_kappa(["yes"] * 4, ["yes"] * 4, BOOT).value is None
    assert "no variance" in str(cohen_kappa(["yes"] * 4, ["yes"] * 4, BOOT).reason)
    assert cohen_kappa([], [], BOOT).reason == "no item"
    # One side alone constant: chance explains all, and that is 0 and not "unknown".
    assert cohen_kappa(["yes", "no"], ["yes", "yes"], BOOT).value == pytest.approx(0.0)


def test_precision_recall_and_f1_of_known_counts() -> None:
    truth = ["yes"] * 8 + ["no"] * 2 + ["yes"] * 4 + ["no"] * 26
    found = ["yes"] * 10 + ["no"] * 30
    figs = binary(truth, found, "yes", BOOT)
    assert (figs["precision"].value, figs["precision"].n) == (0.8, 10)
    assert (figs["recall"].value, figs["recall"].n) == (pytest.approx(8 / 12), 12)
    assert figs["f1"].value == pytest.approx(16 / 22)
    assert figs["precision"].interval == share(8, 10).interval
    assert figures.accuracy(truth, found).value == pytest.approx(34 / 40)


def test_precision_and_recall_that_are_not_defined() -> None:
    figs = binary(["yes", "no"], ["no", "no"], "yes", BOOT)
    assert figs["precision"].value is None
    assert figs["precision"].reason == "nothing was called 'yes'"
    assert figs["recall"].value == 0
    assert figs["f1"].value == 0
    assert binary(["yes"], ["yes"], "yes", BOOT)["recall"].value == 1
    assert binary(["no"], ["yes"], "yes", BOOT)["recall"].reason == "nothing is 'yes'"
    assert binary(["no"], ["no"], "yes", BOOT)["f1"].reason == "neither side says 'yes'"
    assert {f.reason for f in binary([], [], "yes", BOOT).values()} == {"no item"}


def test_figures_are_those_of_rig_judge() -> None:
    """`rig judge` has figures of its own, for the default install: they must be the same."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        x, y = (rng.integers(0, 40, 25).tolist() for _ in range(2))
        p, q = ([f"l{k % 4}" for k in values] for values in (x, y))
        found = on_scale(x, y, BOOT)
        for name, other in (("pearson", agreement.pearson(x, y)),
                            ("spearman", agreement.spearman(x, y)),
                            ("mae", agreement.mean_absolute_error(x, y)),
                            ("mean_difference", agreement.mean_difference(x, y))):
            assert found[name].value == pytest.approx(other.value)
        assert cohen_kappa(p, q, BOOT).value == pytest.approx(agreement.cohen_kappa(p, q).value)
        assert macro_f1(p, q, BOOT).value == pytest.approx(agreement.macro_f1(p, q).value)
        assert figures.accuracy(p, q).value == pytest.approx(agreement.accuracy(p, q).value)


def test_correlations_of_known_values() -> None:
    # Spearman by hand: ranks 1..5 against 2 1 4 3 5, 1 - 6*4/(5*24) = 0.8.
    found = on_scale([1, 2, 3, 4, 5], [2, 1, 4, 3, 50], BOOT)
    assert found["spearman"].value == pytest.approx(0.8)
    assert found["mae"].value == pytest.approx(49 / 5)
    assert found["mean_difference"].value == pytest.approx(9.0)


@pytest.mark.parametrize(("x", "y", "why"), [
    ([], [], "no item"), ([1], [2], "two items"), ([1, 2], [3, 3], "no variance"),
    ([4, 4], [3, 1], "no variance")])
def test_correlations_that_are_not_defined(x: list[float], y: list[float], why: str) -> None:
    found = on_scale(x, y, BOOT)
    for name in ("pearson", "spearman"):
        assert found[name].value is None
        assert why in str(found[name].reason)
    assert (found["mae"].value is None) == (not x)


def test_each_draw_is_the_figure_of_the_drawn_items() -> None:
    rng = np.random.default_rng(11)
    truth, found = (rng.choice(["a", "b", "c"], 30).tolist() for _ in range(2))
    at = rng.integers(0, 30, size=(50, 30))
    table = figures._confusion(truth, found, at)
    for k, row in enumerate(at):
        t, f = [truth[i] for i in row], [found[i] for i in row]
        assert figures._kappa(table)[k] == pytest.approx(metrics.cohen_kappa_score(t, f))
        assert figures._f1(table, "b", ["a", "b", "c"])[k] == pytest.approx(
            metrics.f1_score(t, f, labels=["b"], average="macro"))


def test_an_interval_needs_draws_that_define_the_figure() -> None:
    boot = Bootstrap(draws=1000)
    just = np.r_[np.full(50, np.nan), np.linspace(0, 1, 950)]
    assert boot.interval(9, lambda _: just)[0] == pytest.approx((0.025, 0.975))
    assert boot.interval(9, lambda _: np.r_[just[:-1], np.nan])[0] is None
    assert boot.interval(1, lambda _: just) == (None, "an interval needs two items")


def test_a_figure_that_never_varies_has_no_interval() -> None:
    found = binary(["yes"] * 2 + ["no"] * 8, ["no"] * 10, "yes", BOOT)["f1"]
    assert (found.value, found.interval) == (0, None)
    kappa = cohen_kappa(["yes", "no"] * 10, ["no"] * 20, BOOT)
    assert kappa.value == pytest.approx(0)
    assert kappa.interval is None
    assert BOOT.interval(5, lambda at: np.full(len(at), 0.5)) == (
        None, "all draws of these items give one value")


def test_an_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    """200 samples of 60 items, three in ten pass: at most 5 % + three deviations outside."""
    rng, boot, outside = np.random.default_rng(1), Bootstrap(draws=400), 0
    for _ in range(200):
        parts = [(int(k), 1) for k in rng.random(60) < 0.3]
        low, high = pooled_share(parts, boot).interval or (0, 0)
        outside += not low <= 0.3 <= high
    assert outside <= 200 * (0.05 + 3 * math.sqrt(0.05 * 0.95 / 200))


def test_pooled_shares_pool_before_they_divide() -> None:
    found = pooled_share([(1, 5), (3, 3), (0, 0)], BOOT)
    assert found.value == 0.5  # 4 of 8 answers, not the mean of 0.2 and 1
    assert found.n == 2
    assert pooled_share([(0, 0)], BOOT).reason == "no item"
    assert pooled_share([(5, 5), (5, 5)], BOOT).interval == share(2, 2).interval


def test_a_missing_library_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(figures.importlib, "import_module", missing)
    with pytest.raises(RigError, match=r"needs sklearn.*\[validation\]"):
        figures.require_libraries()
