"""One self-contained HTML page out of sections: opens from disk, asks no network for anything.

What a section brings:

- `html`: made by Jinja2 with autoescape (`render`), so that what came from a file or a model is
  text; `Markup` is the promise of that.
- `data`: JSON, read in scripts by `rigData("KEY")`, KEY being the section's key.
- `parts`: more JSON, each read when it is asked for: `rigPart("KEY-NAME")` gives a promise, and
  keeps nothing. Large ones lie compressed. Beside a page written with `parts_dir` they are files.
- `charts`: plotly figures as plain dicts. They are drawn after the section's HTML, with the page's
  theme, and each has its statement in words and, if given, its table.
- `scripts`: names of files in `rig/report/static`. Each is inlined once, in the order given.

Names that scripts of sections may use (`static/page.js`):

    rigData(name)               parsed data, or null
    rigPart(name)               promise of a part; rejected with the reason when it cannot be read
    rigElement(tag, attributes, ...children)   strings become text, never markup
    rigBytes(base64)            Uint8Array
    rigColour(role)             the present colour of a role of `rig.report.colours`
    rigFirst                    set by a section: a promise after which charts may be drawn
    document event "rig:theme"  the theme changed: draw canvases again

Names of the case view (`static/case_view.js`), for lists and tables that open a case:

    rigOpenCase(caseKey)        show a case, scroll to it, focus it; false if there is none.
                                caseKey is `RUN_INDEX/CASE_ID/TRIAL` (`loading.case_key`)
    document event "rig:case"   a case was opened; event.detail.key

The Content-Security-Policy lets run what is in the page and nothing else: scripts by their hash, no
connection, no form, no frame.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from audio.errors import InputError
from audio.files import atomic_path
from rig.report import colours
from rig.report.packed import Packed, json_text, pack
from rig.report.parts_folder import name_of, part_file, remove_others, write_parts

_KEY = re.compile(r"[a-z][a-z0-9_-]*")
_PAGE_SCRIPT = "page.js"


@dataclass(frozen=True, slots=True)
class Chart:
    """A plotly figure (`data`, `layout`), what it says in words, and its numbers as a table."""

    key: str
    figure: Mapping[str, Any]
    text: str
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str | float | int | None]] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a page. `wide`: it may use the whole width of the window."""

    key: str
    title: str
    html: Markup
    data: Mapping[str, Any] = field(default_factory=dict)
    charts: Sequence[Chart] = ()
    scripts: Sequence[str] = ()
    wide: bool = False
    parts: Mapping[str, Any] = field(default_factory=dict)


def render(template: str, **values: Any) -> Markup:
    """A template of `rig/report/templates` with autoescape; an undefined name is an error."""
    return Markup(_environment().get_template(template).render(**values))  # noqa: S704


def write_page(title: str, sections: Sequence[Section], out: Path, *,
               lead: Sequence[str] = (), parts_dir: Path | None = None) -> int:
    """Write the page whole or not at all; returns the bytes written, parts beside it included.

    With `parts_dir` (below the folder of `out`) every part is a file in `PARTS_DIR-HASH` there
    instead of a piece of the page; see `rig.report.parts_folder`. `lead`: lines below the title.
    Raises `InputError` where something cannot be written or removed, or a number is not finite.
    """
    _check_keys(sections)
    parts = {f"{s.key}-{name}": value if isinstance(value, Packed) else pack(value, where=out)
             for s in sections for name, value in s.parts.items()}
    data = {s.key: json_text(s.data, out) for s in sections if s.data}
    charts = {f"{s.key}-{c.key}": c.figure for s in sections for c in s.charts}
    beside, written = None, 0
    if parts_dir is not None:
        contents = {name: part_file(name, p.text, p.gzipped) for name, p in parts.items()}
        beside = parts_dir.with_name(name_of(parts_dir.name, data, contents))
        written = write_parts(beside, contents)
        parts = {}
    plotly = charts_script() if charts else None
    data["page"] = json_text({
        "charts": charts,
        "parts": None if beside is None else beside.relative_to(out.parent).as_posix(),
    }, out)
    scripts = [_static(name) for name in dict.fromkeys(
        (_PAGE_SCRIPT, *(name for s in sections for name in s.scripts)))]
    allowed = [*scripts, *([plotly.source] if plotly else [])]
    pieces = _environment().get_template("page.html.j2").generate(
        title=title, lead=lead, sections=sections,
        style=Markup(colours.css() + _static("page.css")),  # noqa: S704
        policy=_policy(allowed, beside is not None),
        data=[(name, Markup(text)) for name, text in data.items()],  # noqa: S704
        parts=[(name, Markup(part.text), part) for name, part in parts.items()],  # noqa: S704
        plotly=Markup(plotly.packed) if plotly else None,  # noqa: S704
        scripts=[Markup(script) for script in scripts])  # noqa: S704
    with atomic_path(out) as temporary, temporary.open("wb") as file:
        # Piece by piece: a page of sound is never there whole. A lone surrogate, which JSON can
        # hold, has no bytes.
        written += sum(file.write(piece.encode("utf-8", "replace")) for piece in pieces)
    if parts_dir is not None and beside is not None:
        remove_others(parts_dir, beside.name)
    return written


