"""The conversation's items in their order, and what of them is still to be answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from adapters.cascade.hearing import N_PER_MS
from adapters.cascade.session import ClientError
from adapters.wire.payload import MAX_ID_CHARS, excerpt

MAX_ITEMS = 1_000
"""Ours. The oldest are forgotten."""
MAX_TEXT_CHARS = 10_000
"""Longest text of an item that a client adds. Ours."""

Role = Literal["user", "assistant", "system"]


@dataclass(slots=True)
class Item:
    """One message. `text` is `None` while what the user said is not recognised yet."""

    id: str
    role: Role
    kind: Literal["input_audio", "input_text", "output_audio", "output_text"]
    text: str | None
    status: Literal["in_progress", "completed", "incomplete"] = "completed"
    sent_n: int = 0
    """Audio of an assistant item that was sent, samples at 24 kHz."""
    words: list[tuple[str, int]] = field(default_factory=list)
    """Assistant: each piece of the transcript and the sample at which its sound begins."""
    cut: bool = False
    """The client said that not all of it was heard."""

    def as_dict(self) -> dict[str, Any]:
        """The item as events show it; audio is never in it."""
        if self.kind in ("input_text", "output_text"):
            content: list[dict[str, Any]] = [{"type": self.kind, "text": self.text}]
        elif self.status == "in_progress":
            content = []
        else:
            content = [{"type": self.kind, "transcript": self.text}]
        return {"id": self.id, "object": "realtime.item", "type": "message", "status": self.status,
                "role": self.role, "content": content}


class Conversation:
    """Items by id, in order."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._order: list[str] = []

    @property
    def last_id(self) -> str | None:
        return self._order[-1] if self._order else None

    def get(self, item_id: object) -> Item:
        """Raises `ClientError` where there is none."""
        item = self._items.get(item_id) if isinstance(item_id, str) else None
        if item is None:
            raise ClientError("item_not_found", f"no item {excerpt(item_id, 60)} in the "
                              "conversation", "item_id")
        return item

    def add(self, item: Item, after: object = None) -> str | None:
        """Add behind item `after`, behind the last one (`None`) or before all (`"root"`).

        Gives the id of the item before it. Raises `ClientError` for an id that is taken, or an
        `after` that is not there.
        """
        if item.id in self._items:
            raise ClientError("item_exists", f"the conversation has an item {item.id} already",
                              "item.id")
        if after is None:
            at = len(self._order)
        elif after == "root":
            at = 0
        else:
            at = self._order.index(self.get(after).id) + 1
        previous = self._order[at - 1] if at else None
        self._items[item.id] = item
        self._order.insert(at, item.id)
        if len(self._order) > MAX_ITEMS:
            del self._items[self._order.pop(0)]
        return previous

    def previous_id(self, item: Item) -> str | None:
        """The id of the item before this one, `None` for the first and for one that is gone."""
        at = self._order.index(item.id) if item.id in self._items else 0
        return self._order[at - 1] if at else None

    def delete(self, item_id: object) -> Item:
        """Raises `ClientError` where there is none."""
        item = self.get(item_id)
        del self._items[item.id]
        self._order.remove(item.id)
        return item

    def unanswered(self) -> list[Item]:
        """User items since the last answer that was said, and as far as known heard, to its end."""
        found: list[Item] = []
        for item in (self._items[i] for i in reversed(self._order)):
            if item.role == "assistant" and item.status == "completed" and not item.cut:
                break
            if item.role == "user":
                found.append(item)
        return found[::-1]

    def truncate(self, item_id: object, content_index: object, audio_end_ms: object) -> Item:
        """Cut an assistant item to what was heard. Raises `ClientError`.

        Refused beyond the audio that was sent, at 0, and for anything but assistant audio.
        """
        item = self.get(item_id)
        if item.kind != "output_audio":
            raise ClientError("invalid_value", "only assistant audio can be truncated", "item_id")
        if item.status == "in_progress":
            raise ClientError("invalid_value", "this item is being generated; cancel the response "
                              "first", "item_id")
        if content_index != 0 or isinstance(content_index, bool):
            raise ClientError("invalid_value", "expected content_index 0", "content_index")
        if not isinstance(audio_end_ms, int) or isinstance(audio_end_ms, bool) or audio_end_ms <= 0:
            raise ClientError("invalid_value", "expected audio_end_ms of at least 1",
                              "audio_end_ms")
        if audio_end_ms * N_PER_MS > item.sent_n:
            raise ClientError("invalid_value", f"audio content of {item.sent_n // N_PER_MS} ms is "
                              f"already shorter than {audio_end_ms} ms", "audio_end_ms")
        end_n = audio_end_ms * N_PER_MS
        item.cut = item.cut or end_n < item.sent_n
        # A word was heard when the next one had begun, the last when everything was played.
        over_n = [*(start_n for _, start_n in item.words[1:]), item.sent_n]
        item.words = [word for word, n in zip(item.words, over_n, strict=False) if n <= end_n]
        item.sent_n = end_n
        item.text = "".join(text for text, _ in item.words)
        return item


def client_item(item: object, new_id: str) -> Item:
    """The item of `conversation.item.create`: a text message. Raises `ClientError`."""
    if not isinstance(item, dict):
        raise ClientError("invalid_type", f"expected an object, got {excerpt(item, 40)}", "item")
    role, content = item.get("role"), item.get("content")
    if item.get("type") != "message" or role not in ("user", "assistant", "system"):
        raise ClientError("invalid_value", "this server takes messages of user, assistant or "
                          "system alone", "item.type")
    kind = "output_text" if role == "assistant" else "input_text"
    if not isinstance(content, list) or not content or len(content) > MAX_ITEMS:
        raise ClientError("invalid_type", "expected a list of content", "item.content")
    texts = []
    for k, part in enumerate(content):
        text = part.get("text") if isinstance(part, dict) and part.get("type") == kind else None
        if not isinstance(text, str):
            raise ClientError("invalid_value", f"this server takes content of type {kind!r} alone",
                              f"item.content[{k}]")
        texts.append(text)
    whole = " ".join(texts)
    if len(whole) > MAX_TEXT_CHARS:
        raise ClientError("string_above_max_length", f"expected at most {MAX_TEXT_CHARS} "
                          "characters", "item.content")
    given = item.get("id", new_id)
    if not isinstance(given, str) or not 0 < len(given) <= MAX_ID_CHARS or not given.isprintable():
        raise ClientError("invalid_value", f"expected an id of 1 to {MAX_ID_CHARS} printable "
                          "characters", "item.id")
    return Item(given, role, kind, whole)  # type: ignore[arg-type]
