"""Read a suite from its folder: schema, references and line numbers; prose is judged in `gates`.

    SUITE/suite.yaml roles.yaml probes.yaml grid.yaml conversations/*.yaml
    SUITE/contradictions.yaml                                  where level L4a or L4b is played

An incomplete set of conversations is legal; `Suite.missing()` says what lacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from audio.errors import InputError
from audio.suggest import nearest
from probes.roles import Role
from probes.spec import (
    Cell,
    Contradiction,
    ContradictionsFile,
    Conversation,
    ConversationsFile,
    GridFile,
    Origin,
    ProbesFile,
    RolesFile,
    SafetyContradiction,
    Suite,
    SuiteFile,
)
from probes.structure import ProbeStructure
from probes.yamlfile import Located, parse, read_yaml, show

BUILTIN_SUITES = {"dsb-ifeval": "dsb_ifeval"}
"""Name of a suite that ships with the rig, and its folder."""
PROMPT_LEVELS = {"persona": ("L2", "L3", "L4a", "L4b"), "directive": ("L1", "L3")}
"""Which levels are made of which prompt (DSB-IFEval, appendix B.4)."""
MAX_CONVERSATION_FILES = 2048
"""Ours: a bound against a folder given by mistake. `rig generate` writes one conversation a file:
room for twenty cells of 99 instances."""


def load_suite(name_or_dir: str | Path) -> Suite:
    """Load a suite by built-in name (`dsb-ifeval`) or from a folder.

    Raises `InputError`, one line with file and line number, for a missing or empty suite, bad
    YAML, unknown keys (the nearest known one is suggested), wrong types, prompts that a level
    needs, and references to roles, probes or contradictions that do not exist.
    """
    folder = _folder(name_or_dir)
    for name in ("suite.yaml", "roles.yaml", "probes.yaml", "grid.yaml"):
        if not (folder / name).is_file():
            found = ", ".join(sorted(p.name for p in folder.glob("*.yaml"))) or "no YAML file"
            raise InputError.expected(f"a suite folder with {name}", got=found,
                                      where=show(folder))
    suite_src = read_yaml(folder / "suite.yaml")
    roles_src = read_yaml(folder / "roles.yaml")
    probes_src = read_yaml(folder / "probes.yaml")
    grid_src = read_yaml(folder / "grid.yaml")
    against_src = _contradictions_source(folder)
    info = parse(SuiteFile, suite_src)
    roles = parse(RolesFile, roles_src).roles
    probes = parse(ProbesFile, probes_src).probes
    cells = parse(GridFile, grid_src).cells
    against = parse(ContradictionsFile, against_src)

    origins: dict[str, Origin] = {}
    _check_roles(roles, info, roles_src, origins)
    _check_probes(probes, roles, probes_src, origins)
    _check_suite(info, roles, probes, suite_src)
    contradictions = _check_contradictions(against.l4a, against_src, origins)
    safety = _check_safety(against.l4b, against_src, origins)
    _check_cells(cells, roles, probes, contradictions, safety, grid_src, origins)
    _check_levels(info, cells, suite_src, grid_src, against_src)
    for i, text in enumerate(against.l4b):
        if not any(c.safety and (c.role, c.probe) == (text.role, text.probe) for c in cells):
            raise against_src.error(("l4b", i), f"L4b text for {text.role}/{text.probe}, which is "
                                    "no safety cell of grid.yaml")

    conversations: dict[str, Conversation] = {}
    suite = Suite(folder, info, roles, probes, cells, contradictions, safety, conversations,
                  origins)
    wanted = set(suite.wanted())
    for source in _conversation_files(folder):
        for i, conversation in enumerate(parse(ConversationsFile, source).conversations):
            at = ("conversations", i)
            if conversation.id in conversations:
                raise source.error((*at, "id"), f"conversation {conversation.id} again; first at "
                                   f"{origins[f'conversation {conversation.id}']}")
            _check_conversation(conversation, suite, wanted, source, at)
            conversations[conversation.id] = conversation
            item = f"conversation {conversation.id}"
            _note(origins, item, source, at)
            for key in ("turn1", "turn2", "target", "l4b_append"):
                _note(origins, f"{item}.{key}", source, (*at, key))
            for key in ("trigger", "continuation"):
                _note(origins, f"{item}.l4b_append.{key}", source, (*at, "l4b_append", key))
            for name in conversation.turn2:
                _note(origins, f"{item}.turn2.{name}", source, (*at, "turn2", name))
    return suite


def _folder(name_or_dir: str | Path) -> Path:
    name = str(name_or_dir)
    if name in BUILTIN_SUITES:
        return Path(str(resources.files("probes"))) / "suites" / BUILTIN_SUITES[name]
    folder = Path(name_or_dir)
    if folder.is_dir():
        return folder
    if folder.exists():
        raise InputError.expected("a suite folder", got="a file", where=name)
    raise InputError(f"{name!r}: expected a suite name or a folder, got neither"
                     + nearest(name, BUILTIN_SUITES))


def _conversation_files(folder: Path) -> Iterator[Located]:
    inner = folder / "conversations"
    if not inner.is_dir():
        return
    files = sorted(inner.glob("*.yaml"))
    if odd := sorted(p for p in inner.iterdir()
                     if p.suffix != ".yaml" and not p.name.startswith(".")):
        raise InputError.expected("file names that end in .yaml, and no folders",
                                  got=odd[0].name, where=show(inner))
    if len(files) > MAX_CONVERSATION_FILES:
        raise InputError.expected(f"at most {MAX_CONVERSATION_FILES} conversation files",
                                  got=len(files), where=show(inner))
    for path in files:
        yield read_yaml(path)


def _contradictions_source(folder: Path) -> Located:
    path = folder / "contradictions.yaml"
    return read_yaml(path) if path.exists() else Located(path, {"schema_version": 1}, {})


def _note(origins: dict[str, Origin], item: str, source: Located,
          at: tuple[str | int, ...]) -> None:
    if at in source.lines:
        origins[item] = Origin(show(source.path), source.lines[at])


def _check_roles(roles: tuple[Role, ...], info: SuiteFile, source: Located,
                 origins: dict[str, Origin]) -> None:
    seen: set[str] = set()
    for i, role in enumerate(roles):
        if role.id in seen:
            raise source.error(("roles", i, "id"), f"role {role.id} is defined twice")
        seen.add(role.id)
        _note(origins, f"role {role.id}", source, ("roles", i))
        for key, readers in PROMPT_LEVELS.items():
            _note(origins, f"role {role.id}.{key}", source, ("roles", i, key))
            needed = [level for level in info.levels if level in readers]
            if needed and not getattr(role, key).strip():
                raise source.error(("roles", i, key), f"role {role.id}: expected a {key}, which "
                                   f"level {needed[0]} of suite.yaml plays, got none")


def _check_probes(probes: tuple[ProbeStructure, ...], roles: tuple[Role, ...], source: Located,
                  origins: dict[str, Origin]) -> None:
    ids = {r.id for r in roles}
    seen: set[tuple[str, str | None]] = set()
    for i, probe in enumerate(probes):
        if probe.role is not None and probe.role not in ids:
            raise source.error(("probes", i, "role"),
                               f"unknown role {probe.role!r}" + nearest(probe.role, ids))
        if (probe.label, probe.role) in seen:
            raise source.error(("probes", i, "id"), f"probe {probe.role or ''}{probe.label} is "
                               "defined twice")
        shared = probe.role is None
        if any(label == probe.label and (role is None) != shared for label, role in seen):
            raise source.error(("probes", i, "label"), f"label {probe.label} belongs to a probe of "
                               "all roles and to one of a single role; which is meant?")
        seen.add((probe.label, probe.role))
        _note(origins, f"probe {probe.id}", source, ("probes", i))
        for action in probe.scoring:
            _note(origins, f"probe {probe.id}.{action}", source, ("probes", i, "scoring", action))


def _check_suite(info: SuiteFile, roles: tuple[Role, ...], probes: tuple[ProbeStructure, ...],
                 source: Located) -> None:
    ids = {r.id for r in roles}
    numbers = range(1, info.instances + 1)
    for i, instance in enumerate(info.l0_instances):
        if instance not in numbers:
            raise source.error(("l0_instances", i), f"expected an instance from 1 to "
                               f"{info.instances}, got {instance}")
    if info.matched_audio is None:
        return
    for i, role in enumerate(info.matched_audio.roles):
        if role not in ids:
            raise source.error(("matched_audio", "roles", i),
                               f"unknown role {role!r}" + nearest(role, ids))
    labels = {p.label for p in probes if p.role is None}
    for i, label in enumerate(info.matched_audio.probes):
        if label not in labels:
            raise source.error(("matched_audio", "probes", i), f"no probe {label!r} that all roles "
                               "share" + nearest(label, labels))
    for i, instance in enumerate(info.matched_audio.instances):
        if instance not in numbers:
            raise source.error(("matched_audio", "instances", i), f"expected an instance from 1 "
                               f"to {info.instances}, got {instance}")


def _check_contradictions(items: tuple[Contradiction, ...], source: Located,
                          origins: dict[str, Origin]) -> dict[str, Contradiction]:
    found: dict[str, Contradiction] = {}
    for i, item in enumerate(items):
        if item.id in found:
            raise source.error(("l4a", i, "id"), f"contradiction {item.id} is defined twice")
        found[item.id] = item
        _note(origins, f"contradiction {item.id}", source, ("l4a", i))
        for j in range(len(item.variants)):
            _note(origins, f"contradiction {item.id}.variant{j}", source,
                  ("l4a", i, "variants", j))
    return found


def _check_safety(items: tuple[SafetyContradiction, ...], source: Located,
                  origins: dict[str, Origin]) -> dict[tuple[str, str], SafetyContradiction]:
    found: dict[tuple[str, str], SafetyContradiction] = {}
    for i, item in enumerate(items):
        if (item.role, item.probe) in found:
            raise source.error(("l4b", i), f"{item.role}/{item.probe} has two L4b texts")
        found[item.role, item.probe] = item
        _note(origins, f"safety {item.role}/{item.probe}", source, ("l4b", i))
    return found


def _check_cells(
    cells: tuple[Cell, ...], roles: tuple[Role, ...], probes: tuple[ProbeStructure, ...],
    contradictions: dict[str, Contradiction],
    safety: dict[tuple[str, str], SafetyContradiction], source: Located,
    origins: dict[str, Origin],
) -> None:
    ids = {r.id for r in roles}
    seen: set[tuple[str, str]] = set()
    for i, cell in enumerate(cells):
        at = ("cells", i)
        name = f"{cell.role}/{cell.probe}"
        if cell.role not in ids:
            raise source.error((*at, "role"),
                               f"unknown role {cell.role!r}" + nearest(cell.role, ids))
        if (cell.role, cell.probe) in seen:
            raise source.error(at, f"cell {name} is defined twice")
        seen.add((cell.role, cell.probe))
        structure = next((p for p in probes if p.label == cell.probe
                          and p.role in (None, cell.role)), None)
        if structure is None:
            known = [p.id for p in probes if p.role in (None, cell.role)]
            raise source.error((*at, "probe"), f"no probe structure {cell.probe} for {cell.role}"
                               + nearest(f"{cell.role}_{cell.probe}", known))
        if cell.action not in structure.scoring:
            raise source.error((*at, "action"), f"probe {structure.id} has no window for "
                               f"{cell.action}; it has {', '.join(sorted(structure.scoring))}")
        if cell.contradiction is not None and cell.contradiction not in contradictions:
            raise source.error((*at, "contradiction"),
                               f"unknown contradiction {cell.contradiction!r}"
                               + nearest(cell.contradiction, contradictions))
        if cell.safety and (cell.role, cell.probe) not in safety:
            raise source.error((*at, "safety"), f"cell {name} has no L4b text in "
                               "contradictions.yaml")
        _note(origins, f"cell {name}", source, at)


def _check_levels(info: SuiteFile, cells: tuple[Cell, ...], suite_src: Located, grid_src: Located,
                  against_src: Located) -> None:
    """L4a and L4b need their contradictions."""
    for i, level in enumerate(info.levels):
        if level in ("L4a", "L4b") and not against_src.lines:
            raise suite_src.error(("levels", i), f"level {level} needs contradictions.yaml, and "
                                  "there is none")
        if level == "L4b" and not any(c.safety for c in cells):
            raise suite_src.error(("levels", i), "level L4b needs a cell of grid.yaml with "
                                  "safety: true, and there is none")
    for i, cell in enumerate(cells):
        if "L4a" in info.levels and cell.contradiction is None:
            raise grid_src.error(("cells", i), f"cell {cell.role}/{cell.probe}: expected a "
                                 "contradiction, which level L4a of suite.yaml plays, got none")


def _check_conversation(conversation: Conversation, suite: Suite, wanted: set[str],
                        source: Located, at: tuple[str | int, ...]) -> None:
    role_id, label, instance = conversation.id.split("-")
    if conversation.id not in wanted:
        shared = f"S-{label}-{instance}"
        hint = (f"; its text is shared: write {shared}" if role_id != "S" and shared in wanted
                and suite.stream_of(role_id, label, int(instance)) == shared
                else nearest(conversation.id, wanted))
        raise source.error((*at, "id"), f"no cell uses conversation {conversation.id}{hint}")
    owner = role_id
    if role_id == "S":
        assert suite.info.matched_audio is not None  # or the id would not be wanted
        owner = suite.info.matched_audio.roles[0]
    structure = suite.probe_of(owner, label)
    names = [s.name for s in structure.speech]
    for name in conversation.turn2:
        if name not in names:
            raise source.error((*at, "turn2", name), f"probe {structure.id} has no speech segment "
                               f"{name!r}" + nearest(name, names))
    if conversation.target is not None and not structure.target_from:
        raise source.error((*at, "target"), f"probe {structure.id} has no read-back target")
    if conversation.l4b_append is not None and structure.l4b_variant is None:
        raise source.error((*at, "l4b_append"), f"probe {structure.id} has no L4b variant")
