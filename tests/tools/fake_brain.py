"""A brain process of known behaviour: `python fake_brain.py MODE`. See adapters/cascade/brain.py.

It recognises "four one five" in everything and speaks half a second of a tone. The mode says what
goes wrong: nothing, `mute` (never ready), `dead` (ends before it is ready), `dies` (ends at a
request with an odd number of samples), `hangs` (does not answer one), `babbles` (answers one with
no JSON), `breaks` (stops in the middle of that answer), `fails` (says that it failed).
"""

from __future__ import annotations

import json
import sys


def main(mode: str) -> None:
    out = sys.stdout.buffer

    def answer(head: dict, payload: bytes = b"") -> None:
        out.write(json.dumps(head).encode() + b"\n" + payload)
        out.flush()

    if mode == "dead":
        sys.exit(7)
    if mode == "mute":
        sys.stdin.buffer.read()
        return
    answer({"ready": True})
    while line := sys.stdin.buffer.readline():
        head = json.loads(line)
        pcm = sys.stdin.buffer.read(head.get("bytes", 0))
        if len(pcm) % 4 and mode:
            if mode == "dies":
                sys.exit(9)
            elif mode == "hangs":
                sys.stdin.buffer.read()
            elif mode == "babbles":
                out.write(b"oops\n")
                out.flush()
            elif mode == "breaks":
                out.write(b'{"bytes": 100}\nxx')
                out.flush()
                sys.exit(0)
            elif mode == "fails":
                answer({"error": "out of order"})
        elif head["do"] == "recognise":
            answer({"words": ["four", "one", "five"]})
        else:
            answer({"bytes": 24_000}, b"\x10\x27" * 12_000)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
