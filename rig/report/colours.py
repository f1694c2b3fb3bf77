"""The colours of every page, once: as CSS variables and as values for charts.

Palette: Okabe and Ito, "Color Universal Design" (2008): eight colours that stay apart under all
three common kinds of colour blindness. A meaning is never told by a colour alone.
"""

from __future__ import annotations

from collections.abc import Mapping

OKABE_ITO: Mapping[str, str] = {
    "black": "#000000", "orange": "#e69f00", "sky_blue": "#56b4e9", "bluish_green": "#009e73",
    "yellow": "#f0e442", "blue": "#0072b2", "vermillion": "#d55e00", "reddish_purple": "#cc79a7",
}

SERIES: tuple[str, ...] = tuple(OKABE_ITO[name] for name in (
    "blue", "vermillion", "bluish_green", "orange", "reddish_purple", "sky_blue"))
"""For the series of a chart, in order. Without black and yellow, which vanish on one of the two
papers."""

ON_DARK: Mapping[str, str] = {OKABE_ITO["blue"]: "#4a9fe0", OKABE_ITO["sky_blue"]: "#9bd7f7"}
"""What stands for a colour of a chart on the dark paper, where the blue has a contrast of 3.7 and
thin lines of it are lost; sky blue moves with it, to stay apart. Ours."""

OUTCOMES: Mapping[str, str] = {
    "pass": OKABE_ITO["bluish_green"], "fail": OKABE_ITO["vermillion"], "unscored": "#8c959f",
    "unsupported": "#b7bdc3",
}
"""For the outcome of a case in a chart."""

LIGHT: Mapping[str, str] = {
    "ink": "#1b1f24", "paper": "#ffffff", "raised": "#f6f8fa", "soft": "#59636e",
    "line": "#d0d7de", "focus": OKABE_ITO["blue"], "user": OKABE_ITO["blue"],
    "model": OKABE_ITO["vermillion"], "probability": "#7a4a68", "window": OKABE_ITO["yellow"],
    "event": "#1b1f24", "cursor": "#1b1f24", "pass": "#00704f", "fail": "#a3241c",
    "unscored": "#59636e", "unsupported": "#59636e",
}
DARK: Mapping[str, str] = {
    "ink": "#e6edf3", "paper": "#0d1117", "raised": "#161b22", "soft": "#9aa4af",
    "line": "#30363d", "focus": OKABE_ITO["sky_blue"], "user": OKABE_ITO["sky_blue"],
    "model": OKABE_ITO["orange"], "probability": OKABE_ITO["reddish_purple"], "window": "#8a841f",
    "event": "#e6edf3", "cursor": "#ffffff", "pass": "#3fb68b", "fail": "#ff8a80",
    "unscored": "#9aa4af", "unsupported": "#9aa4af",
}
"""By role. Text colours have a contrast of at least 4.5 with `paper` and `raised` (WCAG 2.2,
1.4.3), what is drawn one of at least 3 (1.4.11) but for `window`, a surface with an outline."""


def css() -> str:
    """Both themes as CSS variables `--ROLE`, and `--chart-RRGGBB` for a colour of a chart that the
    theme has another for (`page.js` puts it in); the reader's choice (`data-theme`) comes before
    that of the system."""
    light, dark = _declarations(LIGHT), _declarations(
        {**DARK, **{f"chart-{colour[1:]}": other for colour, other in ON_DARK.items()}})
    return (f":root{{color-scheme:light;{light}}}"
            f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{"
            f"color-scheme:dark;{dark}}}}}"
            f":root[data-theme=dark]{{color-scheme:dark;{dark}}}")


def _declarations(theme: Mapping[str, str]) -> str:
    return "".join(f"--{role}:{colour};" for role, colour in theme.items())
