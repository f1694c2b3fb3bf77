"""The case list and the thresholds of a report with 11,000 cases, in Chromium.

    python bench/bench_case_list.py [--json] [--repeats 15]

Eleven runs of 1,000 cases, made of random scenes; no recording. Each figure is the time that a
script of the page takes, layout included where it says so; a frame while scrolling is the time
between two calls of requestAnimationFrame (16.7 ms where nothing holds the browser up). Needs the
extra `browser` and the system's Chromium.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "tools")]

import made_runs  # noqa: E402

from rig.clock import Stopwatch  # noqa: E402
from rig.report import redecide  # noqa: E402
from rig.report.page import write_page  # noqa: E402

SYSTEMS, CASES = 11, 1000
SENTENCE = ("locker four one nine key under the blue mat so that nobody walks past it before noon "
            "and the caller says it once more")

TIMED = """async ([what, n]) => {
  const layout = () => document.getElementById("cases-grid").getBoundingClientRect();
  const next = () => new Promise((done) => requestAnimationFrame(done));
  const box = document.querySelector("[data-facet=action] input");
  const search = document.getElementById("cases-search");
  const head = document.querySelector("#cases-grid [role=columnheader].margin button");
  const slider = document.getElementById("redecide-yield_max_latency_ms");
  const grid = document.getElementById("cases-grid");
  const steps = {
    filter: () => box.click(),
    search: (i) => { search.value = i % 2 ? "locker blue" : "\\"four one nine\\"";
      search.dispatchEvent(new Event("input")); },
    sort: () => head.click(),
  };
  const times = [];
  if (what === "scroll") {
    grid.scrollTop = 0;
    await next();
    for (let i = 0; i < n * 20; i += 1) {
      const start = performance.now();
      grid.scrollTop += 397;
      await next();
      times.push(performance.now() - start);
    }
    return times;
  }
  if (what === "slider") {
    for (let i = 0; i < n; i += 1) {
      slider.value = 200 + 20 * i;
      slider.dispatchEvent(new Event("input"));
      const start = performance.now();
      await next();
      layout();
      times.push(performance.now() - start);
    }
    document.getElementById("redecide-reset").click();
    return times;
  }
  for (let i = 0; i < n; i += 1) {
    const start = performance.now();
    steps[what](i);
    layout();
    times.push(performance.now() - start);
  }
  return times;
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description="a report of 11,000 cases in Chromium")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        raise SystemExit("expected Chromium (Debian: apt-get install chromium), got none")
    rows: list[dict[str, Any]] = []

    def row(what: str, unit: str, values: list[float]) -> None:
        rows.append({"what": what, "unit": unit, "values": values})

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "page.html"
        watch = Stopwatch()
        size = _write(out)
        row(f"write the two sections, {SYSTEMS * CASES} cases", "s", [watch.elapsed_s])
        row("page", "MB", [size / 1e6])
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path)
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(out.as_uri())
            loaded = page.evaluate("performance.getEntriesByType('navigation')[0]"
                                   ".domContentLoadedEventEnd")
            row("open, until the list stands", "ms", [loaded])
            page.fill("#cases-search", "locker")  # what was said is read once
            page.wait_for_function("!document.getElementById('cases-status').textContent"
                                   ".startsWith('reading')")
            page.fill("#cases-search", "")
            for what, label in (("filter", "filter by an action, layout included"),
                                ("search", "search, two words or three together, likewise"),
                                ("sort", "sort by margin, likewise"),
                                ("slider", "move a slider: verdicts, totals, list"),
                                ("scroll", "frame while scrolling 14 rows at a time")):
                row(label, "ms", page.evaluate(TIMED, [what, options.repeats]))
                if what == "search":
                    page.click("#cases-clear")
            row("rows in the document", "rows", [page.evaluate(
                "document.querySelectorAll('#cases-grid .body [role=row]').length")])
            browser.close()
    if options.json:
        print(json.dumps({"bench": "case_list", "rows": rows}))
        return
    for one in rows:
        values = sorted(one["values"])
        print(f"{one['what']:48} {one['unit']:>5}  min {values[0]:8.1f}  "
              f"median {statistics.median(values):8.1f}  max {values[-1]:8.1f}")


def _write(out: Path) -> int:
    scenes = made_runs.scenes(9, CASES - 1)
    runs = [made_runs.scored_run(f"system {i}", scenes, index=i) for i in range(SYSTEMS)]
    n = SYSTEMS * CASES
    # Forty words a side and case, all of them different texts.
    words = SENTENCE.split()
    texts = [" ".join(words[(i * k) % len(words)] for k in range(1, 41)) + f" {i}"
             for i in range(2 * n)]
    said = {"texts": texts, "user": list(range(n)), "model": list(range(n, 2 * n))}
    made = replace(made_runs.listed(runs), parts={"transcripts": said})
    return write_page("11,000 cases", [redecide.section(runs), made], out)


if __name__ == "__main__":
    main()
