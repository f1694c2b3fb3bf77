"""Kokoro's side of `speech_process`: the network once, on one thread; voices as they are asked for.

Setup: `{"model": [PART, ...], "sha256": HEX or null, "voices_file", "language"}`; the parts are one
ONNX file, cut into pieces. Request: `{"text", "voice"}`. Nothing of the rig but the protocol is
imported.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from audio.speech_serve import RefusedError, Speak, serve

STYLE_SHAPE = (1, 256)
"""Of one row of a voice; a row for every number of phonemes."""


def load(setup: dict[str, Any]) -> Speak:
    """Put the network together and load it; give what speaks."""
    import numpy as np
    import onnxruntime
    from kokoro_onnx import Kokoro

    parts = [Path(path).read_bytes() for path in setup["model"]]
    network = b"".join(parts)
    if setup["sha256"] and hashlib.sha256(network).hexdigest() != setup["sha256"]:
        raise RefusedError("the parts of the network: expected the hash that their package states, "
                           "got another; install them again")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(network, sess_options=options,
                                               providers=["CPUExecutionProvider"])
    except Exception as error:
        raise RefusedError(f"{Path(setup['model'][0]).name}: expected the network of Kokoro, got "
                           f"{type(error).__name__}: {error}") from error
    session._model_path = setup["model"][0]  # asked for by kokoro-onnx, for its messages
    kokoro = Kokoro.from_session(session, setup["voices_file"])
    styles: dict[str, Any] = {}

    def style(name: str) -> Any:
        if name not in styles:
            array = kokoro.get_voice_style(name)
            if array.ndim != 3 or array.shape[1:] != STYLE_SHAPE or not np.isfinite(array).all():
                raise RefusedError(f"voice {name}: expected finite styles of shape (n, 1, 256), "
                                   f"got {array.shape}")
            styles[name] = array
        return styles[name]

    def speak(request: dict[str, Any]) -> tuple[bytes, int]:
        samples, rate_hz = kokoro.create(request["text"], style(request["voice"]),
                                         lang=setup["language"])
        return np.asarray(samples).ravel().astype("<f4").tobytes(), int(rate_hz)

    return speak


if __name__ == "__main__":
    serve(load)
