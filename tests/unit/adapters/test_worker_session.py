"""A session with a local model's process: every way in which the process can let the rig down."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import rig_testkit as kit
from lockstep_clock import Lockstep

from adapters import registry, worker_process
from adapters.base import AudioReceived, Fault, SessionConfig
from adapters.worker_process import Gone, ModelProcesses, WorkerProcess
from adapters.worker_session import Patience, WorkerSession, open_session
from adapters.workers.worker_kit.protocol import Hello, Out
from audio.errors import InfrastructureError
from audio.key_names import HUB_TOKENS
from audio.timebase import FRAME_NS

BAD = Path(__file__).parents[2] / "tools" / "bad_worker.py"
TOKEN = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz012345"


def outcome(kind: str, frames: int = 30, **limits: str) -> tuple[int, Fault]:
    """How many frames were heard before the fault, and the fault."""
    adapter = registry.create("worker", {
        "command": f"{sys.executable} {BAD} {kind} 5", "persona_prompt": "no", **limits})
    config = SessionConfig("case", 1, "", 1)

    async def play() -> tuple[int, Fault]:
        clock = Lockstep()
        async with adapter.session(config, clock) as session:
            for k in range(frames):
                clock.t_ns = (k + 1) * FRAME_NS
                await session.send(np.zeros(480, np.float32))
            heard = 0
            async for event in session.events():
                heard += isinstance(event, AudioReceived)
                if isinstance(event, Fault):
                    return heard, event
        raise AssertionError("no fault")

    return asyncio.run(play())


@pytest.mark.parametrize(("kind", "reason"), [
    ("short", "frame 5 has 1919 samples, expected 1920"),
    ("long", "frame 5 has 1921 samples, expected 1920"),
    ("empty", "frame 5 has 0 samples"),
    ("nan", "frame 5 holds samples that are not finite"),
    ("inf", "frame 5 holds samples that are not finite"),
    ("pcm16", "frame 5 holds samples beyond 10 times full scale"),
    ("int16", "the model failed: ProtocolError: samples are int16 of shape (1920,), expected "
     "floats of one dimension"),
    ("raises", "the model failed: RuntimeError: CUDA out of memory"),
    ("exits", "it ended with exit code 9"),
    ("killed", "it ended with signal 9"),
    ("skips", "an answer to frame 6, expected one to frame 5"),
    ("prints", "does the worker print to its standard output?"),
    ("huge", "a message of 2147483648 bytes"),
    ("ready_again", "an unexpected Ready"),
    ("fault", "the model failed: codebook overflow"),
    ("half", "in the middle of a message (100 bytes of it) with exit code 0"),
    ("bad_text", "text of frame 5: expected UTF-8"),
    ("long_text", "text of frame 5: 20001 characters, expected at most 20000"),
    ("hello_again", "an unexpected Hello"),
    ("forks", "it ended with exit code 9"),
    ("floods", "it ended with exit code 1; its last words: " + 392 * "x" + " the end"),
])
def test_what_came_before_is_kept_and_the_reason_is_said(kind: str, reason: str) -> None:
    heard, fault = outcome(kind)
    assert heard == 5
    assert fault.severity == "infrastructure"
    assert not fault.hopeless
    assert reason in fault.reason, fault.reason


def test_a_process_that_hangs_is_waited_for_so_long_and_no_longer() -> None:
    heard, fault = outcome("hangs", answer_timeout_s="0.5")
    assert heard == 5
    assert "no answer to frame 5 within 0.5 s" in fault.reason


def test_half_an_answer_is_none() -> None:
    heard, fault = outcome("half_stalls", answer_timeout_s="0.5")
    assert heard == 5
    assert "no answer to frame 5 within 0.5 s" in fault.reason


class Ahead:
    """A process that answers each frame when it is asked for it, and one more at `at`, unasked."""

    alive = True

    def __init__(self, at: int) -> None:
        self.at, self.k = at, 0

    def send(self, message: object) -> None:
        pass

    def take(self, timeout_s: float | None) -> Out | None:
        if timeout_s is None and self.k != self.at:  # only looked whether there is something
            return None
        self.k += 1
        return Out(self.k - 1, np.zeros(1920, np.float32))


@pytest.mark.parametrize(("at", "given"), [(0, "none was"), (2, "frame 1 was the last one")])
def test_an_answer_before_its_frame_is_none(at: int, given: str) -> None:
    hello = Hello("ahead", "1", 24_000, 24_000, 1920, 1920, full_duplex=True, persona_prompt=False)
    session = WorkerSession(Ahead(at), hello, Lockstep(), Patience(1, 1, 1))

    async def play() -> None:
        for _ in range(4 * at + 1):
            await session.send(np.zeros(480, np.float32))

    asyncio.run(play())
    assert str(session._failure) == f"worker: an answer to frame {at} before it was given: {given}"


def test_an_answer_too_many_is_found_with_the_next_frame() -> None:
    heard, fault = outcome("twice")
    assert heard == 6
    assert "an answer to frame 5, expected one to frame 6" in fault.reason


@pytest.mark.parametrize(("kind", "reason", "hopeless"), [
    ("exit_on_load", "expected a hello: it ended with exit code 3; its last words: secret "
     "[redacted] refused", False),
    ("bad_load", "expected a hello: the model failed: OSError: weights: no such file", False),
    ("no_memory", "expected a hello: the model failed: the model needs 80 GB", True),
    ("fails_prompt", "expected that session 1 is ready: the model failed: ValueError: prompt too "
     "long", False),
    ("other_rate", "bad says input_rate_hz 16000, expected 24000", True),
    ("no_name", "expected a hello: Hello: name is '', expected text of 1 to 200", False),
    ("outs_first", "expected that session 1 is ready: an unexpected Out", False),
    ("huge_number", "expected that session 1 is ready: Ready: session is 1000000", False),
    ("surrogate", "expected that session 1 is ready: WorkerFault: reason is '\\ud800'", False),
    ("token", "the model failed: RuntimeError: 401 for hub with [redacted]", False),
    ("prints_first", "does the worker print to its standard output?", False),
    ("forks_on_load", "expected a hello: it ended with exit code 3", False),
    ("long_name", "expected text of 1 to 200 characters", False),
])
def test_a_session_that_cannot_begin(kind: str, reason: str, hopeless: bool,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    with pytest.raises(InfrastructureError) as caught:
        outcome(kind)
    assert reason in str(caught.value)
    assert caught.value.hopeless is hopeless
    assert TOKEN not in str(caught.value)


def test_after_three_that_did_not_load_no_further_one_is_tried(tmp_path: Path) -> None:
    """A full disk fails every case, after minutes each; one that loads in between is a new start.
    """
    processes = ModelProcesses((sys.executable, str(BAD), "loads_by_file", "5", str(tmp_path)), ())
    adapter = registry.create("worker", {"command": "x", "persona_prompt": "no"})

    async def begun() -> bool:
        async with open_session(processes, SessionConfig("case", 1, "", 1), Lockstep(),
                                Patience(60, 60, 60), adapter.capabilities) as session:
            session._failure = InfrastructureError("ended: the next session has a new process")
            return True

    def hopeless() -> bool:
        with pytest.raises(InfrastructureError, match="No space left on device") as caught:
            asyncio.run(begun())
        said = "3 processes in a row did not load their model, the last one: expected a hello"
        assert (said in str(caught.value)) is caught.value.hopeless
        return caught.value.hopeless

    assert [hopeless(), hopeless()] == [False, False]
    (tmp_path / "loads").touch()
    assert asyncio.run(begun())
    (tmp_path / "loads").unlink()
    assert [hopeless(), hopeless(), hopeless()] == [False, False, True]


@pytest.mark.parametrize(("number", "hopeless"), [(errno.ENOENT, True), (errno.EACCES, True),
                                                  (errno.ENOEXEC, True), (errno.ENOMEM, False)])
def test_what_is_no_program_is_not_started_again(
        monkeypatch: pytest.MonkeyPatch, number: int, hopeless: bool) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(InfrastructureError) as caught:
        WorkerProcess(("/no/program",), {})
    assert str(caught.value) == f"worker: cannot start /no/program: {os.strerror(number)}"
    assert caught.value.hopeless is hopeless


def test_what_failed_with_the_last_frame_is_raised_when_the_schedule_is_over() -> None:
    """Whether or not anybody has read the events by then."""
    adapter = registry.create("worker", {
        "command": f"{sys.executable} {BAD} nan 2", "persona_prompt": "no"})

    async def play() -> None:
        clock = Lockstep()
        async with adapter.session(SessionConfig("case", 1, "", 1), clock) as session:
            for _ in range(12):
                await session.send(np.zeros(480, np.float32))
            await session.settle()

    with pytest.raises(InfrastructureError, match="frame 2 holds samples that are not finite"):
        asyncio.run(play())


@pytest.mark.parametrize("name", HUB_TOKENS)
def test_keys_are_not_handed_on_and_tokens_not_told(
        monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, TOKEN)
    for other in ("OPENAI_API_KEY", "AZURE_OPENAI_KEY", "ICE_PASSWORD", "aws_secret_access_key"):
        monkeypatch.setenv(other, "sk-0123456789")
    adapter = registry.create("worker", {
        # A number for each: a process is kept, with its environment, for the same command.
        "command": f"{sys.executable} {BAD} leaks {HUB_TOKENS.index(name)}",
        "persona_prompt": "no"})

    async def play() -> str:
        clock = Lockstep()
        async with adapter.session(SessionConfig("case", 1, "", 1), clock) as session:
            for _ in range(4):
                await session.send(np.zeros(480, np.float32))
            await session.settle()
        return repr([event async for event in session.events()])

    told = asyncio.run(play())
    assert TOKEN not in told
    assert "[redacted]" in told
    assert f'"keys": ["{name}"]' in told
    assert "worker_frames" in told  # of a session of one frame, too


def test_a_process_that_died_between_sessions_leaves_nothing_open() -> None:
    processes = ModelProcesses((sys.executable, str(BAD), "good"), ())
    open_files = Path("/proc/self/fd")
    before_n = len(list(open_files.iterdir())) if open_files.is_dir() else None
    for _ in range(3):
        with processes.one() as process:
            pass
        os.kill(process._process.pid, signal.SIGKILL)
        process._process.wait()
    with processes.one() as last:
        pass
    processes.close()
    last._stderr.join(10)
    if before_n is not None:
        assert len(list(open_files.iterdir())) <= before_n + 3


def _gone(group: int) -> bool:
    """Whether no process of the group runs; one that is dead may wait for its parent."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                return False
    return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_what_a_worker_has_started_ends_with_it() -> None:
    """As `uv run` starts a model."""
    processes = ModelProcesses(("/bin/sh", "-c", f"{sys.executable} {BAD} good; true"), ())
    with processes.one() as process:
        group = process._process.pid
        assert process.take(60) is not None
    process.end()
    assert _gone(group)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_what_escaped_from_its_group_holds_no_thread_and_no_file_of_ours(tmp_path: Path) -> None:
    """A child in a session of its own keeps the pipes open for as long as it likes."""
    before_n, threads = len(list(Path("/proc/self/fd").iterdir())), threading.active_count()
    processes = ModelProcesses((sys.executable, str(BAD), "escapes", "5", str(tmp_path)), ())
    with processes.one() as process:
        assert isinstance(process.take(60), Gone)
    for thread in (process._reader, process._stderr, process._writer):
        thread.join(10)
    assert threading.active_count() == threads
    assert len(list(Path("/proc/self/fd").iterdir())) == before_n
    (child,) = (int(path.name) for path in tmp_path.iterdir() if path.read_text() == "child")
    os.kill(child, signal.SIGKILL)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_no_worker_holds_a_pipe_of_another_one() -> None:
    """Else the end of the rig would not be the end of their input."""
    def pipes(process: WorkerProcess) -> set[str]:
        fds = Path(f"/proc/{process._process.pid}/fd")
        return {link for fd in fds.iterdir() if (link := str(fd.readlink())).startswith("pipe:")}

    processes = ModelProcesses((sys.executable, str(BAD), "good"), ())
    with processes.one() as first, processes.one() as second:
        for process in (first, second):
            assert isinstance(process.take(60), Hello)
        assert len(pipes(first)) == 3
        assert not pipes(first) & pipes(second)
    processes.close()


