"""JSON whose objects have every key once."""

from __future__ import annotations

import json

import pytest

from audio.json_keys import KeyTwiceError, loads_once


@pytest.mark.parametrize("text", ['{"a": 1, "b": {"a": 2}, "c": [{"a": 3}, {"a": 3}]}', "[1, 2]",
                                  '"a"', '{"a": 1, "A": 2}'])
def test_the_same_key_in_different_objects_is_read(text: str) -> None:
    assert loads_once(text) == json.loads(text)


@pytest.mark.parametrize(("text", "key"), [
    ('{"a": 1, "a": 1}', "'a'"), ('[{"b": {"a": 1, "c": 2, "a": 3}}]', "'a'"),
    ('{"a": 1, "\\u0061": 2}', "'a'"), ('{"": 1, "": 1}', "''"),
    ('{"\\ud800": 1, "\\ud800": 1}', r"'\ud800'"), ('{"\\n": 1, "\\n": 1}', r"'\n'"),
    ('{"' + "k" * 100_000 + '": 1, "' + "k" * 100_000 + '": 1}', "'" + "k" * 60 + "'")],
    ids=["same value", "inside", "escaped", "empty", "surrogate", "line", "long"])
def test_a_key_twice_in_one_object_is_named_in_one_line(text: str, key: str) -> None:
    with pytest.raises(KeyTwiceError) as refused:
        loads_once(text)
    assert str(refused.value) == f"expected the key {key} once, got it again"


def test_what_is_no_json_is_so_before_a_key_is_asked_for() -> None:
    with pytest.raises(json.JSONDecodeError):
        loads_once('{"a": 1, "a": 2')


def test_constants_that_json_does_not_know_are_for_the_caller() -> None:
    assert loads_once("[NaN]", parse_constant=str) == ["NaN"]
