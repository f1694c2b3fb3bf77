from __future__ import annotations

import pytest

from probes.leakage import content_words, imperatives, overlap, word_count


@pytest.mark.parametrize(("text", "found"), [
    ("You Wait for them.", ("Wait",)),
    ("You never let  them   finish.", ("let  them   finish",)),
    ("SPEAK, then pause.", ("SPEAK", "pause")),
    ("Take the floor; read back.", ("Take the floor", "read back")),
    ("Waiting rooms, speakers and responses are fine, paused or yielding.", ()),
    ("The awaited replying respondent.", ()),
])
def test_imperatives_match_whole_words_in_any_case(text: str, found: tuple[str, ...]) -> None:
    assert imperatives(text) == found


def test_every_word_of_the_published_list_is_caught() -> None:
    table = ("interrupt, backchannel, wait, pause, yield, acknowledge, respond, reply, speak, "
             "stay silent, keep quiet, let me finish, let them finish, jump in, cut in, take "
             "the floor, hold the floor, talk over, repeat back, read back")
    published = table.split(", ")
    assert len(published) == 20
    for word in published:
        assert imperatives(f"You {word} now.") == (word,)


def test_content_words_drop_stop_words_single_letters_and_quotes() -> None:
    assert content_words("The nurse's 'chart' is a B, I don’t know") == {"nurse's", "chart", "know"}


def test_overlap_is_the_jaccard_index() -> None:
    # {red, fox, runs} and {red, dog, runs, fast}: 2 shared of 5
    assert overlap("The red fox runs.", "A red dog runs fast!") == (0.4, ("red", "runs"))
    assert overlap("fox", "dog") == (0.0, ())
    with pytest.raises(ValueError, match="no content words"):
        overlap("the of", "and")


def test_word_count_ignores_lone_dashes() -> None:
    assert word_count("one - two, drive-thru 'three'") == 4
