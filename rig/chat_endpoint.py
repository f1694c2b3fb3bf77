"""An OpenAI-compatible chat endpoint: requests are sent again within bounds, and cached.

The request body comes ready-made; its exact bytes are what is sent and what the cache is named by.
Nothing that comes back is trusted, and an answer that repeats the key is thrown away unread.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from audio.endpoint_rules import SECRET_MIN_CHARS, Redactor
from audio.errors import InfrastructureError
from rig import clock
from rig.answer_cache import AnswerCache
from rig.backoff import (
    NO_CREDIT,
    STATUS_AGAIN,
    GivenUpError,
    TryAgainError,
    patiently,
    retry_after_s,
)
from rig.http_post import (
    AnswerTooLargeError,
    HttpAnswer,
    NobodyThereError,
    TransportError,
    UntrustedPeerError,
    post,
)

TIMEOUT_S = 90.0
"""As the judge of DSB-IFEval, appendix D.3; how often and after which waits: rig/backoff.py."""
MAX_ANSWER_BYTES = 1024 * 1024
"""Ours: 1,500 tokens are some 6 kB."""
MAX_MESSAGE_CHARS = 200

_STOP = {401, 403, 404, 405, 407}
"""Key, address or permission are wrong: every further request would fail alike."""


class ChatEndpointError(InfrastructureError):
    """The endpoint cannot be used, now or at all: the run ends here."""


class ChatGivenUpError(ChatEndpointError):
    """This request got no answer after all its sends; another one may."""


class ChatAnswerError(InfrastructureError):
    """The endpoint answered this request with nothing that can be used. `rule` is a short name."""

    def __init__(self, rule: str, message: str) -> None:
        self.rule = rule
        super().__init__(message)


class ChatAnswer(BaseModel):
    """What is kept of an answer: the text, why it ended, tokens where they were reported."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    content: str
    finish_reason: str | None = None
    prompt_tokens: Annotated[int, Field(ge=0)] | None = None
    completion_tokens: Annotated[int, Field(ge=0)] | None = None


@dataclass(slots=True)
class ChatCounts:
    """What was asked. Tokens are those of answers that came from the endpoint in this run."""

    requests: int = 0
    cache_hits: int = 0
    sent: int = 0
    sent_again: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    answers_without_tokens: int = 0


