"""One HTTP/1.1 exchange without I/O: the bytes of a request, and an answer that comes in pieces.

`http.client` of the standard library reads the answer, once enough of it is there; what is beyond
the bounds is refused before.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import Any, cast
from urllib.parse import SplitResult

from adapters.wire.payload import PayloadError

HEAD_BYTES = 64 * 1024
"""Allowed for status line and headers of an answer. Ours: real ones have some hundred bytes."""

MAX_RETRY_AFTER_S = 1e9
"""A longer wait is told as this: 30 years. Ours."""
_SECONDS = re.compile(r"\d+(\.\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers (names in lower case) and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def retry_after_s(self) -> float | None:
        """As `retry_after_s`."""
        return retry_after_s(self.headers.get("retry-after"))


def retry_after_s(value: str | None) -> float | None:
    """A `Retry-After` in seconds, however many; the other form, a date, is not read."""
    text = (value or "").strip()
    return min(float(text), MAX_RETRY_AFTER_S) if _SECONDS.fullmatch(text) else None


def request(method: str, url: SplitResult, body: bytes, headers: Mapping[str, str]) -> bytes:
    """A request that asks for the connection to be closed after its answer.

    `url` and `headers` are ours or the user's and were checked before: printable, without spaces.
    """
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    host = url.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    lines = [f"{method} {path} HTTP/1.1",
             f"Host: {host}" if url.port is None else f"Host: {host}:{url.port}",
             *(f"{name}: {value}" for name, value in headers.items()),
             "Accept-Encoding: identity", "Connection: close", f"Content-Length: {len(body)}"]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


class _Received:
    """What `http.client` takes for a socket: bytes that are there already."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        assert mode == "rb"
        return io.BytesIO(self._data)


_INTERIM = re.compile(rb"HTTP/1\.\d 1\d\d[ \r].*?\r\n\r\n", re.DOTALL)


class AnswerReader:
    """An answer as it comes. Holds at most `max_bytes` of body and `HEAD_BYTES` more."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._data = bytearray()
        self._whole_n: int | None = None
        """Bytes of the whole answer, where its headers say so."""
        self._chunked: bool | None = None
        """Whether the body comes in chunks; `None` before the headers have come."""

    def push(self, data: bytes) -> Answer | None:
        """Take the next bytes; the answer once it is whole.

        Raises `PayloadError` for what is no HTTP, and for more than was allowed.
        """
        self._data += data
        if len(self._data) > self._max_bytes + HEAD_BYTES:
            raise self._too_long()
        if self._chunked is None and not self._read_head():
            return None
        if self._whole_n is not None:
            return self._parse() if len(self._data) >= self._whole_n else None
        if self._chunked and self._data.endswith((b"\r\n0\r\n\r\n", b"\n0\n\n")):
            return self._parse()
        return None  # its body ends with the connection

    def end(self) -> Answer:
        """The peer has closed the connection. Raises `PayloadError` for an answer cut off."""
        answer = self._parse() if self._chunked is not None else None
        if answer is None:
            raise PayloadError(f"expected a whole HTTP answer, got {len(self._data)} bytes of one")
        return answer

    def _read_head(self) -> bool:
        """Whether the headers are there; what they say of the body is then known."""
        while interim := _INTERIM.match(self._data):
            del self._data[: interim.end()]
        if not bytes(self._data[:5]) == b"HTTP/"[: len(self._data)]:
            raise PayloadError("expected an HTTP answer, got something else")
        head_n = self._data.find(b"\r\n\r\n") + 4
        if head_n < 4:
            if len(self._data) > HEAD_BYTES:
                raise PayloadError(f"expected headers of at most {HEAD_BYTES} bytes, got more")
            return False
        response = _begun(bytes(self._data[:head_n]))
        self._chunked = bool(response.chunked)
        if response.length is not None:
            if response.length > self._max_bytes:
                raise self._too_long()
            self._whole_n = head_n + response.length
        return True

    def _parse(self) -> Answer | None:
        """The answer, `None` where a part of it is missing."""
        response = _begun(bytes(self._data))
        try:
            body = response.read()
        except IncompleteRead:
            return None
        except (HTTPException, ValueError) as error:
            raise _no_http(error) from None
        if response.length:
            return None
        if len(body) > self._max_bytes:
            raise self._too_long()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, body)

    def _too_long(self) -> PayloadError:
        return PayloadError(f"expected an answer of at most {self._max_bytes} bytes, got more")


def _begun(data: bytes) -> HTTPResponse:
    response = HTTPResponse(cast(Any, _Received(data)), method="POST")
    try:
        response.begin()
    except (HTTPException, ValueError) as error:
        raise _no_http(error) from None
    return response


def _no_http(error: Exception) -> PayloadError:
    return PayloadError(f"expected an HTTP answer, got something else ({type(error).__name__})")
