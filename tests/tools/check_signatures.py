"""Is what a table says of signatures so in the source, or in an installed package?

    check_signatures.py TABLE CHECKOUT       by the source's text; also an unpacked wheel, or the
                                             folder site-packages
    check_signatures.py TABLE --installed    by importing, in the environment of the model
    check_signatures.py TABLE CHECKOUT --renew   write the lines of the source into the table

TABLE: a name in tests/tools/signatures, or a path. Standard library alone; nothing of a checkout is
run. Ends with 1 where anything differs.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

from signature_table import Function, Parameter, Table, load, parameters


def shape(parameters: list[Parameter]) -> list[str]:
    """Comparable, and readable: `a`, `b=`, `*c`, `d= (keyword)`."""
    shown = []
    for p in parameters:
        stars = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}.get(p.kind, "")
        default = "" if p.default is Parameter.empty else "="
        kind = {Parameter.KEYWORD_ONLY: " (keyword)", Parameter.POSITIONAL_ONLY: " (place)"}
        shown.append(f"{stars}{p.name}{default}{kind.get(p.kind, '')}")
    return shown


def written(function: Function) -> list[str]:
    return shape(list(function.signature.parameters.values()))


# By text

def find(tree: ast.AST, parts: list[str]) -> ast.AST | None:
    """A class or function by its name within the module, wherever the module puts it."""
    node: ast.AST | None = tree
    for part in parts:
        node = next((n for n in ast.walk(node) if n is not node and isinstance(
            n, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and n.name == part),
            None) if node is not None else None
    return node


def in_text(function: Function, checkout: Path) -> tuple[list[str], int] | str:
    """Parameters and line, or why not."""
    file = checkout / function.at.rpartition(":")[0]
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (OSError, SyntaxError) as error:
        return f"{file}: {error}"
    module = file.with_suffix("").parts
    parts = function.name.split(".")
    while parts and (parts[0] in module or parts[0] == file.parent.name):
        parts = parts[1:]
    node = find(tree, parts)
    in_class = len(parts) > 1
    if isinstance(node, ast.ClassDef):
        made = next((n for n in node.body if isinstance(n, ast.FunctionDef)
                     and n.name == "__init__"), None)
        if made is None:
            return [], node.lineno
        node, in_class = made, True
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return f"{file}: has no {'.'.join(parts)}"
    static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)
    return shape(parameters(node.args, int(in_class and not static))), node.lineno


def line_of(at: str, word: str, checkout: Path) -> int | str:
    """The line named, if the word is in it; else the first that has it as a whole word."""
    file, _, line = at.rpartition(":")
    try:
        lines = (checkout / file).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        return str(error)
    has = [n for n, text in enumerate(lines, 1) if re.search(rf"\b{re.escape(word)}\b", text)]
    if int(line) in has:
        return int(line)
    return has[0] if has else f"{file}: nowhere says {word}"


def by_text(table: Table, checkout: Path) -> tuple[list[str], dict[str, str]]:
    """What differs, and for each place (`name at`) that has moved its new line."""
    wrong, moved = [], {}

    def place(name: str, at: str, found: int | str) -> None:
        if isinstance(found, str):
            wrong.append(f"{name}: {found}")
        elif found != int(at.rpartition(":")[2]):
            moved[f"{name} {at}"] = f"{at.rpartition(':')[0]}:{found}"
            wrong.append(f"{name}: expected at {at}, is in line {found}")

    for name, function in table.functions.items():
        for word, at in function.reads.items():
            place(f"{name} {word}", at, line_of(at, word, checkout))
        if not function.at:
            continue
        found = in_text(function, checkout)
        if isinstance(found, str):
            wrong.append(f"{name}: {found}")
            continue
        if found[0] != written(function):
            wrong.append(f"{name}: takes {found[0]}, the table says {written(function)}")
        place(name, function.at, found[1])
    for name, at in table.attributes.items():
        place(name, at, line_of(at, name.rpartition(".")[2], checkout))
    return wrong, moved


def renew(path: Path, moved: dict[str, str]) -> None:
    """Each moved place, in the table's own text; the same place twice moves as the first did."""
    text = path.read_text(encoding="utf-8")
    for key, new in moved.items():
        name, at = key.rsplit(" ", 1)
        word = name.rpartition(" ")[2]
        begin = text.index(f'"{name.split(" ")[0]}"')
        begin = text.index(word, begin) if " " in name else begin
        where = text.index(f'"{at}"', begin)
        text = f'{text[:where]}"{new}"{text[where + len(at) + 2 :]}'
    path.write_text(text, encoding="utf-8")


# By importing

def imported(name: str) -> tuple[Any, Any]:
    """What bears the name, and the class or module that holds it. Raises `LookupError`."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            owner: Any = importlib.import_module(".".join(parts[:n]))
        except ImportError:
            continue
        found = owner
        for part in parts[n:]:
            owner, found = found, getattr(found, part, None)
            if found is None:
                raise LookupError(f"{name}: {owner.__name__} has no {part}")
        return found, owner
    raise LookupError(f"{name}: no module {parts[0]}")


def by_import(table: Table) -> list[str]:
    wrong = []
    for name, function in table.functions.items():
        try:
            found, owner = imported(name)
        except LookupError as error:
            wrong.append(str(error))
            continue
        last = name.rpartition(".")[2]
        target = found.__init__ if inspect.isclass(found) else found
        try:
            has = list(inspect.signature(target).parameters.values())
        except ValueError:
            continue  # compiled: that it is there is all that can be said
        bound = inspect.ismethod(target) or (inspect.isclass(owner) and isinstance(
            inspect.getattr_static(owner, last), staticmethod))
        if not bound and (inspect.isclass(found) or inspect.isclass(owner)):
            has = has[1:]
        if shape(has) != written(function):
            wrong.append(f"{name}: takes {shape(has)}, the table says {written(function)}")
    for name in table.attributes:
        try:
            imported(name)
        except LookupError as error:
            # What an instance has may be made by its __init__: read that.
            owner_name, _, last = name.rpartition(".")
            try:
                owner, _ = imported(owner_name)
                if f"self.{last}" not in inspect.getsource(owner):
                    wrong.append(str(error))
            except (LookupError, OSError, TypeError):
                wrong.append(str(error))
    return wrong


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table")
    parser.add_argument("checkout", nargs="?", type=Path)
    parser.add_argument("--installed", action="store_true")
    parser.add_argument("--renew", action="store_true")
    args = parser.parse_args(arguments)
    if (args.checkout is None) != args.installed:
        parser.error("expected a checkout, or --installed")
    table = load(args.table)
    if args.installed:
        wrong = by_import(table)
    else:
        wrong, moved = by_text(table, args.checkout)
        if args.renew:
            renew(table.path, moved)
            wrong = by_text(load(args.table), args.checkout)[0]
    for line in wrong:
        print(line)
    print(f"{table.path.stem}: {len(table.functions)} functions, {len(table.attributes)} "
          f"attributes, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
