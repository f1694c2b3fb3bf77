"""Rules between the keys of one mapping, written once: for the loader and for the JSON Schema.

A model lists its rules in `RULES`; `check` applies them, `as_schema` writes them as `if`/`then`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

PROBLEM = "suite_rule"
"""Type of a problem whose context says at which key, below its model, it stands."""


@dataclass(frozen=True, slots=True)
class When:
    """Where `key` holds one of `values`: `needs` must be given, `refuses` must not be.

    A dot leads into a mapping (`params.max_wait_s`). `hint` ends the message.
    """

    key: str
    values: tuple[str, ...]
    needs: tuple[str, ...] = ()
    refuses: tuple[str, ...] = ()
    hint: str = ""


class EachOnce:
    """For `Annotated`: no item of a list stands there twice."""

    def __get_pydantic_core_schema__(self, source: Any,
                                     handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(_each_once, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema,
                                     handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "uniqueItems": True}


def _each_once(items: tuple[Any, ...]) -> tuple[Any, ...]:
    for i, item in enumerate(items):
        if item in items[:i]:
            raise problem((i,), f"expected each item once, got {item!r} again")
    return items


def problem(at: Iterable[str | int], message: str) -> PydanticCustomError:
    """What a validator raises: a message, and the keys below its model that lead to the line."""
    return PydanticCustomError(PROBLEM, "{message}", {"message": message, "at": tuple(at)})


def check(model: BaseModel, rules: Iterable[When]) -> None:
    """Raise `problem` for the first rule that the model breaks."""
    for rule in rules:
        value = getattr(model, rule.key)
        if value not in rule.values:
            continue
        where = f"where {rule.key} is {value}" + (f"; {rule.hint}" if rule.hint else "")
        for path in rule.needs:
            if _value(model, path) is None:
                raise problem((), f"expected key {path!r} {where}, got none")
        for path in rule.refuses:
            if _value(model, path) is not None:
                raise problem(path.split("."), f"no place for {path.split('.')[-1]!r} {where}")


def as_schema(rules: Iterable[When]) -> list[dict[str, Any]]:
    """The rules as JSON Schema, one `if`/`then` each."""
    out = []
    for rule in rules:
        then: dict[str, Any] = {}
        for path in rule.needs:
            _require(then, path.split("."))
        for path in rule.refuses:
            _forbid(then, path.split("."))
        condition = {"properties": {rule.key: {"enum": list(rule.values)}}, "required": [rule.key]}
        out.append({"if": condition, "then": then})
    return out


def _value(model: Any, path: str) -> Any:
    for part in path.split("."):
        model = None if model is None else getattr(model, part)
    return model


def _require(schema: dict[str, Any], path: list[str]) -> None:
    schema.setdefault("required", []).append(path[0])
    inner = schema.setdefault("properties", {}).setdefault(path[0], {})
    if path[1:]:
        _require(inner, path[1:])
    else:
        inner["not"] = {"type": "null"}


def _forbid(schema: dict[str, Any], path: list[str]) -> None:
    inner = schema.setdefault("properties", {}).setdefault(path[0], {})
    if path[1:]:
        _forbid(inner, path[1:])
    else:
        inner["type"] = "null"
