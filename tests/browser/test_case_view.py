"""The case view in a real browser: what is shown, keys, zoom, playback."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rig_testkit as kit
from browser_page import frame, until

HOSTILE = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"


@pytest.fixture(scope="module")
def report(random_run: Path, oracle_run: Path, built_once: Callable[..., Path]) -> Path:
    """One page of two runs, with the sound of all cases."""
    from rig import cli

    def made(folder: Path) -> None:
        folder.mkdir()
        assert cli.main(["report", str(oracle_run), str(random_run), "--audio", "all", "--jobs",
                         "1", "--out", str(folder / "report.html")]) == 0

    return built_once("report with sound", made) / "report.html"


@pytest.fixture
def view(page: Any, report: Path) -> Any:
    """The page, opened, its first case drawn and its sound ready."""
    return _opened(page, report)


# What was played: from which second of the sound, and how many seconds.
PLAYED = """
    const start = AudioBufferSourceNode.prototype.start;
    window.played = [];
    AudioBufferSourceNode.prototype.start = function (when, from_s, length_s) {
        window.played.push([from_s, length_s]);
        return start.call(this, when, from_s, length_s);
    };"""


# Charts take most of a page's time, and have tests of their own: here they wait for ever.
NO_CHARTS = "window.requestIdleCallback = () => {};"


def _opened(page: Any, path: Path) -> Any:
    page.add_init_script(PLAYED + NO_CHARTS)
    page.goto(path.as_uri())
    page.wait_for_selector("#case-head h3")
    until(page, "() => !document.getElementById('case-play').disabled")
    return page


HEAD_NAMES = "id => document.getElementById('case-head').textContent.includes(id)"
PLAY_SAYS = "text => document.getElementById('case-play').textContent === text"
BEYOND = ("from => Number(document.querySelector('canvas.timeline')"
          ".getAttribute('aria-valuenow')) > from")


def _slider(page: Any, name: str = "aria-valuenow") -> float:
    return float(page.get_attribute("canvas.timeline", name))


def _failing(run: Path) -> list[str]:
    return [c["case_id"] for c in kit.scores(run)["cases"] if c["outcome"] == "fail"]


def test_it_opens_on_the_first_failing_case(view: Any, random_run: Path) -> None:
    first = next(c for c in kit.scores(random_run)["cases"] if c["outcome"] == "fail")
    head = view.inner_text("#case-head")
    assert head.startswith(f"FAIL {first['case_id']} t1 · {first['expected_action']} expected")
    assert first["reason"] in head
    assert view.input_value("#case-run") == "1"
    assert view.inner_text("#case-count") == f"10 of 18, {len(_failing(random_run))} failing"


def test_keys_go_through_the_failing_cases(view: Any, random_run: Path) -> None:
    seen = []
    for case_id in [*_failing(random_run)[1:], _failing(random_run)[0]]:
        view.keyboard.press("n")
        until(view, HEAD_NAMES, case_id)
        seen.append(case_id)
    assert len(seen) == len(_failing(random_run))
    view.keyboard.press("p")
    until(view, HEAD_NAMES, seen[-2])
    # The last case of all; behind it comes the first.
    count = "text => document.getElementById('case-count').textContent.startsWith(text)"
    until(view, count, "18 of 18")
    view.keyboard.press("]")
    until(view, count, "1 of 18")
    view.keyboard.press("[")
    until(view, count, "18 of 18")


def test_playback_moves_the_cursor_and_stops(view: Any) -> None:
    view.click("#case-play")
    until(view, BEYOND, 0.3)
    assert view.inner_text("#case-play") == "pause"
    view.click("#case-play")
    stopped = _slider(view)
    for _ in range(5):
        frame(view)  # the cursor would move in each
    assert _slider(view) == stopped
    assert view.inner_text("#case-play") == "play"


def test_the_window_is_played_and_no_more(view: Any) -> None:
    window = view.evaluate("rigPart('case-9').then(part => part.windows.find(w => w.scored))")
    view.evaluate("""() => {
        const canvas = document.querySelector("canvas.timeline");
        window.moments = [];
        new MutationObserver(() => window.moments.push(Number(canvas.ariaValueNow)))
            .observe(canvas, { attributeFilter: ["aria-valuenow"] });
    }""")
    view.keyboard.press("w")
    until(view, "window.played.length === 1")
    first, last = window["start_s"] - 0.5, window["end_s"] + 0.5
    assert view.evaluate("window.played") == [pytest.approx([first, last - first])]
    until(view, PLAY_SAYS, "play")
    moments = view.evaluate("window.moments")
    assert moments[0] == pytest.approx(first, abs=0.001)
    assert moments == sorted(moments)
    assert moments[-1] == _slider(view) == pytest.approx(last, abs=0.001)


def test_a_click_seeks_also_while_it_plays(view: Any) -> None:
    box = view.locator("canvas.timeline").bounding_box()
    duration = _slider(view, "aria-valuemax")
    view.mouse.click(box["x"] + 0.5 * box["width"], box["y"] + 60)
    middle = _slider(view)
    assert middle == pytest.approx(duration / 2, abs=0.02 * duration)
    view.click("#case-play")
    until(view, BEYOND, middle + 0.2)
    view.mouse.click(box["x"] + 0.1 * box["width"], box["y"] + 60)
    until(view, "window.played.length === 2")
    (from_middle, _), (from_click, length) = view.evaluate("window.played")
    assert from_middle == pytest.approx(middle, abs=0.001)
    assert from_click == pytest.approx(0.1 * duration, abs=0.02 * duration)
    assert from_click + length == pytest.approx(duration, abs=0.001)
    assert view.inner_text("#case-play") == "pause"
    until(view, BEYOND, from_click + 0.2)


def test_the_sound_is_the_recording(view: Any, random_run: Path) -> None:
    """Decoded by the browser: as many samples, and each in its place."""
    from audio.files import plain_pcm16
    case_id = _failing(random_run)[0]
    plain = plain_pcm16(random_run / "rec" / f"{case_id}.t1.stereo.wav")
    assert plain is not None
    pcm, rate_hz = plain
    found = view.evaluate("""async () => {
        const sound = await rigPart('case-9-hold');
        const decoder = new OfflineAudioContext(2, 1, 24000);
        const buffer = await decoder.decodeAudioData(rigBytes(sound.base64).buffer);
        const sides = [0, 1].map(c => buffer.getChannelData(c));
        const first = sides.map(side => side.findIndex(x => x !== 0));
        return [buffer.length, buffer.sampleRate, first,
                sides.map((side, c) => Array.from(side.slice(first[c], first[c] + 500)))];
    }""")
    length, rate, first, samples = found
    assert (length, rate) == (len(pcm), rate_hz)
    for channel in (0, 1):
        piece = pcm[first[channel]:first[channel] + 500, channel]
        assert [round(x * 32768) for x in samples[channel]] == pytest.approx(
            piece.tolist(), abs=8)
        assert max(abs(pcm[:first[channel], channel]), default=0) <= 8


def test_one_side_alone_is_heard_in_both_ears(view: Any) -> None:
    """The gains between the channels of the recording and the ears."""
    view.click("#case-play")
    for name, pressed in (("left", "l"), ("right", "r"), ("both", "b")):
        view.keyboard.press(pressed)
        assert view.get_attribute(f"[data-channel={name}]", "aria-pressed") == "true"
        assert view.locator("[data-channel][aria-pressed=true]").count() == 1
    view.click("#case-play")
    levels = view.evaluate("""() => {
        const player = new RigPlayer();
        player._context();
        return Object.fromEntries(["both", "left", "right"].map(name => {
            player.channel(name);
            return [name, player._gains.map(row => row.map(gain => gain.gain.value))];
        }));
    }""")
    assert levels == {"both": [[1, 0], [0, 1]], "left": [[1, 1], [0, 0]],
                      "right": [[0, 0], [1, 1]]}


def test_zoom_and_the_keys_of_the_timeline(view: Any) -> None:
    view.evaluate("""() => {
        const original = RigTimeline.prototype.view;
        RigTimeline.prototype.view = function (a, b) {
            original.call(this, a, b); window.seen = [this.start, this.end]; };
    }""")
    whole = _slider(view, "aria-valuemax")
    view.keyboard.press("z")
    start, end = view.evaluate("window.seen")
    window = view.evaluate("rigPart('case-9').then(part => part.windows.find(w => w.scored))")
    assert start < window["start_s"] < window["end_s"] < end < whole
    view.keyboard.press("0")
    assert view.evaluate("window.seen") == [0, pytest.approx(whole, abs=0.001)]
    view.keyboard.press("+")
    start, end = view.evaluate("window.seen")
    assert end - start == pytest.approx(whole / 1.6, rel=0.01)
    view.focus("canvas.timeline")
    view.keyboard.press("Home")
    view.keyboard.press("ArrowRight")
    view.keyboard.press("Shift+ArrowRight")
    assert _slider(view) == pytest.approx(1.1)
    view.keyboard.press("End")
    assert _slider(view) == pytest.approx(whole, abs=0.001)


def test_the_window_is_drawn_where_it_is(view: Any) -> None:
    """Pixels of the canvas: the scored window has another ground than what lies beside it."""
    window = view.evaluate("rigPart('case-9').then(part => part.windows.find(w => w.scored))")
    duration = _slider(view, "aria-valuemax")
    view.keyboard.press("0")
    frame(view)
    shares = [s / duration for s in ((window["start_s"] + window["end_s"]) / 2,
                                     window["start_s"] - 0.2, window["end_s"] + 0.2)]
    inside, before, behind = view.evaluate("""shares => {
        const canvas = document.querySelector("canvas.timeline");
        const row = canvas.getContext("2d")
            .getImageData(0, canvas.height - 52, canvas.width, 1).data;  // between two lanes
        return shares.map(share => {
            const x = 4 * Math.round(share * canvas.width);
            return Array.from(row.slice(x, x + 3));
        });
    }""", shares)
    assert before == behind != inside


def test_other_sides_of_the_model(view: Any) -> None:
    view.keyboard.press("f")
    assert view.get_attribute("[data-side=flush]", "aria-pressed") == "true"
    assert "flush is the same as hold" in view.inner_text("#case-note")
    view.keyboard.press("a")
    assert view.get_attribute("[data-side=arrivals]", "aria-pressed") == "true"
    assert "flush is the same" not in view.inner_text("#case-note")


def test_lists_open_a_case_by_its_key(view: Any, oracle_run: Path) -> None:
    case_id = kit.scores(oracle_run)["cases"][4]["case_id"]
    view.evaluate("document.addEventListener('rig:case', e => { window.opened = e.detail.key })")
    assert view.evaluate("key => rigOpenCase(key)", f"0/{case_id}/1") is True
    until(view, "() => window.opened !== undefined")
    assert view.evaluate("window.opened") == f"0/{case_id}/1"
    assert view.inner_text("#case-head").startswith(f"PASS {case_id} t1")
    assert view.evaluate("rigOpenCase('0/nothing/1')") is False


def test_hostile_text_is_text(page: Any, random_run: Path, tmp_path: Path, call_rig: Any) -> None:
    """In the verdict, in the flags, in what the model said and in the prompt."""
    run = shutil.copytree(random_run, tmp_path / HOSTILE.replace("/", "|"))
    found = kit.scores(run)
    failed = next(c for c in found["cases"] if c["outcome"] == "fail")
    failed["reason"] = HOSTILE
    failed["flags"] = [HOSTILE]
    kit.write_scores(run, found)
    record_path = run / "rec" / f"{failed['case_id']}.t1.rec.json"
    record = json.loads(record_path.read_text())
    texts = [e for e in record["events"] if e["kind"] == "text"]
    assert texts
    for event in texts:
        event["text"] = f" {HOSTILE}"
    record["events"].append({"kind": "state", "seq": 9, "t_ns": 0, "name": HOSTILE, "detail": ""})
    record_path.write_text(json.dumps(record))
    out = tmp_path / "page.html"
    assert call_rig("report", run, "--out", out).code == 0
    _opened(page, out)
    assert HOSTILE in page.inner_text("#case-head")
    assert f"flags: {HOSTILE}" in page.inner_text("#case-details")
    assert HOSTILE in page.text_content("#case-details")
    assert page.locator("img").count() == 0
    page.wait_for_timeout(300)  # time for it to go wrong
    assert page.evaluate("window.hacked") is None


def test_a_folder_reads_each_case_from_disk(
    page: Any, random_run: Path, tmp_path: Path, call_rig: Any
) -> None:
    folder = tmp_path / "a report"
    assert call_rig("report", random_run, "--folder", folder, "--audio", "failed").code == 0
    _opened(page, folder / "index.html")
    page.click("#case-play")
    until(page, BEYOND, 0.1)


def test_a_file_that_is_gone_is_named(
    browser: Any, random_run: Path, tmp_path: Path, call_rig: Any
) -> None:
    """A page of its own: the browser's console tells of it as well."""
    assert call_rig("report", random_run, "--folder", tmp_path / "r").code == 0
    part, = (tmp_path / "r").glob("cases-*/case-0.js")
    part.unlink()
    page = browser.new_page()
    page.goto((tmp_path / "r" / "index.html").as_uri())
    until(page, "() => document.getElementById('case-head').textContent.includes('cannot')")
    assert page.inner_text("#case-head") == (
        f"{part.parent.name}/case-0.js cannot be read; it belongs beside this page")
    page.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_no_sideways_scroll_in_either_theme(
    open_page: Callable[..., Any], report: Path, theme: str, width: int
) -> None:
    page = _opened(open_page(width=width, color_scheme=theme), report)
    frame(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}[theme]
    # The canvas is drawn on the same ground.
    corner = page.evaluate("""() => Array.from(document.querySelector("canvas.timeline")
        .getContext("2d").getImageData(40, 40, 1, 1).data).slice(0, 3)""")
    assert (sum(corner) > 380) == (theme == "light")


