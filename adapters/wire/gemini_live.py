"""The Gemini Live protocol, client side, without I/O.

Sources: the vendor's `google-genai` package and documentation; docs/adapters/gemini_live.md lists
what is confirmed by what. Messages have no type, no event id and no turn id: what a message is, its
fields say, and turns are counted here. Trouble: `event_stream`.

A turn: `modelTurn`s, faster than they are heard; `generationComplete`; a wait for the playback that
the server assumes; `turnComplete`. An interrupted one: `interrupted`, `turnComplete`. Transcripts
come in any order to both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from typing import Any, Literal, cast

from adapters.base import AudioReceived, Interrupted, ResponseDone, ResponseStarted, TextDelta
from adapters.usage import Tally, Unit, Usage, number
from adapters.wire.base import CloseCause, Message
from adapters.wire.event_stream import EventStream
from adapters.wire.gemini_setup import OUTPUT_RATE_HZ, GeminiSettings, close_cause, wrong_audio
from adapters.wire.payload import PayloadError, excerpt, identifier, writable
from audio.buffers import Float32
from audio.timebase import NS_PER_MS, NS_PER_S, n_to_ns

MAX_TURNS = 1_000
"""Ours: a schedule asks for two."""
LATE_AUDIO_NS = 300 * NS_PER_MS
"""Audio so soon after the end of a turn's generation, without `turnComplete`, is still of that
turn. Ours: what was under way arrives at once; a reply to an interruption takes the user to fall
silent and the server to hear it."""
LATE_WORDS_NS = NS_PER_S
"""Words so soon after a turn are still of that turn. Ours: its audio was recognised by then, and
the next turn's words come with audio of their own."""
MAX_PARTS = 1_000
"""Parts of one message. Ours: real ones have a few, and a message has room for millions, which
would keep the frames of every session waiting."""
MAX_NAMED = 20
"""Unknown fields of one message that are named in the log. Ours."""
PAUSE_NS = 2 * NS_PER_S
"""Audio so long after all that had come was heard begins another turn, though the server has not
ended the one before. Ours: longer than a network stalls, shorter than the user takes for a turn."""

CONTENT_LOGGED = ("inputTranscription", "interimInputTranscription", "groundingMetadata",
                  "urlContextMetadata", "waitingForInput")
"""Known fields of `serverContent` that change nothing: kept in the log as they are."""
LOGGED = frozenset({"toolCall", "toolCallCancellation", "voiceActivity",
                    "voiceActivityDetectionSignal"})
"""Known messages that change nothing: kept in the log as they are."""
_CONTENT = ("modelTurn", "outputTranscription", "generationComplete", "interrupted", "turnComplete",
            "turnCompleteReason", "interactionStatus", *CONTENT_LOGGED)
_OUTPUT = "output"


_COUNTS = ("promptTokenCount", "responseTokenCount", "totalTokenCount", "thoughtsTokenCount",
           "toolUsePromptTokenCount")
_KINDS = {"AUDIO": "audio", "TEXT": "text", "IMAGE": "image", "VIDEO": "image"}
MAX_KINDS = 20
"""Ours: the vendor names five."""


def _by_kind(body: dict[str, Any], name: str, direction: Literal["in", "out"]) -> dict[Unit, float]:
    """Tokens by kind, `[{"modality": ..., "tokenCount": ...}]`; other kinds are left out."""
    out: dict[Unit, float] = {}
    details = field(body, name)
    for part in details[:MAX_KINDS] if isinstance(details, list) else ():
        modality = field(part, "modality")
        kind = _KINDS.get(modality) if isinstance(modality, str) else None
        if kind is not None and not (direction == "out" and kind == "image"):
            unit = cast("Unit", f"{kind}_{direction}_tokens")
            out[unit] = out.get(unit, 0.0) + (number(field(part, "tokenCount")) or 0.0)
    return out


@cache
def _snake(name: str) -> str:
    return re.sub(r"[A-Z]", lambda m: f"_{m.group().lower()}", name)


def field(value: object, *path: str) -> object:
    """The value at a path of names, each in either spelling (`turnComplete`, `turn_complete`);
    `None` where any step is missing or no object."""
    for name in path:
        if not isinstance(value, dict):
            return None
        found = value.get(name)
        value = value.get(_snake(name)) if found is None else found
    return value


@dataclass(slots=True)
class _Turn:
    """One turn of the model. `ended`: how its generation ended, `None` while it goes on."""

    response_id: str
    ended: str | None = None
    ended_ns: int = 0


