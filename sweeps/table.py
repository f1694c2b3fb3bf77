"""Measurements of one system as columns.

Every column is `(n,)` over the rows. What is missing has its own mask (`has_onset`, ...); the
number under it is `MISSING`, which is never read without the mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from verifiers.measurement import RECORD_BEYOND_NS, Measurement
from verifiers.scene import Action, CaseParams

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Strings = npt.NDArray[np.str_]

MISSING = int(np.iinfo(np.int64).max)
"""Filler under a mask: neither 0 nor a time that any recording can have."""

NO_LEVEL = "none"
"""Stands for the level (or role) of a recording that belongs to no suite."""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One measured case and trial of a system."""

    case_id: str
    trial: int
    role: str | None
    level: str | None
    action: str
    params: CaseParams
    measurement: Measurement


@dataclass(frozen=True, slots=True)
class MeasurementTable:
    """Columns of one system; times in nanoseconds from the start of each case's window."""

    case_ids: Strings
    trials: Ints
    roles: Strings
    levels: Strings
    actions: Strings
    distinct_params: tuple[CaseParams, ...]
    params_index: npt.NDArray[np.intp]
    outside: Bools
    complete: Bools
    length_ns: Ints
    seen_ns: Ints
    spans_in_window: Ints
    has_onset: Bools
    onset_ns: Ints
    first_span_ns: Ints
    first_span_cut: Bools
    held_at_w0: Bools
    has_offset: Bools
    first_offset_ns: Ints
    first_offset_cut: Bools
    overlap_ns: Ints
    has_coverage: Bools
    coverage: npt.NDArray[np.float64]
    readback_heard: Bools

    def __len__(self) -> int:
        return int(self.actions.shape[0])

    def take(self, rows: npt.NDArray[np.intp]) -> MeasurementTable:
        """Some rows, in the order given, with no more overrides than they have."""
        columns = {f.name: getattr(self, f.name)[rows] for f in fields(self)
                   if f.name != "distinct_params"}
        kept, columns["params_index"] = np.unique(columns["params_index"], return_inverse=True)
        return replace(self, distinct_params=tuple(self.distinct_params[i] for i in kept),
                       **columns)

    @classmethod
    def of(cls, rows: Sequence[TableRow]) -> MeasurementTable:
        """Columns from rows; the order is kept. Raises `ValueError` on an unknown action."""
        readings = [row.measurement.scored for row in rows]
        places: dict[CaseParams, int] = {}
        params_index = [places.setdefault(row.params, len(places)) for row in rows]
        readbacks = [row.measurement.readback for row in rows]
        recorded = _ints([reading.recorded_ns for reading in readings])
        length = _ints([reading.length_ns for reading in readings])
        return cls(
            case_ids=_strings([row.case_id for row in rows]),
            trials=_ints([row.trial for row in rows]),
            roles=_strings([row.role or NO_LEVEL for row in rows]),
            levels=_strings([row.level or NO_LEVEL for row in rows]),
            actions=_strings([str(Action(row.action)) for row in rows]),
            distinct_params=tuple(places),
            params_index=np.array(params_index, dtype=np.intp),
            outside=_bools([reading.outside for reading in readings]),
            complete=recorded >= length + RECORD_BEYOND_NS,
            length_ns=length,
            seen_ns=recorded - RECORD_BEYOND_NS,
            spans_in_window=_ints([reading.spans_in_window for reading in readings]),
            has_onset=_bools([reading.onset_ns is not None for reading in readings]),
            onset_ns=_times([reading.onset_ns for reading in readings]),
            first_span_ns=_times([reading.first_span_ns for reading in readings]),
            first_span_cut=_bools([reading.first_span_cut for reading in readings]),
            held_at_w0=_bools([reading.held_at_w0 for reading in readings]),
            has_offset=_bools([reading.first_offset_ns is not None for reading in readings]),
            first_offset_ns=_times([reading.first_offset_ns for reading in readings]),
            first_offset_cut=_bools([reading.first_offset_cut for reading in readings]),
            overlap_ns=_ints([reading.overlap_ns for reading in readings]),
            has_coverage=_bools([found is not None for found in readbacks]),
            coverage=np.array([-1.0 if found is None else found.coverage for found in readbacks],
                              dtype=np.float64),
            readback_heard=_bools([found is not None and found.heard for found in readbacks]),
        )


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _times(values: Sequence[int | None]) -> Ints:
    return _ints([MISSING if value is None else value for value in values])


def _bools(values: Sequence[bool]) -> Bools:
    return np.array(values, dtype=np.bool_)


def _strings(values: Sequence[str]) -> Strings:
    return np.array(values, dtype=np.str_)
