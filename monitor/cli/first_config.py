"""The command `init`. It writes a short configuration that works at once, or the complete one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.compare_log import read_test, refuse_options
from monitor.cli.compare_options import (
    ArmColumnOption,
    ArmValues,
    Before,
    InOrder,
    ItemColumn,
    RankColumn,
    ScoresColumn,
    SplitOption,
    TimeColumn,
    UnpairedLog,
    UserColumn,
    column_option,
)
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
from monitor.model.column_names import (
    ITEM_COLUMNS,
    RANK_COLUMNS,
    USER_COLUMNS,
    match_column,
    write_absent,
)
from monitor.model.errors import ConfigError, InputError
from monitor.model.immutable import immutable
from monitor.model.instants import format_second
from monitor.texts.first_steps import write_first_config, write_unusable_config

if TYPE_CHECKING:
    from monitor.service.analysis.log_comparison import LoggedTest
    from monitor.sources.file import FileSourceOptions

_SHORT = """\
# rankwatch compares the lists of two recommenders on a schedule, and alerts when they drift apart.
# `rankwatch check` tries this file. `rankwatch init --full` writes all settings with comments.
database: sqlite:///rankwatch.db # runs, scores and the states of alerts

comparisons:
  - name: {name}
    every: {every} # or a cron expression
    k: 10 # length of the compared lists
{lists}    default_rules: true # alerts that learn from five runs what is normal here
    # labels: {{owner: recs team, contact: "#recs-oncall"}} # messages say whom to call
# To send alerts, add receivers: Slack, mail and others are in the file of `rankwatch init --full`.
"""
_PAIRED = """\
    baseline: # the lists in use{hint}
      {baseline}
    candidate: # the lists on trial
      {candidate}
{noise_floor}    users: {users}
"""
_UNPAIRED = """\
    unpaired: # each user is served by one arm only
      log: # the newest list of each user in the last day
        {log}
      arm: {arm} # column of the log
      baseline: {baseline}
      candidate: {candidate}
      split: {split} # planned shares of the users
      before: {before} # when the test began
      segments: {segments}
"""
_NOISE_FLOOR = """\
    noise_floor: # a second training of the baseline's model
      retrain: {retrained}
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
    LOG = "log"


_Ask = Callable[[str, str], str]
"""Returns the answer to a question. The second argument is the default answer."""
_Columns = Mapping[str, str | None]
"""Names of the columns ``user``, ``items``, ``item``, ``rank`` and ``scores``.

None means the usual names, or no scores.
"""


@immutable
class _Questions:
    """What `init` asks about one kind of lists: for each option a question and its default."""

    label: str
    every: str
    asked: Mapping[str, tuple[str, str]]


_QUESTIONS: Mapping[ListSource, _Questions] = {
    ListSource.FILES: _Questions(
        label="files: two files, CSV, Parquet or JSON lines",
        every="1d",
        asked={
            "baseline": ("File with the lists in use", "baseline.csv"),
            "candidate": ("File with the lists on trial", "candidate.csv"),
        },
    ),
    ListSource.HTTP: _Questions(
        label="http: two services that answer with a list for a user",
        every="1h",
        asked={
            "baseline": (
                "URL of the service in use, with {user}",
                "http://localhost:8001/recommend/{user}?n={k}",
            ),
            "candidate": (
                "URL of the service on trial, with {user}",
                "http://localhost:8002/recommend/{user}?n={k}",
            ),
            "items": ("JMESPath to the item ids in an answer", "@"),
            "users": ("File with the users to ask for", "users.csv"),
        },
    ),
    ListSource.SQL: _Questions(
        label="sql: two tables of a database",
        every="1d",
        asked={
            "server": ("Address of the database", "sqlite:///lists.db"),
            "baseline": ("Table with the lists in use", "baseline"),
            "candidate": ("Table with the lists on trial", "candidate"),
        },
    ),
    ListSource.REDIS: _Questions(
        label="redis: two sets of keys in Redis",
        every="1h",
        asked={
            "server": ("Address of Redis", "redis://localhost:6379/0"),
            "baseline": ("Keys of the lists in use, with {user}", "recs:v1:{user}"),
            "candidate": ("Keys of the lists on trial", "recs:v2:{user}"),
        },
    ),
    ListSource.LOG: _Questions(
        label="log: one log of an A/B test, in which each user is served by one arm only",
        every="1d",
        asked={
            "unpaired": ("File with the log", "served.parquet"),
            "arms": ("Values of both arms in the log, the baseline's first", "baseline,candidate"),
            "before": ("Date on which the test began", ""),
        },
    ),
}
_WITH_USER = (ListSource.HTTP, ListSource.REDIS)


