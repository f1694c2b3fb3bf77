"""The label of a window: `silent`, `backchannel` or `floor_take` (DSB-IFEval, appendix C.4).

- `silent`: no model span starts or continues in the window.
- `backchannel`: the first span that starts in the window is, over its whole length, shorter than
  the ceiling. The user always resumes by construction, which is what "without a floor transfer"
  means here, so the label looks at nothing else.
- `floor_take`: everything else, speech that only continues into the window included.

The label needs a ceiling, so it belongs to the decision and not to the measurement. It is `None`
while a longer recording could still change it.
"""

from __future__ import annotations

from enum import StrEnum

from verifiers.measurement import WindowReading


class Label(StrEnum):
    """What the model did in the window."""

    SILENT = "silent"
    BACKCHANNEL = "backchannel"
    FLOOR_TAKE = "floor_take"


def label(reading: WindowReading, ceiling_ns: int) -> Label | None:
    """The label under a ceiling; a span that lasts exactly the ceiling is a `floor_take`."""
    if reading.outside:
        return None
    if reading.first_span_ns is not None:
        if reading.first_span_ns >= ceiling_ns:
            return Label.FLOOR_TAKE
        return None if reading.first_span_cut else Label.BACKCHANNEL
    if not reading.complete:
        return None
    return Label.FLOOR_TAKE if reading.spans_in_window > 0 else Label.SILENT


def silent_begun(reading: WindowReading) -> bool | None:
    """Table 18's other reading of silence: no span *begins* in the window."""
    if reading.outside:
        return None
    if reading.spans_begun > 0:
        return False
    return True if reading.complete else None
