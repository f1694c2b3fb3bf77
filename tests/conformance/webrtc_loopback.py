"""The agents of `webrtc_scenarios.py` as the server of the fault suite."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from faults import PeerLog
from webrtc_scenarios import Scenario, agents, asked


@dataclass(frozen=True)
class Met:
    """What an agent did in a session."""

    headers: dict[str, str | None]
    log: PeerLog


@dataclass
class WebRtcServer:
    scenarios: dict[str, Scenario]
    url: str = ""
    sessions: dict[str, Met] = field(default_factory=dict)

    def url_of(self, name: str) -> str:
        return f"{self.url}/{name}/api/offer"

    async def met(self, name: str) -> Met | None:
        if name not in self.scenarios:
            return None
        facts = await asyncio.to_thread(asked, f"{self.url}/{name}/facts")
        self.sessions[name] = Met(
            {"Authorization": facts["authorization"]},
            PeerLog([(t_ns, n) for t_ns, n in facts["packets"] or ()],
                    facts["interrupted_ns"] or []))
        return self.sessions[name]

    def peer_log(self, name: str) -> PeerLog | None:
        return self.sessions[name].log if name in self.sessions else None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[WebRtcServer]:
        with agents(self.scenarios) as self.url, pytest.MonkeyPatch.context() as patch:
            for library in ("aiortc", "aioice"):
                # They see no key, and would write a line for every packet.
                patch.setattr(logging.getLogger(library), "level", logging.INFO)
            yield self
