"""Agents behind WebRTC in a process of their own: aiortc as anybody uses it, and nothing of ours in
the path of their packets. `python webrtc_agent.py` prints its address and ends with standard input.

An agent answers each stretch of the user's speech and logs by `time.perf_counter_ns` when it gave
which samples to the library. The scenario is the first part of the path; `GET /NAME/log` gives what
its last session did, `GET /NAME/facts` what is short of it. Scenarios come pickled, on the first
line of standard input.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import fractions
import functools
import json
import pickle
import sys
import time
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
from webrtc_scenarios import Scenario, rtvi

from adapters.simulated import voice
from audio.buffers import float_to_pcm16
from audio.resample import resample

RATE_HZ = 48_000
FRAME_N = 960
HEARD_LEVEL = 300
"""Mean size of samples from which on a frame is speech: the user's noise has 3 000."""


def now_ns() -> int:
    """This machine's clock, as the rig reads it."""
    return time.perf_counter_ns()  # noqa: TID251 - the agent's own clock


@functools.cache
def talk(number: int, seconds: float, level: float) -> np.ndarray:
    """The n-th reply, PCM16 at 48 kHz."""
    return float_to_pcm16(level * resample(voice.talk(seconds, number).samples, 24_000, RATE_HZ))


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
    packets: list[tuple[int, int]] = field(default_factory=list)
    """When each packet of audio went to the socket, and its samples."""

    FACTS = ("authorization", "interrupted_ns", "packets")


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
        self._out = self._added = 0
        self._stalled: list[bytes] = []
        self._tasks: set[asyncio.Future[Any]] = set()
        self.pc.on("track", lambda track: self._keep(self._listen(track)))
        self.pc.on("datachannel", self._on_channel)
        self.pc.on("connectionstatechange", self._on_state)

    def _keep(self, coroutine: Any) -> None:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _on_channel(self, channel: Any) -> None:
        self.channel = channel
        channel.on("message", self.log.messages.append)
        if self.scenario.at_packet is None and self.scenario.after_reply is None:
            self._send(*self.scenario.says)

    async def _on_state(self) -> None:
        if self.pc.connectionState == "connected" and self.scenario.at_connect is not None:
            self._act(self.scenario.at_connect)

    def _send(self, *messages: str) -> None:
        if self.channel is not None and self.channel.readyState == "open":
            for message in messages:
                for _ in range(1 + self.scenario.repeats):
                    self.channel.send(message)

    def tell(self, kind: str, **data: Any) -> None:
        if self.scenario.rtvi:
            self._send(*self.scenario.before_words, rtvi(kind, **data))

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
                self._act(self.scenario.at_packet[1])
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
            for packet in self._instead(data):
                self.log.packets.append((now_ns(), FRAME_N))
                for _ in range(1 + self.scenario.repeats):
                    await library(packet)
            return None

        sender.transport._send_rtp = send
        local = self.pc.localDescription
        return {"sdp": local.sdp, "type": local.type, "pc_id": "pc_1"}

    async def _later(self, delay_s: float, library: Any, data: bytes) -> None:
        await asyncio.sleep(delay_s)
        with contextlib.suppress(ConnectionError):  # closed while it was under way
            await library(data)

    def _instead(self, data: bytes) -> list[bytes]:
        """The packets that a packet of audio becomes, numbered on."""
        if self.scenario.payload is None:
            return [data]
        out = []
        header_n = 12 + 4 * (data[0] & 15)
        if data[0] & 16:  # an extension: a word that says how many follow
            header_n += 4 + 4 * int.from_bytes(data[header_n + 2:header_n + 4], "big")
        number = int.from_bytes(data[2:4], "big")
        payloads = self.scenario.payload(data[header_n:])
        for k, payload in enumerate(payloads):
            at = (number + self._added + k) % 65_536
            out.append(data[:2] + at.to_bytes(2, "big") + data[4:header_n] + payload)
        self._added += len(payloads) - 1
        return out

    def _act(self, what: str) -> None:
        if what == "vanish":
            self.vanish()
        if what.startswith("say"):
            self._send(*self.scenario.says)
        if what.endswith("leave"):
            self._keep(self.pc.close())

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
                if unanswered and quiet_n == 6 and self.scenario.answers \
                        and not self.track.speaking:
                    unanswered = False
                    self._reply()

    def _reply(self) -> None:
        s = self.scenario
        self._replies += 1
        seconds = s.replies_s[min(self._replies, len(s.replies_s)) - 1]
        self.track.say(talk(self._replies, seconds, s.level))
        self.tell("bot-started-speaking")
        self._keep(self._tell_of(f"reply{self._replies} is this one", seconds, self._replies))

    async def _tell_of(self, text: str, seconds: float, number: int) -> None:
        """The words as they are spoken, and the end. A reply that is broken off ends before."""
        s, words = self.scenario, text.split(" ")
        began = asyncio.get_running_loop().time()
        if s.words and not s.late_words:
            self._output(number, words, 0)
        for k in range(1, len(words) + 1):
            until_s = seconds * k / len(words) - (s.told_end or 0.0) * (k == len(words))
            await asyncio.sleep(began + until_s - asyncio.get_running_loop().time())
            if not self.track.speaking and self.log.interrupted_ns:
                return
            if s.words and (not s.late_words or k == len(words)):
                self._output(number, words, k)
        if s.told_end is not None:
            self.tell("bot-stopped-speaking")
        if s.after_reply is not None and number == 1:
            await asyncio.sleep(0.1)
            self._act(s.after_reply)

    def _output(self, number: int, words: list[str], spoken_n: int) -> None:
        status = {0: "new", len(words): "completed"}.get(spoken_n, "in-progress")
        self.tell("bot-output", text=" ".join(words), will_be_spoken=True, segment_id=number,
                  spoken_status=status, spoken_progress={
                      "accumulated_text": " ".join(words[:spoken_n]),
                      "remaining_text": " ".join(words[spoken_n:])})


class Server:
    def __init__(self, scenarios: dict[str, Scenario]) -> None:
        self.scenarios = scenarios
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
        scenario = self.scenarios[name]
        if method == "GET":
            facts = vars(self.logs[name]) if name in self.logs else {}
            if path.endswith("/facts"):
                facts = {key: facts.get(key) for key in Log.FACTS}
            return 200, {}, json.dumps(facts)
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
    scenarios = pickle.loads(base64.b64decode(sys.stdin.readline()))
    voice.prepare()
    for scenario in scenarios.values():
        for k, seconds in enumerate(scenario.replies_s):
            talk(k + 1, seconds, scenario.level)
    server = await asyncio.start_server(Server(scenarios).serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    print(json.dumps({"url": f"http://127.0.0.1:{port}"}), flush=True)
    async with server:
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
