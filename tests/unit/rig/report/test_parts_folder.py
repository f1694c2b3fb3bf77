"""A report as a folder: one page never shows the parts of another, and nothing old is left."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from audio.errors import InputError
from rig.report import page as page_module
from rig.report import parts_folder
from rig.report.build import write_report
from rig.store import RunFolder


def _named(folder: Path) -> Path:
    """The folder of parts that the page reads."""
    found = re.search(r'"parts":"([^"]+)"', (folder / "index.html").read_text())
    assert found
    return folder / found[1]


def _state(folder: Path) -> dict[str, bytes]:
    """The page and everything that it can read."""
    return {"page": (folder / "index.html").read_bytes(),
            **{p.name: p.read_bytes() for p in _named(folder).iterdir()}}


def _write(run: Path, out: Path, audio: str = "none") -> None:
    write_report([RunFolder(run)], out, audio=audio, as_folder=True)


@pytest.fixture
def breaks_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """The N-th file from now on cannot be written."""
    from audio.files import atomic_path, atomic_write_bytes

    def make(n: int) -> None:
        left = [n]

        def count() -> None:
            left[0] -= 1
            if left[0] == 0:
                raise InputError("disk full")

        def write(path: Path, content: bytes) -> None:
            count()
            atomic_write_bytes(path, content)

        def open_path(path: Path) -> AbstractContextManager[Path]:
            count()
            return atomic_path(path)

        monkeypatch.setattr(parts_folder, "atomic_write_bytes", write)
        monkeypatch.setattr(page_module, "atomic_path", open_path)

    return make


@pytest.mark.parametrize("at", [1, 2, 10, 11])
def test_broken_off_anywhere_the_page_before_stands_with_its_own_parts(
    oracle_run: Path, random_run: Path, tmp_path: Path, breaks_at: Any, at: int
) -> None:
    """Nine cases, what was said, and the page: eleven files."""
    _write(oracle_run, tmp_path / "r", "all")
    before = _state(tmp_path / "r")
    breaks_at(at)
    with pytest.raises(InputError, match="disk full"):
        _write(random_run, tmp_path / "r")
    assert _state(tmp_path / "r") == before
    breaks_at(0)  # never
    _write(random_run, tmp_path / "r")
    _write(random_run, tmp_path / "fresh")
    assert _state(tmp_path / "r") == _state(tmp_path / "fresh")
    assert [p.name for p in (tmp_path / "r").glob("cases*")] == [_named(tmp_path / "r").name]


def test_sound_that_was_left_out_is_gone(oracle_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "r"
    _write(oracle_run, out, "all")
    with_sound = _named(out)
    assert list(with_sound.glob("case-*-hold.js"))
    with_sound.rename(out / "cases")  # as reports of before had it
    _write(oracle_run, out)
    assert not (out / "cases").exists()
    assert _named(out) != with_sound
    assert not list(out.rglob("*-hold.js"))
    assert {p.name for p in out.iterdir()} == {"index.html", _named(out).name}


def test_folders_of_others_are_left_alone(oracle_run: Path, tmp_path: Path) -> None:
    kept = [tmp_path / "cases-mine" / "a.js", tmp_path / f"cases-{'0' * 16}" / "notes.txt",
            tmp_path / "cases" / "other.js", tmp_path / f"cases-{'1' * 16}" / "deep" / "x.js"]
    for path in kept:
        path.parent.mkdir(parents=True)
        path.write_text("not a part")
    (tmp_path / f"cases-{'2' * 16}").symlink_to(tmp_path / "cases")
    _write(oracle_run, tmp_path)
    assert all(path.read_text() == "not a part" for path in kept)
    assert (tmp_path / f"cases-{'2' * 16}").is_symlink()


def test_a_run_is_never_the_target(oracle_run: Path, call_rig: Any, tmp_path: Path) -> None:
    files = {p: p.read_bytes() for p in oracle_run.iterdir() if p.is_file()}
    for option, target in (("--out", oracle_run / "measurements.jsonl"),
                           ("--out", oracle_run / "rec" / "page.html"),
                           ("--folder", oracle_run), ("--folder", oracle_run / "rec")):
        called = call_rig("report", oracle_run, option, target)
        assert called.code == 2
        assert f"for {option}, got one" in called.error
        assert called.error.count("\n") <= 1
    assert {p: p.read_bytes() for p in oracle_run.iterdir() if p.is_file()} == files
    document = tmp_path / "study.json"
    document.write_text(json.dumps({}))
    assert "expected another file for --out, got one that is read" in call_rig(
        "report", document, "--out", document).error
    assert document.read_text() == "{}"
