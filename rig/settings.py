"""Settings from the command line: `key=value` pairs, scoring thresholds, VAD settings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from audio.errors import InputError
from audio.suggest import did_you_mean
from audio.vad import CORRECTIONS, VadSettings
from rig.cores import default_jobs as default_jobs
from verifiers.thresholds import Thresholds


def load_average() -> float | None:
    """Processes that wanted to run in the last minute, on average; `None` where it is not known."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def key_values(pairs: Sequence[str], option: str) -> dict[str, str]:
    """`["a=1", "b=2"]` to a dict; a pair without `=` or a repeated key is an error."""
    out: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InputError.expected("KEY=VALUE", got=repr(pair), where=option)
        if key in out:
            raise InputError(f"{option}: {key} is given twice")
        out[key] = value
    return out


VAD_NAMES = {
    "vad_threshold": "threshold", "vad_min_speech_ms": "min_speech_ms",
    "vad_min_silence_ms": "min_silence_ms", "vad_speech_pad_ms": "speech_pad_ms",
    "merge_gap_s": "merge_gap_s",
}
"""Contract names of the detector's settings."""
THRESHOLD_NAMES = tuple(field.name for field in fields(Thresholds))


def scoring_settings(pairs: Sequence[str]) -> tuple[Thresholds, VadSettings]:
    """`--set` of the scoring commands: thresholds and detector settings by their contract names."""
    thresholds: dict[str, Any] = {}
    vad: dict[str, Any] = {}
    for name, text in key_values(pairs, "--set").items():
        if name in THRESHOLD_NAMES:
            thresholds[name] = _number(name, text, whole=name == "backchannel_max_spans")
        elif name in VAD_NAMES:
            vad[VAD_NAMES[name]] = _number(name, text, whole=False)
        elif name in CORRECTIONS:
            if text not in ("0", "1"):
                raise InputError.expected("0 (off) or 1 (on)", got=repr(text),
                                          where=f"--set {name}")
            vad[name] = text == "1"
        else:
            known = (*THRESHOLD_NAMES, *VAD_NAMES, *CORRECTIONS)
            raise InputError(f"--set {name}: expected one of {', '.join(known)}"
                             f"{did_you_mean(name, known)}")
    return Thresholds(**thresholds), VadSettings(**vad)


def detector_settings(pairs: Sequence[str]) -> VadSettings:
    """`--set` where only the detector is meant, and its edges as they are."""
    for name in key_values(pairs, "--set"):
        if name not in VAD_NAMES:
            raise InputError(f"--set {name}: expected one of {', '.join(VAD_NAMES)}"
                             f"{did_you_mean(name, VAD_NAMES)}")
    return scoring_settings(pairs)[1]


def _number(name: str, text: str, *, whole: bool) -> float | int:
    try:
        return int(text) if whole else float(text)
    except ValueError as error:
        kind = "a whole number" if whole else "a number"
        raise InputError.expected(kind, got=repr(text), where=f"--set {name}") from error
