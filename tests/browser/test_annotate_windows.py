"""The annotator's page in several windows of one browser: no answer is lost, nobody disturbed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from annotate_kit import HOSTILE, answers_of, downloaded, heading_of, made_page, until_answers
from browser_page import PATIENCE_S, until
from validation_kit import answers_document

APART = """const own = new Map();
    Object.defineProperty(window, 'localStorage', { value: {
        getItem: (name) => own.get(name) ?? null, setItem: (name, text) => { own.set(name, text); },
    } });"""
"""A localStorage that no other window sees, and that is gone with a reload."""
DEAF = """const unheard = (event) => { if (window.deaf) event.stopImmediatePropagation(); };
    addEventListener('storage', unheard, true);
    const Channel = window.BroadcastChannel;
    window.BroadcastChannel = class extends Channel {
        constructor(name) { super(name); this.addEventListener('message', unheard); } };"""
NO_TIMER = "window.deaf = true; window.setInterval = () => 0;"
CLOCK = """window.Date = class extends Date {
    constructor(...all) { if (all.length) super(...all); else super(window.now_ms); }
    static now() { return window.now_ms; } };
    window.now_ms = 1_700_000_000_000;"""
WRITE = """([name, query]) => {
    window.written = false;
    const write = async () => {
        for (let k = 1; k <= 100; k += 1) {
            const box = document.querySelector(query);
            box.value = query === "textarea" ? name + " " + k : String(k % 60);
            box.dispatchEvent(new Event("input", { bubbles: true }));
            if (k % 10 === 0) await new Promise((done) => setTimeout(done, 5));
        }
        window.written = true;
    };
    write();
}"""
EARLIEST = "input[name=earliest_s]"


def _open_twice(open_page: Callable[..., Any], out: Path, script: str = "",
                ) -> tuple[Path, Any, Any]:
    """A page of three items, and two windows of one browser that show it. `script` runs in every
    window before the page's own."""
    path, _ = made_page("h1", out, 3)
    for _ in range(10):
        first = open_page()
        if script:
            first.context.add_init_script(script)
        second = first.context.new_page()
        for page in (first, second):
            page.goto(path.as_uri())
        if script == APART or _shared(first, second):
            return path, first, second
        print("the browser gave two windows a localStorage each: opened again")
        first.context.close()
    raise AssertionError("two windows of one browser never shared a localStorage")


def _shared(first: Any, second: Any) -> bool:
    """Chromium 156 on a busy machine now and then gives a page a localStorage of its own, and a
    test of what is shared must not depend on that; `APART` is such a browser."""
    first.evaluate("localStorage.setItem('shared', 'yes')")
    for _ in range(100):
        if second.evaluate("localStorage.getItem('shared')") == "yes":
            first.evaluate("localStorage.removeItem('shared')")
            return True
        second.wait_for_timeout(50)
    return False


def test_a_page_that_is_open_twice_loses_no_answer(
        open_page: Callable[..., Any], tmp_path: Path) -> None:
    _, first, second = _open_twice(open_page, tmp_path)
    first.get_by_label("Comment").fill(HOSTILE)
    until(second, f"document.querySelector('textarea').value === {json.dumps(HOSTILE)}")
    second.keyboard.press("n")
    second.get_by_label("Comment").fill("of the second")
    second.get_by_label("Earliest fitting moment").fill("1")
    second.get_by_label("Latest fitting moment").fill("2")
    second.get_by_label("fairly sure").check()
    second.locator("input[name=action]").first.check()
    until(first, "document.getElementById('annotate-count').textContent === '1 of 3 complete'")
    first.get_by_label("Comment").fill("of the first")
    until(second, "JSON.stringify(localStorage).includes('of the first')")
    assert heading_of(second) == "Item 2 of 3: complete"  # nobody is sent elsewhere
    for one in (first, second):
        text = downloaded(one, "#annotate-json")
        assert [a["comment"] for a in json.loads(text)["answers"]] == [
            "of the first", "of the second"]


