"""Resampling: nothing moves in time, levels hold, what is wrong is refused."""

from __future__ import annotations

import numpy as np
import pytest

from audio.buffers import Float32
from audio.errors import InputError
from audio.resample import Quality, StreamResampler, resample
from audio.timebase import convert_n

PAIRS = [
    (24_000, 16_000),
    (16_000, 24_000),
    (8_000, 16_000),
    (44_100, 16_000),
    (48_000, 16_000),
    (22_050, 24_000),
    (24_000, 8_000),
    (8_001, 16_000),
]


def burst(rate_hz: int, frames: int, centre_s: float) -> Float32:
    """A tone burst without edges: 600 Hz under a bell of 4 ms, so far below every band limit."""
    t_s = np.arange(frames) / rate_hz - centre_s
    wave = 0.8 * np.exp(-0.5 * (t_s / 0.004) ** 2) * np.cos(2 * np.pi * 600 * t_s)
    return wave.astype(np.float32)


@pytest.mark.parametrize(("from_hz", "to_hz"), PAIRS)
@pytest.mark.parametrize("centre_s", [0.25, 0.3333, 0.49991])
def test_a_burst_stays_at_its_instant(from_hz: int, to_hz: int, centre_s: float) -> None:
    frames = from_hz * 7 // 10
    out = resample(burst(from_hz, frames, centre_s), from_hz, to_hz)
    wanted = burst(to_hz, len(out), centre_s)
    # One sample of shift would be an error of 0.15 or more; this bound is a thousandth of that.
    assert np.abs(out - wanted).max() < 1e-4


@pytest.mark.parametrize("quality", ["VHQ", "HQ"])
def test_an_impulse_peaks_at_its_own_sample(quality: Quality) -> None:
    for at in (0, 1, 777, 3999):
        impulse = np.zeros(4_000, dtype=np.float32)
        impulse[at] = 1.0
        assert int(np.argmax(resample(impulse, 8_000, 16_000, quality=quality))) == 2 * at
        assert int(np.argmax(resample(impulse, 8_000, 24_000, quality=quality))) == 3 * at


def test_a_late_event_of_a_long_stream_has_not_drifted() -> None:
    from_hz, to_hz, seconds, centre_s = 44_100, 16_000, 300, 299.5
    stream = StreamResampler(from_hz, to_hz)
    parts = [stream.push(np.zeros(from_hz, dtype=np.float32)) for _ in range(seconds - 1)]
    t_s = np.arange(from_hz) / from_hz + (seconds - 1) - centre_s
    last = np.exp(-0.5 * (t_s / 0.004) ** 2).astype(np.float32)
    out = np.concatenate([*parts, stream.push(last), stream.flush()])
    assert len(out) == seconds * to_hz
    assert int(np.argmax(out)) == round(centre_s * to_hz)


@pytest.mark.parametrize(("quality", "snr_db"), [("VHQ", 145), ("HQ", 120)])
def test_a_tone_keeps_level_and_purity(quality: Quality, snr_db: float) -> None:
    # Measured: VHQ 152 dB and more, HQ 130 dB and more.
    from_hz, to_hz = 24_000, 16_000
    tone = 0.5 * np.sin(2 * np.pi * 1_000 * np.arange(from_hz * 3) / from_hz)
    out = resample(tone.astype(np.float32), from_hz, to_hz, quality=quality)[to_hz : 2 * to_hz]
    wanted = 0.5 * np.sin(2 * np.pi * 1_000 * np.arange(to_hz, 2 * to_hz) / to_hz)
    error = np.mean((out - wanted) ** 2)
    assert 10 * np.log10(np.mean(wanted**2) / error) > snr_db


def test_what_the_lower_rate_cannot_hold_is_removed() -> None:
    tone = 0.5 * np.sin(2 * np.pi * 9_500 * np.arange(72_000) / 24_000)
    out = resample(tone.astype(np.float32), 24_000, 16_000)[16_000:32_000]
    assert np.abs(out).max() < 1e-6


def test_silence_stays_exactly_silent() -> None:
    assert not resample(np.zeros(5_000, dtype=np.float32), 24_000, 16_000).any()


@pytest.mark.parametrize("frames", [0, 1, 2, 3, 80, 240, 400, 1040])
@pytest.mark.parametrize(("from_hz", "to_hz"), [*PAIRS, (48_000, 44_100), (96_000, 11_025)])
def test_length(from_hz: int, to_hz: int, frames: int) -> None:
    # 240 frames of 48 kHz are 220.5 frames of 44.1 kHz: soxr alone gives 220.
    out = resample(np.ones(frames, dtype=np.float32), from_hz, to_hz)
    assert out.shape == (convert_n(frames, from_hz, to_hz),)
    assert out.dtype == np.float32


