"""constraints.txt pins every dependency once, by name and version alone."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LINES = [line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
         if line and not line.startswith("#")]


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return re.sub(r"[-_.]+", "-", found.group()).lower()


PINS = {_name(line): line.partition("==")[2] for line in LINES}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WANTED = [*PROJECT["dependencies"],
          *(line for extra in PROJECT["optional-dependencies"].values() for line in extra)]


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_a_name_and_a_version(line: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*", line)


def test_no_name_stands_twice() -> None:
    assert len(PINS) == len(LINES)


@pytest.mark.parametrize("requirement", WANTED)
def test_everything_declared_is_pinned_within_its_bounds(requirement: str) -> None:
    name = _name(requirement)
    assert name in PINS
    exact = requirement.partition(";")[0].partition("==")[2].strip()
    assert not exact or PINS[name] == exact
