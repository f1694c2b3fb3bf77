"""Names that a suite gives to its parts: each pattern, and what it asks for in words.

One description for three readers: the models of `probes.spec`, the JSON Schemas that are made of
them, and the messages (`probes.yamlfile`). Case ids are `ROLE-PROBE-INSTANCE-LEVEL` and become
file names, so their parts are upper-case letters and digits: no two differ by case alone.
"""

from __future__ import annotations

from collections.abc import Mapping

ROLE_ID = r"^([A-RT-Z][A-Z0-9]{0,15}|S[A-Z0-9]{1,15})$"
"""`S` alone stands for shared audio in ids of conversations."""
PROBE_LABEL = r"^[A-Z][A-Z0-9]{0,15}$"
PROBE_ID = r"^[A-Z][A-Z0-9]*(_[A-Za-z0-9]+)*$"
CONVERSATION_ID = r"^[A-Z][A-Z0-9]{0,15}-[A-Z][A-Z0-9]{0,15}-[1-9][0-9]?$"
NAME = r"^[a-z][a-z0-9_]*$"
SUITE_NAME = r"^[a-z][a-z0-9-]*$"
VERSION = r"^\d+\.\d+\.\d+$"
EDGE = r"^[a-z][a-z0-9_]*\.(start|end)( \+ \d{1,2}(\.\d{1,6})?)?$"
"""A window edge: `SEGMENT.start`, `SEGMENT.end`, `turn2.start`, `turn2.end`, ` + seconds`."""

IN_WORDS: Mapping[str, str] = {
    ROLE_ID: "a role id: 1 to 16 upper-case letters and digits, a letter first, not S alone",
    PROBE_LABEL: "a probe label: 1 to 16 upper-case letters and digits, a letter first",
    PROBE_ID: "a probe id like PAUSE or CARE_CHECK_still_there",
    CONVERSATION_ID: "a conversation id ROLE-PROBE-INSTANCE (S-PROBE-INSTANCE for shared audio), "
                     "instance 1 to 99",
    NAME: "a name of lower-case letters, digits and _, a letter first",
    SUITE_NAME: "a suite name of lower-case letters, digits and -, a letter first",
    VERSION: "a version like 1.0.0",
    EDGE: "a window edge like pause.start or turn2.end + 10.0",
}
"""Pattern to words."""
