"""One short session before money is spent: does the system open, hear, answer, on this machine?

The user says one sentence of about three seconds and listens for one reply. What a run relies on
is looked at: the key and the address (the session became ready), the sending rate, the machine's
punctuality, audio that comes back at the rate that the adapter declares and holds speech, the
transcript and the end of the response where the adapter promises them.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from adapters.base import Adapter, CaseHint, SessionConfig
from audio.analysis import analysis_samples
from audio.buffers import Float32
from audio.edges import trim
from audio.errors import InfrastructureError
from audio.resample import resample
from audio.synthesis import DEFAULT_ENGINE, engine
from audio.timebase import ANALYSIS_RATE_HZ, FRAME_NS, NS_PER_S, SESSION_RATE_HZ, n_to_ns, ns_to_s
from audio.vad import VadSettings, speech_spans
from rig.clock import ClockKind, loop_factory, punctual
from rig.flow import FLOODED
from rig.live import LiveDetection
from rig.orchestrator import Played, play
from rig.record import AudioEvent, FaultEvent, ResponseDoneEvent, ResponseStartedEvent, TextEvent
from rig.recorder import certificate
from rig.schedule import Bounds, Plan
from rig.spending import Meter, Spent
from rig.timing import TimingCertificate

SENTENCE = "Hello, this is a short test call. Please answer in one sentence."
PROMPT = "You are on a short test call. Answer the caller in one short sentence."
MIN_PACE = 0.9
"""Audio that takes longer to arrive than to play cannot be heard without breaks. Ours: a tenth is
left for the pauses between responses and the jitter of a network."""
WORDS_PER_S = (1.0, 6.0)
"""Words in a second of speech; conversation has 2 to 4. Outside, transcript or rate is wrong.
Ours."""
MIN_PEAK_DB = -40.0
"""A reply whose loudest sample lies below is all but silent. Ours."""


@dataclass(frozen=True, slots=True)
class Received:
    """The model's audio as it came, and what in it can be judged without ears."""

    audio_s: float
    span_s: float
    """From the arrival of the first sample to the end of the last, had it been played at once."""
    speech_s: float
    peak_db: float | None
    words: int
    rate_hz: int

    @property
    def pace(self) -> float | None:
        """Seconds of audio a second: 1 in real time, more in bursts; `None` without audio."""
        return self.audio_s / self.span_s if self.span_s > 0 else None

    @property
    def words_per_s(self) -> float | None:
        """Words of the transcript a second of detected speech, `None` without text or with less
        than a second of speech."""
        return self.words / self.speech_s if self.words and self.speech_s >= 1.0 else None


@dataclass(frozen=True, slots=True)
class Checked:
    """What the session showed. `problems` is empty when everything a run relies on was there."""

    clock: ClockKind
    failure: str | None
    ready_s: float | None
    frames_n: int
    send_rate_hz: float | None
    timing: TimingCertificate | None
    received: Received | None
    first_audio_s: float | None
    """From the end of the user's sentence to the first audio that came, digital silence apart: some
    systems stream it from the start."""
    responses_started: int
    responses_done: tuple[str, ...]
    text: str
    faults: tuple[str, ...]
    problems: tuple[str, ...]
    spent: Spent = Spent()  # noqa: RUF009 - immutable


@functools.cache
def sentence() -> Float32:
    """The user's sentence, float32 `(n,)` at 24 kHz, spoken by the default engine."""
    speaker = engine(DEFAULT_ENGINE)
    samples = speaker.synthesize(SENTENCE, speaker.voices()[0], 1)
    trimmed, _ = trim(resample(samples, speaker.sample_rate_hz, SESSION_RATE_HZ), SESSION_RATE_HZ)
    return trimmed


def check(adapter: Adapter, clock: ClockKind, wait_s: float) -> Checked:
    """Play the session, waiting at most `wait_s` for the reply."""
    spoken = sentence()
    # The second turn is empty: the session ends when the reply to the first has.
    plan = Plan(turn1=spoken, turn2=np.zeros(0, dtype=np.float32), window_end_s=0.0)
    bounds = Bounds(turn1_reply_s=wait_s, settle_s=0.0, tail_s=0.0, turn2_reply_s=0.0,
                    trailing_s=0.5)
    hint = CaseHint("TAKE_TURN", 0.0, 3.0, 0.0, None, barge_in=False)
    config = SessionConfig("check", 1, PROMPT, 1, adapter.settings,
                           hint if adapter.capabilities.wants_hint else None)

    meter = Meter()

    async def once() -> Played:
        if clock == "virtual":
            return await play(plan, adapter, config, vad=VadSettings(), bounds=bounds,
                              meter=meter)
        with LiveDetection() as live, punctual():
            return await play(plan, adapter, config, vad=VadSettings(), bounds=bounds, live=live,
                              meter=meter)

    try:
        with asyncio.Runner(loop_factory=loop_factory(clock)) as runner:
            played = runner.run(once())
    except InfrastructureError as error:
        return Checked(clock, str(error), None, 0, None, None, None, None, 0, (), "", (),
                       (str(error),), meter.spent)
    return replace(_judged(adapter, clock, played), spent=meter.spent)


