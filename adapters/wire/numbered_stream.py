"""A session of events that the server numbers and wants to have acknowledged, under two dialects.

What vLLM-Omni adds to OpenAI's names on every event: `server_event_seq`, and spellings of both
generations, of which a server may use either and once said that it uses both.
"""

from __future__ import annotations

from typing import Any

from adapters.wire.event_stream import EventStream
from adapters.wire.openai_realtime import BETA_NAMES
from adapters.wire.payload import identifier

_SPELLINGS = {beta: ga for beta, ga in BETA_NAMES.items() if beta.startswith("response.")}
"""Items come under both names as a rule, and are only logged."""


class NumberedStream(EventStream):
    """One session's events; each number is acknowledged once, until the session is over."""

    def __init__(self, input_rate_hz: int, output_rate_hz: int) -> None:
        super().__init__(input_rate_hz, output_rate_hz)
        self._over = False
        self._seq: int | None = None
        self._last_delta: dict[str, tuple[str, object, object]] = {}

    @property
    def over(self) -> bool:
        """The server has ended the session."""
        return self._over

    def _is_repeated(self, event: dict[str, Any], data: bytes) -> bool:
        seq = _sequence(event)
        if seq is None:
            return super()._is_repeated(event, data)
        return self._seen_before(f"server_event_seq {seq}", data)

    def _handle(self, kind: str, event: dict[str, Any], t_ns: int) -> None:
        name = _SPELLINGS.get(kind, kind)
        if not self._is_twin(kind, name, event, t_ns):
            super()._handle(name, event, t_ns)
        seq = _sequence(event)
        if seq is None:
            return
        if self._seq is not None and seq != self._seq + 1:
            self._log(t_ns, "server_event_seq", f"{seq} after {self._seq}")
        self._seq = seq
        if not self._over:
            self._messages.append(self._client_event(
                "ack", {"type": "session.event_ack", "server_event_seq": seq}))

    def _is_twin(self, kind: str, name: str, event: dict[str, Any], t_ns: int) -> bool:
        """Whether this is the piece that came last, under its other name."""
        if name not in self._handlers or not name.endswith(".delta"):
            return False
        last, delta = self._last_delta.get(name), event.get("delta")
        response_id = identifier(event, "response_id")
        if last is not None and last[0] != kind and last[1:] == (response_id, delta):
            del self._last_delta[name]
            self._note(t_ns, f"the same piece under another name skipped: {kind}")
            return True
        self._last_delta[name] = kind, response_id, delta
        return False


def _sequence(event: dict[str, Any]) -> int | None:
    seq = event.get("server_event_seq")
    return seq if isinstance(seq, int) and not isinstance(seq, bool) and 0 <= seq < 2**63 else None
