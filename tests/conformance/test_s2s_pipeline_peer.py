"""`rig run` against a real voice agent that others wrote: speech-to-speech with its real pipeline.

Nothing is scripted on its side but the model's words (tests/tools/s2s_pipeline.py). What comes out
is kept as it is: a reply that stalls or ends as `cancelled` is a result, too. Measured outcomes are
in docs/adapters/openai_realtime.md.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from model_endpoint import endpoint

pytestmark = [pytest.mark.peer, pytest.mark.slow]
SERVER = Path(__file__).parents[1] / "tools" / "s2s_pipeline.py"
PYTHON = os.environ.get("DUPLEXRIG_S2S_PYTHON", "")
CASES = ("R1-C1-1-L2", "R1-C2-1-L2", "R1-C3-1-L2")
"""TAKE_TURN, READBACK and YIELD."""
START_S = 120.0
ORDER = [f"input_audio_buffer.{kind}" for kind in ("speech_started", "speech_stopped", "committed")]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    with endpoint() as models:
        process = subprocess.Popen(
            [PYTHON, str(SERVER), str(tmp_path_factory.mktemp("s2s")),
             sysconfig.get_path("purelib"), str(port), models],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said: list[str] = []
        up = threading.Event()

        def listen() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                said.append(line)
                if "Uvicorn running" in line:
                    up.set()
            up.set()

        listener = threading.Thread(target=listen)
        listener.start()
        try:
            assert up.wait(START_S)
            assert process.poll() is None, "".join(said[-30:])
            yield f"ws://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            listener.join()
            assert process.stdout is not None
            process.stdout.close()


def rig(*words: str, where: Path) -> str:
    done = subprocess.run([sys.executable, "-m", "rig.cli", *words], cwd=where, text=True,
                          capture_output=True, env={**os.environ, "OPENAI_API_KEY": "none"})
    assert done.returncode in (0, 3), done.stderr
    return done.stdout


@pytest.mark.skipif(not PYTHON, reason="DUPLEXRIG_S2S_PYTHON names no Python that has "
                                       "speech-to-speech 1.1.0; make test-peers")
def test_a_run_against_a_real_pipeline_is_scored_for_what_it_was(
    server: str, tmp_path: Path
) -> None:
    rig("build", "dsb-ifeval", "--filter", f"case={'|'.join(CASES)}", "--out", "suite",
        where=tmp_path)
    rig("run", "suite", "--adapter", "openai_realtime", "--set", f"base_url={server}", "--jobs",
        "1", "--out", "run", where=tmp_path)
    rig("score", "run", where=tmp_path)
    scores = {c["case_id"]: c for c in json.loads(
        (tmp_path / "run" / "scores.json").read_text())["cases"]}
    records = {case: json.loads((tmp_path / "run" / "rec" / f"{case}.t1.rec.json").read_text())
               for case in CASES}
    for case in CASES:
        print(case, scores[case]["outcome"], scores[case]["reason"], replies(records[case]))
    # Everything was played, and what the server says of a turn came in its order.
    assert set(scores) == set(CASES)
    for record in records.values():
        names = [e["name"] for e in events(record, "state") if e["name"] in ORDER]
        assert names[:3] == ORDER
        assert [e for e in events(record, "fault") if e["severity"] == "infrastructure"] == []
        assert all(status in ("completed", "cancelled", "failed", "incomplete")
                   for status in replies(record))
    # A pass is one that the recording shows: the agent waits 0.5 s and more before it answers.
    c1 = scores["R1-C1-1-L2"]
    if c1["outcome"] == "pass":
        assert 0.5 < c1["measured"]["genuine_onset_s"] < 2.0


def events(record: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [e for e in record["events"] if e["kind"] == kind]


def replies(record: dict[str, Any]) -> list[str]:
    """How each response ended, in the server's words."""
    return [e["status"] for e in events(record, "response_done")]
