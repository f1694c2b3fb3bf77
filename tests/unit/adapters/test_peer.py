"""Where a key may be sent, and that it is seen nowhere else."""

from __future__ import annotations

import re

import pytest

from adapters.base import AudioReceived, Fault, ResponseDone, StateChanged, TextDelta
from adapters.peer import Peer, Redactor, api_key, check_base_url, is_loopback, missing_key
from audio.errors import InputError

KEY = "sk-proj-0123456789abcdef0123456789"


@pytest.mark.parametrize(("given", "kept"), [
    ("wss://api.openai.com/v1", "wss://api.openai.com/v1"),
    ("wss://api.openai.com/v1/", "wss://api.openai.com/v1"),
    ("wss://host.example:8443", "wss://host.example:8443"),
    ("ws://127.0.0.1:8080/v1", "ws://127.0.0.1:8080/v1"),
    ("ws://127.9.9.9/v1", "ws://127.9.9.9/v1"),
    ("ws://localhost/v1", "ws://localhost/v1"),
    ("ws://[::1]:9/v1", "ws://[::1]:9/v1")])
def test_addresses_that_a_key_may_be_sent_to(given: str, kept: str) -> None:
    assert check_base_url(given, where="here") == kept


@pytest.mark.parametrize("url", [
    "", "api.openai.com/v1", "https://api.openai.com/v1", "http://127.0.0.1/v1", "wss://",
    "ws://api.openai.com/v1", "ws://10.0.0.1/v1", "ws://localhost.example.com/v1",
    "ws://127.0.0.1.example.com/v1", "ws://0.0.0.0/v1", "ws://[::2]/v1", "ws://[::1/v1",
    "wss://host:99999/v1", "wss://host:0/v1", "wss://host:x/v1", "wss://ho st/v1",
    "wss://host/v1\r\nX-Evil: 1", "WSS//host", "file:///etc/passwd"])
def test_addresses_that_no_key_is_sent_to(url: str) -> None:
    with pytest.raises(InputError, match=r"^--set base_url: expected wss://HOST"):
        check_base_url(url, where="--set base_url")


@pytest.mark.parametrize("url", [
    f"wss://user:{KEY}@host/v1", f"wss://{KEY}@host", f"wss://host/v1?key={KEY}",
    f"wss://host/v1#{KEY}", "wss://host/v1?"])
def test_an_address_holds_no_secret_and_the_refusal_does_not_show_it(url: str) -> None:
    with pytest.raises(InputError, match="without user, query or fragment") as error:
        check_base_url(url, where="here")
    assert KEY not in str(error.value)


def test_loopback_is_known_without_asking_a_name_server() -> None:
    assert is_loopback("localhost")
    assert is_loopback("::1")
    assert not is_loopback("localhost.localdomain")
    assert not is_loopback("")


def test_a_key_comes_from_the_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", f" {KEY}\n")
    assert api_key("SOME_KEY") == KEY
    assert missing_key("SOME_KEY") is None
    for nothing in ("", "  "):
        monkeypatch.setenv("SOME_KEY", nothing)
        with pytest.raises(InputError, match="SOME_KEY: expected a key in the environment"):
            api_key("SOME_KEY")
        assert missing_key("SOME_KEY") == (
            "the environment variable SOME_KEY is not set; export it (it is read from there and "
            "nowhere else; a server on this machine that wants none takes any value)")


@pytest.mark.parametrize("key", [f"{KEY} x", f"{KEY}\r\nX-Evil: 1", f"{KEY}é", f"{KEY}\x7f"])
def test_a_key_that_could_forge_a_header_is_refused_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, key: str,
) -> None:
    monkeypatch.setenv("SOME_KEY", key)
    with pytest.raises(InputError, match="printable ASCII without spaces") as error:
        api_key("SOME_KEY")
    assert KEY not in str(error.value)


def test_secrets_are_taken_out_of_every_text_of_an_event() -> None:
    redact = Redactor((KEY,))
    for event in (StateChanged(1, f"a {KEY}", f"b {KEY} c"), Fault(1, "transparent", f"{KEY}!"),
                  ResponseDone(1, "r", f"{KEY}"), TextDelta(1, f"my key is {KEY}", "r")):
        assert KEY not in repr(redact.event(event))
        assert "[redacted]" in repr(redact.event(event))
    plain = StateChanged(1, "a", "b")
    assert redact.event(plain) is plain
    audio = AudioReceived(1, [0.0], "r")  # type: ignore[arg-type]
    assert redact.event(audio) is audio


@pytest.mark.parametrize("kept", range(8, len(KEY)))
def test_a_key_that_was_cut_is_taken_out_as_far_as_it_goes(kept: int) -> None:
    """A message is shortened before it is told, and that may be in the middle of a key."""
    told = Redactor((KEY,))(f"x{KEY[:kept]}...")
    assert told == "x[redacted]..."
    assert Redactor((KEY,))(f"...{KEY[-kept:]}y") == "...[redacted]y"


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8, 30])
@pytest.mark.parametrize("part", [slice(None), slice(5, None), slice(0, -5)])
def test_a_key_that_is_spelled_over_many_deltas_is_taken_out(size: int, part: slice) -> None:
    text = f"The key is {KEY[part]}, and that is it. {KEY[part]}"
    redact = Redactor((KEY,))
    given = [TextDelta(k, text[k : k + size], "r") for k in range(0, len(text), size)]
    told = [e for g in [*given, ResponseDone(999, "r", "completed")] for e in redact.events(g)]
    said = "".join(e.text for e in told if isinstance(e, TextDelta))
    assert not any(KEY[k : k + 8] in said for k in range(len(KEY) - 7))
    # The first three characters may have been told before more was known.
    assert re.fullmatch(r"The key is .{0,3}\[redacted\], and that is it\. .{0,3}\[redacted\]", said)
    assert isinstance(told[-1], ResponseDone)


def test_words_that_only_begin_like_a_key_are_all_told() -> None:
    text = f"{KEY[:6]} and {KEY[3:9]}"
    redact = Redactor((KEY,))
    events = [TextDelta(k, c, "r") for k, c in enumerate(text)]
    told = [e for g in events for e in redact.events(g)]
    *_, rest, done = told = [*told, *redact.events(ResponseDone(99, "r", "completed"))]
    assert "".join(e.text for e in told if isinstance(e, TextDelta)) == text
    assert rest == TextDelta(99, text[-3:], "r")
    assert done == ResponseDone(99, "r", "completed")


def test_what_looks_like_a_key_is_taken_out_of_reasons_but_not_of_words_that_were_said() -> None:
    redact = Redactor(())
    told = "Incorrect API key provided: sk-proj-ab***yz. Header was: Bearer abc.def"
    assert redact(told) == "Incorrect API key provided: [redacted] Header was: [redacted]"
    assert redact("http://me:secret@proxy:80 isn't a valid proxy") == (
        "http://[redacted]@proxy:80 isn't a valid proxy")
    said = TextDelta(1, "sk-123456 is what I read, bearer bonds", "r")
    assert redact.event(said) is said
    assert redact("ask-someone-else, desk-lamp-0001") == "ask-someone-else, desk-lamp-0001"


def test_a_placeholder_for_a_key_takes_no_words_away() -> None:
    assert Redactor(("none",)).event(TextDelta(1, "none of it", "r")) == TextDelta(
        1, "none of it", "r")


def test_a_peer_does_not_show_its_headers() -> None:
    peer = Peer("wss://host/v1", {"Authorization": f"Bearer {KEY}"}, (KEY,))
    assert KEY not in repr(peer)
    assert "wss://host/v1" in repr(peer)
