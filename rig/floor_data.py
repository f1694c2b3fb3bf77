"""Verdicts of agents of known behaviour over a whole suite, as a file, and where they may be shown.

`rig floors` makes the file; the one of the built-in suite ships (`rig/data/floors.json`). It holds
a verdict for each agent and case, and by what each was measured: suite, construction of each case,
schedule, detector, thresholds. Beside a run it is shown only where all of that is the run's own,
and restricted to the run's cases. The user's samples may differ from machine to machine; they are
the same construction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from audio.errors import InputError
from audio.vad import VadSettings
from probes.built import BuiltSuite, construction_of_case
from probes.manifest import Case, Sha256
from rig.comparing import Loaded, as_case
from rig.schedule import Bounds
from rig.store import apart, first_problem, read_text
from sweeps.comparison import System
from sweeps.effects import POOLS, pool
from verifiers.thresholds import Thresholds
from verifiers.verdict import Outcome

if TYPE_CHECKING:  # it plays sessions, which no reader of the file does
    from rig.floors import Played

CONSTRUCTION_DIGITS = 16
"""Of the hash of a case: 64 bits tell 1,038 cases apart from anything else."""
_LETTERS = {"p": Outcome.PASS, "f": Outcome.FAIL, "u": Outcome.UNSCORED, "x": Outcome.UNSUPPORTED}
_LETTER_OF = {outcome: letter for letter, outcome in _LETTERS.items()}
MAKE = "rig floors SUITE_DIR --out floors.json, then rig compare --floors floors.json"


CEILING = "oracle"
NO_FLOORS = frozenset({CEILING, "inverse"})
"""Agents that are told what a case expects: no floors. The first is the ceiling."""


def mark(agent: str) -> str:
    """What stands behind the name of an agent that ships, in a table of systems."""
    if agent == CEILING:
        return " (ceiling)"
    return " (fails on purpose)" if agent in NO_FLOORS else " (floor)"


class FloorFile(BaseModel):
    """`verdicts` holds for each agent a letter a case, in the order of `cases`: p passed, f failed,
    u unscored, x unsupported. `cases` gives the beginning of the construction hash by case id. The
    agents are never interrupted, so both playouts give the same."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    made_with: str
    """Version of the agents: the package's and theirs."""
    suite: str
    suite_version: str
    suite_construction_sha256: Sha256
    bounds: dict[str, float]
    vad: dict[str, Any]
    thresholds: dict[str, Any]
    sessions: dict[str, int]
    """Distinct sessions that were played."""
    cases: dict[str, str]
    verdicts: dict[str, str]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        for agent, letters in self.verdicts.items():
            if len(letters) != len(self.cases) or set(letters) - set(_LETTERS):
                raise ValueError(f"{agent}: expected one of {''.join(_LETTERS)} for each of "
                                 f"{len(self.cases)} cases")
        return self

    def outcomes(self, agent: str) -> dict[str, Outcome]:
        """The verdicts of one agent, by case id. Raises `KeyError` for another agent."""
        return {case_id: _LETTERS[letter] for case_id, letter
                in zip(self.cases, self.verdicts[agent], strict=True)}


def floor_file(built: BuiltSuite, cases: Sequence[Case], played: Played, *, made_with: str,
               bounds: Bounds, vad: VadSettings, thresholds: Thresholds) -> FloorFile:
    """What `rig floors` writes."""
    info = built.info
    return FloorFile(
        made_with=made_with, suite=info.suite, suite_version=info.suite_version,
        suite_construction_sha256=info.construction_sha256, bounds=asdict(bounds), vad=vad.facts(),
        thresholds=asdict(thresholds), sessions=played.sessions,
        cases={c.case_id: _construction(info.suite, info.suite_version, c,
                                        built.streams[c.stream_id].construction_sha256)
               for c in cases},
        verdicts={agent: "".join(_LETTER_OF[found[c.case_id]] for c in cases)
                  for agent, found in played.outcomes.items()})


