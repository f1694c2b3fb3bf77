"""Odd and hostile input to `rig field`: nothing is lost in silence, nothing breaks the rest."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from call_maker import dialogue
from deadly_calls import READ, dies_over
from rig_testkit import GUARD_S, heed_interrupts, wait_until

from audio.errors import InfrastructureError
from rig.field import groups
from rig.field.measures import FieldSettings, Skipped, measure_file
from rig.field.run import measure_all
from rig.field.sources import CallSource, Track, channel_map, find_calls

LEFT = channel_map("left", None)


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    return dialogue(2)[0].stereo()


@pytest.fixture
def field(call_rig):
    def call(*arguments, code=0):
        done = call_rig("field", *arguments, "--no-cache", "--jobs", "1", "--no-sensitivity",
                        "--json")
        assert done.code == code, (done.out, done.err)
        return json.loads(done.out) if code != 2 else done.error

    return call


def wav(path: Path, samples: np.ndarray, subtype: str = "PCM_16") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, 8_000, subtype=subtype)
    return path


# Names


def test_a_name_that_is_no_text_reaches_every_output(field, samples, tmp_path):
    """Linux lets a name be any bytes; no JSON, CSV, SVG or page can hold them."""
    folder = tmp_path / "calls"
    good = wav(folder / "a\n<script>=1.wav", samples)
    os.link(good, os.fsencode(folder) + b"/bad\xff.wav")
    document = field(folder, "--caller-channel", "left", "--csv", tmp_path / "t.csv",
                     "--calls-csv", tmp_path / "c.csv", "--html", tmp_path / "p.html",
                     "--pictures", tmp_path / "pictures")
    assert [Path(c["file"]).name for c in document["calls"]] == ["a\n<script>=1.wav",
                                                                "bad\\xff.wav"]
    assert "bad\\xff.wav" in (tmp_path / "t.csv").read_text()
    page = (tmp_path / "p.html").read_text()
    assert "bad\\xff.wav" in page
    assert "<script>=1" not in page
    assert len(list((tmp_path / "pictures").iterdir())) == 2


# Folders


def test_a_link_to_nothing_is_skipped_and_not_forgotten(field, samples, tmp_path):
    folder = tmp_path / "calls"
    wav(folder / "a.wav", samples)
    (folder / "gone.wav").symlink_to(tmp_path / "nowhere.wav")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe.wav")
    (folder / "folder.wav").mkdir()
    document = field(folder, "--caller-channel", "left", code=3)
    assert len(document["calls"]) == 1
    (skipped,) = document["skipped"]
    assert skipped["file"].endswith("gone.wav")


def test_a_folder_that_cannot_be_looked_into_is_skipped_and_not_forgotten(
        samples, tmp_path, monkeypatch):
    wav(tmp_path / "calls" / "a.wav", samples)
    wav(tmp_path / "calls" / "closed" / "b.wav", samples)
    scandir = os.scandir

    def refusing(path):
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    found = find_calls([tmp_path / "calls"], [], LEFT)
    assert [Path(s.name).name for s in found] == ["a.wav", "closed"]
    skipped = measure_file(found[1], FieldSettings(), None)
    assert isinstance(skipped, Skipped)
    assert "closed: expected an audio file, got a folder" in skipped.reason


# Samples


@pytest.mark.parametrize(("change", "said"), [
    (lambda x: x * 32768, "in channel 0 (PCM numbers stored as floats?)"),
    (lambda x: np.where(np.arange(len(x))[:, None] == 5000, 1e30, x), "1e+30 in channel 0"),
])
def test_samples_beyond_full_scale_are_named_where_they_are(field, samples, tmp_path, change,
                                                            said):
    path = wav(tmp_path / "a.wav", change(samples), "FLOAT")
    (skipped,) = field(path, "--caller-channel", "left", code=3)["skipped"]
    assert said in skipped["reason"]


@pytest.mark.parametrize("frames_n", [1, 2, 100, 511, 512])
def test_an_instant_of_a_call_has_no_figure(field, samples, tmp_path, frames_n):
    (call,) = field(wav(tmp_path / "a.wav", samples[:frames_n]), "--caller-channel",
                    "left")["calls"]
    assert call["l1"]["n"] == 0
    assert call["l1"]["reason"]
    assert call["talk_ratio"] is None
    assert call["talk_ratio_reason"]


# Tables of others


@pytest.mark.parametrize(("text", "said"), [
    ("file,engine,engine\na.wav,x,y\n", "expected a column 'engine', got 2 of that name"),
    ("file;engine\na.wav;x\n", "expected a column 'file', got none; did you mean 'file;engine'"),
    ("file,engine\nb.wav,x\n", "expected lines of these calls, such as 'a.wav' in the column "
                               "'file', got 1 lines of others"),
    ("file,engine\na.wav,x\na.wav,y\n", "expected one value for 'a.wav', got two"),
    ('file,engine\na.wav,"x\n', "expected a CSV file, got unexpected end of data"),
])
def test_metadata_that_would_group_nothing_or_twice(field, samples, tmp_path, text, said):
    path = wav(tmp_path / "a.wav", samples)
    table = tmp_path / "m.csv"
    table.write_text(text)
    assert said in field(path, "--metadata", table, "--group-by", "engine", code=2)


def test_metadata_with_a_mark_and_empty_cells(field, samples, tmp_path):
    for name in ("a.wav", "b.wav", "c.wav"):
        wav(tmp_path / "calls" / name, samples)
    table = tmp_path / "m.csv"
    table.write_bytes(b"\xef\xbb\xbffile,engine\r\na.wav,\r\nb.wav,x\r\n")
    document = field(tmp_path / "calls", "--caller-channel", "left", "--metadata", table,
                     "--group-by", "engine")
    assert {name: group["calls_n"] for name, group in document["groups"].items()} == {
        groups.EMPTY: 1, groups.NOT_LISTED: 1, "x": 1}


def test_a_line_of_metadata_means_one_recording(field, samples, tmp_path):
    """Two days, one name: by the name alone both calls would get the one line's value."""
    one, two = (wav(tmp_path / day / "a.wav", samples) for day in ("d1", "d2"))
    table = tmp_path / "m.csv"
    table.write_text("file,engine\na.wav,x\n")
    options = ("--caller-channel", "left", "--metadata", table, "--group-by", "engine")
    assert (f"expected the path in the column 'file', as 2 recordings are called 'a.wav', got the "
            f"name alone for {one}") in field(one, two, *options, code=2)
    table.write_text(f"file,engine\n{one},x\n{two},y\n")
    assert {name: group["calls_n"] for name, group in field(one, two, *options)["groups"].items()
            } == {"x": 1, "y": 1}


