"""Plant one bug after another in a package and see whether its tests notice.

    python tests/tools/mutate_verifiers.py                     all of verifiers/
    python tests/tools/mutate_verifiers.py --only comparison   comparisons alone
    python tests/tools/mutate_verifiers.py --package sweeps    the arrays' second copy of the rules

A mutant is one changed node of one module: a comparison operator (every other one of its group),
`and`/`or`, `not` removed, an integer in a comparison off by one, an arithmetic or set operator or
`min`/`max` swapped for its counterpart. The tests are collected once, and run once unchanged, which
tells for each of them which functions it reaches. For each mutant a forked process gets the changed
function's code and runs the tests that reach it, those named after the module first and the quick
ones before the slow, until one fails; then, unless it is known to be equivalent, the rest. A
change outside any function needs the module imported anew, so there the fork collects the tests
itself and runs all.
Mutants that no test can tell apart are listed in `EQUIVALENT` with the reason. Exit 1 when others
survive.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import importlib
import importlib.abc
import importlib.util
import json
import os
import resource
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

ROOT = Path(__file__).resolve().parents[2]
LEAST_CPU_S, TIMES_UNCHANGED = 3, 10
"""Some mutants never end by themselves. A test may use this multiple of its unchanged processor
time, which a busy machine hardly stretches."""
TESTS = {
    "verifiers": ("tests/unit/verifiers", "tests/golden/test_timelines.py"),
    "sweeps": ("tests/unit/sweeps",),
}
FIRST = {
    "listen": ("test_silence_verifiers",), "no_backchannel": ("test_silence_verifiers",),
    "take_turn": ("test_onset_verifiers",), "interrupt": ("test_onset_verifiers",),
    "onset": ("test_onset_verifiers",), "yield_floor": ("test_floor_verifiers",),
    "turns": ("test_turns",), "latency": ("test_turns",), "interruption": ("test_turns",),
    "turn_take": ("test_turns",), "talk_ratio": ("test_turns",), "percentiles": ("test_turns",),
    "continue_floor": ("test_floor_verifiers",), "accept_overlap": ("test_floor_verifiers",),
    "decide": ("test_decide", "test_floor_verifiers"),
    "talk": ("test_tau2_voice", "test_eva"), "fillers": ("test_substance",),
    "table": ("test_sweep", "test_threshold_grid"),
}

NO_NEGATIVE = "a count or a summed length is never negative"
NEVER_THE_TAIL = "a sum of rounded chances does not meet 0.025 to the last bit"
NEVER_BEHIND = "a place in the tokens, or the one after the last of them"
EQUIVALENT: dict[str, str] = {
    "verifiers.accept_overlap: reading.overlap_ns > 0 -> reading.overlap_ns != 0": NO_NEGATIVE,
    "verifiers.label: reading.spans_in_window > 0 -> reading.spans_in_window != 0": NO_NEGATIVE,
    "verifiers.label: reading.spans_begun > 0 -> reading.spans_begun != 0": NO_NEGATIVE,
    "verifiers.listen: count > 0 -> count != 0": NO_NEGATIVE,
    "verifiers.no_backchannel: count > 0 -> count != 0": NO_NEGATIVE,
    "verifiers.readback: found.matched_n > 0 -> found.matched_n != 0": NO_NEGATIVE,
    "verifiers.measurement: start >= offset -> start > offset":
        "spans never touch, so none starts where another ends",
    "sweeps.aggregate: self.n > 0 -> self.n != 0": NO_NEGATIVE,
    "sweeps.threshold_grid: t.overlap_ns > 0 -> t.overlap_ns != 0": NO_NEGATIVE,
    "sweeps.sweep: n > 0 -> n != 0": NO_NEGATIVE,
    "sweeps.effects: np.abs(table).sum(axis=(1, 2)).max() * self._most -> "
    "np.abs(table).sum(axis=(1, 2)).max() // self._most":
        "float32 is exact for far larger sums than either bound lets through",
    "sweeps.ranking: len(known) < len(tau) -> len(known) != len(tau)":
        "the known ones are among all",
    "sweeps.paired: mcnemar(least, 0) > ALPHA -> mcnemar(least, 0) >= ALPHA":
        "p is a multiple of a power of two, which 0.05 is not",
    "sweeps.intervals: below <= TAIL -> below < TAIL": NEVER_THE_TAIL,
    "sweeps.intervals: 1.0 - below <= TAIL -> 1.0 - below < TAIL": NEVER_THE_TAIL,
    "sweeps.paired: math.sqrt(n) * d >= wanted -> math.sqrt(n) * d > wanted":
        "60 halvings end at the same number but where it is met to the last bit",
    "verifiers.readback_text: at < len(pieces) -> at != len(pieces)":
        "no place is ever behind the end: each is the end or holds a piece",
    "verifiers.calls.entities: at < len(wanted) -> at != len(wanted)": NEVER_BEHIND,
    "verifiers.calls.entities: end < len(wanted) -> end != len(wanted)": NEVER_BEHIND,
    "verifiers.calls.entities: month < len(wanted) -> month != len(wanted)": NEVER_BEHIND,
    "verifiers.calls.entities: 0 <= beside < len(got) -> 0 <= beside != len(got)": NEVER_BEHIND,
    "verifiers.calls.entities: end > at + 1 -> end != at + 1":
        "the end of digits is never before the place where they were looked for",
    "verifiers.calls.entities: "
    "len(there) < entity.end - entity.start -> len(there) != entity.end - entity.start":
        "no more tokens are matched than there are",
    "verifiers.calls.substance: first < len(said) -> first != len(said)":
        "the fillers are among the words",
    "verifiers.calls.substance: first > 0 -> first != 0": NO_NEGATIVE,
}
"""`module: source -> mutation` to why no input can show the difference."""

ORDER = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
PAIRS = {ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In}
ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
              ast.Div: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
              ast.LShift: ast.RShift}


@dataclass(frozen=True, eq=False)
class Mutant:
    """One changed module. `key` names it without its line number.

    `function` is the outermost function around the change, `Class.method` for a method, and
    empty for code that runs at import.
    """

    module: str
    function: str
    line: int
    kind: str
    before: str
    after: str
    tree: ast.Module
    node: ast.AST
    changed: ast.AST

    @property
    def key(self) -> str:
        return f"{self.module}: {self.before} -> {self.after}"

    @cached_property
    def source(self) -> str:
        """The whole module, changed."""
        replace_node(self.tree, self.node, self.changed)
        try:
            return ast.unparse(ast.fix_missing_locations(self.tree))
        finally:
            replace_node(self.tree, self.changed, self.node)


def mutants(package: str) -> list[Mutant]:
    """All mutants of a package, in file order."""
    found = []
    for path in sorted((ROOT / package).rglob("*.py")):
        tree = ast.parse(path.read_text())
        owners = owner_of(tree)
        for node in ast.walk(tree):
            for kind, changed in changes(node):
                found.append(Mutant(
                    ".".join(path.relative_to(ROOT).with_suffix("").parts),
                    owners.get(id(node), ""),
                    getattr(node, "lineno", 0), kind,
                    ast.unparse(node), ast.unparse(changed), tree, node, changed))
    return sorted(found, key=lambda m: (m.module, m.line, m.before, m.after))


def owner_of(tree: ast.Module) -> dict[int, str]:
    """For every node inside a function's body, the outermost function that holds it."""
    owners: dict[int, str] = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                for statement in child.body:
                    for inner in ast.walk(statement):
                        owners[id(inner)] = prefix + child.name
            elif isinstance(child, ast.ClassDef):
                visit(child, f"{prefix}{child.name}.")
            else:
                visit(child, prefix)

    visit(tree, "")
    return owners


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Every replacement of one node."""
    if isinstance(node, ast.Compare):
        for place, op in enumerate(node.ops):
            if type(op) in ORDER:
                equality = isinstance(op, (ast.Eq, ast.NotEq))
                others = [o for o in ORDER if o is not type(op)] if not equality else [
                    ast.NotEq if isinstance(op, ast.Eq) else ast.Eq]
            else:
                others = [PAIRS[type(op)]]
            for other in others:
                changed = copy.deepcopy(node)
                changed.ops[place] = other()
                yield "comparison", changed
        for place, side in enumerate([node.left, *node.comparators]):
            if isinstance(side, ast.Constant) and type(side.value) is int:
                for step in (-1, 1):
                    changed = copy.deepcopy(node)
                    constant = ast.Constant(side.value + step)
                    if place == 0:
                        changed.left = constant
                    else:
                        changed.comparators[place - 1] = constant
                    yield "constant", changed
    elif isinstance(node, ast.BoolOp):
        changed = copy.deepcopy(node)
        changed.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "boolean", changed
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.Invert)):
        yield "boolean", copy.deepcopy(node.operand)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "arithmetic", copy.deepcopy(node.operand)
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC and not annotation(node):
        changed = copy.deepcopy(node)
        changed.op = ARITHMETIC[type(node.op)]()
        yield "arithmetic", changed
    elif (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
          and node.func.id in ("min", "max")):
        changed = copy.deepcopy(node)
        changed.func.id = {"min": "max", "max": "min"}[node.func.id]
        yield "arithmetic", changed


def annotation(node: ast.BinOp) -> bool:
    """`int | None` is a type, not arithmetic."""
    return isinstance(node.op, ast.BitOr) and any(
        isinstance(side, (ast.Constant, ast.Subscript))
        or (isinstance(side, ast.Name) and (side.id[0].isupper() or side.id in (
            "int", "float", "str", "bool")))
        or (isinstance(side, ast.BinOp) and annotation(side))
        for side in (node.left, node.right))


def replace_node(tree: ast.AST, target: ast.AST, changed: ast.AST) -> None:
    """Put `changed` where `target` stands in `tree`."""
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            if value is target:
                setattr(parent, name, changed)
                return
            if isinstance(value, list):
                for i, item in enumerate(value):
                    if item is target:
                        value[i] = changed
                        return
    raise AssertionError("node not found")


def patch(mutant: Mutant) -> None:
    """Give the live function the code of the changed one; everything that holds it follows."""
    wanted: list[CodeType] = []

    def collect(code: CodeType) -> None:
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                if constant.co_qualname == mutant.function:
                    wanted.append(constant)
                collect(constant)

    collect(compile(mutant.source, mutant.module, "exec"))
    live: object = sys.modules[mutant.module]
    for name in mutant.function.split("."):
        live = vars(live)[name]
    for attribute in ("fget", "__func__", "__wrapped__"):
        live = getattr(live, attribute, None) or live
    assert isinstance(live, FunctionType), mutant
    assert len(wanted) == 1, mutant
    live.__code__ = wanted[0]


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves one module from changed source."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(self, name, path, target=None):  # type: ignore[no-untyped-def]
        if name == self.mutant.module:
            return importlib.util.spec_from_loader(name, self)
        return None

    def exec_module(self, module) -> None:  # type: ignore[no-untyped-def]
        exec(compile(self.mutant.source, self.mutant.module, "exec"), module.__dict__)


@dataclass(frozen=True)
class Unchanged:
    """What a test does to the unchanged code."""

    cpu_s: float
    reaches: frozenset[str]
    """Functions of the package, `module:Class.method`; of nested ones the outermost."""


class Reached:
    """Which functions of a package are called, by tests and by the fixtures that tests share."""

    def __init__(self, package: str) -> None:
        self._folder = f"{ROOT / package}{os.sep}"
        self._caches = [value for name, module in sys.modules.items()
                        if name.split(".")[0] == package for value in vars(module).values()
                        if hasattr(value, "cache_clear")]
        self._names: dict[CodeType, str | None] = {}
        self._now: set[CodeType] = set()
        self.by_fixture: dict[str, set[str]] = {}

    def __enter__(self) -> Reached:
        threading.setprofile(self._event)
        sys.setprofile(self._event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _event(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self._now.add(frame.f_code)

    def start(self) -> None:
        """Forget; also results that the package keeps, which would hide who needs them."""
        for cached in self._caches:
            cached.cache_clear()
        self._now = set()

    def since_start(self) -> set[str]:
        return {name for code in self._now.copy() if (name := self._name(code))}

    def _name(self, code: CodeType) -> str | None:
        if code not in self._names:
            inside = code.co_filename.startswith(self._folder)
            module = ".".join(Path(code.co_filename).relative_to(ROOT).with_suffix("").parts
                              ) if inside else ""
            self._names[code] = f"{module}:{code.co_qualname.split('.<locals>')[0]}" if (
                inside) else None
        return self._names[code]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Iterator[None]:
        before, self._now = self._now, set()
        yield
        self.by_fixture.setdefault(fixturedef.argname, set()).update(self.since_start())
        self._now |= before


class Loop:
    """Takes the place of pytest's own loop over the collected tests."""

    def __init__(self, package: str, todo: list[Mutant], jobs: int) -> None:
        self.package, self.todo, self.jobs = package, todo, jobs
        self.results: dict[Mutant | None, str] = {}
        self.limit_s = 600.0
        self.unchanged: dict[str, Unchanged] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        # the unchanged code must pass, or nothing below means anything
        with tempfile.TemporaryDirectory() as folder:
            told = Path(folder) / "unchanged.json"
            self.results.update(in_forks([None], lambda _: self._run_unchanged(session, told), 1))
            if told.exists():
                self.unchanged = {test: Unchanged(cpu_s, frozenset(reaches)) for test, (
                    cpu_s, reaches) in json.loads(told.read_text()).items()}
        self.limit_s = limit_s(sum(one.cpu_s for one in self.unchanged.values()))
        if session.items and self.results[None] == "survived":
            gc.freeze()
            self.results.update(in_forks(self.todo, lambda m: self._child(session, m), self.jobs))
        return True

    def _run_unchanged(self, session: pytest.Session, told: Path) -> int:
        """As `run_items`, and writes what each test does."""
        limit_cpu(self.limit_s)
        reached = Reached(self.package)
        session.config.pluginmanager.register(reached)
        found: dict[str, tuple[float, set[str]]] = {}
        with reached:
            for item in session.items:
                reached.start()
                before_s = cpu_s()
                if not passes(item):
                    return 1
                found[item.nodeid] = cpu_s() - before_s, reached.since_start()
        told.write_text(json.dumps({
            item.nodeid: (found[item.nodeid][0], sorted(found[item.nodeid][1].union(*(
                reached.by_fixture.get(name, ()) for name in item.fixturenames))))
            for item in session.items}))
        return 0

    def _child(self, session: pytest.Session, mutant: Mutant) -> int:
        stem = mutant.module.rpartition(".")[2]
        first = [f"test_{stem}", *FIRST.get(stem, ())]
        if mutant.function:
            patch(mutant)
            name = f"{mutant.module}:{mutant.function}"
            ordered = sorted(session.items, key=lambda i: (
                i.path.stem not in first, self.unchanged[i.nodeid].cpu_s))
            reaching = [i for i in ordered if name in self.unchanged[i.nodeid].reaches]
            # What is not known to be equivalent survives all tests, or does not survive.
            rest = [] if mutant.key in EQUIVALENT else [i for i in ordered if i not in reaching]
            return self._run_changed([*reaching, *rest])
        limit_cpu(self.limit_s)
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None) or ""
            if name.split(".")[0] == self.package or file.startswith(str(ROOT / "tests")):
                del sys.modules[name]
        sys.meta_path.insert(0, Finder(mutant))
        return int(pytest.main(pytest_arguments(self.package)))

    def _run_changed(self, items: list[pytest.Item]) -> int:
        """0 when every test passes; stops at the first that does not."""
        for item in items:
            limit_cpu(limit_s(self.unchanged[item.nodeid].cpu_s))
            if not passes(item):
                return 1
        return 0


