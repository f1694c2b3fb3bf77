"""Recordings that were made elsewhere: right verdicts for hand-placed speech, and a reason for
everything that cannot be scored.

The recordings are put together here, from a speech engine's own output and NumPy, and written by
libsndfile or by hand: nothing of the rig takes part in making them. All edges below are seconds of
placed speech; detected ones may lie 0.15 s off (the detector works in steps of 32 ms and hears the
decay of a sound), so no expected verdict hangs on less than 0.3 s.
"""

from __future__ import annotations

import functools
import json
import math
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rig_testkit as kit
import soundfile
import soxr

RATE = 24_000
LENGTH_S = 14.0
WINDOW = (6.0, 9.0)
EDGE_S = 0.15
WORDS = Path(__file__).resolve().parents[4] / "shared" / "data" / "calls" / "words"

Spans = tuple[tuple[float, float], ...]


@functools.cache
def sentence() -> np.ndarray:
    """Ten seconds without a pause: sentences, cut to their sound, end to end."""
    from hibari import Hibari

    speak = Hibari()
    texts = ("The old ferry still leaves from the same wooden landing that we built",
             "People always ask me why the water looks so green near the bridge",
             "My neighbor grows tomatoes along the fence and gives most of them away")
    parts = []
    for text in texts:
        samples = np.asarray(speak(text, seed=7), dtype=np.float32)
        loud = np.flatnonzero(np.abs(samples) > 0.02)
        parts.append(samples[loud[0] : loud[-1] + 1])
    return np.concatenate(parts)


@functools.cache
def yes() -> np.ndarray:
    """A short word of a human voice from the sample calls, cut to its sound, at 24 kHz."""
    path = WORDS / "yes.wav"
    if not path.exists():
        pytest.skip(f"the sample calls are not here: {path}")
    samples, rate_hz = soundfile.read(path, dtype="float32")
    samples = soxr.resample(samples, rate_hz, RATE)
    loud = np.flatnonzero(np.abs(samples) > 0.02 * np.abs(samples).max())
    return samples[loud[0] : loud[-1] + 1]


def channel(spans: Spans, word_at: tuple[float, ...] = (), length_s: float = LENGTH_S
            ) -> np.ndarray:
    out = np.zeros(round(length_s * RATE), dtype=np.float32)
    for start_s, end_s in spans:
        first, last = round(start_s * RATE), round(end_s * RATE)
        assert last - first <= len(sentence())
        out[first:last] = sentence()[: last - first]
    for at_s in word_at:
        first = round(at_s * RATE)
        out[first : first + len(yes())] = yes()
    return out


def stereo(model: Spans = (), user: Spans = ((1.0, 4.0), (10.0, 12.0)),
           word_at: tuple[float, ...] = (), length_s: float = LENGTH_S) -> np.ndarray:
    return np.column_stack([channel(user, length_s=length_s),
                            channel(model, word_at, length_s)])


class Bench:
    """A folder of recordings and a manifest under construction."""

    def __init__(self, folder: Path, call: Callable[..., Any]) -> None:
        self.folder = folder
        self.audio = folder / "audio"
        self.audio.mkdir()
        self.lines: list[dict[str, Any]] = []
        self._call = call

    def add(self, name: str, samples: np.ndarray | None, action: str = "TAKE_TURN",
            rate_hz: int = RATE, subtype: str = "PCM_16", suffix: str = "wav",
            **more: Any) -> Path:
        path = self.audio / f"{name}.{suffix}"
        if samples is not None:
            if rate_hz != RATE:
                samples = soxr.resample(samples, RATE, rate_hz)
            soundfile.write(path, samples, rate_hz, subtype=subtype)
        self.lines.append({"id": name, "wav": path.name, "expected_action": action,
                           "window": {"start_s": WINDOW[0], "end_s": WINDOW[1]}, **more})
        return path

    def rescore(self, *options: object, code: int = 0) -> dict[str, dict[str, Any]]:
        manifest = self.folder / "manifest.jsonl"
        manifest.write_text("".join(json.dumps(line) + "\n" for line in self.lines))
        out = self.folder / "out"
        called = self._call("rescore", manifest, "--audio", self.audio, "--out", out, *options)
        assert called.code == code, called.err
        return {c["case_id"]: c for c in kit.scores(out)["cases"]}


