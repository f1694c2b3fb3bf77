"""judge.yaml: read, and refused with file and line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from audio.errors import InputError
from probes.judge_rules import content_rules
from probes.loader import load_suite
from probes.spec import Suite

BUILTIN = load_suite("dsb-ifeval")
TWO = replace(BUILTIN, roles=BUILTIN.roles[:2])
R1 = "  - {role: R1, content_rule: Short.}\n"
R2 = "  - {role: R2, content_rule: Warm.}\n"


def suite_with(folder: Path, rules: str, version: str = "1") -> Suite:
    (folder / "judge.yaml").write_text(f"schema_version: {version}\nrules:\n{rules}",
                                       encoding="utf-8")
    return replace(TWO, path=folder)


def test_every_role_of_the_suites_that_ship_has_a_rule() -> None:
    example = load_suite(BUILTIN.path.parent / "order_line")
    for suite in (BUILTIN, example):
        rules = content_rules(suite)
        assert list(rules) == [role.id for role in suite.roles]
        assert len(set(rules.values())) == len(rules)


def test_rules_are_read_by_role(tmp_path: Path) -> None:
    assert content_rules(suite_with(tmp_path, R2 + R1)) == {"R1": "Short.", "R2": "Warm."}


@pytest.mark.parametrize(("rules", "said"), [
    (R1, r"judge\.yaml:2: expected a rule for each role, got none for R2"),
    (R1 + R1 + R2, r"judge\.yaml:4: role R1 has two rules"),
    (R1 + R2 + "  - {role: R3, content_rule: Few.}\n",
     r"judge\.yaml:5: unknown role 'R3'; did you mean"),
    (R1 + "  - {role: R2, content_rule: ' '}\n", r"judge\.yaml:4: expected a rule, got none"),
    (R1 + "  - {role: R2, content_rule: ''}\n", r"judge\.yaml:4: rules\[1\]\.content_rule"),
    (R1 + "  - {role: R2, rule: Warm.}\n", r"judge\.yaml:4: unknown key 'rule'"),
    (R1 + "  - {role: R2, content_rule: 5}\n", r"judge\.yaml:4: .*quote the text"),
    (R1 + "  - {role: R2, content_rule: !!python/name:os.system x}\n", r"judge\.yaml:4: "),
    ("  []\n", r"judge\.yaml:2: rules: expected at least 1 item"),
])
def test_mistakes_are_told_with_file_and_line(tmp_path: Path, rules: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        content_rules(suite_with(tmp_path, rules))


def test_a_suite_without_the_file_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected judge\.yaml with a content_rule for each role"):
        content_rules(replace(TWO, path=tmp_path))