@pytest.mark.parametrize("shape", [(0,), (100,), (0, 1), (100, 1), (0, 2), (100, 2)])
@pytest.mark.parametrize("to_hz", [16_000, 24_000])
def test_shapes(shape: tuple[int, ...], to_hz: int) -> None:
    out = resample(np.ones(shape, dtype=np.float32), 16_000, to_hz)
    assert out.shape == (shape[0] * to_hz // 16_000, *shape[1:])


def test_memory_layout_does_not_matter() -> None:
    signal = np.random.default_rng(0).uniform(-1, 1, (3_000, 2)).astype(np.float32)
    assert np.array_equal(
        resample(np.asfortranarray(signal), 24_000, 16_000), resample(signal, 24_000, 16_000)
    )
    assert np.array_equal(
        resample(signal[::2], 24_000, 16_000), resample(signal[::2].copy(), 24_000, 16_000)
    )


def test_equal_rates_give_a_copy() -> None:
    signal = np.array([0.25, -1.5, 1e-9], dtype=np.float32)
    out = resample(signal, 16_000, 16_000)
    assert np.array_equal(out, signal)
    assert not np.shares_memory(out, signal)
    stream = StreamResampler(16_000, 16_000)
    piece = stream.push(signal)
    assert np.array_equal(piece, signal)
    assert not np.shares_memory(piece, signal)
    assert stream.held_n == 0
    assert stream.flush().shape == (0,)


def test_float64_is_taken_and_the_input_left_alone() -> None:
    signal = np.linspace(-1, 1, 100)
    before = signal.copy()
    out = resample(signal, 8_000, 16_000)  # type: ignore[arg-type]
    assert out.dtype == np.float32
    assert np.array_equal(signal, before)


@pytest.mark.parametrize(
    ("from_hz", "to_hz", "quality", "held_ms"),
    [
        (24_000, 16_000, "VHQ", 77),
        (16_000, 24_000, "VHQ", 77),
        (8_000, 16_000, "VHQ", 112),
        (24_000, 16_000, "HQ", 37),
        (44_100, 16_000, "HQ", 41),
    ],
)
def test_a_live_stream_holds_back_no_more_than_documented(
    from_hz: int, to_hz: int, quality: Quality, held_ms: float
) -> None:
    stream = StreamResampler(from_hz, to_hz, quality=quality)
    frame = np.zeros(from_hz // 50, dtype=np.float32)
    worst_n = 0
    for _ in range(300):
        stream.push(frame)
        worst_n = max(worst_n, stream.held_n)
    assert 0 < worst_n <= held_ms * from_hz / 1000


@pytest.mark.parametrize(
    "rate_hz", [0, -8_000, 999, 768_001, 16_000.0, "16000", True, None, float("nan")]
)
def test_bad_rates_are_refused(rate_hz: int) -> None:
    signal = np.zeros(10, dtype=np.float32)
    with pytest.raises(InputError, match="from_hz as a whole number"):
        resample(signal, rate_hz, 16_000)
    with pytest.raises(InputError, match="to_hz as a whole number"):
        StreamResampler(16_000, rate_hz)


@pytest.mark.parametrize("channels", [0, -1, 1_025, 1.0, True])
def test_bad_channel_counts_are_refused(channels: int) -> None:
    with pytest.raises(InputError, match="expected 1 to 1024 channels"):
        StreamResampler(8_000, 16_000, channels)


def test_bad_quality_is_refused() -> None:
    with pytest.raises(InputError, match="expected quality VHQ or HQ, got 'best'"):
        resample(np.zeros(3, dtype=np.float32), 8_000, 16_000, quality="best")  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("to_hz", [8_000, 16_000])
def test_non_finite_is_refused_with_its_place_in_the_stream(bad: float, to_hz: int) -> None:
    stream = StreamResampler(8_000, to_hz, 2)
    stream.push(np.zeros((100, 2), dtype=np.float32))
    signal = np.zeros((50, 2), dtype=np.float32)
    signal[7, 1] = bad
    with pytest.raises(InputError, match=r"expected finite samples, got .* at sample 107"):
        stream.push(signal)


@pytest.mark.parametrize("shape", [(), (2, 2, 2), (4, 0)])
def test_wrong_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="expected"):
        resample(np.zeros(shape, dtype=np.float32), 8_000, 16_000)


def test_a_stream_keeps_to_its_shape() -> None:
    with pytest.raises(InputError, match=r"shape \(frames,\), got \(5, 1\)"):
        StreamResampler(8_000, 16_000).push(np.zeros((5, 1), dtype=np.float32))
    with pytest.raises(InputError, match=r"shape \(frames, 2\), got \(5,\)"):
        StreamResampler(8_000, 16_000, 2).push(np.zeros(5, dtype=np.float32))


def test_integers_are_refused() -> None:
    with pytest.raises(InputError, match="float32 or float64 samples, got int16"):
        resample(np.zeros(5, dtype=np.int16), 8_000, 16_000)  # type: ignore[arg-type]


def test_a_float64_beyond_float32_is_refused() -> None:
    with pytest.raises(InputError, match="finite samples, got inf at sample 1"):
        resample(np.array([0.0, 1e300]), 8_000, 16_000)  # type: ignore[arg-type]


@pytest.mark.parametrize("to_hz", [8_000, 16_000])
def test_a_flushed_stream_is_over(to_hz: int) -> None:
    stream = StreamResampler(8_000, to_hz)
    stream.push(np.ones(100, dtype=np.float32))
    stream.flush()
    with pytest.raises(InputError, match="push after flush"):
        stream.push(np.ones(1, dtype=np.float32))
    with pytest.raises(InputError, match="one flush a stream"):
        stream.flush()


def test_extreme_ratios_work() -> None:
    signal = np.ones(2_000, dtype=np.float32)
    assert len(resample(signal, 1_000, 768_000)) == 2_000 * 768
    assert len(resample(signal, 768_000, 1_000)) == 3