def test_whoever_types_is_not_disturbed_by_another_window(
        open_page: Callable[..., Any], tmp_path: Path) -> None:
    """Keys of a comment must not become answers: the place of typing stays, and what is wrong."""
    _, first, second = _open_twice(open_page, tmp_path)
    second.keyboard.press("n")
    first.get_by_label("Earliest fitting moment").fill("abc")
    first.get_by_label("Comment").focus()
    first.keyboard.type("at ")
    second.get_by_label("Comment").fill("of the second")
    until(first, "document.getElementById('annotate-saved').textContent !== ''"
                 " && JSON.stringify(localStorage).includes('of the second')")
    first.keyboard.type("7 s")
    assert first.get_by_label("Comment").input_value() == "at 7 s"
    assert first.get_by_label("Earliest fitting moment").input_value() == "abc"
    assert first.locator("input[name=action]:checked").count() == 0
    # the very item that is typed in: asked anew, and typing goes on there
    second.keyboard.press("Tab")
    second.click("#annotate-previous")
    second.get_by_label("Comment").fill("theirs")
    until(first, "document.querySelector('textarea').value === 'theirs'")
    first.keyboard.type(", 7 s")
    assert first.get_by_label("Comment").input_value() == "theirs, 7 s"
    assert first.get_by_label("Earliest fitting moment").input_value() == "abc"
    assert first.locator("input[name=action]:checked").count() == 0


def test_who_has_come_to_a_question_is_not_sent_elsewhere(
        open_page: Callable[..., Any], tmp_path: Path) -> None:
    """A screen reader or a program may come there without a key or a click."""
    _, first, second = _open_twice(open_page, tmp_path)
    first.get_by_label("Comment").focus()
    second.get_by_label("Earliest fitting moment").fill("1")
    until(first, "document.querySelector('input[name=earliest_s]').value === '1'")
    first.keyboard.insert_text("mine")
    assert first.get_by_label("Comment").input_value() == "mine"


# Where `deaf` is set, no event of storage comes; CLOCK: one that stands at `now_ms`.


@pytest.mark.parametrize("script", ["", DEAF + NO_TIMER], ids=["as it is", "nothing is told"])
@pytest.mark.parametrize(("n_items", "query", "expected"), [
    (1, "textarea", {0: {"comment": "one 100"}, 1: {"comment": "two 100"}}),
    (0, EARLIEST, {0: {"comment": "one 100", "earliest_s": 40}})], ids=["items", "questions"])
def test_two_windows_that_write_at_once_lose_nothing(
        open_page: Callable[..., Any], tmp_path: Path, n_items: int, query: str,
        expected: dict[int, dict[str, Any]], script: str) -> None:
    path, first, second = _open_twice(open_page, tmp_path, script)
    for _ in range(n_items):
        second.keyboard.press("n")
    first.evaluate(WRITE, ["one", "textarea"])
    second.evaluate(WRITE, ["two", query])
    for one in (first, second):
        until(one, "window.written")
        if not script:
            until_answers(one, expected)
        one.close()
    third = first.context.new_page()
    third.goto(path.as_uri())
    until_answers(third, expected)


def test_of_one_question_answered_twice_at_once_all_windows_hold_the_same(
        open_page: Callable[..., Any], tmp_path: Path) -> None:
    _, first, second = _open_twice(open_page, tmp_path)
    first.evaluate(WRITE, ["one", "textarea"])
    second.evaluate(WRITE, ["two", "textarea"])
    for one in (first, second):
        until(one, "window.written")
    until(first, "['one 100', 'two 100'].includes(document.querySelector('textarea').value)")
    until(second, "['one 100', 'two 100'].includes(document.querySelector('textarea').value)")
    for _ in range(round(PATIENCE_S)):
        texts = [one.get_by_label("Comment").input_value() for one in (first, second)]
        if texts[0] == texts[1]:
            break
        first.wait_for_timeout(200)
    assert texts[0] == texts[1]
    for one in (first, second):
        until_answers(one, {0: {"comment": texts[0]}})


