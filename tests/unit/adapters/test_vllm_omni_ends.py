"""The vLLM-Omni adapter's protocol, message by message: interruptions, ends, hostile input."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from driven_vllm_omni import MS, PCM, Driven
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.base import (
    Fault,
    Interrupted,
    ResponseDone,
    ResponseStarted,
    StateChanged,
)
from adapters.wire import event_stream
from adapters.wire.vllm_omni import LOGGED


@pytest.mark.parametrize("policy", ["", "commit_all_on_done"])
def test_nothing_is_told_to_a_server_that_takes_all_for_heard(policy: str) -> None:
    d = Driven(playback_commit_policy=policy, heartbeat_s=0.0)
    d.begin()
    d.audio(PCM)
    assert d.wire.due_ns is None
    d.done(status="cancelled", t_ms=100)
    assert d.acks() == []
    assert len(d.of(Interrupted)) == 1


def barge_in(d: Driven) -> None:
    d.give({"type": "overlap.decision", "action": "barge_in", "reason": "x"}, t_ms=120)


def cleared(d: Driven) -> None:
    d.give({"type": "output_audio_buffer.cleared", "response_id": "r1"}, t_ms=120)


def cancelled(d: Driven) -> None:
    d.done(status="cancelled", t_ms=120, status_details={"reason": "barge_in"})


@pytest.mark.parametrize("first", [barge_in, cleared, cancelled])
def test_an_interruption_is_told_once_whatever_says_it_first(
    first: Callable[[Driven], None],
) -> None:
    d = Driven(capabilities={"supports_audio_truncate": True})
    d.begin()
    d.audio(PCM[:24_000])
    first(d)
    barge_in(d)
    cleared(d)
    cancelled(d)
    assert d.of(Interrupted) == [Interrupted(120 * MS, "r1")]
    (ack,) = d.acks()
    assert {k: v for k, v in ack.items() if k != "event_id"} == {
        "type": "playback.ack", "response_id": "r1", "item_id": "item_r1", "played_ms": 120,
        "committed_ms": 120, "truncate": True}
    d.audio(PCM[:4_800], t_ms=200)  # what still comes is recorded, and told by nobody
    assert d.tick(10_000) == []


def test_what_cannot_be_truncated_is_only_told() -> None:
    d = Driven()
    d.begin()
    d.audio(PCM)
    cancelled(d)
    assert "truncate" not in d.acks()[0]


@pytest.mark.parametrize("action", ["drop", "listen", None, ["barge_in"]])
def test_other_decisions_interrupt_nothing(action: Any) -> None:
    d = Driven()
    d.begin()
    d.audio(PCM)
    d.give({"type": "overlap.decision", "action": action})
    assert d.of(Interrupted) == []


def test_a_response_that_said_nothing_is_cancelled_without_an_interruption() -> None:
    d = Driven()
    d.begin()
    d.done(status="cancelled")
    assert d.of(Interrupted) == d.of(ResponseDone) == []


# upkeep, ends, errors, bounds

def test_a_heartbeat_is_sent_at_its_interval() -> None:
    d = Driven(heartbeat_s=30.0)
    assert d.wire.due_ns == 30_000 * MS
    assert d.tick(29_999) == []
    assert [m["type"] for m in d.tick(30_010)] == ["session.heartbeat"]
    assert d.wire.due_ns == 60_010 * MS
    assert Driven(heartbeat_s=0.0).wire.due_ns is None


def test_the_end_is_asked_for_once_and_waited_for() -> None:
    d = Driven(close_timeout_s=3.0)
    assert d.wire.linger_s == 3.0
    (message,) = d.wire.closing()
    assert json.loads(message)["type"] == "session.close"
    assert d.wire.closing() == ()
    assert not d.wire.over
    d.give({"type": "session.closed", "reason": "client_close"})
    assert d.wire.over
    assert d.of(Fault) == []
    assert d.said == []  # nothing is acknowledged any more
    assert d.wire.due_ns is None


@pytest.mark.parametrize("kind", ["session.closed", "session.expired", "session.replaced"])
@pytest.mark.parametrize(("reason", "told"), [
    ("timeout", "timeout"), (None, "no reason given"), (["x"], '["x"]')])
def test_an_end_that_nobody_asked_for_is_trouble_of_the_connection(
    kind: str, reason: Any, told: str,
) -> None:
    d = Driven()
    d.give({"type": kind, "reason": reason})
    assert d.of(Fault) == [
        Fault(0, "infrastructure", f"the server ended the session: {kind}: {told}")]
    assert d.wire.over
    assert d.wire.closing() == ()


@pytest.mark.parametrize(("error", "ready", "severity", "hopeless", "throttled"), [
    ({"type": "invalid_request_error", "code": "x", "event_id": "playback_9"}, True,
     "transparent", False, False),
    ({"type": "invalid_request_error", "code": "bad_event", "event_id": "audio_9"}, True,
     "infrastructure", False, False),
    ({"type": "server_error", "code": "runtime_append_failed"}, True,
     "infrastructure", False, False),
    ({"type": "rate_limit_error", "code": "resource_exhausted"}, False,
     "infrastructure", False, True),
    ({"type": "invalid_request_error", "code": "ref_audio_required"}, False,
     "infrastructure", True, False)])
def test_errors_by_code(error: dict[str, Any], ready: bool, severity: str, hopeless: bool,
                        throttled: bool) -> None:
    d = Driven(ready=ready)
    d.give({"type": "error", "error": {**error, "message": "because"}})
    (fault,) = d.of(Fault)
    assert (fault.severity, fault.hopeless, fault.throttled) == (severity, hopeless, throttled)
    assert f"{error['code']}: because" in fault.reason


def test_an_error_of_the_handshake_is_flat_and_told_as_well() -> None:
    d = Driven(ready=False)
    d.raw({"type": "error", "error": "no voice", "code": "ref_audio_required"})
    assert d.of(Fault) == [Fault(
        0, "infrastructure", "error event: session_error: ref_audio_required: no voice; retrying "
        "will not help", hopeless=True)]


def test_every_known_event_is_logged_and_an_unknown_one_by_name() -> None:
    d = Driven()
    for kind in sorted(LOGGED):
        d.give({"type": kind, "x": "y" * 5_000})
    assert [e.name for e in d.of(StateChanged)] == sorted(LOGGED)
    assert max(len(e.detail) for e in d.of(StateChanged)) <= 1_000
    d.give({"type": "model.mood"})
    assert d.events[-1] == StateChanged(0, "unknown_event", "model.mood")
    d.created()
    assert d.of(Fault) == [Fault(0, "transparent", "session.created again skipped")]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(
    st.sampled_from([
        "session.created", "session.closed", "session.expired", "response.created",
        "response.speak", "response.listen", "response.done", "response.output_audio.delta",
        "response.audio.delta", "response.output_audio.done",
        "response.output_audio_transcript.delta", "response.output_audio_transcript.done",
        "output_audio_buffer.cleared", "overlap.decision", "error"]),
    st.dictionaries(
        st.sampled_from(["session", "delta", "response", "response_id", "item_id", "reason",
                         "error", "event_id", "server_event_seq", "transcript", "action", "format",
                         "sample_rate_hz"]),
        st.sampled_from(["r1", "AAAA", "AAA", "pcm16", 24_000, "barge_in", {"id": "r1"},
                         {"status": "cancelled", "id": "r1"}, {"status": "failed"}])
        | st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
                       lambda inner: st.lists(inner, max_size=3)
                       | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=6))),
    max_size=6))
def test_no_event_of_whatever_shape_raises(events: list[tuple[str, dict[str, Any]]]) -> None:
    for ready in (False, True):
        d = Driven(ready=ready)
        for t_ms, (kind, body) in enumerate(events):
            d.raw({**body, "type": kind}, 100 * t_ms)
        assert len(d.of(Interrupted)) <= len(events)
        started = [e.response_id for e in d.of(ResponseStarted)]
        ended = [e.response_id for e in d.of(ResponseDone)]
        assert len(set(started)) == len(started)
        assert len(set(ended)) == len(ended)
        assert set(ended) <= set(started)
        d.tick(10_000)


def test_what_a_server_may_send_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "MAX_AUDIO_S", 0.1)
    monkeypatch.setattr(event_stream, "MAX_TEXT_CHARS", 3)
    d = Driven()
    d.begin()
    d.audio(PCM[:4_800])
    d.text("abc")
    assert d.of(Fault) == []
    d.audio(PCM[:2])
    d.text("d")
    assert [f.reason for f in d.of(Fault)] == [
        "the server sent more than 0.1 s of audio",
        "the server sent more than 3 characters of transcript"]
    d = Driven()
    for k in range(1_001):
        d.begin(f"r{k}")
    assert [f.reason for f in d.of(Fault)] == ["the server began more than 1000 responses"]
