"""Sending for `audio.engine_endpoint`: one request, again where that may help, never in silence."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from audio.errors import InfrastructureError
from rig import clock
from rig.chat_endpoint import MAX_RETRY_AFTER_S, SENDS, WAITS_S, retry_after_s
from rig.console import Output
from rig.http_post import HttpAnswer, TransportError, post

_AGAIN = (408, 425, 429)
_NO_MONEY = b"insufficient_quota"
"""OpenAI's code for an account without credit: status 429, and waiting does not help."""


class PatientPost:
    """`engine_endpoint.Post`: at most `SENDS` sends, with the waits of `rig.chat_endpoint`.

    Sent again: no answer or half of one, 408, 425, 429 and 5xx. `Retry-After` in seconds is obeyed
    up to `MAX_RETRY_AFTER_S`. Each wait is told, on standard error where nothing else is given.
    """

    def __init__(self, *, wait: Callable[[float], None] | None = None,
                 note: Callable[[str], None] | None = None) -> None:
        self._wait = clock.pause if wait is None else wait
        self._note = Output().note if note is None else note

    def __call__(self, url: str, body: bytes, headers: Mapping[str, str], *, timeout_s: float,
                 max_bytes: int) -> HttpAnswer:
        """The first answer that is none of these, or the last one. Raises `InfrastructureError`
        when the last try brought no answer, or the server asks for more patience than there is."""
        for attempt in range(SENDS):
            last = attempt == SENDS - 1
            asked_s = 0.0
            try:
                answer = post(url, body, headers, timeout_s=timeout_s, max_bytes=max_bytes)
            except TransportError as error:
                if last:
                    raise InfrastructureError(f"{error}; given up after {SENDS} sends") from None
                why = str(error)
            else:
                again = answer.status in _AGAIN or answer.status >= 500
                if last or not again or _NO_MONEY in answer.body:
                    return answer
                why = f"speech endpoint: status {answer.status}"
                asked_s = retry_after_s(answer.headers.get("retry-after"))
                if asked_s > MAX_RETRY_AFTER_S:
                    raise InfrastructureError(
                        f"{why}; it asks for {asked_s:g} s of patience, more than "
                        f"{MAX_RETRY_AFTER_S:g} s: run the command again later")
            wait_s = max(WAITS_S[attempt], asked_s)
            self._note(f"{why}; sent again in {wait_s:g} s")
            self._wait(wait_s)
        raise AssertionError("unreachable")
