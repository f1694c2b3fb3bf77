"""Run folders: what may be put where, what a resumed run must agree with, disks that fail."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rig_testkit as kit

from audio.errors import InputError
from rig import ledger as ledger_module
from rig.ledger import Attempt, Ledger, read
from rig.store import FolderLock

LISTEN = "R2-C1-1-L2"


@pytest.fixture(scope="module")
def played(tiny_suite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three done sessions. Read only."""
    from rig import cli

    run = tmp_path_factory.mktemp("store") / "run"
    assert cli.main(["run", str(tiny_suite), "--adapter", "silent", "--jobs", "1", "--out",
                     str(run)]) == 0
    return run


@pytest.fixture
def copied(played: Path, tmp_path: Path) -> Path:
    return shutil.copytree(played, tmp_path / "run")


# --- the ledger's last line, cut at every byte ---------------------------------------------------


def test_a_last_line_cut_at_any_byte_is_repaired_and_nothing_else_is_touched(
    tmp_path: Path
) -> None:
    path = tmp_path / "attempts.jsonl"
    lines = [Attempt(case_id=f"R{n}-C1-1-L2", trial=1, attempt=1,
                     status="infra_error" if n == 3 else "done",
                     reason="429: größer als erlaubt \u2028 \"x\"" if n == 3 else None,
                     started="2026-01-01T00:00:00.000+00:00",
                     ended="2026-01-01T00:00:01.000+00:00") for n in (1, 2, 3)]
    with Ledger(path) as ledger:
        for line in lines:
            ledger.append(line)
    whole = path.read_bytes()
    first_two = whole[: whole.index(b"R3") - len(b'{"case_id":"')]
    assert len(whole) - len(first_two) > 100
    for cut in range(len(first_two), len(whole) + 1):
        path.write_bytes(whole[:cut])
        complete = cut >= len(whole) - 1  # only the newline is missing, or nothing
        expected = lines if complete else lines[:2]
        assert read(path) == expected
        assert path.read_bytes() == whole[:cut], "reading repairs nothing"
        with Ledger(path) as ledger:
            assert ledger.attempts == expected
            assert (ledger.repaired is None) == (complete or cut == len(first_two))
            ledger.append(lines[0])
        assert path.read_bytes() == (whole if complete else first_two) + (
            whole[: whole.index(b"\n") + 1])


def test_a_half_written_line_is_reported_and_its_case_played_again(
    copied: Path, tiny_suite: Path, call_rig: Any
) -> None:
    ledger = copied / "attempts.jsonl"
    before = ledger.read_bytes()
    ledger.write_bytes(before[:-40])
    assert call_rig("score", copied, "--jobs", 1).code == 0
    last = kit.scores(copied)["cases"][-1]
    assert (last["outcome"], last["reason"]) == ("unscored", "not played yet")
    called = call_rig("run", tiny_suite, "--adapter", "silent", "--jobs", 1, "--out", copied,
                      "--resume")
    assert called.code == 0
    assert "a half-written last line was removed; its case is played again" in called.err
    assert [a["case_id"] for a in kit.ledger(copied)] == [
        json.loads(line)["case_id"] for line in before.splitlines()]


def test_a_damaged_line_in_the_middle_names_its_place(
    copied: Path, tiny_suite: Path, call_rig: Any
) -> None:
    ledger = copied / "attempts.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(lines[0] + b'{"case_id": 7}\n' + lines[2])
    before = kit.files(copied)
    for command in (["run", tiny_suite, "--adapter", "silent", "--out", copied, "--resume"],
                    ["score", copied], ["inspect", copied, LISTEN]):
        assert "attempts.jsonl:2: expected one attempt as JSON" in call_rig(*command).error
    assert kit.files(copied) == before


# --- where a run may be put ----------------------------------------------------------------------


def test_a_run_is_never_written_over(copied: Path, tiny_suite: Path, call_rig: Any) -> None:
    before = kit.files(copied)
    line = call_rig("run", tiny_suite, "--adapter", "silent", "--out", copied).error
    assert f"{copied}: holds a run already; add --resume" in line
    assert kit.files(copied) == before


