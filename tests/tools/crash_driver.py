"""Kills real runs with SIGKILL at chosen system calls, then resumes them. POSIX only.

    python crash_driver.py SPEC.json        prints one JSON document

The spec: `suite`, `root`, `adapter` (`talker`, `flaky` or a built-in one), `jobs`, `retries` and
`kills`, a list of [step, phase]. A step is the number, from 1, of a call that makes something last:
`os.replace`, `os.write` or `os.fsync` on a file below the run folder, in the process that runs
`rig.runner.run` (for `where: "worker"` in its worker processes). A phase is `before` or `after`
the call, or `half` of it: half of the bytes for a write, half of the temporary file for the flush
that precedes a rename.

Each kill gets a run folder of its own, `root/STEP-PHASE`, and two forked processes: one that is
killed, one that resumes. Without kills one run is left undisturbed in `root/whole` and its steps
are listed.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import rig_testkit as kit

from adapters.base import AudioReceived, ResponseDone, ResponseStarted, TextDelta
from audio.errors import RigError
from probes.render import load_built
from rig.runner import RunRequest, run
from rig.schedule import Bounds
from rig.store import RunFolder

PLAN_VARIABLE = "CRASH_DRIVER_WORKER_PLAN"
MARKS_VARIABLE = "CRASH_DRIVER_MARKS"


SHORT = Bounds(turn1_reply_s=2.0, settle_s=0.2, turn2_reply_s=0.4, trailing_s=0.2)
"""Short waits: these tests are about files."""


class Killer:
    """Counts the calls that make something last, and kills this process at one of them."""

    def __init__(self, folder: Path, step: int | None, phase: str) -> None:
        self._folder = str(folder)
        self._step = step
        self._phase = phase
        self._paths: dict[int, str] = {}
        self._real: dict[str, Any] = {n: getattr(os, n) for n in
                                      ("open", "close", "replace", "write", "fsync")}
        self.steps: list[tuple[str, str]] = []

    def install(self) -> None:
        for name in self._real:
            setattr(os, name, getattr(self, f"_{name}"))

    def _ours(self, path: object) -> bool:
        return str(path).startswith(self._folder)

    def _strike(self, call: str, path: str, go: Callable[[], Any],
                half: Callable[[], None] | None) -> Any:
        self.steps.append((call, str(Path(path).relative_to(self._folder))))
        if len(self.steps) != self._step:
            return go()
        if self._phase == "after":
            go()
        elif self._phase == "half":
            assert half is not None, f"no half of {call} {path}"
            half()
        os.kill(os.getpid(), signal.SIGKILL)
        return None

    def _open(self, path: Any, flags: int, mode: int = 0o777, **options: Any) -> int:
        fd: int = self._real["open"](path, flags, mode, **options)
        if not options and self._ours(path):
            self._paths[fd] = os.fspath(path)
        return fd

    def _close(self, fd: int) -> None:
        self._paths.pop(fd, None)
        self._real["close"](fd)

    def _replace(self, source: Any, target: Any, **options: Any) -> None:
        def go() -> None:
            self._real["replace"](source, target, **options)

        if not self._ours(target):
            go()
            return
        self._strike("replace", os.fspath(target), go, None)

    def _write(self, fd: int, data: Any) -> int:
        if fd not in self._paths:
            return int(self._real["write"](fd, data))
        size: int = self._strike(
            "write", self._paths[fd], lambda: self._real["write"](fd, data),
            lambda: self._real["write"](fd, bytes(data)[: len(data) // 2]))
        return size

    def _fsync(self, fd: int) -> None:
        path = self._paths.get(fd)
        if path is None:
            self._real["fsync"](fd)
            return

        def half() -> None:
            size = Path(path).stat().st_size
            os.truncate(path, size // 2)

        self._strike("fsync", path, lambda: self._real["fsync"](fd),
                     half if Path(path).name.startswith(".part-") else None)


def _talks(session: kit.StubSession, frame: Any) -> None:
    """Answers turn 1 after two seconds with a burst of one second."""
    if session.frames == 100:
        now_ns = session.now_ns
        session.emit(ResponseStarted(now_ns, "r1"),
                     *(AudioReceived(now_ns, kit.tone(2400), "r1") for _ in range(10)),
                     TextDelta(now_ns, "well then", "r1"), ResponseDone(now_ns, "r1"))


def _flaky() -> kit.StubAdapter:
    marks = Path(os.environ.get(MARKS_VARIABLE, tempfile.gettempdir()))
    return kit.faulty("raises in events", frozenset({"R1-C1-1-L2", "R1-C4-1-L2"}),
                      first_attempts_only=marks)


# At import, so that spawned worker processes know them too.
kit.register("talker", kit.stub(_talks), dict.__setitem__, sys.modules[__name__])
kit.register("flaky", _flaky(), dict.__setitem__, sys.modules[__name__])
if __name__ == "__mp_main__":
    (Path(os.environ[MARKS_VARIABLE]) / f"pid-{os.getpid()}").touch()
    if PLAN_VARIABLE in os.environ:
        _plan = json.loads(os.environ[PLAN_VARIABLE])
        Killer(Path(_plan["folder"]), _plan["step"], _plan["phase"]).install()


def play(spec: dict[str, Any], folder: Path, *, resume: bool) -> int:
    """Run; the exit code that the command line would give."""
    request = RunRequest(
        suite_dir=Path(spec["suite"]), run=RunFolder(folder), adapter=spec["adapter"], settings={},
        cases=load_built(spec["suite"]).cases, jobs=spec.get("jobs", 1),
        retries=spec.get("retries", 2), resume=resume, bounds=SHORT)
    try:
        result = run(request)
    except RigError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0 if result.complete else 3


def forked(body: Callable[[], int]) -> int:
    """Run in a fork of this warm process; its exit code, negative for a signal."""
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            code = body()
        except BaseException:  # noqa: BLE001 - a fork must never go on as its parent
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def wait_for_workers(marks: Path) -> None:
    """Wait until the workers of a killed process have ended."""
    pids = [int(p.name.removeprefix("pid-")) for p in marks.glob("pid-*")]
    kit.wait_until(lambda: not any(map(_alive, pids)), "workers are left")


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        # A process that has ended and is not yet collected by its new parent answers too.
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


def kill_once(spec: dict[str, Any], step: int, phase: str) -> dict[str, Any]:
    folder = Path(spec["root"]) / f"{step}-{phase}"
    marks = Path(spec["root"]) / f"{step}-{phase}.marks"
    marks.mkdir()
    in_worker = spec.get("where") == "worker"

    def killed() -> int:
        kit.register("flaky", _flaky(), dict.__setitem__, sys.modules[__name__])
        if not in_worker:
            Killer(folder, step, phase).install()
        return play(spec, folder, resume=False)

    def resumed() -> int:
        kit.register("flaky", _flaky(), dict.__setitem__, sys.modules[__name__])
        return play(spec, folder, resume=True)

    os.environ[MARKS_VARIABLE] = str(marks)
    if in_worker:
        os.environ[PLAN_VARIABLE] = json.dumps({"folder": str(folder), "step": step,
                                                "phase": phase})
    first = forked(killed)
    os.environ.pop(PLAN_VARIABLE, None)
    wait_for_workers(marks)
    ledger = folder / "attempts.jsonl"
    left = ledger.read_bytes().decode() if ledger.exists() else ""
    return {"folder": str(folder), "killed": first, "ledger": left,
            "resumed": forked(resumed)}


def whole(spec: dict[str, Any]) -> dict[str, Any]:
    folder = Path(spec["root"]) / "whole"
    marks = Path(spec["root"]) / "whole.marks"
    marks.mkdir()
    os.environ[MARKS_VARIABLE] = str(marks)
    report = Path(spec["root"]) / "whole.steps.json"

    def body() -> int:
        kit.register("flaky", _flaky(), dict.__setitem__, sys.modules[__name__])
        killer = Killer(folder, None, "before")
        killer.install()
        code = play(spec, folder, resume=False)
        report.write_text(json.dumps(killer.steps))
        return code

    return {"code": forked(body), "steps": json.loads(report.read_text())}


def main() -> None:
    spec = json.loads(Path(sys.argv[1]).read_text())
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    kills = spec.get("kills")
    document = whole(spec) if kills is None else [kill_once(spec, *k) for k in kills]
    sys.stdout.write(json.dumps(document))


if __name__ == "__main__":
    main()
