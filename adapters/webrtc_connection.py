"""One WebRTC connection over `aiortc`, moving packets and nothing else; no thread of its own.

User audio is encoded here and handed over packet by packet, so that a packet goes out when the
rig's frame is due and not when a thread gets its turn. Received packets are taken as they come,
before the library's own buffer (which would hold them for 80 ms) and its decoding thread, which is
ended. That takes names of the library that are not part of its interface (`_handle_rtp_packet`,
`_handle_disconnect`, the state of its probes), one reason why its version is pinned.
"""

from __future__ import annotations

import asyncio
import fractions
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

import aioice.ice
import av
import numpy as np
from aiortc import (
    MediaStreamTrack,
    RTCBundlePolicy,
    RTCConfiguration,
    RTCIceServer,
    RTCPeerConnection,
    RTCRtpSender,
    RTCSessionDescription,
)

from adapters.wire.rtp_audio import MAX_PACKET_N, RATE_HZ, Packet
from audio.buffers import Float32, float_to_pcm16, pcm16_to_float

FRAME_N = RATE_HZ // 50
_TIME_BASE = fractions.Fraction(1, RATE_HZ)
PROBE_S = 1.0
"""How often the peer is asked whether it is there (STUN consent, RFC 7675, which asks every 5 s and
gives up after 30: longer than most sessions)."""
PROBE_TAKES_S = 1.5
"""A probe that is not answered takes so long: its interval and the wait for it."""
CHANNEL = "chat"
"""Name of the data channel, as Pipecat's clients call it."""
MAX_MESSAGE_CHARS = 1_000_000

for _name in ("aiortc", "aioice"):
    # Without a handler of its own a library's warnings go to standard error.
    logging.getLogger(_name).addHandler(logging.NullHandler())