@pytest.fixture
def bench(tmp_path: Path, call_rig: Any) -> Bench:
    return Bench(tmp_path, call_rig)



VERDICTS: Mapping[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    # name: action, recording, more of the manifest line, outcome
    "takes the turn after 1.0 s": ("TAKE_TURN", {"model": ((7.0, 9.6),)}, {}, "pass"),
    "takes the turn after 2.5 s": ("TAKE_TURN", {"model": ((8.5, 10.0),)}, {}, "fail"),
    "spoke before the window and on": ("TAKE_TURN", {"model": ((5.0, 8.0),)}, {}, "fail"),
    "takes no turn": ("TAKE_TURN", {"model": ((2.0, 4.0), (10.0, 12.0))}, {}, "fail"),
    "takes the turn after 1.0 s, 0.5 s allowed": (
        "TAKE_TURN", {"model": ((7.0, 9.6),)}, {"params": {"max_wait_s": 0.5}}, "fail"),
    "interrupts after 0.8 s": ("INTERRUPT", {"model": ((6.8, 8.0),)}, {}, "pass"),
    "interrupts after 2.2 s": ("INTERRUPT", {"model": ((8.2, 9.6),)}, {}, "fail"),
    "interrupts after 1.1 s, 0.7 s allowed": (
        "INTERRUPT", {"model": ((7.1, 8.5),)}, {"params": {"max_latency_ms": 700}}, "fail"),
    "listens": ("LISTEN", {"model": ((2.0, 5.5), (9.5, 12.0))}, {}, "pass"),
    "talks in the window": ("LISTEN", {"model": ((7.0, 8.0),)}, {}, "fail"),
    "still talks when the window opens": ("LISTEN", {"model": ((3.0, 6.6),)}, {}, "fail"),
    "keeps still": ("NO_BACKCHANNEL", {"model": ((2.0, 4.0),)}, {}, "pass"),
    "says yes": ("NO_BACKCHANNEL", {"word_at": (7.0,)}, {}, "fail"),
    "acknowledges": ("BACKCHANNEL", {"word_at": (7.0,)}, {}, "pass"),
    "does not acknowledge": ("BACKCHANNEL", {"model": ((2.0, 4.0),)}, {}, "fail"),
    "acknowledges at length": ("BACKCHANNEL", {"model": ((6.5, 8.7),)}, {}, "fail"),
    "acknowledges twice": ("BACKCHANNEL", {"word_at": (6.4, 7.9)}, {}, "fail"),
    "acknowledges twice, two allowed": (
        "BACKCHANNEL", {"word_at": (6.4, 7.9)}, {"params": {"max_spans": 2}}, "pass"),
    "yields after 0.25 s": ("YIELD", {"model": ((4.0, 6.25),)}, {}, "pass"),
    "yields after 1.5 s": ("YIELD", {"model": ((4.0, 7.5),)}, {}, "fail"),
    "yields after 1.1 s, 1.5 s allowed": (
        "YIELD", {"model": ((4.0, 7.1),)}, {"params": {"max_latency_ms": 1500}}, "pass"),
    "yields after 1.1 s, 0.6 s allowed": ("YIELD", {"model": ((4.0, 7.1),)}, {}, "fail"),
    "had nothing to yield": ("YIELD", {"model": ((2.0, 4.0),)}, {}, "fail"),
    "continues for 1.5 s": ("CONTINUE", {"model": ((4.0, 7.5),)}, {}, "pass"),
    "stops after 0.25 s": ("CONTINUE", {"model": ((4.0, 6.25),)}, {}, "fail"),
    "had nothing to continue": ("CONTINUE", {}, {}, "fail"),
    "overlaps for 1.0 s": (
        "ACCEPT_OVERLAP", {"model": ((4.0, 7.0),), "user": ((6.0, 8.5),)}, {}, "pass"),
    "stops before the user": (
        "ACCEPT_OVERLAP", {"model": ((4.0, 5.5),), "user": ((6.0, 8.5),)}, {}, "fail"),
    "speaks when the user does not": (
        "ACCEPT_OVERLAP", {"model": ((4.0, 8.0),), "user": ((1.0, 3.0),)}, {}, "fail"),
    # Ten dictated tokens, digits spelled or not: nine said is 0.90, eight is 0.80.
    "reads nine of ten back": (
        "READBACK", {"model": ((7.0, 10.0),)},
        {"target_text": "one two three four five six seven eight nine zero",
         "transcript": "So, 1, 2, 3, 4, five, SIX, seven, eight and nine!"}, "pass"),
    "reads eight of ten back": (
        "READBACK", {"model": ((7.0, 10.0),)},
        {"target_text": "one two three four five six seven eight nine zero",
         "transcript": "1 2 3 4 5 6 7 8"}, "fail"),
    "wrote it and said nothing": (
        "READBACK", {}, {"target_text": "four eggs", "transcript": "four eggs"}, "fail"),
    "nobody knows what it said": (
        "READBACK", {"model": ((7.0, 10.0),)}, {"target_text": "four eggs"}, "unscored"),
    "nothing was dictated": (
        "READBACK", {"model": ((7.0, 10.0),)}, {"transcript": "four eggs"}, "unscored"),
}


