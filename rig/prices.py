"""What a session costs: the table of prices, the price of one system, and sums that know what they
do not know.

Unknown is unknown and never 0: a session without a price, without the counts that its price is in,
or with a count that has no price, makes a sum a lower bound.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from adapters import registry
from adapters.base import Adapter
from probes.rules import problem
from probes.yamlfile import parse, read_yaml, show
from rig.spending import Cost, Spent

ENVIRONMENT = "DUPLEXRIG_PRICES"
"""Names a file of prices, as `--prices` does."""
SHIPPED = "prices.yaml"
ANY = "*"
NOTHING_LEAVES = "nothing leaves this machine"

Amount = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False, strict=True)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Minutes = Literal["session", "audio_in", "audio_out"]
Tokens = Literal["audio_in", "text_in", "image_in", "cached_audio_in", "cached_text_in",
                 "cached_image_in", "audio_out", "text_out"]

_APART = {"delegations": "work delegated to another model",
          "transcription_tokens": "transcription of the user",
          "transcription_s": "transcription of the user"}
"""Counts that no entry prices."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Price(_Model):
    """One entry. It is for an adapter, one of its models (none named: all) and one address (none
    named: the adapter's default)."""

    adapter: Name
    model: Name = ANY
    base_url: Name | None = None
    currency: str
    date: str
    source: Name
    per_minute: dict[Minutes, Amount] = Field(default_factory=dict)
    per_million_tokens: dict[Tokens, Amount] = Field(default_factory=dict)
    estimate_per_minute: Amount | None = None

    @model_validator(mode="after")
    def _priced(self) -> Price:
        if not re.fullmatch(r"[A-Z]{3}", self.currency):
            raise problem(("currency",), "expected three capital letters, as in USD, got "
                                         f"{self.currency[:20]!r}")
        try:
            date.fromisoformat(self.date)
        except ValueError:
            raise problem(("date",), "expected the day of the source, as in \"2026-11-30\", got "
                                     f"{self.date[:20]!r}") from None
        if not self.per_minute and not self.per_million_tokens:
            raise problem((), "expected per_minute or per_million_tokens, got neither")
        return self


