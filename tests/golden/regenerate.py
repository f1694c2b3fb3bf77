"""Renders the drawn timelines as recordings: stereo, 24 kHz, user left, model right.

    python tests/golden/regenerate.py FOLDER

Each run of `#` is filled with speech of the default engine, from the beginning of one fluent
sentence, so an onset is an onset of speech; between the runs are exact zeros. No audio is kept in
the repository: the tests render into a temporary folder.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from audio.buffers import Float32
from audio.files import write_wav_pcm16
from audio.spans import Spans
from audio.synthesis import DEFAULT_ENGINE, engine, render_segment
from audio.timebase import SESSION_RATE_HZ, ns_to_n

if TYPE_CHECKING:
    from verifiers.scene import Scene

SENTENCES = {
    "user": "we were on our way along the river when my mother rang me and wanted all the money",
    "model": "alright now you may lay your own hand on your arm and wait a minute or even more",
}


@cache
def speech(side: str) -> Float32:
    """One fluent sentence, 24 kHz mono; another voice for each side where there are two."""
    speaker = engine(DEFAULT_ENGINE)
    voices = speaker.voices()
    voice = voices[0] if side == "user" else voices[min(1, len(voices) - 1)]
    return render_segment(SENTENCES[side], speaker, voice, seed=1).samples


def channel(side: str, spans: Spans, total_n: int) -> Float32:
    """Speech in the spans (nanoseconds), silence elsewhere, float32 `(total_n,)`."""
    out = np.zeros(total_n, dtype=np.float32)
    sentence = speech(side)
    for start, end in spans:
        a, b = ns_to_n(start, SESSION_RATE_HZ), ns_to_n(end, SESSION_RATE_HZ)
        out[a:b] = np.resize(sentence, b - a)
    return out


def render(scene: Scene, path: Path) -> None:
    """Write a scene as a stereo WAV."""
    total_n = ns_to_n(scene.recorded_ns, SESSION_RATE_HZ)
    write_wav_pcm16(path, np.stack([channel("user", scene.user, total_n),
                                    channel("model", scene.model, total_n)], axis=1),
                    SESSION_RATE_HZ)


def main() -> None:
    """Render every timeline into the folder that is named."""
    sys.path.insert(0, str(Path(__file__).parent))
    import timeline

    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    for drawn in sorted((Path(__file__).parent / "timelines").glob("*.txt")):
        for i, one in enumerate(timeline.read(drawn), start=1):
            path = Path(sys.argv[1]) / f"{drawn.stem}.{i}.wav"
            path.parent.mkdir(parents=True, exist_ok=True)
            render(one.scene, path)
            print(f"{path.name}: {one.name} -> {one.expect}")


if __name__ == "__main__":
    main()
