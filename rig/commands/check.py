"""`rig check`: one short session that proves key, rate and audio both ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from adapters import registry
from adapters.base import Adapter
from rig.check import Checked, check
from rig.commands.prices import prices_option
from rig.console import Output
from rig.finite_option import Finite
from rig.prices import Tariff, money, price_book
from rig.runner import choose_clock
from rig.settings import key_values


@click.command("check", params=[prices_option()])
@click.option("--adapter", "name", required=True, metavar="NAME", help="System to look at; see "
              "`rig adapters`.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Setting of the "
              "adapter; may be repeated.")
@click.option("--wait-s", type=Finite(1.0, 60.0), default=10.0, show_default=True,
              help="Longest wait for the end of the reply.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(name: str, settings: tuple[str, ...], wait_s: float, prices_file: Path | None,
            as_json: bool) -> int:
    """Hold one short session: the user says a sentence, the system answers it.

    Shown are what a run relies on: key and address, the rate at which frames go out and how late,
    the audio that comes back, transcript and end of the response. About 15 seconds. Exit code 3
    when anything needed was not there, 2 when it could not be tried (a key that is not set).

    \b
    Example:
      rig check --adapter long_endpoint
      rig check --adapter openai_realtime --set model=gpt-realtime-mini
    """
    output = Output(as_json=as_json)
    adapter = registry.create(name, key_values(settings, "--set"))
    tariff = price_book(prices_file).tariff(adapter)
    checked = check(adapter, choose_clock(adapter, None), wait_s)
    for what, value in _lines(adapter, checked, tariff):
        output.line(f"{what:<12}{value}")
    for problem in checked.problems:
        output.note(f"problem: {problem}")
    output.document(_document(adapter, checked, tariff))
    return 3 if checked.problems else 0


def _cost(checked: Checked, tariff: Tariff) -> str:
    """What the session cost, in words."""
    if not tariff.known:
        return f"unknown: {tariff.why}"
    cost = tariff.cost(checked.spent)
    if tariff.free:
        return tariff.why
    least = f"at least, without {'; '.join(cost.missing)}: " if cost.missing else ""
    return f"{least}{money(cost.amount, tariff.currency)} ({checked.spent.session_s:.1f} s)"


def _lines(adapter: Adapter, checked: Checked, tariff: Tariff) -> list[tuple[str, str]]:
    lines = [("system", f"{adapter.name} {adapter.version}, {checked.clock} time")]
    if checked.failure is not None:
        return [*lines, ("failed", checked.failure)]
    got, timing = checked.received, checked.timing
    assert got is not None
    assert timing is not None
    lines += [
        ("ready", f"after {checked.ready_s:.2f} s"),
        ("sent", f"{checked.frames_n} frames of 20 ms, {checked.send_rate_hz:.2f} a second"),
        ("lateness", f"p50 {timing.late_p50_ms:.1f} ms, p99 {timing.late_p99_ms:.1f} ms, longest "
         f"{timing.late_max_ms:.1f} ms{'; void' if timing.void else ''}"),
        ("received", _received(checked)),
        ("transcript", f"{adapter.capabilities.transcript}: "
         + (f"{checked.text[:120]!r}" if checked.text else "nothing")),
        ("responses", f"{checked.responses_started} started, ended: "
         + (", ".join(checked.responses_done) or "none")
         + ("" if adapter.capabilities.reports_response_done else " (the system reports none)")),
        ("faults", "; ".join(checked.faults) or "none"),
        ("cost", _cost(checked, tariff)),
        ("verdict", "ready for a run" if not checked.problems
         else f"{len(checked.problems)} problem{'s' * (len(checked.problems) > 1)}"),
    ]
    return lines


def _received(checked: Checked) -> str:
    got = checked.received
    if got is None or got.pace is None:
        return "no audio"
    peak = "silence" if got.peak_db is None else f"peak {got.peak_db:.0f} dB"
    first = ("" if checked.first_audio_s is None
             else f"; first {checked.first_audio_s:+.2f} s after the user")
    words = "" if got.words_per_s is None else f", {got.words_per_s:.1f} words a second"
    return (f"{got.audio_s:.2f} s of audio at {got.rate_hz} Hz, {got.speech_s:.2f} s of it speech, "
            f"{peak}{words}; {got.pace:.2f} s a second{first}")


def _document(adapter: Adapter, checked: Checked, tariff: Tariff) -> dict[str, Any]:
    cost = tariff.cost(checked.spent) if tariff.known else None
    whole = cost is not None and not cost.missing
    got, timing = checked.received, checked.timing
    return {
        "ok": not checked.problems, "adapter": adapter.name, "version": adapter.version,
        "settings": adapter.settings, "clock": checked.clock, "failure": checked.failure,
        "ready_s": checked.ready_s, "frames_n": checked.frames_n,
        "send_rate_hz": checked.send_rate_hz,
        "timing": None if timing is None else timing.model_dump(),
        "received": None if got is None else {
            "audio_s": got.audio_s, "rate_hz": got.rate_hz, "span_s": got.span_s,
            "pace": got.pace, "speech_s": got.speech_s, "peak_db": got.peak_db,
            "words": got.words, "words_per_s": got.words_per_s},
        "first_audio_s": checked.first_audio_s,
        "transcript": {"kind": adapter.capabilities.transcript, "text": checked.text},
        "responses": {"started": checked.responses_started,
                      "done": list(checked.responses_done)},
        "faults": list(checked.faults), "problems": list(checked.problems),
        "cost": None if cost is None else round(cost.amount, 6), "currency": tariff.currency,
        "cost_missing": list(cost.missing) if cost else [tariff.why],
        "cost_usd": round(cost.amount, 6) if whole and cost is not None
        and tariff.currency in (None, "USD") else None,
    }
