"""Profiles: what to ask a known API and where its answer has what, each a YAML file.

README.md says what stands in one.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from monitor.files import read_bounded

FOLDER = Path(__file__).parent
_MAX_BYTES = 1 << 16
_VARIABLE = re.compile(r"<([a-z_]+)>")
_NOTHING = object()


def with_profile(given: Mapping[str, Any], base: str | None) -> dict[str, Any]:
    """These options over those of the profile that they name, or of a .yaml file at ``base``.

    ValueError where that fails.
    """
    name, values = str(given["profile"]), given.get("with") or {}
    path = Path(base or ".", name) if name.endswith(".yaml") else FOLDER / f"{name}.yaml"
    try:
        profile = yaml.safe_load(read_bounded(path, _MAX_BYTES))
        usual, variables = profile["http"], profile.get("with", {})
        known = {
            variable: values.get(variable, told.get("default", _NOTHING))
            for variable, told in variables.items()
        }
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        there = ", ".join(sorted(each.stem for each in FOLDER.glob("*.yaml")))
        why = getattr(error, "strerror", None) or "it is no mapping with http and with"
        msg = (
            f"profile {name} cannot be read ({why}): there are {there}, or FILE.yaml for one "
            "of your own"
        )
        raise ValueError(msg) from None
    if _NOTHING in known.values() or set(values) - set(known):
        wanted = "; ".join(
            f"{each}: {variables[each]['about']}" + ", required" * (known[each] is _NOTHING)
            for each in known
        )
        msg = (
            f"profile {name} must be given in with what is required, and no more than it takes "
            f"({wanted or 'nothing'})"
        )
        raise ValueError(msg)
    options, kinds = _filled(usual, known), given.get("auth")
    auth = {
        kind: each
        for kind, each in options.pop("auth", {}).items()
        if isinstance(kinds, Mapping) and kind in kinds
    }
    return {
        **options,
        **{
            key: _over(auth if key == "auth" else options.get(key), value)
            for key, value in given.items()
        },
    }


def _over(usual: object, given: object) -> object:
    if isinstance(usual, Mapping) and isinstance(given, Mapping):
        return {**usual, **{key: _over(usual.get(key), value) for key, value in given.items()}}
    return given


def _filled(value: Any, known: Mapping[str, object]) -> Any:  # noqa: ANN401 - YAML
    if isinstance(value, dict):
        pairs = ((_filled(key, known), _filled(each, known)) for key, each in value.items())
        return {key: each for key, each in pairs if _NOTHING not in (key, each)}
    if isinstance(value, list):
        return [each for each in (_filled(each, known) for each in value) if each is not _NOTHING]
    named = (
        [name for name in _VARIABLE.findall(value) if name in known]
        if isinstance(value, str)
        else []
    )
    if any(known[name] is None for name in named):
        return _NOTHING
    if named and value == f"<{named[0]}>":
        return known[named[0]]
    return (
        _VARIABLE.sub(lambda match: str(known.get(match[1], match[0])), value) if named else value
    )
