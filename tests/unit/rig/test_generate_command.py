"""`rig generate` against a loopback endpoint: what is written, kept, cached, and what fails."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from chat_server import ChatServer, Step, answer_of, completion, error, good, verdict

from probes.loader import load_suite
from rig import clock

BUILTIN = load_suite("dsb-ifeval")
SPECS = ("suite.yaml", "roles.yaml", "probes.yaml", "grid.yaml")
KEY = "sk-proj-0123456789abcdef0123456789"
PASS = verdict("pass")


def of(conversation_id: str) -> Any:
    return BUILTIN.conversations[conversation_id]


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Waiting is noted and not done; no key of the machine that tests is used."""
    noted: list[float] = []
    monkeypatch.setattr(clock, "pause", noted.append)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    return noted


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """R1 with its probes A and B, which is quicker to read, and two conversations of B. No file
    for levels that it does not have. Read only."""
    folder = tmp_path_factory.mktemp("suites") / "small"
    (folder / "conversations").mkdir(parents=True)

    def part(name: str) -> Any:
        return yaml.safe_load((BUILTIN.path / name).read_text(encoding="utf-8"))

    def keep(name: str, value: Any) -> None:
        (folder / name).write_text(yaml.safe_dump(value, sort_keys=False), encoding="utf-8")

    suite = part("suite.yaml")
    del suite["matched_audio"]
    keep("suite.yaml", {**suite, "name": "small", "levels": ["L2"]})
    roles, probes, grid = (part(f"{n}.yaml") for n in ("roles", "probes", "grid"))
    keep("roles.yaml", {**roles, "roles": [r for r in roles["roles"] if r["id"] == "R1"]})
    keep("probes.yaml", {**probes, "probes": [p for p in probes["probes"]
                                              if p.get("role") == "R1"]})
    cells = [{k: c[k] for k in ("role", "probe", "action")} for c in grid["cells"]]
    keep("grid.yaml", {**grid, "cells": [c for c in cells
                                         if c["role"] == "R1" and c["probe"] in "AB"]})
    keep("conversations/R1.yaml", {"conversations": [
        of(i).model_dump(exclude_none=True) for i in ("R1-B-1", "R1-B-2")]})
    return folder


def variant(number: int) -> Any:
    """R1-A-1 with another ending of its first turn."""
    words = ("Yes.", "Really.", "You know.", "I swear.")
    return of("R1-A-1").model_copy(update={
        "turn1": f"{of('R1-A-1').turn1} {words[number]}"})


@pytest.fixture
def generate(call_rig: Callable[..., Any], tmp_path: Path, small: Path) -> Callable[..., Any]:
    """`rig generate` for R1-A into `out`, instance 1 where none is named."""

    def call(server: ChatServer, *more: object, cell: str = "R1-A", suite: object = small,
             out: object = "out") -> Any:
        which = () if "--instance" in more else ("--instance", "1")
        return call_rig("generate", suite, "--cell", cell, *which, "--base-url", server.url,
                        "--model", "main", "--fallback-model", "spare", "--critic-model", "critic",
                        "--out", tmp_path / str(out), *more)

    return call


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*"))
            if p.is_file()}


def test_a_conversation_is_made_in_a_folder_that_builds(
        generate: Callable[..., Any], call_rig: Callable[..., Any], tmp_path: Path,
        small: Path) -> None:
    with ChatServer([good(of("R1-A-1")), PASS, good(of("R1-A-2")), PASS]) as server:
        done = generate(server, "--instance", "2", "--instance", "1", "--json")
    assert (done.code, server.beyond) == (0, 0)
    out = tmp_path / "out"
    told = json.loads(done.out)
    assert [m["id"] for m in told["made"]] == ["R1-A-1", "R1-A-2"]
    assert (told["failed"], told["not_tried"], told["endpoint_error"]) == ([], [], None)
    assert told["accepted_at_try"] == {"1": 2}
    assert told["requests"] == {
        "requests": 4, "cache_hits": 0, "sent": 4, "sent_again": 0, "prompt_tokens": 400,
        "completion_tokens": 80, "answers_without_tokens": 0}
    assert load_suite(out).conversations == {i: of(i) for i in ("R1-A-1", "R1-A-2")}
    assert {p.name for p in out.iterdir()} == {*SPECS, "conversations", ".cache"}
    for name in SPECS:
        assert (out / name).read_bytes() == (small / name).read_bytes()
    first = (out / "conversations" / "R1-A-1.yaml").read_text().splitlines()[0]
    assert first.startswith("# Written by main at try 1, temperature 0.7; passed by the gates and "
                            "by critic. Request ")
    # Of the second, the request names the first: the situations must differ.
    assert of("R1-A-1").situation in server.received[2].user
    built = call_rig("build", out, "--dry-run", "--json")
    assert (built.code, json.loads(built.out)["gates"]) == (0, "passed")


