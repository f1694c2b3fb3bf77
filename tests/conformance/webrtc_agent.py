"""Agents behind WebRTC in a process of their own: aiortc as anybody uses it, and nothing of ours in
the path of their packets. `python webrtc_agent.py` prints its address and ends with standard input.

An agent answers each stretch of the user's speech and logs by `time.perf_counter_ns` when it gave
which samples to the library. The scenario is the first part of the path; `GET /NAME/log` gives what
its last session did.
"""

from __future__ import annotations

import asyncio
import fractions
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from aiortc import (
    MediaStreamTrack,
    RTCConfiguration,
    RTCPeerConnection,
    RTCSessionDescription,
)
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame

from adapters.simulated import voice
from audio.buffers import float_to_pcm16
from audio.resample import resample

RATE_HZ = 48_000
FRAME_N = 960
REPLIES_S = (1.2, 0.8)
HEARD_LEVEL = 300
"""Mean size of samples from which on a frame is speech: the user's noise has 3 000."""


@dataclass(frozen=True)
class Scenario:
    replies_s: tuple[float, ...] = REPLIES_S
    answers: bool = True
    """Whether it replies at all."""
    yields: bool = False
    rtvi: bool = False
    pauses: bool = False
    """No packets while it is silent, and a clock that counts packets only."""
    bursts: bool = False
    """As `pauses`, and a reply comes all at once."""
    loses: Callable[[int], bool] = lambda k: False
    """Which of its packets do not arrive."""
    delays_s: Callable[[int], float] = lambda k: 0.0
    """How long its packets are under way."""
    stalls: range = range(0)
    """These packets wait on the way for the one after them, and come together, in order."""
    at_packet: tuple[int, str] | None = None
    """What it does (`vanish`, `leave`, `say`) when it sends so many packets."""
    says: tuple[str, ...] = ()
    """Messages that it sends when the channel opens (`say`: at `at_packet`)."""
    sends_audio: bool = True
    takes_audio: bool = True
    http: tuple[int, dict[str, str], str] | None = None
    hangs: bool = False
    mangle: Callable[[dict[str, Any]], dict[str, Any] | str] | None = None
    """What becomes of the answer."""
    gone_at_once: bool = False
    """It closes its sockets after it has answered."""


def now_ns() -> int:
    """This machine's clock, as the rig reads it."""
    return time.perf_counter_ns()  # noqa: TID251 - the agent's own clock


def talk(number: int, seconds: float) -> np.ndarray:
    """The n-th reply, PCM16 at 48 kHz."""
    return float_to_pcm16(resample(voice.talk(seconds, number).samples, 24_000, RATE_HZ))


def only_port_0(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "sdp": answer["sdp"].replace("m=audio ", "m=audio 0 ", 1).replace(
        "m=audio 0 " + answer["sdp"].split("m=audio ")[1].split(" ")[0], "m=audio 0", 1)}


def other_fingerprint(answer: dict[str, Any]) -> dict[str, Any]:
    lines = [line[:-2] + ("00" if not line.endswith("00") else "01")
             if line.startswith("a=fingerprint:") else line
             for line in answer["sdp"].splitlines()]
    return {**answer, "sdp": "\r\n".join(lines) + "\r\n"}


def rtvi(kind: str, **data: Any) -> str:
    return json.dumps({"label": "rtvi-ai", "type": kind, "data": data})


