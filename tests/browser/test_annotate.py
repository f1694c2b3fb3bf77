"""Pages of `rig sample` in a real browser: filled in, saved, given back, read by `rig agree`."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from annotate_kit import HOSTILE, downloaded, heading_of, made_page
from browser_page import until
from validation_kit import answers_document

from rig.validation.answers import read_answers
from rig.validation.key import read_key


@pytest.fixture(scope="module")
def h2_pages(random_run: Path, built_once: Callable[..., Path]) -> Path:
    """H2 of nine cases; pages of A1 to A3 in the folder, the key beside it. Read only."""
    from rig import cli

    def made(folder: Path) -> None:
        folder.mkdir()
        assert cli.main(["sample", "h2", str(random_run), "--out", str(folder / "pages")]) == 0

    return built_once("h2 pages", made) / "pages"


def test_a_page_is_filled_in_by_keys_given_back_and_read(
        page: Any, call_rig: Callable[..., Any], h2_pages: Path, tmp_path: Path) -> None:
    key = read_key(h2_pages.with_name("pages.key.json"))
    items = {item.item_id: item for item in key.items}
    page.goto((h2_pages / key.pages[0].file).as_uri())
    for place, item_id in enumerate(key.pages[0].order, start=1):
        assert heading_of(page) == f"Item {place} of 9: not complete"
        # The sound is there, as long as it is said to be.
        until(page, "document.querySelector('audio').readyState >= 2")
        said = page.inner_text("#annotate-blocks .soft")
        assert f"of {page.evaluate('document.querySelector(`audio`).duration'):.2f} s" in said
        page.keyboard.press("1" if items[item_id].verdict == "pass" else "2")
        if "functional" in items[item_id].fields:
            assert "not complete" in heading_of(page)
            page.get_by_label("it says nothing there").check()
        assert heading_of(page) == f"Item {place} of 9: complete"
        page.keyboard.press("n")
    assert "9 of 9 complete: all done" in page.inner_text("#annotate-count")
    assert page.inner_text("#annotate-saved") == "saved in this browser"
    by_hand = downloaded(page, "#annotate-json")
    (tmp_path / "a1.json").write_text(by_hand, encoding="utf-8")
    (tmp_path / "a1.csv").write_text(downloaded(page, "#annotate-csv"), encoding="utf-8")
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


def test_answers_outlive_a_reload_and_go_on_elsewhere(
        open_page: Callable[..., Any], tmp_path: Path) -> None:
    path, _ = made_page("h1", tmp_path, 3)
    page = open_page()
    page.goto(path.as_uri())
    page.keyboard.press("4")  # the fourth: yield
    page.get_by_label("Earliest fitting moment").fill("0,5")
    page.get_by_label("Latest fitting moment").fill("2")
    page.get_by_label("fairly sure").check()
    page.get_by_label("Comment").fill(HOSTILE)
    text = downloaded(page, "#annotate-json")
    (answer,) = json.loads(text)["answers"]
    assert {n: answer[n] for n in ("action", "earliest_s", "latest_s", "confidence",
                                   "comment")} == {
        "action": "YIELD", "earliest_s": 0.5, "latest_s": 2, "confidence": "2", "comment": HOSTILE}
    page.reload()
    until(page, "document.getElementById('annotate-count').textContent === '1 of 3 complete'")
    assert heading_of(page) == "Item 2 of 3: not complete"  # the first that is not done
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
    path, key = made_page("h1", tmp_path, len(comments))
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
    path, key = made_page("h1", tmp_path)
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
    assert len(json.loads(downloaded(page, "#annotate-json"))["answers"]) == 1


def test_what_is_no_answer_is_said_and_not_kept(page: Any, tmp_path: Path) -> None:
    path, _ = made_page("h1", tmp_path)
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
    assert "not complete" in heading_of(page)
    latest.fill("60")
    assert heading_of(page) == "Item 1 of 2: complete"
    page.get_by_label("Listen", exact=False).first.check()
    latest.fill("")
    earliest.fill("")
    assert heading_of(page) == "Item 1 of 2: complete"  # silence needs no time


def test_hostile_text_is_text(page: Any, tmp_path: Path) -> None:
    path, _ = made_page("h1", tmp_path)
    page.goto(path.as_uri())
    assert page.inner_text("#annotate-blocks p.text").split() == HOSTILE.split()
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.querySelectorAll('#annotate img, #annotate b').length") == 0


def test_keys_are_left_alone_while_typing_and_can_be_turned_off(page: Any, tmp_path: Path) -> None:
    path, _ = made_page("h1", tmp_path)
    page.goto(path.as_uri())
    page.get_by_label("Comment").focus()
    page.keyboard.type("n1pu")
    assert heading_of(page).startswith("Item 1 of 2")
    assert page.get_by_label("Comment").input_value() == "n1pu"
    page.get_by_label("use these keys").uncheck()
    page.locator("#annotate-heading").focus()
    page.keyboard.press("n")
    assert heading_of(page).startswith("Item 1 of 2")
    page.get_by_label("use these keys").check()
    page.locator("#annotate-heading").focus()
    page.keyboard.press("n")
    assert heading_of(page).startswith("Item 2 of 2")


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
    path, _ = made_page("h1", tmp_path)
    page = open_page()
    page.add_init_script("Object.defineProperty(window, 'localStorage', "
                         "{ get() { throw new Error('refused'); } });")
    page.goto(path.as_uri())
    page.keyboard.press("1")
    assert page.inner_text("#annotate-saved").startswith("NOT saved in this browser")
    assert len(json.loads(downloaded(page, "#annotate-json"))["answers"]) == 1
