"""XTTS's side of `speech_process`: the model once, on one thread or on a GPU.

Setup: `{"model": FOLDER, "device", "reference": base64 of float32 at 22.05 kHz, or null}`. Request:
`{"text", "voice": SPEAKER or null for the reference, "seed"}`.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from audio.speech_serve import RefusedError, Speak, serve

RATE_HZ = 24_000
REFERENCE_RATE_HZ = 22_050
TORCH_MIN = (2, 4)
"""From here on coqui-tts asks `torch.load` for tensors alone; before, for whatever is pickled."""


def load(setup: dict[str, Any]) -> Speak:
    """Load the model from its folder; give what speaks."""
    import torch

    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < TORCH_MIN:
        raise RefusedError(f"expected PyTorch {TORCH_MIN[0]}.{TORCH_MIN[1]} or newer, which can "
                           f"read weights without running code, got {torch.__version__}")
    if setup["device"] == "cuda" and not torch.cuda.is_available():
        raise RefusedError("device cuda: expected a GPU that PyTorch can use, got none")
    torch.set_num_threads(1)
    model, config = _model(setup["model"])
    model.to(setup["device"])
    voices: dict[str | None, tuple[Any, Any]] = {}

    def voice(name: str | None) -> tuple[Any, Any]:
        if name not in voices:
            voices[name] = (_built_in(model, name) if name is not None else
                            _from_recording(model, config, setup["reference"]))
        return voices[name]

    def speak(request: dict[str, Any]) -> tuple[bytes, int]:
        latents, embedding = voice(request["voice"])
        torch.manual_seed(request["seed"])
        said = model.inference(
            request["text"], "en", latents, embedding, temperature=config.temperature,
            length_penalty=config.length_penalty, repetition_penalty=config.repetition_penalty,
            top_k=config.top_k, top_p=config.top_p, enable_text_splitting=False)
        return said["wav"].ravel().astype("<f4").tobytes(), RATE_HZ

    return speak


def _model(folder: str) -> tuple[Any, Any]:
    import torch
    from TTS.tts.configs.xtts_config import XttsConfig
    from TTS.tts.models import xtts

    def tensors_only(path: Path) -> Any:
        # The package's own reading writes the file again where it is of the first release.
        with xtts._legacy_safe_globals():
            return torch.load(path, map_location="cpu", weights_only=True)["model"]

    try:
        config = XttsConfig()
        config.load_json(str(Path(folder) / "config.json"))
        model = xtts.Xtts(config)
        model._load_checkpoint = tensors_only
        model.load_checkpoint(config, checkpoint_dir=folder, eval=True, use_deepspeed=False)
    except Exception as error:
        raise RefusedError(f"{Path(folder).name}: expected a folder of XTTS-v2, got "
                           f"{type(error).__name__}: {error}") from error
    return model, config


def _built_in(model: Any, name: str) -> tuple[Any, Any]:
    speakers = model.speaker_manager.speakers if model.speaker_manager is not None else {}
    if name not in speakers:
        raise RefusedError(f"voice {name!r}: expected one of {', '.join(sorted(speakers)[:12])}"
                           f"{', ...' if len(speakers) > 12 else ''}")
    return speakers[name]["gpt_cond_latent"], speakers[name]["speaker_embedding"]


def _from_recording(model: Any, config: Any, encoded: str | None) -> tuple[Any, Any]:
    """As `Xtts.get_conditioning_latents`, from samples: its reading of files needs torchcodec."""
    import numpy as np
    import torch

    if encoded is None:
        raise RefusedError("expected a recording of the voice, got none")
    samples = np.frombuffer(base64.b64decode(encoded), "<f4").copy()
    audio = torch.from_numpy(samples).clamp(-1, 1).unsqueeze(0)
    audio = audio[:, : REFERENCE_RATE_HZ * int(config.max_ref_len)].to(model.device)
    if config.sound_norm_refs:
        audio = (audio / torch.abs(audio).max()) * 0.75
    embedding = model.get_speaker_embedding(audio, REFERENCE_RATE_HZ)
    latents = model.get_gpt_cond_latents(audio, REFERENCE_RATE_HZ, length=config.gpt_cond_len,
                                         chunk_length=config.gpt_cond_chunk_len)
    return latents, embedding


if __name__ == "__main__":
    serve(load)
