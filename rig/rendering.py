"""Lets a suite be spoken by any engine of `audio.synthesis`; small enough to send to workers."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from audio import aligners, synthesis
from audio.aligners import DEFAULT_ALIGNER
from audio.synthesis import RenderedSegment
from rig.speech_post import PatientPost

Settings = tuple[tuple[str, str], ...]
"""Names and values, as `audio.engines` lists them."""


@functools.cache
def _engine(name: str, settings: Settings = ()) -> synthesis.Engine:
    return synthesis.engine(name, dict(settings), post=PatientPost())


@functools.cache
def _aligner(name: str, weights: str | None) -> aligners.Aligner:
    return aligners.aligner(name, weights)


@dataclass(frozen=True, slots=True)
class EngineRenderer:
    """Implements `probes.segments.SegmentRenderer`. Holds names; each process loads its own.

    With `voice` every conversation is spoken by that one.
    """

    name: str
    voice: str | None = None
    settings: Settings = ()
    aligner_name: str = DEFAULT_ALIGNER
    aligner_weights: str | None = None

    @property
    def engine(self) -> Mapping[str, str]:
        return {**_engine(self.name, self.settings).facts(),
                **synthesis.construction_facts(self.name)}

    @property
    def aligner(self) -> Mapping[str, str]:
        return _aligner(self.aligner_name, self.aligner_weights).facts()

    @property
    def voices(self) -> tuple[str, ...]:
        return _engine(self.name, self.settings).voices() if self.voice is None else (self.voice,)

    def require_voice(self) -> None:
        """Raises `InputError`, before anything is rendered, where engine or aligner cannot be made
        as they are set, or the engine has no such voice."""
        speech = _engine(self.name, self.settings)
        _aligner(self.aligner_name, self.aligner_weights)
        if self.voice is not None and self.voice not in speech.voices():
            speech.synthesize("Hello.", self.voice, 0)

    def render(self, text: str, voice: str, seed: int) -> RenderedSegment:
        return synthesis.render_segment(
            text, _engine(self.name, self.settings), voice, seed,
            aligner=_aligner(self.aligner_name, self.aligner_weights))
