"""What the doctor tries, one trial a process: `python -m rig.doctor_trials NAME`.

Each trial really uses a library for a moment and gives one line about it, or raises: the last line
of the traceback is what the doctor shows. Imports stand inside the trials, so that each shows its
own library's trouble and not another's.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path


def _try_vad() -> str:
    import numpy as np

    from audio.silero import WEIGHTS_SHA256, load_model

    model = load_model()
    probabilities = model.frame_probabilities(np.zeros(16_000, np.float32))
    if len(probabilities) != 32 or float(probabilities.max()) >= 0.5:
        raise RuntimeError(f"one second of silence: expected 32 frames below 0.5, got "
                           f"{len(probabilities)} up to {float(probabilities.max()):.3f}")
    return f"weights {WEIGHTS_SHA256[:12]}, {model.route} route, silence is silence"


_IDENTITY_MODEL = bytes.fromhex(
    "08083a370a100a017812017922084964656e746974791201675a0f0a0178120a0a08080112040a02080162"
    "0f0a0179120a0a08080112040a0208014202100d")
"""The smallest ONNX model, `y = Identity(x)`, one float (operator set 13)."""


def _try_onnxruntime() -> str:
    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(_IDENTITY_MODEL, providers=["CPUExecutionProvider"])
    (back,) = session.run(None, {"x": np.array([0.25], np.float32)})
    if back.tolist() != [0.25]:
        raise RuntimeError(f"identity of 0.25: expected 0.25, got {back.tolist()}")
    return f"version {onnxruntime.__version__}, a session runs"


def _try_numpy() -> str:
    import numpy as np

    spectrum = np.abs(np.fft.rfft(np.ones(8, np.float32)))
    if spectrum.tolist() != [8.0, 0.0, 0.0, 0.0, 0.0]:
        raise RuntimeError(f"spectrum of eight ones: expected 8 and zeros, got {spectrum.tolist()}")
    return f"version {np.__version__}"


def _try_files() -> str:
    import numpy as np
    import soundfile

    samples = (np.sin(2 * np.pi * 440 * np.arange(2_400) / 24_000) * 0.5).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        for suffix in ("wav", "flac"):
            path = Path(folder) / f"tone.{suffix}"
            soundfile.write(path, samples, 24_000, subtype="PCM_16")
            back, rate_hz = soundfile.read(path, dtype="float32")
            # One step of 16-bit PCM is 1/32768.
            if rate_hz != 24_000 or np.abs(back - samples).max() > 1 / 32768:
                raise RuntimeError(f"{suffix}: what was read back differs from what was written")
    return f"FLAC and WAV written and read, libsndfile {soundfile.__libsndfile_version__}"


def _try_hibari() -> str:
    from audio.synthesis import engine

    voice = engine("hibari")
    samples = voice.synthesize("hello", voice.voices()[0], 0)
    return f"version {voice.version}, one word: {_spoken(samples.size, voice.sample_rate_hz)}"


def _try_espeak() -> str:
    from audio.synthesis import engine

    voice = engine("espeak")
    samples = voice.synthesize("hello", voice.voices()[0], 0)
    said = _spoken(samples.size, voice.sample_rate_hz)
    return f"{voice.facts()['library']} in a process of its own, one word: {said}"


def _spoken(frames_n: int, rate_hz: int) -> str:
    """Length of one spoken word. Raises where it cannot be one: silence, or far too much."""
    from audio.timebase import n_to_s

    length_s = n_to_s(frames_n, rate_hz)
    if not 0.1 <= length_s <= 3.0:
        raise RuntimeError(f"one word: expected 0.1 to 3 s of speech, got {length_s:.2f} s")
    return f"{length_s:.2f} s"


def _try_alignment() -> str:
    from audio.synthesis import DEFAULT_ENGINE, engine, render_segment

    voice = engine(DEFAULT_ENGINE)
    segment = render_segment("four words are here", voice, voice.voices()[0], 0)
    if segment.alignment != "forced" or len(segment.words) != 4:
        raise RuntimeError(f"expected 4 words by forced alignment, got {len(segment.words)} "
                           f"({segment.alignment})")
    return f"pocketsphinx {metadata.version('pocketsphinx')}, 4 of 4 words found"


def _try_sounddevice() -> str:
    import sounddevice

    return f"PortAudio: {sounddevice.get_portaudio_version()[1]}"


def _try_prosody() -> str:
    import numpy as np
    import parselmouth

    from audio.prosody import voiced_frames

    tone = np.sin(2 * np.pi * 120 * np.arange(8_000) / 8_000).astype(np.float32)
    _, hz = voiced_frames(tone, 8_000)
    if not len(hz) or abs(float(np.median(hz)) - 120) > 1:
        raise RuntimeError("expected a pitch of 120 Hz in a tone of 120 Hz, got another or none")
    from rig.field.clusters import clusters

    two = np.repeat([0.0, 10.0], 3) + np.tile([0.0, 0.1, 0.2], 2)
    found = clusters(two, two[::-1])
    if found.best_k != 2:
        raise RuntimeError(f"expected two clusters of calls, got {found.reason or found.best_k}")
    return f"praat-parselmouth {parselmouth.__version__}, 120 Hz and two clusters found"


TRIALS: dict[str, Callable[[], str]] = {
    "numpy": _try_numpy,
    "onnxruntime": _try_onnxruntime,
    "vad": _try_vad,
    "hibari": _try_hibari,
    "alignment": _try_alignment,
    "files": _try_files,
    "espeak": _try_espeak,
    "sounddevice": _try_sounddevice,
    "prosody": _try_prosody,
}


if __name__ == "__main__":
    sys.stdout.write(TRIALS[sys.argv[1]]() + "\n")
