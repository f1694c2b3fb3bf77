"""Every mistake of the table is told with file and line, by the command that a user types."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from suite_mistakes import MISTAKES, Mistake, changed

from audio.errors import InputError
from probes.expand import expand, plan_streams
from probes.gates import check_suite
from probes.loader import load_suite
from probes.newsuite import write_new_suite
from rig import cli


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_new_suite("mine")
    return Path("mine")


def test_the_suite_is_right_before_it_is_changed(suite: Path) -> None:
    assert cli.main(["build", str(suite), "--dry-run"]) == 0


def test_the_table_has_no_mistake_twice() -> None:
    assert len({m.what for m in MISTAKES}) == len(MISTAKES) > 60


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.what)
def test_a_mistake_is_told_with_file_and_line(
        suite: Path, mistake: Mistake, capsys: pytest.CaptureFixture[str]) -> None:
    line = mistake.make(suite)
    assert cli.main(["build", str(suite), "--dry-run"]) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith(f"rig: error: mine/{mistake.file}:{line}: "), message
    for words in mistake.words:
        assert words in message


@pytest.mark.parametrize("name", ["suite.yaml", "roles.yaml", "probes.yaml", "grid.yaml"])
def test_a_file_that_is_not_there(suite: Path, name: str,
                                  capsys: pytest.CaptureFixture[str]) -> None:
    (suite / name).unlink()
    assert cli.main(["build", str(suite), "--dry-run"]) == 2
    assert f"mine: expected a suite folder with {name}, got " in capsys.readouterr().err


def test_a_file_of_conversations_with_another_ending(
        suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (suite / "conversations" / "care.yaml").rename(suite / "conversations" / "care.yml")
    assert cli.main(["build", str(suite), "--dry-run"]) == 2
    line = capsys.readouterr().err
    assert "expected file names that end in .yaml, and no folders, got care.yml" in line


def test_no_conversation_at_all(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (suite / "conversations").iterdir():
        path.unlink()
    assert cli.main(["build", str(suite), "--dry-run"]) == 2
    assert "expected at least one case to build, got none" in capsys.readouterr().err


def test_whatever_is_changed_is_told_with_file_and_line(suite: Path) -> None:
    """Every 20th of some 2,300 changes (a value replaced, a key added or taken away): the suite
    loads, or one line says where."""
    told = 0
    for path in sorted(suite.rglob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        for what, data in list(changed(yaml.safe_load(text)))[::20]:
            path.write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
            try:
                found = load_suite(suite)
                messages = [str(failure) for failure in check_suite(found)]
            except InputError as error:
                messages = [str(error)]
            else:
                if not messages:
                    plan_streams(found, expand(found))
            told += len(messages)
            for message in messages:
                assert re.match(r"mine/\S+\.yaml:\d+: [^\n]+$", message), f"{what}: {message}"
        path.write_text(text, encoding="utf-8")
    assert told > 50
