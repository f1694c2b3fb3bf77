"""One POST over HTTP/1.1 or HTTPS, bounded in time and size: `http.client`, and nothing more.

No redirect is followed and no proxy of the environment is used: a request goes to the address that
the user gave or nowhere. Addresses and keys are checked before (`audio.endpoint_rules`).
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from audio.errors import InfrastructureError
from rig.clock import Stopwatch

_PIECE = 65536


class TransportError(InfrastructureError):
    """No answer came, or only a part of one: asking again may help."""


class UntrustedPeerError(InfrastructureError):
    """The server's certificate does not prove who it is; nothing was sent."""


class AnswerTooLargeError(InfrastructureError):
    """The answer is longer than the limit; what came is thrown away."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """Status, headers (names in lower case) and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def media_type(self) -> str:
        """`application/json` of `Application/JSON; charset=utf-8`."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


def post(url: str, body: bytes, headers: Mapping[str, str], *, timeout_s: float,
         max_bytes: int) -> HttpAnswer:
    """Send `body` and read the answer, within `timeout_s` for everything after the name look-up.

    Raises `TransportError` for a connection that is refused, reset or silent and for an answer that
    is cut off or no HTTP, `UntrustedPeerError` for a certificate that is not trusted, and
    `AnswerTooLargeError` for more than `max_bytes`. No message holds a header.
    """
    parts = urlsplit(url)
    host = parts.hostname
    assert host is not None  # checked with the address
    watch = Stopwatch()
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(host, parts.port, timeout=timeout_s,
                                                 context=ssl.create_default_context())
    else:
        connection = http.client.HTTPConnection(host, parts.port, timeout=timeout_s)
    where = f"{parts.scheme}://{parts.netloc}"
    opened: socket.socket | None = None
    try:
        connection.connect()
        opened = connection.sock
        connection.sock = _Timed(opened, watch, timeout_s)
        connection.request("POST", parts.path or "/", body=body, headers={
            **headers, "Accept-Encoding": "identity", "Connection": "close"})
        answer = connection.getresponse()
        return HttpAnswer(answer.status, {k.lower(): v for k, v in answer.getheaders()},
                          _read(answer, max_bytes, where))
    except TimeoutError:
        raise TransportError(f"{where}: expected an answer within {timeout_s:g} s, got none "
                             "that was complete") from None
    except ssl.SSLCertVerificationError as error:
        raise UntrustedPeerError(f"{where}: expected a certificate that can be trusted, got: "
                                 f"{error.verify_message}") from None
    except OSError as error:
        raise TransportError(f"{where}: expected an answer, got: "
                             f"{error.strerror or type(error).__name__}") from None
    except (http.client.HTTPException, ValueError) as error:
        raise TransportError(f"{where}: expected a whole HTTP answer, got one that is cut off or "
                             f"damaged ({type(error).__name__})") from None
    finally:
        connection.close()
        if opened is not None:
            opened.close()


def _read(answer: http.client.HTTPResponse, max_bytes: int, where: str) -> bytes:
    too_large = AnswerTooLargeError(f"{where}: expected an answer of at most {max_bytes} bytes, "
                                    "got more")
    if answer.length is not None and answer.length > max_bytes:
        raise too_large
    pieces: list[bytes] = []
    size = 0
    while piece := answer.read(_PIECE):
        size += len(piece)
        if size > max_bytes:
            raise too_large
        pieces.append(piece)
    if answer.length:
        raise http.client.IncompleteRead(b"", answer.length)
    return b"".join(pieces)


class _Timed:
    """A socket whose every operation shares one deadline: a peer that sends a byte now and then
    would outlast any timeout of a single operation."""

    def __init__(self, sock: socket.socket, watch: Stopwatch, timeout_s: float) -> None:
        self._sock = sock
        self._watch = watch
        self._timeout_s = timeout_s

    def _arm(self) -> None:
        left_s = self._timeout_s - self._watch.elapsed_s
        if left_s <= 0:
            raise TimeoutError
        self._sock.settimeout(left_s)

    def sendall(self, data: bytes) -> None:
        self._arm()
        self._sock.sendall(data)

    def recv_into(self, buffer: Any) -> int:
        self._arm()
        return self._sock.recv_into(buffer)

    def makefile(self, mode: str) -> io.BufferedReader:
        assert mode == "rb"
        return io.BufferedReader(_TimedReader(self))

    def close(self) -> None:
        """Does nothing: `http.client` closes before the body is read. `post` closes the socket."""


class _TimedReader(io.RawIOBase):
    """The reading side, as the buffered reader of `http.client` wants it."""

    def __init__(self, sock: _Timed) -> None:
        super().__init__()
        self._sock = sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._sock.recv_into(buffer)