def test_hand_made_recordings_get_the_right_verdicts(bench: Bench) -> None:
    for name, (action, recording, more, _) in VERDICTS.items():
        bench.add(name, stereo(**recording), action, **more)
    found = bench.rescore()
    assert {name: found[name]["outcome"] for name in VERDICTS} == {
        name: outcome for name, (_, _, _, outcome) in VERDICTS.items()}
    by_action = kit.scores(bench.folder / "out")["ias"]["by_action"]
    assert len(by_action) == 9
    for action, stat in by_action.items():
        outcomes = [o for a, _, _, o in VERDICTS.values() if a == action]
        assert (stat["n"], stat["passed"], stat["unscored"]) == (
            sum(o != "unscored" for o in outcomes), outcomes.count("pass"),
            outcomes.count("unscored"))


def test_the_numbers_are_those_of_the_placed_speech(bench: Bench) -> None:
    for name in ("takes the turn after 1.0 s", "yields after 0.25 s", "overlaps for 1.0 s",
                 "acknowledges", "still talks when the window opens"):
        action, recording, more, _ = VERDICTS[name]
        bench.add(name, stereo(**recording), action, **more)
    found = {name: case["measured"] for name, case in bench.rescore().items()}
    near = functools.partial(pytest.approx, abs=EDGE_S)
    taken = found["takes the turn after 1.0 s"]
    assert taken["genuine_onset_s"] == near(1.0)
    assert taken["first_span_s"] == near(2.6)
    assert (taken["held_at_w0"], taken["spans_in_window"]) == (False, 1)
    yielded = found["yields after 0.25 s"]
    assert yielded["first_offset_s"] == near(0.25)
    assert (yielded["held_at_w0"], yielded["resumed_in_window"]) == (True, False)
    assert found["overlaps for 1.0 s"]["overlap_s"] == near(1.0)
    # The model's offset, not the user's, which is 2.5 s.
    assert found["overlaps for 1.0 s"]["first_offset_s"] == near(1.0)
    assert found["overlaps for 1.0 s"]["user_speech_s"] == near(2.5)
    assert found["acknowledges"]["genuine_onset_s"] == near(1.0)
    assert found["acknowledges"]["first_span_s"] == near(len(yes()) / RATE)
    going_on = found["still talks when the window opens"]
    assert (going_on["genuine_onset_s"], going_on["held_at_w0"]) == (None, True)


