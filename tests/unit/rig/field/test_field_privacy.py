"""No word, no name, no sound in anything that `rig field` writes, and no connection."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import soundfile
from call_maker import dialogue

from rig.field.privacy import without_names
from rig.field.sources import CallSource, Track

SECRET = "zyzzogeton"


@pytest.fixture(scope="module")
def calls(tmp_path_factory) -> Path:
    """Two calls: one with words and a reference, one whose files are wrong, quoting the secret."""
    folder = tmp_path_factory.mktemp("calls")
    call, _ = dialogue(2)
    for name in ("one", "two"):
        call.write(folder / f"{name}.wav")
    words = [{"side": side, "word": SECRET, "start_s": start, "end_s": end}
             for side in ("caller", "agent") for start, end in call.truth[side]]
    document = {"schema_version": 1, "words": words}
    (folder / "one.words.json").write_text(json.dumps(document))
    (folder / "one.reference.json").write_text(json.dumps(
        {"schema_version": 1, "caller": f"{SECRET} thirty six", "names": [SECRET]}))
    (folder / "two.words.json").write_text(json.dumps(document | {SECRET: 1}))
    (folder / "two.reference.json").write_text(json.dumps(
        {"schema_version": 1, "caller": "nothing", "names": [SECRET]}))
    return folder


def written(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def study(call_rig, calls, out, *options, code=3):
    out.mkdir()
    done = call_rig("field", calls, "--caller-channel", "left", "--csv", out / "turns.csv",
                    "--calls-csv", out / "calls.csv", "--html", out / "study.html", "--pictures",
                    out / "pictures", "--cache", out / "cache", "--jobs", "1",
                    "--no-sensitivity", "--json", *options)
    assert done.code == code, done.err
    (out / "stdout").write_text(done.out)
    (out / "stderr").write_text(done.err)
    text = call_rig("field", calls, "--caller-channel", "left", "--cache", out / "cache", "--jobs",
                    "1", *options)
    (out / "text").write_text(text.out + text.err)
    return json.loads(done.out), written(out)


def test_no_word_is_said_and_what_is_measured_on_words_stays(call_rig, calls, tmp_path):
    plain, files = study(call_rig, calls, tmp_path / "plain")
    assert any(SECRET.encode() in content for content in files.values()), "the test would find it"
    private, files = study(call_rig, calls, tmp_path / "private", "--no-transcript")
    assert [name for name, content in files.items() if SECRET.encode() in content] == []
    assert private["settings"]["no_transcript"]
    (one, two), (one_plain, _) = private["calls"], plain["calls"]
    for figure in ("l2", "filler_rate", "u1"):
        assert one[figure] == one_plain[figure]
    assert one["l2"]["n"] > 0
    assert one["u1"]["n"] > 0
    assert "--no-transcript" in two["l2"]["reason"]
    assert "two.words.json" in two["l2"]["reason"]


def test_no_output_holds_sound(call_rig, calls, tmp_path):
    """No sound in any output. The cache holds powers of twelve bands every 8 ms, of which speech
    can be made that is understood, so there is none."""
    document, files = study(call_rig, calls, tmp_path / "out", "--no-audio")
    assert document["settings"]["no_audio"]
    for name, content in files.items():
        assert b"data:audio" not in content
        assert b"RIFF" not in content
        assert name.split("/")[0] in ("turns.csv", "calls.csv", "study.html", "pictures",
                                      "stdout", "stderr", "text")
    _, files = study(call_rig, calls, tmp_path / "private", "--no-transcript")
    assert not any(name.startswith("cache") for name in files)
    _, files = study(call_rig, calls, tmp_path / "open")
    assert any(name.startswith("cache") for name in files), "the test would find it"


def test_names_become_numbers_everywhere(call_rig, calls, tmp_path):
    document, files = study(call_rig, calls, tmp_path / "hidden", "--hide-names")
    assert [call["file"] for call in document["calls"]] == ["call 1", "call 2"]
    assert document["aggregate"]["words_unusable"][0]["file"] == "call 2"
    for name, content in files.items():
        for hidden in (b"one.wav", b"two.wav", b"two.words", str(calls).encode()):
            assert hidden not in content, name
    assert sorted(p for p in files if p.startswith("pictures")) == [
        "pictures/0001-call_1.svg", "pictures/0002-call_2.svg"]


def test_a_name_that_is_a_word_of_ours_spoils_nothing():
    path = Path("reply")
    document = {"calls": [{"file": "reply", "turns": [{"kind": "reply"}], "warnings": [
        {"code": "reply", "detail": "a reply"}]}], "skipped": []}
    hidden = without_names(document, [CallSource("reply", Track(path, 0), Track(path, 1))])
    (call,) = hidden["calls"]
    assert call["file"] == "call 1"
    assert call["turns"] == [{"kind": "reply"}]
    assert call["warnings"][0]["code"] == "reply"


@pytest.mark.parametrize("files", [
    ("15551234567.words.json", "15551234567.words.csv"),
    ("15557654321_caller.reference.json", "15557654321_agent.reference.json")])
def test_no_name_is_said_where_words_are_looked_for(call_rig, tmp_path, files):
    """Before anything is measured: files beside a recording are found by its name."""
    folder = tmp_path / "calls"
    folder.mkdir()
    samples = dialogue(2)[0].stereo()
    soundfile.write(folder / "15551234567.wav", samples, 8_000)
    for side in ("caller", "agent"):
        soundfile.write(folder / f"15557654321_{side}.wav", samples[:, 0], 8_000)
    for name in files:
        (folder / name).write_text("{}")
    options = ("--caller-channel", "left", "--no-cache")
    assert files[0] in call_rig("field", folder, *options).err, "the test would find it"
    done = call_rig("field", folder, *options, "--hide-names")
    assert done.code == 2
    assert "got two" in done.err
    assert "1555" not in done.err


def test_no_name_is_said_of_two_recordings_that_would_share_words(call_rig, tmp_path):
    samples = dialogue(2)[0].stereo()
    for day in ("d1", "d2"):
        (tmp_path / day).mkdir()
        soundfile.write(tmp_path / day / "15551234567.wav", samples, 8_000)
    (tmp_path / "words").mkdir()
    for file, said in (("none.words.json", "expected words files such as call 1, got none"),
                       ("15551234567.words.json", "got two of name call 1: call 1, call 2")):
        (tmp_path / "words" / file).write_text("{}")
        days = ("d1",) if file.startswith("none") else ("d1", "d2")
        done = call_rig("field", *(tmp_path / day for day in days), "--caller-channel", "left",
                        "--hide-names", "--transcripts", tmp_path / "words", "--no-cache")
        assert done.code == 2
        assert said in done.err
        assert "1555" not in done.err


BLOCK = """
import socket
class Refused(socket.socket):
    def __init__(self, family=-1, *rest, **more):
        raise SystemExit(f"a socket was opened: {family}")
