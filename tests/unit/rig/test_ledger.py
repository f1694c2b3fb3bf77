"""The ledger keeps every whole line and repairs a half one."""

from __future__ import annotations

import pytest

from audio.errors import InputError
from rig import ledger as ledger_module
from rig.ledger import Attempt, Ledger, finished, latest, read


def attempt(case_id="R1-C1-1-L2", trial=1, number=1, status="done", reason=None):
    return Attempt(case_id=case_id, trial=trial, attempt=number, status=status, reason=reason,
                   started="2026-01-01T00:00:00.000+00:00", ended="2026-01-01T00:00:01.000+00:00")


def test_lines_survive_reopening(tmp_path):
    path = tmp_path / "attempts.jsonl"
    with Ledger(path) as ledger:
        ledger.append(attempt())
        ledger.append(attempt("R2-A-3-L4b", status="infra_error", reason="429"))
    with Ledger(path) as ledger:
        assert [a.case_id for a in ledger.attempts] == ["R1-C1-1-L2", "R2-A-3-L4b"]
        assert ledger.repaired is None
        assert ledger.next_attempt("R2-A-3-L4b", 1) == 2


@pytest.mark.parametrize("cut", [1, 5, 40, 100])
def test_a_half_written_last_line_is_removed_and_nothing_else(tmp_path, cut):
    path = tmp_path / "attempts.jsonl"
    with Ledger(path) as ledger:
        ledger.append(attempt())
        ledger.append(attempt("R2-A-3-L4b"))
    whole = path.read_bytes()
    first_line = whole.index(b"\n") + 1
    path.write_bytes(whole[: first_line + cut])
    assert [a.case_id for a in read(path)] == ["R1-C1-1-L2"]
    with Ledger(path) as ledger:
        assert [a.case_id for a in ledger.attempts] == ["R1-C1-1-L2"]
        assert ledger.repaired is not None
        ledger.append(attempt("R3-B-1-L1"))
    assert [a.case_id for a in read(path)] == ["R1-C1-1-L2", "R3-B-1-L1"]


def test_a_whole_last_line_without_its_newline_is_kept(tmp_path):
    path = tmp_path / "attempts.jsonl"
    with Ledger(path) as ledger:
        ledger.append(attempt())
    path.write_bytes(path.read_bytes()[:-1])
    with Ledger(path) as ledger:
        ledger.append(attempt("R2-A-3-L4b"))
    assert [a.case_id for a in read(path)] == ["R1-C1-1-L2", "R2-A-3-L4b"]


def test_a_damaged_line_in_the_middle_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "attempts.jsonl"
    path.write_text("{}\n" + attempt().model_dump_json() + "\n")
    with pytest.raises(InputError, match=r"attempts\.jsonl:1: expected one attempt as JSON"):
        Ledger(path)


@pytest.mark.parametrize("usage", ['{"session_s":NaN}', '{"session_s":-1e9}', '{"x":1e999}'])
def test_counts_that_are_none_are_not_taken_for_money(tmp_path, usage):
    """A count that is not a number would make every comparison with a limit come out as 'less'."""
    path = tmp_path / "attempts.jsonl"
    line = attempt().model_dump_json(exclude={"usage"})[:-1] + ',"usage":' + usage + "}\n"
    path.write_text(line)
    with pytest.raises(InputError, match=r"attempts\.jsonl:1: expected one attempt as JSON"):
        Ledger(path)


def test_a_full_disk_is_one_line_and_leaves_no_half_line(tmp_path, monkeypatch):
    path = tmp_path / "attempts.jsonl"
    real_write = ledger_module.os.write
    with Ledger(path) as ledger:
        ledger.append(attempt())
        before = path.read_bytes()

        def short_write(fd: int, data: bytes) -> int:
            return real_write(fd, data[:10])

        monkeypatch.setattr(ledger_module.os, "write", short_write)
        with pytest.raises(InputError, match=r"append to the ledger: No space left.*--resume"):
            ledger.append(attempt("R2-A-3-L4b"))
        assert path.read_bytes() == before


def test_an_unwritable_place_is_one_line(tmp_path):
    with pytest.raises(InputError, match="cannot open the ledger for writing"):
        Ledger(tmp_path / "missing" / "attempts.jsonl")


def test_only_done_settles_a_case():
    attempts = [attempt("a", status="infra_error"), attempt("a", number=2),
                attempt("b", status="void"), attempt("c", status="unsupported"),
                attempt("d", status="infra_error")]
    assert {key[0] for key in finished(attempts)} == {"a"}


def test_the_latest_attempt_decides_but_done_is_never_undone():
    attempts = [attempt("a"), attempt("a", number=2, status="infra_error"),
                attempt("b", status="void"), attempt("b", number=2, status="infra_error")]
    assert {k[0]: a.status for k, a in latest(attempts).items()} == {
        "a": "done", "b": "infra_error"}