RESUMED: list[tuple[list[str], str]] = [
    (["--adapter", "echo"], "adapter.name was silent, now echo"),
    (["--adapter", "silent", "--trials", "2"], "trials was 1, now 2"),
    (["--adapter", "silent", "--filter", "role=R1"], "n_cases was 3, now 2"),
]


@pytest.mark.parametrize(("options", "difference"), RESUMED)
def test_resuming_with_other_settings_names_the_difference(
    options: list[str], difference: str, copied: Path, tiny_suite: Path, call_rig: Any
) -> None:
    before = kit.files(copied)
    line = call_rig("run", tiny_suite, *options, "--out", copied, "--resume").error
    assert "cannot resume: " in line
    assert difference in line
    assert kit.files(copied) == before


def test_resuming_names_the_adapter_setting_that_changed(
    tiny_suite: Path, tmp_path: Path, call_rig: Any
) -> None:
    run = tmp_path / "run"
    command = ["run", tiny_suite, "--adapter", "echo", "--jobs", 1, "--filter", "role=R2",
               "--out", run]
    assert call_rig(*command, "--set", "delay_s=0.4").code == 0
    line = call_rig(*command, "--resume").error
    assert line.endswith("cannot resume: adapter.settings.delay_s was 0.4, now 0.5; give the "
                         "settings of the run, or choose another --out")


def test_resuming_after_the_suite_changed_is_refused(
    copied: Path, tmp_path: Path, call_rig: Any
) -> None:
    other = kit.write_small_suite(tmp_path / "other", ("LISTEN", "TAKE_TURN", "BACKCHANNEL"),
                                  level="L1")
    line = call_rig("run", other, "--adapter", "silent", "--out", copied, "--resume").error
    assert "suite_construction_sha256 was " in line


def test_a_run_of_other_software_names_the_version(copied: Path, tiny_suite: Path, call_rig: Any
                                                   ) -> None:
    info = json.loads((copied / "run.json").read_text())
    info["software"]["numpy"] = "1.0.0"
    (copied / "run.json").write_text(json.dumps(info))
    line = call_rig("run", tiny_suite, "--adapter", "silent", "--out", copied, "--resume").error
    assert "software.numpy was 1.0.0, now " in line


def _a_file(place: Path, suite: Path) -> Path:
    place.write_text("x")
    return place


def _below_a_file(place: Path, suite: Path) -> Path:
    place.write_text("x")
    return place / "run"


def _others(place: Path, suite: Path) -> Path:
    place.mkdir()
    (place / "thesis.tex").write_text("x")
    return place


def _the_suite(place: Path, suite: Path) -> Path:
    return shutil.copytree(suite, place)


@pytest.mark.parametrize(("make", "message"), [
    (_a_file, "expected a folder, got a file"),
    (_below_a_file, "cannot make this folder: Not a directory"),
    (_others, "expected an empty folder or a run, got a folder with thesis.tex"),
    (_the_suite, "expected an empty folder or a run, got a folder with audio"),
])
def test_a_run_is_not_put_where_something_else_is(
    make: Callable[[Path, Path], Path], message: str, tiny_suite: Path, tmp_path: Path,
    call_rig: Any
) -> None:
    out = make(tmp_path / "place", tiny_suite)
    before = kit.files(tmp_path)
    assert message in call_rig("run", tiny_suite, "--adapter", "silent", "--out", out).error
    assert kit.files(tmp_path) == before


def test_recordings_whose_settings_are_lost_are_not_mixed_with_new_ones(
    copied: Path, tiny_suite: Path, call_rig: Any
) -> None:
    (copied / "run.json").unlink()
    before = kit.files(copied)
    for more in ([], ["--resume"]):
        line = call_rig("run", tiny_suite, "--adapter", "silent", "--out", copied, *more).error
        assert "expected run.json beside the ledger" in line
    assert kit.files(copied) == before


def test_what_a_killed_run_left_is_removed(copied: Path, tiny_suite: Path, call_rig: Any) -> None:
    (copied / "rec" / ".part-0123456789abcdef.wav").write_bytes(b"half")
    assert call_rig("run", tiny_suite, "--adapter", "silent", "--out", copied,
                    "--resume").code == 0
    assert not list(copied.rglob(".part-*"))


