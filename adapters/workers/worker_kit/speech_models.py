"""What workers of speech models have in common. Standard library and numpy alone."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

PADDING_TOKENS = (0, 3)
"""Text ids of Moshi and its fork that stand for no text; their own servers leave them out too."""


def seed_all(seed: int, torch: Any = None) -> None:
    """Every generator that a model may draw from; torch's covers its devices."""
    random.seed(seed)
    np.random.seed(seed)
    if torch is not None:
        torch.manual_seed(seed)


def piece_text(words: Any, token: int) -> str:
    """The text of one token of a SentencePiece vocabulary."""
    return ("" if token in PADDING_TOKENS
            else str(words.id_to_piece(token)).replace("\u2581", " "))
