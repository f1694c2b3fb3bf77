"""Gates of a field study, beside the scores and never averaged with them.

A gate has a threshold justified outside the deployment (CallScreenBench, table 2: conversational
turn-transition bands, ITU-T G.114); a score is comparative only. Bounds as on the design page: L1
p50 strictly below 1000 ms, interruption rate at most 33.0 % (13.5-33.0 published; fewer is never
worse, so no lower bound), turn-take rate at least 78 %. What was not measured is neither met nor
missed.
"""

from __future__ import annotations

L1_P50_BELOW_MS = 1000.0
INTERRUPTION_AT_MOST = 0.330
TURN_TAKE_AT_LEAST = 0.78

REFERENCE: dict[str, str] = {
    "l1_p50_ms": "1230", "l1_p90_ms": "2493", "l1_over_1s": "73 %", "interruption_rate": "23.5 %",
    "turn_take": "45.1 % (37 % at 0.5 s, 68 % at 3 s)", "l2_p50_ms": "1240",
    "filler_tax_ms": "10",
    "filler_rate": "0.6 % (published systems 16.9-31.7 %)", "talk_ratio": "52.9 %",
    "entity_error_rate": "24.0 % (0.74 x WER)",
    "a1_win_rate": "26.7 % [14, 44], 30.2 % inconsistent (13 of 43)",
}
"""CallScreenBench, table 2 and appendix A: 76 calls, 172 minutes of one deployment. To stand beside
a figure, not to be met."""


def gates(
    l1_p50_ms: float | None, interruption_rate: float | None, turn_take_rate: float | None
) -> dict[str, dict[str, object]]:
    """`{gate: {limit, value, met}}`; `met` is `None` where there is no value."""
    return {
        "l1_p50_ms": _gate(f"< {L1_P50_BELOW_MS:g}", l1_p50_ms,
                           l1_p50_ms is not None and l1_p50_ms < L1_P50_BELOW_MS),
        "interruption_rate": _gate(
            f"<= {INTERRUPTION_AT_MOST:.3f}", interruption_rate,
            interruption_rate is not None and interruption_rate <= INTERRUPTION_AT_MOST),
        "turn_take_rate": _gate(
            f">= {TURN_TAKE_AT_LEAST:.2f}", turn_take_rate,
            turn_take_rate is not None and turn_take_rate >= TURN_TAKE_AT_LEAST),
    }


def _gate(limit: str, value: float | None, met: bool) -> dict[str, object]:
    return {"limit": limit, "value": value, "met": None if value is None else met}