SCENARIOS: dict[str, Scenario] = {
    "calm": Scenario(),
    "again": Scenario(),
    "trickle": Scenario(),
    "no_channel": Scenario(),
    "rtvi": Scenario(rtvi=True),
    "interruption": Scenario(replies_s=(6.0, 0.8), yields=True, rtvi=True),
    "pauses": Scenario(pauses=True),
    "bursts": Scenario(bursts=True),
    "loses": Scenario(loses=lambda k: k % 20 == 7),
    "reorders": Scenario(delays_s=lambda k: 0.025 if k % 10 == 3 else 0.0),
    "jitters": Scenario(delays_s=lambda k: (k * 7 % 31) / 1000),
    "late": Scenario(stalls=range(60, 66)),
    "silent": Scenario(answers=False),
    "no_packets": Scenario(answers=False, pauses=True),
    "never_stops": Scenario(replies_s=(30.0,)),
    "odd_messages": Scenario(says=("hello", "[1]", rtvi("mood", x=1), "{}", rtvi("bot-output"),
                                   rtvi("error", error="a hiccup"))),
    "names": Scenario(mangle=lambda a: {**a, "sdp": a["sdp"].replace(
        "a=end-of-candidates", "a=candidate:9 1 udp 1 host.example 9 typ host\r\n"
        "a=end-of-candidates", 1)}),
    "wrong_key": Scenario(http=(401, {}, '{"detail": "no such key: $KEY"}')),
    "http_404": Scenario(http=(404, {}, "nothing here")),
    "http_429": Scenario(http=(429, {}, "slow down")),
    "http_429_retry_after": Scenario(http=(429, {"Retry-After": "7"}, "slow down")),
    "http_500": Scenario(http=(500, {}, "oops")),
    "redirect": Scenario(http=(307, {"Location": "http://127.0.0.1:9/"}, "")),
    "no_answer": Scenario(hangs=True),
    "no_json": Scenario(mangle=lambda a: "welcome"),
    "an_offer": Scenario(mangle=lambda a: {**a, "type": "offer"}),
    "no_sdp": Scenario(mangle=lambda a: {"type": "answer"}),
    "wrong_sdp": Scenario(mangle=lambda a: {**a, "sdp": "v=0\r\nm=audio 9 X 96\r\n"
                                            "a=rtpmap:96 opus/48000/2\r\n"}),
    "gibberish_sdp": Scenario(mangle=lambda a: {**a, "sdp": "hello"}),
    "huge_answer": Scenario(mangle=lambda a: {**a, "more": "x" * 3_000_000}),
    "many_lines": Scenario(mangle=lambda a: {**a, "sdp": a["sdp"] + "a=x\r\n" * 9_000}),
    "no_audio": Scenario(mangle=only_port_0),
    "sends_none": Scenario(sends_audio=False),
    "takes_none": Scenario(takes_audio=False),
    "no_opus": Scenario(mangle=lambda a: {**a, "sdp": a["sdp"].replace("opus", "x-own")}),
    "never_ready": Scenario(gone_at_once=True),
    "no_dtls": Scenario(mangle=other_fingerprint),
    "vanishes": Scenario(at_packet=(75, "vanish")),
    "leaves": Scenario(at_packet=(75, "leave")),
    "says_it_leaves": Scenario(at_packet=(75, "say"), says=(json.dumps(
        {"type": "signalling", "message": {"type": "peerLeft"}}),)),
    "fatal": Scenario(at_packet=(75, "say"), says=(rtvi("error", error="no money", fatal=True),)),
}


@dataclass
class Log:
    """What an agent did in one session."""

    offer: dict[str, Any] = field(default_factory=dict)
    authorization: str | None = None
    patches: list[dict[str, Any]] = field(default_factory=list)
    sent: list[tuple[int, int]] = field(default_factory=list)
    """When it gave the library a frame that is not silence, and its first sample of all that it
    has said."""
    said: list[int] = field(default_factory=list)
    """All of those samples."""
    heard_ns: list[tuple[int, int]] = field(default_factory=list)
    """When a frame of the user's was given to it, and how loud it was."""
    user: list[int] = field(default_factory=list)
    stopped_ns: list[int] = field(default_factory=list)
    interrupted_ns: list[int] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


class AgentTrack(MediaStreamTrack):
    """20 ms every 20 ms by an absolute schedule: speech where there is some, else silence."""

    kind = "audio"

    def __init__(self, scenario: Scenario, log: Log) -> None:
        super().__init__()
        self._scenario, self._log = scenario, log
        self._queue: list[np.ndarray] = []
        self._news = asyncio.Event()
        self._start: float | None = None
        self._k = 0

    @property
    def speaking(self) -> bool:
        return bool(self._queue)

    def say(self, pcm: np.ndarray) -> None:
        pcm = np.append(pcm, np.zeros(-len(pcm) % FRAME_N, np.int16))
        self._queue += list(pcm.reshape(-1, FRAME_N))
        self._news.set()

    def stop_speaking(self) -> None:
        self._queue.clear()
        self._log.stopped_ns.append(now_ns())

    async def recv(self) -> AudioFrame:
        loop = asyncio.get_running_loop()
        if self._scenario.pauses or self._scenario.bursts:
            while not self._queue:
                self._news.clear()
                await self._news.wait()
                self._start = loop.time() - self._k * 0.02
        if self._start is None:
            self._start = loop.time()
        if not self._scenario.bursts:
            await asyncio.sleep(max(0.0, self._start + self._k * 0.02 - loop.time()))
        pcm = self._queue.pop(0) if self._queue else None
        frame = AudioFrame.from_ndarray(
            (np.zeros(FRAME_N, np.int16) if pcm is None else pcm).reshape(1, -1),
            format="s16", layout="mono")
        frame.sample_rate, frame.pts = RATE_HZ, self._k * FRAME_N
        frame.time_base = fractions.Fraction(1, RATE_HZ)
        self._k += 1
        if pcm is not None:
            self._log.sent.append((now_ns(), len(self._log.said)))
            self._log.said += pcm.tolist()
        return frame


