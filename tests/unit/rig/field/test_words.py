"""`rig field` with words: files of every kind, hostile ones too, and L2 on calls of known truth."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from call_maker import Call

from audio.errors import InputError
from rig.field.sources import CallSource, Track
from rig.field.words import FILE_MAX_BYTES, read_transcript, with_words

HEADER = "side,word,start_s,end_s\n"


def item(word="hello", start=1.0, end=1.5, side="agent", **more) -> dict:
    return {"side": side, "word": word, "start_s": start, "end_s": end, **more}


def written(path: Path, words, **more) -> Path:
    path.write_text(json.dumps({"schema_version": 1, "words": words, **more}))
    return path


def source(path: Path, name: str = "call.wav") -> CallSource:
    return CallSource(name, Track(path / name, 0), Track(path / name, 1))


# Files


def test_both_formats_hold_the_same(tmp_path):
    words = [item("b", 2, 2.5), item("a, c", 1.25, 1.5), item("x", 0, 0, "caller")]
    json_path = written(tmp_path / "a.words.json", words)
    csv_path = tmp_path / "b.words.csv"
    csv_path.write_text("\ufeffword,side,start_s,end_s\nb,agent,2,2.5\n"
                        '"a, c",agent,1.25,1.5\nx,caller,0,0\n')
    found = read_transcript([json_path])
    assert found == read_transcript([csv_path])
    assert [(w.text, w.span_ns) for w in found.agent] == [
        ("a, c", (1_250_000_000, 1_500_000_000)), ("b", (2_000_000_000, 2_500_000_000))]
    assert [w.text for w in found.caller] == ["x"]


@pytest.mark.parametrize(("words", "said"), [
    ([item(start=2.0, end=1.0)], "expected end_s at or after start_s 2, got 1"),
    ([item(start=-1.0)], "words.0.start_s"), ([item(start=1e7, end=1e7)], "words.0.start_s"),
    ([item(word="")], "words.0.word"), ([item(word="x" * 201)], "words.0.word"),
    ([item(side="Agent")], "'Agent'"), ([item(start="1")], "words.0.start_s"),
    ([item(wrod="x")], "no such key"), ("hello", "words"), ([1], "words.0")])
def test_what_a_words_file_may_not_hold(tmp_path, words, said):
    path = written(tmp_path / "call.words.json", words)
    with pytest.raises(InputError) as error:
        read_transcript([path])
    assert said in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("text", "said"), [
    ("{", "words file"), ('{"schema_version": 2, "words": []}', "schema_version"),
    ('{"schema_version": 1, "words": [{"side": "agent", "word": "x", "start_s": NaN, "end_s": 1}]}',
     "words"), ("\0", "words file"),
    ('{"schema_version": 1, "words": [], "words": []}', "the key 'words' once, got it again"),
    ('{"schema_version": 1, "words": [{"side": "agent", "word": "x", "word": "y", "start_s": 0, '
     '"end_s": 1}]}', "the key 'word' once"), ("[" * 100_000, "words file")])
def test_what_is_no_words_file(tmp_path, text, said):
    path = tmp_path / "call.words.json"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        read_transcript([path])


@pytest.mark.parametrize(("text", "said"), [
    ("", "got none"), ("side,word,start_s\n", "side, word, start_s"),
    (HEADER + "agent,x,nan,1\n", ":2"), (HEADER + "agent,x,one,2\n", "start_s"),
    (HEADER + "agent,x,1,2,3\n", "more"), (HEADER + "agent,x,1\n", "end_s"),
    (HEADER + 'agent,"x,1,2\n', "unexpected end"), (HEADER + "agent,x,1,inf\n", "end_s"),
    (HEADER + "agent,x,1_0,20\n", "start_s"), (HEADER + "agent,x,\u0661,2\n", "start_s"),
    (HEADER + "agent,x,1e0,2.,3\n", "more"), (HEADER + "agent,x,1,1e400\n", "end_s")])
def test_what_a_csv_file_may_not_hold(tmp_path, text, said):
    path = tmp_path / "call.words.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        read_transcript([path])


def test_a_huge_file_is_not_read(tmp_path):
    path = tmp_path / "call.words.json"
    with path.open("wb") as file:
        file.truncate(FILE_MAX_BYTES + 1)
    with pytest.raises(InputError, match="at most 64 MB"):
        read_transcript([path])


# Finding them


def test_words_are_found_beside_and_in_a_folder(tmp_path):
    beside = written(tmp_path / "call.words.json", [])
    assert with_words([source(tmp_path)], None)[0].words == (beside,)
    folder = tmp_path / "words"
    folder.mkdir()
    with pytest.raises(InputError, match=r"call\.words\.json, got none"):
        with_words([source(tmp_path)], folder)
    there = folder / "call.words.csv"
    there.write_text(HEADER)
    assert with_words([source(tmp_path), source(tmp_path, "b.wav")], folder)[0].words == (there,)
    written(folder / "call.words.json", [])
    with pytest.raises(InputError, match="got two"):
        with_words([source(tmp_path)], folder)


def test_two_recordings_of_one_name_share_no_words(tmp_path):
    written(tmp_path / "call.words.json", [])
    with pytest.raises(InputError, match="two of name 'call'"):
        with_words([source(tmp_path / "a"), source(tmp_path / "b")], tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        with_words([source(tmp_path)], tmp_path / "none")


# Measured


def made(folder: Path, name: str, gap_s: float) -> float:
    """Two exchanges: a filler, then the substance after `gap_s`; the substance at once. Words with
    the true times. Gives the true filler tax of the first, in ms."""
    call = Call(34.0)
    end = call.say("caller", 0.6, 0)
    filler_end = call.say("agent", end + 0.5, "Let me check that for you.")
    start = filler_end + gap_s
    last = call.say("agent", start, 3)
    again = call.say("caller", last + 1.5, 2)
    call.say("agent", again + 0.7, 4)
    call.write(folder / f"{name}.wav")
    said = [(["let", "me", "check", "that", "for", "you"], call.truth["agent"][0]),
            (["we", "have", "two", "open", "slots"], call.truth["agent"][1]),
            (["that", "should", "be", "no", "problem"], call.truth["agent"][2])]
    words = [item(w, a + 0.15 * k, a + 0.15 * (k + 1))
             for t, (a, _) in said for k, w in enumerate(t)]
    words.append(item("thanks", last + 0.9, last + 1.1))
    written(folder / f"{name}.words.json", words)
    return 1000 * (start - end - 0.5)


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    return folder, [made(folder, "one", 1.0), made(folder, "two", 2.0)]


def test_l2_of_calls_with_fillers(call_rig, tmp_path, calls):
    folder, taxes = calls
    done = call_rig("field", folder, "--caller-channel", "left", "--no-cache", "--jobs", "1",
                    "--no-sensitivity", "--csv", tmp_path / "turns.csv", "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    for call, tax in zip(document["calls"], taxes, strict=True):
        first, second = (t for t in call["turns"] if t["kind"] == "reply")
        assert first["l2_ms"] - first["latency_ms"] == pytest.approx(tax, abs=60)
        assert (first["opens_with_filler"], second["opens_with_filler"]) == (True, False)
        assert second["l2_ms"] == second["latency_ms"] == pytest.approx(700, abs=80)
        assert call["filler_rate"]["count"] == 1
        assert call["filler_rate"]["n"] == 2
        assert call["l2"]["words"] == {"calls_n": 1, "origin": {"supplied": 1}, "given_n": 17,
                                       "dropped_n": 1}
    total = document["aggregate"]
    assert total["l2"]["n"] == 4
    low, high = total["l2"]["filler_tax_ci"]
    assert low <= total["l2"]["filler_tax_ms"] <= high
    assert (total["filler_rate"]["count"], total["filler_rate"]["n"]) == (2, 4)
    rows = (tmp_path / "turns.csv").read_text().splitlines()
    assert rows[0].endswith("l2_ms,opens_with_filler,words")
    assert sum(row.endswith(",1,supplied") for row in rows) == 2


def test_a_file_of_words_that_cannot_be_used_is_named(call_rig, tmp_path, calls):
    folder, _ = calls
    (tmp_path / "one.words.json").write_text("{")
    done = call_rig("field", folder / "one.wav", "--caller-channel", "left", "--no-cache",
                    "--no-sensitivity", "--transcripts", tmp_path, "--json")
    assert done.code == 3
    document = json.loads(done.out)
    (call,) = document["calls"]
    assert call["l1"]["n"] == 2
    for figure in (call["l2"], call["filler_rate"]):
        assert figure["n"] == 0
        assert "one.words.json" in figure["reason"]
    (problem,) = document["aggregate"]["words_unusable"]
    assert "one.words.json" in problem["reason"]


def test_words_of_the_caller_alone_and_none_at_all(call_rig, tmp_path, calls):
    folder, _ = calls
    written(tmp_path / "one.words.json", [item(side="caller")])
    done = call_rig("field", folder, "--caller-channel", "left", "--no-cache", "--jobs", "1",
                    "--no-sensitivity", "--transcripts", tmp_path, "--json")
    one, two = json.loads(done.out)["calls"]
    assert one["l2"]["p50_ms"] is None
    assert one["l2"]["reason"] == "the words file has no word of the agent"
    assert two["l2"]["reason"].startswith("no words: no file")


def test_the_table_says_what_the_words_were(call_rig, calls):
    folder, _ = calls
    done = call_rig("field", folder, "--caller-channel", "left", "--no-cache", "--jobs", "1",
                    "--no-sensitivity")
    text = " ".join(done.out.split())
    assert "words of 2 calls (2 supplied): 34, of them 2 outside detected speech dropped" in text


def test_how_the_agent_speaks(call_rig, calls):
    folder, _ = calls
    options = (folder / "one.wav", "--caller-channel", "left", "--no-cache", "--no-sensitivity")
    document = json.loads(call_rig("field", *options, "--json").out)
    for place in (document["calls"][0], document["aggregate"]):
        assert place["prosody"]["reason"] == "not asked for: --prosody"
    pytest.importorskip("parselmouth")
    document = json.loads(call_rig("field", *options, "--prosody", "--json").out)
    found = document["calls"][0]["prosody"]
    # The filler and the substance a second later are one answer.
    assert found["pauses_n"] >= 1
    assert 0.5 < found["f0_iqr_st"] < 12
    total = document["aggregate"]["prosody"]["f0_iqr_st"]
    assert total == {"n": 1, "median": found["f0_iqr_st"], "ci": None}
    assert "prosody, median of 1 calls: f0_median_hz" in " ".join(
        call_rig("field", *options, "--prosody").out.split())


def test_u1_against_a_reference_alone(call_rig, tmp_path, calls):
    folder, _ = calls
    heard = ["my", "name", "is", "Robert", "I", "need", "thirty", "six", "boxes", "by", "Friday"]
    written(tmp_path / "one.words.json", [item(w, k, k + 0.5, "caller")
                                          for k, w in enumerate(heard)])
    written(tmp_path / "two.words.json", [item(side="caller")])

    def figures(code=0):
        done = call_rig("field", folder, "--caller-channel", "left", "--no-cache", "--jobs", "1",
                        "--no-sensitivity", "--transcripts", tmp_path, "--json")
        assert done.code == code, done.err
        document = json.loads(done.out)
        return [c["u1"] for c in document["calls"]], document["aggregate"]["u1"]

    (one, _), total = figures()
    assert one["rate"] is None
    assert total["reason"].startswith("no reference: no file")
    reference = {"schema_version": 1, "names": ["Robin"],
                 "caller": "My name is Robin, I need 36 boxes by Friday."}
    (tmp_path / "one.reference.json").write_text(json.dumps(reference))
    (one, two), total = figures()
    # my name is robin i need 3 6 boxes by friday: 11 tokens, one wrong; 3 entities, one wrong
    assert (one["count"], one["n"], one["edits_n"], one["reference_tokens_n"]) == (1, 3, 1, 11)
    assert one["ratio_to_wer"] == pytest.approx((1 / 3) / (1 / 11))
    assert one["by_kind"]["name"] == {"n": 1, "count": 1}
    assert (total["calls_n"], total["count"], total["n"]) == (1, 1, 3)
    assert two["rate"] is None
    (tmp_path / "one.reference.json").write_text(json.dumps({**reference, "nmaes": []}))
    (one, _), total = figures(code=3)
    assert "one.reference.json" in one["reason"]
    assert "did you mean 'names'" in one["reason"]
    (tmp_path / "one.reference.json").write_text(
        json.dumps(reference).replace("{", '{"caller": "My name is Robert.", '))
    (one, _), total = figures(code=3)
    assert "expected the key 'caller' once, got it again" in one["reason"]
