"""Live detection beside the event loop: the answers of the inline detector, only later; what is
behind or broken is never taken for silence."""

from __future__ import annotations

import asyncio
import threading
from collections import deque

import numpy as np
import pytest

from adapters.simulated import voice
from audio.errors import InfrastructureError
from audio.spans import Spans
from audio.vad import VadSettings
from rig import live
from rig.heard import REPLY_END_SILENCE_S, HeardTrack
from rig.live import InlineChannel, LiveChannel, LiveDetection, Speech, step

RATE_HZ = 24_000
MS = 1_000_000
FRAME_NS = 20 * MS
WAIT_S = 900.0
"""How long a test waits for the worker; a loaded machine needs some of it."""


def talk(seconds: float) -> np.ndarray:
    return voice.talk(seconds).samples


def pieces(start_n: int, samples: np.ndarray) -> list[tuple[int, np.ndarray]]:
    return [(start_n + at, samples[at:at + 480]) for at in range(0, len(samples), 480)]


class Waiting(LiveDetection):
    """Nobody works: channels wait until the test takes a step."""

    def post(self, channel: LiveChannel) -> None:
        pass


@pytest.fixture
def waiting():
    with Waiting() as detection:
        yield detection


# Answers.


def test_an_answer_is_that_of_the_inline_detector_at_its_moment(waiting):
    """Speech from 0.5 to 1.7 s and from 3.0 s on, asked every 20 ms, answered every 140 ms."""
    events = pieces(12_000, talk(1.2)) + pieces(72_000, talk(1.5))
    inline, channel = (InlineChannel(RATE_HZ, VadSettings()),
                       waiting.channel(RATE_HZ, VadSettings()))
    told: dict[int, Speech] = {}
    first, second = deque(events), deque(events)
    for k in range(220):
        now_ns = k * FRAME_NS
        told[now_ns] = inline.advance(first, now_ns)
        answer = channel.advance(second, now_ns)
        assert answer == told.get(answer.as_of_ns, Speech())
        assert now_ns - answer.as_of_ns <= 7 * FRAME_NS
        if k % 7 == 6:
            step([channel])
    assert len(told[now_ns].spans) == 2
    assert channel.most_behind_ns == 6 * FRAME_NS


def test_channels_are_advanced_together_and_keep_apart(waiting):
    sound = [talk(1.0), np.zeros(24_000, np.float32), 0.5 * talk(1.5)]
    channels = [waiting.channel(RATE_HZ, VadSettings()) for _ in sound]
    alone = [InlineChannel(RATE_HZ, VadSettings()) for _ in sound]
    queues = [deque(pieces(4_800 * i, s)) for i, s in enumerate(sound)]
    copies = [deque(q) for q in queues]
    for k in range(0, 120, 3):
        for channel, queue in zip(channels, queues, strict=True):
            channel.advance(queue, k * FRAME_NS)
        step(channels)
    last_ns = 117 * FRAME_NS
    for channel, own, copy in zip(channels, alone, copies, strict=True):
        for k in range(0, 120, 3):
            expected = own.advance(copy, k * FRAME_NS)
        assert channel.advance(deque(), last_ns) == expected
    assert [bool(c.advance(deque(), last_ns).spans) for c in channels] == [True, False, True]


def test_a_step_without_anything_to_take_changes_nothing(waiting):
    channel = waiting.channel(RATE_HZ, VadSettings())
    step([channel])
    assert channel.advance(deque(), 0) == Speech()


def test_the_facts_of_an_answer():
    ended = Speech(2_000 * MS, Spans.of([(1_600, 8_000), (16_000, 24_000)]), speaking=False)
    assert ended.onset_after(0) == 100 * MS
    assert ended.onset_after(100 * MS) == 100 * MS
    assert ended.onset_after(101 * MS) == 1_000 * MS
    assert ended.onset_after(1_001 * MS) is None
    assert ended.last_speech_end_ns() == 1_500 * MS
    assert not ended.speaking_through(1_200 * MS)
    going_on = Speech(2_000 * MS, Spans.of([(1_600, 8_000), (16_000, 24_000)]), speaking=True)
    assert going_on.last_speech_end_ns() == 2_000 * MS
    assert going_on.speaking_through(1_000 * MS)
    assert not going_on.speaking_through(999 * MS)
    assert Speech().last_speech_end_ns() is None
    assert not Speech(speaking=True).speaking_through(0)


# The worker.


def heard_until(channel, pending, done):
    """Ask every 20 ms of the clock until `done(answer)`."""
    async def ask():
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            answer = channel.advance(pending, int((loop.time() - began) * 1e9))
            if done(answer):
                return answer
            assert loop.time() - began < WAIT_S, "the worker did not answer"
            await asyncio.sleep(0.02)

    return asyncio.run(ask())


