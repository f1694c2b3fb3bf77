"""The session record: everything needed to score a session again without the model."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from audio.resample import RATE_MAX_HZ, RATE_MIN_HZ
from probes.manifest import ActionName, Params, WindowSpec
from rig.playout import Arrival, Interruption
from rig.timing import TimingCertificate


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AudioEvent(_Model):
    """`n` samples of model audio arrived at `t_ns`."""

    kind: Literal["audio_received"] = "audio_received"
    seq: int
    t_ns: int
    n: int
    response_id: str | None = None


class TextEvent(_Model):
    kind: Literal["text"] = "text"
    seq: int
    t_ns: int
    text: str
    response_id: str | None = None
    received_n: int
    """Samples of model audio that had arrived when the text did."""
    audio_n: int | None = Field(None, ge=0)
    """Sample of the received audio at which the text begins, where the system said so."""


class ResponseStartedEvent(_Model):
    kind: Literal["response_started"] = "response_started"
    seq: int
    t_ns: int
    response_id: str


class ResponseDoneEvent(_Model):
    kind: Literal["response_done"] = "response_done"
    seq: int
    t_ns: int
    response_id: str
    status: str


class InterruptedEvent(_Model):
    kind: Literal["interrupted"] = "interrupted"
    seq: int
    t_ns: int
    response_id: str | None = None


class StateEvent(_Model):
    kind: Literal["state"] = "state"
    seq: int
    t_ns: int
    name: str
    detail: str = ""


class FaultEvent(_Model):
    kind: Literal["fault"] = "fault"
    seq: int
    t_ns: int
    severity: Literal["infrastructure", "transparent"]
    reason: str


class UserEvent(_Model):
    """A moment of the schedule: `turn1_start`, `turn1_end`, `turn2_start`, `turn2_end`, `end`."""

    kind: Literal["user"] = "user"
    seq: int
    t_ns: int
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
    frames_n: int = Field(ge=0)


class PlayedTurn(_Model):
    """A user turn as played: position on the session's 24 kHz track."""

    name: Literal["turn1", "turn2"]
    audio_sha256: str
    onset_n: int
    end_n: int
    speech_n: tuple[tuple[int, int], ...]
    """Speech segments from construction, absolute, `[start, end)`."""
    texts: tuple[str, ...] = ()
    """What each of them says; none in records of before."""


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

    turn2_onset_s: float
    scored: WindowSpec
    alternates: dict[str, WindowSpec]
    user_offset_s: float
    readback_from_s: float | None


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
    recorded_n: int
    turns: tuple[PlayedTurn, ...]
    windows: Windows
    barge_in_model_onset_s: float | None
    flags: tuple[str, ...]
    events: tuple[Event, ...]
    stereo: AudioFile
    arrivals: AudioFile | None
    """`None` when no audio was received."""
    timing: TimingCertificate
    line: LineRecord | None = None
    """`None` without line conditions, and in records of before."""

    def arrival_list(self) -> list[Arrival]:
        """The arrival log in order."""
        return [Arrival(e.t_ns, e.n, e.response_id) for e in self.events
                if isinstance(e, AudioEvent)]

    def interruptions(self) -> list[Interruption]:
        """Every signal that voids what is queued."""
        return [Interruption(e.t_ns, e.response_id) for e in self.events
                if isinstance(e, InterruptedEvent)]
