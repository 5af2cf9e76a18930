"""Finds the columns of files with lists, so that users need not give columns with usual names."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

from monitor.model.errors import InputError, SourceError
from monitor.model.instants import utc_now

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from monitor.sources.file import FileOptions, FileSourceOptions

    AnyOptions = TypeVar("AnyOptions", bound=FileOptions)


_FIRST_ROWS = 10_000
_MOST_SEGMENTS = 3
_MOST_VALUES = 20
_LEAST_USERS = 10  # for each value, on average
COLUMN_ADVICE = (
    "Name its columns: --user and --items if a row has a list, or --user, --item and --rank if it "
    "has one item"
)


def list_shapes(common: Mapping[str, object], items: str) -> list[dict[str, object]]:
    """Return the options for each usual shape of a file.

    A row has a list, or it has one item with its rank. ``common`` has options that all shapes
    share.
    """
    from monitor.model.column_names import ITEM_COLUMNS, RANK_COLUMNS

    shapes: list[dict[str, object]] = [{**common, "items": items}]
    for item in ITEM_COLUMNS:
        for rank in RANK_COLUMNS:
            shapes.append({**common, "item": item, "rank": rank})
    return shapes


@contextmanager
def _probed(path: Path) -> Iterator[Callable[[Sequence[str]], str | None]]:
    """Yield a function that gets names of columns, and returns which of them the file lacks."""
    from monitor.sources.file import FileUsersOptions
    from monitor.sources.file.database import FileView, open_database
    from monitor.sources.file.file_set import find_files

    files = find_files(file_options(FileUsersOptions, path, {"user": "user"}), utc_now())
    with open_database([files]) as database:

        def find_problem(columns: Sequence[str]) -> str | None:
            database.execute("DROP VIEW IF EXISTS probed")
            try:
                FileView(database, files, columns, "probed")
            except SourceError as error:
                return error.shown
            return None

        yield find_problem


def find_file_problem(path: Path) -> str | None:
    """Return why there is no such file, or None if there is one."""
    try:
        with _probed(path):
            return None
    except SourceError as error:
        return error.shown


def pick_column(path: Path, names: Sequence[str]) -> str:
    """Return the first of these columns that the file has, or the first name if it has none."""
    with suppress(SourceError), _probed(path) as find_problem:
        for name in names:
            if find_problem([name]) is None:
                return name
    return names[0]


def find_segments(path: Path, user: str) -> list[str]:
    """Return up to three columns that are useful as segments, from the file's first rows.

    Such a column has few different texts, and the same text in all rows of a user.
    """
    import duckdb
    from pandas.api.types import infer_dtype

    from monitor.boundary.temporary_database import scratch_database, sql_text

    segments: list[str] = []
    query = f"SELECT * FROM {sql_text(str(path))} LIMIT {_FIRST_ROWS}"  # noqa: S608 - quoted
    try:
        with scratch_database("400MB", [str(path)]) as database:
            rows = database.execute(query).df()
    except duckdb.Error:
        return segments
    if user not in rows:
        return segments
    users = rows.groupby(user)
    for name in rows.columns.difference([user], sort=False):
        if not name.isidentifier() or infer_dtype(rows[name]) != "string":
            continue
        values = rows[name].nunique()
        is_few = 1 < values <= min(_MOST_VALUES, len(users) / _LEAST_USERS)
        if is_few and users[name].nunique().max() == 1:
            segments.append(name)
    return segments[:_MOST_SEGMENTS]


def fitting_options(
    path: Path,
    user: str | None,
    shapes: Sequence[Mapping[str, object]],
) -> FileSourceOptions:
    """Return the options for the first user column and the first shape that fit the file.

    Raises InputError if none fits. If the file cannot be read, the first of each is used.
    """
    from monitor.model.column_names import USER_COLUMNS
    from monitor.sources.file import FileSourceOptions

    users: Sequence[str] = USER_COLUMNS if user is None else (user,)
    with suppress(SourceError), _probed(path) as find_problem:
        # The columns that the file has. If it has none, the first usual one is named in the error.
        users = [name for name in users if find_problem([name]) is None] or users
        problems = []
        for shape in shapes:
            options = file_options(FileSourceOptions, path, {**shape, "user": users[0]})
            problem = find_problem(options.columns)
            if problem is None:
                return options
            problems.append(problem)
        raise InputError(f"{problems[0]}. {COLUMN_ADVICE}")
    return file_options(FileSourceOptions, path, {**shapes[0], "user": users[0]})


def file_options(kind: type[AnyOptions], path: Path, columns: Mapping[str, object]) -> AnyOptions:
    """Validate the options that are given. Raises InputError for a wrong option."""
    from pydantic import ValidationError

    options: dict[str, object] = {"path": str(path), "follow_links": True}
    for key, value in columns.items():
        if value is not None and value != "":
            options[key] = value
    try:
        return kind.model_validate(options)
    except ValidationError as error:
        problems = []
        for each in error.errors(include_input=False):
            problems.append(str(each["msg"]).removeprefix("Value error, "))
        raise InputError(f"{path}: {'; '.join(problems)}") from None
