"""A codec on a stream: with the context that it looks at each frame is that of the whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fake_f_actor import CODES, FRAME_N, HEADS, Codec

from adapters.workers.worker_kit.codec_windows import DecodingWindow, EncodingWindow
from adapters.workers.worker_kit.delayed_heads import DelayedHeads, HeldText
from adapters.workers.worker_kit.drawing import drawn

FRAMES = 60


@pytest.fixture
def audio() -> np.ndarray:
    # So that no weight of the codec makes nothing of one.
    loud = np.random.default_rng(1).integers(1, 252, FRAMES)
    return (np.repeat(loud, FRAME_N) / 4000).astype(np.float32)


def pieces(n: int, whole: int, seed: int) -> Iterator[slice]:
    """`whole` things in pieces of 0 to n of them."""
    rng = np.random.default_rng(seed)
    at = 0
    while at < whole:
        size = int(rng.integers(0, n + 1))
        yield slice(at, min(at + size, whole))
        at += size


def encoded(codec: Codec, audio: np.ndarray, context: int, lookahead: int, piece_n: int,
            ) -> np.ndarray:
    window = EncodingWindow(codec.encode, HEADS, FRAME_N, context, lookahead)
    return np.concatenate([window.push(audio[cut]) for cut in pieces(piece_n, len(audio), 2)],
                          axis=1)


@pytest.mark.parametrize("piece_n", [FRAME_N, 1, 441, 5000, 20_001])
def test_encoding_with_enough_context_is_that_of_the_whole(
        audio: np.ndarray, piece_n: int) -> None:
    if piece_n == 1:
        audio = audio[: 6 * FRAME_N]
    whole = Codec(4).encode(audio)
    for context in (4, 5, 100):
        np.testing.assert_array_equal(encoded(Codec(4), audio, context, 0, piece_n), whole)


def test_encoding_with_less_context_is_not(audio: np.ndarray) -> None:
    """Only the first frames, which have no more before them, are the same."""
    whole = Codec(4).encode(audio)
    found = encoded(Codec(4), audio, 3, 0, FRAME_N)
    assert (found[:, :4] == whole[:, :4]).all()
    assert (found[:, 4:] != whole[:, 4:]).all()


def test_a_codec_that_looks_ahead_is_waited_for(audio: np.ndarray) -> None:
    whole = Codec(3, ahead=2).encode(audio)
    found = encoded(Codec(3, ahead=2), audio, 3, 2, FRAME_N)
    assert found.shape == (HEADS, FRAMES - 2)
    np.testing.assert_array_equal(found, whole[:, : FRAMES - 2])
    short = encoded(Codec(3, ahead=2), audio, 3, 1, FRAME_N)
    assert short.shape == (HEADS, FRAMES - 1)
    assert (short[:, : FRAMES - 2] != whole[:, : FRAMES - 2]).all()


def test_the_window_is_as_long_as_it_says_and_no_longer(audio: np.ndarray) -> None:
    codec = Codec(4)
    encoded(codec, audio, 6, 2, FRAME_N)
    assert codec.encoded[:8] == [3, 4, 5, 6, 7, 8, 9, 9]
    assert set(codec.encoded[8:]) == {9}
    window = DecodingWindow(codec.decode, HEADS, FRAME_N, 6)
    for k in range(20):
        window.push(np.full((HEADS, 1), k))
    assert codec.decoded == [1, 2, 3, 4, 5, 6, *[7] * 14]


@pytest.mark.parametrize("context", [4, 9])
def test_tails_neither_lose_nor_repeat_a_sample_over_1000_frames(context: int) -> None:
    codes = np.random.default_rng(3).integers(0, CODES, (HEADS, 1000))
    window = DecodingWindow(Codec(4).decode, HEADS, FRAME_N, context)
    found = [window.push(codes[:, cut]) for cut in pieces(7, 1000, 4)]
    assert {len(f) // FRAME_N for f in found} == set(range(8))
    np.testing.assert_array_equal(np.concatenate(found), Codec(4).decode(codes))


def test_decoding_with_less_context_is_not_that_of_the_whole() -> None:
    codes = np.random.default_rng(3).integers(1, 252, (HEADS, 50))
    window = DecodingWindow(Codec(4).decode, HEADS, FRAME_N, 3)
    found = np.concatenate([window.push(codes[:, k : k + 1]) for k in range(50)])
    whole = Codec(4).decode(codes)
    assert (found[: 4 * FRAME_N] == whole[: 4 * FRAME_N]).all()
    assert (found[4 * FRAME_N :] != whole[4 * FRAME_N :]).all()


@pytest.mark.parametrize(("shape", "words"), [
    ((4, 2), r"codes of shape \(4, 2\), expected \(4, 1\)"),
    ((8, 1), r"codes of shape \(8, 1\), expected \(4, 1\)"),
])
def test_a_codec_that_gives_something_else_fails(shape: tuple[int, int], words: str) -> None:
    window = EncodingWindow(lambda _: np.zeros(shape, np.int64), 4, FRAME_N, 4)
    with pytest.raises(RuntimeError, match=words):
        window.push(np.zeros(FRAME_N, np.float32))
    short = DecodingWindow(lambda c: np.zeros(c.shape[1] * FRAME_N - 8, np.float32), 4, FRAME_N, 4)
    with pytest.raises(RuntimeError, match=r"audio of shape \(1756,\), expected \(1764,\)"):
        short.push(np.zeros((4, 1), np.int64))


def test_columns_and_the_last_step() -> None:
    heads = DelayedHeads(2, 3, delay=2, delay_id=99, max_steps=4)
    assert heads.audio_frames == 2
    assert heads.delayed
    assert heads.delay_column().tolist() == [99] * 5
    assert heads.delay_column().tolist() == [99] * 5
    assert not heads.delayed
    assert not heads.full  # after this one the model says what stands at step 3
    assert heads.audio_column(np.array([1, 2]), np.array([3, 4, 5])).tolist() == [1, 2, 3, 4, 5]
    assert heads.full
    with pytest.raises(ValueError, match="expected 2 own codes and 3 of the partner"):
        heads.audio_column(np.zeros(2), np.zeros(2))


def test_text_comes_with_its_audio() -> None:
    held = HeldText(2)
    assert [held.push(t) for t in ("a", "b", "c", "d")] == ["", "", "a", "b"]
    assert HeldText(0).push("a") == "a"


def shares(logits: list[float], n: int = 1500, **how: Any) -> np.ndarray:
    rng = np.random.default_rng(5)
    rows = np.tile(np.array(logits, np.float32), (n, 1))
    ids = drawn(rows, how.get("temperature", 1.0), how.get("top_k", 0), how.get("top_p", 1.0), rng)
    return np.bincount(ids, minlength=len(logits)) / n


def test_tokens_are_drawn_as_often_as_the_model_says() -> None:
    p = np.array([0.5, 0.3, 0.15, 0.05])
    logits = np.log(p).tolist()
    assert np.abs(shares(logits) - p).max() < 0.05
    warm = p**0.5 / (p**0.5).sum()
    assert np.abs(shares(logits, temperature=2.0) - warm).max() < 0.05
    np.testing.assert_array_equal(shares(logits, temperature=0), [1, 0, 0, 0])
    np.testing.assert_array_equal(shares([0.0, -np.inf, -np.inf]), [1, 0, 0])


def test_only_the_best_are_drawn_from() -> None:
    p = np.array([0.15, 0.5, 0.05, 0.3])
    logits = np.log(p).tolist()
    assert np.abs(shares(logits, top_k=2) - np.array([0, 0.625, 0, 0.375])).max() < 0.05
    # Of all the probability: the second begins at 0.5, the third at 0.8.
    assert np.abs(shares(logits, top_p=0.7) - np.array([0, 0.625, 0, 0.375])).max() < 0.05
    assert shares(logits, top_p=0.81)[0] > 0.1
    np.testing.assert_array_equal(shares(logits, top_p=0.4), [0, 1, 0, 0])
    # The share is of everything, also where few are kept.
    assert shares(logits, top_k=2, top_p=0.6)[3] > 0.3
    assert shares([1.0, 1.0, 1.0, 0.0], top_k=2)[:3].min() > 0.3


@pytest.mark.parametrize("logits", [[np.nan, 0.0], [-np.inf, -np.inf], [np.inf, 0.0]])
def test_logits_that_are_no_numbers(logits: list[float]) -> None:
    with pytest.raises(RuntimeError, match="logits that are not finite"):
        drawn(np.array(logits), 1.0, 40, 0.9, np.random.default_rng(1))
