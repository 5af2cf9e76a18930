"""Configuration files as typed settings, or as an error that lists every problem with its line."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from pathlib import Path as FilePath
from typing import Any

from monitor.errors import ConfigError
from monitor.settings.checks import check_settings
from monitor.settings.comparison_options import ComparisonOptions
from monitor.settings.configuration import Settings
from monitor.settings.problems import KeyPath, Problem
from monitor.settings.validation import Partial, except_known, read_mapping, read_text, report_lines, validate_document
from monitor.settings.web_config import WebConfig, read_web_config
from monitor.settings.yaml_document import DocumentError, EmptyDocumentError, YamlDocument, parse_yaml

_ANCHORS = "x-"


def config_path(given: FilePath | None = None, environ: Mapping[str, str] | None = None) -> FilePath:
    """The file to load: the one given, else ``RANKWATCH_CONFIG``, else ``./rankwatch.yaml``."""
    named = (os.environ if environ is None else environ).get("RANKWATCH_CONFIG")
    return given or FilePath(named or "rankwatch.yaml")


def load_settings(path: FilePath, environ: Mapping[str, str] | None = None) -> Settings:
    """Read and check the file. ConfigError lists everything that is wrong with it, one problem a line, by line."""
    return parse_settings(read_text(path), name=str(path), base_dir=path.absolute().parent, environ=environ)


def parse_settings(text: str, *, name: str, base_dir: FilePath, environ: Mapping[str, str] | None = None) -> Settings:
    """Like `load` for a text at hand; relative paths in it start at ``base_dir``."""
    return check_document(read_mapping(text, name, environ), name, base_dir)


def check_document(document: YamlDocument, name: str, base_dir: FilePath, *, inside: KeyPath = ()) -> Settings:
    """Settings of a document that is a mapping. Problems are told under ``name``, by key paths below ``inside``."""
    context: dict[str, object] = {"base_dir": str(base_dir)}
    raw: dict[str, Any] = document.data if isinstance(document.data, dict) else {}
    for key in [key for key in raw if key.startswith(_ANCHORS)]:
        del raw[key]
    access = read_web_config(Partial(Settings, raw, context).get("web_config_file"))
    settings, problems = _validate_settings(document, context, access)
    if settings is None or problems or access.problems:
        told = dict.fromkeys((*report_lines(document, problems, name, inside), *access.problems))
        raise ConfigError("\n".join(told) or f"{name}: is not valid, for a reason that could not be told apart: a defect")
    return settings.with_access(access.options)


def _validate_settings(
    document: YamlDocument, context: dict[str, object], access: WebConfig
) -> tuple[Settings | None, list[Problem]]:
    settings, problems = validate_document(Settings, document, context)
    return settings, [*problems, *except_known(check_settings(document.data, context, access), problems)]


_RULE_KEYS = ("rules", "false_alarm_every")
_RULES_ADVICE = "--rules takes a YAML file with rules: [...] or false_alarm_every: or both, or a whole configuration"


def load_with_rules(
    path: FilePath, rules: FilePath, names: Collection[str], environ: Mapping[str, str] | None = None
) -> tuple[ComparisonOptions, ...]:
    """The named comparisons of the configuration (all for none) as the file ``rules`` would have them judged.

    That file is a whole configuration, whose comparisons of these names count, or only ``rules:``, ``false_alarm_every:`` or
    both, which take the place of each comparison's own. ConfigError lists everything that is wrong with either, by line.
    """
    values = os.environ if environ is None else environ
    settings = load_settings(path, values)
    chosen = _chosen(settings, names, path)
    other = _read_rules(rules, values)
    if isinstance(other.data, dict) and "comparisons" in other.data:
        return _chosen(load_settings(rules, values), [each.name for each in chosen], rules)
    if not isinstance(other.data, dict) or not set(other.data) & set(_RULE_KEYS) or set(other.data) - set(_RULE_KEYS):
        msg = f"{rules}:{other.line(())}: must hold rules: [...] or false_alarm_every: or both, or be a whole configuration"
        raise ConfigError(msg)
    places = {each.name: place for place, each in enumerate(settings.comparisons)}
    return tuple(_with_rules_of(path, (rules, other), places[each.name], values) for each in chosen)


def _chosen(settings: Settings, names: Collection[str], path: FilePath) -> tuple[ComparisonOptions, ...]:
    there = {each.name: each for each in settings.comparisons}
    if unknown := [name for name in names if name not in there]:
        msg = f"no comparison named {unknown[0]!r} in {path}: it has {', '.join(there)}"
        raise ConfigError(msg)
    return tuple(there[name] for name in dict.fromkeys(names or there))


def _read_rules(path: FilePath, environ: Mapping[str, str]) -> YamlDocument:
    """The other rules' file, whose absence is not mended by a new configuration."""
    if not path.exists():
        msg = f"{path}: no such file: {_RULES_ADVICE}"
        raise ConfigError(msg)
    return _read_document(path, environ, empty=_RULES_ADVICE)


def _read_document(path: FilePath, environ: Mapping[str, str], *, empty: str = "") -> YamlDocument:
    try:
        return parse_yaml(read_text(path), environ)
    except EmptyDocumentError as error:
        msg = f"{path}: {f'is empty: {empty}' if empty else error.message}"
        raise ConfigError(msg) from None
    except DocumentError as error:
        msg = f"{path if error.line is None else f'{path}:{error.line}'}: {error.message}"
        raise ConfigError(msg) from None


def _with_rules_of(
    path: FilePath, other: tuple[FilePath, YamlDocument], place: int, environ: Mapping[str, str]
) -> ComparisonOptions:
    """The comparison at this place with the other's keys, checked as though they stood there; problems name the other file."""
    file, given = other
    document, inside = _read_document(path, environ), ("comparisons", place)
    comparison = _comparison_at(document, place)
    fresh = _read_document(file, environ)  # reading puts texts back in place as it checks: each comparison needs its own
    comparison.update(fresh.data if isinstance(fresh.data, dict) else {})
    document.lines |= {(*inside, *each): line for each, line in given.lines.items() if each}
    document.texts |= {(*inside, *each): text for each, text in given.texts.items()}
    document.expanded |= given.expanded
    document.problems += [replace(each, path=(*inside, *each.path)) for each in given.problems]
    return check_document(document, str(file), path.absolute().parent, inside=inside).comparisons[place]


def _comparison_at(document: YamlDocument, place: int) -> dict[str, object]:
    data = document.data
    found: dict[str, object] = data["comparisons"][place] if isinstance(data, dict) else {}
    return found


_PACKAGED = Path(__file__).with_name("rankwatch.yaml")
_IN_CHECKOUT = Path(__file__).parents[2] / "config" / "rankwatch.yaml"


def example_text() -> str:
    """Its text: package data when installed, ``config/rankwatch.yaml`` in a checkout."""
    path = _PACKAGED if _PACKAGED.exists() else _IN_CHECKOUT
    return path.read_text(encoding="utf-8")
