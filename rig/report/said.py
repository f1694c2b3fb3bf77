"""What both sides said in a session, for the search of the case list."""

from __future__ import annotations

from dataclasses import dataclass

from rig.record import SessionRecord, TextEvent

MAX_TEXT = 20_000
"""Characters of what a side said that a page takes of a case, to be shown and to be searched;
ours: half an hour of speech."""


@dataclass(frozen=True, slots=True)
class Said:
    """The first `MAX_TEXT` characters of each side, spaces made one; empty where there is no text.
    `cut`: that is not all. `user` is what the caller's audio says, `model` all text that the system
    sent, heard or not."""

    user: str = ""
    model: str = ""
    cut: bool = False


def said(record: SessionRecord) -> Said:
    """Text of one response after that of another, each whole: deltas may cut words."""
    by_response: dict[str | None, list[str]] = {}
    for event in record.events:
        if isinstance(event, TextEvent):
            by_response.setdefault(event.response_id, []).append(event.text)
    sides = (" ".join(text for turn in record.turns for text in turn.texts),
             " ".join("".join(parts) for parts in by_response.values()))
    user, model = (" ".join(side[:MAX_TEXT].split()) for side in sides)
    return Said(user, model, any(len(side) > MAX_TEXT for side in sides))
