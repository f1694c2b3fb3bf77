"""The sound card adapter through the real orchestrator, in real time, on a card that is a thread:
what is recorded where. How each kind of trouble ends: faults_sound_card.py."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest
from fake_card import Plan as Card
from fake_card import delayed, devices

from adapters.base import SessionConfig
from adapters.sound_card import adapter as module
from adapters.sound_card.adapter import SOUND_CARD, SoundCardAdapter
from adapters.sound_card.bridge import OUTPUT_UNDERFLOW
from audio.resample import resample
from audio.vad import VadSettings
from rig.clock import loop_factory
from rig.orchestrator import Played, SessionFailedError, play
from rig.record import AudioEvent, StateEvent
from rig.recorder import certificate, heard_track
from rig.schedule import Bounds, Plan

RATE_HZ = 48_000
BOUNDS = Bounds(turn1_reply_s=1.0, settle_s=0.1, tail_s=0.1, turn2_reply_s=0.8, trailing_s=0.4,
                onset_s=1.0, after_window_s=0.1)


def noise(seed: int, seconds: float) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.2, 0.2, round(seconds * 24_000)).astype("f4")


PLAN = Plan(turn1=noise(1, 1.3), turn2=noise(2, 0.5), window_end_s=0.3)
REFERENCE = {"reference_channel": "2"}
TRUE_MS = 62.5
"""The fake card's round trip: 3,000 samples."""


def answering(delay_s: float):
    """An agent that says back what it hears, so much later, behind the card's round trip."""
    return lambda played, done: delayed(played, done, 3_000 + round(delay_s * RATE_HZ), 480)


@dataclass
class Case:
    card: Card = field(default_factory=Card)
    settings: dict[str, str] = field(default_factory=dict)


CASES = {
    "calm": Case(Card(agent=answering(0.25)), {"round_trip_ms": "62.5"}),
    "reference": Case(Card(agent=answering(0.25)), REFERENCE),
    "uncalibrated": Case(Card(agent=answering(0.25))),
    "fast_card": Case(Card(agent=answering(0.25), drift_ppm=-150), REFERENCE),
    "no_times": Case(Card(agent=answering(0.25), times=False), REFERENCE),
    "starts_badly": Case(Card(agent=answering(0.25), dies_n=2), {"round_trip_ms": "62.5"}),
    "one_xrun": Case(Card(agent=answering(0.25), flags_at={1.5: OUTPUT_UNDERFLOW}),
                     {"round_trip_ms": "62.5", "max_xruns": "1"}),
}


@dataclass
class Result:
    played: Played | None
    failure: SessionFailedError | None

    def of(self, kind: type) -> list:
        played = self.played or (self.failure.played if self.failure else None)
        return [e for e in (played.events if played else []) if isinstance(e, kind)]

    def state(self, name: str) -> str | None:
        return next((e.detail for e in self.of(StateEvent) if e.name == name), None)


async def one(case: Case) -> Result:
    settings = {"lead_ms": "150", **case.settings}
    adapter = SoundCardAdapter(SOUND_CARD.effective(settings), case.card.open, devices)
    config = SessionConfig("R1-A-1-L2", 1, "", 1, adapter.settings)
    try:
        return Result(await play(PLAN, adapter, config, vad=VadSettings(), bounds=BOUNDS), None)
    except SessionFailedError as error:
        return Result(None, error)


@pytest.fixture(scope="module")
def results() -> Iterator[dict[str, Result]]:
    """All sessions at once: each has a card of its own, so the guard against two is put aside."""
    class Many(list):
        def __bool__(self) -> bool:
            return False

    async def everything() -> dict[str, Result]:
        gate = asyncio.Semaphore(4)

        async def run(case: Case) -> Result:
            async with gate:
                return await one(case)

        found = await asyncio.gather(*(run(c) for c in CASES.values()))
        return dict(zip(CASES, found, strict=True))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_OPEN", Many())
        with asyncio.Runner(loop_factory=loop_factory("real")) as runner:
            yield runner.run(everything())