def test_channels_can_be_the_other_way_round(bench: Bench) -> None:
    samples = stereo(model=((7.0, 9.6),))
    bench.add("as usual", samples)
    bench.add("swapped", samples[:, ::-1], user_channel=1, model_channel=0)
    bench.add("taken wrongly", samples[:, ::-1])
    three = np.column_stack([np.zeros(len(samples), np.float32), samples])
    bench.add("of three", three, user_channel=1, model_channel=2)
    found = bench.rescore()
    assert {n: c["outcome"] for n, c in found.items()} == {
        "as usual": "pass", "swapped": "pass", "taken wrongly": "fail", "of three": "pass"}
    assert found["swapped"]["measured"] == found["as usual"]["measured"]
    assert found["of three"]["measured"] == found["as usual"]["measured"]


def test_how_loud_the_model_is_recorded_is_flagged(bench: Bench) -> None:
    """The flags of docs/formats.md, of the model's channel alone, at any rate and encoding."""
    samples = stereo(model=((7.0, 9.6),))
    model = samples * np.float32([1.0, 0.0])
    quiet, loud = (samples * np.float32([1.0, gain]) for gain in (0.001, 31.6))
    bench.add("as it is", samples)
    bench.add("-60 dB", quiet, subtype="PCM_24")
    bench.add("-60 dB at 8 kHz", quiet, rate_hz=8_000, subtype="PCM_24")
    bench.add("+30 dB", np.clip(loud, -1, 1))
    bench.add("+30 dB, 8 bit", np.clip(loud, -1, 1), subtype="PCM_U8")
    bench.add("+30 dB, u-law", np.clip(loud, -1, 1), rate_hz=8_000, subtype="ULAW")
    bench.add("the user +30 dB", np.clip(samples * np.float32([31.6, 1.0]), -1, 1))
    bench.add("silence", model)
    found = {name: {"near_silent", "clipped"} & set(case["flags"])
             for name, case in bench.rescore().items()}
    assert found == {
        "as it is": set(), "-60 dB": {"near_silent"}, "-60 dB at 8 kHz": {"near_silent"},
        "+30 dB": {"clipped"}, "+30 dB, 8 bit": {"clipped"}, "+30 dB, u-law": {"clipped"},
        "the user +30 dB": set(), "silence": set()}


def test_one_signal_on_both_channels_says_nothing_of_the_model(bench: Bench) -> None:
    both = stereo(model=((7.0, 9.6),)).sum(axis=1)
    noise = np.random.default_rng(1).standard_normal((2, len(both))) * 1e-3
    offset = np.float32(0.2)
    bench.add("the same", np.column_stack([both, both]), "LISTEN")
    bench.add("other level and sign", np.column_stack([both, -0.3 * both]), "LISTEN")
    bench.add("other noise", np.column_stack([both, both]) + noise.T, "LISTEN")
    bench.add("shared offset", stereo(model=((7.0, 9.6),)) / 2 + offset, "LISTEN")
    bench.add("both silent", np.zeros((len(both), 2), np.float32), "LISTEN")
    bench.add("both silent, offset", np.full((len(both), 2), offset), "LISTEN")
    found = bench.rescore()
    assert {name: case["outcome"] for name, case in found.items()} == {
        "the same": "unscored", "other level and sign": "unscored", "other noise": "unscored",
        "shared offset": "fail", "both silent": "pass", "both silent, offset": "pass"}
    assert "one signal on both (correlation 1.000): nothing can be said of the model" in \
        found["the same"]["reason"]


FORMATS: list[tuple[int, str, str]] = [
    (8_000, "PCM_16", "wav"), (8_000, "ULAW", "wav"), (16_000, "PCM_16", "wav"),
    (22_050, "PCM_16", "flac"), (24_000, "FLOAT", "wav"), (24_000, "PCM_24", "wav"),
    (44_100, "PCM_16", "wav"), (48_000, "PCM_16", "flac"), (48_000, "VORBIS", "ogg"),
]


