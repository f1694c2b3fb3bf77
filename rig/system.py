"""What the system of a run has said that it is: `RUN/system.json`, written once.

The fingerprint (`run.json`) is made before anything is started, so it holds what was asked for.
Which weights a local model has then loaded, and with which packages, only its process knows. The
first session writes it down; a later one that says anything else, in this run, in another process
or when the run goes on, is of another system, and is not played.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from adapters.worker_session import WORKER_HELLO
from audio.errors import InfrastructureError, InputError
from audio.files import TEMP_PREFIX
from rig.ledger import Attempt
from rig.record import SessionRecord, StateEvent
from rig.store import RunFolder, apart, read_model

_SHOWN = 3


class SystemFile(BaseModel):
    """`system.json`. `said` is the system's own account, for instance a worker's hello."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    said: dict[str, Any]


def read_system(run: RunFolder) -> dict[str, Any] | None:
    """What the system of a run has said; `None` where it says nothing, or nothing was played.
    Raises `InputError` for a file that is damaged."""
    if not run.system_path.exists():
        return None
    return read_model(run.system_path, SystemFile, "what the system said that it is").said


def admit(run: RunFolder, said: dict[str, Any]) -> None:
    """Write it down, or hold it against what stands there.

    Raises `InfrastructureError`, hopeless, where that is something else, and `InputError` where the
    file cannot be written or read. Several processes may come at once: one of them writes.
    """
    before = read_system(run)
    if before is None:
        _write_once(run, SystemFile(said=said))
        before = read_system(run)
    now = json.loads(json.dumps(said))
    if before == now:
        return
    found = [f"{name} was {was}, now {is_}" for name, was, is_ in apart(before or {}, now)]
    more = f" (and {len(found) - _SHOWN} more)" if len(found) > _SHOWN else ""
    error = InfrastructureError(
        f"another system than the one that this run was begun with: {'; '.join(found[:_SHOWN])}"
        f"{more}; nothing is mixed: load what {run.system_path.name} says, or choose another --out")
    error.hopeless = True
    raise error


def adopt(run: RunFolder, attempts: Iterable[Attempt]) -> None:
    """A run of an older rig: what its recorded sessions say stands for it from now on."""
    if run.system_path.exists():
        return
    for attempt in attempts:
        if attempt.status != "done":
            continue
        try:
            said = _said_in(run.read_record(attempt.case_id, attempt.trial))
        except InputError:
            continue
        if said is not None:
            _write_once(run, SystemFile(said=said))
        return


def check_record(run: RunFolder, record: SessionRecord, said: dict[str, Any] | None) -> None:
    """Raise `InputError` where `said`, of `system.json`, is not what the record's own system says.
    Nothing is held against a run without that file."""
    if said is None:
        return
    found = [f"{name} is {is_}, expected {was}" for name, was, is_ in
             apart(said, _said_in(record) or {})]
    if found:
        more = f" (and {len(found) - _SHOWN} more)" if len(found) > _SHOWN else ""
        raise InputError(
            f"{run.system_path}: another system than that of the session {record.case_id} "
            f"t{record.trial}, whose record says: {'; '.join(found[:_SHOWN])}{more}; one of them "
            "was changed or is of another run")


def _said_in(record: SessionRecord) -> dict[str, Any] | None:
    for event in record.events:
        if isinstance(event, StateEvent) and event.name == WORKER_HELLO:
            try:
                said = json.loads(event.detail)
            except ValueError:
                return None
            return said if isinstance(said, dict) else None
    return None


def _write_once(run: RunFolder, value: SystemFile) -> None:
    """The whole file under its name, or nothing: whoever comes second leaves the first one's."""
    path = run.system_path
    # Where a run that goes on removes what a killed process has left.
    temporary = run.rec_dir / f"{TEMP_PREFIX}{secrets.token_hex(8)}.json"
    try:
        try:
            with temporary.open("x", encoding="utf-8") as file:
                file.write(value.model_dump_json(indent=2) + "\n")
                file.flush()
                os.fsync(file.fileno())
            _link(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot write: {error.strerror}") from error


def _link(temporary: Path, path: Path) -> None:
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        return
    except OSError:  # a file system without links
        if not path.exists():
            temporary.replace(path)


def system_note(said: dict[str, Any] | None) -> list[str]:
    """It in one line, or none: name, version, and each of its settings."""
    if said is None:
        return []
    settings = said.get("settings")
    told = [f"{name} {value}" for name, value in settings.items()] \
        if isinstance(settings, dict) else []
    return [f"the system says: {said.get('name')} {said.get('version')}"
            + (f" ({', '.join(told)})" if told else "")]
