"""What a server may do wrong, whatever it speaks: each gets an event, gives what is sent instead.

A piece of audio is an event whose type ends in `audio.delta`: so it is in both dialects of OpenAI
Realtime and in GPT-Live.
"""

from __future__ import annotations

import base64


def is_audio(event: dict) -> bool:
    return event["type"].endswith("audio.delta")


def unknown_events(event: dict) -> list:
    return [{"type": "response.mood.delta", "event_id": "x" + event.get("event_id", ""),
             "mood": "fine"}, {"type": "x" * 300}, event]


def empty_pieces(event: dict) -> list:
    """Before each piece two that hold nothing."""
    if not is_audio(event):
        return [event]
    return [*({**event, "event_id": f"{event.get('event_id')}-{k}", "delta": nothing}
              for k, nothing in enumerate(("", None))), event]


def broken_pieces(event: dict) -> list:
    return [{**event, "delta": "!" + event["delta"][1:]} if is_audio(event) else event]


def repeated(event: dict) -> list:
    return [event, event]


def unreadable(event: dict) -> list:
    return ['{"type": "response.output_audio.delta", "delta": "AA', "[1, 2]", "null", b"\xff\xfe{}",
            '{"no": "type"}', "[" * 5000, event]


def no_event_ids(event: dict) -> list:
    return [{k: v for k, v in event.items() if k != "event_id"}]


class SplitSamples:
    """Every delta is odd in length: the last byte comes with the next one."""

    def __init__(self) -> None:
        self._byte = b""

    def __call__(self, event: dict) -> list:
        if event["type"].endswith("audio.done") and self._byte:
            rest = {**event, "type": event["type"].replace("audio.done", "audio.delta"),
                    "event_id": event["event_id"] + "r",
                    "delta": base64.b64encode(self._byte).decode()}
            self._byte = b""
            return [rest, event]
        if not is_audio(event):
            return [event]
        data = self._byte + base64.b64decode(event["delta"])
        keep = len(data) - 1 if len(data) % 2 == 0 else len(data)
        self._byte = data[keep:]
        return [{**event, "delta": base64.b64encode(data[:keep]).decode()}]
