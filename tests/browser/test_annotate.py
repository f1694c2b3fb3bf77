"""Pages of `rig sample` in a real browser: filled in, saved, given back, read by `rig agree`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser_page import PATIENCE_S, until
from validation_kit import answers_document

from rig.validation import page as pages
from rig.validation.answers import read_answers
from rig.validation.key import Key, KeyItem, read_key, write_key
from rig.validation.sample import Item, Sample, text_block, turns_block
from rig.validation.studies import Study, fields_of

HOSTILE = "</script><img src=x onerror='window.hacked = 1'> & \u2028 <b>bold</b>"
SECRET = "7" * 64
APART = """const own = new Map();
    Object.defineProperty(window, 'localStorage', { value: {
        getItem: (name) => own.get(name) ?? null, setItem: (name, text) => { own.set(name, text); },
    } });"""
"""A localStorage that no other window sees, and that is gone with a reload."""


@pytest.fixture(scope="module")
def h2_pages(random_run: Path, built_once: Callable[..., Path]) -> Path:
    """H2 of nine cases; pages of A1 to A3 in the folder, the key beside it. Read only."""
    from rig import cli

    def made(folder: Path) -> None:
        folder.mkdir()
        assert cli.main(["sample", "h2", str(random_run), "--out", str(folder / "pages")]) == 0

    return built_once("h2 pages", made) / "pages"


def _made(study: Study, out: Path, n: int = 2) -> tuple[Path, Key]:
    """A page of `n` items made by hand, with text that would be markup if it could."""
    items = tuple(Item(KeyItem(
        item_id=f"{k:016x}", case_id=f"R1-A-{k}", stream="s", role="R1", probe="A", instance=1,
        action="YIELD", fields=fields_of(study)), (
        text_block("Persona", HOSTILE),
        turns_block("User", [{"said": HOSTILE}, {"pause_s": 2.5},
                             {"mark": "from", "text": "here"}])))
        for k in range(n))
    sample = Sample(items, (), (), ())
    written = pages.write_pages(study, sample, ["A1"], SECRET, out)
    key = pages.make_key(study, 1, SECRET, sample, written)
    write_key(out / "key.json", key)
    return out / written[0].file, key


def _download(page: Any, button: str) -> str:
    with page.expect_download() as found:
        page.click(button)
    return Path(found.value.path()).read_text(encoding="utf-8")


def _heading(page: Any) -> str:
    return str(page.inner_text("#annotate-heading"))


def test_a_page_is_filled_in_by_keys_given_back_and_read(
        page: Any, call_rig: Callable[..., Any], h2_pages: Path, tmp_path: Path) -> None:
    key = read_key(h2_pages.with_name("pages.key.json"))
    items = {item.item_id: item for item in key.items}
    page.goto((h2_pages / key.pages[0].file).as_uri())
    for place, item_id in enumerate(key.pages[0].order, start=1):
        assert _heading(page) == f"Item {place} of 9: not complete"
        # The sound is there, as long as it is said to be.
        until(page, "document.querySelector('audio').readyState >= 2")
        said = page.inner_text("#annotate-blocks .soft")
        assert f"of {page.evaluate('document.querySelector(`audio`).duration'):.2f} s" in said
        page.keyboard.press("1" if items[item_id].verdict == "pass" else "2")
        if "functional" in items[item_id].fields:
            assert "not complete" in _heading(page)
            page.get_by_label("it says nothing there").check()
        assert _heading(page) == f"Item {place} of 9: complete"
        page.keyboard.press("n")
    assert "9 of 9 complete: all done" in page.inner_text("#annotate-count")
    assert page.inner_text("#annotate-saved") == "saved in this browser"
    by_hand = _download(page, "#annotate-json")
    (tmp_path / "a1.json").write_text(by_hand, encoding="utf-8")
    (tmp_path / "a1.csv").write_text(_download(page, "#annotate-csv"), encoding="utf-8")
    told = json.loads(by_hand)
    assert (told["complete"], told["annotator"], told["page_id"]) == (
        True, "A1", key.pages[0].page_id)
    paths = [tmp_path / "a1.json"]
    for annotator in ("A2", "A3"):
        path = tmp_path / f"{annotator}.json"
        path.write_text(json.dumps(answers_document(key, annotator, [
            {"met": "yes" if i.verdict == "pass" else "no"}
            | ({"functional": "yes"} if "functional" in i.fields else {}) for i in key.items])))
        paths.append(path)
    found = json.loads(call_rig("agree", h2_pages.with_name("pages.key.json"), *paths,
                                "--json").out)
    assert found["complete"]
    assert found["figures"]["all"]["accuracy"]["value"] == 1
    assert found["figures"]["all"]["kappa"]["value"] == 1
    assert found["figures"]["all"]["human_kappa"]["value"] == 1
    as_csv = call_rig("agree", h2_pages.with_name("pages.key.json"), tmp_path / "a1.csv",
                      *paths[1:], "--json")
    assert json.loads(as_csv.out) == found


def _open_twice(open_page: Callable[..., Any], out: Path, script: str = "",
                ) -> tuple[Path, Any, Any]:
    """A page of three items, and two windows of one browser that show it. `script` runs in every
    window before the page's own."""
    path, _ = _made("h1", out, 3)
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
    assert _heading(second) == "Item 2 of 3: complete"  # nobody is sent elsewhere
    for one in (first, second):
        text = _download(one, "#annotate-json")
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


