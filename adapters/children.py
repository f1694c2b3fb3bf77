"""How child processes of an adapter are started."""

from __future__ import annotations

import os
import subprocess
from typing import Any

OWN_GROUP: dict[str, Any] = (
    {"process_group": 0} if os.name == "posix"
    else {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)})
"""Arguments of a start: Ctrl-C is for the parent, which ends its children itself.

A group and not a session: Linux weighs nice levels within a session alone (sched_autogroup), and
children that compute much give way by theirs.
"""
