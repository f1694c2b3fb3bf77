"""Contrast by WCAG 2.2 (relative luminance), and that every theme has every role."""

from __future__ import annotations

import pytest

from rig.report import colours

TEXT = ("ink", "soft", "focus", "pass", "fail", "unscored", "unsupported")
DRAWN = ("user", "model", "probability", "event", "cursor")


def _luminance(colour: str) -> float:
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, two: str) -> float:
    low, high = sorted((_luminance(one), _luminance(two)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_of_black_and_white_is_21() -> None:
    assert _contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("theme", [colours.LIGHT, colours.DARK])
def test_text_and_what_is_drawn_stand_out(theme: dict[str, str]) -> None:
    for ground in (theme["paper"], theme["raised"]):
        for role in TEXT:
            assert _contrast(theme[role], ground) >= 4.5, role
        for role in DRAWN:
            assert _contrast(theme[role], ground) >= 3, role


def test_series_stand_out_on_the_dark_paper_and_apart() -> None:
    shown = [colours.ON_DARK.get(colour, colour) for colour in colours.SERIES]
    assert len(set(shown)) == len(shown)
    for colour in shown:
        assert _contrast(colour, colours.DARK["paper"]) >= 4.5, colour


def test_both_themes_have_every_role_once_in_the_style() -> None:
    assert colours.LIGHT.keys() == colours.DARK.keys()
    style = colours.css()
    for role, colour in colours.DARK.items():
        assert style.count(f"--{role}:{colour};") >= 2


def test_a_colour_of_a_chart_has_another_in_the_dark_style_alone() -> None:
    for colour, other in colours.ON_DARK.items():
        # the system's wish for dark, and the reader's
        assert colours.css().count(f"--chart-{colour[1:]}:{other};") == 2
