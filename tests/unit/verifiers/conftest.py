"""A builder of scenes: times in nanoseconds from the start of the window, which lies at 10 s."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from audio.spans import Spans
from verifiers.decide import verify
from verifiers.measurement import Measurement
from verifiers.scene import Action, CaseParams, Scene, TimedText, Window
from verifiers.thresholds import DEFAULTS, Thresholds
from verifiers.verdict import Verdict

MS = 1_000_000
S = 1000 * MS
W0 = 10 * S


@dataclass(frozen=True)
class Maker:
    """Scenes of one action; the defaults are a 3 s window and a long recording."""

    action: Action

    def scene(self, *model: tuple[int, int], user: tuple[tuple[int, int], ...] = ((-8 * S, 9 * S),),
              length: int = 3 * S, recorded: int = 10 * S, shift: int = 0,
              says: tuple[tuple[int, str], ...] | None = None, **fields: Any) -> Scene:
        params = {name: fields.pop(name) for name in CaseParams.__dataclass_fields__
                  if name in fields}
        alternates = tuple((name, Window(W0 + a, W0 + b))
                           for name, (a, b) in fields.pop("alternates", {}).items())
        for name in ("user_offset_ns", "readback_from_ns"):
            if name in fields:
                fields[name] += W0 + shift
        at = W0 + shift
        if "wordless" in fields:
            fields["wordless"] = Spans(fields["wordless"]).shift(at)
        return Scene(
            expected_action=self.action, window=Window(at, at + length),
            model=Spans(tuple((a + at, b + at) for a, b in model)),
            user=Spans(tuple((a + at, b + at) for a, b in user)), recorded_ns=recorded + at,
            params=CaseParams(**params), alternates=alternates,
            transcript=None if says is None else tuple(
                TimedText(text, t + at, t + at + 1) for t, text in says), **fields)

    def judge(self, *model: tuple[int, int], thresholds: Thresholds = DEFAULTS,
              **fields: Any) -> tuple[Measurement, Verdict]:
        return verify(self.scene(*model, **fields), thresholds)

    def outcome(self, *model: tuple[int, int], **fields: Any) -> str:
        return str(self.judge(*model, **fields)[1].outcome)

    def reason(self, *model: tuple[int, int], **fields: Any) -> str:
        return self.judge(*model, **fields)[1].reason

    def flags(self, *model: tuple[int, int], **fields: Any) -> tuple[str, ...]:
        return self.judge(*model, **fields)[1].flags


@pytest.fixture
def make():
    """`make("YIELD").outcome((start, end), ...)`."""
    return lambda action: Maker(Action(action))