def test_the_worker_answers_from_a_thread_of_its_own(monkeypatch):
    threads = set()

    def watched(channels):
        threads.add(threading.current_thread())
        return step(channels)

    monkeypatch.setattr(live, "step", watched)
    with LiveDetection() as detection:
        channel = detection.channel(RATE_HZ, VadSettings())
        answer = heard_until(channel, deque(pieces(2_400, talk(1.0))), lambda a: a.spans)
    assert answer.onset_after(0) == pytest.approx(100 * MS, abs=60 * MS)
    assert len(threads) == 1
    assert threading.main_thread() not in threads
    assert not next(iter(threads)).is_alive()


def test_asking_does_not_wait_for_the_worker(monkeypatch):
    release = threading.Event()

    def stuck(channels):
        release.wait(WAIT_S)

    monkeypatch.setattr(live, "step", stuck)
    with LiveDetection() as detection:
        try:
            channel = detection.channel(RATE_HZ, VadSettings())
            for k in range(1, 51):
                assert channel.advance(deque(), k * FRAME_NS) == Speech()
            assert channel.most_behind_ns == 980 * MS
        finally:
            release.set()


@pytest.mark.parametrize(("frames", "fails"), [(51, False), (52, True)])
def test_a_worker_a_second_behind_ends_the_session(waiting, frames, fails):
    channel = waiting.channel(RATE_HZ, VadSettings())
    for k in range(1, frames):
        channel.advance(deque(), k * FRAME_NS)
    if not fails:
        channel.advance(deque(), frames * FRAME_NS)
        return
    with pytest.raises(InfrastructureError, match="live speech detection is 1020 ms behind"):
        channel.advance(deque(), frames * FRAME_NS)


def test_a_long_time_without_questions_is_not_behind(waiting):
    """The schedule asks nothing while turn 2 is spoken."""
    channel = waiting.channel(RATE_HZ, VadSettings())
    channel.advance(deque(), FRAME_NS)
    step([channel])
    assert channel.advance(deque(), 10_000 * MS).as_of_ns == FRAME_NS
    assert channel.most_behind_ns == 0


def test_what_the_worker_died_of_is_raised_and_is_no_silence(monkeypatch):
    def broken(channels):
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(live, "step", broken)
    with LiveDetection() as detection:
        channel = detection.channel(RATE_HZ, VadSettings())
        with pytest.raises(ZeroDivisionError, match="a defect"):
            heard_until(channel, deque(), lambda _: False)


def test_after_the_end_nothing_is_answered():
    with LiveDetection() as detection:
        channel = detection.channel(RATE_HZ, VadSettings())
    with pytest.raises(InfrastructureError, match="has ended"):
        channel.advance(deque(), FRAME_NS)


def test_ending_waits_for_no_step_that_has_not_begun():
    with LiveDetection() as detection:
        channel = detection.channel(RATE_HZ, VadSettings())
        channel.advance(deque(), FRAME_NS)
    assert detection._executor._shutdown


# The schedule's facts.


def track(detection):
    return HeardTrack(RATE_HZ, reports_done=False, settings=VadSettings(), live=detection)


def test_silence_is_known_as_far_as_has_been_listened(waiting):
    heard = track(waiting)
    heard.audio(100 * MS, talk(1.0), None)
    asked = range(0, 4_000 * MS, FRAME_NS)
    channel = None
    ended_at = None
    for now_ns in asked:
        end_ns = heard.reply_end_ns(0, now_ns)
        channel = heard._channel
        # Listened to 1.5 s (all of the speech, and less than 1 s of silence), then no more for
        # 0.9 s, then at once to the end.
        if channel is not None and (now_ns <= 1_500 * MS or now_ns >= 2_400 * MS):
            step([channel])
        if end_ns is not None:
            ended_at = now_ns
            break
    assert ended_at == 2_420 * MS
    assert end_ns == pytest.approx(1_100 * MS, abs=120 * MS)
    assert heard.detection_behind_ns == pytest.approx(900 * MS, abs=40 * MS)
    assert ended_at - end_ns >= REPLY_END_SILENCE_S * 1e9


def test_who_is_not_asked_is_not_behind(waiting):
    assert track(waiting).detection_behind_ns is None
    inline = HeardTrack(RATE_HZ, reports_done=False, settings=VadSettings())
    inline.audio(0, talk(0.5), None)
    assert inline.onset_ns(0, 600 * MS) is not None
    assert inline.detection_behind_ns is None
