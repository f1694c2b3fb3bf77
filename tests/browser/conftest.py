"""A real browser: the system's Chromium, driven by Playwright.

Every test of this folder is marked `browser`. The fixture `page` fails its test on an error in the
console, an exception in the page, and any request that would leave the machine.

No test may hang on how fast the machine is. What a slow one does is tried with
`DUPLEXRIG_BROWSER_SLOW="300 8"`: 300 ms more for each call of the browser, and pages that run at an
eighth of the machine's speed (0 and 1: as it is).
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from browser_page import PATIENCE_S

HERE = Path(__file__).parent
LOCAL = ("file:", "data:", "blob:", "about:")
SLOW_MO_MS, SLOWER_TIMES = map(float, os.environ.get("DUPLEXRIG_BROWSER_SLOW", "0 1").split())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.browser)
    # As a plugin: the hooks of a conftest are not asked about fixtures of the whole session.
    if not config.pluginmanager.has_plugin(_Setup.__name__):
        config.pluginmanager.register(_Setup(), _Setup.__name__)


@contextmanager
def _no_loop() -> Iterator[None]:
    """Between calls of Playwright's synchronous interface its loop counts as running, and no other
    could be started in this thread, as `rig run` does."""
    running = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(running)


class _Setup:
    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[Any]:
        if {fixturedef.argname, *fixturedef.argnames} & {"browser", "page", "open_page"}:
            return (yield)  # it talks to the browser
        with _no_loop():
            return (yield)


@pytest.fixture
def call_rig(call_rig: Callable[..., Any]) -> Callable[..., Any]:
    """The command line in this process, also while a browser is open."""
    def call(*arguments: object) -> Any:
        with _no_loop():
            return call_rig(*arguments)

    return call


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The system's Chromium."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="the extra `browser`")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    with sync_api.sync_playwright() as playwright:
        # Sound may begin without a click: a test's clicks are real ones, a page's start is not.
        found = playwright.chromium.launch(
            executable_path=path, args=["--autoplay-policy=no-user-gesture-required"],
            slow_mo=SLOW_MO_MS)
        with pytest.MonkeyPatch.context() as patch:
            if SLOWER_TIMES > 1:
                for maker in (sync_api.Browser, sync_api.BrowserContext):
                    patch.setattr(maker, "new_page", _slowed(maker.new_page))
            yield found
        found.close()


def _slowed(new_page: Callable[..., Any]) -> Callable[..., Any]:
    def made(*arguments: Any, **options: Any) -> Any:
        page = new_page(*arguments, **options)
        page.context.new_cdp_session(page).send(
            "Emulation.setCPUThrottlingRate", {"rate": SLOWER_TIMES})
        return page

    return made


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """`open_page(width=390, color_scheme="dark")`: a page in a window of its own. Keywords are
    those of Playwright's `new_context`."""
    problems: list[str] = []
    contexts: list[Any] = []

    def make(width: int = 1280, height: int = 900, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(1000 * PATIENCE_S)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(f"console: {message.text}")
                if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: problems.append(f"exception: {error}"))
        page.on("request", lambda request: None if request.url.startswith(LOCAL)
                else problems.append(f"request: {request.url}"))
        return page

    yield make
    for context in contexts:
        context.close()
    assert problems == []


@pytest.fixture
def page(open_page: Callable[..., Any]) -> Any:
    """A page of 1280 by 900 pixels in the light theme."""
    return open_page(color_scheme="light")