class GeminiWire(EventStream):
    """One session. `prompt` is the system prompt, empty at level L0."""

    logged = LOGGED

    def __init__(self, settings: GeminiSettings, prompt: str) -> None:
        super().__init__(settings.input_rate_hz, OUTPUT_RATE_HZ)
        self._setup = settings.setup(prompt)
        self._mime_type = settings.mime_type
        self._turn: _Turn | None = None
        """The turn that has begun and got no `turnComplete` yet."""
        self._last: _Turn | None = None
        self._turns_n = 0
        self._heard_ns = 0
        """When all audio that has come has been heard, as the server assumes too."""
        self._early: list[str] = []
        """Words that came before any sound of theirs."""
        self._tally = Tally()
        self._uncounted: set[str] = set()
        """Turns of which no count has come."""
        self._time_left: str | None = None
        """What the server said when it announced that it will go."""
        # In this order, where a message has several: what a turn holds comes before its end.
        self._handlers = {
            "setupComplete": self._set_up,
            "serverContent": self._content,
            "goAway": self._go_away,
            "sessionResumptionUpdate": self._resumable,
            "error": self._refused_by_message,
            "usageMetadata": self._used,
        }
        self._order = (*self._handlers, *sorted(LOGGED))
        self._names = {spelt: name for name in self._order for spelt in (name, _snake(name))}

    def opening(self) -> tuple[Message, ...]:
        """`setup`, before anything else."""
        return (json.dumps({"setup": self._setup}, ensure_ascii=False, separators=(",", ":")),)

    def closing(self) -> tuple[Message, ...]:
        """Nothing: closing the connection ends the session."""
        return ()

    def audio(self, frame: Float32) -> tuple[Message, ...]:
        """One `realtimeInput` for 20 ms of user audio, float32 `(n,)`, with its rate declared.

        Raises `ValueError` for another shape or samples that are not finite.
        """
        return (json.dumps({"realtimeInput": {"audio": {
            "mimeType": self._mime_type, "data": self._base64(frame)}}}, separators=(",", ":")),)

    def closed(self, code: int, reason: str) -> CloseCause | None:
        """What it means that the server closes the connection."""
        cause = close_cause(code, reason, ready=self._ready)
        if self._time_left is None:
            return cause
        announced = f"announced by goAway, time left {self._time_left}"
        return (replace(cause, text=f"{cause.text}; {announced}") if cause
                else CloseCause(announced))

    @property
    def usage(self) -> Usage:
        """The tokens of every message that counts some, and the turns that nobody counted."""
        counts = dict(self._tally.counts)
        unreported = counts.get("unreported_responses", 0.0) + len(self._uncounted)
        return {**counts, "unreported_responses": unreported} if unreported else counts

    # messages

    def _kind(self, event: dict[str, Any]) -> str:
        if all(value is None for value in event.values()):
            raise PayloadError("expected a message with a field, got none")
        return "message"

    def _handle(self, kind: str, event: dict[str, Any], t_ns: int) -> None:  # noqa: ARG002
        """Take every field of a message: `usageMetadata`, for one, comes beside others."""
        known = {self._names.get(key, key): value for key, value in event.items()
                 if value is not None}
        self._name_unknown(t_ns, "", (n for n in known if n not in self._order))
        for name in (name for name in self._order if name in known):
            if not isinstance(known[name], dict):
                self._note(t_ns, f"{name} skipped: expected an object, got "
                                 f"{excerpt(known[name], 40)}")
            elif name in self._handlers:
                self._handlers[name](known[name], t_ns)
            else:
                self._log(t_ns, name, known[name])

    def _set_up(self, body: dict[str, Any], t_ns: int) -> None:
        if self._ready:
            self._note(t_ns, "setupComplete again skipped")
            return
        self._log(t_ns, "setupComplete", {"sessionId": field(body, "sessionId")})
        self._ready = True

    def _go_away(self, body: dict[str, Any], t_ns: int) -> None:
        self._time_left = excerpt(field(body, "timeLeft") or "unknown", 40)
        self._log(t_ns, "goAway", {"timeLeft": self._time_left})

    def _resumable(self, body: dict[str, Any], t_ns: int) -> None:
        """Kept in the log, never used: a session that goes on elsewhere is another session. The
        handle itself would open it, so it is not written down."""
        self._log(t_ns, "sessionResumptionUpdate", {
            "resumable": field(body, "resumable"), "handle": bool(field(body, "newHandle"))})

    def _used(self, body: dict[str, Any], t_ns: int) -> None:
        """Tokens of the turn so far; taken for one count a turn, which nobody states."""
        self._log(t_ns, "usageMetadata", body)
        told = {name: number(field(body, name)) for name in _COUNTS}
        n_in, n_out, n_total, n_thoughts, n_tools = told.values()
        if n_in is None and n_out is None:
            return
        turn = self._turn or self._last
        if turn is not None:
            self._uncounted.discard(turn.response_id)
        if any(n is None and field(body, name) is not None for name, n in told.items()) \
                or (None in (n_in, n_out) and n_total is None):
            # A count that is none, or one missing that nothing else tells: unknown, not 0.
            self._tally.add("unreported_responses", 1)
        elif None in (n_in, n_out):
            known = (n_in or 0.0) + (n_out or 0.0) + (n_thoughts or 0.0) + (n_tools or 0.0)
            self._tally.add("unsplit_tokens", max(0.0, (n_total or 0.0) - known))
        parts = _by_kind(body, "promptTokensDetails", "in")
        for unit, n in _by_kind(body, "cacheTokensDetails", "in").items():
            cached = min(n, parts.get(unit, 0.0))
            parts[unit] = parts.get(unit, 0.0) - cached
            parts[cast("Unit", f"cached_{unit}")] = cached
        self._tally.split(n_in, parts)
        self._tally.split(n_out, _by_kind(body, "responseTokensDetails", "out"))
        self._tally.add("text_out_tokens", n_thoughts or 0.0)
        self._tally.add("unsplit_tokens", n_tools or 0.0)

    def _refused_by_message(self, body: dict[str, Any], t_ns: int) -> None:
        told = ": ".join(excerpt(part, 200) for name in ("code", "status", "message")
                         if (part := field(body, name)) is not None)
        self._fail(t_ns, f"error message: {told or 'no cause given'}",
                   hopeless=field(body, "code") in (400, 401, 403, 404),
                   throttled=field(body, "code") in (429, 503))

    def _content(self, content: dict[str, Any], t_ns: int) -> None:
        """One `serverContent`: what it holds first, since an end may stand beside its last words
        and sounds (Gemini 3 sends them so)."""
        self._model_turn(field(content, "modelTurn"), t_ns)
        if (said := field(content, "outputTranscription")) is not None:
            self._words_of(said, t_ns)
        for name in CONTENT_LOGGED:
            if (value := field(content, name)) is not None:
                self._log(t_ns, name, value)
        if field(content, "generationComplete") is True:
            self._generated(t_ns)
        if field(content, "interrupted") is True:
            self._interrupted(t_ns)
        if field(content, "turnComplete") is True:
            self._turn_complete(content, t_ns)
        self._name_unknown(t_ns, "serverContent.", (n for n in content if n not in _SPELT_CONTENT))

    def _name_unknown(self, t_ns: int, within: str, names: Iterator[str]) -> None:
        for name in islice(names, MAX_NAMED):
            self._log(t_ns, "unknown_event", f"{within}{excerpt(name, 80)}")
        if more := sum(1 for _ in names):
            self._log(t_ns, "unknown_event", f"and {more} more of this message")

    # turns

    def _begin_turn(self, t_ns: int) -> _Turn:
        self._turns_n += 1
        if self._turns_n > MAX_TURNS:
            self._fail(t_ns, f"the server began more than {MAX_TURNS} turns")
        turn = self._turn = _Turn(f"turn_{self._turns_n}")
        self._uncounted.add(turn.response_id)
        self._events.append(ResponseStarted(t_ns, turn.response_id))
        self._events += [TextDelta(t_ns, text, turn.response_id) for text in self._early]
        self._early = []
        return turn

    def _end(self, turn: _Turn, status: str, t_ns: int) -> None:
        """Nothing more is generated in this turn."""
        if self._pcm.end(_OUTPUT):
            self._note(t_ns, f"half a sample left over at the end of {turn.response_id}")
        if turn.ended is None:
            self._events.append(ResponseDone(t_ns, turn.response_id, status))
        turn.ended, turn.ended_ns = status, t_ns

    def _generated(self, t_ns: int) -> None:
        """All of a turn has come: the system's "done", long before it has been heard."""
        turn = self._turn
        self._log(t_ns, "generationComplete", turn.response_id if turn else "no turn")
        if turn is not None and turn.ended is None:
            self._end(turn, "completed", t_ns)

    def _interrupted(self, t_ns: int) -> None:
        """What has not been heard yet must not be, of this turn or, after its end, of any."""
        turn = self._turn
        if turn is None:
            self._events.append(Interrupted(t_ns))
        elif turn.ended == "interrupted":
            self._note(t_ns, f"interrupted again for {turn.response_id} skipped")
        else:
            self._events.append(Interrupted(t_ns, turn.response_id))
            self._end(turn, "interrupted", t_ns)
            self._heard_ns = t_ns

    def _turn_complete(self, content: dict[str, Any], t_ns: int) -> None:
        turn = self._turn
        reason = field(content, "turnCompleteReason")
        self._log(t_ns, "turnComplete", {
            "turn": turn.response_id if turn else None, "turnCompleteReason": reason,
            "interactionStatus": field(content, "interactionStatus")})
        if turn is None:
            return
        if turn.ended is None:
            self._end(turn, identifier(reason) or "completed", t_ns)
        self._turn, self._last = None, turn
        turn.ended_ns = t_ns

    # audio and words

    def _model_turn(self, turn: object, t_ns: int) -> None:
        """What the model says in one message. Of parts that are none, what was said is lost."""
        parts = field(turn, "parts")
        if turn is None or (isinstance(turn, dict) and parts is None):
            return
        if not isinstance(parts, list):
            self._fail(t_ns, f"expected a modelTurn with a list of parts, got {excerpt(turn, 80)}")
        elif len(parts) > MAX_PARTS:
            self._fail(t_ns, f"expected a modelTurn of at most {MAX_PARTS} parts, got {len(parts)}")
        else:
            for part in parts:
                self._part(part, t_ns)

    def _part(self, part: object, t_ns: int) -> None:
        """One part of a `modelTurn`. Text is no speech: thoughts, or what the model adds to it."""
        inline = field(part, "inlineData")
        if inline is None:
            self._log(t_ns, "modelTurn", part)
            return
        mime_type = field(inline, "mimeType")
        if isinstance(mime_type, str) and not mime_type.lower().startswith("audio/"):
            self._log(t_ns, "modelTurn", {"mimeType": mime_type})
            return
        if (wrong := wrong_audio(mime_type, OUTPUT_RATE_HZ)) is not None:
            self._fail(t_ns, f"the server sends {wrong}")
            return
        samples = self._samples(_OUTPUT, {"delta": field(inline, "data")}, t_ns)
        if samples is not None and self._within_audio(t_ns, len(samples)):
            turn = self._sounding(t_ns)
            self._heard_ns = max(self._heard_ns, t_ns) + n_to_ns(len(samples), OUTPUT_RATE_HZ)
            self._events.append(AudioReceived(t_ns, samples, turn.response_id))

    def _sounding(self, t_ns: int) -> _Turn:
        """The turn that audio belongs to."""
        turn = self._turn
        if turn is not None and turn.ended is not None:
            if t_ns - turn.ended_ns <= LATE_AUDIO_NS:
                self._note(t_ns, f"late audio of {turn.response_id}, which is {turn.ended}")
                return turn
            self._note(t_ns, f"{turn.response_id} got no turnComplete")
            turn = None
        elif turn is not None and t_ns - self._heard_ns > PAUSE_NS:
            self._note(t_ns, f"{turn.response_id} got no end")
            self._end(turn, "unknown", t_ns)
            turn = None
        return turn or self._begin_turn(t_ns)

    def _words_of(self, said: object, t_ns: int) -> None:
        text = field(said, "text")
        if not text and field(said, "finished") is True:
            return
        words = self._words({"delta": text}, t_ns)
        if words is None or not self._within_text(t_ns, words):
            return
        turn = self._spoken_in(t_ns)
        if turn is None:
            self._log(t_ns, "transcript_ahead", words)
            self._early.append(writable(words))
        else:
            self._events.append(TextDelta(t_ns, writable(words), turn.response_id))

    def _spoken_in(self, t_ns: int) -> _Turn | None:
        """The turn that words belong to; `None`: one that has not begun."""
        turn = self._turn
        if turn is not None and turn.ended != "interrupted":
            return turn
        turn = turn or self._last
        return turn if turn is not None and t_ns - turn.ended_ns <= LATE_WORDS_NS else None


_SPELT_CONTENT = frozenset(spelt for name in _CONTENT for spelt in (name, _snake(name)))
