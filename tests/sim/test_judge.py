"""`rig judge` on runs that were played, by a judge on this machine whose rule is known."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rig_testkit as kit
from chat_server import ChatServer, Received, Step, completion, error
from rule_judge import LABELS, case_of, judge, rated

from probes.loader import load_suite
from rig import cli, clock
from rig.judge import transcript

KEY = "sk-proj-0123456789abcdef0123456789"
SUITE = load_suite("dsb-ifeval")
LEVELS = ("L0", "L2", "L4a", "L4b")


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Waiting is noted and not done; no key or judges of the machine that tests are used."""
    noted: list[float] = []
    monkeypatch.setattr(clock, "pause", noted.append)
    for name in ("OPENAI_API_KEY", "GEMINI_API_KEY", "DUPLEXRIG_JUDGES"):
        monkeypatch.delenv(name, raising=False)
    return noted


@pytest.fixture(scope="module")
def talking_suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """R1-A and R2-C1, first instance, on four levels: 7 cases on 2 streams. Read only."""
    return kit.build_talking_suite(
        tmp_path_factory.mktemp("suite") / "talk",
        lambda c: c.instance == 1 and c.level in LEVELS and (c.role, c.probe) in (
            ("R1", "A"), ("R2", "C1")))


@pytest.fixture(scope="module")
def played(talking_suite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Played at random by an agent with a transcript of its own, and scored. Read only."""
    run = tmp_path_factory.mktemp("runs") / "random"
    assert cli.main(["run", str(talking_suite), "--adapter", "random", "--jobs", "1", "--out",
                     str(run)]) == 0
    assert cli.main(["score", str(run), "--jobs", "1"]) == 0
    return run


@pytest.fixture
def run(played: Path, tmp_path: Path) -> Path:
    """A copy to write into."""
    copy = tmp_path / "run"
    shutil.copytree(played, copy)
    return copy


@pytest.fixture
def ask(call_rig: Callable[..., Any]) -> Callable[..., Any]:
    """`rig judge` with a judge `rule` at a server of the test."""

    def call(run: Path, server: ChatServer, *more: object) -> Any:
        return call_rig("judge", run, "--judge", "rule", "--base-url", server.url, "--model",
                        "rule", "--jobs", "1", "--json", *more)

    return call


def said_of(request: Received) -> str:
    return str(case_of(request)["assistant"].get("said", ""))


def test_every_case_is_judged_once_by_the_rule(run: Path, ask: Callable[..., Any],
                                               tmp_path: Path) -> None:
    with ChatServer(judge) as server:
        done = ask(run, server, "--csv", tmp_path / "figures.csv", "--cases-csv",
                   tmp_path / "cases.csv")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    kept = json.loads((run / "judge" / "rule.json").read_text())
    requests = found.pop("requests")
    assert kept == found
    assert found["counts"]["judged"] == len(found["cases"]) == 7
    assert requests["sent"] == len(server.received) == len({r.body for r in server.received})
    spoken = {json.dumps(case_of(r)): len(said_of(r).split()) for r in server.received}
    for case in found["cases"]:
        assert case["transcript"] == "native"
        assert case["words"] in spoken.values()
        expected = rated(case["words"], conflict=case["level"] in ("L4a", "L4b"))
        assert (case["pas"], case["register_fit"], case["content_fit"]) == (
            expected["pas"], expected["register"], expected["content"])
        label = expected["conflict"]
        assert case["conflict"] == ("balanced" if label == "hedged" else label)
    scored = {c["case_id"]: c["outcome"] for c in kit.scores(run)["cases"]}
    assert {c["case_id"]: c["verdict"] for c in found["cases"]} == scored
    for level in LEVELS:
        pas = [c["pas"] for c in found["cases"] if c["level"] == level]
        assert found["pas"]["by_level"][level]["mean"] == pytest.approx(sum(pas) / len(pas))
    l4b = [c for c in found["cases"] if c["level"] == "L4b"]
    override = found["safety_override"]
    assert (override["n"], override["count"]) == (
        1, sum(c["conflict"] == "persona-wins" for c in l4b))
    table = found["label_by_verdict"]["counts"]
    assert sum(n for row in table["L4a"].values() for n in row.values()) == 2
    rows = list(csv.DictReader((tmp_path / "figures.csv").read_text().splitlines()))
    assert {r["kind"] for r in rows} == {"pas", "conflict", "safety_override",
                                         "label_by_verdict"}
    rows = list(csv.DictReader((tmp_path / "cases.csv").read_text().splitlines()))
    assert [r["pas"] for r in rows] == [str(c["pas"]) for c in found["cases"]]


def test_a_judge_is_told_the_persona_the_rule_and_the_conflict_and_nothing_measured(
        run: Path, ask: Callable[..., Any]) -> None:
    with ChatServer(judge) as server:
        assert ask(run, server).code == 0
    cases = [case_of(r) for r in server.received]
    for case in cases:
        role = SUITE.role(case["role"]["id"])
        assert case["persona"] == role.persona  # on L0, too
        assert set(case) <= {"role", "persona", "rule", "user", "assistant", "conflict"}
        assert set(case["assistant"]) <= {"said", "recognised", "no_speech", "no_words", "cut"}
    pauses = {r["role"]["id"]: [p["pause_s"] for p in r["user"]["turn2"] if "pause_s" in p]
              for r in cases}
    assert pauses == {"R1": [], "R2": [2.5]}
    talk = SUITE.conversations["S-C1-1"]
    r2 = next(c for c in cases if c["role"]["id"] == "R2")
    assert r2["user"]["turn1"] == talk.turn1
    assert [p["said"] for p in r2["user"]["turn2"] if "said" in p] == list(talk.turn2.values())
    wins = Counter(c["conflict"]["should_win"] for c in cases if "conflict" in c)
    assert wins == {"directive": 2, "persona": 1}
    prompts = {c["system_prompt"] for c in map(json.loads, (
        run / "cases.jsonl").read_text().splitlines())}
    for case in cases:
        if "conflict" in case:
            assert f"{case['persona']}\n\n{case['conflict']['directive']}" in prompts


def test_a_run_is_replayed_from_the_cache_without_an_endpoint_or_a_key(
        run: Path, ask: Callable[..., Any]) -> None:
    with ChatServer(judge) as server:
        assert ask(run, server).code == 0
    before = (run / "judge" / "rule.json").read_bytes()
    again = ask(run, server)  # nobody listens there any more
    assert again.code == 0, again.err
    told = json.loads(again.out)["requests"]
    assert (told["sent"], told["cache_hits"]) == (0, len(server.received))
    assert (run / "judge" / "rule.json").read_bytes() == before
    hosted = ask(run, server, "--dry-run", "--key-env", "NOT_SET")
    assert (hosted.code, json.loads(hosted.out)["judges"][0]["to_ask"]) == (0, 0)


def test_trouble_of_the_endpoint_is_sent_again_or_counted(
        run: Path, ask: Callable[..., Any], waits: list[float]) -> None:
    """Each request meets its own trouble first: what helps itself ends judged, what does not is
    `judge_error` and outside every mean."""
    seen: dict[bytes, int] = {}
    order: list[bytes] = []

    def troubled(request: Received, number: int) -> Step:
        seen[request.body] = seen.get(request.body, 0) + 1
        if request.body not in order:
            order.append(request.body)
        which, time = order.index(request.body), seen[request.body]
        if which == 0 and time == 1:
            return error(429, "slow down", Retry_After="3")
        if which == 1 and time <= 2:
            return Step(stall=True)
        if which == 2 and time <= 3:
            return Step(b"<html>502</html>", 502, content_type="text/html")
        if which == 3:
            return Step(b"<html>All is well</html>", content_type="text/html")
        if which == 4:
            return judge(request, pas=101)
        if which == 5:
            return Step(completion("{\"pas\": 100}{\"pas\": 100}"))
        return judge(request)

    with ChatServer(troubled) as server:
        done = ask(run, server, "--timeout", "1")
    assert done.code == 3
    found = json.loads(done.out)
    assert (found["counts"]["judged"], found["counts"]["judge_error"]) == (4, 3)
    assert {k: v for k, v in found["counts"].items() if k.startswith("error_")} == {
        "error_answer_envelope": 1, "error_answer_range": 1, "error_answer_json": 1}
    assert sorted(waits) == [2.0, 2.0, 2.0, 3.0, 4.0, 4.0, 6.0] or sorted(waits) == [
        2.0, 2.0, 3.0, 4.0, 4.0, 6.0]
    for level, entry in found["pas"]["by_level"].items():
        cases = [c for c in found["cases"] if c["level"] == level]
        known = [c["pas"] for c in cases if c["pas"] is not None]
        assert (entry["n"], entry["errors"]) == (len(known), len(cases) - len(known))
        assert entry["mean"] == (pytest.approx(sum(known) / len(known)) if known else None)
    # What was no chat completion is asked for again; a useless answer stays until it is retried.
    with ChatServer(judge) as server:
        assert ask(run, server).code == 3
        assert len(server.received) == 1
        planned = json.loads(ask(run, server, "--retry-errors", "--dry-run").out)["judges"][0]
        assert (planned["to_ask"], planned["cached"]) == (2, planned["questions"] - 2)
        assert json.loads(ask(run, server, "--dry-run").out)["judges"][0]["to_ask"] == 0
        healed = ask(run, server, "--retry-errors")
    assert healed.code == 0
    assert len(server.received) == 3
    assert json.loads(healed.out)["counts"]["judged"] == 7


def test_an_endpoint_that_refuses_the_key_ends_the_run_and_shows_no_key(
        run: Path, ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", KEY)
    with ChatServer(lambda _r, _n: error(401, f"bad key {KEY}")) as server:
        done = ask(run, server, "--key-env", "JUDGE_KEY")
    assert done.code == 3
    found = json.loads(done.out)
    assert found["counts"] == found["counts"] | {"not_judged": 7}
    assert all(r.headers["authorization"] == f"Bearer {KEY}" for r in server.received)
    assert found["pas"]["by_level"]["L2"] == found["pas"]["by_level"]["L2"] | {
        "n": 0, "mean": None, "missing": 2, "reason": "nothing was judged"}
    written = b"".join(kit.files(run / "judge").values())
    assert KEY not in done.out + done.err
    assert KEY.encode() not in written


def test_an_endpoint_out_of_reach_leaves_everything_to_be_asked_again(
        run: Path, ask: Callable[..., Any]) -> None:
    server = ChatServer(judge)
    with server:
        pass
    done = ask(run, server)
    assert done.code == 3
    counts = json.loads(done.out)["counts"]
    assert (counts["not_judged"], counts.get("judge_error", 0)) == (7, 0)
    assert "rule: 7 cases not judged; repeat the command to go on" in done.err.splitlines()
    assert sum("t1" in line for line in done.err.splitlines()) == 0
    with ChatServer(judge) as server:
        assert ask(run, server).code == 0


DRIVER = """
import sys
sys.path.insert(0, {tools!r})
from rig.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_and_asks_for_the_rest_alone(
        run: Path, ask: Callable[..., Any]) -> None:
    answered: list[bytes] = []
    child: list[subprocess.Popen[bytes]] = []

    def deadly(request: Received, number: int) -> Step:
        if number < 3:
            answered.append(request.body)
            return judge(request)
        if number == 6:
            child[0].send_signal(signal.SIGKILL)
        return Step(stall=True)

    tools = str(Path(kit.__file__).parent)
    with ChatServer(deadly) as server:
        child.append(subprocess.Popen(
            [sys.executable, "-c", DRIVER.format(tools=tools), "judge", str(run), "--judge",
             "rule", "--base-url", server.url, "--model", "rule", "--jobs", "1"],
            env={**os.environ, "OPENAI_API_KEY": ""}, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL))
        assert child[0].wait(60) == -signal.SIGKILL
    assert not (run / "judge" / "rule.json").exists()
    with ChatServer(judge) as server:
        done = ask(run, server)
    assert done.code == 0, done.err
    again = {r.body for r in server.received}
    # Three answers were given; those that had reached the client by the kill are not asked again.
    assert len(again) + json.loads(done.out)["requests"]["cache_hits"] == 7
    assert again >= {r.body for r in server.received} - set(answered)
    assert json.loads(done.out)["counts"]["judged"] == 7


def test_two_judges_and_how_far_they_agree(run: Path, ask: Callable[..., Any],
                                           tmp_path: Path) -> None:
    def milder(request: Received, number: int) -> Step:
        words = len(said_of(request).split())
        own = rated(words, conflict="conflict" in case_of(request))
        label = {"conflict": LABELS[0]} if own["conflict"] else {}
        return judge(request, number, pas=max(0, own["pas"] - 10), **label)

    with ChatServer(judge) as server, ChatServer(milder) as other:
        judges = tmp_path / "judges.yaml"
        judges.write_text("version: 1\njudges:\n  - {name: milder, base_url: '"
                          f"{other.url}', model: milder}}\n")
        done = ask(run, server, "--second", "milder", "--judges", judges)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    agreed = found["agreement"]
    assert (agreed["second"], agreed["pas"]["mae"]["n"]) == ("milder", 7)
    by = {c["case_id"]: c for c in found["cases"]}
    others = {c["case_id"]: c for c in found["second"]["cases"]}
    apart = [abs(by[k]["pas"] - others[k]["pas"]) for k in by]
    assert agreed["pas"]["mae"]["value"] == pytest.approx(sum(apart) / 7)
    labels = [(by[k]["conflict"], others[k]["conflict"]) for k in by if by[k]["conflict"]]
    assert agreed["conflict"]["accuracy"] == {
        "value": sum(a == b for a, b in labels) / 3, "n": 3, "reason": None}
    assert {"rule.json", "milder.json"} <= {p.name for p in (run / "judge").iterdir()}


def test_answers_that_change_are_told_by_asking_again(run: Path, ask: Callable[..., Any]) -> None:
    times: Counter[bytes] = Counter()

    def moody(request: Received, number: int) -> Step:
        times[request.body] += 1
        return judge(request, pas=50 + 3 * times[request.body])

    with ChatServer(moody) as server:
        done = ask(run, server, "--reask", "2")
        assert done.code == 0, done.err
        found = json.loads(done.out)
        assert set(times.values()) == {3}  # the very same bytes, three times
        assert ask(run, server, "--reask", "2").code == 0
        assert set(times.values()) == {3}
    spread = found["instability"]
    assert (spread["asked"], spread["cases"]) == (3, 7)
    assert (spread["pas_range_mean"], spread["pas_range_max"], spread["pas_sd"]) == (6.0, 6, 3.0)
    assert (spread["pas_changed"]["share"], spread["label_changed"]["share"]) == (1.0, 0.0)
    for case in found["cases"]:
        assert sorted(case["repeats_pas"]) == [53, 56, 59]
        # The figures are those of the first asking.
        assert case["pas"] == case["repeats_pas"][0]


def test_cost_comes_first_and_bounds_what_is_asked(run: Path, call_rig: Callable[..., Any],
                                                   ask: Callable[..., Any],
                                                   tmp_path: Path) -> None:
    with ChatServer(judge) as server:
        judges = tmp_path / "judges.yaml"
        judges.write_text(
            f"version: 1\njudges:\n  - {{name: paid, base_url: '{server.url}', model: m, price: "
            "{currency: EUR, date: '2026-11-30', source: ours, text_in: 0.0, text_out: 1000.0}}\n")
        paid = ("judge", run, "--judge", "paid", "--judges", judges, "--jobs", "1", "--json")
        dry = call_rig(*paid, "--dry-run")
        assert (dry.code, server.received) == (0, [])
        plan = json.loads(dry.out)["judges"][0]
        assert (plan["questions"], plan["to_ask"], plan["cached"]) == (7, 7, 0)
        # 900 tokens an answer at 1,000 a million.
        assert (plan["cost_at_most"], plan["currency"]) == (pytest.approx(6.3), "EUR")
        assert plan["tokens_in"] > 7 * 500
        assert "at most EUR 6.3000" in dry.err
        # Room for one at its most, three times: an answer takes 20 of its 900 tokens.
        done = call_rig(*paid, "--max-cost", "0.93")
        assert done.code == 1
        counts = json.loads(done.out)["counts"]
        assert (counts["judged"], counts["not_judged"], len(server.received)) == (2, 5, 2)
        assert ("--max-cost 0.93: EUR 0.0400 are used, and the next request may cost EUR 0.9000"
                in done.err)
        unknown = ask(run, server, "--dry-run")
        assert "cost: unknown: no price" in unknown.err
        assert json.loads(unknown.out)["judges"][0]["cost_at_most"] is None
        refused = ask(run, server, "--max-cost", "1")
    assert "--max-cost: the price of judge 'rule' is not known" in refused.error


# --- words -----------------------------------------------------------------------------------


@pytest.fixture
def without_words(talking_suite: Path, call_rig: Callable[..., Any], tmp_path: Path) -> Path:
    """One session of an agent that gives no transcript."""
    run = tmp_path / "echo"
    assert call_rig("run", talking_suite, "--adapter", "echo", "--jobs", "1", "--out", run,
                    "--filter", "role=R2", "--level", "L2").code == 0
    return run


def test_without_a_transcript_the_detected_speech_is_recognised_once_and_marked(
        without_words: Path, ask: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    heard_s: list[float] = []

    class Recogniser:
        def words(self, pcm: Any) -> tuple[str, ...]:
            heard_s.append(len(pcm) / kit.RATE_HZ)
            return ("alpha", "beta")

    monkeypatch.setattr(transcript, "_recogniser", Recogniser)
    with ChatServer(judge) as server:
        found = json.loads(ask(without_words, server).out)
        times = len(heard_s)
        assert ask(without_words, server).code == 0
    assert len(heard_s) == times >= 2  # from the run's cache at the second time
    case = case_of(server.received[0])
    assert case["assistant"] == {"said": " ".join(["alpha beta"] * times), "recognised": True}
    assert (found["cases"][0]["transcript"], found["cases"][0]["words"]) == (
        "recognised", 2 * times)
    # The echo of both turns, the pause of 2.5 s left out.
    record = json.loads(next((without_words / "rec").glob("*.rec.json")).read_text())
    spoken_s = sum((b - a) / kit.RATE_HZ for t in record["turns"] for a, b in t["speech_n"])
    assert sum(heard_s) == pytest.approx(spoken_s, abs=0.5 * times)


@pytest.mark.slow
def test_without_a_transcript_of_its_own_words_are_recognised_and_marked(
        without_words: Path, ask: Callable[..., Any]) -> None:
    run = without_words
    with ChatServer(judge) as server:
        done = ask(run, server)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["counts"]["transcript_recognised"] == 1
    case = case_of(server.received[0])
    assert case["assistant"]["recognised"] is True
    # The voice of the agents says a sentence about the weather, whatever is asked of it.
    assert len(case["assistant"]["said"].split()) >= 5
    assert found["label_by_verdict"]["counts"] is None
    assert "the run is not scored" in found["label_by_verdict"]["reason"]


def test_silence_is_told_as_such(talking_suite: Path, call_rig: Callable[..., Any],
                                 ask: Callable[..., Any], tmp_path: Path) -> None:
    run = tmp_path / "silent"
    assert call_rig("run", talking_suite, "--adapter", "silent", "--jobs", "1", "--out", run,
                    "--filter", "role=R2", "--trials", "2").code == 0
    with ChatServer(judge) as server:
        done = ask(run, server)
    found = json.loads(done.out)
    assert (done.code, found["counts"]["heard_no_speech"]) == (0, 6)
    assert {json.dumps(case_of(r)["assistant"]) for r in server.received} == {'{"no_speech": true}'}
    # Both trials, and L0 beside L2, put the very same question: it is asked once.
    assert len(server.received) == 2


def test_a_session_that_was_lost_is_no_judgement(run: Path, ask: Callable[..., Any]) -> None:
    victim = sorted((run / "rec").glob("*.stereo.wav"))[0]
    victim.write_bytes(b"RIFF")
    with ChatServer(judge) as server:
        done = ask(run, server)
    found = json.loads(done.out)
    lost = [c for c in found["cases"] if c["status"] == "unscored"]
    assert (done.code, len(lost), found["counts"]["judged"]) == (0, 1, 6)
    assert "SHA-256 differs" in lost[0]["reason"]
    assert lost[0]["pas"] is None


def test_records_of_before_take_the_texts_of_the_suite(run: Path, ask: Callable[..., Any]) -> None:
    with ChatServer(judge) as server:
        assert ask(run, server).code == 0
        for path in (run / "rec").glob("*.rec.json"):
            record = json.loads(path.read_text())
            for turn in record["turns"]:
                assert all(turn.pop("texts"))
            path.write_text(json.dumps(record))
        before = len(server.received)
        assert ask(run, server).code == 0
    assert len(server.received) == before


# --- refusals --------------------------------------------------------------------------------


def test_a_suite_with_other_prompts_is_refused(run: Path, ask: Callable[..., Any],
                                               tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(SUITE.path, other)
    roles = other / "roles.yaml"
    roles.write_text(roles.read_text().replace("You answer the intake phone", "You pick up the "
                                               "phone"))
    with ChatServer(judge) as server:
        told = ask(run, server, "--suite", other).error
    assert "expected the prompts of role R1 with which R1-A-1-L2 was played" in told
    assert server.received == []


def test_another_version_of_the_suite_and_a_judge_of_the_same_name_are_refused(
        run: Path, ask: Callable[..., Any], tmp_path: Path, call_rig: Callable[..., Any]) -> None:
    other = tmp_path / "other"
    shutil.copytree(SUITE.path, other)
    text = (other / "suite.yaml").read_text()
    (other / "suite.yaml").write_text(text.replace("version: 1.0.0", "version: 1.0.1", 1))
    with ChatServer(judge) as server:
        assert "expected suite dsb-ifeval 1.0.0, which the run played" in ask(
            run, server, "--suite", other).error
        assert ask(run, server).code == 0
    far = call_rig("judge", run, "--judge", "rule", "--base-url", "https://far.example/v1",
                   "--model", "rule", "--jobs", "1")
    assert "expected judge 'rule' at http://127.0.0.1:" in far.error
    for here in ("http://localhost/v1", "http://[::1]/v1"):  # this machine, at any port or none
        assert call_rig("judge", run, "--judge", "rule", "--base-url", here, "--model", "rule",
                        "--jobs", "1").code == 0


def test_a_suite_of_ones_own_has_to_be_named(small_suite: Path, oracle_run: Path,
                                             call_rig: Callable[..., Any]) -> None:
    told = call_rig("judge", oracle_run, "--judge", "gpt-4o").error
    assert "--suite: expected the folder of suite 'small'" in told


def test_stale_scores_give_no_table(run: Path, ask: Callable[..., Any]) -> None:
    document = kit.scores(run)
    document["attempts"]["done"] += 1
    (run / "scores.json").write_text(json.dumps(document))
    with ChatServer(judge) as server:
        found = json.loads(ask(run, server).out)
    assert found["label_by_verdict"]["counts"] is None
    assert "expected scores of the run as it is" in found["label_by_verdict"]["reason"]
    assert all(c["verdict"] is None for c in found["cases"])


def test_the_cache_is_one_file_a_request_named_by_its_hash(run: Path,
                                                          ask: Callable[..., Any]) -> None:
    with ChatServer(judge) as server:
        assert ask(run, server, "--reask", "1").code == 0
    names = {p.name for p in (run / "judge" / "cache" / "rule").iterdir()}
    hashes = {c["request_sha256"] for c in json.loads(
        (run / "judge" / "rule.json").read_text())["cases"]}
    assert names == {f"{h}{r}.json" for h in hashes for r in ("", ".r2")}
