"""Pipecat as an agent behind Twilio, as others wrote it, with a recording in place of its voice.

    pipecat_twilio.py FOLDER     FOLDER: reply1.pcm, reply2.pcm, ... (PCM16 mono, 24 kHz)

Run as pipecat_server.py, whose author and voice it uses. Theirs are: the recognition of the call
(`parse_telephony_websocket`), `TwilioFrameSerializer` with mu-law and resampling, the transport,
voice activity detection, turns, interruptions and pacing. One line of JSON a session says what it
did and when, by `time.perf_counter_ns`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from pathlib import Path

from fastapi import FastAPI, WebSocket
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.frames.frames import InputAudioRawFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.audio.vad_processor import VADProcessor
from pipecat.runner.utils import parse_telephony_websocket
from pipecat.serializers.twilio import TwilioFrameSerializer
from pipecat.transports.websocket.fastapi import (
    FastAPIWebsocketParams,
    FastAPIWebsocketTransport,
)
from pipecat.turns.user_start import VADUserTurnStartStrategy
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_processor import UserTurnProcessor
from pipecat.turns.user_turn_strategies import UserTurnStrategies
from pipecat.workers.runner import WorkerRunner
from pipecat_server import PAUSE_S, Author, Voice, main, until_input_ends

RATE_HZ = 8_000


class Diary(TwilioFrameSerializer):
    """Their serializer; what goes through it is written down, with the moment."""

    def __init__(self, stream_sid: str) -> None:
        super().__init__(stream_sid, params=TwilioFrameSerializer.InputParams(auto_hang_up=False))
        self.audio: list[tuple[int, int]] = []
        self.sent = bytearray()
        """Mu-law, as it was sent."""
        self.clears: list[int] = []
        self.heard = bytearray()
        """PCM16 that their decoder made of the user's audio."""
        self.unread = 0

    async def serialize(self, frame):
        now_ns = time.perf_counter_ns()  # noqa: TID251  shared by the processes of a machine
        message = await super().serialize(frame)
        if message is not None:
            event = json.loads(message)
            if event["event"] == "media":
                codes = base64.b64decode(event["media"]["payload"])
                self.audio.append((now_ns, len(codes)))
                self.sent += codes
            elif event["event"] == "clear":
                self.clears.append(now_ns)
        return message

    async def deserialize(self, data):
        frame = await super().deserialize(data)
        if isinstance(frame, InputAudioRawFrame):
            assert (frame.sample_rate, frame.num_channels) == (RATE_HZ, 1)
            self.heard += frame.audio
        elif json.loads(data)["event"] == "media":
            self.unread += 1
        return frame


async def converse(websocket: WebSocket, folder: Path) -> None:
    kind, call = await parse_telephony_websocket(websocket)
    diary = Diary(call.stream_id)
    transport = FastAPIWebsocketTransport(websocket, FastAPIWebsocketParams(
        audio_in_enabled=True, audio_out_enabled=True, serializer=diary))
    worker = PipelineWorker(Pipeline([
        transport.input(),
        VADProcessor(vad_analyzer=SileroVADAnalyzer()),
        UserTurnProcessor(user_turn_strategies=UserTurnStrategies(
            start=[VADUserTurnStartStrategy()],
            stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=PAUSE_S,
                                                    wait_for_transcript=False)])),
        Author(False),
        Voice(folder, False),
        transport.output(),
    ]), params=PipelineParams(audio_in_sample_rate=RATE_HZ, audio_out_sample_rate=RATE_HZ),
        enable_rtvi=False)

    @transport.event_handler("on_client_disconnected")
    async def gone(_transport, _websocket):
        await worker.cancel()

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    await runner.run()
    print(json.dumps({
        "kind": kind, "stream_id": call.stream_id, "call_id": call.call_id, "body": call.body,
        "audio": diary.audio, "sent": hashlib.sha256(diary.sent).hexdigest(),
        "clears": diary.clears, "heard": base64.b64encode(diary.heard).decode(),
        "unread": diary.unread}), flush=True)


async def serve(folder: Path) -> None:
    app = FastAPI()

    @app.websocket("/ws")
    async def agent(websocket: WebSocket) -> None:
        await websocket.accept()
        await converse(websocket, folder)

    await until_input_ends(app)


if __name__ == "__main__":
    main(serve)
