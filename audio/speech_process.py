"""A speech package in a process of its own: what is asked, what comes back, and for how long.

For packages under the GPL, which the rig does not load into itself, and for such as bring half of
PyTorch: the process loads its model once and speaks many texts. It reaches no network
(`audio.speech_serve`). What it answers is bounded and checked like a message from anywhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping
from typing import IO, Any

import numpy as np

from audio.buffers import Float32
from audio.errors import InputError, SynthesisError
from audio.key_names import without_keys

MAX_S = 120.0
"""Longest utterance that is taken: 600 characters are about 40 s of speech."""
MAX_RATE_HZ = 96_000
_MAX_LINE = 4096
_SAMPLE_BYTES = 4

_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1"}
"""One thread: the order of a sum decides its last bit, and several processes render at a time."""


class SpeechProcess:
    """One child, started at the first request and again after it has failed.

    Args:
        engine: its name in messages.
        module: the child's module, which calls `speech_serve.serve`.
        setup: JSON-ready, given to the child's `load`.
        start_s: seconds until the model must be loaded.
        answer_s: seconds for one utterance.
    """

    def __init__(
        self, engine: str, module: str, setup: Mapping[str, Any], *, start_s: float = 120.0,
        answer_s: float = 120.0,
    ) -> None:
        self._engine = engine
        self._module = module
        self._setup = dict(setup)
        self._start_s = start_s
        self._answer_s = answer_s
        self._child: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None

    def speak(self, request: Mapping[str, Any]) -> tuple[Float32, int]:
        """Samples `(n,)`, finite and at least one, and their rate in Hz.

        Raises:
            InputError: the child refused a setting, a file or a voice.
            SynthesisError: it failed, died, was too slow, or answered something else.
        """
        if self._child is None:
            self._start()
        head = self._ask(request, self._answer_s)
        rate_hz, frames = _whole(head.get("rate_hz")), _whole(head.get("frames"))
        if not 1_000 <= rate_hz <= MAX_RATE_HZ or not 0 <= frames <= MAX_S * rate_hz:
            self.close()
            raise SynthesisError(f"{self._engine}: expected up to {MAX_S:g} s of samples at up to "
                                 f"{MAX_RATE_HZ} Hz, got {str(head)[:80]}")
        body = self._read(frames * _SAMPLE_BYTES, self._answer_s)
        samples = np.frombuffer(body, "<f4").astype(np.float32)
        if not samples.size or not np.isfinite(samples).all():
            raise SynthesisError(f"{self._engine}: expected finite samples, got "
                                 f"{'NaN or infinity' if samples.size else 'none'}")
        return samples, rate_hz

    def close(self) -> None:
        """End the child, if there is one."""
        if self._child is not None:
            assert self._errors is not None
            _end(self._child, self._errors)
            self._child = None

    def _start(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed with the child
        # -P: a folder of the user's named `audio` is never imported instead of ours.
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", self._module], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self._errors, env=_environment())
        weakref.finalize(self, _end, self._child, self._errors)
        try:
            if self._ask(self._setup, self._start_s).get("ready") is not True:
                raise SynthesisError(f"{self._engine}: expected a process that is ready, got "
                                     "another answer")
        except BaseException:
            self.close()
            raise

    def _ask(self, message: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        child = self._child
        assert child is not None
        assert child.stdin is not None
        try:
            child.stdin.write(json.dumps(message).encode() + b"\n")
            child.stdin.flush()
        except OSError:
            raise self._died() from None
        line = self._within(limit_s, lambda stdout: stdout.readline(_MAX_LINE))
        if not line.endswith(b"\n"):
            raise self._died() if len(line) < _MAX_LINE else self._odd(line)
        try:
            head = json.loads(line)
        except (ValueError, RecursionError):
            raise self._odd(line) from None
        if not isinstance(head, dict):
            raise self._odd(line)
        if "error" in head:
            text = f"{self._engine}: {str(head['error'])[:300]}"
            raise (InputError if head.get("kind") == "input" else SynthesisError)(text)
        return head

    def _read(self, size: int, limit_s: float) -> bytes:
        body = self._within(limit_s, lambda stdout: stdout.read(size))
        if len(body) != size:
            raise self._died()
        return body

    def _within(self, limit_s: float, read: Any) -> bytes:
        """What `read` gives; the child is ended when that takes too long."""
        child = self._child
        assert child is not None
        late = threading.Event()

        def expire() -> None:
            late.set()
            child.kill()

        timer = threading.Timer(limit_s, expire)
        timer.daemon = True
        timer.start()
        try:
            data: bytes = read(child.stdout)
        finally:
            timer.cancel()
        if late.is_set():
            self.close()
            raise SynthesisError(f"{self._engine}: expected an answer within {limit_s:g} s, got "
                                 "none")
        return data

    def _died(self) -> SynthesisError:
        child, errors = self._child, self._errors
        assert child is not None
        assert errors is not None
        self._child = None
        code, said = _end(child, errors)
        last = said.strip().splitlines()[-1:]
        return SynthesisError(f"{self._engine}: its process ended with {code} "
                              f"({' '.join(last)[:200]})")

    def _odd(self, line: bytes) -> SynthesisError:
        self.close()
        return SynthesisError(f"{self._engine}: expected a JSON answer, got {line[:80]!r}")


def _environment() -> dict[str, str]:
    """Ours without keys: a package that speaks has no use for them."""
    return {**without_keys(os.environ), **_OFFLINE}


def _whole(value: object) -> int:
    """A whole number; -1 for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _end(child: subprocess.Popen[bytes], errors: IO[bytes]) -> tuple[int, str]:
    """Close the pipes, end the process, wait for it; its exit code and the end of what it said."""
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # what was not sent cannot be sent any more
                pipe.close()
    try:
        code = child.wait(1.0)
    except subprocess.TimeoutExpired:
        child.kill()
        code = child.wait()
    if errors.closed:
        return code, ""
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - _MAX_LINE))
    said = errors.read().decode(errors="replace")
    errors.close()
    return code, said
