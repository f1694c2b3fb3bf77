"""The brain process as the server sees it, with one that misbehaves on purpose."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import numpy as np
import pytest

from adapters.cascade import brain
from adapters.cascade.brain import Brain, BrainError, running_brain

FAKE = Path(__file__).parents[2] / "tools" / "fake_brain.py"
EVEN, ODD = np.zeros(1000, np.int16), np.zeros(1001, np.int16)
HEARD = ("four", "one", "five")


@pytest.fixture
def behave(monkeypatch: pytest.MonkeyPatch):
    def choose(mode: str = "") -> None:
        monkeypatch.setattr(brain, "COMMAND", (sys.executable, str(FAKE), mode))

    return choose


def test_it_answers_in_order(behave) -> None:
    behave()

    async def main() -> None:
        async with running_brain() as asked:
            heard, sound, again = await asyncio.gather(
                asked.recognise(EVEN), asked.say("Hello."), asked.recognise(EVEN))
            assert heard == again == HEARD
            assert sound.tolist() == [10_000] * 12_000

    asyncio.run(main())


def test_who_gives_up_spoils_nothing_for_others(behave) -> None:
    behave()

    async def main() -> None:
        async with running_brain() as asked:
            given_up = [asyncio.create_task(asked.say("Hello.")) for _ in range(5)]
            await asyncio.sleep(0)
            given_up[0].cancel()
            given_up[3].cancel()
            assert await asked.recognise(EVEN) == HEARD
            results = await asyncio.gather(*given_up, return_exceptions=True)
            assert [len(r) if isinstance(r, np.ndarray) else type(r) for r in results] == [
                asyncio.CancelledError, 12_000, 12_000, asyncio.CancelledError, 12_000]

    asyncio.run(main())


@pytest.mark.parametrize(("mode", "message"), [
    ("dies", "ended with code 9"), ("breaks", "middle of an answer"), ("babbles", "no answer"),
    ("fails", "out of order"), ("hangs", "no answer in 0.5 s")])
def test_a_request_that_goes_wrong_is_an_error_and_the_next_one_works(
    behave, monkeypatch: pytest.MonkeyPatch, mode: str, message: str
) -> None:
    behave(mode)
    if mode == "hangs":
        monkeypatch.setattr(brain, "ANSWER_S", 0.5)
        monkeypatch.setattr(brain, "END_S", 0.1)

    async def main() -> None:
        async with running_brain() as asked:
            with pytest.raises(BrainError, match=message):
                await asked.recognise(ODD)
            monkeypatch.setattr(brain, "ANSWER_S", 60.0)
            assert await asked.recognise(EVEN) == HEARD

    asyncio.run(main())


@pytest.mark.parametrize(("mode", "message"), [
    ("dead", "ended with code 7"), ("mute", "not ready within 0.5 s")])
def test_one_that_does_not_start_is_an_error(
    behave, monkeypatch: pytest.MonkeyPatch, mode: str, message: str
) -> None:
    behave(mode)
    if mode == "mute":
        monkeypatch.setattr(brain, "START_S", 0.5)

    async def main() -> None:
        async with running_brain():
            pytest.fail("it did start")

    with pytest.raises(BrainError, match=message):
        asyncio.run(main())


def test_ending_twice_is_ending_once(behave) -> None:
    behave()

    async def main() -> None:
        asked = Brain()
        await asked.start()
        await asked.end()
        await asked.end()

    asyncio.run(main())
