"""Asking a judge about many cases: several at a time, within a budget, to be gone on with later.

Every answer is in the cache as soon as it came, so a run that was killed asks for the rest alone.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Literal, TypeVar

from rig.budget import SLACK
from rig.chat_endpoint import (
    ChatAnswer,
    ChatAnswerError,
    ChatEndpoint,
    ChatEndpointError,
    ChatGivenUpError,
)
from rig.judge.answer import UnusableAnswerError
from rig.judge.configs import Judge
from rig.prices import money

PARALLEL = 8
"""Requests at a time (DSB-IFEval, table 21)."""
MOST_GIVEN_UP = 8
"""Ours: so many requests in a row without any answer, and the endpoint is asked no more."""
NO_CHAT = frozenset({"request_refused", "answer_envelope"})
"""Rules of answers that are no chat completion: so many in a row, and the next is none either."""
CHARS_PER_TOKEN = 3.0
"""Ours, low on purpose: English prose has four to five, JSON with escapes fewer."""

Kind = Literal["judged", "judge_error", "not_judged"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question(Generic[T]):
    """One request. `read` takes the judgement out of an answer, or raises `UnusableAnswerError`.
    `repeat` counts from 1."""

    body: bytes
    read: Callable[[ChatAnswer], T]
    repeat: int = 1

    @property
    def tokens_in(self) -> float:
        """About how many tokens it has, on the high side."""
        return len(self.body) / CHARS_PER_TOKEN


@dataclass(frozen=True, slots=True)
class Reply(Generic[T]):
    """What came of a question."""

    kind: Kind
    judgement: T | None = None
    reason: str | None = None

    @property
    def rule(self) -> str | None:
        """The short name at the head of a `judge_error`'s reason."""
        return None if self.reason is None else self.reason.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Asking(Generic[T]):
    """Replies in the order of the questions. `stopped` says why the rest was not asked, `limit`
    that the budget kept a request from being sent, or sent again."""

    replies: tuple[Reply[T], ...]
    stopped: str | None = None
    limit: bool = False


@dataclass(frozen=True, slots=True)
class Estimate:
    """What questions would take whose answer is not in the cache, where `cached` have theirs.
    `cost_at_most` is `None` where the price is not known, 0 where nothing is to be asked."""

    questions: int
    cached: int
    tokens_in: int
    tokens_out_at_most: int
    cost_at_most: float | None
    currency: str | None

    @property
    def to_ask(self) -> int:
        return self.questions - self.cached


def estimate(judge: Judge, endpoint: ChatEndpoint, questions: Sequence[Question[T]], *,
             retry_errors: bool = False) -> Estimate:
    """Look into the cache; nothing is asked. `retry_errors` as in `Asker`."""
    open_ = [q for q in questions if _kept(endpoint, q, retry_errors) is None]
    tokens_in = sum(q.tokens_in for q in open_)
    tokens_out = judge.max_tokens * len(open_)
    cost = judge.price.cost(tokens_in, tokens_out) if judge.price else None if open_ else 0.0
    return Estimate(len(questions), len(questions) - len(open_), round(tokens_in), tokens_out, cost,
                    judge.price.currency if judge.price else None)


def _kept(endpoint: ChatEndpoint, question: Question[T], retry_errors: bool) -> ChatAnswer | None:
    """The answer that stands in the cache, `None` where one is to be asked for."""
    answer = endpoint.kept(question.body, question.repeat)
    again = retry_errors and answer is not None and _read(question, answer).kind != "judged"
    return None if again else answer


def _read(question: Question[T], answer: ChatAnswer) -> Reply[T]:
    try:
        return Reply("judged", question.read(answer))
    except UnusableAnswerError as error:
        return Reply("judge_error", reason=str(error))


class _Purse:
    """What was spent and what requests in flight may still cost, each at its most."""

    def __init__(self, judge: Judge, limit: float | None) -> None:
        self._judge = judge
        self._limit = limit
        self._used = 0.0
        self._reserved = 0.0
        self._exact = True

    def refusal(self, question: Question[T]) -> str | None:
        """Reserve for a request, or say why it might not be paid for."""
        if self._limit is None or self._judge.price is None:
            return None
        most = self._most(question)
        if self._used + self._reserved + most <= self._limit * (1 + SLACK):
            self._reserved += most
            return None
        currency = self._judge.price.currency
        return (f"--max-cost {self._limit:g}: {'' if self._exact else 'at most '}"
                f"{money(self._used, currency)} are used, and the next request may cost "
                f"{money(most, currency)}")

    def lost(self, question: Question[T]) -> None:
        """Nobody knows what a request has cost: what was reserved stands."""
        if self._limit is not None:
            self._reserved -= self._most(question)
            self._used += self._most(question)
            self._exact = False

    def settle(self, question: Question[T], answer: ChatAnswer) -> None:
        """An answer with its tokens replaces what was reserved."""
        if answer.prompt_tokens is None or answer.completion_tokens is None:
            self.lost(question)
        elif self._limit is not None and self._judge.price is not None:
            self._reserved -= self._most(question)
            self._used += self._judge.price.cost(answer.prompt_tokens, answer.completion_tokens)

    def give_back(self, question: Question[T]) -> None:
        """Nothing was to be paid."""
        if self._limit is not None:
            self._reserved -= self._most(question)

    def _most(self, question: Question[T]) -> float:
        assert self._judge.price is not None  # the command refuses a limit without a price
        return self._judge.price.cost(question.tokens_in, self._judge.max_tokens)


