"""The list of engines: what is missing is named with the command that brings it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from audio import engines
from audio.engines import ENGINES, EngineCapabilities, EngineEntry, EngineSetting, entry
from audio.errors import InputError


def made_up(**changes: object) -> EngineEntry:
    base = EngineEntry(
        "made_up", "for tests", "audio.no_such_module", "X",
        EngineCapabilities(True, False, True, ("en",), "none"), packages=("no-such-engine-1",),
        voice_packages=("no-such-voice-1",), voices_instead="model=FILE.onnx",
        settings=(EngineSetting("model", "a file"), EngineSetting("host", "a host", True),
                  EngineSetting("format", "wav", default="wav")))
    return replace(base, **changes)  # type: ignore[arg-type]


def test_packages_that_are_missing_are_named_with_a_command() -> None:
    assert made_up().missing() == "pip install no-such-engine-1 no-such-voice-1"
    assert made_up().missing({"model": "x.onnx"}) == "pip install no-such-engine-1"
    assert made_up(packages=("numpy",)).missing() == (
        "no voice: pip install no-such-voice-1, or --tts-set model=FILE.onnx")
    assert made_up(packages=("numpy",)).missing({"model": "x.onnx"}) is None
    assert made_up(packages=("numpy",), voice_packages=()).missing() is None


def test_the_command_has_the_versions_of_our_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines.metadata, "requires", lambda _: [
        "numpy>=1", 'one==1.2; extra == "made"', 'two<3; extra == "made"', 'x; extra == "other"'])
    assert made_up(extra="made").missing() == 'pip install "one==1.2" "two<3"'


def test_settings_are_checked_by_name_and_presence() -> None:
    assert made_up().effective({"host": " h "}) == {"model": "", "host": "h", "format": "wav"}
    with pytest.raises(InputError, match="made_up has no such setting; did you mean 'model'"):
        made_up().effective({"modell": "x"})
    for nothing in ({}, {"host": " "}):
        with pytest.raises(InputError, match=r"expected --tts-set host=\.\.\., got none"):
            made_up().effective(nothing)


def test_an_engine_is_refused_in_one_line_where_its_package_is_missing() -> None:
    with pytest.raises(InputError, match="made_up: expected its packages to be installed, got not "
                                         "all; pip install no-such-engine-1"):
        made_up().build({"host": "h"})
    with pytest.raises(InputError, match="expected its package to be installed, got No module"):
        made_up(packages=(), voice_packages=()).build({"host": "h"})


def test_unknown_engine() -> None:
    with pytest.raises(InputError, match="did you mean 'piper'"):
        entry("pipper")


def test_what_the_list_promises() -> None:
    assert next(iter(ENGINES)) == "hibari"
    assert [name for name, e in ENGINES.items() if e.capabilities.needs_network] == ["endpoint"]
    assert [name for name, e in ENGINES.items() if not e.capabilities.deterministic] == [
        "endpoint"]
    assert [name for name, e in ENGINES.items() if not e.capabilities.verified] == ["xtts"]
    for e in ENGINES.values():
        # What is under the GPL, or loads something that is, never runs in the rig's process.
        assert e.capabilities.own_process or "GPL" not in e.capabilities.licence
        assert json.loads(json.dumps(e.as_dict()))["capabilities"]["verified"] is (
            e.capabilities.verified)