def passes(item: pytest.Item) -> bool:
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))


def cpu_s() -> float:
    """Processor time of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def limit_s(unchanged_s: float) -> float:
    return max(LEAST_CPU_S, TIMES_UNCHANGED * unchanged_s)


def limit_cpu(more_s: float) -> None:
    """End this process when it has used so much more processor time."""
    signal.setitimer(signal.ITIMER_PROF, more_s)


def in_forks(todo: list, child: Callable[[object], int],  # type: ignore[type-arg]
             jobs: int) -> Iterator[tuple]:  # type: ignore[type-arg]
    """Run `child` on each in a process of its own, `jobs` at a time."""
    waiting, running = list(reversed(todo)), {}
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop()
            pid = os.fork()
            if pid == 0:
                _child_process(child, mutant)
            running[pid] = mutant
        pid, status = os.wait()
        if os.WIFSIGNALED(status):
            result = "timeout" if os.WTERMSIG(status) == signal.SIGPROF else "killed"
        else:
            result = "survived" if os.WEXITSTATUS(status) == 0 else "killed"
        yield running.pop(pid), result


def _child_process(child: Callable[[object], int], mutant: object) -> None:
    code = 97
    try:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        sys.dont_write_bytecode = True
        code = child(mutant)
    finally:
        os._exit(code)


def pytest_arguments(package: str) -> list[str]:
    """Only the package's own tests, nothing written."""
    return ["-x", "-q", "-s", "-p", "no:cacheprovider", f"--rootdir={ROOT}",
            *(str(ROOT / path) for path in TESTS[package] if (ROOT / path).exists())]


