"""What a verifier is given: one case as spans, a window, parameters and a transcript.

All times are integer nanoseconds on the session clock, all intervals half-open. A scene says
nothing about thresholds and nothing about what an agent meant to do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from audio.spans import Spans
from audio.timebase import NS_PER_MS

MERGE_GAP_NS = 300 * NS_PER_MS
"""Speech spans less than 0.3 s apart are one (DSB-IFEval, appendix C.2)."""


class Action(StrEnum):
    """The nine floor-management actions (DSB-IFEval, table 13)."""

    LISTEN = "LISTEN"
    TAKE_TURN = "TAKE_TURN"
    BACKCHANNEL = "BACKCHANNEL"
    YIELD = "YIELD"
    INTERRUPT = "INTERRUPT"
    READBACK = "READBACK"
    NO_BACKCHANNEL = "NO_BACKCHANNEL"
    ACCEPT_OVERLAP = "ACCEPT_OVERLAP"
    CONTINUE = "CONTINUE"


CORE_ACTIONS = (Action.LISTEN, Action.READBACK, Action.TAKE_TURN, Action.YIELD)
"""The four actions of the published headline number (`ias_core`; DSB-IFEval, tables 3a and 5)."""


@dataclass(frozen=True, slots=True)
class Window:
    """The scored stretch `[start_ns, end_ns)` of the session clock."""

    start_ns: int
    end_ns: int

    def __post_init__(self) -> None:
        if self.start_ns >= self.end_ns:
            raise ValueError(f"window must end after it starts, got nanoseconds [{self.start_ns}, "
                             f"{self.end_ns})")


@dataclass(frozen=True, slots=True)
class CaseParams:
    """Per-case overrides of the default thresholds; `None` means the default holds."""

    max_wait_s: float | None = None
    max_latency_ms: float | None = None
    ceiling_s: float | None = None
    max_spans: int | None = None
    min_coverage: float | None = None


@dataclass(frozen=True, slots=True)
class TimedText:
    """Words of the model and when they were heard on the chosen playout."""

    text: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Scene:
    """One case, ready to be measured.

    `model` and `user` are merged speech spans in nanoseconds. `recorded_ns` is where the
    recording ends. `transcript` is `None` when the system gives none, and empty when it said
    nothing; `wordless` is where audio was heard whose words never came. `readback_from_ns` is the
    moment from which words count as a read-back.
    `user_offset_ns` is the end of the user's scored turn; `alternates` names further windows
    that are reported beside the scored one (`during_turn2`, `interrupt_reading`, ...).
    `forced` is a barge-in that was injected without a model onset. `merge_gap_ns` is the gap
    with which the spans were merged: a span that ends nearer than this to the end of the
    recording may have gone on.
    """

    expected_action: Action
    window: Window
    model: Spans
    user: Spans
    recorded_ns: int
    params: CaseParams = field(default_factory=CaseParams)
    target_text: str | None = None
    transcript: tuple[TimedText, ...] | None = None
    wordless: Spans = Spans()  # noqa: RUF009 - immutable
    readback_from_ns: int | None = None
    user_offset_ns: int | None = None
    alternates: tuple[tuple[str, Window], ...] = ()
    forced: bool = False
    merge_gap_ns: int = MERGE_GAP_NS
