"""What each condition does, against known answers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from adapters.simulated import voice
from audio.active_level import active_level, rms_dbov
from audio.buffers import PCM16_SCALE, Float32, float_to_pcm16
from audio.condition_text import parse, parse_all
from audio.conditions import Chain, Context, Noise, apply
from audio.errors import InputError
from audio.files import write_wav_pcm16
from audio.g711 import decode_pcm16, encode_pcm16
from audio.narrowband import BAND_SHIFT_MS, LineStream
from audio.noise import SPECTRAL_KINDS, at_unit_level, spectral_loop
from audio.packets import GilbertElliott, PacketStream
from audio.resample import resample

CASE = "R1-C1-1-L2"


def speech(rate_hz: int = 24_000, seconds: float = 6.0) -> Float32:
    return resample(voice.talk(seconds).samples, 24_000, rate_hz)


def context(samples: Float32, rate_hz: int = 24_000, **more: Any) -> Context:
    level = active_level(samples, rate_hz)
    values: dict[str, Any] = {"case_id": CASE, "trial": 1, **more}
    return Context(rate_hz, speech_dbov=None if level is None else level.level_dbov, **values)


def whole(text: str, samples: Float32, rate_hz: int = 24_000, **more: Any) -> Float32:
    out, _ = apply(parse_all([text]), samples, context(samples, rate_hz, **more))
    assert out.shape == samples.shape
    return out


def shift_n(a: Float32, b: Float32, most_n: int = 2_000) -> int:
    """By how many samples `b` comes after `a`: the peak of their cross-correlation."""
    size = 1 << (len(a) + len(b)).bit_length()
    found = np.fft.irfft(np.fft.rfft(b, size) * np.conj(np.fft.rfft(a, size)), size)
    near = np.concatenate((found[-most_n:], found[: most_n + 1]))
    return int(np.argmax(near)) - most_n


# --- level and noise -----------------------------------------------------------------------------


def test_level_is_the_active_level_afterwards() -> None:
    samples = np.concatenate((speech(), np.zeros(48_000, dtype=np.float32), speech(seconds=2)))
    for dbov in (-40, -26, -20.5):
        found = active_level(whole(f"level={dbov}", samples), 24_000)
        assert found is not None
        assert found.level_dbov == pytest.approx(dbov, abs=0.01)


@pytest.mark.parametrize("kind", [*SPECTRAL_KINDS, "babble"])
@pytest.mark.parametrize("rate_hz", [8_000, 24_000])
def test_the_snr_is_the_one_asked_for(kind: str, rate_hz: int) -> None:
    """Measured on what comes out, not on what was meant: also over part of a loop."""
    samples = np.concatenate((speech(rate_hz, 9.0), np.zeros(5 * rate_hz, dtype=np.float32)))
    given = active_level(samples, rate_hz)
    assert given is not None
    voices = [at_unit_level(speech(rate_hz, s), rate_hz) for s in (2.0, 3.0, 5.0)]
    for snr_db in (-5, 15, 40):
        noise = whole(f"noise={kind}:{snr_db}", samples, rate_hz,
                      voices=lambda: voices) - samples
        power = rms_dbov(noise)
        assert power is not None
        assert given.level_dbov - power == pytest.approx(snr_db, abs=0.1)


def test_a_whole_loop_of_babble_has_exactly_its_level() -> None:
    samples = np.concatenate((speech(8_000, 5.0), np.zeros(15 * 8_000, dtype=np.float32)))
    given = active_level(samples, 8_000)
    noise = whole("noise=babble:10", samples, 8_000, voices=lambda: [speech(8_000, 3.0)]) - samples
    power = rms_dbov(noise)
    assert given is not None
    assert power is not None
    assert given.level_dbov - power == pytest.approx(10, abs=0.01)


def test_level_comes_before_noise() -> None:
    samples = speech(seconds=4.0)
    out, chain = apply(parse_all(["noise=white:20", "level=-40"]), samples, context(samples))
    found = chain.achieved()
    assert found["speech_dbov"] == -40
    assert found["noise_dbov"] == pytest.approx(-60, abs=0.1)
    assert found["snr_db"] == pytest.approx(20, abs=0.1)
    assert rms_dbov(out) is not None


@pytest.mark.parametrize(("kind", "slope_db"), [("white", 0.0), ("pink", -3.01), ("car", -6.02)])
def test_the_slope_of_a_spectrum_an_octave(kind: Any, slope_db: float) -> None:
    loop = spectral_loop(kind, 24_000, 3)
    power = np.abs(np.fft.rfft(loop)) ** 2
    hz = np.fft.rfftfreq(len(loop), 1 / 24_000)

    def octave(low: float) -> float:
        return float(10 * np.log10(power[(hz >= low) & (hz < 2 * low)].mean()))

    for low in (125, 500, 2_000):
        assert octave(2 * low) - octave(low) == pytest.approx(slope_db, abs=0.02)
    assert rms_dbov(loop) == pytest.approx(0.0, abs=1e-3)


def test_hum_is_its_harmonics() -> None:
    for kind, first in (("hum50", 50), ("hum60", 60)):
        loop = spectral_loop(kind, 8_000, 3)  # type: ignore[arg-type]
        power = np.abs(np.fft.rfft(loop)) ** 2
        strongest = np.sort(np.argsort(power)[-7:])
        assert list(strongest / 20) == [first * h for h in range(1, 8)]


def test_a_file_of_noise(tmp_path: Path) -> None:
    path = tmp_path / "a:b,c.wav"
    rng = np.random.default_rng(1)
    write_wav_pcm16(path, rng.uniform(-0.1, 0.1, 3 * 16_000).astype(np.float32), 16_000)
    samples = speech(seconds=9.0)
    out, chain = apply(parse_all([f"noise=file:{path}:12,line=linear"]), samples,
                       context(samples))
    assert chain.achieved()["snr_db"] == pytest.approx(12, abs=0.1)
    condition = parse(f"noise=file:{path}:12:seed=4")
    assert condition.facts() == {"kind": "noise", "noise": "file", "snr_db": 12.0, "seed": 4,
                                 "file": "a:b,c.wav", "sha256": condition.facts()["sha256"]}
    assert len(str(condition.facts()["sha256"])) == 64
    assert len(out) == len(samples)
    write_wav_pcm16(path, rng.uniform(-0.1, 0.1, 3 * 16_000).astype(np.float32), 16_000)
    with pytest.raises(InputError, match="planned with, got other bytes"):
        Chain([condition], context(samples))


@pytest.mark.parametrize(("seconds", "level", "why"), [
    (0.5, 0.1, "recording of 1 to 600 s, got 0.5 s"), (2.0, 0.0, "got silence"),
    (2.0, 0.3, "n.wav: expected a recording with sound in channel 0, got silence")])
def test_a_file_that_is_no_noise(tmp_path: Path, seconds: float, level: float, why: str) -> None:
    path = tmp_path / "n.wav"
    write_wav_pcm16(path, np.full(round(8_000 * seconds), level, dtype=np.float32), 8_000)
    with pytest.raises(InputError, match=why):
        parse(f"noise=file:{path}:12")


def test_noise_that_the_system_cannot_hear_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "whistle.wav"
    whistle = 0.3 * np.sin(2 * np.pi * 7_000 * np.arange(32_000) / 16_000) + 0.2
    write_wav_pcm16(path, whistle.astype(np.float32), 16_000)
    condition = parse(f"noise=file:{path}:12")
    with pytest.raises(InputError, match=r"whistle.wav: expected .* sound below 4000 Hz"):
        Chain([condition], context(speech(8_000), 8_000))
    # At a rate that has it, the offset of the recording is no part of it: no click at the seam.
    quiet = speech(24_000)
    added = whole(f"noise=file:{path}:12", quiet) - quiet
    assert np.abs(added).max() < 1.6 * np.sqrt(np.square(added).mean())


def test_spellings_of_a_value_are_one_condition() -> None:
    for texts in (["noise=white:0", "noise=white:-0", "noise=white:snr_db=+0.00dB"],
                  ["echo=120:-0", "echo=120.0ms:0dB"], ["loss=3:seed=7", "loss=3%:seed=07.0"]):
        made = [parse(text) for text in texts]
        assert len({c.text for c in made}) == len({repr(c.facts()) for c in made}) == 1
        assert len({c.seed_of(context(speech(seconds=1.0))) for c in made}) == 1
    assert Noise("white", 15).seed_of(context(speech(seconds=1.0))) == \
        Noise("white", 15.0).seed_of(context(speech(seconds=1.0)))


def test_randomness_is_of_case_trial_and_condition_alone() -> None:
    samples = speech(seconds=2.0)
    texts = ("noise=white:20", "loss=30", "jitter=20:20", "silence=dither")
    for text in texts:
        first = whole(text, samples)
        assert np.array_equal(whole(text, samples), first)
        for other in ({"case_id": "R1-C1-2-L2"}, {"trial": 2}):
            assert not np.array_equal(whole(text, samples, **other), first)
        assert not np.array_equal(whole(f"{text}:seed=1", samples), first)
    # Another condition beside it changes nothing of the pattern.
    lost = whole("loss=30", samples) == 0
    assert np.array_equal(whole("loss=30,level=-30", samples) == 0, lost)


# --- the line ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 24_000, 48_000])
@pytest.mark.parametrize("codec", ["ulaw", "alaw", "linear"])
def test_the_line_moves_speech_by_less_than_a_sample(rate_hz: int, codec: str) -> None:
    samples = speech(rate_hz)
    out = whole(f"line={codec}", samples, rate_hz)
    assert shift_n(samples, out) == 0
    # The first sound stays in its place too.
    onset, heard = (int(np.argmax(np.abs(x) > 0.05 * np.abs(samples).max()))
                    for x in (samples, out))
    assert abs(heard - onset) / rate_hz < 1e-3


@pytest.mark.parametrize("rate_hz", [8_000, 24_000])
def test_the_band_shifts_the_envelope_by_no_more_than_declared(rate_hz: int) -> None:
    samples = speech(rate_hz)
    out = whole("line=linear:300-3400", samples, rate_hz)
    smooth = np.ones(rate_hz // 100) / (rate_hz // 100)
    a, b = (np.convolve(np.abs(x), smooth) for x in (samples, out))
    moved = shift_n((a - a.mean()).astype(np.float32), (b - b.mean()).astype(np.float32))
    assert 0 <= moved / rate_hz * 1000 <= BAND_SHIFT_MS


def gain_db(text: str, hz: float, rate_hz: int) -> float:
    n = rate_hz
    tone = (0.1 * np.sin(2 * np.pi * hz * np.arange(2 * n) / rate_hz)).astype(np.float32)
    out, _ = apply(parse_all([text]), tone, context(tone, rate_hz))
    ratio = np.sqrt(np.mean(out[n // 2 : -n // 2] ** 2) / np.mean(tone[n // 2 : -n // 2] ** 2))
    return 20 * math.log10(max(float(ratio), 1e-9))


def test_the_pass_bands() -> None:
    for hz in (100, 1_000, 3_300):
        assert gain_db("line=linear", hz, 24_000) == pytest.approx(0, abs=0.1)
    for hz in (310, 1_000, 3_350):
        assert gain_db("line=linear:300-3400", hz, 24_000) == pytest.approx(0, abs=0.5)
    for hz in (4_700, 6_000, 11_000):  # images included: whatever comes out counts
        assert gain_db("line=linear", hz, 24_000) < -45
    assert gain_db("line=linear:300-3400", 50, 24_000) < -23
    assert gain_db("line=linear:300-3400", 3_950, 8_000) < -25


def test_at_8_khz_the_line_is_g711_and_nothing_else() -> None:
    samples = speech(8_000)
    for codec, law in (("ulaw", "mu"), ("alaw", "a")):
        pcm = float_to_pcm16(samples)
        expected = decode_pcm16(encode_pcm16(pcm, law), law)  # type: ignore[arg-type]
        assert np.array_equal(float_to_pcm16(whole(f"line={codec}", samples, 8_000)), expected)


def test_companding_costs_what_g711_costs() -> None:
    """About 37 dB of signal to distortion for speech-like levels (G.711, G.712)."""
    samples = whole("line=linear", speech())
    for codec in ("ulaw", "alaw"):
        error = whole(f"line={codec}", speech()) - samples
        ratio = 10 * np.log10(np.mean(samples**2) / np.mean(error**2))
        assert 33 < ratio < 45


def test_a_rate_that_is_no_multiple() -> None:
    with pytest.raises(InputError, match="multiple of 8000 Hz, got 22050 Hz"):
        LineStream(22_050, "ulaw")


# --- packets -------------------------------------------------------------------------------------


def pattern(text: str, packets: int = 60_000) -> np.ndarray[Any, Any]:
    """Which packets of a constant signal are missing from what comes out."""
    ones = np.full(packets * 160, 0.5, dtype=np.float32)
    out, _ = apply(parse_all([text]), ones, Context(8_000, CASE, 1, None))
    by_packet = out.reshape(-1, 160)
    assert np.array_equal(by_packet == 0, np.repeat(by_packet[:, :1] == 0, 160, axis=1))
    return np.asarray(by_packet[:, 0] == 0)


def runs_of(missing: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    change = np.flatnonzero(np.diff(np.concatenate(([False], missing, [False])).astype(np.int8)))
    return change[1::2] - change[::2]


def test_independent_losses() -> None:
    missing = pattern("loss=5")
    assert missing.mean() == pytest.approx(0.05, abs=0.004)
    # A run ends with probability 0.95: mean length 1 / 0.95.
    assert runs_of(missing).mean() == pytest.approx(1 / 0.95, abs=0.02)


def test_bursts_of_losses() -> None:
    missing = pattern("loss=5:burst=4")
    assert missing.mean() == pytest.approx(0.05, abs=0.008)
    assert runs_of(missing).mean() == pytest.approx(4, abs=0.3)


def test_all_four_parameters_of_gilbert_and_elliott() -> None:
    missing = pattern("loss=10:burst=8:good=1:bad=50")
    assert missing.mean() == pytest.approx(0.10, abs=0.012)
    # Autocovariance at lag h is (bad-good)^2 pi (1-pi) (1-p-q)^h.
    share = (0.10 - 0.01) / 0.49
    to_good = 1 / 8
    to_bad = to_good * share / (1 - share)
    x = missing - missing.mean()
    for lag in (1, 5):
        expected = 0.49**2 * share * (1 - share) * (1 - to_bad - to_good) ** lag
        assert float((x[lag:] * x[:-lag]).mean()) == pytest.approx(expected, rel=0.15)


def test_the_first_packet_is_like_any_other() -> None:
    lost = sum(GilbertElliott(np.random.default_rng(k), 0.05, 0.2, 0.0, 1.0)()
               for k in range(4_000))
    assert lost / 4_000 == pytest.approx(0.2, abs=0.02)


def test_a_jitter_buffer_throws_away_what_exponential_delays_exceed() -> None:
    for mean_ms, depth_ms in ((20, 60), (30, 30), (10, 0)):
        missing = pattern(f"jitter={mean_ms}:{depth_ms}")
        assert missing.mean() == pytest.approx(math.exp(-depth_ms / mean_ms), abs=0.006)


def test_what_is_there_is_untouched_and_in_place() -> None:
    samples = speech()
    out = whole("loss=20,jitter=20:40", samples)
    same = np.array([np.array_equal(a, b) for a, b in
                     zip(samples.reshape(-1, 480), out.reshape(-1, 480), strict=True)])
    assert 0.5 < same.mean() < 0.85
    assert not out.reshape(-1, 480)[~same].any()
    assert shift_n(samples, out) == 0


def test_repetition_fades_to_nothing_after_60_ms() -> None:
    answers = iter([False, True, True, True, True, False, True])
    stream = PacketStream(8_000, lambda: next(answers), "repeat")
    packet = np.linspace(0.1, 0.2, 160, dtype=np.float32)
    out = stream.push(np.concatenate((packet, np.ones(4 * 160, dtype=np.float32),
                                      -packet, np.ones(160, dtype=np.float32))))
    by = out.reshape(-1, 160)
    assert np.array_equal(by[0], packet)
    assert np.array_equal(by[1, :80], packet[:80])
    # 30 ms into the gap: 20 % less for each 10 ms after the first.
    assert by[2, 80] == pytest.approx(0.6 * packet[80], rel=1e-6)
    assert by[3, 159] == pytest.approx(0.0, abs=1e-3)
    assert not by[4].any()
    assert np.array_equal(by[5], -packet)
    assert by[6, 0] == -packet[0]
    assert (stream.packets_n, stream.missing_n) == (7, 5)


def test_nothing_was_there_before_the_first_packet() -> None:
    stream = PacketStream(8_000, lambda: True, "repeat")
    assert not stream.push(np.ones(500, dtype=np.float32)).any()


# --- echo, silence, order ------------------------------------------------------------------------


def test_echo_is_what_was_heard_that_long_ago() -> None:
    system = speech(8_000, 2.0)

    def heard(start_n: int, n: int) -> Float32:
        at = np.arange(start_n, start_n + n)
        inside = (at >= 0) & (at < len(system))
        return np.where(inside, system[np.clip(at, 0, len(system) - 1)], 0).astype(np.float32)

    nothing = np.zeros(3 * 8_000, dtype=np.float32)
    out = whole("echo=120ms:-6", nothing, 8_000, heard=heard)
    assert not out[:960].any()
    np.testing.assert_allclose(out[960 : 960 + len(system)], system * 10 ** (-6 / 20), rtol=1e-6)
    assert not out[960 + len(system) :].any()


def test_dither_never_leaves_silence_nor_more_than_one_step() -> None:
    nothing = np.zeros(240_000, dtype=np.float32)
    out = whole("silence=dither", nothing) * PCM16_SCALE
    assert np.abs(out).max() < 1.0
    # Two uniform numbers of width 1 LSB: variance 1/6 LSB^2.
    assert np.var(out) == pytest.approx(1 / 6, rel=0.02)
    assert set(np.unique(float_to_pcm16(out / np.float32(PCM16_SCALE)))) == {-1, 0, 1}
    assert not whole("silence=digital", nothing).any()


def test_the_floor_lies_under_what_was_lost_and_noise_does_not() -> None:
    nothing = np.full(24_000, 1e-4, dtype=np.float32)
    lost = whole("loss=50,noise=white:0", nothing).reshape(-1, 480)
    assert (lost == 0).all(axis=1).any()
    floored = whole("loss=50,noise=white:0,silence=dither", nothing).reshape(-1, 480)
    assert not (floored == 0).all(axis=1).any()


def test_noise_and_echo_go_through_the_line_and_packets_come_after_it() -> None:
    quiet = np.full(48_000, 1e-4, dtype=np.float32)
    high = (0.3 * np.sin(2 * np.pi * 6_000 * np.arange(48_000) / 24_000)).astype(np.float32)

    def heard(start_n: int, n: int) -> Float32:
        return high[np.arange(start_n, start_n + n) % len(high)]

    def above_4600(samples: Float32) -> float:
        spectrum = np.abs(np.fft.rfft(samples[4_800:])) ** 2
        return float(spectrum[len(spectrum) * 46 // 120 :].sum() / spectrum.sum())

    assert above_4600(whole("echo=40:0", quiet, heard=heard)) > 0.9
    assert above_4600(whole("echo=40:0,line=linear", quiet, heard=heard)) < 0.05
    assert above_4600(whole("noise=white:-20", quiet)) > 0.5
    assert above_4600(whole("noise=white:-20,line=linear", quiet)) < 1e-3
    lost = whole("loss=50,line=ulaw,noise=white:-20", quiet).reshape(-1, 480)
    gone = (lost == 0).all(axis=1)
    # Behind the line's filters a lost packet would have ragged edges.
    assert 0.3 < gone.mean() < 0.7
    assert (np.abs(lost[~gone][:, [0, -1]]) > 0).mean() > 0.9


def test_too_loud_is_clipped_and_counted() -> None:
    samples = speech(seconds=3.0)
    out, chain = apply(parse_all(["level=-10"]), samples, context(samples))
    assert np.abs(out).max() == 1.0
    assert chain.achieved()["clipped_n"] == int((np.abs(out) == 1.0).sum()) > 0


@pytest.mark.parametrize("coded", ["linear", "ulaw:300-3400"])
def test_what_a_line_clips_is_counted(coded: str) -> None:
    # A line at 8 kHz has no filter of its own before the coding without a band.
    samples = speech(8_000, seconds=3.0)
    _, bare = apply(parse_all(["level=-10"]), samples, context(samples, 8_000))
    out, chain = apply(parse_all([f"level=-10,line={coded}"]), samples, context(samples, 8_000))
    found = chain.achieved()
    assert found["clipped_n"] == 0
    if coded == "linear":
        assert found["line_clipped_n"] == bare.achieved()["clipped_n"]
        assert found["line_clipped_n"] == int((np.abs(out) > 0.99996).sum())
    assert isinstance(found["line_clipped_n"], int)
    assert found["line_clipped_n"] > 0
    _, soft = apply(parse_all([f"level=-40,line={coded}"]), samples, context(samples, 8_000))
    assert soft.achieved()["line_clipped_n"] == 0


def test_a_level_needs_speech() -> None:
    nothing = np.zeros(24_000, dtype=np.float32)
    for text in ("level=-26", "noise=white:10"):
        with pytest.raises(InputError, match="expected speech"):
            whole(text, nothing)


def test_babble_needs_voices() -> None:
    with pytest.raises(InputError, match="at least one voice, got none"):
        whole("noise=babble:10", speech())


# --- text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "why"), [
    ("nois=babble:15", "did you mean 'noise'"),
    ("noise=bable:15", "did you mean 'babble'"),
    ("noise=white", "got no snr_db"),
    ("noise=white:61", "snr_db as -20 to 60 dB"),
    ("noise=file:15", "noise=file:PATH:SNR_DB"),
    ("noise=file:/no/such.wav:15", "No such file"),
    ("line=ulaw:200-3400", "did you mean '300-3400'"),
    ("loss=3:brust=4", "did you mean 'burst'"),
    ("loss=3:burst=4:burst=5", "burst is given twice"),
    ("loss=3:good=1", "expected burst=PACKETS"),
    ("loss=3:burst=0.5", "at least 1 packet"),
    ("loss=60:burst=1", "bursts of at least 1.5 packets"),
    ("loss=3:burst=2:good=5", "a share lost between 5 % and 100 %"),
    ("loss=3:seed=1.5", "a whole number"),
    ("echo=39:-30", "delay_ms as 40 to 1000 ms"),
    ("echo=1s:-30", "delay_ms as a number"),
    ("level=nan", "dbov as a number"),
    ("level=1e999", "dbov as a number"),
    ("jitter=20:60:silence:0:9", "at most 4 values"),
    ("level", "for instance level=-26"),
    ("", "expected one of level="),
    ("level=-26,level=-20", "expected one level"),
    ("silence=digital,echo=100:-20", "cannot be kept with echo"),
])
def test_mistakes_are_one_line(text: str, why: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        parse_all([text])
    assert "\n" not in str(caught.value)


def test_lists_and_repetitions_are_the_same() -> None:
    together = parse_all(["line=ulaw, level=-26dB", "loss=3%"])
    assert together == parse_all(["loss=3", "level=-26", "line=ulaw"])
    assert [c.kind for c in together] == ["level", "line", "loss"]
    assert [c.text for c in together] == ["level=-26", "line=ulaw", "loss=3"]
