"""Tokens drawn from what a model thinks of them. Standard library and numpy alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]


def drawn(logits: Logits, temperature: float, top_k: int, top_p: float,
          rng: np.random.Generator) -> NDArray[np.int64]:
    """One token for each row of `(rows, vocabulary)`: `(rows,)`.

    `temperature` 0 takes the best. `top_k` keeps the best so many (0: all; those as good as the
    last of them too), `top_p` those of them that begin within this share of all the probability,
    the share being counted before the rest is dropped: as F-Actor's `sample_next_token` does
    (MaikeZuefle/f-actor, training/modeling_dsu.py at commit 2efa25d). A token at minus infinity is
    never drawn. Raises `RuntimeError` for logits that are no numbers.
    """
    rows = np.atleast_2d(np.asarray(logits, np.float64))
    best = rows.max(axis=-1, keepdims=True)
    if np.isnan(rows).any() or not np.isfinite(best).all():
        raise RuntimeError("the model gave logits that are not finite")
    if temperature == 0:
        return np.asarray(rows.argmax(axis=-1), np.int64)
    shares = np.exp((rows - best) / temperature)
    shares /= shares.sum(axis=-1, keepdims=True)
    return np.array([_one(row, top_k, top_p, rng) for row in shares], np.int64)


def _one(shares: NDArray[np.float64], top_k: int, top_p: float, rng: np.random.Generator) -> int:
    ids = np.flatnonzero(shares)
    if 0 < top_k < len(ids):
        last = np.partition(shares, -top_k)[-top_k]
        ids = np.flatnonzero((shares >= last) & (shares > 0))
    ids = ids[np.argsort(-shares[ids], kind="stable")]
    kept = shares[ids]
    if top_p < 1:
        before = np.cumsum(kept) - kept
        ids, kept = ids[before <= top_p], kept[before <= top_p]
    edges = np.cumsum(kept)
    at = int(np.searchsorted(edges, rng.random() * edges[-1], side="right"))
    return int(ids[min(at, len(ids) - 1)])
