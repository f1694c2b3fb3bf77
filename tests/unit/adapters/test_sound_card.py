"""The pure parts of the sound card adapter: rings, clock, chirps, devices, settings."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path

import numpy as np
import pytest
from fake_card import DEVICE, Plan, devices
from hypothesis import given
from hypothesis import strategies as st

from adapters.base import SessionConfig
from adapters.sound_card import devices as devices_module
from adapters.sound_card import stream
from adapters.sound_card.adapter import SOUND_CARD, SoundCardAdapter
from adapters.sound_card.bridge import (
    INPUT_OVERFLOW,
    LOG_CALLBACKS,
    OUTPUT_UNDERFLOW,
    Bridge,
    Callback,
    xrun_names,
)
from adapters.sound_card.calibrate import measure
from adapters.sound_card.card_clock import fit, reported_round_trip_ms
from adapters.sound_card.devices import choose
from adapters.sound_card.loopback import (
    calibration_text,
    chirp,
    find,
    read_calibration,
    summarise,
)
from adapters.sound_card.session import CardSession, Correction
from adapters.sound_card.stream import is_steady
from audio.errors import InfrastructureError, InputError
from rig.clock import SessionClock, loop_factory

RATE_HZ = 8_000


def block(bridge: Bridge, heard: np.ndarray) -> np.ndarray:
    """One callback: what the card takes while it gives `heard` `(n, channels)`."""
    out = np.full((len(heard), 2), 5.0, dtype=np.float32)
    bridge.exchange(heard, out, len(heard), 0.0, 0.0, 0.0, 0)
    return out


def silent(n: int) -> np.ndarray:
    return np.zeros((n, 2), dtype=np.float32)


@given(st.lists(st.integers(1, 700), min_size=1, max_size=60), st.integers(0, 300))
def test_what_is_played_leaves_at_its_sample_whatever_the_blocks(blocks: list[int],
                                                                 lead: int) -> None:
    bridge = Bridge(RATE_HZ, lambda: 0, output_column=1)
    said = np.arange(1, sum(blocks) + 1, dtype=np.float32)
    out = []
    for n in blocks:
        at = bridge.done_n
        assert bridge.play(at + lead, said[at:at + n]) == 0
        taken = block(bridge, silent(n))
        assert not taken[:, 0].any()
        out.append(taken[:, 1])
    whole = np.concatenate(out)
    expected = np.concatenate([np.zeros(lead, "f4"), said])[:len(whole)]
    assert np.array_equal(whole, expected)


@given(st.lists(st.integers(1, 900), min_size=1, max_size=40))
def test_what_comes_in_is_read_at_its_sample_or_not_at_all(blocks: list[int]) -> None:
    bridge = Bridge(RATE_HZ, lambda: 0, input_columns=(1, 0))
    at = 0
    for n in blocks:
        heard = np.stack([-np.arange(at, at + n), np.arange(at, at + n)], axis=1).astype("f4")
        block(bridge, heard)
        at += n
    oldest = bridge.oldest_n
    assert oldest == max(0, at - 2 * RATE_HZ)
    found = bridge.take(oldest, at)
    assert found is not None
    assert np.array_equal(found[:, 0], np.arange(oldest, at, dtype="f4"))
    assert np.array_equal(found[:, 1], -np.arange(oldest, at, dtype="f4"))
    assert bridge.take(at - 1, at + 1) is None
    assert oldest == 0 or bridge.take(oldest - 1, at) is None


def test_what_comes_too_late_is_left_out_and_the_rest_keeps_its_place() -> None:
    bridge = Bridge(RATE_HZ, lambda: 0)
    block(bridge, silent(100))
    assert bridge.play(40, np.full(100, 0.5, "f4")) == 60
    assert bridge.play(0, np.ones(50, "f4")) == 50
    out = block(bridge, silent(100))[:, 0]
    assert np.array_equal(out, np.r_[np.full(40, 0.5), np.zeros(60)].astype("f4"))
    for _ in range(2 * RATE_HZ // 100):  # nothing comes again a whole ring later
        assert not block(bridge, silent(100)).any()
    with pytest.raises(ValueError, match="more than 2 s ahead of the card"):
        bridge.play(bridge.done_n + 2 * RATE_HZ, np.ones(1, "f4"))


def test_the_log_is_bounded_and_xruns_have_names() -> None:
    bridge = Bridge(RATE_HZ, lambda: 7)
    for _ in range(LOG_CALLBACKS + 5):
        block(bridge, silent(1))
    assert len(bridge.log) == LOG_CALLBACKS
    assert bridge.log[-1].first_n == LOG_CALLBACKS + 4
    assert xrun_names(INPUT_OVERFLOW | OUTPUT_UNDERFLOW | 16) == "input overflow, output underflow"


def callbacks(n: int, *, drift_ppm: float = 0.0, late_ns: object = None, base_s: float = 1e9,
              flags: int = 0, frames: int = 480, rate_hz: int = 48_000) -> list[Callback]:
    rng = np.random.default_rng(3)
    late = rng.exponential(1e6, n) if late_ns is None else np.full(n, late_ns)
    late[n // 2] = 0
    found = []
    for k in range(n):
        t_s = k * frames / rate_hz * (1 + drift_ppm / 1e6)
        found.append(Callback(k * frames, frames, round(5e9 + t_s * 1e9 + late[k]),
                              base_s + t_s - 0.02, base_s + t_s + 0.03, base_s + t_s, flags))
    return found


@pytest.mark.parametrize("drift_ppm", [-120.0, 0.0, 85.0])
@pytest.mark.parametrize("base_s", [0.5, 1.8e9])
def test_the_cards_clock_is_found_whatever_its_zero(drift_ppm: float, base_s: float) -> None:
    log = callbacks(600, drift_ppm=drift_ppm, base_s=base_s)
    adc, dac = fit(log, 48_000, "adc"), fit(log, 48_000, "dac")
    assert adc is not None
    assert dac is not None
    assert adc.source == dac.source == "card"
    assert adc.drift_ppm == pytest.approx(drift_ppm, abs=1.0)
    assert adc.offset_ns == pytest.approx(5e9 - 20e6, abs=20_000)
    assert dac.offset_ns == pytest.approx(5e9 + 30e6, abs=20_000)
    assert reported_round_trip_ms(log) == pytest.approx(50.0, abs=0.01)


@pytest.mark.parametrize(("drift_ppm", "seconds", "ends"), [
    (88_435.0, 5.0, True), (88_435.0, 1.0, False), (-81_250.0, 2.5, True), (4_900.0, 20.0, False),
    (25_000.0, 5.0, False), (35_000.0, 5.0, True)])
def test_a_card_of_another_rate_is_found_by_what_it_gains(drift_ppm: float, seconds: float,
                                                          ends: bool) -> None:
    """44.1 kHz for 48, the other way round; bound: 150 ms."""
    log = callbacks(round(seconds * 100), drift_ppm=drift_ppm)
    session = CardSession(Bridge(48_000, lambda: 0), None, None, Correction(0, "calibration"),
                          lead_n=0, max_xruns=0, clean_from_n=0)
    session._judge_rate(log)
    assert (session._failure is not None) is ends
    if ends:
        expected = round(48_000 / (1 + drift_ppm / 1e6), -2)
        found = int(session._failure.split("exchanges ")[1].split(" ")[0])
        assert abs(found - expected) < 100


def test_times_that_no_card_can_have_are_not_used() -> None:
    log = [Callback(c.first_n, c.frames_n, c.rig_ns, 0.0, 0.0, 0.0, 0) for c in callbacks(300)]
    line = fit(log, 48_000, "adc")
    assert line is not None
    assert line.source == "callback"
    assert abs(line.drift_ppm) < 2_000
    assert fit(log[:7], 48_000, "adc") is None


def test_a_stream_is_steady_after_half_a_second_without_gap_or_xrun() -> None:
    log = callbacks(100, late_ns=0)
    now_ns = log[-1].rig_ns + 5_000_000
    assert is_steady(log, 48_000, now_ns)
    assert not is_steady(log[:-15], 48_000, now_ns)  # 150 ms without a callback
    assert not is_steady(log[-40:], 48_000, now_ns)  # not half a second yet
    assert not is_steady(log[:60] + log[72:], 48_000, now_ns)
    assert not is_steady([*log[:-1], callbacks(100, late_ns=0, flags=4)[-1]], 48_000, now_ns)
    assert not is_steady(log, 96_000, now_ns)
    assert not is_steady([], 48_000, now_ns)


@given(st.floats(2, 3_000), st.floats(-30, 0), st.integers(0, 99))
def test_a_chirp_is_found_where_it_is(at: float, level_db: float, seed: int) -> None:
    sent = chirp(48_000)
    track = np.zeros(6_000)
    # A fractional delay by the chirp's own spectrum.
    padded = np.concatenate([sent, np.zeros(len(track) - len(sent))])
    shift = np.exp(-2j * np.pi * np.fft.rfftfreq(len(padded)) * at)
    track = np.fft.irfft(np.fft.rfft(padded) * shift, len(padded)) * 10 ** (level_db / 20)
    track += np.random.default_rng(seed).normal(0, 0.003, len(track))
    found = find(track.astype("f4"), sent)
    assert found is not None
    assert abs(found.at_n - at) < 0.3
    assert found.level_db == pytest.approx(level_db, abs=1.0)


def test_no_chirp_is_found_in_noise_or_silence() -> None:
    sent = chirp(RATE_HZ)
    assert find(np.random.default_rng(1).normal(0, 0.1, 4_000).astype("f4"), sent) is None
    assert find(np.zeros(4_000, "f4"), sent) is None
    assert find(sent[:-1], sent) is None


def test_round_trips_are_summed_up_by_opening() -> None:
    found = summarise([[(50.0, -1.0), (50.2, -1.0)], [(53.0, -3.0)], [(51.0, -1.0)]])
    assert found.round_trip_ms == pytest.approx(51.0)
    assert found.p95_ms == 53.0
    assert found.within_ms == pytest.approx(0.2)
    assert found.between_ms == pytest.approx(2.9)
    assert found.repeatable
    assert not summarise([[(50.0, 0.0)], [(55.1, 0.0)]]).repeatable
    assert not summarise([[(50.0, 0.0), (55.1, 0.0)]]).repeatable


def test_a_calibration_is_written_and_read(tmp_path: Path) -> None:
    settings = SOUND_CARD.effective({})
    path = tmp_path / "card.json"
    path.write_text(calibration_text(summarise([[(51.5, 0.0)]]), settings))
    adapter = SoundCardAdapter(SOUND_CARD.effective({"calibration": str(path)}))
    assert adapter.settings["round_trip_ms"] == 51.5
    assert adapter.capabilities.heard_behind_ms == round(20 + 40 + 20 + 40 + 51.5)
    with pytest.raises(InputError, match=r"card.json: expected a calibration made with "
                                         r"block_ms=5.0, got 10.0"):
        SoundCardAdapter(SOUND_CARD.effective({"calibration": str(path), "block_ms": "5"}))
    with pytest.raises(InputError, match="either calibration or round_trip_ms"):
        SoundCardAdapter(SOUND_CARD.effective({"calibration": str(path), "round_trip_ms": "5"}))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema_version": 1}', "[" * 9_000,
                                  '{"schema_version": 1, "round_trip_ms": true}',
                                  '{"schema_version": 1, "round_trip_ms": 1e9}',
                                  '{"schema_version": 1, "round_trip_ms": NaN}', " " * 70_000])
def test_a_file_that_is_no_calibration_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"^--set calibration .*x\.json: expected"):
        read_calibration(str(path), SOUND_CARD.effective({}), where="--set calibration")
    with pytest.raises(InputError, match="FileNotFoundError"):
        read_calibration(str(tmp_path / "none"), SOUND_CARD.effective({}), where="there")


@pytest.mark.parametrize(("wanted", "direction", "name"), [
    ("", "input", "fake"), ("", "output", "fake"), ("1", "input", "fake two"),
    ("fake two", "input", "fake two"), ("TWO", "input", "fake two"), ("fake", "input", "fake"),
    ("oth", "output", "other")])
def test_a_device_is_chosen(wanted: str, direction: str, name: str) -> None:
    assert choose(devices(), wanted, direction).name == name  # type: ignore[arg-type]


@pytest.mark.parametrize(("wanted", "direction", "message"), [
    ("fak", "input", r"'fak' means 2 devices; expected one of: 0 'fake' \(test\), 1 'fake two'"),
    ("othr", "output", r"no output 'othr'; did you mean 'other'\?; there are: 0 'fake' \(test\)"),
    ("2", "input", r"no input '2'"), ("1", "output", r"no output '1'")])
def test_a_device_that_is_not_there_is_told(wanted: str, direction: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        choose(devices(), wanted, direction)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="none on this machine"):
        choose((), "", direction)  # type: ignore[arg-type]


@pytest.mark.parametrize(("settings", "message"), [
    ({"rate_hz": "44110"}, "--set rate_hz .*: expected a multiple of 50"),
    ({"reference_channel": "1"}, "expected another channel than input_channel")])
def test_settings_that_do_not_fit_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SoundCardAdapter(SOUND_CARD.effective(settings))


def test_channels_are_those_of_the_device() -> None:
    def asked(**settings: str) -> object:
        return SoundCardAdapter(SOUND_CARD.effective(settings), Plan().open, devices).asked()[0]

    assert asked(reference_channel="2").input_channels == 2  # type: ignore[attr-defined]
    for setting in ("input_channel", "output_channel", "reference_channel"):
        with pytest.raises(InputError, match=f"--set {setting} .*a channel from 1 to 2 of 'fake'"):
            asked(**{setting: "3"})


def test_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    devices_module.missing.cache_clear()
    monkeypatch.setattr(devices_module.ctypes.util, "find_library", lambda name: None)
    monkeypatch.setattr(devices_module.sys, "platform", "linux")
    assert "apt-get install libportaudio2" in (devices_module.missing() or "")
    devices_module.missing.cache_clear()
    monkeypatch.setattr(devices_module.importlib.util, "find_spec", lambda name: None)
    assert "pip install sounddevice" in (devices_module.missing() or "")
    devices_module.missing.cache_clear()


def test_two_sessions_on_one_card_are_refused_and_the_next_is_not() -> None:
    adapter = SoundCardAdapter(SOUND_CARD.effective({"round_trip_ms": "60"}), Plan().open, devices)

    async def run() -> None:
        def session() -> object:
            return adapter.session(SessionConfig("one", 1, "", 1), SessionClock())

        async with session() as first:  # type: ignore[attr-defined]
            with pytest.raises(InputError, match=r"--jobs: expected one session at a time .* got "
                                                 "one and one"):
                await session().__aenter__()  # type: ignore[attr-defined]
            with pytest.raises(ValueError, match=r"expected a frame of shape \(960,\)"):
                await first.send(np.zeros(480, "f4"))
        async with session():  # type: ignore[attr-defined]
            pass

    with asyncio.Runner(loop_factory=loop_factory("real")) as runner:
        runner.run(run())
    with (asyncio.Runner(loop_factory=loop_factory("virtual")) as runner,
          pytest.raises(InfrastructureError, match="expected --clock real")):
        runner.run(run())


def measured(plan: Plan) -> object:
    adapter = SoundCardAdapter(SOUND_CARD.effective({}), plan.open, devices)

    async def run() -> object:
        return await measure(adapter, SessionClock(), openings=2, chirps=2, level=0.3)

    with asyncio.Runner(loop_factory=loop_factory("real")) as runner:
        return runner.run(run())


def test_a_cards_round_trip_is_measured_to_the_sample() -> None:
    found = measured(Plan(round_trip_n=3_001))
    assert found.round_trip_ms == pytest.approx(3_001 / 48, abs=0.01)  # type: ignore[attr-defined]
    assert found.between_ms < 0.01  # type: ignore[attr-defined]
    assert json.loads(calibration_text(found, SOUND_CARD.effective({})))["chirps_n"] == 4  # type: ignore[arg-type]
    assert DEVICE.inputs_n == 2


def test_a_chirp_that_does_not_come_back_is_told() -> None:
    with pytest.raises(InfrastructureError, match="chirp 1 of opening 1 was not heard"):
        measured(Plan(round_trip_n=500_000))


class KeptCard:
    """The driver of a device that has vanished: it never comes back from closing it."""

    active = True
    never = threading.Event()

    def facts(self) -> dict[str, object]:
        return {}

    def close(self) -> None:
        self.never.wait()


def test_a_device_that_is_never_given_back_does_not_keep_the_rig_from_ending(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "is_steady", lambda *_: True)
    asked = stream.Asked(DEVICE, DEVICE, RATE_HZ, 2, 2, 0.1, 80)

    async def main() -> str:
        try:
            async with asyncio.timeout(0.2), stream.opened(
                    asked, (0,), 0, SessionClock(), 5.0, lambda *_: KeptCard()):
                pass
        except TimeoutError:
            return "given up"
        return "closed"

    said: list[str] = []
    # In a thread: the end of its loop is what must not wait.
    ending = threading.Thread(target=lambda: said.append(asyncio.run(main())), daemon=True)
    ending.start()
    ending.join(20)
    ended = not ending.is_alive()
    KeptCard.never.set()
    assert ended
    assert said == ["given up"]
