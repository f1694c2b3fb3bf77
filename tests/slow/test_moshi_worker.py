"""Moshi through its real package, with small random weights, behind the worker protocol."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import rig_testkit as kit

from audio.files import read as read_audio

PYTHON = os.environ.get("DUPLEXRIG_MOSHI_PYTHON", "")
TOOLS = Path(__file__).parents[1] / "tools"
# Else the tool that writes the weights would compile.
PLAIN = {**os.environ, "NO_TORCH_COMPILE": "1", "NO_CUDA_GRAPH": "1"}

pytestmark = [pytest.mark.peer, pytest.mark.skipif(
    not PYTHON, reason="DUPLEXRIG_MOSHI_PYTHON names no Python that has moshi; make test-peers")]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("moshi") / "tiny"
    subprocess.run([PYTHON, TOOLS / "tiny_moshi.py", folder], check=True, env=PLAIN)
    return folder


def moshi(weights: Path, device: str = "cpu") -> tuple[str, ...]:
    return ("--adapter", "moshi", "--set", f"python={PYTHON}", "--set", f"weights={weights}",
            "--set", f"device={device}")


def test_a_session_is_what_the_package_says_to_the_same_audio(
        call_rig: Callable[..., object], tiny_suite: Path, tmp_path: Path, weights: Path) -> None:
    """Sample for sample (but for PCM16), one frame later; fresh for each of three sessions."""
    assert call_rig("run", tiny_suite, *moshi(weights), "--out", tmp_path / "run").code == 0
    cases = kit.done(tmp_path / "run")
    assert len(cases) == 3
    for case_id in cases:
        audio, _ = read_audio(tmp_path / "run" / "rec" / f"{case_id}.t1.stereo.wav")
        record = json.loads((tmp_path / "run" / "rec" / f"{case_id}.t1.rec.json").read_text())
        frames = len(audio) // 1920 - 1
        audio[: frames * 1920, 0].astype("<f4").tofile(tmp_path / "in.f32")
        subprocess.run([PYTHON, TOOLS / "moshi_reference.py", weights, tmp_path / "in.f32",
                        tmp_path / "out.f32", str(record["seed"])], check=True, env=PLAIN)
        expected = np.fromfile(tmp_path / "out.f32", "<f4").clip(-1, 1)
        heard = audio[1920:, 1][: len(expected)]
        assert np.abs(expected).max() > 0.01
        np.testing.assert_allclose(heard, expected[: len(heard)], atol=2 / 32768)
        text = "".join(e["text"] for e in record["events"] if e["kind"] == "text")
        assert text
        assert "\u2581" not in text
        hello = next(json.loads(e["detail"]) for e in record["events"]
                     if e["kind"] == "state" and e["name"] == "worker_hello")
        assert (hello["settings"]["temp"], hello["settings"]["temp_text"]) == (0.8, 0.7)
        assert hello["settings"]["weights"] == str(weights)
        assert re.fullmatch("[0-9a-f]{16}", hello["settings"]["weights_sha256"])


def test_what_it_lacks_is_said_and_not_tried_again(
        call_rig: Callable[..., object], tiny_suite: Path, tmp_path: Path, weights: Path) -> None:
    for system, says in (
        (moshi(weights, "cuda"), "no CUDA device is seen"),
        (moshi(tmp_path), "expected a folder with the config.json of a Moshi"),
    ):
        out = tmp_path / says[:8]
        called = call_rig("run", tiny_suite, *system, "--out", out)
        assert called.code == 3
        (line, *others) = kit.ledger(out)
        assert says in line["reason"]
        assert not others
