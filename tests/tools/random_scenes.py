"""Scenes drawn at random, for tests and benchmarks: every action, override and kind of ending."""

from __future__ import annotations

import random

from audio.spans import Spans
from verifiers.scene import Action, CaseParams, Scene, TimedText, Window

MS = 1_000_000
LEVELS = ("L0", "L1", "L2", "L3", "L4a", "L4b")
EDGES_MS = (0, 200, 400, 500, 600, 800, 1000, 1200, 1500, 2000, 2500, 3000)
"""Many events fall exactly on a limit of the grid, where a wrong comparison shows."""


def random_scene(rng: random.Random, action: Action) -> Scene:
    """One scene; some have a recording cut short, no target or no transcript."""
    w0 = 10_000 * MS
    length = rng.choice((1000, 1500, 2500, 3000)) * MS
    recorded = w0 + length + 5000 * MS
    if rng.random() < 0.6:  # ends near an event or a limit, or the margin behind it
        recorded = (w0 + rng.choice((length, length, 0, rng.choice(EDGES_MS) * MS))
                    + rng.choice((-100, 0, 300, 500)) * MS + rng.choice((-1, 0, 1)))
    merge_gap_ns = rng.choice((0, 300 * MS))
    said = rng.choice(("", "4 1", "4 1 5", "5 4 1 x", "zero"))
    texts = (TimedText(said, w0 + rng.choice((-1, 0, 1)), w0 + 5),)
    return Scene(
        expected_action=action, window=Window(w0, w0 + length),
        model=_spans(rng, w0, 4).clip(0, max(recorded, 0)).merge_gaps(max(merge_gap_ns, MS)),
        user=_spans(rng, w0, 3),
        recorded_ns=recorded,
        params=CaseParams(
            max_wait_s=rng.choice((None, 0.8, 1.2, 1.5, 2.0)),
            max_latency_ms=rng.choice((None, 600, 1000, 1200, 1500)),
            ceiling_s=rng.choice((None, 0.5, 0.6, 1.0)),
            max_spans=rng.choice((None, None, 1, 2)),
            min_coverage=rng.choice((None, None, 0.5, 1.0))),
        target_text=rng.choice(("4 1 5", "4 1 5", None)),
        transcript=rng.choice((texts, texts, None)),
        forced=rng.random() < 0.1,
        merge_gap_ns=merge_gap_ns)


def _spans(rng: random.Random, w0: int, most: int) -> Spans:
    edges = []
    for _ in range(rng.randint(0, most)):
        start = w0 + (rng.choice(EDGES_MS) - rng.choice((0, 0, 3000))) * MS + rng.choice((-1, 0, 1))
        edges.append((start, start + rng.choice((90, 480, 600, 800, 1000, 1200, 4000)) * MS
                      + rng.choice((-1, 0, 1))))
    return Spans.of(edges)
