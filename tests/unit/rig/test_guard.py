"""The guard over the six import names: a fake claims table, and real throw-away packages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from audio.errors import InputError
from rig.guard import OUR_FOLDER, OUR_NAMES, check_names, name_conflict

SIX = ("adapters", "audio", "probes", "rig", "sweeps", "verifiers")


def _rig(path: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """`rig ARGS` in a fresh interpreter with `path` first on the import path."""
    env = {**os.environ, "PYTHONPATH": str(path)}
    return subprocess.run(
        [sys.executable, "-P", "-c", "from rig.cli import script; script()", *args],
        env=env, capture_output=True, text=True, timeout=900, check=False)


def _distribution(folder: Path, name: str, files: dict[str, str]) -> None:
    """The metadata folder that an installer leaves behind."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    for file, text in files.items():
        (info / file).write_text(text)


def test_the_names_are_the_six_packages_and_lie_side_by_side() -> None:
    assert OUR_NAMES == SIX
    for name in SIX:
        assert (OUR_FOLDER / name / "__init__.py").is_file()


def test_our_own_claims_pass() -> None:
    check_names({name: ["duplexrig"] for name in SIX} | {"numpy": ["numpy"]})


def test_an_empty_table_passes() -> None:
    """Run from a source tree, nothing is claimed at all."""
    check_names({})


@pytest.mark.parametrize("name", SIX)
@pytest.mark.parametrize("claimants", [["intruder"], ["duplexrig", "intruder"]])
def test_a_foreign_claim_is_refused_for_each_name(name: str, claimants: list[str]) -> None:
    with pytest.raises(InputError, match=rf"^{name}: expected .* got .* distribution intruder;"):
        check_names({name: claimants})


def test_the_message_is_one_line_and_names_every_claimant() -> None:
    conflict = name_conflict({"audio": ["zeta", "duplexrig", "alpha"]})
    assert conflict is not None
    assert "\n" not in conflict
    assert "alpha, zeta;" in conflict


def test_this_environment_is_clean() -> None:
    assert name_conflict() is None


@pytest.mark.parametrize("claim", [
    {"top_level.txt": "probes\n"},
    {"RECORD": "probes/__init__.py,,\nintruder-1.0.dist-info/METADATA,,\n"},
])
def test_a_real_distribution_that_claims_a_name_stops_the_rig(
    tmp_path: Path, claim: dict[str, str]
) -> None:
    _distribution(tmp_path, "intruder", claim)
    answer = _rig(tmp_path, "--version")
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert len(answer.stderr.splitlines()) == 1
    assert answer.stderr.startswith("rig: error: probes: ")
    assert "intruder" in answer.stderr


def test_a_real_distribution_with_other_names_does_not(tmp_path: Path) -> None:
    _distribution(tmp_path, "bystander", {"top_level.txt": "bystander\nprobes_of_others\n"})
    answer = _rig(tmp_path, "--version")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("rig, version ")


@pytest.mark.parametrize("name", ["audio", "verifiers"])
def test_a_package_without_metadata_that_comes_first_on_the_path_stops_the_rig(
    tmp_path: Path, name: str
) -> None:
    """`audio` would be imported by the command line itself: the guard must be there before."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("raise SystemExit('the foreign one was loaded')\n")
    answer = _rig(tmp_path, "--version")
    assert answer.returncode == 2
    assert "Traceback" not in answer.stderr
    assert answer.stderr.startswith(f"rig: error: {name}: ")
    assert str(tmp_path / name) in answer.stderr


def test_a_single_file_module_is_noticed_too(tmp_path: Path) -> None:
    (tmp_path / "sweeps.py").write_text("")
    answer = _rig(tmp_path, "--version")
    assert answer.returncode == 2
    assert answer.stderr.startswith("rig: error: sweeps: ")
