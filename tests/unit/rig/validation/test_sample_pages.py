"""`rig sample`: what is drawn, and what pages hold and do not hold."""

from __future__ import annotations

import base64
import contextlib
import hmac
import io
import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rig_testkit as kit
import soundfile

from audio.files import read_channel
from audio.resample import resample
from probes.built import load_built
from probes.loader import load_suite
from rig import cli
from rig.commands import sample as sample_command
from rig.store import RunFolder
from rig.validation import h1, h2
from rig.validation.key import Key, opaque, order_for, read_key, seeded
from rig.validation.page import write_pages
from verifiers.margins import Margin
from verifiers.scene import Action, CaseParams
from verifiers.thresholds import DEFAULTS, effective_limits

SUITE = load_suite("dsb-ifeval")
SECRET = "5" * 64


def _data(page: Path, name: str, kind: str = "data") -> Any:
    found = re.search(rf'<script type="application/json" id="{kind}-{name}">(.*?)</script>',
                      page.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return json.loads(found.group(1))


# --- H1 ---------------------------------------------------------------------------------------


def test_h1_asks_of_all_240_conversations() -> None:
    found = h1.sample(SUITE, SECRET)
    assert len(found.items) == 240
    assert Counter(i.key.role for i in found.items) == dict.fromkeys(
        [f"R{k}" for k in range(1, 9)], 30)
    # A fifth of the grid's counts without L0 and L4b: 48 cells of five instances.
    assert Counter(i.key.action for i in found.items) == {
        "LISTEN": 65, "TAKE_TURN": 40, "BACKCHANNEL": 35, "YIELD": 30, "INTERRUPT": 25,
        "READBACK": 20, "NO_BACKCHANNEL": 10, "ACCEPT_OVERLAP": 10, "CONTINUE": 5}
    assert len({i.key.item_id for i in found.items}) == 240


def test_h1_marks_tell_nothing_of_the_expected_action() -> None:
    """Items of one probe with equal texts differ in the persona alone, whatever is expected."""
    by_text: dict[str, set[str]] = {}
    for item in h1.sample(SUITE, SECRET).items:
        shape = [{n: v for n, v in p.items() if n != "said"} for b in item.blocks
                 if b["kind"] == "turns" for p in b["parts"]]
        by_text.setdefault(item.key.probe if item.key.probe[0] == "C" else
                           item.key.role + item.key.probe, set()).add(str(shape))
    assert {probe: len(shapes) for probe, shapes in by_text.items()} == dict.fromkeys(by_text, 1)


@pytest.mark.parametrize(("label", "role", "stretch"), [
    ("C1", "R1", ("pause.start", "pause.end")),
    ("C2", "R1", ("gap1.start", "turn2.end + 10.0")),
    ("C2", "R2", ("gap1.start", "turn2.end + 10.0")),
    ("C3", "R7", ("turn2.start", "turn2.start + 3.0")),
    ("A", "R1", ("trigger.end", "continuation.end")),
    ("B", "R7", ("turn2.end", "turn2.end + 10.0"))])
def test_h1_marks_the_event_of_the_probe(label: str, role: str, stretch: tuple[str, str]) -> None:
    assert h1.stretch_of(SUITE.probe_of(role, label)) == stretch


def test_h1_shows_persona_turns_and_marks_in_order() -> None:
    item = next(i for i in h1.sample(SUITE, SECRET).items if i.key.case_id == "R1-C1-5")
    persona, first, second = item.blocks
    conversation = SUITE.conversations["R1-C1-5"]
    assert persona["text"] == SUITE.role("R1").persona
    assert first["parts"] == [{"said": conversation.turn1}]
    assert second["parts"] == [
        {"said": conversation.turn2["opening"]}, {"mark": "from", "text": "marked point"},
        {"pause_s": 2.5}, {"mark": "to", "text": "end of the stretch"},
        {"said": conversation.turn2["resumption"]}]
    barge = next(i for i in h1.sample(SUITE, SECRET).items if i.key.case_id == "R7-C3-1")
    assert "still speaking" in barge.blocks[2]["parts"][0]["note"]
    assert barge.blocks[2]["parts"][2] == {
        "mark": "to", "text": "end of the stretch: 3 s after this"}


def test_h1_pages_hold_no_case_no_target_and_no_seed(
        call_rig: Callable[..., Any], tmp_path: Path) -> None:
    called = call_rig("sample", "h1", "--out", tmp_path / "pages", "--annotators", 2, "--seed",
                      987654, "--json")
    assert called.code == 0
    told = json.loads(called.out)
    key = read_key(tmp_path / "pages.key.json")
    assert told["items"] == len(key.items) == 240
    assert [p.name for p in sorted((tmp_path / "pages").iterdir())] == [
        "h1.A1.html", "h1.A2.html"]
    orders = []
    for page in key.pages:
        path = tmp_path / "pages" / page.file
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"R\d-[A-C]\d?-\d|S-C\d-\d|\bL[0-4][ab]?\b|987654|dsb|" + key.secret,
                             text, re.IGNORECASE)
        data = _data(path, "annotate")
        assert {name for item in data["items"] for name in item} == {
            "id", "fields", "blocks", "clip"}
        assert (data["page_id"], data["annotator"]) == (page.page_id, page.annotator)
        orders.append([item["id"] for item in data["items"]])
        assert orders[-1] == list(page.order)
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])


