"""`rig demo` as a newcomer runs it, with its run in real time; and without what that needs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import stalls

from adapters import registry
from rig.commands import demo

FEW = ("oracle", "silent", "inverse")


@pytest.mark.slow
def test_the_demo_ends_with_a_live_agent_beside_the_floors(
    call_rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the live sessions keep time is up to the machine; what is said of them is not. Of the
    nine agents in virtual time (each has its tests) three play: a floor, the ceiling, its inverse.
    """
    assert {*FEW} < {*demo.AGENTS}
    monkeypatch.setattr(demo, "AGENTS", FEW)
    called = call_rig("demo", "--out", tmp_path, "--json")
    assert called.code == 0, called.error
    document = json.loads(called.out)
    assert document["ias"]["oracle"]["core"]["L2"]["rate"] == 1.0
    assert document["ias"]["inverse"]["core"]["L2"]["rate"] == 0.0
    assert (tmp_path / "report.html").stat().st_size > 100_000
    live = document["live"]
    done = stalls.done_or_busy(tmp_path / "runs/cascade")
    assert (live["problem"] is None) is (len(done) == len(demo.LIVE_CELLS))
    assert live["problem"] is None or "late" in live["problem"]
    assert live["agent"] == demo.LIVE_AGENT
    core = document["ias"][demo.LIVE_AGENT]["core"][demo.LIVE_LEVEL]
    assert core["n"] + core["unscored"] == len(demo.LIVE_CELLS)
    record = json.loads(next((tmp_path / "runs/cascade/rec").glob("*.rec.json")).read_text())
    assert record["clock"] == "real"
    assert not record["timing"]["void"]


def test_without_the_live_agents_packages_the_demo_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spec = registry.spec(demo.LIVE_AGENT)
    monkeypatch.setattr(registry, "spec", lambda name: replace(spec, missing=lambda: "no ears"))
    played = demo._Demo(demo.Output(), tmp_path, 1)
    with demo.Workers(1) as workers:
        assert played.live(workers) == "cascade left out: no ears"
    assert played.documents == {}
