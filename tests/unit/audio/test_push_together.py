"""Live channels advanced side by side: the same bits as one by one, all or nothing on errors."""

from __future__ import annotations

import numpy as np
import pytest

from adapters.simulated import voice
from audio.errors import InputError
from audio.resample import resample
from audio.silero import StreamingProbabilities, push_together
from audio.vad import StreamingVad, VadSettings
from audio.vad import push_together as push_vads_together


@pytest.fixture(scope="module")
def speech() -> np.ndarray:
    return resample(voice.talk(3.0).samples, 24_000, 16_000)


def _channels(speech: np.ndarray, count: int) -> list[np.ndarray]:
    random = np.random.default_rng(5)
    return [np.concatenate([np.zeros(int(random.integers(0, 6000)), np.float32),
                            speech[int(random.integers(0, 9000)):]]) for _ in range(count)]


@pytest.mark.parametrize("count", [1, 3, 18])
def test_side_by_side_is_one_by_one_bit_for_bit(speech: np.ndarray, count: int) -> None:
    channels = _channels(speech, count)
    alone = [StreamingProbabilities() for _ in channels]
    together = [StreamingProbabilities() for _ in channels]
    random = np.random.default_rng(7)
    at = [0] * count
    answers: list[list[np.ndarray]] = [[] for _ in channels]
    expected: list[list[np.ndarray]] = [[] for _ in channels]
    while any(a < len(c) for a, c in zip(at, channels, strict=True)):
        chosen = [i for i in range(count) if random.random() < 0.7]
        pieces = []
        for i in chosen:
            n = int(random.choice([0, 1, 320, 511, 512, 960, 7000]))
            pieces.append(channels[i][at[i]:at[i] + n])
            at[i] += n
        for i, piece, got in zip(chosen, pieces,
                                 push_together([together[i] for i in chosen], pieces),
                                 strict=True):
            expected[i].append(alone[i].push(piece))
            answers[i].append(got)
    for got_all, expected_all, a, b in zip(answers, expected, alone, together, strict=True):
        assert [g.tobytes() for g in got_all] == [e.tobytes() for e in expected_all]
        assert a.samples_n == b.samples_n
        assert a.flush().tobytes() == b.flush().tobytes()


def test_live_spans_are_those_of_single_channels(speech: np.ndarray) -> None:
    channels = _channels(speech, 4)
    alone = [StreamingVad(VadSettings()) for _ in channels]
    together = [StreamingVad(VadSettings()) for _ in channels]
    for first in range(0, max(map(len, channels)), 1000):
        pieces = [c[first:first + 1000] for c in channels]
        push_vads_together(together, pieces)
        for vad, piece in zip(alone, pieces, strict=True):
            vad.push(piece)
        assert [v.spans_so_far() for v in together] == [v.spans_so_far() for v in alone]
        assert [v.speaking for v in together] == [v.speaking for v in alone]
    assert all(v.spans_so_far() for v in together)


def test_nothing_to_push_is_nothing() -> None:
    assert push_together([], []) == []


@pytest.mark.parametrize("bad", [np.full(600, np.nan, np.float32), np.zeros((2, 600), np.float32),
                                 np.zeros(600, np.int16)])
def test_one_bad_piece_leaves_every_stream_as_it_was(speech: np.ndarray, bad: np.ndarray) -> None:
    streams = [StreamingProbabilities(), StreamingProbabilities()]
    push_together(streams, [speech[:700], speech[:700]])
    with pytest.raises(InputError):
        push_together(streams, [speech[700:1500], bad])
    assert [s.samples_n for s in streams] == [700, 700]
    whole = StreamingProbabilities().push(speech[:1500])
    after = push_together(streams, [speech[700:1500]] * 2)
    assert [a.tobytes() for a in after] == [whole[1:].tobytes()] * 2


def test_a_stream_that_ended_or_comes_twice_is_refused() -> None:
    ended, other = StreamingProbabilities(), StreamingProbabilities()
    ended.flush()
    zeros = np.zeros(512, np.float32)
    with pytest.raises(InputError, match="expected open streams of one model"):
        push_together([other, ended], [zeros, zeros])
    with pytest.raises(InputError, match="expected every stream once"):
        push_together([other, other], [zeros, zeros])
    assert other.samples_n == 0
