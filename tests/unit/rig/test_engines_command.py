"""`rig engines` and `--tts-set`: what can be had and set, in text and JSON; usage errors are one
line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from audio.engines import ENGINES
from rig import cli, doctor


def test_all_engines_are_listed_with_what_they_lack(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["engines"]) == 0
    text = capsys.readouterr().out
    for name, entry in ENGINES.items():
        assert f"\n{name}  " in f"\n{text}"
        assert ("cannot run here: pip install" in text) or entry.missing() is None
    assert "unverified: its weights could not be had" in text


def test_json_holds_capabilities_and_settings(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["engines", "endpoint", "xtts", "--json"]) == 0
    endpoint, xtts = json.loads(capsys.readouterr().out)["engines"]
    assert endpoint["missing"] is None
    assert endpoint["capabilities"]["needs_network"] is True
    assert endpoint["capabilities"]["deterministic"] is False
    assert [s["name"] for s in endpoint["settings"] if s["required"]] == ["base_url", "model",
                                                                          "voices"]
    assert xtts["capabilities"]["max_chars"] == 250
    assert xtts["capabilities"]["verified"] is False


@pytest.mark.parametrize(("arguments", "message"), [
    (["engines", "pipper"], "did you mean 'piper'?"),
    (["build", "dsb-ifeval", "--dry-run", "--tts", "hibri"], "did you mean 'hibari'?"),
    (["build", "dsb-ifeval", "--dry-run", "--tts-set", "model=x"],
     "speech engine hibari has no such setting"),
    (["build", "dsb-ifeval", "--dry-run", "--tts", "endpoint", "--tts-set", "model"],
     "--tts-set: expected KEY=VALUE"),
    (["build", "dsb-ifeval", "--dry-run", "--tts", "endpoint"],
     "expected --tts-set base_url=..., got none"),
    (["build", "dsb-ifeval", "--dry-run", "--tts", "endpoint", "--tts-set", "model=m",
      "--tts-set", "voices=a", "--tts-set", "base_url=http://api.example.com/v1"],
     "--tts-set base_url: expected https://HOST"),
])
def test_usage_errors_are_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    err = capsys.readouterr().err
    assert message in " ".join(err.split())
    assert "Traceback" not in err


def test_the_doctor_names_the_engines_of_extras(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "run_trial", lambda name: ("ok", name))
    checks = {c.name: c for c in doctor.examine(tmp_path, {})}
    for name in ("piper", "kokoro", "xtts"):
        check = checks[f"{name} voices"]
        assert not check.needed
        assert (check.status == "ok") == (ENGINES[name].missing() is None)
        assert check.fix == ENGINES[name].missing()


def test_the_list_loads_no_engine_and_no_numpy() -> None:
    code = ("import sys; from rig import cli; cli.main(['engines']);"
            "print([m for m in ('numpy', 'hibari', 'piper', 'torch') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "[]"
