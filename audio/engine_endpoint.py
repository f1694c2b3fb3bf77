"""Any server with OpenAI's speech API: `POST BASE_URL/audio/speech`, one request an utterance.

Request, JSON: `model`, `voice`, `input`, `response_format` (`wav`, or `pcm`: PCM16, little endian,
mono, 24 kHz, without a header). Answer: the audio as the body. OpenAI documents 4096 characters of
input; a segment has 600 at most.

Requests are built and answers read here; what sends them is given from outside (`Post`). Of the
address only the host is written down; the key goes into the request and nowhere else.

Such a server is not deterministic: it may answer the same request otherwise tomorrow. What counts
is the segment in the cache: once it lies there, a build takes nothing from the network. The seed is
not sent (the API has none); it tells two renderings apart.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import struct
from collections.abc import Mapping
from typing import Protocol
from urllib.parse import urlsplit

import numpy as np

from audio.buffers import Float32, pcm16_to_float
from audio.endpoint_rules import Redactor, api_key, check_base_url, is_loopback
from audio.errors import InfrastructureError, InputError, SynthesisError
from audio.local_voices import names
from audio.resample import resample
from audio.suggest import unknown_name
from audio.timebase import SESSION_RATE_HZ
from audio.wavheader import read_layout

FORMATS = ("wav", "pcm")
PCM_RATE_HZ = 24_000
MAX_BYTES = 32 * 1024 * 1024
"""Ours: 120 s of float32 at 48 kHz are 23 MB; 600 characters are about 40 s of speech."""
MAX_AUDIO_S = 120.0
MAX_TIMEOUT_S = 600.0
RATES_HZ = (8_000, 48_000)
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_JSON_START = b"{"
_MAX_SAID = 200
_NO_SECRETS = Redactor(())


class Answer(Protocol):
    """An HTTP answer: names of headers in lower case, the whole body."""

    @property
    def status(self) -> int: ...
    @property
    def media_type(self) -> str: ...
    @property
    def body(self) -> bytes: ...


class Post(Protocol):
    """Sends one request, again where that may help, within bounds; follows no redirect.

    Raises `InfrastructureError` when no answer came.
    """

    def __call__(self, url: str, body: bytes, headers: Mapping[str, str], *, timeout_s: float,
                 max_bytes: int) -> Answer: ...


class EndpointEngine:
    """`synthesis.Engine` over an OpenAI-compatible speech endpoint."""

    name = "endpoint"
    sample_rate_hz = SESSION_RATE_HZ

    def __init__(self, settings: Mapping[str, str], post: Post | None) -> None:
        self._base = check_base_url(settings["base_url"], where="--tts-set base_url")
        self._host = urlsplit(self._base).netloc
        self._model = settings["model"]
        self._voices = names(settings["voices"], where="--tts-set voices")
        self._format = settings.get("format", "") or FORMATS[0]
        if self._format not in FORMATS:
            raise unknown_name("--tts-set format", self._format, FORMATS)
        self._timeout_s = _timeout_s(settings.get("timeout_s", "") or "60")
        self._key_env = settings.get("key_env", "") or "OPENAI_API_KEY"
        self._post = post
        self.version = "OpenAI speech API"

    def voices(self) -> tuple[str, ...]:
        """Those that were named: the API has no list of them."""
        return self._voices

    def synthesize(self, text: str, voice: str, seed: int) -> Float32:
        """Speak normalised `text`; float32 mono at 24 kHz. `seed` is not sent.

        Raises:
            InputError: unknown voice, no key, or the server refuses key, address or request.
            InfrastructureError: no answer, or one that says "later", after several tries.
            SynthesisError: an answer that is no such audio.
        """
        del seed
        if voice not in self._voices:
            raise unknown_name("voice of endpoint", voice, self._voices)
        if self._post is None:
            raise InputError.expected("a way to send requests", got="none", where="endpoint")
        key = self._key()
        headers = {"Content-Type": "application/json", "User-Agent": "duplexrig",
                   "Accept": "audio/*"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        body = json.dumps({"model": self._model, "voice": voice, "input": text,
                           "response_format": self._format}).encode()
        answer = self._post(f"{self._base}/audio/speech", body, headers,
                            timeout_s=self._timeout_s, max_bytes=MAX_BYTES)
        clean = Redactor((key,) if key else ())
        self._check_status(answer, clean)
        samples, rate_hz = read_audio(answer, self._format, clean)
        if len(samples) > MAX_AUDIO_S * rate_hz:
            raise SynthesisError(f"endpoint: expected at most {MAX_AUDIO_S:g} s of speech, got "
                                 f"{len(samples) / rate_hz:.0f} s")
        return resample(samples, rate_hz, SESSION_RATE_HZ)

    def facts(self) -> dict[str, str]:
        """What the manifest says about the engine; asks nobody."""
        return {
            "name": self.name,
            "version": self.version,
            "deterministic": "no: the stored segments are what counts",
            "licence": "the server's",
            "setting_host": self._host,
            # The path decides what speaks, and may be private: its hash is enough to tell.
            "setting_address_sha256": hashlib.sha256(self._base.encode()).hexdigest(),
            "setting_model": self._model,
            "setting_format": self._format,
        }

    def _key(self) -> str | None:
        """The key; `None` where a server on this machine is asked and none is set."""
        host = urlsplit(self._base).hostname or ""
        if is_loopback(host) and not os.environ.get(self._key_env, "").strip():
            return None
        return api_key(self._key_env)

    def _check_status(self, answer: Answer, clean: Redactor) -> None:
        if answer.status == 200:
            return
        where = f"speech endpoint {self._host}"
        if 300 <= answer.status < 400:
            raise InputError.expected("an answer (redirects are not followed)",
                                      got=f"status {answer.status}", where=where)
        said = _said(answer.body, clean)
        if answer.status in (408, 425, 429) or answer.status >= 500:
            raise InfrastructureError(f"{where}: expected status 200, got {answer.status}{said}")
        raise InputError.expected("status 200", got=f"{answer.status}{said}", where=where)


def read_audio(
    answer: Answer, kind: str, clean: Redactor = _NO_SECRETS
) -> tuple[Float32, int]:
    """Samples `(n,)`, finite, and their rate in Hz, of an answer with status 200.

    A WAV header is believed for rate and format alone; how many samples there are is what came
    (streamed headers say 0xFFFFFFFF or 0). Without a header the rate cannot be seen: audio at
    another one has the wrong length, which the quality gate judges.

    Raises:
        SynthesisError: no audio, another format, channels, a rate outside 8 to 48 kHz, an odd
            number of bytes, NaN or infinity, nothing at all.
    """
    body, media = answer.body, answer.media_type
    if not body:
        raise SynthesisError("endpoint: expected audio, got an empty body")
    if media.startswith("text/") or media.endswith("json") or body[:1] == _JSON_START:
        raise SynthesisError(f"endpoint: expected audio, got {clean(media) or 'no media type'!r}"
                             f"{_said(body, clean)}")
    if kind == "pcm":
        if body[:4] in (b"RIFF", b"RF64"):
            return _read_wav(body)  # a server that knows no pcm
        return _pcm16(body), PCM_RATE_HZ
    return _read_wav(body)


def _read_wav(body: bytes) -> tuple[Float32, int]:
    layout = read_layout(io.BytesIO(body), len(body))
    if layout is None or len(layout.fmt) < 16:
        raise SynthesisError(f"endpoint: expected a WAV file, got {len(body)} bytes of another "
                             "kind")
    tag, channels, rate_hz, _, _, bits = struct.unpack_from("<HHIIHH", layout.fmt)
    if tag == _EXTENSIBLE and len(layout.fmt) >= 26:
        tag = struct.unpack_from("<H", layout.fmt, 24)[0]
    if channels != 1 or (tag, bits) not in ((_PCM, 16), (_FLOAT, 32)):
        raise SynthesisError("endpoint: expected one channel of PCM16 or float32, got "
                             f"{channels} of format {tag} with {bits} bits")
    if not RATES_HZ[0] <= rate_hz <= RATES_HZ[1]:
        raise SynthesisError(f"endpoint: expected a rate of {RATES_HZ[0]} to {RATES_HZ[1]} Hz, "
                             f"got {rate_hz}")
    if layout.missing_bytes:
        raise SynthesisError(f"endpoint: expected {layout.declared_bytes} bytes of samples, got "
                             f"{layout.data_bytes}: the answer is cut off")
    data = body[layout.data_offset:layout.data_offset + layout.data_bytes]
    if tag == _PCM:
        return _pcm16(data), rate_hz
    if not data or len(data) % 4:
        raise SynthesisError(f"endpoint: expected whole samples, got {len(data)} bytes")
    samples = np.frombuffer(data, "<f4").astype(np.float32)
    if not np.isfinite(samples).all():
        raise SynthesisError("endpoint: expected finite samples, got NaN or infinity")
    return samples, rate_hz


def _pcm16(data: bytes) -> Float32:
    if not data or len(data) % 2:
        raise SynthesisError(f"endpoint: expected whole samples, got {len(data)} bytes")
    return pcm16_to_float(np.frombuffer(data, "<i2").astype(np.int16))


def _said(body: bytes, clean: Redactor) -> str:
    """The server's own words about an error, where they are JSON of the usual shape."""
    try:
        error = json.loads(body[:65536].decode("utf-8"))["error"]
        message = error["message"] if isinstance(error, dict) else error
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    if not isinstance(message, str):
        return ""
    flat = "".join(c if c.isprintable() else " " for c in clean(message))
    return f": {' '.join(flat.split())[:_MAX_SAID]}"


def _timeout_s(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= MAX_TIMEOUT_S:
        raise InputError.expected(f"seconds, at most {MAX_TIMEOUT_S:g}", got=repr(text[:40]),
                                  where="--tts-set timeout_s")
    return value
