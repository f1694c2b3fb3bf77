"""`RUN/judge/NAME.json`: everything a judge said of a run, and the figures drawn from it.

The same answers give the same bytes, whether they came from an endpoint or the cache.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Interval = tuple[float, float]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class JudgeFacts(_Model):
    """Who judged, and how it was asked."""

    name: str
    base_url: str
    model: str
    temperature: float | None
    max_tokens: int
    json_mode: bool


class PromptFacts(_Model):
    """What was asked: version and hash of our prompt, and of the suite's personas and rules."""

    version: str
    sha256: str
    roles_sha256: str


class JudgedCase(_Model):
    """One case and trial. Numbers are `None` unless `status` is `judged`.

    `judge_error`: an answer of no use, or none (`reason`); `not_judged`: never asked; `unscored`:
    nothing to judge (not played, a damaged recording).
    """

    case_id: str
    trial: int
    role: str
    probe: str
    level: str
    stream: str
    status: Literal["judged", "judge_error", "not_judged", "unscored"]
    reason: str | None = None
    request_sha256: str | None = None
    transcript: Literal["native", "recognised", "none"] | None = None
    heard: Literal["said", "no_speech", "no_words"] | None = None
    words: int | None = None
    words_dropped: int | None = None
    flags: tuple[str, ...] = ()
    register_fit: int | None = Field(None, ge=0, le=5)
    content_fit: int | None = Field(None, ge=0, le=5)
    pas: int | None = Field(None, ge=0, le=100)
    conflict: Literal["directive-wins", "persona-wins", "balanced", "incoherent"] | None = None
    reasons: dict[str, str] | None = None
    verdict: str | None = None
    repeats_pas: tuple[int | None, ...] = ()
    """PAS of every asking, the first included; empty without --reask."""
    repeats_conflict: tuple[str | None, ...] = ()


class Mean(_Model):
    """Mean PAS, 0..100, over `n` usable answers; the interval is bootstrapped over `streams`."""

    n: int
    mean: float | None
    interval: Interval | None
    streams: int
    errors: int
    missing: int
    reason: str | None


class RoleMean(Mean):
    by_level: dict[str, Mean]


class Pas(_Model):
    by_level: dict[str, Mean]
    by_role: dict[str, RoleMean]
    """Over every level but L4a."""


class Share(_Model):
    """Share in 0..1."""

    n: int
    count: int
    share: float | None
    interval: Interval | None
    upper_bound_of_zero: float | None = None
    """What a share of 0 may be at most (95 %, one-sided); `None` for others."""
    reason: str | None


class CountedShare(Share):
    errors: int
    missing: int


class Profile(_Model):
    should_win: str
    n: int
    errors: int
    missing: int
    labels: dict[str, Share]


class LabelByVerdict(_Model):
    """Counts by level, label and verdict; `None` with a reason where there are no verdicts."""

    counts: dict[str, dict[str, dict[str, int]]] | None
    reason: str | None


class Agreed(_Model):
    value: float | None
    n: int
    reason: str | None


class Agreement(_Model):
    """This judge and another on the same cases. `mean_difference` is the other minus this one."""

    second: str
    pas: dict[Literal["pearson", "spearman", "mae", "mean_difference"], Agreed]
    conflict: dict[Literal["accuracy", "macro_f1", "kappa"], Agreed]


class Instability(_Model):
    """How far answers to one question lie apart (--reask)."""

    asked: int
    cases: int
    left_out: int
    reason: str | None
    pas_sd: float | None
    pas_range_mean: float | None
    pas_range_median: float | None
    pas_range_max: int | None
    pas_changed: Share
    label_changed: Share


class JudgeResult(_Model):
    """The file."""

    schema_version: Literal[1] = 1
    run: str
    suite: str
    suite_version: str
    adapter: str
    judge: JudgeFacts
    prompt: PromptFacts
    playout: Literal["hold", "flush"]
    vad: dict[str, Any]
    draws: int
    seed: int
    counts: dict[str, int]
    """Cases by `status`, by `transcript` and `heard`, flags, errors by rule."""
    pas: Pas
    conflict_profile: dict[str, Profile]
    safety_override: CountedShare | None
    label_by_verdict: LabelByVerdict
    agreement: Agreement | None = None
    instability: Instability | None = None
    cases: tuple[JudgedCase, ...]

    @property
    def complete(self) -> bool:
        """Every session that could be judged was."""
        return not self.counts.get("judge_error") and not self.counts.get("not_judged")
