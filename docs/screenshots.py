"""Makes docs/images/*.png: a small suite is built, played and reported, and the page is opened in
Chromium. `make screenshots` runs it; nothing here is needed to use the rig.

    .venv/bin/python docs/screenshots.py [--report PAGE]    of a report that is there already
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
WORK = ROOT / "out" / "screenshots"
MOST_BYTES = 300_000
Shot = tuple[str, str, int, int, Literal["light", "dark"], tuple[str, ...]]
SHOTS: tuple[Shot, ...] = (
    # name, case, width and height of the window, theme, what is done before
    ("case_light", "1/R1-C3-1-L2/1", 1280, 660, "light", ()),
    ("case_dark", "1/R1-C1-1-L2/1", 1280, 560, "dark", ("z",)),
    ("case_phone", "1/R1-C3-1-L2/1", 390, 640, "light", ("z",)),
)


def report() -> Path:
    """A page of two agents on four cells, in a minute."""
    rig = str(Path(sys.executable).with_name("rig"))
    suite, page = WORK / "suite", WORK / "report.html"
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    cells = "case=R1-C1-1-L2|R1-C3-1-L2|R1-C4-1-L2|R1-C2-1-L2"
    calls = [["build", "dsb-ifeval", "--filter", cells, "--out", str(suite)]]
    runs = [str(WORK / name) for name in ("long_endpoint", "random")]
    for run in runs:
        calls.append(["run", str(suite), "--adapter", Path(run).name, "--out", run])
        calls.append(["score", run])
    calls.append(["report", *runs, "--audio", "all", "--out", str(page)])
    for call in calls:
        subprocess.run([rig, *call], check=True, stdout=subprocess.DEVNULL)
    return page


def take(page: Any, address: str, shot: Shot) -> Path:
    name, case_key, _, _, _, keys = shot
    page.goto(address)
    page.wait_for_selector("#case-head h3")
    page.evaluate("key => rigOpenCase(key)", case_key)
    page.wait_for_timeout(500)
    for key in keys:
        page.keyboard.press(key)
    page.evaluate("document.getElementById('case').scrollIntoView()")
    page.wait_for_timeout(500)
    out = IMAGES / f"{name}.png"
    page.screenshot(path=out)
    return out


def main() -> int:
    made = Path(sys.argv[2]).resolve() if sys.argv[1:2] == ["--report"] else report()
    IMAGES.mkdir(exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        print("Chromium is not installed (Debian: apt-get install chromium)", file=sys.stderr)
        return 2
    total = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium)
        for shot in SHOTS:
            _, _, width, height, theme, _ = shot
            page = browser.new_page(viewport={"width": width, "height": height},
                                    color_scheme=theme)
            path = take(page, made.as_uri(), shot)
            total += path.stat().st_size
            print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e3:.0f} kB")
            page.close()
        browser.close()
    print(f"{total / 1e3:.0f} kB of {MOST_BYTES / 1e3:.0f}")
    return int(total > MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
