"""A clock for tests that step a session by themselves."""

from __future__ import annotations


class Lockstep:
    """A clock of virtual time, moved on by the test."""

    kind = "virtual"
    origin_ns = None

    def __init__(self) -> None:
        self.t_ns = 0

    def now_ns(self) -> int:
        return self.t_ns

    async def sleep_until(self, t_ns: int) -> None:
        self.t_ns = max(self.t_ns, t_ns)