@pytest.fixture(scope="module")
def one_stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build of R2-C1-1 on L2 alone. Read only."""
    return kit.build_talking_suite(
        tmp_path_factory.mktemp("suite") / "talk", lambda c: c.instance == 1 and c.level == "L2"
        and (c.role, c.probe) == ("R2", "C1"))


def test_h1_sound_is_the_users_side_with_the_marks_in_place(one_stream: Path) -> None:
    built = load_built(one_stream)
    stream = built.streams[SUITE.stream_of("R2", "C1", 1)]
    clip = h1._clip(built, stream.stream_id, SUITE.probe_of("R2", "C1"))
    samples, rate_hz = soundfile.read(io.BytesIO(base64.b64decode(clip.base64)))
    assert (rate_hz, samples.ndim) == (16_000, 1)
    assert len(samples) / rate_hz == pytest.approx(clip.length_s)
    pause = next(s for s in stream.turn2.segments if s.name == "pause")
    assert clip.marks == pytest.approx([
        (stream.turn1.duration_n + at_n) / 24_000 + h1.BETWEEN_TURNS_S
        for at_n in (pause.start_n, pause.end_n)])
    start, end = (round(m * rate_hz) for m in clip.marks or ())
    inside = samples[start + 400:end - 400]  # the resampler rings at edges
    assert np.abs(inside).max() < 1e-3 < np.abs(samples).max()


def test_h1_needs_every_stream_of_the_build(
        call_rig: Callable[..., Any], one_stream: Path, tmp_path: Path) -> None:
    error = call_rig("sample", "h1", "--audio", one_stream, "--out", tmp_path / "p").error
    assert "expected stream " in error
    assert not list((tmp_path / "p").iterdir())
    assert not (tmp_path / "p.key.json").exists()


# --- H2 ---------------------------------------------------------------------------------------


def _margin(value: float | None, *, at_least: bool = False) -> Margin:
    return Margin("q", "s", margin=value, at_least=at_least)


@pytest.mark.parametrize(("action", "width"), [
    (Action.TAKE_TURN, 0.5), (Action.INTERRUPT, 0.5), (Action.YIELD, 0.2), (Action.CONTINUE, 0.2),
    (Action.BACKCHANNEL, 0.2), (Action.ACCEPT_OVERLAP, 0.2), (Action.READBACK, 0.05)])
def test_near_is_one_step_of_the_published_sweep(action: Action, width: float) -> None:
    limits = effective_limits(DEFAULTS, CaseParams(), action)
    for sign in (1, -1):
        assert h2.near(action, _margin(sign * width), limits) is True
        assert h2.near(action, _margin(sign * (width + 1e-6)), limits) is False
        assert h2.near(action, _margin(sign * width, at_least=True), limits) is None
        assert h2.near(action, _margin(sign * (width + 1e-6), at_least=True), limits) is False
    assert h2.near(action, _margin(None), limits) is False


def test_near_goes_in_proportion_with_the_limit_of_a_case() -> None:
    limits = effective_limits(DEFAULTS, CaseParams(max_wait_s=0.8), Action.TAKE_TURN)
    assert h2.near(Action.TAKE_TURN, _margin(0.2), limits) is True
    assert h2.near(Action.TAKE_TURN, _margin(0.21), limits) is False


@pytest.mark.parametrize("action", [Action.LISTEN, Action.NO_BACKCHANNEL])
def test_an_action_without_a_threshold_is_neither_near_nor_away(action: Action) -> None:
    assert h2.near(action, _margin(0.0), effective_limits(DEFAULTS, CaseParams(), action)) is None


def test_strata_of_h2_are_halves_and_a_quarter_near() -> None:
    assert [(s.name, s.wanted) for s in h2.strata(Action.YIELD, 40)] == [
        ("near, pass", 5), ("near, fail", 5), ("near", 10), ("fail", 20), ("pass", 20)]
    assert [(s.name, s.wanted) for s in h2.strata(Action.LISTEN, 7)] == [("fail", 3), ("pass", 4)]
    assert h2.strata(Action.YIELD, 41)[2].wanted == 11  # at least a quarter


@pytest.fixture(scope="module")
def drawn(random_run: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Key]:
    """H2 of nine cases played at random: folder of pages, key. Read only."""
    out = tmp_path_factory.mktemp("h2") / "pages"
    assert cli.main(["sample", "h2", str(random_run), "--out", str(out)]) == 0
    return out, read_key(out.with_name("pages.key.json"))


def test_h2_draws_scored_cases_and_says_what_is_short(drawn: tuple[Path, Key],
                                                      random_run: Path) -> None:
    _, key = drawn
    scores = json.loads((random_run / "scores.json").read_text())
    decided = {(c["case_id"], c["trial"]): c["outcome"] for c in scores["cases"]
               if c["outcome"] in ("pass", "fail")}
    assert {(i.case_id, i.trial): i.verdict for i in key.items} == decided
    listen = next(s for s in key.strata if (s.of, s.stratum) == ("LISTEN", "fail"))
    assert (listen.wanted, listen.available + sum(
        i.verdict == "pass" for i in key.items if i.action == "LISTEN")) == (20, 1)
    assert "LISTEN: 1 of 40 items; there are no more" in key.notes
    assert any(note.startswith(("LISTEN: pass: 0 of 20", "LISTEN: fail: 0 of 20"))
               for note in key.notes)


def test_h2_pages_hold_nothing_of_system_case_or_verdict(drawn: tuple[Path, Key],
                                                         random_run: Path) -> None:
    out, key = drawn
    assert [p.name for p in sorted(out.iterdir())] == [f"h2.A{k}.html" for k in (1, 2, 3)]
    for page in key.pages:
        data = json.dumps(_data(out / page.file, "annotate"))
        for hidden in ("random", "R1", "R7", "L2", "C3", '"pass"', '"fail"', key.secret,
                       str(random_run), "margin", "near", *(i.case_id for i in key.items)):
            assert hidden not in data


def test_h2_clips_are_the_recording_around_the_window(drawn: tuple[Path, Key],
                                                      random_run: Path) -> None:
    out, key = drawn
    run = RunFolder(random_run)
    page = out / key.pages[0].file
    shown = {i["id"]: i for i in _data(page, "annotate")["items"]}
    for item in key.items:
        flac = base64.b64decode(_data(page, f"annotate-{item.item_id}", "part"))
        clip, rate_hz = soundfile.read(io.BytesIO(flac), dtype="float32")
        facts = shown[item.item_id]["clip"]
        assert (rate_hz, clip.shape[1], facts["channels"]) == (16_000, 2, ["user", "agent"])
        record = run.read_record(item.case_id, int(item.trial or 0))
        window, path = record.windows.scored, run.stereo_path(item.case_id, int(item.trial or 0))
        start_s = max(0.0, min(window.start_s - 5, record.windows.turn2_onset_s
                               if item.action == "READBACK" else window.start_s))
        assert facts["marks"][0] == pytest.approx(window.start_s - start_s, abs=1e-3)
        for channel in (0, 1):
            whole = resample(read_channel(path, channel), 24_000, 16_000)
            part = whole[round(start_s * 16_000):][:len(clip)]
            # Edges of the cut ring; between them the samples are those of the recording, in
            # 12 bits.
            assert np.abs(clip[:len(part), channel] - part)[800:-800].max() < 5e-4


def test_h2_tags_of_the_sound_say_nothing(drawn: tuple[Path, Key]) -> None:
    out, key = drawn
    page = out / key.pages[0].file
    flac = base64.b64decode(_data(page, f"annotate-{key.items[0].item_id}",
                                  "part"))
    with soundfile.SoundFile(io.BytesIO(flac)) as sound:
        assert sound.copy_metadata() == {}


def test_h2_criterion_names_the_limit_of_the_case(drawn: tuple[Path, Key]) -> None:
    out, key = drawn
    shown = {i["id"]: i for i in _data(out / key.pages[0].file, "annotate")["items"]}
    texts = {i.action: [b["text"] for b in shown[i.item_id]["blocks"]] for i in key.items}
    assert texts["TAKE_TURN"][0].startswith("The agent begins to speak within 2 s")
    assert texts["YIELD"] == ["The agent, speaking when the window begins, stops within 0.6 s."]
    assert texts["READBACK"][-1] == kit.TARGET
    fields = {i.action: i.fields for i in key.items}
    assert fields["READBACK"] == ("met", "functional", "comment")
    assert fields["YIELD"] == ("met", "comment")


# --- keys and options -------------------------------------------------------------------------


def test_item_ids_are_a_keyed_hash() -> None:
    """Known answer: HMAC-SHA-256 by hand."""
    want = hmac.new(bytes.fromhex(SECRET), b"h2\0runs/a\0R1-A-1-L2\0001", "sha256").hexdigest()[:16]
    assert opaque(SECRET, "h2", "runs/a", "R1-A-1-L2", 1) == want
    assert opaque("6" * 64, "h2", "runs/a", "R1-A-1-L2", 1) != want


def test_an_order_is_of_its_annotator_and_secret() -> None:
    ids = [str(k) for k in range(50)]
    first = order_for(SECRET, "A1", ids)
    assert first == tuple(sorted(ids, key=lambda i: hmac.new(
        bytes.fromhex(SECRET), b"order\0A1\0" + i.encode(), "sha256").hexdigest()))
    # Nothing of the order in which items come, which is that of the draw.
    assert first == order_for(SECRET, "A1", ids[::-1])
    assert len({first, order_for(SECRET, "A2", ids), order_for("6" * 64, "A1", ids),
                tuple(ids), tuple(sorted(ids))}) == 5


@pytest.mark.parametrize("annotator", ["A1", "A2"])
def test_the_order_of_the_draw_cannot_be_had_from_a_page_and_a_seed(
        tmp_path: Path, annotator: str) -> None:
    """The draw goes by verdict and system. An order that a known seed makes is undone by it."""
    sample = h1.sample(SUITE, SECRET)
    drawn = [item.key.item_id for item in sample.items]
    (page,) = write_pages("h1", sample, [annotator], SECRET, tmp_path)
    for seed in range(20):
        places = list(range(len(drawn)))
        seeded(seed, "h1", "order", annotator).shuffle(places)
        undone = dict(zip(places, page.order, strict=True))
        # Chance puts one item in its place.
        assert sum(undone[k] == item for k, item in enumerate(drawn)) < 10


def test_a_key_makes_the_same_page_again(tmp_path: Path) -> None:
    sample = h1.sample(SUITE, SECRET)
    again = replace(sample, items=sample.items[::-1])
    made = []
    for k, one in enumerate((sample, again)):
        folder = tmp_path / str(k)
        folder.mkdir()
        pages = write_pages("h1", one, ["A1", "A2"], SECRET, folder)
        made.append((pages, [(folder / p.file).read_bytes() for p in pages]))
    assert made[0] == made[1]
    assert made[0][0][0].order != made[0][0][1].order


def test_further_annotators_get_the_same_items(
        call_rig: Callable[..., Any], random_run: Path, tmp_path: Path) -> None:
    first, later = tmp_path / "first", tmp_path / "later"
    assert call_rig("sample", "h2", random_run, "--out", first, "--annotators", 1, "--seed",
                    3).code == 0
    again = ["sample", "h2", random_run, "--add-to", tmp_path / "first.key.json", "--out", later]
    assert call_rig(*again, "--annotator", "B7").code == 0
    key = read_key(tmp_path / "later.key.json")
    before = read_key(tmp_path / "first.key.json")
    assert key.items == before.items
    assert [p.annotator for p in key.pages] == ["A1", "B7"]
    assert key.pages[0] == before.pages[0]
    assert "without a page so far" in call_rig(*again, "--annotator", "A1", "--key",
                                               tmp_path / "k").error


def test_a_key_is_never_written_over_and_never_among_the_pages(
        call_rig: Callable[..., Any], tmp_path: Path) -> None:
    out = tmp_path / "pages"
    assert "expected a file outside" in call_rig(
        "sample", "h1", "--out", out, "--key", out / "key.json").error
    (tmp_path / "pages.key.json").write_text("{}")
    assert "cannot be read without their key, got one" in call_rig(
        "sample", "h1", "--out", out).error


def test_a_folder_that_takes_no_pages_is_told_in_one_line(
        call_rig: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", full)
    called = call_rig("sample", "h1", "--out", tmp_path / "p")
    assert f"{tmp_path / 'p'}: cannot write into this folder: No space" in called.error


def test_no_page_is_there_before_its_key(
        call_rig: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever stops the command in between: the secret of a page is never lost."""
    out, key_file = tmp_path / "pages", tmp_path / "pages.key.json"
    seen: list[str] = []

    def stopped(*_: Any) -> None:
        seen.extend(p.name for p in out.rglob("*.html") if p.parent == out)
        assert len(list(out.rglob("*.html"))) == 5  # made, and not in their place
        assert not key_file.exists()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sample_command, "write_key", stopped)
        with contextlib.suppress(KeyboardInterrupt):
            call_rig("sample", "h1", "--out", out)
    assert seen == []
    assert list(out.iterdir()) == []
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", _replace_but_second_page(seen))
        with contextlib.suppress(KeyboardInterrupt):
            call_rig("sample", "h1", "--out", out)
    assert [p.name for p in out.iterdir()] == seen == ["h1.A1.html"]
    assert [p.file for p in read_key(key_file).pages] == [f"h1.A{k}.html" for k in range(1, 6)]


