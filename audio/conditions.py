"""Line conditions: what happens to the user's speech on its way to the system, as declared data.

Each condition is a frozen dataclass that knows its bounds and makes a stream: samples in, as many
samples out, whatever the pieces. `Chain` puts those of a session in line. Nothing is moved in time:
the one delay there is, that of the filters of an 8 kHz line, is made up for, because speech is
pushed that much ahead (`Chain.lead_n`).

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

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from audio.active_level import rms_dbov
from audio.buffers import PCM16_SCALE, Float32
from audio.errors import InputError
from audio.files import probe, read_channel, sha256_file
from audio.narrowband import BANDS, CODECS, Band, Codec, LineStream
from audio.noise import SPECTRAL_KINDS, babble_loop, generator, spectral_loop, unit_power
from audio.packets import (
    CONCEALMENTS,
    Concealment,
    GilbertElliott,
    Late,
    PacketStream,
    chain_of,
)
from audio.resample import resample
from audio.suggest import did_you_mean

NOISE_KINDS = (*SPECTRAL_KINDS, "babble", "file")
MAX_NOISE_FILE_S = 600.0
MIN_NOISE_FILE_S = 1.0
"""Ours: a second is the least that does not sound like a buzz when it is repeated."""
MAX_NOISE_LOST_DB = 40.0
"""What a recording may lose of its power to the band of the system. Ours: noise that must be raised
by more is not what was recorded."""
SILENT_NOISE_DBOV = -140.0
"""`unit_power` refuses 1e-14. A mean in float32 is exact to -150 dB of what it is the mean of."""
MIN_ECHO_MS = 40.0
"""Echo of what is heard now cannot be in the frame that is made now: 20 ms of frame, 2.5 ms of the
line's filters, and what is left for arrivals that this machine is late with. Ours."""

Heard = Callable[[int, int], Float32]
"""`heard(start_n, n)`: the system's own audio as heard, at the rate of the chain, from the instant
`start_n` of the session on; zeros where nothing is heard, also before the session."""
Voices = Callable[[], Sequence[Float32]]
"""Speech of other people at the rate of the chain, each at an active level of 0 dBov
(`audio.noise.at_unit_level`); asked for by babble alone."""


@dataclass(frozen=True, slots=True)
class Context:
    """The session that conditions are made for. `speech_dbov`: level of the speech that is pushed,
    `None` where there is none."""

    rate_hz: int
    case_id: str
    trial: int
    speech_dbov: float | None
    heard: Heard | None = None
    voices: Voices | None = None


class Stream(Protocol):
    """Samples in, as many out, `delay_n` later."""

    delay_n: int

    def push(self, samples: Float32) -> Float32: ...


@dataclass(frozen=True, slots=True)
class Arg:
    """A value of a condition: its name, what it says, what it may be."""

    name: str
    what: str
    low: float = -math.inf
    high: float = math.inf
    unit: str = ""
    choices: tuple[str, ...] = ()
    text: bool = False
    whole: bool = False

    def allowed(self) -> str:
        if self.choices:
            return ", ".join(self.choices)
        return "text" if self.text else f"{self.low:g} to {self.high:g} {self.unit}".strip()

    def check(self, value: Any, where: str) -> None:
        """Raises `InputError` for a value that is not allowed."""
        if self.text:
            return
        if self.choices:
            if value not in self.choices:
                raise InputError(f"{where}: expected {self.name} as one of {self.allowed()}, got "
                                 f"{value!r}{did_you_mean(str(value), self.choices)}")
            return
        if isinstance(value, bool) or not isinstance(value, int | float) or not (
                self.low <= value <= self.high) or (self.whole and value != int(value)):
            kind = "a whole number of " if self.whole else ""
            raise InputError.expected(f"{self.name} as {kind}{self.allowed()}", got=repr(value),
                                      where=where)


SEED = Arg("seed", "another one gives other random numbers", 0, 999_999, whole=True)


@dataclass(frozen=True, slots=True)
class Condition:
    """Base of all conditions. `kind` is its name, `args` its values in the order of the text."""

    kind: ClassVar[str]
    what: ClassVar[str]
    args: ClassVar[tuple[Arg, ...]]
    example: ClassVar[str]

    def __post_init__(self) -> None:
        for arg in self.args:
            value = getattr(self, arg.name)
            arg.check(value, self.kind)
            if not (arg.choices or arg.text):
                # 15, 15.0 and -0.0 are spellings: text, facts and seed must not tell them apart.
                object.__setattr__(self, arg.name, int(value) if arg.whole else float(value) + 0.0)

    @property
    def text(self) -> str:
        """As it is written on the command line: values that must be given, then those that differ
        from their defaults by name."""
        default = {f.name: f.default for f in fields(self)}
        parts = [_short(getattr(self, a.name)) if default[a.name] is MISSING
                 else f"{a.name}={_short(getattr(self, a.name))}"
                 for a in self.args if getattr(self, a.name) != default[a.name]]
        return f"{self.kind}={':'.join(parts)}"

    def facts(self) -> dict[str, Any]:
        """Every value, defaults filled in: part of the fingerprint of a run."""
        return {"kind": self.kind, **{a.name: getattr(self, a.name) for a in self.args}}

    def seed_of(self, context: Context) -> int:
        """A seed of case, trial and condition alone; order and clock never matter."""
        facts = "\0".join(f"{k}={v}" for k, v in sorted(self.facts().items()) if k != "file")
        text = f"{context.case_id}\0{context.trial}\0{facts}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


