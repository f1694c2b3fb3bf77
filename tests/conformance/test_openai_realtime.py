"""The OpenAI Realtime adapter through the real orchestrator, on the real clock, against a loopback
server: what a calm session holds to the sample, and what the model does is recorded as it was.

All sessions run once, some at a time, in a fixture; each test looks at its own. What may go wrong
is in `faults_openai_realtime.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from realtime_server import RealtimeServer, Scenario, close_with, tone_pcm, words_of
from session_harness import (
    BOUNDS,
    KEY,
    RATE_HZ,
    SAMPLE_NS,
    Subject,
    Suite,
    assert_no_key,
    met,
    played_suite,
)

from audio.buffers import float_to_pcm16
from audio.timebase import n_to_ns
from rig.record import (
    AudioEvent,
    FaultEvent,
    InterruptedEvent,
    ResponseDoneEvent,
    ResponseStartedEvent,
    StateEvent,
)

SETTINGS = {"vad_silence_duration_ms": "200", "ready_timeout_s": "2", "open_timeout_s": "2"}


BEHAVIOUR: dict[str, Scenario] = {
    "silent": Scenario(respond=False),
    "incomplete": Scenario(status="incomplete",
                           status_details={"type": "incomplete", "reason": "max_output_tokens"}),
    "empty_replies": Scenario(replies_s=(0.0,)),
    "never_stops": Scenario(replies_s=(30.0,), pace_s=0.02),
    "barge_in": Scenario(replies_s=(6.0, 0.4), pace_s=0.025, late_deltas=2),
    "barge_in_truncated": Scenario(replies_s=(6.0, 0.4), pace_s=0.025, late_deltas=2),
    "barge_in_all_sent": Scenario(replies_s=(3.0, 0.4), pace_s=0.0),
    "semantic": Scenario(),
    "no_echo": Scenario(granted={"audio": None, "instructions": None, "output_modalities": None,
                                 "type": None}),
}
OTHERS: dict[str, Scenario] = {
    "voice_not_strict": Scenario(granted={"audio": {"output": {"voice": "marin"}}}),
    "turn2_1011": Scenario(at_delta=(8, close_with(1011, "keepalive ping timeout"))),
}

CHANGED: dict[str, dict[str, str]] = {
    "barge_in_truncated": {"truncate_on_barge_in": "true"},
    "barge_in_all_sent": {"truncate_on_barge_in": "true"},
    "semantic": {"turn_detection": "semantic_vad"},
    "voice_not_strict": {"strict_session": "false"},
}
EARLY_TURN2 = replace(BOUNDS, turn1_reply_s=1.0)
"""Turn 2 begins 1.1 s after turn 1, in the middle of a long reply."""


@pytest.fixture(scope="module")
def suite() -> Iterator[Suite]:
    scenarios = {"calm": Scenario(), **BEHAVIOUR, **OTHERS}
    bounds = {n: EARLY_TURN2 for n in BEHAVIOUR if n.startswith("barge_in") or n == "never_stops"}
    yield from played_suite(Subject("openai_realtime", "OPENAI_API_KEY", SETTINGS, CHANGED),
                            RealtimeServer(scenarios), bounds)


# the undisturbed session

def test_a_calm_session_is_recorded_exactly(suite: Suite) -> None:
    result, server = met(suite, "calm")
    assert result.audio == {"resp_1": tone_pcm(1, 0.6), "resp_2": tone_pcm(2, 0.4)}
    assert result.text == {"resp_1": "".join(words_of(1)), "resp_2": "".join(words_of(2))}
    assert [(e.response_id, e.status) for e in result.of(ResponseDoneEvent)] == [
        ("resp_1", "completed"), ("resp_2", "completed")]
    assert [e.response_id for e in result.of(ResponseStartedEvent)] == ["resp_1", "resp_2"]
    assert result.of(FaultEvent) == []
    assert result.of(InterruptedEvent) == []
    assert result.played.flags == set()
    # 0.4 s of speech, 0.2 s of silence for the VAD, 0.05 s of thought: heard from about 0.65 s on,
    # 0.6 s long; turn 2 begins 0.1 s later, and so on.
    (a, b), (c, d) = result.heard("hold")
    assert abs(a - 650e6) < result.tolerance_ns()
    assert (b - a, d - c) == (600_000_000, 400_000_000)
    turn2_ns = n_to_ns(result.played.turn2_onset_n, RATE_HZ)
    assert b + 100_000_000 <= turn2_ns < b + 100_000_000 + 20_000_000
    assert abs(c - (turn2_ns + 650e6)) < result.tolerance_ns()
    assert result.heard("flush") == result.heard("hold")
    events = result.played.events
    assert [e.seq for e in events] == list(range(len(events)))
    assert server.session["instructions"] == "Be brief: señal."


def test_the_server_hears_the_user_sample_for_sample_and_from_the_start(suite: Suite) -> None:
    result, server = met(suite, "calm")
    said = float_to_pcm16(result.played.user).astype("<i2").tobytes()
    heard = bytes(server.audio)
    assert len(said) - len(heard) in (0, 960)  # the last frame may be cut off by the close
    assert said[:len(heard)] == heard
    assert server.audio_before_ready == 0
    assert server.close_code == 1000
    started = [e for e in server.sent if e["type"] == "input_audio_buffer.speech_started"]
    logged = [e for e in result.of(StateEvent) if e.name == "input_audio_buffer.speech_started"]
    assert [f'"audio_start_ms":{s["audio_start_ms"]}' in e.detail
            for s, e in zip(started, logged, strict=True)] == [True, True]


def test_the_request_carries_key_and_model_and_no_beta_header(suite: Suite) -> None:
    _, server = met(suite, "calm")
    assert server.headers["Authorization"] == f"Bearer {KEY}"
    assert "OpenAI-Beta" not in server.headers
    assert "Sec-WebSocket-Extensions" not in server.headers
    assert "/v1/realtime?model=calm" in suite.server.paths
    kinds = [e["type"] for e in server.received]
    assert kinds[0] == "session.update"
    assert set(kinds[1:]) == {"input_audio_buffer.append"}
    assert len({e["event_id"] for e in server.received}) == len(server.received)


# a session that breaks off

def test_what_was_received_before_the_end_is_kept(suite: Suite) -> None:
    broken = suite.results["turn2_1011"]
    assert broken.failure.played is not None
    kept = b"".join(float_to_pcm16(s).astype("<i2").tobytes() for s in
                    broken.failure.played.received)
    assert kept == tone_pcm(1, 0.6) + tone_pcm(2, 0.4)[:4800]  # one delta of 0.1 s came
    faults = [e.reason for e in broken.of(FaultEvent) if e.severity == "infrastructure"]
    assert faults[0] == str(broken.failure)


# behaviour

def test_silence_is_behaviour(suite: Suite) -> None:
    result, _ = met(suite, "silent")
    assert result.audio == {}
    assert result.played.flags == {"turn1_no_reply", "turn2_no_reply"}
    assert result.of(FaultEvent) == []


def test_a_response_without_audio_is_a_response(suite: Suite) -> None:
    result, _ = met(suite, "empty_replies")
    assert result.audio == {}
    assert [e.status for e in result.of(ResponseDoneEvent)] == ["completed"] * 2
    assert result.of(FaultEvent) == []


def test_an_incomplete_response_keeps_its_status_and_reason(suite: Suite) -> None:
    result, _ = met(suite, "incomplete")
    assert [e.status for e in result.of(ResponseDoneEvent)] == ["incomplete"] * 2
    assert "max_output_tokens" in result.log
    assert result.audio == suite.results["calm"].audio


def test_a_barge_in_is_an_interruption_once_and_late_audio_is_kept_but_flushed(
    suite: Suite,
) -> None:
    result, server = met(suite, "barge_in")
    assert server.truncates == []
    stops = result.of(InterruptedEvent)
    assert [e.response_id for e in stops] == ["resp_1"]
    assert [(e.response_id, e.status) for e in result.of(ResponseDoneEvent)] == [
        ("resp_1", "cancelled"), ("resp_2", "completed")]
    assert "turn1_overrun" in result.played.flags
    late = [e for e in result.of(FaultEvent) if "late audio of resp_1, which is cancelled" in
            e.reason]
    assert len(late) == 2
    done_ns = result.of(ResponseDoneEvent)[0].t_ns
    assert sum(e.t_ns >= done_ns and e.response_id == "resp_1"
               for e in result.of(AudioEvent)) == 2
    # Under `flush` the reply stops at the signal; under `hold` all of it is heard.
    assert abs(result.heard("flush")[0][1] - stops[0].t_ns) <= SAMPLE_NS
    assert result.heard("hold")[0][1] > stops[0].t_ns + 500_000_000


@pytest.mark.parametrize("name", ["barge_in_truncated", "barge_in_all_sent"])
def test_truncation_tells_what_was_heard_and_is_accepted(suite: Suite, name: str) -> None:
    result, server = met(suite, name)
    assert server.errors == []
    (sent,) = server.truncates
    assert (sent["item_id"], sent["content_index"]) == ("item_1", 0)
    start_ns, end_ns = result.heard("flush")[0]
    heard_ms = (end_ns - start_ns) / 1e6
    assert heard_ms - 1 - SAMPLE_NS / 1e6 <= sent["audio_end_ms"] <= heard_ms + SAMPLE_NS / 1e6
    assert sent["audio_end_ms"] * 24 <= server.items["item_1"]
    assert "conversation.item.truncated" in result.log


def test_an_endless_reply_is_behaviour(suite: Suite) -> None:
    result, _ = met(suite, "never_stops")
    assert {"turn1_overrun", "turn2_overrun"} <= result.played.flags
    assert all(e.severity == "transparent" for e in result.of(FaultEvent))


def test_semantic_vad_is_asked_for_in_its_own_words(suite: Suite) -> None:
    _, server = met(suite, "semantic")
    assert server.received[0]["session"]["audio"]["input"]["turn_detection"] == {
        "type": "semantic_vad", "eagerness": "auto", "create_response": True,
        "interrupt_response": True}


def test_what_the_server_does_not_report_is_noted_and_what_differs_may_be_tolerated(
    suite: Suite,
) -> None:
    result, _ = met(suite, "no_echo")
    noted = [e.detail for e in result.of(StateEvent) if e.name == "session.updated"]
    assert "not_reported" in noted[0]
    assert "instructions" in noted[0]
    result, _ = met(suite, "voice_not_strict")
    noted = [e.detail for e in result.of(StateEvent) if e.name == "session.updated"]
    assert "audio.output.voice: marin instead of alloy" in noted[0]


# secrets and bounds

def test_the_key_is_in_no_log_no_error_no_record_and_no_object(suite: Suite) -> None:
    assert_no_key(suite)


def test_no_session_outlasts_its_schedule(suite: Suite) -> None:
    assert max(r.lasted_s for r in suite.results.values()) < 12.0
