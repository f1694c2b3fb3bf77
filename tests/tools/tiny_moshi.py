"""A Moshi of random weights and a few megabytes, written as a checkpoint that its package loads.

    python tests/tools/tiny_moshi.py FOLDER      (in the environment of the moshi worker)

The codec keeps its real shape but for width and depth; the words are those of one paragraph.
"""

from __future__ import annotations

import json
import sys
from copy import deepcopy
from pathlib import Path

import sentencepiece
import torch
from moshi.models import loaders
from safetensors.torch import save_file

WORDS = ("the caller says a word and the agent says another word then they wait for one more turn "
         "of the line and nobody says anything at all for a while until it rings again ") * 20
TEXT_CARD = 64


def write(folder: Path) -> None:
    torch.manual_seed(1)
    folder.mkdir(parents=True, exist_ok=True)
    mimi = deepcopy(loaders._mimi_config)
    mimi["seanet"] |= {"dimension": 32, "n_filters": 4}
    mimi["quantizer"] |= {"dimension": 16, "bins": 32, "input_dimension": 32,
                          "output_dimension": 32, "n_q": 8}
    mimi["transformer"] |= {"d_model": 32, "num_heads": 2, "num_layers": 1, "input_dimension": 32,
                            "output_dimensions": [32], "dim_feedforward": 64}
    lm = deepcopy(loaders._lm_kwargs)
    lm |= {"dim": 64, "text_card": TEXT_CARD, "card": 32, "num_heads": 2, "num_layers": 2,
           "depformer_dim": 32, "depformer_dim_feedforward": 64, "depformer_num_heads": 2,
           "depformer_num_layers": 1, "context": 300}
    codec = loaders.get_mimi(None, mimi)
    save_file({k: v.contiguous() for k, v in codec.state_dict().items()},
              str(folder / "mimi.safetensors"))
    model = loaders.get_moshi_lm(None, lm, dtype=torch.float32)
    save_file({k: v.contiguous() for k, v in model.state_dict().items()},
              str(folder / "model.safetensors"))
    (folder / "words.txt").write_text("\n".join(WORDS[i : i + 80] for i in range(0, 3000, 80)))
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "words.txt"), model_prefix=str(folder / "words"), vocab_size=TEXT_CARD,
        hard_vocab_limit=False, pad_id=3, unk_id=0, bos_id=1, eos_id=2, minloglevel=2)
    (folder / "mimi.json").write_text(json.dumps(mimi))
    (folder / "config.json").write_text(json.dumps({
        **lm, "moshi_name": "model.safetensors", "mimi_name": "mimi.safetensors",
        "mimi_config_name": "mimi.json", "tokenizer_name": "words.model", "model_type": "moshi"}))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
