"""Plays the faults of a subject as `rig run` would and judges the recordings as `rig score` would.

`jobs.play_job_async` plays, writes and says `done`, `void` or `infra_error` with its reason;
`scoring` measures the recordings; `verifiers` decide. Nothing of that is imitated here. One
recording is judged by three actions, each with a window of its own.
"""

from __future__ import annotations

import asyncio
import io
import logging
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from faults import REPLIES_S, Plays, Server, Subject
from session_harness import KEY, PROMPT, Result, deaf_peer
from stalls import TRIES

from adapters import registry
from adapters.simulated import voice
from audio.buffers import float_to_pcm16
from audio.files import sha256_samples, write_wav_pcm16
from audio.timebase import SESSION_RATE_HZ, n_to_s
from audio.vad import VadSettings
from probes.manifest import Case, Delivery, Params, SegmentAudio, Stream, TurnAudio, WindowSpec
from rig import job as jobs
from rig.clock import loop_factory, punctual
from rig.handover import SessionWriter
from rig.job import Job, Outcome
from rig.ledger import Attempt, Ledger, latest, read
from rig.live import LiveDetection
from rig.orchestrator import Played, SessionFailedError, play
from rig.record import SessionRecord
from rig.scenes import case_identity, scene_of
from rig.schedule import Bounds
from rig.scoring import measure_records, verdict_of
from rig.selftest import user_turn
from rig.store import RunFolder
from rig.tracks import make_track
from verifiers.decide import verify
from verifiers.thresholds import DEFAULTS
from verifiers.verdict import Verdict

VAD = VadSettings()
TURNS_S = (0.9, 0.9)
WAIT_S = 0.8
"""TAKE_TURN: the reply to turn 2 must begin so soon."""
WINDOW_S = 1.5
READ_S = 1.3
"""READBACK: a window ends so long after the turn, half a second before the recording may."""
TARGET = "reply2 is this one"
SETTLED_S = 0.3
"""LISTEN: from here on in turn 2, so that the detector has closed the span of the reply before."""
ACTIONS = ("TAKE_TURN", "LISTEN", "READBACK")


@dataclass
class Seen:
    """What became of one fault."""

    name: str
    play: Plays
    outcome: Outcome
    result: Result
    record: SessionRecord | None = None
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    """By action, under `hold`."""
    flush_verdict: Verdict | None = None
    """TAKE_TURN under `flush`."""


@dataclass
class FaultSuite:
    subject: Subject
    server: Server
    run: RunFolder
    seen: dict[str, Seen]
    attempts: dict[str, Attempt]
    """The ledger's line of each fault."""
    library_log: str
    adapter_facts: str

    @property
    def results(self) -> dict[str, Result]:
        return {name: seen.result for name, seen in self.seen.items()}


def make_case(folder: Path) -> tuple[Case, Stream]:
    """Two short turns of speech, in files, and a case that asks for a reply to the second."""
    def turn(name: str, seconds: float, sentence: int) -> TurnAudio:
        pcm = float_to_pcm16(user_turn(seconds, sentence))
        write_wav_pcm16(folder / f"{name}.wav", pcm, SESSION_RATE_HZ)
        speech = SegmentAudio(kind="speech", name=name, start_n=0, end_n=len(pcm), text="words")
        return TurnAudio(path=f"{name}.wav", audio_sha256=sha256_samples(pcm),
                         duration_n=len(pcm), segments=(speech,))

    turn1, turn2 = turn("turn1", TURNS_S[0], 3), turn("turn2", TURNS_S[1], 4)
    said_s = n_to_s(turn2.duration_n, SESSION_RATE_HZ)
    case = Case(
        case_id="R1-A-1-L2", conversation_id="R1-A-1", stream_id="S", role="R1", probe="A",
        probe_id="A", instance=1, level="L2", expected_action="TAKE_TURN", system_prompt=PROMPT,
        params=Params(max_wait_s=WAIT_S), delivery=Delivery(mode="take_turn"),
        window=WindowSpec(start_s=said_s, end_s=said_s + WINDOW_S), user_offset_s=said_s,
        target_text=TARGET, readback_from_s=said_s)
    return case, Stream(stream_id="S", engine="talk", voice="a", construction_sha256="0" * 64,
                        turn1=turn1, turn2=turn2)


