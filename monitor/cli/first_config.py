"""The command `init`. It writes a short configuration that works at once, or the complete one."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.compare_options import RankColumn, UserColumn, column_option
from monitor.cli.completion import DEFAULT_CONFIG
from monitor.cli.config_file import try_config
from monitor.cli.file_columns import (
    COLUMN_ADVICE,
    find_file_problem,
    find_segments,
    fitting_options,
    list_shapes,
    pick_column,
)
from monitor.cli.output import INTERRUPTED_EXIT, SOURCE_EXIT, print_line
from monitor.cli.parameters import Config
from monitor.model.column_names import ITEM_COLUMNS, RANK_COLUMNS, USER_COLUMNS, write_absent
from monitor.model.errors import ConfigError, InputError
from monitor.model.immutable import immutable
from monitor.texts.first_steps import write_first_config, write_unusable_config

if TYPE_CHECKING:
    from monitor.sources.file import FileSourceOptions

_SHORT = """\
# rankwatch compares the lists of two recommenders on a schedule, and alerts when they drift apart.
# `rankwatch check` tries this file. `rankwatch init --full` writes all settings with comments.
database: sqlite:///rankwatch.db # runs, scores and the states of alerts

comparisons:
  - name: {name}
    every: {every} # or a cron expression
    k: 10 # length of the compared lists
    baseline: # the lists in use{hint}
      {baseline}
    candidate: # the lists on trial
      {candidate}
{noise_floor}    users: {users}
    default_rules: true # alerts that learn from five runs what is normal here
    # labels: {{owner: recs team, contact: "#recs-oncall"}} # messages say whom to call
# To send alerts, add receivers: Slack, mail and others are in the file of `rankwatch init --full`.
"""
_NOISE_FLOOR = """\
    noise_floor: # a second training of the baseline's model
      retrain: {{{retrained}}}
"""
_HINT = '. A new file each day? path: "lists-{slot:%Y-%m-%d}.csv"'
_SLOT_MARK = "{slot"
_USER_MARK = "{user}"


class ListSource(StrEnum):
    """Where the lists are."""

    FILES = "files"
    HTTP = "http"
    SQL = "sql"
    REDIS = "redis"


@immutable
class ColumnNames:
    """Names of columns in files and tables. None means the usual names."""

    user: str | None
    items: str | None  # for HTTP, the path to the ids in an answer
    item: str | None
    rank: str | None

    def shapes(self) -> list[dict[str, object]]:
        """Return the shapes that a file of lists may have."""
        if self.item is None and self.rank is None:
            return list_shapes({}, self.items or "items")
        return [{"items": self.items, "item": self.item, "rank": self.rank}]


@immutable
class InitAnswers:
    """What a person or a program says about the lists. None means that it says nothing."""

    name: str
    baseline: str | None
    candidate: str | None
    users: str | None
    server: str | None
    retrained: str | None
    columns: ColumnNames


@immutable
class Sources:
    """The parts of the short configuration that differ by kind, as YAML."""

    every: str
    baseline: str
    candidate: str
    users: str
    retrained: str | None = None
    hint: str = ""  # a comment on the baseline
    files: tuple[str, ...] = ()  # the files with lists


@immutable
class _Ask:
    """Asks questions in the terminal. If nobody can answer, it returns the default answers."""

    reaches_person: bool

    def __call__(self, question: str, default: str) -> str:
        """Return the answer to the question."""
        if not self.reaches_person:
            return default
        try:
            return str(typer.prompt(question, default=default)).strip()
        except typer.Abort:  # Ctrl-C or the end of the input
            raise typer.Exit(INTERRUPTED_EXIT) from None


def init(  # noqa: PLR0913 - the command's options
    *,
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="File to write. Default: the file that you set with --config."
        ),
    ] = None,
    kind: Annotated[
        ListSource | None,
        typer.Option(metavar="KIND", help="Where the lists are: files, http, sql or redis."),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="LISTS", help="The baseline's lists: a file, URL, table or key."),
    ] = None,
    candidate: Annotated[
        str | None,
        typer.Option(metavar="LISTS", help="The candidate's lists: a file, URL, table or key."),
    ] = None,
    users: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="File with the users whose lists are requested. Required with http.",
        ),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Address of the database, for sql and redis. Write the password as ${NAME}.",
        ),
    ] = None,
    retrained: Annotated[
        str | None,
        typer.Option(
            metavar="LISTS",
            help="Lists of a second training of the baseline's model, to measure the noise floor.",
        ),
    ] = None,
    user: UserColumn = None,
    items: Annotated[
        str | None,
        column_option("Column with the list of items. For http: JMESPath to the ids in an answer."),
    ] = None,
    item: Annotated[
        str | None, column_option("Column with one item in each row. Requires --rank.")
    ] = None,
    rank: RankColumn = None,
    name: Annotated[str, typer.Option(help="Name of the comparison.")] = "feed",
    minimal: Annotated[
        bool, typer.Option("--minimal", help="Write a short file, and ask no questions.")
    ] = False,
    full: Annotated[
        bool,
        typer.Option("--full", help="Write a long file, which contains all settings and comments."),
    ] = False,
    config: Config = DEFAULT_CONFIG,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a first configuration that works without changes.

    In a terminal, the command asks you where the lists are. The command skips questions that you
    have already answered with options. The command finds columns by their usual names, such as
    customer, product and position.

    With files, the command also compares the lists of a few users. The exit code is 3 if no lists
    could be compared.
    """
    from monitor.settings.loader import example_text

    target = path or config
    answers = InitAnswers(
        name=name,
        baseline=baseline,
        candidate=candidate,
        users=users,
        server=server,
        retrained=retrained,
        columns=ColumnNames(user=user, items=items, item=item, rank=rank),
    )
    is_answered = kind is not None or answers.baseline is not None
    if full and (is_answered or minimal):
        raise typer.BadParameter("--full writes an example: give either --full or other options")
    if not force and target.exists():
        raise ConfigError(f"{target} exists already: use --force to replace it")
    if full:
        _write_config(target, example_text(), force=force)
        print_line(write_first_config(str(target), _config_option(target)))
        return
    ask = _Ask(reaches_person=_is_terminal() and not (minimal or is_answered))
    if kind is None:
        kind = _ask_kind(ask)
    sources = _QUESTIONS_OF_SOURCE[kind](answers, ask)
    _write_config(target, _short_text(answers.name, sources), force=force)
    missing = [file for file in sources.files if find_file_problem(Path(file)) is not None]
    compared = 0
    if sources.files and not missing:
        compared = try_config(target)
        if not compared:
            print_line(write_unusable_config(str(target), _config_option(target)))
            raise typer.Exit(SOURCE_EXIT)
    print_line(
        write_first_config(str(target), _config_option(target), missing=missing, users=compared)
    )