def test_models_and_temperatures_of_four_tries(generate: Callable[..., Any]) -> None:
    fail = verdict("fail", "trigger: not urgent")
    with ChatServer([good(variant(0)), fail, good(variant(1)), fail, good(variant(2)), fail,
                     good(variant(3)), PASS]) as server:
        done = generate(server)
    assert (done.code, server.beyond) == (0, 0)
    asked = [(r.value["model"], r.value["temperature"]) for r in server.received]
    assert asked[0::2] == [("main", 0.7), ("main", 0.8), ("spare", 0.9), ("spare", 1.0)]
    assert asked[1::2] == [("critic", 0)] * 4


def test_a_conversation_that_comes_again_is_not_judged_again(generate: Callable[..., Any]) -> None:
    a = good(of("R1-A-1"))
    with ChatServer([a, verdict("fail", "trigger: not urgent"), a, a, a]) as server:
        done = generate(server, "--json")
    assert (done.code, server.beyond) == (3, 0)
    assert json.loads(done.out)["requests"]["cache_hits"] == 3


def test_tries_are_counted_by_rule(generate: Callable[..., Any]) -> None:
    a, b = of("R1-A-1"), variant(0)
    script = [
        Step(completion("I'd rather talk.")),
        good(a, turn2={**a.turn2, "lead": "Too short."}),
        good(b), verdict("fail", "trigger: not urgent", "continuation: about the trigger"),
        good(a), PASS]
    with ChatServer(script) as server:
        done = generate(server, "--json")
    told = json.loads(done.out)
    assert (done.code, server.beyond) == (0, 0)
    assert told["accepted_at_try"] == {"4": 1}
    assert told["rejections_by_rule"] == {"critic": 2, "answer_json": 1, "duration_off_target": 1}
    assert "- trigger: not urgent\n- continuation: about the trigger" in server.received[4].user
    tries = told["made"][0]["tries"]
    assert [t["temperature"] for t in tries] == [0.7, 0.8, 0.9, 1.0]
    assert tries[1]["rejections"][0]["detail"].startswith("turn2.lead: estimated 0.7 s")


def test_critic_defaults_to_the_fallback_and_that_to_the_model(
        call_rig: Callable[..., Any], tmp_path: Path, small: Path) -> None:
    for more, names in (((), ["main", "main"]), (("--fallback-model", "spare"), ["main", "spare"])):
        with ChatServer([good(of("R1-A-1")), PASS]) as server:
            assert call_rig("generate", small, "--cell", "R1-A", "--instance", "1", "--out",
                            tmp_path / names[1], "--base-url", server.url, "--model", "main",
                            *more).code == 0
        assert [r.value["model"] for r in server.received] == names


@pytest.mark.parametrize(("cell", "ids"), [
    ("R2-B", ["R2-B-1"]), ("R6-B", ["R6-B-1"]), ("R[12]-C4", ["S-C4-1"]), ("R3-C2", ["R3-C2-1"])])
def test_other_shapes_of_conversations(generate: Callable[..., Any], tmp_path: Path, cell: str,
                                       ids: list[str]) -> None:
    with ChatServer([step for i in ids for step in (good(of(i)), PASS)]) as server:
        assert generate(server, cell=cell, suite="dsb-ifeval").code == 0
    assert load_suite(tmp_path / "out").conversations == {i: of(i) for i in ids}


# --- what is there already -------------------------------------------------------------------


def test_what_is_there_is_kept_and_a_second_run_asks_nothing(generate: Callable[..., Any],
                                                             tmp_path: Path) -> None:
    with ChatServer([good(of("R1-A-1")), PASS]) as server:
        generate(server)
        before = files(tmp_path / "out")
        done = generate(server, "--json")
    assert (done.code, server.beyond) == (0, 0)
    told = json.loads(done.out)
    assert (told["made"], told["kept"]) == ([], ["R1-A-1"])
    assert told["requests"]["requests"] == 0
    assert files(tmp_path / "out") == before


