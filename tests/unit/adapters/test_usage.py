"""What wire protocols count of a session's use, and what they say of limits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosedError
from websockets.frames import Close

from adapters.base import AgentEvent, Fault, Throttled
from adapters.usage import MAX_COUNT, Metered, Tally
from adapters.websocket_closing import closed_by
from adapters.websocket_opening import ConnectionRefusedByPeerError
from adapters.wire.event_stream import PERMANENT_CODES, EventStream
from adapters.wire.gemini_live import GeminiWire
from adapters.wire.gemini_setup import GeminiSettings
from adapters.wire.gpt_live import LiveSettings, LiveWire
from adapters.wire.openai_realtime import RealtimeWire
from adapters.wire.openai_session import SessionSettings

USAGE = {"total_tokens": 1_000, "input_tokens": 700, "output_tokens": 300,
         "input_token_details": {
             "text_tokens": 200, "audio_tokens": 500, "image_tokens": 0, "cached_tokens": 384,
             "cached_tokens_details": {"text_tokens": 128, "audio_tokens": 256}},
         "output_token_details": {"text_tokens": 60, "audio_tokens": 240}}


def give(wire: EventStream, *events: dict[str, Any]) -> list[AgentEvent]:
    out: list[AgentEvent] = []
    for event in events:
        out += wire.receive(json.dumps(event).encode(), 0).events
    return out


def realtime() -> RealtimeWire:
    settings = SessionSettings()
    wire = RealtimeWire(settings, "")
    give(wire, {"type": "session.created", "session": {}},
         {"type": "session.updated", "session": settings.session("")})
    assert wire.ready
    assert isinstance(wire, Metered)
    return wire


def live(**changes: Any) -> LiveWire:
    settings = LiveSettings(**changes)
    wire = LiveWire(settings, "")
    give(wire, {"type": "session.started", "session": settings.session("")})
    assert wire.ready
    return wire


def done(name: str, usage: object = None, **more: Any) -> dict[str, Any]:
    return {"type": "response.done", "response": {"id": name, "status": "completed",
                                                  "usage": usage, **more}}


def created(name: str) -> dict[str, Any]:
    return {"type": "response.created", "response": {"id": name}}


def test_tokens_of_all_responses_are_added_and_cached_ones_told_apart() -> None:
    wire = realtime()
    give(wire, created("a"), done("a", USAGE), created("b"), done("b", USAGE))
    assert wire.usage == {"audio_in_tokens": 488, "cached_audio_in_tokens": 512,
                          "text_in_tokens": 144, "cached_text_in_tokens": 256,
                          "audio_out_tokens": 480, "text_out_tokens": 120}


def test_an_event_that_comes_twice_is_counted_once() -> None:
    wire = realtime()
    give(wire, created("a"), {**done("a", USAGE), "event_id": "e1"},
         {**done("a", USAGE), "event_id": "e1"}, {**done("a", USAGE), "event_id": "e2"})
    assert wire.usage["audio_out_tokens"] == 240


def test_what_no_kind_is_given_for_is_unsplit() -> None:
    wire = realtime()
    give(wire, created("a"), done("a", {"input_tokens": 700, "output_tokens": 300}))
    assert wire.usage == {"unsplit_tokens": 1_000}


def test_a_response_that_is_open_or_without_a_count_is_unreported() -> None:
    wire = realtime()
    assert wire.usage == {}
    give(wire, created("a"))
    assert wire.usage == {"unreported_responses": 1}
    give(wire, done("a"), created("b"))
    assert wire.usage == {"unreported_responses": 2}
    give(wire, done("b", USAGE))
    assert wire.usage["unreported_responses"] == 1


def test_transcription_of_the_user_is_counted_apart() -> None:
    wire = realtime()
    kind = "conversation.item.input_audio_transcription.completed"
    give(wire, {"type": kind, "usage": {"type": "duration", "seconds": 3.5}},
         {"type": kind, "usage": {"type": "tokens", "total_tokens": 40}}, {"type": kind})
    assert wire.usage == {"transcription_s": 3.5, "transcription_tokens": 40,
                          "unreported_responses": 1}, "the third says nothing of its use"


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                        st.sampled_from([*USAGE, *USAGE["input_token_details"], "x"]), inner,
                        max_size=4), max_leaves=20)


@given(JSON)
def test_whatever_the_server_reports_gives_sound_counts(usage: object) -> None:
    tally = Tally()
    tally.openai_tokens(usage)
    assert all(0 < n <= 4 * MAX_COUNT for n in tally.counts.values())


def test_seconds_of_a_live_session_and_the_last_word_on_them() -> None:
    wire = live()
    assert wire.usage == {}
    give(wire, {"type": "session.usage.updated", "usage": {"seconds": 60.0}})
    assert wire.usage == {"session_s_so_far": 60.0}
    wire.closing()
    give(wire, {"type": "session.closed", "reason": "close_requested", "usage": {"seconds": 61.2}})
    assert wire.usage == {"session_s_so_far": 60.0, "session_s": 61.2}


@pytest.mark.parametrize("seconds", [None, "60", -1, True, 1e12, float("nan"), {}])
def test_seconds_that_are_none_are_not_counted(seconds: object) -> None:
    wire = live()
    give(wire, {"type": "session.usage.updated", "usage": {"seconds": seconds}})
    assert wire.usage == {}


def test_delegated_work_is_counted_where_another_model_does_it() -> None:
    event = {"type": "session.delegation.created", "offset_ms": 5, "delegation": {"id": "d"}}
    for backend, expected in (("gpt-5.6-terra", {"delegations": 1}), ("", {})):
        wire = live(backend_model=backend)
        give(wire, event)
        assert wire.usage == expected


# --- limits --------------------------------------------------------------------------------------


def limits(*found: Any) -> dict[str, Any]:
    return {"type": "rate_limits.updated", "rate_limits": list(found)}


def test_a_limit_with_nothing_left_holds_what_comes_next() -> None:
    tokens = {"name": "tokens", "limit": 40_000, "remaining": 0, "reset_seconds": 17.5}
    requests = {"name": "requests", "limit": 100, "remaining": 99, "reset_seconds": 600}
    found = [e for e in give(realtime(), limits(requests, tokens)) if isinstance(e, Throttled)]
    assert found == [Throttled(0, 17.5, "rate limit: no tokens are left")]


@pytest.mark.parametrize("event", [
    limits(), limits({"remaining": 0}), limits({"remaining": 0, "reset_seconds": 0}), limits(7),
    limits({"remaining": "0", "reset_seconds": 5}), {"type": "rate_limits.updated"},
    limits({"remaining": 0, "reset_seconds": float("nan")}),
    {"type": "rate_limits.updated", "rate_limits": {"remaining": 0, "reset_seconds": 5}}])
def test_nonsense_about_limits_holds_nothing(event: dict[str, Any]) -> None:
    assert not [e for e in give(realtime(), event) if isinstance(e, Throttled)]


def _failed(code: str) -> dict[str, Any]:
    return {"type": "response.done", "response": {"id": "a", "status": "failed", "status_details": {
        "type": "failed", "error": {"type": "some", "code": code, "message": "no"}}}}


def _error(code: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "some", "code": code, "message": "no"}}


@pytest.mark.parametrize("say", [_failed, _error])
@pytest.mark.parametrize(("code", "hopeless", "throttled"), [
    ("rate_limit_exceeded", False, True), ("server_error", False, False),
    *((code, True, False) for code in sorted(PERMANENT_CODES))])
def test_a_cause_says_whether_the_run_or_the_next_start_is_meant(
    say: Any, code: str, hopeless: bool, throttled: bool
) -> None:
    wire = realtime()
    give(wire, created("a"))
    fault, = (e for e in give(wire, say(code)) if isinstance(e, Fault))
    assert (fault.severity, fault.hopeless, fault.throttled) == ("infrastructure", hopeless,
                                                                 throttled)


# --- Gemini --------------------------------------------------------------------------------------


def gemini() -> GeminiWire:
    wire = GeminiWire(GeminiSettings(), "")
    give(wire, {"setupComplete": {}})
    assert wire.ready
    return wire


SPEECH = {"serverContent": {"modelTurn": {"parts": [{"inlineData": {
    "mimeType": "audio/pcm;rate=24000", "data": "AAAAAA=="}}]}}}
# As a user of the service saw it: 25 of the prompt's tokens are of no kind.
METADATA = {"promptTokenCount": 522, "responseTokenCount": 42, "totalTokenCount": 564,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 332},
                                    {"modality": "AUDIO", "tokenCount": 165}],
            "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 42}],
            "thoughtsTokenCount": 136}


def test_geminis_tokens_are_added_by_kind() -> None:
    wire = gemini()
    assert wire.usage == {}
    give(wire, SPEECH)
    assert wire.usage == {"unreported_responses": 1}
    give(wire, {"serverContent": {"turnComplete": True}, "usageMetadata": METADATA},
         {"usage_metadata": {"promptTokenCount": 10, "totalTokenCount": 10,
                             "cachedContentTokenCount": 4,
                             "prompt_tokens_details": [{"modality": "TEXT", "tokenCount": 10}],
                             "cacheTokensDetails": [{"modality": "TEXT", "tokenCount": 4}]}})
    assert wire.usage == {"text_in_tokens": 338, "cached_text_in_tokens": 4, "audio_in_tokens": 165,
                          "unsplit_tokens": 25, "audio_out_tokens": 42, "text_out_tokens": 136}


@pytest.mark.parametrize("metadata", [
    {}, {"totalTokenCount": 9}, {"promptTokenCount": "9"}, {"promptTokenCount": -1},
    {"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 332}]}])
def test_metadata_without_a_count_leaves_the_turn_unreported(metadata: dict[str, Any]) -> None:
    wire = gemini()
    give(wire, SPEECH, {"usageMetadata": metadata})
    assert wire.usage == {"unreported_responses": 1}


@pytest.mark.parametrize(("metadata", "counts"), [
    ({"responseTokenCount": 42}, {"unsplit_tokens": 42, "unreported_responses": 1}),
    ({"promptTokenCount": 9}, {"unsplit_tokens": 9, "unreported_responses": 1}),
    ({"promptTokenCount": -5, "responseTokenCount": 42},
     {"unsplit_tokens": 42, "unreported_responses": 1}),
    ({"promptTokenCount": "522", "responseTokenCount": 42, "totalTokenCount": 564},
     {"unsplit_tokens": 42, "unreported_responses": 1}),
    ({"promptTokenCount": 9, "responseTokenCount": 42, "thoughtsTokenCount": 1e300},
     {"unsplit_tokens": 51, "unreported_responses": 1}),
    ({"responseTokenCount": 42, "totalTokenCount": 564}, {"unsplit_tokens": 564}),
    ({"promptTokenCount": 9, "totalTokenCount": 9}, {"unsplit_tokens": 9})])
def test_half_a_count_is_never_taken_for_all(
    metadata: dict[str, Any], counts: dict[str, float]
) -> None:
    wire = gemini()
    give(wire, SPEECH, {"usageMetadata": metadata})
    assert wire.usage == counts


def test_a_turn_that_was_counted_does_not_hide_one_that_was_not() -> None:
    wire = gemini()
    give(wire, SPEECH, {"serverContent": {"turnComplete": True}, "usageMetadata": METADATA})
    assert "unreported_responses" not in wire.usage
    give(wire, SPEECH)
    assert wire.usage["unreported_responses"] == 1


def test_a_refused_setup_is_hopeless_and_a_refused_message_later_is_not() -> None:
    fresh = GeminiWire(GeminiSettings(), "")
    before, after = (w.closed(1007, "") for w in (fresh, gemini()))
    assert before is not None
    assert after is not None
    assert (before.hopeless, after.hopeless) == (True, False)
    quota = gemini().closed(1011, "You exceeded your current quota")
    assert quota is not None
    assert (quota.hopeless, quota.throttled) == (False, True)


# --- closes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "throttled"), [(1013, True), (1012, False), (1000, False)])
def test_a_close_of_an_overloaded_server_is_a_throttle(code: int, throttled: bool) -> None:
    error = ConnectionClosedError(Close(code, "later"), Close(code, "later"), rcvd_then_sent=True)
    cause = closed_by(error, realtime())
    assert (cause.hopeless, cause.throttled) == (False, throttled)


@pytest.mark.parametrize(("ours", "theirs", "told"), [
    (Close(1008, "more than 10000 pings and pongs"), None,
     "1008 'more than 10000 pings and pongs'"),
    (Close(1011, "keepalive ping timeout"), None, "1011 'keepalive ping timeout'"),
    (Close(1008, "a message of more than 100000 frames"), Close(1008, ""),
     "1008 'a message of more than 100000 frames'"), (Close(1002, ""), None, "1002")])
def test_a_close_of_the_rigs_own_says_so_and_why(ours: Close, theirs: Close | None, told: str
                                                 ) -> None:
    """Without the hints about a server's codes, such as that a key was refused."""
    error = ConnectionClosedError(theirs, ours, rcvd_then_sent=None if theirs is None else False)
    cause = closed_by(error, realtime())
    assert cause.text == f"the rig closed the connection: {told}"
    assert (cause.hopeless, cause.throttled) == (False, False)


@pytest.mark.parametrize(("status", "no_use", "hopeless", "throttled"), [
    (429, False, False, True), (503, False, False, True), (429, True, True, False),
    (401, False, True, False), (500, False, False, False)])
def test_an_http_answer_is_about_all_sessions_or_the_run_or_this_one(
    status: int, no_use: bool, hopeless: bool, throttled: bool
) -> None:
    error = ConnectionRefusedByPeerError("no", status, None, no_use=no_use)
    assert (error.hopeless, error.throttled) == (hopeless, throttled)
