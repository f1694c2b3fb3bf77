"""Mistakes that people make in a suite of their own: one table, for the messages and the schemas.

Each changes one thing in the suite that `rig new-suite` writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from probes.newsuite import EXAMPLE

PROBES = "probes.yaml"
GRID = "grid.yaml"
ROLES = "roles.yaml"
SUITE = "suite.yaml"
SHARED = "conversations/shared.yaml"
ORDER = "conversations/order.yaml"
CARE = "conversations/care.yaml"


EXAMPLE_GRID = (Path(str(resources.files("probes"))) / "suites" / EXAMPLE / GRID).read_text(
    encoding="utf-8")
DIRECTIVE = """    directive: >-
      Never start while the user may have more to say: stay silent through gaps of several
      seconds. When they check that you are there, give one short sound such as mm-hm, under a
      second, and nothing else.
"""


@dataclass(frozen=True)
class Mistake:
    """`old` becomes `new` once in `file`; the message must begin with the file and the line on
    which `at` stands after the change, and hold all `words`.

    `shape`: the file is wrong by itself, so its JSON Schema must refuse it; otherwise it is one
    that only the other files, the whole or the prose gates show, and the schema accepts it.
    `None`: it is not YAML that a schema could look at.
    """

    what: str
    file: str
    old: str
    new: str
    at: str
    words: tuple[str, ...]
    shape: bool | None
    at_n: int = 1
    """Which of the lines that hold `at`."""

    def make(self, suite: Path) -> int:
        """Change the file; returns the number of the line that the message must name."""
        path = suite / self.file
        text = path.read_text(encoding="utf-8")
        assert self.old in text, self.what
        text = text.replace(self.old, self.new, 1)
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        lines = [i for i, line in enumerate(text.splitlines(), start=1) if self.at in line]
        assert len(lines) >= self.at_n, self.what
        return lines[self.at_n - 1]


MISTAKES = (
    # --- not readable as YAML of ours ---
    Mistake("empty file", GRID, EXAMPLE_GRID, "# nothing\n", "#",
            ("expected a YAML mapping", "an empty file"), None),
    Mistake("tab as indentation", SUITE, "  roles: [ORDER", "\troles: [ORDER", "\troles",
            ("expected valid YAML", "spaces instead of a tab"), None),
    Mistake("anchor and alias", GRID, "params: {max_wait_s: 1.5}}",
            "params: {max_wait_s: 1.5}}\n  - *first", "*first", ("aliases are not allowed",), None),
    Mistake("merge key", ROLES, "    name: order taker", "    <<: {name: order taker}", "<<:",
            ("expected a word as key", "'<<'"), None),
    Mistake("tag", SUITE, "instances: 2", "instances: !!python/name:os.system 2", "!!python",
            ("expected text, a number",), None),
    Mistake("bytes that are no UTF-8", CARE, "Edith", "\udcff\udcfeith", "\udcff",
            ("expected UTF-8 text", "byte 0xff"), None),
    Mistake("control character", CARE, "Edith", "\x07dith", "\x07dith",
            ("expected printable text", "U+0007"), None),
    Mistake("key twice", ROLES, "    name: order taker", "    name: a\n    name: b", "name: b",
            ("expected key 'name' once", "first on line"), None),
    Mistake("bracket not closed", SUITE, "levels: [L1, L2]", "levels: [L1, L2", "l0_instances: [",
            ("expected valid YAML",), None),
    Mistake("two documents", SUITE, "\nl0_instances", "\n---\nl0_instances", "---",
            ("expected valid YAML",), None),
    # --- suite.yaml ---
    Mistake("unknown key", SUITE, "\ninstances: 2", "\ninstnces: 2", "instnces",
            ("unknown key 'instnces'", "did you mean 'instances'?"), True),
    Mistake("text for a number", SUITE, "\ninstances: 2", "\ninstances: two", "instances: two",
            ("instances: expected a valid integer", "got 'two'"), True),
    Mistake("no instance", SUITE, "\ninstances: 2", "\ninstances: 0", "instances: 0",
            ("greater than or equal to 1", "got 0"), True),
    Mistake("number for a text", SUITE, "version: 1.0.0", "version: 1.0", "version: 1.0",
            ("version: expected a valid string", "got 1.0", "quote the text"), True),
    Mistake("unknown level", SUITE, "levels: [L1, L2]", "levels: [L1, L4c]", "levels: [L1",
            ("levels[1]", "got 'L4c'", "did you mean 'L4"), True),
    Mistake("level twice", SUITE, "levels: [L1, L2]", "levels: [L1, L1]", "levels: [L1",
            ("levels", "each item once", "'L1' again"), True),
    Mistake("level without its file", SUITE, "levels: [L1, L2]", "levels: [L1, L4a]",
            "levels: [L1", ("level L4a needs contradictions.yaml",), False),
    Mistake("name with capitals", SUITE, "\nname: ", "\nname: Order-Line #", "name: Order",
            ("name: expected a suite name of lower-case letters", "got 'Order-Line'"), True),
    Mistake("another schema version", SUITE, "schema_version: 1", "schema_version: 2",
            "schema_version", ("schema_version: expected 1, got 2",), True),
    Mistake("three ends of a range", SUITE, "turn1_target_s: [5.0, 8.0]",
            "turn1_target_s: [5.0, 6.0, 8.0]", "turn1_target_s",
            ("turn1_target_s: expected at most 2 items", "got [5.0, 6.0, 8.0]"), True),
    Mistake("one end of a range", SUITE, "turn1_target_s: [5.0, 8.0]", "turn1_target_s: [5.0]",
            "turn1_target_s", ("expected item 2 in turn1_target_s",), True),
    Mistake("range reversed", SUITE, "turn1_target_s: [5.0, 8.0]", "turn1_target_s: [8.0, 5.0]",
            "turn1_target_s", ("[low, high] with low <= high", "got [8, 5]"), False),
    Mistake("matched role unknown", SUITE, "  roles: [ORDER, CARE]", "  roles: [ORDER, CRAE]",
            "  roles: [", ("unknown role 'CRAE'", "did you mean 'CARE'?"), False),
    Mistake("matched probe of one role", SUITE, "  probes: [PAUSE]", "  probes: [CHECK]",
            "  probes: [", ("no probe 'CHECK' that all roles share",), False),
    Mistake("matched instance beyond the last", SUITE, "  instances: [1, 2]",
            "  instances: [1, 3]", "  instances: [1, 3]",
            ("expected an instance from 1 to 2, got 3",), False),
    # --- roles.yaml ---
    Mistake("role id in lower case", ROLES, "id: ORDER", "id: order", "id: order",
            ("roles[0].id: expected a role id", "upper-case", "got 'order'"), True),
    Mistake("role id that is reserved", ROLES, "id: ORDER", "id: S", "id: S",
            ("expected a role id", "not S alone"), True),
    Mistake("role twice", ROLES, "id: CARE", "id: ORDER", "id: ORDER",
            ("role ORDER is defined twice",), False, at_n=2),
    Mistake("key misspelt that is needed", ROLES, "    directive: >-\n      Never",
            "    domein: >-\n      Never", "domein",
            ("unknown key 'domein'", "did you mean 'domain'?"), True),
    Mistake("prompt missing", ROLES, DIRECTIVE, "", "id: CARE",
            ("role CARE: expected a directive, which level L1 of suite.yaml plays",), False),
    Mistake("one word for a list", ROLES, "job_words: [order taker, operator, receptionist]",
            "job_words: operator", "job_words: operator",
            ("job_words: expected a list, got 'operator'",), True),
    Mistake("list for a mapping", PROBES, "delivery: {mode: take_turn}", "delivery: [take_turn]",
            "delivery: [", ("probes[0].delivery: expected a mapping",), True),
    Mistake("command in a persona", ROLES, "You pick up the phone", "Wait and pick up the phone",
            "persona: >-", ("persona_imperative", "'Wait'"), False),
    # --- probes.yaml ---
    Mistake("silence without a length", PROBES, "kind: silence, duration_s: 2.5", "kind: silence",
            "name: pause, kind: silence}", ("expected key 'duration_s' where kind is silence",),
            True),
    Mistake("speech with an exact length", PROBES, "kind: speech, target_s: [3.0, 5.0]}",
            "kind: speech, target_s: [3.0, 5.0], duration_s: 4.0}", "duration_s: 4.0",
            ("no place for 'duration_s' where kind is speech",), True),
    Mistake("negative silence", PROBES, "duration_s: 2.5", "duration_s: -2.5", "-2.5",
            ("duration_s: expected greater than 0, got -2.5",), True),
    Mistake("pause without a resumption", PROBES,
            "      - {name: resumption, kind: speech, target_s: [3.0, 5.0]}\n", "",
            "name: pause, kind: silence", ("silence pause must stand between two speech",), False),
    Mistake("segment twice", PROBES, "{name: digits,", "{name: items,", "{name: items,",
            ("segments[2].name: segment 'items' is defined twice",), False, at_n=2),
    Mistake("window of a segment that is not there", PROBES, "TAKE_TURN: {start: pause.start",
            "TAKE_TURN: {start: pauze.start", "pauze",
            ("scoring.TAKE_TURN.start", "names no segment", "did you mean 'pause'?"), False),
    Mistake("edge of no kind", PROBES, "TAKE_TURN: {start: pause.start",
            "TAKE_TURN: {start: pause.begin", "pause.begin",
            ("expected a window edge like", "got 'pause.begin'"), True),
    Mistake("window reversed", PROBES, "LISTEN: {start: pause.start, end: pause.end}",
            "LISTEN: {start: pause.end, end: pause.start}", "start: pause.end",
            ("scoring.LISTEN: expected a start before its end",), False),
    Mistake("action unknown in a probe", PROBES, "      YIELD: {", "      YEILD: {", "YEILD",
            ("scoring.YEILD", "did you mean 'YIELD'?"), True),
    Mistake("barge-in without its delay", PROBES, "{mode: barge_in, barge_in_after_s: 3.0}",
            "{mode: barge_in}", "{mode: barge_in}",
            ("expected key 'barge_in_after_s' where mode is barge_in",), True),
    Mistake("read-back without a beginning", PROBES, ", readback_from: turn2.start", "",
            "READBACK: {", ("expected key 'readback_from'",), False),
    Mistake("target from no segment", PROBES, "target_from: [items, digits]",
            "target_from: [items, digit]", "target_from: [", ("'digit' is no speech segment",
                                                            "did you mean 'digits'?"), False),
    Mistake("id and label differ", PROBES, "  - id: BARGE", "  - id: CUT_IN", "CUT_IN",
            ("id must begin with BARGE, got CUT_IN",), False),
    Mistake("probe of an unknown role", PROBES, "    role: CARE", "    role: CART", "  - id: CARE_",
            ("id must begin with CART_CHECK",), False),
    Mistake("segment with a name that is taken", PROBES, "{name: barge_in,", "{name: turn2,",
            "name: turn2", ("'turn2' is a name that the construction gives itself",), False),
    Mistake("no window at all", PROBES, "    scoring:\n      YIELD: {start: turn2.start, end: "
            "turn2.start + 3.0}", "    scoring: {}", "scoring: {}", ("expected at least 1 item",),
            True),
    # --- grid.yaml ---
    Mistake("action unknown", GRID, "action: YIELD", "action: YEILD", "YEILD",
            ("cells[2].action", "got 'YEILD'", "did you mean 'YIELD'?"), True),
    Mistake("action without a window", GRID, "action: YIELD, params: {max_latency_ms: 600}",
            "action: CONTINUE", "CONTINUE}", ("probe BARGE has no window for CONTINUE",), False),
    Mistake("parameter out of range", GRID, "max_wait_s: 1.5", "max_wait_s: 600", "600}}",
            ("params.max_wait_s: expected less than or equal to 60, got 600",), True),
    Mistake("parameter below zero", GRID, "max_latency_ms: 600", "max_latency_ms: -1", "-1",
            ("params.max_latency_ms: expected greater than 0, got -1",), True),
    Mistake("parameter as text", GRID, "max_latency_ms: 600", "max_latency_ms: '600'", "'600'",
            ("params.max_latency_ms: expected a valid number, got '600'",), True),
    Mistake("parameter that nothing reads", GRID, "action: READBACK}",
            "action: READBACK, params: {max_wait_s: 1.0}}", "max_wait_s: 1.0",
            ("no place for 'max_wait_s' where action is READBACK; it reads min_coverage",), True),
    Mistake("parameter misspelt", GRID, "max_latency_ms: 600", "max_latency_s: 0.6",
            "max_latency_s: 0.6", ("unknown key 'max_latency_s'", "did you mean 'max_latency_ms'?"),
            True),
    Mistake("unknown role", GRID, "{role: CARE, probe: CHECK", "{role: CARR, probe: CHECK", "CARR",
            ("unknown role 'CARR'; did you mean 'CARE'?",), False),
    Mistake("unknown probe", GRID, "probe: NUMBER", "probe: NUMBR", "NUMBR",
            ("no probe structure NUMBR for ORDER", "did you mean"), False),
    Mistake("probe of another role", GRID, "{role: CARE, probe: CHECK",
            "{role: ORDER, probe: CHECK", "probe: CHECK",
            ("no probe structure CHECK for ORDER",), False),
    Mistake("cell twice", GRID, "{role: CARE, probe: CHECK, action: BACKCHANNEL}",
            "{role: CARE, probe: PAUSE, action: TAKE_TURN}", "PAUSE, action: TAKE_TURN}",
            ("cell CARE/PAUSE is defined twice",), False),
    Mistake("safety cell without its text", GRID, "action: BACKCHANNEL}",
            "action: BACKCHANNEL, safety: true}", "safety: true}",
            ("cell CARE/CHECK has no L4b text",), False),
    Mistake("contradiction that is not there", GRID, "action: BACKCHANNEL}",
            "action: BACKCHANNEL, contradiction: hush}", "hush",
            ("unknown contradiction 'hush'",), False),
    # --- conversations ---
    Mistake("conversation of no cell", ORDER, "id: ORDER-BARGE-2", "id: ORDER-BARGE-3",
            "ORDER-BARGE-3", ("no cell uses conversation ORDER-BARGE-3", "did you mean"), False),
    Mistake("conversation that is shared", SHARED, "id: S-PAUSE-1", "id: CARE-PAUSE-1",
            "CARE-PAUSE-1", ("its text is shared: write S-PAUSE-1",), False),
    Mistake("conversation twice", ORDER, "id: ORDER-BARGE-2", "id: ORDER-NUMBER-1",
            "id: ORDER-NUMBER-1", ("conversation ORDER-NUMBER-1 again; first at",), False, at_n=2),
    Mistake("id of no kind", ORDER, "id: ORDER-BARGE-2", "id: order_barge_2", "order_barge_2",
            ("expected a conversation id ROLE-PROBE-INSTANCE", "got 'order_barge_2'"), True),
    Mistake("segment that the probe has not", SHARED, "      resumption: the dumplings",
            "      resumtion: the dumplings", "resumtion",
            ("probe PAUSE has no speech segment 'resumtion'", "did you mean 'resumption'?"), False),
    Mistake("segment missing", SHARED,
            "      resumption: the dumplings, she says, the ones with mushrooms, and some rice.\n",
            "", "turn2:", ("pause_without_resumption", "expected spoken words, got none"), False),
    Mistake("resumption missing after a check", CARE,
            "      resumption: and on Tuesday my sister is staying, so two lunches that day, "
            "please.\n", "", "turn2:", ("check_turn_ends_at_pause",), False),
    Mistake("turn 1 missing", CARE, "    turn1: >-\n      Good day, this is Walter on Linden "
            "Street. Something was not right with my lunch yesterday.\n", "", "id: CARE-CHECK-2",
            ("expected key 'turn1' in conversations[1], got none",), True),
    Mistake("yes without quotes", CARE, "check: are you there, dear?", "check: yes", "check: yes",
            ("turn2.check: expected a valid string, got True (quote the text)",), True),
    Mistake("text too long", SHARED, "resumption: the dumplings", f"resumption: {'the ' * 151}the",
            "resumption: the the", ("turn2.resumption", "at most 600 characters"), True),
    Mistake("target missing", ORDER,
            "    target: two beef noodles one spring roll five five five zero one four two\n", "",
            "id: ORDER-NUMBER-1", ("target_missing",), False),
    Mistake("target that is not spoken", ORDER, "target: two beef noodles",
            "target: four beef noodles", "target: four", ("target_not_spoken", "'4'"), False),
    Mistake("target where none is wanted", CARE, "if that's no trouble.",
            "if that's no trouble.\n    target: mashed", "target: mashed",
            ("probe CARE_CHECK_still_there has no read-back target",), False),
    Mistake("digits", CARE, "until one,", "until 1 p.m.,", "until 1", ("not_spoken_form", "'1'"),
            False),
    Mistake("talk of turn-taking", CARE, "On Monday I'm", "Hold on, on Monday I'm", "Hold on",
            ("turn_taking_mentioned", "'Hold on'"), False),
    Mistake("the job named", CARE, "so the driver", "so your meal service", "meal service",
            ("assistant_mentioned", "'meal service'"), False),
    Mistake("text far too short", CARE, "lead: On Monday I'm at the doctor until one, so the "
            "driver shouldn't come before that,", "lead: On Monday,", "lead: On Monday,",
            ("duration_off_target", "allowed 2.0 to 9.0 s"), False),
)

# --- every key, changed ----------------------------------------------------------------------

ODD: tuple[Any, ...] = (None, "", "x", -1, 0, 7, 0.5, 1e9, True, [], ["x"], {}, {"x": 1})


def changed(data: Any) -> Iterator[tuple[str, Any]]:
    """The data with one value replaced, one key added or one taken away, at every place."""
    for path in places(data):
        for odd in ODD:
            other = twin(data)
            holder = at(other, path[:-1])
            holder[path[-1]] = odd
            yield f"{path} = {odd!r}", other
        other = twin(data)
        del at(other, path[:-1])[path[-1]]
        yield f"{path} gone", other
        if isinstance(at(data, path), dict):
            other = twin(data)
            at(other, path)["surplus"] = 1
            yield f"{path} and one more", other


def twin(data: Any) -> Any:
    if isinstance(data, dict):
        return {k: twin(v) for k, v in data.items()}
    return [twin(v) for v in data] if isinstance(data, list) else data


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    keys = data if isinstance(data, dict) else range(min(len(data), 2)) if isinstance(
        data, list) else ()
    for key in keys:
        yield (*path, key)
        yield from places(data[key], (*path, key))


def at(data: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        data = data[key]
    return data
