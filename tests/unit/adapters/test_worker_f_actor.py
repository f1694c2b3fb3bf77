"""The loop of the f_actor worker, on a model and a codec whose answers are known.

The facts, and where they come from: docs/models/f_actor.md.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fake_f_actor as fake
import numpy as np
import pytest
from fake_f_actor import CODES, FRAME_N, HEADS, MARK, Codec, Engine
from lockstep_clock import Lockstep

from adapters import registry
from adapters.base import AudioReceived, Fault, SessionConfig, TextDelta
from adapters.local_models import F_ACTOR_MODEL
from audio.errors import InputError
from audio.timebase import FRAME_NS

FAKE = Path(fake.__file__)
DELAY_ID, END_ID = CODES, CODES + 1


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(fake.WORKERS))
    yield fake.worker()
    for name in [n for n in sys.modules if n.split(".")[0] == "worker_kit"]:
        del sys.modules[name]


def loud(k: int) -> int:
    """How loud the user is in frame k."""
    return 11 + 7 * k


def user(k: int) -> np.ndarray:
    return np.full(FRAME_N, loud(k) / 4000, np.float32)


def heard(model: Any, frames: int) -> tuple[np.ndarray, list[str]]:
    said = [model.step(user(k)) for k in range(frames)]
    return np.concatenate([s for s, _ in said]), [t for _, t in said]


def test_the_users_codes_stand_in_heads_4_to_7_of_their_step(module: Any) -> None:
    """Step t + 2 for frame t; steps 0 and 1 hold the mark of the delay in all heads."""
    engine = Engine(echo=True)
    model = fake.made(module, engine, Codec(0))
    model.reset("Be brief.", 1)
    assert [c.tolist() for c in engine.columns] == [[DELAY_ID] * 8] * 2
    heard(model, 20)
    columns = np.stack(engine.columns, axis=1)
    assert columns.shape == (8, 22)
    user_codes = [loud(k) for k in range(20)]
    for head in range(4, 8):
        assert columns[head, 2:].tolist() == user_codes
    # Its own: nothing heard at frame 0, then what it heard a step before.
    for head in range(4):
        assert columns[head, 2:].tolist() == [0, *user_codes[:-1]]
    assert engine.texts == [fake.TEXTS[s % 7] for s in range(22)]


def test_what_it_says_is_its_next_frame_and_whole(module: Any) -> None:
    """The echo of frame k is the model's frame k + 1 and is given when frame k has been heard."""
    model = fake.made(module, Engine(echo=True), Codec(0))
    model.reset("", 1)
    said, _ = heard(model, 30)
    expected = Codec(0).decode(np.array([[loud(k) for k in range(30)]] * HEADS))
    np.testing.assert_array_equal(said, expected)


def test_its_own_audio_is_that_of_the_whole_dialogue(module: Any) -> None:
    """Frame 0, which nobody hears, is part of it: its codes are decoded before the next ones."""
    engine, codec = Engine(echo=False), Codec(5)
    model = fake.made(module, engine, codec, "--decode-context=5", "--encode-context=5")
    model.reset("", 1)
    said, _ = heard(model, 40)
    columns = np.stack(engine.columns, axis=1)
    whole = codec.decode(columns[:4, 2:])
    np.testing.assert_array_equal(said[: 39 * FRAME_N], whole[FRAME_N:])
    np.testing.assert_array_equal(
        columns[4:, 2:], codec.encode(np.concatenate([user(k) for k in range(40)])))
    short = fake.made(module, Engine(echo=False), Codec(5), "--decode-context=4",
                      "--encode-context=5")
    short.reset("", 1)
    assert (heard(short, 40)[0][8 * FRAME_N :] != said[8 * FRAME_N :]).mean() > 0.9


def test_a_lookahead_makes_everything_so_many_frames_later(module: Any) -> None:
    engine = Engine(echo=True)
    model = fake.made(module, engine, Codec(0, ahead=2), "--encode-lookahead=2")
    model.reset("", 1)
    said, texts = heard(model, 30)
    assert not said[: 2 * FRAME_N].any()
    assert texts[:2] == ["", ""]
    whole = Codec(0, ahead=2).encode(np.concatenate([user(k) for k in range(30)]))
    np.testing.assert_array_equal(np.stack(engine.columns, axis=1)[4:, 2:], whole[:, :28])
    np.testing.assert_array_equal(said[2 * FRAME_N :], Codec(0).decode(whole[:, :28]))


def test_text_is_given_with_the_frame_that_says_it(module: Any) -> None:
    """Text of step s belongs to audio of step s + 2; answer k is the audio of step k + 3."""
    model = fake.made(module, Engine(echo=True), Codec(0))
    model.reset("", 1)
    _, texts = heard(model, 14)
    by_step = {s: {72: " H", 105: "i"}.get(fake.TEXTS[s % 7], "") for s in range(20)}
    assert texts == [by_step[k + 1] for k in range(14)]
    assert "".join(texts).split() == ["Hi", "Hi", "Hi", "Hi"]