def test_everything_is_reached_by_the_tab_key(view: Any) -> None:
    view.evaluate("document.getElementById('case-run').focus()")
    reached = set()
    for _ in range(30):
        reached.add(view.evaluate("document.activeElement.id || document.activeElement.tagName"))
        view.keyboard.press("Tab")
    assert {"case-run", "case-choice", "case-next-failing", "case-play", "case-play-window",
            "case-zoom-in", "CANVAS"} <= reached


def test_what_the_user_said_can_be_read_whole(view: Any) -> None:
    """The timeline has no room for every word."""
    view.evaluate("rigOpenCase('0/R1-C1-1-L2/1')")
    view.wait_for_selector("#case-head h3:has-text('R1-C1-1-L2')")
    said = view.evaluate("rigPart('case-' + rigData('cases').key.indexOf('0/R1-C1-1-L2/1'))"
                         ".then(part => part.user_words.words.map(w => w[0]))")
    assert len(said) > 1
    assert "what the user said" + " ".join(said) in view.text_content("#case-details")


def test_a_moment_on_its_plan_is_late_by_nothing(view: Any) -> None:
    """The difference of two floats may lie just below 0."""
    keys = view.evaluate("""async () => {
        const keys = rigData("cases").key;
        const parts = await Promise.all(keys.map((_, i) => rigPart("case-" + i)));
        return keys.filter((_, i) => (parts[i].schedule || []).some(
            ([, , , was, after]) => after !== null && was - after < 0 && was - after > -0.0005));
    }""")
    assert keys
    view.evaluate("key => rigOpenCase(key)", keys[0])
    view.wait_for_selector(f"#case-head h3:has-text('{keys[0].split('/')[1]}')")
    text = view.inner_text("#case-details")
    assert "0.000" in text
    assert "-0.000" not in text
