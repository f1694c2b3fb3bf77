"""JSON Schemas (draft 2020-12) of the files that people write for the rig, or read from it.

They are made of the very models that read these files, so they cannot say anything else. What a
schema cannot say (that a name exists, that a window has a length, what the prose gates want) is
left to `rig build --dry-run`, with file and line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from probes import judge_rules, spec
from probes.manifest import Case, Stream, SuiteInfo
from rig.gate.asked import GatesFile
from rig.judge.configs import JudgesFile
from rig.judge.results import JudgeResult
from rig.ledger import Attempt
from rig.record import SessionRecord
from rig.rescore import RescoreLine
from rig.store import RunInfo
from rig.system import SystemFile

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file: where it stands, the model of the whole file or of one line, what it is."""

    file: str
    model: type[BaseModel]
    what: str


KINDS: Mapping[str, FileKind] = {
    "suite": FileKind("SUITE/suite.yaml", spec.SuiteFile, "name, levels, instances"),
    "roles": FileKind("SUITE/roles.yaml", spec.RolesFile, "prompts of the assistant"),
    "probes": FileKind("SUITE/probes.yaml", spec.ProbesFile, "segments of turn 2, windows"),
    "grid": FileKind("SUITE/grid.yaml", spec.GridFile, "expected action of each role and probe"),
    "contradictions": FileKind("SUITE/contradictions.yaml", spec.ContradictionsFile,
                               "what L4a and L4b add to the persona"),
    "conversations": FileKind("SUITE/conversations/*.yaml", spec.ConversationsFile,
                              "what the user says"),
    "judge": FileKind("SUITE/judge.yaml", judge_rules.JudgeFile,
                      "what a judge is told of each role"),
    "built": FileKind("BUILT/suite.json", SuiteInfo, "what was built, with what"),
    "cases": FileKind("BUILT/cases.jsonl", Case, "one line: a case"),
    "streams": FileKind("BUILT/streams.jsonl", Stream, "one line: user audio of a conversation"),
    "rescore": FileKind("MANIFEST of rig rescore", RescoreLine, "one line: a recording to score"),
    "run": FileKind("RUN/run.json", RunInfo, "fingerprint of a run"),
    "system": FileKind("RUN/system.json", SystemFile, "what the system of a run says that it is"),
    "attempts": FileKind("RUN/attempts.jsonl", Attempt, "one line: an attempt to play a case"),
    "record": FileKind("RUN/rec/CASE.tK.rec.json", SessionRecord, "record of a session"),
    "judges": FileKind("FILE of --judges", JudgesFile, "judges by name"),
    "gates": FileKind("FILE of --gates", GatesFile, "limits that `rig gate` holds a run against"),
    "judged": FileKind("RUN/judge/NAME.json", JudgeResult, "what a judge said of a run"),
}
"""By the name that `rig schema` takes; the first seven are the files of a suite."""


def schema(kind: str) -> dict[str, Any]:
    """The schema of a kind of `KINDS`."""
    entry = KINDS[kind]
    made = entry.model.model_json_schema()
    return {"$schema": DIALECT, "$id": f"urn:duplexrig:schema:{kind}", **made,
            "title": f"{entry.file}: {entry.what}"}
