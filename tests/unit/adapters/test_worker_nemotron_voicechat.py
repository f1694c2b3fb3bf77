"""The worker of Nemotron VoiceChat through its real process and the rig's sessions, against a fake
made from the source of its pipeline (tests/tools/fake_nemotron.py)."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import fake_nemotron
import numpy as np
import pytest
from lockstep_clock import Lockstep

from adapters import registry
from adapters.base import AgentEvent, AudioReceived, Fault, SessionConfig, StateChanged, TextDelta
from adapters.local_models import NEMOTRON_VOICECHAT_MODEL
from adapters.workers.worker_kit.protocol import Bye, Decoder, Hello, encode
from audio.errors import InfrastructureError
from audio.timebase import FRAME_NS

OUT_N = 1764  # 80 ms at 22.05 kHz
FRAMES = 12


@pytest.fixture(autouse=True)
def faked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", fake_nemotron.put_beside(tmp_path))


def adapter(**settings: str) -> Any:
    return registry.create("nemotron_voicechat", {"python": sys.executable, **settings})


def session(made: Any, prompt: str = "", seed: int = 1, frames: int = FRAMES) -> list[AgentEvent]:
    """So many frames of 80 ms; the loudest sample of frame k of the user is (k + 1) / 100."""
    async def play() -> list[AgentEvent]:
        clock = Lockstep()
        async with made.session(SessionConfig("case", 1, prompt, seed), clock) as opened:
            for k in range(4 * frames):
                clock.t_ns = (k + 1) * FRAME_NS
                frame = np.zeros(320, np.float32)
                frame[7] = (k // 4 + 1) / 100 if k % 4 == 2 else 0.001
                await opened.send(frame)
        return [event async for event in opened.events()]

    return asyncio.run(play())


def heard(events: list[AgentEvent]) -> list[AudioReceived]:
    return [event for event in events if isinstance(event, AudioReceived)]


def fault(events: list[AgentEvent]) -> str:
    """The one that ended the session, without who says it; another try may well go better."""
    (found,) = (event for event in events if isinstance(event, Fault))
    assert (found.severity, found.hopeless) == ("infrastructure", False)
    return found.reason.removeprefix("worker: ")


def facts(events: list[AgentEvent]) -> dict[str, Any]:
    """The session's record of what the worker said of itself."""
    (first, *_) = (event for event in events if isinstance(event, StateChanged))
    found = json.loads(first.detail)
    assert isinstance(found, dict)
    return found


def expected(seed: int, prompt: str, k: int) -> np.ndarray:
    frame = k * 1e-3 + np.arange(OUT_N) * 1e-7
    frame[:2] = seed * 1e-3, len(prompt) * 1e-3
    frame[-1] = (k + 1) / 100
    return frame.astype(np.float32)


def test_every_frame_is_heard_where_it_is_and_no_session_knows_of_another() -> None:
    """The prompt, the seed and the place in the stream are the session's own, in one process; what
    the user said in 80 ms is in the answer that is heard at their end."""
    made = adapter()
    for prompt, seed in (("Be brief.", 7), ("", 8), ("  \n", 9), ("Again.", 7)):
        given = session(made, prompt, seed)
        audio = heard(given)
        assert [event.t_ns for event in audio] == [4 * (k + 1) * FRAME_NS for k in range(FRAMES)]
        for k, event in enumerate(audio):
            np.testing.assert_array_equal(event.samples, expected(seed, prompt.strip(), k))
    # A session in which nothing was said, and then one that is whole.
    assert heard(session(made, "Quiet.", frames=0)) == []
    assert len(heard(session(made, "Loud.", 3))) == FRAMES


def test_words_come_with_their_frames_and_without_the_marks_of_turns() -> None:
    """One mark is the beginning of another: neither leaves a rest. Spaces before words stay."""
    words = [(event.audio_n, event.text) for event in session(adapter())
             if isinstance(event, TextDelta)]
    assert words == [(k * OUT_N, text) for k, text in (
        (1, " Hel"), (2, "lo"), (3, " you"), (5, "'"), (6, "re"), (8, "."))]


