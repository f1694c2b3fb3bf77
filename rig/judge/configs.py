"""Judges by name: which model, where, how it is asked, what it costs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import date
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from audio.endpoint_rules import api_key, check_base_url, is_loopback
from audio.errors import InputError
from audio.suggest import unknown_name
from probes.rules import problem
from probes.yamlfile import parse, read_yaml

ENVIRONMENT = "DUPLEXRIG_JUDGES"
"""Names a file of judges, as `--judges` does."""
SHIPPED = "judge/judges.yaml"
KEY_VARIABLE = "OPENAI_API_KEY"
MAX_TOKENS = 900
"""Longest answer asked for (DSB-IFEval, table 21)."""
TEMPERATURE = 0.0
"""Table 21."""
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}"
"""A judge's name is part of file names."""

OneLine = Annotated[str, Field(min_length=1, max_length=200)]
Amount = Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class JudgePrice(_Model):
    """What a million tokens cost."""

    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
    date: str
    source: OneLine
    text_in: Amount
    text_out: Amount

    @model_validator(mode="after")
    def _dated(self) -> JudgePrice:
        try:
            date.fromisoformat(self.date)
        except ValueError:
            raise problem(("date",), "expected the day of the source, as in \"2026-11-30\", got "
                                     f"{self.date[:20]!r}") from None
        return self

    def cost(self, tokens_in: float, tokens_out: float) -> float:
        return (self.text_in * tokens_in + self.text_out * tokens_out) / 1e6


class Judge(_Model):
    """One judge. What changes its answers is in every request or in the results."""

    name: str
    base_url: str
    model: OneLine
    key_env: OneLine | None = None
    """Environment variable with the key; `None`: `OPENAI_API_KEY`, or none on this machine."""
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = TEMPERATURE
    """`None` leaves it out, for models that refuse it."""
    max_tokens: Annotated[int, Field(ge=100, le=MAX_TOKENS, strict=True)] = MAX_TOKENS
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    json_mode: bool = True
    """Whether `response_format` is sent; some servers do not know it."""
    price: JudgePrice | None = None

    @model_validator(mode="after")
    def _checked(self) -> Judge:
        if not re.fullmatch(NAME, self.name):
            raise problem(("name",), "expected letters, digits, '.', '_' and '-', 60 at most, got "
                                     f"{self.name[:60]!r}")
        if not self.model.strip() or not self.model.isprintable():
            raise problem(("model",), "expected one printable line")
        try:
            check_base_url(self.base_url, where="base_url")
        except InputError as error:
            raise problem(("base_url",), str(error).removeprefix("base_url: ")) from None
        return self

    @property
    def address(self) -> str:
        """The address without a trailing slash."""
        return self.base_url.rstrip("/")

    def key(self) -> str | None:
        """The key from the environment; a server on this machine gets one only when `key_env`
        names it. Raises `InputError` where one is needed and missing."""
        if self.key_env is None and is_loopback(urlsplit(self.base_url).hostname or ""):
            return None
        return api_key(self.key_env or KEY_VARIABLE)


class JudgesFile(_Model):
    """A file of judges."""

    version: Literal[1]
    judges: tuple[Judge, ...]


def known_judges(path: Path | None, environment: Mapping[str, str] | None = None,
                 ) -> Mapping[str, Judge]:
    """The judges that ship, under those of `path`, else of the file that `ENVIRONMENT` names.
    Raises `InputError` with file and line."""
    named = (os.environ if environment is None else environment).get(ENVIRONMENT, "")
    own = path if path is not None else Path(named) if named.strip() else None
    with as_file(files("rig") / SHIPPED) as shipped:
        found = _read(shipped)
    return found if own is None else {**found, **_read(own)}


def _read(path: Path) -> dict[str, Judge]:
    source = read_yaml(path)
    found: dict[str, Judge] = {}
    for i, judge in enumerate(parse(JudgesFile, source).judges):
        if judge.name in found:
            raise source.error(("judges", i, "name"), f"judge {judge.name} is there twice")
        found[judge.name] = judge
    return found


def find_judge(known: Mapping[str, Judge], name: str, *, option: str = "--judge",
               base_url: str | None = None, model: str | None = None,
               key_env: str | None = None) -> Judge:
    """A judge by name, with what the command line says of it in its place; with an address and a
    model of its own the name may be new. Raises `InputError`."""
    given = {k: v for k, v in (("base_url", base_url), ("model", model), ("key_env", key_env))
             if v is not None}
    if name not in known:
        if not re.fullmatch(NAME, name):
            raise InputError.expected("a name of letters, digits, '.', '_' and '-', 60 at most",
                                      got=repr(name[:60]), where=option)
        if base_url is None or model is None:
            hint = " (a new one needs --base-url and --model, or an entry in --judges FILE)"
            raise InputError(f"{unknown_name(option, name, known)}{hint}")
        return _made({"name": name, **given})
    if not given:
        return known[name]
    before = known[name].model_dump()
    if base_url is not None and before["base_url"] != base_url:
        # A key goes to the address that it is for; a price is that address's, too.
        before |= {"key_env": None, "price": None}
    elif model is not None and before["model"] != model:
        before["price"] = None
    return _made(before | given)


def _made(fields: Mapping[str, object]) -> Judge:
    try:
        return Judge.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    at = (*first["loc"], *first.get("ctx", {}).get("at", ()))
    option = f"--{str(at[0]).replace('_', '-')}" if at else "--judge"
    raise InputError(f"{option}: {first.get('ctx', {}).get('message', first['msg'])}")
