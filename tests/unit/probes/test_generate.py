"""What a model is told, what is made of its answer, and how tries follow each other."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from probes_testkit import load_builtin, write_suite

from audio.errors import InputError
from probes.gates import (
    ASSISTANT_WORDS,
    FLOOR_PHRASES,
    allowed_range_s,
    check_candidate,
    estimated_s,
)
from probes.generate import (
    Outcome,
    conversation_yaml,
    conversations_of,
    rejections_by_rule,
    write_conversation,
)
from probes.generate_answer import (
    MAX_CHARS,
    AnswerRefused,
    Rejection,
    critic_rejections,
    gate_rejections,
    json_object,
    read_conversation,
)
from probes.generate_brief import REGISTERS, Brief, brief_of, register_of, word_budget
from probes.generate_prompt import (
    FORBIDDEN_EXAMPLES,
    MAX_TOLD,
    Models,
    critic_body,
    temperature,
    writer_body,
)
from probes.loader import load_suite
from probes.spec import Conversation, Suite

BUILTIN = load_builtin()
MODELS = Models("main", "spare", "critic")


def without(*ids: str) -> Suite:
    return replace(BUILTIN, conversations={k: v for k, v in BUILTIN.conversations.items()
                                           if k not in ids})


def answer(conversation: Conversation, **changes: object) -> str:
    value = conversation.model_dump(exclude_none=True, exclude={"id"})
    return json.dumps({k: v for k, v in {**value, **changes}.items() if v is not ...})


def user(body: bytes) -> str:
    return str(json.loads(body)["messages"][1]["content"])


@dataclass(frozen=True)
class Said:
    content: str
    finish_reason: str | None = "stop"


@dataclass
class Scripted:
    """Answers in order; keeps the requests."""

    script: list[Any]
    bodies: list[bytes] = field(default_factory=list)

    def __call__(self, body: bytes) -> Said:
        self.bodies.append(body)
        step = self.script[len(self.bodies) - 1]
        if isinstance(step, Exception):
            raise step
        return Said(step) if isinstance(step, str) else step

    @property
    def values(self) -> list[dict[str, Any]]:
        return [json.loads(b) for b in self.bodies]


def run(conversation_id: str, *script: Any) -> tuple[Outcome, Scripted]:
    suite = without(conversation_id)
    ask = Scripted(list(script))
    return write_conversation(suite, brief_of(suite, conversation_id), MODELS, ask), ask


# --- what is asked ---------------------------------------------------------------------------


def test_settings_of_the_four_tries() -> None:
    brief = brief_of(BUILTIN, "R1-A-1")
    requests = [json.loads(writer_body(brief, MODELS, i, ())) for i in range(4)]
    assert [r["temperature"] for r in requests] == [0.7, 0.8, 0.9, 1.0]
    assert [r["model"] for r in requests] == ["main", "main", "spare", "spare"]
    for r in requests:
        assert set(r) == {"model", "temperature", "max_tokens", "response_format", "messages"}
        assert (r["max_tokens"], r["response_format"]) == (1500, {"type": "json_object"})
    judge = json.loads(critic_body(brief, MODELS, BUILTIN.conversations["R1-A-1"]))
    assert (judge["model"], judge["temperature"]) == ("critic", 0)
    assert judge["response_format"] == {"type": "json_object"}
    assert temperature(0) == 0.7


def test_a_request_is_canonical_json() -> None:
    body = writer_body(brief_of(BUILTIN, "R1-A-1"), MODELS, 0, ())
    assert body == json.dumps(json.loads(body), sort_keys=True, separators=(",", ":"),
                              ensure_ascii=False).encode()


@pytest.mark.parametrize(("target_s", "words"), [
    ((5.0, 7.0), (14, 19)), ((0.6, 1.6), (2, 4)), ((6.0, 9.0), (17, 24)), ((0.1, 0.2), (1, 1))])
def test_word_budget(target_s: tuple[float, float], words: tuple[int, int]) -> None:
    assert word_budget(target_s, (2.6, 2.9)) == words


def test_the_budget_lies_within_what_the_gate_allows() -> None:
    rates = BUILTIN.info.words_per_second
    for probe in BUILTIN.probes:
        for spec in probe.speech:
            assert spec.target_s is not None
            low_s, high_s = allowed_range_s(spec.target_s)
            for n in word_budget(spec.target_s, rates):
                assert low_s <= estimated_s("word " * n, rates) <= high_s, (probe.id, spec.name)


def test_every_cell_says_all_that_its_gates_and_critic_hold_against_it() -> None:
    for conversation_id in BUILTIN.wanted():
        brief = brief_of(BUILTIN, conversation_id)
        text = user(writer_body(brief, MODELS, 0, ()))
        structure = brief.structure
        assert "JSON" in text  # JSON mode wants the word
        assert structure.premise in text
        assert structure.event in text
        for spec in structure.segments:
            if spec.kind == "speech":
                assert re.search(rf'^\d\. "{spec.name}": \d+ to \d+ words', text, re.M), spec.name
            else:
                assert f"silence of {spec.duration_s:g} s" in text
        for word in (*brief.job_words, *ASSISTANT_WORDS):
            assert word in text
        skeleton = json.loads(text[text.rindex("filled in: ") + len("filled in: "):])
        assert list(skeleton["turn2"]) == [s.name for s in structure.speech]
        assert ("target" in skeleton) == bool(structure.target_from)
        assert ("l4b_append" in skeleton) == (conversation_id.startswith("R2-B"))
        judged = user(critic_body(brief, MODELS, BUILTIN.conversations[conversation_id]))
        assert structure.premise in judged
        for spoken in BUILTIN.conversations[conversation_id].turn2.values():
            assert json.dumps(spoken)[1:-1] in judged
        assert "persona" not in (text + judged).lower()
        for role in BUILTIN.roles:
            assert role.persona not in text
            assert role.directive not in text


def test_shared_audio_must_suit_every_role_that_uses_it() -> None:
    brief = brief_of(BUILTIN, "S-C1-2")
    assert brief.domains == tuple(BUILTIN.role(r).domain for r in ("R1", "R2", "R3"))
    assert {"triage", *BUILTIN.role("R3").job_words} <= set(brief.job_words)
    assert "must suit each of them equally" in user(writer_body(brief, MODELS, 0, ()))


def test_only_earlier_instances_of_the_cell_are_to_differ_from() -> None:
    situations = [BUILTIN.conversations[f"R1-A-{i}"].situation for i in (1, 2)]
    assert brief_of(BUILTIN, "R1-A-3").different_from == tuple(situations)
    assert brief_of(without("R1-A-1"), "R1-A-3").different_from == (situations[1],)
    assert brief_of(BUILTIN, "R1-A-1").different_from == ()


@pytest.mark.parametrize(("conversation_id", "said"), [
    ("R1-C3-1", "spoken into the other side's answer, 3 s after it begins"),
    ("R8-B-1", "spoken into the other side's answer, 2 s after it begins"),
    ("R1-A-1", "Between the turns the other side answers turn 1")])
def test_what_happens_between_the_turns_is_told(conversation_id: str, said: str) -> None:
    brief = brief_of(BUILTIN, conversation_id)
    assert said in user(writer_body(brief, MODELS, 0, ()))
    assert said in user(critic_body(brief, MODELS, BUILTIN.conversations[conversation_id]))


def test_a_given_situation_is_told() -> None:
    brief = brief_of(BUILTIN, "R1-A-1", "a roofer on a ladder")
    assert "Situation: a roofer on a ladder" in user(writer_body(brief, MODELS, 0, ()))


def test_the_speaker_is_chosen_by_the_id_alone() -> None:
    assert register_of("R1-A-1") == register_of("R1-A-1")
    # sha256sum gives 9cd3a60d...ceff132e, which is 3 modulo 11.
    assert register_of("R1-A-1") == REGISTERS[3] == "45 to 54 years old"
    assert {register_of(i) for i in BUILTIN.wanted()} == set(REGISTERS)


def test_the_examples_of_forbidden_talk_are_those_of_the_gate() -> None:
    for example in FORBIDDEN_EXAMPLES:
        assert any(re.fullmatch(p, example) for p in FLOOR_PHRASES), example
    for pattern in FLOOR_PHRASES:
        assert any(re.fullmatch(pattern, e) for e in FORBIDDEN_EXAMPLES), pattern


# --- which conversations ---------------------------------------------------------------------


def test_cells_to_conversations_in_grid_order() -> None:
    assert conversations_of(BUILTIN, ["R1-C1"], []) == (
        "S-C1-1", "S-C1-2", "S-C1-3", "S-C1-4", "R1-C1-5")
    assert conversations_of(BUILTIN, ["R2-B", "R1-A"], [2]) == ("R1-A-2", "R2-B-2")
    assert conversations_of(BUILTIN, ["R[123]-C1"], [1, 5]) == (
        "S-C1-1", "R1-C1-5", "R2-C1-5", "R3-C1-5")
    assert set(conversations_of(BUILTIN, ["*"], [])) == set(BUILTIN.wanted())


@pytest.mark.parametrize(("cells", "instances", "message"), [
    (["R1-D"], [], r"--cell: expected a cell of dsb-ifeval, got 'R1-D'; did you mean 'R1-"),
    (["R1-A", "r1-a"], [], r"got 'r1-a'; did you mean 'R1-A'"),
    (["R1-A"], [0], "--instance: expected an instance from 1 to 5, got 0"),
    (["R1-A"], [6], "--instance: expected an instance from 1 to 5, got 6")])
def test_unknown_cells_and_instances(cells: list[str], instances: list[int],
                                     message: str) -> None:
    with pytest.raises(InputError, match=message):
        conversations_of(BUILTIN, cells, instances)


# --- reading answers -------------------------------------------------------------------------

R1A = BUILTIN.conversations["R1-A-1"]
R6B = BUILTIN.conversations["R6-B-1"]
R2B = BUILTIN.conversations["R2-B-1"]


def brief(conversation_id: str) -> Brief:
    return brief_of(BUILTIN, conversation_id)


@pytest.mark.parametrize("conversation", [R1A, R6B, R2B])
def test_an_answer_becomes_the_conversation(conversation: Conversation) -> None:
    assert read_conversation(brief(conversation.id), answer(conversation)) == conversation


def test_fences_blanks_and_typographic_quotes_are_made_plain() -> None:
    text = answer(R1A, turn1="My  arm\nhurts, it\u2019s \u201cbad\u201d.")
    read = read_conversation(brief("R1-A-1"), f"\ufeff ```json\n{text}\n```\n")
    assert read.turn1 == "My arm hurts, it's \"bad\"."
    assert read.turn2 == R1A.turn2


def test_pieces_come_in_the_order_of_the_structure() -> None:
    backwards = dict(reversed(R1A.turn2.items()))
    read = read_conversation(brief("R1-A-1"), answer(R1A, turn2=backwards))
    assert list(read.turn2) == ["lead", "trigger", "continuation"]


@pytest.mark.parametrize(("text", "rule", "why"), [
    ("", "answer_json", "one JSON object"),
    ("I cannot help with that.", "answer_json", "one JSON object"),
    ("Here you are: {}", "answer_json", "one JSON object"),
    ('{"a":1} and more', "answer_json", "one JSON object"),
    ("[]", "answer_json", "got list"),
    ("null", "answer_json", "got NoneType"),
    ('{"a":1,"a":2}', "answer_json", "expected the key 'a' once, got it again"),
    ('{"a":NaN}', "answer_json", "NaN is no JSON number"),
    ("[" * 15_000, "answer_json", ""),
    ("1" * 10_000, "answer_json", ""),
    ("x" * (MAX_CHARS + 1), "answer_json", "at most 20000 characters"),
    ("```" + "\n" * 15_000 + "x", "answer_json", "one JSON object"),
    ("```" + "\n" * 15_000 + "```", "answer_json", "one JSON object"),
    ("``````", "answer_json", "one JSON object"), ("```", "answer_json", "one JSON object"),
    ("```a b\n{}\n```", "answer_json", "one JSON object"),
    ("```json\n{}\n``` done", "answer_json", "one JSON object"),
    ("{}", "answer_shape", "'situation': Field required"),
    (answer(R1A, notes="hm"), "answer_shape", "unknown key 'notes'"),
    (answer(R1A, id="R1-A-1"), "answer_shape", "unknown key 'id'"),
    (answer(R1A, turn1=7), "answer_shape", "'turn1': Input should be a valid string"),
    (answer(R1A, turn1=None), "answer_shape", "'turn1'"),
    (answer(R1A, turn1="x" * 601), "answer_shape", "'turn1'"),
    (answer(R1A, turn2=["a", "b", "c"]), "answer_shape", "'turn2'"),
    (answer(R1A, turn2={**R1A.turn2, "lead": {"text": "a"}}), "answer_shape", "'turn2.lead'"),
    (answer(R1A, turn2={"lead": "a", "trigger": "b"}), "answer_shape", "lacks continuation"),
    (answer(R1A, turn2={**R1A.turn2, "coda": "x"}), "answer_shape", "no piece 'coda'"),
    (answer(R1A, turn2={**R1A.turn2, "\x1b[2J" * 99: "x"}), "answer_shape", r"no piece '\\x1b"),
    (answer(R1A, target="one two"), "answer_shape", "no target is wanted"),
    (answer(R1A, l4b_append={"trigger": "a", "continuation": "b"}), "answer_shape",
     "no l4b_append is wanted"),
    (answer(R2B, l4b_append=...), "answer_shape", "'turn2|lacks"),
    (answer(R1A, situation=""), "answer_shape", "'situation'"),
    (answer(R1A, situation=" \n "), "answer_shape", "situation must be one line"),
    (answer(R1A, situation="a\x1b[2Jb"), "answer_shape", "situation must be one line"),
    (answer(R1A, situation="a\ud800"), "answer_shape", "")])
def test_hostile_answers(text: str, rule: str, why: str) -> None:
    with pytest.raises(AnswerRefused) as refused:
        read_conversation(brief("R1-A-1"), text)
    rejection = refused.value.rejection
    assert rejection.rule == rule
    assert re.search(why, rejection.detail), rejection.detail
    assert rejection.detail.isprintable()
    assert len(rejection.detail) <= 200
    assert rejection.told


@pytest.mark.parametrize("target", ["caf\u00e9", "one \x1b[2J"])
def test_a_target_is_plain_words(target: str) -> None:
    with pytest.raises(AnswerRefused, match="target must be plain ASCII words"):
        read_conversation(brief("R6-B-1"), answer(R6B, target=target))


@pytest.mark.parametrize("fenced", ["```\n{}\n```", "```JSON \r\n{}\r\n```", "```json\n{}```"])
def test_a_fence_is_taken_off(fenced: str) -> None:
    assert json_object(fenced) == {}


def test_a_missing_append_is_told() -> None:
    with pytest.raises(AnswerRefused, match="l4b_append with trigger and continuation"):
        read_conversation(brief("R2-B-1"), answer(R2B, l4b_append=...))


@settings(max_examples=100, deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=20),
                    lambda inner: st.lists(inner, max_size=4)
                    | st.dictionaries(st.sampled_from(["situation", "turn1", "turn2", "lead",
                                                       "trigger", "continuation", "x"]),
                                      inner, max_size=7), max_leaves=20))
def test_any_json_is_a_conversation_or_refused(value: Any) -> None:
    with contextlib.suppress(AnswerRefused):
        read = read_conversation(brief("R1-A-1"), json.dumps(value))
        assert list(read.turn2) == ["lead", "trigger", "continuation"]


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_an_object_or_refused(text: str) -> None:
    with contextlib.suppress(AnswerRefused):
        assert isinstance(json_object(text), dict)


# --- the critic ------------------------------------------------------------------------------


def test_verdicts() -> None:
    assert critic_rejections('{"verdict":"pass","reasons":[]}') == ()
    assert critic_rejections('{"verdict":"pass"}') == ()
    assert critic_rejections('{"verdict":"pass","reasons":["fine"]}') == ()
    assert critic_rejections('{"verdict":"fail","reasons":["trigger: not\\nurgent"," "]}') == (
        Rejection("critic", "trigger: not urgent"),)
    assert critic_rejections('{"verdict":"fail"}') == (Rejection("critic", "no reason was given"),)
    many = critic_rejections(json.dumps({"verdict": "fail", "reasons": ["r" * 300] * 50}))
    assert [len(r.detail) for r in many] == [200] * 8


@pytest.mark.parametrize("text", [
    "", "pass", "{}", '{"verdict":"PASS"}', '{"verdict":true}', '{"verdict":"pass","score":5}',
    '{"verdict":"pass","reasons":"none"}', '{"verdict":"pass","reasons":[1]}',
    '{"verdict":"fail","verdict":"pass"}', '{"verdict":["pass"]}',
    json.dumps({"verdict": "pass", "reasons": ["r"] * 101})])
def test_what_is_no_verdict_passes_nothing(text: str) -> None:
    with pytest.raises(AnswerRefused) as refused:
        critic_rejections(text)
    assert (refused.value.rejection.rule, refused.value.rejection.told) == (
        "critic_unreadable", False)


# --- gates -----------------------------------------------------------------------------------


def test_gates_judge_a_conversation_within_its_suite() -> None:
    assert gate_rejections(without("R1-A-1"), R1A) == ()
    copied = R1A.model_copy(update={"turn1": BUILTIN.conversations["R4-A-2"].turn1})
    (repeated,) = gate_rejections(BUILTIN, copied)
    assert repeated.rule == "text_repeated"
    assert repeated.detail.startswith("turn1: the same text as conversation R4-A-2.turn1")
    # Its own older version is replaced, not repeated.
    assert check_candidate(BUILTIN, R1A) == ()


@pytest.mark.parametrize(("changes", "rule", "where"), [
    ({"turn1": "And then it got worse, you see, all through the night and on into the morning."},
     "turn1_not_self_contained", "turn1"),
    ({"trigger": "hold on"}, "turn_taking_mentioned", "turn2.trigger"),
    ({"trigger": "my left arm has gone numb 2 times"}, "not_spoken_form", "turn2.trigger"),
    ({"lead": "short"}, "duration_off_target", "turn2.lead"),
    ({"continuation": ""}, "segment_missing", "turn2.continuation")])
def test_what_a_gate_refuses_is_told_with_its_place(changes: dict[str, str], rule: str,
                                                    where: str) -> None:
    turn1 = changes.get("turn1", R1A.turn1)
    turn2 = {**R1A.turn2, **{k: v for k, v in changes.items() if k != "turn1"}}
    found = gate_rejections(BUILTIN, R1A.model_copy(update={"turn1": turn1, "turn2": turn2}))
    assert rule in [r.rule for r in found]
    assert any(r.detail.startswith(f"{where}: ") for r in found if r.rule == rule)


# --- tries -----------------------------------------------------------------------------------

PASS = '{"verdict":"pass"}'


def test_accepted_at_the_first_try() -> None:
    outcome, ask = run("R1-A-1", answer(R1A), PASS)
    assert outcome.conversation == R1A
    assert [(t.number, t.model, t.temperature, t.rejections) for t in outcome.tries] == [
        (1, "main", 0.7, ())]
    assert [v["temperature"] for v in ask.values] == [0.7, 0]


def test_each_refusal_is_told_to_the_next_try() -> None:
    short = answer(R1A, turn2={**R1A.turn2, "lead": "short"})
    outcome, ask = run("R1-A-1", "no JSON", short, answer(R1A),
                       '{"verdict":"fail","reasons":["trigger: not urgent"]}', answer(R1A), PASS)
    assert outcome.conversation == R1A
    writers = [v for v in ask.values if v["model"] != "critic"]
    assert [(w["model"], w["temperature"]) for w in writers] == [
        ("main", 0.7), ("main", 0.8), ("spare", 0.9), ("spare", 1.0)]
    texts = [w["messages"][1]["content"] for w in writers]
    assert "refused" not in texts[0]
    assert "- expected one JSON object" in texts[1]
    assert "- turn2.lead: estimated" in texts[2]
    assert "- expected one JSON object" in texts[2]
    assert "- trigger: not urgent" in texts[3]
    assert [[r.rule for r in t.rejections] for t in outcome.tries] == [
        ["answer_json"], ["duration_off_target"], ["critic"], []]


def test_after_four_tries_there_is_no_fifth() -> None:
    outcome, ask = run("R1-A-1", *["no"] * 4)
    assert outcome.conversation is None
    assert len(ask.bodies) == 4
    assert rejections_by_rule([outcome]) == {"answer_json": 4}


def test_a_cut_answer_and_a_lost_one_cost_a_try() -> None:
    lost = AnswerRefused(Rejection("answer_empty", "expected text, got none", told=False))
    outcome, ask = run("R1-A-1", Said(answer(R1A), "length"), lost, answer(R1A), lost,
                       answer(R1A), "not a verdict")
    assert outcome.conversation is None
    assert [r.rule for t in outcome.tries for r in t.rejections] == [
        "answer_cut", "answer_empty", "critic_answer_empty", "critic_unreadable"]
    last = ask.values[4]["messages"][1]["content"]
    assert "longer than allowed" in last
    assert "expected text" not in last


def test_what_is_told_is_bounded() -> None:
    brief = brief_of(BUILTIN, "R1-A-1")
    text = user(writer_body(brief, MODELS, 1, [f"reason {i}" for i in range(50)] + ["reason 49"]))
    assert text.count("\n- reason") == MAX_TOLD
    assert text.count("reason 49") == 1


def test_equal_tries_are_equal_requests() -> None:
    first, second = (run("R1-A-1", "no JSON", answer(R1A), PASS)[1].bodies for _ in range(2))
    assert first == second


# --- the file --------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60), st.text(st.characters(codec="utf-8"), max_size=60))
def test_a_file_reads_back_as_the_conversation(text: str, note: str) -> None:
    from probes.generate_answer import plain

    clean = plain("".join(c for c in text if c.isprintable()))
    conversation = R2B.model_copy(update={
        "situation": clean, "turn1": clean, "turn2": {**R2B.turn2, "lead": clean}})
    read = yaml.safe_load(conversation_yaml(conversation, note))
    assert Conversation.model_validate(read["conversations"][0]) == conversation


ODD = ["no", "null", "1.5", "- a", "{a: b}", "a: b", "# a", "'", "~", "2020-01-01", "*a", "&a",
       "!!python/none", "yes, I do: I do"]
"""Words that YAML would take for something else."""


def test_the_loader_reads_odd_words_as_they_were_written(tmp_path: Path) -> None:
    suite = write_suite(tmp_path / "suite", [])
    (suite / "conversations" / "all.yaml").unlink()
    written = {}
    for text, conversation_id in zip(ODD, BUILTIN.wanted(), strict=False):
        conversation = BUILTIN.conversations[conversation_id].model_copy(update={"turn1": text})
        written[conversation_id] = conversation
        (suite / "conversations" / f"{conversation_id}.yaml").write_text(
            conversation_yaml(conversation, "a note\nid: x"), encoding="utf-8")
    assert len(written) == len(ODD)
    assert load_suite(suite).conversations == written
