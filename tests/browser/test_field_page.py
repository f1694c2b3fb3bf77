"""The page of a field study in a real browser: charts, timelines, both themes, both widths."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from call_maker import dialogue


@pytest.fixture(scope="module")
def study(built_once: Callable[..., Path]) -> Path:
    """The page of two calls, and a picture of each. Read only."""
    from rig import cli

    def made(folder: Path) -> None:
        calls = folder / "calls"
        calls.mkdir(parents=True)
        for k in range(2):
            dialogue(2, gap_s=0.6 + k)[0].write(calls / f"<b>{k}<i>.wav")
        assert cli.main(["field", str(calls), "--caller-channel", "left", "--no-cache",
                         "--no-sensitivity", "--jobs", "1", "--html", str(folder / "study.html"),
                         "--pictures", str(folder / "pictures")]) == 0

    return built_once("field study", made)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_charts_and_timelines(open_page: Callable[..., Any], study: Path, width: int,
                              scheme: str) -> None:
    page = open_page(width=width, color_scheme=scheme)
    page.goto((study / "study.html").as_uri())
    for name in ("gaps", "turn-take"):
        page.wait_for_selector(f"#chart-timing-{name} .main-svg")
    assert page.locator("#chart-timing-gaps .bars path").count() >= 2
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    # Gates are seen without scrolling, and no word is broken.
    gate = page.locator("#figures td", has_text="1000: ").first.bounding_box()
    assert gate["x"] + gate["width"] <= width
    assert gate["height"] < 80
    first, second = page.locator("#calls details").all()
    assert first.locator("svg rect.reply").count() == 2
    assert first.locator("svg rect.reply").first.is_visible()
    assert not second.locator("svg").is_visible()
    second.locator("summary").click()
    assert second.locator("svg path.yield.taken").first.is_visible()
    assert "<b>1<i>.wav" in second.locator("summary").inner_text()
    assert page.locator("#calls b").count() == 0


@pytest.mark.parametrize(("scheme", "colour"), [
    ("light", "rgb(27, 31, 36)"), ("dark", "rgb(230, 237, 243)")])
def test_a_picture_stands_alone(open_page: Callable[..., Any], study: Path, scheme: str,
                                colour: str) -> None:
    picture = min((study / "pictures").iterdir())
    page = open_page(color_scheme=scheme)
    page.goto(picture.as_uri())
    assert page.evaluate(
        "getComputedStyle(document.querySelector('text.head')).fill") == colour
    assert page.evaluate("document.querySelectorAll('rect.reply').length") == 2
