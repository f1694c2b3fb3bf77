"""Pipecat as an agent behind WebRTC, as others wrote it, with a recording in place of its voice.

    pipecat_webrtc.py FOLDER     FOLDER: reply1.pcm, reply2.pcm, ... (PCM16 mono, 24 kHz)

Run as pipecat_server.py, whose author and voice it uses. Theirs are: the signalling
(`SmallWebRTCRequestHandler`), the connection, the track, the data channel with RTVI, voice activity
detection, turns, interruptions and pacing. One line of JSON a session says what it did and when, by
`time.perf_counter_ns`.
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path

import numpy as np
from fastapi import FastAPI, Request
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.audio.vad_processor import VADProcessor
from pipecat.transports.base_transport import TransportParams
from pipecat.transports.smallwebrtc import transport as smallwebrtc
from pipecat.transports.smallwebrtc.request_handler import (
    IceCandidate,
    SmallWebRTCPatchRequest,
    SmallWebRTCRequest,
    SmallWebRTCRequestHandler,
)
from pipecat.turns.user_start import VADUserTurnStartStrategy
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_processor import UserTurnProcessor
from pipecat.turns.user_turn_strategies import UserTurnStrategies
from pipecat.workers.runner import WorkerRunner
from pipecat_server import PAUSE_S, RATE_HZ, Author, Voice, main, until_input_ends


class Diary(smallwebrtc.RawAudioTrack):
    """Their track; what it gives to be sent is written down, with the moment."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.audio: list[tuple[int, int]] = []
        self.said: list[int] = []
        DIARIES.append(self)

    async def recv(self):
        frame = await super().recv()
        pcm = frame.to_ndarray().reshape(-1)
        if np.any(pcm):
            self.audio.append((time.perf_counter_ns(), len(self.said)))  # noqa: TID251
            self.said += pcm.tolist()
        return frame


DIARIES: list[Diary] = []
smallwebrtc.RawAudioTrack = Diary


async def converse(connection, folder: Path) -> None:
    transport = smallwebrtc.SmallWebRTCTransport(connection, TransportParams(
        audio_in_enabled=True, audio_out_enabled=True))
    worker = PipelineWorker(Pipeline([
        transport.input(),
        VADProcessor(vad_analyzer=SileroVADAnalyzer()),
        UserTurnProcessor(user_turn_strategies=UserTurnStrategies(
            start=[VADUserTurnStartStrategy()],
            stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=PAUSE_S,
                                                    wait_for_transcript=False)])),
        Author(False),
        Voice(folder, True),
        transport.output(),
    ]), params=PipelineParams(audio_in_sample_rate=16_000, audio_out_sample_rate=RATE_HZ),
        enable_rtvi=True)

    @transport.event_handler("on_client_disconnected")
    async def gone(_transport, _connection):
        await worker.cancel()

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    await runner.run()
    diary = DIARIES[-1]
    print(json.dumps({"audio": diary.audio, "said": diary.said}), flush=True)


async def serve(folder: Path) -> None:
    app = FastAPI()
    handler = SmallWebRTCRequestHandler()
    tasks: set[asyncio.Task] = set()

    @app.post("/api/offer")
    async def offer(request: Request):
        async def begin(connection) -> None:
            task = asyncio.create_task(converse(connection, folder))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        return await handler.handle_web_request(
            SmallWebRTCRequest.from_dict(await request.json()), begin)

    @app.patch("/api/offer")
    async def candidates(request: Request):
        body = await request.json()
        await handler.handle_patch_request(SmallWebRTCPatchRequest(
            pc_id=body["pc_id"], candidates=[IceCandidate(**c) for c in body["candidates"]]))
        return {"status": "success"}

    await until_input_ends(app)


if __name__ == "__main__":
    main(serve)