def _answers(page: Any) -> dict[int, dict[str, Any]]:
    """What a window would give back, by the item's place on the page, without times."""
    found = json.loads(_download(page, "#annotate-json"))["answers"]
    order = page.evaluate("rigData('annotate').items.map((item) => item.id)")
    return {order.index(a["item_id"]): {n: v for n, v in a.items()
                                        if n not in ("item_id", "answered")} for a in found}


def _until_answers(page: Any, expected: dict[int, dict[str, Any]]) -> None:
    for _ in range(round(PATIENCE_S)):
        if _answers(page) == expected:
            return
        page.wait_for_timeout(200)
    assert _answers(page) == expected


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
            _until_answers(one, expected)
        one.close()
    third = first.context.new_page()
    third.goto(path.as_uri())
    _until_answers(third, expected)


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
        _until_answers(one, {0: {"comment": texts[0]}})


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
            assert len(_answers(one)) == 1
            until(one, "JSON.stringify(localStorage).includes('of the first')"
                       " && JSON.stringify(localStorage).includes('of the second')")
            one.evaluate("name => (name === 'visibilitychange' ? document : window)"
                         ".dispatchEvent(new Event(name))", told_by)
        _until_answers(one, {0: {"comment": "of the first"}, 1: {"comment": "of the second"}})


def test_windows_without_a_storage_in_common_hold_the_same_answers(
        open_page: Callable[..., Any], tmp_path: Path) -> None:
    """One that is opened later asks the others; one that is loaded again asks them as well, and
    alone it has what it had."""
    path, first, second = _open_twice(open_page, tmp_path, APART)
    first.get_by_label("Comment").fill("of the first")
    _until_answers(second, {0: {"comment": "of the first"}})
    second.keyboard.press("n")
    second.get_by_label("Comment").fill("of the second")
    expected = {0: {"comment": "of the first"}, 1: {"comment": "of the second"}}
    _until_answers(first, expected)
    third = first.context.new_page()
    third.goto(path.as_uri())
    _until_answers(third, expected)
    third.get_by_label("Comment").fill("of the third")
    assert third.inner_text("#annotate-heading").startswith("Item 1 ")
    expected[0] = {"comment": "of the third"}
    for one in (first, second):
        _until_answers(one, expected)
        one.close()
    third.reload()
    _until_answers(third, expected)


