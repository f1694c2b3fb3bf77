"""Line conditions: what happens to the user's speech on its way to the system, as declared data.

Each condition is a frozen dataclass that knows its bounds (`condition_base`) and makes a stream
(`condition_streams`, `narrowband`, `packets`): samples in, as many out, whatever the pieces.
`Chain` puts those of a session in line. Nothing is moved in time: the one delay there is, that of
the filters of an 8 kHz line, is made up for, because speech is pushed that much ahead
(`Chain.lead_n`).

The order is fixed, whatever order they are given in, and is that of the signal's way:

    level     how loud the speaker is at the microphone
    noise     adds to the speech there, so its SNR is that of the levelled speech
    echo      adds to it there too
    line      the telephone line codes what the microphone hears
    loss      packets of the coded signal are lost
    jitter    or come too late
    silence   the floor at the receiving end, so that it lies under concealed packets as well

Random numbers come from case, trial and the condition's own text alone (`seed_of`).

Definitions
-----------
speech level   active speech level of both turns as one signal (`audio.active_level`, ITU-T P.56)
SNR            speech level, after `level`, minus the power of the noise over the whole session,
               both at the rate of the system and over its full band, in dB
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from audio.buffers import Float32
from audio.condition_base import SEED, Arg, Condition, Context, short, speech_dbov
from audio.condition_streams import (
    Adding,
    DitherStream,
    EchoStream,
    GainStream,
    NoiseStream,
    Stream,
)
from audio.errors import InputError
from audio.narrowband import BANDS, CODECS, Band, Codec, LineStream
from audio.noise import SPECTRAL_KINDS, babble_loop, generator, spectral_loop
from audio.noise_file import file_loop
from audio.packets import (
    CONCEALMENTS,
    Concealment,
    GilbertElliott,
    Late,
    PacketStream,
    chain_of,
)

__all__ = ["KINDS", "MIN_ECHO_MS", "NOISE_KINDS", "AnyCondition", "Chain", "Context", "Echo",
           "Jitter", "Level", "Line", "Loss", "Noise", "Silence", "apply", "ordered"]

NOISE_KINDS = (*SPECTRAL_KINDS, "babble", "file")
MIN_ECHO_MS = 40.0
"""Echo of what is heard now cannot be in the frame that is made now: 20 ms of frame, 2.5 ms of the
line's filters, and what is left for arrivals that this machine is late with. Ours."""


@dataclass(frozen=True, slots=True)
class Level(Condition):
    """The speech brought to an active level, by one gain for the whole session."""

    dbov: float
    kind = "level"
    what = "active speech level (ITU-T P.56), one gain for both turns"
    args = (Arg("dbov", "active speech level", -60, -10, "dBov"),)
    example = "level=-26"

    def stream(self, context: Context) -> GainStream:
        return GainStream(self.dbov - speech_dbov(context, self.text))


@dataclass(frozen=True, slots=True)
class Noise(Condition):
    """Background noise at a signal-to-noise ratio. `file` and `sha256` are of kind `file` alone."""

    noise: str
    snr_db: float
    seed: int = 0
    file: str = ""
    sha256: str = ""
    kind = "noise"
    what = "background noise, at the microphone; file:PATH takes channel 0 of a recording"
    args = (Arg("noise", "which", choices=NOISE_KINDS),
            Arg("snr_db", "speech level minus noise power", -20, 60, "dB"), SEED,
            Arg("file", "recording", text=True), Arg("sha256", "of the recording", text=True))
    example = "noise=babble:15"

    def __post_init__(self) -> None:
        super(Noise, self).__post_init__()
        if (self.noise == "file") != bool(self.file) or bool(self.file) != bool(self.sha256):
            raise InputError.expected("a recording for file noise and none for any other",
                                      got=self.file or "none", where=f"noise={self.noise}")

    @property
    def text(self) -> str:
        which = f"file:{self.file}" if self.file else self.noise
        seed = f":seed={self.seed}" if self.seed else ""
        return f"noise={which}:{short(self.snr_db)}{seed}"

    def facts(self) -> dict[str, Any]:
        facts = super(Noise, self).facts()
        if not self.file:
            return {k: v for k, v in facts.items() if k not in ("file", "sha256")}
        # Where the file lies is no business of the result.
        return {**facts, "file": Path(self.file).name}

    def stream(self, context: Context) -> NoiseStream:
        seed = self.seed_of(context)
        level = speech_dbov(context, self.text) - self.snr_db
        return NoiseStream(self._loop(context, seed), level, generator(seed ^ 1))

    def _loop(self, context: Context, seed: int) -> Float32:
        if self.noise == "file":
            return file_loop(Path(self.file), self.sha256, context.rate_hz)
        if self.noise == "babble":
            return babble_loop(context.voices() if context.voices else (), context.rate_hz, seed)
        kind = next(k for k in SPECTRAL_KINDS if k == self.noise)
        return spectral_loop(kind, context.rate_hz, seed)


