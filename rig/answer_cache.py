"""Answers of language models on disk, one file a request, named by the SHA-256 of its exact body.

What was asked once costs nothing again, and a run can be repeated without an endpoint or a key. The
name says nothing of the endpoint: two endpoints that serve different models under one name need two
folders.

A request that is asked again on purpose, to see whether the answer changes, stays the same bytes;
its number (`repeat`, from 1) is part of the file's name from 2 on: `SHA256.r2.json`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from audio.files import atomic_write_text
from probes.segments import canonical_json, sha256_json

CACHE_SCHEMA = 1
MAX_FILE_BYTES = 4 * 1024 * 1024
"""Ours: a file holds a request and an answer, each bounded below 2 MiB."""


class AnswerCache:
    """Loads and stores plain JSON values; a file that is damaged, torn or foreign is no answer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, body: bytes, repeat: int = 1) -> Path:
        which = "" if repeat == 1 else f".r{repeat}"
        return self.folder / f"{hashlib.sha256(body).hexdigest()}{which}.json"

    def load(self, body: bytes, repeat: int = 1) -> Any | None:
        """The answer to a request, or `None` when it must be asked for."""
        try:
            with self.path(body, repeat).open("rb") as handle:
                raw = handle.read(MAX_FILE_BYTES + 1)
            if len(raw) > MAX_FILE_BYTES:
                return None
            kept = json.loads(raw.decode("utf-8"))
            same = (kept["schema"] == CACHE_SCHEMA and kept["request"].encode("utf-8") == body
                    and kept["answer_sha256"] == sha256_json(kept["answer"]))
            return kept["answer"] if same else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def store(self, body: bytes, answer: Any, repeat: int = 1) -> None:
        """Keep an answer. Raises `InputError` for a folder that cannot be written."""
        self.folder.mkdir(parents=True, exist_ok=True)
        atomic_write_text(self.path(body, repeat), canonical_json({
            "schema": CACHE_SCHEMA, "request": body.decode("utf-8"), "answer": answer,
            "answer_sha256": sha256_json(answer)}) + "\n")
