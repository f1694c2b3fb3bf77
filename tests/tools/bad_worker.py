"""A worker that misbehaves as it is told: `python bad_worker.py KIND [AT_FRAME [FOLDER]]`.

In the folder it leaves a file with its process's number as name and its devices as text, as soon as
it is loaded; one that hangs writes "hangs" there instead, and goes on where a file `mended` is.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "adapters" / "workers"))

import numpy as np
import worker_kit.serve
from worker_kit.protocol import Hello, Out, Ready, WorkerFault, encode
from worker_kit.serve import HopelessError, Model, serve

FRAME_N = 1920


class Bad(Model):
    def __init__(self, kind: str, at: int) -> None:
        self.kind, self.at, self.k = kind, at, 0
        if kind == "no_memory":
            raise HopelessError("the model needs 80 GB, this machine has 1")
        if kind == "bad_load":
            raise OSError("weights: no such file")
        if kind == "loads_by_file" and not (FOLDER / "loads").exists():
            raise OSError(28, "No space left on device")
        if kind == "exit_on_load":
            print(f"secret {os.environ.get('HF_TOKEN')} refused", file=sys.stderr, flush=True)
            os._exit(3)
        if kind == "hang_on_load":
            threading.Event().wait(600)
        if kind == "prints_first":
            self.raw(b"Downloading shards: 100%\n")
        if kind == "forks_on_load":
            self.fork_and_exit(3)
        if kind == "escapes":
            self.fork_and_exit(3, os.setsid)
        if kind == "stays":  # whatever it is told
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            threading.Thread(target=threading.Event().wait, args=(600,)).start()
        if kind == "orphan":
            worker_kit.serve.ORPHAN_S = 0.5
        self.note(os.environ.get("CUDA_VISIBLE_DEVICES", ""))

    def note(self, text: str) -> None:
        if FOLDER is not None:
            (FOLDER / str(os.getpid())).write_text(text)

    def fork_and_exit(self, code: int, first: Callable[[], object] = lambda: None) -> None:
        """Leave a child behind, which holds every pipe."""
        if os.fork() == 0:
            first()
            self.note("child")
            signal.alarm(60)  # nobody else may end it
            signal.pause()
        os._exit(code)

    def hello(self) -> Hello:
        keys = sorted(k for k, v in os.environ.items() if v.startswith(("hf_", "sk-")))
        token = os.environ[keys[0]] if keys else ""
        rate = 16_000 if self.kind == "other_rate" else 24_000
        name = {"long_name": "n" * 201, "no_name": "", "leaks": f"bad{token}"}.get(self.kind, "bad")
        return Hello(name, "1", rate, 24_000, FRAME_N * rate // 24_000, FRAME_N,
                     full_duplex=True, persona_prompt=False, transcript="stream",
                     settings=self.settings(token, keys))

    def settings(self, token: str, keys: list[str]) -> dict[str, object]:
        match self.kind:
            case "leaks":
                return {"token": token, "keys": keys}
            case "weights":  # what lies in the folder when it is started
                return {"weights_commit": (FOLDER / "commit").read_text()}
            case "moves" if FOLDER is not None:  # another one in each process
                return {"weights_commit": f"{len(list(FOLDER.iterdir()))}"}
        return {}

    def reset(self, system_prompt: str, seed: int) -> None:
        self.k = 0
        if self.kind == "outs_first":
            for k in range(100):
                self.raw(encode(Out(k, np.zeros(FRAME_N, np.float32))))
        if self.kind == "huge_number":
            self.raw(head(b"Y", b'{"session": 1' + b"0" * 400 + b"}"))
        if self.kind == "surrogate":
            self.raw(head(b"X", b'{"reason": "\\ud800"}'))
        if self.kind == "token":
            raise RuntimeError(f"401 for hub\nwith {os.environ['HF_TOKEN']}")
        if self.kind == "fails_prompt":
            raise ValueError("prompt too long")
        if self.kind == "hangs_prompt":
            threading.Event().wait(600)

    def raw(self, data: bytes) -> None:
        os.write(ANSWERS, data)

    def step(self, samples: np.ndarray) -> tuple[np.ndarray, str]:
        k, self.k = self.k, self.k + 1
        if self.kind == "leaks":
            return np.zeros(FRAME_N, np.float32), f" {self.hello().settings['token']}"
        said = np.zeros(FRAME_N, np.float32)
        if k != self.at and (self.kind != "slow" or k % self.at):
            return said, ""
        match self.kind:
            case "short":
                return said[:-1], ""
            case "long":
                return np.zeros(FRAME_N + 1, np.float32), ""
            case "empty":
                return said[:0], ""
            case "nan":
                said[7] = np.nan
            case "inf":
                said[7] = np.inf
            case "int16":
                return np.full(FRAME_N, 5, np.int16), ""
            case "pcm16":
                said[7] = 20_000.0
            case "raises":
                raise RuntimeError("CUDA out of memory")
            case "exits":
                os._exit(9)
            case "killed":
                os.kill(os.getpid(), 9)
            case "hangs" | "orphan" if FOLDER is None or not (FOLDER / "mended").exists():
                self.note("hangs")
                threading.Event().wait(600)
            case "dies_once" if not (FOLDER / "died").exists():
                (FOLDER / "died").touch()
                os._exit(9)
            case "half_stalls":
                self.raw(encode(Out(k, said))[:100])
                threading.Event().wait(600)
            case "forks":
                self.fork_and_exit(9)
            case "hello_again":
                self.raw(encode(self.hello()))
            case "long_text":
                self.raw(encode(Out(k, said, "a" * 20_001)))
            case "floods":
                for _ in range(1000):
                    os.write(2, b"x" * 65_535 + b"\n")
                os.write(2, b"the end\n")
                os._exit(1)
            case "twice":
                self.raw(encode(Out(k, said)))
            case "skips":
                self.raw(encode(Out(k + 1, said)))
            case "prints":
                self.raw(b"Loading checkpoint shards: 100%\n")
            case "huge":
                self.raw(struct.pack("<BI", ord("O"), 2**31))
            case "ready_again":
                self.raw(encode(Ready(1)))
            case "fault":
                self.raw(encode(WorkerFault("codebook overflow")))
            case "half":
                self.raw(encode(Out(k, said))[:100])
                os._exit(0)
            case "slow":
                threading.Event().wait(0.3)
            case "bad_text":
                data = bytearray(encode(Out(k, said, "ab")))
                data[21:23] = b"\xff\xfe"
                self.raw(bytes(data))
        return said, ""


def head(kind: bytes, payload: bytes) -> bytes:
    return struct.pack("<BI", kind[0], len(payload)) + payload


if __name__ == "__main__":
    ANSWERS = os.dup(1)
    kind, at = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    FOLDER = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    serve(lambda: Bad(kind, at))
