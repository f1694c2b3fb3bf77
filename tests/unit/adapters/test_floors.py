"""The declared latencies and lengths of the floors, read off what they emit, to the sample."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from adapters.simulated import floors, voice

TICK_S = 0.02
SAMPLE_S = 1 / 24_000
Drive = Callable[..., Any]


def test_silent_emits_nothing(drive: Drive, speech: Drive) -> None:
    assert drive(floors.Silent(), speech(5, (0, 4))).events == []


def test_monologue_talks_from_the_first_tick_to_the_end(drive: Drive, speech: Drive) -> None:
    heard = drive(floors.Monologue(), speech(40, (1, 9)))
    ((start, end),) = heard.sounds_s
    assert start == TICK_S
    assert end == pytest.approx(40.02, abs=0.06)
    assert heard.responses == [("r1", "open")]
    assert len(heard.text.split()) > 80


@pytest.mark.parametrize("delay_s", [0.02, 0.5, 0.5 + SAMPLE_S, 1.2345])
def test_echo_is_the_user_delayed_to_the_sample(
    drive: Drive, speech: Drive, delay_s: float,
) -> None:
    user = speech(6, (0.3, 1.1), (2.5007, 3.0))
    heard = drive(floors.Echo(delay_s), user)
    delay_n = round(delay_s * 24_000)
    expected = np.concatenate([np.zeros(delay_n, np.float32), user])[: len(heard.track)]
    expected = np.pad(expected, (0, len(heard.track) - len(expected)))
    assert np.array_equal(heard.track[:-480], expected[:-480])
    assert heard.text == ""
    assert heard.responses == []
    # Nothing is emitted for silence: 1.3 s of sound are at most 68 chunks.
    assert len(heard.events) <= 68


@pytest.mark.parametrize("period_s", [0.8, 1.8, 2.5001])
def test_metronome_keeps_its_period_to_the_sample(
    drive: Drive, speech: Drive, period_s: float,
) -> None:
    heard = drive(floors.Metronome(period_s), speech(20, (3, 9)))
    onsets = [a for a, _ in heard.sounds_s]
    assert onsets == pytest.approx([period_s * k for k in range(1, len(onsets) + 1)],
                                   abs=SAMPLE_S)
    assert len(onsets) == int(20.02 / period_s)
    assert all(b - a == pytest.approx(voice.BACKCHANNEL_S, abs=0.002) for a, b in
               heard.sounds_s[:-1])
    assert {s for _, s in heard.responses[:-1]} == {"completed"}
    assert set(heard.text.split()) == {"Yeah"}


@pytest.mark.parametrize("endpoint_s", [0.2, 0.81, 3.2])
@pytest.mark.parametrize("user_end_s", [2.0, 2.0003, 2.0199])
def test_long_endpoint_replies_at_the_first_tick_of_enough_silence(
    drive: Drive, speech: Drive, endpoint_s: float, user_end_s: float,
) -> None:
    heard = drive(floors.LongEndpoint(endpoint_s, 1.5), speech(9, (0.5, user_end_s)))
    ((start, end),) = heard.sounds_s
    assert 0 <= start - (user_end_s + endpoint_s) < TICK_S + SAMPLE_S
    assert start / TICK_S == pytest.approx(round(start / TICK_S), abs=1e-6)
    assert end - start == pytest.approx(1.5, abs=SAMPLE_S)
    assert heard.responses == [("r1", "completed")]


def test_long_endpoint_bridges_shorter_pauses_and_is_never_broken_off(
    drive: Drive, speech: Drive,
) -> None:
    # Pause of 3.0 s: no reply. The user speaks again in the middle of the reply: it goes on, and
    # that speech gets a reply of its own.
    user = speech(25, (0, 2), (5, 6), (11, 13))
    heard = drive(floors.LongEndpoint(3.2, 4.2), user)
    (first, second) = heard.sounds_s
    assert first == pytest.approx((9.2, 13.4), abs=TICK_S)
    assert second == pytest.approx((16.2, 20.4), abs=TICK_S)
    assert heard.responses == [("r1", "completed"), ("r2", "completed")]


def test_long_endpoint_says_nothing_to_a_silent_user(drive: Drive, speech: Drive) -> None:
    assert drive(floors.LongEndpoint(0.5, 1.0), speech(10)).events == []


@pytest.mark.parametrize("latency_s", [0.02, 0.3, 0.3001, 1.0])
def test_eager_cuts_in_after_its_latency_to_the_sample(
    drive: Drive, speech: Drive, latency_s: float,
) -> None:
    user = speech(8, (1.0071, 1.5), (5.0, 5.5))
    heard = drive(floors.Eager(latency_s, 0.4, 3.0), user)
    first, second = heard.sounds_s
    assert first == pytest.approx((1.0071 + latency_s, 1.4071 + latency_s), abs=2 * SAMPLE_S)
    assert second[0] == pytest.approx(5.0 + latency_s, abs=2 * SAMPLE_S)


def test_eager_goes_on_cutting_in_while_the_user_speaks(drive: Drive, speech: Drive) -> None:
    heard = drive(floors.Eager(0.3, 0.4, 0.6), speech(10, (1, 6)))
    onsets = [a for a, _ in heard.sounds_s]
    assert onsets[0] == pytest.approx(1.3, abs=SAMPLE_S)
    steps = np.diff(onsets)
    assert np.all((steps >= 1.0 - SAMPLE_S) & (steps < 1.0 + TICK_S))
    assert len(onsets) == 5  # 1.3, 2.3, 3.3, 4.3, 5.3 and none after 6.0
    assert all(b - a == pytest.approx(0.4, abs=0.001) for a, b in heard.sounds_s)


def test_eager_waits_for_its_rest_after_a_new_onset(drive: Drive, speech: Drive) -> None:
    heard = drive(floors.Eager(0.1, 0.4, 2.0), speech(8, (1, 1.2), (1.6, 2.0)))
    onsets = [a for a, _ in heard.sounds_s]
    assert onsets == pytest.approx([1.1, 3.5], abs=2 * SAMPLE_S)


def random_agent(seed: int) -> floors.RandomOnsets:
    return floors.RandomOnsets(seed, 2.0, 0.4, 1.5)


def test_random_is_a_function_of_its_seed(drive: Drive, speech: Drive) -> None:
    user = speech(30, (2, 9))
    first, again, other = (drive(random_agent(s), user) for s in (11, 11, 12))
    assert first.track.tobytes() == again.track.tobytes()
    assert [type(e) for e in first.events] == [type(e) for e in again.events]
    assert first.text == again.text
    assert first.track.tobytes() != other.track.tobytes()


def test_random_ignores_the_user_and_keeps_its_bounds(drive: Drive, speech: Drive) -> None:
    alone, spoken_to = (drive(random_agent(3), user).track for user in (
        speech(120), speech(120, (1, 100))))
    assert alone.tobytes() == spoken_to.tobytes()
    sounds = drive(random_agent(3), speech(120)).sounds_s
    lengths = [b - a for a, b in sounds[:-1]]
    gaps = [b[0] - a[1] for a, b in itertools.pairwise(sounds)]
    assert min(lengths) >= 0.4 - 0.05
    assert max(lengths) < 1.5
    assert min(gaps) >= 0.6 - SAMPLE_S
    assert 1.3 < np.mean(gaps) < 3.0  # mean 2.0 s, about 40 draws
    assert len({round(g, 6) for g in gaps}) == len(gaps)


def test_random_onsets_are_its_draws_to_the_sample(drive: Drive, speech: Drive) -> None:
    rng = np.random.default_rng(3)
    at_s = 0.0
    expected = []
    for _ in range(20):
        at_s += 0.6 + rng.exponential(2.0 - 0.6)
        expected.append(at_s)
        at_s += rng.uniform(0.4, 1.5)
        rng.integers(8)
    onsets = [a for a, _ in drive(random_agent(3), speech(120)).sounds_s][:20]
    assert onsets == pytest.approx(expected, abs=0.002)  # lengths are rounded to a sample each
