"""The user's frames behind line conditions are in the places of the clean ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from adapters.base import Capabilities
from adapters.simulated import voice
from audio.buffers import Float32
from audio.condition_text import parse_all
from audio.errors import InputError
from audio.files import write_wav_pcm16
from rig.schedule import Plan
from rig.sent import (
    LineUser,
    WireUser,
    check_conditions,
    condition_texts,
    conditions_facts,
    other_voices,
)

PLAN = Plan(turn1=voice.talk(1.5, 1).samples, turn2=voice.talk(2.0, 2).samples, window_end_s=2.0)
FRAMES = 260
ONSET_N = 57_601
"""2.4 s and one sample: inside frame 120."""


def can(rate_hz: int) -> Capabilities:
    return Capabilities(full_duplex=True, persona_prompt=True, input_rate_hz=rate_hz)


def sent(text: str, rate_hz: int, known_from: int) -> Float32:
    """Frames behind conditions, for a turn 2 that the schedule knows of from a frame on."""
    user = LineUser(parse_all([text]), PLAN, can(rate_hz), "R1-A-1-L2", 1)
    return np.concatenate([user.frame(k, ONSET_N if k >= known_from else None)
                           for k in range(FRAMES)])


def clean(rate_hz: int) -> Float32:
    user = WireUser(PLAN, rate_hz)
    return np.concatenate([user.frame(k, ONSET_N) for k in range(FRAMES)])


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 24_000, 48_000])
def test_frames_behind_a_line_are_where_they_were(rate_hz: int) -> None:
    """Both turns, separately, to the sample."""
    before, after = clean(rate_hz), sent("line=linear", rate_hz, 100)
    assert before.shape == after.shape
    for turn in (slice(0, 2 * rate_hz), slice(2 * rate_hz, None)):
        a, b = before[turn].astype(float), after[turn].astype(float)
        found = [float(np.dot(a[50:-50], b[50 + k : len(b) - 50 + k])) for k in range(-40, 41)]
        assert int(np.argmax(found)) - 40 == 0


def test_an_unplanned_turn_loses_nothing_but_its_margin() -> None:
    """Known only when its frame is made: 2.5 ms at most are missing, what follows is the same."""
    planned, sudden = sent("line=linear", 24_000, 100), sent("line=linear", 24_000, 120)
    differs = np.flatnonzero(planned != sudden)
    # 60 samples of lead, and the taps of both filters around them.
    assert differs.size == 0 or differs.max() < ONSET_N + 3 * 60
    assert differs.size == 0 or differs.min() >= 120 * 480 - 60


def test_packets_are_the_frames() -> None:
    before, after = clean(24_000).reshape(-1, 480), sent("loss=40", 24_000, 0).reshape(-1, 480)
    kept = (before == after).all(axis=1)
    assert 0.4 < kept.mean() < 0.9
    assert not after[~kept].any()


def test_babble_is_made_of_the_others(tmp_path: Path) -> None:
    paths = []
    for k in range(3):
        paths.append(tmp_path / f"{k}.wav")
        write_wav_pcm16(paths[-1], voice.talk(2.0, k).samples, 24_000)
    user = LineUser(parse_all(["noise=babble:0"]), PLAN, can(16_000), "R1-A-1-L2", 1, paths)
    frames = [user.frame(k, None) for k in range(FRAMES)]
    assert user.facts().achieved["snr_db"] == pytest.approx(0, abs=0.15)
    assert user.facts().achieved["babble_conversations"] == 3
    assert np.concatenate(frames).any()


def test_voices_are_drawn_by_case_and_trial_and_never_the_own(tmp_path: Path) -> None:
    from probes.manifest import Stream, TurnAudio

    def stream(name: str) -> Stream:
        turn = TurnAudio(path=f"audio/{name}.wav", audio_sha256="0" * 64, duration_n=1,
                         segments=())
        return Stream(stream_id=name, engine="e", voice="v", construction_sha256="0" * 64,
                      turn1=turn, turn2=turn)

    streams = {name: stream(name) for name in (f"S{k}" for k in range(20))}
    first = other_voices(tmp_path, streams, "S3", "R1-A-1-L2", 1)
    assert first == other_voices(tmp_path, dict(reversed(streams.items())), "S3", "R1-A-1-L2", 1)
    assert len(set(first)) == 8
    assert tmp_path / "audio/S3.wav" not in first
    assert first != other_voices(tmp_path, streams, "S3", "R1-A-1-L2", 2)
    assert first != other_voices(tmp_path, streams, "S3", "R1-A-2-L2", 1)
    # A variant begins with the words of its stream: it is no other conversation.
    few = {name: stream(name) for name in ("S1", "S1-L4b", "S2", "S2-L4b")}
    for own, other in (("S1", "S2"), ("S1-L4b", "S2"), ("S2-L4b", "S1")):
        found = other_voices(tmp_path, few, own, "R1-A-1-L2", 1)
        assert len(found) == 1
        assert found[0].name in (f"{other}.wav", f"{other}-L4b.wav")


def test_what_a_system_cannot_have() -> None:
    behind = Capabilities(full_duplex=True, persona_prompt=True, heard_behind_ms=300)
    check_conditions(parse_all(["echo=340:-20,line=ulaw"]), behind, ["S1"])
    with pytest.raises(InputError, match=r"at least 340 ms .* got echo=339:-20"):
        check_conditions(parse_all(["echo=339:-20"]), behind, ["S1"])
    with pytest.raises(InputError, match="multiple of 8000 Hz, got 44100 Hz"):
        check_conditions(parse_all(["line=ulaw"]), can(44_100), ["S1"])
    check_conditions(parse_all(["noise=white:3"]), can(44_100), ["S1"])
    check_conditions(parse_all(["noise=babble:3"]), can(16_000), ["S1", "S2"])
    with pytest.raises(InputError, match="another conversation"):
        check_conditions(parse_all(["noise=babble:3"]), can(16_000), ["S1", "S1-L4b"])


def test_facts_name_a_file_and_not_where_it_lies(tmp_path: Path) -> None:
    path = tmp_path / "cafe.wav"
    write_wav_pcm16(path, voice.talk(2.0).samples, 24_000)
    facts = conditions_facts(parse_all([f"noise=file:{path}:12", "line=alaw"]))
    assert str(tmp_path) not in repr(facts)
    assert condition_texts(facts) == ["noise=file:cafe.wav:12", "line=alaw"]
    assert facts["noise"]["file"] == "cafe.wav"
    assert len(facts["noise"]["sha256"]) == 64