class UserTrack(MediaStreamTrack):  # type: ignore[misc]
    """What the library sends: packets that it is given, when it is given them."""

    kind = "audio"

    def __init__(self) -> None:
        super().__init__()
        self._packets: asyncio.Queue[Any] = asyncio.Queue()
        self._written: deque[asyncio.Future[None]] = deque()
        self._out = 0
        self.asked = asyncio.Event()
        """The library wants the first packet: the way out is open."""

    async def recv(self) -> Any:
        """The library asks for the next packet when the one before has gone to the socket."""
        self.asked.set()
        if self._out:
            self._out -= 1
            written = self._written.popleft()
            if not written.done():
                written.set_result(None)
        packet = await self._packets.get()
        self._out += 1
        return packet

    @property
    def waiting_n(self) -> int:
        """Packets that have not gone to the socket."""
        return len(self._written)

    def give(self, packet: Any) -> asyncio.Future[None]:
        """Hand over a packet; the future is done when it has gone to the socket."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._written.append(written)
        self._packets.put_nowait(packet)
        return written


class OpusEncoder:
    """Frames of 20 ms at 48 kHz to Opus packets, mono."""

    def __init__(self, bitrate_bps: int) -> None:
        codec: Any = av.CodecContext.create("libopus", "w")
        codec.bit_rate = bitrate_bps
        codec.format, codec.layout, codec.sample_rate = "s16", "mono", RATE_HZ
        codec.time_base = _TIME_BASE
        codec.options = {"application": "voip"}
        self._codec = codec
        self._n = 0
        self.encode(np.zeros(FRAME_N, np.float32))  # the first one takes milliseconds

    def encode(self, frame: Float32) -> Any:
        """One packet. Raises `ValueError` for a frame of another shape or that is not finite."""
        if frame.shape != (FRAME_N,):
            raise ValueError(f"expected a frame of shape ({FRAME_N},), got {frame.shape}")
        raw = av.AudioFrame.from_ndarray(float_to_pcm16(frame).reshape(1, -1), format="s16",
                                         layout="mono")
        raw.sample_rate, raw.time_base, raw.pts = RATE_HZ, _TIME_BASE, self._n
        (encoded,) = self._codec.encode(raw)
        packet: Any = av.Packet(bytes(encoded))
        packet.pts, packet.time_base = self._n, _TIME_BASE
        self._n += FRAME_N
        return packet


class OpusDecoder:
    """Opus packets to float32 at 48 kHz; two channels become their mean."""

    def __init__(self) -> None:
        codec: Any = av.CodecContext.create("libopus", "r")
        codec.format, codec.layout, codec.sample_rate = "s16", "mono", RATE_HZ
        self._codec = codec

    def __call__(self, payload: bytes) -> Float32:
        """One packet, float32 `(n,)`. Raises `ValueError` for one that is none."""
        if not payload:
            raise ValueError("an empty packet")
        try:
            frames = self._codec.decode(av.Packet(payload))
        except (av.FFmpegError, ValueError) as error:
            raise ValueError(f"{type(error).__name__}, {len(payload)} bytes") from None
        parts = [np.asarray(f.to_ndarray(), dtype=np.int16).reshape(-1) for f in frames]
        pcm = np.concatenate(parts) if parts else np.zeros(0, np.int16)
        if not 0 < len(pcm) <= MAX_PACKET_N:
            raise ValueError(f"{len(pcm)} samples, expected 1 to {MAX_PACKET_N}")
        return pcm16_to_float(pcm)


class Connection:
    """Offer, answer, packets both ways, messages. `on_...` are called on the event loop."""

    def __init__(self, *, ice_servers: list[RTCIceServer], data_channel: bool, lost_after_s: float,
                 on_packet: Callable[[Packet], None], on_message: Callable[[str | bytes], None],
                 on_open: Callable[[], None], on_state: Callable[[], None]) -> None:
        aioice.ice.CONSENT_INTERVAL = PROBE_S
        aioice.ice.CONSENT_FAILURES = max(1, round(lost_after_s / PROBE_TAKES_S))
        self._pc = RTCPeerConnection(RTCConfiguration(
            iceServers=ice_servers, bundlePolicy=RTCBundlePolicy.MAX_BUNDLE))
        self.track = UserTrack()
        self._transceiver = self._pc.addTransceiver(self.track, direction="sendrecv")
        self._transceiver.setCodecPreferences([
            codec for codec in RTCRtpSender.getCapabilities("audio").codecs
            if codec.mimeType.lower() == "audio/opus"])
        self._channel: Any = None
        if data_channel:
            self._channel = self._pc.createDataChannel(CHANNEL, ordered=True)
            self._channel.on("open", on_open)
            self._channel.on("message", on_message)
        self._way = self._transceiver.receiver.transport.transport
        self._pc.on("connectionstatechange", on_state)
        self._pc.on("iceconnectionstatechange", on_state)
        self._take_packets(on_packet)

    def _take_packets(self, on_packet: Callable[[Packet], None]) -> None:
        receiver = self._transceiver.receiver
        library = receiver._handle_rtp_packet

        async def handle(packet: Any, arrival_time_ms: int) -> None:
            on_packet(Packet(packet.sequence_number, packet.timestamp, packet.ssrc,
                             bytes(packet.payload)))
            await library(packet, arrival_time_ms)  # for its reports to the sender

        receiver._handle_rtp_packet = handle

    @property
    def state(self) -> str:
        """`new`, `connecting`, `connected`, `failed` or `closed`."""
        return str(self._pc.connectionState)

    @property
    def reached(self) -> bool:
        """Whether a way to the peer was found (ICE); the encryption comes after it."""
        return bool(self._pc.iceConnectionState == "completed")

    @property
    def lost(self) -> bool:
        """Of a connection that was there and ended: whether the peer did not close it, but did not
        answer any more. The library closes it then, and forgets the task that asked."""
        return self.state == "failed" or self._way._connection._query_consent_task is None

    async def offer(self) -> str:
        """The offer, with all candidates of this machine."""
        await self._pc.setLocalDescription(await self._pc.createOffer())
        return str(self._pc.localDescription.sdp)

    async def accept(self, sdp: str) -> None:
        """Take the answer and begin to connect. Raises whatever the library makes of it."""
        await self._pc.setRemoteDescription(RTCSessionDescription(sdp, "answer"))

    def opened(self) -> None:
        """Packets go both ways: the library's decoder is no longer needed."""
        self._transceiver.receiver._handle_disconnect()

    def say(self, message: str) -> bool:
        """Send a message; false where there is no open channel."""
        if self._channel is None or self._channel.readyState != "open":
            return False
        self._channel.send(message)
        return True

    async def close(self) -> None:
        await self._pc.close()
