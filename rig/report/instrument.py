"""What the numbers rest on: latencies, the timing of the sessions, and how far the detector of
speech may be off.

Latencies are those of `scores.json`. Timing sums up the certificates in the session records.
Uncertainty of the instrument: how many verdicts lie near their bound (`verifiers.margins`), how
many flip under other settings of the detector (`rig.report.vad_flips`), and the calibration
published in docs/instrument.md, which is not of these runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rig.recount import counted_from
from rig.report.case_margin import case_margin
from rig.report.figures import Cell, Point, Series, Table, dots, interval, percent
from rig.report.loading import ScoredRun
from rig.report.page import Chart, Section, render
from rig.report.session_facts import SessionFacts
from rig.report.sessions import facts_by_run
from rig.report.vad_flips import CALIBRATION_MS, PUBLISHED_FLIPS, RunFlips, vad_flips
from rig.timing import MAX_LATE_NEAR_WINDOW_MS, MAX_P99_LATE_MS, TimingCertificate
from sweeps.instrument import OVERALL, Flips
from sweeps.intervals import wilson
from verifiers.verdict import Outcome

NEAR_S = (0.03, 0.1, 0.3)
"""Distances to a bound that are counted: about what detected onsets and what offsets are off at p95
and 0 dB (docs/instrument.md), and the merge gap."""
SOURCE = "docs/instrument.md"


def section(runs: Sequence[ScoredRun], facts: Sequence[SessionFacts]) -> Section:
    """Tables; with a chart of what flips, where that could be found. `facts` are of every case of
    every run, in their order."""
    by_run = list(facts_by_run(runs, facts))
    flips = [vad_flips(run, own) for run, own in by_run]
    own = [found for found in flips if found.flips]
    return Section("instrument", "Latency, timing, instrument", render(
        "instrument.html.j2", latency=_latency(runs), timing=_timing(by_run), near=_near(runs),
        flips=_flips_table(own), without=[f for f in flips if not f.flips],
        published=None if own else _published(), calibration=_calibration(), source=SOURCE,
        budget=(MAX_P99_LATE_MS, MAX_LATE_NEAR_WINDOW_MS)),
        charts=[_flips_chart(own)] if own else [])


def _latency(runs: Sequence[ScoredRun]) -> Table:
    rows: list[list[Cell]] = [
        [run.name, kind, found["n"], found.get("missing", 0),
         *(None if found[q] is None else f"{found[q]:.0f}" for q in ("p50_ms", "p90_ms", "p99_ms")),
         counted_from(kind, run.scores["cases"])]
        for run in runs for kind, found in run.scores["latency"].items()]
    return Table("Latency, ms. n have it; missing: measured cases of the action that have none (no "
                 "onset, no floor held): a percentile says nothing of them",
                 ["system", "what", "n", "missing", "p50", "p90", "p99", "counts from"], rows,
                 frozenset({1, 7}))


# timing

@dataclass(frozen=True, slots=True)
class Timing:
    """The certificates of one run together: the worst of each, sums where things are counted;
    milliseconds. `None` where no record says it."""

    sessions_n: int
    unreadable_n: int
    frames_n: int
    late_p99_ms: float | None
    late_max_ms: float | None
    late_near_window_ms: float | None
    drift_ppm: tuple[float, float] | None
    user_underruns_n: int
    model_underruns_n: int
    model_underrun_max_ms: float
    peers_n: int
    peer_late_p99_ms: float | None


def timing_of(run: ScoredRun, facts: Sequence[SessionFacts]) -> Timing:
    """From the record of every case that was scored; `facts` are of all cases, in their order."""
    found: list[TimingCertificate] = []
    unreadable = 0
    for case, fact in zip(run.cases, facts, strict=True):
        row = case.row(run.playout)
        if case.case_id not in run.planned or row is None or row.measurement is None:
            continue  # not played: there is no record
        if fact.timing is None:
            unreadable += 1
        else:
            found.append(fact.timing)
    drifts = [t.drift_ppm for t in found if t.drift_ppm is not None]
    peers = [t.peer for t in found if t.peer is not None]
    return Timing(
        len(found), unreadable, sum(t.frames_n for t in found),
        max((t.late_p99_ms for t in found), default=None),
        max((t.late_max_ms for t in found), default=None),
        max((t.late_max_near_window_ms for t in found if t.late_max_near_window_ms is not None),
            default=None),
        (min(drifts), max(drifts)) if drifts else None,
        sum(t.user_underruns_n for t in found), sum(t.model_underruns_n for t in found),
        max((t.model_underrun_max_ms for t in found), default=0.0), len(peers),
        max((p.late_p99_ms for p in peers if p.late_p99_ms is not None), default=None))


def _timing(by_run: Sequence[tuple[ScoredRun, Sequence[SessionFacts]]]) -> Table:
    rows: list[list[Cell]] = []
    for run, facts in by_run:
        if run.info is None:
            rows.append([run.name, "recordings of others: no certificate", *[None] * 10])
            continue
        t = timing_of(run, facts)
        clock = f"{run.info.clock} time" + (", exact" if run.info.clock == "virtual" else "")
        rows.append([
            run.name, clock, t.sessions_n, t.unreadable_n, t.frames_n, _ms(t.late_p99_ms),
            _ms(t.late_max_ms), _ms(t.late_near_window_ms),
            None if t.drift_ppm is None else f"{t.drift_ppm[0]:.1f} to {t.drift_ppm[1]:.1f}",
            t.user_underruns_n, f"{t.model_underruns_n} (longest {t.model_underrun_max_ms:.0f} ms)"
            if t.model_underruns_n else 0,
            f"{_ms(t.peer_late_p99_ms) or 'another clock'} ({t.peers_n})" if t.peers_n else None])
    return Table("Timing certificate over all sessions: the worst of each, ms",
                 ["system", "clock", "sessions", "no record", "frames", "late p99", "late most",
                  "near a window", "drift, ppm", "user underruns", "model underruns",
                  "peer: late p99"], rows, frozenset({1}))


def _ms(value: float | None) -> str | None:
    return None if value is None else f"{value:.1f}"


# the detector

def _near(runs: Sequence[ScoredRun]) -> Table:
    """Verdicts by their distance to the bound that decides them."""
    rows: list[list[Cell]] = []
    for run in runs:
        scored = [case for case in run.cases if case.outcome in (Outcome.PASS, Outcome.FAIL)]
        margins = [case_margin(run, case) for case in scored]
        known = [abs(m.margin) for m in margins if m.margin is not None and m.unit == "s"]
        shares = sum(m.unit == "ratio" and m.margin is not None for m in margins)
        rows.append([run.name, len(scored), len(known),
                     *(sum(distance <= near for distance in known) for near in NEAR_S), shares,
                     len(scored) - len(known) - shares])
    return Table("Verdicts near their bound: how many lie within so many seconds",
                 ["system", "scored", "with a distance", *(f"≤ {near:g} s" for near in NEAR_S),
                  "judged by words", "no distance"], rows)


def _shares(found: Flips) -> list[int]:
    return [int(n) for n in found.total]


def _flips_chart(own: Sequence[RunFlips]) -> Chart:
    """Percent of verdicts that flip when one setting is another, with Wilson intervals."""
    settings = list(own[0].settings[1:])
    series: list[Series] = []
    rows: list[list[Cell]] = []
    for run in own:
        found = run.flips[OVERALL]
        points = []
        for at, name in enumerate(settings, start=1):
            n = _shares(found)[at]
            ends = wilson(n, found.n_cases)
            assert ends is not None  # runs without a case have no flips
            points.append(Point(100 * n / found.n_cases, (100 * ends[0], 100 * ends[1]),
                                f"{n} of {found.n_cases}"))
            rows.append([run.run, name, found.n_cases, n, percent(n / found.n_cases),
                         interval(ends, 1)])
        series.append(Series(run.run, points))
    return Chart("flips", dots(settings, series, axis="percent of verdicts that flip"),
                 "Verdicts that are another one when one setting of the detector is changed; bars: "
                 "Wilson 95 %.", ["system", "setting", "n", "flip", "%", "95 %"], rows)


def _flips_table(own: Sequence[RunFlips]) -> Table | None:
    if not own:
        return None
    rows: list[list[Cell]] = []
    for run in own:
        for action, found in run.flips.items():
            total = _shares(found)
            worst = max(range(len(total)), key=total.__getitem__)
            rows.append([run.run, action, found.n_cases, total[worst],
                         percent(total[worst] / found.n_cases),
                         run.settings[worst] if total[worst] else None])
    taken = "; ".join(f"{run.run}: {run.decided_n} of {run.sessions_n} sessions" for run in own)
    return Table(f"Verdicts that flip under another setting of the detector, one changed at a time "
                 f"({taken})", ["system", "action", "n", "most that flip", "%", "at"], rows,
                 frozenset({1, 5}))


def _published() -> Table:
    return Table(f"Published, not of these runs ({SOURCE}): verdicts of three simulated agents "
                 "that flip over 405 settings of the detector, percent",
                 ["action", "n", "median", "most"],
                 [[action, n, median, most] for action, (n, median, most)
                  in PUBLISHED_FLIPS.items()])


def _calibration() -> Table:
    return Table(f"Published, not of these runs ({SOURCE}; rig calibrate measures a suite): edges "
                 "detected in 627 utterances of the built-in suite less the true ones, ms; "
                 "positive is late", ["edge", "gain, dB", "p5", "median", "p95"],
                 [[edge, gain, *ends] for (edge, gain), ends in CALIBRATION_MS.items()])
