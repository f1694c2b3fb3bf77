"""Where a key may be sent by HTTP. The rest of the rules is tested with adapters/peer.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from audio.endpoint_rules import Redactor, check_base_url
from audio.errors import InputError

KEY = "sk-proj-0123456789abcdef0123456789"


@pytest.mark.parametrize(("given", "kept"), [
    ("https://api.openai.com/v1", "https://api.openai.com/v1"),
    ("https://api.openai.com/v1/", "https://api.openai.com/v1"),
    ("http://127.0.0.1:8880/v1", "http://127.0.0.1:8880/v1"),
    ("http://localhost/v1", "http://localhost/v1"),
    ("http://[::1]:9", "http://[::1]:9")])
def test_addresses_that_a_key_may_be_sent_to(given: str, kept: str) -> None:
    assert check_base_url(given, where="here") == kept


@pytest.mark.parametrize("url", [
    "", "api.openai.com/v1", "wss://api.openai.com/v1", "http://api.openai.com/v1",
    "http://10.0.0.1/v1", "http://localhost.example.com", "http://0.0.0.0/v1", "https://",
    "https://ho st/v1", "https://host/v1\r\nX-Evil: 1", "https://host:0/v1", "file:///etc/passwd"])
def test_addresses_that_no_key_is_sent_to(url: str) -> None:
    with pytest.raises(InputError, match=r"^--set base_url: expected https://HOST"):
        check_base_url(url, where="--set base_url")


@pytest.mark.parametrize("url", [
    f"https://user:{KEY}@host/v1", f"https://{KEY}@host", f"https://host/v1?key={KEY}",
    f"https://host/v1#{KEY}", "https://host/v1?"])
def test_an_address_holds_no_secret_and_the_refusal_does_not_show_it(url: str) -> None:
    with pytest.raises(InputError, match="without user, query or fragment") as error:
        check_base_url(url, where="here")
    assert KEY not in str(error.value)


def test_a_redactor_takes_out_the_given_secret_and_what_looks_like_one() -> None:
    clean = Redactor(("a-secret-of-some-length",))
    assert clean("got a-secret-of-some-length, sk-abcdefgh and Bearer xyz") == (
        "got [redacted], [redacted] and [redacted]")


@pytest.mark.parametrize("written", [str.lower, str.upper, lambda k: k[:9] + k[9:].upper()])
def test_a_key_is_taken_out_however_it_is_written(written: Callable[[str], str]) -> None:
    """Header names and media types come back in small letters."""
    key = "Sk-Proj-0123456789AbCdEf0123456789"
    assert Redactor((key,))(f"got '{written(key)}', or") == "got '[redacted]', or"
