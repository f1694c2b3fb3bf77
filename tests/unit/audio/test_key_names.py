"""Which variables of an environment hold keys, by their names."""

from __future__ import annotations

import pytest

from audio.key_names import HUB_SETTINGS, HUB_TOKENS, names_a_key, without_keys
from rig.doctor import KEYS


@pytest.mark.parametrize("name", [
    *KEYS, *HUB_TOKENS, "AZURE_OPENAI_KEY", "ICE_PASSWORD", "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS", "db_passwd",
    "KEY", "MyKey_Key", "CLIENT_SECRETS", "PGPASSWORD", "OPENAI_APIKEY", "GITHUB_TOKEN"])
def test_a_key_by_its_name(name: str) -> None:
    assert names_a_key(name)
    assert without_keys({name: "x", "PATH": "/bin"}) == {"PATH": "/bin"}


@pytest.mark.parametrize("name", [
    "PATH", "TOKENIZERS_PARALLELISM", "MAX_TOKENS", "MONKEY_PATCH", "KEYBOARD", "SSH_AUTH_SOCK",
    "PASSIVE", "HF_HOME", "CUDA_VISIBLE_DEVICES", ""])
def test_no_key_by_its_name(name: str) -> None:
    assert without_keys({name: "x"}) == {name: "x"}


def test_what_is_named_is_kept() -> None:
    kept = dict.fromkeys((*HUB_TOKENS, *HUB_SETTINGS), "x")
    assert without_keys({**kept, "A_KEY": "y"}, (*HUB_TOKENS, *HUB_SETTINGS)) == kept
