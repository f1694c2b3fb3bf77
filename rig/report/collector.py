"""Python's search for cycles of objects, held back where many objects are made and none of them
holds a cycle: imports, and the sessions of a page. It would go through all of them again and again
and find nothing; what is no longer used is freed without it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """No search inside the block; afterwards it is as it was before."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