def _answer(question: str, default: str, *, reaches_person: bool) -> str:
    """Return a person's answer to the question, or the default answer if nobody can answer."""
    if not reaches_person:
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
        typer.Option(metavar="KIND", help="Where the lists are: files, http, sql, redis or log."),
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
    item: ItemColumn = None,
    rank: RankColumn = None,
    scores: ScoresColumn = None,
    in_order: InOrder = False,
    unpaired: UnpairedLog = None,
    arms: ArmValues = None,
    before: Before = None,
    arm: ArmColumnOption = None,
    time: TimeColumn = None,
    split: SplitOption = 0.5,
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

    For an A/B test in which each user is served by one arm only, use --unpaired with a log, --arms
    and --before.
    """
    from monitor.settings.loader import example_text

    target = path or config
    if unpaired is not None:
        paired = {"--kind": kind, "--baseline": baseline, "--candidate": candidate}
        refuse_options({**paired, "--retrained": retrained, "--users": users})
        kind = ListSource.LOG
    is_answered = kind is not None or baseline is not None
    if full and (is_answered or minimal):
        raise typer.BadParameter("--full writes an example: give either --full or other options")
    if not force and target.exists():
        raise ConfigError(f"{target} exists already: use --force to replace it")
    if full:
        _write_config(target, example_text(), force=force)
        print_line(write_first_config(str(target), _config_option(target)))
        return
    reaches_person = _is_terminal() and not (minimal or is_answered)
    ask = partial(_answer, reaches_person=reaches_person)
    if kind is None:
        kind = _ask_kind(ask, reaches_person=reaches_person)
    answers = {
        "server": server,
        "baseline": baseline,
        "candidate": candidate,
        "items": items,
        "users": users,
        "unpaired": None if unpaired is None else str(unpaired),
        "arms": arms,
        "before": before,
    }
    # A person did not name the default files, so they may be written later.
    named = users if kind is ListSource.HTTP else baseline or unpaired
    are_named = reaches_person or named is not None
    for option, question in _QUESTIONS[kind].asked.items():
        answers[option] = answers[option] or ask(*question)
    _refuse_unused(
        kind, {"--item": item, "--rank": rank, "--scores": scores, "--in-order": in_order}
    )
    if in_order and (rank or items):
        raise typer.BadParameter("--in-order replaces --rank and --items: leave these out")
    draft = _Draft(
        kind=kind,
        server=answers["server"],
        columns={
            "user": user,
            "items": answers["items"],
            "item": item,
            "rank": rank,
            "scores": scores,
        },
        in_order=in_order,
        ask=ask,
        asks=reaches_person,
    )
    if kind is ListSource.LOG:
        addresses = [str(answers["unpaired"])]
        values = (answers["arms"], answers["before"] or None)
        test = read_test(Path(addresses[0]), *values, arm=arm, time=time, split=split, outcomes=())
        lists = draft.write_test(addresses[0], test, must_exist=are_named)
    else:
        addresses = [str(answers["baseline"]), str(answers["candidate"])]
        if retrained is not None:
            addresses.append(retrained)
        lists = draft.write_pair(addresses, answers["users"], must_exist=are_named)
    text = _SHORT.format(name=_as_yaml(name), every=_QUESTIONS[kind].every, lists=lists)
    _write_config(target, text, force=force)
    are_files = kind in {ListSource.FILES, ListSource.LOG}
    _compare_first_lists(target, addresses if are_files else [])


def _refuse_unused(kind: ListSource, given: Mapping[str, object]) -> None:
    """Raise BadParameter if an option is given that this kind of lists does not use."""
    used = {
        ListSource.FILES: set(given),
        ListSource.LOG: set(given),
        ListSource.SQL: set(given) - {"--in-order"},
    }
    for option, value in given.items():
        if value and option not in used.get(kind, ()):
            raise typer.BadParameter(f"{option} is not for {kind}: leave it out")


def _compare_first_lists(target: Path, files: Sequence[str]) -> None:
    """Compare the lists of a few users if all files exist, and print what to do next.

    Exits with code 3 if no lists could be compared.
    """
    missing = [file for file in files if find_file_problem(Path(file)) is not None]
    compared = 0
    if files and not missing:
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


def _ask_kind(ask: _Ask, *, reaches_person: bool) -> ListSource:
    """Ask where the lists are. Raises BadParameter for an unknown kind."""
    kinds = list(ListSource)
    if reaches_person:
        print_line("Where are the lists?")
        for number, questions in enumerate(_QUESTIONS.values(), start=1):
            print_line(f"  {number}  {questions.label}")
    answer = ask("Number or name", "1")
    if answer.isdecimal() and 1 <= int(answer) <= len(kinds):
        return kinds[int(answer) - 1]
    try:
        return ListSource(answer.lower())
    except ValueError:
        raise typer.BadParameter(
            f"{answer!r} is no kind of lists: choose {', '.join(kinds)}"
        ) from None


@immutable
class _Draft:
    """What is known about the lists of a first configuration. Writes sources as YAML."""

    kind: ListSource
    server: str | None
    columns: _Columns
    in_order: bool  # the rows of a user are sorted, with the best item first
    ask: _Ask
    asks: bool  # a person can name columns

    def write_lists(self, address: str, *, must_exist: bool) -> str:
        """Return the source of the lists at this address."""
        if self.kind in _WITH_USER and _USER_MARK not in address:
            raise typer.BadParameter(
                f"{address!r} is the same for all users: write {_USER_MARK} where the user's id "
                "belongs"
            )
        options: dict[str, object] = {"url": self.server, "type": "list", "key": address}
        if self.kind is ListSource.FILES:
            return _as_yaml({"file": self._file_options(address, must_exist=must_exist)})
        if self.kind is ListSource.HTTP:
            options = {"url": address, "items": self.columns["items"]}
        elif self.kind is ListSource.SQL:
            names = _table_columns(str(self.server), address, self.columns)
            options = {"url": self.server, "table": address, **names}
        return _as_yaml({self.kind.value: options})

    def write_pair(self, addresses: Sequence[str], users: str | None, *, must_exist: bool) -> str:
        """Return the sources of a paired comparison.

        The addresses are those of the baseline, of the candidate, and perhaps of the baseline's
        second training, which must exist.
        """
        sources = []
        for place, address in enumerate(addresses):
            is_second_training = place == 2  # noqa: PLR2004
            source = self.write_lists(address, must_exist=must_exist or is_second_training)
            sources.append(source[1:-1])
        return _PAIRED.format(
            hint=_HINT if self.kind is ListSource.FILES else "",
            baseline=sources[0],
            candidate=sources[1],
            noise_floor="".join(
                _NOISE_FLOOR.format(retrained=f"{{{each}}}") for each in sources[2:]
            ),
            users=self.write_users(users, addresses[0], must_exist=must_exist),
        )

    def write_test(self, log: str, test: LoggedTest, *, must_exist: bool) -> str:
        """Return an unpaired comparison over the log of a test."""
        file = self._file_options(log, must_exist=must_exist)
        served = {"time": test.time, "within": _QUESTIONS[self.kind].every}
        baseline, candidate = test.arms
        split = {baseline: test.baseline_share, candidate: round(1 - test.baseline_share, 6)}
        segments = set(find_segments(Path(log), str(file["user"]))) - {test.arm, test.time}
        return _UNPAIRED.format(
            log=_as_yaml({"file": {**file, "served": served}})[1:-1],
            arm=_as_yaml(test.arm),
            baseline=_as_yaml(baseline),
            candidate=_as_yaml(candidate),
            split=_as_yaml(split),
            before=format_second(test.before),
            segments=_as_yaml(sorted(segments)),
        )

    def write_users(self, path: str | None, baseline: str, *, must_exist: bool) -> str:
        """Return the users: those of the file, or else all users of the baseline."""
        user = self.columns["user"]
        if path is not None:
            if must_exist or self.kind is not ListSource.HTTP:
                _require_file(path)
            column = user or pick_column(Path(path), USER_COLUMNS)
            file = {"path": path, "user": column}
            return _as_yaml({"file": file, **_segments(Path(path), column)})
        if self.kind is ListSource.REDIS:
            keys = {"url": self.server, "key": baseline}
            return f"{_as_yaml({'redis': keys})} # all users with a key"
        segments = {}
        if self.kind is ListSource.FILES:
            segments = _segments(Path(baseline), user)
        return f"{_as_yaml({'all': True, **segments})} # all users of the baseline"

    def _file_options(self, path: str, *, must_exist: bool) -> dict[str, object]:
        """Return the options of a file with lists.

        Raises InputError if the file must exist and does not, or if nobody knows its columns.
        """
        if must_exist:
            _require_file(path)
        if find_file_problem(Path(path)) is not None:
            columns = dict[str, object](_pick_columns(self.columns))
            if self.in_order:
                columns.pop("rank", None)
                columns["in_order"] = True
            return {"path": path, **columns}
        try:
            options = _fit(path, self.columns, in_order=self.in_order)
        except InputError as error:
            if not self.asks:
                raise
            print_line(str(error))
            options = _fit(path, _ask_columns(self.ask), in_order=self.in_order)
        names = {*self.columns, "in_order"}
        return {"path": path, **options.model_dump(include=names, exclude_defaults=True)}


def _segments(path: Path, user: str | None) -> dict[str, list[str]]:
    """Return the setting ``segments`` for the columns of the file, if some are useful."""
    columns = find_segments(path, user or pick_column(path, USER_COLUMNS))
    return {"segments": columns} if columns else {}


def _require_file(path: str) -> None:
    """Raise InputError if there is no such file. The file of a slot may be written later."""
    problem = find_file_problem(Path(path))
    if problem is not None and _SLOT_MARK not in path:
        raise InputError(problem)


def _fit(path: str, columns: _Columns, *, in_order: bool) -> FileSourceOptions:
    """Return the options of a file that has these columns, or columns with usual names."""
    shapes: list[dict[str, object]] = [{**columns, "in_order": in_order}]
    if columns["items"] is None or (columns["item"] is None and columns["rank"] is None):
        scores = {"scores": columns["scores"]} if columns["scores"] else {}
        shapes = list_shapes(
            scores,
            columns["items"] or "items",
            columns["item"],
            columns["rank"],
            in_order=in_order,
        )
    return fitting_options(Path(path), columns["user"], shapes)


def _ask_columns(ask: _Ask) -> _Columns:
    """Ask for the columns of a file whose columns have unusual names."""
    columns = dict.fromkeys(("items", "item", "rank", "scores"))
    user = ask("Column with the user", USER_COLUMNS[0])
    items = ask("Column with the list of items. Empty if a row has one item", "")
    if items:
        return {**columns, "user": user, "items": items}
    item = ask("Column with the item", ITEM_COLUMNS[0])
    rank = ask("Column with the item's rank", RANK_COLUMNS[0])
    return {**columns, "user": user, "item": item, "rank": rank}


def _table_columns(url: str, table: str, columns: _Columns) -> dict[str, str]:
    """Return the columns of a table with lists, or the usual columns if it cannot be read.

    Raises InputError if its columns cannot be recognized.
    """
    import sqlalchemy as sa

    present: Sequence[str] = ()
    with suppress(sa.exc.SQLAlchemyError, ImportError, ValueError):
        engine = sa.create_engine(url)
        schema, _, name = table.rpartition(".")
        present = [each["name"] for each in sa.inspect(engine).get_columns(name, schema or None)]
        engine.dispose()
    return _pick_columns(columns, present, table)


def _pick_columns(
    columns: _Columns, present: Sequence[str] = (), table: str = ""
) -> dict[str, str]:
    """Return which columns have the user, and the list or the item and its rank or score.

    If it is unknown which columns are ``present``, these are the named or the first usual columns.
    """

    def pick(key: str, usual: Sequence[str]) -> str:
        named = columns[key]
        wanted = usual if named is None else (named,)
        column = str(match_column(wanted, present))
        if present and column not in present:
            raise InputError(
                f"table {table} has no column {write_absent(wanted[0], present)}. {COLUMN_ADVICE}"
            )
        return column

    picked = {"user": pick("user", USER_COLUMNS)}
    items = match_column((columns["items"] or "items",), present)
    is_wide = columns["item"] is None and items in present
    if columns["items"] is not None or is_wide:
        return picked | {"items": pick("items", ("items",))}
    picked["item"] = pick("item", ITEM_COLUMNS)
    if columns["scores"] is not None:
        picked["scores"] = pick("scores", ())
        if columns["rank"] is None:
            return picked
    return picked | {"rank": pick("rank", RANK_COLUMNS)}


def _as_yaml(value: object) -> str:
    """Write a value as YAML in one line."""
    import yaml

    # YAML ends a single value with a line of dots, but not a list.
    text: str = yaml.safe_dump(
        [value], default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6
    )
    return text.strip()[1:-1]
