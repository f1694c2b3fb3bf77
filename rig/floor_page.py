"""What the floors say, as a page: tables, and in plain words which actions tell a skill at all.

Every number and every judgement is computed from the verdicts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adapters import registry
from rig.comparison_text import EFFECT_NAMES
from rig.floors import AGENTS
from sweeps.aggregate import LEVELS, NEVER_POOLED
from verifiers.scene import Action

TOLD = ("oracle", "inverse")
"""They know the case: a ceiling and its opposite, no floors."""
NO_EVIDENCE, WEAK = 0.9, 0.25
"""An action that some floor passes this often says nothing, or little, by itself. Ours."""
OPPOSITES = (("LISTEN", "TAKE_TURN"), ("BACKCHANNEL", "NO_BACKCHANNEL"), ("YIELD", "CONTINUE"))
POOLS = ("core", "all")

Share = tuple[float, int]


def floor_page(document: Mapping[str, Any], *, suite: str, construction_sha256: str, cases_n: int,
               sessions: Mapping[str, int], settings: Sequence[str], made_with: str) -> str:
    """The page in Markdown. `document` is that of `sweeps.comparison.compare` over the agents."""
    systems = document["systems"]
    agents = list(systems)
    floors = [agent for agent in agents if agent not in TOLD]
    lines = [
        "# Floors", "",
        "What no skill at all is worth: agents of known behaviour over the whole suite. Written by "
        "`make floors`; the verdicts ship with the package and stand beside every system in `rig "
        "compare` and `rig score` ([compare.md](compare.md)).", "",
        f"Suite `{suite}`, {cases_n} cases, construction `{construction_sha256[:16]}`; agents "
        f"{made_with}; virtual time; {'; '.join(settings)}.", "",
        f"{sum(sessions.values())} sessions stand for {cases_n * len(agents)} verdicts: an agent "
        "that reads no prompt does the same whenever audio and schedule are the same, so an "
        "identical session is played once (`random` has a seed a case, `oracle` and `inverse` are "
        "told the case).", "",
        *_table(["agent", "does", "sessions"],
                [[agent, registry.spec(agent).summary, str(sessions[agent])]
                 for agent in agents]), "",
    ]
    levels = [level for level in LEVELS
              if any(level in systems[a]["ias"]["all"] for a in agents)]
    for pool, what in (("core", "LISTEN, READBACK, TAKE_TURN, YIELD"), ("all", "nine actions")):
        lines += [f"## `ias_{pool}` by level", "", f"Percent passed ({what}). L4a is "
                  "persona-default retention and in no pool.", "",
                  *_table(["agent", *(f"{level} (n={_n(systems, agents, pool, level)})"
                                      for level in levels)],
                          [[agent, *(_cell(systems[agent]["ias"][pool].get(level))
                                     for level in levels)] for agent in agents]), ""]
    actions = [str(a) for a in Action if any(str(a) in systems[x]["by_action"] for x in agents)]
    lines += [f"## By action, all levels but {NEVER_POOLED}", "", "Percent passed.", "",
              *_table(["action", "n", *agents],
                      [[action, str(max(systems[a]["by_action"][action]["n"] for a in agents)),
                        *(_cell(systems[a]["by_action"][action]) for a in agents)]
                       for action in actions]), "",
              "`-`: unscored, outside every denominator (`echo` has no transcript).", "",
              "## Effects", "",
              "Percentage points. An agent that reads no prompt must have none; `random` draws "
              "anew for each case, so what it shows is noise.", "",
              *_table(["agent", *(f"{EFFECT_NAMES[e]}, {pool}" for e in EFFECT_NAMES
                                  for pool in POOLS)],
                      [[agent, *(_points(systems[agent]["effects"][pool][e])
                                 for e in EFFECT_NAMES for pool in POOLS)]
                       for agent in agents]), "",
              "## Which actions an IAS can be trusted on", ""]
    absent = [agent for agent in AGENTS if agent not in agents]
    if absent:
        lines += [f"**Not all agents are in this table**: {', '.join(absent)} were not played, and "
                  "an action that they pass looks like more evidence here than it is.", ""]
    lines += [f"- {line}" for action in actions
              if (line := _judged(action, {a: _share(systems[a], action) for a in floors}))]
    lines += ["", "Read an action with its opposite: an agent that always does one thing passes "
              "one of the two.", ""]
    lines += [f"- {line}" for pair in OPPOSITES if set(pair) <= set(actions)
              if (line := _both(systems, floors, *pair))]
    lines += ["", *_pools(systems, floors), *_ends(systems, actions)]
    return "\n".join(lines).rstrip() + "\n"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (columns, ["---"] * len(columns), *rows)]


def _n(systems: Mapping[str, Any], agents: Sequence[str], pool: str, level: str) -> int:
    return max(int(systems[a]["ias"][pool][level]["n"]) for a in agents
               if level in systems[a]["ias"][pool])


def _cell(found: Mapping[str, Any] | None) -> str:
    if found is None or found["rate"] is None:
        return "-"
    unscored = f" ({found['unscored']} unscored)" if found["unscored"] else ""
    return f"{100 * found['rate']:.1f}{unscored}"


def _points(found: Mapping[str, Any]) -> str:
    return "-" if found["difference"] is None else f"{100 * found['difference']:+.1f}".replace(
        "+0.0", "0").replace("-0.0", "0")


def _share(system: Mapping[str, Any], action: str) -> float | None:
    rate: float | None = system["by_action"][action]["rate"]
    return rate


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _judged(action: str, shares: Mapping[str, float | None]) -> str:
    """What a pass on this action is worth, from what the floors pass of it."""
    known = sorted(((share, agent) for agent, share in shares.items() if share is not None),
                   reverse=True)
    if not known:
        return ""
    best, agent = known[0]
    if best >= NO_EVIDENCE:
        who = ", ".join(f"`{a}` {_percent(s)}" for s, a in known if s >= NO_EVIDENCE)
        return f"**{action}: no evidence by itself.** Passed by {who}."
    if best >= WEAK:
        who = ", ".join(f"`{a}` {_percent(s)}" for s, a in known if s >= WEAK)
        return f"**{action}: weak.** Passed in part by {who}."
    if best == 0:
        return f"**{action}: evidence.** No floor passes a single case."
    return f"**{action}: evidence.** The best floor, `{agent}`, passes {_percent(best)}."


def _both(systems: Mapping[str, Any], floors: Sequence[str], one: str, other: str) -> str:
    both = sorted(((min(a, b), agent) for agent in floors
                   if (a := _share(systems[agent], one)) is not None
                   and (b := _share(systems[agent], other)) is not None), reverse=True)
    if not both:
        return ""
    least, agent = both[0]
    if least == 0:
        return f"{one} and {other}: no floor passes even one case of each."
    return (f"{one} and {other}: no floor passes more than {_percent(least)} of both "
            f"(`{agent}`).")


def _pools(systems: Mapping[str, Any], floors: Sequence[str]) -> list[str]:
    """The best floor of each pool and level: what a system must be above."""
    out = []
    for pool in POOLS:
        best = []
        for level in LEVELS:
            known = [(found["rate"], agent) for agent in floors
                     if (found := systems[agent]["ias"][pool].get(level))
                     and found["rate"] is not None]
            if known and level != NEVER_POOLED:
                rate, agent = max(known)
                best.append(f"{level} {100 * rate:.1f} (`{agent}`)" if rate else f"{level} 0")
        if best:
            out += [f"Best floor of `ias_{pool}`: {', '.join(best)}. A system at or below it has "
                    "shown nothing that this agent lacks.", ""]
    return out


def _ends(systems: Mapping[str, Any], actions: Sequence[str]) -> list[str]:
    """That the instrument itself passes what does everything right, and fails the opposite."""
    out = []
    for agent, must in (("oracle", 1.0), ("inverse", 0.0)):
        if agent in systems:
            apart = [a for a in actions if _share(systems[agent], a) != must]
            said = "on every action" if not apart else f"but not on {', '.join(apart)}"
            out += [f"`{agent}` has {_percent(must)} {said}.", ""]
    return out