def test_metadata_longer_than_any_is_not_read(field, samples, tmp_path):
    path = wav(tmp_path / "a.wav", samples)
    table = tmp_path / "m.csv"
    with table.open("wb") as file:
        file.truncate(65 << 20)
    assert "m.csv: expected a file of at most 64 MB, got 65 MB" in field(
        path, "--metadata", table, "--group-by", "engine", code=2)


# Where it writes


@pytest.mark.parametrize("option", ["--csv", "--calls-csv", "--html"])
def test_nothing_is_written_over_what_is_read(field, samples, tmp_path, option):
    path = wav(tmp_path / "a.wav", samples)
    words = tmp_path / "a.words.csv"
    words.write_text("side,word,start_s,end_s\n")
    link = tmp_path / "link.csv"
    link.symlink_to(path)
    before = path.read_bytes(), words.read_bytes()
    for target in (path, words, link):
        assert f"expected another file for {option}, got one that is read" in field(
            path, option, target, code=2)
    assert (path.read_bytes(), words.read_bytes()) == before


def test_each_output_has_its_own_file(field, samples, tmp_path):
    path = wav(tmp_path / "a.wav", samples)
    said = field(path, "--csv", tmp_path / "out", "--html", tmp_path / "x" / ".." / "out", code=2)
    assert "expected a file for each output, got one for --csv and --html" in said


def test_a_folder_for_pictures_is_made_before_any_work(field, samples, tmp_path):
    path = wav(tmp_path / "a.wav", samples)
    assert "expected another folder for --pictures, got one that is read" in field(
        path, "--pictures", path, code=2)
    (tmp_path / "file").touch()
    assert "cannot make this folder" in field(path, "--pictures", tmp_path / "file", code=2)


# A call that ends the process that reads it


def _named(*names: str) -> list[CallSource]:
    return [CallSource(name, Track(Path(name), 0), Track(Path(name), 1)) for name in names]


def test_a_call_that_kills_its_process_never_stops_the_rest(monkeypatch):
    monkeypatch.setattr("rig.field.run.measure_file", dies_over)
    names = ["0", "1 deadly", "2", "3 deadly", "4 deadly", *map(str, range(5, 40)), "40 deadly"]
    found = list(measure_all(_named(*names), FieldSettings(), None, 2))
    assert [f.name for f in found] == names
    for one in found:
        died = "the process that read it died" in one.reason
        assert died == ("deadly" in one.name)
        assert died or one.reason == READ


def test_where_every_process_dies_it_is_not_the_calls(monkeypatch):
    monkeypatch.setattr("rig.field.run.measure_file", dies_over)
    found = []
    with pytest.raises(InfrastructureError, match="3 calls in a row"):
        found.extend(measure_all(_named("0", *(f"{k} deadly" for k in range(1, 9))),
                                 FieldSettings(), None, 2))


# Ended on the way


def _study(folder: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "rig.cli", "field", str(folder / "calls"), "--caller-channel",
            "left", "--cache", str(folder / "cache"), "--csv", str(folder / "turns.csv"), "--json",
            "--jobs", "2", *more]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_study_that_was_ended_goes_on_and_gives_the_same(samples, tmp_path, number):
    """Killed when a few calls are in the cache: no output, no process left, nothing half written;
    the next one reads them and gives the same document as one that was never ended."""
    for k in range(12):
        wav(tmp_path / "calls" / f"{k}.wav", samples * (1 - k / 100))
    ended = subprocess.Popen(_study(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             preexec_fn=heed_interrupts, start_new_session=True)
    wait_until(lambda: len(list((tmp_path / "cache").glob("*.features"))) >= 2
               or ended.poll() is not None, "no call is measured")
    assert ended.poll() is None
    os.kill(ended.pid, number)
    out, error = ended.communicate(timeout=GUARD_S)
    assert ended.returncode != 0
    assert out == b""
    assert b"Traceback" not in error
    assert not (tmp_path / "turns.csv").exists()
    kept = len(list((tmp_path / "cache").glob("*.features")))
    assert 2 <= kept < 12
    again = subprocess.run(_study(tmp_path), capture_output=True, check=True)
    fresh = subprocess.run(_study(tmp_path, "--no-cache"), capture_output=True, check=True)
    assert again.stdout == fresh.stdout
    assert (tmp_path / "turns.csv").exists()
