"""Which words of a Pipecat agent were spoken, and where in its audio.

Several RTVI messages report the same words; one kind counts. `bot-output` (protocol 2) names the
segment that it is about and how far that has been spoken. `bot-tts-text` (protocol 1; deprecated)
gives what the voice says, word by word or sentence by sentence, as the voice reports it. What a
language model writes (`bot-llm-text`, `bot-transcription`) may never be spoken: no transcript.
"""

from __future__ import annotations

from collections.abc import Iterator

from adapters.wire.payload import PayloadError, at, excerpt

MAX_SEGMENTS = 10_000
"""In one session. Ours: a minute of talk is some dozen."""

MAX_SPREAD_WORDS = 2_000
"""Words of one text that get a place each; the rest goes with the next. Ours: ten minutes of talk;
a message has room for millions, which would keep the frames of every session waiting."""

Placed = tuple[str, int | None]
"""Text, and the sample of the received audio at which it begins; `None`: with what has come."""


class SpokenWords:
    """The transcript of one session; told in which order messages and audio came."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}
        """Of each segment, what was told as spoken."""
        self._from_n = 0
        """Up to here the audio belongs to words that were told."""
        self._silent = True
        self._glued = True
        """Whether the last text ended with a space, or there was none."""
        self._own_spaces = False

    def audio(self, from_n: int) -> None:
        """Audio came, from sample `from_n` on."""
        if self._silent:
            self._silent, self._from_n = False, from_n

    def stopped(self) -> None:
        """The agent says that it has stopped speaking: the next audio begins something new."""
        self._silent = True

    def output(self, data: object, audio_n: int) -> list[Placed]:
        """What a `bot-output` adds, when `audio_n` samples have come.

        Words reported one by one come when they are spoken. A segment that is reported only as
        completed comes after its audio: it is spread over what came since the words before it, in
        proportion to characters. Raises `PayloadError` for a message without text.
        """
        text, spoken = at(data, "text"), at(data, "spoken_progress", "accumulated_text")
        if not isinstance(text, str):
            raise PayloadError(f"expected a text in bot-output, got {excerpt(text, 40)}")
        if not isinstance(spoken, str) or not spoken.strip():
            return []  # not spoken yet, or never
        segment = excerpt(at(data, "segment_id"), 80)
        told = self._told.get(segment, "")
        if not spoken.startswith(told):
            raise PayloadError("expected bot-output to go on from what it said was spoken, got "
                               f"{excerpt(spoken, 80)}")
        if segment not in self._told and len(self._told) >= MAX_SEGMENTS:
            raise PayloadError(f"expected at most {MAX_SEGMENTS} segments of bot-output")
        self._told[segment] = spoken
        new = spoken[len(told):]
        if not new:
            return []
        whole = not told and at(data, "spoken_status") == "completed"
        return list(self._spread(new, audio_n) if whole else self._now(new, bool(told), audio_n))

    def tts_text(self, data: object, audio_n: int) -> list[Placed]:
        """What a `bot-tts-text` adds: a word where the voice reports words, else a sentence."""
        text = at(data, "text")
        if not isinstance(text, str) or not text:
            raise PayloadError(f"expected a text in bot-tts-text, got {excerpt(text, 40)}")
        self._own_spaces |= text[0].isspace()
        if len(text.split(maxsplit=1)) > 1:
            return list(self._spread(text, audio_n))
        return list(self._now(text, self._own_spaces, audio_n))

    def _now(self, text: str, joined: bool, audio_n: int) -> Iterator[Placed]:
        """Text that is spoken as it comes; `joined`: it goes on from the last one as it is."""
        yield self._apart(text, joined), None
        self._from_n = max(self._from_n, audio_n)

    def _spread(self, text: str, audio_n: int) -> Iterator[Placed]:
        words = text.split(maxsplit=MAX_SPREAD_WORDS)
        first_n, n = self._from_n, max(0, audio_n - self._from_n)
        characters, done = sum(map(len, words)), 0
        for word in words:
            yield self._apart(word, joined=False), first_n + n * done // characters
            done += len(word)
        self._from_n = audio_n

    def _apart(self, text: str, joined: bool) -> str:
        bare = joined or self._glued or text[:1].isspace()
        self._glued = text[-1:].isspace()
        return text if bare else f" {text}"
