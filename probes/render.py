"""Build a suite: render user audio, place windows, write the manifest last.

    build_suite(suite, out_dir, renderer)   ->  SUITE_DIR (layout: `probes.manifest`)

A build that stops at any moment leaves no `suite.json`, so nothing half-written can be played;
the next one takes what is already rendered from the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from audio.errors import InputError
from audio.files import TEMP_PREFIX, atomic_write_text, sha256_samples, write_wav_pcm16
from audio.timebase import SESSION_RATE_HZ, n_to_s
from probes.assemble import Turn, assemble, check_audio, construction_sha256, speech_jobs
from probes.built import BuiltSuite, construction_of_suite, load_built
from probes.expand import (
    PlannedCase,
    PlannedStream,
    conversation_ids,
    expand,
    plan_streams,
)
from probes.gates import GateFailure, check_suite, require
from probes.manifest import Case, Stream, SuiteInfo, TurnAudio
from probes.segments import (
    SegmentCache,
    SegmentJob,
    SegmentRenderer,
    SpokenSegment,
    choose_voice,
    render_all,
)
from probes.spec import Suite
from probes.windows import place
from probes.yamlfile import show

__all__ = ["BuiltSuite", "Progress", "build_suite", "load_built"]

Progress = Callable[[int, int, str], None]
"""`progress(done, total, label)`, counted in distinct speech segments."""

_OWN_NAMES = {"suite.json", "cases.jsonl", "streams.jsonl", "audio", ".cache"}


def build_suite(
    suite: Suite, out_dir: str | Path, engine: SegmentRenderer, *,
    select: Sequence[PlannedCase] | None = None, progress: Progress | None = None, jobs: int = 1,
    cache_dir: str | Path | None = None,
) -> SuiteInfo:
    """Render the user's side of every case and write the suite folder.

    Args:
        suite: what `load_suite` gave.
        out_dir: a new, empty or earlier suite folder; an earlier suite in it is replaced.
        engine: what speaks.
        select: the cases to build, from `expand(suite)`; all by default.
        progress: told after each rendered segment.
        jobs: processes that render; the result is the same bytes for any number.
        cache_dir: where rendered segments are kept; `out_dir/.cache` by default.

    Raises:
        GateError: the prose or the rendered audio breaks a gate (`failures` has all of them).
        SynthesisError: the engine failed on a segment, which is named.
        InputError: nothing to build, or the folder cannot be used.
    """
    cases = expand(suite) if select is None else tuple(select)
    if not cases:
        raise InputError.expected("at least one case to build", got="none",
                                  where=show(suite.path))
    require(check_suite(suite, conversation_ids(suite, cases)))
    streams = plan_streams(suite, cases)

    out = Path(out_dir)
    _claim(out)
    cache = SegmentCache(Path(cache_dir) if cache_dir is not None else out / ".cache",
                         engine.engine, engine.aligner)
    voices = tuple(engine.voices)
    render_all(engine, cache, _all_jobs(streams, voices), workers=jobs, progress=progress)
    return _write(suite, cases, streams, engine, cache, out)


def _all_jobs(streams: Iterable[PlannedStream], voices: tuple[str, ...]) -> Iterable[SegmentJob]:
    return (job for stream in streams for _, _, job in speech_jobs(stream, voices))


def _claim(out: Path) -> None:
    """Make the folder ours; the old manifest goes first, so that no mixture can be loaded."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        names = {p.name for p in out.iterdir()}
        foreign = sorted(n for n in names - _OWN_NAMES if not n.startswith(TEMP_PREFIX))
        if foreign:
            raise InputError.expected("an empty folder or an earlier suite", got=f"a folder with "
                                      f"{foreign[0]}", where=show(out))
        for name in ("audio", ".cache"):
            if (out / name).is_symlink():
                raise InputError.expected(f"a folder {name} of its own", got="a link",
                                          where=show(out))
        for name in ("suite.json", "cases.jsonl", "streams.jsonl"):
            (out / name).unlink(missing_ok=True)
        (out / "audio").mkdir(exist_ok=True)
    except OSError as error:
        raise InputError.expected("a folder that can be written",
                                  got=error.strerror or str(error), where=show(out)) from error


