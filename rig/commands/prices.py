"""`rig prices`: what sessions cost, as far as it is known, and from where."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from adapters import registry
from rig.console import Output
from rig.prices import ANY, ENVIRONMENT, NOTHING_LEAVES, Price, as_row, price_book


def prices_option() -> click.Option:
    """`--prices`, for every command that counts money."""
    return click.Option(
        ["--prices", "prices_file"], type=click.Path(path_type=Path), metavar="FILE",
        help=f"Prices of your own, before the shipped ones; else the file that {ENVIRONMENT} "
        "names.")


def rates(price: Price) -> str:
    """What is paid for, in words."""
    parts = [f"{rate:g} a minute of {_words(what)}" for what, rate in price.per_minute.items()]
    parts += [f"{rate:g} a million {_words(kind)} tokens"
              for kind, rate in price.per_million_tokens.items()]
    if price.estimate_per_minute is not None:
        parts.append(f"estimate {price.estimate_per_minute:g} a minute")
    return f"{price.currency} " + ", ".join(parts)


def _words(name: str) -> str:
    return name.replace("_", " ").replace("audio in", "audio input").replace(
        "text in", "text input").replace("image in", "image input").replace(" out", " output")


@click.command("prices", params=[prices_option()])
@click.option("--example", is_flag=True, help="Print a file of prices to be changed, and nothing "
              "else.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
def command(prices_file: Path | None, example: bool, as_json: bool) -> int:
    """List the prices that the rig knows, with date and source, and the systems without one.

    What is not listed is unknown, which is not free. docs/limits.md shows how to add a price.

    \b
    Example:
      rig prices
      rig prices --example > my_prices.yaml
      rig prices --prices my_prices.yaml --json
    """
    output = Output(as_json=as_json)
    if example:
        text = (files("rig") / "templates" / "prices_example.yaml").read_text("utf-8")
        output.line(text.rstrip())
        return 0
    book = price_book(prices_file)
    for listed in book.entries:
        price = listed.price
        at = "" if price.base_url is None else f" at {price.base_url}"
        output.line(f"{price.adapter}, {_model(price)}{at}: {rates(price)}")
        output.line(f"    {price.date}, {price.source} [{listed.file}]")
    others = [e for e in registry.describe() if not any(
        listed.price.adapter == e.name
        and listed.price.model in (ANY, *(s.default for s in e.settings if s.name == "model"))
        for listed in book.entries)]
    free = [e.name for e in others if not e.capabilities.realtime_only]
    unknown = [e.name for e in others if e.capabilities.realtime_only]
    output.line(f"{NOTHING_LEAVES}: {', '.join(free) or 'none'}")
    output.line(f"price unknown, as they are set by default: {', '.join(unknown) or 'none'}")
    output.document({"prices": [as_row(listed) for listed in book.entries],
                     "free": free, "unknown": unknown})
    return 0


def _model(price: Price) -> str:
    return "any model" if price.model == ANY else price.model
