"""What loopback servers say that a session used arrives whole, to the last word at its close; and
what they say of limits is told from other trouble."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from live_server import LiveScenario, LiveServer
from realtime_server import RealtimeServer, Scenario
from session_harness import BOUNDS, KEY, PLAN, PROMPT

from adapters import registry
from adapters.base import SessionConfig
from audio.vad import VadSettings
from rig.clock import loop_factory
from rig.orchestrator import SessionFailedError, play
from rig.prices import Price, Tariff
from rig.spending import Meter

COUNTS = {"input_tokens": 600, "output_tokens": 400,
          "input_token_details": {"audio_tokens": 500, "text_tokens": 100},
          "output_token_details": {"audio_tokens": 300, "text_tokens": 100}}


def counted(event: dict) -> list[dict]:
    """Every response ends with counts by kind."""
    if event["type"] == "response.done":
        event = {**event, "response": {**event["response"], "usage": COUNTS}}
    return [event]


REALTIME = {"calm": Scenario(mangle=counted),
            "no_credit": Scenario(status="failed", status_details={
                "type": "failed", "error": {"type": "insufficient_quota",
                                            "code": "insufficient_quota", "message": "pay"}}),
            "tokens_used_up": Scenario(status="failed", status_details={
                "type": "failed", "error": {"type": "tokens", "code": "rate_limit_exceeded",
                                            "message": "slow down"}}),
            "busy": Scenario(http=(429, {"Retry-After": "7"}, "too many")),
            "broke": Scenario(http=(429, {}, '{"error": {"code": "insufficient_quota"}}'))}
LIVE = {"calm": LiveScenario(replies_s=(0.6, 0.4))}


async def _one(adapter_name: str, server: RealtimeServer, name: str,
               ) -> tuple[Meter, SessionFailedError | None]:
    settings = {"base_url": server.url_of(name), "model": name}
    adapter = registry.create(adapter_name, settings)
    config = SessionConfig(case_id="R1-A-1-L2", trial=1, system_prompt=PROMPT, seed=1,
                           settings=adapter.settings)
    meter = Meter()
    try:
        await play(PLAN, adapter, config, vad=VadSettings(),
                   bounds=replace(BOUNDS, turn1_reply_s=3.0), meter=meter)
    except SessionFailedError as error:
        return meter, error
    return meter, None


@pytest.fixture(scope="module")
def met() -> Any:
    async def everything() -> dict[tuple[str, str], Any]:
        async with RealtimeServer(REALTIME).running() as realtime, \
                LiveServer(LIVE).running() as live:
            keys = [*(("openai_realtime", realtime, n) for n in REALTIME),
                    ("gpt_live", live, "calm")]
            found = await asyncio.gather(*(_one(*key) for key in keys))
            return {(a, n): f for (a, _, n), f in zip(keys, found, strict=True)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", KEY)
        with asyncio.Runner(loop_factory=loop_factory("real")) as runner:
            yield runner.run(everything())


def test_tokens_of_two_responses(met: Any) -> None:
    meter, failure = met["openai_realtime", "calm"]
    assert failure is None
    assert meter.spent.usage == {"audio_in_tokens": 1_000, "text_in_tokens": 200,
                                 "audio_out_tokens": 600, "text_out_tokens": 200}
    assert meter.spent.received_s == pytest.approx(1.0, abs=0.01)
    assert meter.spent.sent_s == pytest.approx(meter.spent.session_s, abs=1.0)


def test_the_last_word_of_a_live_session_is_what_is_paid_for(met: Any) -> None:
    meter, failure = met["gpt_live", "calm"]
    assert failure is None
    # The server counts the user's audio that it was given.
    assert meter.spent.usage["session_s"] == pytest.approx(meter.spent.sent_s, abs=0.1)
    tariff = Tariff(Price(adapter="gpt_live", currency="USD", date="2026-01-02", source="x",
                          per_minute={"session": 60.0}), free=False, why="")
    assert tariff.cost(meter.spent).amount == pytest.approx(meter.spent.usage["session_s"])
    assert tariff.cost(meter.spent).missing == ()


@pytest.mark.parametrize(("name", "hopeless", "throttled", "retry_after_s"), [
    ("no_credit", True, False, None), ("tokens_used_up", False, True, None),
    ("busy", False, True, 7.0), ("broke", True, False, None)])
def test_a_session_that_failed_says_what_its_cause_means_for_others(
    name: str, hopeless: bool, throttled: bool, retry_after_s: float | None, met: Any
) -> None:
    meter, failure = met["openai_realtime", name]
    assert failure is not None
    assert (failure.hopeless, failure.throttled, failure.retry_after_s) == (
        hopeless, throttled, retry_after_s)
    assert (meter.spent.session_s > 0) == (name in ("no_credit", "tokens_used_up"))