@dataclass(frozen=True, slots=True)
class Echo(Condition):
    """The system's own audio, as heard, comes back into the microphone."""

    delay_ms: float
    db: float
    kind = "echo"
    what = "the system's audio, as heard, delayed and attenuated, comes back to it"
    args = (Arg("delay_ms", "from being heard to coming back", MIN_ECHO_MS, 1000, "ms"),
            Arg("db", "gain", -60, 0, "dB"))
    example = "echo=120ms:-30"

    def stream(self, context: Context) -> EchoStream:
        return EchoStream(context.heard, round(self.delay_ms * context.rate_hz / 1000), self.db)


@dataclass(frozen=True, slots=True)
class Line(Condition):
    """A telephone line that samples at 8 kHz."""

    codec: Codec
    band: Band = "full"
    kind = "line"
    what = "an 8 kHz telephone line: G.711 mu-law or A-law, or 16 bit linear"
    args = (Arg("codec", "coding", choices=CODECS),
            Arg("band", "full is up to 3400 Hz", choices=BANDS))
    example = "line=ulaw:300-3400"

    def stream(self, context: Context) -> LineStream:
        return LineStream(context.rate_hz, self.codec, self.band)


@dataclass(frozen=True, slots=True)
class Loss(Condition):
    """Packets of 20 ms are lost: alone (burst 0: Bernoulli) or in bursts (Gilbert-Elliott)."""

    percent: float
    burst: float = 0.0
    good: float = 0.0
    bad: float = 100.0
    conceal: Concealment = "silence"
    seed: int = 0
    kind = "loss"
    what = "packets of 20 ms are lost; burst > 0: Gilbert-Elliott"
    args = (Arg("percent", "share lost", 0.01, 90, "%"),
            Arg("burst", "mean length of a bad stretch, 0: losses are independent", 0, 500,
                "packets"),
            Arg("good", "lost in good stretches", 0, 100, "%"),
            Arg("bad", "lost in bad stretches", 0, 100, "%"),
            Arg("conceal", "what stands in", choices=CONCEALMENTS), SEED)
    example = "loss=3:burst=4:conceal=repeat"

    def __post_init__(self) -> None:
        super(Loss, self).__post_init__()
        if not self.burst:
            if (self.good, self.bad) != (0.0, 100.0):
                raise InputError.expected("burst=PACKETS with good= or bad=", got="no burst",
                                          where=self.text)
            return
        if self.burst < 1:
            raise InputError.expected("burst as 0 or at least 1 packet", got=short(self.burst),
                                      where=self.text)
        try:
            self.chain()
        except ValueError as error:
            raise InputError(f"{self.text}: expected {error}") from error

    def chain(self) -> tuple[float, float, float, float]:
        """`to_bad`, `to_good`, `in_good`, `in_bad`, as probabilities."""
        if not self.burst:
            return 0.0, 0.0, self.percent / 100, self.percent / 100
        good, bad = self.good / 100, self.bad / 100
        return (*chain_of(self.percent / 100, self.burst, good, bad), good, bad)

    def stream(self, context: Context) -> PacketStream:
        rng = generator(self.seed_of(context))
        return PacketStream(context.rate_hz, GilbertElliott(rng, *self.chain()), self.conceal)


@dataclass(frozen=True, slots=True)
class Jitter(Condition):
    """Packets that a jitter buffer of fixed depth no longer waits for are missing."""

    mean_ms: float
    buffer_ms: float
    conceal: Concealment = "silence"
    seed: int = 0
    kind = "jitter"
    what = "packets held up for longer than a jitter buffer of fixed depth waits are missing"
    args = (Arg("mean_ms", "mean of the exponential hold-up", 1, 500, "ms"),
            Arg("buffer_ms", "depth of the buffer", 0, 2000, "ms"),
            Arg("conceal", "what stands in", choices=CONCEALMENTS), SEED)
    example = "jitter=20ms:60ms"

    def stream(self, context: Context) -> PacketStream:
        rng = generator(self.seed_of(context))
        return PacketStream(context.rate_hz, Late(rng, self.mean_ms, self.buffer_ms), self.conceal)


@dataclass(frozen=True, slots=True)
class Silence(Condition):
    """What silence consists of: exact zeros, or dither of PCM16."""

    floor: str
    seed: int = 0
    kind = "silence"
    what = "digital: exact zeros, as without this; dither: triangular, 1 LSB of PCM16 either way"
    args = (Arg("floor", "which", choices=("dither", "digital")), SEED)
    example = "silence=dither"

    def stream(self, context: Context) -> DitherStream | None:
        return DitherStream(self.seed_of(context)) if self.floor == "dither" else None


