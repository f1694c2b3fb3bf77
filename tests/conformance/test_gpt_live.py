"""The GPT-Live adapter against a loopback server of its protocol: what a calm session holds, and
what the model does. What may go wrong is in `faults_gpt_live.py`.

Nothing on this wire ends a reply, so the model's speech is compared by its sound: what was heard
that is not digital silence, where, and for how long.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from live_server import FRAME_MS, LiveConversation, LiveScenario, LiveServer, reply_pcm
from session_harness import (
    BOUNDS,
    KEY,
    PROMPT,
    RATE_HZ,
    Subject,
    Suite,
    assert_no_key,
    bare,
    met,
    played_suite,
    spoken,
    waited_as_it_should,
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

SETTINGS = {"ready_timeout_s": "2", "open_timeout_s": "2", "close_timeout_s": "1"}
BOUNDS_LIVE = replace(BOUNDS, turn1_reply_s=4.0, turn2_reply_s=4.0)
"""A reply is known to be over after a second of silence."""
EARLY_TURN2 = replace(BOUNDS_LIVE, turn1_reply_s=1.5)
"""Turn 2 begins in the middle of a long reply."""
REPLIES_S = (1.2, 0.8)


def scenario(**more: object) -> LiveScenario:
    return LiveScenario(replies_s=REPLIES_S, **more)  # type: ignore[arg-type]


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
    "other_voice": scenario(granted={"audio": {"output": {"voice": "cedar"}}}),
    "times_in_audio": scenario(times_in_audio=True),
    "late_transcript": scenario(trail_s=0.9),
    "no_times_in_text": scenario(times_in_text=False),
    "no_silence": scenario(streams_silence=False),
}
CHANGED = {"at_16_khz": {"rate_hz": "16000"}, "by_arrival": {"transcript_times": "arrival"},
           "no_backend": {"backend_model": ""}, "other_voice": {"strict_session": "false"}}


@pytest.fixture(scope="module")
def suite() -> Iterator[Suite]:
    scenarios = {"calm": scenario(), **BEHAVIOUR}
    bounds = {"barge_in": EARLY_TURN2, "never_stops": EARLY_TURN2,
              "ten_at_once": replace(BOUNDS_LIVE, turn1_reply_s=14.0)}
    yield from played_suite(
        Subject("gpt_live", "OPENAI_API_KEY", SETTINGS, CHANGED, BOUNDS_LIVE),
        LiveServer(scenarios), bounds)


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
