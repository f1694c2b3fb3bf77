"""The session record: everything needed to score a session again without the model."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from audio.resample import RATE_MAX_HZ, RATE_MIN_HZ
from probes.manifest import ActionName, Params, WindowSpec
from rig.playout import Arrival, Interruption
from rig.schedule import FRAME_N
from rig.timing import TimingCertificate

MAX_RECORDED_N = (0xFFFFFFFF - 36) // 4
"""Samples of the longest session: a stereo WAV file of 16 bits holds no more (12 h)."""
MAX_FILE_N = 2**36 - 1
"""Samples that a FLAC file can tell of (RFC 9639)."""
MAX_T_NS = 2**52
"""Up to here seconds are exact (`audio.timebase`): 52 days."""
MAX_T_S = MAX_T_NS / 1e9

TimeNs = Annotated[int, Field(ge=-MAX_T_NS, le=MAX_T_NS)]
TimeS = Annotated[FiniteFloat, Field(ge=-MAX_T_S, le=MAX_T_S)]
RecordedN = Annotated[int, Field(ge=0, le=MAX_RECORDED_N)]
FileN = Annotated[int, Field(ge=0, le=MAX_FILE_N)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AudioEvent(_Model):
    """`n` samples of model audio arrived at `t_ns`."""

    kind: Literal["audio_received"] = "audio_received"
    seq: int
    t_ns: TimeNs
    n: FileN
    response_id: str | None = None


class TextEvent(_Model):
    kind: Literal["text"] = "text"
    seq: int
    t_ns: TimeNs
    text: str
    response_id: str | None = None
    received_n: FileN
    """Samples of model audio that had arrived when the text did."""
    audio_n: int | None = Field(None, ge=0)
    """Sample of the received audio at which the text begins, where the system said so."""


class ResponseStartedEvent(_Model):
    kind: Literal["response_started"] = "response_started"
    seq: int
    t_ns: TimeNs
    response_id: str


class ResponseDoneEvent(_Model):
    kind: Literal["response_done"] = "response_done"
    seq: int
    t_ns: TimeNs
    response_id: str
    status: str


class InterruptedEvent(_Model):
    kind: Literal["interrupted"] = "interrupted"
    seq: int
    t_ns: TimeNs
    response_id: str | None = None


class StateEvent(_Model):
    kind: Literal["state"] = "state"
    seq: int
    t_ns: TimeNs
    name: str
    detail: str = ""


class FaultEvent(_Model):
    kind: Literal["fault"] = "fault"
    seq: int
    t_ns: TimeNs
    severity: Literal["infrastructure", "transparent"]
    reason: str


class UserEvent(_Model):
    """A moment of the schedule: `turn1_start`, `turn1_end`, `turn2_start`, `turn2_end`, `end`."""

    kind: Literal["user"] = "user"
    seq: int
    t_ns: TimeNs
    name: str


Event = Annotated[
    AudioEvent | TextEvent | ResponseStartedEvent | ResponseDoneEvent | InterruptedEvent
    | StateEvent | FaultEvent | UserEvent,
    Field(discriminator="kind"),
]


class AudioFile(_Model):
    path: str
    sha256: str
    rate_hz: int = Field(ge=RATE_MIN_HZ, le=RATE_MAX_HZ)
    frames_n: FileN


class PlayedTurn(_Model):
    """A user turn as played: position on the session's 24 kHz track."""

    name: Literal["turn1", "turn2"]
    audio_sha256: str
    onset_n: RecordedN
    end_n: RecordedN
    speech_n: tuple[tuple[RecordedN, RecordedN], ...]
    """Speech segments from construction, absolute, `[start, end)`."""
    texts: tuple[str, ...] = ()
    """What each of them says; none in records of before."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        edges = [self.onset_n, *(n for segment in self.speech_n for n in segment), self.end_n]
        if edges != sorted(edges):
            raise ValueError(f"expected speech in order between onset_n and end_n, got {edges[:8]}")
        return self


class AdapterFacts(_Model):
    name: str
    version: str
    settings: dict[str, Any]
    capabilities: dict[str, Any]


class CaseFacts(_Model):
    """The case as it was played; what scoring needs of it."""

    conversation_id: str
    stream_id: str
    role: str
    probe: str
    probe_id: str
    level: str
    expected_action: ActionName
    params: Params
    target_text: str | None


class Windows(_Model):
    """Seconds on the session clock, computed when recorded."""

    turn2_onset_s: TimeS
    scored: WindowSpec
    alternates: dict[str, WindowSpec]
    user_offset_s: TimeS
    readback_from_s: TimeS | None

    @model_validator(mode="after")
    def _have_a_length(self) -> Self:
        for name, window in {"scored": self.scored, **self.alternates}.items():
            if not -MAX_T_S <= window.start_s < window.end_s <= MAX_T_S:
                raise ValueError(f"expected a window that ends after it starts, within "
                                 f"{MAX_T_S:.0f} s, got {name} [{window.start_s}, {window.end_s})")
        return self


class LineRecord(_Model):
    """The line conditions of a session, and what the system was sent because of them."""

    conditions: dict[str, dict[str, Any]]
    """By kind, as in run.json."""
    achieved: dict[str, float | int | None]
    """Measured on this session: `speech_dbov`, `snr_db`, `lost` of `packets`, ..."""
    sent: AudioFile
    """What was sent, at the system's input rate. Channel 0 of the stereo recording stays clean."""


