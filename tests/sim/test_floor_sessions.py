"""An identical session is played once: what is claimed identical is, to the byte."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import rig_testkit as kit

from adapters import registry
from adapters.base import CaseHint, SessionConfig
from adapters.simulated.reads import READS, as_read
from audio.errors import InputError
from audio.vad import VadSettings
from probes.built import BuiltSuite, load_built
from rig.clock import SessionClock
from rig.comparing import FLOORS
from rig.floors import AGENTS, play_floors, shared_sessions
from rig.job import Job, play_job
from rig.schedule import Bounds
from rig.store import RunFolder, make_folder
from rig.workers import Workers
from verifiers.thresholds import DEFAULTS


@pytest.fixture(scope="module")
def built(built_once: Any) -> BuiltSuite:
    """Roles on the same audio, levels on the same audio, a barge-in, and backchannels."""
    return load_built(built_once("floor_sessions", lambda folder: kit.build_talking_suite(
        folder, lambda c: (c.instance == 1 and c.level in ("L1", "L2", "L3")
                           and f"{c.role}-{c.probe}" in ("R1-C1", "R2-C1", "R1-C3", "R1-C4")))))


def test_all_agents_of_known_behaviour_are_there() -> None:
    assert set(AGENTS) == set(READS) == FLOORS


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_reads_what_is_said_and_nothing_else(agent: str) -> None:
    seen: set[str] = set()

    class Watched(SessionConfig):
        def __getattribute__(self, name: str) -> Any:
            if not name.startswith("__"):
                seen.add(name)
            return super().__getattribute__(name)

    async def open_it(config: SessionConfig) -> None:
        async with registry.create(agent, {}).session(config, SessionClock()):
            pass

    for action in ("LISTEN", "BACKCHANNEL"):
        hint = CaseHint(action, 1.0, 2.5, 4.0, None, barge_in=False)
        asyncio.run(open_it(Watched("R1-A-1-L1", 1, "You are R1.", 7, {"a": 1}, hint)))
    assert seen == READS[agent]


def test_what_is_blank_and_what_stays() -> None:
    def config(action: str, seed: int) -> SessionConfig:
        return SessionConfig("R1-A-1-L1", 3, "You are R1.", seed,
                             hint=CaseHint(action, 1.0, 2.5, 4.0, None, barge_in=False))

    assert as_read("silent", config("LISTEN", 7)) == SessionConfig("", 1, "", 0)
    assert as_read("random", config("LISTEN", 7)) == SessionConfig("", 1, "", 7)
    told = config("BACKCHANNEL", 7)
    assert as_read("oracle", told) == SessionConfig("", 1, "", 0, hint=told.hint)
    # The inverse misses a backchannel in two ways, by one bit of its seed.
    assert [as_read("inverse", config("BACKCHANNEL", s)).seed for s in (6, 7, 9)] == [0, 1, 1]
    assert as_read("inverse", config("LISTEN", 7)).seed == 0
    with pytest.raises(InputError, match="expected one of silent"):
        as_read("gpt_live", told)


def test_how_many_sessions_a_suite_is(built: BuiltSuite) -> None:
    assert len(built.cases) == 12
    # R1-C1 and R2-C1 are one audio, and so are the levels.
    assert len(shared_sessions("eager", built, built.cases)) == 3
    assert len(shared_sessions("oracle", built, built.cases)) == 4
    assert len(shared_sessions("random", built, built.cases)) == 12


@pytest.mark.parametrize("agent", AGENTS)
def test_cases_that_are_claimed_to_be_one_session_are_the_same_bytes(
    agent: str, built: BuiltSuite, tmp_path: Path
) -> None:
    """Played as `rig run` plays them, each with its own prompt, seed and id."""
    run = RunFolder(tmp_path)
    make_folder(run.rec_dir)
    compared = 0
    for shared in shared_sessions(agent, built, built.cases):
        if len(shared.cases) == 1:
            continue
        found = []
        for case in (shared.cases[0], shared.cases[-1]):
            job = Job(case, built.streams[case.stream_id], 1, built.path, run, agent, {},
                      "virtual", Bounds(), VadSettings())
            assert play_job(job).status == "done"
            arrivals = run.arrivals_path(case.case_id, 1)
            record = run.read_record(case.case_id, 1)
            found.append((run.stereo_path(case.case_id, 1).read_bytes(),
                          arrivals.read_bytes() if arrivals.exists() else b"",
                          record.events, record.flags, record.turns))
        assert found[0] == found[1], [c.case_id for c in shared.cases]
        compared += 1
    assert compared == {"random": 0, "inverse": 3 + backchannels(built), "oracle": 4}.get(agent, 3)


def backchannels(built: BuiltSuite) -> int:
    """How many of the inverse's sessions on R1-C4 stand for more than one case."""
    return sum(len(s.cases) > 1 and s.cases[0].probe == "C4"
               for s in shared_sessions("inverse", built, built.cases))


@pytest.mark.parametrize("agent", [
    pytest.param("echo", marks=pytest.mark.slow), pytest.param("random", marks=pytest.mark.slow),
    "inverse"])
def test_the_verdicts_are_those_of_run_and_score(
    agent: str, built: BuiltSuite, tmp_path: Path, call_rig: Any
) -> None:
    with Workers(1) as workers:
        played = play_floors(built, built.cases, agents=[agent], vad=VadSettings(),
                             thresholds=DEFAULTS, bounds=Bounds(), workers=workers)
    run = tmp_path / "run"
    assert call_rig("run", built.path, "--adapter", agent, "--jobs", 1, "--out", run).code == 0
    assert call_rig("score", run, "--jobs", 1).code == 0
    assert {c["case_id"]: c["outcome"] for c in kit.scores(run)["cases"]} == played.outcomes[agent]
    assert played.disk_bytes > 0


@pytest.mark.slow
def test_processes_give_the_same_and_leave_no_recording(
    tiny_suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    suite = load_built(tiny_suite)
    done: list[tuple[int, int]] = []
    found = []
    for jobs in (1, 2):
        with Workers(jobs) as workers:
            found.append(play_floors(
                suite, suite.cases, agents=["silent", "eager"], vad=VadSettings(),
                thresholds=DEFAULTS, bounds=Bounds(), workers=workers,
                progress=lambda n, total: done.append((n, total))))
    one, two = found
    assert (one.outcomes, one.sessions) == (two.outcomes, two.sessions)
    assert done == [(2, 4), (4, 4)] * 2, "two of the three cases are one session"
    assert list(tmp_path.glob("rig-floors-*")) == []