def _replace_but_second_page(done: list[str]) -> Callable[[Path, Path], Path]:
    """`Path.replace` that is stopped before the second page comes to its place."""
    replace_ = Path.replace

    def instead(self: Path, target: Path) -> Path:
        if self.name == "h1.A2.html":
            raise KeyboardInterrupt
        if self.name == "h1.A1.html":
            done.append(self.name)
        return replace_(self, target)

    return instead


def test_pages_and_keys_are_never_written_into_what_is_read(
        call_rig: Callable[..., Any], random_run: Path, tmp_path: Path) -> None:
    before = sorted(random_run.rglob("*"))
    assert "--out, got one that is read" in call_rig(
        "sample", "h2", random_run, "--out", random_run, "--key", tmp_path / "key.json").error
    assert "got one of the files of the run" in call_rig(
        "sample", "h2", random_run, "--out", random_run / "rec" / "p", "--key",
        tmp_path / "key.json").error
    assert sorted(random_run.rglob("*")) == before


@pytest.mark.parametrize(("arguments", "expected"), [
    (["h1", "RUN"], "expected no run for h1"), (["h2"], "h2: expected scored runs, got none"),
    (["h1", "--items", "3"], "--items: h1 takes every conversation"),
    (["h2", "RUN", "--audio", "x"], "--audio: is for h1, not for h2"),
    (["h3", "RUN"], "h3: expected --judge NAME"),
    (["h3", "RUN", "--judge", "j", "--second", "j"], "expected another judge"),
    (["h3", "RUN", "--judge", "j"], "expected answers of judge 'j', got none"),
    (["h2", "RUN", "--annotator", "A", "--annotators", "2"], "got both"),
    (["h2", "RUN", "--annotator", "A B"], "expected a code of 1 to 20"),
    (["h2", "RUN", "--annotator", "A", "--annotator", "A"], "A is given twice"),
    (["h2", "RUN", "--add-to", "nothing.json"], "expected a key of `rig sample`")])