def test_any_rate_and_format_gives_the_same_verdicts(bench: Bench) -> None:
    for rate_hz, subtype, suffix in FORMATS:
        for action, model in (("TAKE_TURN", ((7.0, 9.6),)), ("YIELD", ((4.0, 7.5),))):
            bench.add(f"{action} {rate_hz} {subtype} {suffix}", stereo(model=model), action,
                      rate_hz=rate_hz, subtype=subtype, suffix=suffix)
    found = bench.rescore()
    for name, case in found.items():
        if name.startswith("TAKE_TURN"):
            assert (case["outcome"], case["flags"]) == ("pass", []), name
            assert case["measured"]["genuine_onset_s"] == pytest.approx(1.0, abs=EDGE_S), name
        else:
            assert case["outcome"] == "fail", name
            assert case["measured"]["first_offset_s"] == pytest.approx(1.5, abs=EDGE_S), name


def test_a_header_written_into_a_pipe_is_read_to_the_end(bench: Bench) -> None:
    samples = (stereo(model=((7.0, 9.6),)) * 32767).astype("<i2").tobytes()
    path = bench.add("streamed", None)
    path.write_bytes(b"RIFF" + struct.pack("<I", 0xFFFFFFFF) + b"WAVEfmt " + struct.pack(
        "<IHHIIHH", 16, 1, 2, RATE, RATE * 4, 4, 16) + b"data" + struct.pack("<I", 0xFFFFFFFF)
        + samples)
    case = bench.rescore()["streamed"]
    assert (case["outcome"], case["flags"]) == ("pass", [])
    assert case["measured"]["recorded_after_w0_s"] == pytest.approx(LENGTH_S - 6.0, abs=1e-6)


def _truncated(path: Path, seconds: float) -> None:
    path.write_bytes(path.read_bytes()[: 44 + round(seconds * RATE) * 4])


def test_a_recording_that_breaks_off_is_scored_as_far_as_it_decides(bench: Bench) -> None:
    """The header promises 14 s. A verdict that stands already is given, any other is not."""
    for name, action, model, seconds in (
        ("listened, window and more are there", "LISTEN", (), 9.6),
        ("listened, half of the window is there", "LISTEN", (), 7.5),
        ("talked before it broke off", "LISTEN", ((6.5, 7.2),), 7.5),
        ("turn taken before it broke off", "TAKE_TURN", ((6.5, 8.5),), 7.5),
        ("no turn taken so far", "TAKE_TURN", (), 7.5),
    ):
        _truncated(bench.add(name, stereo(model=model), action), seconds)
    found = bench.rescore()
    assert {n: c["outcome"] for n, c in found.items()} == {
        "listened, window and more are there": "pass",
        "listened, half of the window is there": "unscored",
        "talked before it broke off": "fail",
        "turn taken before it broke off": "pass",
        "no turn taken so far": "unscored",
    }
    assert all("truncated" in c["flags"] for c in found.values())
    reason = found["no turn taken so far"]["reason"]
    assert "the recording ends 1.5" in reason
    assert reason.endswith("; what is absent shows only up to 0.500 s before its end")


