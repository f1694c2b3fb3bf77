"""Who speaks a built suite: a voice of the engine by the audio key, or the one asked for."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from audio.voice_bank import VOICES


def streams(folder: Path) -> dict[str, dict]:
    lines = (folder / "streams.jsonl").read_text().splitlines()
    return {stream["stream_id"]: stream for stream in map(json.loads, lines)}


def test_a_conversation_has_the_voice_of_its_audio_key(call_rig, tmp_path: Path) -> None:
    called = call_rig("build", "dsb-ifeval", "--filter", "case=R2-B-1-L2|R2-B-1-L4b",
                      "--out", tmp_path / "suite", "--jobs", 1)
    assert called.code == 0, called.err
    built = streams(tmp_path / "suite")
    base, changed = built["R2-B-1"], built["R2-B-1-L4b"]
    number = int(hashlib.sha1(b"R2-B-1").hexdigest(), 16) % 58
    assert base["voice"] == VOICES[number] != "heart"
    # the same conversation on another level: the same speaker, the same samples as far as it goes
    assert changed["voice"] == base["voice"]
    assert changed["turn1"] == base["turn1"]
    shared = len(base["turn2"]["segments"])
    assert changed["turn2"]["segments"][:shared] == base["turn2"]["segments"]
    facts = json.loads((tmp_path / "suite/suite.json").read_text())["engine"]
    assert facts["setting_voice_bank"] == "1.1"


def test_one_voice_for_all(call_rig, tmp_path: Path) -> None:
    called = call_rig("build", "dsb-ifeval", "--filter", "case=R3-C3-5-L2|R1-C3-5-L2",
                      "--voice", "heart", "--out", tmp_path / "suite", "--jobs", 1)
    assert called.code == 0, called.err
    assert {s["voice"] for s in streams(tmp_path / "suite").values()} == {"heart"}


def test_a_voice_that_is_not_there_is_named_before_anything_is_made(
    call_rig, tmp_path: Path
) -> None:
    called = call_rig("build", "dsb-ifeval", "--voice", "hart", "--out", tmp_path / "suite")
    assert called.error.startswith("rig: error: voice of hibari: expected one of emma, ")
    assert called.error.endswith("got 'hart'; did you mean 'heart'?")
    assert not (tmp_path / "suite").exists()


def test_the_voices_of_an_engine_are_listed(call_rig: Any) -> None:
    """All of them: the error for an unknown one shows the first twelve."""
    called = call_rig("build", "dsb-ifeval", "--voice", "help")
    assert called.code == 0
    found = json.loads(call_rig("build", "dsb-ifeval", "--voice", "help", "--json").out)
    assert called.out.split() == found["voices"]
    assert len(set(found["voices"])) == len(found["voices"]) > 12
    assert {"heart", "h57"} <= set(found["voices"])
