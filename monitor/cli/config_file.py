"""Commands for the configuration file: `check` and `config`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from monitor.cli.command_classes import Command, CommandGroup
from monitor.cli.completion import DEFAULT_CONFIG
from monitor.cli.output import (
    SOURCE_EXIT,
    attributes_of,
    log_errors_only,
    print_error,
    print_evidence,
    print_json,
    print_line,
)
from monitor.cli.parameters import AsJson, Config, OneComparison
from monitor.model.errors import ConfigError, DatabaseError
from monitor.model.immutable import immutable
from monitor.model.instants import format_second
from monitor.texts.planning import write_checked, write_database, write_first_change

if TYPE_CHECKING:
    from monitor.service.analysis.preview import Preview
    from monitor.settings.configuration import Settings
    from monitor.settings.yaml_document import YamlDocument

_EXPIRES_SOON = timedelta(days=14)
_FEW_USERS = 3
config_commands = typer.Typer(
    cls=CommandGroup,
    help="Print the grammar of the configuration file.",
    no_args_is_help=True,
)


@config_commands.command("schema", cls=Command)
def schema() -> None:
    """Print the JSON Schema of the configuration, for editors."""
    from monitor.receivers import RECEIVERS
    from monitor.settings.json_schema import json_schema
    from monitor.sources import SOURCES

    print_line(json.dumps(json_schema(), indent=2))
    for problem in (*SOURCES.problems(), *RECEIVERS.problems()):
        print_error(problem)


def check_config(
    comparison: OneComparison = None,
    *,
    config: Config = DEFAULT_CONFIG,
    users: Annotated[
        int,
        typer.Option("--users", min=1, max=100, help="Number of users whose lists are requested."),
    ] = _FEW_USERS,
    as_json: AsJson = False,
) -> None:
    """Check the configuration, and show the lists of a few users.

    The command also checks the web configuration file, and whether the database can be used. The
    command requests the lists of a few users from both arms, and shows both lists of each user. The
    exit code is 3 if an arm or an outcome could not be read, if no lists could be compared, or if
    runs could not be judged, for example because the users are not split as planned. The exit code
    is 4 if the database cannot be used.
    """
    from monitor.measures.metrics import METRICS
    from monitor.receivers import RECEIVERS
    from monitor.service.analysis.preview import preview_users
    from monitor.service.clock import SystemClock
    from monitor.service.composition import open_wiring
    from monitor.service.runner import select_watched
    from monitor.settings.loader import load_settings
    from monitor.sources import SOURCES
    from monitor.web.access import read_access

    log_errors_only()
    for problem in (*SOURCES.problems(), *RECEIVERS.problems(), *METRICS.problems()):
        print_error(problem)
    settings = load_settings(config)
    # This raises an error if a certificate cannot be used.
    read_access(settings.access, file_name=settings.web_config_file)
    now = SystemClock().now()
    warnings = {
        *_expiring_certificates(settings, now),
        *_expiring_certificates(settings.access, now),
    }
    database = _try_database(settings)
    wiring = open_wiring(settings)
    selected = select_watched(wiring.watched, comparison)
    previews = [preview_users(watched, users) for watched in selected]
    unread = [preview.comparison.name for preview in previews if not preview.evidence]
    unusable = [preview.comparison.name for preview in previews if not preview.is_usable]
    first_changes = _first_changes(previews, settings, config)
    for preview, first_change in zip(previews, first_changes, strict=True):
        if as_json:
            reason = None if database.problem is None else str(database.problem)
            database_dict = attributes_of(database, "place", "schema") | {"problem": reason}
            print_json(_preview_dict(preview, first_change) | {"database": database_dict})
        else:
            _print_preview(preview, first_change)
    if not as_json:
        _print_notices(settings, database, warnings)
        counts = (len(wiring.watched), len(wiring.receivers))
        print_line(write_checked(str(config), *counts, unread, unusable))
    if database.problem is not None:
        raise database.problem
    if unusable:
        raise typer.Exit(SOURCE_EXIT)


@immutable
class _TriedDatabase:
    """A database, and the version of its schema or the error."""

    place: str
    schema: str | None = None
    problem: DatabaseError | None = None


class _FirstChange(NamedTuple):
    """Where to change a setting first, because its source could not be read."""

    file: str
    setting: str
    line: int


def _try_database(settings: Settings) -> _TriedDatabase:
    """Try whether the daemon could use the database."""
    from monitor.storage import parse_url, schema_version
    from monitor.storage.database_url import describe_url

    place = describe_url(parse_url(settings.database))
    try:
        return _TriedDatabase(place=place, schema=schema_version.probe_database(settings.database))
    except DatabaseError as error:
        return _TriedDatabase(place=place, problem=error)


def _print_notices(settings: Settings, database: _TriedDatabase, warnings: Iterable[str]) -> None:
    """Print what is good to know before the daemon starts: the database and warnings."""
    from monitor.storage import parse_url
    from monitor.storage.sqlite_file import describe_file_readers

    if database.problem is None:
        print_line(f"database: {write_database(database.place, database.schema)}")
    if (exposed := describe_file_readers(parse_url(settings.database))) is not None:
        print_line(f"database: {exposed}")
    for warning in sorted(warnings):
        print_line(warning)
    if settings.privacy.key_file is not None:
        print_line(
            "privacy: user ids are stored as keyed hashes. Plain ids that were stored before "
            "stay until retention deletes them"
        )
    if (exposed := settings.privacy.key_warning) is not None:
        print_line(f"privacy: {exposed}")


def try_config(config: Path) -> int:
    """Compare the lists of a few users, and return their number. It is 0 if runs would be useless.

    The reasons are printed then.
    """
    from monitor.service.analysis.preview import preview_users
    from monitor.service.composition import open_wiring
    from monitor.service.runner import select_watched
    from monitor.settings.loader import load_settings

    log_errors_only()
    settings = load_settings(config)
    (watched,) = select_watched(open_wiring(settings).watched, None)
    preview = preview_users(watched, _FEW_USERS)
    if not preview.is_usable:
        (first_change,) = _first_changes([preview], settings, config)
        _print_preview(preview, first_change)
        return 0
    return len(preview.evidence)


def _expiring_certificates(options: object, now: datetime) -> Iterator[str]:
    """Yield a warning for each certificate in these options that expires soon.

    The options of a source or receiver may be anywhere in ``options``, so all parts are searched.
    Raises ConfigError for a certificate that has expired.
    """
    from pydantic import BaseModel

    from monitor.web.access import certificates_end

    if not isinstance(options, BaseModel):
        return
    for name, value in options:
        if name == "cert_file":
            ends = certificates_end(str(value))
            certificate = (
                f"cert_file {value}: its certificate, or the certificate of a CA that signed it,"
            )
            if ends is not None and ends <= now:
                raise ConfigError(f"{certificate} expired at {format_second(ends)}: renew it")
            if ends is not None and ends <= now + _EXPIRES_SOON:
                yield f"{certificate} expires at {format_second(ends)}: renew it"
        parts = value if isinstance(value, tuple) else (value,)
        for part in parts:
            yield from _expiring_certificates(part, now)


def _first_changes(
    previews: Sequence[Preview], settings: Settings, config: Path
) -> list[_FirstChange | None]:
    """Return for each preview which setting to change first. None if the preview is usable."""
    from monitor.settings.unchecked_settings import load_document

    # A file that is a pipe cannot be read again.
    if all(preview.unread_setting is None for preview in previews):
        return [None] * len(previews)
    document = load_document(config)
    return [_first_change(preview, settings, document, config) for preview in previews]


def _first_change(
    preview: Preview, settings: Settings, document: YamlDocument, config: Path
) -> _FirstChange | None:
    """Return which setting of the comparison to change first. None if the preview is usable."""
    from monitor.settings.unchecked_settings import line_of_setting

    setting = preview.unread_setting
    if setting is None:
        return None
    name = preview.comparison.name
    options = settings.comparisons_by_name[name]
    if options.unpaired is not None:
        setting = "unpaired"  # this setting names the log with the users and the lists
    elif setting == "users" and options.users.all:
        setting = "baseline"  # these lists also have the users
    return _FirstChange(str(config), setting, line_of_setting(document, name, setting))


def _print_preview(preview: Preview, first_change: _FirstChange | None) -> None:
    """Print the lists of a few users, or why there are none."""
    from monitor.texts.unpaired import write_arms

    comparison = preview.comparison
    users = "users drawn for this check"
    if comparison.measuring.unpaired is not None:
        users = "all users"
    print_line(
        f"{comparison.name}  slot {format_second(preview.slot)}  "
        f"next {format_second(preview.next_slot)}  top {comparison.measuring.k}  {users}"
    )
    for problem in preview.problems:
        print_line(f"  {problem}")
    if preview.coverage is not None:
        coverage = preview.coverage.all
        for (arm, reason), count in coverage.users_by_reason.items():
            sentence = f"  {arm}: {count} of {coverage.asked_of(arm)} users {reason}"
            note = preview.notes.get((arm, reason))
            if note:
                sentence += f" ({note})"
            print_line(sentence)
    arms = [] if preview.unpaired is None else write_arms(preview.unpaired)
    for sentence in (*arms, *_write_matches(preview)):
        print_line(f"  {sentence}")
    if first_change is not None:
        print_line(f"  {write_first_change(*first_change)}")
    print_evidence(preview.evidence, preview.titles)
    print_line()


def _write_matches(preview: Preview) -> list[str]:
    """Say how many ids of the arms match, and what in the configuration matches nothing."""
    from monitor.texts.id_mismatches import write_matching, write_mismatch
    from monitor.texts.unmatched_names import write_unmatched

    users = len(preview.evidence)
    counts = [
        write_matching(match.ids, match.matching, match.of, users) for match in preview.matches
    ]
    return [
        *counts,
        *map(write_mismatch, preview.id_mismatches),
        *map(write_unmatched, preview.unmatched),
    ]


def _preview_dict(preview: Preview, first_change: _FirstChange | None) -> dict[str, object]:
    """Return the preview as JSON."""
    users_by_reason = {} if preview.coverage is None else preview.coverage.all.users_by_reason
    notes = [f"{arm}: {note}" for (arm, _), note in preview.notes.items()]
    return {
        "comparison": preview.comparison.name,
        **attributes_of(preview, "slot", "next_slot"),
        "k": preview.comparison.measuring.k,
        "problems": [*preview.problems, *notes],
        "change_first": None if first_change is None else first_change.setting,
        "line": None if first_change is None else first_change.line,
        "matches": _write_matches(preview),
        "unmatched": preview.unmatched,
        "unpaired": preview.unpaired,
        "id_mismatches": preview.id_mismatches,
        "users_by_reason": users_by_reason,
        "evidence": preview.evidence,
        "titles": preview.titles,
    }