def as_action(record: SessionRecord, action: str) -> SessionRecord:
    """The same recording, as a case that expects another action in another window."""
    onset_s, end_s = record.windows.turn2_onset_s, record.windows.user_offset_s
    start_s, stop_s = {"TAKE_TURN": (end_s, end_s + WINDOW_S),
                       "LISTEN": (onset_s + SETTLED_S, end_s),
                       "READBACK": (onset_s, end_s + READ_S)}[action]
    return record.model_copy(update={
        "case": record.case.model_copy(update={"expected_action": action}),
        "windows": record.windows.model_copy(update={
            "scored": WindowSpec(start_s=start_s, end_s=stop_s)})})


def judge(suite_seen: Iterable[Seen], run: RunFolder, case: Case, trials: dict[str, int]) -> None:
    """Measure every recording in one batch, as `rig score` does, and decide by every action."""
    done = [seen for seen in suite_seen if seen.outcome.status == "done"]
    rows = measure_records(run, [case_identity(case, trials[s.name]) for s in done], VAD)
    for seen, hold, flush in zip(done, rows[::2], rows[1::2], strict=True):
        assert hold.problem is None, hold.problem
        record = seen.record = run.read_record(case.case_id, trials[seen.name])
        seen.flush_verdict = verdict_of(flush, DEFAULTS)
        for action in ACTIONS:
            other = as_action(record, action)
            _, seen.verdicts[action] = verify(
                scene_of(other, make_track(other, "hold"), hold.model, VAD), DEFAULTS)
        assert seen.verdicts["TAKE_TURN"] == verdict_of(hold, DEFAULTS)


async def _play_all(subject: Subject, plays: dict[str, Plays], folder: Path, at_once: int,
                    library_log: io.StringIO) -> FaultSuite:
    folder.mkdir(parents=True, exist_ok=True)
    case, stream = make_case(folder)
    run = RunFolder(folder / "run")
    run.rec_dir.mkdir(parents=True)
    trials = {name: number for number, name in enumerate(plays, 1)}
    rate_hz = registry.create(subject.adapter, {
        **subject.settings, **subject.address("ws://127.0.0.1:1/v1", "calm")},
        to_play=False).capabilities.output_rate_hz
    kept: dict[int, tuple[Played | None, SessionFailedError | None]] = {}

    async def keeping(plan, adapter, config, **more):
        """The runner's own `play`; what it gives is kept for a look at it."""
        try:
            played = await play(plan, adapter, config, **more)
        except SessionFailedError as error:
            kept[config.trial] = error.played, error
            raise
        kept[config.trial] = played, None
        return played

    served = subject.server(
        {server_name(n): p.scenario for n, p in plays.items() if p.at == "server"})
    seen: dict[str, Seen] = {}
    # Synthesised before anything runs on the clock: servers speak with the same voice.
    voice.prepare()
    with socket.socket() as free, pytest.MonkeyPatch.context() as patch:
        free.bind(("127.0.0.1", 0))
        closed = f"ws://127.0.0.1:{free.getsockname()[1]}/v1"
        patch.setattr(jobs, "play", keeping)
        with LiveDetection() as live, SessionWriter() as writer:
            await writer.start()
            async with (served.running() as server, deaf_peer(b"") as mute,
                        deaf_peer(b"220 mail.example ESMTP\r\n") as mail):
                elsewhere = {"refused": closed, "mute": mute, "not_http": mail}

                async def meet(name: str) -> None:
                    play_ = plays[name]
                    there = server_name(name)
                    url = elsewhere.get(play_.at) or server.url_of(there)
                    job = Job(case, stream, trials[name], folder, run, subject.adapter,
                              {**subject.settings, **subject.address(url, there),
                               **play_.settings}, "real", play_.bounds or subject.bounds, VAD)
                    began = asyncio.get_running_loop().time()
                    outcome = await jobs.play_job_async(job, live, writer)
                    played, failure = kept[trials[name]]
                    lasted_s = asyncio.get_running_loop().time() - began
                    seen[name] = Seen(name, play_, outcome, Result(
                        None if failure else played, failure, lasted_s, await server.met(there),
                        rate_hz))

                await _rounds(meet, list(plays), seen, at_once)
    attempts = booked(seen, run, case, trials)
    judge(seen.values(), run, case, trials)
    adapter = registry.create(subject.adapter, {
        **subject.settings, **subject.address("ws://127.0.0.1:1/v1", "calm")}, to_play=False)
    facts = repr((vars(adapter), adapter.settings, adapter.version, adapter.capabilities))
    return FaultSuite(subject, served, run, seen, attempts, library_log.getvalue(), facts)


