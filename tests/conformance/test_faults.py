"""One suite over every adapter that has a peer: each fault, played through the real pipeline.

By default the `quick` faults of `faults.py` are played; the rest are `slow`, and those of adapters
that need another package `peer`. `make faults` plays them all and writes docs/faults.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from fault_checks import check, check_calm
from fault_suite import FaultSuite, played_faults
from faults import Subject, subjects
from session_harness import KEY, assert_key_unseen

SUBJECTS = subjects()


def is_quick(subject: Subject, name: str) -> bool:
    return subject.fault(name).quick and "/" not in name


def names(subject: Subject, quick: bool) -> list[str]:
    return [name for name in subject.played if is_quick(subject, name) is quick]




def marks(subject: Subject, quick: bool) -> list[pytest.MarkDecorator]:
    """`peer` takes the place of `slow`: what needs another environment is played there, all of it.
    """
    if subject.needs is not None:
        return [pytest.mark.peer, pytest.mark.skipif(subject.missing is not None,
                                                     reason=str(subject.missing))]
    return [] if quick else [pytest.mark.slow]


PLAYED = [pytest.param(adapter, name, marks=marks(subject, quick))
          for quick in (True, False) for adapter, subject in SUBJECTS.items()
          for name in names(subject, quick)]
HALVES = [pytest.param(adapter, quick, marks=marks(subject, quick),
                       id=f"{adapter}-{'quick' if quick else 'slow'}")
          for quick in (True, False) for adapter, subject in SUBJECTS.items()]


@pytest.fixture(scope="module")
def suite_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., FaultSuite]:
    """Half of an adapter's faults, played when first asked for."""
    suites: dict[tuple[str, bool], FaultSuite | Exception] = {}

    def get(adapter: str, quick: bool) -> FaultSuite:
        key = adapter, quick
        if key not in suites:
            subject = SUBJECTS[adapter]
            try:
                suites[key] = played_faults(subject, names(subject, quick),
                                            tmp_path_factory.mktemp("faults"))
            except Exception as error:  # noqa: BLE001  told by each test, without another try
                suites[key] = error
        found = suites[key]
        if isinstance(found, Exception):
            raise AssertionError("the sessions could not be played") from found
        return found

    return get


@pytest.mark.parametrize(("adapter", "name"), PLAYED)
def test_a_fault_ends_as_its_kind_must(
    suite_of: Callable[..., FaultSuite], adapter: str, name: str,
) -> None:
    check(suite_of(adapter, is_quick(SUBJECTS[adapter], name)), name)


@pytest.mark.parametrize(("adapter", "quick"), HALVES)
def test_the_undisturbed_session_passes(
    suite_of: Callable[..., FaultSuite], adapter: str, quick: bool,
) -> None:
    check_calm(suite_of(adapter, quick))


@pytest.mark.parametrize(("adapter", "quick"), HALVES)
def test_the_key_is_in_no_log_no_error_no_file_and_no_object(
    suite_of: Callable[..., FaultSuite], adapter: str, quick: bool,
) -> None:
    suite = suite_of(adapter, quick)
    for file in suite.run.path.rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes(), file
    assert_key_unseen(suite)
    if SUBJECTS[adapter].key_variable is not None:  # it was in use all the while
        assert KEY in str(suite.results["calm"].conversation.headers)


def test_what_ended_otherwise_is_found(suite_of: Callable[..., FaultSuite]) -> None:
    """The sessions of one fault, shown as those of another."""
    suite = suite_of("openai_realtime", True)
    for name, other in (("burst", "near_zero"), ("burst", "close_1006_mid_turn"),
                        ("close_1006_mid_turn", "burst"), ("wrong_key", "refused"),
                        ("near_zero", "burst"), ("never_speaks", "near_zero")):
        shown = replace(suite.seen[other], play=suite.seen[name].play)
        mixed = replace(suite, seen={**suite.seen, name: shown})
        with pytest.raises(AssertionError):
            check(mixed, name)
    silent = replace(suite, seen={**suite.seen, "calm": suite.seen["never_speaks"]})
    with pytest.raises(AssertionError):
        check_calm(silent)
