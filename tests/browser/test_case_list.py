"""The list of cases: filters, search, sorting, keys, the address, and 11,000 rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_runs
import pytest
from browser_page import frame, until

from rig.report import case_list, redecide
from rig.report.build import write_report
from rig.report.loading import ScoredRun
from rig.report.page import write_page
from rig.report.scored import ScoredCase
from rig.store import RunFolder

HOSTILE = "<img src=x onerror=\"window.hacked=1\">"
OPENED = """() => { window.opened = []; window.rigOpenCase = (key) => { opened.push(key);
  document.dispatchEvent(new CustomEvent('rig:case', { detail: { key } })); return true; }; }"""
TEXTS = ["Where is the locker key", "the locker is FOUR one nine", f"mat {HOSTILE}", "nothing"]


def _runs() -> list[ScoredRun]:
    first = made_runs.scored_run("one", made_runs.scenes(3, 108))
    odd = replace(first.cases[0], reason=f"because {HOSTILE}", flags=("forced", f"f {HOSTILE}"))
    return [replace(first, name=f"one {HOSTILE}", cases=(odd, *first.cases[1:])),
            made_runs.scored_run("two", made_runs.scenes(4, 54), index=1)]


def _write(runs: Sequence[ScoredRun], out: Path) -> str:
    made = made_runs.listed(runs)
    n = sum(len(run.cases) for run in runs)
    said = {"texts": TEXTS, "user": [0 if i % 3 == 0 else 3 for i in range(n)],
            "model": [None if i % 5 == 0 else 1 if i % 2 else 2 for i in range(n)]}
    write_page("Cases", [redecide.section(runs), replace(made, parts={"transcripts": said})], out)
    return out.as_uri()


@pytest.fixture(scope="module")
def runs() -> list[ScoredRun]:
    return _runs()


@pytest.fixture
def cases(runs: list[ScoredRun]) -> list[ScoredCase]:
    return [case for run in runs for case in run.cases]


@pytest.fixture
def listed(page: Any, runs: list[ScoredRun], tmp_path: Path) -> Any:
    page.goto(_write(runs, tmp_path / "page.html"))
    page.evaluate(OPENED)
    return page


def _status(page: Any) -> str:
    return str(page.inner_text("#cases-status"))


def _column(page: Any, name: str) -> list[str]:
    """The cells of one column, from the first row that is in the document on."""
    return list(page.evaluate("""(name) => [...document.querySelectorAll(
      '#cases-grid .body [role=row]:not([hidden])')]
      .sort((a, b) => a.ariaRowIndex - b.ariaRowIndex)
      .map((row) => row.querySelector('.' + name).textContent)""", name))


def _facet(page: Any, name: str) -> dict[str, int]:
    return dict(page.evaluate("""(name) => [...document.querySelectorAll(
      `[data-facet=${name}] label:not([hidden])`)].map((label) => [label.childNodes[1].textContent,
      Number(label.lastChild.textContent)])""", name))


def _choose(page: Any, facet: str, value: str) -> None:
    page.evaluate("""([facet, value]) => [...document.querySelectorAll(
      `[data-facet=${facet}] label`)].find((label) => label.childNodes[1].textContent === value)
      .firstChild.click()""", [facet, value])


def test_all_cases_are_there_and_hostile_text_is_text(listed: Any, cases: list[ScoredCase]) -> None:
    assert _status(listed) == "164 of 164 cases"
    grid = listed.locator("#cases-grid")
    assert grid.get_attribute("aria-rowcount") == "165"
    assert _column(listed, "reason")[0] == f"because {HOSTILE}"
    assert _column(listed, "run")[0] == f"one {HOSTILE}"
    assert _column(listed, "case")[:20] == [case.case_id for case in cases[:20]]
    assert listed.evaluate("window.hacked") is None
    assert listed.locator("#cases-grid img").count() == 0
    assert listed.locator("#cases-facets img").count() == 0


ALIGNED = """() => { const lefts = (row) => [...row.children].map((cell) =>
    Math.round(cell.getBoundingClientRect().left) + ':' +
    Math.round(cell.getBoundingClientRect().width)).join();
  return new Set([...document.querySelectorAll('#cases-grid [role=row]:not([hidden])')].map(lefts))
    .size; }"""


@pytest.mark.parametrize("width", [390, 1280, 2000])
def test_columns_stand_under_their_heads(open_page: Callable[..., Any], runs: list[ScoredRun],
                                         tmp_path: Path, width: int) -> None:
    page = open_page(width=width)
    page.goto(_write(runs, tmp_path / "page.html"))
    assert page.evaluate(ALIGNED) == 1
    page.fill("#cases-search", "locker")
    until(page, "document.querySelector('#cases-grid .body .reason').textContent"
                           ".includes('locker')")
    assert page.evaluate(ALIGNED) == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_name_of_a_case_is_whole_and_its_probe_and_role(
    open_page: Callable[..., Any], runs: list[ScoredRun], tmp_path: Path
) -> None:
    page = open_page()
    page.goto(_write(runs, tmp_path / "page.html"))
    for name in ("case", "role", "probe"):
        assert page.evaluate(
            "name => [...document.querySelectorAll('#cases-grid .' + name)]"
            ".filter(cell => cell.scrollWidth > cell.clientWidth).length", name) == 0
        assert page.locator(f"#cases-grid .body .{name}").first.get_attribute("title")


def test_facets_count_what_choosing_them_would_show(listed: Any, cases: list[ScoredCase]) -> None:
    assert _facet(listed, "action") == Counter(str(case.action) for case in cases)
    assert _facet(listed, "level") == Counter(case.level or "none" for case in cases)
    assert _facet(listed, "role") == Counter(case.role or "none" for case in cases)
    assert _facet(listed, "outcome") == Counter(str(case.outcome) for case in cases)
    assert _facet(listed, "run") == {f"one {HOSTILE}": 109, "two": 55}
    flags = Counter(flag for case in cases for flag in case.flags or ("no flag",))
    assert _facet(listed, "flag") == flags

    _choose(listed, "action", "YIELD")
    _choose(listed, "action", "LISTEN")
    _choose(listed, "outcome", "fail")
    two = [case for case in cases if case.action in ("YIELD", "LISTEN")]
    left = [case for case in two if case.outcome == "fail"]
    assert 0 < len(left) < len(two)
    assert _status(listed) == f"{len(left)} of 164 cases"
    assert _column(listed, "case")[:10] == [case.case_id for case in left][:10]
    # its own choice does not narrow a facet, that of the others does
    assert _facet(listed, "outcome") == Counter(str(case.outcome) for case in two)
    assert _facet(listed, "action") == Counter(
        str(case.action) for case in cases if case.outcome == "fail")
    assert "YIELD" in listed.inner_text("[data-facet=action] summary")

    listed.click("#cases-clear")
    assert _status(listed) == "164 of 164 cases"
    assert listed.locator("#cases-clear").is_disabled()


def test_search_finds_words_of_both_sides_and_names(listed: Any) -> None:
    def found(text: str) -> int:
        listed.fill("#cases-search", text)
        until(listed, "!document.getElementById('cases-status')"
                                 ".textContent.startsWith('reading')")
        return int(_status(listed).split()[0])

    user = [i % 3 == 0 for i in range(164)]
    model = [i % 5 != 0 and i % 2 == 1 for i in range(164)]
    assert found("locker") == sum(a or b for a, b in zip(user, model, strict=True))
    assert found("LOCKER key") == sum(user)
    assert found("four where") == sum(a and b for a, b in zip(user, model, strict=True))
    assert found('"locker is four"') == sum(model)
    assert found('"four locker"') == 0
    assert found("r1-c0-0-l0") == 2
    assert found(HOSTILE.split()[0]) == sum(i % 5 != 0 and i % 2 == 0 for i in range(164))
    assert _column(listed, "reason")[0].startswith(f"model: mat {HOSTILE}")
    assert listed.evaluate("window.hacked") is None
    assert found("") == 164


def test_sorting_keeps_what_is_missing_last(listed: Any, runs: list[ScoredRun]) -> None:
    data = case_list.data(runs)
    known = [(u, m) for u, m in zip(data["margin_unit"], data["margin"], strict=True)
             if m is not None]
    assert None in data["margin"]
    assert {unit for unit, _ in known} == {"s", "ratio"}
    ascending = ([m for u, m in sorted(known) if u == "s"]
                 + [m for u, m in sorted(known) if u == "ratio"])
    shown = [f"{m:.3f}" for m in ascending]

    listed.click("#cases-grid [role=columnheader].margin button")
    first = [text.removesuffix(" s") for text in _column(listed, "margin")]
    assert first == shown[:len(first)]
    head = listed.locator("#cases-grid [role=columnheader].margin")
    assert head.get_attribute("aria-sort") == "ascending"
    listed.click("#cases-grid [role=columnheader].margin button")
    assert head.get_attribute("aria-sort") == "descending"
    down = [text.removesuffix(" s") for text in _column(listed, "margin")]
    assert down[0] == shown[-1]
    listed.focus("#cases-grid")
    listed.keyboard.press("End")
    frame(listed)
    assert _column(listed, "margin")[-1] == "–"
    # natural order: R1-C1-9 before R1-C1-10
    listed.click("#cases-grid [role=columnheader].case button")
    numbers = [int(name.split("-")[2]) for name in _column(listed, "case")
               if name.startswith("R1-C0-")]
    assert numbers == sorted(numbers)


def test_keys_move_and_open(listed: Any, cases: list[ScoredCase]) -> None:
    listed.focus("#cases-grid")

    def active() -> int:
        return int(listed.evaluate("""() => { const grid = document.getElementById('cases-grid');
          const row = document.getElementById(grid.getAttribute('aria-activedescendant'));
          const [a, b] = [row.getBoundingClientRect(), grid.getBoundingClientRect()];
          const head = grid.querySelector('.head').getBoundingClientRect();
          if (a.top < head.bottom - 1 || a.bottom > b.bottom + 1) return -1;
          if (!row.classList.contains('active')) return -2;
          return Number(row.ariaRowIndex) - 2; }"""))

    def press(*keys: str) -> int:
        for key in keys:
            listed.keyboard.press(key)
        frame(listed)
        return active()

    assert press("ArrowUp") == 0
    assert press("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp") == 2
    listed.keyboard.press("Enter")
    assert listed.evaluate("opened") == [cases[2].key]
    assert press("End") == 163
    assert press("ArrowDown") == 163
    one_page = 163 - press("PageUp")
    assert 10 < one_page < 40
    assert press("PageDown", "PageDown") == 163
    listed.keyboard.press("Enter")
    assert listed.evaluate("opened") == [cases[2].key, cases[163].key]
    assert press("Home") == 0
    assert press(*["ArrowDown"] * 30) == 30
    assert listed.evaluate(
        "getComputedStyle(document.querySelector('#cases-grid .active')).outlineStyle") == "solid"
    listed.locator("#cases-grid .body [role=row]:not([hidden])", has_text=cases[31].case_id
                   ).first.click()
    assert listed.evaluate("opened.at(-1)") == cases[31].key
    # another part of the page opens a case: the list follows
    listed.evaluate(f"rigOpenCase({cases[100].key!r})")
    frame(listed)
    assert active() == 100


def test_an_address_brings_filters_back_and_nonsense_none(listed: Any,
                                                          cases: list[ScoredCase]) -> None:
    _choose(listed, "action", "YIELD")
    _choose(listed, "run", f"one {HOSTILE}")
    listed.fill("#cases-search", "locker")
    listed.click("#cases-grid [role=columnheader].reason button")
    listed.click("#cases-grid [role=columnheader].reason button")
    until(listed, "() => location.hash.includes('sort=-reason')")  # it follows what is shown
    before, rows, address = _status(listed), _column(listed, "case"), listed.url
    assert not before.startswith("164")
    listed.goto("about:blank")
    listed.goto(address)
    until(listed, "text => document.getElementById('cases-status').textContent === text",
          arg=before)
    assert _column(listed, "case") == rows
    assert listed.input_value("#cases-search") == "locker"
    assert listed.locator("[role=columnheader].reason").get_attribute("aria-sort") == "descending"

    listed.evaluate("location.hash = '#cases?action=NOTHING&level=L1&sort=constructor&run=%FF'")
    n = sum(case.level == "L1" for case in cases)
    until(listed, "text => document.getElementById('cases-status').textContent === text",
          arg=f"{n} of 164 cases")
    # a jump to a section is no choice of filters
    listed.evaluate("location.hash = '#redecide'")
    frame(listed)
    assert _status(listed) == f"{n} of 164 cases"


def test_moved_thresholds_show_in_the_list(listed: Any) -> None:
    assert _facet(listed, "verdict") == {"as scored": 164}
    listed.locator("[data-setting='0'] input[type=number]").fill("0.3")
    frame(listed)
    turned = _facet(listed, "verdict")["turned by the thresholds"]
    assert listed.inner_text("#redecide-status").startswith(f"{turned} of 164 verdicts turn")
    _choose(listed, "verdict", "turned by the thresholds")
    assert _status(listed) == f"{turned} of 164 cases"
    assert set(_column(listed, "action")) == {"TAKE_TURN"}
    assert all(" → " in text for text in _column(listed, "outcome"))
    assert all(text.startswith("as scored: ") for text in _column(listed, "reason"))
    listed.click("#redecide-reset")
    assert _status(listed) == "0 of 164 cases"
    listed.click("#cases-clear")
    assert _status(listed) == "164 of 164 cases"


def test_no_transcripts_is_said(page: Any, runs: list[ScoredRun], tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    made = replace(made_runs.listed(runs), parts={})
    write_page("Cases", [redecide.section(runs), made], out)
    page.goto(out.as_uri())
    page.fill("#cases-search", "r1-c0-0-l0")
    until(page, "document.getElementById('cases-status').textContent.includes(';')")
    assert _status(page) == ("2 of 164 cases; what was said cannot be searched: this page has no "
                             "part cases-transcripts")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_telephone_shows_what_matters_first(open_page: Callable[..., Any],
                                              runs: list[ScoredRun], tmp_path: Path,
                                              scheme: str) -> None:
    page = open_page(width=390, height=844, color_scheme=scheme, has_touch=True)
    page.goto(_write(runs, tmp_path / "page.html"))
    page.evaluate(OPENED)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    box = page.locator("#cases-grid .body [role=row]:not([hidden])").nth(0).bounding_box()
    assert box["height"] == 40
    for name in ("outcome", "case"):
        cell = page.locator(f"#cases-grid .body .{name}").nth(0).bounding_box()
        assert cell["x"] >= 0
        assert cell["x"] + cell["width"] <= 390
    assert not page.locator("#cases-grid .body .role").nth(0).is_visible()
    page.locator("#cases-grid .body .case").nth(1).tap()
    assert page.evaluate("opened") == [page.evaluate("rigData('cases').key[1]")]


@pytest.fixture(scope="module")
def many(built_once: Callable[..., Path]) -> str:
    def made(folder: Path) -> None:
        folder.mkdir()
        scenes = made_runs.scenes(9, 999)
        runs = [made_runs.scored_run(f"system {i}", scenes, index=i) for i in range(11)]
        _write(runs, folder / "page.html")

    return (built_once("many cases", made) / "page.html").as_uri()


# Something to sort, of which the machine's speed is read: ms, and by itself 20 ms on a quiet one.
MEASURE = """() => {
  const work = () => {
    const start = performance.now();
    let x = 1;
    const some = Array.from({ length: 40000 }, () => (x = (x * 48271) % 2147483647));
    some.sort((a, b) => a - b);
    return performance.now() - start;
  };
  const middle = (times) => times.sort((a, b) => a - b)[times.length >> 1];
  Object.assign(window, { work, middle });
}"""


def test_eleven_thousand_rows_stay_fast(page: Any, many: str) -> None:
    """Against other work at the same time, and with wide bounds, as the machine may be slow or
    busy: what is measured on a quiet one is in the page of the documents. That only visible rows
    are in the document is exact."""
    page.goto(many)
    page.evaluate(MEASURE)
    assert _status(page) == "11000 of 11000 cases"
    filtering, unit = page.evaluate("""() => {
      const box = document.querySelector('[data-facet=action] input');
      const times = []; const units = [];
      for (let i = 0; i < 10; i += 1) {
        units.push(work());
        const start = performance.now(); box.click(); times.push(performance.now() - start);
      }
      return [middle(times), middle(units)]; }""")
    assert filtering < 25 * max(unit, 20)
    assert _status(page) == "11000 of 11000 cases"
    frames, unit, most = page.evaluate("""async () => {
      const grid = document.getElementById('cases-grid');
      const next = () => new Promise((done) => requestAnimationFrame(done));
      const times = []; const units = []; let most = 0;
      for (let i = 0; i < 60; i += 1) {
        grid.scrollTop = i * 5000;
        await next();
        const start = performance.now(); await next(); times.push(performance.now() - start);
        units.push(work());
        most = Math.max(most, grid.querySelectorAll('.body [role=row]').length);
      }
      return [middle(times), middle(units), most]; }""")
    assert frames < 12.5 * max(unit, 20)
    assert most <= 60
    assert frames < 250
    page.focus("#cases-grid")
    page.keyboard.press("End")
    frame(page)
    assert page.evaluate("document.getElementById('cases-grid').querySelector('.active')"
                         ".ariaRowIndex") == "11001"
    page.fill("#cases-search", "locker key")
    until(page, "document.getElementById('cases-status').textContent === "
                           "'3667 of 11000 cases'")


@pytest.fixture(scope="module")
def report(request: pytest.FixtureRequest, built_once: Callable[..., Path]) -> str:
    """The whole page of two runs that were played."""
    def made(folder: Path) -> None:
        folder.mkdir()
        runs = [RunFolder(request.getfixturevalue(name)) for name in ("oracle_run", "random_run")]
        write_report(runs, folder / "page.html", audio="none")

    return (built_once("report without sound", made) / "page.html").as_uri()


def test_enter_opens_a_case_and_its_address_opens_it_again(page: Any, report: str) -> None:
    def names(key: str) -> None:
        """The address follows what is shown a little later."""
        until(page, "(key) => new URLSearchParams(location.hash.split('?')[1]).get('case') === key",
              arg=key)

    page.goto(report)
    page.fill("#cases-search", "locker")
    until(page, "document.getElementById('cases-status').textContent !== "
                           "'reading what was said'")
    n = int(_status(page).split()[0])
    assert 0 < n < 18
    page.focus("#cases-grid")
    page.keyboard.press("End")
    opened = page.evaluate("""() => new Promise((done) => {
      document.addEventListener('rig:case', (event) => done(event.detail.key), { once: true });
      document.getElementById('cases-grid').dispatchEvent(
        new KeyboardEvent('keydown', { key: 'Enter', bubbles: true })); })""")
    case = _column(page, "case")[-1]
    assert opened.split("/")[1] == case
    names(opened)
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    until(page, "(text) => document.getElementById('cases-status').textContent === text",
                           arg=f"{n} of 18 cases")
    until(page, "document.querySelector('#cases-grid .active .case').textContent"
                           f" === {case!r}")
    names(opened)
