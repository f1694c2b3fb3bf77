"""Names, settings from text, and errors that help."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

from adapters import registry
from adapters.base import Capabilities
from adapters.spec import AdapterSpec, Setting
from audio.errors import InputError

ALL = ("silent", "monologue", "echo", "metronome", "long_endpoint", "eager", "random", "oracle",
       "inverse")


def test_names_are_the_nine_agents() -> None:
    assert registry.names()[: len(ALL)] == ALL


@pytest.mark.parametrize("name", ALL)
def test_every_agent_is_built_with_its_defaults(name: str) -> None:
    adapter = registry.create(name)
    spec = registry.spec(name)
    assert adapter.name == name
    assert adapter.settings == {s.name: s.default for s in spec.settings}
    assert adapter.capabilities == spec.capabilities
    assert adapter.version.count("+agents.") == 1


def test_description_is_plain_json() -> None:
    described = json.loads(json.dumps([d.as_dict() for d in registry.describe()]))
    by_name = {d["name"]: d for d in described}
    assert by_name["echo"]["settings"] == [{
        "name": "delay_s", "kind": "float", "default": 0.5,
        "help": "delay of the echo, in seconds", "minimum": 0.02, "maximum": 10.0, "choices": []}]
    assert by_name["echo"]["capabilities"]["transcript"] == "none"
    assert by_name["oracle"]["capabilities"]["wants_hint"] is True
    assert [n for n, d in by_name.items() if d["capabilities"]["wants_hint"]] == ["oracle",
                                                                                  "inverse"]
    assert all(d["available"] and d["missing"] is None for n, d in by_name.items() if n in ALL)


def test_defaults_lie_within_their_bounds() -> None:
    for name in registry.names():
        for setting in registry.spec(name).settings:
            assert setting.parse(str(setting.default), where="default") == setting.default


def test_unknown_adapter_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"--adapter slient: no such adapter; did you mean "
                                         r"'silent'\? \(known: silent, monologue"):
        registry.create("slient")
    with pytest.raises(InputError, match=r"--adapter qqq: no such adapter \(known"):
        registry.create("qqq")


def test_unknown_setting_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"--set endpoint: adapter long_endpoint has no such "
                                         r"setting; did you mean 'endpoint_s'\?; it has: "
                                         r"endpoint_s, reply_s"):
        registry.create("long_endpoint", {"endpoint": "1"})
    with pytest.raises(InputError, match=r"it has: none"):
        registry.create("silent", {"latency_s": "1"})


@pytest.mark.parametrize("text", ["abc", "", "0.1", "31", "nan", "inf", "1e400", "0x2", "1,5"])
def test_a_value_outside_type_or_bounds_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"--set endpoint_s \(adapter long_endpoint\): expected a "
                                         r"number from 0.2 to 30, got '"):
        registry.create("long_endpoint", {"endpoint_s": text})


def test_bounds_are_inclusive_and_values_are_numbers() -> None:
    adapter = registry.create("long_endpoint", {"endpoint_s": " 0.2 ", "reply_s": "60"})
    assert adapter.settings == {"endpoint_s": 0.2, "reply_s": 60.0}


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InputError, match=r"min_talk_s of at most max_talk_s \(1\), got 2"):
        registry.create("random", {"min_talk_s": "2", "max_talk_s": "1"})


def test_effective_settings_cannot_be_changed_from_outside() -> None:
    adapter = registry.create("echo")
    adapter.settings["delay_s"] = 9.0
    assert adapter.settings == {"delay_s": 0.5}


def _spec_with(*settings: Setting, missing: str | None = None) -> AdapterSpec:
    def build(_values: object) -> object:
        raise AssertionError("must not be built")

    return AdapterSpec("thing", "a thing", Capabilities(True, True), build,  # type: ignore[arg-type]
                       settings, lambda: missing)


@pytest.mark.parametrize(("setting", "text", "value"), [
    (Setting("n", "int", 1, ""), "12", 12),
    (Setting("b", "bool", True, ""), "off", False),
    (Setting("b", "bool", False, ""), "Yes", True),
    (Setting("s", "str", "x", ""), " free text ", "free text"),
    (Setting("c", "str", "x", "", choices=("x", "y")), "y", "y"),
])
def test_every_kind_of_value(setting: Setting, text: str, value: object) -> None:
    got = _spec_with(setting).effective({setting.name: text})[setting.name]
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(("setting", "text", "match"), [
    (Setting("n", "int", 1, ""), "1.5", "expected a whole number, got '1.5'"),
    (Setting("n", "int", 1, "", minimum=1), "0", "a whole number of at least 1, got '0'"),
    (Setting("x", "float", 1, "", maximum=2), "2.1", "a number of at most 2, got '2.1'"),
    (Setting("s", "str", "x", ""), "a\udcff", r"expected text in UTF-8, got 'a\\udcff'"),
    (Setting("b", "bool", True, ""), "maybe", "expected true or false, got 'maybe'"),
    (Setting("c", "str", "x", "", choices=("x", "y")), "z", "expected one of x, y, got 'z'"),
])
def test_every_kind_of_refusal(setting: Setting, text: str, match: str) -> None:
    with pytest.raises(InputError, match=match):
        _spec_with(setting).effective({setting.name: text})


def test_what_is_missing_stops_creation_but_not_description(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lacking = _spec_with(missing="needs the package that nobody has; pip install it")
    monkeypatch.setattr(registry, "spec", lambda _name: lacking)
    with pytest.raises(InputError, match="--adapter thing: cannot run here: needs the package"):
        registry.create("thing")
    described = registry.describe()[0]
    assert (described.available, described.missing) == (False, lacking.missing())


def test_without_their_engine_all_but_silent_and_echo_say_what_they_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec",
                        lambda name: None if name == "hibari" else find(name))
    can = [d.name for d in registry.describe() if d.name in ALL and d.available]
    assert can == ["silent", "echo"]
    with pytest.raises(InputError, match="--adapter oracle: cannot run here: it speaks with the "
                                         "package hibari-tts; pip install hibari-tts"):
        registry.create("oracle")


def test_importing_the_registry_imports_no_adapter() -> None:
    code = ("import sys, adapters.registry as r; r.names(); "
            "print([m for m in sys.modules if m.startswith(('adapters.simulated', 'hibari', "
            "'onnxruntime'))])")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
