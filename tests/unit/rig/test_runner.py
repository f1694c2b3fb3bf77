"""Session faults, retries, resume and the run folder, through the command line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rig_testkit as kit

BROKEN = "R1-C1-1-L2"
WHOLE = {"R2-C1-1-L2", "R1-C4-1-L2"}

FAULTS = {name: reason for name, (_, reason) in kit.FAULTS.items()} | {
    "raises on opening": "opening the session failed: ConnectionRefusedError",
    "hangs on opening": "had not ended after",
    "raises in cue": "cue failed: KeyError",
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_broken_session_is_an_infrastructure_error_and_the_rest_is_played(
    kind: str, tiny_suite: Path, tmp_path: Path, call_rig: Any, add_adapter: Any
) -> None:
    add_adapter("faulty", kit.faulty(kind, frozenset({BROKEN})))
    run = tmp_path / "run"
    called = call_rig("run", tiny_suite, "--adapter", "faulty", "--jobs", 1, "--retries", 1,
                 "--out", run)
    assert called.code == 3
    assert kit.done(run) == WHOLE
    tries = [a for a in kit.ledger(run) if a["case_id"] == BROKEN]
    assert [(a["attempt"], a["status"]) for a in tries] == [(1, "infra_error"), (2, "infra_error")]
    assert all(FAULTS[kind] in a["reason"] for a in tries), tries
    assert f"{BROKEN} t1: infra_error: " in called.err
    assert not list((run / "rec").glob(f"{BROKEN}*"))

    assert call_rig("score", run, "--jobs", 1).code == 3
    case, = (c for c in kit.scores(run)["cases"] if c["case_id"] == BROKEN)
    assert case["outcome"] == "unscored"
    assert case["reason"].startswith("infra_error: ")
    assert FAULTS[kind] in case["reason"]
    stat = kit.scores(run)["ias"]["all"]["L2"]
    assert (stat["n"], stat["unscored"]) == (2, 1)
