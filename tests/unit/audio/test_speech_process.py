"""A speech package in its own process: what it may answer, and what becomes of it when it fails."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from audio import speech_process
from audio.errors import InputError, SynthesisError
from audio.speech_process import SpeechProcess

GOOD = """
import array
from audio.speech_serve import RefusedError, serve

def load(setup):
    print("a package that prints")
    count = [0]
    def speak(request):
        print("and prints", flush=True)
        count[0] += 1
        what = request["text"]
        if what == "refuse":
            raise RefusedError("no such voice")
        if what == "fail":
            raise ValueError("two\\nlines")
        if what == "die":
            import os, sys
            sys.stderr.write("out of memory\\n"); sys.stderr.flush()
            os._exit(7)
        if what == "hang":
            import threading
            threading.Event().wait(60)
        if what == "nan":
            return array.array("f", [0.5, float("nan")]).tobytes(), 22050
        if what == "nothing":
            return b"", 22050
        if what == "net":
            import socket
            socket.create_connection(("127.0.0.1", 9))
        return array.array("f", [0.5, setup["level"], count[0] / 64]).tobytes(), 22050
    return speak

serve(load)
"""

Make = Callable[..., SpeechProcess]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    made: list[SpeechProcess] = []

    def child(body: str = GOOD, **limits: float) -> SpeechProcess:
        (tmp_path / "fake_child.py").write_text(body)
        made.append(SpeechProcess("fake", "fake_child", {"level": 0.25}, **limits))
        return made[-1]

    yield child
    for process in made:
        process.close()


def test_samples_come_back_and_the_model_is_loaded_once(make: Make) -> None:
    process = make()
    for count in (1, 2):
        samples, rate_hz = process.speak({"text": "hi"})
        assert rate_hz == 22050
        assert samples.dtype == np.float32
        np.testing.assert_array_equal(samples, [0.5, 0.25, count / 64])


@pytest.mark.parametrize(("text", "kind", "message"), [
    ("refuse", InputError, "^fake: no such voice$"),
    ("fail", SynthesisError, "^fake: ValueError: two lines$"),
    ("nan", SynthesisError, "^fake: expected finite samples, got NaN or infinity$"),
    ("nothing", SynthesisError, "^fake: expected finite samples, got none$"),
    ("net", SynthesisError, "OSError: speech engines on this machine use no network"),
])
def test_a_refusal_is_one_line_and_the_process_goes_on(
    make: Make, text: str, kind: type[Exception], message: str
) -> None:
    process = make()
    with pytest.raises(kind, match=message):
        process.speak({"text": text})
    assert process.speak({"text": "hi"})[0][2] == 2 / 64


def test_a_process_that_dies_is_named_and_started_again(make: Make) -> None:
    process = make()
    process.speak({"text": "hi"})
    with pytest.raises(SynthesisError, match=r"fake: its process ended with 7 \(out of memory\)"):
        process.speak({"text": "die"})
    assert process.speak({"text": "hi"})[0][2] == 1 / 64


def test_a_process_that_hangs_is_ended(make: Make) -> None:
    process = make(answer_s=0.5)
    with pytest.raises(SynthesisError, match=r"expected an answer within 0\.5 s"):
        process.speak({"text": "hang"})
    assert process.speak({"text": "hi"})[0].size == 3


SPEAKS = "import sys; sys.stdin.readline(); w = sys.stdout.buffer.write\n" \
         "w(b'{\"ready\": true}\\n'); sys.stdout.flush(); sys.stdin.readline()\n"


@pytest.mark.parametrize(("body", "message"), [
    ("raise SystemExit('broken library')", r"ended with 1 \(broken library\)"),
    ("import nothing_like_it", "ended with 1 .*No module named"),
    ("print('hello')", "expected a JSON answer, got b'hello"),
    ("print('[]')", "expected a JSON answer"),
    ("print('{}')", "expected a process that is ready"),
    ("print('[' * 4000)", "expected a JSON answer"),
    ("print('x' * 100000)", "expected a JSON answer"),
    (SPEAKS + "print('{}')", "expected up to 120 s of samples"),
    (SPEAKS + "print('{\"rate_hz\": 24000, \"frames\": 99999999}')", "expected up to 120 s"),
    (SPEAKS + "print('{\"rate_hz\": 999999999, \"frames\": 2}')", "expected up to 120 s"),
    (SPEAKS + "print('{\"rate_hz\": 24000, \"frames\": true}')", "expected up to 120 s"),
    (SPEAKS + "print('{\"rate_hz\": 24000, \"frames\": -1}')", "expected up to 120 s"),
    (SPEAKS + "print('{\"rate_hz\": 24000, \"frames\": 5}')", "ended with 0"),
])
def test_an_answer_that_is_none_is_an_error(make: Make, body: str, message: str) -> None:
    with pytest.raises(SynthesisError, match=message):
        make(body).speak({"text": "hi"})


def test_a_setup_that_is_refused_is_refused_again(make: Make) -> None:
    process = make("from audio.speech_serve import RefusedError, serve\n"
                   "def load(setup): raise RefusedError('no such model')\nserve(load)\n")
    for _ in range(2):
        with pytest.raises(InputError, match=r"^fake: no such model$"):
            process.speak({"text": "hi"})


def test_a_folder_named_audio_where_the_user_stands_is_not_imported(tmp_path: Path) -> None:
    (tmp_path / "audio").mkdir()
    (tmp_path / "audio" / "__init__.py").write_text("raise SystemExit('wrong audio')")
    code = ("from audio.speech_process import SpeechProcess as P\n"
            "try: P('piper', 'audio.piper_process', {}).speak({'text': 'x', 'model': '/no', "
            "'config': '/no', 'speaker': None})\n"
            "except Exception as error: print(error)")
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True,
                          text=True, check=True)
    assert "wrong audio" not in done.stdout
    assert done.stdout.startswith("piper: ")


@pytest.mark.skipif(os.name == "nt", reason="/proc")
def test_no_process_stays_behind(make: Make) -> None:
    process = make()
    process.speak({"text": "hi"})
    child = process._child
    assert child is not None
    process.close()
    assert child.returncode is not None


def test_one_thread_no_hub_and_no_keys(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-a-key")
    process = make("import os\nfrom audio.speech_serve import serve\n"
                   "def load(setup):\n"
                   "    raise ValueError(os.environ['OMP_NUM_THREADS'] + "
                   "os.environ['HF_HUB_OFFLINE'] + "
                   "os.environ.get('OPENAI_API_KEY', ' none'))\nserve(load)\n")
    with pytest.raises(SynthesisError, match=r"ValueError: 11 none$"):
        process.speak({"text": "hi"})
    assert speech_process.MAX_S == 120
