"""`rig conditions`: the list, and a demonstration that can be heard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audio.conditions import KINDS
from audio.files import probe, read_channel


def test_the_list_names_every_condition_and_an_example(call_rig: Any) -> None:
    shown = call_rig("conditions").out
    for kind in KINDS.values():
        assert f"{kind.kind}=" in shown
        assert f"--condition {kind.example}" in shown
    assert call_rig("run", "--condition", "help").out == shown
    listed = json.loads(call_rig("conditions", "--json").out)["conditions"]
    assert [entry["name"] for entry in listed] == list(KINDS)


def test_a_demonstration(tiny_suite: Path, tmp_path: Path, call_rig: Any) -> None:
    out = tmp_path / "demo.wav"
    call = ("conditions", "--demo", out, "--suite", tiny_suite, "--json")
    assert call_rig(*call).code == 0
    clean = read_channel(out, 0)
    assert (clean == 0).mean() > 0.3
    found = json.loads(call_rig(*call, "--condition", "noise=babble:10,echo=120:-10").out)
    noisy = read_channel(out, 0)
    assert found["conditions"] == ["noise=babble:10", "echo=120:-10"]
    assert found["achieved"]["snr_db"] == pytest.approx(10, abs=0.1)
    assert noisy.shape == clean.shape
    assert (noisy == 0).mean() < 0.05
    assert probe(out).rate_hz == 24_000
    first = out.read_bytes()
    assert call_rig(*call, "--condition", "noise=babble:10,echo=120:-10").code == 0
    assert out.read_bytes() == first


def test_without_a_suite_the_default_voice_speaks(tmp_path: Path, call_rig: Any) -> None:
    out = tmp_path / "demo.wav"
    assert call_rig("conditions", "--demo", out, "--condition", "line=ulaw").code == 0
    spectrum = np.abs(np.fft.rfft(read_channel(out, 0))) ** 2
    above = spectrum[len(spectrum) * 4_600 // 12_000 :].sum()
    assert above / spectrum.sum() < 1e-4


@pytest.mark.parametrize(("arguments", "why"), [
    (("--condition", "line=ulaw"), "expected --demo OUT.wav"),
    (("--demo", "x.wav", "--case", "R1-A-1-L2"), "--suite DIR with --case"),
    (("--demo", "x.wav", "--condition", "loud=3"), "expected one of level="),
])
def test_mistakes(arguments: tuple[str, ...], why: str, call_rig: Any) -> None:
    assert why in call_rig("conditions", *arguments).error


def test_a_case_that_is_not_there(tiny_suite: Path, tmp_path: Path, call_rig: Any) -> None:
    error = call_rig("conditions", "--demo", tmp_path / "x.wav", "--suite", tiny_suite,
                     "--case", "R1-C1-1-L3").error
    assert "did you mean 'R1-C1-1-L2'" in error
    assert not (tmp_path / "x.wav").exists()
