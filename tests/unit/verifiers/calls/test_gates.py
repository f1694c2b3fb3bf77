"""Gates at their bounds; what was not measured is neither met nor missed."""

from __future__ import annotations

import pytest

from verifiers.calls.gates import gates


@pytest.mark.parametrize(("values", "met"), [
    ((999.9, 0.330, 0.78), (True, True, True)), ((1000.0, 0.331, 0.779), (False, False, False)),
    ((None, None, None), (None, None, None)), ((0.0, 0.0, 1.0), (True, True, True)),
    ((1230.0, 0.5, 0.451), (False, False, False))])
def test_gates_at_their_bounds(values, met):
    assert tuple(gate["met"] for gate in gates(*values).values()) == met


def test_a_gate_says_its_limit_and_value():
    assert gates(500.0, None, None)["l1_p50_ms"] == {"limit": "< 1000", "value": 500.0,
                                                     "met": True}
    assert gates(None, 0.5, None)["interruption_rate"]["limit"] == "<= 0.330"
    assert gates(None, None, 0.5)["turn_take_rate"]["limit"] == ">= 0.78"
