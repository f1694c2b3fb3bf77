"""From a run to what a judge is asked: every planned case and trial, and why some cannot be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial

from audio.errors import InputError
from audio.timebase import SESSION_RATE_HZ, n_to_s
from audio.vad import VadSettings
from probes.expand import PlannedStream, base_stream_id, plan_stream
from probes.judge_rules import content_rules
from probes.loader import BUILTIN_SUITES, load_suite
from probes.manifest import Case
from probes.spec import Suite
from rig.judge.prompt import Conflict, Material
from rig.judge.transcript import Said, said_in
from rig.ledger import latest, read, why_not_done
from rig.playout import Policy
from rig.record import PlayedTurn, SessionRecord
from rig.store import RunFolder, RunInfo
from rig.workers import Workers

CHUNK = 8
"""Sessions whose words are got together: one batch of the detector."""
MIN_PAUSE_S = 0.3
"""What is shorter parts no utterance (DSB-IFEval, C.2); it joins two pieces of one sentence."""
PERSONA_LEVELS = ("L2", "L3", "L4a", "L4b")
CONFLICT_LEVELS = ("L4a", "L4b")


@dataclass(frozen=True, slots=True)
class Asked:
    """One case and trial. Either it can be asked about (`material`, `said`) or `problem` says why
    not."""

    case: Case
    trial: int
    material: Material | None = None
    said: Said | None = None
    problem: str | None = None

    @property
    def key(self) -> tuple[str, int]:
        return self.case.case_id, self.trial

    @property
    def stream(self) -> str:
        """The audio stream, which is what intervals are drawn over."""
        return base_stream_id(self.case.stream_id)


def suite_of(info: RunInfo, name_or_dir: str | None) -> Suite:
    """The suite that a run was made from: the one named, else the built-in one of that name.

    Raises `InputError` for one of another name or version.
    """
    if name_or_dir is None and info.suite not in BUILTIN_SUITES:
        raise InputError(f"--suite: expected the folder of suite {info.suite!r} (roles.yaml, "
                         "judge.yaml), which is not built in, got none")
    suite = load_suite(info.suite if name_or_dir is None else name_or_dir)
    found, wanted = (suite.name, suite.info.version), (info.suite, info.suite_version)
    if found != wanted:
        raise InputError.expected(f"suite {wanted[0]} {wanted[1]}, which the run played",
                                  got=f"{found[0]} {found[1]}", where=suite.path)
    return suite


def collect(run: RunFolder, suite: Suite, playout: Policy, vad: VadSettings, workers: Workers,
            progress: Callable[[int, int], None] | None = None, *,
            only: Set[tuple[str, int]] | None = None) -> list[Asked]:
    """Every planned case and trial of a run, in planned order; with `only` those alone.

    Raises `InputError` where the suite's prompts are not those that were played.
    """
    info = run.read_info()
    rules = content_rules(suite)
    cases = run.read_cases()
    for case in cases:
        _check_prompt(suite, case)
    attempts = latest(read(run.ledger_path))
    planned = [(case, trial) for trial in range(1, info.trials + 1) for case in cases
               if only is None or (case.case_id, trial) in only]
    out: dict[tuple[str, int], Asked] = {}
    done: list[tuple[Case, int]] = []
    for case, trial in planned:
        problem = why_not_done(attempts.get((case.case_id, trial)))
        if problem is None:
            done.append((case, trial))
        else:
            out[case.case_id, trial] = Asked(case, trial, problem=problem)
    said = _said_in_all(run, [(c.case_id, t) for c, t in done], playout, vad, workers, progress)
    for (case, trial), found in zip(done, said, strict=True):
        out[case.case_id, trial] = _asked(run, suite, rules, case, trial, found)
    return [out[case.case_id, trial] for case, trial in planned]


def _said_in_all(run: RunFolder, sessions: Sequence[tuple[str, int]], playout: Policy,
                 vad: VadSettings, workers: Workers,
                 progress: Callable[[int, int], None] | None) -> list[Said | str]:
    out: list[Said | str] = []
    for found in workers.in_order([partial(said_in, run, sessions[i:i + CHUNK], playout, vad)
                                   for i in range(0, len(sessions), CHUNK)]):
        out += found
        if progress is not None:
            progress(len(out), len(sessions))
    return out


def _asked(run: RunFolder, suite: Suite, rules: Mapping[str, str], case: Case, trial: int,
           said: Said | str) -> Asked:
    if isinstance(said, str):
        return Asked(case, trial, problem=said)
    try:
        record = run.read_record(case.case_id, trial)
        turn1, turn2 = user_side(suite, case, record)
    except InputError as error:
        return Asked(case, trial, problem=str(error))
    role = suite.role(case.role)
    return Asked(case, trial, Material(
        role_id=role.id, role_name=role.name, persona=role.persona, rule=rules[role.id],
        turn1=tuple(t for t in turn1 if isinstance(t, str)), turn2=turn2, assistant=said.spoken,
        conflict=_conflict(role.persona, case)), said)


def _check_prompt(suite: Suite, case: Case) -> None:
    """The persona that a judge is shown must be the one that was played."""
    role = next((r for r in suite.roles if r.id == case.role), None)
    if role is None:
        raise InputError.expected(f"role {case.role}, which {case.case_id} was played with",
                                  got="none", where=suite.path / "roles.yaml")
    if not role.persona.strip():
        raise InputError.expected(f"a persona of role {role.id}: it is what the judge refers to",
                                  got="none", where=suite.origin(f"role {role.id}"))
    prompt = case.system_prompt
    same = (prompt == role.persona if case.level == "L2"
            else prompt.startswith(f"{role.persona}\n\n") if case.level in PERSONA_LEVELS
            else prompt == role.directive if case.level == "L1" else True)
    if not same:
        raise InputError.expected(
            f"the prompts of role {role.id} with which {case.case_id} was played",
            got="others; give the suite it was built from with --suite",
            where=suite.origin(f"role {role.id}"))


def _conflict(persona: str, case: Case) -> Conflict | None:
    if case.level not in CONFLICT_LEVELS:
        return None
    return Conflict(directive=case.system_prompt.removeprefix(persona).strip(),
                    should_win="directive" if case.level == "L4a" else "persona")


# --- the user's side -------------------------------------------------------------------------


def user_side(suite: Suite, case: Case, record: SessionRecord,
              ) -> tuple[tuple[str | float, ...], tuple[str | float, ...]]:
    """Both turns as texts and the pauses between them in seconds, as they were played.

    Texts are those of the record; for a record of before, those of the suite. Raises `InputError`
    where they are not as many as the segments that were played.
    """
    turns = {turn.name: turn for turn in record.turns}
    texts = {name: turn.texts for name, turn in turns.items()}
    if not all(texts.values()):
        texts = dict(zip(("turn1", "turn2"), _suite_texts(suite, case), strict=True))
    return _interleaved(texts["turn1"], turns["turn1"]), _interleaved(texts["turn2"],
                                                                      turns["turn2"])


def _interleaved(texts: Sequence[str], turn: PlayedTurn) -> tuple[str | float, ...]:
    if len(texts) != len(turn.speech_n):
        raise InputError.expected(f"texts of {len(turn.speech_n)} segments of {turn.name}",
                                  got=len(texts), where="the user's side")
    out: list[str | float] = []
    before: int | None = None
    for text, (start_n, end_n) in zip(texts, turn.speech_n, strict=True):
        if before is not None:
            pause_s = n_to_s(start_n - before, SESSION_RATE_HZ)
            if pause_s >= MIN_PAUSE_S:
                out.append(pause_s)
        out.append(text)
        before = end_n
    return tuple(out)


def _suite_texts(suite: Suite, case: Case) -> tuple[tuple[str, ...], tuple[str, ...]]:
    base_id = base_stream_id(case.stream_id)
    if base_id not in suite.conversations:
        raise InputError.expected(f"conversation {base_id}", got="none", where=suite.path)
    stream: PlannedStream = plan_stream(
        suite.probe_of(case.role, case.probe), suite.conversations[base_id],
        suite.info.turn1_target_s, variant=case.stream_id != base_id)
    return (tuple(s.text for s in stream.turn1 if s.text),
            tuple(s.text for s in stream.turn2 if s.text))

