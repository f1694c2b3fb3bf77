"""`rig manifest`: folders in the layouts of Full-Duplex-Bench and tau2-bench, rendered here, become
manifests whose verdicts are known; what cannot be mapped is named; nothing leaves the folder."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rig_testkit as kit
import soundfile
import soxr

RATE = 24_000
TICK_S = 0.2


@functools.cache
def sentence() -> np.ndarray:
    """Some seconds of speech without a pause."""
    from hibari import Hibari

    speak = Hibari()
    parts = []
    for text in ("The old ferry still leaves from the same wooden landing that we built",
                 "People always ask me why the water looks so green near the bridge"):
        samples = np.asarray(speak(text, seed=7), dtype=np.float32)
        loud = np.flatnonzero(np.abs(samples) > 0.02)
        parts.append(samples[loud[0] : loud[-1] + 1])
    return np.concatenate(parts)


def channel(*spans: tuple[float, float], length: float) -> np.ndarray:
    out = np.zeros(round(length * RATE), dtype=np.float32)
    for start, end in spans:
        a, b = round(start * RATE), round(end * RATE)
        out[a:b] = np.resize(sentence(), b - a)
    return out


def write(path: Path, samples: np.ndarray, rate_hz: int = RATE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, soxr.resample(samples, RATE, rate_hz), rate_hz, subtype="PCM_16")


def sample(folder: Path, *model: tuple[float, float], annotation: str = "", data: Any = None,
           length: float = 16.0, user: tuple[tuple[float, float], ...] = ((0.5, 3.0),)) -> Path:
    write(folder / "input.wav", channel(*user, length=14.0), 16_000)
    write(folder / "output.wav", channel(*model, length=length))
    if annotation:
        (folder / annotation).write_text(json.dumps(data))
    return folder


def outcomes(call: Any, manifest: Path, audio: Path, out: Path) -> dict[str, str]:
    called = call("rescore", manifest, "--audio", audio, "--out", out)
    assert called.code == 0, called.err
    return {c["case_id"]: f"{c['expected_action']} {c['outcome']}"
            for c in kit.scores(out)["cases"]}


def event(start: float, end: float, text: str) -> list[dict[str, Any]]:
    return [{"text": text, "timestamp": [start, end]}]


def test_full_duplex_bench(call_rig, tmp_path):
    root = tmp_path / "v1_0"
    pause = {"annotation": "pause.json", "data": event(3.0, 5.0, "[PAUSE]")}
    sample(root / "candor_pause_handling/1", **pause)
    sample(root / "candor_pause_handling/2", (3.5, 4.5), **pause)
    turn = {"annotation": "turn_taking.json", "data": event(3.0, 3.4, "[TURN-TAKING]")}
    sample(root / "candor_turn_taking/1", (4.0, 8.0), **turn)
    sample(root / "candor_turn_taking/2", (6.0, 8.0), **turn)
    sample(root / "candor_turn_taking/3", length=4.0, **turn)
    cut_in = {"annotation": "interrupt.json", "data": [
        {"context": "a", "interrupt": "b", "timestamp": [6.0, 8.0]}]}
    sample(root / "synthetic_user_interruption/1", (3.5, 6.3), (9.0, 12.0), **cut_in)
    sample(root / "synthetic_user_interruption/2", (3.5, 14.0), **cut_in)
    sample(root / "icc_backchannel/1", (2.0, 2.5), (6.0, 6.5))
    sample(root / "icc_backchannel/2", (2.0, 6.0))
    (root / "candor_turn_taking/1/output.json").write_text('{"text": "", "chunks": []}')
    (root / "candor_turn_taking/1/moshi_output.wav").write_bytes(b"x")
    (root / "candor_turn_taking/4").mkdir()
    (root / "candor_turn_taking/4/turn_taking.json").write_text("[]")
    (root / "notes.txt").write_text("x")
    sample(root / "candor_turn_taking/5", annotation="turn_taking.json", data=[{"timestamp": [3]}])
    sample(root / "candor_turn_taking/6")
    called = call_rig("manifest", "--layout", "full-duplex-bench", root, "--out",
                      tmp_path / "fdb.jsonl", "--json")
    assert called.code == 0, called.err
    document = json.loads(called.out)
    assert document["by_action"] == {"BACKCHANNEL": 2, "LISTEN": 2, "TAKE_TURN": 5, "YIELD": 2}
    assert {s["name"]: s["reason"] for s in document["skipped"]} == {
        "candor_turn_taking/1/moshi_output.wav": "unknown file in a sample's folder",
        "candor_turn_taking/4": "no input.wav and output.wav",
        "candor_turn_taking/5": "timestamp 1 of turn_taking.json is not [start, end] in seconds",
        "candor_turn_taking/6":
            "no annotation (pause.json, turn_taking.json, interrupt.json)",
        "notes.txt": "unknown entry: no folder of a sample"}
    assert outcomes(call_rig, tmp_path / "fdb.jsonl", tmp_path / "fdb.audio",
                    tmp_path / "out") == {
        "candor_pause_handling/1#pause1": "LISTEN pass",
        "candor_pause_handling/2#pause1": "LISTEN fail",
        "candor_turn_taking/1#turn": "TAKE_TURN pass",
        "candor_turn_taking/2#turn": "TAKE_TURN fail",
        "candor_turn_taking/3#turn": "TAKE_TURN unscored",  # 1 s of it was recorded
        "icc_backchannel/1#backchannel": "BACKCHANNEL pass",
        "icc_backchannel/2#backchannel": "BACKCHANNEL fail",
        "synthetic_user_interruption/1#turn": "TAKE_TURN pass",
        "synthetic_user_interruption/1#yield": "YIELD pass",
        "synthetic_user_interruption/2#turn": "TAKE_TURN fail",
        "synthetic_user_interruption/2#yield": "YIELD fail"}


def test_full_duplex_bench_1_5(call_rig, tmp_path):
    root = tmp_path / "v1_5"
    meta = {"annotation": "metadata.json", "data": {
        "context_text": "a", "current_turn_text": "b", "timestamps": [6.0, 8.0]}}
    sample(root / "user_interruption/1", (3.5, 6.3), (9.0, 12.0), **meta)
    sample(root / "user_backchannel/1", (3.5, 10.0), **meta)
    sample(root / "talking_to_other/1", (3.5, 6.3), **meta)
    sample(root / "other/1", (3.5, 6.3), **meta)
    called = call_rig("manifest", "--layout", "full-duplex-bench-v1.5", root, "--out",
                      tmp_path / "m.jsonl", "--audio", tmp_path / "both")
    assert called.code == 0, called.err
    assert "skipped other/1: folder 'other' is none of the subsets" in called.err
    lines = [json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines()]
    assert {line["probe"] for line in lines} == {"user_interruption", "user_backchannel",
                                                 "talking_to_other"}
    assert outcomes(call_rig, tmp_path / "m.jsonl", tmp_path / "both", tmp_path / "out") == {
        "talking_to_other/1#continue": "CONTINUE fail",
        "user_backchannel/1#continue": "CONTINUE pass",
        "user_interruption/1#turn": "TAKE_TURN pass",
        "user_interruption/1#yield": "YIELD pass"}


def experiment(root: Path, user: tuple[tuple[float, float], ...],
               agent: tuple[tuple[float, float], ...], *, length: float = 24.0,
               backchannel_at: float | None = None, sim: str = "s-1", task: str = "40",
               ticks_n: int | None = None) -> Path:
    """One simulation as `tau2 run` writes it; ticks that hold any speech say so."""
    def chunk(role: str, spans: tuple[tuple[float, float], ...], at: float) -> dict[str, Any]:
        action = ({"action": "backchannel"} if role == "user" and backchannel_at is not None
                  and abs(at - backchannel_at) < TICK_S / 2 else {"action": "wait"})
        return {"role": role, "contains_speech": any(
                    a < at + TICK_S - 1e-9 and b > at + 1e-9 for a, b in spans),
                "speech_effects": {"dynamic_muffling_enabled": False, "speech_insert": None},
                "source_effects": None, "turn_taking_action": action}

    n = round(length / TICK_S) if ticks_n is None else ticks_n
    ticks = [{"tick_id": k, "user_chunk": chunk("user", user, k * TICK_S),
              "agent_chunk": chunk("assistant", agent, k * TICK_S)} for k in range(n)]
    (root / "simulations").mkdir(parents=True, exist_ok=True)
    (root / "results.json").write_text(json.dumps({
        "info": {"audio_native_config": {"tick_duration_seconds": TICK_S}}, "tasks": []}))
    (root / f"simulations/{sim.replace('/', '_')}.json").write_text(json.dumps({
        "id": sim, "task_id": task, "mode": "full_duplex", "ticks": ticks}))
    write(root / f"artifacts/task_{task}/sim_{sim}/audio/both.wav", np.column_stack(
        [channel(*user, length=length), channel(*agent, length=length)]), 8_000)
    return root


def test_tau2(call_rig, tmp_path):
    """A turn answered, an interruption yielded to and answered, a backchannel that stops it."""
    root = experiment(
        tmp_path / "voice", user=((1.0, 3.0), (7.0, 9.0), (12.0, 12.6), (20.0, 21.0)),
        agent=((4.0, 7.3), (10.0, 12.3)), backchannel_at=12.0)
    (root / "simulations/readme.txt").write_text("x")
    called = call_rig("manifest", "--layout", "tau2", root, "--out", tmp_path / "t.jsonl")
    assert called.code == 0, called.err
    assert "skipped simulations/readme.txt: unknown entry: no simulation" in called.err
    assert outcomes(call_rig, tmp_path / "t.jsonl", root, tmp_path / "out") == {
        "s-1#u1.turn": "TAKE_TURN pass",
        "s-1#u2.yield": "YIELD pass",
        "s-1#u2.turn": "TAKE_TURN pass",
        "s-1#u3.continue": "CONTINUE fail",
        "s-1#u4.turn": "TAKE_TURN fail"}


def test_a_tau2_simulation_that_is_there_twice_counts_once(call_rig, tmp_path):
    root = experiment(tmp_path / "voice", user=((1.0, 3.0),), agent=((4.0, 7.0),))
    (root / "simulations/t.json").write_bytes((root / "simulations/s-1.json").read_bytes())
    called = call_rig("manifest", "--layout", "tau2", root, "--out", tmp_path / "t.jsonl")
    assert called.code == 0, called.err
    assert "skipped simulations/t.json: a simulation before it has its id, s-1" in called.err
    assert len((tmp_path / "t.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(("change", "reason"), [
    (lambda d: d.update(ticks=[]), "no ticks"),
    (lambda d: d.update(id="../../etc"), "no name of a folder"),
    (lambda d: d.update(task_id="a/b"), "no name of a folder"),
    (lambda d: d.update(id="other"), "no both.wav"),
    (lambda d: d.update(ticks=d["ticks"][:50]), "50 ticks of 0.2 s are not the 24 s"),
    (lambda d: d["ticks"][3]["user_chunk"].pop("contains_speech"), "tick 3 does not say"),
    (lambda d: d["ticks"].__setitem__(3, None), "tick 3 is not an object"),
    (lambda d: [t.update(user_chunk=None) for t in d["ticks"]], "the user never speaks"),
])
def test_tau2_simulations_that_cannot_be_mapped(call_rig, tmp_path, change, reason):
    root = experiment(tmp_path / "voice", user=((1.0, 3.0),), agent=((4.0, 7.0),))
    path = root / "simulations/s-1.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    error = call_rig("manifest", "--layout", "tau2", root, "--out", tmp_path / "t.jsonl").error
    assert reason in error
    assert not (tmp_path / "t.jsonl").exists()


def test_no_path_leaves_the_folder(call_rig, tmp_path):
    outside = sample(tmp_path / "outside/1", (4, 8), annotation="turn_taking.json",
                     data=event(3.0, 3.4, "x"))
    root = tmp_path / "data"
    folder = root / "candor_turn_taking/1"
    folder.mkdir(parents=True)
    for name in ("input.wav", "output.wav", "turn_taking.json"):
        (folder / name).symlink_to(outside / name)
    (root / "candor_turn_taking/2").symlink_to(outside)
    error = call_rig("manifest", "--layout", "full-duplex-bench", root, "--out",
                     tmp_path / "m.jsonl").error
    assert "input.wav is a link out of the folder" in error
    assert "unknown entry" in error
    voice = experiment(tmp_path / "voice", user=((1.0, 3.0),), agent=((4.0, 7.0),))
    both = voice / "artifacts/task_40/sim_s-1/audio/both.wav"
    both.rename(tmp_path / "both.wav")
    both.symlink_to(tmp_path / "both.wav")
    assert "link out of the folder" in call_rig("manifest", "--layout", "tau2", voice, "--out",
                                                tmp_path / "m.jsonl").error


@pytest.mark.parametrize("text", ["", "[", "[NaN]", "[" * 100_000, '[{"timestamp": [1e999, 2]}]',
                                  '[{"timestamp": [-1, 2]}]', '[{"timestamp": [99, 100]}]', "{}"])
def test_hostile_annotations_are_one_line(call_rig, tmp_path, text):
    folder = sample(tmp_path / "d/t/1", (4, 8))
    (folder / "turn_taking.json").write_text(text)
    error = call_rig("manifest", "--layout", "full-duplex-bench", tmp_path / "d", "--out",
                     tmp_path / "m.jsonl").error
    assert "turn_taking.json" in error


def test_refused(call_rig, tmp_path):
    root = tmp_path / "d"
    error = call_rig("manifest", "--layout", "tau", root, "--out", tmp_path / "m").error
    assert "did you mean 'tau2'?" in error
    assert "no such folder" in call_rig("manifest", "--layout", "tau2", root, "--out",
                                        tmp_path / "m").error
    root.mkdir()
    assert "results.json" in call_rig("manifest", "--layout", "tau2", root, "--out",
                                      tmp_path / "m").error
    (root / "results.json").write_text('{"info": {}}')
    assert "tick_duration_seconds" in call_rig("manifest", "--layout", "tau2", root, "--out",
                                               tmp_path / "m").error
    sample(root / "t/1", (4, 8), annotation="turn_taking.json", data=event(3.0, 3.4, "x"))
    assert "outside the recordings" in call_rig(
        "manifest", "--layout", "full-duplex-bench", root, "--out", tmp_path / "m.jsonl",
        "--audio", root / "audio").error
    write(root / "t/1/output.wav", np.zeros((RATE, 2), dtype=np.float32))
    assert "output.wav has 2 channels, not 1" in call_rig(
        "manifest", "--layout", "full-duplex-bench", root, "--out", tmp_path / "m.jsonl").error
