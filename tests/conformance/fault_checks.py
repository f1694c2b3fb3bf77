"""What must be true of a session with a fault, by the group of the fault."""

from __future__ import annotations

import re

import stalls
from fault_suite import FaultSuite, Seen
from faults import Fault
from recorded_tracks import differing_samples
from session_harness import Result, assert_same_responses, assert_same_speech

from audio.timebase import NS_PER_S
from rig.record import FaultEvent
from verifiers.verdict import Verdict

FRAME_S = 0.02
DETECTOR_S = 0.032
HOPELESS = {"wrong_key": True, "http_429": False, "close_1013_handshake": False}
"""Whether `rig run` must take another try for useless."""
LONGEST_S = 14.0
"""No session lasts longer: its schedule ends after 11.5 s at most, or its peer is given up."""


SHORT = {"the server closed the connection: ": "closed: ", "the server answered ": "",
         "the agent answered ": "", "POST: ": "", "the agent closed the connection: ": "closed: ",
         "cannot connect: ": "", "error event: ": "", "; rate limit or quota": "",
         "the rig closed the connection: ": "given up: ",
         "the connection broke off without a close (1006)": "broke off (1006)"}
"""Of a reason, for a cell of the table."""


def value_tolerance_s(mine: Result, calm: Result, later_s: float) -> float:
    """How far two waits for the same reply may lie apart.

    A frame on either side (the user's turn and the server's ear stand on grids of 20 ms), three
    frames of the detector (the same samples elsewhere on its grid begin so much apart), what the
    server sends later by construction, and how late these two sessions were, as measured.
    """
    late_s = sum(max(r.played.late_ns) for r in (mine, calm) if r.played is not None) / NS_PER_S
    return 2 * FRAME_S + 3 * DETECTOR_S + later_s + late_s


def check(suite: FaultSuite, name: str) -> None:
    """Raise `AssertionError` unless the fault ended as its group must. Nothing is said of a machine
    that did not keep time for the undisturbed session either, tried as often."""
    if suite.subject.fault(name).group != "infrastructure":
        calm = suite.seen["calm"]
        stalls.skip_where_void(calm.outcome.status, calm.outcome.reason)
    fault, seen = suite.subject.fault(name), suite.seen[name]
    assert seen.result.lasted_s < LONGEST_S
    {"transparent": check_transparent, "infrastructure": check_infrastructure,
     "behaviour": check_behaviour}[fault.group](suite, fault, seen)


def check_scored(suite: FaultSuite, seen: Seen) -> None:
    """Played, recorded where the arrivals say, and with nothing worse than transparent trouble."""
    assert seen.outcome.status == "done", seen.outcome
    assert seen.record is not None
    assert differing_samples(suite, seen) == 0
    assert all(e.severity == "transparent" for e in seen.record.events if isinstance(e, FaultEvent))
    assert re.search(seen.play.sees, seen.result.log.replace("\\", "")), seen.play.sees


def check_transparent(suite: FaultSuite, fault: Fault, seen: Seen) -> None:
    """The verdict of the real scoring, its flags and the tracks are those of the calm session."""
    calm = suite.seen["calm"]
    check_scored(suite, seen)
    assert seen.record.flags == calm.record.flags
    for action, theirs in calm.verdicts.items():
        _same(seen.verdicts[action], theirs, suite, seen)
    _same(seen.flush_verdict, calm.flush_verdict, suite, seen)
    later_s = seen.play.later_s
    if suite.subject.same == "responses":
        assert_same_responses(seen.result, calm.result)
    else:
        assert_same_speech(seen.result, calm.result, later_s,
                           int(seen.record.adapter.capabilities["output_rate_hz"]),
                           by_likeness=suite.subject.same == "sound")


def _same(mine: Verdict, theirs: Verdict, suite: FaultSuite, seen: Seen) -> None:
    assert (mine.outcome, mine.flags, mine.limit) == (theirs.outcome, theirs.flags, theirs.limit)
    assert (mine.value is None) == (theirs.value is None)
    if mine.unit == "s" and mine.value is not None:
        later_s = seen.play.later_s + suite.subject.piece_s
        assert abs(mine.value - theirs.value) < value_tolerance_s(
            seen.result, suite.seen["calm"].result, later_s)
    else:
        assert mine.value == theirs.value


def check_infrastructure(suite: FaultSuite, fault: Fault, seen: Seen) -> None:
    """`infra_error`, soon, with its cause in one line of the ledger, and nothing to score."""
    attempt = suite.attempts[seen.name]
    assert attempt.status == "infra_error", seen.result.log
    assert attempt.reason == seen.outcome.reason
    assert re.search(seen.play.sees, attempt.reason), attempt.reason
    assert "\n" not in attempt.reason
    assert seen.result.lasted_s < 8.0
    assert seen.record is None
    assert not suite.run.record_path(attempt.case_id, attempt.trial).exists()
    if fault.name == "http_429_retry_after":
        assert seen.outcome.retry_after_s == 7.0
    else:
        assert seen.outcome.retry_after_s is None
    if fault.name in HOPELESS:
        assert seen.outcome.hopeless is HOPELESS[fault.name]
    if seen.play.hopeless is not None:
        assert seen.outcome.hopeless is seen.play.hopeless


def check_behaviour(suite: FaultSuite, fault: Fault, seen: Seen) -> None:
    """Scored, each action with its outcome, and flagged."""
    calm = suite.seen["calm"]
    check_scored(suite, seen)
    assert set(fault.flags) <= set(seen.record.flags), seen.record.flags
    for action, outcome in fault.outcomes:
        wanted = calm.verdicts[action].outcome if outcome == "calm" else outcome
        if action == "READBACK" and not suite.subject.words:
            wanted = "unscored"
        assert seen.verdicts[action].outcome == wanted, (action, seen.verdicts[action])


def check_calm(suite: FaultSuite) -> None:
    """The undisturbed session passes by every action, unflagged: otherwise equal says nothing."""
    calm = suite.seen["calm"]
    stalls.skip_where_void(calm.outcome.status, calm.outcome.reason)
    check_scored(suite, calm)
    assert {action: str(v.outcome) for action, v in calm.verdicts.items()} == {
        "TAKE_TURN": "pass", "LISTEN": "pass",
        "READBACK": "pass" if suite.subject.words else "unscored"}
    assert str(calm.flush_verdict.outcome) == "pass"
    assert calm.result.played.flags == set()
    assert not [e for e in calm.record.events if isinstance(e, FaultEvent)]


def cell(suite: FaultSuite, name: str) -> str:
    """What was seen, for the table."""
    fault, seen = suite.subject.fault(name), suite.seen[name]
    if fault.group == "infrastructure":
        reason = re.sub(r"^\w+://\S+: ", "", seen.outcome.reason or "no reason")
        for said, short in SHORT.items():
            reason = reason.replace(said, short)
        return f"{seen.outcome.status}: {shortened(reason)}"
    if seen.outcome.status != "done":
        return f"{seen.outcome.status}: {shortened(seen.outcome.reason or '')}"
    outcomes = "/".join(str(verdict.outcome) for verdict in seen.verdicts.values())
    if fault.group == "transparent":
        return "same verdict"
    return f"scored {outcomes}: {', '.join(seen.record.flags) or 'no flag'}"


def shortened(text: str, length: int = 44) -> str:
    """The beginning of a line, fit for a cell of a table."""
    text = text.replace("|", "/").replace("`", "'")
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"
