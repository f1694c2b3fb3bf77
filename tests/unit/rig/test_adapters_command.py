"""`rig adapters`: everything of the registry, in text and JSON."""

from __future__ import annotations

import json

import pytest

from adapters import registry
from adapters.base import Capabilities
from adapters.registry import Description
from adapters.spec import Setting
from rig import cli

ODD = Description(
    "odd", "a [bold] adapter", Capabilities(full_duplex=False, persona_prompt=True),
    (Setting("gain_db", "float", -3.0, "loudness, in dB", minimum=-20.0, maximum=0.0),
     Setting("loud", "bool", True, "shout"),
     Setting("voice", "str", "low", "its voice", choices=("low", "high"))),
    available=False, missing="needs a microphone")


def test_all_of_the_registry_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["adapters"]) == 0
    text = capsys.readouterr().out
    for name in registry.names():
        assert f"\n{name}  " in f"\n{text}"


def test_json_holds_what_the_registry_describes(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["adapters", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in document["adapters"]] == list(registry.names())
    by_name = {entry["name"]: entry for entry in document["adapters"]}
    endpoint = {s["name"]: s for s in by_name["long_endpoint"]["settings"]}["endpoint_s"]
    assert endpoint["kind"] == "float"
    assert endpoint["minimum"] < endpoint["default"] < endpoint["maximum"]
    assert by_name["silent"]["available"] is True
    assert by_name["silent"]["missing"] is None


def test_named_adapters_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["adapters", "echo", "silent", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {entry["name"] for entry in document["adapters"]} == {"echo", "silent"}


def test_defaults_bounds_and_what_is_missing_are_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "describe", lambda: (ODD,))
    monkeypatch.setattr(registry, "names", lambda: ("odd",))
    assert cli.main(["adapters"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "odd  a [bold] adapter",
        "    cannot run here: needs a microphone",
        "    can: persona_prompt, input_rate_hz=24000, output_rate_hz=24000, transcript=none",
        "    --set gain_db=-3.0  (a number from -20 to 0) loudness, in dB",
        "    --set loud=true  (true or false) shout",
        "    --set voice=low  (one of low, high) its voice",
    ]


def test_an_unknown_name_is_an_error_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["adapters", "long_endpont"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert "did you mean 'long_endpoint'?" in captured.err
