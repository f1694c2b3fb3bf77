"""Environment variables that hold keys, by their names: what programs of others are not given.

Their values are never looked at here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

HUB_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACE_HUB_TOKEN", "HUGGINGFACE_TOKEN",
              "HUGGINGFACEHUB_API_TOKEN", "HF_API_TOKEN")
"""Tokens of the hub that weights come from: the two that its library reads (huggingface_hub,
`constants.py` and `utils/_auth.py`), and what other libraries and people call the same."""
HUB_SETTINGS = ("HF_TOKEN_PATH", "HF_HUB_DISABLE_IMPLICIT_TOKEN")
"""Settings of the same library that hold no token."""

_KEY_WORD = re.compile(r"KEYS?|.*(?:APIKEYS?|TOKEN|SECRETS?|PASSWORDS?|PASSWD|CREDENTIALS?)",
                       re.IGNORECASE)
"""A word between underscores. Not TOKENS: MAX_TOKENS is a number. Ours."""


def names_a_key(variable: str) -> bool:
    """Whether a variable holds a key, by its name: AZURE_OPENAI_KEY, AWS_SECRET_ACCESS_KEY,
    PGPASSWORD; not TOKENIZERS_PARALLELISM."""
    return any(_KEY_WORD.fullmatch(word) for word in variable.split("_"))


def without_keys(environment: Mapping[str, str], but: Collection[str] = ()) -> dict[str, str]:
    """An environment without the variables that hold keys; those named in `but` are kept."""
    return {name: value for name, value in environment.items()
            if name in but or not names_a_key(name)}
