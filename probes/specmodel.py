"""What the models of a suite's files share: strictness, rules between keys, common types."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic_core import CoreSchema

from probes import names
from probes.rules import When, as_schema, check, problem

Seconds = Annotated[float, Field(gt=0.0, le=60.0)]
Range = tuple[Seconds, Seconds]
Name = Annotated[str, Field(pattern=names.NAME, max_length=40)]
RoleId = Annotated[str, Field(pattern=names.ROLE_ID)]
Label = Annotated[str, Field(pattern=names.PROBE_LABEL)]
Prose = Annotated[str, Field(min_length=1, max_length=2000)]
Line = Annotated[str, Field(max_length=600)]
Instance = Annotated[int, Field(ge=1, le=99)]


def _whole(value: Any) -> Any:
    # Python takes true for 1; YAML and JSON Schema do not.
    if isinstance(value, bool):
        raise problem((), f"expected 1, got {value}")
    return value


SchemaVersion = Annotated[Literal[1], BeforeValidator(_whole)]


class SpecModel(BaseModel):
    """Base of everything read from a suite: unknown keys and loose types are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    RULES: ClassVar[tuple[When, ...]] = ()

    @model_validator(mode="after")
    def _keeps_rules(self) -> Self:
        check(self, self.RULES)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema,
                                     handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = handler.resolve_ref_schema(handler(core_schema))
        if cls.RULES:
            schema["allOf"] = as_schema(cls.RULES)
        return schema


def ordered(span: Range, key: str) -> None:
    """Raise a problem at `key` unless `[low, high]` has low <= high."""
    if span[0] > span[1]:
        raise problem((key,), f"expected [low, high] with low <= high, got [{span[0]:g}, "
                      f"{span[1]:g}]")