def server_name(name: str) -> str:
    """A fault's name as it may stand in an address."""
    return name.replace("/", ".")


def booked(seen: dict[str, Seen], run: RunFolder, case: Case, trials: dict[str, int],
           ) -> dict[str, Attempt]:
    """The ledger of the run, written and read again."""
    with Ledger(run.ledger_path) as ledger:
        for name, one in seen.items():
            ledger.append(Attempt(case_id=case.case_id, trial=trials[name], attempt=1,
                                  status=one.outcome.status, reason=one.outcome.reason,
                                  started=one.outcome.started, ended=one.outcome.ended))
    by_key = latest(read(run.ledger_path))
    return {name: by_key[case.case_id, trials[name]] for name in seen}


async def _rounds(meet, names: list[str], seen: dict[str, Seen], at_once: int) -> None:
    """Every session once, some side by side. Those that the machine was too busy for are played
    again, as `rig run` does: side by side first, then alone."""
    for number in range(2 * TRIES):
        gate = asyncio.Semaphore(at_once if number < TRIES else 1)

        async def one(name: str, gate: asyncio.Semaphore = gate) -> None:
            async with gate:
                await meet(name)

        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(one(name))
        names = [name for name in names if seen[name].outcome.status == "void"]
        if not names:
            return


def played_faults(subject: Subject, names: Iterable[str], folder: Path) -> FaultSuite:
    """The undisturbed session and these faults, played and judged."""
    plays = {"calm": Plays(subject.calm), **{n: subject.played[n] for n in names}}
    return play_plays(subject, plays, folder, subject.at_once)


def play_plays(subject: Subject, plays: dict[str, Plays], folder: Path,
               at_once: int) -> FaultSuite:
    """Any sessions of a subject, played and judged."""
    library_log = io.StringIO()
    with _watched(subject, library_log), punctual(), \
            asyncio.Runner(loop_factory=loop_factory("real")) as loop:
        found: list[FaultSuite] = []

        async def main() -> None:
            # Not returned: asyncio.Runner writes a result out as text.
            found.append(await _play_all(subject, plays, folder, at_once, library_log))

        loop.run(main())
        return found[0]


@contextmanager
def _watched(subject: Subject, library_log: io.StringIO) -> Iterator[None]:
    """With a key, with a proxy that must not be used, and with everything logged."""
    handler = logging.StreamHandler(library_log)
    root = logging.getLogger()
    level = root.level
    with pytest.MonkeyPatch.context() as patch:
        if subject.key_variable is not None:
            patch.setenv(subject.key_variable, KEY)
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
            patch.setenv(name, "http://127.0.0.1:9")
        root.addHandler(handler)
        root.setLevel(logging.DEBUG)
        logging.getLogger("websockets.server").setLevel(logging.CRITICAL)
        try:
            yield
        finally:
            root.removeHandler(handler)
            root.setLevel(level)
            logging.getLogger("websockets.server").setLevel(logging.NOTSET)


def bounds_with(subject: Subject, **changed: float) -> Bounds:
    return replace(subject.bounds, **changed)


assert len(REPLIES_S) == len(TURNS_S)
