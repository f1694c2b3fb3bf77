"""A measurement as plain JSON data and back, checked strictly on the way in."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

from audio.errors import InputError
from verifiers.measurement import Measurement, Readback, WindowReading

SCHEMA_VERSION = 1
"""Raise it when a field of `Measurement` changes its meaning."""

# The dataclasses stay plain in memory; on disk a field too many or of another type is an error.
for _part in (WindowReading, Readback, Measurement):
    with_config(ConfigDict(extra="forbid", strict=True))(_part)
_ADAPTER = TypeAdapter(Measurement)


def to_json(measurement: Measurement) -> dict[str, Any]:
    """Every field, times in integer nanoseconds, tuples as lists."""
    return {"schema_version": SCHEMA_VERSION, **_ADAPTER.dump_python(measurement, mode="json")}


def from_json(data: dict[str, Any], where: str) -> Measurement:
    """Read what `to_json` gave. Raises `InputError` that names `where`."""
    fields = {name: value for name, value in data.items() if name != "schema_version"}
    version = data.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InputError.expected(f"a measurement of schema version {SCHEMA_VERSION}",
                                  got=repr(version), where=where)
    try:
        return _ADAPTER.validate_json(json.dumps(fields))
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError.expected(
            "a stored measurement", got=f"{error.error_count()} wrong field(s), first "
            f"{'.'.join(map(str, first['loc']))}: {first['msg']}", where=where) from None