def _judged(adapter: Adapter, clock: ClockKind, played: Played) -> Checked:
    rate_hz = adapter.capabilities.output_rate_hz
    user_end_ns = n_to_ns(played.turn1_end_n, SESSION_RATE_HZ)
    timing = certificate(played, rate_hz, None)
    text = "".join(e.text for e in played.events if isinstance(e, TextEvent))
    arrivals = [e for e in played.events if isinstance(e, AudioEvent)]
    received = _received(played, arrivals, text, rate_hz)
    first_ns = next((e.t_ns for e, samples in zip(arrivals, played.received, strict=True)
                     if samples.any()), None)
    frames_n = len(played.late_ns)
    took_ns = frames_n * FRAME_NS + played.late_ns[-1] - played.late_ns[0]
    checked = Checked(
        clock=clock, failure=None, ready_s=ns_to_s(played.ready_ns), frames_n=frames_n,
        send_rate_hz=frames_n * NS_PER_S / took_ns, timing=timing, received=received,
        first_audio_s=None if first_ns is None else ns_to_s(first_ns - user_end_ns),
        responses_started=sum(isinstance(e, ResponseStartedEvent) for e in played.events),
        responses_done=tuple(e.status for e in played.events
                             if isinstance(e, ResponseDoneEvent)),
        text=" ".join(text.split()),
        faults=tuple(e.reason for e in played.events if isinstance(e, FaultEvent)), problems=())
    return replace(checked, problems=tuple(_problems(adapter, checked)))


def _received(played: Played, arrivals: Sequence[AudioEvent], text: str, rate_hz: int) -> Received:
    if not arrivals:
        return Received(0.0, 0.0, 0.0, None, len(text.split()), rate_hz)
    samples = np.concatenate(played.received)
    peak = float(np.abs(samples).max())
    spans = speech_spans(analysis_samples(samples, rate_hz), VadSettings())
    span_ns = arrivals[-1].t_ns - arrivals[0].t_ns + n_to_ns(arrivals[-1].n, rate_hz)
    return Received(
        audio_s=len(samples) / rate_hz, span_s=ns_to_s(span_ns),
        speech_s=spans.total / ANALYSIS_RATE_HZ,
        peak_db=None if peak == 0 else 20 * float(np.log10(peak)),
        words=len(text.split()), rate_hz=rate_hz)


def _problems(adapter: Adapter, checked: Checked) -> list[str]:
    """Everything that a run would stumble over, in words."""
    found: list[str] = []
    can, got, timing = adapter.capabilities, checked.received, checked.timing
    assert got is not None
    assert timing is not None
    if timing.void:
        whose = ("the system floods the rig" if FLOODED in (timing.void_reason or "")
                 else "this machine did not keep time")
        found.append(f"{whose}: {timing.void_reason}; sessions like this are void and played "
                     "again")
    if got.audio_s == 0:
        found.append("no audio came back")
        return found
    if got.speech_s == 0:
        found.append(f"{got.audio_s:.1f} s of audio came back and no speech was found in it: "
                     "expected a voice (a tone, a beep or music is no speech to the detector) at "
                     f"{got.rate_hz} Hz (another rate makes a voice unrecognisable)")
    if got.peak_db is None or got.peak_db < MIN_PEAK_DB:
        level = "zero" if got.peak_db is None else f"{got.peak_db:.0f} dB of full scale"
        found.append(f"the reply is all but silent: its peak is {level}")
    if got.pace is not None and got.pace < MIN_PACE and can.reports_response_done \
            and checked.responses_started <= 1:
        found.append(f"audio came slower than it plays, {got.pace:.2f} s a second: it breaks up, "
                     f"or its rate is not {got.rate_hz} Hz")
    rate, whole = got.words_per_s, checked.responses_started == len(checked.responses_done)
    if rate is not None and whole and not WORDS_PER_S[0] <= rate <= WORDS_PER_S[1]:
        found.append(f"{rate:.1f} words a second of speech, expected "
                     f"{WORDS_PER_S[0]:g} to {WORDS_PER_S[1]:g}: transcript or rate is wrong")
    if can.transcript != "none" and got.words == 0:
        found.append(f"no transcript came, expected one ({can.transcript})")
    if can.reports_response_done and not checked.responses_done:
        found.append("no end of a response was reported, expected one")
    return found
