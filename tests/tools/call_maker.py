"""Calls of known truth: rendered speech at known places on two channels.

    call = Call(rate_hz=8000)
    call.say("caller", 1.0, "hello")          # heard from 1.0 s; returns where it ends
    call.write(path)

Speech is cut to its audible edges (`audio.edges`), so what is said at 1.0 s is heard at 1.0 s and
ends where `say` says.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import soundfile
from hibari import Hibari

from audio.edges import HOP_MS, MIN_RUN_WINDOWS, active_windows, measure_edges, runs_of
from audio.resample import resample
from audio.spans import Spans
from audio.timebase import s_to_ns

RATE_HZ = 24_000
LINES = (
    "I would like to move my appointment to the end of next week, please.",
    "Could you tell me what it costs to send a parcel to Norway?",
    "My name is Robin Miller, and I live on Station Road.",
    "We have two open slots, one on Tuesday at nine and one on Friday afternoon.",
    "That should be no problem, I will change it for you now.",
    "The price depends on the weight, so let me ask you a few questions.",
    "Okay, then I will take the one on Friday.",
    "Is there anything else that I can help you with today?",
    "No thanks, that was all I wanted to know.",
    "Please hold the line while I look that up.",
    "How long will it take until it arrives?",
    "It normally takes about three working days.",
)
SHORT = {"yes": "Yes.", "mm": "Mm-hm.", "okay": "Okay.", "um": "Um.", "no": "No."}


@functools.cache
def speech(text: str, seed: int) -> np.ndarray:
    """A line at 24 kHz, cut to what is heard, peak 0.5."""
    said = np.asarray(Hibari()(text, seed=seed), dtype=np.float32)
    edges = measure_edges(said, RATE_HZ)
    cut = said[edges.start_n:edges.end_n]
    return cut * np.float32(0.5 / np.abs(cut).max())


@functools.cache
def pieces(text: str, seed: int) -> tuple[tuple[float, float], ...]:
    """Where a line is heard: it stops at its commas, for up to 0.35 s. Seconds from its begin."""
    samples = speech(text, seed)
    runs = runs_of(active_windows(samples, RATE_HZ))
    inner_s = runs[runs[:, 1] - runs[:, 0] >= MIN_RUN_WINDOWS].ravel()[1:-1] * HOP_MS / 1000
    edges_s = [0.0, *map(float, inner_s), len(samples) / RATE_HZ]
    return tuple(zip(edges_s[::2], edges_s[1::2], strict=True))


@dataclass
class Call:
    """Two channels at 24 kHz that grow as things are put on them."""

    length_s: float
    noise_db: float = -65.0
    sides: dict[str, np.ndarray] = field(default_factory=dict)
    truth: dict[str, list[tuple[float, float]]] = field(
        default_factory=lambda: {"caller": [], "agent": []})
    said: dict[str, list[tuple[float, float]]] = field(
        default_factory=lambda: {"caller": [], "agent": []})

    def __post_init__(self) -> None:
        for k, side in enumerate(("caller", "agent")):
            noise = np.random.default_rng(k + 1).standard_normal(round(self.length_s * RATE_HZ))
            self.sides[side] = (noise * 10 ** (self.noise_db / 20)).astype(np.float32)

    def put(self, side: str, at_s: float, samples: np.ndarray) -> float:
        """Any sound at 24 kHz; gives where it ends."""
        first = round(at_s * RATE_HZ)
        self.sides[side][first:first + len(samples)] += samples.astype(np.float32)
        return at_s + len(samples) / RATE_HZ

    def say(self, side: str, at_s: float, text: str | int, gain_db: float = 0.0) -> float:
        """A line (its number in LINES, a key of SHORT, or text) at `at_s`; gives where it ends."""
        line = LINES[text] if isinstance(text, int) else SHORT.get(text, text)
        seed = 3 if side == "caller" else 11
        samples = speech(line, seed)
        end_s = self.put(side, at_s, samples * np.float32(10 ** (gain_db / 20)))
        self.truth[side].append((at_s, end_s))
        self.said[side] += [(at_s + a, at_s + b) for a, b in pieces(line, seed)]
        return end_s

    def heard(self, side: str) -> Spans:
        """What a side says, ns, with every pause."""
        return Spans.of((s_to_ns(a), s_to_ns(b)) for a, b in self.said[side])

    def leak(self, source: str, gain_db: float, delay_s: float) -> None:
        """Makes one side heard on the other."""
        to = "agent" if source == "caller" else "caller"
        delay_n = round(delay_s * RATE_HZ)
        late = np.concatenate([np.zeros(delay_n, np.float32), self.sides[source]])
        self.sides[to] = self.sides[to] + late[:len(self.sides[to])] * 10 ** (gain_db / 20)

    def stereo(self, rate_hz: int = 8_000) -> np.ndarray:
        """(frames, 2), caller first."""
        both = np.stack([self.sides["caller"], self.sides["agent"]], axis=1).astype(np.float32)
        return np.clip(resample(both, RATE_HZ, rate_hz), -1, 1)

    def write(self, path: Path, rate_hz: int = 8_000, subtype: str = "PCM_16", **more) -> Path:
        soundfile.write(path, self.stereo(rate_hz), rate_hz, subtype=subtype, **more)
        return path


def tone(seconds: float, *hz: float, level: float = 0.3) -> np.ndarray:
    """Tones together, 24 kHz."""
    t = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    return (level / len(hz) * sum(np.sin(2 * np.pi * f * t) for f in hz)).astype(np.float32)


def dialogue(exchanges: int = 6, gap_s: float = 0.8, caller_gap_s: float = 1.2, *,
             greeting: bool = True, noise_db: float = -65.0) -> tuple[Call, list[float]]:
    """An ordinary call: caller and agent in turn. Gives the true reply latencies, which vary."""
    call = Call(length_s=exchanges * 16.0 + 8.0, noise_db=noise_db)
    at = 0.6
    if greeting:
        at = call.say("agent", at, "Good morning, how can I help you?") + caller_gap_s
    latencies = []
    for k in range(exchanges):
        end = call.say("caller", at, (0, 1, 2, 6, 8, 10)[k % 6])
        latency = gap_s + 0.13 * (k % 5) - 0.2
        latencies.append(latency)
        at = call.say("agent", end + latency, (3, 5, 4, 7, 9, 11)[k % 6]) + caller_gap_s
    for side, samples in call.sides.items():
        call.sides[side] = samples[:round((at + 1.0) * RATE_HZ)]
    return call, latencies
