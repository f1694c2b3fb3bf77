"""Every adapter says of every fault how its server plays it, or why it cannot have it."""

from __future__ import annotations

from dataclasses import replace

from fault_table import PAGE, Done, expected_structure, kept, page, structure
from faults import FAULTS, UNREGISTERED, NotApplicable, Plays, Subject, subjects

from adapters import registry

SUBJECTS = subjects()


def test_every_adapter_with_a_peer_is_registered() -> None:
    assert set(registry.names()) == {*SUBJECTS, *UNREGISTERED}


def test_no_fault_is_left_out_in_silence() -> None:
    assert [line for subject in SUBJECTS.values() for line in subject.problems()] == []


def test_a_gap_a_stranger_and_a_cause_that_is_not_told_are_found() -> None:
    subject = SUBJECTS["openai_realtime"]
    without = {name: play for name, play in subject.faults.items() if name != "burst"}
    lines = replace(subject, faults={
        **without, "rain": Plays(), "http_429": Plays(), "odd": NotApplicable("no")}).problems()
    assert lines == [
        "openai_realtime: burst: no scenario, and no reason why not",
        "openai_realtime: rain: no such fault",
        "openai_realtime: odd: a reason in one line is missing",
        "openai_realtime: http_429: `sees` says nothing of the cause"]


def test_the_list_holds_every_group_and_every_close_at_every_moment() -> None:
    assert {fault.group for fault in FAULTS.values()} == {
        "transparent", "infrastructure", "behaviour"}
    assert sum(name.startswith("close_") for name in FAULTS) == 15
    assert all(fault.flags or fault.outcomes for fault in FAULTS.values()
               if fault.group == "behaviour")


def test_the_kept_table_is_that_of_the_registrations() -> None:
    """Run `make faults` when an adapter or a fault was added. Numbers are not compared."""
    assert structure(PAGE.read_text(encoding="utf-8")) == expected_structure(SUBJECTS.values())


def test_a_table_is_read_as_it_was_written_and_tells_a_fault_that_failed() -> None:
    dones = [Done(subject, {name: seen(subject, name) for name in subject.played},
                  ("12", "0")) for subject in SUBJECTS.values()]
    assert structure(page(dones, "a machine")) == expected_structure(SUBJECTS.values())
    assert [kept(page(dones, "a machine"), done.subject) for done in dones] == dones
    first = dones[0]
    failed = replace(first, cells={**first.cells, "burst": "NOT AS EXPECTED: same verdict"})
    assert structure(page([failed, *dones[1:]], "a machine")) != expected_structure(
        SUBJECTS.values())


def seen(subject: Subject, name: str) -> str:
    return {"transparent": "same verdict", "infrastructure": "infra_error: a cause",
            "behaviour": "scored pass/pass/pass: no flag"}[subject.fault(name).group]
