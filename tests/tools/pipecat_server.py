"""Pipecat as a peer that others wrote, with a recording in place of its models and its voice.

    pipecat_server.py FOLDER     FOLDER: reply1.pcm, reply2.pcm, ... (PCM16 mono, 24 kHz)

Run by the Python of an environment of its own, which holds pipecat-ai 1.14.0: `make test-peers`
makes it. Transport, serializer, RTVI, voice activity detection (its Silero), turns, interruptions,
pacing and the handling of a voice's text are theirs. Ours is what a recogniser, a language model
and a voice would say. The path says what the agent is like:

    words       its voice tells when it says each word
    sentences   its voice tells nothing: sentences are reported when they have been said
    bare        no RTVI at all
    wav         audio frames begin with a WAV header
    gated       hears only after client-ready
    error       reports an error of a service after the user's first turn
    decode      decodes each message as hex of frames, one a line, and answers with JSON

One line of JSON a session says what it did and when, by `time.perf_counter_ns`. It listens on a
free port, prints it, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

import uvicorn
from fastapi import FastAPI, WebSocket
from google.protobuf.message import DecodeError
from loguru import logger
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.frames.frames import (
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    OutputAudioRawFrame,
    TTSAudioRawFrame,
    UserStoppedSpeakingFrame,
)
from pipecat.frames.protobufs import frames_pb2
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.audio.vad_processor import VADProcessor
from pipecat.processors.frame_processor import FrameProcessor
from pipecat.serializers.protobuf import ProtobufFrameSerializer
from pipecat.services.tts_service import TTSService, TTSSettings
from pipecat.transports.websocket.fastapi import (
    FastAPIWebsocketParams,
    FastAPIWebsocketTransport,
)
from pipecat.turns.user_start import VADUserTurnStartStrategy
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_processor import UserTurnProcessor
from pipecat.turns.user_turn_strategies import UserTurnStrategies
from pipecat.workers.runner import WorkerRunner

RATE_HZ = 24_000
PAUSE_S = 0.2
"""Added to the 0.2 s of Pipecat's VAD before a turn of the user is over."""


