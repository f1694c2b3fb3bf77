"""Load a built suite and prove that it is whole. Formats: `probes.manifest`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from audio.buffers import Float32, float_to_pcm16
from audio.errors import InputError
from audio.files import probe, read_channel, sha256_samples
from audio.timebase import SESSION_RATE_HZ, n_to_s
from probes.manifest import Case, Stream, SuiteInfo, TurnAudio
from probes.segments import sha256_json
from probes.yamlfile import show

MAX_MANIFEST_BYTES = 256 * 1024 * 1024
"""Ours: the complete built-in suite has about 4 MB."""
_AUDIO_PATH = re.compile(r"audio/[A-Za-z0-9][A-Za-z0-9._-]*\.wav")
_CASE_ID = re.compile(r"[A-Za-z0-9]+-[A-Za-z0-9]+-[0-9]+-L[0-9a-z]+")

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class BuiltSuite:
    """A suite folder whose manifest has been checked; audio is hashed when asked for."""

    path: Path
    info: SuiteInfo
    cases: tuple[Case, ...]
    streams: Mapping[str, Stream]

    def samples(self, turn: TurnAudio) -> Float32:
        """Samples of a turn, float32 `(n,)` at 24 kHz. Raises `InputError` when they are not the
        ones that were built."""
        path = self.path / turn.path
        samples = read_channel(path, 0)
        found = sha256_samples(float_to_pcm16(samples))
        if found != turn.audio_sha256:
            raise InputError.expected(f"samples with SHA-256 {turn.audio_sha256[:12]}...",
                                      got=f"{found[:12]}... (the file has changed; build again)",
                                      where=show(path))
        return samples

    def verify_audio(self, stream_ids: Iterable[str] | None = None) -> None:
        """Hash the audio of some streams, or of all. Raises `InputError` at the first bad file."""
        seen: set[str] = set()
        for stream_id in self.streams if stream_ids is None else sorted(set(stream_ids)):
            if stream_id not in self.streams:
                raise InputError.expected("a stream of the suite", got=stream_id,
                                          where=show(self.path))
            stream = self.streams[stream_id]
            for turn in (stream.turn1, stream.turn2):
                if turn.path not in seen:
                    seen.add(turn.path)
                    self.samples(turn)


def construction_of_suite(name: str, version: str, cases: Sequence[Case],
                          streams: Mapping[str, Stream]) -> str:
    """Hash of what a suite asks, holding across machines: prompts, actions, parameters,
    deliveries, targets and the construction of every stream. Windows follow from audio and are
    not in it."""
    asked = [_asked(c) for c in sorted(cases, key=lambda c: c.case_id)]
    made = {stream_id: s.construction_sha256 for stream_id, s in streams.items()}
    return sha256_json({"suite": name, "version": version, "cases": asked, "streams": made})


def construction_of_case(name: str, version: str, case: Case, stream_sha256: str) -> str:
    """The same of one case alone, whatever else was built with it. `stream_sha256` is the
    construction hash of its stream."""
    return sha256_json({"suite": name, "version": version, "case": _asked(case),
                        "stream": stream_sha256})


def _asked(case: Case) -> dict[str, object]:
    return {"case_id": case.case_id, "stream": case.stream_id, "action": case.expected_action,
            "prompt": case.system_prompt, "params": case.params.model_dump(),
            "delivery": case.delivery.model_dump(), "target": case.target_text}


def load_built(suite_dir: str | Path) -> BuiltSuite:
    """Load a suite folder.

    Checked: all three files, every line, counts, references, positions, paths, that each audio
    file is there with the right rate and length, and the construction hash. Not checked: the
    samples themselves (`BuiltSuite.verify_audio`). Raises `InputError`, one line.
    """
    folder = Path(suite_dir)
    if not folder.is_dir():
        raise InputError.expected("a built suite folder (rig build makes one)",
                                  got="no such folder", where=show(folder))
    if not (folder / "suite.json").is_file():
        got = ("an unfinished build" if (folder / "audio").is_dir() else
               "a suite that is not built" if (folder / "suite.yaml").is_file() else
               "a folder without it")
        raise InputError.expected("suite.json (rig build makes it)", got=got, where=show(folder))
    info = _parse(SuiteInfo, _read(folder / "suite.json"), show(folder / "suite.json"))
    streams: dict[str, Stream] = {}
    path = folder / "streams.jsonl"
    for at, stream in _lines(Stream, path):
        if stream.stream_id in streams:
            raise InputError.expected(f"stream {stream.stream_id} once", got="it again", where=at)
        for turn in (stream.turn1, stream.turn2):
            _check_turn(folder, turn, at)
        streams[stream.stream_id] = stream
    _count(path, len(streams), info.n_streams, "streams")
    cases: dict[str, Case] = {}
    path = folder / "cases.jsonl"
    for at, case in _lines(Case, path):
        if case.case_id in cases:
            raise InputError.expected(f"case {case.case_id} once", got="it again", where=at)
        _check_case(case, streams, at)
        cases[case.case_id] = case
    _count(path, len(cases), info.n_cases, "cases")
    found = construction_of_suite(info.suite, info.suite_version, tuple(cases.values()), streams)
    if found != info.construction_sha256:
        raise InputError.expected(f"construction hash {info.construction_sha256[:12]}...",
                                  got=f"{found[:12]}... (something was edited; build again)",
                                  where=show(folder))
    return BuiltSuite(folder, info, tuple(cases.values()), streams)


def _check_turn(folder: Path, turn: TurnAudio, at: str) -> None:
    # A manifest may come from anywhere: no path in it may leave the suite folder.
    if not _AUDIO_PATH.fullmatch(turn.path) or ".." in turn.path:
        raise InputError.expected("a path like audio/NAME.wav", got=repr(turn.path), where=at)
    end_n = 0
    for segment in turn.segments:
        if segment.start_n != end_n or segment.end_n <= segment.start_n:
            raise InputError.expected(f"segment {segment.name} of {turn.path} to begin at {end_n} "
                                      "and be longer than 0", got=f"[{segment.start_n}, "
                                      f"{segment.end_n})", where=at)
        end_n = segment.end_n
    if end_n != turn.duration_n:
        raise InputError.expected(f"segments of {turn.path} to end at {turn.duration_n}",
                                  got=end_n, where=at)
    found = probe(folder / turn.path)
    if (found.rate_hz, found.channels, found.frames_n) != (SESSION_RATE_HZ, 1, turn.duration_n):
        raise InputError.expected(f"{turn.duration_n} mono samples at {SESSION_RATE_HZ} Hz",
                                  got=f"{found.frames_n} of {found.channels} channels at "
                                  f"{found.rate_hz} Hz", where=show(folder / turn.path))


def _check_case(case: Case, streams: Mapping[str, Stream], at: str) -> None:
    stream = streams.get(case.stream_id)
    if stream is None:
        raise InputError.expected("a stream of streams.jsonl", got=case.stream_id, where=at)
    # The id becomes part of file names: nothing but these characters.
    own_id = f"{case.role}-{case.probe}-{case.instance}-{case.level}"
    if case.case_id != own_id or not _CASE_ID.fullmatch(own_id):
        raise InputError.expected("a case id ROLE-PROBE-INSTANCE-LEVEL of its own fields",
                                  got=case.case_id, where=at)
    offset_s = n_to_s(stream.turn2.duration_n, SESSION_RATE_HZ)
    if abs(case.user_offset_s - offset_s) > 0.5 / SESSION_RATE_HZ:
        raise InputError.expected(f"user_offset_s {offset_s} (the end of turn 2)",
                                  got=case.user_offset_s, where=at)
    for name, window in {"window": case.window, **case.alternate_windows}.items():
        if not 0.0 <= window.start_s < window.end_s:
            raise InputError.expected(f"{name} with 0 <= start_s < end_s",
                                      got=f"[{window.start_s}, {window.end_s})", where=at)


def _count(path: Path, got: int, expected: int, what: str) -> None:
    if got != expected:
        raise InputError.expected(f"{expected} {what}, as suite.json says", got=got,
                                  where=show(path))


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as handle:
            data = handle.read(MAX_MANIFEST_BYTES + 1)
    except OSError as error:
        raise InputError.expected("a readable file", got=error.strerror or str(error),
                                  where=show(path)) from error
    if len(data) > MAX_MANIFEST_BYTES:
        raise InputError.expected(f"at most {MAX_MANIFEST_BYTES} bytes", got="more",
                                  where=show(path))
    return data


def _lines(model: type[M], path: Path) -> Iterable[tuple[str, M]]:
    data = _read(path)
    if data and not data.endswith(b"\n"):
        line = data.count(b"\n") + 1
        raise InputError.expected("a complete last line", got="a line that is cut off",
                                  where=f"{show(path)}:{line}")
    for number, line_bytes in enumerate(data.splitlines(), start=1):
        at = f"{show(path)}:{number}"
        yield at, _parse(model, line_bytes, at)


def _parse(model: type[M], data: bytes, where: str) -> M:
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    at = ".".join(str(p) for p in first["loc"]) or model.__name__
    if first["type"] == "json_invalid":
        raise InputError.expected("JSON", got=first["ctx"]["error"], where=where)
    if first["type"] in ("missing", "extra_forbidden"):
        got = "none" if first["type"] == "missing" else "a key that is not known"
        wanted = f"key {at}" if first["type"] == "missing" else f"no key {at}"
        raise InputError.expected(wanted, got=got, where=where)
    got = repr(first["input"])
    message = first["msg"].removeprefix("Input should be ")
    raise InputError(f"{where}: {at}: expected {message}, got "
                     + (got if len(got) <= 60 else got[:57] + "..."))
