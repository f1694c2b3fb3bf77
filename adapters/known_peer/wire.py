"""The adapter's side of the known peer's protocol, without I/O."""

from __future__ import annotations

import json
from typing import Any

from adapters.base import (
    PEER_FRAMES,
    AgentEvent,
    AudioReceived,
    Fault,
    ResponseDone,
    ResponseStarted,
    StateChanged,
    TextDelta,
)
from adapters.known_peer.protocol import (
    AUDIO_MARK,
    VERSION,
    Behaviour,
    pack_user,
    unpack_audio,
)
from adapters.wire.base import Message, Output
from adapters.wire.payload import PayloadError, excerpt, identifier, parse_object
from audio.buffers import Float32

PEER_TRUTH = "peer_truth"
"""Name of the `StateChanged` that holds what the peer knows of one utterance, as JSON."""


class KnownPeerWire:
    """One session's protocol state."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._ready = False

    @property
    def ready(self) -> bool:
        return self._ready

    def opening(self) -> tuple[Message, ...]:
        return (json.dumps({"type": "open", "version": VERSION,
                            "behaviour": self._behaviour.as_dict()}),)

    def audio(self, frame: Float32) -> tuple[Message, ...]:
        return (pack_user(frame),)

    def receive(self, data: bytes, t_ns: int) -> Output:
        try:
            if data[:1] == bytes([AUDIO_MARK]):
                number, samples = unpack_audio(data)
                return Output((AudioReceived(t_ns, samples, f"r{number}"),))
            return Output((self._text(parse_object(data), t_ns),))
        except (PayloadError, ValueError) as error:
            return Output((Fault(t_ns, "transparent", excerpt(str(error))),))

    def closing(self) -> tuple[Message, ...]:
        return ()

    def _text(self, value: dict[str, Any], t_ns: int) -> AgentEvent:
        kind = value.pop("type", None)
        if kind == "ready":
            if value.get("version") != VERSION:
                return Fault(t_ns, "infrastructure", f"expected version {VERSION} of the peer, "
                             f"got {excerpt(value.get('version'), 40)}")
            self._ready = True
            return StateChanged(t_ns, "ready", json.dumps(value))
        if kind in ("frames", "truth"):
            return StateChanged(t_ns, PEER_FRAMES if kind == "frames" else PEER_TRUTH,
                                json.dumps(value, separators=(",", ":")))
        response_id = identifier(value, "id")
        if response_id is not None:
            if kind == "response_started":
                return ResponseStarted(t_ns, response_id)
            if kind == "response_done":
                return ResponseDone(t_ns, response_id, excerpt(value.get("status"), 40))
            if kind == "text" and isinstance(value.get("text"), str):
                return TextDelta(t_ns, value["text"], response_id)
        return StateChanged(t_ns, "unknown_message", excerpt(kind, 80))
