"""The StepFun adapter against a loopback server of its dialect: what a calm session holds, and what
the model does. What may go wrong is in `faults_stepfun.py`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from beta_server import BetaConversation, BetaScenario
from realtime_server import RealtimeServer, tone_pcm, words_of
from session_harness import (
    BOUNDS,
    KEY,
    PROMPT,
    RATE_HZ,
    SAMPLE_NS,
    Subject,
    Suite,
    assert_no_key,
    met,
    played_suite,
)

from audio.buffers import float_to_pcm16
from audio.resample import resample
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


def both_ends(event: dict) -> list:
    if event["type"] != "response.done" or event["response"]["status"] != "cancelled":
        return [event]
    return [{"type": "response.cancelled", "response_id": event["response"]["id"]}, event]


BEHAVIOUR: dict[str, BetaScenario] = {
    "silent": BetaScenario(respond=False),
    "empty_replies": BetaScenario(replies_s=(0.0,)),
    "never_stops": BetaScenario(replies_s=(30.0,), pace_s=0.02),
    "barge_in": BetaScenario(replies_s=(6.0, 0.4), pace_s=0.025, late_deltas=2),
    "barge_in_cancelled": BetaScenario(replies_s=(6.0, 0.4), pace_s=0.025, late_deltas=2,
                                       cancelled_event=True),
    "barge_in_both": BetaScenario(replies_s=(6.0, 0.4), pace_s=0.025, late_deltas=2,
                                  mangle=both_ends),
    "barge_in_heard": BetaScenario(replies_s=(6.0, 0.4), pace_s=0.025),
    "ten_in_half": BetaScenario(replies_s=(10.0, 0.4), chunk_s=0.2, pace_s=0.01),
    "other_rates": BetaScenario(),
    "left_to_server": BetaScenario(),
}
CHANGED = {
    "barge_in_heard": {"interrupt_on_speech": "false"},
    "other_rates": {"input_rate_hz": "16000", "vad_silence_duration_ms": "150"},
    "left_to_server": {"vad_energy_threshold": "-1", "vad_prefix_padding_ms": "-1"},
}
EARLY_TURN2 = replace(BOUNDS, turn1_reply_s=1.0)


@pytest.fixture(scope="module")
def suite() -> Iterator[Suite]:
    scenarios = {"calm": BetaScenario(), **BEHAVIOUR}
    bounds = {n: EARLY_TURN2 for n in BEHAVIOUR if n.startswith("barge_in") or n == "never_stops"}
    bounds["ten_in_half"] = replace(BOUNDS, turn1_reply_s=12.0)
    yield from played_suite(Subject("stepfun", "STEPFUN_API_KEY", SETTINGS, CHANGED),
                            RealtimeServer(scenarios, BetaConversation), bounds)


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
    (a, b), (c, d) = result.heard("hold")
    assert abs(a - 650e6) < result.tolerance_ns()
    assert (b - a, d - c) == (600_000_000, 400_000_000)
    turn2_ns = n_to_ns(result.played.turn2_onset_n, RATE_HZ)
    assert abs(c - (turn2_ns + 650e6)) < result.tolerance_ns()
    names = {e.name for e in result.of(StateEvent)}
    assert "unknown_event" not in names
    assert {"response.thinking.delta",
            "conversation.item.input_audio_transcription.completed"} <= names
    assert server.session["instructions"] == PROMPT


def test_the_flat_session_of_the_paper_is_asked_for_and_nothing_else_is_sent(suite: Suite) -> None:
    _, server = met(suite, "calm")
    assert server.received[0]["session"] == {
        "modalities": ["text", "audio"], "instructions": PROMPT, "voice": "soft-spoken-gentleman",
        "input_audio_format": "pcm16", "output_audio_format": "pcm16",
        "turn_detection": {"type": "server_vad", "prefix_padding_ms": 500,
                           "silence_duration_ms": 200, "energy_awakeness_threshold": 2500}}
    assert server.headers["Authorization"] == f"Bearer {KEY}"
    assert "/v1/realtime?model=calm" in suite.server.paths
    for conversation in (c for one in suite.server.conversations.values() for c in one):
        assert {e["type"] for e in conversation.received} <= {
            "session.update", "input_audio_buffer.append"}
        assert conversation.errors == []


def test_the_user_is_heard_from_the_start_at_the_rate_that_is_set(suite: Suite) -> None:
    result, server = met(suite, "calm")
    said = float_to_pcm16(result.played.user).astype("<i2").tobytes()
    assert len(said) - len(server.audio) in (0, 960)  # the last frame may be cut off by the close
    assert said[:len(server.audio)] == bytes(server.audio)
    assert server.audio_before_ready == 0
    result, server = met(suite, "other_rates")
    turn1 = float_to_pcm16(resample(result.played.user[:9600], RATE_HZ, 16_000)).astype("<i2")
    assert bytes(server.audio[:12_000]) == turn1.tobytes()[:12_000]
    assert {len(e["audio"]) for e in server.received[1:]} == {-(-640 // 3) * 4}


def test_what_is_left_to_the_server_is_not_sent(suite: Suite) -> None:
    _, server = met(suite, "left_to_server")
    assert server.received[0]["session"]["turn_detection"] == {
        "type": "server_vad", "silence_duration_ms": 200}


def test_silence_is_behaviour(suite: Suite) -> None:
    result, _ = met(suite, "silent")
    assert result.audio == {}
    assert result.played.flags == {"turn1_no_reply", "turn2_no_reply"}
    assert result.of(FaultEvent) == []
    result, _ = met(suite, "empty_replies")
    assert [e.status for e in result.of(ResponseDoneEvent)] == ["completed"] * 2


def test_an_endless_reply_is_behaviour(suite: Suite) -> None:
    result, _ = met(suite, "never_stops")
    assert {"turn1_overrun", "turn2_overrun"} <= result.played.flags
    assert all(e.severity == "transparent" for e in result.of(FaultEvent))


def test_ten_seconds_in_half_a_second_are_heard_for_ten_seconds(suite: Suite) -> None:
    result, _ = met(suite, "ten_in_half")
    assert result.audio["resp_1"] == tone_pcm(1, 10.0)
    first = [e.t_ns for e in result.of(AudioEvent) if e.response_id == "resp_1"]
    assert first[-1] - first[0] < 2_000_000_000
    (a, b), _ = result.heard("hold")
    assert b - a == 10_000_000_000
    assert n_to_ns(result.played.turn2_onset_n, RATE_HZ) > b
    assert result.played.flags == set()


@pytest.mark.parametrize("name", ["barge_in", "barge_in_cancelled", "barge_in_both"])
def test_a_barge_in_ends_the_response_once_whatever_the_end_is_called(
    suite: Suite, name: str,
) -> None:
    result, _ = met(suite, name)
    stops = result.of(InterruptedEvent)
    assert [e.response_id for e in stops] == ["resp_1"]
    assert [(e.response_id, e.status) for e in result.of(ResponseDoneEvent)] == [
        ("resp_1", "cancelled"), ("resp_2", "completed")]
    late = [e for e in result.of(FaultEvent) if "late audio of resp_1, which is cancelled" in
            e.reason]
    assert len(late) == 2
    assert abs(result.heard("flush")[0][1] - stops[0].t_ns) <= SAMPLE_NS
    assert result.heard("hold")[0][1] > stops[0].t_ns + 500_000_000


def test_hearing_the_user_need_not_be_taken_for_an_interruption(suite: Suite) -> None:
    result, _ = met(suite, "barge_in_heard")
    assert result.of(InterruptedEvent) == []
    assert result.heard("flush") == result.heard("hold")


def test_the_key_is_in_no_log_no_error_no_record_and_no_object(suite: Suite) -> None:
    assert_no_key(suite)


def test_no_session_outlasts_its_schedule(suite: Suite) -> None:
    assert max(r.lasted_s for n, r in suite.results.items() if n != "ten_in_half") < 12.0