def test_one_that_stays_is_ended_and_all_are_asked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that heed neither a goodbye nor SIGTERM: the wait for both is that for one."""
    monkeypatch.setattr(worker_process, "BYE_S", 0.3)
    waited: list[float] = []
    has_ended = WorkerProcess.has_ended
    monkeypatch.setattr(WorkerProcess, "has_ended",
                        lambda self, s: waited.append(s) or has_ended(self, s))
    processes = ModelProcesses((sys.executable, str(BAD), "stays"), ())
    with processes.one() as first, processes.one() as second:
        for process in (first, second):
            assert isinstance(process.take(60), Hello)
    processes.close()
    assert waited == [0.1, 0.1, 0.1]
    assert (first._process.returncode, second._process.returncode) == (-9, -9)


def _parent(folder: Path, kind: str) -> tuple[subprocess.Popen[str], int]:
    """A process of its own that holds a worker, and the worker's number."""
    code = (f"import sys; sys.path.insert(0, {str(BAD.parents[2])!r})\n"
            "import numpy as np\n"
            "from adapters.worker_process import WorkerProcess\n"
            "from adapters.workers.worker_kit.protocol import Frame, Reset\n"
            f"p = WorkerProcess({(sys.executable, str(BAD), kind, '0', str(folder))!r}, {{}})\n"
            "p.take(60); p.send(Reset(1, '', 1)); p.take(60)\n"
            "p.send(Frame(0, np.zeros(1920, np.float32)))\n"
            "print(p._process.pid, flush=True); sys.stdin.read()\n")
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize("kind", ["good", "orphan"])
def test_a_worker_whose_rig_was_killed_ends_by_itself(kind: str, tmp_path: Path) -> None:
    """At the end of its input; one that is stuck in its model, soon after."""
    parent, group = _parent(tmp_path, kind)
    parent.kill()
    parent.communicate()
    kit.wait_until(lambda: _gone(group), "the worker is left")


