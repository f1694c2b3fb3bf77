"""Annotators' pages in a browser, for tests: made by hand, and what they give back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from browser_page import PATIENCE_S

from rig.validation import page as pages
from rig.validation.key import Key, KeyItem, write_key
from rig.validation.sample import Item, Sample, text_block, turns_block
from rig.validation.studies import Study, fields_of

HOSTILE = "</script><img src=x onerror='window.hacked = 1'> & \u2028 <b>bold</b>"
SECRET = "7" * 64


def made_page(study: Study, out: Path, n: int = 2) -> tuple[Path, Key]:
    """A page of `n` items made by hand, with text that would be markup if it could."""
    items = tuple(Item(KeyItem(
        item_id=f"{k:016x}", case_id=f"R1-A-{k}", stream="s", role="R1", probe="A", instance=1,
        action="YIELD", fields=fields_of(study)), (
        text_block("Persona", HOSTILE),
        turns_block("User", [{"said": HOSTILE}, {"pause_s": 2.5},
                             {"mark": "from", "text": "here"}])))
        for k in range(n))
    sample = Sample(items, (), (), ())
    written = pages.write_pages(study, sample, ["A1"], SECRET, out)
    key = pages.make_key(study, 1, SECRET, sample, written)
    write_key(out / "key.json", key)
    return out / written[0].file, key


def downloaded(page: Any, button: str) -> str:
    with page.expect_download() as found:
        page.click(button)
    return Path(found.value.path()).read_text(encoding="utf-8")


def heading_of(page: Any) -> str:
    return str(page.inner_text("#annotate-heading"))


def answers_of(page: Any) -> dict[int, dict[str, Any]]:
    """What a window would give back, by the item's place on the page, without times."""
    found = json.loads(downloaded(page, "#annotate-json"))["answers"]
    order = page.evaluate("rigData('annotate').items.map((item) => item.id)")
    return {order.index(a["item_id"]): {n: v for n, v in a.items()
                                        if n not in ("item_id", "answered")} for a in found}


def until_answers(page: Any, expected: dict[int, dict[str, Any]]) -> None:
    for _ in range(round(PATIENCE_S)):
        if answers_of(page) == expected:
            return
        page.wait_for_timeout(200)
    assert answers_of(page) == expected
