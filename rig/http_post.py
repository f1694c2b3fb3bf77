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
_HEAD_BYTES = 256 * 1024
"""Ours: allowed for status and headers; `http.client` itself takes 100 headers of 64 KiB."""


class TransportError(InfrastructureError):
    """No answer came, or only a part of one: asking again may help."""


class NobodyThereError(TransportError):
    """Nobody listens at the address, or the name has none: nothing was sent."""


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

    Raises `TransportError` for a connection that is reset or silent and for an answer that is cut
    off or no HTTP, `NobodyThereError` where there is none to connect to, `UntrustedPeerError` for a
    certificate that is not trusted, and `AnswerTooLargeError` for more than `max_bytes`. No message
    holds a header.
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
    too_large = AnswerTooLargeError(f"{where}: expected an answer of at most {max_bytes} bytes, "
                                    "got more")
    opened: socket.socket | None = None
    try:
        connection.connect()
        opened = connection.sock
        # Chunks and headers of any kind come out of this allowance.
        connection.sock = _Bounded(opened, watch, timeout_s, 2 * max_bytes + _HEAD_BYTES)
        connection.request("POST", parts.path or "/", body=body, headers={
            **headers, "Accept-Encoding": "identity", "Connection": "close"})
        answer = connection.getresponse()
        return HttpAnswer(answer.status, {k.lower(): v for k, v in answer.getheaders()},
                          _read(answer, max_bytes))
    except _TooMuchError:
        raise too_large from None
    except TimeoutError:
        raise TransportError(f"{where}: expected an answer within {timeout_s:g} s, got none "
                             "that was complete") from None
    except ssl.SSLCertVerificationError as error:
        raise UntrustedPeerError(f"{where}: expected a certificate that can be trusted, got: "
                                 f"{error.verify_message}") from None
    except OSError as error:
        nobody = opened is None and isinstance(error, ConnectionRefusedError | socket.gaierror)
        raise (NobodyThereError if nobody else TransportError)(
            f"{where}: expected an answer, got: "
            f"{error.strerror or type(error).__name__}") from None
    except (http.client.HTTPException, ValueError) as error:
        raise TransportError(f"{where}: expected a whole HTTP answer, got one that is cut off or "
                             f"damaged ({type(error).__name__})") from None
    finally:
        connection.close()
        if opened is not None:
            opened.close()


def _read(answer: http.client.HTTPResponse, max_bytes: int) -> bytes:
    if answer.length is not None and answer.length > max_bytes:
        raise _TooMuchError
    pieces: list[bytes] = []
    size = 0
    while piece := answer.read(_PIECE):
        size += len(piece)
        if size > max_bytes:
            raise _TooMuchError
        pieces.append(piece)
    if answer.length:
        raise http.client.IncompleteRead(b"", answer.length)
    return b"".join(pieces)


class _TooMuchError(Exception):
    """More came than is wanted."""


class _Bounded:
    """A socket whose every operation shares one deadline and one allowance of bytes: a peer that
    sends a byte now and then would outlast any timeout of a single operation, and one that sends
    headers or a chunk without end would fill the memory."""

    def __init__(self, sock: socket.socket, watch: Stopwatch, timeout_s: float,
                 allowed_bytes: int) -> None:
        self._sock = sock
        self._watch = watch
        self._timeout_s = timeout_s
        self._allowed_bytes = allowed_bytes

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
        n = self._sock.recv_into(buffer)
        self._allowed_bytes -= n
        if self._allowed_bytes < 0:
            raise _TooMuchError
        return n

    def makefile(self, mode: str) -> io.BufferedReader:
        assert mode == "rb"
        return io.BufferedReader(_BoundedReader(self))

    def close(self) -> None:
        """Does nothing: `http.client` closes before the body is read. `post` closes the socket."""


class _BoundedReader(io.RawIOBase):
    """The reading side, as the buffered reader of `http.client` wants it."""

    def __init__(self, sock: _Bounded) -> None:
        super().__init__()
        self._sock = sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._sock.recv_into(buffer)
