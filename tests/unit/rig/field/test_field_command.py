"""`rig field` on the command line: files of every kind, the document, batches, groups, tables."""

from __future__ import annotations

import csv
import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile
from call_maker import Call, dialogue

from rig.console import Output
from rig.field import cache, measures, tables
from rig.field.sources import CallSource, Track

CALL = Path(__file__).resolve().parents[5] / "shared" / "data" / "calls" / "auto_repairs_40.wav"
needs_call = pytest.mark.skipif(not CALL.exists(), reason="the sample call is not there")


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    return dialogue(3)[0].stereo()


@pytest.fixture
def field(call_rig, tmp_path):
    def call(*arguments, code=0):
        done = call_rig("field", *arguments, "--cache", tmp_path / "cache", "--jobs", "1",
                        "--no-sensitivity", "--json")
        assert done.code == code, done.err
        return json.loads(done.out)

    return call


def kinds(call) -> list[str]:
    return [turn["kind"] for turn in call["turns"]]


def begun(call) -> list[str]:
    """Without what goes on: two lines have a pause of 0.33 and 0.34 s at a comma."""
    return [kind for kind in kinds(call) if kind != "continuation"]


def edges(call) -> np.ndarray:
    return np.array([turn[name] for turn in call["turns"]
                     for name in ("caller_start_s", "caller_end_s", "agent_start_s", "agent_end_s")
                     if turn[name] is not None])


# The real call


@needs_call
@pytest.mark.parametrize("declared_hz", [4_000, 16_000, 24_000])
@pytest.mark.parametrize("caller", ["left", "right"])
def test_the_real_call_at_a_wrong_rate_is_told(field, tmp_path, declared_hz, caller):
    """At twice its rate the speech of one side is taken for music."""
    data = bytearray(CALL.read_bytes())
    at = data.index(b"fmt ") + 12
    assert struct.unpack_from("<II", data, at) == (8_000, 16_000)
    struct.pack_into("<II", data, at, declared_hz, 2 * declared_hz)
    (tmp_path / "call.wav").write_bytes(data)
    (call,) = field(tmp_path / "call.wav", "--caller-channel", caller)["calls"]
    assert any(f"is the file's {declared_hz} Hz the rate it was recorded at?" in w["detail"]
               for w in call["warnings"])


@needs_call
def test_the_reply_gap_of_the_real_call(field):
    """One reply with each caller turn: a median near 0.8 s whatever the minimum silence; every
    agent span paired with the speech before it would give about 3 s."""
    for min_silence_ms in (90, 100, 200, 300, 500, 700, 1000):
        (call,) = field(CALL, "--caller-channel", "left", "--set",
                        f"vad_min_silence_ms={min_silence_ms}")["calls"]
        assert call["l1"]["n"] == 10
        assert 700 <= call["l1"]["p50_ms"] <= 850
        assert 700 <= call["l1"]["p50_uncorrected_ms"] <= 850
        assert call["warnings"] == []
        assert call["talk_ratio"] == pytest.approx(0.48, abs=0.02)


@needs_call
def test_the_range_over_detector_settings_stands_beside(call_rig, tmp_path):
    done = call_rig("field", CALL, "--caller-channel", "left", "--cache", tmp_path, "--json")
    total = json.loads(done.out)["aggregate"]
    low, high = total["sensitivity"]["range"]["l1_p50_ms"]
    assert 700 <= low <= total["l1"]["p50_ms"] <= high <= 950
    assert total["sensitivity"]["settings_n"] == 60
    silence = total["sensitivity"]["by_setting"]["min_silence_ms"]["l1_p50_ms"]
    assert silence[1] - silence[0] <= 40
    text = call_rig("field", CALL, "--caller-channel", "left", "--cache", tmp_path).out
    assert f"{low:.0f} to {high:.0f}" in text
    assert "1230" in text, "the published figure as a column"


# Files of every kind


def _extensible(path: Path, samples: np.ndarray) -> None:
    soundfile.write(path, samples, 8_000, format="WAVEX", subtype="PCM_24")


def _streaming(size: int):
    def write(path: Path, samples: np.ndarray) -> None:
        soundfile.write(path, samples, 8_000, subtype="PCM_16")
        data = bytearray(path.read_bytes())
        at = data.index(b"data") + 4
        data[at:at + 4] = struct.pack("<I", size)
        data[4:8] = struct.pack("<I", size)
        path.write_bytes(bytes(data))
    return write


