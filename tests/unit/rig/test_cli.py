"""The command line: one line for a usage error, its exit code, help with an example."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from audio.errors import InfrastructureError, InputError
from rig import cli

COMMANDS = sorted(cli._COMMANDS)


def _error(capsys: pytest.CaptureFixture[str], argv: list[str], code: int = 2) -> str:
    """The one line on standard error of a call that must fail with `code`."""
    assert cli.main(argv) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == 1, captured.err
    assert lines[0].startswith("rig: error: ")
    return lines[0]


@pytest.fixture
def add_command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., object]], None]:
    """Registers a command `probe` that runs the given function."""

    def add(body: Callable[..., object]) -> None:
        module = types.ModuleType("tests_probe_command")
        module.__dict__["command"] = click.command("probe")(body)
        monkeypatch.setitem(sys.modules, "tests_probe_command", module)
        monkeypatch.setitem(cli._COMMANDS, "probe", ("tests_probe_command", "A test's command."))

    return add


@pytest.mark.parametrize(("typed", "meant"), [
    ("adaptrs", "adapters"), ("dcotor", "doctor"), ("buidl", "build"), ("reprot", "report"),
])
def test_an_unknown_command_names_the_nearest(
    capsys: pytest.CaptureFixture[str], typed: str, meant: str
) -> None:
    line = _error(capsys, [typed])
    assert f"got {typed!r}; did you mean {meant!r}?" in line


def test_what_was_typed_or_read_is_no_command_to_the_terminal(
    capsys: pytest.CaptureFixture[str]
) -> None:
    """Quoted where it stands in words of ours; else spelled out: an option's name, a path."""
    assert "--a\\x1b[2Jb\\x07" in _error(capsys, ["run", "--a\x1b[2Jb\x07"])
    line = _error(capsys, ["score", "a\x1b]0;b\x07"])
    assert line.isprintable()


def test_an_unknown_command_like_no_other_names_them_all(
    capsys: pytest.CaptureFixture[str]
) -> None:
    line = _error(capsys, ["xyzzy"])
    assert "did you mean" not in line
    for name in COMMANDS:
        assert name in line


def test_an_unknown_option_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    line = _error(capsys, ["doctor", "--jsn"])
    assert "--jsn" in line
    assert "--json" in line
    assert "(see: rig doctor --help)" in line


def test_an_unknown_option_of_the_rig_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--versoin" in _error(capsys, ["--versoin"])


def test_a_surplus_argument(capsys: pytest.CaptureFixture[str]) -> None:
    assert "surplus" in _error(capsys, ["doctor", "surplus"])


def test_a_missing_option_says_which_and_where(capsys: pytest.CaptureFixture[str]) -> None:
    line = _error(capsys, ["run", "suite"])
    assert "--adapter" in line
    assert "(see: rig run --help)" in line


def test_an_option_without_its_value_says_where(capsys: pytest.CaptureFixture[str]) -> None:
    assert "2 arguments. (see: rig field --help)" in _error(capsys, ["field", "--pair", "a.wav"])


def test_debug_adds_the_traceback_and_keeps_the_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--debug", "doctor", "--jsn"]) == 2
    captured = capsys.readouterr()
    assert "Traceback (most recent call last)" in captured.err
    assert captured.err.splitlines()[-1].startswith("rig: error: ")


def test_debug_may_stand_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--jsn", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    captured = capsys.readouterr()
    assert "rig demo" in captured.err
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(("error", "code"), [
    (InputError("suite.yaml: expected a mapping,\n got a list"), 2),
    (InfrastructureError("no route"), 3),
])
def test_errors_of_the_rig_are_one_line_with_their_code(
    capsys: pytest.CaptureFixture[str], add_command: Callable[[Callable[..., object]], None],
    error: Exception, code: int,
) -> None:
    def body() -> None:
        raise error

    add_command(body)
    line = _error(capsys, ["probe"], code)
    assert line == f"rig: error: {' '.join(str(error).split())}"