def test_what_cannot_be_scored_says_why_and_the_others_are_scored(bench: Bench) -> None:
    good = stereo(model=((7.0, 9.6),))
    bench.add("first", good)
    bench.add("missing", None)
    bench.add("mono", good[:, 1])
    bench.add("empty", good[:0])
    bench.add("no bytes", None).write_bytes(b"")
    bench.add("text", None).write_text("this is no recording\n" * 50)
    bench.add("a folder", None).mkdir()
    not_a_number = good.copy()
    not_a_number[round(8.0 * RATE), 1] = math.nan
    bench.add("NaN", not_a_number, subtype="FLOAT")
    infinite = good.copy()
    infinite[round(8.0 * RATE), 1] = math.inf
    bench.add("infinity", infinite, subtype="FLOAT")
    bench.add("far too loud", good * 1e6, subtype="FLOAT")
    bench.add("channel 5", good, model_channel=5)
    for name, rate_hz in (("rate 0", 0), ("rate 4e9", 4_000_000_000)):
        path = bench.add(name, good)
        path.write_bytes(path.read_bytes()[:24] + struct.pack("<I", rate_hz)
                         + path.read_bytes()[28:])
    bench.add("after its end", good, window={"start_s": 20.0, "end_s": 23.0})
    bench.add("at its end", good, window={"start_s": 14.0, "end_s": 17.0})
    bench.add("partly", good, window={"start_s": 12.0, "end_s": 15.0})
    if hasattr(os, "mkfifo"):
        os.mkfifo(bench.add("a pipe", None))
    bench.add("last", good)
    found = bench.rescore()
    assert [n for n, c in found.items() if c["outcome"] != "unscored"] == ["first", "last"]
    assert found["first"]["outcome"] == found["last"]["outcome"] == "pass"
    says = {
        "missing": "no such file", "mono": "expected a recording with channel 1, counted from 0, "
        "got 1 channel", "empty": "expected a recording with samples, got an empty one",
        "no bytes": "expected", "text": "expected", "a folder": "expected",
        "NaN": "sample 192000", "infinity": "sample 192000",
        "far too loud": "/far too loud.wav: expected samples on a full scale of 1, none beyond 100",
        "channel 5": "expected a recording with channel 5, counted from 0, got 2 channels",
        "rate 0": "got 'a header whose rate or channels make no sense'",
        "rate 4e9": "got 'a header whose rate or channels make no sense'",
        "after its end": "window outside the recording: it begins 6.000 s after the recording ends",
        "at its end": "window outside the recording", "partly": "the recording ends 2.0",
        "a pipe": "expected",
    }
    for name, text in says.items():
        if name in found:
            assert text.lower() in found[name]["reason"].lower(), (name, found[name]["reason"])
            assert found[name]["measured"] == {} or name in ("after its end", "at its end",
                                                             "partly")
    stat = kit.scores(bench.folder / "out")["ias"]["by_action"]["TAKE_TURN"]
    assert (stat["n"], stat["passed"], stat["unscored"]) == (2, 2, len(found) - 2)


def test_two_cases_may_share_one_recording(bench: Bench) -> None:
    path = bench.add("turn", stereo(model=((7.0, 9.6),)))
    bench.lines.append({**bench.lines[0], "id": "quiet", "expected_action": "LISTEN",
                        "window": {"start_s": 2.0, "end_s": 5.0}})
    assert path.exists()
    assert {n: c["outcome"] for n, c in bench.rescore().items()} == {"turn": "pass",
                                                                      "quiet": "pass"}


def test_settings_scale_and_the_level_goes_into_the_pools(bench: Bench) -> None:
    model = ((4.0, 7.1),)
    bench.add("by default", stereo(model=model), "YIELD", level="L2", role="R1", probe="C3")
    bench.add("with its own", stereo(model=model), "YIELD", level="L1", role="R4",
              params={"max_latency_ms": 500})
    assert {n: c["outcome"] for n, c in bench.rescore().items()} == {
        "by default": "fail", "with its own": "fail"}
    # 600 to 1800 ms; an override keeps its ratio: 500 becomes 1500 ms.
    found = bench.rescore("--set", "yield_max_latency_ms=1800")
    assert {n: c["outcome"] for n, c in found.items()} == {
        "by default": "pass", "with its own": "pass"}
    scores = kit.scores(bench.folder / "out")
    assert {level: s["n"] for level, s in scores["ias"]["core"].items()} == {"L1": 1, "L2": 1}
    # Pauses inside the sentence are shorter than 0.3 s: without merging it is more than one span.
    assert scores["vad"]["merge_gap_s"] == 0.3


