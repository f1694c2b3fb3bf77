"""`rig definitions` on played runs: theirs beside ours, with n, interval and why one is null."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from rig.definitions import _aggregate
from sweeps.effects import Draws
from sweeps.intervals import wilson
from verifiers.definitions.talk import Reading, none_because


@pytest.fixture(scope="module")
def copy_of(tmp_path_factory):
    """The runs of the session are read only, and a folder's cache is written to."""
    import shutil

    def copy(run: Path) -> Path:
        target = tmp_path_factory.mktemp("definitions") / run.name
        shutil.copytree(run, target)
        return target
    return copy


def figures(document, key: str):
    return {r["run"]: f for r in document["runs"] for f in r["figures"]
            if f"{f['family']}.{f['key']}" == key}


def test_both_sides_with_n_interval_and_reason(call_rig, oracle_run, copy_of, tmp_path):
    run = copy_of(oracle_run)
    table = tmp_path / "definitions.csv"
    called = call_rig("definitions", run, "--json", "--csv", table)
    assert called.code == 0, called.err
    document = json.loads(called.out)
    assert document["runs"][0]["sessions"] == 9
    assert document["runs"][0]["left_out"] == {}
    found = {f"{f['family']}.{f['key']}": f for f in document["runs"][0]["figures"]}
    listening = found["fdb.pause.tor"]
    assert listening["theirs"]["value"] == 0
    assert listening["theirs"]["n"] == 1
    assert listening["theirs"]["ci"] == list(wilson(0, 1))
    assert listening["ours"]["name"] == "LISTEN failed"
    assert listening["ours"]["value"] == 0
    assert found["tau2.r_y"]["ours"]["value"] == 1
    assert found["tau2.s_hold"]["theirs"]["value"] == 1
    assert found["fdb.backchannel.jsd"]["theirs"] | {"null_sessions": None} == {
        "value": None, "n": 0, "ci": None, "interval": None, "null_sessions": None,
        "reason": "no human backchannel timings of the same stimulus (theirs: "
                  "icc_gt_distribution.json)"}
    assert found["fdb.backchannel.jsd"]["ours"] is None
    assert found["tau2.s_vt"]["theirs"]["reason"] == "no vocal tics in these sessions"
    assert all(f["source"] and f["rule"] and f["differs"] for f in found.values())
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert len(rows) == len(found)
    row = next(r for r in rows if (r["family"], r["key"]) == ("fdb", "pause.tor"))
    assert (row["theirs_value"], row["theirs_n"], row["ours_name"]) == ("0.0", "1", "LISTEN failed")


def test_a_run_whose_name_a_spreadsheet_would_run(call_rig, oracle_run, copy_of, tmp_path,
                                                  monkeypatch):
    copy_of(oracle_run).rename(tmp_path / "=1+1")
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "definitions.csv"
    assert call_rig("definitions", "=1+1", "--csv", table).code == 0
    assert {r["run"] for r in csv.DictReader(table.read_text().splitlines())} == {"'=1+1"}


def test_the_text_names_what_is_null(call_rig, oracle_run, copy_of):
    called = call_rig("definitions", copy_of(oracle_run), "--only", "tau2")
    assert called.code == 0
    assert "S_VT: null: no vocal tics in these sessions" in called.out
    assert "Full-Duplex-Bench" not in called.out
    header = next(x for x in called.out.splitlines() if "theirs" in x and "unit" in x)
    assert header.split() == ["unit", "theirs", "ours", "which", "of", "ours"]


def test_sessions_without_a_recording_are_counted(call_rig, oracle_run, copy_of):
    run = copy_of(oracle_run)
    records = sorted((run / "rec").glob("*.rec.json"))
    records[0].unlink()
    next((run / "rec").glob(records[1].name.replace(".rec.json", ".stereo.wav"))).write_bytes(b"x")
    found = json.loads(call_rig("definitions", run, "--json").out)["runs"][0]
    assert found["sessions"] == 7
    assert found["left_out"] == {"recording or record cannot be used": 2}


def test_refused(call_rig, oracle_run, tmp_path):
    assert "did you mean 'tau2'?" in call_rig("definitions", oracle_run, "--only", "tau").error
    assert "got one twice" in call_rig("definitions", oracle_run, oracle_run).error
    call_rig("definitions", tmp_path).error  # noqa: B018 - no run folder: one line
    assert "--set" in call_rig("definitions", oracle_run, "--set", "x=1").error


def test_counts_are_summed_over_sessions_before_they_are_divided():
    rows = [("a", Reading(1.0, 2)), ("b", Reading(3.0, 0, "no turn")),
            ("c", none_because("no turn"))]
    found = _aggregate(rows, Draws(["a", "b", "c"]), counted=False)
    assert (found["value"], found["n"]) == (2.0, 2)       # (1 + 3) / 2
    assert found["null_sessions"] == {"no turn": 1}, "the one that adds nothing at all"
    assert found["reason"] is None
    none = _aggregate(rows[1:2], Draws(["b"]), counted=False)
    assert (none["value"], none["n"], none["reason"]) == (None, 0, "no turn")
