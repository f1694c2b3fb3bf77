"""What the oracle and its inverse do with a hand-made hint, to the sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from adapters import registry
from adapters.base import CaseHint, SessionConfig
from adapters.simulated import voice
from adapters.simulated.catalog import _inverse, _oracle
from adapters.simulated.oracle import Script, inverse_script, oracle_script
from audio.errors import InputError

TURN1_END_S = 4.0
TURN2_S = 8.0
TICK_S = 0.02
SAMPLE_S = 1 / 24_000
PAUSE = (5.0, 7.5)
OFFSET_S = 11.0
Drive = Callable[..., Any]
ACTIONS = ("LISTEN", "TAKE_TURN", "BACKCHANNEL", "YIELD", "INTERRUPT", "READBACK",
           "NO_BACKCHANNEL", "ACCEPT_OVERLAP", "CONTINUE")


def hint(action: str, window: tuple[float, float] = PAUSE, *, barge_in: bool = False,
         target: str | None = None) -> CaseHint:
    return CaseHint(action, *window, OFFSET_S, target, barge_in)


def play(drive: Drive, case: CaseHint, *, inverse: bool = False, seed: int = 0,
         turn2_s: float = TURN2_S, settings: dict[str, str] | None = None) -> Any:
    name = "inverse" if inverse else "oracle"
    values = registry.create(name, settings).settings
    config = SessionConfig("X", 1, "", seed, values, case)
    agent = (_inverse if inverse else _oracle)(values, config)
    user = np.zeros(round((turn2_s + case.window_end_s + 25) * 24_000), dtype=np.float32)
    return drive(agent, user, {"turn1_end": TURN1_END_S, "turn2_start": turn2_s})


def acts(heard: Any, turn2_s: float = TURN2_S) -> list[tuple[float, float]]:
    """Sounds in seconds from turn 2, without the answer to turn 1."""
    return [(a - turn2_s, b - turn2_s) for a, b in heard.sounds_s if a > turn2_s]


CLOSING = pytest.approx((OFFSET_S + 0.6, OFFSET_S + 2.1), abs=SAMPLE_S)


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("action", ["LISTEN", "TAKE_TURN", "BACKCHANNEL", "INTERRUPT"])
def test_both_answer_turn_1_briefly(drive: Drive, action: str, inverse: bool) -> None:
    heard = play(drive, hint(action), inverse=inverse)
    assert heard.sounds_s[0] == pytest.approx((4.3, 5.8), abs=SAMPLE_S)
    assert heard.responses[0] == ("r1", "completed")
    assert all(status == "completed" for _, status in heard.responses)


@pytest.mark.parametrize("onset_s", [8.0, 8.0001, 8.0123, 8.0199])
def test_the_act_comes_after_the_declared_latency_less_a_tick(drive: Drive, onset_s: float) -> None:
    heard = play(drive, hint("TAKE_TURN"), turn2_s=onset_s, settings={"latency_s": "0.25"})
    ((start, end), _closing) = acts(heard, onset_s)
    # Exact to the sample from the cue, which comes up to one 20 ms tick before its moment.
    assert PAUSE[0] + 0.25 - TICK_S - SAMPLE_S < start <= PAUSE[0] + 0.25 + SAMPLE_S
    assert end - start == pytest.approx(1.5, abs=SAMPLE_S)


@pytest.mark.parametrize("action", ["LISTEN", "NO_BACKCHANNEL"])
def test_oracle_listens(drive: Drive, action: str) -> None:
    assert acts(play(drive, hint(action))) == [CLOSING]


@pytest.mark.parametrize(("action", "length_s"), [("LISTEN", 1.5), ("NO_BACKCHANNEL", 0.32)])
def test_inverse_does_not_listen(drive: Drive, action: str, length_s: float) -> None:
    assert acts(play(drive, hint(action), inverse=True)) == [
        pytest.approx((5.3, 5.3 + length_s), abs=0.001), CLOSING]


@pytest.mark.parametrize("action", ["TAKE_TURN", "INTERRUPT"])
def test_oracle_takes_the_floor(drive: Drive, action: str) -> None:
    assert acts(play(drive, hint(action))) == [pytest.approx((5.3, 6.8), abs=SAMPLE_S), CLOSING]


@pytest.mark.parametrize("action", ["TAKE_TURN", "INTERRUPT"])
def test_inverse_leaves_the_floor_until_the_window_is_over(drive: Drive, action: str) -> None:
    assert acts(play(drive, hint(action), inverse=True)) == [CLOSING]
    late = acts(play(drive, hint(action, (5.0, 12.5)), inverse=True))
    assert late == [pytest.approx((13.1, 14.6), abs=SAMPLE_S)]


@pytest.mark.parametrize("inverse", [False, True])
def test_nothing_is_said_after_a_window_about_what_follows_the_turn(
    drive: Drive, inverse: bool,
) -> None:
    window = (OFFSET_S, OFFSET_S + 10)
    silent_action = "TAKE_TURN" if inverse else "LISTEN"
    assert acts(play(drive, hint(silent_action, window), inverse=inverse)) == []
    speaking = acts(play(drive, hint("LISTEN" if inverse else "TAKE_TURN", window),
                         inverse=inverse))
    assert speaking == [pytest.approx((11.3, 12.8), abs=SAMPLE_S)]


def test_oracle_backchannels_once_and_shortly(drive: Drive) -> None:
    heard = play(drive, hint("BACKCHANNEL", (6.0, 7.5)))
    assert acts(heard) == [pytest.approx((6.3, 6.62), abs=0.002), CLOSING]
    assert "Yeah" in heard.text.split()


@pytest.mark.parametrize(("seed", "said"), [(2, []), (3, [pytest.approx((6.3, 8.8), abs=0.001)])])
def test_inverse_misses_a_backchannel_in_either_way(
    drive: Drive, seed: int, said: list[Any],
) -> None:
    heard = play(drive, hint("BACKCHANNEL", (6.0, 7.5)), inverse=True, seed=seed)
    assert acts(heard) == [*said, CLOSING]


def test_oracle_reads_back_after_the_user_has_ended(drive: Drive) -> None:
    target = "unit 4 oh B seven seven north gate"
    heard = play(drive, hint("READBACK", (0.0, 21.0), target=target))
    ((start, end),) = acts(heard)
    assert start == pytest.approx(OFFSET_S + 0.3, abs=SAMPLE_S)
    assert end - start == pytest.approx(len(voice.read_back(target).samples) / 24_000, abs=0.001)
    assert heard.text.endswith(target)


def test_inverse_reads_nothing_back(drive: Drive) -> None:
    target = "unit four north gate"
    heard = play(drive, hint("READBACK", (0.0, 21.0), target=target), inverse=True)
    ((start, _end),) = acts(heard)
    assert start == pytest.approx(OFFSET_S + 0.3, abs=SAMPLE_S)
    assert not set(target.split()) & set(heard.text.lower().split())


BARGE = (0.0, 3.0)


@pytest.mark.parametrize(("action", "inverse", "stop_s"), [
    ("YIELD", False, 0.2), ("YIELD", True, 4.0),
    ("CONTINUE", False, 3.5), ("CONTINUE", True, 0.2),
    ("ACCEPT_OVERLAP", False, 1.5),
])
def test_the_floor_is_held_after_turn_1_and_given_up_at_its_time(
    drive: Drive, action: str, inverse: bool, stop_s: float,
) -> None:
    heard = play(drive, hint(action, BARGE, barge_in=True), inverse=inverse)
    start, end = heard.sounds_s[0]
    assert start == pytest.approx(TURN1_END_S + 0.3, abs=SAMPLE_S)
    assert end - TURN2_S == pytest.approx(stop_s, abs=0.001)
    assert heard.responses == [("r1", "cancelled"), ("r2", "completed")]
    assert acts(heard) == [CLOSING]


def test_inverse_is_silent_at_the_barge_in_that_wants_an_overlap(drive: Drive) -> None:
    heard = play(drive, hint("ACCEPT_OVERLAP", BARGE, barge_in=True), inverse=True)
    assert heard.sounds_s[0] == pytest.approx((4.3, 5.3), abs=SAMPLE_S)
    assert acts(heard) == [CLOSING]


def test_a_yield_latency_is_declared_and_kept(drive: Drive) -> None:
    heard = play(drive, hint("YIELD", BARGE, barge_in=True), settings={"yield_s": "0.35"})
    assert heard.sounds_s[0][1] - TURN2_S == pytest.approx(0.35, abs=0.001)


@pytest.mark.parametrize("action", ACTIONS)
def test_a_script_does_not_depend_on_anything_but_the_hint(action: str) -> None:
    case = hint(action, target="four one", barge_in=True)
    def facts(script: Script) -> Any:
        return (script.opening, script.stop_s,
                [(a.start_s, a.speech.samples.tobytes(), a.speech.words) for a in script.acts])
    assert facts(oracle_script(case, 0.3, 0.2)) == facts(oracle_script(case, 0.3, 0.2))
    assert facts(oracle_script(case, 0.3, 0.2)) != facts(
        inverse_script(case, 0.3, 0.2, odd=False))


@pytest.mark.parametrize("build", [
    lambda h: oracle_script(h, 0.3, 0.2), lambda h: inverse_script(h, 0.3, 0.2, odd=False)])
def test_an_unknown_action_is_refused(build: Callable[[CaseHint], Script]) -> None:
    with pytest.raises(InputError, match="hint of an oracle: expected one of the nine "
                                         "floor-management actions, got 'SING'"):
        build(hint("SING"))


def test_a_read_back_without_a_target_is_refused() -> None:
    with pytest.raises(InputError, match="hint of a READBACK case: expected a target text, got "
                                         "none"):
        oracle_script(hint("READBACK"), 0.3, 0.2)
