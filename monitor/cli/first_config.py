"""The command `init`. It writes a short configuration that works at once, or the complete one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from monitor.cli.completion import DEFAULT_CONFIG
from monitor.cli.output import INTERRUPTED_EXIT, print_line
from monitor.cli.parameters import Config
from monitor.model.errors import ConfigError
from monitor.model.immutable import immutable

_SHORT = """\
# rankwatch compares the lists of two recommenders on a schedule, and alerts when they drift apart.
# `rankwatch check` tries this file. `rankwatch init --full` writes all settings with comments.
database: sqlite:///rankwatch.db # runs, scores and the states of alerts

comparisons:
  - name: {name}
    every: {every} # or a cron expression
    k: 10 # length of the compared lists
    baseline: # the lists in use
      {baseline}
    candidate: # the lists on trial
      {candidate}
    users: {users}
    default_rules: true # alerts that learn from five runs what is normal here
# To send alerts, add receivers: Slack, mail and others are in the file of `rankwatch init --full`.
"""
_USER_MARK = "{user}"


class Kind(StrEnum):
    """Where the lists are."""

    FILES = "files"
    HTTP = "http"
    SQL = "sql"
    REDIS = "redis"


@immutable
class Answers:
    """What a person or a program says about the lists. None means that it says nothing."""

    name: str
    baseline: str | None
    candidate: str | None
    users: str | None
    server: str | None
    items: str | None


@immutable
class Sources:
    """The parts of the short configuration that differ by kind, as YAML."""

    every: str
    baseline: str
    candidate: str
    users: str


_ALL_USERS = "{all: true} # all users of the baseline"
_Ask = Callable[[str, str], str]
"""Returns the answer to a question, or the default answer."""


def init(  # noqa: PLR0913 - the command's options
    *,
    path: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="File to write. Default: the file of --config."),
    ] = None,
    kind: Annotated[
        Kind | None,
        typer.Option(metavar="KIND", help="Where the lists are: files, http, sql or redis."),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="LISTS", help="Lists in use: a file, URL, table or key."),
    ] = None,
    candidate: Annotated[
        str | None,
        typer.Option(metavar="LISTS", help="Lists on trial: a file, URL, table or key."),
    ] = None,
    users: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="File with the users to ask for. Needed with http."),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Address of the database, for sql and redis. Write the password as ${NAME}.",
        ),
    ] = None,
    items: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="JMESPath to the item ids in an answer, for http. Default: @."
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the comparison.")] = "feed",
    minimal: Annotated[
        bool, typer.Option("--minimal", help="Write the short file without asking questions.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Write all settings with comments instead.")
    ] = False,
    config: Config = DEFAULT_CONFIG,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a first configuration that works at once.

    In a terminal the command asks where the lists are. Options answer these questions. The columns
    of files and tables are found by their usual names.
    """
    from monitor.settings.loader import example_text

    target = path or config
    answers = Answers(
        name=name,
        baseline=baseline,
        candidate=candidate,
        users=users,
        server=server,
        items=items,
    )
    is_answered = kind is not None or answers.baseline is not None
    if full and (is_answered or minimal):
        raise typer.BadParameter("--full writes an example: give either --full or other options")
    if not force and target.exists():
        raise ConfigError(f"{target} exists already: use --force to replace it")
    text = example_text()
    if not full:
        is_asked = _is_terminal() and not minimal and not is_answered
        text = _short_text(kind, answers, _prompt if is_asked else _default)
    _write(target, text, force=force)
    option = "" if target == DEFAULT_CONFIG else f" --config {target}"
    print_line(
        f"Wrote {target}. Next: rankwatch check{option}, and then rankwatch run-once{option}"
    )


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _write(target: Path, text: str, *, force: bool) -> None:
    from monitor.boundary.files import replace_file

    try:
        if force:
            replace_file(target, text.encode())
        else:
            with target.open("x", encoding="utf-8") as file:
                file.write(text)
    except FileExistsError:
        raise ConfigError(f"{target} exists already: use --force to replace it") from None
    except OSError as error:
        raise ConfigError(f"cannot write {target}: {error.strerror}. Name another file") from None


def _prompt(question: str, default: str) -> str:
    try:
        return str(typer.prompt(question, default=default)).strip()
    except typer.Abort:  # Ctrl-C or the end of the input
        raise typer.Exit(INTERRUPTED_EXIT) from None


def _default(_: str, default: str) -> str:
    return default


def _short_text(kind: Kind | None, answers: Answers, ask: _Ask) -> str:
    """Return the short configuration. Questions without an answer are asked."""
    if kind is None:
        kind = _ask_kind(ask)
    sources = _SOURCES[kind](answers, ask)
    return _SHORT.format(name=_quoted(answers.name), **asdict(sources))


def _ask_kind(ask: _Ask) -> Kind:
    kinds = list(Kind)
    if ask is _prompt:
        print_line("Where are the lists?")
        for number, label in enumerate(_LABELS.values(), start=1):
            print_line(f"  {number}  {label}")
    answer = ask("Number or name", "1")
    if answer.isdecimal() and 1 <= int(answer) <= len(kinds):
        return kinds[int(answer) - 1]
    try:
        return Kind(answer.lower())
    except ValueError:
        raise typer.BadParameter(
            f"{answer!r} is no kind of lists: choose {', '.join(kinds)}"
        ) from None


