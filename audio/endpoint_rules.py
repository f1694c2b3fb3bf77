"""Servers on a network: which addresses a key may be sent to, and how it is kept out of everything.

A key comes from the environment, goes into the request that is sent, and appears nowhere else: not
in settings, files, cache keys, logs or error messages. Nothing here opens a connection.
"""

from __future__ import annotations

import ipaddress
import os
import re
from itertools import groupby
from operator import itemgetter
from string import ascii_uppercase
from urllib.parse import urlsplit

from audio.errors import InputError

_KEY_LIKE = re.compile(
    r"\b(?:sk|ek|pk)[-_][A-Za-z0-9_*.\-]{6,}|(?i:\bbearer\s+)\S+|(?<=://)[^\s/@]+(?=@)")
"""Keys by their usual prefixes, authorization headers, user and password in an address."""
SECRET_MIN_CHARS = 16
"""A shorter key is a placeholder for a server that wants none ("none", "test"): taking it out would
take words out of transcripts. Ours: keys of hosted systems have 39 characters and more."""


SECRET_PART_CHARS = 8
"""Ours: what is left of a random key after this much of it is beyond guessing."""


def check_base_url(
    url: str, *, where: str, secure: str = "https", plain: str = "http",
    plain_anywhere: bool = False,
) -> str:
    """An address that a key may be sent to, without a trailing slash.

    The scheme `secure` anywhere, `plain` to this machine alone; `plain_anywhere` is for who sends
    no key. Raises `InputError` for anything else, and for a user, query or fragment: the address is
    written into files and must hold no secret.
    """
    near_only = "" if plain_anywhere else " to this machine (localhost, 127.0.0.1, [::1])"
    expected = f"{secure}://HOST[:PORT][/PATH], or {plain}://{near_only}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InputError.expected(expected, got="an address that cannot be read",
                                  where=where) from None
    if "@" in parts.netloc or "?" in url or "#" in url:
        raise InputError.expected(f"{expected}, without user, query or fragment",
                                  got="one of these", where=where)
    open_ = parts.scheme == plain and host is not None and (plain_anywhere or is_loopback(host))
    if not host or port == 0 or not (parts.scheme == secure or open_) or not url.isprintable() \
            or " " in url:
        raise InputError.expected(expected, got=repr(url[:80]), where=where)
    return url.rstrip("/")


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine, without asking any name server."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Redactor:
    """Takes secrets out of text: the given ones exactly, and whatever looks like a key."""

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._secrets = tuple(s for s in secrets if len(s) >= SECRET_MIN_CHARS)
        self._lowered = tuple(map(_lower, self._secrets))

    def __call__(self, text: str) -> str:
        return _KEY_LIKE.sub("[redacted]", self.exactly(text))

    def exactly(self, text: str) -> str:
        """The given secrets alone, so that words of a transcript stay as they are.

        Every stretch of `SECRET_PART_CHARS` of a secret and more goes, too, in small letters or
        capitals: a message may have been cut in the middle of one, or written in its own way.
        """
        for secret in self._lowered:
            parts = [secret[k : k + SECRET_PART_CHARS]
                     for k in range(len(secret) - SECRET_PART_CHARS + 1)]
            hidden = bytearray(len(text))
            lowered = _lower(text)
            for part in parts:
                at = lowered.find(part)
                while at >= 0:
                    hidden[at : at + len(part)] = b"\1" * len(part)
                    at = lowered.find(part, at + 1)
            if any(hidden):
                text = "".join("[redacted]" if gone else "".join(c for c, _ in stretch)
                               for gone, stretch in groupby(zip(text, hidden, strict=True),
                                                            key=itemgetter(1)))
        return text


def _lower(text: str) -> str:
    """Small letters of ASCII alone: as long as the text."""
    return text.translate(_SMALL)


_SMALL = {ord(c): c.lower() for c in ascii_uppercase}


def api_key(variable: str) -> str:
    """The key in an environment variable.

    Raises `InputError`, which never shows it, when it is missing or cannot be a key.
    """
    key = os.environ.get(variable, "").strip()
    if not key:
        raise InputError(f"{variable}: expected a key in the environment, got none")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise InputError(f"{variable}: expected a key of printable ASCII without spaces, got "
                         "something else")
    return key


def missing_key(variable: str) -> str | None:
    """What to do about a key that is not set, in one line; `None` when it is."""
    if os.environ.get(variable, "").strip():
        return None
    return (f"the environment variable {variable} is not set; export it (it is read from there and "
            "nowhere else; a server on this machine that wants none takes any value)")