def _policy(scripts: Sequence[str], parts_beside: bool) -> str:
    """Styles may be inline, as plotly sets them on its elements; a page from disk has no origin of
    its own that every browser takes for 'self', so that parts need `file:`."""
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'"
              for s in scripts]
    beside = ["'self'", "file:"] if parts_beside else []
    return "; ".join((
        "default-src 'none'", f"script-src {' '.join([*hashes, *beside])}",
        "style-src 'unsafe-inline'", "img-src data: blob:", "media-src data: blob:",
        "connect-src 'none'", "base-uri 'none'", "form-action 'none'"))


def _check_keys(sections: Sequence[Section]) -> None:
    """Keys become ids and file names: `ValueError` for one that cannot be, or is used twice."""
    keys = [s.key for s in sections]
    keys += [f"{s.key}-{c.key}" for s in sections for c in s.charts]
    keys += [f"{s.key}-{name}" for s in sections for name in s.parts]
    wrong = [key for key in keys if not _KEY.fullmatch(key) or key == "page"]
    twice = len({*keys}) != len(keys)
    if wrong or twice:
        raise ValueError(f"keys of a page: {f'not one: {wrong[0]!r}' if wrong else 'used twice'}")


@functools.cache
def _environment() -> Environment:
    return Environment(loader=PackageLoader("rig.report"), autoescape=True,
                       undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
                       finalize=_isolated)


_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ISOLATES = re.compile("[\u2066-\u2069]")


def _isolated(value: Any) -> Any:
    """A text that turns the direction of writing turns its own alone: between the marks of an
    isolate (Unicode, UAX 9) it cannot reverse what follows. `rigElement` does it by the word."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    # Control characters, which a page cannot hold, are spelled out as on a terminal.
    value = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", value)
    if not _DIRECTION.search(value):
        return value
    return f"\u2068{_ISOLATES.sub('', value)}\u2069"


@functools.cache
def _static(name: str) -> str:
    text = files("rig.report").joinpath("static", name).read_text(encoding="utf-8")
    if re.search(r"</(script|style)|<!--", text, re.IGNORECASE):
        raise ValueError(f"{name}: would end its element")
    return text


@dataclass(frozen=True, slots=True)
class _Packed:
    source: str
    packed: str


@functools.cache
def charts_script() -> _Packed:
    """plotly.js of the package, and gzip of it in base64: 4.8 MB become 1.9."""
    found = find_spec("plotly")  # the package itself need not be loaded for its script
    if found is None or not found.submodule_search_locations:
        raise InputError("charts need the package plotly, which is not installed")
    script = Path(found.submodule_search_locations[0]) / "package_data" / "plotly.min.js"
    source = script.read_text(encoding="utf-8")
    packed = gzip.compress(source.encode(), compresslevel=9, mtime=0)
    return _Packed(source, base64.b64encode(packed).decode())
