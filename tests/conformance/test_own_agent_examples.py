"""The example agents of the pages, as they stand there, in a session each."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from example_agent import likeness, lines_n, running_example

from adapters import registry
from adapters.base import SessionConfig
from adapters.simulated import voice
from audio.resample import resample
from audio.vad import VadSettings
from rig.clock import loop_factory
from rig.orchestrator import Played, play
from rig.record import AudioEvent, FaultEvent
from rig.schedule import Bounds, Plan
from rig.selftest import user_turn

BOUNDS = Bounds(turn1_reply_s=4.0, settle_s=0.1, tail_s=0.1, turn2_reply_s=3.0, trailing_s=0.2,
                onset_s=1.0, after_window_s=0.2)


def address(name: str, url: str) -> tuple[str, str]:
    """The setting that takes it."""
    return ("base_url", f"{url}/v1") if name == "openai_realtime" else ("url", url)


@pytest.fixture(autouse=True)
def any_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def session(name: str, url: str) -> Played:
    voice.prepare()
    adapter = registry.create(name, dict([address(name, url)]))
    config = SessionConfig("R1-A-1-L2", 1, "Be brief.", 1, adapter.settings)
    plan = Plan(turn1=user_turn(1.0, 3), turn2=user_turn(0.8, 4), window_end_s=1.0)
    with asyncio.Runner(loop_factory=loop_factory("real")) as loop:
        return loop.run(play(plan, adapter, config, vad=VadSettings(), bounds=BOUNDS))


@pytest.mark.parametrize(("name", "rate_hz"), [
    ("twilio", 8_000), ("raw_pcm", 24_000), ("openai_realtime", 24_000)])
def test_the_example_of_the_page_is_an_agent(name: str, rate_hz: int) -> None:
    with running_example(name) as url:
        played = session(name, url)
    assert [e for e in played.events if isinstance(e, FaultEvent)] == []
    assert played.flags == set()
    replies = [e for e in played.events if isinstance(e, AudioEvent)]
    assert len(replies) == 2
    # Each says back what it heard: from the first loud frame to half a second after the last.
    said = resample(played.user, 24_000, rate_hz)
    for reply, ends_n in zip(played.received, (played.turn1_end_n, played.turn2_end_n),
                             strict=True):
        alike, at = likeness(reply.astype(float), said.astype(float))
        assert alike > (0.999 if rate_hz == 8_000 else 0.999999)
        assert 0.3 < (at + len(reply)) / rate_hz - ends_n / 24_000 < 0.6


@pytest.mark.parametrize(("name", "most_n"), [
    ("sound_card", 9), ("raw_pcm", 10), ("webrtc", 11), ("twilio", 12), ("pipecat", 17),
    ("openai_realtime", 18)])
def test_the_examples_stay_short(name: str, most_n: int) -> None:
    assert 5 < lines_n(name) <= most_n


@pytest.mark.parametrize("name", ["twilio", "raw_pcm", "openai_realtime"])
def test_rig_check_proves_the_example(name: str) -> None:
    with running_example(name) as url:
        done = subprocess.run(
            [Path(sys.executable).with_name("rig"), "check", "--adapter", name, "--set",
             "=".join(address(name, url)), "--json"],
            capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    checked = json.loads(done.stdout)
    assert checked["problems"] == []
