from __future__ import annotations

import os
from pathlib import Path

import pytest

from audio.errors import InputError
from audio.suggest import nearest
from probes.spec import ConversationsFile, RolesFile
from probes.yamlfile import MAX_BYTES, parse, read_yaml


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "x.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_lines_of_nested_values(tmp_path: Path) -> None:
    found = read_yaml(write(tmp_path, "a: 1\nb:\n  - c: x\n    d: >-\n      folded\n  - e: 2.5\n"))
    assert found.data == {"a": 1, "b": ({"c": "x", "d": "folded"}, {"e": 2.5})}
    assert found.line(("b", 0, "c")) == 3
    assert found.line(("b", 0, "d")) == 4
    assert found.line(("b", 1, "e")) == 6
    assert found.line(("b", 1, "missing", "deeper")) == 6
    assert found.line(("nowhere",)) == 1


@pytest.mark.parametrize(("text", "message"), [
    ("", r"x\.yaml:1: expected a YAML mapping, got an empty file"),
    ("# only a comment\n", "got an empty file"),
    ("a: 1\nb: 2\na: 3\n", r"x\.yaml:3: expected key 'a' once, got it again \(first on line 1\)"),
    ("a: &x [1]\nb: *x\n", r"x\.yaml:2: expected valid YAML, got aliases are not allowed"),
    ("a: [1\nb: 2\n", r"x\.yaml:2: expected valid YAML"),
    ("a: 1\n\tb: 2\n", r"x\.yaml:2: expected valid YAML"),
    ("a: 2024-01-01\n", r"x\.yaml:1: expected text, a number.*, got timestamp '2024-01-01'"),
    ("a: !!python/object/apply:os.system ['true']\n", r"x\.yaml:1: expected text, a number"),
    ("a:\n  b: !!python/name:os.system x\n", r"x\.yaml:2: expected text, a number"),
    ("a: !!int x\n", r"x\.yaml:1: expected a value of its tag"),
    ("1: a\n", r"x\.yaml:1: expected a word as key, got '1'"),
    ("a: 1\n---\nb: 2\n", r"x\.yaml:2: expected valid YAML"),
    (b"a: 1\nb: \xff\n", r"x\.yaml:2: expected UTF-8 text, got byte 0xff"),
    ("a: 1\nb: \x07\n", r"x\.yaml:2: expected printable text"),
    ("[" * 60 + "]" * 60, r"nested deeper than 24 levels"),
    ("[" * 100_000, r"nested deeper than 24 levels"),
])
def test_hostile_or_broken_files(tmp_path: Path, text: str | bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_yaml(write(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_size_bound(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"at most {MAX_BYTES} bytes"):
        read_yaml(write(tmp_path, "a: " + "x" * MAX_BYTES))


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a readable file, got No such file"):
        read_yaml(tmp_path / "none.yaml")


def test_schema_errors_name_file_line_and_nearest_key(tmp_path: Path) -> None:
    path = write(tmp_path, "conversations:\n  - id: R1-A-1\n    situaton: x\n    turn1: hi\n"
                           "    turn2: {}\n")
    with pytest.raises(InputError, match=r"x\.yaml:3: unknown key 'situaton' in "
                                         r"conversations\[0\]; did you mean 'situation'\? "
                                         r"\(and 1 more problem\)"):
        parse(ConversationsFile, read_yaml(path))
    path = write(tmp_path, "conversations:\n  - id: R1-A-1\n    situation: x\n    turn1: hi\n"
                           "    turn2: {}\n    tarjet: y\n")
    with pytest.raises(InputError, match=r"x\.yaml:6: unknown key 'tarjet' in conversations\[0\]; "
                                         r"did you mean 'target'\?"):
        parse(ConversationsFile, read_yaml(path))


def test_nested_unknown_keys_get_suggestions_of_their_own_level(tmp_path: Path) -> None:
    path = write(tmp_path, """schema_version: 1
roles:
  - id: R1
    name: n
    domain: d
    persona: p
    directive: d
    job_words: []
    policy:
      interrupt: {mode: never, max_latncy_ms: 3}
      backchannel: {style: none}
      silence: {tolerance: none}
      readback: {mode: never}
      barge_in: {mode: yield, detail: x}
""")
    with pytest.raises(InputError, match=r"x\.yaml:10: unknown key 'max_latncy_ms' in "
                                         r"roles\[0\]\.policy\.interrupt; did you mean "
                                         r"'max_latency_ms'\?"):
        parse(RolesFile, read_yaml(path))


@pytest.mark.parametrize(("line", "message"), [
    ("turn1: no", r"x\.yaml:4: conversations\[0\]\.turn1: expected a valid string, got False"),
    ("turn1: 12:30", r"turn1: expected a valid string, got 750"),
    ("turn1: [a]", r"turn1: expected a valid string, got \['a'\]"),
])
def test_yaml_words_that_are_not_text_are_refused(tmp_path: Path, line: str,
                                                  message: str) -> None:
    path = write(tmp_path, f"conversations:\n  - id: R1-A-1\n    situation: x\n    {line}\n"
                           "    turn2: {}\n")
    with pytest.raises(InputError, match=message):
        parse(ConversationsFile, read_yaml(path))


def test_nearest_lists_when_nothing_resembles() -> None:
    assert nearest("lebel", ["level", "role"]) == "; did you mean 'level'?"
    assert nearest("zzz", ["level", "role"]) == "; known: level, role"
    assert nearest("x", []) == "; known: none"


@pytest.mark.parametrize("value", ['!!int ""', '!!int "-"', '!!float ""', '!!bool "abc"'])
def test_a_tag_set_by_hand_on_other_text_is_told_with_its_line(tmp_path: Path, value: str) -> None:
    path = write(tmp_path, f"a: 1\nb: {value}\n")
    with pytest.raises(InputError, match=r"x\.yaml:2: expected a value of its tag"):
        read_yaml(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX")
def test_a_pipe_is_no_file_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.yaml")
    with pytest.raises(InputError, match="expected a file, got something else"):
        read_yaml(tmp_path / "a.yaml")


def test_a_loop_of_links_is_an_error_of_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to("a.yaml")
    with pytest.raises(InputError, match="expected a readable file"):
        read_yaml(tmp_path / "a.yaml")