@dataclass(frozen=True, slots=True)
class Level(Condition):
    """The speech brought to an active level, by one gain for the whole session."""

    dbov: float
    kind = "level"
    what = "active speech level (ITU-T P.56), one gain for both turns"
    args = (Arg("dbov", "active speech level", -60, -10, "dBov"),)
    example = "level=-26"

    def stream(self, context: Context) -> GainStream:
        return GainStream(self.dbov - _speech_dbov(context, self.text))


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
        return f"noise={which}:{_short(self.snr_db)}{seed}"

    def facts(self) -> dict[str, Any]:
        facts = super(Noise, self).facts()
        if not self.file:
            return {k: v for k, v in facts.items() if k not in ("file", "sha256")}
        # Where the file lies is no business of the result.
        return {**facts, "file": Path(self.file).name}

    def stream(self, context: Context) -> NoiseStream:
        seed = self.seed_of(context)
        level = _speech_dbov(context, self.text) - self.snr_db
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
            raise InputError.expected("burst as 0 or at least 1 packet", got=_short(self.burst),
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


class GainStream:
    """One gain."""

    delay_n = 0

    def __init__(self, gain_db: float) -> None:
        self.gain_db = gain_db
        self._gain = np.float32(10 ** (gain_db / 20))

    def push(self, samples: Float32) -> Float32:
        return np.asarray(samples * self._gain, dtype=np.float32)


class _Adding:
    """Adds something and keeps account of its power."""

    delay_n = 0

    def __init__(self) -> None:
        self._energy = 0.0
        self._n = 0

    @property
    def added_dbov(self) -> float | None:
        """Mean power of what was added so far."""
        return 10 * math.log10(self._energy / self._n) if self._energy else None

    def _plus(self, samples: Float32, added: Float32) -> Float32:
        self._energy += float(np.square(added, dtype=np.float64).sum())
        self._n += len(added)
        return np.asarray(samples + added, dtype=np.float32)


class NoiseStream(_Adding):
    """A loop of mean power 1, brought to a level, from a random place on."""

    def __init__(self, loop: Float32, level_dbov: float, rng: np.random.Generator) -> None:
        super().__init__()
        self._loop = loop * np.float32(10 ** (level_dbov / 20))
        self._at = int(rng.integers(0, len(loop)))

    def push(self, samples: Float32) -> Float32:
        where = np.arange(self._at, self._at + len(samples)) % len(self._loop)
        self._at = (self._at + len(samples)) % len(self._loop)
        return self._plus(samples, self._loop[where])


class EchoStream(_Adding):
    """What was heard `delay` ago, at a gain."""

    def __init__(self, heard: Heard | None, echo_n: int, gain_db: float) -> None:
        super().__init__()
        self._heard = heard
        self._gain = np.float32(10 ** (gain_db / 20))
        self._next_n = -echo_n

    def push(self, samples: Float32) -> Float32:
        if self._heard is None:
            return samples
        heard = self._heard(self._next_n, len(samples))
        self._next_n += len(samples)
        return self._plus(samples, heard * self._gain)


class DitherStream:
    """Triangular noise of two uniform ones, at most one LSB of PCM16 either way: it makes the error
    of rounding free of the signal (Lipshitz, Wannamaker, Vanderkooy, JAES 40, 1992)."""

    delay_n = 0

    def __init__(self, seed: int) -> None:
        self._rng = generator(seed)

    def push(self, samples: Float32) -> Float32:
        two = self._rng.random((len(samples), 2)).sum(axis=1) - 1.0
        return np.asarray(samples + two / PCM16_SCALE, dtype=np.float32)


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
            elif isinstance(stream, _Adding):
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


def file_loop(path: Path, sha256: str, rate_hz: int) -> Float32:
    """Channel 0 of a recording at `rate_hz`, mean power 1. Raises `InputError` when it is not the
    file of that hash, silent, shorter than a second or longer than ten minutes."""
    if sha256_file(path) != sha256:
        raise InputError.expected("the recording that the run was planned with",
                                  got="other bytes (SHA-256 differs)", where=path)
    check_noise_file(path)
    info = probe(path)
    given, given_dbov = _without_mean(path)
    loop = resample(given, info.rate_hz, rate_hz)
    left_dbov = rms_dbov(loop)
    if left_dbov is None or given_dbov is None or given_dbov - left_dbov > MAX_NOISE_LOST_DB:
        # What is left then is the ringing of the filter at both ends.
        raise InputError.expected(f"a recording with sound below {min(rate_hz, info.rate_hz) // 2} "
                                  "Hz", got="next to none", where=path)
    return unit_power(loop.astype(np.float64))


def _without_mean(path: Path) -> tuple[Float32, float | None]:
    """Channel 0 without its offset, which would ring at both ends, and its level; `None` where it
    is below what `unit_power` takes for silence."""
    samples = read_channel(path, 0)
    centred = samples - np.float32(samples.mean(dtype=np.float64))
    level = rms_dbov(centred)
    return centred, None if level is None or level <= SILENT_NOISE_DBOV else level


def check_noise_file(path: Path) -> None:
    """Raises `InputError` unless `path` is a recording of a useful length with some sound in it."""
    info = probe(path)
    if not MIN_NOISE_FILE_S <= info.frames_n / info.rate_hz <= MAX_NOISE_FILE_S:
        raise InputError.expected(f"a recording of {MIN_NOISE_FILE_S:g} to {MAX_NOISE_FILE_S:g} s",
                                  got=f"{info.frames_n / info.rate_hz:.1f} s", where=path)
    if _without_mean(path)[1] is None:
        raise InputError.expected("a recording with sound in channel 0", got="silence", where=path)


def _speech_dbov(context: Context, where: str) -> float:
    if context.speech_dbov is None:
        raise InputError.expected("speech, to whose level this is relative", got="none",
                                  where=where)
    return context.speech_dbov


def _short(value: Any) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
