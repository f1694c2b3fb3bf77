"""The child's side of `speech_process`: one engine, served over standard input and output.

Only the standard library is imported here, so that a child loads nothing but what it speaks with.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any, TextIO

Speak = Callable[[dict[str, Any]], tuple[bytes, int]]
"""Speaks one request; gives float32 samples, little endian, mono, and their rate in Hz."""

_NETWORK = frozenset({"socket.connect", "socket.getaddrinfo", "socket.gethostbyname",
                      "socket.sendto"})


class RefusedError(Exception):
    """What was asked for cannot be had: a setting, a file, a voice. The user must change it."""


def forbid_network() -> None:
    """Let no Python code of this process reach a network: some packages fetch what they miss."""

    def refuse(event: str, _: tuple[Any, ...]) -> None:
        if event in _NETWORK:
            raise OSError("speech engines on this machine use no network")

    sys.addaudithook(refuse)


def serve(load: Callable[[dict[str, Any]], Speak]) -> None:
    """Answer requests, one JSON line each, until standard input ends.

    The first line is the setup, given to `load`. Every answer is a JSON line: `{"ready": true}`,
    `{"rate_hz", "frames"}` followed by that many samples, or `{"error", "kind"}` with the kind
    `input` or `synthesis`. What packages print goes to standard error.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    forbid_network()
    requests: TextIO = sys.stdin

    def answer(head: dict[str, Any], body: bytes = b"") -> None:
        answers.write(json.dumps(head).encode() + b"\n" + body)
        answers.flush()

    try:
        speak = load(json.loads(requests.readline()))
    except Exception as error:  # noqa: BLE001  whatever a package raises is the answer
        answer(_refusal(error))
        return
    answer({"ready": True})
    for line in requests:
        try:
            body, rate_hz = speak(json.loads(line))
        except Exception as error:  # noqa: BLE001
            answer(_refusal(error))
        else:
            answer({"rate_hz": rate_hz, "frames": len(body) // 4}, body)


def _refusal(error: Exception) -> dict[str, Any]:
    kind = "input" if isinstance(error, RefusedError) else "synthesis"
    text = " ".join(str(error).split())[:300]
    return {"kind": kind, "error": text if kind == "input" else f"{type(error).__name__}: {text}"}
