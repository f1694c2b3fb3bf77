"""Answers as pages download them: what is taken, and what is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from validation_kit import answers_document, validation_key

from audio.errors import InputError
from rig.validation import answers
from rig.validation.answers import read_answers
from rig.validation.key import Key

H1 = {"action": "YIELD", "earliest_s": 0, "latest_s": 1.5, "confidence": "2"}


@pytest.fixture
def key() -> Key:
    return validation_key("h1", 3)


def _write(path: Path, document: Any) -> Path:
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def _refused(key: Key, path: Path) -> str:
    with pytest.raises(InputError) as error:
        read_answers(key, [path])
    text = str(error.value)
    assert "\n" not in text
    assert str(path) in text
    return text


def test_json_is_read_and_counted(key: Key, tmp_path: Path) -> None:
    partial = {"action": "YIELD", "confidence": "1"}
    path = _write(tmp_path / "a.json", answers_document(key, "A1", [H1, partial]))
    (found,) = read_answers(key, [path])
    assert (found.annotator, found.partial, found.unanswered) == ("A1", 1, 1)
    assert [a.values for a in found.answers] == [H1]
    assert found.answers[0].item_id == key.items[0].item_id


def test_csv_is_read_as_json_is(key: Key, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    page, item = key.pages[1], key.items[2].item_id
    path.write_text("page_id,study,annotator,item_id,answered,action,earliest_s,latest_s,"
                    "confidence,comment\r\n"
                    f"{page.page_id},h1,A2,{item},2026-01-01T00:00:00Z,LISTEN,,,3,\"a, \"\"b\"\"\n"
                    "c\"\r\n", encoding="utf-8")
    (found,) = read_answers(key, [path])
    assert found.annotator == "A2"
    assert found.answers[0].values == {"action": "LISTEN", "confidence": "3",
                                       "comment": 'a, "b"\nc'}


def test_silence_needs_no_time_and_everything_else_does(key: Key, tmp_path: Path) -> None:
    given = [{"action": "NO_BACKCHANNEL", "confidence": "3"},
             {"action": "TAKE_TURN", "confidence": "3", "earliest_s": 1},
             {**H1, "earliest_s": 1.6}]
    (found,) = read_answers(key, [_write(tmp_path / "a.json",
                                         answers_document(key, "A1", given))])
    assert (len(found.answers), found.partial, found.unanswered) == (1, 2, 0)


@pytest.mark.parametrize(("change", "expected"), [
    ({"action": "SHOUT"}, "action: expected one of LISTEN, TAKE_TURN"),
    ({"action": 3}, "action: expected text, got 3"),
    ({"earliest_s": "1"}, "earliest_s: expected a number, got '1'"),
    ({"earliest_s": True}, "earliest_s: expected a number, got True"),
    ({"earliest_s": -30.1}, "earliest_s: expected -30 to 60, got -30.1"),
    ({"latest_s": 60.1}, "latest_s: expected -30 to 60, got 60.1"),
    ({"latest_s": 10**400}, "latest_s: expected -30 to 60, got 1000000000"),
    ({"latest_s": -10**4299}, "latest_s: expected -30 to 60, got -100000000"),
    ({"earliest_s": float("-inf")}, "earliest_s: expected -30 to 60, got -inf"),
    ({"comment": "x" * 1001}, "expected at most 1000 characters, got 1001"),
    ({"confidense": "2"}, "got one to 'confidense'; did you mean 'confidence'?"),
    ({"met": "yes"}, "expected answers to action, earliest_s, latest_s, confidence, comment"),
    ({"item_id": "feedfeedfeedfeed"}, "expected an item of the key"),
    ({"item_id": 7}, "expected an item of the key"),
    ({"answered": 7}, "answered: a time as text"),
])
def test_a_value_that_is_none_is_refused(key: Key, tmp_path: Path, change: dict[str, Any],
                                         expected: str) -> None:
    document = answers_document(key, "A1", [H1])
    document["answers"][0] |= change
    assert expected in _refused(key, _write(tmp_path / "a.json", document))


@pytest.mark.parametrize("value", [-30, 60, "1000 characters"])
def test_bounds_belong_to_what_is_taken(key: Key, tmp_path: Path, value: Any) -> None:
    change = {"comment": "x" * 1000} if isinstance(value, str) else {
        "earliest_s": value, "latest_s": value}
    document = answers_document(key, "A1", [{**H1, **change}])
    assert len(read_answers(key, [_write(tmp_path / "a.json", document)])[0].answers) == 1


@pytest.mark.parametrize(("change", "expected"), [
    ({"page_id": "0" * 16}, "expected a page of this key ("),
    ({"annotator": "A2"}, "expected annotator A1, whose page this is, got 'A2'"),
    ({"study": "h2"}, "expected answers of h1, got answers of 'h2'"),
    ({"kind": "x"}, "expected kind 'duplexrig answers'"),
    ({"schema_version": 2}, "expected kind 'duplexrig answers', schema_version 1"),
    ({"answers": {}}, "answers: a list of objects"),
    ({"answers": [1]}, "answers: a list of objects"),
    ({"page": 1}, "got 'page'"),
])
def test_another_kind_of_file_is_refused(key: Key, tmp_path: Path, change: dict[str, Any],
                                         expected: str) -> None:
    path = _write(tmp_path / "a.json", answers_document(key, "A1", [H1]) | change)
    assert expected in _refused(key, path)


@pytest.mark.parametrize(("text", "expected"), [
    ("", "JSON, or CSV with the columns"), ("a,b\n", "got 'a,b'"),
    # A terminal would take what is no text for a command.
    ("\x1b]0;x\x07,\x00\n", "got '\\x1b]0;x\\x07,\\x00'"), ("{", "expected answers as JSON"),
    ('{"kind": 1, "kind": 2}', "expected the key 'kind' once, got it again"),
    ("{" * 100_000, "expected answers as JSON"),
    ('{"a": NaN}', "expected kind")])
def test_text_that_is_no_answers_is_refused(key: Key, tmp_path: Path, text: str,
                                            expected: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text, encoding="utf-8")
    assert expected in _refused(key, path)


def test_numbers_that_are_none_are_refused(key: Key, tmp_path: Path) -> None:
    path = _write(tmp_path / "a.json", answers_document(key, "A1", [{**H1, "latest_s": 1}]))
    path.write_text(path.read_text().replace('"latest_s": 1', '"latest_s": NaN'))
    assert "latest_s: expected a number" in _refused(key, path)
    path.write_text(path.read_text().replace("NaN", "9" * 5000))
    assert "expected answers as JSON, got something else (Exceeds the limit" in _refused(key, path)


CSV_HEAD = ("page_id,study,annotator,item_id,answered,action,earliest_s,latest_s,confidence,"
            "comment\r\n")


def _row(key: Key, earliest: str, latest: str, comment: str = "") -> str:
    return (f"{CSV_HEAD}{key.pages[0].page_id},h1,A1,{key.items[0].item_id},t,YIELD,{earliest},"
            f"{latest},2,{comment}\r\n")


@pytest.mark.parametrize(("text", "value"), [
    ("1e-7", 1e-7), ("-2.5E-8", -2.5e-8), ("1e+1", 10.0), ("12", 12), ("+3", 3), ("-0.5", -0.5),
    (".5", 0.5), ("5.", 5.0), ("0" * 5000 + "7", 7)])
def test_csv_takes_numbers_as_pages_and_people_write_them(
        key: Key, tmp_path: Path, text: str, value: float) -> None:
    """`1e-7` is `String(0.0000001)` in JavaScript (ECMA-262, Number::toString)."""
    path = tmp_path / "a.csv"
    path.write_text(_row(key, text, "60"), encoding="utf-8")
    assert read_answers(key, [path])[0].answers[0].values["earliest_s"] == value


@pytest.mark.parametrize(("cell", "comment"), [
    ("'=1+1", "=1+1"), ("'+1", "+1"), ("'-no", "-no"), ("'@x", "@x"), ("'\tx", "\tx"),
    ("\"'\rx\"", "\nx"), ("\"'\nx\"", "\nx"), ("''=x", "'=x"), ("'x", "'x"), ("x=1", "x=1"),
    ("=1", "=1"), ("'", "'"), ("' =1", "' =1")])
def test_csv_comments_come_without_the_guard_against_formulas(
        key: Key, tmp_path: Path, cell: str, comment: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(_row(key, "-1", "60", cell).encode())
    values = read_answers(key, [path])[0].answers[0].values
    assert (values["comment"], values["earliest_s"]) == (comment, -1)


@pytest.mark.parametrize(("text", "expected"), [
    ("9" * 5000, "latest_s: expected -30 to 60, got inf"),
    ("1e400", "latest_s: expected -30 to 60, got inf"),
    ("9" * 18, "latest_s: expected -30 to 60, got 999999999999999999"),
    ("9" * 19, "latest_s: expected -30 to 60, got 1e+19"),
    ("1e", "latest_s: expected a number, got '1e'"),
    ("e7", "latest_s: expected a number, got 'e7'"),
    ("1e5.0", "latest_s: expected a number, got '1e5.0'"),
    ("\u0663", "latest_s: expected a number, got '\u0663'"),
    ("NaN", "latest_s: expected a number, got 'NaN'"),
    ("1_0", "latest_s: expected a number, got '1_0'")])
def test_csv_refuses_other_numbers(key: Key, tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(_row(key, "0", text), encoding="utf-8")
    assert expected in _refused(key, path)


def test_a_file_that_is_too_long_is_not_read(
        key: Key, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _write(tmp_path / "a.json", answers_document(key, "A1", [H1]))
    limit = path.stat().st_size
    monkeypatch.setattr(answers, "MAX_BYTES", limit)
    assert len(read_answers(key, [path])) == 1
    monkeypatch.setattr(answers, "MAX_BYTES", limit - 1)
    monkeypatch.setattr(answers, "read_text", lambda *_: pytest.fail("it was read"))
    assert f"at most {limit - 1} bytes, got {limit} bytes" in _refused(key, path)


def test_an_item_twice_is_refused(key: Key, tmp_path: Path) -> None:
    document = answers_document(key, "A1", [H1])
    document["answers"] *= 2
    assert "expected each item once" in _refused(key, _write(tmp_path / "a.json", document))


def test_an_annotator_twice_is_refused(key: Key, tmp_path: Path) -> None:
    paths = [_write(tmp_path / name, answers_document(key, "A1", [H1])) for name in ("a", "b")]
    with pytest.raises(InputError, match="each annotator once, got A1 also in"):
        read_answers(key, paths)


def test_csv_with_damage_is_refused(key: Key, tmp_path: Path) -> None:
    head = "page_id,study,annotator,item_id,answered,action,earliest_s,latest_s,confidence,comment"
    path = tmp_path / "a.csv"
    page = key.pages[0].page_id
    row = f"{page},h1,A1,{key.items[0].item_id},t,LISTEN,,,3,"
    for text, expected in ((f"{head}\n{row},\n", "a.csv:2: expected 10 cells, got 11"),
                           (f"{head}\n", "a head alone"),
                           (f"{head}\n{row[:-2]}high,\n", "confidence: expected one of"),
                           (f"{head}\n{row.replace(',,,3', ',one,,3')}\n",
                            "earliest_s: expected a number, got 'one'"),
                           (f'{head}\n"{row}\n', "expected answers as CSV or JSON")):
        path.write_text(text, encoding="utf-8")
        assert expected in _refused(key, path)
