"""A number on the command line."""

from __future__ import annotations

import math
from typing import Any

import click


class Finite(click.FloatRange):
    """A finite number within bounds. `nan` is neither below nor above any of them, so
    `click.FloatRange` takes it, and a limit that is `nan` would be none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None,
                ) -> float:
        """As `click.FloatRange`."""
        found = float(super().convert(value, param, ctx))
        if not math.isfinite(found):
            self.fail(f"expected a finite number, got {value!r}.", param, ctx)
        return found