def main(arguments: list[str] | None = None) -> int:
    """Run the mutants; 0 when none survives that is not listed."""
    parser = argparse.ArgumentParser(description="plant bugs and see whether tests notice")
    parser.add_argument("--package", choices=sorted(TESTS), default="verifiers")
    parser.add_argument("--only", choices=("comparison", "constant", "boolean", "arithmetic"))
    parser.add_argument("--module", help="one module alone, for instance label")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(ROOT))
    todo = [m for m in mutants(options.package)
            if options.only in (None, m.kind)
            and options.module in (None, m.module.rpartition(".")[2])]
    loop = Loop(options.package, todo, options.jobs)
    pytest.main([*pytest_arguments(options.package), "--no-header", "--no-summary"],
                plugins=[loop])
    if loop.results.get(None) != "survived":
        print("the tests are missing or fail without any change")
        return 2
    return report(todo, loop.results)


def report(todo: list[Mutant], results: dict[Mutant | None, str]) -> int:
    """Print what survived and the counts of each kind."""
    survivors = [m for m in todo if results[m] == "survived"]
    unlisted = [m for m in survivors if m.key not in EQUIVALENT]
    wrongly_listed = [m for m in todo if results[m] != "survived" and m.key in EQUIVALENT]
    for m in unlisted:
        print(f"SURVIVED {m.kind:10} {m.module}:{m.line}: {m.before}  ->  {m.after}")
    for m in wrongly_listed:
        print(f"LISTED AS EQUIVALENT, BUT KILLED {m.module}:{m.line}: {m.key}")
    for kind in sorted({m.kind for m in todo}):
        of_kind = [m for m in todo if m.kind == kind]
        left = [m for m in survivors if m.kind == kind]
        print(f"{kind:10} {len(of_kind):4} mutants, {len(of_kind) - len(left):4} killed, "
              f"{len([m for m in left if m.key in EQUIVALENT]):3} equivalent, "
              f"{len([m for m in left if m in unlisted]):3} survive")
    endless = [m for m in todo if results[m] == "timeout"]
    for m in endless:
        print(f"ENDLESS {m.module}:{m.line}: {m.before}  ->  {m.after}")
    print(f"total      {len(todo):4} mutants, {len(endless)} stopped after {TIMES_UNCHANGED} times "
          f"a test's processor time, at least {LEAST_CPU_S} s, and counted as killed")
    return 1 if unlisted or wrongly_listed else 0


if __name__ == "__main__":
    sys.exit(main())
