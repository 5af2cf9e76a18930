"""The hash over what the scores of a comparison mean: runs of one hash are compared with each other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr

from monitor.metrics import parse
from monitor.options import NOT_IN_HASH
from monitor.settings.comparison_options import ComparisonOptions

_HASHED = (
    *("k", "baseline", "candidate", "users", "seed", "item_weights", "relevance", "catalogue_size", "noise_floor"),
    "reference",
)


def config_hash(options: ComparisonOptions) -> str:
    """SHA-256 over everything that changes what a score means.

    Rules, schedule and storage do not enter, nor how lists are fetched: settings of sources that are marked `NOT_IN_HASH`. Of
    secrets only URLs enter, without user and password; passwords, tokens and headers do not.
    """
    metrics = sorted(str(parse(metric)) for metric in options.metrics)
    meaning = {"metrics": metrics} | {
        name: _meaning(found) for name in _HASHED if (found := getattr(options, name)) is not None
    }
    return hashlib.sha256(json.dumps(meaning, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _meaning(value: object) -> object:
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        named = ((name, getattr(value, name)) for name, field in fields.items() if NOT_IN_HASH not in field.metadata)
        # A setting that is added later and left out must not change the hash of what stood before: hence no nulls.
        return {name: _meaning(found) for name, found in named if _is_hashed(name, found)}
    if isinstance(value, SecretStr):
        return _without_credentials(value.get_secret_value())
    if isinstance(value, Mapping):
        return {str(key): _meaning(found) for key, found in value.items() if not isinstance(found, SecretStr)}
    if isinstance(value, list | tuple):
        return [_meaning(found) for found in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _is_hashed(name: str, value: object) -> bool:
    return value is not None and (name == "url" or not isinstance(value, SecretStr))


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