def read_floors(path: Path | None = None) -> FloorFile:
    """The file at `path`, or the one that ships. Raises `InputError` when it is no such file."""
    what = "a file of `rig floors`"
    if path is None:
        text, where = resources.files("rig").joinpath("data/floors.json").read_text("utf-8"), "rig"
    else:
        text, where = read_text(path, what), str(path)
    try:
        return FloorFile.model_validate_json(text)
    except ValidationError as error:
        raise InputError.expected(what, got=first_problem(error), where=where) from error


def beside(runs: Sequence[Loaded], file: FloorFile) -> tuple[list[System], list[str]]:
    """The agents of `file` on exactly the cases of the runs, but those that are among the runs
    themselves; and why there are none beside a run. Runs with different cases have floors of their
    own, named so.
    """
    given = {run.info.adapter.name for run in runs}
    agents = [agent for agent in file.verdicts if agent not in given]
    groups: dict[frozenset[str], list[Loaded]] = {}
    why: list[str] = []
    for run in runs:
        problem = mismatch(run, file)
        if problem is None:
            groups.setdefault(frozenset(run.planned), []).append(run)
        elif agents:
            why.append(f"{run.system.name}: no floors beside it: {problem}")
    out: list[System] = []
    taken = {run.system.name for run in runs}
    for found in groups.values():
        of = "" if len(groups) == 1 else f" ({found[0].system.name})"
        for agent in agents:
            name = next(n for n in _names(f"{agent}{of}") if n not in taken)
            taken.add(name)
            outcomes = file.outcomes(agent)
            cases = tuple(as_case(case, outcomes[case.case_id])
                          for case in found[0].planned.values())
            out.append(System(name, cases, floor=True,
                              notes=(f"verdicts of rig floors, agents {file.made_with}",)))
    return out, why


def rate_rows(floors: Sequence[System], levels: Sequence[str]) -> list[list[str]]:
    """Agent, pool, and percent passed on each level, for a short table."""
    rows = []
    for system in floors:
        for name in POOLS:
            found = pool(system.cases, name)
            scored = {level: [c.passed for c in found
                              if c.level == level and c.passed is not None] for level in levels}
            rows.append([system.name, name, *(
                f"{100 * sum(s) / len(s):.1f} n={len(s)}" if (s := scored[level]) else "-"
                for level in levels)])
    return rows


def _names(name: str) -> Iterable[str]:
    yield name
    yield f"{name} (floors)"
    for number in range(2, 10_000):
        yield f"{name} (floors {number})"


def mismatch(run: Loaded, file: FloorFile) -> str | None:
    """Why the verdicts of `file` say nothing beside `run`, and what would; `None` where they do."""
    info = run.info
    if info.conditions:
        return ("it was played under line conditions; rig run SUITE_DIR --adapter silent (eager, "
                "oracle, ...) with the same --condition gives them")
    if info.suite != file.suite:
        return f"they are of suite {file.suite}; {MAKE} makes them"
    for name, mine, theirs in (("schedule bounds", info.bounds, file.bounds),
                               ("detector", run.scores["vad"], file.vad),
                               ("thresholds", run.scores["thresholds"], file.thresholds)):
        if mine != theirs:
            values = ", ".join(f"{key} {a} and {b}" for key, a, b in apart(mine, theirs)[:3])
            return f"they have another {name} ({values}); {MAKE} with the same --set makes them"
    known = file.cases
    if info.suite_construction_sha256 == file.suite_construction_sha256:
        others = [c for c in run.planned if c not in known]
    elif run.streams is None:
        return f"an older rig played it, from another build than theirs; {MAKE} makes them"
    else:
        others = [case_id for case_id, case in run.planned.items()
                  if known.get(case_id) != _construction_in(run, case)]
    if others:
        return (f"{len(others)} of its {len(run.planned)} cases are not theirs ({others[0]}"
                f"{', ...' if len(others) > 1 else ''}); {MAKE} makes them")
    return None


def _construction_in(run: Loaded, case: Case) -> str | None:
    facts = (run.streams or {}).get(case.stream_id)
    if facts is None:
        return None
    return _construction(run.info.suite, run.info.suite_version, case, facts.construction_sha256)


def _construction(suite: str, version: str, case: Case, stream_sha256: str) -> str:
    return construction_of_case(suite, version, case, stream_sha256)[:CONSTRUCTION_DIGITS]
