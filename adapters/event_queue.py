"""What a session without a network has to say, in order, until it is closed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable

from adapters.base import AgentEvent


class EventQueue:
    """Filled by the session, read by whoever asked for its events; both on one event loop."""

    def __init__(self) -> None:
        self._pending: deque[AgentEvent] = deque()
        self._news = asyncio.Event()
        self.closed = False

    def __len__(self) -> int:
        """Events that nobody has read yet."""
        return len(self._pending)

    def put(self, events: Iterable[AgentEvent]) -> None:
        self._pending.extend(events)
        if self._pending:
            self._news.set()

    async def events(self) -> AsyncIterator[AgentEvent]:
        """Everything in order; ends after the last event once the queue is closed."""
        while True:
            while self._pending:
                yield self._pending.popleft()
            if self.closed:
                return
            self._news.clear()
            await self._news.wait()

    def close(self) -> None:
        """Nothing more comes; again and again if you like."""
        self.closed = True
        self._news.set()
