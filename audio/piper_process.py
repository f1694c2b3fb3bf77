"""Piper's side of `speech_process`: voices are loaded as they are asked for, onto one thread.

Request: `{"text", "model", "config", "speaker"}`. Nothing of the rig but the protocol is imported.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from audio.speech_serve import RefusedError, Speak, serve


def load(_setup: dict[str, Any]) -> Speak:
    """Import Piper; give what speaks."""
    import numpy as np
    import onnxruntime
    from piper import PiperVoice, SynthesisConfig
    from piper.config import PiperConfig

    loaded: dict[str, Any] = {}

    def voice(model: str, config: str) -> Any:
        if model not in loaded:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            options.log_severity_level = 3
            try:
                facts = PiperConfig.from_dict(json.loads(Path(config).read_text(encoding="utf-8")))
                session = onnxruntime.InferenceSession(model, sess_options=options,
                                                       providers=["CPUExecutionProvider"])
            except Exception as error:
                raise RefusedError(f"{Path(model).name}: expected a voice of Piper, got "
                                   f"{type(error).__name__}: {error}") from error
            loaded[model] = PiperVoice(config=facts, session=session)
        return loaded[model]

    def speak(request: dict[str, Any]) -> tuple[bytes, int]:
        chosen = voice(request["model"], request["config"])
        how = SynthesisConfig(speaker_id=request["speaker"], noise_scale=0.0, noise_w_scale=0.0,
                              normalize_audio=False)
        chunks = [chunk.audio_float_array for chunk in chosen.synthesize(request["text"], how)]
        if not chunks:
            raise ValueError("no phonemes")
        samples = np.concatenate(chunks).astype("<f4")
        return samples.tobytes(), int(chosen.config.sample_rate)

    return speak


if __name__ == "__main__":
    serve(load)
