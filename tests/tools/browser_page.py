"""What tests in a browser need besides Playwright."""

from __future__ import annotations

from typing import Any

PATIENCE_S = 120.0
"""How long something may take to happen. A test that passes never waits for it: it is for slow
machines."""


def until(page: Any, expression: str, arg: object = None, timeout_s: float = PATIENCE_S) -> None:
    """Wait until an expression of the page is true.

    Playwright's own way evaluates text inside the page, which the page's policy forbids whenever it
    is not true at once.
    """
    for _ in range(round(timeout_s / 0.05)):
        if page.evaluate(expression, arg):
            return
        page.wait_for_timeout(50)
    kept = page.evaluate("""() => { try { return JSON.stringify(localStorage).slice(0, 2000); }
        catch (error) { return String(error); } }""")
    raise AssertionError(f"not within {timeout_s:g} s: {expression}; kept by the browser: {kept}")


def frame(page: Any) -> None:
    """Wait until what was asked for is drawn: pages draw in the next frame."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