def _config_option(target: Path) -> str:
    """Return the option that names the file in further commands, with a blank before it."""
    return "" if target == DEFAULT_CONFIG else f" --config {target}"


def _is_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _write_config(target: Path, text: str, *, force: bool) -> None:
    """Write the file. Raises ConfigError if it exists and ``force`` is False."""
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


def _short_text(name: str, sources: Sources) -> str:
    """Return the short configuration."""
    noise_floor = ""
    if sources.retrained is not None:
        noise_floor = _NOISE_FLOOR.format(retrained=sources.retrained)
    return _SHORT.format(
        name=_value_as_yaml(name),
        every=sources.every,
        hint=sources.hint,
        baseline=sources.baseline,
        candidate=sources.candidate,
        noise_floor=noise_floor,
        users=sources.users,
    )


def _ask_kind(ask: _Ask) -> ListSource:
    """Ask where the lists are. Raises BadParameter for an unknown kind."""
    kinds = list(ListSource)
    if ask.reaches_person:
        print_line("Where are the lists?")
        for number, label in enumerate(_LABELS.values(), start=1):
            print_line(f"  {number}  {label}")
    answer = ask("Number or name", "1")
    if answer.isdecimal() and 1 <= int(answer) <= len(kinds):
        return kinds[int(answer) - 1]
    try:
        return ListSource(answer.lower())
    except ValueError:
        raise typer.BadParameter(
            f"{answer!r} is no kind of lists: choose {', '.join(kinds)}"
        ) from None


def _ask_files(answers: InitAnswers, ask: _Ask) -> Sources:
    baseline = answers.baseline or ask("File with the lists in use", "baseline.csv")
    candidate = answers.candidate or ask("File with the lists on trial", "candidate.csv")
    # A person did not name the default files, so they may be written later.
    is_named = ask.reaches_person or answers.baseline is not None
    files = [baseline, candidate]
    retrained = None
    if answers.retrained is not None:
        files.append(answers.retrained)
        retrained = _file_as_yaml(answers.retrained, answers.columns, ask, is_named=True)
    return Sources(
        every="1d",
        baseline=_file_as_yaml(baseline, answers.columns, ask, is_named=is_named),
        candidate=_file_as_yaml(candidate, answers.columns, ask, is_named=is_named),
        users=_users_as_yaml(answers, Path(baseline)),
        retrained=retrained,
        hint=_HINT,
        files=tuple(files),
    )


