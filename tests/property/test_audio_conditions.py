"""Conditions in any pieces are the conditions of the whole, bit for bit; in any order, the same."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from audio.buffers import Float32
from audio.condition_text import parse, parse_all
from audio.conditions import KINDS, AnyCondition, Chain, Context, apply
from audio.errors import InputError

RATES_HZ = st.sampled_from([8_000, 16_000, 24_000, 48_000])
EXAMPLES = [k.example for k in KINDS.values()]
OTHERS = ["noise=white:0", "noise=hum50:5", "loss=20:burst=3:good=1:bad=90", "line=alaw",
          "line=linear:300-3400", "loss=30:conceal=repeat", "jitter=40:20:conceal=repeat"]
ALL = ["level=-30", "noise=car:3", "echo=40:-3", "line=ulaw:300-3400",
       "loss=10:conceal=repeat", "jitter=10:20", "silence=dither"]
CHUNKS = st.one_of(st.lists(st.integers(0, 3), max_size=60),
                   st.lists(st.integers(0, 1_000), max_size=12),
                   st.lists(st.integers(0, 9_000), max_size=3))


def sound(n: int, seed: int = 0) -> Float32:
    return np.random.default_rng(seed).uniform(-0.3, 0.3, n).astype(np.float32)


def context(rate_hz: int) -> Context:
    system = sound(20_000, 1)

    def heard(start_n: int, n: int) -> Float32:
        at = np.arange(start_n, start_n + n)
        return np.where((at >= 0) & (at < len(system)), system[at % len(system)],
                        0).astype(np.float32)

    return Context(rate_hz, "R1-A-1-L2", 1, -15.0, heard, lambda: [sound(rate_hz, 2)])


@pytest.mark.parametrize("texts", [[t] for t in EXAMPLES + OTHERS] + [ALL], ids=" ".join)
@given(rate_hz=RATES_HZ, chunks=CHUNKS)
@settings(max_examples=12, deadline=None)
def test_chunked_is_whole(texts: list[str], rate_hz: int, chunks: list[int]) -> None:
    conditions = parse_all(texts)
    speech = sound(sum(chunks))
    whole, _ = apply(conditions, speech, context(rate_hz))
    assert whole.shape == speech.shape
    assert whole.dtype == np.float32
    chain = Chain(conditions, context(rate_hz))
    ahead = np.concatenate((speech, np.zeros(chain.lead_n, dtype=np.float32)))
    chain.prime(ahead[: chain.lead_n])
    parts, at = [np.zeros(0, dtype=np.float32)], chain.lead_n
    for n in chunks:
        parts.append(chain.push(ahead[at : at + n]))
        at += n
    assert np.array_equal(np.concatenate(parts), whole)


@given(st.lists(st.sampled_from(ALL), unique=True, min_size=2, max_size=4))
@settings(max_examples=20, deadline=None)
def test_the_order_in_which_they_are_given_says_nothing(texts: list[str]) -> None:
    first = None
    for some in list(permutations(texts))[:6]:
        out, _ = apply(parse_all([",".join(some)]), sound(4_000), context(8_000))
        first = out if first is None else first
        assert np.array_equal(out, first)


def _texts() -> st.SearchStrategy[str]:
    number = st.floats(0, 100).map(lambda x: f"{x:.3g}")
    return st.one_of(
        st.sampled_from(EXAMPLES + OTHERS), st.builds("level=-{}".format, number),
        st.builds("noise=pink:{}:seed={}".format, number, st.integers(0, 9)),
        st.builds("echo={}:-{}".format, number, number),
        st.builds("loss={}:burst={}".format, number, number))


@given(_texts())
def test_what_a_condition_writes_of_itself_reads_as_itself(text: str) -> None:
    try:
        condition: AnyCondition | None = parse(text)
    except InputError:
        condition = None  # out of bounds
    assume(condition is not None)
    assert condition is not None
    assert parse(condition.text) == condition
