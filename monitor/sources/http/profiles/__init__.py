"""Reads profiles. A profile describes the requests and answers of a known API, in a YAML file.

`docs/reference/http-profiles.md` explains the format.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from monitor.boundary.files import read_bounded

PROFILE_FOLDER = Path(__file__).parent
_MAX_PROFILE_BYTES = 1 << 16
_PLACEHOLDER = re.compile(r"<([a-z_]+)>")
_NOTHING = object()
"""Marks a variable that has no value, and a part of a profile that is left out."""


def with_profile(options: Mapping[str, Any], base: str | None) -> dict[str, Any]:
    """Merge the options with the profile that they name. Values in the options have precedence.

    A profile named ``FILE.yaml`` is a file in the folder ``base``. Raises ValueError if the profile
    cannot be read, or if ``with`` does not fit the variables of the profile.
    """
    name = str(options["profile"])
    values = options.get("with") or {}
    path = PROFILE_FOLDER / f"{name}.yaml"
    if name.endswith(".yaml"):
        path = Path(base or ".", name)
    try:
        profile = yaml.safe_load(read_bounded(path, _MAX_PROFILE_BYTES))
        template = profile["http"]
        variables = profile.get("with", {})
        all_values = {
            variable: values.get(variable, about.get("default", _NOTHING))
            for variable, about in variables.items()
        }
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        names = ", ".join(sorted(file.stem for file in PROFILE_FOLDER.glob("*.yaml")))
        why = getattr(error, "strerror", None) or "it is no mapping with the keys http and with"
        raise ValueError(
            f"cannot read profile {name} ({why}): use one of {names}, or ./FILE.yaml for your own"
        ) from None
    if _NOTHING in all_values.values() or set(values) - set(all_values):
        descriptions = []
        for variable, value in all_values.items():
            descriptions.append(f"{variable}: {variables[variable]['about']}")
            if value is _NOTHING:
                descriptions[-1] += ", required"
        raise ValueError(
            f"with must set all required variables of profile {name}, and no unknown ones "
            f"({'; '.join(descriptions) or 'it has none'})"
        )
    usual = _fill(template, all_values)
    auth = options.get("auth")
    usual_auth = usual.pop("auth", {})
    if isinstance(auth, Mapping):
        usual["auth"] = {kind: usual_auth[kind] for kind in usual_auth if kind in auth}
    merged: dict[str, Any] = _merge(usual, options)
    return merged


def _merge(usual: Any, options: Any) -> Any:  # noqa: ANN401 - YAML
    if isinstance(usual, Mapping) and isinstance(options, Mapping):
        merged = {key: _merge(usual.get(key), value) for key, value in options.items()}
        return {**usual, **merged}
    return options


def _fill(template: Any, values: Mapping[str, object]) -> Any:  # noqa: ANN401 - YAML
    """Fill in the values of variables. Leave out parts that name a variable whose value is None."""
    if isinstance(template, dict):
        filled = {}
        for key, value in template.items():
            pair = _fill(key, values), _fill(value, values)
            if _NOTHING not in pair:
                filled[pair[0]] = pair[1]
        return filled
    if isinstance(template, list):
        items = [_fill(item, values) for item in template]
        return [item for item in items if item is not _NOTHING]
    if not isinstance(template, str):
        return template
    names = [name for name in _PLACEHOLDER.findall(template) if name in values]
    if any(values[name] is None for name in names):
        return _NOTHING
    if names and template == f"<{names[0]}>":
        return values[names[0]]
    return _PLACEHOLDER.sub(lambda match: str(values.get(match[1], match[0])), template)
