"""The WebRTC adapter's declaration; nothing here needs the extra."""

from __future__ import annotations

import importlib.util

import pytest

from adapters import registry, webrtc
from adapters.base import Adapter
from audio.errors import InputError

SPEC = webrtc.WEBRTC


def adapter(**settings: str) -> Adapter:
    return SPEC.build(SPEC.effective(settings))


def test_it_is_listed_and_says_how_to_get_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert registry.spec("webrtc") is SPEC
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert SPEC.missing() == ('aiortc, aioice, av not installed: pip install "aiortc==1.16.0" '
                              "(the extra webrtc)")
    with pytest.raises(InputError, match="cannot run here: aiortc, aioice, av not installed"):
        registry.create("webrtc")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert SPEC.missing() is None


def test_what_it_can_do_follows_from_the_settings() -> None:
    calm = adapter().capabilities
    assert (calm.input_rate_hz, calm.output_rate_hz) == (48_000, 48_000)
    assert calm.full_duplex
    assert calm.realtime_only
    assert not calm.persona_prompt
    assert not calm.reports_response_done
    assert calm.transcript == "stream"
    bare = adapter(data_channel="false", full_duplex="false").capabilities
    assert (bare.transcript, bare.reports_interruption, bare.full_duplex) == ("none", False, False)
    assert adapter(words="none").capabilities.transcript == "none"
    assert adapter(prompt_key="system_prompt").capabilities.persona_prompt


def test_version_and_settings_are_told() -> None:
    made = adapter(jitter_ms="60")
    assert "+webrtc.1+aiortc." in made.version
    assert made.settings["jitter_ms"] == 60
    assert made.name == "webrtc"


@pytest.mark.parametrize("url", ["http://127.0.0.1:7860/api/offer", "https://agent.example/offer",
                                 "http://localhost:1", "https://agent.example"])
def test_addresses_that_may_be_used(url: str) -> None:
    assert adapter(url=url).settings["url"] == url


@pytest.mark.parametrize("url", ["http://agent.example/offer", "ws://127.0.0.1/", "agent.example",
                                 "https://user:pw@agent.example", "https://agent.example/?key=1"])
def test_addresses_that_may_not(url: str) -> None:
    with pytest.raises(InputError, match=r"--set url \(adapter webrtc\)"):
        adapter(url=url)


def test_unencrypted_elsewhere_is_a_setting_and_never_with_a_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AGENT_API_KEY", raising=False)
    adapter(url="http://agent.example/offer", allow_plain_http="true")
    monkeypatch.setenv("AGENT_API_KEY", "k" * 32)
    with pytest.raises(InputError, match="no key is sent unencrypted"):
        adapter(url="http://agent.example/offer", allow_plain_http="true")


def test_ice_servers_are_addresses() -> None:
    assert webrtc.ice_servers("") == ()
    assert webrtc.ice_servers("stun:stun.example, turn:t.example:3478?transport=tcp") == (
        "stun:stun.example", "turn:t.example:3478?transport=tcp")
    for bad in ("http://x", "turn:user:pw@t.example", "stun:", "stun:x?transport=sctp"):
        with pytest.raises(InputError, match="--set ice_servers"):
            adapter(ice_servers=bad)


def test_a_prompt_key_is_a_name() -> None:
    with pytest.raises(InputError, match="--set prompt_key"):
        adapter(prompt_key="x\ty")