class Agent:
    def __init__(self, scenario: Scenario, log: Log) -> None:
        self.scenario, self.log = scenario, log
        self.pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.track = AgentTrack(scenario, log)
        self.channel: Any = None
        self._replies = 0
        self._out = 0
        self._stalled: list[bytes] = []
        self._tasks: set[asyncio.Future[Any]] = set()
        self.pc.on("track", lambda track: self._keep(self._listen(track)))
        self.pc.on("datachannel", self._on_channel)

    def _keep(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _on_channel(self, channel: Any) -> None:
        self.channel = channel
        channel.on("message", self.log.messages.append)
        if self.scenario.at_packet is None:
            for message in self.scenario.says:
                channel.send(message)

    def tell(self, kind: str, **data: Any) -> None:
        if self.scenario.rtvi and self.channel is not None:
            self.channel.send(rtvi(kind, **data))

    async def answer(self, sdp: str) -> dict[str, Any]:
        await self.pc.setRemoteDescription(RTCSessionDescription(sdp, "offer"))
        if self.scenario.sends_audio:
            self.pc.addTrack(self.track)
        if not self.scenario.takes_audio:
            self.pc.getTransceivers()[0].direction = "sendonly"
        await self.pc.setLocalDescription(await self.pc.createAnswer())
        sender = self.pc.getSenders()[0]
        library = sender.transport._send_rtp

        async def send(data: bytes) -> None:
            if 192 <= data[1] <= 223:  # RTCP
                return await library(data)
            self._out += 1
            k = self._out
            if self.scenario.at_packet is not None and k == self.scenario.at_packet[0]:
                await self._act(self.scenario.at_packet[1])
            if k in self.scenario.stalls:
                self._stalled.append(data)
                return None
            while self._stalled:
                await library(self._stalled.pop(0))
            if self.scenario.loses(k):
                return None
            if self.scenario.delays_s(k):
                self._keep(self._later(self.scenario.delays_s(k), library, data))
                return None
            return await library(data)

        sender.transport._send_rtp = send
        local = self.pc.localDescription
        return {"sdp": local.sdp, "type": local.type, "pc_id": "pc_1"}

    async def _later(self, delay_s: float, library: Any, data: bytes) -> None:
        await asyncio.sleep(delay_s)
        await library(data)

    async def _act(self, what: str) -> None:
        if what == "vanish":
            self.vanish()
        elif what == "leave":
            self._keep(self.pc.close())
        elif self.channel is not None:
            for message in self.scenario.says:
                self.channel.send(message)

    def vanish(self) -> None:
        """Its sockets are closed, and nobody is told."""
        for transport in {s.transport.transport for s in self.pc.getSenders()}:
            for protocol in transport._connection._protocols:
                protocol.transport.close()

    async def _listen(self, track: MediaStreamTrack) -> None:
        loud_n = quiet_n = 0
        unanswered = False
        while True:
            try:
                frame = await track.recv()
            except MediaStreamError:
                return
            pcm = frame.to_ndarray().reshape(-1, len(frame.layout.channels))[:, 0]
            loud = int(np.abs(pcm.astype(int)).mean())
            self.log.heard_ns.append((now_ns(), loud))
            self.log.user += pcm.tolist()
            if loud > HEARD_LEVEL:
                loud_n, quiet_n = loud_n + 1, 0
                unanswered = unanswered or loud_n >= 3
                if loud_n == 3 and self.track.speaking and self.scenario.yields:
                    self.track.stop_speaking()
                    self.log.interrupted_ns.append(now_ns())
                    self.tell("bot-interrupted")
                    self.tell("bot-stopped-speaking")
            else:
                loud_n, quiet_n = 0, quiet_n + 1
                if unanswered and quiet_n == 10 and self.scenario.answers \
                        and not self.track.speaking:
                    unanswered = False
                    self._reply()

    def _reply(self) -> None:
        self._replies += 1
        seconds = self.scenario.replies_s[min(self._replies, len(self.scenario.replies_s)) - 1]
        self.track.say(talk(self._replies, seconds))
        self.tell("bot-started-speaking")
        text = f"reply{self._replies} is this one"
        self.tell("bot-output", text=text, will_be_spoken=True, segment_id=self._replies,
                  spoken_status="new", spoken_progress={"accumulated_text": "",
                                                        "remaining_text": text})
        self._keep(self._spoken(text, seconds, self._replies))

    async def _spoken(self, text: str, seconds: float, number: int) -> None:
        words = text.split(" ")
        for k in range(len(words)):
            await asyncio.sleep(seconds / len(words))
            if not self.track.speaking and self.log.interrupted_ns:
                return
            self.tell("bot-output", text=text, will_be_spoken=True, segment_id=number,
                      spoken_status="in-progress",
                      spoken_progress={"accumulated_text": " ".join(words[:k + 1]),
                                       "remaining_text": " ".join(words[k + 1:])})
        self.tell("bot-stopped-speaking")


class Server:
    def __init__(self) -> None:
        self.logs: dict[str, Log] = {}
        self.agents: list[Agent] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines = head.split("\r\n")
        method, path, _ = lines[0].split(" ")
        headers = {k.lower(): v.strip() for k, _, v in (x.partition(":") for x in lines[1:-2])}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        name = path.split("/")[1]
        status, more, text = await self._answer(method, path, name, headers, body)
        writer.write("\r\n".join([f"HTTP/1.1 {status} X", f"Content-Length: {len(text.encode())}",
                                  *(f"{k}: {v}" for k, v in more.items())]).encode()
                     + b"\r\n\r\n" + text.encode())
        try:
            await writer.drain()
        except ConnectionError:
            return
        writer.close()

    async def _answer(self, method: str, path: str, name: str, headers: dict[str, str],
                      body: bytes) -> tuple[int, dict[str, str], str]:
        scenario = SCENARIOS[name]
        if method == "GET":
            return 200, {}, json.dumps(vars(self.logs[name]) if name in self.logs else None)
        if method == "PATCH":
            self.logs[name].patches.append(json.loads(body))
            await self._candidates(self.agents[-1].pc, json.loads(body))
            return 200, {}, "{}"
        log = self.logs[name] = Log(offer=json.loads(body),
                                    authorization=headers.get("authorization"))
        if scenario.hangs:
            await asyncio.sleep(30)
        if scenario.http is not None:
            status, more, text = scenario.http
            return status, more, text.replace("$KEY", (log.authorization or "").partition(" ")[2])
        agent = Agent(scenario, log)
        self.agents.append(agent)
        answer: dict[str, Any] | str = await agent.answer(log.offer["sdp"])
        if scenario.mangle is not None:
            assert isinstance(answer, dict)
            answer = scenario.mangle(answer)
        if scenario.gone_at_once:
            await agent.pc.close()
        return 200, {"Content-Type": "application/json"}, (
            answer if isinstance(answer, str) else json.dumps(answer))

    async def _candidates(self, pc: RTCPeerConnection, body: dict[str, Any]) -> None:
        from aiortc.sdp import candidate_from_sdp

        for given in body["candidates"]:
            candidate = candidate_from_sdp(given["candidate"].removeprefix("candidate:"))
            candidate.sdpMid = given["sdp_mid"]
            candidate.sdpMLineIndex = given["sdp_mline_index"]
            await pc.addIceCandidate(candidate)


async def main() -> None:
    voice.prepare()
    for scenario in SCENARIOS.values():
        for k, seconds in enumerate(scenario.replies_s):
            talk(k + 1, seconds)
    server = await asyncio.start_server(Server().serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    print(json.dumps({"url": f"http://127.0.0.1:{port}"}), flush=True)
    async with server:
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
