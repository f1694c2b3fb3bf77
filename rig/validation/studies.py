"""The four studies of DSB-IFEval, appendix A: what is asked of an item, what may be answered.

One description serves the page (which fields it shows), the reader of answers (types, bounds) and
the documents. Nothing here depends on a system, a level or a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from verifiers.scene import Action

Study = Literal["h1", "h2", "h3", "audit"]
STUDIES: tuple[Study, ...] = ("h1", "h2", "h3", "audit")

ANNOTATORS: Mapping[Study, int] = {"h1": 5, "h2": 3, "h3": 3, "audit": 1}
"""DSB-IFEval, A.1 to A.3: five, three and three. The audit (A.4) does not say: one, ours."""
H2_PER_ACTION = 40
"""DSB-IFEval, A.2."""
H2_NEAR_SHARE = 0.25
"""DSB-IFEval, A.2: at least 25 % of the sample of a threshold-based action."""
H3_ITEMS = 220
"""DSB-IFEval, A.3."""
H3_L4_SHARE = 0.4
"""L4a and L4b are "oversampled" (A.3) without a number. Ours: 40 %, against 26 % of the cases (270
of 1,038), half of it L4b, of which there are few."""
AUDIT_PER_SYSTEM = 100
"""A.4 gives no number; its table 12 has percentages in whole points, which 100 items give. Ours."""

SPEECH_ACTIONS = (Action.BACKCHANNEL, Action.INTERRUPT, Action.READBACK, Action.TAKE_TURN)
"""Asked also whether what was said serves as the action (A.2)."""
UNTIMED = (str(Action.LISTEN), str(Action.NO_BACKCHANNEL))
"""Answers of H1 that may stay without a time: nothing is to happen."""
LABELS = ("directive-wins", "persona-wins", "balanced", "incoherent")
FIDELITY = ("faithful", "minor", "major")
"""From the mildest on."""
MAX_COMMENT = 1000
"""Ours, in characters."""


@dataclass(frozen=True, slots=True)
class Field:
    """One answer. `choice`: one of `options`, value and label; `number`: within bounds, whole where
    `whole`; `text`: free, never required."""

    name: str
    kind: Literal["choice", "number", "text"]
    label: str
    options: tuple[tuple[str, str], ...] = ()
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    unit: str = ""
    required: bool = True
    waived_by: tuple[str, tuple[str, ...]] | None = None
    """Not required where the named field has one of these values."""

    def facts(self) -> dict[str, Any]:
        """For the page."""
        return {"name": self.name, "kind": self.kind, "label": self.label, "options": self.options,
                "low": self.low, "high": self.high, "whole": self.whole, "unit": self.unit,
                "required": self.required, "waived_by": self.waived_by}

    def problem(self, value: object) -> str | None:
        """Why a value is no answer, or `None`. Numbers are numbers, never text."""
        if self.kind == "number":
            if type(value) not in (int, float) or value != value:  # NaN is not itself
                return f"expected a number, got {value!r:.60}"
            # A comparison takes whole numbers of any length, and infinities; `float()` does not.
            if not self.low <= value <= self.high:  # type: ignore[operator]
                return f"expected {self.low:g} to {self.high:g}, got {value!r:.60}"
            if self.whole and value != int(value):  # type: ignore[call-overload]
                return f"expected a whole number, got {value!r:.60}"
            return None
        if not isinstance(value, str):
            return f"expected text, got {value!r:.60}"
        if self.kind == "text":
            return (None if len(value) <= MAX_COMMENT else
                    f"expected at most {MAX_COMMENT} characters, got {len(value)}")
        names = [name for name, _ in self.options]
        return None if value in names else f"expected one of {', '.join(names)}, got {value!r:.60}"


_TIME_LOW_S, _TIME_HIGH_S = -30.0, 60.0
"""Ours: no scored turn or window is longer."""
_ACTIONS = tuple((str(a), str(a).replace("_", " ").capitalize()) for a in Action)
_COMMENT = Field("comment", "text", "Comment (optional)", required=False)
_SCALE = tuple((str(k), str(k)) for k in range(6))

FIELDS: Mapping[Study, tuple[Field, ...]] = {
    "h1": (
        Field("action", "choice", "In the marked stretch, what should an assistant do that "
              "behaves as this persona would?", _ACTIONS),
        Field("earliest_s", "number", "Earliest fitting moment, seconds from the marked point",
              low=_TIME_LOW_S, high=_TIME_HIGH_S, unit="s", waived_by=("action", UNTIMED)),
        Field("latest_s", "number", "Latest fitting moment, seconds from the marked point",
              low=_TIME_LOW_S, high=_TIME_HIGH_S, unit="s", waived_by=("action", UNTIMED)),
        Field("confidence", "choice", "How sure are you?",
              (("1", "a guess"), ("2", "fairly sure"), ("3", "sure"))),
        _COMMENT),
    "h2": (
        Field("met", "choice", "Is the criterion met?", (("yes", "yes"), ("no", "no"))),
        Field("functional", "choice", "Does what the agent says there serve as this action?",
              (("yes", "yes"), ("no", "no"), ("no_speech", "it says nothing there"))),
        _COMMENT),
    "h3": (
        Field("register", "choice", "Register: does it speak as somebody in this role speaks? "
              "0 another role or none, 5 this role throughout", _SCALE),
        Field("content", "choice", "Content: does it keep the role's rule and serve the case? "
              "0 breaks it or has nothing to do with the case, 5 keeps it throughout", _SCALE),
        Field("pas", "number", "Persona adherence over all, 0 to 100: 0 nothing of the role, "
              "50 partly, 100 nothing to improve", low=0, high=100, whole=True),
        Field("conflict", "choice", "Which of the two did its words follow?", (
            ("directive-wins", "the directive"), ("persona-wins", "the persona"),
            ("balanced", "parts of both"), ("incoherent", "neither can be made out"))),
        _COMMENT),
    "audit": (
        Field("fidelity", "choice", "How well does the text give what the agent says?", (
            ("faithful", "faithful"), ("minor", "minor discrepancy"),
            ("major", "major discrepancy: the meaning differs"))),
        _COMMENT),
}
"""What may be answered, in the order of the page. `functional` and `conflict` are asked of some
items alone; an item names its fields."""


def fields_of(study: Study, action: str | None = None, *, conflict: bool = False,
              ) -> tuple[str, ...]:
    """The fields that an item is asked about."""
    left_out = set()
    if study == "h2" and action not in SPEECH_ACTIONS:
        left_out.add("functional")
    if study == "h3" and not conflict:
        left_out.add("conflict")
    return tuple(f.name for f in FIELDS[study] if f.name not in left_out)


def missing(study: Study, names: tuple[str, ...], given: Mapping[str, object]) -> tuple[str, ...]:
    """The fields of an item that still want an answer; a range that ends before it begins wants
    another end."""
    out = []
    for field in FIELDS[study]:
        if field.name not in names or not field.required or field.name in given:
            continue
        if field.waived_by is not None and given.get(field.waived_by[0]) in field.waived_by[1]:
            continue
        out.append(field.name)
    earliest, latest = given.get("earliest_s"), given.get("latest_s")
    if isinstance(earliest, int | float) and isinstance(latest, int | float) and earliest > latest:
        out.append("latest_s")
    return tuple(out)
