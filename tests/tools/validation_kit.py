"""Keys of `rig sample` and files of answers, made by hand for tests whose figures are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rig.validation.key import Key, KeyItem, KeyPage
from rig.validation.studies import fields_of


def validation_key(study: Any, n: int, **columns: Sequence[Any]) -> Key:
    """A key of `n` items with pages of A1 to A3; `columns` set fields item by item."""
    items = []
    for k in range(n):
        given = {name: values[k] for name, values in columns.items()}
        action = given.get("action", "TAKE_TURN")
        labels = [said.conflict for said in given.get("judges", {}).values()]
        items.append(KeyItem.model_validate({
            "item_id": f"{k + 1:016x}", "case_id": f"R1-C1-{k + 1}-L2", "stream": f"R1-C1-{k + 1}",
            "role": "R1", "probe": "C1", "instance": k + 1, "action": action, "system": "s",
            "fields": fields_of(study, action, conflict=any(labels)),
            **({"verdict": "pass"} if study == "h2" else {}), **given}))
    order = tuple(item.item_id for item in items)
    pages = tuple(KeyPage(page_id=f"{k:016x}", annotator=f"A{k}", file=f"{study}.A{k}.html",
                          sha256="0" * 64, order=order) for k in (1, 2, 3))
    return Key(study=study, seed=1, secret="0" * 64, sources=(), strata=(), notes=(), pages=pages,
               judges=tuple(items[0].judges), items=tuple(items))


def answers_document(key: Key, annotator: str,
                     values: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """The file that a page downloads; `values` item by item in the order of the key."""
    page = next(p for p in key.pages if p.annotator == annotator)
    return {"kind": "duplexrig answers", "schema_version": 1, "study": key.study,
            "page_id": page.page_id, "annotator": annotator, "saved": "2026-01-01T00:00:00.000Z",
            "complete": False, "answers": [
                {"item_id": item.item_id, "answered": "2026-01-01T00:00:00.000Z", **given}
                for item, given in zip(key.items, values, strict=False) if given is not None]}
