"""Line conditions in real time: the echo of what a peer in another process is heard to say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rig_testkit as kit

from adapters.known_peer.launch import started
from audio.files import read, read_channel
from rig.store import RunFolder

pytestmark = pytest.mark.slow


def test_the_echo_is_the_heard_track_later(call_rig: Any, tiny_suite: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with started() as url:
        call_rig("run", tiny_suite, "--adapter", "peer", "--set", f"url={url}", "--set",
                 "latency_s=0.4", "--jobs", 3, "--out", run, "--condition", "echo=100ms:-6")
    done = kit.done(run)
    if not done:
        pytest.skip("this machine is too busy to keep time")
    for case in done:
        record = RunFolder(run).read_record(case, 1)
        stereo, _ = read(run / "rec" / record.stereo.path)
        assert record.line is not None
        echo = read_channel(run / "rec" / record.line.sent.path, 0) - stereo[:, 0]
        expected = np.concatenate((np.zeros(2_400, dtype=np.float32),
                                   stereo[:-2_400, 1])) * 10 ** (-6 / 20)
        assert np.abs(expected).max() > 0.01
        # A chunk taken in more than 17 ms late would be missing; one LSB for each rounding.
        assert np.abs(echo - expected).max() < 3 / 32768
