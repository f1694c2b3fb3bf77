"""A private PulseAudio daemon with two virtual cables on one clock, and a witness to both.

The cables are channels of one null sink of four: what the rig plays is on the first, what the agent
plays on the third. Programs see the ends as ALSA devices; the witness records the sink itself, so
that it hears user and agent on one clock that is nobody's but the daemon's.
"""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import rig_testkit as kit

RATE_HZ = 48_000
SYSTEM_CONF = Path("/usr/share/alsa/alsa.conf")
_ENDS = {"user_line": "sink", "agent_line": "sink", "agent_mic": "source", "user_tap": "source",
         "agent_tap": "source", "rig_mic": "source"}
_SCRIPT = """\
load-module module-native-protocol-unix auth-anonymous=1
load-module module-null-sink sink_name=cables rate=48000 channels=4 \
channel_map=front-left,front-right,rear-left,rear-right
load-module module-remap-sink sink_name=user_line master=cables channels=1 channel_map=mono \
master_channel_map=front-left remix=no
load-module module-remap-sink sink_name=agent_line master=cables channels=1 channel_map=mono \
master_channel_map=rear-left remix=no
load-module module-remap-source source_name=agent_mic master=cables.monitor channels=1 \
channel_map=mono master_channel_map=front-left remix=no
load-module module-remap-source source_name=user_tap master=cables.monitor channels=1 \
channel_map=mono master_channel_map=front-left remix=no
load-module module-remap-source source_name=agent_tap master=cables.monitor channels=1 \
channel_map=mono master_channel_map=rear-left remix=no
load-module module-remap-source source_name=rig_mic master=cables.monitor channels=2 \
channel_map=front-left,front-right master_channel_map=rear-left,front-left remix=no
"""


def missing() -> str | None:
    """What these tests lack on this machine, or `None`."""
    for program in ("pulseaudio", "pactl", "parec"):
        if shutil.which(program) is None:
            return f"{program} is not there (Debian: pulseaudio, pulseaudio-utils)"
    if ctypes.util.find_library("portaudio") is None:
        return "PortAudio is not there (Debian: libportaudio2)"
    if not SYSTEM_CONF.exists():
        return f"{SYSTEM_CONF} is not there (Debian: libasound2-data)"
    if not list(Path("/usr/lib").glob("*/alsa-lib/libasound_module_pcm_pulse.so")):
        return "ALSA's way to PulseAudio is not there (Debian: libasound2-plugins)"
    return None


@dataclass
class Cables:
    """The daemon while it runs; `env` is what programs need to see its devices."""

    folder: Path
    env: dict[str, str]
    daemon: subprocess.Popen[bytes]

    def run(self, *arguments: object, limit_s: float = 120) -> subprocess.CompletedProcess[str]:
        """`rig ARGUMENTS` among these devices."""
        return subprocess.run([sys.executable, "-m", "rig.cli", *map(str, arguments)],
                              env=self.env, capture_output=True, text=True, timeout=limit_s,
                              stdin=subprocess.DEVNULL)

    @contextmanager
    def program(self, *arguments: object, stdout: object = subprocess.DEVNULL) -> Iterator[
            subprocess.Popen[bytes]]:
        """A program among these devices, ended with the block."""
        process = subprocess.Popen([*map(str, arguments)], env=self.env, stdout=stdout,
                                   stdin=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    @contextmanager
    def witness(self, name: str) -> Iterator[Path]:
        """Both cables, recorded while the block lasts: read it with `heard`."""
        path = self.folder / f"{name}.raw"
        with path.open("wb") as file, self.program(
                "parec", "-d", "cables.monitor", "--format=float32le", "--channels=4",
                "--channel-map=front-left,front-right,rear-left,rear-right", f"--rate={RATE_HZ}",
                "--raw", "--latency-msec=20", stdout=file):
            kit.wait_until(lambda: path.stat().st_size > 0, "the witness hears nothing")
            yield path


def heard(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """What the witness heard of user and agent, float32 at 48 kHz."""
    data = np.fromfile(path, dtype="<f4")
    frames = data[: len(data) // 4 * 4].reshape(-1, 4)
    return frames[:, 0].copy(), frames[:, 2].copy()


@contextmanager
def cables() -> Iterator[Cables]:
    """Start the daemon in folders of its own, and end it. Paths of sockets must be short."""
    with tempfile.TemporaryDirectory(prefix="rigpa") as name:
        folder = Path(name)
        (folder / "run").mkdir(mode=0o700)
        (folder / "home").mkdir()
        (folder / "cables.pa").write_text(_SCRIPT)
        (folder / "asound.conf").write_text(f"<{SYSTEM_CONF}>\n" + "".join(
            f"pcm.{end} {{ type pulse device {end} hint {{ show on description {end} }} }}\n"
            for end in _ENDS))
        env = {**os.environ, "XDG_RUNTIME_DIR": str(folder / "run"), "HOME": str(folder / "home"),
               "PULSE_RUNTIME_PATH": str(folder / "run" / "pulse"),
               "ALSA_CONFIG_PATH": str(folder / "asound.conf")}
        for variable in ("PULSE_SERVER", "DISPLAY", "DBUS_SESSION_BUS_ADDRESS"):
            env.pop(variable, None)
        with (folder / "log").open("wb") as log:
            daemon = subprocess.Popen(
                ["pulseaudio", "-n", "-F", str(folder / "cables.pa"), "--daemonize=no",
                 "--exit-idle-time=-1", "--use-pid-file=no", "--log-target=stderr"],
                env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            try:
                def there() -> bool:
                    assert daemon.poll() is None, (folder / "log").read_text()
                    done = subprocess.run(["pactl", "list", "short", "sources"], env=env,
                                          capture_output=True, text=True)
                    return "rig_mic" in done.stdout
                kit.wait_until(there, "the daemon does not answer")
                yield Cables(folder, env, daemon)
            finally:
                daemon.kill()
                daemon.wait()
