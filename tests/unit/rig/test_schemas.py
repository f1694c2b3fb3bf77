"""`rig schema` says what the loader says: on the files that ship, on what the rig writes, and on
files changed at every key."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic import ValidationError
from suite_mistakes import MISTAKES, Mistake, changed

from probes.loader import load_suite
from probes.newsuite import EXAMPLE, write_new_suite
from probes.rules import PROBLEM
from probes.specmodel import SpecModel
from rig import cli
from rig.field.words import Reference, WordsFile
from rig.schemas import KINDS, schema

VALIDATORS = {kind: Draft202012Validator(schema(kind)) for kind in KINDS}
BUILTIN = load_suite("dsb-ifeval").path
FILES = sorted([*BUILTIN.rglob("*.yaml"), *(BUILTIN.parent / EXAMPLE).rglob("*.yaml")])


def kind_of(path: Path) -> str:
    return "conversations" if path.parent.name == "conversations" else path.stem


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_one_of_its_dialect(kind: str) -> None:
    made = schema(kind)
    assert made["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(made)
    assert json.loads(json.dumps(made)) == made


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_suites_that_ship_fit(path: Path) -> None:
    VALIDATORS[kind_of(path)].validate(read(path))


def test_what_the_rig_writes_fits(tiny_suite: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert cli.main(["run", str(tiny_suite), "--adapter", "long_endpoint", "--jobs", "1",
                     "--out", str(run)]) == 0
    VALIDATORS["built"].validate(json.loads((tiny_suite / "suite.json").read_text()))
    VALIDATORS["run"].validate(json.loads((run / "run.json").read_text()))
    lines = {"cases": tiny_suite / "cases.jsonl", "streams": tiny_suite / "streams.jsonl",
             "attempts": run / "attempts.jsonl"}
    for kind, path in lines.items():
        for line in path.read_bytes().splitlines():
            VALIDATORS[kind].validate(json.loads(line))
    records = sorted((run / "rec").glob("*.rec.json"))
    assert records
    for path in records:
        VALIDATORS["record"].validate(json.loads(path.read_text(encoding="utf-8")))


def test_the_files_in_the_documents_fit() -> None:
    text = (Path(__file__).parents[3] / "docs" / "formats.md").read_text(encoding="utf-8")
    found = re.findall(r"```json\n(.*?)```", text, flags=re.DOTALL)
    manifest, words, reference = found
    VALIDATORS["rescore"].validate(json.loads(manifest))
    assert len(WordsFile.model_validate_json(words).words) == 2
    assert Reference.model_validate_json(reference).names


@pytest.mark.parametrize("mistake", [m for m in MISTAKES if m.shape is not None],
                         ids=lambda m: m.what)
def test_a_mistake_of_shape_is_one_for_the_schema(tmp_path: Path, mistake: Mistake) -> None:
    write_new_suite(tmp_path / "mine")
    mistake.make(tmp_path / "mine")
    path = tmp_path / "mine" / mistake.file
    assert VALIDATORS[kind_of(path)].is_valid(read(path)) != mistake.shape


# --- every key, changed ----------------------------------------------------------------------

def tuples(data: Any) -> Any:
    """As the loader reads YAML: sequences are tuples."""
    if isinstance(data, dict):
        return {k: tuples(v) for k, v in data.items()}
    return tuple(tuples(v) for v in data) if isinstance(data, list) else data


def loads(model: type[SpecModel], data: Any) -> bool | None:
    """Whether the loader takes it; `None`: only a rule between values stands against it."""
    try:
        model.model_validate(tuples(data))
    except ValidationError as error:
        found = error.errors()
        broken = {p["loc"][:n] for p in found for n in range(len(p["loc"]))}
        # A list that lost a broken item is told to be too short as well.
        own = [p for p in found if not (p["type"] == "too_short" and p["loc"] in broken)]
        return None if all(p["type"] == PROBLEM for p in own) else False
    return True


def small(path: Path) -> Any:
    """A file with few items, each of which has every key that the format knows."""
    data = read(path)
    for key in ("roles", "cells", "conversations", "l4a", "l4b"):
        if key in data:
            data[key] = data[key][:2]
    if "probes" in data:
        data["probes"] = [p for p in data["probes"] if p["label"] in ("C2", "C3")
                          or "l4b_variant" in p]
    return data


@pytest.mark.parametrize("path", [*BUILTIN.glob("*.yaml"), BUILTIN / "conversations" / "R6.yaml"],
                         ids=lambda p: p.name)
def test_loader_and_schema_agree_on_every_change(path: Path) -> None:
    kind = kind_of(path)
    model = KINDS[kind].model
    assert issubclass(model, SpecModel)
    refused = 0
    for what, data in changed(small(path)):
        fits, loaded = VALIDATORS[kind].is_valid(data), loads(model, data)
        refused += not fits
        # A rule between values may be beyond a schema; never the other way round.
        assert fits == loaded or (loaded is None), f"{what}: schema {fits}, loader {loaded}"
    assert refused > 100
