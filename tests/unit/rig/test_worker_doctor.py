"""`rig worker`: what a machine lacks for a local model, and what it would download."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from adapters.local_models import FOLDER, MODELS
from rig import worker_doctor


def checks(called: object) -> dict[str, dict[str, str]]:
    return {c["name"]: c for c in json.loads(called.out)["checks"]}


def test_every_model_has_a_script_with_its_packages_and_a_page() -> None:
    root = Path(__file__).parents[3]
    table = (root / "docs" / "workers.md").read_text()
    for model in MODELS.values():
        text = model.path.read_text()
        block = re.search(r"^# /// script\n((?:#.*\n)+?)# ///$", text, re.MULTILINE)
        assert block is not None, model.name
        assert "dependencies = [" in block.group(1)
        low, below = model.needs.python_from, model.needs.python_below
        assert f">={low[0]}.{low[1]},<{below[0]}.{below[1]}" in block.group(1)
        assert f"\n| `{model.name}` | " in table, model.name
        assert f"]({model.page.removeprefix('docs/')}) |" in table
        page = (root / model.page).read_text()
        assert f"rig worker {model.name}\n" in page, model.name
        assert "\n## Commands\n" in page
    # The rig never loads a model: no script is imported by anything of it.
    for path in (FOLDER.parents[0]).rglob("*.py"):
        if path.parent != FOLDER:
            assert not re.search(r"import .*_worker\b|from adapters\.workers\.\w+_worker",
                                 path.read_text()), path


def test_a_bare_machine_is_told_what_to_do(
        call_rig: Callable[..., object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "not" / "yet"))
    called = call_rig("worker", "moshi", "--doctor", "--json")
    assert called.code == 2
    found = checks(called)
    assert found["environment"]["status"] == found["GPU"]["status"] == "missing"
    assert "uv" in found["environment"]["detail"]
    assert json.loads(called.out)["command"] is None
    text = call_rig("worker", "moshi", "--doctor").out
    assert "started by: (see environment below)\n" in text
    assert text.index("started by") < text.index("environment  ")
    assert "started by: (not yet: --adapter moshi: expected uv" in call_rig("worker", "moshi").out
    assert "will be downloaded on the first start, about 16 GB" in found["weights"]["detail"]
    assert str(tmp_path / "not" / "yet" / "hub") in found["weights"]["detail"]


def test_an_environment_without_the_packages_is_not_one(
        call_rig: Callable[..., object], tmp_path: Path) -> None:
    called = call_rig("worker", "moshi", "--doctor", "--json", "--set", f"python={sys.executable}",
                      "--set", "device=cpu", "--set", f"weights={tmp_path}")
    found = checks(called)
    assert called.code == 2
    assert found["moshi"]["status"] == "missing"
    assert "No module named 'moshi'" in found["moshi"]["detail"]
    assert found["weights"]["status"] == found["GPU"]["status"] == "ok"
    gone = call_rig("worker", "moshi", "--doctor", "--json", "--set", "python=/no/python")
    assert "expected an interpreter, got /no/python" in checks(gone)["environment"]["detail"]


def test_gpus_are_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    model = MODELS["moshi"]
    small = {"cuda": ["Small, 8 GB", "Middle, 16 GB"]}
    assert worker_doctor._gpu(model, "cuda", small).status == "broken"
    assert worker_doctor._gpu(model, "cuda", {"cuda": ["A, 8 GB", "B, 24 GB"]}).status == "ok"
    assert worker_doctor._gpu(model, "cuda", {"cuda": []}).status == "missing"


@pytest.mark.parametrize("answer", [
    '{"cuda": ["x"]}', '{"cuda": [""]}', '[["a", 5]]', '{"cuda": ["A, 1e999 GB"]}', '{"cuda": 1}',
    '{"cuda": [["A, 5 GB"]]}', '{"cuda": ["A, nan GB"]}', '{"cuda": [], "torch": 5}', "[" * 100_000,
    "\x1b[2J", "", '{"cuda": ["A, -5 GB"]}', "{}"])
def test_an_interpreter_that_answers_anything_is_told_of_in_a_line(
        call_rig: Callable[..., object], tmp_path: Path, answer: str) -> None:
    (tmp_path / "answer").write_text(answer)
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\ncat {tmp_path / 'answer'}\n")
    python.chmod(0o755)
    called = call_rig("worker", "moshi", "--doctor", "--json", "--set", f"python={python}")
    assert called.code == 2
    found = checks(called)
    assert "expected a Python interpreter, got one that ends" in found["packages"]["detail"]
    assert len(found["packages"]["detail"]) < 250
    assert found["GPU"]["status"] == "missing"


def test_an_interpreter_is_given_no_keys(
        call_rig: Callable[..., object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AZURE_OPENAI_KEY", "sk-0123456789")
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nenv > {tmp_path / 'environment'}\n")
    python.chmod(0o755)
    call_rig("worker", "moshi", "--doctor", "--set", f"python={python}")
    assert "sk-0123456789" not in (tmp_path / "environment").read_text()


@pytest.mark.parametrize(("setting", "status"), [
    ("repo=../../etc", "broken"), ("repo=a/b/c", "broken"), ("repo=a", "broken"),
    ("repo=a/\x1b[2J", "broken"), ("repo=a/..", "broken"), ("weights=" + "x" * 5000, "missing")])
def test_what_is_no_repository_and_no_folder_is_told_of(
        call_rig: Callable[..., object], setting: str, status: str) -> None:
    called = call_rig("worker", "moshi", "--doctor", "--json", "--set", setting)
    assert called.code == 2
    assert checks(called)["weights"]["status"] == status
    assert len(checks(called)["weights"]["detail"]) < 300


@pytest.mark.parametrize(("name", "setting", "says"), [
    ("fun_audio_chat", "code=", "--set code: expected a checkout of Fun-Audio-Chat, got nothing"),
    ("f_actor", "code=DIR", "--set code: expected a checkout of f-actor, got DIR"),
    ("f_actor", "codec=DIR/a.nemo", "--set codec: expected a .nemo file, got DIR/a.nemo"),
    ("f_actor", "speaker=me.json", "--set speaker: expected a JSON file with 192 numbers, got "
     "me.json"),
    ("personaplex", "voice=DIR/a.pt", "--set voice: expected a .pt file with a voice, got DIR/"
     "a.pt"),
    ("venus", "voice=" + "x" * 5000, "--set voice: expected a recording of a voice, got "
     + "x" * 200)])
def test_a_path_of_ones_own_that_is_not_there_is_told_of(
        call_rig: Callable[..., object], tmp_path: Path, name: str, setting: str,
        says: str) -> None:
    called = call_rig("worker", name, "--doctor", "--json", "--set",
                      setting.replace("DIR", str(tmp_path)))
    found = checks(called)[setting.partition("=")[0]]
    assert called.code == 2
    assert found["status"] == "missing"
    assert found["detail"] == says.replace("DIR", str(tmp_path))


def test_a_path_of_ones_own_that_is_there_is_well_and_a_name_is_none(
        call_rig: Callable[..., object], tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "modeling_dsu.py").touch()
    found = checks(call_rig("worker", "f_actor", "--doctor", "--json", "--set", f"code={tmp_path}"))
    assert found["code"]["status"] == "ok"
    assert not found.keys() & {"codec", "speaker"}
    assert "voice" not in checks(call_rig("worker", "personaplex", "--doctor", "--json"))
    assert "voice" not in checks(call_rig("worker", "minicpm_o", "--doctor", "--json"))


@pytest.mark.parametrize(("name", "value", "where"), [
    ("HF_HUB_CACHE", "$TOP/hub", "TOP/hub"), ("HUGGINGFACE_HUB_CACHE", "TOP/h", "TOP/h"),
    ("XDG_CACHE_HOME", "TOP/x", "TOP/x/huggingface/hub"), ("HF_HOME", "~/y", "TOP/y/hub")])
def test_the_download_goes_where_the_hubs_library_puts_it(
        call_rig: Callable[..., object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
        name: str, value: str, where: str) -> None:
    for other in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TOP", str(tmp_path))
    monkeypatch.setenv(name, value if "$" in value else value.replace("TOP", str(tmp_path)))
    assert worker_doctor.hub_folder() == Path(where.replace("TOP", str(tmp_path)))


@pytest.mark.parametrize("place", ["FILE/hub", "x" * 5000])
def test_where_nothing_can_be_written_nothing_is_downloaded(
        call_rig: Callable[..., object], monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
        place: str) -> None:
    """Also of a model whose size nobody says."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("HF_HUB_CACHE", place.replace("FILE", str(tmp_path / "file")))
    for name in ("moshi", "minicpm_o"):
        found = checks(call_rig("worker", name, "--doctor", "--json"))["weights"]
        assert found["status"] == "broken"
        assert "which cannot be written" in found["detail"]
        assert len(found["detail"]) < 400


def test_a_folder_that_refuses_is_not_written_to(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(worker_doctor.os, "access", lambda path, mode: False)
    assert worker_doctor._free_gb(tmp_path / "new") is None


def test_names_are_checked(call_rig: Callable[..., object]) -> None:
    assert "did you mean 'moshi'" in call_rig("worker", "moshy").error
    assert "expected a model" in call_rig("worker", "--doctor").error
    assert "has no such setting; did you mean 'temp'" in call_rig(
        "worker", "moshi", "--set", "tmp=1").error.replace(" (", "; ").replace("temp'?", "temp'")


def test_a_token_is_never_shown(call_rig: Callable[..., object],
                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_" + "x" * 34)
    called = call_rig("worker", "moshi", "--doctor")
    assert "x" * 10 not in called.out + called.err