def _ask_http(answers: InitAnswers, ask: _Ask) -> Sources:
    example = "http://localhost:8001/recommend/{user}?n={k}"
    other = example.replace("8001", "8002")
    baseline = answers.baseline or ask("URL of the service in use, with {user}", example)
    candidate = answers.candidate or ask("URL of the service on trial, with {user}", other)
    items = answers.columns.items or ask("JMESPath to the item ids in an answer", "@")
    users = answers.users or ask("File with the users to ask for", "users.csv")
    is_named = ask.reaches_person or answers.users is not None
    _require_user(baseline)
    _require_user(candidate)
    return Sources(
        every="1h",
        baseline=_source_as_yaml("http", {"url": baseline, "items": items}),
        candidate=_source_as_yaml("http", {"url": candidate, "items": items}),
        users=_users_file(users, answers.columns.user, is_named=is_named),
        retrained=_retrained_as_yaml(answers, "http", key="url", options={"items": items}),
    )


def _ask_sql(answers: InitAnswers, ask: _Ask) -> Sources:
    url = answers.server or ask("Address of the database", "sqlite:///lists.db")
    baseline = answers.baseline or ask("Table with the lists in use", "baseline")
    candidate = answers.candidate or ask("Table with the lists on trial", "candidate")
    retrained = None
    if answers.retrained is not None:
        retrained = _table_as_yaml(url, answers.retrained, answers.columns)
    return Sources(
        every="1d",
        baseline=_table_as_yaml(url, baseline, answers.columns),
        candidate=_table_as_yaml(url, candidate, answers.columns),
        users=_users_as_yaml(answers),
        retrained=retrained,
    )


def _ask_redis(answers: InitAnswers, ask: _Ask) -> Sources:
    url = answers.server or ask("Address of Redis", "redis://localhost:6379/0")
    baseline = answers.baseline or ask("Keys of the lists in use, with {user}", "recs:v1:{user}")
    candidate = answers.candidate or ask("Keys of the lists on trial", "recs:v2:{user}")
    _require_user(baseline)
    _require_user(candidate)
    users = f"{{{_source_as_yaml('redis', {'url': url, 'key': baseline})}}} # all users with a key"
    if answers.users is not None:
        users = _users_as_yaml(answers)
    return Sources(
        every="1h",
        baseline=_source_as_yaml("redis", {"url": url, "type": "list", "key": baseline}),
        candidate=_source_as_yaml("redis", {"url": url, "type": "list", "key": candidate}),
        users=users,
        retrained=_retrained_as_yaml(
            answers, "redis", key="key", options={"url": url, "type": "list"}
        ),
    )


_QUESTIONS_OF_SOURCE: Mapping[ListSource, Callable[[InitAnswers, _Ask], Sources]] = {
    ListSource.FILES: _ask_files,
    ListSource.HTTP: _ask_http,
    ListSource.SQL: _ask_sql,
    ListSource.REDIS: _ask_redis,
}
"""Functions that ask for what the answers do not say, and return the sources of the kind."""
_LABELS: Mapping[ListSource, str] = {
    ListSource.FILES: "files: two files, CSV, Parquet or JSON lines",
    ListSource.HTTP: "http: two services that answer with a list for a user",
    ListSource.SQL: "sql: two tables of a database",
    ListSource.REDIS: "redis: two sets of keys in Redis",
}


def _require_user(pattern: str) -> None:
    if _USER_MARK not in pattern:
        raise typer.BadParameter(
            f"{pattern!r} is the same for all users: write {_USER_MARK} where the user's id belongs"
        )


def _users_as_yaml(answers: InitAnswers, lists: Path | None = None) -> str:
    """Return the users as YAML. ``lists`` is the baseline's file, if it has one."""
    if answers.users is None:
        segments = ""
        if lists is not None:
            segments = _segments_as_yaml(
                lists, answers.columns.user or pick_column(lists, USER_COLUMNS)
            )
        return f"{{all: true{segments}}} # all users of the baseline"
    return _users_file(answers.users, answers.columns.user, is_named=True)


def _users_file(path: str, user: str | None, *, is_named: bool) -> str:
    """Return the file with users as YAML. Raises InputError if a named file does not exist."""
    if is_named:
        _require_file(path)
    column = user or pick_column(Path(path), USER_COLUMNS)
    options = _source_as_yaml("file", {"path": path, "user": column})
    return f"{{{options}{_segments_as_yaml(Path(path), column)}}}"


def _segments_as_yaml(path: Path, user: str) -> str:
    """Return the setting ``segments`` for the columns of the file, or an empty text."""
    columns = find_segments(path, user)
    if not columns:
        return ""
    return f", segments: [{', '.join(map(_value_as_yaml, columns))}]"


