"""`rig agree`: what it writes, and what it never writes over."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from validation_kit import answers_document, validation_key

from rig.validation.key import write_key

SYSTEMS = ("all", "all", "all", "transcript native")
"""Names of run folders that are also names of rows."""
GOOD, MAJOR = {"fidelity": "faithful"}, {"fidelity": "major"}


@pytest.fixture
def study(tmp_path: Path) -> tuple[Path, Path]:
    """Key and answers of an audit of two systems."""
    key = validation_key("audit", 4, system=SYSTEMS, transcript=("native",) * 4)
    write_key(tmp_path / "key.json", key)
    (tmp_path / "a1.json").write_text(json.dumps(answers_document(
        key, "A1", [GOOD, GOOD, GOOD, MAJOR])), encoding="utf-8")
    return tmp_path / "key.json", tmp_path / "a1.json"


@pytest.mark.parametrize("option", ["--out", "--csv"])
@pytest.mark.parametrize("kind", ["itself", "symbolic link", "hard link"])
@pytest.mark.parametrize("which", [0, 1])
def test_nothing_that_is_read_is_written_over(
        call_rig: Callable[..., Any], study: tuple[Path, Path], tmp_path: Path, option: str,
        kind: str, which: int) -> None:
    target = study[which]
    if kind != "itself":
        target = tmp_path / "link"
        (os.symlink if kind == "symbolic link" else os.link)(study[which], target)
    before = study[which].read_bytes()
    error = call_rig("agree", *study, option, target).error
    assert f"expected another file for {option}, got one that is read" in error
    assert study[which].read_bytes() == before


def test_one_place_is_not_written_twice(
        call_rig: Callable[..., Any], study: tuple[Path, Path], tmp_path: Path) -> None:
    assert "one for --csv and --out" in call_rig(
        "agree", *study, "--csv", tmp_path / "x", "--out", tmp_path / "x").error
    assert not (tmp_path / "x").exists()


def test_a_system_called_as_a_row_takes_the_place_of_none(
        call_rig: Callable[..., Any], study: tuple[Path, Path]) -> None:
    lines = [" ".join(line.split()) for line in call_rig("agree", *study).out.splitlines()]
    # Of four items three are faithful; of the system `all` all three, of the other none.
    for row in ("all 4 75 [", "system all 3 100 [", "system transcript native 1 0 [",
                "transcript native 4 75 ["):
        assert sum(line.startswith(row) for line in lines) == 1, row