def test_200_sessions_in_one_process_leave_nothing_behind() -> None:
    processes = ModelProcesses((sys.executable, str(BAD), "good"), ())
    config = SessionConfig("case", 1, "", 1)
    adapter = registry.create("worker", {"command": f"{sys.executable} {BAD} good",
                                         "persona_prompt": "no"})
    patience = Patience(60, 60, 60)

    async def play() -> None:
        clock = Lockstep()
        async with open_session(processes, config, clock, patience,
                                adapter.capabilities) as session:
            for _ in range(4):
                await session.send(np.zeros(480, np.float32))
            await session.settle()

    def held() -> tuple[int, int, int]:
        gc.collect()
        fds = Path("/proc/self/fd")
        return (len(list(fds.iterdir())) if fds.is_dir() else 0, threading.active_count(),
                sum(isinstance(o, WorkerSession) for o in gc.get_objects()))

    async def sessions(n: int) -> None:
        for _ in range(n):
            await play()

    asyncio.run(sessions(1))
    before = held()
    asyncio.run(sessions(199))
    assert held() == before
    with processes.one() as process:
        assert process.sessions_n == 200
        assert process.owed_n == 0
        assert process.take(None) is None
    processes.close()


def test_loading_and_the_prompt_have_their_limits() -> None:
    with pytest.raises(InfrastructureError, match=r"a hello within 1 s, nothing came .*load_timeo"):
        outcome("hang_on_load", load_timeout_s="1")
    with pytest.raises(InfrastructureError, match=r"is ready within 0.5 s.*prompt_timeout_s"):
        outcome("hangs_prompt", prompt_timeout_s="0.5")


def test_a_process_is_kept_after_a_good_session_and_replaced_after_a_bad_one() -> None:
    processes = ModelProcesses((sys.executable, str(BAD), "good"), ())
    with processes.one() as first:
        pass
    with processes.one() as second:
        assert second is first
        with processes.one() as beside:
            assert beside is not first
    with pytest.raises(RuntimeError), processes.one() as bad:
        raise RuntimeError
    assert not bad.alive
    with processes.one() as other:
        assert other is not bad
    processes.close()
    assert not other.alive


def test_devices_are_dealt_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIG_PROCESS_INDEX", "1")
    processes = ModelProcesses(("x",), ("4", "7"))
    assert [processes._environment(place)["CUDA_VISIBLE_DEVICES"] for place in range(3)] == [
        "7", "4", "7"]
    assert ModelProcesses(("x",), ())._environment(0) == {}