def test_words(module: Any) -> None:
    words = module.Words(lambda ids: bytes(ids).decode("utf-8", "replace"), frozenset({MARK}))
    assert [words(t) for t in (104, 105, 32, MARK, 111, 107, MARK, 32)] == [
        "h", "i", " ", "", " o", "k", "", " "]
    assert [words(t) for t in "é".encode()] == ["", "é"]
    assert [words(t) for t in (0xC3, MARK, 97)] == ["", "", " a"]
    assert [words(255) for _ in range(4)] == ["", "", "", "\ufffd" * 4]


def test_nothing_of_a_case_reaches_the_next(
        module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codec windows, columns, held text, half a character, generator: as in a new process."""
    monkeypatch.setattr(fake, "TEXTS", (0x82, 0xAC, MARK))

    def play(model: Any, prompt: str, seed: int) -> tuple[np.ndarray, list[str]]:
        model.reset(prompt, seed)
        return heard(model, 23)

    def new() -> Any:
        return fake.made(module, Engine(echo=False), Codec(5), "--decode-context=5")

    model = new()
    first = play(model, "You are Jane.", 1)
    model._words(MARK)
    model._words(0xE2)  # a character that the next two tokens could end
    second = play(model, "You are John.", 2)
    fresh = play(new(), "You are John.", 2)
    np.testing.assert_array_equal(second[0], fresh[0])
    assert second[1] == fresh[1]
    assert (play(model, "You are Jane.", 1)[0] == first[0]).all()
    assert (play(model, "You are Jane.", 3)[0] != first[0]).mean() > 0.5


def test_the_horizon_ends_the_session_and_is_no_silence(module: Any) -> None:
    """1,024 steps are 1,022 frames of audio, 81.76 s; the first of them is not heard."""
    model = fake.made(module, Engine(echo=True), Codec(0), "--decode-context=1",
                      "--encode-context=1")
    model.reset("", 1)
    said, _ = heard(model, 1021)
    assert (said.reshape(-1, FRAME_N)[:, 0] > 0).all()
    with pytest.raises(RuntimeError, match=r"horizon of 1024 steps is over after 81\.68 s"):
        model.step(user(1021))
    model.reset("", 1)  # and the next session has all of it again
    heard(model, 3)


def test_its_own_end_of_the_dialogue(module: Any) -> None:
    def ended(how: str) -> Any:
        model = fake.made(module, Engine(echo=True, ends_at=9), Codec(0), "--temperature=0",
                          f"--end-of-dialogue={how}")
        model.reset("", 1)
        return model

    with pytest.raises(RuntimeError, match=r"ended the dialogue at step 9, after 0\.56 s"):
        heard(ended("unscored"), 10)
    said, texts = heard(ended("silence"), 20)
    loudness = said.reshape(-1, FRAME_N)[:, 0]
    assert (loudness[:6] > 0).all()
    assert not said[6 * FRAME_N :].any()
    assert not any(texts[6:])
    engine = Engine(echo=True, ends_at=9)
    model = fake.made(module, engine, Codec(0), "--temperature=0", "--end-of-dialogue=never")
    model.reset("", 1)
    heard(model, 20)
    assert len(engine.columns) == 22
    assert engine.columns[9][:4].tolist() == [0, 0, 1, 0]  # the best that is no mark
    assert max(int(c[:4].max()) for c in engine.columns[2:]) < CODES


def test_the_mark_of_the_delay_is_never_drawn_after_it(module: Any) -> None:
    class Marked(Engine):
        def _next(self) -> tuple[np.ndarray, np.ndarray]:
            audio, text = super()._next()
            audio[:, DELAY_ID] = 9.0
            return audio, text

    engine = Marked(echo=True)
    model = fake.made(module, engine, Codec(0))
    model.reset("", 1)
    heard(model, 5)
    assert max(int(c[:4].max()) for c in engine.columns[2:]) < CODES


def test_the_prompt_of_the_released_example(module: Any) -> None:
    engine = Engine(echo=True)
    model = fake.made(module, engine, Codec(0), "--speaker=tom", "--partner=Gweneth",
                      "--backchannels=1", "--interruptions=0", "--starts-dialogue=true")
    model.reset("You are Tom.\nBe brief.", 1)
    assert engine.prompts == [
        "Generate a dialogue between you (Tom) and another speaker (Gweneth) based on the given "
        "narrative. Follow the specific behavior instructions for you.\n\nNarrative:\n"
        "You are Tom.\nBe brief.\n\nYour behaviors:\n- backchannels: 1\n- interruptions: 0\n"
        "- starts the dialogue: True\n\nEnsure that the dialogue reflects the behaviours of you.\n"
        "<|SOS|>"]
    np.testing.assert_array_equal(engine.voices[0], np.linspace(-1, 1, 192))


def test_voices(module: Any, tmp_path: Path) -> None:
    known = tmp_path / "speaker_embeddings.json"
    known.write_text(json.dumps({"tom": [0.5] * 192, "short": [0.5], "odd": ["a"] * 192,
                                 "nan": [float("nan")] * 192}))
    assert module.voice_vector(known, "Tom").tolist() == [0.5] * 192
    mine = tmp_path / "mine.json"
    mine.write_text(json.dumps([0.25] * 192))
    assert module.voice_vector(known, str(mine)).tolist() == [0.25] * 192
    for speaker, words in (("eve", "expected one of tom, short"), ("short", "expected 192 numbers"),
                           ("odd", "expected 192 numbers"), ("nan", "expected 192 numbers"),
                           (str(tmp_path / "no.json"), "expected JSON with speaker vectors")):
        with pytest.raises(RuntimeError, match=words):
            module.voice_vector(known, speaker)


def test_settings_of_the_rig_are_those_of_the_script(module: Any) -> None:
    """Names and defaults; decoding is that of table 25."""
    alone = vars(module.parsed([]))
    settings = {s.name: s.default for s in F_ACTOR_MODEL.settings}
    assert alone == settings
    arguments = F_ACTOR_MODEL.command({"python": sys.executable, **settings})[2:]
    assert vars(module.parsed(arguments)) == settings
    yes = F_ACTOR_MODEL.command({"python": sys.executable, **settings, "starts_dialogue": True})[2:]
    assert module.parsed(yes).starts_dialogue is True
    assert (alone["temperature"], alone["top_k"], alone["top_p"], alone["max_steps"]) == (
        1.0, 40, 0.9, 1024)


def test_it_is_off_by_default() -> None:
    with pytest.raises(InputError) as caught:
        registry.create("f_actor", {"python": sys.executable})
    assert "\n" not in str(caught.value)
    assert "--adapter f_actor: experimental, off by default" in str(caught.value)
    assert str(caught.value).endswith("expected --set experimental=yes")
    adapter = registry.create("f_actor", {"python": sys.executable, "experimental": "yes"})
    assert adapter.capabilities.input_rate_hz == 22_050
    (told,) = [d for d in registry.describe() if d.name == "f_actor"]
    assert told.unverified is not None
    assert told.unverified.startswith("experimental, off by default")


# Through a process of its own

def sessions(options: str, *frames: int) -> list[list[Any]]:
    """The events of so many sessions of one process, each of so many frames of 80 ms."""
    adapter = registry.create("worker", {
        "command": f"{sys.executable} {FAKE} {options}", "input_rate_hz": "22050",
        "output_rate_hz": "22050"})

    async def play(n: int) -> list[Any]:
        clock = Lockstep()
        async with adapter.session(SessionConfig("case", 1, "Be brief.", 5), clock) as session:
            for k in range(4 * n):
                clock.t_ns = (k + 1) * FRAME_NS
                await session.send(np.full(441, loud(k // 4) / 4000, np.float32))
        return [event async for event in session.events()]

    return [asyncio.run(play(n)) for n in frames]


def test_in_a_session_its_frame_is_heard_where_it_stands_to_the_sample() -> None:
    """What it says of the user's frame k begins with the 80 ms after it: its latency is none."""
    (events,) = sessions("--echo", 25)
    audio = [e for e in events if isinstance(e, AudioReceived)]
    assert [e.t_ns for e in audio] == [(k + 1) * 80_000_000 for k in range(25)]
    np.testing.assert_array_equal(
        np.concatenate([e.samples for e in audio]),
        Codec(0).decode(np.array([[loud(k) for k in range(25)]] * HEADS)))
    words = [(e.text, e.audio_n) for e in events if isinstance(e, TextDelta)]
    assert words[:2] == [(" H", FRAME_N), ("i", 2 * FRAME_N)]


def test_sessions_of_one_process_know_nothing_of_each_other() -> None:
    one, two = ([e.samples for e in events if isinstance(e, AudioReceived)]
                for events in sessions("", 12, 12))
    np.testing.assert_array_equal(np.concatenate(one), np.concatenate(two))


def test_the_horizon_is_told_by_the_session() -> None:
    (events,) = sessions("--echo --max-steps=10", 12)
    (fault,) = [e for e in events if isinstance(e, Fault)]
    assert fault.severity == "infrastructure"
    assert not fault.hopeless  # a shorter case may follow
    assert "horizon of 10 steps is over after 0.56 s of the session" in fault.reason
    assert sum(isinstance(e, AudioReceived) for e in events) == 7


def test_without_its_packages_it_says_so() -> None:
    adapter = registry.create("f_actor", {"python": sys.executable, "experimental": "yes"})

    async def play() -> None:
        async with adapter.session(SessionConfig("case", 1, "", 5), Lockstep()):
            pass

    with pytest.raises(Exception, match="not in this environment: No module named") as caught:
        asyncio.run(play())
    assert caught.value.hopeless
