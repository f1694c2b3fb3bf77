"""The server's side of the protocol, message by message: order, counts, interruption."""

from __future__ import annotations

import base64

import cascade_testkit as kit
import numpy as np
import pytest
from cascade_turns import DELTAS, ENDING, HELLO, TURN, error, replying

from adapters.cascade.protocol import Recognise, Say

# --- one turn


def test_the_session_opens_with_its_settings() -> None:
    event, = kit.Client().events
    assert event["type"] == "session.created"
    session = event["session"]
    assert session["type"] == "realtime"
    assert session["audio"]["input"]["turn_detection"] == {
        "type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300,
        "silence_duration_ms": 500, "idle_timeout_ms": None, "create_response": True,
        "interrupt_response": True}


def test_the_events_of_a_turn_come_in_their_order(client: kit.Client) -> None:
    client.write(HELLO)
    kinds = client.kinds
    assert kinds[:len(TURN)] == TURN
    assert kinds[-len(ENDING):] == ENDING
    between = kinds[len(TURN):-len(ENDING)]
    assert set(between) == set(DELTAS)
    assert between[:2] == DELTAS


def test_every_event_has_an_id_of_its_own(client: kit.Client) -> None:
    client.write(HELLO)
    ids = [event["event_id"] for event in client.events]
    assert len(set(ids)) == len(ids)


def test_the_events_of_a_turn_speak_of_the_same_things(client: kit.Client) -> None:
    client.write(HELLO)
    started, stopped, committed, added, done, created = client.events[:6]
    user = started["item_id"]
    assert {user} == {stopped["item_id"], committed["item_id"], added["item"]["id"],
                      done["item"]["id"]}
    assert committed["previous_item_id"] is None
    assert added["item"]["content"] == [{"type": "input_audio", "transcript": None}]
    response_id = created["response"]["id"]
    assert created["response"]["status"] == "in_progress"
    final = client.events[-1]["response"]
    assert (final["id"], final["status"]) == (response_id, "completed")
    item = final["output"][0]
    assert (item["role"], item["status"]) == ("assistant", "completed")
    for event in client.events[6:-1]:
        if event["type"].startswith("response."):
            assert event["response_id"] == response_id
            assert event.get("item_id", item["id"]) == item["id"]
    _, assistant = client.of("conversation.item.added")
    assert assistant["previous_item_id"] == user


def test_transcript_and_audio_are_the_sum_of_their_deltas(client: kit.Client) -> None:
    client.write(HELLO)
    said = "".join(e["delta"] for e in client.of(DELTAS[0]))
    assert said == "Hello, I can hear you. What can I do for you?"
    assert client.of("response.output_audio_transcript.done")[0]["transcript"] == said
    assert client.of("conversation.item.done")[-1]["item"]["content"] == [
        {"type": "output_audio", "transcript": said}]
    pcm = b"".join(base64.b64decode(e["delta"]) for e in client.of(DELTAS[1]))
    assert len(pcm) == 2 * (24_000 + 6_000 + 24_000)  # two sentences of 1 s, 0.25 s between them


def test_a_second_turn_follows_the_first(client: kit.Client) -> None:
    client.write(HELLO)
    first = client.of("conversation.item.done")[-1]["item"]["id"]
    client.forget()
    client.write(HELLO)
    assert client.of("input_audio_buffer.committed")[0]["previous_item_id"] == first
    assert client.of("response.done")[0]["response"]["status"] == "completed"


def test_the_recogniser_gets_the_audio_of_the_turn(patient: kit.Client) -> None:
    patient.write(HELLO)
    started, stopped = patient.events[0], patient.events[1]
    job, = patient.jobs
    assert isinstance(job, Recognise)
    assert np.array_equal(job.pcm, HELLO[started["audio_start_ms"] * 24:
                                         stopped["audio_end_ms"] * 24])
    assert len(job.pcm) > len(kit.speech("Good morning, everybody."))


# --- milliseconds of audio


def test_the_edges_count_audio_written_with_padding_and_silence(client: kit.Client) -> None:
    client.write(kit.silence(2.0))
    client.write(kit.utterance("Good morning, everybody.", before_s=1.0, after_s=1.0))
    started, stopped = client.events[0], client.events[1]
    speech_ms = len(kit.speech("Good morning, everybody.")) / 24
    assert started["audio_start_ms"] == pytest.approx(3000 - 300, abs=100)
    assert stopped["audio_end_ms"] == pytest.approx(3000 + speech_ms + 500, abs=150)


@pytest.mark.parametrize("chunk_n", [480, 24_000, 10**7])
def test_how_the_audio_is_cut_does_not_move_the_edges(chunk_n: int) -> None:
    client = kit.Client()
    client.forget()
    client.write(np.concatenate([HELLO, HELLO]), chunk_n)
    edges = [(e["type"], e.get("audio_start_ms", e.get("audio_end_ms"))) for e in client.events
             if e["type"].startswith("input_audio_buffer.speech")]
    assert len(edges) == 4
    reference = kit.Client()
    reference.write(np.concatenate([HELLO, HELLO]), 777)
    assert edges == [(e["type"], e.get("audio_start_ms", e.get("audio_end_ms")))
                     for e in reference.events if e["type"].startswith("input_audio_buffer.speech")]


