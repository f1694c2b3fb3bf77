"""The scripts behind `make docs` and `make bench` find what they must, and can fail."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]

DOCUMENT = """
# Title
rig outside-a-fence
```sh
# a comment
rig doctor --json | head -1
rig adapters \\
  silent
make test
pip install something
```
```sh no-run
rig run suite --adapter echo
```
```console
$ rig --version
rig, version 0
```
```python
rig = 1
```
"""


def _load(path: Path, name: str) -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name]


@pytest.fixture
def docs() -> Iterator[ModuleType]:
    yield from _load(ROOT / "docs" / "check_commands.py", "docs_check_commands")


@pytest.fixture
def bench() -> Iterator[ModuleType]:
    yield from _load(ROOT / "bench" / "run.py", "bench_run_script")


def test_commands_of_a_document(docs: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "x.md"
    file.write_text(DOCUMENT)
    assert [(shown.line, " ".join(shown.text.split()), shown.run)
            for shown in docs.commands(file)] == [
        (6, "rig doctor --json | head -1", True),
        (7, "rig adapters silent", True),
        (9, "make test", True),
        (10, "pip install something", True),
        (13, "rig run suite --adapter echo", False),
        (16, "rig --version", True),
    ]


@pytest.mark.parametrize(("text", "wrong"), [
    ("rig adapters silent --json", None),
    ("rig adapters --jsn", "--jsn"),
    ("rig adaptrs", "did you mean 'adapters'?"),
    ("rig doctor extra > out.txt", "extra"),
    ("make test", None),
    ("make PYTHON=python3.12 tset", "no such target: tset"),
])
def test_wrong_commands_are_found_without_running_them(
    docs: ModuleType, tmp_path: Path, text: str, wrong: str | None
) -> None:
    _, found = docs.check(docs.Shown(Path("x.md"), 1, text, run=True), tmp_path, list_only=True)
    assert (found is None) == (wrong is None)
    assert wrong is None or wrong in found


@pytest.mark.parametrize(("text", "expected"), [
    ("rig --version", ("ran", None)), ("rig adapters nobody", ("ran", "exit 2: ")),
])
def test_commands_are_run(
    docs: ModuleType, tmp_path: Path, text: str, expected: tuple[str, str | None]
) -> None:
    done, wrong = docs.check(docs.Shown(Path("x.md"), 1, text, run=True), tmp_path, list_only=False)
    assert done == expected[0]
    assert (wrong is None) if expected[1] is None else wrong.startswith(expected[1])


def test_rows_of_a_benchmark(bench: ModuleType) -> None:
    rows = bench.rows_of("vad", {"bench": "vad", "rows": [
        {"what": "one channel", "unit": "x real time", "values": [3, 1, 2], "budget": 200}]})
    assert rows == [bench.Row("vad", "one channel", "x real time", (3.0, 1.0, 2.0), 200.0)]


def test_rows_of_any_other_document(bench: ModuleType) -> None:
    rows = bench.rows_of("x", {"a_s": 1, "ok": True, "b": {"c_ms": [1, 2]}, "note": "text",
                               "list": [{"name": "n", "d": 4.0}]})
    assert [(row.what, row.values) for row in rows] == [
        ("a_s", (1.0,)), ("b c_ms", (1.0, 2.0)), ("list n d", (4.0,))]


@pytest.mark.parametrize(("body", "reason", "failed"), [
    ("import no_such_module_of_ours", "ModuleNotFoundError", False),
    ("raise ValueError('wrong number')", "ValueError: wrong number", True),
    ("print('not json')", "cannot be read", True),
    ("import time; time.sleep(30)", "not finished after 1 s", True),
])
def test_a_benchmark_without_numbers(
    bench: ModuleType, tmp_path: Path, body: str, reason: str, failed: bool
) -> None:
    script = tmp_path / "bench_x.py"
    script.write_text(body)
    found = bench.run_one(script, 1.0 if "sleep" in body else 60.0)
    assert isinstance(found, bench.Skipped)
    assert found.bench == "x"
    assert reason in found.reason
    assert found.failed is failed
