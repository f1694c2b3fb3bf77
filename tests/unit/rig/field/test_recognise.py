"""Words that a recogniser heard: where it listens, what is kept of it, how it is marked."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
import soundfile
from call_maker import Call

from adapters.cascade.recognition import RecognitionError
from audio.errors import InputError
from audio.spans import Spans
from audio.timebase import NS_PER_S
from rig.field import recognise as module
from rig.field.measures import FieldSettings, measure_file
from rig.field.recognise import PIECE_S, Recogniser, find_recogniser, recognise
from rig.field.sources import CallSource, Track

BY = Recogniser("tester", "1.0", "model-x")
RATE_HZ = 8_000


class Fake:
    """Hears a word of 0.4 s in the middle of what it is given, and "Thank you" after its end."""

    def __init__(self) -> None:
        self.given: list[np.ndarray] = []

    def timed_words(self, x16k):
        self.given.append(x16k)
        length_s = len(x16k) / 16_000
        return [("word,", length_s / 2 - 0.2, length_s / 2 + 0.2),
                ("Thank", length_s - 0.06, length_s - 0.03), ("you", length_s + 3, length_s + 4)]


@pytest.fixture
def fake(monkeypatch):
    made = Fake()
    monkeypatch.setattr(module, "_loaded", lambda with_: made)
    return made


def ramp(path, seconds: float):
    """Both channels say which sample they are: left up, right down."""
    up = np.arange(round(seconds * RATE_HZ)) / (seconds * RATE_HZ) * 0.5
    soundfile.write(path, np.stack([up, -up], axis=1), RATE_HZ, subtype="FLOAT")
    return path


def spans(*pairs) -> Spans:
    return Spans.of((round(a * NS_PER_S), round(b * NS_PER_S)) for a, b in pairs)


def test_one_channel_is_heard_in_pieces_of_bounded_length(tmp_path, fake):
    path = ramp(tmp_path / "a.wav", 100)
    speech = spans((2, 5), (5.5, 8), (12, 80))
    found = recognise(Track(path, 1), speech, BY, None)
    lengths = [len(x) / 16_000 for x in fake.given]
    assert lengths == pytest.approx([6.4, 28.2, 28, 12.2], abs=0.01)
    assert max(lengths) <= PIECE_S + 0.4
    # The right channel, never the mix: at 5 s it is at -0.025.
    assert fake.given[0].mean() == pytest.approx(-0.5 * 5 / 100, abs=1e-3)
    middles = [(w.span_ns[0] + w.span_ns[1]) / 2e9 for w in found.words if w.text == "word,"]
    assert middles == pytest.approx([5.0, 25.9, 54.0, 74.1], abs=0.01)


def test_words_outside_detected_speech_are_dropped_and_counted(tmp_path, fake):
    path = ramp(tmp_path / "a.wav", 20)
    found = recognise(Track(path, 0), spans((2, 3), (8, 9)), BY, None)
    assert [w.text for w in found.words] == ["word,", "word,"]
    assert found.dropped_n == 4
    assert recognise(Track(path, 0), Spans(), BY, None) == module.Recognised((), 0)


def test_silence_at_the_end_of_a_file_is_no_word(tmp_path, fake):
    """Spans may end behind the file's last sample; times never do."""
    path = ramp(tmp_path / "a.wav", 10)
    found = recognise(Track(path, 0), spans((9, 10.01)), BY, None)
    assert all(w.span_ns[1] <= 10.3e9 for w in found.words)


def test_what_was_heard_is_kept_by_sound_model_and_speech(tmp_path, fake):
    path, cache = ramp(tmp_path / "a.wav", 20), tmp_path / "cache"
    first = recognise(Track(path, 0), spans((2, 3)), BY, cache)
    assert len(fake.given) == 1
    assert recognise(Track(path, 0), spans((2, 3)), BY, cache) == first
    assert len(fake.given) == 1
    recognise(Track(path, 1), spans((2, 3)), BY, cache)
    recognise(Track(path, 0), spans((2, 3.5)), BY, cache)
    recognise(Track(path, 0), spans((2, 3)), Recogniser("tester", "1.1", "model-x"), cache)
    ramp(tmp_path / "a.wav", 21)
    recognise(Track(path, 0), spans((2, 3)), BY, cache)
    assert len(fake.given) == 5
    # A damaged answer is asked for again.
    for kept in cache.iterdir():
        kept.write_text(kept.read_text().replace("word,", "ward,"))
    assert recognise(Track(path, 0), spans((2, 3)), BY, cache).words[0].text == "word,"
    assert len(fake.given) == 6