def test_a_defect_is_neither_a_missed_gate_nor_a_usage_error(
    capsys: pytest.CaptureFixture[str], add_command: Callable[[Callable[..., object]], None]
) -> None:
    def body() -> None:
        raise KeyError("spans")

    add_command(body)
    line = _error(capsys, ["probe"], 70)
    assert "KeyError: 'spans'" in line
    assert "test_cli.py:" in line


def test_an_interrupt_is_130(
    capsys: pytest.CaptureFixture[str], add_command: Callable[[Callable[..., object]], None]
) -> None:
    def body() -> None:
        raise KeyboardInterrupt

    add_command(body)
    assert cli.main(["probe"]) == 130
    assert "interrupted" in capsys.readouterr().err


def test_what_a_command_returns_is_the_exit_code(
    add_command: Callable[[Callable[..., object]], None]
) -> None:
    add_command(lambda: 1)
    assert cli.main(["probe"]) == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_an_example(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert cli.main([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"Usage: rig {name}")
    example = text[text.index("Example"):]
    assert f"rig {name}" in example


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_is_registered_under_its_own_name(name: str) -> None:
    command = cli.app.get_command(click.Context(cli.app), name)
    assert command is not None
    assert command.name == name


def _fresh(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          timeout=900, check=False, env=dict(os.environ))


def test_help_loads_no_heavy_module() -> None:
    """What makes `rig --help` quick, stated so that a busy machine cannot make it fail."""
    answer = _fresh(
        "import sys\nfrom rig.cli import main\ncode = main(['--help'])\n"
        "heavy = {'numpy', 'onnxruntime', 'soundfile', 'pydantic', 'jinja2', 'torch', 'asyncio'}\n"
        "sys.stderr.write(' '.join(sorted(heavy & set(sys.modules))))\nsys.exit(code)")
    assert answer.returncode == 0
    assert answer.stderr == ""
    for name in COMMANDS:
        assert f"\n  {name} " in answer.stdout


OUTPUTS = [("adapters", "--json"), ("adapters",), ("--version",)]
"""Written past rich, by rich, and so short that it is still buffered at the end."""


@pytest.mark.parametrize("command", OUTPUTS)
def test_a_reader_that_goes_away_is_no_gate_that_was_not_met(command: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run([sys.executable, "-m", "rig.cli", *command], stdout=writer,
                              stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", OUTPUTS)
def test_output_that_cannot_be_written_is_one_line(command: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-m", "rig.cli", *command], stdout=full,
                              stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2, "rig: error: cannot read or write: No space left on device\n")


@pytest.mark.skipif(os.name == "nt", reason="needs a shell that closes streams")
def test_closed_output_is_no_defect() -> None:
    done = subprocess.run(["sh", "-c", f"{sys.executable} -m rig.cli adapters >&-"], check=False,
                          capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_name_that_is_too_long_is_named(call_rig: Any, tmp_path: Path) -> None:
    called = call_rig("score", tmp_path / ("x" * 300))
    assert called.code == 2
    assert called.err.startswith(f"rig: error: cannot read or write '{tmp_path}/xxx")
    assert called.err.endswith("x': File name too long\n")
    assert len(called.err) < 300


@pytest.mark.parametrize("name", COMMANDS)
def test_a_number_option_refuses_nan(name: str) -> None:
    """`nan` passes every bound of click, and a limit that is `nan` (--max-cost) is none."""
    command = cli.app.get_command(click.Context(cli.app), name)
    assert command is not None
    for param in command.params:
        if isinstance(param.type, click.FloatRange | click.types.FloatParamType):
            for value in ("nan", "inf", "-inf"):
                with pytest.raises(click.BadParameter):
                    param.type.convert(value, param, None)


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize("code", [130, 0])
def test_ctrl_c_when_all_is_told_keeps_the_exit_code_and_leaves_no_traceback(code: int) -> None:
    """While the interpreter ends, and waits for what it has started."""
    script = f"""
import atexit, os, signal, time
from rig import cli
signal.signal(signal.SIGINT, signal.default_int_handler)
cli.main = lambda: {code}
atexit.register(lambda: (os.kill(os.getpid(), signal.SIGINT), time.sleep(60)))
cli.script()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          timeout=50, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")