@pytest.mark.parametrize(("kind", "reason"), [
    ("short", "frame 5 has 1763 samples, expected 1764"),
    ("long", "frame 5 has 1765 samples, expected 1764"),
    ("none", "frame 5 has 0 samples, expected 1764"),
    ("two", "frame 5 has 3528 samples, expected 1764"),
    ("nan", "frame 5 holds samples that are not finite"),
    ("raise", "the model failed: RuntimeError: CUDA out of memory"),
])
def test_what_is_no_frame_is_never_put_anywhere(kind: str, reason: str) -> None:
    """What came before stays where it is, and the next session begins anew."""
    made = adapter()
    events = session(made, f"break {kind}")
    assert fault(events) == reason
    audio = heard(events)
    assert len(audio) == 5
    np.testing.assert_array_equal(audio[-1].samples[2:-1], expected(1, "", 4)[2:-1])
    assert len(heard(session(made, "Whole again."))) == FRAMES


def test_a_full_context_ends_the_session_before_the_pipeline_overruns_it() -> None:
    made = adapter(max_len="100")
    assert len(heard(session(made, frames=100))) == 100
    events = session(made, frames=101)
    assert len(heard(events)) == 100
    assert fault(events) == ("the model failed: RuntimeError: its context of 100 frames is full, "
                             "which is 8 s; --set max_len")


def test_the_record_holds_what_decides_how_it_behaves() -> None:
    """Table 25: Aria, full history without a cache. What it is silent on: as it was released."""
    found = facts(session(adapter(), frames=1))
    assert {key: found["settings"][key] for key in (
        "voice", "use_llm_cache", "llm_engine", "tts_engine", "dtype", "temperature", "top_p",
        "repetition_penalty", "seeded", "weights", "weights_commit", "nemo_commit")} == {
        "voice": "Aria", "use_llm_cache": False, "llm_engine": "native", "tts_engine": "native",
        "dtype": "bfloat16", "temperature": 0.0, "top_p": 1.0, "repetition_penalty": 1.0,
        "seeded": True, "weights": "nvidia/NVIDIA-NemotronLabs-VoiceChat-11B",
        "weights_commit": "5" + 39 * "0",
        "nemo_commit": "unknown"}
    other = facts(session(adapter(tts_engine="vllm_omni", use_llm_cache="true", revision="a4c4"),
                          frames=1))["settings"]
    assert (other["seeded"], other["use_llm_cache"], other["weights_commit"]) == (
        False, True, "a4c4" + 36 * "0")


@pytest.mark.parametrize(("settings", "reason", "hopeless"), [
    ({"device": "cpu"}, "--set device=cpu: the pipeline runs on CUDA alone, and a CUDA device is "
     "seen", True),
    ({"voice": "Bob"}, "Unknown speaker_name 'Bob'. Registered speakers: ['Aria']", False),
])
def test_what_cannot_run_says_why(settings: dict[str, str], reason: str, hopeless: bool) -> None:
    with pytest.raises(InfrastructureError) as caught:
        session(adapter(**settings))
    assert reason in str(caught.value)
    assert caught.value.hopeless is hopeless


def test_without_the_pipeline_it_says_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The released package has all but the pipeline."""
    monkeypatch.delenv("PYTHONPATH")
    with pytest.raises(InfrastructureError, match=r"not in this environment: .*the released "
                       r"nemo_toolkit \(3.0.0\) does not hold the streaming pipeline") as caught:
        session(adapter(max_len="101"))  # a process of its own: none is there for these settings
    assert caught.value.hopeless


def test_the_engines_are_shut_down_before_the_process_ends() -> None:
    """They are processes of their own where vLLM computes."""
    done = subprocess.run([sys.executable, str(NEMOTRON_VOICECHAT_MODEL.path)], input=encode(Bye()),
                          capture_output=True, timeout=900, check=True)
    (hello,) = Decoder().feed(done.stdout)
    assert isinstance(hello, Hello)
    assert (hello.frame_in_n, hello.frame_out_n) == (1280, OUT_N)
    assert done.stderr.decode().splitlines()[-2:] == ["shut down", "precision restored"]
