"""Line conditions in real time: the echo of what a peer in another process is heard to say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stalls

from adapters.known_peer.launch import started
from audio.files import read, read_channel
from rig.record import SessionRecord
from rig.store import RunFolder

pytestmark = pytest.mark.slow


TAKEN_MS = 15.0
"""A chunk taken in more than 17 ms late is not in the echo yet: the rig says of each session how
late it was."""


def test_the_echo_is_the_heard_track_later(
        call_rig: Any, quick_suite: Path, tmp_path: Path) -> None:
    def play(k: int) -> tuple[Path, list[SessionRecord]]:
        run = tmp_path / str(k)
        with started() as url:
            call_rig("run", quick_suite, "--adapter", "peer", "--set", f"url={url}", "--set",
                     "latency_s=0.4", "--jobs", 3, "--out", run, "--condition", "echo=100ms:-6")
        return run, [RunFolder(run).read_record(case, 1) for case in stalls.done_or_busy(run)]

    def late(played: tuple[Path, list[SessionRecord]]) -> list[str]:
        said = [stalls.in_certificate(record.timing, TAKEN_MS) for record in played[1]]
        return [] if [] in said else [words[0] for words in said]

    run, records = stalls.undisturbed(play, late)
    for record in records:
        if stalls.in_certificate(record.timing, TAKEN_MS):
            continue
        stereo, _ = read(run / "rec" / record.stereo.path)
        assert record.line is not None
        echo = read_channel(run / "rec" / record.line.sent.path, 0) - stereo[:, 0]
        expected = np.concatenate((np.zeros(2_400, dtype=np.float32),
                                   stereo[:-2_400, 1])) * 10 ** (-6 / 20)
        assert np.abs(expected).max() > 0.01
        # One LSB for each rounding.
        assert np.abs(echo - expected).max() < 3 / 32768
