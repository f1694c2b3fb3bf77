"""The agent's heavy work in a process of its own: recognition and synthesis, one request at a time.

    python -m adapters.cascade.brain_process

A process, because the recogniser holds the interpreter's lock for as long as it works (0.6 s at a
stretch for 4 s of speech, measured): a server in the same process would answer nobody meanwhile.

Request and answer are one line of JSON, followed by `"bytes"` bytes of PCM16 (24 kHz, mono, little
endian) where it names a number. First answer, unasked: `{"ready": true}`. The process ends with its
standard input.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, BinaryIO

import numpy as np

from adapters.cascade.recognition import Recogniser
from adapters.cascade.speech import Voice
from audio.errors import RigError
from audio.processes import give_way

MAX_BYTES = 16 * 1024 * 1024
"""Longest audio of a request: nearly 6 minutes, beyond the longest turn that the server keeps."""


NICE = 10
"""Where frames are due, frames go first: the server listens in real time, and a rig on the same
machine is judged by its punctuality. Ours."""


def main() -> None:
    """Serve requests until standard input ends."""
    give_way(NICE)
    answers = _claim_stdout()
    recogniser, voice = Recogniser(), Voice()
    recogniser.load()
    voice.say("Ready.")
    _write(answers, {"ready": True})
    requests = sys.stdin.buffer
    while (request := _read(requests)) is not None:
        head, pcm = request
        try:
            if head["do"] == "recognise":
                words = recogniser.words(np.frombuffer(pcm, "<i2").astype(np.int16))
                _write(answers, {"words": words})
            else:
                sound = voice.say(head["text"]).astype("<i2").tobytes()
                _write(answers, {"bytes": len(sound)}, sound)
        except RigError as error:
            _write(answers, {"error": str(error)})


def _claim_stdout() -> BinaryIO:
    """Standard output for answers alone; whatever a library prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def _read(requests: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    line = requests.readline()
    if not line:
        return None
    head: dict[str, Any] = json.loads(line)
    size = head.get("bytes", 0)
    if not 0 <= size <= MAX_BYTES:
        raise ValueError(f"expected at most {MAX_BYTES} bytes, got {size}")
    return head, requests.read(size)


def _write(answers: BinaryIO, head: dict[str, Any], payload: bytes = b"") -> None:
    answers.write(json.dumps(head).encode() + b"\n" + payload)
    answers.flush()


if __name__ == "__main__":
    main()
