"""Fixtures shared by the tests of the whole chain."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

TOOLS = Path(__file__).parent / "tools"
sys.path.insert(0, str(TOOLS))

import rig_testkit as kit  # noqa: E402

from rig import cli  # noqa: E402

# Python 3.11 takes the repr of the result of every coroutine that is run (`signal.signal` of the
# loop's own handler): of thousands of arrays that is twenty times the work of a session.
np.set_printoptions(threshold=64)

if find_spec("hypothesis"):
    from hypothesis import HealthCheck, settings

    # How long an example takes says how busy the machine is.
    settings.register_profile("any machine", deadline=None,
                              suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any machine")


@dataclass(frozen=True)
class Called:
    """What a call of the command line gave."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line of a usage or input error; fails the test when there is more or less."""
        assert self.code == 2, (self.code, self.err)
        assert self.out == ""
        lines = [line for line in self.err.splitlines()
                 if not re.match(r"(run|score|rescore)( \S+)?: \d+/\d+", line)]
        assert len(lines) == 1, self.err
        assert lines[0].startswith("rig: error: ")
        return lines[0]


@pytest.fixture
def call_rig(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Called]:
    """The command line in this process: `call_rig("run", suite, "--adapter", "silent")`."""
    # Looking through all installed distributions is a tenth of a second a call, and has its tests.
    monkeypatch.setattr(cli, "name_conflict", lambda: None)

    def call(*arguments: object) -> Called:
        capsys.readouterr()
        code = cli.main([str(a) for a in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Called(code, captured.out, captured.err)

    return call


@pytest.fixture(scope="session")
def built_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`built_once("name", build)`: the folder that `build(folder)` makes, made once for all
    processes of this run of the tests. Read only."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "built-once"

    def made(name: str, build: Callable[[Path], object]) -> Path:
        return kit.made_once(shared, name, build)

    return made


@pytest.fixture(scope="session")
def small_suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine cases, one an action, with short turns of real speech. Read only."""
    return kit.write_small_suite(tmp_path_factory.mktemp("suite") / "small")


@pytest.fixture(scope="session")
def tiny_suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three of them: LISTEN, TAKE_TURN, BACKCHANNEL. Read only."""
    return kit.write_small_suite(tmp_path_factory.mktemp("suite") / "tiny",
                                 ("LISTEN", "TAKE_TURN", "BACKCHANNEL"))


@pytest.fixture(scope="session")
def quick_suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cases of `tiny_suite` with a turn 2 of 1.9 s: for what is played in real time. Read
    only."""
    return kit.write_small_suite(tmp_path_factory.mktemp("suite") / "quick",
                                 ("LISTEN", "TAKE_TURN", "BACKCHANNEL"), shape="quick")


@pytest.fixture(scope="session")
def oracle_run(small_suite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small suite, played by the oracle and scored. Read only."""
    return _scored(small_suite, "oracle", tmp_path_factory)


@pytest.fixture(scope="session")
def random_run(small_suite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small suite, played at random and scored: passes and fails. Read only."""
    return _scored(small_suite, "random", tmp_path_factory)


def _scored(suite: Path, agent: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / agent
    assert cli.main(["run", str(suite), "--adapter", agent, "--jobs", "1", "--out",
                     str(run)]) == 0
    assert cli.main(["score", str(run), "--jobs", "1"]) == 0
    return run


@pytest.fixture
def add_adapter(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, kit.StubAdapter], None]:
    """Makes an adapter of the test known to the registry, for this process (`--jobs 1`)."""
    module = ModuleType("adapters_of_this_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def add(name: str, adapter: kit.StubAdapter) -> None:
        kit.register(name, adapter, monkeypatch.setitem, module)

    return add
