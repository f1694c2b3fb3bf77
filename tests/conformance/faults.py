"""Every fault that an adapter must stand, and how one says which scenario of its server is which.

To register an adapter, write `tests/conformance/faults_NAME.py` with one constant, and nothing else
has to be touched:

    SUBJECT = Subject(
        adapter="my_adapter", key_variable="MY_API_KEY", settings={"ready_timeout_s": "2"},
        server=MyServer, calm=MyScenario(),
        faults={
            "burst": Plays(MyScenario(pace_s=0.0)),
            "wrong_key": Plays(MyScenario(http=(401, {}, "no")), sees=r"HTTP 401"),
            "go_away": NotApplicable("the protocol has no such message"),
            "session_cap": Plays(MyScenario(...), sees=r"..."),
            "session_cap/60_min": Plays(MyScenario(...), sees=r"..."),   # a further form of it
            ...
        })

- Each name of `FAULTS` has an entry, or `NotApplicable` with a reason: a gap is a failure
  (`test_fault_list.py`). `name/form` is another form of the same fault. Faults that only this
  protocol knows are declared in `own` and played in `faults` like the others.
- `server({name: scenario, ...})` makes the loopback server: `running()` is an asynchronous context,
  `url_of(name)` the address at which a scenario is found, `peer_log(name)` what was sent when, by
  the server's own clock (`PeerLog`; `RealtimeServer` keeps one, and servers that derive from it).
  `address(url, name)` says which settings of the adapter lead there (default: `base_url` and
  `model`).
- What the user says is speech, so the server must answer with speech: `live_server.reply_pcm(k, s)`
  is the k-th reply, s seconds long. It is compared after the session, by the real scoring: a reply
  to each of two turns, `REPLIES_S` long, within 0.6 s of the end of the turn, and no word of the
  model while the user speaks. Its words are `replyK is this one` for the k-th reply.
- `sees` is a regular expression: of infrastructure faults it must be found in the reason that `rig
  run` writes into the ledger, of the others in the session's event log. `same` says how the tracks
  of transparent faults are compared, beyond the verdict: by `responses`, where the protocol has
  ids for them, by the `speech` in a stream, or by its `sound` behind a codec with losses.
  `http_429_retry_after` asks for 7 s.
- `barge_in` is a session with a first reply of 6 s, in which the server says that turn 2 interrupts
  it (its moments are in `PeerLog.interruptions`), or `NotApplicable`.

`make faults` plays everything and writes docs/faults.md. The default tests play those that are
`quick`; `-m slow` the rest.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from adapters.local_models import MODELS
from rig.schedule import Bounds

Group = Literal["transparent", "infrastructure", "behaviour"]
When = Literal["connect", "handshake", "mid-turn", "after done", "throughout"]

AT_ONCE = 8
REPLIES_S = (1.0, 0.8)
"""Length of the replies of an undisturbed session."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of trouble. `expected` is what its group makes of it, in a word or two.

    Behaviour alone: `flags` that the record must carry, and the outcome of each action, where
    `calm` is that of the undisturbed session and an action that is not named may end in any.
    """

    name: str
    group: Group
    when: When
    expected: str
    meaning: str
    flags: tuple[str, ...] = ()
    outcomes: tuple[tuple[str, str], ...] = ()
    quick: bool = False


def _same(name: str, meaning: str, *, quick: bool = False) -> Fault:
    return Fault(name, "transparent", "throughout", "same verdict", meaning, quick=quick)


def _infra(name: str, when: When, meaning: str, *, quick: bool = False) -> Fault:
    return Fault(name, "infrastructure", when, "infra_error", meaning, quick=quick)


_CALM = (("TAKE_TURN", "calm"), ("LISTEN", "calm"), ("READBACK", "calm"))

CLOSES = {1000: "a regular end", 1006: "no close frame at all", 1008: "policy",
          1011: "an error inside the server", 1013: "overloaded, try again later"}
MOMENTS: dict[str, When] = {"handshake": "handshake", "mid_turn": "mid-turn",
                            "after_done": "after done"}
_QUICK_CLOSES = {(1013, "handshake"), (1006, "mid_turn"), (1000, "after_done")}

_ALL = (
    _infra("refused", "connect", "nobody listens at the address", quick=True),
    _infra("mute", "connect", "the connection is taken and nothing is ever said"),
    _infra("not_http", "connect", "another protocol answers"),
    _infra("wrong_key", "handshake", "the key is refused; the server repeats it in its answer",
           quick=True),
    _infra("http_429", "handshake", "429 without Retry-After"),
    _infra("http_429_retry_after", "handshake", "429 with Retry-After, which is handed on",
           quick=True),
    _infra("never_ready", "handshake", "connected, but the session is never confirmed"),
    *(_infra(f"close_{code}_{moment}", when, f"the connection ends with {code}: {what}",
             quick=(code, moment) in _QUICK_CLOSES)
      for moment, when in MOMENTS.items() for code, what in CLOSES.items()),
    _infra("session_cap", "mid-turn", "the session's time is over", quick=True),
    _infra("go_away", "mid-turn", "the server announces that it will leave, and leaves"),
    _infra("failed", "after done", "a reply ends as failed"),
    _infra("error_event", "mid-turn", "the server reports an error of its own"),
    _infra("bad_base64", "mid-turn", "audio that cannot be decoded: what was said is lost",
           quick=True),
    _infra("wrong_rate", "handshake", "the server declares another sample rate than agreed",
           quick=True),
    _infra("ping_stall", "mid-turn", "the peer reads and says nothing any more, pongs included",
           quick=True),
    _same("burst", "a reply comes faster than it is heard", quick=True),
    _same("trickle", "a reply comes in pieces of 10 or 20 ms", quick=True),
    _same("empty", "pieces of audio that hold nothing"),
    _same("odd", "pieces that end in the middle of a sample", quick=True),
    _same("unknown_events", "events that nobody knows", quick=True),
    _same("duplicate_events", "every event comes twice", quick=True),
    _same("unreadable", "messages that are no events"),
    _same("late_deltas", "the last audio of a reply comes after its end was announced"),
    _same("late_transcript", "the words come after the audio", quick=True),
    Fault("incomplete", "behaviour", "after done", "scored as heard", "a reply ends as incomplete",
          flags=("response_incomplete",), outcomes=_CALM),
    Fault("missing_done", "behaviour", "after done", "scored, overrun",
          "the end of a reply is never announced", flags=("turn1_overrun",), outcomes=_CALM),
    Fault("never_speaks", "behaviour", "throughout", "scored, no reply", "nothing is ever said",
          flags=("turn1_no_reply", "turn2_no_reply"), quick=True,
          outcomes=(("TAKE_TURN", "fail"), ("LISTEN", "pass"), ("READBACK", "fail"))),
    Fault("never_stops", "behaviour", "throughout", "scored, overrun", "a reply without an end",
          flags=("turn1_overrun", "turn2_overrun"),
          outcomes=(("TAKE_TURN", "fail"), ("LISTEN", "fail"))),
    Fault("near_zero", "behaviour", "throughout", "scored, near_silent",
          "the reply is there, 60 dB too quiet", flags=("near_silent",), quick=True,
          outcomes=(("TAKE_TURN", "fail"), ("LISTEN", "pass"), ("READBACK", "fail"))),
    Fault("no_transcript", "behaviour", "throughout", "scored but for words",
          "the words are never sent",
          outcomes=(("TAKE_TURN", "calm"), ("LISTEN", "calm"), ("READBACK", "unscored"))),
)
FAULTS: dict[str, Fault] = {fault.name: fault for fault in _ALL}
"""Every fault by name, in the order of the table."""


@dataclass(frozen=True, slots=True)
class Plays:
    """How a server plays a fault: the scenario that it is given under the fault's name.

    `at`: where the adapter is sent instead, when no server of the protocol is needed. `later_s`:
    how much later than in the undisturbed session a reply is heard by construction (a stream in
    longer pieces).
    """

    scenario: Any = None
    sees: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    bounds: Bounds | None = None
    at: Literal["server", "refused", "mute", "not_http"] = "server"
    later_s: float = 0.0
    hopeless: bool | None = None
    """Infrastructure: whether the run must know that another try can only end alike."""


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """The protocol cannot have this fault, for this reason (one line)."""

    reason: str


@dataclass(slots=True)
class PeerLog:
    """What a server did in one session, by `time.perf_counter_ns` of this machine."""

    audio: list[tuple[int, int]] = field(default_factory=list)
    """Moment just before a piece of audio was sent, and its samples."""
    interruptions: list[int] = field(default_factory=list)
    """Moments just before it said that the user interrupts."""
    onsets_ns: list[int] = field(default_factory=list)
    """Instead, of a peer that has a clock of its own: when its replies began, from the first sound
    of the user that it heard."""


class Server(Protocol):
    """A loopback server of one protocol; made from scenarios by name."""

    def running(self) -> AbstractAsyncContextManager[Any]: ...

    def url_of(self, name: str) -> str: ...

    async def met(self, name: str) -> Any | None:
        """The server's side of the last session of a scenario, once that is over."""
        ...

    def peer_log(self, name: str) -> PeerLog | None:
        """Of the last session of a scenario; `None` where it keeps none."""
        ...


