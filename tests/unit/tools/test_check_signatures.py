"""The tool that holds a table of signatures against a source."""

from __future__ import annotations

from pathlib import Path

import check_signatures
import pytest

SOURCE = '''import os


class Model:
    colour = "red"

    def __init__(self, size, *, deep=False):
        self.size = size
        self.shade = os.sep

    def step(self, codes, text=None, **more):
        return more.pop("speed", 1)

    @staticmethod
    def made(path):
        return Model(path)


def load(name, /, *rest, where="here"):
    return name
'''
TABLE = '''
[source]
package = "made"
version = "1"

[functions."made.model.Model"]
at = "made/model.py:7"
takes = "size, *, deep="

[functions."made.model.Model.step"]
at = "made/model.py:11"
takes = "codes, text=, **more"
[functions."made.model.Model.step".reads]
speed = "made/model.py:12"

[functions."made.model.Model.made"]
at = "made/model.py:15"
takes = "path"

[functions."made.model.load"]
at = "made/model.py:19"
takes = "name, /, *rest, where="

[attributes]
"made.model.Model.shade" = "made/model.py:9"
"made.model.Model.colour" = "made/model.py:5"
'''


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "__init__.py").write_text("")
    (tmp_path / "made" / "model.py").write_text(SOURCE)
    (tmp_path / "table.toml").write_text(TABLE)
    return tmp_path


def run(source: Path, *more: str) -> int:
    return check_signatures.main([str(source / "table.toml"), *more])


def test_what_is_so_is_so(source: Path, capsys: pytest.CaptureFixture[str],
                          monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(source, str(source)) == 0
    monkeypatch.syspath_prepend(str(source))
    assert run(source, "--installed") == 0
    assert capsys.readouterr().out == "table: 4 functions, 2 attributes, 0 wrong\n" * 2


@pytest.mark.parametrize(("old", "new", "says"), [
    ("codes, text=None", "codes, words=None", "takes ['codes', 'words=', '**more'], the table says "
     "['codes', 'text=', '**more']"),
    ("*, deep=False", "deep=False", "takes ['size', 'deep='], the table says ['size', 'deep= "
     "(keyword)']"),
    ("text=None", "text", "takes ['codes', 'text', '**more']"),
    ('where="here"', "where", "'where (keyword)'], the table"),
    ("    @staticmethod\n", "    @property\n", "Model.made: takes [], the table says ['path']"),
    ("def load", "def get", "has no load"),
    ("speed", "pace", "nowhere says speed"),
    ("self.shade", "self.shadow", "nowhere says shade"),
])
def test_what_differs_is_told(source: Path, capsys: pytest.CaptureFixture[str], old: str, new: str,
                              says: str) -> None:
    assert SOURCE.count(old) == 1
    (source / "made" / "model.py").write_text(SOURCE.replace(old, new))
    assert run(source, str(source)) == 1
    told = capsys.readouterr().out
    assert says in told
    assert "1 wrong\n" in told


def test_lines_that_have_moved_are_renewed(
        source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (source / "made" / "model.py").write_text(SOURCE.replace("import os\n", "import os\nx = 1\n"))
    assert run(source, str(source)) == 1
    assert "made.model.load: expected at made/model.py:19, is in line 20" in capsys.readouterr().out
    assert run(source, str(source), "--renew") == 0
    renewed = (source / "table.toml").read_text()
    for line in (8, 12, 13, 16, 20, 10, 6):
        assert f'"made/model.py:{line}"' in renewed
    assert len(renewed) == len(TABLE) + 1  # 9 became 10; nothing else is touched
    assert run(source, str(source)) == 0


def test_a_checkout_that_is_not_there(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(source, str(source / "elsewhere")) == 1
    assert "No such file or directory" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        run(source)
