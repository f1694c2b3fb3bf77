"""judge.yaml of a suite: what a judge of persona adherence is told of each role.

One rule on content and register a role (DSB-IFEval, appendix D.1). Only `rig judge` reads it; it is
no part of what is played, so no hash of a suite covers it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from audio.errors import InputError
from audio.suggest import nearest
from probes.spec import Suite
from probes.specmodel import Line, RoleId, SchemaVersion, SpecModel
from probes.yamlfile import parse, read_yaml, show

FILE = "judge.yaml"


class ContentRule(SpecModel):
    """What one role may say, and how."""

    role: RoleId
    content_rule: Annotated[Line, Field(min_length=1)]


class JudgeFile(SpecModel):
    """judge.yaml."""

    schema_version: SchemaVersion
    rules: Annotated[tuple[ContentRule, ...], Field(min_length=1)]


def content_rules(suite: Suite) -> Mapping[str, str]:
    """The rule of every role of a suite.

    Raises `InputError` with file and line for a file that is missing, damaged or names a role that
    the suite does not have, one twice, or not all.
    """
    path = suite.path / FILE
    if not path.is_file():
        raise InputError.expected(f"{FILE} with a content_rule for each role (docs/judge.md)",
                                  got="none", where=show(suite.path))
    source = read_yaml(path)
    found: dict[str, str] = {}
    known = [role.id for role in suite.roles]
    for i, rule in enumerate(parse(JudgeFile, source).rules):
        at = ("rules", i, "role")
        if rule.role not in known:
            raise source.error(at, f"unknown role {rule.role!r}" + nearest(rule.role, known))
        if rule.role in found:
            raise source.error(at, f"role {rule.role} has two rules")
        if not rule.content_rule.strip():
            raise source.error(("rules", i, "content_rule"), "expected a rule, got none")
        found[rule.role] = rule.content_rule
    if missing := [role for role in known if role not in found]:
        raise source.error(("rules",), f"expected a rule for each role, got none for "
                                       f"{', '.join(missing)}")
    return found