def made_call(path):
    call = Call(24.0)
    end = call.say("caller", 0.6, 0)
    filler = call.say("agent", end + 0.6, "Okay.")
    end = call.say("agent", filler + 0.8, 3)
    end = call.say("caller", end + 1.2, 6)
    call.say("agent", end + 0.7, 4)
    call.write(path)
    return call


@pytest.fixture(scope="module")
def call_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("calls") / "call.wav"
    return path, made_call(path)


def measured(path, **more):
    return measure_file(CallSource("call.wav", Track(path, 0), Track(path, 1), **more),
                        FieldSettings(sensitivity=False, recogniser=BY), None)


def test_a_recogniser_that_fails_is_the_reason_of_that_call_alone(call_file, monkeypatch):
    class Broken:
        def timed_words(self, x16k):
            raise RecognitionError("tester: no memory")

    monkeypatch.setattr(module, "_loaded", lambda with_: Broken())
    found = measured(call_file[0])
    assert found.words.reason == found.words.broken == "tester: no memory"
    assert len(found.l1.values_ns) == 2


def test_the_caller_is_heard_only_against_a_reference(call_file, fake, tmp_path):
    found = measured(call_file[0])
    agent_pieces = len(fake.given)
    assert found.words.u1 is None
    assert found.words.u1_reason.startswith("no reference")
    assert found.words.origin == "recognised"
    assert found.words.by == "tester 1.0, model-x"
    reference = tmp_path / "call.reference.json"
    reference.write_text(json.dumps({"schema_version": 1, "caller": "word word word"}))
    found = measured(call_file[0], reference=reference)
    assert len(fake.given) > 2 * agent_pieces
    assert found.words.u1.reference_n == 3


def test_supplied_words_are_not_recognised(call_file, fake, tmp_path):
    words = tmp_path / "call.words.json"
    words.write_text(json.dumps({"schema_version": 1, "words": [
        {"side": "agent", "word": "x", "start_s": 5.0, "end_s": 5.1}]}))
    assert measured(call_file[0], words=(words,)).words.origin == "supplied"
    assert fake.given == []


def test_nothing_heard_is_no_words(call_file, monkeypatch):
    class Deaf:
        def timed_words(self, x16k):
            return []

    monkeypatch.setattr(module, "_loaded", lambda with_: Deaf())
    assert measured(call_file[0]).words.reason == "the recogniser heard no word of the agent"


def test_the_offline_recogniser_finds_the_substance(call_rig, call_file, tmp_path):
    """L2 of a reply that opens with a filler: the truth is known. Marked in the document, the
    table and the CSV."""
    pytest.importorskip("pocketsphinx")
    path, call = call_file
    (_, caller_end), _ = call.truth["caller"]
    substance_s = call.truth["agent"][1][0]
    arguments = ("field", path, "--caller-channel", "left", "--no-sensitivity", "--jobs", "1",
                 "--cache", tmp_path / "cache", "--recognise", "offline")
    done = call_rig(*arguments, "--csv", tmp_path / "turns.csv", "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    first, second = (t for t in document["calls"][0]["turns"] if t["kind"] == "reply")
    assert first["l2_ms"] == pytest.approx(1000 * (substance_s - caller_end), abs=60)
    assert first["opens_with_filler"] is True
    assert second["l2_ms"] == second["latency_ms"]
    words = document["calls"][0]["l2"]["words"]
    assert words["origin"] == document["calls"][0]["filler_rate"]["origin"] == {"recognised": 1}
    (by,) = words["recognised_by"]
    assert by.startswith("pocketsphinx ")
    assert document["settings"]["recogniser"]["engine"] == "pocketsphinx"
    rows = list(csv.DictReader((tmp_path / "turns.csv").read_text().splitlines()))
    assert {row["words"] for row in rows} == {f"recognised: {by}"}
    assert f"recognised by {by}" in " ".join(call_rig(*arguments).out.split())


@pytest.mark.parametrize("name", ["tiny.en", "nowhere/model"])
def test_what_is_not_installed_is_said(name, monkeypatch):
    monkeypatch.setattr(module, "_version", lambda distribution: None)
    with pytest.raises(InputError, match=r"expected faster-whisper, got none: pip install"):
        find_recogniser(name, print)
    with pytest.raises(InputError, match="no package for"):
        find_recogniser("offline", print)


def test_a_folder_without_a_model_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_version", lambda distribution: "1.0")
    with pytest.raises(InputError, match=r"got no model\.bin"):
        find_recogniser(str(tmp_path), print)
    (tmp_path / "model.bin").write_bytes(b"x")
    found = find_recogniser(str(tmp_path), print)
    assert found.folder == tmp_path
    assert found.facts()["model_sha256"].startswith("2d711642b726b044")
    assert found.facts()["settings"]["temperature"] == 0.0