class Diary(ProtobufFrameSerializer):
    """Their serializer; what it is given is written down, with the moment."""

    def __init__(self) -> None:
        super().__init__()
        self.audio: list[tuple[int, int]] = []
        self.interruptions: list[int] = []
        self.heard_n = 0
        self.messages: list[dict] = []

    async def serialize(self, frame):
        now_ns = time.perf_counter_ns()  # noqa: TID251  shared by the processes of a machine
        if isinstance(frame, OutputAudioRawFrame):
            header_n = 22 if frame.audio.startswith(b"RIFF") else 0
            self.audio.append((now_ns, len(frame.audio) // 2 - header_n))
        elif isinstance(frame, InterruptionFrame):
            self.interruptions.append(now_ns)
        return await super().serialize(frame)

    async def deserialize(self, data):
        frame = await super().deserialize(data)
        audio = getattr(frame, "audio", None)
        if audio is not None:
            assert (frame.sample_rate, frame.num_channels) == (16_000, 1)
            self.heard_n += len(audio) // 2
        elif frame is not None:
            self.messages.append(getattr(frame, "message", {}))
        return frame


class Author(FrameProcessor):
    """In place of recogniser and language model: an answer to every turn of the user."""

    def __init__(self, fails: bool) -> None:
        super().__init__()
        self._fails = fails
        self._answers_n = 0

    async def process_frame(self, frame, direction):
        await super().process_frame(frame, direction)
        await self.push_frame(frame, direction)
        if not isinstance(frame, UserStoppedSpeakingFrame):
            return
        if self._fails:
            await self.push_error("the voice is out of credit")
        self._answers_n += 1
        await self.push_frame(LLMFullResponseStartFrame())
        for piece in ("reply", f"{self._answers_n} is", " this", " one."):
            await self.push_frame(LLMTextFrame(piece))
        await self.push_frame(LLMFullResponseEndFrame())


class Voice(TTSService):
    """In place of a voice: a recording; `tells_words` spreads the text over it evenly."""

    def __init__(self, folder: Path, tells_words: bool) -> None:
        super().__init__(push_start_frame=True, push_stop_frames=True, sample_rate=RATE_HZ,
                         push_text_frames=not tells_words,
                         settings=TTSSettings(model=None, voice=None, language=None))
        self._folder = folder
        self._tells_words = tells_words

    async def run_tts(self, text, context_id):
        number = text.removeprefix("reply").split()[0]
        pcm = (self._folder / f"reply{number}.pcm").read_bytes()
        if self._tells_words:
            words = text.split()
            seconds = len(pcm) / 2 / RATE_HZ / len(words)
            await self.add_word_timestamps(
                [(word, k * seconds) for k, word in enumerate(words)], context_id)
        for at in range(0, len(pcm), RATE_HZ // 5):
            yield TTSAudioRawFrame(pcm[at:at + RATE_HZ // 5], RATE_HZ, 1, context_id=context_id)


async def converse(kind: str, websocket: WebSocket, folder: Path) -> None:
    diary = Diary()
    transport = FastAPIWebsocketTransport(websocket, FastAPIWebsocketParams(
        audio_in_enabled=True, audio_out_enabled=True, serializer=diary,
        add_wav_header=kind == "wav", audio_in_stream_on_start=kind != "gated"))
    worker = PipelineWorker(Pipeline([
        transport.input(),
        VADProcessor(vad_analyzer=SileroVADAnalyzer()),
        UserTurnProcessor(user_turn_strategies=UserTurnStrategies(
            start=[VADUserTurnStartStrategy()],
            stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=PAUSE_S,
                                                    wait_for_transcript=False)])),
        Author(kind == "error"),
        Voice(folder, kind == "words"),
        transport.output(),
    ]), enable_rtvi=kind != "bare")

    @transport.event_handler("on_client_disconnected")
    async def gone(_transport, _websocket):
        await worker.cancel()

    if kind != "bare":
        @worker.rtvi.event_handler("on_client_message")
        async def asked(rtvi, message):
            await rtvi.send_server_response(message, "taken")

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    await runner.run()
    print(json.dumps({
        "kind": kind, "audio": diary.audio, "heard_n": diary.heard_n,
        "interruptions": diary.interruptions, "messages": diary.messages}), flush=True)


def decoded(data: bytes) -> object:
    """What the generated classes make of a message."""
    try:
        frame = frames_pb2.Frame.FromString(data)
    except DecodeError:
        return "refused"
    kind = frame.WhichOneof("frame")
    if kind is None:
        return None
    message = getattr(frame, kind)
    fields = {f.name: getattr(message, f.name) for f in message.DESCRIPTOR.fields
              if f.name != "pts" or message.HasField("pts")}
    return {"kind": kind, **{k: v.hex() if isinstance(v, bytes) else v for k, v in fields.items()}}


async def until_input_ends(app: FastAPI) -> None:
    """Serve on a free port, print it, and end with the standard input."""
    listener = socket.socket(proto=socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    print(listener.getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.buffer.read)
    server.should_exit = True
    await serving


def main(serve: Callable[[Path], Coroutine[None, None, None]]) -> None:
    """The process of a peer: `serve` is given the folder of the command line."""
    logger.remove()
    logger.add(sys.stderr, level="WARNING")
    asyncio.run(serve(Path(sys.argv[1])))


async def serve(folder: Path) -> None:
    app = FastAPI()

    @app.websocket("/{kind}")
    async def agent(websocket: WebSocket, kind: str) -> None:
        await websocket.accept()
        if kind == "decode":
            lines = (await websocket.receive_text()).split("\n")
            await websocket.send_text(json.dumps([decoded(bytes.fromhex(n)) for n in lines]))
            await websocket.close()
        else:
            await converse(kind, websocket, folder)

    await until_input_ends(app)


if __name__ == "__main__":
    main(serve)
