"""A simulated agent behind the session interface of any system, on either clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from adapters.base import AgentEvent, Capabilities, Clock, Session, SessionConfig
from adapters.event_queue import EventQueue
from adapters.simulated.agent import FRAME_N, Agent
from adapters.spec import package_version
from audio.buffers import Float32
from audio.errors import InfrastructureError

REVISION = "agents.1"
"""Raised whenever an agent's behaviour or voice changes: part of the fingerprint of a run."""
MAX_PENDING = 4096
"""Events waiting to be read: over a minute of talk. More means that nobody reads."""


class SimulatedSession:
    """One session: `send` lets the agent act at once, `events` gives what it did, in order."""

    def __init__(self, agent: Agent, clock: Clock) -> None:
        self._agent = agent
        self._clock = clock
        self._queue = EventQueue()

    async def send(self, frame: Float32) -> None:
        """Deliver 20 ms of user audio, float32 `(480,)`, and let the agent take its step.

        Raises `ValueError` for another shape, `InfrastructureError` after the end or when events
        pile up unread.
        """
        if frame.shape != (FRAME_N,):
            raise ValueError(f"send: expected a frame of shape ({FRAME_N},), got {frame.shape}")
        if self._queue.closed:
            raise InfrastructureError("send: the session is closed")
        self._queue.put(self._agent.step(frame, self._clock.now_ns()))
        if len(self._queue) > MAX_PENDING:
            raise InfrastructureError(f"session: {len(self._queue)} events wait unread, "
                                      f"expected at most {MAX_PENDING}")

    def events(self) -> AsyncIterator[AgentEvent]:
        """Everything the agent does; ends after the last event once the session is closed."""
        return self._queue.events()

    def cue(self, name: str) -> None:
        """Pass a moment of the schedule on to the agent."""
        if not self._queue.closed:
            self._agent.cue(name, self._clock.now_ns())

    def close(self) -> None:
        """End the session; again and again if you like."""
        self._queue.close()


class SimulatedAdapter:
    """Makes agents. Everything costly (synthesis) happens before the session is ready."""

    def __init__(
        self,
        name: str,
        capabilities: Capabilities,
        settings: dict[str, Any],
        make: Callable[[SessionConfig], Agent],
    ) -> None:
        self._name = name
        self._capabilities = capabilities
        self._settings = dict(settings)
        self._make = make

    @property
    def name(self) -> str:
        return self._name

    @property
    def version(self) -> str:
        return f"{package_version()}+{REVISION}"

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self._settings)

    def session(self, config: SessionConfig, clock: Clock) -> AbstractAsyncContextManager[Session]:
        return self._open(config, clock)

    @asynccontextmanager
    async def _open(self, config: SessionConfig, clock: Clock) -> AsyncIterator[Session]:
        session = SimulatedSession(self._make(config), clock)
        try:
            yield session
        finally:
            session.close()
