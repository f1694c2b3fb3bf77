"""Charts as dicts: where marks and bands lie, and that no text is markup."""

from __future__ import annotations

import pytest

from rig.report.figures import (
    Beside,
    Heat,
    Point,
    Series,
    dots,
    heat,
    interval,
    legend_px,
    percent,
    plain,
)

HOSTILE = '<a href="https://x.example">a</a> & <b>b</b>'


def test_marks_intervals_and_bands() -> None:
    figure = dots(
        ["L1", "L2"],
        [Series("one", [Point(40.0, (30.0, 55.0), "n=9"), Point(None, None)]),
         Series("two", [Point(10.0, None, hollow=True), Point(0.0, (0.0, 12.0))])],
        axis="percent", span=(0, 100), beside=Beside(
            floors=[{"silent": 40.0, "echo": 5.0}, {}], ceiling=[{"oracle": 100.0}, {}]))
    floors, ceiling, one, two = figure["data"]
    assert (one["x"], two["x"]) == ([40.0, None], [10.0, 0.0])
    assert one["error_x"]["array"] == [15.0, None]
    assert one["error_x"]["arrayminus"] == [10.0, None]
    assert two["error_x"]["array"] == [None, 12.0]
    assert two["error_x"]["arrayminus"] == [None, 0.0]
    assert two["marker"]["symbol"] == ["square-open", "square"]
    assert one["marker"]["color"] != two["marker"]["color"]
    # beside each other on their line, around its middle
    assert one["y"] == [pytest.approx(-0.175), pytest.approx(0.825)]
    assert two["y"] == [pytest.approx(0.175), pytest.approx(1.175)]
    assert (floors["x"], floors["y"], floors["text"]) == ([40.0, 5.0], [0, 0], ["silent", "echo"])
    assert (ceiling["x"], ceiling["name"]) == ([100.0], "ceiling")
    band, = figure["layout"]["shapes"]
    assert (band["x0"], band["x1"], band["y0"], band["y1"]) == (5.0, 40.0, -0.42, 0.42)
    assert figure["layout"]["xaxis"]["range"] == [0, 100]
    assert figure["layout"]["yaxis"]["range"] == [1.5, -0.5]


def test_an_interval_beside_its_value_has_one_bar() -> None:
    one = dots(["a"], [Series("s", [Point(5.0, (6.0, 9.0))])], axis="%")["data"][0]
    assert (one["error_x"]["array"], one["error_x"]["arrayminus"]) == ([4.0], [0.0])


def test_nothing_is_markup() -> None:
    assert plain(HOSTILE) == ('&lt;a href="https://x.example"&gt;a&lt;/a&gt; &amp; '
                              "&lt;b&gt;b&lt;/b&gt;")
    figures = [
        dots([HOSTILE], [Series(HOSTILE, [Point(1.0, None, HOSTILE)])], axis="%",
             beside=Beside([{HOSTILE: 1.0}])),
        heat(Heat([HOSTILE], ["c"], [[1.0]], 0, "default", "configurations"))]
    for figure in figures:
        assert "<a" not in str(figure)
        assert "<b>" not in str(figure)


def test_heat_marks_its_column() -> None:
    figure = heat(Heat(["a", "b"], ["c0", "c1", "c2"], [[0.0, 50.0, None], [1.0, 2.0, 3.0]], 1,
                       "default", "configurations", {1: "middle"}))
    trace, = figure["data"]
    assert trace["z"] == [[0.0, 50.0, None], [1.0, 2.0, 3.0]]
    assert (trace["zmin"], trace["zmax"]) == (0, 100)
    shape, = figure["layout"]["shapes"]
    assert (shape["x0"], shape["x1"]) == (0.5, 1.5)
    assert figure["layout"]["xaxis"]["tickvals"] == [1]


def test_texts_of_shares() -> None:
    assert (percent(None), percent(0.0), percent(0.1234)) == ("–", "0.0", "12.3")
    assert interval(None) == "–"
    assert interval((-0.05, 0.125), 1, "+") == "[-5.0, +12.5]"
    assert [legend_px(n) for n in (0, 1, 2, 3)] == [0, 20, 20, 40]
