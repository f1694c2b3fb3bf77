"""JUnit XML and Markdown of a gated run: what they say, and that nothing of a file is markup."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from markdown_it import MarkdownIt

from rig.gate.asked import Gate
from rig.gate.figures import Session
from rig.gate.judging import gate_document, judge
from rig.gate.junit import clean, junit_xml
from rig.gate.loading import GatedRun, load_gated
from rig.gate.markdown import MAX_CASES, cells, summary, text
from verifiers.scene import Action
from verifiers.verdict import Outcome

GATES = [Gate("min", "ias_core.L2", 0.35, "--min"), Gate("max", "unscored", 0.0, "--max")]
EVIL = "a\x1b[2J\x00 <b>&|`x`*y* ]]> [l](http://a.b) @you #1\r\nnext \ud800\ufffe"

ALLOWED = {
    "testsuites": ({}, {"testsuite"}),
    "testsuite": ({"name", "package", "id", "hostname", "timestamp", "time", "tests", "failures",
                   "errors", "skipped"}, {"properties", "testcase", "system-out", "system-err"}),
    "properties": (set(), {"property"}), "property": ({"name", "value"}, set()),
    "testcase": ({"classname", "name", "time"}, {"failure", "error", "skipped"}),
    "failure": ({"type", "message"}, set()), "error": ({"type", "message"}, set()),
    "skipped": ({"message"}, set()), "system-out": (set(), set()), "system-err": (set(), set()),
}
"""What Ant's schema and that of the Jenkins plugin both allow; an attribute that is listed is
required by one of them."""


def fits(text_: str) -> ET.Element:
    """The document, after every rule that both schemas have."""
    text_.encode("utf-8")
    root = ET.fromstring(text_)
    for element in root.iter():
        attributes, children = ALLOWED[element.tag]
        assert set(element.attrib) == set(attributes)
        assert {child.tag for child in element} <= children
    suite, = root
    order = [child.tag for child in suite]
    assert order == ["properties", *["testcase"] * (len(order) - 3), "system-out", "system-err"]
    assert all(len(case) <= 1 for case in suite.iter("testcase"))
    for tag, counter in (("testcase", "tests"), ("failure", "failures"), ("error", "errors"),
                         ("skipped", "skipped")):
        assert int(suite.attrib[counter]) == len(list(suite.iter(tag)))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
    assert suite.attrib["name"]
    return suite


@pytest.fixture(scope="module")
def run(random_run: Path) -> GatedRun:
    return load_gated(random_run)


def test_a_testcase_a_gate_and_one_a_case(run: GatedRun) -> None:
    suite = fits(junit_xml(run, judge(run, GATES)))
    gates = [case for case in suite.iter("testcase") if case.get("classname") == "gates"]
    assert [(case.get("name"), [e.tag for e in case]) for case in gates] == [
        ("min ias_core.L2 0.35", ["failure"]), ("max unscored 0", [])]
    assert gates[0][0].get("message") == gates[0][0].text == "0 is below 0.35"
    told = {case.get("name"): [e.tag for e in case] for case in suite.iter("testcase")
            if case not in gates}
    assert told == {f"{s.case_id} t1": [] if s.outcome is Outcome.PASS else ["failure"]
                    for s in run.sessions}
    assert suite.find("testcase[@name='R1-C3-1-L2 t1']").get("classname") == "cases.YIELD.L2"
    # Seconds of the sessions, as the ledger has them.
    times = [float(case.get("time", "")) for case in suite.iter("testcase")]
    assert sum(times) == pytest.approx(float(suite.attrib["time"]), abs=0.01)
    assert sum(t > 5 for t in times) == 9
    facts = {p.get("name"): p.get("value") for p in suite.iter("property")}
    assert facts["suite"] == "small 1"
    assert facts["clock"] == "virtual"


def test_without_cases_gates_alone(run: GatedRun) -> None:
    suite = fits(junit_xml(run, judge(run, GATES), cases=False))
    assert suite.attrib["tests"] == "2"


def other(session: Session, **changes: object) -> Session:
    return replace(session, **changes)  # type: ignore[arg-type]


def with_trouble(run: GatedRun) -> GatedRun:
    """One session lost, one not scored, one that the system cannot be asked; hostile reasons."""
    first, second, third, *rest = run.sessions
    return replace(run, sessions=(
        other(first, outcome=Outcome.UNSCORED, status="infra_error", reason=EVIL),
        other(second, outcome=Outcome.UNSCORED, reason=EVIL),
        other(third, outcome=Outcome.UNSUPPORTED, reason="no full duplex"), *rest))


def test_what_was_lost_is_an_error_and_what_is_not_scored_is_skipped(run: GatedRun) -> None:
    results = judge(run, GATES)
    suite = fits(junit_xml(with_trouble(run), results))
    cases = [case for case in suite.iter("testcase") if case.get("classname") != "gates"]
    assert [e.tag for case in cases[:3] for e in case] == ["error", "skipped", "skipped"]
    assert cases[0][0].get("type") == "infra_error"
    assert str(cases[1][0].get("message")).startswith("unscored: a\\x1b[2J\\x00 <b>&|")
    assert cases[2][0].get("message") == "unsupported: no full duplex"


@pytest.mark.parametrize(("interval", "told"), [
    (None, "-"), ([None, None], "none"), ([400.0, None], "[400, none]"),
    ([0.25, 0.5], "[0.25, 0.5]"),
])
def test_an_interval_without_ends_is_none(
    run: GatedRun, interval: list[float | None] | None, told: str
) -> None:
    entry = gate_document(run, judge(run, GATES), "value")["gates"][0]
    assert cells({**entry, "interval": interval})[-1] == told


@pytest.mark.parametrize(("given", "told"), [
    ("a\x00b", "a\\x00b"), ("\x1b[31m", "\\x1b[31m"), ("\ud800", "\\xd800"),
    ("\ufffe", "\\xfffe"), ("tab\tline\n", "tab\tline\n"), ("\u2028é😀", "\u2028é😀"),
    ("\x85", "\x85"),
])
def test_only_characters_of_xml(given: str, told: str) -> None:
    assert clean(given) == told
    assert ET.fromstring(f"<a>{told.replace('&', '&amp;')}</a>").text == told


def page_of(run: GatedRun) -> str:
    return summary(gate_document(run, judge(run, GATES), "value"), run.sessions)


def test_the_summary_says_what_is_met(run: GatedRun) -> None:
    page = page_of(run)
    assert page.startswith(f"## {run.scored.name}: gates not met\n")
    assert (next(line for line in page.splitlines() if "ias_core" in line)
            .replace("&#91;", "[").replace("&#93;", "]")
            == "| min ias_core.L2 | 0.35 | 0 | 4 | [0, 0.6576] | **no** | 0 is below 0.35 |")
    assert "| max unscored | 0 | 0 | 9 | - | yes | 0 is at most 0 |" in page
    assert "9 sessions: 1 pass, 8 fail\n" in page
    assert "### Failed: 8\n" in page
    assert "### Not scored" not in page


def test_a_long_list_ends_with_a_count(run: GatedRun) -> None:
    failed = next(s for s in run.sessions if s.outcome is Outcome.FAIL)
    many = replace(run, sessions=tuple(other(failed, case_id=f"R1-C1-{k}-L2")
                                       for k in range(MAX_CASES + 3)))
    page = summary(gate_document(run, judge(run, GATES), "value"), many.sessions)
    assert page.count("| R1-C1-") == MAX_CASES
    assert "3 more are in the run." in page


def test_nothing_of_a_file_is_markup(run: GatedRun) -> None:
    spoilt = with_trouble(run)
    page = summary(gate_document(spoilt, judge(run, GATES), "value"), spoilt.sessions)
    line = next(line for line in page.splitlines() if "x1b" in line)
    # Four cells, as the head of the table has it, and no mark of a file in any of them.
    assert line.count("|") == 5
    for mark in ("<b>", "`", "[l]", "http:", "@you", "*y*", "\x1b", "\x00", "\r"):
        assert mark not in line
    page.encode("utf-8")
    # A line break in a reason does not open a line of the page.
    assert "\nnext" not in page


def test_a_reader_of_markdown_sees_tables_and_text(run: GatedRun) -> None:
    spoilt = with_trouble(run)
    page = summary(gate_document(spoilt, judge(run, GATES), "value"), spoilt.sessions)
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    tokens = reader.parse(page)
    assert not any(token.type.startswith(("html", "code", "fence")) for token in tokens)
    assert [t.type for t in tokens].count("table_open") == 3
    inline = {child.type for token in tokens for child in token.children or ()}
    # strong: the "no" of a gate that is not met.
    assert inline == {"text", "strong_open", "strong_close"}
    seen = [child.content for token in tokens for child in token.children or ()]
    told = " ".join(EVIL.split()).replace("\x1b", "\\x1b").replace("\x00", "\\x00").replace(
        "\ud800", "\\xd800").replace("\ufffe", "\\xfffe")
    assert seen.count(told) == 2


@pytest.mark.parametrize(("given", "told"), [
    ("0.35 is below 0.4", "0.35 is below 0.4"), ("R1-C1-1-L4a", "R1-C1-1-L4a"),
    ("ias_core.L2", "ias_core.L2"), ("_a_", "&#95;a&#95;"), ("a|b", "a&#124;b"),
    ("http://x", "http&#58;//x"), ("WWW.x.y", "WWW&#46;x.y"), ("&lt;", "&#38;lt;"),
    ("a\\b", "a&#92;b"), ("  a \n b ", "a b"), ("~~a~~", "&#126;&#126;a&#126;&#126;"),
    ("$x$", "&#36;x&#36;"),
])
def test_text_of_a_page(given: str, told: str) -> None:
    assert text(given) == told


def test_long_text_is_cut() -> None:
    assert text("x" * 1000) == "x" * 297 + "..."


def test_every_action_has_a_class_of_its_own(run: GatedRun) -> None:
    suite = fits(junit_xml(run, judge(run, GATES)))
    classes = {case.get("classname") for case in suite.iter("testcase")} - {"gates"}
    assert classes == {f"cases.{action}.L2" for action in Action}