class ChatEndpoint:
    """Asks `BASE_URL/chat/completions`; `base_url` and `key` have been checked before. Several
    threads may ask at a time."""

    def __init__(
        self, base_url: str, key: str | None, cache: AnswerCache, *,
        timeout_s: float = TIMEOUT_S, wait: Callable[[float], None] | None = None,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.counts = ChatCounts()
        self._counting = threading.Lock()
        self._url = f"{base_url}/chat/completions"
        self._key = key
        self._clean = Redactor((key,) if key else ())
        self._cache = cache
        self._timeout_s = timeout_s
        self._wait = clock.pause if wait is None else wait
        self._note = note

    def ask(self, body: bytes, repeat: int = 1, *, fresh: bool = False,
            pay_again: Callable[[], bool] = lambda: True) -> ChatAnswer:
        """The answer to a request, out of the cache or from the endpoint.

        `repeat` counts how often the same request is asked on purpose; `fresh` does not look into
        the cache. `pay_again` is asked before a request is sent again that may have been paid for:
        it went out, and no answer came. Raises `ChatAnswerError` for an answer of no use (that try
        is lost; nothing is cached), `ChatGivenUpError` when no answer came after four sends or the
        endpoint wants more patience than a minute, and `ChatEndpointError` when nobody is there
        after as many, or it refuses the key or sends elsewhere.
        """
        self._count(requests=1)
        kept = None if fresh else self.kept(body, repeat)
        if kept is not None:
            self._count(cache_hits=1)
            return kept
        answer = self._read(self._send(body, pay_again))
        self._count(
            answers_without_tokens=answer.prompt_tokens is None or answer.completion_tokens is None,
            prompt_tokens=answer.prompt_tokens or 0,
            completion_tokens=answer.completion_tokens or 0)
        self._cache.store(body, answer.model_dump(mode="json"), repeat)
        return answer

    def kept(self, body: bytes, repeat: int = 1) -> ChatAnswer | None:
        """The answer that the cache has, `None` where it must be asked for. Nothing is counted."""
        try:
            kept = self._cache.load(body, repeat)
            return None if kept is None else ChatAnswer.model_validate(kept)
        except ValidationError:
            return None

    def _count(self, **more: int) -> None:
        with self._counting:
            for name, n in more.items():
                setattr(self.counts, name, getattr(self.counts, name) + n)

    # --- sending ------------------------------------------------------------------------------

    def _send(self, body: bytes, pay_again: Callable[[], bool]) -> HttpAnswer:
        headers = {"Content-Type": "application/json", "Accept": "application/json",
                   "User-Agent": "duplexrig"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"

        trouble: TransportError | None = None

        def once(number: int) -> HttpAnswer:
            nonlocal trouble
            if trouble is not None and not isinstance(trouble, NobodyThereError) \
                    and not pay_again():
                raise GivenUpError(f"{self._clean(str(trouble))}; it may have been paid for, and "
                                   "the limit has no room to send it again")
            self._count(sent=1, sent_again=number > 1)
            trouble = None
            try:
                return self._once(body, headers)
            except TransportError as error:
                trouble = error
                raise TryAgainError(self._clean(str(error))) from None

        try:
            return patiently(once, wait=self._wait, note=self._note)
        except GivenUpError as error:
            nobody = isinstance(trouble, NobodyThereError)
            raise (ChatEndpointError if nobody else ChatGivenUpError)(str(error)) from None

    def _once(self, body: bytes, headers: dict[str, str]) -> HttpAnswer:
        try:
            answer = post(self._url, body, headers, timeout_s=self._timeout_s,
                          max_bytes=MAX_ANSWER_BYTES)
        except UntrustedPeerError as error:
            raise ChatEndpointError(str(error)) from None
        except AnswerTooLargeError as error:
            raise ChatAnswerError("answer_envelope", str(error)) from None
        if answer.status != 200:
            raise TryAgainError(self._refusal(answer),
                                retry_after_s(answer.headers.get("retry-after")))
        return answer

    def _refusal(self, answer: HttpAnswer) -> str:
        """What a status other than 200 says, where sending again may help; else it raises."""
        where = self._url
        status = answer.status
        said = self._said(answer)
        what = f"{where}: expected status 200, got {status}{said}"
        if 300 <= status < 400:
            raise ChatEndpointError(f"{where}: expected an answer, got status {status}: redirects "
                                    "are not followed; give the address itself")
        if status in _STOP or (status == 429 and NO_CREDIT in answer.body):
            raise ChatEndpointError(what)
        if status in STATUS_AGAIN or status >= 500:
            return what
        raise ChatAnswerError("request_refused", what)

    def _said(self, answer: HttpAnswer) -> str:
        """The endpoint's own words about an error, where they are JSON of the usual shape."""
        try:
            error = json.loads(answer.body.decode("utf-8"))["error"]
            message = error["message"] if isinstance(error, dict) else error
        except (ValueError, KeyError, TypeError, RecursionError):
            return ""
        return f": {_line(self._clean(message))}" if isinstance(message, str) else ""

    # --- reading ------------------------------------------------------------------------------

    def _read(self, answer: HttpAnswer) -> ChatAnswer:
        if self._holds_key(answer.body.decode("utf-8", errors="replace")):
            raise ChatAnswerError("answer_holds_key", "the answer repeats the key; it was thrown "
                                  "away")
        if answer.media_type != "application/json":
            told = _line(self._clean(answer.media_type))
            raise _envelope(f"content type application/json, got {told!r}")
        return read_chat_answer(answer.body)

    def _holds_key(self, text: str) -> bool:
        """Whether the key stands in a text, also in the escapes of JSON within JSON."""
        if self._key is None or len(self._key) < SECRET_MIN_CHARS:
            return False
        for _ in range(3):
            if self._key in text:
                return True
            text = _unescaped(text)
        return self._key in text


def read_chat_answer(body: bytes) -> ChatAnswer:
    """What a chat completion says. Raises `ChatAnswerError` where it is none, holds no text, or
    was withheld."""
    try:
        value: Any = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise _envelope("a JSON body, got something else") from None
    try:
        choice = value["choices"][0]
        message = choice["message"]
        reason = choice.get("finish_reason")
        content = message["content"]
    except (LookupError, TypeError, AttributeError):
        raise _envelope("choices[0].message.content, got something else") from None
    if reason is not None and not isinstance(reason, str):
        raise _envelope("finish_reason as text, got something else")
    if reason == "content_filter":
        raise ChatAnswerError("answer_withheld", "the endpoint's filter withheld the answer")
    if not isinstance(content, str) or not content.strip():
        raise ChatAnswerError("answer_empty", "expected text, got none")
    try:
        content.encode("utf-8")
    except UnicodeEncodeError:
        raise _envelope("text that UTF-8 can hold, got a lone surrogate") from None
    usage = value.get("usage")
    return ChatAnswer(content=content, finish_reason=None if reason is None else _line(reason),
                      prompt_tokens=_tokens(usage, "prompt_tokens"),
                      completion_tokens=_tokens(usage, "completion_tokens"))


def _tokens(usage: object, key: str) -> int | None:
    count = usage.get(key) if isinstance(usage, dict) else None
    whole = isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= 10**9
    return count if whole else None


def _envelope(what: str) -> ChatAnswerError:
    return ChatAnswerError("answer_envelope", f"expected {what}")


def _line(text: str) -> str:
    flat = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(flat.split())[:MAX_MESSAGE_CHARS]


def _unescaped(text: str) -> str:
    """One level of JSON's escapes of printable ASCII undone."""
    return re.sub(r"\\(?:u00([0-9a-fA-F]{2})|([\"\\/]))",
                  lambda m: chr(int(m[1], 16)) if m[1] else m[2], text)
