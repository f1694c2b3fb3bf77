"""`--tts endpoint` against a server on this machine that misbehaves, through the real client."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from chat_server import ChatServer, Step, error

from audio.engine_hibari import HibariEngine
from audio.errors import InfrastructureError, InputError, SynthesisError
from audio.files import write_wav_pcm16
from audio.synthesis import Engine, engine, render_segment
from probes.segments import SegmentCache, SegmentJob, render_all
from rig import cli, rendering
from rig.rendering import EngineRenderer
from rig.speech_post import PatientPost

TEXT = "The gate code is four one five."
KEY = "sk-proj-0123456789abcdef0123456789"


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A real rendering of TEXT, as a WAV file."""
    path = tmp_path_factory.mktemp("spoken") / "x.wav"
    write_wav_pcm16(path, HibariEngine().synthesize(TEXT, "heart", 1), 24_000)
    return path.read_bytes()


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    rendering._engine.cache_clear()


def audio(body: bytes, **changes: object) -> Step:
    return Step(body, content_type="audio/wav", **changes)  # type: ignore[arg-type]


def asked(server: ChatServer, **settings: str) -> tuple[Engine, list[float], list[str]]:
    waits: list[float] = []
    notes: list[str] = []
    speech = engine("endpoint", {"base_url": server.url, "model": "m", "voices": "ash",
                                 **settings},
                    post=PatientPost(wait=waits.append, note=notes.append))
    return speech, waits, notes


def test_a_segment_from_a_server(spoken: bytes) -> None:
    with ChatServer([audio(spoken)]) as server:
        speech, waits, notes = asked(server)
        segment = render_segment(TEXT, speech, "ash", 3)
    assert segment.alignment == "forced"
    assert segment.attempts == 1
    assert server.received[0].path == "/v1/audio/speech"
    assert server.received[0].value == {"model": "m", "voice": "ash", "input": TEXT,
                                        "response_format": "wav"}
    assert "authorization" not in server.received[0].headers
    assert (waits, notes) == ([], [])


def test_trouble_that_may_pass_is_waited_out_and_told(spoken: bytes) -> None:
    script = [error(429, "slow down", Retry_After="7"), Step(b"", 503), Step(reset=True),
              audio(spoken)]
    with ChatServer(script) as server:
        speech, waits, notes = asked(server)
        assert speech.synthesize(TEXT, "ash", 0).size > 24_000
    assert waits == [7.0, 4.0, 6.0]
    assert len(notes) == 3
    assert "status 429; sent again in 7 s" in notes[0]
    assert "status 503; sent again in 4 s" in notes[1]


def test_trouble_that_does_not_pass_ends_after_four_sends() -> None:
    with ChatServer([Step(b"", 500)] * 9) as server:
        speech, waits, _ = asked(server)
        with pytest.raises(InfrastructureError, match="expected status 200, got 500"):
            render_segment(TEXT, speech, "ash", 0)
    assert len(server.received) == 4
    assert len(waits) == 3


@pytest.mark.parametrize(("step", "message", "sends"), [
    (error(429, "out of money", Retry_After="3600"), "3600 s of patience", 1),
    (Step(json.dumps({"error": {"message": "pay", "code": "insufficient_quota"}}).encode(), 429),
     "got 429: pay", 1),
    (Step(stall=True), "expected an answer within 0.3 s", 4),
    (Step(b"x" * 4_000, drip_s=0.1), "expected an answer within 0.3 s", 4),
    (Step(b"abc", claim_length=999), "cut off or damaged", 4),
    (Step(b"x", claim_length=10**12), "at most 33554432 bytes, got more", 1),
])
def test_trouble_of_the_network_is_infrastructure(step: Step, message: str, sends: int) -> None:
    with ChatServer([step] * sends) as server:
        speech, _, _ = asked(server, timeout_s="0.3")
        with pytest.raises(InfrastructureError, match=message):
            render_segment(TEXT, speech, "ash", 0)
    assert len(server.received) == sends
    assert server.beyond == 0


@pytest.mark.parametrize("step", [
    error(401, f"Incorrect API key provided: {KEY}"), error(404, "no such model"),
    error(302, Location="http://127.0.0.1:9/elsewhere")])
