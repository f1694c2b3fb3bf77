"""The declaration of the OpenAI Realtime adapter: settings, facts, refusals."""

from __future__ import annotations

import subprocess
import sys

import pytest

from adapters import registry
from adapters.base import SessionConfig
from adapters.openai_realtime import _SESSION_SETTINGS, CAPABILITIES, SETTINGS
from adapters.wire.openai_session import SessionSettings
from audio.errors import InputError

KEY = "sk-test-0123456789abcdef"
CONFIG = SessionConfig(case_id="R1-A-1-L0", trial=1, system_prompt="", seed=1)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def test_the_defaults_are_the_papers() -> None:
    # DSB-IFEval, appendices E.2, F.1, F.5; 24 kHz both ways.
    settings = registry.create("openai_realtime").settings
    assert {k: settings[k] for k in ("model", "voice", "turn_detection", "vad_threshold",
                                     "vad_prefix_padding_ms", "vad_silence_duration_ms")} == {
        "model": "gpt-realtime-2.1", "voice": "alloy", "turn_detection": "server_vad",
        "vad_threshold": 0.5, "vad_prefix_padding_ms": 300, "vad_silence_duration_ms": 800}
    assert settings["base_url"] == "wss://api.openai.com/v1"
    assert settings["truncate_on_barge_in"] is False


def test_the_declared_session_settings_are_those_of_the_protocol_with_the_same_defaults() -> None:
    declared = {s.name: s.default for s in SETTINGS if s.name in _SESSION_SETTINGS}
    protocol = SessionSettings()
    assert declared == {name: getattr(protocol, name)
                        for name in SessionSettings.__dataclass_fields__}


def test_it_says_what_it_can_do() -> None:
    assert CAPABILITIES.realtime_only
    assert CAPABILITIES.server_vad
    assert CAPABILITIES.reports_response_done
    assert CAPABILITIES.reports_interruption
    assert CAPABILITIES.transcript == "response"
    assert not CAPABILITIES.full_duplex
    assert (CAPABILITIES.input_rate_hz, CAPABILITIES.output_rate_hz) == (24_000, 24_000)


def test_settings_and_version_hold_no_key() -> None:
    adapter = registry.create("openai_realtime", {"voice": "cedar"})
    assert KEY not in repr((adapter, vars(adapter), adapter.settings, adapter.version))
    assert adapter.settings["voice"] == "cedar"
    assert set(adapter.settings) == {s.name for s in SETTINGS}
    assert "+openai-realtime." in adapter.version


def test_without_a_key_it_cannot_run_and_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = registry.create("openai_realtime")
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(InputError, match="cannot run here: the environment variable "
                                         "OPENAI_API_KEY is not set"):
        registry.create("openai_realtime")
    with pytest.raises(InputError, match="OPENAI_API_KEY: expected a key in the environment"):
        adapter.session(CONFIG, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("setting", "value", "message"), [
    ("base_url", "ws://api.openai.com/v1", r"--set base_url \(adapter openai_realtime\): expected"),
    ("base_url", "wss://host/v1?key=1", "without user, query or fragment"),
    ("model", "", r"--set model \(adapter openai_realtime\): expected a name, got ''"),
    ("voice", "a\nb", r"--set voice \(adapter openai_realtime\): expected a name"),
    ("vad_threshold", "1.5", "a number from 0 to 1, got '1.5'"),
    ("turn_detection", "none", "one of server_vad, semantic_vad"),
    ("max_output_tokens", "5000", "a whole number from 0 to 4096")])
def test_wrong_settings_are_refused_before_anything_is_dialled(
    setting: str, value: str, message: str,
) -> None:
    with pytest.raises(InputError, match=message):
        registry.create("openai_realtime", {setting: value})


def test_listing_it_loads_no_network_library() -> None:
    code = ("import sys; from adapters import registry; registry.spec('openai_realtime'); "
            "sys.exit(any(m.split('.')[0] == 'websockets' or m.startswith('adapters.wire') "
            "for m in sys.modules))")
    subprocess.run([sys.executable, "-c", code], check=True, timeout=900)
