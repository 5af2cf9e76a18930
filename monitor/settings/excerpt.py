"""The database and the names of a configuration, for commands that need no more: quick to load, whatever the other keys are."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from monitor.errors import ConfigError
from monitor.settings.problems import KeyPath
from monitor.settings.validation import read_mapping, read_text
from monitor.settings.yaml_document import YamlDocument
from monitor.storage import absolute_url


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseSettings:
    """The database's URL, and the names of the configured comparisons."""

    database: SecretStr
    comparison_names: tuple[str, ...]


def load_database_settings(path: Path) -> DatabaseSettings:
    """The database and names of comparisons, without variables and secrets of others.

    ConfigError lists all that is wrong.
    """
    text, base = read_text(path), path.absolute().parent
    if (found := _read_keys(read_mapping(text, str(path), None), base)) is not None:
        return found
    from monitor.settings.loader import parse_settings  # noqa: PLC0415 - it loads every source and receiver there is

    settings = parse_settings(text, name=str(path), base_dir=base)
    return DatabaseSettings(
        database=settings.database,
        comparison_names=tuple(each.name for each in settings.comparisons),
    )


def names_in(entry: object) -> Iterator[tuple[KeyPath, str | None]]:
    """The names of the comparisons that an entry stands for, by their keys.

    None for what is no text.
    """
    given = entry if isinstance(entry, Mapping) else {}
    name = found if isinstance(found := given.get("name"), str) else None
    keys = found if isinstance(found := given.get("candidates"), Mapping) else ()
    if given.get("candidate") is not None or not keys:
        yield ("name",), name
    for key in keys:
        yield ("candidates", key), name and f"{name}.{key}"
    for key, other in combinations(keys, 2) if given.get("pairs") not in (None, False) else ():
        yield ("candidates", other), name and f"{name}.{key}.{other}"


def _read_keys(document: YamlDocument, base: Path) -> DatabaseSettings | None:
    comparisons = document.mapping.get("comparisons")
    entries = comparisons if isinstance(comparisons, list) else []
    names: list[Any] = [name for entry in entries for _, name in names_in(entry)]
    url: Any = document.mapping.get("database")
    has_problem = any(
        problem.path[:1] == ("database",) or problem.path[-1:] == ("name",)
        for problem in document.problems
    )
    if has_problem or not names or not all(isinstance(each, str) for each in (url, *names)):
        return None
    try:
        return DatabaseSettings(
            database=absolute_url(SecretStr(url), base), comparison_names=tuple(names)
        )
    except ConfigError:
        return None
