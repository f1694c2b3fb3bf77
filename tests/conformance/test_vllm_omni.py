"""The vLLM-Omni adapter against a loopback server of its protocol: what sessions of the three
models hold. What may go wrong is in `faults_vllm_omni.py`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from duplex_server import DuplexConversation
from fault_suite import FaultSuite, play_plays
from faults import Plays
from faults_vllm_omni import BOUNDS, SUBJECT, make
from live_server import reply_pcm
from session_harness import PROMPT

from audio.buffers import float_to_pcm16

pytestmark = pytest.mark.slow
BY_SILENCE = replace(BOUNDS, turn1_reply_s=4.0, turn2_reply_s=4.0)
"""A reply is known to be over after a second of silence."""
PLAYS = {
    "calm": Plays(make()),
    "personaplex": Plays(make(), settings={"model": "personaplex"}, bounds=BY_SILENCE),
    "nemotron": Plays(make(chunk_s=0.08), settings={"model": "nemotron"}, bounds=BY_SILENCE),
    "barge_in": Plays(
        make(replies_s=(6.0, 0.8)), bounds=replace(BOUNDS, turn1_reply_s=1.5),
        settings={"ack_interval_s": "0.1", "overlap_policy": "barge_in_on_speech"}),
}
RATES_HZ = {"calm": (16_000, 24_000), "personaplex": (24_000, 24_000),
            "nemotron": (16_000, 22_050)}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> FaultSuite:
    return play_plays(replace(SUBJECT, settings={**SUBJECT.settings,
                                                 "overlap_policy": "preset"}),
                      PLAYS, tmp_path_factory.mktemp("duplex"), len(PLAYS))


def server_of(suite: FaultSuite, name: str) -> DuplexConversation:
    assert suite.seen[name].outcome.status == "done", suite.seen[name].outcome
    conversation = suite.results[name].conversation
    assert isinstance(conversation, DuplexConversation)
    return conversation


@pytest.mark.parametrize("name", RATES_HZ)
def test_every_model_is_heard_and_hears_at_its_rates(suite: FaultSuite, name: str) -> None:
    server, played = server_of(suite, name), suite.results[name].played
    assert played is not None
    input_hz, output_hz = RATES_HZ[name]
    assert (server.user_rate_hz, server.rate_hz) == (input_hz, output_hz)
    heard = float_to_pcm16(np.concatenate(played.received)).astype("<i2").tobytes()
    assert heard == reply_pcm(1, 1.0, output_hz) + reply_pcm(2, 0.8, output_hz)
    assert "".join(e.text for e in suite.seen[name].record.events if e.kind == "text") == \
        "reply1 is this one reply2 is this one"
    assert played.flags == set()
    assert {str(v.outcome) for v in suite.seen[name].verdicts.values()} == {"pass"}
    assert server.errors == []
    assert server.audio_before_ready == 0


@pytest.mark.parametrize(("name", "append_ms"), [("calm", 20), ("personaplex", 80),
                                                 ("nemotron", 20)])
def test_user_audio_comes_whole_and_in_order(
    suite: FaultSuite, name: str, append_ms: int,
) -> None:
    server, played = server_of(suite, name), suite.results[name].played
    assert {e["duration_ms"] for e in server.appends} == {append_ms}
    assert [e["audio_end_ms"] for e in server.appends] == list(
        range(append_ms, append_ms * len(server.appends) + 1, append_ms))
    assert 0 <= len(played.user) // 24 - server.appends[-1]["audio_end_ms"] < append_ms + 40


def test_the_session_is_opened_told_of_and_closed(suite: FaultSuite) -> None:
    server = server_of(suite, "calm")
    assert [m["type"] for m in server.messages] == ["session.update", "session.close"]
    assert server.opened["instructions"] == PROMPT
    assert server.opened["ref_audio"].startswith("data:audio/wav;base64,UklGR")
    assert server.closed_reason == "client_close"
    assert server.close_code == 1000
    assert server.acked_seqs == sorted(set(server.acked_seqs))
    assert len(server.sent) - len(server.acked_seqs) <= 5  # what came with the end
    for response_id, seconds in (("resp_1", 1.0), ("resp_2", 0.8)):
        told = [e["played_ms"] for e in server.acks if e["response_id"] == response_id]
        assert told == sorted(set(told))
        assert told[-1] == seconds * 1000


def test_the_others_are_told_nothing_of_playback(suite: FaultSuite) -> None:
    assert server_of(suite, "personaplex").acks == server_of(suite, "nemotron").acks == []


def test_a_barge_in_stops_what_is_heard_and_says_where(suite: FaultSuite) -> None:
    server, seen = server_of(suite, "barge_in"), suite.seen["barge_in"]
    stops = [e for e in seen.record.events if e.kind == "interrupted"]
    assert [e.response_id for e in stops] == ["resp_1"]
    (cut,) = [e for e in server.acks if e.get("truncate")]
    begun_ns = next(e.t_ns for e in seen.record.events if e.kind == "audio_received")
    assert cut["response_id"] == "resp_1"
    assert cut["played_ms"] == pytest.approx((stops[0].t_ns - begun_ns) / 1e6, abs=1)
    assert [e["played_ms"] for e in server.acks if e["response_id"] == "resp_1"][-1] == \
        cut["played_ms"]
    assert server.errors == []
