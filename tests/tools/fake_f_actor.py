"""F-Actor's worker on a model and a codec made up from what their sources say, to know the answers.

    python tests/tools/fake_f_actor.py [--echo] [options of f_actor_worker.py]

With `--echo` the model says what it heard a step before: its own codes are the partner's of the
last column. Else it draws among many, by what it has heard and been told so far.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

WORKERS = Path(__file__).parents[2] / "adapters" / "workers"
FRAME_N, CODES, HEADS = 1764, 4032, 4
VOCABULARY = 300
MARK = 299
TEXTS = (MARK, MARK, 72, 105, MARK, 72, 105)
"""Text by step, again and again: nothing, `Hi`, nothing, `Hi` (tokens are characters)."""


class Codec:
    """Frame t of codes holds sums over frames t - back to t + ahead of the loudness of the audio;
    frame t of audio sums over codes t - back to t. Whole numbers: the same to the last bit however
    it is cut. Loudness is the frame's first sample in steps of 1/4000."""

    def __init__(self, back: int, ahead: int = 0) -> None:
        self.back, self.ahead = back, ahead
        self.encoded: list[int] = []
        self.decoded: list[int] = []

    def encode(self, audio: np.ndarray) -> np.ndarray:
        assert len(audio) % FRAME_N == 0
        self.encoded.append(len(audio) // FRAME_N)
        loud = np.round(audio[::FRAME_N].astype(np.float64) * 4000).astype(np.int64)
        return self._sums(loud[None].repeat(HEADS, 0), self.ahead) % CODES

    def decode(self, codes: np.ndarray) -> np.ndarray:
        assert codes.min() >= 0
        assert codes.max() < CODES, "no code of the codec"
        self.decoded.append(codes.shape[1])
        loud = self._sums(codes, 0)[0] % CODES
        ramp = np.arange(FRAME_N) / 2**24
        return ((loud[:, None] / 4000).astype(np.float32) + ramp.astype(np.float32)).reshape(-1)

    def _sums(self, rows: np.ndarray, ahead: int) -> np.ndarray:
        """Weights 1, 2, 4 ... on the frames around, so that none of them may be left out."""
        found = rows.astype(np.int64).copy()
        for far in range(1, self.back + 1):
            found[:, far:] += 2**far * rows[:, : max(0, rows.shape[1] - far)]
        for far in range(1, ahead + 1):
            found[:, :-far] += 3**far * rows[:, far:]
        return found


class Engine:
    """Keeps what it was given. `ends_at`: the step at which it draws the end of the dialogue."""

    def __init__(self, *, echo: bool, ends_at: int | None = None) -> None:
        self.echo, self.ends_at = echo, ends_at
        self.prompts: list[str] = []
        self.voices: list[np.ndarray] = []

    def begin(self, prompt: str, voice: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.prompts.append(prompt)
        self.voices.append(voice)
        self.columns: list[np.ndarray] = []
        self.texts: list[int] = []
        self._sum = sum(prompt.encode())
        return self._next()

    def step(self, column: np.ndarray, text_id: int) -> tuple[np.ndarray, np.ndarray]:
        assert column.shape == (2 * HEADS,)
        self.columns.append(column)
        self.texts.append(text_id)
        self._sum = (31 * self._sum + int(column.sum()) + text_id) % 1_000_003
        return self._next()

    def _next(self) -> tuple[np.ndarray, np.ndarray]:
        step = len(self.columns)
        audio = np.full((HEADS, CODES + 2), -np.inf, np.float32)
        text = np.full((1, VOCABULARY), -np.inf, np.float32)
        if self.ends_at == step:
            audio[2, CODES + 1] = 0
            audio[[0, 1, 3], 0] = 0
        elif self.echo:
            heard = self.columns[-1][HEADS:] if step > 2 else np.zeros(HEADS, np.int64)
            audio[np.arange(HEADS), heard] = 0
        else:
            rng = np.random.default_rng(self._sum)
            audio[:, rng.integers(0, CODES, 50)] = 0
        if self.ends_at is not None and self.ends_at <= step:
            audio[:, 1] = -3  # what else it could draw there
        text[0, TEXTS[step % len(TEXTS)]] = 0
        return audio, text


def worker() -> ModuleType:
    """The script as a module, which finds its kit beside itself."""
    if str(WORKERS) not in sys.path:
        sys.path.insert(0, str(WORKERS))
    spec = importlib.util.spec_from_file_location("f_actor_worker", WORKERS / "f_actor_worker.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def made(module: Any, engine: Engine, codec: Codec, *options: str) -> Any:
    return module.FActor(engine, codec, lambda ids: bytes(ids).decode("utf-8", "replace"),
                         frozenset({MARK}), np.linspace(-1, 1, 192), module.parsed(options), {})


if __name__ == "__main__":
    module = worker()
    options = sys.argv[1:]
    echo = "--echo" in options
    given = [o for o in options if o != "--echo"]
    sys.modules["worker_kit.serve"].serve(
        lambda: made(module, Engine(echo=echo), Codec(0 if echo else 3), *given))