class SessionRecord(_Model):
    schema_version: Literal[1] = 1
    case_id: str
    trial: int
    case: CaseFacts
    adapter: AdapterFacts
    clock: Literal["virtual", "real"]
    seed: int
    rate_hz: Literal[24000] = 24000
    recorded_n: RecordedN
    turns: tuple[PlayedTurn, ...]
    windows: Windows
    barge_in_model_onset_s: TimeS | None
    flags: tuple[str, ...]
    events: tuple[Event, ...]
    stereo: AudioFile
    arrivals: AudioFile | None
    """`None` when no audio was received."""
    timing: TimingCertificate
    line: LineRecord | None = None
    """`None` without line conditions, and in records of before."""

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        """What was recorded lasts as long as the session, what was sent no longer than that."""
        if self.stereo.frames_n != self.recorded_n:
            raise ValueError(f"expected stereo.frames_n to be recorded_n, {self.recorded_n}, got "
                             f"{self.stereo.frames_n}")
        numbers = {**dict(self.timing), **dict(self.timing.peer or ())}
        for name, value in numbers.items():
            if isinstance(value, float | int) and not abs(value) <= MAX_T_NS:  # nor NaN
                raise ValueError(f"expected timing.{name} as a number of at most {MAX_T_NS}, got "
                                 f"{str(value)[:40]}")
        frames_n = self.recorded_n // FRAME_N
        if not 0 <= self.timing.frames_n <= frames_n + 1:
            raise ValueError(f"expected timing.frames_n of 0 to the {frames_n} frames recorded, "
                             f"got {self.timing.frames_n}")
        if self.line is not None:
            sent = self.line.sent
            if sent.frames_n * self.rate_hz > (self.recorded_n + self.rate_hz) * sent.rate_hz:
                raise ValueError(f"expected line.sent.frames_n of at most the {frames_n} frames of "
                                 f"20 ms at {sent.rate_hz} Hz, got {sent.frames_n}")
        return self

    def arrival_list(self) -> list[Arrival]:
        """The arrival log in order."""
        return [Arrival(e.t_ns, e.n, e.response_id) for e in self.events
                if isinstance(e, AudioEvent)]

    def interruptions(self) -> list[Interruption]:
        """Every signal that voids what is queued."""
        return [Interruption(e.t_ns, e.response_id) for e in self.events
                if isinstance(e, InterruptedEvent)]