def test_a_done_session_whose_record_was_deleted_is_played_again(
    copied: Path, played: Path, tiny_suite: Path, call_rig: Any
) -> None:
    (copied / "rec" / f"{LISTEN}.t1.rec.json").unlink()
    assert call_rig("score", copied, "--jobs", 1).code == 0
    reasons = {c["case_id"]: c["reason"] for c in kit.scores(copied)["cases"]
               if c["outcome"] == "unscored"}
    assert list(reasons) == [LISTEN]
    assert "expected a session record, got no such file" in reasons[LISTEN]
    assert call_rig("run", tiny_suite, "--adapter", "silent", "--jobs", 1, "--out", copied,
                    "--resume").code == 0
    assert kit.files(copied / "rec") == kit.files(played / "rec")
    assert [a["case_id"] for a in kit.ledger(copied)].count(LISTEN) == 2


def test_two_rigs_never_play_into_one_folder(copied: Path, tiny_suite: Path, call_rig: Any
                                             ) -> None:
    with FolderLock(copied):
        line = call_rig("run", tiny_suite, "--adapter", "silent", "--out", copied,
                        "--resume").error
    assert "another rig is writing into this folder" in line
    assert call_rig("run", tiny_suite, "--adapter", "silent", "--out", copied, "--resume").code == 0


# --- disks that fail -----------------------------------------------------------------------------


class FailingCalls:
    """Makes every `name` of `os` after the first `n` on files below a folder fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
        self.left = 10**9
        self._error = code
        for name in ("open", "replace", "write", "fsync", "mkdir"):
            self._wrap(monkeypatch, name)

    def _wrap(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        real = getattr(os, name)

        def call(*args: Any, **options: Any) -> Any:
            writing = name != "open" or (len(args) > 1 and args[1] & (os.O_RDWR | os.O_WRONLY))
            if writing:
                self.left -= 1
                if self.left < 0:
                    raise OSError(self._error, os.strerror(self._error))
            return real(*args, **options)

        monkeypatch.setattr(os, name, call)


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_a_disk_that_cannot_be_written_is_one_line(
    code: int, tiny_suite: Path, tmp_path: Path, call_rig: Any
) -> None:
    run = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        FailingCalls(patch, code).left = 0
        line = call_rig("run", tiny_suite, "--adapter", "silent", "--out", run).error
    assert line == f"rig: error: {run}: cannot make this folder: {os.strerror(code)}"
    assert not run.exists()


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_a_disk_that_fails_at_any_call_is_one_line_and_the_run_goes_on_later(
    step: int, played: Path, tiny_suite: Path, tmp_path: Path, call_rig: Any
) -> None:
    """Every call of the first session in turn (or every third), each in a folder of its own."""
    code = errno.ENOSPC
    command = ["run", tiny_suite, "--adapter", "silent", "--jobs", 1, "--filter", "role=R2"]
    failed = 0
    for calls in range(0, 60, step):
        run = tmp_path / f"run{calls}"
        with pytest.MonkeyPatch.context() as patch:
            FailingCalls(patch, code).left = calls
            called = call_rig(*command, "--out", run)
        if called.code == 0:
            break
        failed += 1
        assert os.strerror(code) in called.error
        assert not list(run.rglob(".part-*"))
        if (run / "attempts.jsonl").exists():
            kit.ledger(run)
        # Creation that failed half-way is a new run; what was begun goes on.
        assert call_rig(*command, "--out", run, "--resume").code == 0
        assert kit.done(run) == {LISTEN}
        name = f"{LISTEN}.t1.rec.json"
        assert (run / "rec" / name).read_bytes() == (played / "rec" / name).read_bytes()
        shutil.rmtree(run)
    else:
        pytest.fail("the disk never stopped failing")
    assert failed >= 18 // step


def test_a_ledger_that_can_neither_grow_nor_shrink_is_still_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = Attempt(case_id="R1-C1-1-L2", trial=1, attempt=1, status="done",
                      started="a", ended="b")
    def broken(*args: Any) -> Any:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with Ledger(tmp_path / "attempts.jsonl") as ledger:
        monkeypatch.setattr(ledger_module.os, "fsync", broken)
        monkeypatch.setattr(ledger_module.os, "ftruncate", broken)
        with pytest.raises(InputError, match="cannot append to the ledger: Input/output error"):
            ledger.append(attempt)
        assert ledger.attempts == [], "an attempt that is not on disk does not count"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB: room for one session and a half."""
    place = tmp_path / "disk"
    place.mkdir()
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)],
                          capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"cannot mount a small file system here: {made.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_really_full_disk(small_disk: Path, played: Path, tiny_suite: Path, call_rig: Any
                            ) -> None:
    command = ["run", tiny_suite, "--adapter", "silent", "--jobs", 1, "--out", small_disk / "run"]
    line = call_rig(*command).error
    assert "No space left on device" in line
    before = kit.ledger(small_disk / "run")
    assert before[0]["status"] == "done"
    assert len(before) < 3
    assert not list(small_disk.rglob(".part-*"))
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    assert call_rig(*command, "--resume").code == 0
    assert kit.files(small_disk / "run" / "rec") == kit.files(played / "rec")
    assert kit.ledger(small_disk / "run")[: len(before)] == before


