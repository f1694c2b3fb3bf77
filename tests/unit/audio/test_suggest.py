"""Which name was meant: one that is near, and none rather than a far one."""

from __future__ import annotations

import pytest

from adapters import registry
from audio.suggest import did_you_mean


@pytest.mark.parametrize("given", ["nope", "livekit", "other", "agent", "xyzzy", ""])
def test_no_far_name_is_proposed(given: str) -> None:
    """Two letters of four in common, as `nope` has with `peer`, or three of five, as `agent` has
    with `eager`, make no name near."""
    assert did_you_mean(given, registry.names()) == ""


@pytest.mark.parametrize(("given", "meant"), [
    ("sillent", "silent"), ("xilent", "silent"), ("openai", "openai_realtime"),
    ("Gemini", "gemini_live")])
def test_a_near_name_is(given: str, meant: str) -> None:
    assert did_you_mean(given, registry.names()) == f"; did you mean {meant!r}?"


def test_of_two_letters_one_is_enough_where_it_stands_in_its_place() -> None:
    assert did_you_mean("R9", ["R1"]) == "; did you mean 'R1'?"
    assert did_you_mean("ORDER_NUMBR", ["PAUSE", "NUMBER"]) == "; did you mean 'NUMBER'?"
    assert did_you_mean("9R", ["R1"]) == ""