def test_options_that_do_not_fit_are_refused(
        call_rig: Callable[..., Any], random_run: Path, tmp_path: Path, arguments: list[str],
        expected: str) -> None:
    given = [str(random_run) if a == "RUN" else a for a in arguments]
    assert expected in call_rig("sample", *given, "--out", tmp_path / "p").error


def test_a_dry_run_counts_and_writes_nothing(
        call_rig: Callable[..., Any], random_run: Path, tmp_path: Path) -> None:
    called = call_rig("sample", "h2", random_run, "--out", tmp_path / "p", "--dry-run", "--json")
    told = json.loads(called.out)
    assert (told["items"], told["key"], told["pages"]) == (9, None, [])
    assert {s["of"] for s in told["strata"]} == {str(a) for a in Action}
    assert not list(tmp_path.iterdir())


def test_the_audit_draws_what_was_heard(
        call_rig: Callable[..., Any], random_run: Path, tmp_path: Path) -> None:
    called = call_rig("sample", "audit", random_run, "--out", tmp_path / "p", "--items", 4,
                      "--jobs", 1)
    assert called.code == 0
    key = read_key(tmp_path / "p.key.json")
    assert len(key.items) == 4
    assert {i.transcript for i in key.items} <= {"native", "recognised", "none"}
    data = _data(tmp_path / "p" / "audit.A1.html", "annotate")
    assert all(i["clip"]["channels"] == ["agent"] for i in data["items"])
    assert all(i["clip"]["marks"] is None for i in data["items"])


@pytest.mark.parametrize("study", ["h2", "audit"])
def test_a_record_that_no_session_has_is_an_input_error(
        random_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], study: str) -> None:
    """What it says of the sound would be met only when that is made."""
    run = shutil.copytree(random_run, tmp_path / "run")
    for path in (run / "rec").glob("*.rec.json"):
        record = json.loads(path.read_text())
        record["arrivals"]["rate_hz"] = 0
        path.write_text(json.dumps(record))
    assert cli.main(["sample", study, str(run), "--out", str(tmp_path / "pages"),
                     "--jobs", "1"]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    # The audit listens in parts of many sessions, and knows the run alone.
    assert said.startswith(f"rig: error: {run}/rec/" if study == "h2" else f"rig: error: {run}: ")
    assert "expected a session record, got arrivals.rate_hz: Input should be greater" in said
    assert not list((tmp_path / "pages").iterdir())
