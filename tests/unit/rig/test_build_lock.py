"""Two builds never write into one suite folder, and a folder of something else gets no lock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from probes.newsuite import write_new_suite
from rig.store import FolderLock


def test_a_second_build_is_refused_while_the_first_one_writes(tmp_path: Path, call_rig: Any
                                                              ) -> None:
    write_new_suite(tmp_path / "mine")
    out = tmp_path / "built"
    (out / ".cache").mkdir(parents=True)
    with FolderLock(out / ".cache"):
        line = call_rig("build", tmp_path / "mine", "--jobs", 1, "--out", out).error
    assert "another rig is writing into this folder" in line
    assert sorted(p.name for p in out.iterdir()) == [".cache"]


def test_a_folder_of_something_else_stays_as_it_is(tmp_path: Path, call_rig: Any) -> None:
    write_new_suite(tmp_path / "mine")
    other = tmp_path / "photos"
    other.mkdir()
    (other / "cat.jpg").write_bytes(b"meow")
    line = call_rig("build", tmp_path / "mine", "--jobs", 1, "--out", other).error
    assert "got a folder with cat.jpg" in line
    assert [p.name for p in other.iterdir()] == ["cat.jpg"]
