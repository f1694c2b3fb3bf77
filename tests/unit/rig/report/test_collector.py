"""The search for cycles is held back inside a block alone."""

from __future__ import annotations

import gc

import pytest

from rig.report.collector import collector_paused


def _fails() -> None:
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            pass
        assert not gc.isenabled()
        raise ValueError("inside")


@pytest.mark.parametrize("before", [True, False])
def test_it_is_as_it_was_also_after_an_error(before: bool) -> None:
    was = gc.isenabled()
    try:
        (gc.enable if before else gc.disable)()
        with pytest.raises(ValueError, match="inside"):
            _fails()
        assert gc.isenabled() is before
    finally:
        (gc.enable if was else gc.disable)()
