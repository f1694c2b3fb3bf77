"""Asking a judge within a limit, and an endpoint that nobody can ask: known counts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from chat_server import ChatServer, Received, Step, completion, error

from rig import clock
from rig.answer_cache import AnswerCache
from rig.chat_endpoint import ChatAnswer, ChatEndpoint
from rig.console import Output
from rig.judge.answer import UnusableAnswerError
from rig.judge.asking import Asker, Asking, Question
from rig.judge.configs import Judge, JudgePrice
from rig.judge.prepared import ask, prepare

MOST = 0.9
"""What a request may cost: 900 tokens at 1,000 a million. One that is answered costs 0.02."""


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    noted: list[float] = []
    monkeypatch.setattr(clock, "pause", noted.append)
    return noted


def judge_at(url: str) -> Judge:
    return Judge(name="paid", base_url=url, model="m", price=JudgePrice(
        currency="EUR", date="2026-11-30", source="ours", text_in=0.0, text_out=1000.0))


def read(answer: ChatAnswer) -> str:
    if answer.content == "rubbish":
        raise UnusableAnswerError("answer_json", "rubbish")
    return answer.content


def questions(n: int) -> list[Question[str]]:
    return [Question(b'{"n":%d}' % k, read) for k in range(n)]


def asked(url: str, folder: Path, n: int, max_cost: float | None = None, *,
          parallel: int = 8, timeout_s: float = 5.0) -> tuple[Asking[str], ChatEndpoint]:
    judge = judge_at(url)
    endpoint = ChatEndpoint(judge.address, None, AnswerCache(folder), timeout_s=timeout_s)
    return Asker(judge, endpoint, max_cost=max_cost, parallel=parallel).ask_all(
        questions(n)), endpoint


def kinds(asking: Asking[str]) -> list[str]:
    return [reply.kind for reply in asking.replies]


def slowly(_request: Received, _number: int) -> Step:
    """The others have come to their limit long before."""
    threading.Event().wait(0.05)
    return Step(completion("good"))


def test_what_requests_in_flight_may_cost_is_waited_for(tmp_path: Path) -> None:
    """Room for two at their most: the other six wait for them, and all are asked."""
    with ChatServer(slowly) as server:
        asking, _ = asked(server.url, tmp_path, 8, 2 * MOST + 8 * 0.02)
    assert kinds(asking) == ["judged"] * 8
    assert (asking.stopped, asking.limit) == (None, False)


def test_at_the_limit_the_first_in_the_order_have_been_asked(tmp_path: Path) -> None:
    with ChatServer(lambda _r, _n: Step(completion("good"))) as server:
        asking, _ = asked(server.url, tmp_path, 6, MOST + 0.05)
    # 0.06 are used after three; 0.04 + 0.9 had room.
    assert kinds(asking) == ["judged"] * 3 + ["not_judged"] * 3
    assert asking.limit
    assert asking.stopped == ("--max-cost 0.95: EUR 0.0600 are used, and the next request may cost "
                              "EUR 0.9000")
    assert asking.replies[5].reason == f"not asked: {asking.stopped}"


def test_an_answer_without_its_tokens_counts_at_its_most(tmp_path: Path) -> None:
    with ChatServer(lambda _r, _n: Step(completion("good", usage=None))) as server:
        asking, _ = asked(server.url, tmp_path, 6, 2.5 * MOST)
    assert kinds(asking) == ["judged"] * 2 + ["not_judged"] * 4
    assert asking.stopped is not None
    assert "at most EUR 1.8000 are used" in asking.stopped


def test_a_send_that_may_have_been_paid_for_counts(tmp_path: Path) -> None:
    """The connection breaks after the request went out: it is sent again while there is room."""
    with ChatServer([Step(reset=True), Step(reset=True)]) as server:
        asking, endpoint = asked(server.url, tmp_path, 2, 2.5 * MOST, parallel=1)
    assert endpoint.counts.sent == 2
    assert kinds(asking) == ["judge_error", "not_judged"]
    assert asking.replies[0].rule == "no_answer"
    assert "may have been paid for" in str(asking.replies[0].reason)
    assert "at most EUR 1.8000 are used" in str(asking.stopped)


def in_step(n: int) -> threading.Barrier:
    """For `n` requests at a time; one that stays away is told after ten seconds."""
    return threading.Barrier(n, timeout=10)


def number_of(request: Received) -> int:
    return int(request.value["n"])


@pytest.mark.parametrize("n", [2, 8])
def test_what_is_sent_again_waits_for_what_others_in_flight_may_cost(tmp_path: Path,
                                                                     n: int) -> None:
    """All go out together and the first one's connection breaks. Its second send has room only
    when the others are answered, and they are so only after it asked for that room."""
    together = in_step(n)
    asked_again = threading.Event()

    def first_breaks(request: Received, number: int) -> Step:
        if number >= n:
            return Step(completion("good"))
        if number_of(request) == 0:
            return Step(reset=True, before=together.wait)
        return Step(completion("good"), before=lambda: together.wait() + asked_again.wait(10))

    def note(_text: str) -> None:
        threading.Timer(0.1, asked_again.set).start()

    with ChatServer(first_breaks) as server:
        judge = judge_at(server.url)
        endpoint = ChatEndpoint(judge.address, None, AnswerCache(tmp_path), note=note)
        # At the end one is lost, one in flight again, and the others are paid.
        asking = Asker(judge, endpoint, max_cost=n * MOST + (n - 1) * 0.02).ask_all(questions(n))
    assert asked_again.is_set()
    assert (kinds(asking), endpoint.counts.sent_again) == (["judged"] * n, 1)
    assert (asking.stopped, asking.limit) == (None, False)


@pytest.mark.parametrize(("n", "room_for", "judged"), [(2, 2, 0), (4, 4, 0), (4, 5, 1), (4, 6, 4)])
def test_when_all_in_flight_are_to_be_sent_again_the_first_is_refused(
        tmp_path: Path, n: int, room_for: int, judged: int) -> None:
    """All connections break: what was sent is lost, so only the room beside it lets some go on.
    Room for two beside it is enough for all: an answered one costs 0.02 and gives the rest back."""
    together = in_step(n)

    def all_break(_request: Received, number: int) -> Step:
        if number >= n:
            return Step(completion("good"))
        return Step(reset=True, before=together.wait)

    with ChatServer(all_break) as server:
        asking, endpoint = asked(server.url, tmp_path, n, (room_for + 0.01) * MOST)
    assert sorted(kinds(asking)) == ["judge_error"] * (n - judged) + ["judged"] * judged
    assert all(r.rule == (None if r.kind == "judged" else "no_answer") for r in asking.replies)
    assert (endpoint.counts.sent, asking.limit) == (n + judged, judged < n)


def test_a_second_send_goes_before_the_first_of_another(tmp_path: Path) -> None:
    """Two are in flight and the third waits for room; the one that broke comes before it."""
    together = in_step(2)
    asked_again = threading.Event()

    def one_breaks(request: Received, number: int) -> Step:
        if number == 0:
            return Step(reset=True, before=together.wait)
        if number == 1:
            return Step(completion("good"), before=lambda: together.wait() + asked_again.wait(10))
        return Step(completion("good"))

    def note(_text: str) -> None:
        threading.Timer(0.1, asked_again.set).start()

    with ChatServer(one_breaks) as server:
        judge = judge_at(server.url)
        endpoint = ChatEndpoint(judge.address, None, AnswerCache(tmp_path), note=note)
        asking = Asker(judge, endpoint, max_cost=2.9 * MOST).ask_all(questions(3))
    order = [number_of(request) for request in server.received]
    assert sorted(order[:2]) == [0, 1]
    assert order[2:] == [order[0], 2]
    assert (kinds(asking), asking.limit) == (["judged"] * 3, False)


def test_a_refusal_is_not_paid_for(tmp_path: Path) -> None:
    with ChatServer([error(503), error(429), Step(completion("good"))]) as server:
        asking, endpoint = asked(server.url, tmp_path, 1, 1.1 * MOST)
    assert (kinds(asking), endpoint.counts.sent) == (["judged"], 3)


def nobody() -> str:
    with ChatServer([]) as server:
        return server.url


def told(url: str, folder: Path, n: int, notes: list[str],
         monkeypatch: pytest.MonkeyPatch) -> Asking[str]:
    output = Output(as_json=True)
    monkeypatch.setattr(output, "note", notes.append)
    one = prepare(judge_at(url), questions(n), folder, 5.0, output, retry_errors=False,
                  never_key=True)
    return ask(output, one, None, retry_errors=False)


def test_where_nobody_listens_it_ends_after_the_sends_of_one_request_and_says_so_once(
        tmp_path: Path, waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    asking = told(nobody(), tmp_path, 200, notes, monkeypatch)
    assert set(kinds(asking)) == {"not_judged"}
    assert asking.stopped is not None
    assert asking.stopped.endswith("Connection refused; given up after 4 sends")
    assert not asking.limit
    assert sum(str(r.reason).startswith("not asked") for r in asking.replies) >= 200 - 16
    assert len(waits) <= 3 * 16
    assert notes[-1] == f"paid: stopped: {asking.stopped}"
    with ChatServer(lambda _r, _n: Step(completion("good"))) as server:
        assert kinds(asked(server.url, tmp_path, 200)[0]) == ["judged"] * 200


def test_trouble_that_requests_share_is_told_once_in_a_row(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    barrier = threading.Barrier(8, timeout=900)

    def throttled(_request: Received, number: int) -> Step:
        return error(429, "slow down") if number < 8 else Step(completion("good"))

    notes: list[str] = []
    monkeypatch.setattr(clock, "pause", lambda _s: barrier.wait() and None)
    with ChatServer(throttled) as server:
        asking = told(server.url, tmp_path, 8, notes, monkeypatch)
    assert kinds(asking) == ["judged"] * 8
    assert len(notes) == 1
    assert notes[0].endswith("got 429: slow down; sent again in 2 s")


@pytest.mark.parametrize("step", [
    error(400, "no such model"), error(422, "no"), Step(b"", 204), Step(b"<html>sign in</html>"),
    Step(completion("good"), content_type="text/html")])
def test_an_endpoint_that_answers_no_request_is_not_asked_a_thousand_times(
        tmp_path: Path, step: Step) -> None:
    with ChatServer(lambda _r, _n: step) as server:
        asking, _ = asked(server.url, tmp_path, 100, parallel=1)
    assert len(server.received) == 8
    assert kinds(asking) == ["judge_error"] * 8 + ["not_judged"] * 92
    assert "8 requests in a row" in str(asking.stopped)


def test_one_answer_between_refusals_keeps_it_going(tmp_path: Path) -> None:
    def most(_request: Received, number: int) -> Step:
        return Step(completion("rubbish")) if number % 8 == 7 else error(400, "too long")

    with ChatServer(most) as server:
        asking, _ = asked(server.url, tmp_path, 40, parallel=1)
    assert (len(server.received), asking.stopped) == (40, None)
    assert kinds(asking) == ["judge_error"] * 40


def test_a_fault_of_ours_is_raised_and_not_waited_for(tmp_path: Path) -> None:
    def broken(_answer: ChatAnswer) -> str:
        raise RuntimeError("ours")

    judge = judge_at("http://127.0.0.1:9/v1")
    many: Sequence[Question[str]] = [Question(b"%d" % k, broken) for k in range(20)]
    ask_: Callable[..., ChatAnswer] = lambda *_a, **_k: ChatAnswer(content="x")  # noqa: E731
    endpoint = ChatEndpoint(judge.address, None, AnswerCache(tmp_path))
    endpoint.ask = ask_  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="ours"):
        Asker(judge, endpoint, max_cost=MOST).ask_all(many)