def test_what_another_window_tells_is_an_answer_or_nothing(
        open_page: Callable[..., Any], tmp_path: Path) -> None:
    path, key = _made("h1", tmp_path, 3)
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
    _until_answers(page, {0: {"comment": "mine"}, 1: {"comment": HOSTILE}})
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
    _until_answers(first, expected)
    second.evaluate("window.deaf = false")
    _until_answers(second, expected)
    assert first.get_by_label("Comment").input_value() == "later"
    third = first.context.new_page()
    third.goto(path.as_uri())
    _until_answers(third, expected)


def test_answers_that_a_page_of_before_kept_are_read(
        open_page: Callable[..., Any], tmp_path: Path) -> None:
    """All in one text; also while such a page is still open elsewhere."""
    path, key = _made("h1", tmp_path, 3)
    page = open_page()
    page.goto(path.as_uri())

    def kept(*entries: dict[str, Any]) -> None:
        page.evaluate("([name, text]) => localStorage.setItem(name, text)", [
            f"duplexrig-answers-{key.pages[0].page_id}",
            json.dumps(answers_document(key, "A1", []) | {"answers": list(entries)})])

    one, two = key.pages[0].order[:2]
    kept({"item_id": one, "answered": "2026-01-01T00:00:00.000Z", "comment": "of before",
          "confidence": "2"}, {"item_id": two, "answered": "2026-01-01T00:00:01.000Z"})
    _until_answers(page, {0: {"comment": "of before", "confidence": "2"}})
    page.get_by_label("Comment").fill("now")
    kept({"item_id": one, "answered": "2026-01-01T00:00:02.000Z", "comment": "too late",
          "confidence": "3"}, {"item_id": two, "answered": "2026-01-01T00:00:01.000Z",
                               "comment": "more"})
    _until_answers(page, {0: {"comment": "now", "confidence": "3"}, 1: {"comment": "more"}})
    page.reload()
    _until_answers(page, {0: {"comment": "now", "confidence": "3"}, 1: {"comment": "more"}})


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
    _until_answers(first, {0: {"comment": "later"}, 1: {"comment": "kept nowhere else"}})
    until(first, "document.getElementById('annotate-saved').textContent.includes('NOT saved')")
    assert [a["comment"] for a in json.loads(_download(first, "#annotate-json"))["answers"]] == [
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


def test_answers_outlive_a_reload_and_go_on_elsewhere(
        open_page: Callable[..., Any], tmp_path: Path) -> None:
    path, _ = _made("h1", tmp_path, 3)
    page = open_page()
    page.goto(path.as_uri())
    page.keyboard.press("4")  # the fourth: yield
    page.get_by_label("Earliest fitting moment").fill("0,5")
    page.get_by_label("Latest fitting moment").fill("2")
    page.get_by_label("fairly sure").check()
    page.get_by_label("Comment").fill(HOSTILE)
    text = _download(page, "#annotate-json")
    (answer,) = json.loads(text)["answers"]
    assert {n: answer[n] for n in ("action", "earliest_s", "latest_s", "confidence",
                                   "comment")} == {
        "action": "YIELD", "earliest_s": 0.5, "latest_s": 2, "confidence": "2", "comment": HOSTILE}
    page.reload()
    until(page, "document.getElementById('annotate-count').textContent === '1 of 3 complete'")
    assert _heading(page) == "Item 2 of 3: not complete"  # the first that is not done
    page.keyboard.press("p")
    assert page.get_by_label("Earliest fitting moment").input_value() == "0.5"
    assert page.get_by_label("fairly sure").is_checked()

    other = open_page()  # another browser: nothing is kept there
    other.goto(path.as_uri())
    assert "0 of 3 complete" in other.inner_text("#annotate-count")
    other.set_input_files("#annotate-file", {
        "name": "answers.json", "mimeType": "application/json", "buffer": text.encode()})
    until(other, "document.getElementById('annotate-saved').textContent"
                 " === 'loaded answers to 1 items'")
    assert "1 of 3 complete" in other.inner_text("#annotate-count")
    assert other.get_by_label("Comment").input_value() == HOSTILE
    assert other.evaluate("window.hacked") is None


def test_csv_holds_no_live_formula_and_gives_back_what_was_typed(
        page: Any, tmp_path: Path) -> None:
    comments = ["=1+1", "+1", "-no", "@x", "\tx", "\nx", "'=x", "''=x", "'x", "x=1", "'", "-",
                "=HYPERLINK(\"http://x\", \"y\")", "a, \"b\"\nc", "\u2028=1"]
    path, key = _made("h1", tmp_path, len(comments))
    given = [{"action": "YIELD", "confidence": "2", "earliest_s": -0.5, "latest_s": 1e-7,
              "comment": comment} for comment in comments]
    page.goto(path.as_uri())
    page.set_input_files("#annotate-file", {
        "name": "a.json", "mimeType": "application/json",
        "buffer": json.dumps(answers_document(key, "A1", given)).encode()})
    until(page, "document.getElementById('annotate-saved').textContent"
                           ".startsWith('loaded')")
    with page.expect_download() as download:
        page.click("#annotate-csv")
    file = Path(download.value.path())
    text = file.read_bytes().decode()
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert all(not row["comment"].startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows)
    assert {(row["earliest_s"], row["latest_s"]) for row in rows} == {("-0.5", "1e-7")}
    (found,) = read_answers(key, [file])
    by_item = {answer.item_id: answer.values for answer in found.answers}
    assert [by_item[item.item_id] for item in key.items] == given


@pytest.mark.parametrize(("change", "why"), [
    ({"page_id": "0" * 16}, "these answers belong to another page (A1)"),
    ({"kind": "x"}, "this file holds no answers of such a page"),
    ({"answers": [{"item_id": "0" * 16, "action": "SHOUT"}]}, "action: no such answer"),
    ({"answers": [{"item_id": "f" * 16}]}, "an item is unknown or comes twice"),
    (None, "this file is no JSON")])
def test_answers_of_something_else_are_not_loaded(
        page: Any, tmp_path: Path, change: dict[str, Any] | None, why: str) -> None:
    path, key = _made("h1", tmp_path)
    page.goto(path.as_uri())
    page.keyboard.press("1")
    document = {} if change is None else answers_document(
        key, "A1", [{"action": "LISTEN"}]) | change
    page.set_input_files("#annotate-file", {
        "name": "a.json", "mimeType": "application/json",
        "buffer": b"{" if change is None else json.dumps(document).encode()})
    until(page, "document.getElementById('annotate-saved').textContent"
                           ".startsWith('not loaded')")
    assert page.inner_text("#annotate-saved") == f"not loaded: {why}"
    assert len(json.loads(_download(page, "#annotate-json"))["answers"]) == 1


def test_what_is_no_answer_is_said_and_not_kept(page: Any, tmp_path: Path) -> None:
    path, _ = _made("h1", tmp_path)
    page.goto(path.as_uri())
    earliest, latest = (page.get_by_label(f"{name} fitting moment")
                        for name in ("Earliest", "Latest"))
    for typed, why in (("abc", "a number, please"), ("61", "-30 to 60, please"),
                       ("1e1", "a number, please"), ("-30", ""), ("60", "")):
        earliest.fill(typed)
        assert page.inner_text("#annotate-problem-earliest_s") == why
        assert earliest.get_attribute("aria-invalid") == ("true" if why else "false")
    latest.fill("59")
    assert page.inner_text("#annotate-problem-latest_s") == "not before the earliest, please"
    page.keyboard.press("Escape")
    page.get_by_label("Take turn").check()
    page.get_by_label("a guess").check()
    assert "not complete" in _heading(page)
    latest.fill("60")
    assert _heading(page) == "Item 1 of 2: complete"
    page.get_by_label("Listen", exact=False).first.check()
    latest.fill("")
    earliest.fill("")
    assert _heading(page) == "Item 1 of 2: complete"  # silence needs no time


def test_hostile_text_is_text(page: Any, tmp_path: Path) -> None:
    path, _ = _made("h1", tmp_path)
    page.goto(path.as_uri())
    assert page.inner_text("#annotate-blocks p.text").split() == HOSTILE.split()
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.querySelectorAll('#annotate img, #annotate b').length") == 0


def test_keys_are_left_alone_while_typing_and_can_be_turned_off(page: Any, tmp_path: Path) -> None:
    path, _ = _made("h1", tmp_path)
    page.goto(path.as_uri())
    page.get_by_label("Comment").focus()
    page.keyboard.type("n1pu")
    assert _heading(page).startswith("Item 1 of 2")
    assert page.get_by_label("Comment").input_value() == "n1pu"
    page.get_by_label("use these keys").uncheck()
    page.locator("#annotate-heading").focus()
    page.keyboard.press("n")
    assert _heading(page).startswith("Item 1 of 2")
    page.get_by_label("use these keys").check()
    page.locator("#annotate-heading").focus()
    page.keyboard.press("n")
    assert _heading(page).startswith("Item 2 of 2")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit_and_every_control_is_reached_by_keys(
        open_page: Callable[..., Any], h2_pages: Path, width: int, theme: str) -> None:
    page = open_page(width=width, color_scheme=theme)
    page.goto((h2_pages / "h2.A2.html").as_uri())
    until(page, "document.querySelector('audio').readyState >= 2")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wanted = {"annotate-json", "annotate-csv", "annotate-load", "annotate-next", "annotate-keys"}
    for _ in range(60):
        page.keyboard.press("Tab")
        wanted.discard(page.evaluate("document.activeElement.id"))
    assert wanted == set()


def test_w_plays_from_before_the_window(page: Any, h2_pages: Path) -> None:
    page.goto((h2_pages / "h2.A1.html").as_uri())
    until(page, "document.querySelector('audio').readyState >= 2")
    start = page.evaluate("rigData('annotate').items[0].clip.marks[0]")
    page.evaluate("""() => {
        const { set, get } = Object.getOwnPropertyDescriptor(
            HTMLMediaElement.prototype, "currentTime");
        window.sought = [];
        Object.defineProperty(HTMLMediaElement.prototype, "currentTime",
            { get, set(s) { window.sought.push(s); set.call(this, s); } });
        window.first = document.querySelector("audio");
        window.first.addEventListener("playing", () => { window.played = true; });
    }""")
    page.locator("#annotate-heading").focus()
    page.keyboard.press("w")
    until(page, "window.played")
    assert page.evaluate("window.sought") == [max(0, start - 3)]
    assert max(0, start - 3) < start
    page.keyboard.press("n")  # the next item does not go on playing
    until(page, "window.first.paused && document.querySelector('audio').paused")


def test_a_pause_before_the_sound_begins_is_no_error_and_what_cannot_play_is_told(
        page: Any, h2_pages: Path) -> None:
    page.goto((h2_pages / "h2.A1.html").as_uri())
    page.locator("#annotate-heading").focus()
    for _ in range(10):
        page.keyboard.press("w")
        page.keyboard.press("n")  # before the sound can have begun
        page.keyboard.press("p")
    assert page.locator("#annotate-blocks .problem").count() == 0
    page.evaluate("() => { HTMLMediaElement.prototype.play = "
                  "() => Promise.reject(new Error('no device')); }")
    page.keyboard.press("w")
    until(page, "document.querySelector('#annotate-blocks .problem')?.textContent"
                " === 'the sound cannot be played: no device'")


def test_without_storage_the_page_says_so(open_page: Callable[..., Any], tmp_path: Path) -> None:
    path, _ = _made("h1", tmp_path)
    page = open_page()
    page.add_init_script("Object.defineProperty(window, 'localStorage', "
                         "{ get() { throw new Error('refused'); } });")
    page.goto(path.as_uri())
    page.keyboard.press("1")
    assert page.inner_text("#annotate-saved").startswith("NOT saved in this browser")
    assert len(json.loads(_download(page, "#annotate-json"))["answers"]) == 1
