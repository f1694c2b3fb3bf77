"""Which files of a worker's command are part of a run's fingerprint."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from adapters import command_files as module
from adapters import registry
from adapters.command_files import command_files


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in {
            "my.py": "#!/usr/bin/env python\n", "sp dir/w.py": "1", "kit/worker_kit/serve.py": "1",
            "kit/w.py": "1", "one.py": "1", "pkg/__init__.py": "", "pkg/mod.py": "1",
            "pkg/other.py": "1", "pkg/.hidden/x.py": "1", "settings.yaml": "1",
            "bin/my_worker": "#!/bin/sh\n"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "link.py").symlink_to(tmp_path / "kit" / "w.py")
    (tmp_path / "bin" / "my_worker").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return tmp_path


@pytest.mark.parametrize(("command", "changed"), [
    (("./my.py",), "my.py"),
    (("my_worker", "--fast"), "bin/my_worker"),
    (("python", "my.py"), "my.py"),
    (("python", "sp dir/w.py"), "sp dir/w.py"),
    (("python", "w.py", "--config=settings.yaml"), "settings.yaml"),
    (("env", "CONFIG=settings.yaml", "true"), "settings.yaml"),
    (("python", "-m", "pkg.mod"), "pkg/mod.py"),
    (("python", "-m", "pkg.mod"), "pkg/other.py"),
    (("python", "-mpkg"), "pkg/mod.py"),
    (("python", "-m", "one"), "one.py"),
    (("python", "pkg"), "pkg/mod.py"),
    (("python", "my.py", "--code=pkg"), "pkg/mod.py"),
    (("sh", "-c", "exec python my.py"), "my.py"),
    (("bash", "-lc", "true;python 'sp dir/w.py'&"), "sp dir/w.py"),
    (("sh", "-c", "python -m pkg.mod"), "pkg/mod.py"),
    (("sh", "-c", "python 'my.py"), "pkg/none"),
    (("python", "kit/w.py"), "kit/worker_kit/serve.py"),
    (("python", "link.py"), "kit/worker_kit/serve.py"),
    (("./kit/w.py",), "kit/worker_kit/serve.py"),
])
def test_another_content_is_another_fingerprint(
        folder: Path, command: tuple[str, ...], changed: str) -> None:
    before = command_files(command)
    assert before.caution is None or changed == "pkg/none"
    assert command_files(command) == before
    if changed != "pkg/none":  # quotes that are not closed: read as far as that goes
        (folder / changed).write_text("#!another\n")
        assert command_files(command).sha256 != before.sha256


@pytest.mark.parametrize("command", [
    ("python", "-c", "import pkg.mod"), ("python", "-m", "no.such"), ("/bin/sh",), ("no_such",),
    ("python", "big.bin"), ("python", "x" * 5000), ("python", "a\0b"), ("sh", "-c", "true " * 2000),
    ("python", "-m", "../pkg"), ()])
def test_where_nothing_is_known_it_is_said(folder: Path, command: tuple[str, ...]) -> None:
    (folder / "big.bin").write_bytes(b"0" * (module.MAX_FILE_BYTES + 1))
    found = command_files(command)
    assert found.sha256 == ""
    assert "no file of the worker's command" in str(found.caution)


def test_the_interpreter_is_no_file_of_the_model(folder: Path) -> None:
    (folder / "bin" / "python3.11").write_text("#!/bin/sh\n")
    (folder / "bin" / "python3.11").chmod(0o755)
    assert command_files(("python3.11", "-c", "1")).sha256 == ""
    assert command_files((sys.executable, "-c", "1")).sha256 == ""


def test_what_is_read_has_bounds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = command_files(("python", "pkg"))
    for name, bound in (("MAX_FILES_N", 1), ("MAX_BYTES", 1), ("MAX_FOLDERS_N", 1)):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, bound)
            (folder / "pkg" / "deeper").mkdir(exist_ok=True)
            (folder / "pkg" / "deeper" / "x.py").write_text("22")
            assert "more code than is looked at" in str(command_files(("python", "pkg")).caution)
        shutil.rmtree(folder / "pkg" / "deeper")
    assert command_files(("python", "pkg")) == whole


def test_two_files_are_not_one(folder: Path) -> None:
    (folder / "a").write_text("ab")
    (folder / "b").write_text("c")
    before = command_files(("x", "a", "b"))
    (folder / "a").write_text("a")
    (folder / "b").write_text("bc")
    assert command_files(("x", "a", "b")) != before


def test_a_worker_that_is_a_script_has_its_content_in_its_version(folder: Path) -> None:
    def version() -> str:
        return registry.create("worker", {"command": "./my.py"}).version

    before = version()
    (folder / "my.py").write_text("#!another\n")
    assert version() != before
    assert registry.create("worker", {"command": "no_such"}).version.endswith("+worker.1")
