"""huggingface/speech-to-speech as a peer that others wrote, with a script in place of its models.

Run by the Python of an environment of its own, which holds speech-to-speech 1.1.0 and what its
server needs, but none of its models: `make test-peers` makes it.

Router, session, wire events and 16 kHz/24 kHz conversion are theirs. Ours is what its VAD,
recogniser, model and voice would put into its queues: loudness for VAD, fixed words, a tone. It
listens on a free port, prints it, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from queue import Empty, Queue

import numpy as np
import uvicorn
from speech_to_speech.api.openai_realtime.pipeline_unit import PipelineUnit
from speech_to_speech.api.openai_realtime.service import RealtimeService
from speech_to_speech.api.openai_realtime.websocket_router import create_app
from speech_to_speech.pipeline.cancel_scope import CancelScope
from speech_to_speech.pipeline.control import is_control_message
from speech_to_speech.pipeline.events import (
    AssistantOutputEvent,
    AssistantResponseDoneEvent,
    SpeechStartedEvent,
    SpeechStoppedEvent,
    TranscriptionCompletedEvent,
)
from speech_to_speech.pipeline.messages import AUDIO_RESPONSE_DONE, AudioOutput

RATE_HZ = 16_000
LOUD = 300
SILENCE_N = RATE_HZ // 2
WORDS = "This reply was scripted."
REPLY_N = RATE_HZ


def listen(unit: PipelineUnit, stop: threading.Event) -> None:
    """Loudness in the place of VAD and recogniser."""
    heard_n = quiet_n = 0
    speaking = False
    turn = 0
    while not stop.is_set():
        try:
            item = unit.input_queue.get(timeout=0.1)
        except Empty:
            continue
        if is_control_message(item):
            unit.output_queue.put(item)  # the end of a session must come through
            heard_n = quiet_n = 0
            speaking = False
            continue
        samples = np.frombuffer(item[0], dtype=np.int16)
        heard_n += len(samples)
        loud = np.abs(samples.astype(float)).mean() > LOUD
        quiet_n = 0 if loud else quiet_n + len(samples)
        if loud and not speaking:
            speaking = True
            turn += 1
            unit.text_output_queue.put(SpeechStartedEvent(
                audio_start_ms=(heard_n - len(samples)) * 1000 // RATE_HZ))
        elif speaking and quiet_n >= SILENCE_N:
            speaking = False
            unit.text_output_queue.put(SpeechStoppedEvent(
                audio_end_ms=heard_n * 1000 // RATE_HZ, duration_s=1.0))
            unit.text_output_queue.put(TranscriptionCompletedEvent(
                transcript=f"turn {turn}", language_code="en"))


def speak(unit: PipelineUnit, stop: threading.Event) -> None:
    """A tone in the place of model and voice."""
    tone = (8000 * np.sin(np.arange(REPLY_N) * 2 * np.pi * 300 / RATE_HZ)).astype(np.int16)
    while not stop.is_set():
        try:
            request = unit.text_prompt_queue.get(timeout=0.1)
        except Empty:
            continue
        if is_control_message(request):
            continue
        tags = {"cancel_generation": unit.cancel_scope.generation,
                "response_key": request.response_key}
        unit.output_queue.put(AssistantOutputEvent(text=WORDS, output_sequence=0, **tags))
        for at in range(0, REPLY_N, 1600):
            unit.output_queue.put(AudioOutput(audio=tone[at:at + 1600].tobytes(), **tags))
        unit.output_queue.put(AssistantResponseDoneEvent(**tags))
        unit.output_queue.put(AudioOutput(audio=AUDIO_RESPONSE_DONE, **tags))


async def serve() -> None:
    stop = threading.Event()
    should_listen = threading.Event()
    prompts: Queue = Queue()
    unit = PipelineUnit(
        index=0, service=RealtimeService(prompts, should_listen), cancel_scope=CancelScope(),
        should_listen=should_listen, response_playing=threading.Event(), input_queue=Queue(),
        output_queue=Queue(), text_output_queue=Queue(), text_prompt_queue=prompts, handlers=[])
    for work in (listen, speak):
        threading.Thread(target=work, args=(unit, stop), daemon=True).start()
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app([unit], stop), log_level="warning"))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    print(listener.getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.buffer.read)
    stop.set()
    server.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(serve())