def _written(**settings):
    return lambda path, samples: soundfile.write(path, samples, 8_000, **settings)


KINDS = {
    "u8.wav": _written(subtype="PCM_U8"), "s24.wav": _written(subtype="PCM_24"),
    "s32.wav": _written(subtype="PCM_32"), "float.wav": _written(subtype="FLOAT"),
    "double.wav": _written(subtype="DOUBLE"), "ulaw.wav": _written(subtype="ULAW"),
    "alaw.wav": _written(subtype="ALAW"), "wavex.wav": _extensible,
    "rf64.wav": _written(format="RF64", subtype="PCM_16"), "zero.wav": _streaming(0),
    "ones.wav": _streaming(0xFFFFFFFF), "sox.wav": _streaming(0x7FFFF000),
    "x.flac": _written(), "x.ogg": _written(format="OGG", subtype="VORBIS"),
    "x.opus": _written(format="OGG", subtype="OPUS"), "x.mp3": _written(format="MP3"),
}


@pytest.mark.slow
def test_every_kind_of_file_says_the_same(field, tmp_path, samples):
    folder = tmp_path / "calls"
    folder.mkdir()
    soundfile.write(folder / "a.wav", samples, 8_000, subtype="PCM_16")
    for name, write in KINDS.items():
        write(folder / name, samples)
    document = field(folder, "--caller-channel", "0")
    assert document["skipped"] == []
    first, *others = document["calls"]
    assert [Path(call["file"]).name for call in document["calls"]] == sorted([*KINDS, "a.wav"])
    assert begun(first) == ["greeting", "reply", "reply", "reply"]
    for call in others:
        assert call["warnings"] == [], call["file"]
        rough = call["file"].endswith(("u8.wav", "alaw.wav", ".ogg", ".opus", ".mp3"))
        assert begun(call) == begun(first), call["file"]
        if len(call["turns"]) == len(first["turns"]):
            # a frame for lossless codes; lossy ones have their own noise, and MP3 a delay
            np.testing.assert_allclose(edges(call), edges(first), atol=0.2 if rough else 0.0321)
        assert call["duration_s"] == pytest.approx(first["duration_s"], abs=0.15)


# Batches


def test_a_broken_file_never_stops_the_rest(call_rig, tmp_path, samples):
    folder = tmp_path / "calls"
    folder.mkdir()
    soundfile.write(folder / "b.wav", samples, 8_000)
    soundfile.write(folder / "mono.wav", samples[:, 0], 8_000)
    (folder / "a.wav").write_bytes(b"RIFFnothing")
    (folder / "c.flac").write_bytes(b"")
    (folder / "notes.txt").write_text("no recording")
    done = call_rig("field", folder, "--jobs", "2", "--no-cache", "--json")
    assert done.code == 3
    document = json.loads(done.out)
    assert [Path(c["file"]).name for c in document["calls"]] == ["b.wav"]
    skipped = {Path(s["file"]).name: s["reason"] for s in document["skipped"]}
    assert sorted(skipped) == ["a.wav", "c.flac", "mono.wav"]
    assert "--pair" in skipped["mono.wav"]
    assert all("\n" not in reason for reason in skipped.values())


def test_where_nothing_can_be_read_the_reasons_stand_alone(call_rig, tmp_path):
    (tmp_path / "a.wav").write_bytes(b"RIFFnothing")
    done = call_rig("field", tmp_path / "a.wav", "--no-cache")
    assert done.code == 3
    skipped, last = done.out.splitlines()
    assert skipped.startswith("skipped: ")
    assert "a.wav" in skipped
    assert last == "no call could be read"


def test_equal_reasons_are_one_line_and_twenty_lines_the_most(capsys):
    """230 files of one reason, 24 of a reason each: 20 lines and how many more there are."""
    alike = [{"file": f"c/{k}.wav", "reason": f"c/{k}.wav: expected two sides, got 1 channel"}
             for k in range(228)]
    alike += [{"file": f"{k}c.wav + {k}a.wav", "reason": f"{k}{side}.wav: expected two sides, got "
               "1 channel"} for k, side in enumerate("ca")]
    other = [{"file": f"{k}.wav", "reason": f"{k}.wav: expected a recording, got {k} bytes"}
             for k in range(24)]
    tables.print_field(Output(), {"calls": [], "skipped": other + alike})
    first, second, *_, twentieth, more, last = lines = capsys.readouterr().out.splitlines()
    assert first == ("skipped: 230 calls, the first c/0.wav: expected two sides, got 1 channel")
    assert second == "skipped: 0.wav: expected a recording, got 0 bytes"
    assert twentieth == "skipped: 18.wav: expected a recording, got 18 bytes"
    assert more == "skipped: 5 more; --json has all"
    assert last == "no call could be read"
    assert len(lines) == 22