def test_padding_never_reaches_before_the_first_sample(client: kit.Client) -> None:
    client.send("session.update", session={"type": "realtime", "audio": {"input": {
        "turn_detection": {"type": "server_vad", "prefix_padding_ms": 5000}}}})
    client.write(HELLO)
    assert client.of("input_audio_buffer.speech_started")[0]["audio_start_ms"] == 0


def test_padding_never_reaches_into_the_turn_before(client: kit.Client) -> None:
    client.send("session.update", session={"type": "realtime", "audio": {"input": {
        "turn_detection": {"type": "server_vad", "prefix_padding_ms": 5000}}}})
    client.write(np.concatenate([HELLO, HELLO]))
    first_end = client.of("input_audio_buffer.speech_stopped")[0]["audio_end_ms"]
    second_start = client.of("input_audio_buffer.speech_started")[1]["audio_start_ms"]
    assert second_start == first_end


def test_the_count_goes_on_after_clear(client: kit.Client) -> None:
    client.write(kit.silence(4.0))
    assert [e["type"] for e in client.send("input_audio_buffer.clear")] == [
        "input_audio_buffer.cleared"]
    client.write(HELLO)
    assert client.of("input_audio_buffer.speech_started")[0]["audio_start_ms"] > 4000


# --- interruption and cancellation


def test_speech_during_a_reply_ends_it(patient: kit.Client) -> None:
    response_id = replying(patient)
    patient.forget()
    patient.write(HELLO[:24_000])
    assert patient.kinds == ["input_audio_buffer.speech_started", *ENDING]
    response = patient.events[-1]["response"]
    assert response["id"] == response_id
    assert response["status"] == "cancelled"
    assert response["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert response["output"][0]["status"] == "incomplete"
    assert patient.session.active_response is None


def test_what_was_not_sent_before_an_interruption_never_is(patient: kit.Client) -> None:
    replying(patient)
    say = patient.jobs[-1]
    patient.write(HELLO[:24_000])
    patient.forget()
    patient.say(say)
    assert patient.events == []


def test_speech_before_the_reply_begins_cancels_it_without_output(patient: kit.Client) -> None:
    patient.write(HELLO)
    patient.forget()
    patient.write(HELLO[:24_000])
    assert patient.kinds == ["input_audio_buffer.speech_started", "response.done"]
    assert patient.events[-1]["response"]["output"] == []


def test_an_interrupted_turn_is_answered_with_the_next(client: kit.Client) -> None:
    """Dictation with pauses: what was cut off is still to be answered."""
    client.automatic = False
    client.write(HELLO)
    first, = client.jobs
    client.write(HELLO)
    second = client.jobs[-1]
    assert isinstance(first, Recognise)
    assert isinstance(second, Recognise)
    client.take(client.session.recognised(second.item_id, ("two", "zero", "six")))
    assert not any(isinstance(job, Say) for job in client.jobs)  # the first is not known yet
    client.take(client.session.recognised(first.item_id, ("four", "one", "five")))
    say = client.jobs[-1]
    assert isinstance(say, Say)
    assert say.sentences[0] == "I have four one five, two zero six."


def test_without_interruption_the_reply_is_finished_and_the_turn_answered_after(
    patient: kit.Client,
) -> None:
    patient.send("session.update", session={"type": "realtime", "audio": {"input": {
        "turn_detection": {"type": "server_vad", "interrupt_response": False}}}})
    patient.forget()
    response_id = replying(patient)
    patient.forget()
    patient.write(HELLO)
    assert patient.kinds == TURN[:5]
    patient.take(patient.session.finish(response_id))
    assert patient.kinds[5:] == [*ENDING, "response.created"]
    assert patient.of("response.done")[0]["response"]["status"] == "completed"


def test_without_automatic_replies_the_client_asks_for_them(client: kit.Client) -> None:
    client.send("session.update", session={"type": "realtime", "audio": {"input": {
        "turn_detection": {"type": "server_vad", "create_response": False}}}})
    client.forget()
    client.write(HELLO)
    assert client.kinds == TURN[:5]
    client.send("response.create")
    assert client.of("response.done")[0]["response"]["status"] == "completed"


def test_the_client_cancels(patient: kit.Client) -> None:
    response_id = replying(patient)
    patient.forget()
    events = patient.send("response.cancel", response_id=response_id)
    assert [e["type"] for e in events] == ENDING
    assert events[-1]["response"]["status_details"] == {
        "type": "cancelled", "reason": "client_cancelled"}


def test_cancelling_nothing_is_an_error_and_no_more(patient: kit.Client) -> None:
    error(patient.send("response.cancel", event_id="e1"), "response_cancel_not_active", "e1")
    response_id = replying(patient)
    error(patient.send("response.cancel", response_id="resp_other"), "response_cancel_not_active")
    assert patient.session.active_response == response_id


def test_a_second_reply_at_once_is_refused(patient: kit.Client) -> None:
    replying(patient)
    error(patient.send("response.create"), "conversation_already_has_active_response")
