"""Reads configuration files as typed settings. An error lists all problems with their lines."""

from collections.abc import Collection, Mapping
from pathlib import Path

from monitor.boundary.options.problems import KeyPath
from monitor.model.errors import ConfigError
from monitor.settings.checks import check_settings
from monitor.settings.comparison_options import ComparisonOptions
from monitor.settings.configuration import Settings
from monitor.settings.validation import read_text, report_lines, unreported, validate_document
from monitor.settings.yaml_document import EmptyConfigError, YamlDocument, parse_yaml
from monitor.web.access_options import AccessOptions

# A key at the top level with this prefix is no setting. Its value can have YAML anchors, to which
# settings refer.
_NO_SETTING_PREFIX = "x-"

_WEB_CONFIG_ADVICE = "name another as web_config_file; config/web.yaml is an example"
_MAX_WEB_CONFIG_BYTES = 1 << 18
_RULE_KEYS = ("rules", "false_alarm_every")
_RULES_ADVICE = (
    "--rules takes a YAML file with rules: [...] or false_alarm_every: or both, or a complete "
    "configuration"
)


def load_settings(path: Path, environ: Mapping[str, str] | None = None) -> Settings:
    """Read and check the file. If there are problems, raises ConfigError with one line for each."""
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
    """Read and check the text of a configuration. Relative paths in it start at ``base_dir``."""
    return _check_document(parse_yaml(text, name, environ), name, base_dir)


def _check_document(
    document: YamlDocument,
    name: str,
    base_dir: Path,
    *,
    inside: KeyPath = (),
) -> Settings:
    """Check the document, and return its settings, with the options of its web configuration file.

    Raises ConfigError with one line for each problem. The lines name the file ``name``, and show
    the key paths of problems. The beginning ``inside`` of a key path is not shown.
    """
    for key in list(document.data):
        if key.startswith(_NO_SETTING_PREFIX):
            del document.data[key]
    # Invalid parts of the settings become None, so the other parts can still be checked.
    settings, problems = validate_document(Settings, document, str(base_dir))
    access = None
    problem_lines_of_access: list[str] = []
    if settings is not None:
        access, problem_lines_of_access = _read_access(settings.web_config_file)
        problems += unreported(check_settings(settings, access), problems)
    lines = [*report_lines(document, problems, name, inside), *problem_lines_of_access]
    if settings is None or lines:
        unique_lines = dict.fromkeys(lines)
        raise ConfigError("\n".join(unique_lines))
    return settings.with_access(access)


def _read_access(path: str | None) -> tuple[AccessOptions | None, list[str]]:
    """Return the options in the web configuration file, and one line for each problem.

    The options are None if there is no such file or if the file has problems.
    """
    if path is None:
        return None, []
    try:
        content = read_text(
            Path(path),
            advice=_WEB_CONFIG_ADVICE,
            max_bytes=_MAX_WEB_CONFIG_BYTES,
            may_be_pipe=False,
        )
        # Prometheus' exporter-toolkit reads the same file and expands no variables. So this code
        # escapes ``${``, which is the beginning of a variable.
        document = parse_yaml(
            content.replace("${", "$${"), path, {}, example="basic_auth_users: {...}"
        )
    except EmptyConfigError:
        return AccessOptions(), []
    except ConfigError as error:
        return None, str(error).splitlines()
    base_dir = str(Path(path).absolute().parent)
    options, problems = validate_document(AccessOptions, document, base_dir)
    return options, list(report_lines(document, problems, path))


def load_with_rules(
    path: Path,
    rules_path: Path,
    names: Collection[str],
) -> tuple[ComparisonOptions, ...]:
    """Return the named comparisons with the rules of another file. Without names, returns all.

    The file ``rules_path`` has one of two forms:

    - A complete configuration. Then its comparisons with the same names are returned.
    - Only the keys ``rules:`` or ``false_alarm_every:`` or both. These keys replace the same keys
      of each comparison.

    Raises ConfigError with all problems.
    """
    settings = load_settings(path)
    chosen = _choose_comparisons(settings, names, path)
    rules_document = _read_rules(rules_path)
    if "comparisons" in rules_document.data:
        chosen_names = [comparison.name for comparison in chosen]
        return _choose_comparisons(load_settings(rules_path), chosen_names, rules_path)
    other_keys = set(rules_document.data) - set(_RULE_KEYS)
    if not rules_document.data or other_keys:
        raise ConfigError(
            f"{rules_path}:{rules_document.line(())}: must have rules: [...] or "
            "false_alarm_every: or both, or be a complete configuration"
        )
    # An entry of the list ``comparisons:`` gives one comparison for each candidate. The name of the
    # entry is the family of all these comparisons.
    entry_names = list(dict.fromkeys(options.family for options in settings.comparisons))
    with_rules = []
    for comparison in chosen:
        entry_index = entry_names.index(comparison.family)
        with_rules.append(_load_with_rule_keys(path, rules_path, entry_index, comparison.name))
    return tuple(with_rules)


def _choose_comparisons(
    settings: Settings,
    names: Collection[str],
    path: Path,
) -> tuple[ComparisonOptions, ...]:
    """The comparisons with these names, in this order, or all if there are no names.

    Raises ConfigError if a name does not exist. The error names the file ``path``.
    """
    by_name = settings.comparisons_by_name
    for name in names:
        if name not in by_name:
            choices = ", ".join(by_name)
            raise ConfigError(f"no comparison named {name!r} in {path}: it has {choices}")
    return tuple(by_name[name] for name in dict.fromkeys(names or by_name))


def _read_rules(path: Path, inside: KeyPath = ()) -> YamlDocument:
    """Read the file of the option ``--rules``. Key paths in the document begin with ``inside``.

    Raises ConfigError if the file is empty or unreadable.
    """
    try:
        text = read_text(path, advice=_RULES_ADVICE)
        return parse_yaml(text, str(path), example="rules: [...]", inside=inside)
    except EmptyConfigError:
        raise ConfigError(f"{path}: is empty: {_RULES_ADVICE}") from None


def _load_with_rule_keys(
    path: Path, rules_path: Path, entry_index: int, name: str
) -> ComparisonOptions:
    """Return the comparison ``name`` of the file ``path``, with the rules of the other file.

    ``rules_path`` has only keys of `_RULE_KEYS`. ``entry_index`` says which entry of the list
    ``comparisons:`` defines the comparison. The whole configuration is checked with the new keys.
    Problems name the file ``rules_path`` and its lines.
    """
    inside = ("comparisons", entry_index)
    # A key has the same path in both documents, so the new line and text replace the old ones.
    rules_document = _read_rules(rules_path, inside)
    document = parse_yaml(read_text(path), str(path))
    document.data["comparisons"][entry_index].update(rules_document.data)
    document.lines |= rules_document.lines
    document.texts |= rules_document.texts
    document.expanded |= rules_document.expanded
    document.problems += rules_document.problems
    settings = _check_document(document, str(rules_path), path.absolute().parent, inside=inside)
    return settings.comparisons_by_name[name]


_PACKAGED = Path(__file__).with_name("rankwatch.yaml")
_IN_CHECKOUT = Path(__file__).parents[2] / "config" / "rankwatch.yaml"


def example_text() -> str:
    """The text of the example configuration, from the package or from ``config/``."""
    path = _PACKAGED if _PACKAGED.exists() else _IN_CHECKOUT
    return path.read_text(encoding="utf-8")