AnyCondition = Level | Noise | Echo | Line | Loss | Jitter | Silence
KINDS: Mapping[str, type[AnyCondition]] = {
    c.kind: c for c in (Level, Noise, Echo, Line, Loss, Jitter, Silence)}
"""By name, in the order in which they act."""


def ordered(conditions: Sequence[AnyCondition]) -> tuple[AnyCondition, ...]:
    """In the order in which they act. Raises `InputError` for one that is given twice, and for
    digital silence together with what fills it."""
    rank = {kind: i for i, kind in enumerate(KINDS)}
    out = tuple(sorted(conditions, key=lambda c: rank[c.kind]))
    for first, second in pairwise(out):
        if first.kind == second.kind:
            raise InputError(f"conditions: expected one {first.kind}, got {first.text} and "
                             f"{second.text}")
    given = {c.kind for c in out}
    if Silence("digital") in out and given & {"noise", "echo"}:
        other = "noise" if "noise" in given else "echo"
        raise InputError(f"conditions: silence=digital cannot be kept with {other}")
    return out


class Chain:
    """All conditions of one session, in their order.

    `lead_n`: speech has to be pushed this much ahead. First `prime` with the samples `[0, lead_n)`,
    then the result of pushing `[lead_n, lead_n + n)` is what the system hears in `[0, n)`.
    """

    def __init__(self, conditions: Sequence[AnyCondition], context: Context) -> None:
        """Raises `InputError` when a condition cannot be made for this session."""
        self._streams: list[tuple[str, Stream]] = []
        self._speech_dbov = context.speech_dbov
        for condition in ordered(conditions):
            stream = condition.stream(context)
            if stream is None:
                continue
            self._streams.append((condition.kind, stream))
            if isinstance(stream, GainStream) and isinstance(condition, Level):
                context = replace(context, speech_dbov=condition.dbov)
                self._speech_dbov = condition.dbov
        self._delayed = next((i + 1 for i, (_, s) in enumerate(self._streams) if s.delay_n), 0)
        self.lead_n = sum(s.delay_n for _, s in self._streams)
        self._clipped_n = 0

    def prime(self, samples: Float32) -> None:
        """The first `lead_n` samples of speech, before anything is heard."""
        if len(samples) != self.lead_n:
            raise ValueError(f"expected {self.lead_n} samples, got {len(samples)}")
        for _, stream in self._streams[: self._delayed]:
            samples = stream.push(samples)

    def push(self, samples: Float32) -> Float32:
        """Speech `lead_n` ahead, float32 `(n,)`; what is sent to the system, in [-1, 1]."""
        for _, stream in self._streams:
            samples = stream.push(samples)
        if not self._streams:
            return samples
        top = float(np.abs(samples).max(initial=0.0))
        if top > 1.0:
            self._clipped_n += int((np.abs(samples) > 1.0).sum())
            samples = np.clip(samples, -1.0, 1.0)
        return samples.astype(np.float32, copy=False)

    def achieved(self) -> dict[str, float | int | None]:
        """What the conditions came to so far, as measured: levels in dBov, ratios in dB."""
        out: dict[str, float | int | None] = {"speech_dbov": _rounded(self._speech_dbov)}
        for kind, stream in self._streams:
            if isinstance(stream, GainStream):
                out["gain_db"] = _rounded(stream.gain_db)
            elif isinstance(stream, Adding):
                added = stream.added_dbov
                out[f"{kind}_dbov"] = _rounded(added)
                if kind == "noise" and added is not None and self._speech_dbov is not None:
                    out["snr_db"] = _rounded(self._speech_dbov - added)
            elif isinstance(stream, PacketStream):
                out["packets"] = stream.packets_n
                out["lost" if kind == "loss" else "late"] = stream.missing_n
            elif isinstance(stream, LineStream):
                out["line_clipped_n"] = stream.clipped_n
        out["clipped_n"] = self._clipped_n
        return out


def apply(conditions: Sequence[AnyCondition], samples: Float32, context: Context,
          ) -> tuple[Float32, Chain]:
    """Conditions over a whole signal, float32 `(n,)` at the rate of the context: as many samples,
    in their place; and the chain, for what it achieved."""
    chain = Chain(conditions, context)
    padded = np.concatenate((samples, np.zeros(chain.lead_n, dtype=np.float32)))
    chain.prime(padded[: chain.lead_n])
    return chain.push(padded[chain.lead_n :]), chain


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
