"""Each gate fires on what it is for, tells where and which words, and lets the rest pass."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from probes_testkit import load_builtin, sentence, synthetic_conversations

from audio.errors import InputError
from probes.gates import (
    GateError,
    GateFailure,
    allowed_range_s,
    check_conversation,
    check_prompts,
    check_suite,
    estimated_s,
    require,
    spoken_tokens,
)
from probes.leakage import overlap, word_count
from probes.spec import Conversation, Suite

BUILTIN = load_builtin()
ITEMS = {c["id"]: c for c in synthetic_conversations(BUILTIN)}


def conversation(conversation_id: str, **changes: object) -> Conversation:
    item = {**ITEMS[conversation_id], **{k: v for k, v in changes.items() if k != "turn2"}}
    item["turn2"] = {**item["turn2"], **changes.get("turn2", {})}  # type: ignore[dict-item]
    return Conversation.model_validate(item)


def failures(one: Conversation) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(f.item.split(".", 1)[-1], f.rule, f.words) for f in check_conversation(BUILTIN, one)]


def with_persona(role_id: str, persona: str) -> Suite:
    roles = tuple(r.model_copy(update={"persona": persona}) if r.id == role_id else r
                  for r in BUILTIN.roles)
    return replace(BUILTIN, roles=roles)


# --- the shipped suite -----------------------------------------------------------------------


def test_the_shipped_suite_is_complete_and_passes_every_gate() -> None:
    assert BUILTIN.missing() == ()
    assert [str(f) for f in check_suite(BUILTIN)] == []


def test_the_table_of_leakage_in_the_documents_is_what_the_gates_compute() -> None:
    page = Path(__file__).parents[3] / "docs" / "suite.md"
    text = page.read_text(encoding="utf-8")
    for role in BUILTIN.roles:
        index, shared = overlap(role.persona, role.directive)
        assert index < 0.06
        row = (f"| {role.id} | {index:.3f} | {word_count(role.persona)} | "
               f"{', '.join(shared) or 'none'} |")
        assert row in text


# --- prompts ---------------------------------------------------------------------------------


def test_imperative_lint_names_the_words_and_the_line() -> None:
    persona = BUILTIN.role("R2").persona + " Never Interrupt; wait."
    [found] = check_prompts(with_persona("R2", persona))
    assert (found.rule, found.words) == ("persona_imperative", ("Interrupt", "wait"))
    assert found.file.endswith("roles.yaml")
    assert found.line == BUILTIN.origin("role R2.persona").line > 1


def test_overlap_gate_is_strict_at_015() -> None:
    words = [f"w{a}{b}" for a in "abcdefghij" for b in "abcdefghij"]  # 100 content words
    role = BUILTIN.role("R1")

    def suite(shared: int) -> Suite:
        # persona 60 words, directive `shared` of them and others: union 100
        changed = role.model_copy(update={"persona": " ".join(words[:60]), "directive": " ".join(
            words[60 - shared:])})
        return replace(BUILTIN, roles=(changed,))

    assert list(check_prompts(suite(14))) == []          # 14 / 100
    [found] = check_prompts(suite(15))                   # 15 / 100 is not below 0.15
    assert found.rule == "persona_overlap"
    assert "got 0.150" in found.detail
    assert len(found.words) == 15


@pytest.mark.parametrize(("n", "passes"), [(59, False), (60, True), (120, True), (121, False)])
def test_persona_length(n: int, passes: bool) -> None:
    found = list(check_prompts(with_persona("R8", sentence("persona", n))))
    assert [f.rule for f in found] == ([] if passes else ["persona_length"])
    assert passes or f"got {n}" in found[0].detail


# --- structure -------------------------------------------------------------------------------


def test_synthetic_conversations_pass() -> None:
    for conversation_id in ITEMS:
        assert failures(conversation(conversation_id)) == [], conversation_id


@pytest.mark.parametrize(("conversation_id", "name", "rule"), [
    ("S-C1-1", "resumption", "pause_without_resumption"),
    ("R2-A-1", "resumption", "pause_without_resumption"),
    ("R5-C2-1", "chunk2", "pause_without_resumption"),
    ("S-C4-1", "resumption", "check_turn_ends_at_pause"),
    ("R1-A-1", "trigger", "segment_missing"),
    ("S-C1-1", "opening", "segment_missing"),
])
@pytest.mark.parametrize("text", ["", "  ", "..."])
def test_a_segment_without_words(conversation_id: str, name: str, rule: str, text: str) -> None:
    one = conversation(conversation_id, turn2={name: text})
    assert (f"turn2.{name}", rule) in [f[:2] for f in failures(one)]


def test_a_segment_that_is_not_written_at_all() -> None:
    turn2 = dict(ITEMS["S-C4-1"]["turn2"])
    del turn2["resumption"]
    one = Conversation.model_validate({**ITEMS["S-C4-1"], "turn2": turn2})
    assert failures(one) == [("turn2.resumption", "check_turn_ends_at_pause", ())]


@pytest.mark.parametrize(("conversation_id", "key", "text", "rule", "words"), [
    ("R5-C1-1", "opening", "my tutor told me that the apple barn had a candle on the door inside",
     "assistant_mentioned", ("tutor",)),
    ("S-C1-1", "opening", "the Dispatcher said to me that the apple barn was on fire last night",
     "assistant_mentioned", ("Dispatcher",)),
    ("R2-C1-5", "opening", "you are only an assistant and the apple barn was on fire last night",
     "assistant_mentioned", ("assistant",)),
    ("R6-C1-1", "opening", "please let me finish and then read it back when the barn is closed ok",
     "turn_taking_mentioned", ("let me finish", "read it back")),
    ("R6-C1-1", "opening", "no, Wait, the apple barn had a candle on the door and inside there too",
     "turn_taking_mentioned", ("Wait",)),
    ("R2-B-1", "lead", "are you still there the apple barn had a candle on the door inside there",
     "check_phrase_merged", ("are you still there",)),
    ("R6-C1-1", "opening", "I want 2 of them for $3 and the apple barn candle door over there now",
     "not_spoken_form", ("2", "$3")),
    ("R6-C1-1", "opening", "so Dr. Apple took ten mg of it and the barn candle door was over there",
     "not_spoken_form", ("Dr", "mg")),
    ("R6-C1-1", "opening", "the caf\u00e9 apple barn candle door engine forest was there now",
     "not_spoken_form", ("\u00e9",)),
])
def test_words_that_give_the_game_away(conversation_id: str, key: str, text: str, rule: str,
                                       words: tuple[str, ...]) -> None:
    assert failures(conversation(conversation_id, turn2={key: text})) == [
        (f"turn2.{key}", rule, words)]


@pytest.mark.parametrize("text", [
    "we waited in the waiting room and nobody was interested in the apple barn on the hill",
    "I can hold one hand on the apple barn door and finish my letter in the other room then",
])
def test_harmless_words_pass(text: str) -> None:
    assert failures(conversation("R6-C1-1", turn2={"opening": text})) == []


def test_job_words_belong_to_a_role_and_shared_text_obeys_all_three() -> None:
    text = "my tutor told me that the apple barn had a candle on the door inside there"
    assert failures(conversation("R6-C1-1", turn2={"opening": text})) == []
    text = "the triage desk told me that the apple barn had a candle on the door there"
    assert failures(conversation("S-C1-1", turn2={"opening": text}))[0][1:] == (
        "assistant_mentioned", ("triage",))
    # R2 alone may say it: nobody would take a bereavement companion for a triage line
    assert failures(conversation("R2-C1-5", turn2={"opening": text})) == []


def test_a_check_phrase_is_at_home_in_its_own_segment() -> None:
    assert failures(conversation("R2-B-1", turn2={"question": "Are you still there?"})) == []
    assert failures(conversation("S-C4-1", turn2={"check": "You know what I mean?"})) == []


@pytest.mark.parametrize("key", ["lead", "continuation"])
def test_a_trigger_whose_words_stand_next_door(key: str) -> None:
    trigger = "took a second one, at nine"
    text = "well I took a second one at nine and apple barn candle door engine forest"
    assert failures(conversation("R1-B-1", turn2={"trigger": trigger, key: text})) == [
        (f"turn2.{key}", "trigger_merged", ("took a second one at nine",))]


@pytest.mark.parametrize(("turn1", "words"), [
    ("", ()),
    ("He fell off the apple barn this morning and then the candle was on the door inside.",
     ("He",)),
    ("And the apple barn fell this morning and then the candle was on the door inside.", ("And",)),
    ("The apple barn fell this morning and then the candle was on the door inside and so",
     ("so",)),
])
def test_turn_1_that_cannot_stand_alone(turn1: str, words: tuple[str, ...]) -> None:
    found = failures(conversation("R1-A-1", turn1=turn1))
    assert found == [("turn1", "turn1_not_self_contained", words)]


# --- duration --------------------------------------------------------------------------------


def test_estimated_length_and_allowed_range() -> None:
    assert estimated_s("one two three four five six seven eight nine ten eleven", (2.6, 2.9)) == (
        pytest.approx(4.0))
    assert allowed_range_s((4.0, 6.0)) == (2.0, 9.0)


@pytest.mark.parametrize(("n", "passes"), [
    (5, False),   # 5 / 2.75 = 1.82 s, below 2.0
    (6, True),    # 2.18 s
    (24, True),   # 8.73 s
    (25, False),  # 9.09 s, above 9.0
])
def test_duration_gate_on_words(n: int, passes: bool) -> None:
    found = failures(conversation("S-C1-1", turn2={"resumption": sentence("x", n)}))
    assert found == ([] if passes else [
        ("turn2.resumption", "duration_off_target", (f"{n} words",))])


def test_duration_gate_covers_turn_1_and_the_variant() -> None:
    assert failures(conversation("R1-A-1", turn1=sentence("x", 40)))[0][:2] == (
        "turn1", "duration_off_target")
    append = {"trigger": sentence("t", 7), "continuation": sentence("c", 40)}
    assert failures(conversation("R2-B-1", l4b_append=append))[0][:2] == (
        "l4b_append.continuation", "duration_off_target")


# --- read-back target ------------------------------------------------------------------------


def test_spoken_tokens_map_digits_and_split_runs() -> None:
    assert spoken_tokens("B as in Boy, four-oh 415 zero!") == (
        "b", "as", "in", "boy", "4", "0", "4", "1", "5", "0")


def test_target_tokens_must_be_spoken_as_often_as_they_are_wanted() -> None:
    turn2 = {"chunk1": "my code is four one five okay", "chunk2": "then oh nine and a nine",
             "chunk3": "on Maple Bend over there now"}
    good = conversation("R1-C2-1", turn2=turn2, target="415 0 9 nine Maple Bend")
    assert failures(good) == []
    bad = conversation("R1-C2-1", turn2=turn2, target="4 1 5 5 zero nine Maple Street")
    assert failures(bad) == [("target", "target_not_spoken", ("5", "street"))]


@pytest.mark.parametrize("target", [None, "", "!"])
def test_a_dictation_needs_a_target(target: str | None) -> None:
    assert failures(conversation("R4-C2-1", target=target)) == [("target", "target_missing", ())]


# --- across conversations --------------------------------------------------------------------


def test_the_same_long_text_twice_is_refused_and_short_check_phrases_are_not() -> None:
    one = conversation("R1-A-1", turn1="Eight apple barns fell down the hill this morning at "
                                       "the farm and nobody knows the reason for it.")
    other = conversation("R1-A-2", turn1=one.turn1.upper())
    check = {"check": "you know?"}
    four = {c.id: c for c in (one, other, conversation("S-C4-1", turn2=check),
                              conversation("S-C4-2", turn2=check))}
    suite = replace(BUILTIN, conversations=four)
    [found] = check_suite(suite)
    assert (found.item, found.rule) == ("conversation R1-A-2.turn1", "text_repeated")
    assert "conversation R1-A-1.turn1" in found.detail
    assert check_suite(suite, ["R1-A-2"]) == ()


# --- reporting -------------------------------------------------------------------------------


def test_all_failures_are_collected_and_the_message_is_one_line() -> None:
    one = conversation("R1-A-1", turn1="And wait.", turn2={"trigger": ""})
    suite = replace(BUILTIN, conversations={"R1-A-1": one})
    with pytest.raises(GateError, match=r"\(and 3 more\)") as caught:
        require(check_suite(suite))
    assert isinstance(caught.value, InputError)
    assert caught.value.exit_code == 2
    assert {f.rule for f in caught.value.failures} == {
        "segment_missing", "turn1_not_self_contained", "turn_taking_mentioned",
        "duration_off_target"}
    assert "\n" not in str(caught.value)


def test_a_failure_prints_file_line_item_rule_and_words() -> None:
    failure = GateFailure("R1.yaml", 7, "conversation R1-A-1.turn1", "turn_taking_mentioned",
                          ("wait",), "no talk of turns")
    assert str(failure) == ("R1.yaml:7: conversation R1-A-1.turn1: turn_taking_mentioned: no talk "
                            "of turns ['wait']")
    require([])
