"""The reason that every verifier gives where the recording is too short to decide."""

from __future__ import annotations

from verifiers.measurement import RECORD_BEYOND_NS, WindowReading
from verifiers.verdict import text_s


def ends_early(reading: WindowReading, open_: str) -> str:
    """`open_`: after which moment of the window the end is counted, and what was not settled."""
    # Without its second half a recording that ends just there would seem to be long enough.
    return (f"the recording ends {text_s(reading.recorded_ns)} {open_}; what is absent shows only "
            f"up to {text_s(RECORD_BEYOND_NS)} before its end")
