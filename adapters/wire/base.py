"""What every wire protocol looks like to the driver that moves its bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from adapters.base import AgentEvent
from audio.buffers import Float32

Message = str | bytes
"""One message to send: `str` goes out as a text frame, `bytes` as a binary one."""


@dataclass(frozen=True, slots=True)
class Output:
    """What one received message amounts to, in order."""

    events: tuple[AgentEvent, ...] = ()
    messages: tuple[Message, ...] = ()


class Wire(Protocol):
    """One session's protocol state. Single use; never raises for what the peer sent."""

    @property
    def ready(self) -> bool:
        """Whether the peer has accepted the session, so that its clock may start."""
        ...

    def opening(self) -> tuple[Message, ...]:
        """What the client says first, before it has received anything."""
        ...

    def audio(self, frame: Float32) -> tuple[Message, ...]:
        """One frame of user audio. Raises `ValueError` for a frame of another shape."""
        ...

    def receive(self, data: bytes, t_ns: int) -> Output:
        """One received message that arrived at `t_ns`; text or binary frame makes no difference."""
        ...

    def closing(self) -> tuple[Message, ...]:
        """What the client says before it closes the connection."""
        ...


@runtime_checkable
class LingeringWire(Protocol):
    """A wire whose peer has more to say after `closing()`, and says when it is over."""

    @property
    def linger_s(self) -> float:
        """How long the driver reads on at most."""
        ...

    @property
    def over(self) -> bool:
        """Whether the peer has said that the session is over."""
        ...


@dataclass(frozen=True, slots=True)
class CloseCause:
    """Why a peer closed the connection, in words. `hopeless`, `throttled`: as of `Fault`."""

    text: str
    hopeless: bool = False
    throttled: bool = False


@runtime_checkable
class ExplainingWire(Protocol):
    """A wire that knows what it means when its peer closes the connection."""

    def closed(self, code: int, reason: str) -> CloseCause | None:
        """The cause, `None` where the code says all there is. 1006: there was no close frame."""
        ...


@runtime_checkable
class TimedWire(Protocol):
    """A wire that owes its peer a message at a moment of its own, not in answer to anything.

    `receive` must say by itself what was due before its message arrived: the driver calls `tick`
    only when nothing that came before waits to be decoded, so that the order is that of arrival.
    """

    @property
    def due_ns(self) -> int | None:
        """When `tick` is wanted next, in nanoseconds of the session; `None`: not at all."""
        ...

    def tick(self, t_ns: int) -> tuple[Message, ...]:
        """What is due at `t_ns`."""
        ...


@runtime_checkable
class FramedWire(Protocol):
    """A wire to which a binary frame means something else than a text frame."""

    def receive_binary(self, data: bytes, t_ns: int) -> Output:
        """One binary message that arrived at `t_ns`; text goes to `receive`."""
        ...