def test_a_really_read_only_disk(small_disk: Path, tiny_suite: Path, call_rig: Any) -> None:
    run = small_disk / "run"
    command = ["run", tiny_suite, "--adapter", "silent", "--jobs", 1, "--filter", "role=R2"]
    assert call_rig(*command, "--out", run).code == 0
    before = kit.files(run)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert "Read-only file system" in call_rig(*command, "--out", small_disk / "new").error
    assert "Read-only file system" in call_rig(*command, "--out", run, "--resume").error
    assert "Read-only file system" in call_rig("score", run, "--jobs", 1).error
    # What writes nothing still works.
    assert call_rig("inspect", run, LISTEN).code == 0
    assert kit.files(run) == before


# --- scoring what is not as it was written --------------------------------------------------------


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def _alter(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(("name", "spoil", "reason"), [
    ("stereo.wav", Path.unlink, "expected the session's recording, got no such file"),
    ("stereo.wav", _cut, "SHA-256 differs"),
    ("stereo.wav", _alter, "SHA-256 differs"),
    ("rec.json", _cut, "expected a session record, got"),
    ("rec.json", lambda p: p.write_text("{}"), "expected a session record, got"),
    ("rec.json", lambda p: p.write_bytes(b"\xff\xfe"), "expected a session record, got"),
    ("rec.json", lambda p: p.write_text(p.read_text().replace(
        '"case_id":"R2-C1-1-L2"', '"case_id":"R1-C1-1-L2"', 1)), "the record of R2-C1-1-L2 t1"),
    ("rec.json", lambda p: p.write_text(p.read_text().replace(
        f"{LISTEN}.t1.stereo.wav", "../../secret.wav", 1)), "expected"),
])
def test_a_spoilt_session_is_unscored_and_the_others_are_scored(
    name: str, spoil: Callable[[Path], Any], reason: str, copied: Path, call_rig: Any
) -> None:
    spoil(copied / "rec" / f"{LISTEN}.t1.{name}")
    assert call_rig("score", copied, "--jobs", 1).code == 0
    by_id = {c["case_id"]: c for c in kit.scores(copied)["cases"]}
    assert by_id[LISTEN]["outcome"] == "unscored"
    assert reason in by_id[LISTEN]["reason"]
    assert by_id["R1-C1-1-L2"]["outcome"] == "fail"
    assert by_id["R1-C4-1-L2"]["outcome"] == "fail"


@pytest.mark.parametrize(("spoil", "message"), [
    (lambda run: shutil.rmtree(run), "expected a run folder, got no such folder"),
    (lambda run: (run / "run.json").unlink(), "expected a run folder with run.json"),
    (lambda run: (run / "run.json").write_text("{"), "expected a run folder with run.json"),
    (lambda run: (run / "cases.jsonl").unlink(), "expected one JSON object a line, got no such"),
    (lambda run: (run / "cases.jsonl").write_text('{"x": 1}\n'), "cases.jsonl:1: expected"),
])
def test_a_folder_that_is_no_run_is_one_line(
    spoil: Callable[[Path], Any], message: str, copied: Path, call_rig: Any
) -> None:
    spoil(copied)
    before = kit.files(copied)
    assert message in call_rig("score", copied).error
    assert kit.files(copied) == before
