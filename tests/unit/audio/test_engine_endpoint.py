"""An OpenAI-compatible speech endpoint: the request, hostile answers, and where the key is not."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from audio.engine_endpoint import EndpointEngine, read_audio
from audio.errors import InfrastructureError, InputError, SynthesisError

KEY = "sk-proj-0123456789abcdef0123456789"
PLAIN_KEY = "0123456789abcdef0123456789"
"""A key without the usual prefix: only its exact text gives it away."""
LOOPBACK = "http://127.0.0.1:8880/v1"
HOSTED = "https://api.example.com/v1"


@dataclass
class FakeAnswer:
    body: bytes = b""
    media_type: str = "audio/wav"
    status: int = 200


@dataclass
class FakePost:
    answer: FakeAnswer
    sent: list[tuple[str, dict[str, object], dict[str, str]]] = field(default_factory=list)
    limits: dict[str, float] = field(default_factory=dict)

    def __call__(self, url: str, body: bytes, headers: Mapping[str, str], *, timeout_s: float,
                 max_bytes: int) -> FakeAnswer:
        self.sent.append((url, json.loads(body), dict(headers)))
        self.limits = {"timeout_s": timeout_s, "max_bytes": max_bytes}
        return self.answer


def tone(rate_hz: int = 24_000, seconds: float = 0.5) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * 220 * np.arange(round(seconds * rate_hz)) / rate_hz)


def pcm(rate_hz: int = 24_000) -> bytes:
    return (tone(rate_hz) * 32768).astype("<i2").tobytes()


def wav(data: bytes, *, rate_hz: int = 24_000, channels: int = 1, tag: int = 1, bits: int = 16,
        size: int | None = None, extra: bytes = b"") -> bytes:
    block = channels * bits // 8
    fmt = struct.pack("<HHIIHH", tag, channels, rate_hz, rate_hz * block % 2**32, block,
                      bits) + extra
    size = len(data) if size is None else size
    riff = size if size == 0xFFFFFFFF else 4 + 8 + len(fmt) + 8 + size
    return (b"RIFF" + struct.pack("<I", riff) + b"WAVEfmt " + struct.pack("<I", len(fmt)) + fmt
            + b"data" + struct.pack("<I", size) + data)


def engine(answer: FakeAnswer | None = None, **settings: str) -> tuple[EndpointEngine, FakePost]:
    post = FakePost(answer or FakeAnswer(wav(pcm())))
    given = {"base_url": LOOPBACK, "model": "speaker-1", "voices": "ash, coral", **settings}
    return EndpointEngine(given, post), post


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


# -- what is sent -------------------------------------------------------------------------------


def test_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    speech, post = engine(base_url=HOSTED + "/", timeout_s="20")
    samples = speech.synthesize("Hello there.", "coral", 5)
    (url, body, headers), = post.sent
    assert url == "https://api.example.com/v1/audio/speech"
    assert body == {"model": "speaker-1", "voice": "coral", "input": "Hello there.",
                    "response_format": "wav"}
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert post.limits == {"timeout_s": 20.0, "max_bytes": 32 * 1024 * 1024}
    assert samples.dtype == np.float32
    np.testing.assert_allclose(samples, tone(), atol=1e-4)


def test_a_server_on_this_machine_needs_no_key_and_another_does() -> None:
    speech, post = engine()
    speech.synthesize("Hi.", "ash", 0)
    assert "Authorization" not in post.sent[0][2]
    speech, post = engine(base_url=HOSTED)
    with pytest.raises(InputError, match="OPENAI_API_KEY: expected a key in the environment"):
        speech.synthesize("Hi.", "ash", 0)
    assert post.sent == []


def test_the_key_comes_from_the_variable_that_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SPEECH_KEY", KEY)
    speech, post = engine(key_env="MY_SPEECH_KEY")
    speech.synthesize("Hi.", "ash", 0)
    assert post.sent[0][2]["Authorization"] == f"Bearer {KEY}"


def test_the_facts_ask_nobody_and_hold_host_and_settings_but_no_key(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    speech, post = engine(base_url="https://api.example.com:8443/secret/path", format="pcm")
    facts = speech.facts()
    assert facts["setting_host"] == "api.example.com:8443"
    assert facts["setting_model"] == "speaker-1"
    assert facts["setting_format"] == "pcm"
    assert facts["deterministic"].startswith("no")
    assert KEY not in json.dumps(facts) + repr(vars(speech))
    assert "secret" not in json.dumps(facts)
    # Another path may be another voice: nothing of it is reused.
    other, _ = engine(base_url="https://api.example.com:8443/other/path", format="pcm")
    assert other.facts() != facts
    assert speech.voices() == ("ash", "coral")
    assert post.sent == []


@pytest.mark.parametrize(("settings", "message"), [
    ({"base_url": "http://api.example.com/v1"}, "--tts-set base_url: expected https://HOST"),
    ({"base_url": f"https://{KEY}@host/v1"}, "without user, query or fragment"),
    ({"base_url": f"https://host/v1?key={KEY}"}, "without user, query or fragment"),
    ({"voices": "a,,b"}, "--tts-set voices: expected different names"),
    ({"voices": "a,a"}, "--tts-set voices: expected different names"),
    ({"format": "mp3"}, "--tts-set format: expected one of pcm, wav, got 'mp3'"),
    ({"timeout_s": "0"}, "--tts-set timeout_s: expected seconds"),
    ({"timeout_s": "nan"}, "--tts-set timeout_s: expected seconds"),
    ({"timeout_s": "soon"}, "--tts-set timeout_s: expected seconds"),
])
def test_settings_that_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        engine(**settings)
    assert KEY not in str(error.value)


def test_unknown_voice() -> None:
    speech, post = engine()
    with pytest.raises(InputError, match="did you mean 'coral'"):
        speech.synthesize("Hi.", "corl", 0)
    assert post.sent == []


# -- what comes back ----------------------------------------------------------------------------


def extensible(tag: int) -> bytes:
    return struct.pack("<HHI", 22, 16, 0) + struct.pack("<H", tag) + b"\0" * 14


@pytest.mark.parametrize("body", [
    wav(pcm()), wav(pcm(), size=0xFFFFFFFF), wav(pcm(), size=0), wav(pcm(), size=0x7FFFFFFF),
    wav(tone().astype("<f4").tobytes(), tag=3, bits=32),
    wav(pcm(), tag=0xFFFE, extra=extensible(1)),
    wav(pcm())[:12] + b"LIST\x04\x00\x00\x00info" + wav(pcm())[12:],
], ids=["plain", "streamed", "size 0", "size 2^31-1", "float32", "extensible", "LIST first"])
def test_wav_in_its_usual_forms(body: bytes) -> None:
    samples, rate_hz = read_audio(FakeAnswer(body), "wav")
    assert rate_hz == 24_000
    np.testing.assert_allclose(samples, tone(), atol=1e-4)


def test_another_rate_is_converted_to_24_khz() -> None:
    speech, _ = engine(FakeAnswer(wav(pcm(16_000), rate_hz=16_000)))
    samples = speech.synthesize("Hi.", "ash", 0)
    assert samples.size == 12_000
    np.testing.assert_allclose(samples[1200:-1200], tone()[1200:-1200], atol=2e-3)


def test_pcm_without_a_header_and_with_one_that_nobody_asked_for() -> None:
    for body in (pcm(), wav(pcm())):
        samples, rate_hz = read_audio(FakeAnswer(body, "audio/pcm"), "pcm")
        assert (samples.size, rate_hz) == (12_000, 24_000)


NAN = np.full(100, np.nan, "<f4").tobytes()


@pytest.mark.parametrize(("answer", "kind", "message"), [
    (FakeAnswer(b""), "wav", "empty body"),
    (FakeAnswer(b"", "audio/pcm"), "pcm", "empty body"),
    (FakeAnswer(b"<html>login</html>", "text/html"), "wav", "expected audio, got 'text/html'"),
    (FakeAnswer(b'{"error": {"message": "no such voice"}}', "application/json"), "wav",
     "expected audio, got 'application/json': no such voice"),
    (FakeAnswer(b'{"error": "busy"}', "audio/wav"), "pcm", "got 'audio/wav': busy"),
    (FakeAnswer(b'{"a":' * 50_000, "application/json"), "wav", "got 'application/json'$"),
    (FakeAnswer(b"ID3\x04\x00" + b"\0" * 99, "audio/mpeg"), "wav",
     "a WAV file, got 104 bytes of another kind"),
    (FakeAnswer(wav(pcm())[:20]), "wav", "expected a WAV file"),
    (FakeAnswer(b"RIFF\0\0\0\0WAVEdata\x04\0\0\0abcd"), "wav", "expected a WAV file"),
    (FakeAnswer(wav(pcm()[:-1], size=0xFFFFFFFF)), "wav", "whole samples, got 23999 bytes"),
    (FakeAnswer(wav(pcm(), size=999_999)), "wav", "expected 999999 bytes of samples, got 24000"),
    (FakeAnswer(wav(b"")), "wav", "whole samples, got 0 bytes"),
    (FakeAnswer(pcm()[:-1], "audio/pcm"), "pcm", "whole samples, got 23999 bytes"),
    (FakeAnswer(wav(NAN, tag=3, bits=32)), "wav", "finite samples"),
    (FakeAnswer(wav(pcm(), channels=2)), "wav", "got 2 of format 1 with 16 bits"),
    (FakeAnswer(wav(pcm(), bits=8)), "wav", "format 1 with 8 bits"),
    (FakeAnswer(wav(pcm(), tag=6)), "wav", "of format 6"),
    (FakeAnswer(wav(pcm(), rate_hz=0)), "wav", "8000 to 48000 Hz, got 0"),
    (FakeAnswer(wav(pcm(), rate_hz=4_000_000_000)), "wav", "8000 to 48000 Hz, got 4000000000"),
])
def test_an_answer_that_is_no_such_audio(answer: FakeAnswer, kind: str, message: str) -> None:
    with pytest.raises(SynthesisError, match=message):
        read_audio(answer, kind)


@pytest.mark.parametrize(("status", "kind"), [
    (400, InputError), (401, InputError), (403, InputError), (404, InputError), (301, InputError),
    (307, InputError), (204, InputError), (429, InfrastructureError), (500, InfrastructureError),
    (503, InfrastructureError), (408, InfrastructureError)])
@pytest.mark.parametrize("key", [KEY, PLAIN_KEY])
def test_a_status_is_ours_to_mend_or_the_servers_and_never_shows_the_key(
    monkeypatch: pytest.MonkeyPatch, status: int, kind: type[Exception], key: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    said = json.dumps({"error": {"message": f"Incorrect key {key}\x1b[31m provided"}}).encode()
    speech, _ = engine(FakeAnswer(said, "application/json", status), base_url=HOSTED)
    with pytest.raises(kind, match=f"speech endpoint api.example.com: expected .*{status}") as e:
        speech.synthesize("Hi.", "ash", 0)
    assert key not in str(e.value)
    assert str(e.value).isprintable()


@pytest.mark.parametrize("key", [KEY, PLAIN_KEY])
def test_an_error_in_place_of_audio_does_not_show_the_key(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    said = json.dumps({"error": f"bad {key}"}).encode()
    speech, _ = engine(FakeAnswer(said, "application/json"), base_url=HOSTED)
    with pytest.raises(SynthesisError, match=r"bad \[redacted\]"):
        speech.synthesize("Hi.", "ash", 0)


def test_noise_in_place_of_a_body_is_an_error_or_audio_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    good = bytearray(wav(pcm()))
    seen = 0
    for _ in range(300):
        body = bytearray(good)
        for at in rng.integers(0, 60, 3):
            body[at] = rng.integers(0, 256)
        try:
            samples, rate_hz = read_audio(FakeAnswer(bytes(body)), "wav")
        except SynthesisError:
            seen += 1
        else:
            assert 8_000 <= rate_hz <= 48_000
            assert np.isfinite(samples).all()
    assert 0 < seen < 300