def refuse(*arguments, **more):
    raise SystemExit(f"a name was looked up: {arguments}")
socket.socket = socket.SocketType = Refused
socket.create_connection = socket.getaddrinfo = socket.gethostbyname = refuse
"""


def test_no_socket_is_opened(calls, tmp_path):
    """The whole study, also in its workers, where `socket.socket` ends the process."""
    (tmp_path / "sitecustomize.py").write_text(BLOCK)
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    check = subprocess.run([sys.executable, "-c", "import socket; socket.socket()"],
                           env=environment, capture_output=True, text=True, check=False)
    assert "a socket was opened" in check.stderr, "the test would find it"
    done = subprocess.run(
        [sys.executable, "-m", "rig.cli", "field", str(calls), "--caller-channel", "left", "--html",
         str(tmp_path / "study.html"), "--pictures", str(tmp_path / "pictures"), "--csv",
         str(tmp_path / "turns.csv"), "--cache", str(tmp_path / "cache"), "--jobs", "2",
         "--no-sensitivity", "--json"],
        env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 3, done.stderr
    assert len(json.loads(done.stdout)["calls"]) == 2
    assert (tmp_path / "study.html").stat().st_size > 1_000_000


@pytest.mark.slow
def test_what_is_recognised_is_kept_nowhere(call_rig, calls, tmp_path):
    """The recogniser's answers lie in the cache, but not where no word may be written."""
    shutil.copy(calls / "one.wav", tmp_path / "one.wav")

    def kept(*options):
        cache = tmp_path / f"cache{len(options)}"
        done = call_rig("field", tmp_path / "one.wav", "--caller-channel", "left", "--recognise",
                        "offline", "--cache", cache, "--jobs", "1", "--no-sensitivity", "--json",
                        *options)
        assert done.code == 0, done.err
        l2 = json.loads(done.out)["calls"][0]["l2"]
        return {p.suffix for p in cache.rglob("*") if p.is_file()}, l2

    open_files, open_l2 = kept()
    private_files, private_l2 = kept("--no-transcript")
    assert len(open_files) == 2
    assert private_files == set()
    assert private_l2 == open_l2
    assert open_l2["words"]["given_n"] > 0


def test_a_judge_of_words_is_refused_where_no_word_may_leave(call_rig, calls, tmp_path):
    (tmp_path / "pairs.csv").write_text("file\n")
    done = call_rig("field", calls, "--pairwise", tmp_path / "pairs.csv", "--no-transcript",
                    "--judge", "gpt-4o")
    assert done.code == 2
    assert "--no-transcript" in done.err
