"""Configuration files as typed settings, or as an error that lists every problem with its line."""

import copy
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from monitor.errors import ConfigError
from monitor.settings.checks import check_settings
from monitor.settings.comparison_options import ComparisonOptions
from monitor.settings.configuration import Settings
from monitor.settings.problems import KeyPath
from monitor.settings.validation import (
    Partial,
    except_known,
    read_mapping,
    read_text,
    report_lines,
    validate_document,
)
from monitor.settings.yaml_document import EmptyConfigError, YamlDocument
from monitor.web.access_options import AccessOptions

_ANCHORS = "x-"

_WEB_CONFIG_ADVICE = "name another as web_config_file; config/web.yaml is an example"
_MAX_WEB_CONFIG_BYTES = 1 << 18
_RULE_KEYS = ("rules", "false_alarm_every")
_RULES_ADVICE = (
    "--rules takes a YAML file with rules: [...] or false_alarm_every: or both, or a "
    "whole configuration"
)


def load_settings(path: Path, environ: Mapping[str, str] | None = None) -> Settings:
    """Read and check the file.

    ConfigError lists everything that is wrong with it, one problem a line, by line.
    """
    return parse_settings(
        read_text(path), name=str(path), base_dir=path.absolute().parent, environ=environ
    )


def parse_settings(
    text: str, *, name: str, base_dir: Path, environ: Mapping[str, str] | None = None
) -> Settings:
    """Like `load_settings` for a text; relative paths in it start at ``base_dir``."""
    return check_document(read_mapping(text, name, environ), name, base_dir)


def check_document(
    document: YamlDocument, name: str, base_dir: Path, *, inside: KeyPath = ()
) -> Settings:
    """Settings of a document.

    Problems are reported under ``name``, by key paths below ``inside``.
    """
    context: dict[str, object] = {"base_dir": str(base_dir)}
    raw = document.mapping
    for key in [key for key in raw if key.startswith(_ANCHORS)]:
        del raw[key]
    access, access_lines = _read_access(Partial(Settings, raw, context).get("web_config_file"))
    settings, problems = validate_document(Settings, document, context)
    problems = [*problems, *except_known(check_settings(raw, context, access), problems)]
    if settings is None or problems or access_lines:
        lines = dict.fromkeys((*report_lines(document, problems, name, inside), *access_lines))
        raise ConfigError(
            "\n".join(lines)
            or f"{name}: is not valid, for an unknown reason: a defect of rankwatch"
        )
    return settings.with_access(access)


def _read_access(path: str | None) -> tuple[AccessOptions | None, list[str]]:
    """The options of that web configuration file, None when there is none or it is wrong, and all problems with it."""
    if path is None:
        return None, []
    try:
        text = read_text(
            Path(path), advice=_WEB_CONFIG_ADVICE, most=_MAX_WEB_CONFIG_BYTES, may_be_pipe=False
        )
        # Whoever else reads this file, in the form of Prometheus' exporter-toolkit, knows no
        # variables: `${` stands for itself.
        document = read_mapping(
            text.replace("${", "$${"), path, {}, example="basic_auth_users: {...}"
        )
    except EmptyConfigError:
        return AccessOptions(), []
    except ConfigError as error:
        return None, str(error).splitlines()
    options, problems = validate_document(
        AccessOptions, document, {"base_dir": str(Path(path).absolute().parent)}
    )
    return None if problems else options, list(report_lines(document, problems, path))


def load_with_rules(
    path: Path, rules: Path, names: Collection[str]
) -> tuple[ComparisonOptions, ...]:
    """The named comparisons of the configuration (all for none) as the file ``rules`` would have them judged.

    That is a whole configuration, or only ``rules:``, ``false_alarm_every:`` or both. ConfigError lists all that is wrong.
    """
    settings = load_settings(path)
    chosen = _chosen(settings, names, path)
    other = _read_rules(rules)
    if "comparisons" in other.mapping:
        return _chosen(load_settings(rules), [each.name for each in chosen], rules)
    if not other.mapping or set(other.mapping) - set(_RULE_KEYS):
        msg = (
            f"{rules}:{other.line(())}: must hold rules: [...] or false_alarm_every: or both, "
            "or be a whole configuration"
        )
        raise ConfigError(msg)
    places = {
        name: place
        for place, name in enumerate(dict.fromkeys(each.family for each in settings.comparisons))
    }
    return tuple(
        _with_rules_of(path, (rules, other), places[each.family], each.name) for each in chosen
    )


def _chosen(
    settings: Settings, names: Collection[str], path: Path
) -> tuple[ComparisonOptions, ...]:
    there = {each.name: each for each in settings.comparisons}
    if unknown := [name for name in names if name not in there]:
        raise ConfigError(
            f"no comparison named {unknown[0]!r} in {path}: it has {', '.join(there)}"
        )
    return tuple(there[name] for name in dict.fromkeys(names or there))


def _read_rules(path: Path) -> YamlDocument:
    try:
        return read_mapping(
            read_text(path, advice=_RULES_ADVICE), str(path), None, example="rules: [...]"
        )
    except EmptyConfigError:
        raise ConfigError(f"{path}: is empty: {_RULES_ADVICE}") from None


def _with_rules_of(
    path: Path, other: tuple[Path, YamlDocument], place: int, name: str
) -> ComparisonOptions:
    """The comparison of this name and place with the keys of the other file, checked as if there; problems name that file."""
    file, given = other
    document, inside = read_mapping(read_text(path), str(path), None), ("comparisons", place)
    # Validation puts texts back in place, so that each comparison needs its own copy.
    document.mapping["comparisons"][place].update(copy.deepcopy(given.mapping))
    document.lines |= {(*inside, *each): line for each, line in given.lines.items() if each}
    document.texts |= {(*inside, *each): text for each, text in given.texts.items()}
    document.expanded |= given.expanded
    document.problems += [replace(each, path=(*inside, *each.path)) for each in given.problems]
    found = check_document(document, str(file), path.absolute().parent, inside=inside)
    return next(each for each in found.comparisons if each.name == name)


_PACKAGED = Path(__file__).with_name("rankwatch.yaml")
_IN_CHECKOUT = Path(__file__).parents[2] / "config" / "rankwatch.yaml"


def example_text() -> str:
    """Its text: package data when installed, ``config/rankwatch.yaml`` in a checkout."""
    path = _PACKAGED if _PACKAGED.exists() else _IN_CHECKOUT
    return path.read_text(encoding="utf-8")