def test_the_result_does_not_depend_on_the_cache_or_on_neighbours(bench: Bench) -> None:
    for name in list(VERDICTS)[:6]:
        action, recording, more, _ = VERDICTS[name]
        bench.add(name, stereo(**recording), action, **more)
    bench.rescore()
    first = kit.files(bench.folder / "out")
    bench.rescore()
    assert kit.files(bench.folder / "out") == first
    alone = bench.lines[2]
    bench.lines = [alone]
    case = bench.rescore()[alone["id"]]
    cases = {c["case_id"]: c for c in json.loads(first["scores.json"])["cases"]}
    assert case == cases[alone["id"]]


# --- manifests -----------------------------------------------------------------------------------

GOOD = {"id": "x1", "wav": "x1.wav", "expected_action": "TAKE_TURN",
        "window": {"start_s": 6.0, "end_s": 9.0}}


def _with(**changes: Any) -> bytes:
    return json.dumps({**GOOD, "id": "x2", **changes}).encode()


BAD_LINES: list[tuple[str, bytes, str]] = [
    ("no JSON", b"{", "expected one case of a rescore manifest, got Invalid JSON"),
    ("no object", b"[1, 2]", "expected one case of a rescore manifest"),
    ("not UTF-8", b'{"id": "\xff\xfe"}',
     "expected UTF-8 text, got byte 0xff at position 8 of the line"),
    ("a key twice", _with()[:-1] + b', "id": "b"}', "expected the key 'id' once, got it again"),
    ("a key twice, inside", json.dumps({**GOOD, "id": "x2"}).encode().replace(
        b'"end_s"', b'"start_s": 1, "end_s"'), "expected the key 'start_s' once, got it again"),
    ("NUL in the id", _with(id="a\0b"), "expected an id without control characters, got"),
    ("line break in the id", _with(id="a\nb"), "expected an id without control characters, got"),
    ("same id", json.dumps(GOOD).encode(), "expected an id of its own, got 'x1' again"),
    ("unknown key", _with(modelchannel=1),
     "modelchannel: no such key; did you mean 'model_channel'?"),
    ("unknown param", _with(params={"max_wait": 2}),
     "params.max_wait: no such key; did you mean 'max_wait_s'?"),
    ("misspelt key that is required", json.dumps(
        {**{k: v for k, v in GOOD.items() if k != "window"}, "widow": GOOD["window"]}).encode(),
     "widow: no such key; did you mean 'window'? (and 1 more)"),
    ("misspelt key of the window", _with(window={"start": 1.0, "end_s": 2.0}),
     "window.start: no such key; did you mean 'start_s'? (and 1 more)"),
    ("nothing like a key", _with(zzz=1), "zzz: no such key"),
    ("misspelt action", _with(expected_action="TAKE_TRUN"),
     "'ACCEPT_OVERLAP' or 'CONTINUE', got 'TAKE_TRUN'; did you mean 'TAKE_TURN'?"),
    ("no id", b'{"wav": "a.wav"}', "id: Field required"),
    ("empty id", _with(id=""), "id: String should have at least 1 character"),
    ("unknown action", _with(expected_action="SHOUT"), "expected_action: Input should be"),
    ("unknown level", _with(level="L9"), "level: Input should be"),
    ("window reversed", _with(window={"start_s": 9.0, "end_s": 6.0}),
     "window must end after it starts, got start_s 9 and end_s 6"),
    ("window empty", _with(window={"start_s": 6.0, "end_s": 6.0}), "must end after it starts"),
    ("window negative", _with(window={"start_s": -1.0, "end_s": 6.0}),
     "expected a window that starts at 0 s or later, got -1.0"),
    ("window NaN", _with(window={"start_s": math.nan, "end_s": 6.0}), "must be finite, got nan"),
    ("window infinite", _with(window={"start_s": 1.0, "end_s": math.inf}), "must be finite"),
    ("window text", _with(window={"start_s": "six", "end_s": 9}), "window.start_s: Input should"),
    ("equal channels", _with(user_channel=1), "expected two different channels for user and "
     "model, got 1 for both"),
    ("negative channel", _with(model_channel=-1), "model_channel: Input should be greater"),
    ("parent", _with(wav="../x.wav"), "expected a path inside the --audio folder"),
    ("deep parent", _with(wav="a/../../x.wav"), "expected a path inside the --audio folder"),
    ("absolute", _with(wav="/etc/passwd"), "expected a path inside the --audio folder"),
    ("backslash", _with(wav="..\\x.wav"), "expected a path inside the --audio folder"),
    ("zero byte", _with(wav="a\0b.wav"), "expected a path inside the --audio folder"),
    ("negative limit", _with(params={"max_latency_ms": -5}),
     "params.max_latency_ms: expected a number of ms above 0"),
    ("NaN limit", _with(params={"max_wait_s": math.nan}), "params.max_wait_s: expected a number"),
    ("limit in ms", _with(params={"max_wait_s": 2000}), "params.max_wait_s: expected a number of "
     "s above 0 and at most 60"),
    ("no spans", _with(params={"max_spans": 0}), "params.max_spans: expected a whole number"),
    ("coverage", _with(params={"min_coverage": 90}), "params.min_coverage: expected a ratio"),
    ("very long", b'{"id": "' + b"x" * 1_000_001 + b'"}', "expected a line of at most 1000000"),
]