@pytest.mark.parametrize("told_by", ["the clock", "focus", "pageshow", "visibilitychange"])
def test_an_event_that_never_comes_loses_no_answer(
        open_page: Callable[..., Any], tmp_path: Path, told_by: str) -> None:
    script = "window.deaf = true;" + DEAF + ("" if told_by == "the clock" else NO_TIMER)
    _, first, second = _open_twice(open_page, tmp_path, script)
    second.keyboard.press("n")
    first.get_by_label("Comment").fill("of the first")
    second.get_by_label("Comment").fill("of the second")
    for one in (first, second):
        if told_by != "the clock":
            assert len(answers_of(one)) == 1
            until(one, "JSON.stringify(localStorage).includes('of the first')"
                       " && JSON.stringify(localStorage).includes('of the second')")
            one.evaluate("name => (name === 'visibilitychange' ? document : window)"
                         ".dispatchEvent(new Event(name))", told_by)
        until_answers(one, {0: {"comment": "of the first"}, 1: {"comment": "of the second"}})


def test_windows_without_a_storage_in_common_hold_the_same_answers(
        open_page: Callable[..., Any], tmp_path: Path) -> None:
    """One that is opened later asks the others; one that is loaded again asks them as well, and
    alone it has what it had."""
    path, first, second = _open_twice(open_page, tmp_path, APART)
    first.get_by_label("Comment").fill("of the first")
    until_answers(second, {0: {"comment": "of the first"}})
    second.keyboard.press("n")
    second.get_by_label("Comment").fill("of the second")
    expected = {0: {"comment": "of the first"}, 1: {"comment": "of the second"}}
    until_answers(first, expected)
    third = first.context.new_page()
    third.goto(path.as_uri())
    until_answers(third, expected)
    third.get_by_label("Comment").fill("of the third")
    assert third.inner_text("#annotate-heading").startswith("Item 1 ")
    expected[0] = {"comment": "of the third"}
    for one in (first, second):
        until_answers(one, expected)
        one.close()
    third.reload()
    until_answers(third, expected)


def test_what_another_window_tells_is_an_answer_or_nothing(
        open_page: Callable[..., Any], tmp_path: Path) -> None:
    path, key = made_page("h1", tmp_path, 3)
    page = open_page()
    page.goto(path.as_uri())
    page.get_by_label("Comment").fill("mine")
    one, two = key.pages[0].order[:2]
    late = {"order": 2**53 - 1, "answered": "2030-01-01T00:00:00.000Z"}
    page.evaluate("""([name, messages]) => {
        const other = new BroadcastChannel(name);
        messages.forEach((message) => other.postMessage(message));
    }""", [f"duplexrig-answers-{key.pages[0].page_id}", [
        None, 7, {}, "all", [], [None], [[]], [["__proto__", "comment", "x"]],
        [[one, "constructor", "x"]], [[one, "comment", 7]], [[one, "comment", "no JSON"]],
        [[one, "comment", json.dumps({"value": "x" * 1001, **late})]],
        [[one, "comment", json.dumps({"value": "x", **late, "order": "1"})]],
        [[one, "action", json.dumps({"value": "NONE", **late})]],
        [[two, "comment", json.dumps({"value": HOSTILE, **late})]]]])
    until_answers(page, {0: {"comment": "mine"}, 1: {"comment": HOSTILE}})
    assert page.evaluate("window.hacked") is None


