"""Reads configuration files as typed settings. An error lists all problems with their lines."""

import copy
from collections.abc import Collection, Mapping
from pathlib import Path

from monitor.errors import ConfigError
from monitor.settings.checks import check_settings
from monitor.settings.comparison_options import ComparisonOptions
from monitor.settings.configuration import Settings
from monitor.settings.problems import KeyPath, within
from monitor.settings.validation import (
    Partial,
    read_mapping,
    read_text,
    report_lines,
    unreported,
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
    """Read and check the file. ConfigError lists each problem on its own line, in file order."""
    return parse_settings(
        read_text(path),
        name=str(path),
        base_dir=path.absolute().parent,
        environ=environ,
    )


def parse_settings(
    text: str,
    *,
    name: str,
    base_dir: Path,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Read and check a text like `load_settings`. Its relative paths start at ``base_dir``."""
    return check_document(read_mapping(text, name, environ), name, base_dir)


def check_document(
    document: YamlDocument,
    name: str,
    base_dir: Path,
    *,
    inside: KeyPath = (),
) -> Settings:
    """The settings of a document.

    Problems are reported for the file ``name``, with key paths below ``inside``.
    """
    context: dict[str, object] = {"base_dir": str(base_dir)}
    raw = document.mapping
    for key in list(raw):
        if key.startswith(_ANCHORS):
            del raw[key]
    access, access_lines = _read_access(Partial(Settings, raw, context).get("web_config_file"))
    settings, problems = validate_document(Settings, document, context)
    problems = [*problems, *unreported(check_settings(raw, context, access), problems)]
    if settings is None or problems or access_lines:
        lines = dict.fromkeys((*report_lines(document, problems, name, inside), *access_lines))
        unexplained = (
            f"{name}: is not valid, but no problem was found: report this defect of rankwatch"
        )
        raise ConfigError("\n".join(lines) or unexplained)
    return settings.with_access(access)


def _read_access(path: str | None) -> tuple[AccessOptions | None, list[str]]:
    """The options of the web configuration file, and one line for each of its problems.

    The options are None if there is no file or if it has problems.
    """
    if path is None:
        return None, []
    try:
        content = read_text(
            Path(path),
            advice=_WEB_CONFIG_ADVICE,
            most=_MAX_WEB_CONFIG_BYTES,
            may_be_pipe=False,
        )
        # Prometheus' exporter-toolkit reads the same file and expands no variables.
        document = read_mapping(
            content.replace("${", "$${"),
            path,
            {},
            example="basic_auth_users: {...}",
        )
    except EmptyConfigError:
        return AccessOptions(), []
    except ConfigError as error:
        return None, str(error).splitlines()
    base_dir = str(Path(path).absolute().parent)
    options, problems = validate_document(AccessOptions, document, {"base_dir": base_dir})
    if problems:
        return None, list(report_lines(document, problems, path))
    return options, []


def load_with_rules(
    path: Path,
    rules: Path,
    names: Collection[str],
) -> tuple[ComparisonOptions, ...]:
    """Settings with the named comparisons, or all without names, and the rules of another file.

    The file ``rules`` is a configuration, or has only ``rules:``, ``false_alarm_every:`` or both.
    ConfigError lists all problems.
    """
    settings = load_settings(path)
    chosen = _chosen(settings, names, path)
    other = _read_rules(rules)
    if "comparisons" in other.mapping:
        return _chosen(load_settings(rules), [each.name for each in chosen], rules)
    if not other.mapping or set(other.mapping) - set(_RULE_KEYS):
        raise ConfigError(
            f"{rules}:{other.line(())}: must hold rules: [...] or false_alarm_every: or both, "
            "or be a whole configuration"
        )
    families = list(dict.fromkeys(each.family for each in settings.comparisons))
    judged = []
    for comparison in chosen:
        place = families.index(comparison.family)
        judged.append(_with_rules(path, rules, other, place, comparison.name))
    return tuple(judged)


def _chosen(
    settings: Settings,
    names: Collection[str],
    path: Path,
) -> tuple[ComparisonOptions, ...]:
    by_name = {each.name: each for each in settings.comparisons}
    for name in names:
        if name not in by_name:
            choices = ", ".join(by_name)
            raise ConfigError(f"no comparison named {name!r} in {path}: it has {choices}")
    return tuple(by_name[name] for name in dict.fromkeys(names or by_name))


def _read_rules(path: Path) -> YamlDocument:
    try:
        return read_mapping(
            read_text(path, advice=_RULES_ADVICE),
            str(path),
            None,
            example="rules: [...]",
        )
    except EmptyConfigError:
        raise ConfigError(f"{path}: is empty: {_RULES_ADVICE}") from None


def _with_rules(
    path: Path,
    rules: Path,
    other: YamlDocument,
    place: int,
    name: str,
) -> ComparisonOptions:
    """The comparison of this name and place, changed by the keys in the document of ``rules``.

    The keys are checked as a part of the configuration. Problems name the file ``rules``.
    """
    document = read_mapping(read_text(path), str(path), None)
    inside = ("comparisons", place)
    # Validation changes the mapping, so each comparison needs its own copy.
    document.mapping["comparisons"][place].update(copy.deepcopy(other.mapping))
    document.lines |= {(*inside, *keys): line for keys, line in other.lines.items() if keys}
    document.texts |= {(*inside, *keys): text for keys, text in other.texts.items()}
    document.expanded |= other.expanded
    document.problems += within(inside, other.problems)
    settings = check_document(document, str(rules), path.absolute().parent, inside=inside)
    return next(each for each in settings.comparisons if each.name == name)


_PACKAGED = Path(__file__).with_name("rankwatch.yaml")
_IN_CHECKOUT = Path(__file__).parents[2] / "config" / "rankwatch.yaml"


def example_text() -> str:
    """The example configuration, from the package or from ``config/`` in a checkout."""
    path = _PACKAGED if _PACKAGED.exists() else _IN_CHECKOUT
    return path.read_text(encoding="utf-8")