class Asker:
    """Asks one judge. While requests in flight hold the room that the limit leaves, the next one
    waits for them, as sessions of `rig run` do; the order is that of the questions."""

    def __init__(self, judge: Judge, endpoint: ChatEndpoint, *, parallel: int = PARALLEL,
                 max_cost: float | None = None, retry_errors: bool = False) -> None:
        """`retry_errors` asks again where the answer in the cache is of no use."""
        self._endpoint = endpoint
        self._parallel = parallel
        self._purse = _Purse(judge, max_cost)
        self._retry_errors = retry_errors
        self._changed = threading.Condition()
        self._in_flight = 0
        self._again: deque[object] = deque()
        """Those in flight that wait for room to be sent again, the first to be served first."""
        self._given_up = 0
        self._stopped: str | None = None
        self._limit = False

    def ask_all(self, questions: Sequence[Question[T]],
                progress: Callable[[int], None] = lambda _: None) -> Asking[T]:
        """Ask everything. Ctrl-C ends it at once: its threads hold nothing that is not cached."""
        todo = iter(range(len(questions)))
        gate = threading.Lock()
        done: queue.SimpleQueue[tuple[int, Reply[T] | BaseException]] = queue.SimpleQueue()

        def work() -> None:
            index = 0
            try:
                while True:
                    with gate:
                        index = next(todo, -1)
                        if index < 0:
                            return
                        reply = self._without_asking(questions[index])
                    done.put((index, self._ask(questions[index]) if reply is None else reply))
            except BaseException as error:  # noqa: BLE001 - raised again where it is seen
                done.put((index, error))

        for _ in range(min(self._parallel, len(questions))):
            # Daemons: a request that hangs must not hold up the end of the program.
            threading.Thread(target=work, daemon=True).start()
        replies: dict[int, Reply[T]] = {}
        while len(replies) < len(questions):
            index, found = done.get()
            if isinstance(found, BaseException):
                raise found
            replies[index] = found
            progress(len(replies))
        return Asking(tuple(replies[i] for i in range(len(questions))), self._stopped, self._limit)

    def _without_asking(self, question: Question[T]) -> Reply[T] | None:
        """The reply where nothing is sent; `None` once there is room for a request."""
        if _kept(self._endpoint, question, self._retry_errors) is not None:
            return _read(question, self._endpoint.ask(question.body, question.repeat))
        with self._changed:
            while self._stopped is None:
                if self._again:  # what was sent before goes first
                    self._changed.wait()
                    continue
                refusal = self._purse.refusal(question)
                if refusal is None:
                    self._in_flight += 1
                    return None
                if self._in_flight == 0:
                    self._stopped, self._limit = refusal, True
                else:
                    self._changed.wait()
            return Reply("not_judged", reason=f"not asked: {self._stopped}")

    def _ask(self, question: Question[T]) -> Reply[T]:
        settle = self._purse.lost
        try:
            answer = self._endpoint.ask(question.body, question.repeat, fresh=True,
                                        pay_again=lambda: self._pay_again(question))
        except ChatGivenUpError as error:
            return Reply("judge_error", reason=f"no_answer: {self._gave_up(str(error))}")
        except ChatEndpointError as error:
            settle = self._purse.give_back
            with self._changed:
                self._stopped = self._stopped or str(error)
            return Reply("not_judged", reason=f"not answered: {error}")
        except ChatAnswerError as error:
            if error.rule in NO_CHAT:
                self._gave_up(str(error))
            else:
                self._answered()
            return Reply("judge_error", reason=f"{error.rule}: {error}")
        else:
            self._answered()
            settle = partial(self._purse.settle, answer=answer)
            return _read(question, answer)
        finally:
            with self._changed:
                settle(question)
                self._in_flight -= 1
                self._changed.notify_all()

    def _pay_again(self, question: Question[T]) -> bool:
        """Whether a request that may have been paid for may be sent again. It waits for room as
        long as any in flight does not wait for the same: so one of them always goes on."""
        turn = object()
        with self._changed:
            self._again.append(turn)
            self._changed.notify_all()  # the first in the row may wait for nothing now
            while True:
                first = self._again[0] is turn
                sent = first and self._purse.refusal(question) is None
                if sent or (first and self._in_flight == len(self._again)):
                    break
                self._changed.wait()
            self._again.popleft()
            self._changed.notify_all()
            if sent:
                self._purse.lost(question)  # the send before
            else:
                self._limit = True
            return sent

    def _gave_up(self, why: str) -> str:
        with self._changed:
            self._given_up += 1
            if self._given_up >= MOST_GIVEN_UP and self._stopped is None:
                self._stopped = f"{MOST_GIVEN_UP} requests in a row without an answer; {why}"
        return why

    def _answered(self) -> None:
        with self._changed:
            self._given_up = 0
