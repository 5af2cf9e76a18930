"""Reads the configuration file: every problem at once, one a line, or settings that can be used as they are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

from monitor.errors import ConfigError
from monitor.settings.checks import check
from monitor.settings.document import Document, DocumentError, read
from monitor.settings.fields import split_address
from monitor.settings.models import Settings
from monitor.settings.partial import Partial
from monitor.settings.problems import Path, Problem
from monitor.settings.reading import apart, lines, read_text, validate
from monitor.settings.web_file import FoundAccess, find_access

_ANCHORS = "x-"
_LISTEN: Path = ("listen",)


def locate(given: FilePath | None = None, environ: Mapping[str, str] | None = None) -> FilePath:
    """The file to load: the one given, else ``RANKWATCH_CONFIG``, else ``./rankwatch.yaml``."""
    named = (os.environ if environ is None else environ).get("RANKWATCH_CONFIG")
    return given or FilePath(named or "rankwatch.yaml")


def load(path: FilePath, environ: Mapping[str, str] | None = None) -> Settings:
    """Read and check the file. ConfigError lists everything that is wrong with it, one problem a line, by line."""
    return loads(read_text(path), name=str(path), base_dir=path.absolute().parent, environ=environ)


def loads(text: str, *, name: str, base_dir: FilePath, environ: Mapping[str, str] | None = None) -> Settings:
    """Like `load` for a text at hand; relative paths in it start at ``base_dir``."""
    return settings_of(_mapping(text, name, environ), name, base_dir)


def listens_at(path: FilePath, environ: Mapping[str, str] | None = None) -> tuple[str, int]:
    """Host and port of `listen`; ConfigError when it cannot be told.

    Nothing else of the file need be right: who only asks the daemon may lack the variables and secrets that it runs with.
    """
    document = _mapping(read_text(path), str(path), environ)
    problems = [each for each in document.problems if each.path == _LISTEN]
    given: dict[str, object] = document.data if isinstance(document.data, dict) else {}
    found = given.get("listen", Settings.model_fields["listen"].default)
    try:
        return split_address(found if isinstance(found, str) and not problems else "")
    except ValueError as error:
        told = lines(document, problems or [Problem(_LISTEN, str(error))], str(path))
        raise ConfigError("\n".join(told)) from None


def _mapping(text: str, name: str, environ: Mapping[str, str] | None) -> Document:
    try:
        document = read(text, os.environ if environ is None else environ)
    except DocumentError as error:
        msg = f"{name if error.line is None else f'{name}:{error.line}'}: {error.message}"
        raise ConfigError(msg) from None
    if not isinstance(document.data, dict):
        msg = f"{name}:{document.line(())}: must be a mapping (key: value) at the top level, such as comparisons: [...]"
        raise ConfigError(msg)
    return document


def settings_of(document: Document, name: str, base_dir: FilePath, *, inside: Path = ()) -> Settings:
    """Settings of a document that is a mapping. Problems are told under ``name``, by key paths below ``inside``."""
    context: dict[str, object] = {"base_dir": str(base_dir)}
    raw: dict[str, Any] = document.data if isinstance(document.data, dict) else {}
    for key in [key for key in raw if key.startswith(_ANCHORS)]:
        del raw[key]
    access = find_access(Partial(Settings, raw, context).get("web_config_file"))
    settings, problems = _validate(document, context, access)
    if settings is None or problems or access.problems:
        told = dict.fromkeys((*lines(document, problems, name, inside), *access.problems))
        raise ConfigError("\n".join(told) or f"{name}: is not valid, for a reason that could not be told apart: a defect")
    return settings.with_access(access.options)


def _validate(document: Document, context: dict[str, object], access: FoundAccess) -> tuple[Settings | None, list[Problem]]:
    settings, problems = validate(Settings, document, context)
    return settings, [*problems, *apart(check(document.data, context, access), problems)]
