"""The user audio of a run's planned cases: `RUN/streams.jsonl`, a line a stream.

By hash, so that two runs can be compared case by case, whatever else the suites hold that they were
played from; and by word, so that the report can show what was said when. It changes no result and
is not part of the fingerprint; runs of before have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

from audio.files import atomic_write_text
from probes.manifest import Sha256, Stream, TurnAudio, Word
from rig.store import RunFolder, read_jsonl


class TurnWords(BaseModel):
    """The words of a turn, seconds from its start. `alignment` is that of the least sure segment:
    forced (by sound), uniform (spread evenly), none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    alignment: Literal["forced", "uniform", "none"]
    words: tuple[Word, ...]

    @classmethod
    def of(cls, turn: TurnAudio) -> TurnWords:
        """The words of a rendered turn."""
        spoken = [s for s in turn.segments if s.kind == "speech"]
        sureness = ("none", "uniform", "forced")
        least = min((s.alignment for s in spoken), key=sureness.index, default="none")
        return cls(alignment=least, words=tuple(w for s in spoken for w in s.words))


class StreamFacts(BaseModel):
    """What names the user's side of a conversation: how it was made, and the samples of its turns
    (which hold on one machine)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    stream_id: str
    construction_sha256: Sha256
    turn1_sha256: Sha256
    turn2_sha256: Sha256
    turn1_words: TurnWords | None = None
    """`None` in runs of before."""
    turn2_words: TurnWords | None = None

    @classmethod
    def of(cls, stream: Stream) -> StreamFacts:
        """The facts of a stream of a built suite."""
        return cls(stream_id=stream.stream_id, construction_sha256=stream.construction_sha256,
                   turn1_sha256=stream.turn1.audio_sha256, turn2_sha256=stream.turn2.audio_sha256,
                   turn1_words=TurnWords.of(stream.turn1), turn2_words=TurnWords.of(stream.turn2))


def write_streams(run: RunFolder, streams: Iterable[Stream]) -> None:
    """Write the file whole."""
    atomic_write_text(run.streams_path, "".join(
        StreamFacts.of(stream).model_dump_json() + "\n" for stream in streams))


def read_streams(run: RunFolder) -> Mapping[str, StreamFacts] | None:
    """By stream id; `None` for a run of before. Raises `InputError` for a damaged file."""
    if not run.streams_path.exists():
        return None
    return {facts.stream_id: facts for facts in read_jsonl(run.streams_path, StreamFacts)}
