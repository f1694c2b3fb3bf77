"""docs/own_suite.md does what it says: its edits build and pass, its gate gates.

Its commands are run by docs/check_commands.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rig_testkit as kit

from audio.files import atomic_write_text
from probes.expand import expand, select
from probes.gates import check_suite
from probes.loader import load_suite
from probes.newsuite import write_new_suite
from probes.render import build_suite

PAGE = (Path(__file__).parents[3] / "docs" / "own_suite.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The new suite with the additions of the page, each at the end of the file it names."""
    monkeypatch.chdir(tmp_path)
    write_new_suite("order-line")
    additions = blocks("yaml")
    assert len(additions) == 3
    for addition in additions:
        name = addition.splitlines()[0].removeprefix("# ")
        path = Path("order-line") / name
        atomic_write_text(path, path.read_text(encoding="utf-8") + "\n" + addition)
    return Path("order-line")


def test_the_additions_of_the_page_fit(edited: Path, call_rig: Callable[..., Any]) -> None:
    suite = load_suite(edited)
    assert check_suite(suite) == ()
    assert suite.missing() == ()
    cases = expand(suite)
    assert f"now counts {len(cases)} cases" in PAGE
    assert Counter(c.probe for c in cases)["CHANGE"] == 4
    out = call_rig("build", edited, "--dry-run").out
    assert re.search(rf"^cases +{len(cases)}$", out, flags=re.MULTILINE)


def test_the_mistake_of_the_page_is_told_so(call_rig: Callable[..., Any], tmp_path: Path,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_new_suite("order-line")
    grid = Path("order-line/grid.yaml")
    grid.write_text(grid.read_text(encoding="utf-8").replace("YIELD", "YEILD"), encoding="utf-8")
    assert f"rig: error: {blocks('text')[0].strip()}" == call_rig(
        "build", "order-line", "--dry-run").error


def test_the_numbers_of_the_page(tmp_path: Path) -> None:
    _, files = write_new_suite(tmp_path / "order-line")
    suite = load_suite(tmp_path / "order-line")
    words = {1: "one", 2: "two", 4: "four", 5: "five", 7: "seven", 8: "eight"}
    assert f"writes {words[len(files)]} short YAML files" in PAGE
    text = " ".join(PAGE.split())
    assert (f"{words[len(suite.roles)]} roles, {words[len(suite.probes)]} probes, "
            f"{words[len(suite.cells)]} cells, {words[len(suite.conversations)]} conversations, "
            f"{len(expand(suite))} cases") in text


def test_the_gate_of_the_page_gates(edited: Path, call_rig: Callable[..., Any]) -> None:
    words, = re.findall(r"^rig gate runs/agent (.*)$", PAGE, flags=re.MULTILINE)
    suite = load_suite(edited)
    chosen = select(expand(suite), (), "probe=CHANGE|PAUSE,instance=1,level=L1")
    build_suite(suite, "built", kit.TalkEngine(), select=chosen)
    said = {}
    for adapter in ("oracle", "silent"):
        assert call_rig("run", "built", "--adapter", adapter, "--jobs", "1",
                        "--out", adapter).code == 0
        assert call_rig("score", adapter).code == 0
        called = call_rig("gate", adapter, *words.split())
        said[adapter] = (called.code, called.out)
    assert said["oracle"][0] == 0
    assert said["silent"][0] == 1
    assert "below 1: ORDER-PAUSE-1-L1, ORDER-CHANGE-1-L1\n" in said["silent"][1]
