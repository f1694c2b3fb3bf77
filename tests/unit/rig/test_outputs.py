"""Outputs never lie on what is read, on a run, or on each other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from audio.errors import InputError
from rig.outputs import check_outputs


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "one"
    (folder / "rec").mkdir(parents=True)
    for name in ("run.json", "measurements.jsonl", "scores.json"):
        (folder / name).write_text(name)
    return folder


@pytest.mark.parametrize("name", ["measurements.jsonl", "scores.json", "rec/a.t1.rec.json",
                                  "starts.jsonl", "judge/x.json", "Scores.json"])
@pytest.mark.parametrize("read", [True, False])
def test_a_file_of_a_run_is_no_target(run: Path, name: str, read: bool) -> None:
    (run / "judge").mkdir()
    with pytest.raises(InputError, match="expected another file for --out, got one"):
        check_outputs({"--out": run / name}, [run] if read else [])


def test_a_link_to_a_file_of_a_run_is_no_target(run: Path, tmp_path: Path) -> None:
    (tmp_path / "soft").symlink_to(run / "scores.json")
    os.link(run / "measurements.jsonl", tmp_path / "hard")
    (tmp_path / "way").symlink_to(run)
    for path in (tmp_path / "soft", tmp_path / "hard", tmp_path / "way" / "run.json"):
        with pytest.raises(InputError, match="expected another file for --out, got one"):
            check_outputs({"--out": path}, [run])


@pytest.mark.parametrize("sign", ["run.json", "scores.json", "measurements.jsonl",
                                  "attempts.jsonl"])
def test_a_folder_that_holds_a_run_is_no_target(tmp_path: Path, sign: str) -> None:
    (tmp_path / sign).touch()
    with pytest.raises(InputError, match="another folder for --folder, got one that holds a run"):
        check_outputs({}, [], folders={"--folder": tmp_path})


def test_a_folder_in_a_run_and_an_input_as_folder(run: Path) -> None:
    with pytest.raises(InputError, match="got one of the files of the run one"):
        check_outputs({}, [], folders={"--folder": run / "rec" / "page"})
    with pytest.raises(InputError, match="another folder for --folder, got one that is read"):
        check_outputs({}, [run], folders={"--folder": run})


def test_one_place_twice_and_a_folder_as_file(run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a file for each output, got one for --a and --b"):
        check_outputs({"--a": tmp_path / "x", "--b": tmp_path / "y" / ".." / "x"}, [])
    with pytest.raises(InputError, match="expected a file that can be written, got Is a dir"):
        check_outputs({"--a": run}, [])


def test_other_places_are_free(run: Path, tmp_path: Path) -> None:
    """A page beside the files of a run too; and the same names where no run lies."""
    check_outputs({"--out": run / "report.html", "--csv": tmp_path / "scores.json", "--no": None},
                  [run, None], folders={"--folder": run.parent, "--pictures": None})
    assert sorted(p.name for p in run.iterdir()) == ["measurements.jsonl", "rec", "run.json",
                                                     "scores.json"]
