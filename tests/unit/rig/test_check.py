"""`rig check`: what a run relies on is there, or is named and gives exit code 3."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import rig_testkit as kit

from adapters.base import (
    AudioReceived,
    Capabilities,
    Fault,
    ResponseDone,
    ResponseStarted,
    TextDelta,
)
from adapters.simulated import voice
from rig.check import sentence

RATE_HZ = 24_000
WORDS = "Of course I can hear you well and now I answer"
"""Ten words, said in 3 s."""


def speech(seconds: float = 3.0) -> np.ndarray:
    return voice.talk(seconds).samples


def answering(samples: np.ndarray | None, *, words: str = WORDS, done: str | None = "completed",
              chunk_n: int = 480, every: int = 1, fault: str | None = None, **can: Any):
    """A system that answers after the user's sentence: `chunk_n` samples every `every` frames."""
    capabilities = Capabilities(**{"full_duplex": True, "persona_prompt": True,
                                   "reports_response_done": True, "transcript": "response", **can})

    def on_frame(session: kit.StubSession, frame: np.ndarray) -> None:
        state = session.state
        if session.frames == 250:  # 5 s: the sentence is over
            state["left"] = samples
            session.emit(ResponseStarted(session.now_ns, "a"))
            if words:
                session.emit(TextDelta(session.now_ns, words, "a"))
            if fault:
                session.emit(Fault(session.now_ns, "transparent", fault))
        left = state.get("left")
        if left is None or session.frames % every:
            return
        if len(left):
            session.emit(AudioReceived(session.now_ns, left[:chunk_n], "a"))
            state["left"] = left[chunk_n:]
        elif done and not state.get("ended"):
            state["ended"] = True
            session.emit(ResponseDone(session.now_ns, "a", done))

    return kit.stub(on_frame, capabilities=capabilities)


@pytest.fixture
def checked(call_rig, add_adapter):
    """`rig check` of a system written by hand: exit code, document, lines for people."""
    def run(adapter: kit.StubAdapter, *arguments: str):
        add_adapter("stub", adapter)
        called = call_rig("check", "--adapter", "stub", "--json", *arguments)
        return called.code, json.loads(called.out), called.err

    return run


def test_the_sentence_is_two_to_four_seconds_of_speech():
    assert 2.0 < len(sentence()) / RATE_HZ < 4.5


def test_a_system_that_answers_is_ready(checked):
    code, found, err = checked(answering(speech()))
    assert (code, found["ok"], found["problems"], err) == (0, True, [], "")
    assert found["send_rate_hz"] == 50.0
    assert found["received"]["audio_s"] == pytest.approx(3.0)
    assert found["received"]["pace"] == pytest.approx(1.0)
    assert found["received"]["speech_s"] == pytest.approx(3.0, abs=0.3)
    assert found["received"]["words_per_s"] == pytest.approx(10 / 3, rel=0.15)
    assert found["transcript"] == {"kind": "response", "text": WORDS}
    assert found["responses"] == {"started": 1, "done": ["completed"]}
    assert found["first_audio_s"] == pytest.approx(5.0 - len(sentence()) / RATE_HZ, abs=0.05)
    assert found["timing"]["void"] is False
    # In virtual time nothing leaves the machine; what a hosted system costs is not known.
    assert found["cost_usd"] == 0.0


def test_bursts_are_faster_than_real_time_and_no_problem(checked):
    code, found, _ = checked(answering(speech(), chunk_n=24_000))
    assert code == 0
    assert found["received"]["pace"] > 2


def test_the_first_audio_is_the_first_that_is_not_silence(checked):
    later = np.concatenate([np.zeros(12_000, np.float32), speech()])
    _, found, _ = checked(answering(later))
    assert found["first_audio_s"] == pytest.approx(5.5 - len(sentence()) / RATE_HZ, abs=0.06)
    _, found, _ = checked(answering(np.zeros(48_000, np.float32)))
    assert found["first_audio_s"] is None


