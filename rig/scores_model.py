"""What `scores.json` must hold for rig to read it back: the whole, and each case."""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from audio.errors import InputError
from rig.playout import Policy
from rig.store import first_problem
from verifiers.scene import Action
from verifiers.verdict import Outcome

M = TypeVar("M", bound=BaseModel)


def _finite(numbers: dict[str, Any]) -> dict[str, Any]:
    json.dumps(numbers, allow_nan=False)
    return numbers


class Lenient(BaseModel):
    """A later rig may say more."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)


class _Stat(Lenient):
    n: int
    rate: float | None
    ci: tuple[float, float] | None = Field(None, strict=False)
    unscored: int = 0
    passed: int = 0


class _Ias(Lenient):
    core: dict[str, _Stat]
    all: dict[str, _Stat]
    by_action: dict[str, _Stat]
    by_role: dict[str, _Stat]


class _Latency(Lenient):
    n: int
    missing: int = 0
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None


class Document(Lenient):
    """What `scores.json` says of the whole run, as far as pages show it."""

    playout: Policy
    ias: _Ias
    latency: dict[str, _Latency]
    flags: dict[str, int]
    attempts: dict[str, int]
    conditions: list[str] = []


class DifferenceEntry(Lenient):
    case_id: str
    trial: int
    hold: Annotated[Outcome, Field(strict=False)]
    flush: Annotated[Outcome, Field(strict=False)]


class _Alternate(Lenient):
    outcome: Annotated[Outcome, Field(strict=False)]
    reason: str


class CaseEntry(Lenient):
    """One case of `scores.json`."""

    case_id: str
    trial: Annotated[int, Field(ge=1)]
    role: str | None
    probe: str | None
    level: str | None
    expected_action: Annotated[Action, Field(strict=False)]
    outcome: Annotated[Outcome, Field(strict=False)]
    reason: str
    value: float | None = None
    unit: str | None = None
    limit: float | None = None
    measured: Annotated[dict[str, Any], AfterValidator(_finite)]
    flags: list[str]
    alternates: dict[str, _Alternate] = {}


def check(model: type[M], data: object, where: object) -> M:
    """`data` as one of these models. Raises `InputError` that says where and what is wrong."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise InputError.expected("scores and measurements as `rig score` writes them",
                                  got=first_problem(error, model), where=where) from error