def offset_ms(result: Result) -> float:
    """From the user's first turn to its coming back on the recorded track."""
    assert result.failure is None, result.failure
    track = heard_track(result.played, RATE_HZ)
    match = np.correlate(track, PLAN.turn1[:12_000], "valid")
    return int(np.argmax(match)) / 24.0


@pytest.mark.parametrize("name", ["calm", "reference", "fast_card", "no_times", "starts_badly",
                                  "one_xrun"])
def test_the_agent_is_recorded_when_it_spoke(results: dict[str, Result], name: str) -> None:
    """To the sample: nothing of the card's round trip or of the rig's own delay is in it."""
    assert offset_ms(results[name]) == pytest.approx(250.0, abs=0.05)


def test_uncalibrated_is_said_and_off_by_what_the_card_does_not_know(
        results: dict[str, Result]) -> None:
    result = results["uncalibrated"]
    assert "rig calibrate-card" in result.state("uncalibrated")
    assert json.loads(result.state("round_trip"))["source"] == "reported"
    assert offset_ms(result) == pytest.approx(250.0 + TRUE_MS - 2_500 / 48, abs=0.05)
    for name in ("calm", "reference"):
        assert results[name].state("uncalibrated") is None


def test_where_the_round_trip_is_known_from_is_logged(results: dict[str, Result]) -> None:
    by_reference = json.loads(results["reference"].state("round_trip"))
    assert by_reference["source"] == "reference_channel"
    assert by_reference["ms"] == pytest.approx(TRUE_MS, abs=0.03)
    assert json.loads(results["calm"].state("round_trip"))["source"] == "calibration"


def test_the_recorded_track_is_what_the_arrivals_say_sample_for_sample(
        results: dict[str, Result]) -> None:
    """Pieces of 20 ms, stamped without a gap from zero: the track is their concatenation."""
    played = results["calm"].played
    arrivals = results["calm"].of(AudioEvent)
    assert [e.t_ns for e in arrivals] == [20_000_000 * k for k in range(len(arrivals))]
    said = resample(np.concatenate(played.received), RATE_HZ, 24_000)
    track = heard_track(played, RATE_HZ)
    n = min(len(said), len(track))
    assert n > 24_000
    assert np.array_equal(track[:n], said[:n])
    # The end of the session is not recorded for as long as stamps lie back.
    assert 0 < len(track) - len(said) < 0.5 * 24_000


def test_the_cards_clock_is_fitted_and_certified(results: dict[str, Result]) -> None:
    clock = json.loads(results["fast_card"].state("card_clock"))
    assert clock["adc"]["source"] == clock["dac"]["source"] == "card"
    timing = certificate(results["fast_card"].played, RATE_HZ, None)
    assert timing.peer is not None
    assert timing.peer.frames_n >= 50
    # 20 ms of frame, 150 of lead, up to 10 of block, 42 to the DAC by its own times.
    assert 150 < timing.peer.late_p50_ms < 260
    assert json.loads(results["no_times"].state("card_clock"))["dac"]["source"] == "callback"
    assert certificate(results["no_times"].played, RATE_HZ, None).peer is None


def test_live_detection_hears_what_is_stamped_in_the_past(results: dict[str, Result]) -> None:
    """Stamps lie some 130 ms back; taken as of now, all of the agent would be dropped."""
    from rig.heard import HeardTrack

    adapter = SoundCardAdapter(SOUND_CARD.effective({"round_trip_ms": "62.5"}), None, devices)
    behind_ms = adapter.capabilities.heard_behind_ms
    assert behind_ms >= 20 + 40 + 62.5 + 10
    from rig.check import sentence

    heard = HeardTrack(24_000, reports_done=False, settings=VadSettings(), behind_ms=behind_ms)
    spoken = sentence()
    for k in range(len(spoken) // 480):
        now_ns = k * 20_000_000 + 150_000_000
        heard.audio(k * 20_000_000, spoken[k * 480:(k + 1) * 480], None)
        heard.replying(now_ns)
    onset_ns = heard.onset_ns(-1, len(spoken) * 41_667)
    assert onset_ns is not None
    assert onset_ns < 300_000_000
