"""A suite folder that is built anew: what is told of it, at the build and at a resumed run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from probes.newsuite import write_new_suite


def _build(call_rig: Any, folder: Path, *options: object) -> str:
    called = call_rig("build", folder / "mine", "--jobs", 1, "--out", folder / "suite", *options)
    assert called.code == 0, called.err
    return " ".join(called.err.split())


def test_a_suite_that_is_replaced_is_told_and_a_run_on_it_says_so(
    tmp_path: Path, call_rig: Any
) -> None:
    write_new_suite(tmp_path / "mine")
    suite = tmp_path / "suite"
    assert "replaced" not in _build(call_rig, tmp_path), "nothing stood there"
    first = json.loads((suite / "suite.json").read_text())
    run = ("run", suite, "--adapter", "silent", "--jobs", 1, "--out", tmp_path / "run")
    assert call_rig(*run).code == 0
    assert "replaced" not in _build(call_rig, tmp_path), "the same suite again"
    assert call_rig(*run, "--resume").code == 0

    case_id = json.loads((suite / "cases.jsonl").read_text().split("\n")[0])["case_id"]
    told = _build(call_rig, tmp_path, "--filter", f"case={case_id}")
    now = json.loads((suite / "suite.json").read_text())
    name = f"{first['suite']} {first['suite_version']}"
    assert first["n_cases"] > now["n_cases"] == 1
    assert (f"replaced {name} with {first['n_cases']} cases (rendered with hibari, construction "
            f"{first['construction_sha256'][:8]}) by {name} with 1 cases (rendered with hibari, "
            f"construction {now['construction_sha256'][:8]})") in told
    refused = call_rig(*run, "--resume")
    assert refused.code == 2
    assert "the suite folder was built anew since" in refused.error


def test_a_manifest_that_cannot_be_read_is_replaced_without_a_word(
    tmp_path: Path, call_rig: Any
) -> None:
    write_new_suite(tmp_path / "mine")
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite/suite.json").write_text("{")
    assert "replaced" not in _build(call_rig, tmp_path)
