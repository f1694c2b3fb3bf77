from __future__ import annotations

import json

import pytest

from audio.errors import InputError
from verifiers.measurement import measure
from verifiers.record import from_json, to_json

S = 1_000_000_000


@pytest.fixture
def full(make):
    return measure(make("READBACK").scene(
        (-S, S), (2 * S, 4 * S), target_text="four", says=((S, "4"),), user_offset_ns=S,
        alternates={"during_turn2": (-S, S)}, forced=True))


def test_a_measurement_survives_json(make, full):
    for measurement in (full, measure(make("LISTEN").scene(recorded=-S))):
        stored = json.loads(json.dumps(to_json(measurement)))
        assert from_json(stored, "measurements.jsonl:1") == measurement
    assert to_json(full)["schema_version"] == 1
    assert to_json(full)["scored"]["onset_ns"] == 2 * S


@pytest.mark.parametrize("change", [
    {"schema_version": 2}, {"schema_version": None}, {"extra": 1}, {"forced": 1},
    {"user_offset_ns": "12"}, {"user_offset_ns": 1.5}, {"scored": None}, {"scored": {"x": 1}}])
def test_anything_else_is_refused(full, change):
    with pytest.raises(InputError, match=r"^measurements\.jsonl:7: expected a "):
        from_json({**to_json(full), **change}, "measurements.jsonl:7")


def test_an_unknown_field_inside_is_refused(full):
    data = to_json(full)
    data["scored"]["onset_s"] = 1.0
    with pytest.raises(InputError, match="onset_s"):
        from_json(data, "here")
