"""What an agent behind WebRTC says, and what goes wrong; its process is `webrtc_agent.py`.

Nothing here needs aiortc. Scenarios go to the agents' process pickled: what they call has a name.
"""

from __future__ import annotations

import base64
import json
import pickle
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def never(k: int) -> bool:
    return False


def at_once(k: int) -> float:
    return 0.0


@dataclass(frozen=True)
class Scenario:
    replies_s: tuple[float, ...] = (1.2, 0.8)
    level: float = 1.0
    answers: bool = True
    """Whether it replies at all."""
    yields: bool = False
    rtvi: bool = False
    words: bool = True
    """Whether it tells its words, over RTVI."""
    late_words: bool = False
    """They are told when the reply is over."""
    told_end: float | None = 0.0
    """The end of a reply is told so many seconds before its last sample; `None`: never."""
    pauses: bool = False
    """No packets while it is silent, and a clock that counts packets only."""
    bursts: bool = False
    """As `pauses`, and a reply comes all at once."""
    loses: Callable[[int], bool] = never
    """Which of its packets do not arrive."""
    delays_s: Callable[[int], float] = at_once
    """How long its packets are under way."""
    stalls: range = range(0)
    """These packets wait on the way for the one after them, and come together, in order."""
    repeats: bool = False
    """Every packet, and every message, comes twice."""
    payload: Callable[[bytes], list[bytes]] | None = None
    """What is sent instead of a packet of Opus: that many packets."""
    at_packet: tuple[int, str] | None = None
    """What it does (`vanish`, `leave`, `say`, `say_leave`) when it sends so many packets."""
    after_reply: str | None = None
    """What it does 0.1 s after its first reply."""
    at_connect: str | None = None
    """What it does as soon as it is connected."""
    says: tuple[str, ...] = ()
    """Messages that it sends when the channel opens, or when it does `say`."""
    before_words: tuple[str, ...] = ()
    """Messages that it sends before each of its own."""
    sends_audio: bool = True
    takes_audio: bool = True
    http: tuple[int, dict[str, str], str] | None = None
    hangs: bool = False
    mangle: Callable[[dict[str, Any]], dict[str, Any] | str] | None = None
    """What becomes of the answer."""
    gone_at_once: bool = False
    """It closes its sockets after it has answered."""


def rtvi(kind: str, **data: Any) -> str:
    return json.dumps({"label": "rtvi-ai", "type": kind, "data": data})


@contextmanager
def agents(scenarios: dict[str, Scenario]) -> Iterator[str]:
    """The agents' process while the block lasts; gives its address."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).parent / "webrtc_agent.py")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(base64.b64encode(pickle.dumps(scenarios)).decode() + "\n")
        process.stdin.flush()
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def asked(url: str) -> Any:
    """What an agent says of its last session."""
    without_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with without_proxy.open(url) as answer:
        return json.load(answer)


# what becomes of an answer

def as_text(answer: dict[str, Any]) -> str:
    return "welcome"


def as_offer(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "type": "offer"}


def without_sdp(answer: dict[str, Any]) -> dict[str, Any]:
    return {"type": "answer"}


def half_an_sdp(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "sdp": "v=0\r\nm=audio 9 X 96\r\na=rtpmap:96 opus/48000/2\r\n"}


def gibberish(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "sdp": "hello"}


def huge(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "more": "x" * 3_000_000}


def many_lines(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "sdp": answer["sdp"] + "a=x\r\n" * 9_000}


def only_port_0(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "sdp": answer["sdp"].replace("m=audio ", "m=audio 0 ", 1).replace(
        "m=audio 0 " + answer["sdp"].split("m=audio ")[1].split(" ")[0], "m=audio 0", 1)}


def other_codec(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "sdp": answer["sdp"].replace("opus", "x-own")}


def other_rate(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "sdp": answer["sdp"].replace("opus/48000/2", "opus/16000/2")}


def other_fingerprint(answer: dict[str, Any]) -> dict[str, Any]:
    lines = [line[:-2] + ("00" if not line.endswith("00") else "01")
             if line.startswith("a=fingerprint:") else line
             for line in answer["sdp"].splitlines()]
    return {**answer, "sdp": "\r\n".join(lines) + "\r\n"}


def with_a_name(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "sdp": answer["sdp"].replace(
        "a=end-of-candidates",
        "a=candidate:9 1 udp 1 host.example 9 typ host\r\na=end-of-candidates", 1)}


# what becomes of packets

def one_in_20(k: int) -> bool:
    return k % 20 == 7


def some_overtaken(k: int) -> float:
    return 0.025 if k % 10 == 3 else 0.0


def uneven(k: int) -> float:
    return (k * 7 % 31) / 1000


def no_opus(payload: bytes) -> list[bytes]:
    """A frame that is longer than its packet (RFC 6716, section 3.2.5, code 3)."""
    return [b"\xff\xff" + payload[:3]]


def empty_before(payload: bytes) -> list[bytes]:
    return [b"", payload]
