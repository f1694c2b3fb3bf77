"""A judge made ready: what would be asked, what it may cost, and the asking itself."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

from rig.answer_cache import AnswerCache
from rig.chat_endpoint import ChatEndpoint
from rig.console import Output
from rig.judge.asking import PARALLEL, Asker, Asking, Estimate, Question, T, estimate
from rig.judge.configs import Judge
from rig.prices import money


@dataclass(frozen=True, slots=True)
class Prepared(Generic[T]):
    """One judge, its questions, and what they would take."""

    judge: Judge
    questions: tuple[Question[T], ...]
    endpoint: ChatEndpoint
    estimate: Estimate

    def facts(self) -> dict[str, Any]:
        """For a document."""
        return {"name": self.judge.name, "base_url": self.judge.address,
                "model": self.judge.model, "to_ask": self.estimate.to_ask,
                **dataclasses.asdict(self.estimate)}


def prepare(judge: Judge, questions: Sequence[Question[T]], cache: Path, timeout_s: float,
            output: Output, *, retry_errors: bool, never_key: bool) -> Prepared[T]:
    """Look into the folder of answers `cache`; the key is read where something is to be asked.
    `never_key`: nothing will be. Raises `InputError` for a key that is needed and missing."""
    answers = AnswerCache(cache)
    found = estimate(judge, ChatEndpoint(judge.address, None, answers), questions,
                     retry_errors=retry_errors)
    # A replay from the cache needs no key.
    key = judge.key() if found.to_ask and not never_key else None
    return Prepared(judge, tuple(questions),
                    ChatEndpoint(judge.address, key, answers, timeout_s=timeout_s,
                                 note=_once_in_a_row(output.note)), found)


def _once_in_a_row(note: Callable[[str], None]) -> Callable[[str], None]:
    """Requests that are under way at a time meet the same trouble: it is told once."""
    last: list[str] = [""]
    lock = threading.Lock()

    def told(text: str) -> None:
        with lock:
            again, last[0] = text == last[0], text
        if not again:
            note(text)

    return told


def ask(output: Output, one: Prepared[T], max_cost: float | None,
        retry_errors: bool) -> Asking[T]:
    """Ask everything that is to be asked."""
    asker = Asker(one.judge, one.endpoint, parallel=PARALLEL, max_cost=max_cost,
                  retry_errors=retry_errors)
    with output.progress(f"judge {one.judge.name}", len(one.questions)) as line:
        asking = asker.ask_all(one.questions, line.update)
    if asking.stopped is not None:
        output.note(f"{one.judge.name}: stopped: {asking.stopped}")
    return asking


def tell_cost(output: Output, one: Prepared[T], shared: str) -> None:
    """What is about to be asked, before it is. shared: which questions are one request."""
    found = one.estimate
    price = one.judge.price
    cost = ("nothing" if not found.to_ask else "unknown: no price" if found.cost_at_most is None
            or price is None else f"at most {money(found.cost_at_most, price.currency)}")
    output.note(f"{one.judge.name}: {found.to_ask} requests to send ({shared}), {found.cached} "
                f"answers kept, about {found.tokens_in} tokens in, at most "
                f"{found.tokens_out_at_most} out; cost: {cost}")


def spent(one: Prepared[T]) -> str:
    """What the answers of this call cost, as far as it is known."""
    counts, price = one.endpoint.counts, one.judge.price
    if not counts.sent:
        return "nothing"
    if price is None:
        return "unknown: no price"
    known = money(price.cost(counts.prompt_tokens, counts.completion_tokens), price.currency)
    # A send without an answer may have been paid for, too.
    unknown = counts.answers_without_tokens + counts.sent_again
    return known if not unknown else f"at least {known}"
