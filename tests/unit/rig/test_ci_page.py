"""The commands of docs/ci.md in their order, on the suite that they name. Its example for pytest is
tests/slow/test_ci_page.py."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rig_testkit as kit

from probes.expand import expand, select
from probes.loader import load_suite
from probes.render import build_suite
from rig.gate.asked import gates_of

PAGE = (Path(__file__).parents[3] / "docs" / "ci.md").read_text(encoding="utf-8")
BUILD = 'rig build order-line --filter "probe=PAUSE,instance=1" --level L1 --out built'


def test_the_commands_of_the_page_meet_their_gates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call_rig: Callable[..., Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = re.findall(r"```sh no-run\n(rig new-suite.*?)```", PAGE, flags=re.DOTALL)[0].split("\n")
    for line in filter(None, lines):
        if line == BUILD:  # with another voice, which takes no time
            suite = load_suite("order-line")
            build_suite(suite, "built", kit.TalkEngine(), select=select(
                expand(suite), ("L1",), "probe=PAUSE,instance=1"))
            continue
        jobs = ["--jobs", "1"] if line.split()[1] in ("run", "score") else []
        called = call_rig(*shlex.split(line)[1:], *jobs)
        assert called.code == 0, (line, called.out, called.err)
    assert BUILD in lines
    assert sum(line.startswith("rig gate") for line in lines) == 3
    assert "<testcase" in Path("gates.xml").read_text()
    assert "gates met" in Path("gates.md").read_text()
    # Between the release that answers after 0.6 s and the one that answers after 0.8 s.
    quick = ("--max", "latency.reply.p90_ms=800")
    assert call_rig("gate", "runs/before", *quick).code == 0
    assert call_rig("gate", "runs/agent", *quick).code == 1


def test_the_file_of_the_page_is_read(tmp_path: Path) -> None:
    text, = re.findall(r"```yaml\n(schema_version.*?)```", PAGE, flags=re.DOTALL)
    (tmp_path / "gates.yaml").write_text(text)
    assert len(gates_of({}, tmp_path / "gates.yaml")) == 4
