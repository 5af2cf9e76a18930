"""The keys of JSON, as `docs/reference/json.md` lists them."""

import json
import re

from places import ROOT

GUIDE = (ROOT / "docs/reference/json.md").read_text()
KEYS: dict[str, str] = dict(re.findall(r"(?m)^\| `(\w+)((?:\.[A-Z,]+)*)` \|", GUIDE))
"""Each key, with `.METRIC` or the like if its value is an object by names."""


def unlisted(value):
    """The keys that the guide does not list."""
    if isinstance(value, list):
        return set().union(*map(unlisted, value))
    if not isinstance(value, dict):
        return set()
    found = value.keys() - KEYS.keys()
    for key, inner in value.items():
        found |= unlisted(_below_names([inner], KEYS.get(key, "").count(".")))
    return found


def _below_names(values, levels):
    for _ in range(levels):
        values = [
            inner
            for value in values
            for inner in (value.values() if isinstance(value, dict) else [value])
        ]
    return values


def read_listed(text):
    """The JSON in the text, with listed keys only."""
    value = json.loads(text)
    assert unlisted(value) == set(), "explain these keys in docs/reference/json.md"
    return value
