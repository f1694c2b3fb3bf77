"""Sending for `audio.engine_endpoint`: one request, again where that may help, never in silence."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rig import clock
from rig.backoff import (
    NO_CREDIT,
    SENDS,
    STATUS_AGAIN,
    TryAgainError,
    patiently,
    retry_after_s,
)
from rig.console import Output
from rig.http_post import HttpAnswer, TransportError, post


class PatientPost:
    """`engine_endpoint.Post`: at most `SENDS` sends, with the waits of `rig.backoff.patiently`.

    Sent again: no answer or half of one, 408, 425, 429 and 5xx. `Retry-After` in seconds is obeyed
    up to `MAX_RETRY_AFTER_S`. Each wait is told, on standard error where nothing else is given.
    """

    def __init__(self, *, wait: Callable[[float], None] | None = None,
                 note: Callable[[str], None] | None = None) -> None:
        self._wait = clock.pause if wait is None else wait
        self._note = Output().note if note is None else note

    def __call__(self, url: str, body: bytes, headers: Mapping[str, str], *, timeout_s: float,
                 max_bytes: int) -> HttpAnswer:
        """The first answer that is none of these, or the last one. Raises `GivenUpError`
        when the last try brought no answer, or the server asks for more patience than there is."""

        def once(number: int) -> HttpAnswer:
            try:
                answer = post(url, body, headers, timeout_s=timeout_s, max_bytes=max_bytes)
            except TransportError as error:
                raise TryAgainError(str(error)) from None
            again = answer.status in STATUS_AGAIN or answer.status >= 500
            # The caller says more of a last answer than that it was refused.
            if number == SENDS or not again or NO_CREDIT in answer.body:
                return answer
            raise TryAgainError(f"speech endpoint: status {answer.status}",
                                retry_after_s(answer.headers.get("retry-after")))

        return patiently(once, wait=self._wait, note=self._note)
