"""Other people's definitions on rendered speech, through the detector: one recording for each
difference from ours, its values worked out by hand, and our verdict of the same recording."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from audio.errors import InputError
from audio.files import read_analysis_channel
from audio.spans import Spans
from audio.timebase import ANALYSIS_RATE_HZ
from audio.vad import VadSettings, speech_spans
from rig.definitions import SILERO_DEFAULTS
from verifiers.decide import verify
from verifiers.definitions import eva, full_duplex_bench, tau2_voice
from verifiers.definitions.talk import Talk
from verifiers.scene import Action, Scene, Window

EDGE_S = 0.15
"""Detected edges lie within 150 ms of the drawn ones (test_recordings.py)."""
S = 1_000_000_000
Pairs = tuple[tuple[float, float], ...]

_spec = importlib.util.spec_from_file_location(
    "golden_regenerate_definitions", Path(__file__).parent / "regenerate.py")
regenerate = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = regenerate
_spec.loader.exec_module(regenerate)


@dataclass(frozen=True)
class Drawn:
    """Turn 1 lasts from 1 to 2 s; `user` is the last turn. `values`: (family, key, value, off by
    at most); a text is the reason of a null."""

    name: str
    action: str
    model: Pairs
    values: tuple[tuple[str, str, float | str, float], ...]
    ours: str
    user: Pairs = ((6.0, 8.0),)
    window: tuple[float, float] = (8.0, 18.0)
    words: tuple[float, ...] | None = None
    length: float = 20.0


EACH = [
    # Full-Duplex-Bench
    Drawn("a short sound in the pause", "LISTEN", ((8.8, 9.3),),
          (("fdb", "pause.tor", 0, 0),), "fail", user=((6, 8), (10.5, 12)), window=(8, 10.5),
          words=(9.0,)),
    Drawn("the same without a transcript", "LISTEN", ((8.8, 9.3),),
          (("fdb", "pause.tor", full_duplex_bench.NO_WORDS, 0),), "fail",
          user=((6, 8), (10.5, 12)), window=(8, 10.5)),
    Drawn("a turn before the pause", "LISTEN", ((6.2, 7.6),),
          (("fdb", "pause.tor", 1, 0),), "pass", user=((6, 8), (10.5, 12)), window=(8, 10.5)),
    Drawn("an answer behind the pause", "LISTEN", ((11, 13),),
          (("fdb", "pause.tor", 0, 0),), "pass", user=((6, 8), (10.5, 12)), window=(8, 10.5)),
    Drawn("an answer before the user's end", "TAKE_TURN", ((7.4, 10),),
          (("fdb", "turn.tor", 1, 0), ("fdb", "turn.latency", 0, 0)), "fail"),
    Drawn("an answer of 3.5 s wait", "TAKE_TURN", ((11.5, 14),),
          (("fdb", "turn.tor", 1, 0), ("fdb", "turn.latency", 3.5, EDGE_S),
           ("eva", "late", 1, 0), ("eva", "score", 0, 0.12)), "fail"),
    Drawn("an answer of one word", "TAKE_TURN", ((9.0, 9.5),),
          (("fdb", "turn.tor", 0, 0), ("fdb", "turn.latency", "no take-over", 0)), "pass",
          words=(9.2,)),
    Drawn("a turn, then a mm", "BACKCHANNEL", ((8.3, 9.9), (12.5, 13.0)),
          (("fdb", "backchannel.tor_last", 0, 0), ("fdb", "backchannel.tor_any", 1, 0),
           ("fdb", "backchannel.frequency", 0.2, 0.001)), "fail",
          user=((6, 8), (10, 16)), window=(8, 10), words=(8.5, 9.0, 9.5, 12.7)),
    Drawn("never stops for the user", "YIELD", ((3, 15),),
          (("fdb", "interruption.tor", 1, 0), ("fdb", "interruption.latency", 0, 0),
           ("fdb", "interruption.latency_running", 1, 0), ("fdb", "v1.5.stop", 2, 0.001),
           ("tau2", "r_y", 0, 0)), "fail", window=(6, 9)),
    Drawn("stops for good", "YIELD", ((3, 6.3),),
          (("fdb", "interruption.tor", 0, 0), ("fdb", "v1.5.stop", 0.3, EDGE_S),
           ("tau2", "l_y", 0.4, 0.21), ("tau2", "r_y", 1, 0),
           ("eva", "yield", "no such turn", 0)), "pass", window=(6, 9)),
    Drawn("a new sentence of a model that never stopped", "YIELD", ((3, 12), (13.5, 15)),
          (("fdb", "v1.5.response", (5.5 + 1) / 2, EDGE_S),), "fail", window=(6, 9)),
    # tau2-bench
    Drawn("an answer within a tick", "TAKE_TURN", ((8.12, 11),),
          # the turn is dropped, so its answer is one to turn 1, six seconds late
          (("tau2", "l_r", 6.0, 0.001), ("tau2", "fast_dropped", 1, 0),
           ("eva", "mean_latency", 120, 100)), "pass"),
    Drawn("an answer after 1.1 s, in whole ticks", "TAKE_TURN", ((9.1, 11),),
          (("tau2", "l_r", 1.0, 0.001), ("eva", "mean_latency", 1100, 150)), "pass"),
    Drawn("a yield after 1.5 s", "YIELD", ((3, 7.5),),
          (("tau2", "r_y", 1, 0), ("tau2", "l_y", 1.6, 0.21)), "fail", window=(6, 9)),
    Drawn("stops and goes on", "YIELD", ((3, 6.3), (7.0, 12)),
          (("tau2", "r_y", 1, 0), ("tau2", "l_y", 0.4, 0.21)), "pass", window=(6, 9)),
    Drawn("ends in model speech", "YIELD", ((3, 7.5),),
          (("tau2", "r_y", "the session ends before it is seen whether the agent stops", 0),
           ("tau2", "l_y", "the session ends before it is seen whether the agent stops", 0),
           ("tau2", "cut_off", 1, 0)), "fail", window=(6, 9), length=7.5),
    Drawn("talks on", "CONTINUE", ((3, 12),),
          (("tau2", "s_hold", 1, 0), ("tau2", "r_y", "the user never begins over the agent", 0),
           ("tau2", "l_y", "the user never begins over the agent", 0)),
          "pass", window=(6, 9)),
    Drawn("says mm over the user", "LISTEN", ((6.5, 7.0),),
          (("tau2", "i_a", 0.5, 0), ("eva", "agent_interruption", 1, 0),
           ("eva", "overlap", 500, 150)), "pass", user=((6, 8), (10.5, 12)), window=(8, 10.5)),
    # EVA
    Drawn("a reply in a pause", "TAKE_TURN", ((8.5, 10),),
          (("eva", "agent_interruption", 0, 0), ("eva", "mean_latency", -3500, 150),
           ("eva", "early", 1, 0), ("eva", "score", 0, 0)), "pass",
          user=((6, 8), (10.5, 12)), window=(8, 10.5)),
    Drawn("stops and answers", "YIELD", ((3, 6.5), (9, 11)),
          (("eva", "yield", 500, 150), ("eva", "user_interruption", 0.5, 0),
           ("eva", "p50_latency", 1000, 150)), "pass", window=(6, 9)),
    Drawn("overlap that ran on, and new one", "ACCEPT_OVERLAP", ((3, 6.8), (7.5, 10)),
          (("eva", "overlap", 500, 150),), "pass", window=(6, 9)),
    Drawn("never speaks", "TAKE_TURN", (),
          (("eva", "score", "no turn in which the model answers (theirs: score 0)", 0),
           ("tau2", "r_r", 0, 0), ("fdb", "turn.tor", 0, 0)), "fail"),
]


def spans(pairs: Pairs) -> Spans:
    return Spans(tuple((round(a * S), round(b * S)) for a, b in pairs))


@pytest.mark.parametrize("one", [pytest.param(one, id=one.name) for one in EACH])
def test_recording(one: Drawn, tmp_path: Path) -> None:
    try:
        regenerate.speech("user")
    except InputError as error:
        pytest.skip(f"the speech engine is not installed: {error}")
    turns = (spans(((1.0, 2.0),)), spans(one.user))
    window = Window(round(one.window[0] * S), round(one.window[1] * S))
    action, recorded_ns = Action(one.action), round(one.length * S)
    user = turns[0].union(turns[1]).clip(0, recorded_ns)
    path = tmp_path / "drawn.wav"
    regenerate.render(Scene(action, window, spans(one.model), user, recorded_ns), path)
    samples, _ = read_analysis_channel(path, 1)
    merged, plain = (speech_spans(samples, settings).to_ns(ANALYSIS_RATE_HZ)
                     for settings in (VadSettings(), SILERO_DEFAULTS))
    words = None if one.words is None else tuple(round(w * S) for w in one.words)
    heard = _talk(turns, merged, recorded_ns, window, words, action)
    found = {"fdb": full_duplex_bench.read(action, _talk(turns, plain, recorded_ns, window, words,
                                                         action)),
             "tau2": tau2_voice.read(heard), "eva": eva.read(heard)}
    for family, key, value, off in one.values:
        reading = found[family][key]
        if isinstance(value, str):
            assert (reading.n, reading.reason) == (0, value), key
        else:
            assert reading.n, (key, reading)
            assert abs(reading.total / reading.n - value) <= off, (key, reading, plain)
    scene = Scene(action, window, merged, user, recorded_ns)
    assert verify(scene)[1].outcome == one.ours


def _talk(turns, model, recorded_ns, window, words, action) -> Talk:
    return Talk(turns, model, recorded_ns, (window.start_ns, window.end_ns), words,
                action is Action.CONTINUE)


def test_the_library_defaults_drop_what_ours_hears(tmp_path: Path) -> None:
    """A sound of 0.2 s: nothing for Full-Duplex-Bench's detector settings, speech for ours."""
    try:
        regenerate.speech("user")
    except InputError as error:
        pytest.skip(f"the speech engine is not installed: {error}")
    path = tmp_path / "short.wav"
    scene = Scene(Action.LISTEN, Window(S, 5 * S), spans(((2.0, 2.2),)), Spans(), 8 * S)
    regenerate.render(scene, path)
    samples, _ = read_analysis_channel(path, 1)
    assert len(speech_spans(samples, VadSettings())) == 1
    assert len(speech_spans(samples, SILERO_DEFAULTS)) == 0
