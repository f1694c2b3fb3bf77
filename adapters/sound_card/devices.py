"""Which sound devices there are, and which one is meant. PortAudio is loaded when first asked for.

sounddevice comes from the registry; on Linux it needs the system's PortAudio library beside it.
"""

from __future__ import annotations

import atexit
import ctypes.util
import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from audio.errors import InputError
from audio.suggest import did_you_mean

Direction = Literal["input", "output"]
HOW_TO_GET = ("PortAudio is not there; Debian and Ubuntu: apt-get install libportaudio2, macOS: "
              "brew install portaudio")


@dataclass(frozen=True, slots=True)
class Device:
    """One device as PortAudio lists it; `rate_hz` is its default."""

    index: int
    name: str
    host: str
    inputs_n: int
    outputs_n: int
    rate_hz: float
    is_default_input: bool = False
    is_default_output: bool = False

    def channels_n(self, direction: Direction) -> int:
        return self.inputs_n if direction == "input" else self.outputs_n


@functools.cache
def missing() -> str | None:
    """What the sound card adapter lacks here, in one line; loads no library."""
    if importlib.util.find_spec("sounddevice") is None:
        return "the package sounddevice is not installed; pip install sounddevice"
    if sys.platform == "linux" and ctypes.util.find_library("portaudio") is None:
        return HOW_TO_GET
    return None


def portaudio() -> Any:
    """The package sounddevice. Raises `InputError` where it or its library cannot be loaded."""
    try:
        sd = importlib.import_module("sounddevice")
    except ImportError:
        raise InputError("adapter sound_card: the package sounddevice is not installed; pip "
                         "install sounddevice") from None
    except OSError:
        raise InputError(f"adapter sound_card: {HOW_TO_GET}") from None
    # Streams are closed where they were opened. At the end of the process the package would close
    # again what a driver never gives back, and wait for it.
    handler: Callable[[], None] | None = getattr(sd, "_exit_handler", None)
    if handler is not None:
        atexit.unregister(handler)
    return sd


def listed() -> tuple[Device, ...]:
    """Every device of this machine, in PortAudio's order."""
    sd = portaudio()
    hosts = [str(host["name"]) for host in sd.query_hostapis()]
    default_in, default_out = sd.default.device
    return tuple(
        Device(int(d["index"]), str(d["name"]), hosts[d["hostapi"]],
               int(d["max_input_channels"]), int(d["max_output_channels"]),
               float(d["default_samplerate"]), d["index"] == _default(sd, "input", default_in),
               d["index"] == _default(sd, "output", default_out))
        for d in sd.query_devices())


def _default(sd: Any, direction: Direction, chosen: int) -> int:
    if chosen is not None and chosen >= 0:
        return int(chosen)
    host = sd.query_hostapis(0)
    return int(host[f"default_{direction}_device"])


def choose(devices: Sequence[Device], wanted: str, direction: Direction) -> Device:
    """The device that `wanted` means: nothing is the default, a whole number an index, else a
    name, or a part of one that no other device has.

    Raises `InputError` with what there is, and the nearest name.
    """
    where = f"--set {direction} (adapter sound_card)"
    able = [d for d in devices if d.channels_n(direction)]
    if not able:
        raise InputError.expected(f"a sound device with an {direction}", got="none on this machine",
                                  where=where)
    if not wanted:
        default = [d for d in able
                   if (d.is_default_input if direction == "input" else d.is_default_output)]
        return default[0] if default else able[0]
    if wanted.isdecimal():
        matches = [d for d in able if d.index == int(wanted)]
    else:
        matches = [d for d in able if d.name == wanted]
        if not matches:
            matches = [d for d in able if wanted.lower() in f"{d.name}, {d.host}".lower()]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise InputError(f"{where}: {wanted!r} means {len(matches)} devices; expected one of: "
                         f"{_names(matches)}")
    raise InputError(f"{where}: no {direction} {wanted!r}"
                     f"{did_you_mean(wanted, [d.name for d in able])}; there are: {_names(able)}")


def _names(devices: Sequence[Device]) -> str:
    shown = ", ".join(f"{d.index} {d.name!r} ({d.host})" for d in devices[:12])
    return shown + (f" and {len(devices) - 12} more" if len(devices) > 12 else "")


def check_channel(device: Device, direction: Direction, channel: int, setting: str) -> None:
    """Raises `InputError` unless the device has this channel, counted from 1."""
    has_n = device.channels_n(direction)
    if channel > has_n:
        raise InputError.expected(f"a channel from 1 to {has_n} of {device.name!r}",
                                  got=channel, where=f"--set {setting} (adapter sound_card)")