def base_url_and_model(url: str, name: str) -> dict[str, str]:
    """Settings of an adapter of a hosted system: the scenario is its model."""
    return {"base_url": url, "model": name}


@dataclass(frozen=True, slots=True)
class Subject:
    """An adapter, its loopback server, and which scenario is which fault."""

    adapter: str
    key_variable: str | None
    settings: Mapping[str, str]
    server: Callable[[dict[str, Any]], Server]
    calm: Any
    faults: Mapping[str, Plays | NotApplicable]
    barge_in: Plays | NotApplicable
    """A session in which turn 2 interrupts a long reply and the server says so (or why none)."""
    own: tuple[Fault, ...] = ()
    address: Callable[[str, str], dict[str, str]] = base_url_and_model
    bounds: Bounds = field(default_factory=lambda: Bounds(
        turn1_reply_s=3.0, settle_s=0.1, tail_s=0.1, turn2_reply_s=1.5, trailing_s=0.2,
        onset_s=1.0, after_window_s=0.35))
    same: Literal["responses", "speech", "sound"] = "responses"
    words: bool = True
    """Whether the system gives its words: READBACK of one that does not is unscored."""
    jitter_ms: float = 0.0
    """How much later than it came its audio is heard, where packets are placed by their sender's
    clock."""
    needs: str | None = None
    """A package that must be installed to play it; then its tests are marked `peer`."""
    at_once: int = AT_ONCE
    """Sessions side by side."""
    piece_s: float = 0.0
    """Length of the pieces that a stream comes in: its sounds are heard on that grid."""

    @property
    def missing(self) -> str | None:
        """Why it cannot be played here, in one line."""
        if self.needs is None or importlib.util.find_spec(self.needs) is not None:
            return None
        return f"{self.adapter}: the package {self.needs} is not installed: make install-parity"

    def fault(self, name: str) -> Fault:
        """The fault that an entry of `faults` is, form or not."""
        own = {fault.name: fault for fault in self.own}
        base = name.partition("/")[0]
        return own[base] if base in own else FAULTS[base]

    @property
    def played(self) -> dict[str, Plays]:
        """What is played, by name, in the order of the table."""
        rank = {name: k for k, name in enumerate((*FAULTS, *(f.name for f in self.own)))}
        return {name: play for name, play in sorted(
            self.faults.items(), key=lambda item: rank.get(item[0].partition("/")[0], len(rank)))
            if isinstance(play, Plays)}

    def problems(self) -> list[str]:
        """What is missing or unknown, one line each; empty when the registration is whole."""
        known = {**FAULTS, **{fault.name: fault for fault in self.own}}
        given = {name.partition("/")[0] for name in self.faults}
        out = [f"{self.adapter}: {name}: no scenario, and no reason why not"
               for name in known if name not in self.faults]
        out += [f"{self.adapter}: {name}: no such fault" for name in sorted(given - set(known))]
        out += [f"{self.adapter}: {name}: a reason in one line is missing"
                for name, play in self.faults.items() if isinstance(play, NotApplicable)
                and (len(play.reason) < 10 or "\n" in play.reason)]
        return out + [f"{self.adapter}: {name}: `sees` says nothing of the cause"
                      for name, play in self.played.items()
                      if name.partition("/")[0] in known and not play.sees
                      and self.fault(name).group == "infrastructure"]


def subjects() -> dict[str, Subject]:
    """Every registered adapter by name: the `SUBJECT` of each `faults_*.py` of this folder."""
    found = [importlib.import_module(path.stem).SUBJECT
             for path in sorted(Path(__file__).parent.glob("faults_*.py"))]
    return {subject.adapter: subject for subject in found}


UNREGISTERED: dict[str, str] = {
    **dict.fromkeys(("silent", "monologue", "echo", "metronome", "long_endpoint", "eager", "random",
                     "oracle", "inverse"), "simulated: there is no connection"),
    "cascade": "openai_realtime's wire against a server of ours; test_cascade_server.py",
    "peer": "the known peer of the self-test; its faults are in test_peer.py",
    **dict.fromkeys((*MODELS, "worker"),
                    "a process on a pipe; its faults are in test_worker_session.py"),
}
"""Adapters without a subject, and why. Every other adapter of the registry has one."""
