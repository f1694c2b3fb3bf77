"""MMS_FA as aligner: times from a small emission of known answer, and how weights are read.

Needs the extra `mms`. The real weights are not at hand: a small model of the same make, with
weights made at random, stands in for them.
"""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audio.aligners import aligner
from audio.errors import AlignmentError, InputError

RATE_HZ = 24_000


def test_weights_must_be_named_and_be_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected --aligner-weights FILE, got none"):
        aligner("mms_fa")
    with pytest.raises(InputError, match="got no such file"):
        aligner("mms_fa", tmp_path / "model.pt")
    with pytest.raises(InputError, match="did you mean 'mms_fa'"):
        aligner("mms-fa")
    with pytest.raises(InputError, match="expected no weights"):
        aligner("pocketsphinx", tmp_path)


def missing() -> str | None:
    try:
        import torchaudio  # noqa: F401
    except (ImportError, OSError) as error:  # OSError: a torchaudio beside another torch
        return f"extra `mms` is not installed: {str(error).splitlines()[0]}"
    return None


needs_torchaudio = pytest.mark.skipif(missing() is not None, reason=str(missing()))


def emission(frames: int, peaks: dict[int, str]) -> np.ndarray:
    """Log-probabilities: the given letter at each of these frames, blank elsewhere."""
    from torchaudio.pipelines import MMS_FA

    labels = MMS_FA.get_dict(star=None)
    p = np.full((frames, len(labels)), 0.1 / (len(labels) - 1))
    for frame in range(frames):
        p[frame, labels[peaks.get(frame, "-")]] = 0.9
    return np.log(p).astype(np.float32)


@needs_torchaudio
def test_words_are_found_at_their_letters() -> None:
    from audio.align_mms import word_frames

    given = emission(30, {3: "h", 4: "h", 6: "i", 12: "y", 14: "o", 15: "u", 20: "b", 22: "e",
                          24: "e", 26: "s"})
    assert word_frames(given, ["hi", "you", "bees"]) == [(3, 7), (12, 16), (20, 27)]


@needs_torchaudio
def test_too_few_frames_are_an_error() -> None:
    from audio.align_mms import word_frames

    # "bees" needs a blank between its letters e: five frames.
    assert word_frames(emission(5, {0: "b", 1: "e", 3: "e", 4: "s"}), ["bees"]) == [(0, 5)]
    with pytest.raises(AlignmentError, match="at least 5 frames for 1 words, got 4"):
        word_frames(emission(4, {}), ["bees"])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Any:
    """MMS_FA with four narrow layers in place of 24 wide ones."""
    import torchaudio.pipelines as pipelines

    narrow = {"encoder_embed_dim": 32, "encoder_num_layers": 2, "encoder_num_heads": 2,
              "encoder_ff_interm_features": 32,
              "extractor_conv_layer_config": [(16, 10, 5)] + [(16, 3, 2)] * 4 + [(16, 2, 2)] * 2}
    bundle = replace(pipelines.MMS_FA, _params={**pipelines.MMS_FA._params, **narrow})
    monkeypatch.setattr(pipelines, "MMS_FA", bundle)
    from audio import align_mms

    for cached in (align_mms._torchaudio, align_mms._model):
        cached.cache_clear()
    yield bundle
    for cached in (align_mms._torchaudio, align_mms._model):
        cached.cache_clear()


@needs_torchaudio
def test_weights_are_read_from_the_file_and_words_come_out_in_order(
    small: Any, tmp_path: Path
) -> None:
    import torch
    from torchaudio.models import wav2vec2_model

    torch.manual_seed(1)
    weights = tmp_path / "model.pt"
    # Files of this family hold three outputs more than the model, which torchaudio takes out.
    filed = wav2vec2_model(**{**small._params, "aux_num_out": 31})
    torch.save(filed.state_dict(), weights)
    rng = np.random.default_rng(2)
    speech = (0.1 * rng.standard_normal(2 * RATE_HZ)).astype(np.float32)
    chosen = aligner("mms_fa", weights)
    found = chosen.align(speech, RATE_HZ, "It's on the Left, twenty-five.")
    assert [w.word for w in found] == ["It's", "on", "the", "Left", "twenty", "five"]
    flat = [n for w in found for n in (w.start_n, w.end_n)]
    assert flat == sorted(flat)
    assert 0 <= flat[0] < flat[-1] <= len(speech)
    assert chosen.facts()["name"] == "mms_fa"
    assert len(chosen.facts()["weights_sha256"]) == 64
    assert found == chosen.align(speech, RATE_HZ, "It's on the Left, twenty-five.")


class _Evil:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("/tmp/duplexrig-was-here"),))


@needs_torchaudio
@pytest.mark.parametrize("content", [b"", b"not weights", pickle.dumps({"a": 1}),
                                     pickle.dumps(_Evil())])
def test_what_are_no_weights_is_refused_and_runs_nothing(
    small: Any, content: bytes, tmp_path: Path
) -> None:
    weights = tmp_path / "model.pt"
    weights.write_bytes(content)
    with pytest.raises(InputError, match="expected weights of torchaudio's MMS_FA"):
        aligner("mms_fa", weights).align(np.ones(RATE_HZ, np.float32), RATE_HZ, "No.")
    assert not Path("/tmp/duplexrig-was-here").exists()
