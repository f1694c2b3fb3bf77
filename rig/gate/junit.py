"""JUnit XML of a gated run, as CI systems read it: a testcase a gate, and one a case and trial.

There is no standard; what is written fits both schemas in use (Ant's, and that of the Jenkins
plugin): one `testsuite` with its counts, `failure` and `error` with a type, `skipped` with a
message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as ET

from rig.gate.loading import GatedRun
from rig.gate.results import Result
from rig.ledger import Attempt
from sweeps.table import NO_LEVEL
from verifiers.verdict import Outcome

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""XML 1.0 (fifth edition), production 2, Char: what is not in it cannot be escaped either."""
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}")
_NO_DATE = "1970-01-01T00:00:00"
"""Ant's schema wants a time; recordings of others have none."""


def junit_xml(run: GatedRun, results: Sequence[Result], *, cases: bool = True) -> str:
    """The document. With `cases` every case and trial is a testcase: `fail` is a failure, one lost
    to infrastructure an error, what is not scored otherwise is skipped."""
    suite = ET.Element("testsuite")
    properties = ET.SubElement(suite, "properties")
    for name, value in _facts(run):
        ET.SubElement(properties, "property", name=name, value=clean(value))
    for result in results:
        suite.append(_gate_case(result))
    if cases:
        suite.extend(_session_cases(run))
    ET.SubElement(suite, "system-out")
    ET.SubElement(suite, "system-err")
    counts = {"tests": len(suite.findall("testcase")),
              **{name: len(suite.findall(f"testcase/{tag}")) for name, tag in (
                  ("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))}}
    seconds = f"{sum(float(case.get('time', '0')) for case in suite.iter('testcase')):.3f}"
    suite.attrib |= {"name": clean(run.scored.name), "package": "duplexrig", "id": "0",
                     "hostname": "localhost", "timestamp": _began(run), "time": seconds,
                     **{name: str(n) for name, n in counts.items()}}
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, "unicode") + "\n"


def clean(text: str) -> str:
    """Text that XML can hold: a character that it cannot is spelled out."""
    return _NOT_XML.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def _facts(run: GatedRun) -> Iterator[tuple[str, str]]:
    info = run.scored.info
    if info is not None:
        yield "suite", f"{info.suite} {info.suite_version}"
        yield "adapter", f"{info.adapter.name} {info.adapter.version}"
        yield "clock", info.clock
    yield "playout", run.scored.playout
    if run.baseline is not None:
        yield "baseline", run.baseline.path.name
    if run.scored.changed:
        yield "settings", run.scored.changed
    for text in run.scored.conditions:
        yield "condition", text


def _gate_case(result: Result) -> ET.Element:
    case = ET.Element("testcase", classname="gates", name=clean(result.gate.name), time="0.000")
    if not result.met:
        _say(case, "failure", "gate", result.why)
    return case


def _session_cases(run: GatedRun) -> Iterator[ET.Element]:
    for session in run.sessions:
        attempt = run.attempts.get((session.case_id, session.trial))
        level = "" if session.level == NO_LEVEL else f".{session.level}"
        case = ET.Element(
            "testcase", classname=clean(f"cases.{session.action}{level}"),
            name=clean(f"{session.case_id} t{session.trial}"), time=f"{_seconds(attempt):.3f}")
        if session.status == "infra_error":
            _say(case, "error", "infra_error", session.reason)
        elif session.outcome is Outcome.FAIL:
            _say(case, "failure", str(session.action), session.reason)
        elif session.outcome is not Outcome.PASS:
            ET.SubElement(case, "skipped",
                          message=clean(f"{session.outcome}: {session.reason}"))
        yield case


def _say(case: ET.Element, tag: str, kind: str, why: str) -> None:
    ET.SubElement(case, tag, type=kind, message=clean(why)).text = clean(why)


def _seconds(attempt: Attempt | None) -> float:
    return 0.0 if attempt is None or attempt.session_s is None else attempt.session_s


def _began(run: GatedRun) -> str:
    """When the first session began, in UTC, as the ledger has it."""
    found = [m[0] for a in run.attempts.values() if (m := _DATE.match(a.started))]
    return min(found, default=_NO_DATE)