def _write(
    suite: Suite, cases: Sequence[PlannedCase], planned: Sequence[PlannedStream],
    engine: SegmentRenderer, cache: SegmentCache, out: Path,
) -> SuiteInfo:
    voices = tuple(engine.voices)
    failures: list[GateFailure] = []
    refused: list[SegmentJob] = []
    checked: set[str] = set()
    streams: dict[str, Stream] = {}
    positions: dict[str, dict[str, tuple[int, int]]] = {}
    for stream in planned:
        spoken: dict[int, dict[str, SpokenSegment]] = {1: {}, 2: {}}
        for number, segment, job in speech_jobs(stream, voices):
            audio = cache.load(job)
            if audio is None:
                raise InputError.expected("the segment that was just rendered", got="none",
                                          where=f"{show(cache.folder)}: {job.label}")
            spoken[number][segment.name] = audio
            if (key := cache.key(job)) not in checked:
                checked.add(key)
                found = tuple(check_audio(suite, stream, number, segment, audio))
                failures += found
                refused += [job] * bool(found)
        turn1, turn2 = assemble(stream.turn1, spoken[1]), assemble(stream.turn2, spoken[2])
        voice = choose_voice(stream.base_id, voices)
        positions[stream.stream_id] = turn2.positions
        streams[stream.stream_id] = Stream(
            stream_id=stream.stream_id, engine=engine.engine.get("name", "unnamed"), voice=voice,
            construction_sha256=construction_sha256(stream, voice, engine.engine),
            # The L4b variant shares the file of turn 1: it is the same turn.
            turn1=_store(turn1, out, f"audio/{stream.base_id}.turn1.wav"),
            turn2=_store(turn2, out, f"audio/{stream.stream_id}.turn2.wav"))
    # An engine that is not deterministic may do better the next time.
    for job in refused:
        cache.forget(job)
    require(failures)
    built = tuple(_built_case(suite, c, streams[c.stream_id], positions[c.stream_id])
                  for c in cases)
    info = _info(suite, built, streams, engine)
    _sweep(out, streams)
    atomic_write_text(out / "streams.jsonl",
                      "".join(s.model_dump_json() + "\n" for s in streams.values()))
    atomic_write_text(out / "cases.jsonl", "".join(c.model_dump_json() + "\n" for c in built))
    atomic_write_text(out / "suite.json", info.model_dump_json(indent=2) + "\n")
    return info


def _store(turn: Turn, out: Path, name: str) -> TurnAudio:
    write_wav_pcm16(out / name, turn.pcm, SESSION_RATE_HZ)
    return TurnAudio(path=name, audio_sha256=sha256_samples(turn.pcm), duration_n=turn.pcm.size,
                     segments=turn.segments)


def _built_case(suite: Suite, case: PlannedCase, stream: Stream,
                positions: Mapping[str, tuple[int, int]]) -> Case:
    try:
        placed = place(case.rule, positions, stream.turn2.duration_n)
    except ValueError as error:  # a window that only the rendered lengths show to be empty
        at = suite.origin(f"probe {case.probe_id}.{case.expected_action}")
        raise InputError(f"{at}: {case.case_id}: {error}") from error
    return Case(
        case_id=case.case_id, conversation_id=case.conversation_id, stream_id=case.stream_id,
        role=case.role, probe=case.probe, probe_id=case.probe_id, instance=case.instance,
        level=case.level, expected_action=case.expected_action, system_prompt=case.system_prompt,
        params=case.params, delivery=case.delivery, window=placed.window,
        alternate_windows=placed.alternate_windows, user_offset_s=placed.user_offset_s,
        target_text=case.target_text, readback_from_s=placed.readback_from_s,
        contradiction=case.contradiction)


def _info(suite: Suite, cases: Sequence[Case], streams: Mapping[str, Stream],
          engine: SegmentRenderer) -> SuiteInfo:
    lengths_s: dict[str, float] = {}
    for case in cases:
        stream = streams[case.stream_id]
        length_s = n_to_s(stream.turn1.duration_n + stream.turn2.duration_n, SESSION_RATE_HZ)
        # With its L4b variant a conversation has two lengths; the base one counts.
        if case.level != "L4b" or case.conversation_id not in lengths_s:
            lengths_s[case.conversation_id] = length_s
    return SuiteInfo(
        suite=suite.info.name, suite_version=suite.info.version, engine=dict(engine.engine),
        aligner=dict(engine.aligner),
        construction_sha256=construction_of_suite(suite.info.name, suite.info.version, cases,
                                                  streams),
        n_cases=len(cases), n_conversations=len(lengths_s), n_streams=len(streams),
        mean_conversation_s=sum(lengths_s.values()) / len(lengths_s),
        notes=_notes(suite, cases, streams))


def _notes(suite: Suite, cases: Sequence[Case], streams: Mapping[str, Stream]) -> tuple[str, ...]:
    notes: list[str] = []
    missing = suite.missing()
    if missing:
        listed = ", ".join(missing[:8]) + (", ..." if len(missing) > 8 else "")
        notes.append(f"incomplete suite: {len(missing)} texts are missing: {listed}")
    if (available := len(expand(suite))) != len(cases):
        notes.append(f"selection: {len(cases)} of {available} cases")
    # By the file of turn 1, which a stream and its L4b variant share, as they share segments.
    speech = {(stream.turn1.path, s.name): s.alignment for stream in streams.values()
              for turn in (stream.turn1, stream.turn2) for s in turn.segments
              if s.kind == "speech"}
    for kind in ("uniform", "none"):
        if n := sum(a == kind for a in speech.values()):
            notes.append(f"alignment {kind}: {n} of {len(speech)} speech segments")
    return tuple(notes)


def _sweep(out: Path, streams: Mapping[str, Stream]) -> None:
    """Remove turns of an earlier build and what a killed one left."""
    wanted = {t.path for s in streams.values() for t in (s.turn1, s.turn2)}
    for path in (out / "audio").iterdir():
        stale = path.name.endswith((".turn1.wav", ".turn2.wav"))
        if path.name.startswith(TEMP_PREFIX) or (stale and f"audio/{path.name}" not in wanted):
            path.unlink()
