"""A configuration with other rules in place of its own, to try them out."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path as FilePath

from monitor.errors import ConfigError
from monitor.settings.document import Document, DocumentError, EmptyDocumentError, read
from monitor.settings.loading import load, settings_of
from monitor.settings.models import ComparisonOptions, Settings
from monitor.settings.reading import read_text

_SWAPPED = ("rules", "false_alarm_every")
_WANTED = "--rules takes a YAML file with rules: [...] or false_alarm_every: or both, or a whole configuration"


def load_with_rules(
    path: FilePath, rules: FilePath, names: Collection[str], environ: Mapping[str, str] | None = None
) -> tuple[ComparisonOptions, ...]:
    """The named comparisons of the configuration (all for none) as the file ``rules`` would have them judged.

    That file is a whole configuration, whose comparisons of these names count, or only ``rules:``, ``false_alarm_every:`` or
    both, which take the place of each comparison's own. ConfigError lists everything that is wrong with either, by line.
    """
    values = os.environ if environ is None else environ
    settings = load(path, values)
    chosen = _chosen(settings, names, path)
    other = _read_rules(rules, values)
    if isinstance(other.data, dict) and "comparisons" in other.data:
        return _chosen(load(rules, values), [each.name for each in chosen], rules)
    if not isinstance(other.data, dict) or not set(other.data) & set(_SWAPPED) or set(other.data) - set(_SWAPPED):
        msg = f"{rules}:{other.line(())}: must hold rules: [...] or false_alarm_every: or both, or be a whole configuration"
        raise ConfigError(msg)
    places = {each.name: place for place, each in enumerate(settings.comparisons)}
    return tuple(_swap(path, (rules, other), places[each.name], values) for each in chosen)


def _chosen(settings: Settings, names: Collection[str], path: FilePath) -> tuple[ComparisonOptions, ...]:
    there = {each.name: each for each in settings.comparisons}
    if unknown := [name for name in names if name not in there]:
        msg = f"no comparison named {unknown[0]!r} in {path}: it has {', '.join(there)}"
        raise ConfigError(msg)
    return tuple(there[name] for name in dict.fromkeys(names or there))


def _read_rules(path: FilePath, environ: Mapping[str, str]) -> Document:
    """The other rules' file, whose absence is not mended by a new configuration."""
    if not path.exists():
        msg = f"{path}: no such file: {_WANTED}"
        raise ConfigError(msg)
    return _read(path, environ, empty=_WANTED)


def _read(path: FilePath, environ: Mapping[str, str], *, empty: str = "") -> Document:
    try:
        return read(read_text(path), environ)
    except EmptyDocumentError as error:
        msg = f"{path}: {f'is empty: {empty}' if empty else error.message}"
        raise ConfigError(msg) from None
    except DocumentError as error:
        msg = f"{path if error.line is None else f'{path}:{error.line}'}: {error.message}"
        raise ConfigError(msg) from None


def _swap(path: FilePath, other: tuple[FilePath, Document], place: int, environ: Mapping[str, str]) -> ComparisonOptions:
    """The comparison at this place with the other's keys, checked as though they stood there; problems name the other file."""
    file, given = other
    document, inside = _read(path, environ), ("comparisons", place)
    comparison = _at(document, place)
    fresh = _read(file, environ)  # reading puts texts back in place as it checks: each comparison needs its own
    comparison.update(fresh.data if isinstance(fresh.data, dict) else {})
    document.lines |= {(*inside, *each): line for each, line in given.lines.items() if each}
    document.texts |= {(*inside, *each): text for each, text in given.texts.items()}
    document.expanded |= given.expanded
    document.problems += [replace(each, path=(*inside, *each.path)) for each in given.problems]
    return settings_of(document, str(file), path.absolute().parent, inside=inside).comparisons[place]


def _at(document: Document, place: int) -> dict[str, object]:
    data = document.data
    found: dict[str, object] = data["comparisons"][place] if isinstance(data, dict) else {}
    return found
