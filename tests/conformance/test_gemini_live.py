"""The Gemini Live adapter through the real orchestrator, on the real clock, against a loopback
server of its protocol: what is particular to it. Its faults are in faults_gemini_live.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from gemini_server import GeminiConversation, GeminiScenario, GeminiServer, go_away
from realtime_server import close_with, tone_pcm, words_of
from session_harness import (
    BOUNDS,
    KEY,
    PROMPT,
    RATE_HZ,
    SAMPLE_NS,
    Result,
    Subject,
    Suite,
    assert_no_key,
    assert_no_websocket,
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
SCENARIOS = {
    "calm": GeminiScenario(),
    "barge_in": GeminiScenario(replies_s=(6.0, 0.4), pace_s=0.025, audio_after_interrupted=2),
    "barge_in_all_sent": GeminiScenario(replies_s=(3.0, 0.4), pace_s=0.0),
    "barge_in_not_completed": GeminiScenario(replies_s=(6.0, 0.4), pace_s=0.025,
                                             say_turn_complete=False),
    "no_interruption": GeminiScenario(replies_s=(2.0, 0.4)),
    "at_16_khz": GeminiScenario(),
    "other_settings": GeminiScenario(),
    "no_words": GeminiScenario(),
    "left": GeminiScenario(at_delta=(2, go_away("5s", close_with(1000)))),
}
CHANGED = {
    "no_interruption": {"activity_handling": "no_interruption"},
    "at_16_khz": {"input_rate_hz": "16000"},
    "other_settings": {
        "api_version": "v1beta", "voice": "Kore", "vad_start_sensitivity": "high",
        "vad_end_sensitivity": "low", "vad_prefix_padding_ms": "20",
        "activity_handling": "interrupts", "input_transcription": "true",
        "context_compression": "true"},
    "no_words": {"output_transcription": "false"},
}
EARLY_TURN2 = replace(BOUNDS, turn1_reply_s=1.0)
"""Turn 2 begins 1.1 s after turn 1, in the middle of a long reply."""


@pytest.fixture(scope="module")
def suite() -> Iterator[Suite]:
    yield from played_suite(
        Subject("gemini_live", "GEMINI_API_KEY", SETTINGS, CHANGED), GeminiServer(SCENARIOS),
        {name: EARLY_TURN2 for name in SCENARIOS if "barge_in" in name or "no_inter" in name})


def found(suite: Suite, name: str) -> tuple[Result, GeminiConversation]:
    result, server = met(suite, name)
    assert isinstance(server, GeminiConversation)
    return result, server


def test_a_calm_session_is_recorded_exactly(suite: Suite) -> None:
    result, server = found(suite, "calm")
    assert result.audio == {"turn_1": tone_pcm(1, 0.6), "turn_2": tone_pcm(2, 0.4)}
    assert result.text == {"turn_1": "".join(words_of(1)), "turn_2": "".join(words_of(2))}
    assert [e.response_id for e in result.of(ResponseStartedEvent)] == ["turn_1", "turn_2"]
    assert [(e.response_id, e.status) for e in result.of(ResponseDoneEvent)] == [
        ("turn_1", "completed"), ("turn_2", "completed")]
    assert result.of(FaultEvent) == []
    assert result.of(InterruptedEvent) == []
    assert result.played.flags == set()
    # 0.4 s of speech, 0.2 s of silence for the VAD, 0.05 s of thought: heard from about 0.65 s on.
    (a, b), (c, d) = result.heard("hold")
    assert abs(a - 650e6) < result.tolerance_ns()
    assert (b - a, d - c) == (600_000_000, 400_000_000)
    turn2_ns = n_to_ns(result.played.turn2_onset_n, RATE_HZ)
    assert b + 100_000_000 <= turn2_ns < b + 100_000_000 + 20_000_000
    assert abs(c - (turn2_ns + 650e6)) < result.tolerance_ns()
    assert result.heard("flush") == result.heard("hold")
    assert server.close_code == 1000


def test_a_reply_is_done_when_it_has_come_and_over_when_it_has_been_heard(suite: Suite) -> None:
    result, _ = found(suite, "calm")
    first = result.of(ResponseDoneEvent)[0].t_ns
    (_, heard_ns), _ = result.heard("hold")
    complete = [e.t_ns for e in result.of(StateEvent) if e.name == "turnComplete"]
    assert first < heard_ns - 300_000_000
    assert abs(complete[0] - heard_ns) < result.tolerance_ns()


def test_no_more_than_needed_is_asked_for_and_the_user_is_heard_from_the_start(
    suite: Suite,
) -> None:
    result, server = found(suite, "calm")
    assert server.received[0] == {"setup": {
        "model": "models/calm", "generationConfig": {"responseModalities": ["AUDIO"]},
        "systemInstruction": {"parts": [{"text": PROMPT}]},
        "realtimeInputConfig": {"automaticActivityDetection": {"silenceDurationMs": 200}},
        "outputAudioTranscription": {}}}
    assert {tuple(m) for m in server.received[1:]} == {("realtimeInput",)}
    assert server.rates == {"24000"}
    said = float_to_pcm16(result.played.user).astype("<i2").tobytes()
    heard = bytes(server.audio)
    assert len(said) - len(heard) in (0, 960)  # the last frame may be cut off by the close
    assert said[:len(heard)] == heard


def test_the_key_is_in_a_header_and_nothing_of_the_request_is_in_its_query(suite: Suite) -> None:
    _, server = found(suite, "calm")
    assert server.headers["x-goog-api-key"] == KEY
    assert "Authorization" not in server.headers
    assert "Sec-WebSocket-Extensions" not in server.headers
    assert ("/v1/calm/ws/google.ai.generativelanguage.v1.GenerativeService.BidiGenerateContent"
            in suite.server.paths)
    for conversation in (c for one in suite.server.conversations.values() for c in one):
        assert isinstance(conversation, GeminiConversation)
        assert conversation.audio_before_ready == 0
        assert conversation.closed_over is None


def test_everything_that_can_be_set_is_taken_by_the_server(suite: Suite) -> None:
    result, server = found(suite, "other_settings")
    assert server.setup["generationConfig"]["speechConfig"] == {
        "voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}}
    assert server.setup["realtimeInputConfig"] == {
        "automaticActivityDetection": {
            "startOfSpeechSensitivity": "START_SENSITIVITY_HIGH",
            "endOfSpeechSensitivity": "END_SENSITIVITY_LOW", "prefixPaddingMs": 20,
            "silenceDurationMs": 200},
        "activityHandling": "START_OF_ACTIVITY_INTERRUPTS"}
    assert server.setup["contextWindowCompression"] == {"slidingWindow": {}}
    assert any(".v1beta." in path for path in suite.server.paths)
    assert result.audio == suite.results["calm"].audio
    heard = [e.detail for e in result.of(StateEvent) if e.name == "inputTranscription"]
    assert heard == ['{"text":"what the user said"}'] * 2


def test_a_barge_in_is_an_interruption_and_what_was_under_way_is_kept_but_flushed(
    suite: Suite,
) -> None:
    result, server = found(suite, "barge_in")
    stops = result.of(InterruptedEvent)
    assert [e.response_id for e in stops] == ["turn_1"]
    assert [(e.response_id, e.status) for e in result.of(ResponseDoneEvent)] == [
        ("turn_1", "interrupted"), ("turn_2", "completed")]
    assert "turn1_overrun" in result.played.flags
    assert [e.reason for e in result.of(FaultEvent)] == [
        "late audio of turn_1, which is interrupted"] * 2
    assert sum(e.t_ns >= stops[0].t_ns and e.response_id == "turn_1"
               for e in result.of(AudioEvent)) == 2
    assert not any(e.detail == "turn_1" for e in result.of(StateEvent)
                   if e.name == "generationComplete")
    # Under `flush` the reply stops at the signal; under `hold` all of it is heard.
    assert abs(result.heard("flush")[0][1] - stops[0].t_ns) <= SAMPLE_NS
    assert result.heard("hold")[0][1] > stops[0].t_ns + 500_000_000
    assert result.audio["turn_2"] == tone_pcm(2, 0.4)
    assert [list(m) for m in server.sent if "interrupted" in m.get("serverContent", {})] == [
        ["serverContent"]]


def test_a_reply_that_has_come_whole_is_broken_off_while_it_is_heard(suite: Suite) -> None:
    result, _ = found(suite, "barge_in_all_sent")
    (stop,) = result.of(InterruptedEvent)
    assert stop.response_id == "turn_1"
    assert [(e.response_id, e.status) for e in result.of(ResponseDoneEvent)] == [
        ("turn_1", "completed"), ("turn_2", "completed")]
    assert result.audio == {"turn_1": tone_pcm(1, 3.0), "turn_2": tone_pcm(2, 0.4)}
    (_, first_ns), (start_ns, end_ns) = result.heard("flush")
    assert abs(first_ns - stop.t_ns) <= SAMPLE_NS
    assert (end_ns - start_ns) == 400_000_000
    assert result.of(FaultEvent) == []


def test_a_turn_that_is_never_completed_swallows_no_reply(suite: Suite) -> None:
    result, _ = found(suite, "barge_in_not_completed")
    assert [e.response_id for e in result.of(InterruptedEvent)] == ["turn_1"]
    assert result.audio["turn_2"] == tone_pcm(2, 0.4)
    (_, _), (start_ns, end_ns) = result.heard("flush")
    assert end_ns - start_ns == 400_000_000
    assert [e.reason for e in result.of(FaultEvent)] == ["turn_1 got no turnComplete"]


def test_a_server_that_is_told_not_to_stop_goes_on(suite: Suite) -> None:
    result, server = found(suite, "no_interruption")
    assert server.setup["realtimeInputConfig"]["activityHandling"] == "NO_INTERRUPTION"
    assert result.of(InterruptedEvent) == []
    assert result.audio == {"turn_1": tone_pcm(1, 2.0), "turn_2": tone_pcm(2, 0.4)}
    assert "turn1_overrun" in result.played.flags


def test_the_rate_of_the_user_is_the_one_that_is_declared(suite: Suite) -> None:
    result, server = found(suite, "at_16_khz")
    assert server.rates == {"16000"}
    lasted_n = len(result.played.user) * 2 // 3
    assert lasted_n - len(server.audio) // 2 in range(2 * 320)
    assert result.audio == suite.results["calm"].audio


def test_without_transcripts_none_is_asked_for(suite: Suite) -> None:
    result, server = found(suite, "no_words")
    assert "outputAudioTranscription" not in server.setup
    assert result.text == {}
    assert result.audio == suite.results["calm"].audio


def test_a_session_that_is_left_is_not_resumed(suite: Suite) -> None:
    failure = suite.results["left"].failure
    assert failure is not None
    assert str(failure) == ("the server closed the connection: 1000 (announced by goAway, time "
                            "left 5s)")
    assert failure.played is None or failure.played.received
    assert len(suite.server.conversations["left"]) == 1
    assert all("sessionResumption" not in c.setup for one in suite.server.conversations.values()
               for c in one if isinstance(c, GeminiConversation))


def test_peers_that_are_no_websocket_end_the_session_with_their_cause(suite: Suite) -> None:
    assert_no_websocket(suite, ".GenerativeService.BidiGenerateContent")


def test_the_key_is_in_no_log_no_error_no_record_and_no_object(suite: Suite) -> None:
    assert_no_key(suite)


def test_no_session_outlasts_its_schedule(suite: Suite) -> None:
    assert max(r.lasted_s for r in suite.results.values()) < 12.0
