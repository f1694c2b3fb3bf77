"""One small HTTP exchange on the event loop: bounded in time and size, no redirect, no proxy.

A request goes to the address that the user gave or nowhere; addresses and keys are checked before
(`audio.endpoint_rules`).
"""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from adapters.wire.http_exchange import Answer, AnswerReader, request
from adapters.wire.payload import PayloadError, excerpt
from audio.errors import InfrastructureError

_PIECE = 65_536


@functools.cache
def _trusted() -> ssl.SSLContext:
    return ssl.create_default_context()


async def exchange(method: str, url: str, body: bytes, headers: Mapping[str, str], *,
                   timeout_s: float, max_bytes: int) -> Answer:
    """Send `body` and read the answer, within `timeout_s` for everything.

    Raises `InfrastructureError` in one line, without headers, when there is none.
    """
    try:
        async with asyncio.timeout(timeout_s):
            return await _exchange(method, url, body, headers, max_bytes)
    except TimeoutError:
        reason = f"expected an answer within {timeout_s:g} s, got none that was complete"
    except ssl.SSLCertVerificationError as error:
        reason = f"expected a certificate that can be trusted, got: {error.verify_message}"
        refused = InfrastructureError(f"{url}: {reason}")
        refused.hopeless = True
        raise refused from None
    except OSError as error:
        reason = f"cannot connect: {type(error).__name__}: {excerpt(str(error), 200)}"
    except PayloadError as error:
        reason = str(error)
    # The causes may hold the request, and with it the key: they are not chained.
    raise InfrastructureError(f"{url}: {reason}") from None


async def _exchange(method: str, url: str, body: bytes, headers: Mapping[str, str],
                    max_bytes: int) -> Answer:
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    # Reading the certificates takes tens of milliseconds, which other sessions would be late by.
    context = await asyncio.to_thread(_trusted) if secure else None
    reader, writer = await asyncio.open_connection(
        parts.hostname, parts.port or (443 if secure else 80), ssl=context)
    try:
        writer.write(request(method, parts, body, headers))
        await writer.drain()
        answer = AnswerReader(max_bytes)
        while data := await reader.read(_PIECE):
            whole = answer.push(data)
            if whole is not None:
                return whole
        return answer.end()
    finally:
        writer.transport.abort()
