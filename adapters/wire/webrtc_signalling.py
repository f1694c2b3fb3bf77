"""SmallWebRTC signalling, without I/O: the offer, candidates that follow it, and the answer.

Source: pipecat-ai 1.14.0, `transports/smallwebrtc/request_handler.py`. The client POSTs
`{"sdp", "type": "offer"}` and gets `{"sdp", "type": "answer", "pc_id"}`; further candidates go out
by PATCH as `{"pc_id", "candidates": [{"candidate", "sdp_mid", "sdp_mline_index"}]}`.

What an answer says is checked before the WebRTC library reads it: size, an audio section that goes
both ways with Opus in it, candidates that are addresses and not names.
"""

from __future__ import annotations

import ipaddress
import json
import re
from dataclasses import dataclass, field
from typing import Any

from adapters.wire.http_exchange import Answer
from adapters.wire.payload import PayloadError, excerpt, identifier, parse_object

MAX_ANSWER_BYTES = 256 * 1024
"""Of an HTTP answer. Ours: real ones have some 3 kB."""
MAX_LINES = 2_000
MAX_CANDIDATES = 40
"""Addresses that are tried; what is beyond is left out. Ours: a machine has some five."""
MAX_SECTIONS = 8
OPUS = "opus/48000/2"
"""Whatever its sender was given (RFC 7587, section 7)."""

_HINTS = {
    400: "bad request", 401: "the key was refused", 403: "the key may not do this",
    404: "wrong address: the path is often /api/offer", 405: "wrong address: it takes no offers",
    422: "it takes no such offer", 429: "too many sessions", 503: "the agent is overloaded",
}
HOPELESS = frozenset({400, 401, 403, 404, 405, 422})
"""Answers about the key, the address or the offer: the next try would get the same. Ours."""


@dataclass(frozen=True, slots=True)
class SdpAnswer:
    """An answer that may be tried. `notes`: what was left out of it, for the log."""

    sdp: str
    pc_id: str | None
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Section:
    """One `m=` section: its first line and its attributes."""

    media: str
    attributes: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return self.media.partition(" ")[0]

    @property
    def rejected(self) -> bool:
        return self.media.split(" ")[1:2] == ["0"] and "a=bundle-only" not in self.attributes


def offer(sdp: str, *, request_data: dict[str, Any] | None = None) -> bytes:
    """The body of the POST."""
    body: dict[str, Any] = {"sdp": sdp, "type": "offer"}
    if request_data:
        body["requestData"] = request_data
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def without_candidates(sdp: str) -> tuple[str, list[dict[str, Any]]]:
    """An offer that its candidates follow later, and these as a PATCH takes them."""
    kept: list[str] = []
    candidates: list[dict[str, Any]] = []
    index, mids = -1, re.findall(r"^a=mid:(\S+)", sdp, re.MULTILINE)
    for line in sdp.splitlines():
        if line.startswith("m="):
            index += 1
        if line.startswith("a=candidate:"):
            candidates.append({"candidate": line.removeprefix("a="),
                               "sdp_mid": mids[index] if index < len(mids) else str(index),
                               "sdp_mline_index": index})
        elif line != "a=end-of-candidates":
            kept.append(line)
    return "\r\n".join(kept) + "\r\n", candidates


def patch(pc_id: str, candidates: list[dict[str, Any]]) -> bytes:
    """The body of the PATCH."""
    return json.dumps({"pc_id": pc_id, "candidates": candidates}, separators=(",", ":")).encode()


def refusal(answer: Answer) -> str | None:
    """What an HTTP answer other than success says, in one line; `None` for success."""
    if answer.status in (200, 201):
        return None
    parts = [f"the agent answered HTTP {answer.status}"]
    if answer.status in _HINTS:
        parts.append(_HINTS[answer.status])
    if answer.retry_after_s is not None:
        parts.append(f"retry after {answer.retry_after_s:g} s")
    if answer.body:
        parts.append(excerpt(answer.body[:4096].decode("utf-8", "replace"), 300))
    return "; ".join(parts)


def read_answer(body: bytes) -> SdpAnswer:
    """The answer in the body of a response. Raises `PayloadError` for one that cannot be used."""
    value = parse_object(body)
    if value.get("type") != "answer":
        raise PayloadError(f"expected type answer, got {excerpt(value.get('type') or 'none', 40)}")
    sdp = value.get("sdp")
    if not isinstance(sdp, str) or not sdp.strip():
        raise PayloadError("expected an sdp, got none")
    lines = sdp.replace("\r\n", "\n").split("\n")
    if len(lines) > MAX_LINES:
        raise PayloadError(f"expected an sdp of at most {MAX_LINES} lines, got {len(lines)}")
    if not lines[0].startswith("v=0") or not sdp.isascii():
        raise PayloadError(f"expected an sdp (v=0), got {excerpt(sdp, 40)!r}")
    kept, notes = _usable(lines)
    _check_audio(_sections(kept))
    return SdpAnswer("\r\n".join(kept) + "\r\n", identifier(value, "pc_id"), notes)


def _usable(lines: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """The lines without candidates that are not to be tried, and a note of how many."""
    kept: list[str] = []
    tried = left_out = 0
    for line in filter(None, lines):
        if line.startswith("a=candidate:"):
            parts = line.split()
            if len(parts) < 8 or parts[2].lower() != "udp" or not _is_address(parts[4]) \
                    or tried >= MAX_CANDIDATES:
                left_out += 1
                continue
            tried += 1
        kept.append(line)
    if not left_out:
        return kept, ()
    return kept, (f"{left_out} candidates are left out: names, no UDP, or more than "
                  f"{MAX_CANDIDATES}",)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _sections(lines: list[str]) -> list[_Section]:
    sections: list[_Section] = []
    for line in lines:
        if line.startswith("m="):
            sections.append(_Section(line[2:]))
        elif sections:
            sections[-1].attributes.append(line)
    if len(sections) > MAX_SECTIONS:
        raise PayloadError(f"expected at most {MAX_SECTIONS} media sections, got {len(sections)}")
    return sections


def _check_audio(sections: list[_Section]) -> None:
    """Raises `PayloadError` unless audio goes both ways, in Opus."""
    audio = next((s for s in sections if s.kind == "audio"), None)
    if audio is None or audio.rejected:
        raise PayloadError("the answer has no audio: expected a section m=audio that is accepted")
    direction = next((a[2:] for a in audio.attributes
                      if a in ("a=sendonly", "a=recvonly", "a=inactive")), "sendrecv")
    if direction != "sendrecv":
        raise PayloadError({"sendonly": "the answer takes no audio (a=sendonly)",
                            "recvonly": "the answer sends no audio (a=recvonly)"}.get(
                                direction, "the answer has no audio (a=inactive)"))
    codecs = [m.group(1).lower() for a in audio.attributes
              if (m := re.match(r"a=rtpmap:\d+ (\S+)", a))]
    if OPUS not in codecs:
        raise PayloadError(f"expected {OPUS} among the codecs of the answer, got "
                           f"{excerpt(', '.join(codecs) or 'none', 80)}")