def test_a_dot_folder_is_read_where_it_is_named(field, call_rig, tmp_path, samples):
    folder = tmp_path / "calls"
    for inside in (folder / "day", folder / ".cache" / "deeper", folder / "day" / ".old"):
        inside.mkdir(parents=True)
        soundfile.write(inside / "a.wav", samples[:80_000], 8_000)

    def found(*paths):
        document = field(*paths)
        assert document["skipped"] == []
        return [Path(c["file"]).relative_to(folder) for c in document["calls"]]

    assert found(folder) == [Path("day/a.wav")]
    assert found(folder / ".cache") == [Path(".cache/deeper/a.wav")]
    assert found(folder, folder / "day" / ".old") == [Path("day/a.wav"), Path("day/.old/a.wav")]
    (folder / "day" / "a.wav").unlink()
    assert ("got none; folders whose names begin with a dot are not searched"
            in call_rig("field", folder).error)


def test_a_new_cache_is_told_once(call_rig, tmp_path, samples, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.wav", "b.wav"):
        soundfile.write(name, samples[:80_000], 8_000)
    arguments = ("field", "a.wav", "b.wav", "--jobs", "1", "--no-sensitivity")
    assert "kept" not in call_rig(*arguments, "--no-cache").err
    for told_n in (1, 0):
        done = call_rig(*arguments, "--json")
        assert done.err.count("what was read is kept in the new folder field-cache; it may be "
                              "deleted (--cache, --no-cache)") == told_n
        assert len(json.loads(done.out)["calls"]) == 2


def test_the_median_of_bare_edges_stands_beside_where_it_is_another(capsys, field, tmp_path,
                                                                    samples):
    soundfile.write(tmp_path / "a.wav", samples, 8_000)
    document = field(tmp_path / "a.wav")
    l1 = document["aggregate"]["l1"]
    said = "L1 p50 with bare edges, as the detector has them: 772 ms"
    for bare, times in ((772.4, 1), (825.3, 0), (None, 0)):
        l1 |= {"p50_ms": 825.1, "p50_ci": [700.0, 900.0], "n": 10, "p50_uncorrected_ms": bare}
        assert tables.total_lines(document["aggregate"]).count(said) == times
        tables.print_field(Output(), document)
        shown = capsys.readouterr().out
        assert shown.count(said) == times
        assert shown.count("bare edges") == times


def test_a_study_goes_on_where_it_was(call_rig, tmp_path, samples, monkeypatch):
    path, cache = tmp_path / "call.wav", tmp_path / "cache"
    soundfile.write(path, samples, 8_000)
    arguments = ("field", path, "--caller-channel", "left", "--cache", cache, "--jobs", "1",
                 "--no-sensitivity", "--json")
    first = call_rig(*arguments)
    (kept,) = cache.iterdir()

    def refuse(source):
        raise AssertionError("read again")

    with monkeypatch.context() as patched:
        patched.setattr("rig.field.cache.ingest", refuse)
        assert call_rig(*arguments).out == first.out
        other = call_rig(*arguments[:-1], "--set", "vad_threshold=0.7", "--json")
        assert json.loads(other.out)["settings"]["vad"]["threshold"] == 0.7
    # a damaged file is made anew, and another channel map is another question
    kept.write_bytes(kept.read_bytes()[:-200])
    assert call_rig(*arguments).out == first.out
    call_rig("field", path, "--caller-channel", "right", *arguments[4:])
    assert len(list(cache.iterdir())) == 2


@pytest.mark.parametrize("harm", [
    lambda kept: kept[:-1], lambda kept: kept + b"0", lambda kept: kept[:60], lambda kept: b"",
    lambda kept: kept.replace(b'"samples_n": ', b'"samples_n": 9', 1),
    lambda kept: kept.replace(b'"samples_n": ', b'"samples_n": -', 1),
    lambda kept: kept.replace(b'"samples_n"', b'"samples_m"', 1),
    lambda kept: kept.replace(b'{', b'[', 1)])
@pytest.mark.parametrize("forged", [False, True])
def test_what_is_kept_is_believed_only_whole(tmp_path, samples, harm, forged):
    """Damaged, or changed and sealed again by somebody: read anew."""
    path, kept_in = tmp_path / "call.wav", tmp_path / "cache"
    soundfile.write(path, samples[:16_000], 8_000)
    source = CallSource("call", Track(path, 0), Track(path, 1))
    first = cache.load_features(source, kept_in)
    (kept,) = kept_in.iterdir()
    whole = kept.read_bytes()
    head, content = whole[:-len(whole.split(b"\n", 1)[1])], whole.split(b"\n", 1)[1][64:]
    changed = harm(whole)
    if forged:
        content = harm(content)
        changed = head + cache._seal(kept.stem, content) + content
    assert changed != whole
    kept.write_bytes(changed)
    again = cache.load_features(source, kept_in)
    assert again.samples_n == first.samples_n
    np.testing.assert_array_equal(again.caller.bands, first.caller.bands)
    assert kept.read_bytes() == whole, "and kept anew"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("put", [
    lambda kept: os.mkfifo(kept), lambda kept: kept.symlink_to("/dev/zero"),
    lambda kept: kept.symlink_to("/nowhere"), Path.mkdir])
def test_what_stands_in_the_place_of_a_kept_call_holds_nothing_up(tmp_path, samples, put):
    path, kept_in = tmp_path / "call.wav", tmp_path / "cache"
    soundfile.write(path, samples[:16_000], 8_000)
    source = CallSource("call", Track(path, 0), Track(path, 1))
    first = cache.load_features(source, kept_in)
    (kept,) = kept_in.iterdir()
    kept.unlink()
    put(kept)
    again = cache.load_features(source, kept_in)
    np.testing.assert_array_equal(again.caller.bands, first.caller.bands)


def test_what_is_longer_than_any_call_is_not_read(tmp_path, samples, monkeypatch):
    path, kept_in = tmp_path / "call.wav", tmp_path / "cache"
    soundfile.write(path, samples[:16_000], 8_000)
    source = CallSource("call", Track(path, 0), Track(path, 1))
    cache.load_features(source, kept_in)
    (kept,) = kept_in.iterdir()
    monkeypatch.setattr(cache, "MOST_BYTES", kept.stat().st_size)
    assert cache._bytes(kept) == kept.read_bytes()
    monkeypatch.setattr(cache, "MOST_BYTES", kept.stat().st_size - 1)
    assert cache._bytes(kept) is None


def test_the_channel_map_is_echoed_or_a_warning(field, tmp_path, samples):
    path = tmp_path / "call.wav"
    soundfile.write(path, samples, 8_000)
    guessed, = field(path)["calls"]
    assert [w["code"] for w in guessed["warnings"]] == ["possible_swap"]
    assert (guessed["caller_channel"], guessed["agent_channel"]) == (0, 1)
    right, = field(path, "--agent-channel", "left")["calls"]
    assert right["warnings"] == []
    assert (right["caller_channel"], right["agent_channel"]) == (1, 0)
    assert right["talk_ratio"] == pytest.approx(1 - guessed["talk_ratio"])


@pytest.mark.parametrize(("options", "says"), [
    ((), "no channel map was given"), (("--caller-channel", "left"), "the file has 5 channels"),
    (("--agent-channel", "1"), "the file has 5 channels")])
def test_channels_that_are_ignored_are_told(field, tmp_path, samples, options, says):
    path = tmp_path / "five.wav"
    soundfile.write(path, samples[:, [0, 1, 0, 1, 0]], 8_000)
    for _ in range(2):  # the second time out of the cache
        call, = field(path, *options)["calls"]
        (warning,) = call["warnings"]
        assert warning["code"] == "possible_swap"
        assert warning["detail"].startswith(says)
        assert "5 channels, of which 0 and 1 are read and the others ignored" in warning["detail"]
    named, = field(path, "--caller-channel", "2", "--agent-channel", "3")["calls"]
    assert named["warnings"] == []
    assert (named["caller_channel"], named["agent_channel"]) == (2, 3)


@pytest.mark.parametrize(("arguments", "message"), [
    ((), "expected a PATH or --pair"),
    (("nowhere.wav",), "nowhere.wav: expected a recording or a folder, got no such path"),
    ((".", "--caller-channel", "middle"), "--caller-channel: expected left, right"),
    ((".", "--caller-channel", "0", "--agent-channel", "left"), "different channels"),
    ((".", "--group-by", "x"), "--metadata and --group-by together"),
    ((".", "--set", "vad_treshold=0.3"), "did you mean 'vad_threshold'"),
    ((".", "--yield-silence", "0"), "yield-silence"),
])
def test_usage(call_rig, tmp_path, monkeypatch, samples, arguments, message):
    monkeypatch.chdir(tmp_path)
    soundfile.write(tmp_path / "call.wav", samples[:800], 8_000)
    assert message in call_rig("field", *arguments).error


def test_an_empty_folder_is_an_error(call_rig, tmp_path):
    assert "at least one recording" in call_rig("field", tmp_path).error


def test_pairs_by_name_and_by_option(field, tmp_path, samples):
    folder = tmp_path / "calls"
    folder.mkdir()
    for k, side in enumerate(("caller", "agent")):
        soundfile.write(folder / f"17_{side}.wav", samples[:, k], 8_000)
    found, = field(folder)["calls"]
    assert found["warnings"] == []
    named, = field("--pair", folder / "17_caller.wav", folder / "17_agent.wav")["calls"]
    assert named["turns"] == found["turns"]
    assert Path(named["files"]["agent"]).name == "17_agent.wav"


def test_groups_and_csv(field, tmp_path, samples):
    for name in ("a.wav", "b.wav", "c.wav"):
        soundfile.write(tmp_path / name, samples, 8_000)
    table = tmp_path / "calls.csv"
    table.write_text("file,engine\na.wav,=cloud\nb.wav,device\n")
    document = field(tmp_path, "--caller-channel", "left", "--metadata", table, "--group-by",
                     "engine", "--csv", tmp_path / "turns.csv")
    groups = document["groups"]
    assert sorted(groups) == ["(not in the metadata)", "=cloud", "device"]
    assert all(group["calls_n"] == 1 and group["l1"]["n"] == 3 for group in groups.values())
    assert document["aggregate"]["l1"]["n"] == 9
    assert document["aggregate"]["l1"]["p50_ci"] is not None
    rows = list(csv.DictReader((tmp_path / "turns.csv").read_text().splitlines()))
    assert [row["kind"] for row in rows] == 3 * kinds(document["calls"][0])
    assert begun({"turns": rows}) == 3 * ["greeting", "reply", "reply", "reply"]
    assert rows[0]["latency_ms"] == ""


@pytest.mark.parametrize(("text", "message"), [
    ("name,engine\na.wav,x\n", "expected a column 'file'"),
    ("file,engin\na.wav,x\n", "did you mean 'engin'"),
    ("file,engine\na.wav\n", "an incomplete line"),
    ("file,engine\na.wav,x\na.wav,y\n", "one value for 'a.wav'")])
def test_metadata_that_says_nothing(call_rig, tmp_path, samples, text, message):
    soundfile.write(tmp_path / "a.wav", samples[:800], 8_000)
    (tmp_path / "m.csv").write_text(text)
    done = call_rig("field", tmp_path / "a.wav", "--metadata", tmp_path / "m.csv", "--group-by",
                    "engine")
    assert message in done.error


@pytest.mark.parametrize(("pad_ms", "start_ms", "end_ms"), [(30, -3, -74), (50, 17, -94)])
def test_the_edge_correction_is_that_of_the_settings(field, tmp_path, samples, pad_ms, start_ms,
                                                     end_ms):
    """A wider pad moves the detector's edges outwards; times stay those of the sound."""
    soundfile.write(tmp_path / "a.wav", samples, 8_000)
    document = field(tmp_path / "a.wav", "--caller-channel", "left", "--edges", "detector",
                     "--set", f"vad_speech_pad_ms={pad_ms}")
    assert document["settings"]["edges"] == "detector"
    assert document["settings"]["edge_correction_ms"] == {"start": start_ms, "end": end_ms}
    l1 = document["aggregate"]["l1"]
    assert l1["p50_ms"] - l1["p50_uncorrected_ms"] == pytest.approx(start_ms - end_ms)


def test_a_gate_of_the_user_is_exit_1(call_rig, tmp_path):
    path = tmp_path / "slow.wav"
    soundfile.write(path, dialogue(2, gap_s=1.6)[0].stereo(), 8_000)
    arguments = ("field", path, "--caller-channel", "left", "--no-cache", "--no-sensitivity")
    assert call_rig(*arguments).code == 0
    done = call_rig(*arguments, "--fail-on-gate")
    assert done.code == 1
    assert "gate not met: l1_p50_ms < 1000: it is 1" in done.err
    text = " ".join(done.out.split())
    assert "< 1000: NOT MET" in text
    # As the values beside them: in percent.
    assert "<= 33.0 %: met" in text
    assert ">= 78.0 %: " in text
    assert "yield point: 1 s of caller silence, also in a pause of one caller turn" in text


@pytest.mark.parametrize("amplitude", [0.0, 0.001])
def test_a_gate_without_evidence_is_not_met(call_rig, tmp_path, amplitude):
    """Silence, which is refused, and noise, in which nobody speaks."""
    path = tmp_path / "noise.wav"
    noise = np.random.default_rng(3).standard_normal((80_000, 2))
    soundfile.write(path, amplitude * noise, 8_000)
    arguments = ("field", path, "--caller-channel", "left", "--no-cache", "--no-sensitivity")
    assert call_rig(*arguments).code == 0
    for more in ((), ("--json",)):
        done = call_rig(*arguments, "--fail-on-gate", *more)
        assert done.code == 1
        told = [line for line in done.err.splitlines() if line.startswith("gate not met")]
        assert told == [f"gate not met: {limit}: no evidence: no call could be measured"
                        for limit in ("l1_p50_ms < 1000", "interruption_rate <= 0.330",
                                      "turn_take_rate >= 0.78")]


def test_each_gate_says_why_it_has_no_evidence(call_rig, tmp_path):
    """A greeting and one caller turn that ends with the call: no reply, no yield point."""
    call = Call(length_s=9.0)
    call.say("agent", 0.6, "Good morning, how can I help you?")
    end = call.say("caller", 4.5, 0)
    path = tmp_path / "call.wav"
    soundfile.write(path, call.stereo()[:round((end + 0.3) * 8_000)], 8_000)
    done = call_rig("field", path, "--caller-channel", "left", "--no-cache", "--no-sensitivity",
                    "--fail-on-gate")
    assert done.code == 1
    assert ("gate not met: l1_p50_ms < 1000: no evidence: no reply to a caller turn was found"
            in done.err)
    assert "gate not met: turn_take_rate >= 0.78: no evidence: no yield point was found" in done.err


@pytest.mark.parametrize(("changed", "settings_n"), [
    ({}, 60), ({"min_silence_ms": 200}, 75), ({"threshold": 0.45, "merge_gap_s": 0.25}, 96),
    ({"threshold": 0.9, "neg_threshold": 0.2}, 72), ({"speech_pad_ms": 10}, 60)])
def test_the_grid_holds_what_was_set(changed, settings_n):
    """Else a range would lie beside the figure, and one over a single setting be empty."""
    base = measures.VadSettings(**changed)
    grid = measures.sensitivity_grid(base)
    assert base in grid
    assert len(set(grid)) == len(grid) == settings_n


def test_the_text_of_thousands_of_calls_stays_short(field, capsys, tmp_path, samples):
    soundfile.write(tmp_path / "a.wav", samples[:80_000], 8_000)
    document = field(tmp_path / "a.wav")
    (call,) = document["calls"]
    quiet = call | {"warnings": []}
    document["calls"] = [call | {"file": f"{k}.wav"} for k in range(tables.CALLS_SHOWN)]
    tables.print_field(Output(), document)
    whole = capsys.readouterr().out
    assert f"\n{tables.CALLS_SHOWN - 1}.wav" in whole
    assert "more calls" not in whole
    document["calls"] += [call | {"file": "last.wav"}] + [quiet] * 2_000
    tables.print_field(Output(), document)
    text = capsys.readouterr().out
    assert "last.wav" not in text
    assert ("2001 more calls are not listed here; --calls-csv and --json have all. Calls with a "
            f"warning, of all 2201: possible_swap {tables.CALLS_SHOWN + 1}") in text
    assert len(text.splitlines()) == len(whole.splitlines()) + 1