def _require_file(path: str) -> None:
    """Raise InputError if there is no such file. The file of a slot may be written later."""
    problem = find_file_problem(Path(path))
    if problem is not None and _SLOT_MARK not in path:
        raise InputError(problem)


def _file_as_yaml(path: str, columns: ColumnNames, ask: _Ask, *, is_named: bool) -> str:
    """Return a file with lists as YAML.

    Raises InputError if a named file does not exist, or if its columns cannot be recognized.
    """
    if is_named:
        _require_file(path)
    if find_file_problem(Path(path)) is not None:
        return _source_as_yaml("file", {"path": path, **_usual_columns(columns)})
    try:
        options = _recognize(path, columns)
    except InputError as error:
        if not ask.reaches_person:
            raise
        print_line(str(error))
        options = _recognize(path, _ask_columns(ask))
    names = {"path": path, "user": options.user}
    if options.items is not None:
        names["items"] = options.items
    if options.item is not None and options.rank is not None:
        names |= {"item": options.item, "rank": options.rank}
    return _source_as_yaml("file", names)


def _recognize(path: str, columns: ColumnNames) -> FileSourceOptions:
    return fitting_options(Path(path), columns.user, columns.shapes())


def _ask_columns(ask: _Ask) -> ColumnNames:
    """Ask for the columns of a file whose columns have unusual names."""
    user = ask("Column with the user", USER_COLUMNS[0])
    items = ask("Column with the list of items. Empty if a row has one item", "")
    if items:
        return ColumnNames(user=user, items=items, item=None, rank=None)
    item = ask("Column with the item", ITEM_COLUMNS[0])
    rank = ask("Column with the item's rank", RANK_COLUMNS[0])
    return ColumnNames(user=user, items=None, item=item, rank=rank)


def _usual_columns(columns: ColumnNames) -> dict[str, str]:
    """Return the columns, with the first usual name for each missing name."""
    user = columns.user or USER_COLUMNS[0]
    if columns.items is not None:
        return {"user": user, "items": columns.items}
    item = columns.item or ITEM_COLUMNS[0]
    return {"user": user, "item": item, "rank": columns.rank or RANK_COLUMNS[0]}


def _table_as_yaml(url: str, table: str, columns: ColumnNames) -> str:
    """Return a table with lists as YAML, with the usual columns if it cannot be read.

    Raises InputError if its columns cannot be recognized.
    """
    import sqlalchemy as sa

    present: Sequence[str] = ()
    with suppress(sa.exc.SQLAlchemyError, ImportError, ValueError):
        engine = sa.create_engine(url)
        schema, _, name = table.rpartition(".")
        present = [each["name"] for each in sa.inspect(engine).get_columns(name, schema or None)]
        engine.dispose()
    names = _usual_columns(columns)
    if present:
        names = _pick_columns(table, present, columns)
    return _source_as_yaml("sql", {"url": url, "table": table, **names})


def _pick_columns(table: str, present: Sequence[str], columns: ColumnNames) -> dict[str, str]:
    """Return which columns have the user, and the list or the item and its rank."""

    def pick(name: str | None, usual: Sequence[str]) -> str:
        wanted = usual if name is None else (name,)
        for column in wanted:
            if column in present:
                return column
        raise InputError(
            f"table {table} has no column {write_absent(wanted[0], present)}. {COLUMN_ADVICE}"
        )

    user = pick(columns.user, USER_COLUMNS)
    is_wide = columns.item is None and (columns.items or "items") in present
    if columns.items is not None or is_wide:
        return {"user": user, "items": pick(columns.items, ("items",))}
    item = pick(columns.item, ITEM_COLUMNS)
    return {"user": user, "item": item, "rank": pick(columns.rank, RANK_COLUMNS)}


def _retrained_as_yaml(
    answers: InitAnswers, kind: str, *, key: str, options: Mapping[str, str]
) -> str | None:
    """Return the source of the second training as YAML, or None if there is none.

    The answer is the value of the option ``key``. ``options`` are the other options.
    """
    if answers.retrained is None:
        return None
    return _source_as_yaml(kind, {key: answers.retrained, **options})


def _source_as_yaml(kind: str, options: Mapping[str, str]) -> str:
    """Write a source as YAML in one line."""
    pairs = ", ".join(f"{key}: {_value_as_yaml(value)}" for key, value in options.items())
    return f"{kind}: {{{pairs}}}"


def _value_as_yaml(value: str) -> str:
    """Write a value in YAML, with quotes if it may need them."""
    is_plain = value.replace("_", "").replace("-", "").replace(".", "").isalnum()
    if is_plain and value[:1].isalpha() and value.lower() not in {"true", "false", "null"}:
        return value
    return json.dumps(value, ensure_ascii=False)