@pytest.mark.parametrize(("adapter", "problem"), [
    (answering(None, words=""), "no audio came back"),
    (answering(np.zeros(48_000, np.float32)), "2.0 s of audio came back and no speech was found"),
    (answering(np.zeros(48_000, np.float32)), "all but silent: its peak is zero"),
    (answering((0.3 * np.sin(np.arange(48_000) * 2 * np.pi * 440 / 24_000)).astype(np.float32)),
     "expected a voice (a tone, a beep or music is no speech to the detector) at 24000 Hz"),
    (answering(0.005 * speech()), "all but silent: its peak is -"),
    (answering(speech(), every=2), "slower than it plays, 0.5"),
    (answering(speech(), words=WORDS * 4), "words a second of speech, expected 1 to 6"),
    (answering(speech(), words="Well"), "words a second of speech, expected 1 to 6"),
    (answering(speech(), words=""), "no transcript came, expected one (response)"),
    (answering(speech(), done=None), "no end of a response was reported")])
def test_what_a_run_would_stumble_over(checked, adapter, problem):
    code, found, err = checked(adapter)
    assert code == 3
    assert found["ok"] is False
    assert any(problem in p for p in found["problems"]), found["problems"]
    assert "problem: " in err


def test_what_a_system_does_not_promise_is_not_asked_for(checked):
    code, found, _ = checked(answering(speech(), words="", done=None, transcript="none",
                                       reports_response_done=False))
    assert code == 0
    assert found["received"]["words_per_s"] is None


def test_a_second_of_speech_is_too_little_to_count_words(checked):
    code, found, _ = checked(answering(speech(0.6), words="Yes it is and it was so"))
    assert code == 0
    assert found["received"]["words_per_s"] is None


def test_trouble_is_shown_and_is_no_problem(checked):
    code, found, _ = checked(answering(speech(), fault="an odd byte"))
    assert code == 0
    assert found["faults"] == ["an odd byte"]


@pytest.mark.parametrize("kind", sorted(kit.FAULTS))
def test_a_session_that_breaks_is_a_failure_and_no_traceback(checked, kind):
    code, found, err = checked(kit.faulty(kind, frozenset({"check"})))
    assert code == 3
    assert found["failure"] == found["problems"][0]
    assert kit.FAULTS[kind][1] in found["failure"]
    assert found["received"] is None
    assert len(err.splitlines()) == 1


def test_who_refuses_the_connection_is_named(checked):
    code, found, _ = checked(kit.faulty("raises on opening", frozenset({"check"})))
    assert code == 3
    assert "opening the session failed: ConnectionRefusedError" in found["failure"]


def test_the_reply_is_waited_for_as_long_as_was_said(checked):
    code, found, _ = checked(answering(speech()), "--wait-s", "1")
    assert code == 3
    assert found["problems"] == ["no end of a response was reported, expected one"]
    assert checked(answering(speech()), "--wait-s", "6")[0] == 0


def test_lines_for_people(call_rig):
    called = call_rig("check", "--adapter", "long_endpoint")
    assert called.code == 0
    lines = [line.split()[0] for line in called.out.splitlines()]
    assert lines == ["system", "ready", "sent", "lateness", "received", "transcript",
                     "responses", "faults", "cost", "verdict"]
    assert "50.00 a second" in called.out
    assert "ready for a run" in called.out
    silent = call_rig("check", "--adapter", "silent")
    assert silent.code == 3
    assert "no audio" in silent.out


def test_an_agent_that_wants_a_hint_gets_one(call_rig):
    assert call_rig("check", "--adapter", "oracle").code == 0


def test_what_cannot_be_tried_is_an_error_of_usage(call_rig, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert "OPENAI_API_KEY is not set" in call_rig("check", "--adapter", "openai_realtime").error
    assert "no such adapter" in call_rig("check", "--adapter", "nobody").error
    assert "no such setting" in call_rig("check", "--adapter", "echo", "--set", "x=1").error
    assert "--wait-s" in call_rig("check", "--adapter", "echo", "--wait-s", "0").error
    assert "--adapter" in call_rig("check").error
