"""The frame of every page: data, charts, theme, policy, in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from markupsafe import Markup

from rig.report.page import Chart, Section, write_page

HOSTILE = "</script><script>window.hacked = 1</script><!--"


def _sections() -> list[Section]:
    figure = {"data": [{"type": "bar", "x": ["<b>a</b>", "b"], "y": [1, 3]}],
              "layout": {"xaxis2": {"title": "unused"}}}
    return [
        Section("first", "First", Markup("<p>{}</p>").format(HOSTILE), data={"text": HOSTILE},
                parts={"0": {"text": HOSTILE}}),
        Section("second", "Second", Markup(""), charts=[
            Chart("bars", figure, f"b is three times a {HOSTILE}", ("name", "n"),
                  (("a", 1), ("b", None)))]),
    ]


def test_charts_are_drawn_and_hostile_text_is_text(page: Any, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    assert write_page("A & B", _sections(), out) == out.stat().st_size
    page.goto(out.as_uri())
    page.wait_for_selector("#chart-second-bars .main-svg")
    assert page.title() == "A & B"
    assert page.evaluate("rigData('first').text") == HOSTILE
    assert page.evaluate("rigPart('first-0').then(part => part.text)") == HOSTILE
    assert page.inner_text("#first p") == HOSTILE
    assert page.evaluate("window.hacked") is None
    assert "a" in page.inner_text("#chart-second-bars")


def test_parts_beside_the_page_are_read_from_disk(page: Any, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    size = write_page("Parts", _sections()[:1], out, parts_dir=tmp_path / "page")
    part, = tmp_path.glob("page-*/first-0.js")
    assert size == out.stat().st_size + part.stat().st_size
    page.goto(out.as_uri())
    assert page.evaluate("rigPart('first-0').then(part => part.text)") == HOSTILE
    assert page.evaluate("window.hacked") is None


def test_a_missing_part_says_which(open_page: Callable[..., Any], tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    write_page("Parts", _sections()[:1], out)
    page = open_page()
    page.goto(out.as_uri())
    assert page.evaluate("rigPart('first-9').catch(error => error.message)") == (
        "this page has no part first-9")


def test_nothing_but_the_scripts_of_the_page_runs(browser: Any, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    write_page("Policy", [Section("s", "S", Markup("<p>text</p>"))], out)
    page = browser.new_page()
    page.goto(out.as_uri())
    page.evaluate("""() => {
        const script = document.createElement("script");
        script.textContent = "window.hacked = 1";
        document.body.append(script);
        document.body.insertAdjacentHTML("beforeend", '<a onclick="window.hacked = 2">x</a>');
        document.querySelector("body > a").click();
    }""")
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("fetch('https://example.invalid/').catch(e => 'refused')") == "refused"
    page.close()


def test_the_button_changes_the_theme_and_tells(page: Any, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    write_page("Theme", _sections()[:1], out)
    page.goto(out.as_uri())
    page.evaluate("""document.addEventListener('rig:theme', () => {
        window.told = rigColour('paper') })""")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.click("#rig-theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
    assert page.evaluate("window.told") == "#0d1117"
    page.emulate_media(color_scheme="dark")
    page.click("#rig-theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_a_word_that_turns_the_direction_turns_itself_alone(page: Any, tmp_path: Path) -> None:
    """Where the browser puts the words: the last one stays last, from a template and from a
    script."""
    out = tmp_path / "page.html"
    write_page("a \u202eb", [Section("s", "S", Markup("<p id=made></p>"))], out,
               lead=["one two", "\u202eone \u2069two"])
    page.goto(out.as_uri())
    assert "\u202e" in page.inner_text("h1")
    assert page.locator(".lead li").count() == 2
    assert page.locator(".lead li").nth(1).inner_text() == "\u2068\u202eone two\u2069"
    lefts = page.evaluate("""() => {
        const place = document.getElementById("made");
        place.append(rigElement("span", {}, "first \u202e\u2069second third fourth"));
        const text = place.firstChild.firstChild;
        return ["first", "third", "fourth"].map((word) => {
            const range = document.createRange();
            const at = text.data.indexOf(word);
            range.setStart(text, at);
            range.setEnd(text, at + word.length);
            return range.getBoundingClientRect().left;
        });
    }""")
    assert lefts == sorted(lefts)
    assert len(set(lefts)) == 3
