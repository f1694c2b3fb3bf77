"""Not scripted: digit strings that nobody has seen are read back, and other audio is not.

Twenty strings from a fixed seed, 7 to 10 digits each, with and without words around them, spoken by
the built-in voice and written to the server frame by frame, faster than real time. Read-back is
scored as the verifier scores it: the multiset of dictated digits found in the transcript of the
reply. The control scores every reply against the next string.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys

import cascade_testkit as kit
import pytest
from websockets.asyncio.client import connect

from verifiers.readback_text import matched, ordered_matched, tokens

pytestmark = pytest.mark.slow

STRINGS = 20
SEED = 20_260_802
SERVERS = 2
"""Side by side: each computes on one core."""
CARRIERS = ("{}", "My number is {}", "It's {}", "The code on the door is {}", "Okay, so it's {}")


def dictations() -> list[tuple[list[int], str, int]]:
    """Digits, the sentence that dictates them, and the seed of the voice."""
    chance = random.Random(SEED)
    out = []
    for _ in range(STRINGS):
        digits = [chance.randrange(10) for _ in range(chance.randint(7, 10))]
        groups: list[int] = []
        while (left := len(digits) - sum(groups)) > 0:
            groups.append(min(left, chance.choice((2, 3, 3, 4))))
        text = chance.choice(CARRIERS).format(kit.spoken_digits(digits, groups))
        out.append((digits, text, chance.randrange(1000)))
    return out


async def replies(urls: list[str]) -> list[str]:
    """The transcript of the reply to each string, dealt out to the servers; a session each, as the
    rig does."""
    asked = [asyncio.create_task(_replies(url, dictations()[k::len(urls)]))
             for k, url in enumerate(urls)]
    out = [""] * STRINGS
    for k, said in enumerate(await asyncio.gather(*asked)):
        out[k::len(urls)] = said
    return out


async def _replies(url: str, texts: list[tuple[list[int], str, int]]) -> list[str]:
    out = []
    for _, text, seed in texts:
        async with connect(url) as socket, asyncio.timeout(120):
            for frame in kit.frames(kit.utterance(text, seed=seed)):
                await socket.send(json.dumps(kit.append(frame)))
            said = ""
            while (event := json.loads(await socket.recv()))["type"] != "response.done":
                if event["type"] == "response.output_audio_transcript.delta":
                    said += event["delta"]
            out.append(said)
    return out


def coverage(said: list[str], shift: int = 0) -> tuple[float, float]:
    """Digits found of digits dictated, in any order and in order, over all strings."""
    found = ordered = total = 0
    for k, reply in enumerate(said):
        target = [str(d) for d in dictations()[(k + shift) % STRINGS][0]]
        heard = [t for t in tokens(reply) if t.isdigit()]
        found += matched(target, heard)
        ordered += ordered_matched(target, heard)
        total += len(target)
    return found / total, ordered / total


def test_unseen_digits_are_read_back_and_shuffled_audio_is_not(
    record_property, capsys: pytest.CaptureFixture[str]
) -> None:
    children = [subprocess.Popen([sys.executable, "-P", "-m", "adapters.cascade", "--pace", "0"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                for _ in range(SERVERS)]
    try:
        said = asyncio.run(replies([json.loads(child.stdout.readline())["base_url"] + "/realtime"
                                    for child in children]))
    finally:
        for child in children:
            child.stdin.close()
            child.wait(60)
            child.stdout.close()
    found, ordered = coverage(said)
    shuffled, shuffled_ordered = coverage(said, shift=1)
    record_property("readback", [found, ordered, shuffled, shuffled_ordered])
    with capsys.disabled():
        print(f"\nread-back {found:.3f} (in order {ordered:.3f}), "
              f"shuffled {shuffled:.3f} (in order {shuffled_ordered:.3f})")
    assert found >= 0.9
    assert ordered >= 0.9
    assert shuffled < 0.9
    assert shuffled_ordered < 0.7