def test_by_the_cache_a_run_is_repeated_byte_for_byte_without_an_endpoint(
        generate: Callable[..., Any], tmp_path: Path) -> None:
    script = [Step(completion("no")), good(of("R1-A-1")), PASS, good(of("R1-A-2")), PASS]
    both = ("--instance", "1", "--instance", "2", "--cache", tmp_path / "cache", "--json")
    with ChatServer(script) as server:
        first = generate(server, *both)
    before = files(tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    again = generate(server, *both)  # nobody listens there any more
    assert (first.code, again.code) == (0, 0)
    assert files(tmp_path / "out") == before
    told = json.loads(again.out)
    assert told["requests"] == {
        "requests": 5, "cache_hits": 5, "sent": 0, "sent_again": 0, "prompt_tokens": 0,
        "completion_tokens": 0, "answers_without_tokens": 0}
    assert told["made"] == json.loads(first.out)["made"]
    assert files(tmp_path / "cache")
    forced = generate(server, *both, "--force")
    assert json.loads(forced.out)["requests"]["cache_hits"] == 5
    assert files(tmp_path / "out") == before


def test_force_replaces_a_file_of_its_own(generate: Callable[..., Any], tmp_path: Path) -> None:
    with ChatServer([good(of("R1-A-1")), PASS, good(variant(1)), PASS]) as server:
        generate(server)
        shutil.rmtree(tmp_path / "out" / ".cache")
        assert generate(server, "--force").code == 0
    (made,) = load_suite(tmp_path / "out").conversations.values()
    assert (made.id, made.turn1) == ("R1-A-1", variant(1).turn1)


def test_force_leaves_files_with_several_conversations_alone(generate: Callable[..., Any],
                                                             tmp_path: Path, small: Path) -> None:
    suite = tmp_path / "out"
    shutil.copytree(small, suite)
    before = files(suite)
    with ChatServer([]) as server:
        called = generate(server, "--force", suite=suite, cell="R1-B")
    assert re.search(r"R1.yaml:\d+: expected R1-B-1 in a file of its own, which --force could "
                     "replace, got it in a file with others", called.error)
    assert server.received == []
    assert files(suite) == before


def test_a_suite_is_completed_in_place(generate: Callable[..., Any], tmp_path: Path,
                                       small: Path) -> None:
    suite = tmp_path / "mine"
    shutil.copytree(small, suite)
    before = files(suite)
    new = ["R1-A-1", "R1-A-2", "R1-A-3", "R1-B-3"]
    with ChatServer([step for i in new for step in (good(of(i)), PASS)]) as server:
        called = generate(server, *[w for i in "123" for w in ("--instance", i)], "--json",
                          "--cache", tmp_path / "cache", suite=suite, out="mine", cell="R1-*")
    assert (called.code, server.beyond) == (0, 0)
    assert json.loads(called.out)["kept"] == ["R1-B-1", "R1-B-2"]
    after = files(suite)
    for conversation_id in new:
        assert after.pop(f"conversations/{conversation_id}.yaml")
    assert after == before
    assert load_suite(suite).conversations == {i: of(i) for i in (*new, "R1-B-1", "R1-B-2")}


def test_a_text_of_the_suite_is_not_taken_again(generate: Callable[..., Any]) -> None:
    copied = good(of("R1-A-1"), turn1=of("R1-B-2").turn1)
    with ChatServer([copied] * 4) as server:
        done = generate(server, "--json")
    assert done.code == 3
    assert json.loads(done.out)["rejections_by_rule"] == {"text_repeated": 4}


@pytest.mark.parametrize(("make", "message"), [
    (lambda out: out.write_text("x"), "expected a folder, got a file"),
    (lambda out: (out.mkdir(), (out / "notes.txt").write_text("x")),
     "expected a new or empty folder, or one of this suite, got one with notes.txt"),
    (lambda out: (out.mkdir(), (out / "suite.yaml").write_text("x")),
     "expected the suite.yaml of small unchanged, got another")])
def test_folders_that_are_not_written_to(generate: Callable[..., Any], tmp_path: Path,
                                         make: Callable[[Path], object], message: str) -> None:
    make(tmp_path / "out")
    with ChatServer([]) as server:
        assert message in generate(server).error
    assert server.received == []


def test_conversations_without_their_suite_are_not_added_to(
        generate: Callable[..., Any], tmp_path: Path, small: Path) -> None:
    shutil.copytree(small, tmp_path / "out")
    (tmp_path / "out" / "suite.yaml").unlink()
    with ChatServer([]) as server:
        assert "expected a suite folder with suite.yaml, got none" in generate(server).error


def test_an_unfinished_copy_of_the_spec_files_is_finished(
        generate: Callable[..., Any], tmp_path: Path, small: Path) -> None:
    (tmp_path / "out").mkdir()
    shutil.copy(small / "grid.yaml", tmp_path / "out")
    with ChatServer([good(of("R1-A-1")), PASS]) as server:
        assert generate(server).code == 0
    assert list(load_suite(tmp_path / "out").conversations) == ["R1-A-1"]


# --- what fails ------------------------------------------------------------------------------


def test_what_could_not_be_made_is_listed_and_the_rest_is_made(generate: Callable[..., Any],
                                                               tmp_path: Path) -> None:
    script = [Step(completion("no"))] * 4 + [good(of("R1-A-2")), PASS]
    with ChatServer(script) as server:
        done = generate(server, "--instance", "1", "--instance", "2")
    assert done.code == 3
    assert done.err.count("R1-A-1: try ") == 4
    assert "R1-A-1: try 3 (spare): answer_json: expected one JSON object" in done.err
    assert "1 of 2 conversations made" in done.out
    assert list(load_suite(tmp_path / "out").conversations) == ["R1-A-2"]


LOST = {
    "not JSON": Step(b"hello"), "wrong type": Step(completion(json.dumps([1]))),
    "extra key": good(of("R1-A-1"), notes="x"),
    "missing segment": good(of("R1-A-1"), turn2={"lead": "a"}),
    "html": Step(completion("x"), content_type="text/html"),
    "refused": error(400, "no such field: response_format"),
    "cut": Step(completion(answer_of(of("R1-A-1")), finish_reason="length")),
    "withheld": Step(completion("", finish_reason="content_filter"))}


@pytest.mark.parametrize("bad", LOST.values(), ids=LOST.keys())
def test_a_lost_try_is_followed_by_the_next(generate: Callable[..., Any], bad: Step,
                                            waits: list[float]) -> None:
    with ChatServer([bad, good(of("R1-A-1")), PASS]) as server:
        done = generate(server, "--json")
    assert (done.code, server.beyond, waits) == (0, 0, [])
    assert json.loads(done.out)["accepted_at_try"] == {"2": 1}


def test_a_fence_costs_nothing(generate: Callable[..., Any]) -> None:
    fenced = f"```json\n{json.dumps(answer_of(of('R1-A-1')))}\n```"
    with ChatServer([Step(completion(fenced)), PASS]) as server:
        assert json.loads(generate(server, "--json").out)["accepted_at_try"] == {"1": 1}


PASSING = {"429": error(429, Retry_After="3"), "500": error(500), "reset": Step(reset=True),
           "truncated": Step(completion("x"), cut=10)}


@pytest.mark.parametrize("bad", PASSING.values(), ids=PASSING.keys())
def test_a_passing_fault_costs_no_try(generate: Callable[..., Any], bad: Step,
                                      waits: list[float]) -> None:
    with ChatServer([bad, good(of("R1-A-1")), bad, PASS]) as server:
        done = generate(server, "--json")
    told = json.loads(done.out)
    assert (done.code, told["accepted_at_try"], server.beyond) == (0, {"1": 1}, 0)
    assert told["requests"]["sent_again"] == 2
    assert len(waits) == 2


@pytest.mark.parametrize(("script", "why"), [
    ([error(500, "down")] * 4, "got 500: down; given up after 4 sends"),
    ([error(401, "bad key")], "got 401: bad key"),
    ([error(429, "quota", Retry_After="999")], "asks for 999 s of patience"),
    ([Step(status=302, headers=(("Location", "http://127.0.0.1:1/"),))], "redirects are not")])
def test_an_endpoint_that_cannot_be_used_ends_the_run_and_what_was_made_stays(
        generate: Callable[..., Any], tmp_path: Path, script: list[Step], why: str) -> None:
    three = [w for i in "123" for w in ("--instance", i)]
    with ChatServer([good(of("R1-A-1")), PASS, good(of("R1-A-2")), *script]) as server:
        done = generate(server, *three, "--json")
    told = json.loads(done.out)
    assert (done.code, server.beyond) == (3, 0)
    assert why in told["endpoint_error"]
    assert [m["id"] for m in told["made"]] == ["R1-A-1"]
    assert told["not_tried"] == ["R1-A-2", "R1-A-3"]
    assert list(load_suite(tmp_path / "out").conversations) == ["R1-A-1"]
    # The next run goes on: the answer that came before the fault is not asked for again.
    with ChatServer([PASS, good(of("R1-A-3")), PASS]) as server:
        done = generate(server, *three, "--json")
    told = json.loads(done.out)
    assert (done.code, told["kept"], server.beyond) == (0, ["R1-A-1"], 0)
    assert told["requests"]["cache_hits"] == 1


def test_nothing_is_written_where_nothing_was_made(generate: Callable[..., Any],
                                                   tmp_path: Path) -> None:
    with ChatServer([error(401)]) as server:
        assert generate(server).code == 3
    assert not (tmp_path / "out").exists()


# --- usage, key ------------------------------------------------------------------------------


def test_a_dry_run_needs_no_endpoint_and_writes_nothing(call_rig: Callable[..., Any],
                                                        tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = call_rig("generate", "dsb-ifeval", "--cell", "R1-C1", "--out", out, "--dry-run",
                    "--json")
    assert (done.code, json.loads(done.out)) == (0, {
        "suite": "dsb-ifeval", "out": str(out), "to_make": 5, "kept": 0, "requests_at_most": 40,
        "sends_a_request_at_most": 4, "kept_conversations": [],
        "conversations": ["S-C1-1", "S-C1-2", "S-C1-3", "S-C1-4", "R1-C1-5"]})
    assert not out.exists()


@pytest.mark.parametrize(("change", "message"), [
    ({"--base-url": "http://api.example.com/v1"}, "--base-url: expected https://HOST"),
    ({"--base-url": f"https://x:{KEY}@h/v1"}, "without user, query or fragment, got one of these"),
    ({"--base-url": None}, "--base-url: expected the address of an endpoint, got none"),
    ({"--model": None}, "--model: expected the name of a model, got none"),
    ({"--model": " "}, "--model: expected one line"),
    ({"--critic-model": "a\x1b[2J"}, "--critic-model: expected one line"),
    ({"--situation": "a\nb"}, "--situation: expected one line"),
    ({"--cell": "R9-A"}, "--cell: expected a cell of small, got 'R9-A'"),
    ({"--base-url": "https://api.example.com/v1"},
     "OPENAI_API_KEY: expected a key in the environment, got none"),
    ({"--key-env": "NO_SUCH_KEY"}, "NO_SUCH_KEY: expected a key in the environment, got none")])
def test_usage(call_rig: Callable[..., Any], tmp_path: Path, small: Path,
               change: dict[str, str | None], message: str) -> None:
    options = {"--cell": "R1-A", "--base-url": "http://127.0.0.1:9/v1", "--model": "main",
               "--out": str(tmp_path / "out"), **change}
    words = [w for k, v in options.items() if v is not None for w in (k, v)]
    called = call_rig("generate", small, *words)
    assert message in called.error
    assert KEY not in called.error
    assert not (tmp_path / "out").exists()


def test_the_key_goes_to_the_endpoint_and_nowhere_else(
        generate: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    echo = "".join(f"\\u{ord(c):04x}" for c in KEY)
    script = [error(429, f"slow down, {KEY}"), Step(completion(f'{{"turn1":"{echo}"}}')),
              good(of("R1-A-1"), situation=f"a caller who knows {KEY}"),
              good(of("R1-A-1")), PASS, good(of("R1-A-2")), error(401, f"{KEY} is not allowed")]
    with ChatServer(script) as server:
        done = generate(server, "--instance", "1", "--instance", "2", "--key-env", "MY_KEY")
    assert (done.code, server.beyond) == (3, 0)
    assert {r.headers["authorization"] for r in server.received} == {f"Bearer {KEY}"}
    assert not any(KEY in r.body.decode() for r in server.received)
    written = files(tmp_path)
    assert "out/conversations/R1-A-1.yaml" in written
    for secret in (KEY, echo):
        assert secret not in done.out + done.err
        for name, data in written.items():
            assert secret.encode() not in data, name


def test_a_program_on_this_machine_gets_no_key_that_was_not_named_for_it(
        generate: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ChatServer([good(of("R1-A-1")), PASS]) as server:
        assert generate(server).code == 0
    assert all("authorization" not in r.headers for r in server.received)
