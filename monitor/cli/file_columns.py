"""Finds the columns of files with lists, so that users need not give columns with usual names."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from monitor.model.errors import InputError, SourceError
from monitor.model.instants import utc_now

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from duckdb import DuckDBPyConnection

    from monitor.sources.file import FileOptions, FileSourceOptions
    from monitor.sources.file.file_set import FileSet

    AnyOptions = TypeVar("AnyOptions", bound=FileOptions)


_FIRST_ROWS = 10_000
_MOST_SEGMENTS = 3
_MOST_VALUES = 20
_LEAST_USERS = 10  # for each value, on average
COLUMN_ADVICE = (
    "Name its columns: --user and --items if a row has a list, or --user, --item and one of "
    "--rank, --scores and --in-order if it has one item. If the files have different columns, "
    "repeat an option"
)


def list_shapes(
    common: Mapping[str, object],
    items: Sequence[str] | None,
    item: Sequence[str] | None,
    rank: Sequence[str] | None,
    *,
    in_order: bool,
) -> list[dict[str, object]]:
    """Return the options for each possible shape of a file. The first one that fits is used.

    A row has a list, or it has one item. Usual names replace columns that are not given. ``common``
    has options that all shapes share, such as the column of scores.
    """
    from monitor.model.column_names import ITEM_COLUMNS, RANK_COLUMNS

    # How the items of a user are ordered. The empty one means by scores.
    orders: list[dict[str, object]]
    if in_order:
        orders = [{"rank": rank[0] if rank else None, "in_order": True}]
    else:
        orders = [{"rank": name} for name in rank or RANK_COLUMNS]
        if common.get("scores") and not rank:
            orders.append({})
    shapes: list[dict[str, object]] = []
    for name in item or ITEM_COLUMNS:
        for order in orders:
            shapes.append({**common, "item": name, **order})
    wide = [{**common, "items": name} for name in items or ["items"]]
    if item or rank or in_order:
        return [*shapes, *wide]
    return [*wide, *shapes]


@contextmanager
def _opened(path: Path) -> Iterator[tuple[DuckDBPyConnection, FileSet]]:
    """Open a file of any format."""
    from monitor.sources.file import FileUsersOptions
    from monitor.sources.file.database import open_database
    from monitor.sources.file.file_set import find_files

    files = find_files(file_options(FileUsersOptions, path, {"user": "user"}), utc_now())
    with open_database([files]) as database:
        yield database, files


def find_file_problem(path: Path) -> str | None:
    """Return why there is no such file, or None if there is one."""
    try:
        with _opened(path):
            return None
    except SourceError as error:
        return error.shown


def columns_of(path: Path) -> list[str]:
    """Return the names of a file's columns, or none if it cannot be read."""
    from monitor.sources.file.formats import find_columns

    with suppress(SourceError), _opened(path) as (database, files):
        return find_columns(database, files)
    return []


def pick_column(path: Path, names: Sequence[str]) -> str:
    """Return the first of these columns that the file has, or the first name if it has none."""
    from monitor.model.column_names import match_column

    return str(match_column(names, columns_of(path)))


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
            rows = database.sql(query).to_arrow_table().to_pandas()
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
    user: Sequence[str] | None,
    shapes: Sequence[Mapping[str, object]],
) -> FileSourceOptions:
    """Return the options for the first user column and the first shape that fit the file.

    The options have the columns' names as the file spells them. Raises InputError if no shape
    fits. It gives `COLUMN_ADVICE` if columns are missing. If the file cannot be read, the first of
    each is used.
    """
    from monitor.model.column_names import USER_COLUMNS, match_column
    from monitor.sources.file import FileSourceOptions

    present = columns_of(path)
    choices = []
    for shape in shapes:
        columns = dict(shape)
        for key in ("items", "item", "rank"):
            if shape.get(key):
                columns[key] = match_column((str(shape[key]),), present)
        # If the file has none of the columns, the first one is named in the error.
        columns["user"] = match_column(user or USER_COLUMNS, present)
        choices.append(file_options(FileSourceOptions, path, columns))
    for options in choices:
        if set(options.columns).issubset(present):
            return options
    closest = choices[0]
    if present:
        closest = min(choices, key=lambda options: len(set(options.columns).difference(present)))
    problem = _find_problem(closest)
    if problem is None:
        return closest
    if present:
        problem = f"{problem}. {COLUMN_ADVICE}"
    raise InputError(problem)


def require_named_columns(
    path: Path,
    user: Sequence[str] | None,
    shapes: Sequence[Mapping[str, object]],
    chosen: Sequence[FileSourceOptions],
    named: Sequence[str],
) -> None:
    """Raise InputError if the user named columns of a shape that no chosen options have.

    ``named`` has the key of each such shape, ``items`` or ``item``. Some files may have another
    shape, so a column is wrong only if no file has it. The error says what this file lacks.
    """
    for key in named:
        if not any(getattr(options, key) for options in chosen):
            fitting_options(path, user, [shape for shape in shapes if shape.get(key)])


def _find_problem(options: FileSourceOptions) -> str | None:
    """Return which columns a file lacks. None if it has them, or if the file cannot be read."""
    from monitor.sources.file.database import FileView

    with suppress(SourceError), _opened(Path(options.path)) as (database, files):
        try:
            FileView(database, files, options.columns, "probed")
        except SourceError as error:
            return error.shown
    return None


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
        for problem in error.errors(include_input=False):
            problems.append(str(problem["msg"]).removeprefix("Value error, "))
        raise InputError(f"{path}: {'; '.join(problems)}") from None
