"""A built suite on disk: what the orchestrator plays and the scorer reads.

    SUITE_DIR/suite.json        one `SuiteInfo`
    SUITE_DIR/cases.jsonl       one `Case` a line, in planned order
    SUITE_DIR/streams.jsonl     one `Stream` a line: the user's side of a conversation
    SUITE_DIR/audio/*.wav       24 kHz mono PCM16, one file a turn

Times of a case are seconds relative to the onset of turn 2, from construction metadata, never
from the waveform. Media positions of a stream are sample indices at 24 kHz within their turn.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1

ActionName = Literal[
    "LISTEN", "TAKE_TURN", "BACKCHANNEL", "YIELD", "INTERRUPT", "READBACK", "NO_BACKCHANNEL",
    "ACCEPT_OVERLAP", "CONTINUE",
]
LevelName = Literal["L0", "L1", "L2", "L3", "L4a", "L4b"]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class WindowSpec(_Model):
    """`[start_s, end_s)` relative to the onset of turn 2."""

    start_s: float
    end_s: float


class Params(_Model):
    """Per-case overrides of verifier thresholds; absent means the default holds."""

    max_wait_s: float | None = None
    max_latency_ms: float | None = None
    ceiling_s: float | None = None
    max_spans: int | None = None
    min_coverage: float | None = None


class Delivery(_Model):
    """How turn 2 is scheduled: after the reply to turn 1, or as a barge-in.

    A barge-in starts `barge_in_after_s` after the model's heard onset.
    """

    mode: Literal["take_turn", "barge_in"]
    barge_in_after_s: float | None = None


class Case(_Model):
    """One conversation x role x level (id: `ROLE-PROBE-INSTANCE-LEVEL`)."""

    schema_version: Literal[1] = 1
    case_id: str
    conversation_id: str
    stream_id: str
    role: str
    probe: str
    probe_id: str
    instance: int
    level: LevelName
    expected_action: ActionName
    system_prompt: str
    params: Params = Params()
    delivery: Delivery
    window: WindowSpec
    alternate_windows: dict[str, WindowSpec] = {}
    user_offset_s: float
    target_text: str | None = None
    readback_from_s: float | None = None
    contradiction: str | None = None
    """L4 only: the target that the directive asks for (L4a) or `safety_ROLE_PROBE` (L4b)."""


class Word(_Model):
    """A forced-aligned word; seconds from the start of its turn."""

    word: str
    start_s: float
    end_s: float


class SegmentAudio(_Model):
    """One rendered segment of a turn: `[start_n, end_n)` samples at 24 kHz."""

    kind: Literal["speech", "silence"]
    name: str
    start_n: int
    end_n: int
    text: str | None = None
    words: tuple[Word, ...] = ()
    alignment: Literal["forced", "uniform", "none"] = "none"


class TurnAudio(_Model):
    """One rendered turn."""

    path: str
    audio_sha256: Sha256
    duration_n: int
    segments: tuple[SegmentAudio, ...]


class Stream(_Model):
    """The user's side of one conversation, rendered once and shared by every case that uses it.

    `construction_sha256` covers the texts, silences, voice and rendering settings, and holds
    across machines; `audio_sha256` of a turn covers its samples and holds on one machine.
    """

    schema_version: Literal[1] = 1
    stream_id: str
    engine: str
    voice: str
    construction_sha256: Sha256
    turn1: TurnAudio
    turn2: TurnAudio


class SuiteInfo(_Model):
    """What was built, with what, from what."""

    schema_version: Literal[1] = 1
    suite: str
    suite_version: str
    sample_rate_hz: Literal[24000] = 24000
    engine: dict[str, str]
    aligner: dict[str, str]
    construction_sha256: Sha256
    n_cases: int
    n_conversations: int
    n_streams: int
    mean_conversation_s: float
    notes: tuple[str, ...] = ()
