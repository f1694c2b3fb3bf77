"""Every verdict decided again under other settings of the detector, and by another detector.

Frame probabilities come from the run's cache (or are inferred into it), so a setting costs the
rules of `audio.vad` and no inference. Scenes, measurements and verdicts are made by the code that
`rig score` uses; what is kept of each is its verdict. The settings that the run was scored with are
one of the settings, and there every verdict must be the one in `scores.json`.

Channels of a case that give the same spans under several settings are measured once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from audio.energy_vad import MARGIN_DB
from audio.errors import InputError
from audio.suggest import did_you_mean
from audio.vad import VadSettings
from rig.ledger import finished, read
from rig.playout import Policy
from rig.scenes import Identity, case_identity
from rig.settings import VAD_NAMES
from rig.store import RunFolder
from rig.stored import read_scores, scored_settings
from rig.tracks import Track, analyse_tracks, checked_record, make_track
from rig.vad_decided import CODES, Codes, Plan, Setting, decide_session
from rig.workers import Workers
from sweeps.sweep import Cases
from sweeps.table import NO_LEVEL
from sweeps.threshold_grid import VerdictMatrix
from verifiers.thresholds import Thresholds
from verifiers.verdict import Outcome

AXES: Mapping[str, tuple[float, ...]] = {
    "vad_threshold": (0.3, 0.4, 0.5, 0.6, 0.7),
    "vad_min_silence_ms": (60, 90, 200),
    "vad_min_speech_ms": (60, 90, 250),
    "vad_speech_pad_ms": (0, 30, 60),
    "merge_gap_s": (0.2, 0.3, 0.5),
}
"""Ours, around the paper's point (C.2): 0.2 to either side of the threshold; silences of 2, 3 and 7
frames; the library's default minimum speech, 250 ms; no padding and twice as much; a gap of 0.2 s,
which ITU-T P.56 bridges as well (its hangover), and half a second."""
MARGINS_DB = (6.0, MARGIN_DB, 12.0)
MAX_SETTINGS = 5_000
"""Ours: seven minutes of one core for 1,038 sessions."""
CHUNK = 16


def plan_settings(base: VadSettings, axes: Mapping[str, Sequence[float]], *,
                  others: bool = True) -> Plan:
    """Every combination of the axes; the base's own value is on each of them.

    Raises `InputError` for more than `MAX_SETTINGS` or a value that the detector refuses.
    """
    values = {name: sorted({*axes.get(name, AXES[name]), getattr(base, field)})
              for name, field in VAD_NAMES.items()}
    count = int(np.prod([len(v) for v in values.values()]))
    if count > MAX_SETTINGS:
        raise InputError.expected(f"at most {MAX_SETTINGS} settings", got=count, where="--axis")
    grid: list[Setting] = []
    for point in itertools.product(*values.values()):
        named = dict(zip(values, point, strict=True))
        varied = tuple((name, value) for name, value in named.items()
                       if value != getattr(base, VAD_NAMES[name]))
        grid.append(Setting("silero", replace(
            base, **{VAD_NAMES[name]: value for name, value in named.items()}), varied=varied))
    rest: list[Setting] = []
    if others:
        rest.append(Setting("refined", replace(base, onset_refine=True, offset_refine=True)))
        rest += [Setting("energy", base, margin) for margin in MARGINS_DB]
    default = next(i for i, setting in enumerate(grid) if not setting.varied)
    return Plan(base, (*grid, *rest), len(grid), default)


def read_axes(texts: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """`NAME=V,V,...` by contract names. Raises `InputError`."""
    out: dict[str, tuple[float, ...]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        if name not in AXES:
            raise InputError(f"--axis {name}: expected one of {', '.join(AXES)}"
                             f"{did_you_mean(name, AXES)}")
        if name in out:
            raise InputError(f"--axis: {name} is given twice")
        try:
            out[name] = tuple(float(value) for value in values.split(","))
        except ValueError as error:
            raise InputError.expected("numbers with commas between", got=repr(values),
                                      where=f"--axis {name}") from error
        for value in out[name]:
            plan_settings(VadSettings(), {name: (value,)}, others=False)
    return out


@dataclass(frozen=True, slots=True)
class Scored:
    """What `scores.json` says of how a run was scored, and every outcome."""

    thresholds: Thresholds
    vad: VadSettings
    playout: Policy
    outcomes: dict[tuple[str, int], Outcome]


def read_scored(run: RunFolder) -> Scored:
    """Raises `InputError` where the file is not one that `rig score` writes, or is out of date."""
    document = read_scores(run)
    try:
        thresholds, vad = scored_settings(document)
    except (ValueError, KeyError, TypeError, InputError) as error:
        raise InputError.expected(f"scores as `{run.score_command}` writes them",
                                  got=f"something else ({error})", where=run.scores_path) from error
    outcomes = {(c["case_id"], c["trial"]): Outcome(c["outcome"]) for c in document["cases"]}
    return Scored(thresholds, vad, document["playout"], outcomes)


@dataclass(frozen=True, slots=True)
class SweptRun:
    """One system: its measured cases, their verdicts a setting, and how many could not be
    measured (they are so at every setting)."""

    cases: Cases
    verdicts: VerdictMatrix
    unmeasured_n: int


def sweep_run(run: RunFolder, plan: Plan, scored: Scored, workers: Workers,
              progress: Callable[[int], None] | None = None) -> SweptRun:
    """Decide every case of a scored run at every setting.

    Raises `InputError` where the default's verdict is not the one in `scores.json`.
    """
    info = run.read_info()
    planned = [case_identity(case, trial) for trial in range(1, info.trials + 1)
               for case in run.read_cases()]
    kept: list[Identity] = []
    columns: list[np.ndarray[Any, np.dtype[np.int8]]] = []
    chunks = [planned[i:i + CHUNK] for i in range(0, len(planned), CHUNK)]
    done = 0
    for chunk, found in zip(chunks, _in_chunks(run, chunks, plan, scored, workers), strict=True):
        for identity, codes in zip(chunk, found, strict=True):
            _check_default(run, identity, None if codes is None else int(codes[plan.default]),
                           scored)
            if codes is not None:
                kept.append(identity)
                columns.append(codes)
        done += len(chunk)
        if progress is not None:
            progress(done)
    codes = (np.stack(columns, axis=1) if columns
             else np.zeros((len(plan.settings), 0), dtype=np.int8))
    cases = Cases(np.array([i.case_id for i in kept], dtype=np.str_),
                  np.array([i.trial for i in kept], dtype=np.int64),
                  np.array([i.level or NO_LEVEL for i in kept], dtype=np.str_),
                  np.array([str(i.expected_action) for i in kept], dtype=np.str_))
    return SweptRun(cases, VerdictMatrix(codes == CODES[Outcome.PASS],
                                         codes == CODES[Outcome.UNSCORED]),
                    len(planned) - len(kept))


def _check_default(run: RunFolder, identity: Identity, code: int | None, scored: Scored) -> None:
    told = scored.outcomes.get((identity.case_id, identity.trial))
    if code is None and told in (Outcome.UNSCORED, Outcome.UNSUPPORTED):
        return
    if told is None or code is None or CODES.get(told) != code:
        found = next((str(o) for o, c in CODES.items() if c == code), "no measurement")
        raise InputError(f"{run.path}: expected the verdicts of `rig score` at its own settings, "
                         f"got {found} for {identity.case_id} t{identity.trial}, which it calls "
                         f"{told or 'nothing'}; run `{run.score_command}` again")


def _in_chunks(run: RunFolder, chunks: Sequence[Sequence[Identity]], plan: Plan, scored: Scored,
               workers: Workers) -> Iterator[list[Codes | None]]:
    done = finished(read(run.ledger_path))
    wanted = [[i if (i.case_id, i.trial) in done else None for i in chunk] for chunk in chunks]
    return workers.in_order([partial(decide_chunk, run, chunk, plan, scored.thresholds,
                                     scored.playout) for chunk in wanted])


def decide_chunk(run: RunFolder, identities: Sequence[Identity | None], plan: Plan,
                 thresholds: Thresholds, playout: Policy) -> list[Codes | None]:
    """Verdicts of each session at every setting (`decide_session`); `None` also for one that was
    not played."""
    tracks: list[Track | None] = []
    for identity in identities:
        if identity is None:
            tracks.append(None)
            continue
        try:
            tracks.append(make_track(checked_record(run, identity.case_id, identity.trial),
                                     playout))
        except InputError:
            tracks.append(None)
    activities = iter(analyse_tracks(run, [t for t in tracks if t is not None]))
    return [None if identity is None or track is None else decide_session(
        run, track, next(activities), identity, plan, thresholds)
        for identity, track in zip(identities, tracks, strict=True)]
