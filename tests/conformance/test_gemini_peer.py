"""The official `google-genai` package as a peer of the Gemini Live wire and of its loopback server.

Its client speaks TLS alone, so the server has a certificate of its own. Needs the extra `peers`.
What is checked here without it: docs/adapters/gemini_live.md.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import product
from typing import Any

import numpy as np
import pydantic
import pytest
from gemini_server import GeminiConversation, GeminiScenario, GeminiServer, camel
from realtime_server import close_with, tone_pcm, words_of

from adapters.wire.gemini_live import _CONTENT, LOGGED, GeminiWire
from adapters.wire.gemini_setup import GeminiSettings

pytestmark = pytest.mark.peer
KEY = "test-key-0123456789"
PROMPT = "Be kind: señal."
SET = {"voice": "Kore", "vad_start_sensitivity": "high", "vad_end_sensitivity": "low",
       "vad_prefix_padding_ms": 20, "vad_silence_duration_ms": 200,
       "activity_handling": "interrupts", "input_transcription": True,
       "context_compression": True}


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("google.genai", reason="the extra `peers` is not installed")
    pytest.importorskip("trustme", reason="the extra `peers` is not installed")
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI",
                 "GOOGLE_GENAI_API_VERSION", "https_proxy", "HTTPS_PROXY", "all_proxy",
                 "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


# messages

def test_everything_we_send_is_a_client_message_of_the_official_package() -> None:
    """Its models forbid fields that they do not have."""
    from google.genai.types import LiveClientMessage, RealtimeInputConfig

    for voice, level, ms, handling, on, prompt in product(
            ("", "Kore"), ("server", "low", "high"), (-1, 0, 500),
            ("server", "interrupts", "no_interruption"), (False, True), ("", PROMPT)):
        wire = GeminiWire(GeminiSettings(
            voice=voice, vad_start_sensitivity=level, vad_end_sensitivity=level,
            vad_prefix_padding_ms=ms, vad_silence_duration_ms=ms, activity_handling=handling,
            output_transcription=on, input_transcription=on, context_compression=on), prompt)
        (message,) = wire.opening()
        setup = json.loads(message)["setup"]
        # Its model of a setup lacks this field, which its client sends.
        config = RealtimeInputConfig.model_validate(setup.pop("realtimeInputConfig", {}))
        parsed = LiveClientMessage.model_validate({"setup": setup})
        assert parsed.setup.model == "models/gemini-3.8-live"
        if handling != "server":
            assert config.activity_handling.name.startswith(
                {"interrupts": "START_OF", "no_interruption": "NO_INT"}[handling])
        if level != "server":
            detection = config.automatic_activity_detection
            assert detection.start_of_speech_sensitivity.name == (
                f"START_SENSITIVITY_{level.upper()}")
            assert detection.end_of_speech_sensitivity.name == f"END_SENSITIVITY_{level.upper()}"
    (audio,) = wire.audio(np.full(480, 0.5, np.float32))
    blob = LiveClientMessage.model_validate(json.loads(audio)).realtime_input.audio
    assert blob.mime_type == "audio/pcm;rate=24000"
    assert blob.data == (16_384).to_bytes(2, "little") * 480


def test_a_wrong_field_would_be_noticed() -> None:
    from google.genai.types import LiveClientMessage

    for setup in ({"mood": 1}, {"generationConfig": {"voice": "Kore"}}):
        with pytest.raises(pydantic.ValidationError, match="Extra inputs are not permitted"):
            LiveClientMessage.model_validate({"setup": setup})


def test_every_message_of_the_official_package_is_known_to_the_wire() -> None:
    from google.genai.types import LiveServerContent, LiveServerMessage

    known = set(GeminiWire(GeminiSettings(), "")._handlers) | LOGGED
    assert {f.alias for f in LiveServerMessage.model_fields.values()} == known - {"error"}
    assert {f.alias for f in LiveServerContent.model_fields.values()} == set(_CONTENT)


# sessions

@asynccontextmanager
async def connected(scenario: GeminiScenario, config: dict[str, Any],
                    ) -> AsyncIterator[tuple[Any, GeminiServer]]:
    """The official client in a session with the loopback server."""
    import trustme
    from google import genai

    authority = trustme.CA()
    served, trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(served)
    authority.configure_trust(trusted)
    async with GeminiServer({"peer": scenario}, served).running() as server:
        client = genai.Client(api_key=KEY, http_options=genai.types.HttpOptions(
            base_url=server.url_of("peer").replace("ws://", "https://"),
            async_client_args={"ssl": trusted}))
        async with client.aio.live.connect(
                model="gemini-3.8-live", config={"response_modalities": ["AUDIO"], **config},
        ) as session, asyncio.timeout(20):
            yield session, server


async def speak(session: Any, frames: list[bool]) -> None:
    """20 ms a frame, loud or silent, at 24 kHz."""
    loud = (np.random.default_rng(1).uniform(-0.2, 0.2, 480) * 32767).astype("<i2").tobytes()
    for is_loud in frames:
        await session.send_realtime_input(audio={
            "data": loud if is_loud else bytes(960), "mime_type": "audio/pcm;rate=24000"})
        await asyncio.sleep(0.02)


async def heard(session: Any, seen: list[Any], turns: int) -> None:
    """Every message until so many turns are complete: `receive` ends with each."""
    for _ in range(turns):
        async for message in session.receive():
            seen.append(message)


def run(main: Callable[[], Awaitable[Any]]) -> Any:
    return asyncio.run(main())  # type: ignore[arg-type]


def said(seen: list[Any]) -> tuple[bytes, str]:
    contents = [m.server_content for m in seen if m.server_content]
    words = "".join(c.output_transcription.text for c in contents if c.output_transcription)
    return b"".join(m.data for m in seen if m.data), words


def ends(seen: list[Any]) -> list[str]:
    names = ("generation_complete", "interrupted", "turn_complete")
    return [name for m in seen if m.server_content for name in names
            if getattr(m.server_content, name)]


def parsed_again(conversation: GeminiConversation) -> None:
    """What the server sent has no field that the package does not know."""
    from google.genai.types import LiveServerMessage

    for message in conversation.sent:
        LiveServerMessage.model_validate(message)


WORDS = {"output_audio_transcription": {}}


def test_the_official_client_completes_a_turn() -> None:
    async def main() -> tuple[list[Any], GeminiConversation]:
        seen: list[Any] = []
        async with connected(GeminiScenario(replies_s=(0.8,)), WORDS) as (session, server):
            assert session.session_id == "session-1"
            speaker = asyncio.create_task(speak(session, [k < 10 for k in range(100)]))
            await heard(session, seen, 1)
            speaker.cancel()
            (conversation,) = server.conversations["peer"]
            return seen, conversation

    seen, conversation = run(main)
    assert conversation.headers["x-goog-api-key"] == KEY
    assert conversation.closed_over is None
    assert said(seen) == (tone_pcm(1, 0.8), "".join(words_of(1)))
    assert ends(seen) == ["generation_complete", "turn_complete"]
    assert seen[-1].usage_metadata.total_token_count == 45
    parsed_again(conversation)


def test_the_official_client_is_interrupted() -> None:
    async def main() -> tuple[list[Any], GeminiConversation]:
        seen: list[Any] = []
        scenario = GeminiScenario(replies_s=(6.0, 0.4), pace_s=0.05)
        async with connected(scenario, WORDS) as (session, server):
            # A turn, silence, and a second one while the first reply comes.
            speaker = asyncio.create_task(speak(session, [k % 40 < 10 for k in range(200)]))
            await heard(session, seen, 2)
            speaker.cancel()
            (conversation,) = server.conversations["peer"]
            return seen, conversation

    seen, conversation = run(main)
    assert ends(seen) == ["interrupted", "turn_complete", "generation_complete", "turn_complete"]
    audio, words = said(seen)
    assert audio.endswith(tone_pcm(2, 0.4))
    assert tone_pcm(1, 6.0).startswith(audio[:-len(tone_pcm(2, 0.4))])
    assert words.endswith("".join(words_of(2)))
    parsed_again(conversation)


def test_the_official_client_is_told_that_the_server_closes() -> None:
    from google.genai.errors import APIError

    async def main() -> APIError:
        scenario = GeminiScenario(at_delta=(2, close_with(1011, "Deadline expired")))
        async with connected(scenario, {}) as (session, _):
            speaker = asyncio.create_task(speak(session, [k < 10 for k in range(100)]))
            try:
                with pytest.raises(APIError) as refused:
                    await heard(session, [], 1)
                return refused.value
            finally:
                speaker.cancel()
                await asyncio.gather(speaker, return_exceptions=True)

    error = run(main)
    assert error.code == 1011
    assert "Deadline expired" in str(error)


def test_a_field_that_the_model_does_not_take_ends_the_official_clients_session() -> None:
    from google.genai.errors import APIError

    async def main() -> None:
        async with connected(GeminiScenario(), {"enable_affective_dialog": True}):
            raise AssertionError("a session was opened")

    with pytest.raises(APIError, match='Unknown name "enableAffectiveDialog"') as refused:
        run(main)
    assert refused.value.code == 1007


def test_the_official_client_asks_for_the_session_that_we_ask_for() -> None:
    config = {
        **WORDS, "input_audio_transcription": {}, "system_instruction": PROMPT,
        "speech_config": {"voice_config": {"prebuilt_voice_config": {"voice_name": "Kore"}}},
        "realtime_input_config": {
            "automatic_activity_detection": {
                "start_of_speech_sensitivity": "START_SENSITIVITY_HIGH",
                "end_of_speech_sensitivity": "END_SENSITIVITY_LOW", "prefix_padding_ms": 20,
                "silence_duration_ms": 200},
            "activity_handling": "START_OF_ACTIVITY_INTERRUPTS"},
        "context_window_compression": {"sliding_window": {}}}

    async def main() -> list[dict]:
        async with connected(GeminiScenario(), config) as (session, server):
            await speak(session, [False])
            await asyncio.sleep(0.1)
            return server.conversations["peer"][0].received

    theirs = [camel(message) for message in run(main)]
    instruction = theirs[0]["setup"]["systemInstruction"]
    assert instruction.pop("role") == "user"  # of a system instruction it says nothing
    wire = GeminiWire(GeminiSettings(**SET), PROMPT)
    ours = [json.loads(m) for m in (*wire.opening(), *wire.audio(np.zeros(480, np.float32)))]
    assert theirs == ours