@pytest.mark.parametrize("step_ms", [0, -3_600_000], ids=["stands still", "steps back"])
def test_whatever_the_clock_says_the_later_text_holds(
        open_page: Callable[..., Any], tmp_path: Path, step_ms: int) -> None:
    """The other window writes when it has not heard of the later text yet."""
    path, first, second = _open_twice(open_page, tmp_path, CLOCK + DEAF)
    first.get_by_label("Comment").fill("early")
    until(second, "document.querySelector('textarea').value === 'early'")
    second.evaluate("window.deaf = true")
    first.evaluate("step_ms => { window.now_ms += step_ms; }", step_ms)
    first.get_by_label("Comment").fill("later")
    second.keyboard.press("n")
    second.get_by_label("Comment").fill("of the second")
    expected = {0: {"comment": "later"}, 1: {"comment": "of the second"}}
    until_answers(first, expected)
    second.evaluate("window.deaf = false")
    until_answers(second, expected)
    assert first.get_by_label("Comment").input_value() == "later"
    third = first.context.new_page()
    third.goto(path.as_uri())
    until_answers(third, expected)


def test_answers_that_a_page_of_before_kept_are_read(
        open_page: Callable[..., Any], tmp_path: Path) -> None:
    """All in one text; also while such a page is still open elsewhere."""
    path, key = made_page("h1", tmp_path, 3)
    page = open_page()
    page.goto(path.as_uri())

    def kept(*entries: dict[str, Any]) -> None:
        page.evaluate("([name, text]) => localStorage.setItem(name, text)", [
            f"duplexrig-answers-{key.pages[0].page_id}",
            json.dumps(answers_document(key, "A1", []) | {"answers": list(entries)})])

    one, two = key.pages[0].order[:2]
    kept({"item_id": one, "answered": "2026-01-01T00:00:00.000Z", "comment": "of before",
          "confidence": "2"}, {"item_id": two, "answered": "2026-01-01T00:00:01.000Z"})
    until_answers(page, {0: {"comment": "of before", "confidence": "2"}})
    page.get_by_label("Comment").fill("now")
    kept({"item_id": one, "answered": "2026-01-01T00:00:02.000Z", "comment": "too late",
          "confidence": "3"}, {"item_id": two, "answered": "2026-01-01T00:00:01.000Z",
                               "comment": "more"})
    until_answers(page, {0: {"comment": "now", "confidence": "3"}, 1: {"comment": "more"}})
    page.reload()
    until_answers(page, {0: {"comment": "now", "confidence": "3"}, 1: {"comment": "more"}})


def test_answers_that_the_browser_cannot_keep_are_not_lost_to_another_window(
        open_page: Callable[..., Any], tmp_path: Path) -> None:
    """Windows that do not hear each other: else one keeps what the other cannot."""
    path, first, second = _open_twice(open_page, tmp_path, "delete window.BroadcastChannel")
    first.get_by_label("Comment").fill("kept")
    until(second, "document.querySelector('textarea').value === 'kept'")
    first.evaluate(
        "() => { window.able = Storage.prototype.setItem;"
        " Storage.prototype.setItem = () => { throw new Error('full') } }")
    first.keyboard.press("Tab")
    first.click("#annotate-next")
    first.get_by_label("Comment").fill("kept nowhere else")
    assert "NOT saved" in first.inner_text("#annotate-saved")
    second.get_by_label("Comment").fill("later")
    until_answers(first, {0: {"comment": "later"}, 1: {"comment": "kept nowhere else"}})
    until(first, "document.getElementById('annotate-saved').textContent.includes('NOT saved')")
    assert [a["comment"] for a in json.loads(downloaded(first, "#annotate-json"))["answers"]] == [
        "later", "kept nowhere else"]
    # wiped by somebody: what a window still holds is kept again
    third = first.context.new_page()
    third.goto(path.as_uri())
    third.evaluate("localStorage.clear()")
    until(third, "JSON.stringify(localStorage).includes('later')")
    # there is room again
    first.evaluate("() => { Storage.prototype.setItem = window.able }")
    until(first, "document.getElementById('annotate-saved').textContent"
                 " === 'saved in this browser'")
    until(third, "JSON.stringify(localStorage).includes('kept nowhere else')")
