"""Prices: where they come from, what is refused, what a session costs and what stays unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters import registry
from audio.errors import InputError
from rig.prices import ENVIRONMENT, PriceBook, Tariff, price_book
from rig.spending import Spent

HEAD = 'version: 1\nprices:\n  - adapter: {}\n    currency: USD\n    date: "2026-01-02"\n' \
       '    source: made up\n'


@pytest.fixture(autouse=True)
def _no_prices_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)


def own(folder: Path, body: str, adapter: str = "silent") -> Path:
    path = folder / "prices.yaml"
    path.write_text(HEAD.format(adapter) + body)
    return path


def tariff(book: PriceBook, name: str, **settings: str) -> Tariff:
    return book.tariff(registry.create(name, settings, to_play=False))


def test_every_shipped_price_has_a_day_a_source_and_an_adapter() -> None:
    entries = price_book(None, {}).entries
    assert len({(e.price.adapter, e.price.model) for e in entries}) == len(entries)
    for entry in entries:
        assert entry.price.adapter in registry.names()
        assert entry.price.source.startswith(("https://", "ours:"))


def test_what_the_vendor_states() -> None:
    book = price_book(None, {})
    live = tariff(book, "gpt_live")
    assert live.cost(Spent(90.0, 90.0, 90.0, {"session_s": 60.0})).amount == pytest.approx(0.05)
    realtime = tariff(book, "openai_realtime")
    usage = {"audio_in_tokens": 1e6, "cached_audio_in_tokens": 1e6, "audio_out_tokens": 1e6,
             "text_in_tokens": 1e6, "cached_text_in_tokens": 1e6, "text_out_tokens": 1e6}
    assert realtime.cost(Spent(1.0, 1.0, 1.0, usage)).amount == pytest.approx(
        32 + 0.4 + 64 + 4 + 0.4 + 24)


@pytest.mark.parametrize(("name", "settings"), [
    ("stepfun", {}), ("openai_realtime", {"model": "gpt-realtime-9"}),
    ("openai_realtime", {"base_url": "ws://127.0.0.1:8080/v1"}),
    ("gpt_live", {"base_url": "wss://example.org/v1"})])
def test_another_model_or_address_has_no_price(name: str, settings: dict[str, str]) -> None:
    """The vendor's price is for the vendor's address; what serves elsewhere is somebody else's."""
    found = tariff(price_book(None, {}), name, **settings)
    assert not found.known
    assert found.estimate(60.0) is None
    assert found.cost(Spent(60.0, 60.0, 0.0, {})).missing == (found.why,)
    for value in settings.values():
        assert value in found.why


def test_what_leaves_no_machine_is_free_unless_a_price_says_otherwise(tmp_path: Path) -> None:
    assert tariff(price_book(None, {}), "silent").free
    priced = tariff(price_book(own(tmp_path, "    per_minute: {session: 0.5}\n"), {}), "silent")
    assert not priced.free
    assert priced.cost(Spent(30.0, 30.0, 0.0, None)).amount == pytest.approx(0.25)


def test_own_prices_win_over_shipped_ones_and_the_closer_one_within_a_file(tmp_path: Path) -> None:
    path = own(tmp_path, "    per_minute: {session: 7}\n", "gpt_live")
    assert tariff(price_book(path, {}), "gpt_live").estimate(60.0) == 7.0
    path.write_text(path.read_text() + """\
  - {adapter: gpt_live, model: gpt-live-1, currency: EUR, date: "2026-01-02", source: x,
     per_minute: {session: 9}}
  - {adapter: gpt_live, model: gpt-live-1, base_url: "ws://127.0.0.1:1/v1", currency: EUR,
     date: "2026-01-02", source: x, per_minute: {session: 0}}
""")
    book = price_book(None, {ENVIRONMENT: str(path)})
    assert tariff(book, "gpt_live").estimate(60.0) == 9.0
    assert tariff(book, "gpt_live", model="other").estimate(60.0) == 7.0
    at_home = tariff(book, "gpt_live", base_url="ws://127.0.0.1:1/v1")
    assert (at_home.known, at_home.estimate(60.0), at_home.currency) == (True, 0.0, "EUR")


