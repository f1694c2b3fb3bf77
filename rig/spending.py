"""What a session used, and what is known of its cost: plain values that a ledger can hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rig.flow import Flow


@dataclass(frozen=True, slots=True)
class Cost:
    """The part that is known, and what is missing of it; all of it is known when nothing is."""

    amount: float
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Spent:
    """What one session used. Seconds by the rig's clock: of the session from ready to closed, of
    audio sent and received; `usage` as the provider reports it (`adapters.usage`)."""

    session_s: float = 0.0
    sent_s: float = 0.0
    received_s: float = 0.0
    usage: Mapping[str, float] | None = None


class Meter:
    """Filled while one session is played, whichever way it ends.

    `hold_s`: the longest that the provider wanted nothing new to begin; `on_hold(seconds, reason)`
    is told at once. `flow`: events of all sessions that are played beside.
    """

    def __init__(self, on_hold: Callable[[float, str], None] | None = None,
                 flow: Flow | None = None) -> None:
        self.spent = Spent()
        self.flow = Flow() if flow is None else flow
        self.hold_s = 0.0
        self._on_hold = on_hold

    def hold(self, wait_s: float, reason: str) -> None:
        """The provider lets nothing new begin for `wait_s`."""
        self.hold_s = max(self.hold_s, wait_s)
        if self._on_hold is not None:
            self._on_hold(wait_s, reason)
