"""`scores.json` and `measurements.jsonl`: what scoring leaves behind for people and machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from audio.files import atomic_write_text
from audio.timebase import ns_to_s
from audio.vad import VadSettings
from rig.ledger import dumps, read
from rig.playout import Policy
from rig.scoring import (
    Measured,
    attempt_counts,
    playout_differences,
    timeline_row,
    verdict_of,
)
from rig.sent import condition_texts
from rig.store import RunFolder
from sweeps.aggregate import Row, ias, latency
from verifiers.decide import decide_alternates, measured
from verifiers.record import to_json
from verifiers.thresholds import Thresholds, effective_limits
from verifiers.verdict import Verdict

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Scored:
    """A measured case and its verdict."""

    row: Measured
    verdict: Verdict


def decide_all(rows: Iterable[Measured], thresholds: Thresholds, playout: Policy) -> list[Scored]:
    """Verdicts of one playout."""
    return [Scored(row, verdict_of(row, thresholds)) for row in rows if row.playout == playout]


def scores_document(
    scored: Sequence[Scored], *, thresholds: Thresholds, vad: VadSettings, playout: Policy,
    differences: Sequence[dict[str, Any]] = (), attempts: dict[str, int] | None = None,
    attempts_n: int = 0, conditions: Sequence[str] = (),
) -> dict[str, Any]:
    """The contract's `scores.json`, and what else a reader needs to trust it."""
    rows = [_aggregate_row(s) for s in scored]
    flags = Counter(flag for s in scored for flag in all_flags(s))
    return {
        "schema_version": SCHEMA_VERSION,
        "cases": [_case(s, thresholds) for s in scored],
        "ias": ias(rows),
        "latency": latency(rows),
        "flags": dict(sorted(flags.items())),
        "playout": playout,
        "playout_differences": list(differences),
        "attempts": attempts or {},
        "attempts_n": attempts_n,
        "conditions": list(conditions),
        "thresholds": asdict(thresholds),
        "vad": vad.facts(),
    }


def all_flags(scored: Scored) -> tuple[str, ...]:
    """Flags of the session and of the verdict."""
    return tuple(sorted({*scored.row.flags, *scored.verdict.flags}))


def _aggregate_row(scored: Scored) -> Row:
    identity = scored.row.identity
    return Row(action=identity.expected_action, level=identity.level, role=identity.role,
               verdict=scored.verdict, measurement=scored.row.measurement,
               flags=all_flags(scored))


def _case(scored: Scored, thresholds: Thresholds) -> dict[str, Any]:
    identity, verdict = scored.row.identity, scored.verdict
    out: dict[str, Any] = {
        "case_id": identity.case_id, "trial": identity.trial, "role": identity.role,
        "probe": identity.probe, "level": identity.level,
        "expected_action": str(identity.expected_action), "outcome": str(verdict.outcome),
        "reason": verdict.reason, "value": verdict.value, "unit": verdict.unit,
        "limit": verdict.limit, "measured": {}, "flags": list(all_flags(scored)),
    }
    measurement = scored.row.measurement
    if measurement is not None:
        action = identity.expected_action
        limits = effective_limits(thresholds, identity.params, action)
        out["measured"] = measured(action, measurement, limits)
        out["alternates"] = {
            name: {"outcome": str(v.outcome), "reason": v.reason}
            for name, v in decide_alternates(action, measurement, thresholds, identity.params)}
    return out


def measurement_lines(rows: Iterable[Measured], vad: VadSettings) -> str:
    """One line a case, trial and playout; a flush row that equals its hold row is left out."""
    lines = []
    for row in rows:
        if row.playout == "flush" and row.same_as_hold:
            continue
        identity = row.identity
        lines.append(dumps({
            "case_id": identity.case_id, "trial": identity.trial, "role": identity.role,
            "probe": identity.probe, "level": identity.level,
            "expected_action": str(identity.expected_action), "params": asdict(identity.params),
            "playout": row.playout, "vad": vad.facts(), "problem": row.problem,
            "flags": list(row.flags),
            "measurement": None if row.measurement is None else to_json(row.measurement),
            **timeline_row(row),
        }))
    return "".join(line + "\n" for line in lines)


def write_scores(run: RunFolder, rows: Sequence[Measured], thresholds: Thresholds,
                 vad: VadSettings, playout: Policy) -> dict[str, Any]:
    """Decide, write both files, give the document."""
    scored = decide_all(rows, thresholds, playout)
    document = scores_document(
        scored, thresholds=thresholds, vad=vad, playout=playout,
        differences=playout_differences(rows, thresholds), attempts=attempt_counts(run),
        attempts_n=len(read(run.ledger_path)),
        conditions=condition_texts(run.read_info().conditions))
    atomic_write_text(run.measurements_path, measurement_lines(rows, vad))
    atomic_write_text(run.scores_path, dumps(document) + "\n")
    return document


def recorded_minutes(rows: Iterable[Measured]) -> float:
    """Minutes of recording behind the rows, each recording once."""
    return sum(ns_to_s(r.recorded_ns) for r in rows if r.playout == "hold") / 60