class PriceFile(_Model):
    """A file of prices."""

    version: Literal[1]
    prices: tuple[Price, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """An entry and the file that it comes from."""

    price: Price
    file: str


@dataclass(frozen=True, slots=True)
class Tariff:
    """How the sessions of one system are paid: by an entry, not at all, or nobody knows (`why`)."""

    price: Price | None
    free: bool
    why: str

    @property
    def known(self) -> bool:
        return self.free or self.price is not None

    @property
    def currency(self) -> str | None:
        return None if self.price is None else self.price.currency

    def cost(self, spent: Spent) -> Cost:
        """What a session cost. One that never became ready cost nothing."""
        if self.free or spent.session_s == 0:
            return Cost(0.0)
        if self.price is None:
            return Cost(0.0, (self.why,))
        usage = spent.usage or {}
        minutes = {"session": _session_s(spent) / 60, "audio_in": spent.sent_s / 60,
                   "audio_out": spent.received_s / 60}
        parts = [rate * minutes[what] for what, rate in self.price.per_minute.items()]
        missing = [what for unit, what in _APART.items() if usage.get(unit)]
        if self.price.per_million_tokens:
            parts += [rate * usage.get(f"{kind}_tokens", 0.0) / 1e6
                      for kind, rate in self.price.per_million_tokens.items()]
            if spent.usage is None:
                missing.append("the tokens, which were not reported")
            missing += [f"{unit.replace('_', ' ')}, which have no price" for unit, n
                        in usage.items() if n and self._unpriced(unit)]
            if usage.get("unreported_responses"):
                missing.append("responses or transcriptions whose tokens were not reported")
        return Cost(math.fsum(parts), tuple(dict.fromkeys(missing)))

    def _unpriced(self, unit: str) -> bool:
        assert self.price is not None
        kind = unit.removesuffix("_tokens")
        return unit.endswith("_tokens") and unit not in _APART \
            and kind not in self.price.per_million_tokens

    def estimate(self, session_s: float) -> float | None:
        """What a session of this length costs at most, `None` where that cannot be told.

        `estimate_per_minute`, but never below what a minute is sure to cost: the session's, and the
        user's audio, which is sent all the time. Without an estimate, the prices by the minute with
        audio both ways all the time.
        """
        if self.free:
            return 0.0
        if self.price is None:
            return None
        if self.price.estimate_per_minute is not None:
            rates = self.price.per_minute
            sure = rates.get("session", 0.0) + rates.get("audio_in", 0.0)
            return max(self.price.estimate_per_minute, sure) * session_s / 60
        if self.price.per_million_tokens:
            return None
        return math.fsum(self.price.per_minute.values()) * session_s / 60


def _session_s(spent: Spent) -> float:
    """By the provider's final count, but never below an earlier one of its own; before one, by its
    last or by our clock, whichever is more."""
    usage = spent.usage or {}
    final = usage.get("session_s")
    return max(spent.session_s if final is None else final, usage.get("session_s_so_far", 0.0))


@dataclass(frozen=True, slots=True)
class PriceBook:
    """Every entry; those of the user's file come first and win."""

    entries: tuple[Listed, ...]

    def tariff(self, adapter: Adapter) -> Tariff:
        """The tariff of a system as it is set. Within a file the closest entry wins: one for its
        model over one for any."""
        settings = adapter.settings
        model = settings.get("model")
        base_url, default_url = registry.spec(adapter.name).address(settings)
        fitting = [e for e in self.entries
                   if e.price.adapter == adapter.name and e.price.model in (ANY, model)
                   and (e.price.base_url in (ANY, base_url)
                        or (e.price.base_url is None and base_url == default_url))]
        ranks = list(dict.fromkeys(e.file for e in self.entries))
        best = min(fitting, key=lambda e: (ranks.index(e.file), e.price.model == ANY,
                                           e.price.base_url == ANY), default=None)
        price = None if best is None else best.price
        if price is not None:
            return Tariff(price, free=False, why=f"{price.source} ({price.date})")
        if not adapter.capabilities.realtime_only:
            return Tariff(None, free=True, why=NOTHING_LEAVES)
        of_model = f", model {model}" if model else ""
        at_url = f", address {base_url}" if base_url != default_url else ""
        return Tariff(None, free=False, why=f"no price for {adapter.name}{of_model}{at_url}; add "
                      "it to a file for --prices (docs/limits.md)")


def price_book(path: Path | None, environment: Mapping[str, str] | None = None) -> PriceBook:
    """The shipped prices, and before them those of `path`, else of the file that `ENVIRONMENT`
    names. Raises `InputError` with file and line."""
    named = (os.environ if environment is None else environment).get(ENVIRONMENT, "")
    own = path if path is not None else Path(named) if named.strip() else None
    with as_file(files("rig") / SHIPPED) as shipped:
        entries = _entries(shipped, "shipped with the rig")
    return PriceBook((*(() if own is None else _entries(own, show(own))), *entries))


def _entries(path: Path, called: str) -> Iterable[Listed]:
    source = read_yaml(path)
    table = parse(PriceFile, source)
    seen: dict[tuple[str, str, str | None], int] = {}
    known = registry.names()
    for k, price in enumerate(table.prices):
        at = ("prices", k)
        if price.adapter not in known:
            raise source.error((*at, "adapter"), f"expected an adapter ({', '.join(known)}), got "
                                                 f"{price.adapter!r}")
        key = price.adapter, price.model, price.base_url
        if key in seen:
            raise source.error(at, f"expected one price for {price.adapter}, model {price.model}, "
                                   f"got another (first on line {seen[key]})")
        seen[key] = source.line(at)
    return tuple(Listed(price, called) for price in table.prices)


def money(amount: float, currency: str | None) -> str:
    """`USD 0.0123`: four digits behind the point, since a session may cost a cent."""
    return f"{currency or ''} {amount:.4f}".strip()


def as_row(listed: Listed) -> dict[str, Any]:
    """One entry as plain JSON types, with the file that it comes from."""
    return {**listed.price.model_dump(), "file": listed.file}
