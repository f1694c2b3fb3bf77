"""What a local model's version stands for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from adapters import local_models
from adapters.local_models import FOLDER, MODELS


@pytest.mark.parametrize("changed", ["moshi_worker.py", "worker_kit/serve.py"])
def test_a_change_in_the_script_or_in_its_kit_is_another_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, changed: str
) -> None:
    copy = tmp_path / "workers"
    shutil.copytree(FOLDER, copy)
    before = MODELS["moshi"].code_sha256()
    monkeypatch.setattr(local_models, "FOLDER", copy)
    assert MODELS["moshi"].code_sha256() == before
    with (copy / changed).open("a") as file:
        file.write("\n")
    assert MODELS["moshi"].code_sha256() != before


def test_another_models_script_is_none_of_its_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copy = tmp_path / "workers"
    shutil.copytree(FOLDER, copy)
    before = MODELS["moshi"].code_sha256()
    monkeypatch.setattr(local_models, "FOLDER", copy)
    (copy / "personaplex_worker.py").write_text("")
    assert MODELS["moshi"].code_sha256() == before
