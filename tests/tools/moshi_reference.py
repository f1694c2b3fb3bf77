"""What Moshi says to given audio, by its own package alone.

    moshi_reference.py WEIGHTS IN OUT SEED

Frames of 80 ms, float32 at 24 kHz, little endian. Nothing of the rig or of its worker is used.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import torch
from moshi.models import LMGen
from moshi.models.loaders import CheckpointInfo

folder, heard_path, said_path, seed = Path(sys.argv[1]), *sys.argv[2:4], int(sys.argv[4])
info = CheckpointInfo.from_hf_repo(
    "local", moshi_weights=folder / "model.safetensors", mimi_weights=folder / "mimi.safetensors",
    tokenizer=folder / "words.model", config_path=folder / "config.json",
    mimi_config_path=folder / "mimi.json")
mimi = info.get_mimi("cpu")
lm = LMGen(info.get_moshi("cpu", torch.float32), temp=0.8, temp_text=0.7, top_k=250, top_k_text=25)
mimi.streaming_forever(1)
lm.streaming_forever(1)
torch.manual_seed(seed)
random.seed(seed)
np.random.seed(seed)
said = []
with torch.no_grad():
    for frame in np.fromfile(heard_path, "<f4").reshape(-1, 1920):
        tokens = lm.step(mimi.encode(torch.from_numpy(frame)[None, None]))
        said.append(np.zeros(1920, "<f4") if tokens is None
                    else mimi.decode(tokens[:, 1:])[0, 0].numpy())
np.concatenate(said).astype("<f4").tofile(said_path)
