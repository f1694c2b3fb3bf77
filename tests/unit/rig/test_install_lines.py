"""What people are told to install can be installed: this package is on no registry."""

from __future__ import annotations

import re
import runpy
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TEXTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")),
         *sorted(p for part in ("adapters", "audio", "probes", "rig", "sweeps", "verifiers")
                 for p in (ROOT / part).rglob("*.py"))]


def test_extras_are_installed_from_the_checkout() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"]
    told = set()
    for path in TEXTS:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"duplexrig\[", text), path
        for match in re.finditer(r"""pip install ([^\n]*)-e ['"]\.\[([\w,]+)\]['"]""", text):
            assert match[1] == "-c constraints.txt ", f"{path}: {match[0]}"
            told |= set(match[2].split(","))
    assert told <= set(extras)
    assert {"notebook", "validation", "whisper", "prosody", "webrtc", "soundcard"} <= told


def test_the_ten_lines_of_a_worker_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "workers.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.syspath_prepend(ROOT / "adapters" / "workers")
    served = []
    for name in ("worker_kit", "worker_kit.protocol", "worker_kit.serve"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import worker_kit.serve  # as a worker imports it

    monkeypatch.setattr(worker_kit.serve, "serve", served.append)
    script = tmp_path / "my_worker.py"
    script.write_text(block)
    runpy.run_path(str(script))
    (model,) = served
    hello = model().hello()
    assert (hello.name, hello.input_rate_hz, hello.transcript) == ("mine", 24_000, "stream")
    assert model().step([0.5]) == ([0.5], "text")
