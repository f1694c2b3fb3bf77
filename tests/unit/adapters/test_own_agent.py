"""Where a user's own agent may stand, and where its key is sent."""

from __future__ import annotations

from typing import Any

import pytest

from adapters import registry
from adapters.base import SessionConfig
from adapters.own_agent import FULL_DUPLEX, KEY, address, address_settings
from audio.errors import InputError

SECRET = "agent-0123456789-abcdefghijkl"


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENT_API_KEY", raising=False)


def of(url: str, allow: bool = False) -> str:
    return address({"url": url, "allow_plain_ws": allow}, "mine")


@pytest.mark.parametrize("url", [
    "wss://agent.example/stream", "wss://agent.example:8443/a/b/", "ws://127.0.0.1:8765",
    "ws://localhost:8765/ws", "ws://[::1]:9/v1"])
@pytest.mark.parametrize("key", ["", SECRET])
@pytest.mark.parametrize("allow", [False, True])
def test_encrypted_anywhere_and_plain_to_this_machine(
    monkeypatch: pytest.MonkeyPatch, url: str, key: str, allow: bool,
) -> None:
    monkeypatch.setenv("AGENT_API_KEY", key)
    assert of(url, allow) == url


def test_plain_elsewhere_is_asked_for_and_carries_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"^--set url \(adapter mine\): expected wss://, or ws:// "
                                         r"to this machine \(--set allow_plain_ws=true: "):
        of("ws://10.0.0.7:8765/ws")
    assert of("ws://10.0.0.7:8765/ws", allow=True) == "ws://10.0.0.7:8765/ws"
    monkeypatch.setenv("AGENT_API_KEY", SECRET)
    with pytest.raises(InputError, match="expected wss:// while AGENT_API_KEY is set") as error:
        of("ws://10.0.0.7:8765/ws", allow=True)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize("url", ["", "agent.example", "https://agent.example", "wss://", "ws://h:0",
                                 "ws://u:p@127.0.0.1", "ws://127.0.0.1/a?token=x", "wss://h/a#b",
                                 "wss://ho st", "wss://[::1", "wss://h/\r\nX: 1"])
@pytest.mark.parametrize("allow", [False, True])
def test_no_address(url: str, allow: bool) -> None:
    with pytest.raises(InputError, match=r"^--set url \(adapter mine\): expected wss://"):
        of(url, allow)


def test_other_schemes_have_the_same_rules() -> None:
    url, plain = address_settings("http://127.0.0.1:7860", secure="https", plain="http")
    assert (url.name, plain.name) == ("url", "allow_plain_http")
    given = {"url": "http://10.0.0.7/offer", "allow_plain_http": False}
    with pytest.raises(InputError, match="allow_plain_http=true"):
        address(given, "mine", secure="https", plain="http")
    assert address({**given, "allow_plain_http": True}, "mine", secure="https", plain="http")


def test_the_key_is_optional_and_sent_as_a_bearer_token(monkeypatch: pytest.MonkeyPatch) -> None:
    assert KEY.missing() is None
    assert KEY.read() == ({}, ())
    monkeypatch.setenv("AGENT_API_KEY", SECRET)
    assert KEY.read() == ({"Authorization": f"Bearer {SECRET}"}, (SECRET,))


def test_full_duplex_is_a_setting() -> None:
    assert FULL_DUPLEX.default is True


@pytest.mark.parametrize(("name", "rate_hz", "unsent"), [("twilio", 8_000, 24_000),
                                                         ("raw_pcm", 24_000, 65_536)])
def test_a_session_goes_to_the_address_as_given_with_buffers_of_a_second(
    monkeypatch: pytest.MonkeyPatch, name: str, rate_hz: int, unsent: int,
) -> None:
    opened: list[Any] = []
    monkeypatch.setattr("adapters.websocket.open_session",
                        lambda peer, wire, clock: opened.append((peer, wire)))
    monkeypatch.setenv("AGENT_API_KEY", SECRET)
    adapter = registry.create(name, {"url": "ws://127.0.0.1:8765/media/"})
    assert adapter.capabilities.input_rate_hz == rate_hz
    adapter.session(SessionConfig("R1-A-1-L2", 1, "Be brief.", 1), None)
    (peer, wire), = opened
    assert peer.uri == "ws://127.0.0.1:8765/media/"
    assert peer.headers == {"Authorization": f"Bearer {SECRET}"}
    assert peer.unsent_bytes == unsent
    assert SECRET not in repr((peer, adapter.settings, vars(adapter)))
    assert not any(SECRET in str(m) for m in wire.opening())


def test_a_key_that_comes_later_stops_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = registry.create("raw_pcm", {"url": "ws://10.0.0.7:1", "allow_plain_ws": "true"})
    monkeypatch.setenv("AGENT_API_KEY", SECRET)
    with pytest.raises(InputError, match="while AGENT_API_KEY is set"):
        adapter.session(SessionConfig("R1-A-1-L2", 1, "Be brief.", 1), None)
