"""Reads files, validates a document against a model, and reports problems with their lines.

This module defines no settings.
"""

import errno
import json
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path as FilePath
from typing import TypeVar

from pydantic import BaseModel

from monitor.boundary.files import read_bounded
from monitor.boundary.options.problems import (
    MAX_PROBLEMS,
    KeyPath,
    Problem,
    dotted_path,
    validate_options,
)
from monitor.model.errors import ConfigError
from monitor.settings.yaml_document import MAX_FILE_BYTES, YamlDocument

_ModelT = TypeVar("_ModelT", bound=BaseModel)
# Messages hide the values of variables, because they may be secrets. They show shorter values,
# because these may be usual words.
_SHORTEST_SECRET = 4
_MIB = 1 << 20

_ADVICE = "write one with `rankwatch init`, or name another with --config"


def read_text(
    path: FilePath,
    *,
    advice: str = _ADVICE,
    max_bytes: int = MAX_FILE_BYTES,
    may_be_pipe: bool = True,
) -> str:
    """Read a configuration file.

    Raises ConfigError if the file cannot be read or has more than ``max_bytes``. If there is no
    such file, the error contains ``advice``.
    """
    try:
        content = read_bounded(path, max_bytes, may_be_pipe=may_be_pipe)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file: {advice}") from None
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        if error.errno == errno.EFBIG:  # `read_bounded` reports a file with more bytes like this
            size = f"{max_bytes >> 10} KiB"
            if max_bytes >= _MIB:
                size = f"{max_bytes >> 20} MiB"
            problem = f"is larger than {size}, which is too large for a configuration"
        raise ConfigError(f"{path}: {problem}") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: is not UTF-8 text: save it as UTF-8") from None


def validate_document(
    model: type[_ModelT],
    document: YamlDocument,
    base_dir: str,
) -> tuple[_ModelT | None, list[Problem]]:
    """Return the settings and all problems of the document.

    An invalid part becomes None. If the part may not be None, the smallest section that contains it
    and may be None becomes None. Without such a section, the settings are None.
    """
    settings, invalid = validate_options(model, document.data, document.texts, base_dir)
    problems = [*document.problems, *unreported(invalid, document.problems)]
    return settings, problems


def unreported(problems: Iterable[Problem], reported: Iterable[Problem]) -> Iterator[Problem]:
    """Return the problems of keys for which no problem has been reported yet."""
    reported_paths = {problem.path for problem in reported}
    return (problem for problem in problems if problem.path not in reported_paths)


def report_lines(
    document: YamlDocument,
    problems: Iterable[Problem],
    name: str,
    inside: KeyPath = (),
) -> Iterator[str]:
    """Yield a text ``name:line: key: message`` for each problem, in the order of lines.

    At most MAX_PROBLEMS problems are shown. Key paths are shown without the prefix ``inside``.
    Values of variables are hidden, because they may be secrets.
    """
    secrets = _find_secrets(document)
    lines_and_problems = [
        (problem.line or document.line(problem.path), problem) for problem in problems
    ]
    lines_and_problems.sort(key=itemgetter(0))
    for line, problem in lines_and_problems[:MAX_PROBLEMS]:
        shown = problem.message
        # Hide values before whitespace is changed, because a value may contain whitespace.
        for secret in secrets:
            shown = shown.replace(secret, "...")
        shown = " ".join(shown.split())
        path = problem.path
        if path[: len(inside)] == inside:
            path = path[len(inside) :]
        # A problem of the whole file has no path.
        parts = [f"{name}:{line}", dotted_path(path), shown]
        yield ": ".join(filter(None, parts))
    if len(lines_and_problems) > MAX_PROBLEMS:
        yield f"{name}: and {len(lines_and_problems) - MAX_PROBLEMS} more problems"


def _find_secrets(document: YamlDocument) -> list[str]:
    """Return the texts that messages hide. The longest is first, as it may contain another one."""
    secrets = set[str]()
    for value in document.expanded:
        if len(value) >= _SHORTEST_SECRET:
            # A message may contain the value unchanged or with escapes, so hide all these forms.
            secrets |= {value, repr(value)[1:-1], json.dumps(value)[1:-1]}
    return sorted(secrets, key=len, reverse=True)