def test_what_the_user_must_mend_ends_at_once_and_shows_no_key(
    step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ChatServer([step]) as server:
        speech, waits, _ = asked(server)
        with pytest.raises(InputError, match=f"got (status )?{step.status}") as raised:
            render_segment(TEXT, speech, "ash", 0)
    assert len(server.received) == 1
    assert waits == []
    assert server.received[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in str(raised.value)


def test_bad_audio_is_asked_for_again_and_then_refused(spoken: bytes) -> None:
    silence = spoken[:44] + b"\0" * (len(spoken) - 44)
    with ChatServer([audio(silence), audio(spoken[:-3]), audio(spoken)]) as server:
        speech, _, _ = asked(server)
        assert render_segment(TEXT, speech, "ash", 0).attempts == 3
    with ChatServer([Step(b"<html>", content_type="text/html")] * 3) as server:
        speech, _, _ = asked(server)
        with pytest.raises(SynthesisError, match=r"in 3 attempt.*got 'text/html'"):
            render_segment(TEXT, speech, "ash", 0)


def test_audio_at_a_rate_that_the_header_does_not_have_is_refused_by_its_length(
    spoken: bytes
) -> None:
    fast = spoken[:24] + (48_000).to_bytes(4, "little") + spoken[28:]
    with ChatServer([audio(fast)] * 3) as server:
        speech, _, _ = asked(server)
        with pytest.raises(SynthesisError, match="s for 31 characters, got"):
            render_segment(TEXT, speech, "ash", 0)


def test_what_lies_in_the_cache_is_not_asked_for_again(spoken: bytes, tmp_path: Path) -> None:
    jobs = [SegmentJob(TEXT, "ash", seed, f"segment {seed}") for seed in range(3)]
    with ChatServer([audio(spoken)] * 3) as server:
        settings = (("base_url", server.url), ("model", "m"), ("voices", "ash"))
        renderer = EngineRenderer("endpoint", None, settings)
        cache = SegmentCache(tmp_path, renderer.engine, renderer.aligner)
        render_all(renderer, cache, jobs[:2], workers=2)
        assert len(server.received) == 2
        render_all(renderer, cache, jobs)  # goes on: one is missing
        assert len(server.received) == 3
    # the server is gone
    again = EngineRenderer("endpoint", None, settings)
    render_all(again, SegmentCache(tmp_path, again.engine, again.aligner), jobs)
    assert all(cache.load(job) is not None for job in jobs)


def test_rig_build_ends_with_3_when_the_server_does_not_recover_and_with_2_for_a_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    notes: list[str] = []
    monkeypatch.setattr(rendering, "PatientPost", lambda: PatientPost(wait=lambda _: None,
                                                                      note=notes.append))
    for step, sends, code in ((Step(b"", 503), 4, 3), (error(400, "no such voice"), 1, 2)):
        rendering._engine.cache_clear()
        with ChatServer([step] * sends) as server:
            assert cli.main([
                "build", "dsb-ifeval", "--tts", "endpoint", "--filter", "case=R8-C1-1-L2",
                "--tts-set", f"base_url={server.url}", "--tts-set", "model=m", "--tts-set",
                "voices=ash", "--jobs", "1", "--out", str(tmp_path / "suite")]) == code
        assert server.beyond == 0
        said = " ".join(capsys.readouterr().err.split())
        assert f"R8-C1-1 turn 1 turn1: speech endpoint 127.0.0.1:{server.url[17:-3]}" in said
        assert not (tmp_path / "suite" / "suite.json").exists()
    assert len(notes) == 3


class _SpeaksAnything:
    """A server's answer to any text: what hibari says."""

    def __init__(self) -> None:
        self.asked = 0
        self._hibari = HibariEngine()

    def __call__(self, url: str, body: bytes, headers: Mapping[str, str], *, timeout_s: float,
                 max_bytes: int) -> object:
        self.asked += 1
        samples = self._hibari.synthesize(json.loads(body)["input"], "heart", 0)

        class Answer:
            status = 200
            media_type = "audio/pcm"
            body = np.rint(samples * 32768).astype("<i2").tobytes()

        return Answer()


def test_rig_build_with_an_endpoint_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server = _SpeaksAnything()
    monkeypatch.setattr(rendering, "PatientPost", lambda: server)
    out = tmp_path / "suite"
    command = ["build", "dsb-ifeval", "--tts", "endpoint", "--filter", "case=R8-C1-1-L2",
               "--tts-set", "base_url=https://speech.example.com/v1", "--tts-set", "model=m-1",
               "--tts-set", "voices=ash,coral", "--tts-set", "format=pcm", "--jobs", "1",
               "--out", str(out)]
    assert cli.main([*command]) == 0
    first = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    assert server.asked > 0
    asked = server.asked
    assert cli.main([*command]) == 0
    assert server.asked == asked
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == first
    manifest = json.loads((out / "suite.json").read_text())
    assert manifest["engine"]["setting_host"] == "speech.example.com"
    printed = capsys.readouterr()
    for text in (*(data.decode("latin-1") for data in first.values()), printed.out, printed.err):
        assert KEY not in text
    shutil.rmtree(out)
