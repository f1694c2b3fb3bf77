"""The GPT-Live adapter against a loopback server of its protocol, with injected faults.

Nothing on this wire ends a reply, so the model's speech is compared by its sound: what was heard
that is not digital silence, where, and for how long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from live_server import FRAME_MS, LiveConversation, LiveScenario, LiveServer, end_with, reply_pcm
from mangles import (
    SplitSamples,
    broken_pieces,
    empty_pieces,
    is_audio,
    no_event_ids,
    repeated,
    unknown_events,
    unreadable,
)
from realtime_server import close_with, drop, say
from session_harness import (
    BOUNDS,
    KEY,
    PROMPT,
    RATE_HZ,
    Result,
    Subject,
    Suite,
    assert_ended,
    assert_no_key,
    assert_no_websocket,
    met,
    played_suite,
)

from audio.buffers import float_to_pcm16
from audio.timebase import n_to_ns
from rig.record import (
    FaultEvent,
    InterruptedEvent,
    ResponseDoneEvent,
    ResponseStartedEvent,
    StateEvent,
    TextEvent,
)
from rig.recorder import hold_placements

SETTINGS = {"ready_timeout_s": "2", "open_timeout_s": "2", "close_timeout_s": "1"}
BOUNDS_LIVE = replace(BOUNDS, turn1_reply_s=4.0, turn2_reply_s=4.0)
"""A reply is known to be over after a second of silence."""
EARLY_TURN2 = replace(BOUNDS_LIVE, turn1_reply_s=1.5)
"""Turn 2 begins in the middle of a long reply."""
REPLIES_S = (1.2, 0.8)
SILENCE_N = 2_400
"""So many zeros in a row are between replies: 0.1 s."""
APART_NS = 500_000_000
"""So far apart are replies, and never the pieces of one."""


def ids_repeated(event: dict) -> list:
    """Audio carries no id: two equal pieces of it are two pieces."""
    return [event] if is_audio(event) else repeated(event)


def friendly_words(event: dict) -> list:
    if event["type"] != "session.output_transcript.delta":
        return [event]
    return [
        {"type": "session.usage.updated", "event_id": event["event_id"] + "u",
         "usage": {"seconds": 1.0}, "context_window": {"usage_ratio": 0.01}},
        {"type": "info", "event_id": event["event_id"] + "i", "code": "note", "message": "hello"},
        {"type": "session.delegation.created", "event_id": event["event_id"] + "d",
         "offset_ms": 5, "delegation": {"id": "d1", "type": "responses", "target": "x"}},
        {"type": "session.input_transcript.delta", "event_id": event["event_id"] + "t",
         "delta": "what the user said", "start_ms": 0, "end_ms": 200}, event]


def harmless_errors(event: dict) -> list:
    if event["type"] != "session.output_transcript.delta":
        return [event]
    return [error_event("invalid_request_error", "immutable_field_update", "no such thing"), event]


def error_event(kind: str, code: str, message: str, about: str | None = None) -> dict:
    return {"type": "error", "event_id": f"e9{about}", "error": {
        "type": kind, "code": code, "message": message, "param": None, "client_event_id": about}}


class Broken:
    """One piece of audio in the middle of the reply is no base64."""

    def __init__(self) -> None:
        self._pieces = 0

    def __call__(self, event: dict) -> list:
        self._pieces += is_audio(event)
        return broken_pieces(event) if self._pieces == 10 else [event]


def scenario(**more: object) -> LiveScenario:
    return LiveScenario(replies_s=REPLIES_S, **more)  # type: ignore[arg-type]


TRANSPARENT: dict[str, tuple[LiveScenario, str | None]] = {
    # name: what goes wrong, and the trace that it must leave in the log (None: none is needed)
    "at_once": (scenario(at_once=True), None),
    "trickle": (scenario(chunk_s=0.01), None),
    "long_pieces": (scenario(chunk_s=0.15), None),
    "no_silence": (scenario(streams_silence=False), "transcript_ahead"),
    "times_in_audio": (scenario(times_in_audio=True), None),
    "no_times_in_text": (scenario(times_in_text=False), None),
    "late_transcript": (scenario(trail_s=0.9), None),
    "unknown_events": (scenario(mangle=unknown_events), "unknown_event"),
    "repeated_events": (scenario(mangle=ids_repeated),
                        "repeated event skipped: session.output_transcript.delta"),
    "empty_pieces": (scenario(mangle=empty_pieces), "audio delta skipped: expected audio"),
    "unreadable": (scenario(mangle=unreadable), "unreadable message skipped"),
    "split_samples": (scenario(make_mangle=SplitSamples), "splits a sample"),
    "no_event_ids": (scenario(mangle=no_event_ids), None),
    "other_events": (scenario(mangle=friendly_words), "what the user said"),
    "harmless_errors": (scenario(mangle=harmless_errors), "no such thing"),
    "binary_frames": (scenario(as_binary=True), None),
    "fragmented_frames": (scenario(fragmented=True), None),
}

INFRASTRUCTURE: dict[str, tuple[LiveScenario, str]] = {
    "http_401": (LiveScenario(http=(401, {}, '{"error": "Incorrect API key provided: $KEY"}')),
                 r"HTTP 401; the key was refused; .*\[redacted\]"),
    "http_429": (LiveScenario(http=(429, {"Retry-After": "7"}, "slow down")),
                 r"HTTP 429; rate limit or quota; retry after 7 s; slow down"),
    "no_started": (LiveScenario(say_updated=False), r"connected, but not ready within 2 s"),
    "no_model": (LiveScenario(at_connect=say(error_event(
                     "invalid_request_error", "invalid_model", "no such model", "session_1"))),
                 r"not ready: error event: invalid_request_error: invalid_model: no such model "
                 r"\(in answer to session_1\); retrying will not help$"),
    "format": (LiveScenario(granted={"audio": {"format": {"rate": 16000}}}),
               r"another audio format: audio.format.rate: 16000 instead of 24000"),
    "voice": (LiveScenario(granted={"audio": {"output": {"voice": "cedar"}}}),
              r"did not apply .*audio.output.voice: cedar instead of marin"),
    "gate_1013": (LiveScenario(at_connect=close_with(1013, "busy")),
                  r"not ready: the server closed the connection: 1013 'busy'"),
    "turn_1006": (scenario(at_delta=(10, drop())), r"broke off without a close \(1006\)"),
    "turn_1011": (scenario(at_delta=(10, close_with(1011, "bye"))),
                  r"the server closed the connection: 1011 'bye'"),
    "expired": (scenario(at_delta=(10, end_with("expired"))),
                r"the server ended the session: expired$"),
    "content": (scenario(at_delta=(10, end_with("content"))),
                r"the server ended the session: content$"),
    "our_audio": (scenario(at_delta=(10, say(error_event(
                      "invalid_request_error", "invalid_audio", "odd length", "audio_7")))),
                  r"invalid_audio: odd length \(in answer to audio_7\)$"),
    "quota": (scenario(at_delta=(10, say(error_event(
                  "invalid_request_error", "insufficient_quota", "no money left")))),
              r"insufficient_quota: no money left; retrying will not help$"),
    "server_error": (scenario(at_delta=(10, say(error_event("server_error", "internal", "oops")))),
                     r"error event: server_error: internal: oops"),
    "key_in_error": (scenario(at_delta=(10, say(error_event(
                         "server_error", "internal", f"your header was Bearer {KEY}")))),
                     r"your header was \[redacted\]"),
    "gibberish": (scenario(at_delta=(10, say(*["hello"] * 30))),
                  r"21 messages in a row are no events"),
    "broken_piece": (scenario(make_mangle=Broken), r"audio delta: expected base64"),
    "stops_reading": (LiveScenario(respond=False, stop_reading_after_s=0.1),
                      r"the network takes user audio too slowly: 25 frames of 20 ms wait"),
}

BEHAVIOUR: dict[str, LiveScenario] = {
    "silent": LiveScenario(respond=False),
    "no_stream": LiveScenario(respond=False, streams_silence=False),
    "never_stops": LiveScenario(replies_s=(30.0,), yields=False),
    "barge_in": LiveScenario(replies_s=(6.0, 0.8)),
    "ten_at_once": LiveScenario(replies_s=(10.0, 0.8), at_once=True),
    "close_ignored": scenario(answers_close=False),
    "at_16_khz": scenario(),
    "by_arrival": scenario(),
    "no_backend": scenario(),
    "other_voice": INFRASTRUCTURE["voice"][0],
}
CHANGED = {"at_16_khz": {"rate_hz": "16000"}, "by_arrival": {"transcript_times": "arrival"},
           "no_backend": {"backend_model": ""}, "other_voice": {"strict_session": "false"}}


@pytest.fixture(scope="module")
def suite() -> Iterator[Suite]:
    scenarios = {"calm": scenario(), **{n: s for n, (s, _) in TRANSPARENT.items()},
                 **{n: s for n, (s, _) in INFRASTRUCTURE.items()}, **BEHAVIOUR}
    bounds = {"barge_in": EARLY_TURN2, "never_stops": EARLY_TURN2,
              "stops_reading": replace(BOUNDS_LIVE, turn1_reply_s=8.0),
              "ten_at_once": replace(BOUNDS_LIVE, turn1_reply_s=14.0)}
    yield from played_suite(
        Subject("gpt_live", "OPENAI_API_KEY", SETTINGS, CHANGED, BOUNDS_LIVE),
        LiveServer(scenarios), bounds)


def spoken(result: Result, rate_hz: int = RATE_HZ) -> list[tuple[int, bytes]]:
    """Each stretch of the heard track that is not silence: onset in nanoseconds, PCM16."""
    assert result.played is not None
    if not result.played.received:
        return []
    pcm = float_to_pcm16(np.concatenate(result.played.received))
    at_ns = np.concatenate([p.start_ns + np.arange(p.n) * (10**9 / rate_hz)
                            for p in hold_placements(result.played, rate_hz)])
    loud = np.flatnonzero(pcm)
    if not len(loud):
        return []
    apart_ns = np.diff(at_ns[loud])  # a server that streams no silence leaves none to be counted
    cuts = np.flatnonzero((np.diff(loud) > SILENCE_N) | (apart_ns > APART_NS)) + 1
    return [(int(at_ns[run[0]]), pcm[run[0]:run[-1] + 1].astype("<i2").tobytes())
            for run in np.split(loud, cuts)]


def bare(pcm: bytes) -> bytes:
    """Without the silence at both ends."""
    samples = np.frombuffer(pcm, dtype="<i2")
    loud = np.flatnonzero(samples)
    return samples[loud[0]:loud[-1] + 1].tobytes()


def waited_as_it_should(reply: tuple[int, bytes], turn2_ns: int) -> bool:
    """Whether turn 2 began after a second of silence, as the rig hears it."""
    onset_ns, pcm = reply
    return 1_000_000_000 < turn2_ns - (onset_ns + n_to_ns(len(pcm) // 2, RATE_HZ)) < 1_600_000_000


def test_a_calm_session_is_recorded_exactly(suite: Suite) -> None:
    result, server = met(suite, "calm")
    assert isinstance(server, LiveConversation)
    (a, first), (c, second) = spoken(result)
    assert (first, second) == (bare(reply_pcm(1, 1.2)), bare(reply_pcm(2, 0.8)))
    assert result.text == {None: "reply1 is this one reply2 is this one "}
    assert result.of(FaultEvent) == []
    for kind in (ResponseStartedEvent, ResponseDoneEvent, InterruptedEvent):
        assert result.of(kind) == []
    assert result.played.flags == set()
    # A piece of 0.1 s arrives when session time has passed it, so it is heard 0.1 s later.
    for heard_ns, (start_n, _), number in zip((a, c), server.replies, (1, 2), strict=True):
        quiet_n = np.flatnonzero(np.frombuffer(reply_pcm(number, 0.5), dtype="<i2"))[0]
        assert 0 <= heard_ns - n_to_ns(start_n + int(quiet_n), RATE_HZ) - 20_000_000 < \
            100_000_000 + result.tolerance_ns()
    assert waited_as_it_should((a, first), n_to_ns(result.played.turn2_onset_n, RATE_HZ))
    assert server.closed_reason == "close_requested"
    assert server.close_code == 1000


def test_the_session_of_the_paper_is_asked_for_first_and_the_user_heard_from_the_start(
    suite: Suite,
) -> None:
    result, server = met(suite, "calm")
    assert server.received[0]["type"] == "session.start"
    assert server.received[0]["session"] == {
        "model": "calm", "instructions": PROMPT,
        "audio": {"format": {"type": "audio/pcm", "rate": 24000}, "output": {"voice": "marin"}},
        "delegation": {"type": "responses", "responses": {"model": "gpt-5.6-terra"}}}
    kinds = [e["type"] for e in server.received]
    assert kinds[-1] == "session.close"
    assert set(kinds[1:-1]) == {"session.input_audio.append"}
    said = float_to_pcm16(result.played.user).astype("<i2").tobytes()
    assert said[:len(server.audio)] == bytes(server.audio)
    assert len(said) - len(server.audio) in (0, 960)
    assert server.headers["Authorization"] == f"Bearer {KEY}"
    assert "/v1/calm/live/sessions" in suite.server.paths  # no query
    for conversation in (c for one in suite.server.conversations.values() for c in one):
        assert conversation.audio_before_ready == 0
        assert conversation.errors == []


@pytest.mark.parametrize("name", TRANSPARENT)
def test_transparent_trouble_changes_nothing_that_is_measured(suite: Suite, name: str) -> None:
    calm, (result, _) = suite.results["calm"], met(suite, name)
    mine, theirs = spoken(result), spoken(calm)
    assert [pcm for _, pcm in mine] == [pcm for _, pcm in theirs]
    # A sound is heard when its piece is whole: up to the length of one later.
    pieces_ns = round(abs(TRANSPARENT[name][0].chunk_s - scenario().chunk_s) * 10**9)
    tolerance_ns = result.tolerance_ns(calm) + pieces_ns
    assert abs(mine[0][0] - theirs[0][0]) < tolerance_ns
    # Where its silence begins is the detector's to say, and may be a syllable apart.
    turn2_ns, calm_turn2_ns = (n_to_ns(r.played.turn2_onset_n, RATE_HZ) for r in (result, calm))
    assert waited_as_it_should(mine[0], turn2_ns)
    assert abs(mine[1][0] - turn2_ns - (theirs[1][0] - calm_turn2_ns)) < tolerance_ns
    assert result.text == calm.text
    assert result.played.flags == calm.played.flags
    assert all(e.severity == "transparent" for e in result.of(FaultEvent))
    trace = TRANSPARENT[name][1]
    assert trace is None or trace in result.log.replace("\\", "")


@pytest.mark.parametrize("name", INFRASTRUCTURE)
def test_infrastructure_trouble_ends_the_session_with_its_cause(suite: Suite, name: str) -> None:
    assert_ended(suite, name, INFRASTRUCTURE[name][1])


def test_a_refusal_that_will_not_change_is_told_as_such(suite: Suite) -> None:
    assert suite.results["no_model"].failure.hopeless
    assert suite.results["http_401"].failure.hopeless
    assert not suite.results["gate_1013"].failure.hopeless
    assert not suite.results["format"].failure.hopeless


def test_peers_that_are_no_websocket_end_the_session_with_their_cause(suite: Suite) -> None:
    assert_no_websocket(suite, "/live/sessions")


@pytest.mark.parametrize("name", ["silent", "no_stream"])
def test_silence_is_behaviour_whether_it_is_streamed_or_not(suite: Suite, name: str) -> None:
    result, server = met(suite, name)
    assert spoken(result) == []
    assert result.played.flags == {"turn1_no_reply", "turn2_no_reply"}
    assert result.of(FaultEvent) == []
    assert len(server.audio) > 8 * RATE_HZ * 2  # silence went on all the while


def test_an_endless_reply_is_behaviour(suite: Suite) -> None:
    result, _ = met(suite, "never_stops")
    assert {"turn1_overrun", "turn2_overrun"} <= result.played.flags


def test_ten_seconds_at_once_are_heard_for_ten_seconds(suite: Suite) -> None:
    result, _ = met(suite, "ten_at_once")
    (a, first), _ = spoken(result)
    assert first == bare(reply_pcm(1, 10.0))
    end_ns = a + n_to_ns(len(first) // 2, RATE_HZ)
    assert n_to_ns(result.played.turn2_onset_n, RATE_HZ) > end_ns + 1_000_000_000
    assert result.played.flags == set()


def test_a_barge_in_is_left_to_the_model_and_nothing_is_flushed(suite: Suite) -> None:
    result, server = met(suite, "barge_in")
    assert isinstance(server, LiveConversation)
    assert result.of(InterruptedEvent) == []
    assert result.heard("flush") == result.heard("hold")
    assert "turn1_overrun" in result.played.flags
    (start_n, end_n), _ = server.replies
    assert spoken(result)[0][1] == bare(reply_pcm(1, 6.0)[:(end_n - start_n) * 2])
    assert end_n - start_n < 3 * RATE_HZ


def test_words_are_placed_by_their_times_and_not_by_when_they_come(suite: Suite) -> None:
    frame_n = FRAME_MS * RATE_HZ // 1000
    for name in ("calm", "times_in_audio", "late_transcript"):
        result, server = met(suite, name)
        assert isinstance(server, LiveConversation)
        words_n = [start + k * (end - start) // 4 for start, end in server.replies
                   for k in range(4)]
        texts = result.of(TextEvent)
        assert [e.audio_n for e in texts] == [n // frame_n * frame_n for n in words_n]
        assert all(e.received_n > e.audio_n + 0.2 * RATE_HZ for e in texts)
    for name in ("by_arrival", "no_times_in_text", "no_silence"):
        result, _ = met(suite, name)
        assert [e.audio_n for e in result.of(TextEvent)] == [None] * 8


def test_one_format_serves_both_ways(suite: Suite) -> None:
    result, server = met(suite, "at_16_khz")
    assert server.received[0]["session"]["audio"]["format"] == {"type": "audio/pcm", "rate": 16000}
    assert {len(e["audio"]) for e in server.received[1:-1]} == {-(-640 // 3) * 4}
    assert [pcm for _, pcm in spoken(result, 16_000)] == [
        bare(reply_pcm(1, 1.2, 16_000)), bare(reply_pcm(2, 0.8, 16_000))]
    assert result.void or result.played.flags == set()


def test_a_server_that_does_not_end_the_session_is_left(suite: Suite) -> None:
    result, server = met(suite, "close_ignored")
    assert [e["type"] for e in server.received][-1] == "session.close"
    assert result.lasted_s < suite.results["calm"].lasted_s + 3.0
    assert result.of(FaultEvent) == []


def test_delegation_and_strictness_are_settings(suite: Suite) -> None:
    _, server = met(suite, "no_backend")
    assert "delegation" not in server.received[0]["session"]
    result, _ = met(suite, "other_voice")
    noted = [e.detail for e in result.of(StateEvent) if e.name == "session.started"]
    assert "audio.output.voice: cedar instead of marin" in noted[0]


def test_the_key_is_in_no_log_no_error_no_record_and_no_object(suite: Suite) -> None:
    assert_no_key(suite)


def test_no_session_outlasts_its_schedule(suite: Suite) -> None:
    assert max(r.lasted_s for n, r in suite.results.items()
               if n not in ("ten_at_once", "never_stops")) < 14.0