@pytest.mark.parametrize(("body", "line", "message"), [
    ("    per_minute: {session: -1}\n", 7, "greater than or equal to 0"),
    ("    per_minute: {session: .inf}\n", 7, "session: expected"),
    ("    per_minute: {sesion: 1}\n", 7, "did you mean 'session'?"),
    ("    per_minut: {session: 1}\n", 7, "unknown key 'per_minut'"),
    ("", 3, "expected per_minute or per_million_tokens, got neither"),
    ("    per_minute: {session: &a 1, audio_in: *a}\n", 7, "aliases are not allowed"),
    ("    per_minute: !!python/object/apply:os.system ['true']\n", 7, "expected text"),
    ("    per_minute: {session: yes}\n", 7, "session: expected a valid number"),
    ("    per_minute: {session: '0.05'}\n", 7, "session: expected a valid number"),
    ("    per_minute: {session: 1}\n    estimate_per_minute: true\n", 8, "a valid number"),
    ("    per_million_tokens: {audio_in: free}\n", 7, "audio_in: expected a valid number"),
])
def test_a_file_that_is_no_price_list_says_where(
    body: str, line: int, message: str, tmp_path: Path
) -> None:
    path = own(tmp_path, body)
    with pytest.raises(InputError) as caught:
        price_book(path, {})
    assert f"prices.yaml:{line}: " in str(caught.value)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("old", "new", "line", "message"), [
    ("USD", "dollars", 4, "expected three capital letters, as in USD, got 'dollars'"),
    ("2026-01-02", "yesterday", 5, "expected the day of the source"),
    ("2026-01-02", "2026-02-31", 5, "expected the day of the source"),
    ("adapter: silent", "adapter: silnt", 3, "expected an adapter (silent, "),
    ("version: 1", "version: 2", 1, "version: expected 1, got 2"),
])
def test_a_field_that_is_wrong_says_where(
    old: str, new: str, line: int, message: str, tmp_path: Path
) -> None:
    path = own(tmp_path, "    per_minute: {session: 1}\n")
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError) as caught:
        price_book(path, {})
    assert f"prices.yaml:{line}: " in str(caught.value)
    assert message in str(caught.value)


def test_two_prices_for_the_same_are_refused(tmp_path: Path) -> None:
    path = own(tmp_path, "    per_minute: {session: 1}\n")
    path.write_text(path.read_text() + path.read_text().partition("prices:\n")[2])
    with pytest.raises(InputError, match=r"prices\.yaml:8: expected one price for silent"):
        price_book(path, {})


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path, call_rig: Any) -> None:
    line = call_rig("prices", "--prices", tmp_path / "none.yaml").error
    assert "none.yaml: expected a readable file" in line


# --- what a session costs ------------------------------------------------------------------------

TOKENS = "    per_million_tokens: {audio_in: 10, audio_out: 20, text_in: 1, text_out: 2}\n"


@pytest.mark.parametrize(("usage", "cost", "missing"), [
    ({}, 0.0, ""),
    ({"audio_in_tokens": 500_000, "audio_out_tokens": 100_000}, 7.0, ""),
    (None, 0.0, "not reported"),
    ({"audio_in_tokens": 100_000, "cached_audio_in_tokens": 5}, 1.0, "cached audio in tokens"),
    ({"audio_in_tokens": 100_000, "unsplit_tokens": 5}, 1.0, "unsplit tokens"),
    ({"audio_in_tokens": 100_000, "unreported_responses": 1}, 1.0, "were not reported"),
    ({"audio_in_tokens": 100_000, "transcription_s": 9}, 1.0, "transcription"),
    ({"audio_in_tokens": 100_000, "delegations": 1}, 1.0, "another model"),
])
def test_tokens_without_a_price_or_a_count_leave_a_lower_bound(
    usage: dict[str, float] | None, cost: float, missing: str, tmp_path: Path
) -> None:
    found = tariff(price_book(own(tmp_path, TOKENS), {}), "silent").cost(
        Spent(60.0, 60.0, 60.0, usage))
    assert found.amount == pytest.approx(cost)
    assert bool(found.missing) == bool(missing)
    assert missing in ", ".join(found.missing)


def test_a_session_that_never_began_costs_nothing_and_is_known(tmp_path: Path) -> None:
    found = tariff(price_book(own(tmp_path, TOKENS), {}), "silent").cost(Spent())
    assert (found.amount, found.missing) == (0.0, ())


