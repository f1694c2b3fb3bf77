"""Asking a judge about many cases: several at a time, within a budget, to be gone on with later.

Every answer is in the cache as soon as it came, so a run that was killed asks for the rest alone.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from rig.chat_endpoint import (
    ChatAnswer,
    ChatAnswerError,
    ChatEndpoint,
    ChatEndpointError,
    ChatGivenUpError,
)
from rig.judge.answer import UnusableAnswerError
from rig.judge.configs import Judge

PARALLEL = 8
"""Requests at a time (DSB-IFEval, table 21)."""
MOST_GIVEN_UP = 8
"""Ours: so many requests in a row without any answer, and the endpoint counts as out of reach."""
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
    that the budget was why."""

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
    """What may still be spent. A request in flight counts at its most."""

    def __init__(self, judge: Judge, limit: float | None) -> None:
        self._judge = judge
        self._left = limit

    def take(self, question: Question[T]) -> bool:
        """Reserve for a request; false where it might not be paid for."""
        if self._left is None:
            return True
        most = self._most(question)
        if most > self._left:
            return False
        self._left -= most
        return True

    def settle(self, question: Question[T], answer: ChatAnswer | None) -> None:
        """An answer with its tokens replaces what was reserved; without them that stands."""
        if self._left is None or self._judge.price is None or answer is None \
                or answer.prompt_tokens is None or answer.completion_tokens is None:
            return
        self._left += self._most(question) - self._judge.price.cost(answer.prompt_tokens,
                                                                    answer.completion_tokens)

    def give_back(self, question: Question[T]) -> None:
        if self._left is not None:
            self._left += self._most(question)

    def _most(self, question: Question[T]) -> float:
        assert self._judge.price is not None  # the command refuses a limit without a price
        return self._judge.price.cost(question.tokens_in, self._judge.max_tokens)


class Asker:
    """Asks one judge."""

    def __init__(self, judge: Judge, endpoint: ChatEndpoint, *, parallel: int = PARALLEL,
                 max_cost: float | None = None, retry_errors: bool = False) -> None:
        """`retry_errors` asks again where the answer in the cache is of no use."""
        self._judge = judge
        self._endpoint = endpoint
        self._parallel = parallel
        self._purse = _Purse(judge, max_cost)
        self._retry_errors = retry_errors
        self._lock = threading.Lock()
        self._given_up = 0
        self._stopped: str | None = None
        self._limit = False

    def ask_all(self, questions: Sequence[Question[T]],
                progress: Callable[[int], None] = lambda _: None) -> Asking[T]:
        """Ask everything. Ctrl-C ends it at once: its threads hold nothing that is not cached."""
        todo: queue.SimpleQueue[int] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[int, Reply[T] | BaseException]] = queue.SimpleQueue()
        for index in range(len(questions)):
            todo.put(index)

        def work() -> None:
            while True:
                try:
                    index = todo.get_nowait()
                except queue.Empty:
                    return
                try:
                    done.put((index, self._ask(questions[index])))
                except BaseException as error:  # noqa: BLE001 - raised again where it is seen
                    done.put((index, error))
                    return

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

    def _ask(self, question: Question[T]) -> Reply[T]:
        if _kept(self._endpoint, question, self._retry_errors) is not None:
            return _read(question, self._endpoint.ask(question.body, question.repeat))
        refused = self._begin(question)
        if refused is not None:
            return Reply("not_judged", reason=refused)
        answer: ChatAnswer | None = None
        try:
            answer = self._endpoint.ask(question.body, question.repeat, fresh=True)
        except ChatGivenUpError as error:
            return Reply("judge_error", reason=f"no_answer: {self._gave_up(str(error))}")
        except ChatEndpointError as error:
            with self._lock:
                self._stopped = self._stopped or str(error)
                self._purse.give_back(question)
            return Reply("not_judged", reason=str(error))
        except ChatAnswerError as error:
            self._answered()
            return Reply("judge_error", reason=f"{error.rule}: {error}")
        finally:
            with self._lock:
                self._purse.settle(question, answer)
        self._answered()
        return _read(question, answer)

    def _begin(self, question: Question[T]) -> str | None:
        with self._lock:
            if self._stopped is None and not self._purse.take(question):
                self._stopped = "the next request could pass --max-cost"
                self._limit = True
            return None if self._stopped is None else f"not asked: {self._stopped}"

    def _gave_up(self, why: str) -> str:
        with self._lock:
            self._given_up += 1
            if self._given_up >= MOST_GIVEN_UP and self._stopped is None:
                self._stopped = f"{MOST_GIVEN_UP} requests in a row without an answer; {why}"
        return why

    def _answered(self) -> None:
        with self._lock:
            self._given_up = 0
