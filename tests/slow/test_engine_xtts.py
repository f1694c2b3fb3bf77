"""XTTS through the real package (extra: xtts), with a small model whose weights are random.

It has the real one's layout: config.json, vocab.json, model.pth, speakers_xtts.pth. So loading,
splitting, seeds, speakers and recordings are really used; of the sound nothing can be said.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from audio.engine_xtts import XttsEngine
from audio.errors import InputError
from audio.files import sha256_file, write_wav_pcm16

pytestmark = pytest.mark.slow
pytest.importorskip("TTS", exc_type=ImportError)

MAKE = """
import sys
from pathlib import Path
import torch
from tokenizers import Tokenizer, models
from TTS.tts.configs.xtts_config import XttsConfig
from TTS.tts.models.xtts import Xtts

out = Path(sys.argv[1])
signs = ["[STOP]", "[UNK]", "[SPACE]", "[START]", "[en]", *"abcdefghijklmnopqrstuvwxyz'.,!?"]
tokens = Tokenizer(models.BPE(vocab={s: i for i, s in enumerate(signs)}, merges=[],
                              unk_token="[UNK]"))
tokens.add_special_tokens(signs[:5])
tokens.save(str(out / "vocab.json"))
config = XttsConfig()
args = config.model_args
args.gpt_layers, args.gpt_n_model_channels, args.gpt_n_heads = 1, 64, 2
args.gpt_max_audio_tokens, args.decoder_input_dim = 60, 64
args.gpt_number_text_tokens, args.gpt_start_text_token, args.gpt_stop_text_token = len(signs), 3, 0
torch.manual_seed(0)
torch.save({"model": Xtts(config).state_dict(), "config": config.to_dict()}, out / "model.pth")
config.save_json(str(out / "config.json"))
torch.save({"Ana Example": {"gpt_cond_latent": torch.randn(1, 32, 64),
                            "speaker_embedding": torch.randn(1, 512, 1)}},
           out / "speakers_xtts.pth")
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("xtts")
    subprocess.run([sys.executable, "-c", MAKE, str(folder)], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("voice") / "me.wav"
    rng = np.random.default_rng(0)
    write_wav_pcm16(path, (0.1 * rng.standard_normal(5 * 24_000)).astype(np.float32), 24_000)
    return path


def test_speakers_and_recordings_speak_and_the_seed_decides(model: Path, recording: Path) -> None:
    before = sha256_file(model / "model.pth")
    speech = XttsEngine({"model": str(model), "voices": "Ana Example",
                         "reference": str(recording)})
    said = {}
    for voice in speech.voices():
        one = speech.synthesize("Hello there.", voice, 1)
        assert one.dtype == np.float32
        assert one.size > 2_400
        assert np.isfinite(one).all()
        np.testing.assert_array_equal(speech.synthesize("Hello there.", voice, 1), one)
        assert not np.array_equal(speech.synthesize("Hello there.", voice, 2), one)
        said[voice] = one
    assert not np.array_equal(said["Ana Example"], said["reference"])
    assert sha256_file(model / "model.pth") == before


def test_an_unknown_speaker_is_refused_by_the_model(model: Path) -> None:
    speech = XttsEngine({"model": str(model), "voices": "Nobody"})
    with pytest.raises(InputError, match="xtts: voice 'Nobody': expected one of Ana Example"):
        speech.synthesize("Hi.", "Nobody", 0)


def test_weights_that_would_run_code_are_refused(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bad"
    folder.mkdir()
    for path in model.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    mark = tmp_path / "it_ran"

    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (os.mkdir, (str(mark),))

    for name in ("model.pth", "speakers_xtts.pth"):
        good = (folder / name).read_bytes()
        (folder / name).write_bytes(pickle.dumps({"model": Evil()}))
        with pytest.raises(InputError, match="expected a folder of XTTS-v2, got"):
            XttsEngine({"model": str(folder), "voices": "Ana Example"}).synthesize(
                "Hi.", "Ana Example", 0)
        assert not mark.exists()
        (folder / name).write_bytes(good)
