"""Reads only the database and the names of comparisons from a configuration.

Some commands need nothing else. Reading is quick, and ignores problems of other keys.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from monitor.boundary.options.problems import KeyPath
from monitor.model.errors import ConfigError
from monitor.model.immutable import immutable
from monitor.settings.validation import read_text
from monitor.settings.yaml_document import YamlDocument, parse_yaml


@immutable
class DatabaseSettings:
    """The database's URL, and the names of the configured comparisons."""

    database: SecretStr
    comparison_names: tuple[str, ...]


def load_database_settings(path: Path) -> DatabaseSettings:
    """Read the database and the names of comparisons. Problems of other keys are ignored.

    For example, environment variables in other keys need not be set. If the database or a name has
    a problem, the complete file is checked, and a ConfigError lists all problems.
    """
    # This import is slow, and `load_comparison_names` does not need it.
    from monitor.storage.database_url import absolute_url  # noqa: PLC0415

    text = read_text(path)
    base = path.absolute().parent
    document = parse_yaml(text, str(path))
    names = comparison_names(_entries(document))
    has_valid_names = bool(names) and None not in names  # None is a name that is not text
    if has_valid_names and not _has_problem(document):
        # If the URL is invalid, the complete check below reports it.
        with suppress(ConfigError):
            database = absolute_url(SecretStr(document.data["database"]), base)
            return DatabaseSettings(database=database, comparison_names=tuple(names))
    # This import is slow, and only needed to report problems.
    from monitor.settings.loader import parse_settings  # noqa: PLC0415

    settings = parse_settings(text, name=str(path), base_dir=base)
    configured = tuple(settings.comparisons_by_name)
    return DatabaseSettings(database=settings.database, comparison_names=configured)


def _has_problem(document: YamlDocument) -> bool:
    """Whether the database is missing, or the database or a name has a problem."""
    for problem in document.problems:
        if problem.path[:1] == ("database",) or problem.path[-1:] == ("name",):
            return True
    return not isinstance(document.data.get("database"), str)


def load_comparison_names(path: Path) -> tuple[str, ...]:
    """Read the names of the comparisons. A name that is not text is left out."""
    names = comparison_names(_entries(load_document(path)))
    return tuple(name for name in names if name is not None)


def load_document(path: Path) -> YamlDocument:
    """Read the file without checks of its settings."""
    return parse_yaml(read_text(path), str(path))


def comparison_names(entries: Iterable[object]) -> list[Any]:
    """Return the names of all comparisons in these entries. A name that is not text is None."""
    names: list[Any] = []
    for entry in entries:
        names += [name for _, name in names_in(entry)]
    return names


def _entries(document: YamlDocument) -> list[object]:
    comparisons = document.data.get("comparisons")
    return comparisons if isinstance(comparisons, list) else []


def line_of_setting(document: YamlDocument, comparison: str, setting: str) -> int:
    """Return the line of ``baseline``, ``candidate`` or ``users`` of this comparison, or else 1.

    The candidate of a comparison ``NAME.KEY`` is the key ``KEY`` in ``candidates``.
    """
    for index, entry in enumerate(_entries(document)):
        for path_in_entry, name in names_in(entry):
            if name == comparison:
                is_one_of_several = path_in_entry[0] == "candidates"
                path: KeyPath = (setting,)
                if setting == "candidate" and is_one_of_several:
                    path = path_in_entry  # of the key KEY in ``candidates``
                return document.line(("comparisons", index, *path))
    return 1


def names_in(entry: object) -> Iterator[tuple[KeyPath, str | None]]:
    """Yield the name of each comparison that an entry of ``comparisons`` defines, after a key path.

    The key path leads from the entry to the key that defines the comparison: to ``name``, or to a
    key in ``candidates``. For a pair of candidates, it is the key of the second candidate. A name
    that is not text becomes None.
    """
    if not isinstance(entry, Mapping):
        yield ("name",), None
        return
    family = entry.get("name")

    def join_name(*keys: str) -> str | None:
        return ".".join((family, *keys)) if isinstance(family, str) else None

    candidates = entry.get("candidates")
    if not isinstance(candidates, Mapping):
        candidates = {}
    # The comparison with the key ``candidate``. An entry without any candidate is invalid, but it
    # has a name.
    if entry.get("candidate") is not None or not candidates:
        yield ("name",), join_name()
    # One comparison for each of several candidates.
    for key in candidates:
        yield ("candidates", key), join_name(key)
    # One comparison for each pair of candidates.
    if entry.get("pairs") not in (None, False):
        for first, second in combinations(candidates, 2):
            yield ("candidates", second), join_name(first, second)
