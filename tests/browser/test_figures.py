"""Summary, diff, sweep, instrument and inputs in a browser: drawn, reachable, at both widths."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser_page import until

from rig.report.build import write_report
from rig.store import RunFolder

CHARTS = ("summary-level-core", "summary-level-all", "summary-action", "summary-role",
          "diff-actions", "sweep-actions", "sweep-configurations", "instrument-flips")
SECTIONS = ("summary", "diff", "sweep", "instrument", "inputs")


@pytest.fixture(scope="session")
def made_page(oracle_run: Path, random_run: Path, built_once: Callable[..., Path]) -> Path:
    """Two runs, one under a name that would be a link if a chart took it for markup."""
    def made(folder: Path) -> None:
        folder.mkdir()
        hostile = shutil.copytree(random_run, folder / "<a href='javascript:hacked=1'>r")
        write_report([RunFolder(oracle_run), RunFolder(hostile)], folder / "page.html",
                     audio="none")

    return built_once("figures", made) / "page.html"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_every_chart_is_drawn_with_its_table(
    open_page: Callable[..., Any], made_page: Path, width: int, scheme: str
) -> None:
    page = open_page(width=width, color_scheme=scheme)
    page.goto(made_page.as_uri())
    for key in CHARTS:
        chart = page.locator(f"#chart-{key}")
        chart.locator(".main-svg").first.wait_for()
        assert chart.get_attribute("aria-label")
        assert chart.bounding_box()["width"] <= width
        figure = page.locator("figure", has=chart)
        figure.locator("summary").press("Enter")
        assert figure.locator("table tr").count() >= 2
    for key in SECTIONS:
        assert page.locator(f"#{key}").is_visible()
    # tables scroll inside their own box, the page never sideways
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_names_of_runs_are_no_links(page: Any, made_page: Path) -> None:
    page.goto(made_page.as_uri())
    page.locator("#chart-summary-level-core .legendtext").first.wait_for()
    texts = page.locator("#chart-summary-level-core .legendtext").all_text_contents()
    assert "<a href='javascript:hacked=1'>r" in texts
    assert page.locator("main .main-svg a").count() == 0


def test_a_case_of_the_diff_opens_in_the_case_view(page: Any, made_page: Path) -> None:
    page.goto(made_page.as_uri())
    button = page.locator("#diff-to_fail button[data-case]").first
    key = button.get_attribute("data-case")
    page.evaluate("""document.addEventListener("rig:case",
                     (event) => { window.opened = event.detail.key; })""")
    button.focus()
    page.keyboard.press("Enter")
    until(page, "key => window.opened === key", key)  # a case is read before it is shown


def test_in_the_other_theme_the_charts_are_drawn_again(page: Any, made_page: Path) -> None:
    page.goto(made_page.as_uri())
    tick = page.locator("#chart-summary-action .ytick text").first
    tick.wait_for()
    before = tick.evaluate("element => element.style.fill")
    page.click("#rig-theme")
    until(page, "before => document.querySelector('#chart-summary-action .ytick text').style.fill"
        " !== before", arg=before)