def _ask_files(answers: Answers, ask: _Ask) -> Sources:
    baseline = answers.baseline or ask("File with the lists in use", "baseline.csv")
    candidate = answers.candidate or ask("File with the lists on trial", "candidate.csv")
    users = _ALL_USERS if answers.users is None else _users_file(answers.users)
    return Sources(
        every="1d",
        baseline=_flow("file", {"path": baseline, **_file_columns(Path(baseline))}),
        candidate=_flow("file", {"path": candidate, **_file_columns(Path(candidate))}),
        users=users,
    )


def _ask_http(answers: Answers, ask: _Ask) -> Sources:
    example = "http://localhost:8001/recommend/{user}?n={k}"
    other = example.replace("8001", "8002")
    baseline = answers.baseline or ask("URL of the service in use, with {user}", example)
    candidate = answers.candidate or ask("URL of the service on trial, with {user}", other)
    items = answers.items or ask("JMESPath to the item ids in an answer", "@")
    users = answers.users or ask("File with the users to ask for", "users.csv")
    _require_user(baseline)
    _require_user(candidate)
    return Sources(
        every="1h",
        baseline=_flow("http", {"url": baseline, "items": items}),
        candidate=_flow("http", {"url": candidate, "items": items}),
        users=_users_file(users),
    )


def _ask_sql(answers: Answers, ask: _Ask) -> Sources:
    url = answers.server or ask("Address of the database", "sqlite:///lists.db")
    baseline = answers.baseline or ask("Table with the lists in use", "baseline")
    candidate = answers.candidate or ask("Table with the lists on trial", "candidate")
    users = _ALL_USERS if answers.users is None else _users_file(answers.users)
    return Sources(
        every="1d",
        baseline=_flow("sql", {"url": url, "table": baseline, **_table_columns(url, baseline)}),
        candidate=_flow("sql", {"url": url, "table": candidate, **_table_columns(url, candidate)}),
        users=users,
    )


def _ask_redis(answers: Answers, ask: _Ask) -> Sources:
    url = answers.server or ask("Address of Redis", "redis://localhost:6379/0")
    baseline = answers.baseline or ask("Keys of the lists in use, with {user}", "recs:v1:{user}")
    candidate = answers.candidate or ask("Keys of the lists on trial", "recs:v2:{user}")
    _require_user(baseline)
    _require_user(candidate)
    users = f"{{{_flow('redis', {'url': url, 'key': baseline})}}} # all users with a key"
    if answers.users is not None:
        users = _users_file(answers.users)
    return Sources(
        every="1h",
        baseline=_flow("redis", {"url": url, "type": "list", "key": baseline}),
        candidate=_flow("redis", {"url": url, "type": "list", "key": candidate}),
        users=users,
    )


_SOURCES: Mapping[Kind, Callable[[Answers, _Ask], Sources]] = {
    Kind.FILES: _ask_files,
    Kind.HTTP: _ask_http,
    Kind.SQL: _ask_sql,
    Kind.REDIS: _ask_redis,
}
_LABELS: Mapping[Kind, str] = {
    Kind.FILES: "files: two files, CSV, Parquet or JSON lines",
    Kind.HTTP: "http: two services that answer with a list for a user",
    Kind.SQL: "sql: two tables of a database",
    Kind.REDIS: "redis: two sets of keys in Redis",
}


def _require_user(pattern: str) -> None:
    if _USER_MARK not in pattern:
        raise typer.BadParameter(
            f"{pattern!r} is the same for all users: write {_USER_MARK} where the user's id belongs"
        )


def _users_file(path: str) -> str:
    from monitor.cli.file_columns import find_column
    from monitor.model.column_names import USER_COLUMNS

    column = find_column(Path(path), USER_COLUMNS)
    return f"{{{_flow('file', {'path': path, 'user': column})}}}"


def _file_columns(path: Path) -> dict[str, str]:
    """Return the columns of a file with lists, or the usual ones if it cannot be read."""
    from monitor.cli.file_columns import list_shapes, shaped

    options = shaped(path, None, list_shapes({}, "items"))
    return _columns(options.columns)


def _table_columns(url: str, table: str) -> dict[str, str]:
    """Return the columns of a table with lists, or the usual ones if it cannot be read."""
    import sqlalchemy as sa

    columns: Sequence[str] = ()
    with suppress(sa.exc.SQLAlchemyError, ImportError, ValueError):
        engine = sa.create_engine(url)
        schema, _, name = table.rpartition(".")
        columns = [each["name"] for each in sa.inspect(engine).get_columns(name, schema or None)]
        engine.dispose()
    return _columns(columns)


def _columns(names: Sequence[str]) -> dict[str, str]:
    """Return which columns have the user, and the list or the item and its rank."""
    from monitor.model.column_names import ITEM_COLUMNS, USER_COLUMNS

    user = next((name for name in USER_COLUMNS if name in names), USER_COLUMNS[0])
    item = next((name for name in ITEM_COLUMNS if name in names), None)
    if item is None and "items" in names:
        return {"user": user, "items": "items"}
    return {"user": user, "item": item or ITEM_COLUMNS[0], "rank": "rank"}


def _flow(kind: str, options: Mapping[str, str]) -> str:
    """Write a source as YAML in one line."""
    pairs = ", ".join(f"{key}: {_quoted(value)}" for key, value in options.items())
    return f"{kind}: {{{pairs}}}"


def _quoted(value: str) -> str:
    """Write a value in YAML, with quotes if it may need them."""
    is_plain = value.replace("_", "").replace("-", "").replace(".", "").isalnum()
    if is_plain and value[:1].isalpha() and value.lower() not in {"true", "false", "null"}:
        return value
    return json.dumps(value, ensure_ascii=False)
