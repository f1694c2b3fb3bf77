"""The assistant's side of a suite: roles with their prompts, and their policy as a record."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from probes.specmodel import RoleId, SpecModel

Persona = Annotated[str, Field(max_length=2000)]
Directive = Annotated[str, Field(max_length=20_000)]
"""Ours: a long prompt of a product has some 2,000 words."""


class InterruptPolicy(SpecModel):
    """When the role takes the floor inside the user's turn (DSB-IFEval, tables 2 and 14)."""

    mode: Literal["on_trigger", "never", "freely"]
    trigger: str | None = None
    max_latency_ms: float | None = None
    max_overlap_ms: float | None = None
    per_minute: tuple[float, float] | None = None


class BackchannelPolicy(SpecModel):
    """Listening sounds: how many, how long."""

    style: Literal["minimal", "warm", "terse", "none", "moderate", "brisk", "heavy"]
    max_duration_s: float | None = None
    per_minute: tuple[float, float] | None = None
    count: int | None = None


class SilencePolicy(SpecModel):
    """How long the role leaves silence. Minimum waits are policy text, never verifier data."""

    tolerance: Literal["none", "very_low", "low", "high", "very_high", "clause_bounded"]
    max_wait_s: float | None = None
    min_wait_s: float | None = None


class ReadbackPolicy(SpecModel):
    """What the role says back."""

    mode: Literal["mandatory", "never"]
    items: tuple[str, ...] = ()


class BargeInPolicy(SpecModel):
    """What the role does when the user talks over it."""

    mode: Literal["yield", "continue", "accept_overlap"]
    detail: str
    max_latency_ms: float | None = None


class RolePolicy(SpecModel):
    """The role's floor behaviour as numbers (DSB-IFEval, table 14; barge-in also table 2)."""

    interrupt: InterruptPolicy
    backchannel: BackchannelPolicy
    silence: SilencePolicy
    readback: ReadbackPolicy
    barge_in: BargeInPolicy


class Role(SpecModel):
    """An assistant role: `persona` is the L2 prompt, `directive` the L1 prompt.

    A prompt that no level of the suite uses may be left out, and so may the policy, which is a
    record for people. `job_words` are words by which a user would give the assistant's job away;
    none may occur in user speech of this role.
    """

    id: RoleId
    name: str
    domain: str
    persona: Persona = ""
    directive: Directive = ""
    policy: RolePolicy | None = None
    job_words: tuple[Annotated[str, Field(min_length=1)], ...] = ()