@pytest.mark.parametrize(("line", "message"), [(raw, text) for _, raw, text in BAD_LINES],
                         ids=[name for name, _, _ in BAD_LINES])
def test_a_line_that_cannot_be_understood_stops_before_anything_is_written(
    line: bytes, message: str, tmp_path: Path, call_rig: Any
) -> None:
    (tmp_path / "audio").mkdir()
    manifest = tmp_path / "manifest.jsonl"
    manifest.write_bytes(json.dumps(GOOD).encode() + b"\n\n" + line + b"\n")
    before = sorted(tmp_path.rglob("*"))
    error = call_rig("rescore", manifest, "--audio", tmp_path / "audio", "--out",
                     tmp_path / "out").error
    assert message in error
    assert "manifest.jsonl:3: " in error
    assert sorted(tmp_path.rglob("*")) == before


def _missing(folder: Path) -> Path:
    return folder / "manifest.jsonl"


def _made(content: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / "manifest.jsonl").write_bytes(content)
        return folder / "manifest.jsonl"
    return make


@pytest.mark.parametrize(("make", "message"), [
    (_missing, "expected a manifest of one JSON object a line, got No such file"),
    (lambda folder: folder, "expected a manifest of one JSON object a line, got Is a directory"),
    (_made(b""), "expected at least one JSON object, got none"),
    (_made(b"\n\r\n  \n"), "expected at least one JSON object, got none"),
])
def test_a_manifest_that_is_not_there_or_empty(
    make: Callable[[Path], Path], message: str, tmp_path: Path, call_rig: Any
) -> None:
    (tmp_path / "audio").mkdir()
    manifest = make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert message in call_rig("rescore", manifest, "--audio", tmp_path / "audio", "--out",
                               tmp_path / "out").error
    assert sorted(tmp_path.rglob("*")) == before


def test_no_folder_with_recordings(tmp_path: Path, call_rig: Any) -> None:
    manifest = _made(json.dumps(GOOD).encode())(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    line = call_rig("rescore", manifest, "--audio", tmp_path / "nowhere", "--out",
                    tmp_path / "out").error
    assert "nowhere: expected a folder with the recordings, got no such folder" in line
    assert sorted(tmp_path.rglob("*")) == before


def test_windows_line_ends_are_read(bench: Bench) -> None:
    bench.add("turn", stereo(model=((7.0, 9.6),)))
    manifest = bench.folder / "crlf.jsonl"
    manifest.write_bytes(b"\xef\xbb\xbf" + json.dumps(bench.lines[0]).encode() + b"\r\n")
    assert bench._call("rescore", manifest, "--audio", bench.audio, "--out",
                       bench.folder / "out").code == 0
    assert kit.outcomes(bench.folder / "out") == {"turn": "pass"}