@pytest.mark.parametrize(("usage", "minutes"), [
    (None, 2.0), ({}, 2.0), ({"session_s": 90.0}, 1.5), ({"session_s": 150.0}, 2.5),
    ({"session_s_so_far": 60.0}, 2.0), ({"session_s_so_far": 180.0}, 3.0),
    ({"session_s_so_far": 60.0, "session_s": 90.0}, 1.5),
    ({"session_s_so_far": 90.0, "session_s": 0.0}, 1.5)])
def test_minutes_are_the_providers_where_it_counts_to_the_end(
    usage: dict[str, float] | None, minutes: float, tmp_path: Path
) -> None:
    found = tariff(price_book(own(tmp_path, "    per_minute: {session: 1}\n"), {}), "silent")
    assert found.cost(Spent(120.0, 120.0, 120.0, usage)).amount == pytest.approx(minutes)


def test_audio_by_the_minute_is_what_was_sent_and_received(tmp_path: Path) -> None:
    found = tariff(price_book(own(tmp_path, "    per_minute: {audio_in: 1, audio_out: 10}\n"), {}),
                   "silent")
    assert found.cost(Spent(120.0, 60.0, 30.0)).amount == pytest.approx(6.0)
    assert found.estimate(120.0) == pytest.approx(22.0)


def test_an_estimate_is_not_below_what_a_minute_is_sure_to_cost(tmp_path: Path) -> None:
    found = tariff(price_book(own(
        tmp_path, "    per_minute: {session: 1, audio_in: 2, audio_out: 4}\n"
        "    estimate_per_minute: 0\n"), {}), "silent")
    assert found.estimate(60.0) == pytest.approx(3.0)


def test_an_agent_of_ones_own_is_another_seller_at_another_address(tmp_path: Path) -> None:
    body = "    per_minute: {session: 1}\n"
    book = price_book(own(tmp_path, body, "twilio"), {})
    assert tariff(book, "twilio").known
    elsewhere = tariff(book, "twilio", url="wss://voice.example/agent")
    assert not elsewhere.known
    assert "address wss://voice.example/agent" in elsewhere.why
    body += '    base_url: "wss://voice.example/agent"\n'
    book = price_book(own(tmp_path, body, "twilio"), {})
    assert tariff(book, "twilio", url="wss://voice.example/agent").known
    assert not tariff(book, "twilio").known


@given(st.dictionaries(st.sampled_from(["session", "audio_in", "audio_out"]),
                       st.floats(0, 100), min_size=1),
       st.floats(0.1, 3_600), st.floats(0, 1), st.floats(0, 1))
def test_the_estimate_is_never_below_the_cost_of_real_time_audio(
    rates: dict[Any, float], session_s: float, sent: float, received: float
) -> None:
    from rig.prices import Price

    found = Tariff(Price(adapter="silent", currency="USD", date="2026-01-02", source="x",
                         per_minute=rates), free=False, why="")
    cost = found.cost(Spent(session_s, session_s * sent, session_s * received)).amount
    estimate = found.estimate(session_s)
    assert estimate is not None
    assert cost <= estimate * (1 + 1e-12)


# --- rig prices ----------------------------------------------------------------------------------


def test_the_table_is_printed_with_sources_and_what_is_unknown(
    tmp_path: Path, call_rig: Any
) -> None:
    path = own(tmp_path, "    per_minute: {session: 1}\n", "stepfun")
    called = call_rig("prices", "--prices", path)
    assert called.code == 0
    first = called.out.splitlines()[0]
    assert first == "stepfun, any model: USD 1 a minute of session"
    found = json.loads(call_rig("prices", "--prices", path, "--json").out)
    assert found["prices"][0]["file"].endswith("prices.yaml")
    assert "stepfun" not in found["unknown"]
    assert "silent" in found["free"]
    assert "stepfun" in json.loads(call_rig("prices", "--json").out)["unknown"]


def test_the_example_is_a_file_of_prices(tmp_path: Path, call_rig: Any) -> None:
    path = tmp_path / "my_prices.yaml"
    path.write_text(call_rig("prices", "--example").out)
    book = price_book(path, {})
    assert tariff(book, "silent").estimate(60.0) == pytest.approx(0.6)
    assert tariff(book, "monologue").currency == "EUR"
