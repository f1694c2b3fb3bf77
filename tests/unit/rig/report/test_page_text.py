"""Text of others in the templates of a page."""

from __future__ import annotations

from rig.report.page import _environment


def test_control_characters_are_spelled_out_and_lines_kept() -> None:
    """A browser may show none of them; who prints the page to a terminal obeys them."""
    template = _environment().from_string("{{ text }}")
    assert template.render(text="\x1b[31mred\x1b]0;x\x07\x00\x9b\n\t<b>\u00e9") == (
        r"\x1b[31mred\x1b]0;x\x07\x00\x9b" "\n\t&lt;b&gt;\u00e9")
    assert template.render(text="\x1b\u202ex") == "\u2068\\x1b\u202ex\u2069"
    assert template.render(text=5) == "5"
