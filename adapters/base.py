"""What every system under test looks like to the rig.

A session is used once: `async with adapter.session(config, clock) as session` connects, waits
until the system is ready, and closes; in between the rig calls `send` with one 20 ms frame of
user audio per tick and reads `events()`. The clock starts at zero when the session is ready.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from audio.buffers import Float32


class Clock(Protocol):
    """Time as an adapter may see it: integer nanoseconds since the session clock started."""

    @property
    def kind(self) -> Literal["virtual", "real"]: ...

    @property
    def origin_ns(self) -> int | None:
        """Zero as a reading of `time.perf_counter_ns`; `None` in virtual time."""
        ...

    def now_ns(self) -> int: ...

    async def sleep_until(self, t_ns: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a system can do. A missing pathway marks its cases `architecture_constrained`."""

    full_duplex: bool
    persona_prompt: bool
    server_vad: bool = False
    realtime_only: bool = False
    virtual_only: bool = False
    input_rate_hz: int = 24_000
    output_rate_hz: int = 24_000
    reports_response_done: bool = False
    reports_interruption: bool = False
    wants_hint: bool = False
    """Oracle agents only: the session is told the expected action (`CaseHint`)."""
    heard_behind_ms: int = 0
    """Audio may be stamped this much before it is given (a sound card's round trip is taken off):
    live detection knows nothing of the time since."""
    transcript: Literal["none", "response", "stream"] = "none"
    """`response`: text belongs to a response and is spread over its audio; `stream`: text is
    tied to the audio received when it arrived; `none`: the system gives no text."""


@dataclass(frozen=True, slots=True)
class CaseHint:
    """What the oracle agents are told, and no other system: the case's expected action.

    Window and target only; nothing of the verifiers. Times are seconds from the onset of turn 2.
    """

    expected_action: str
    window_start_s: float
    window_end_s: float
    user_offset_s: float
    target_text: str | None
    barge_in: bool


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """One session. `seed` is derived from case id and trial, so order never matters."""

    case_id: str
    trial: int
    system_prompt: str
    seed: int
    settings: dict[str, Any] = field(default_factory=dict)
    hint: CaseHint | None = None


@dataclass(frozen=True, slots=True)
class AudioReceived:
    """Model audio as it arrived: float32 `(n,)` at the adapter's output rate."""

    t_ns: int
    samples: Float32
    response_id: str | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the model's own transcript.

    `audio_n`: the sample of all received audio at which it begins, where the system says so; it may
    lie far before what arrived last.
    """

    t_ns: int
    text: str
    response_id: str | None = None
    audio_n: int | None = None


@dataclass(frozen=True, slots=True)
class ResponseStarted:
    t_ns: int
    response_id: str


@dataclass(frozen=True, slots=True)
class ResponseDone:
    """`status` is the system's own word, for instance `completed`, `cancelled`, `incomplete`."""

    t_ns: int
    response_id: str
    status: str = "completed"


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The system says that what is queued should no longer be heard (flush)."""

    t_ns: int
    response_id: str | None = None


@dataclass(frozen=True, slots=True)
class StateChanged:
    """Anything worth keeping in the log that changes nothing, unknown events included."""

    t_ns: int
    name: str
    detail: str = ""


PEER_FRAMES = "peer_frames"
"""Name of a `StateChanged` in which a peer on this machine says when it received user frames:
`detail` is JSON, `{"first": k, "received_ns": [...]}`, readings of `time.perf_counter_ns` for
frames k, k+1, ... They go into the timing certificate."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Trouble. `infrastructure` ends the case as `infra_error`; `transparent` is only counted.

    `hopeless`: another try can only end in the same way. `throttled`: the provider asks for fewer
    sessions, or for none until `retry_after_s` have passed.
    """

    t_ns: int
    severity: Literal["infrastructure", "transparent"]
    reason: str
    hopeless: bool = False
    throttled: bool = False
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Throttled:
    """The provider lets nothing new begin for `wait_s`; this session goes on."""

    t_ns: int
    wait_s: float
    reason: str


AgentEvent = (
    AudioReceived | TextDelta | ResponseStarted | ResponseDone | Interrupted | StateChanged | Fault
    | Throttled
)


class Session(Protocol):
    """A live conversation with one system."""

    async def send(self, frame: Float32) -> None:
        """Give the system one frame of user audio, float32 `(n,)` at its input rate."""
        ...

    def events(self) -> AsyncIterator[AgentEvent]:
        """Everything the system does, in order of arrival; ends when the session is over."""
        ...

    def cue(self, name: str) -> None:
        """A moment of the schedule (`turn1_start`, `turn1_end`, `turn2_start`, `turn2_end`).

        Only oracle agents listen; every other session ignores it.
        """
        ...


@runtime_checkable
class Settling(Protocol):
    """A session that owes answers when the schedule is over, and must be waited for."""

    async def settle(self) -> None: ...


@runtime_checkable
class SlowToOpen(Protocol):
    """An adapter whose sessions may take long to begin: a model is loaded."""

    @property
    def opening_s(self) -> float: ...


@runtime_checkable
class Cautioned(Protocol):
    """An adapter whose name, version and settings may not tell all of what is run."""

    @property
    def caution(self) -> str | None:
        """What they do not tell, in one line."""
        ...


@runtime_checkable
class Identified(Protocol):
    """A session whose system has said what it is, beyond what its settings name: which weights a
    local model has really loaded. All sessions of a run must say the same."""

    @property
    def identity(self) -> dict[str, Any]:
        """Plain JSON, the same in every session of the same system."""
        ...


class Adapter(Protocol):
    """A system under test, configured."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def settings(self) -> dict[str, Any]:
        """Effective settings, defaults filled in, no secrets: part of the fingerprint."""
        ...

    def session(self, config: SessionConfig, clock: Clock) -> AbstractAsyncContextManager[Session]:
        """Open one session."""
        ...
