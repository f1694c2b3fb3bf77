"""What a session used, and what is known of its cost: plain values that a ledger can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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
