"""What is known of the model while a session goes on: the end of a reply, an onset, and never
anything that has not been heard yet."""

from __future__ import annotations

import numpy as np
import pytest

from adapters.simulated import voice
from audio.buffers import Float32
from audio.vad import VadSettings
from rig.heard import REPLY_END_SILENCE_S, HeardTrack

MS = 1_000_000
S = 1000 * MS
RATE = 24_000


def track(*, reports_done: bool) -> HeardTrack:
    return HeardTrack(RATE, reports_done=reports_done, settings=VadSettings())


def speech(seconds: float) -> Float32:
    return voice.talk(seconds).samples


def test_a_reply_is_over_when_it_is_done_and_heard_to_its_end() -> None:
    """A burst of 3 s, sent in no time at 2.0 s and reported done at 2.1 s: heard until 5.0 s."""
    heard = track(reports_done=True)
    assert heard.reply_end_ns(0, 1 * S) is None
    heard.response_started("r1")
    assert heard.replying(2 * S)
    heard.audio(2 * S, speech(3.0), "r1")
    heard.response_done(2100 * MS, "r1")
    assert heard.replying(4999 * MS)
    assert heard.reply_end_ns(0, 4999 * MS) is None
    assert not heard.replying(5 * S)
    assert heard.reply_end_ns(0, 5 * S) == 5 * S
    assert heard.reply_end_ns(5 * S, 6 * S) is None, "it ended before what is asked about"


def test_done_counts_when_it_comes_after_the_last_sound() -> None:
    heard = track(reports_done=True)
    heard.response_started("r1")
    heard.audio(1 * S, speech(0.5), "r1")
    assert heard.reply_end_ns(0, 3 * S) is None, "the response is still open"
    heard.response_done(4 * S, "r1")
    assert heard.reply_end_ns(0, 4 * S) == 4 * S


def test_the_last_of_several_responses_ends_the_reply() -> None:
    heard = track(reports_done=True)
    heard.response_started("r1")
    heard.audio(1 * S, speech(1.0), "r1")
    heard.response_done(1 * S, "r1")
    heard.response_started("r2")
    assert heard.reply_end_ns(0, 5 * S) is None
    heard.audio(5 * S, speech(1.0), "r2")
    heard.response_done(5 * S, "r2")
    assert heard.reply_end_ns(0, 6 * S) == 6 * S


def test_without_reports_a_reply_ends_with_a_second_of_silence() -> None:
    heard = track(reports_done=False)
    for k in range(100):
        heard.audio(2 * S + k * 20 * MS, speech(2.0)[k * 480 : (k + 1) * 480], None)
    ended: list[int] = []
    for k in range(2 * 50, 8 * 50):
        end_ns = heard.reply_end_ns(0, k * 20 * MS)
        if end_ns is not None:
            ended.append(k * 20 * MS)
            # A cut sound has no decay: its end is noticed up to 0.17 s late (docs/agents.md).
            assert end_ns == pytest.approx(4 * S, abs=200 * MS)
    assert ended[0] == pytest.approx((4 + REPLY_END_SILENCE_S) * S, abs=220 * MS)


def test_a_stream_of_silence_is_no_reply_and_hides_no_end() -> None:
    """Chunks of 100 ms without a gap, speech from 2.0 to 4.0 s, silence before and after."""
    heard = track(reports_done=False)
    stream = np.concatenate([np.zeros(2 * RATE, np.float32), speech(2.0),
                             np.zeros(4 * RATE, np.float32)])
    ended: list[int] = []
    replying: list[int] = []
    for k in range(8 * 50):
        if k % 5 == 0:
            heard.audio(k * 20 * MS, stream[k * 480 : (k + 5) * 480], None)
        if heard.replying(k * 20 * MS):
            replying.append(k * 20 * MS)
        end_ns = heard.reply_end_ns(0, k * 20 * MS)
        if end_ns is not None:
            ended.append(k * 20 * MS)
            assert end_ns == pytest.approx(4 * S, abs=200 * MS)
    assert ended[0] == pytest.approx((4 + REPLY_END_SILENCE_S) * S, abs=220 * MS)
    assert replying[0] == pytest.approx(2200 * MS, abs=200 * MS)
    assert replying[-1] == ended[0] - 20 * MS
    assert len(replying) == (replying[-1] - replying[0]) // (20 * MS) + 1


def test_a_pause_in_a_reply_that_came_at_once_is_judged_as_if_it_came_in_time() -> None:
    sound = np.concatenate([speech(1.5), np.zeros(RATE // 2, np.float32), speech(1.5),
                            np.zeros(2 * RATE, np.float32)])
    at_once, in_time = track(reports_done=False), track(reports_done=False)
    at_once.audio(0, sound, None)
    for k in range(6 * 50):
        in_time.audio(k * 20 * MS, sound[k * 480 : (k + 1) * 480], None)
        assert at_once.reply_end_ns(0, k * 20 * MS) == in_time.reply_end_ns(0, k * 20 * MS)
        assert at_once.replying(k * 20 * MS) == in_time.replying(k * 20 * MS)


def test_noise_is_no_reply() -> None:
    heard = track(reports_done=False)
    noise = np.random.default_rng(1).standard_normal(2 * RATE).astype(np.float32) * 1e-3
    heard.audio(1 * S, noise, None)
    assert heard.reply_end_ns(0, 6 * S) is None
    assert heard.onset_ns(0, 6 * S) is None


def test_an_onset_is_known_when_it_has_been_heard_and_not_when_it_arrives() -> None:
    """A second of silence and two of speech arrive together at 2.0 s."""
    heard = track(reports_done=True)
    heard.audio(2 * S, np.concatenate([np.zeros(RATE, np.float32), speech(2.0)]), "r1")
    known = [k * 20 * MS for k in range(100, 250) if heard.onset_ns(0, k * 20 * MS) is not None]
    onset_ns = heard.onset_ns(0, 5 * S)
    assert onset_ns == pytest.approx(3 * S, abs=80 * MS)
    assert known[0] == pytest.approx(3 * S + 150 * MS, abs=100 * MS)
    assert heard.onset_ns(onset_ns + MS, 5 * S) is None


def test_speech_that_goes_on_and_speech_that_paused() -> None:
    heard = track(reports_done=True)
    heard.audio(0, speech(4.0), "r1")
    assert heard.speaking_since_before(1 * S, 2 * S)
    assert heard.speaking_since_before(1 * S, 3900 * MS)
    assert not heard.speaking_since_before(1 * S, 5 * S)
    paused = track(reports_done=True)
    paused.audio(0, np.concatenate([speech(1.5), np.zeros(RATE, np.float32), speech(1.5)]), "r1")
    assert not paused.speaking_since_before(1 * S, 3500 * MS)
    assert paused.speaking_since_before(3 * S, 3500 * MS)


def test_empty_chunks_are_nothing() -> None:
    heard = track(reports_done=True)
    heard.audio(1 * S, np.zeros(0, np.float32), "r1")
    assert not heard.replying(1 * S)
    assert heard.reply_end_ns(0, 2 * S) is None
