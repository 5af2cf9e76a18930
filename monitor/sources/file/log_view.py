"""A view of a log of served lists in files."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import duckdb

from monitor.boundary.temporary_database import sql_text
from monitor.model.errors import SourceError
from monitor.model.unpaired import ARM_COLUMN
from monitor.model.unreadable import ColumnKind, Unreadable, require_readable
from monitor.sources.file import FileSourceOptions, FileUsersOptions
from monitor.sources.file.database import KEY, ROW_NUMBER, FileView
from monitor.sources.file.file_set import FileSet

_MANY_ROWS = 1.2  # for each asked user
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST_SPAN_US = 365 * 1900 * 86_400 * 1_000_000


def open_view(
    database: duckdb.DuckDBPyConnection,
    files: FileSet,
    columns: Sequence[str],
    name: str,
    options: FileSourceOptions | FileUsersOptions,
    same_rows: FileView | None = None,
) -> FileView:
    """Make a view of the files, which is a `LogView` if they are a log.

    ``same_rows`` is another view of the same rows. They are not checked and selected again.
    """
    if options.served is not None:
        newest = same_rows.newest if isinstance(same_rows, LogView) else None
        return LogView(database, files, columns, name, options, newest)
    checked = () if same_rows is None else same_rows.columns
    return FileView(database, files, columns, name, checked)


@dataclass(frozen=True)
class NewestRows:
    """The rows of each user's newest list in a log. A user may have such a list in each arm."""

    table: str  # the name of the table with their `ROW_NUMBER` and `ARM_COLUMN`
    columns: Sequence[str]  # the columns of the log that have been checked
    unreadable: tuple[Unreadable, ...]  # rows of the log that were skipped
    has_one_row: bool  # whether each list is a single row


class LogView(FileView):
    """The rows of each user's newest list in a log. If the options name arms, it has `ARM_COLUMN`.

    The rows are selected once, by their numbers, because reading the times takes long. ``newest``
    are the rows that another view has selected.
    """

    def __init__(
        self,
        database: duckdb.DuckDBPyConnection,
        files: FileSet,
        columns: Sequence[str],
        name: str,
        options: FileSourceOptions | FileUsersOptions,
        newest: NewestRows | None = None,
    ) -> None:
        served = options.served
        assert served is not None  # noqa: S101 - options of a log
        names = tuple(dict.fromkeys([*columns, *served.columns, ROW_NUMBER]))
        super().__init__(database, files, names, name, newest.columns if newest else ())
        self._options = options
        self._served = served
        self.has_arms = served.arms is not None
        self.newest = newest or self._select_newest(files.slot)
        self.unreadable = self.newest.unreadable
        self.has_one_row = self.newest.has_one_row
        database.execute(
            f"CREATE TEMP VIEW {name} AS SELECT * FROM {self.all_rows} JOIN "
            f"{self.newest.table} USING ({ROW_NUMBER})"
        )

    @property
    def all_rows(self) -> str:
        """The name of the view of all rows of the log."""
        return f"logged_{self.name}"

    def leave_out_others(self, key: str, users: str, count: int) -> None:
        """If many rows of a log are of users that are not asked, leave these rows out.

        Then less is joined. ``key`` is the SQL expression for the key of a row. ``users`` is a view
        with the keys of the ``count`` asked users.
        """
        execute = self._database.execute
        newest = self.newest.table
        ((rows,),) = execute(f"SELECT count(*) FROM {newest}").fetchall()
        if rows > _MANY_ROWS * count:
            execute(
                f"CREATE OR REPLACE TEMP TABLE {newest} AS SELECT {ROW_NUMBER}, {ARM_COLUMN} "
                f"FROM (SELECT {ROW_NUMBER}, {ARM_COLUMN}, {key} AS {KEY} FROM {self.name}) "
                f"SEMI JOIN {users} USING ({KEY})"
            )

    def _select_newest(self, slot: datetime) -> NewestRows:
        """Select the rows of each user's newest list.

        If two lists of a user have the same time, the list with the greater request id is selected.
        """
        execute = self._database.execute
        served = self._served
        unreadable = self._select_in_time(slot)
        keys = "rankwatch_to"
        if served.arms is not None and served.arms.has_list_per_arm:
            keys += f", {ARM_COLUMN}"
        last_request = "max(rankwatch_as)"
        if served.request is not None:
            last_request = "max_by(rankwatch_as, struct_pack(a := rankwatch_at, b := rankwatch_as))"
        execute(
            f"CREATE TEMP TABLE last_rows AS SELECT {keys}, {last_request} AS rankwatch_as "
            f"FROM log_rows GROUP BY {keys}"
        )
        ((users, rows),) = execute(
            "SELECT (SELECT count(rankwatch_to) FROM last_rows), (SELECT count(*) FROM log_rows)"
        ).fetchall()
        newest = f"SELECT {ROW_NUMBER}, {ARM_COLUMN} FROM log_rows"
        if users < rows:
            newest += f" SEMI JOIN last_rows USING ({keys}, rankwatch_as)"
        table = f"newest_{self.name}"
        execute(f"CREATE TEMP TABLE {table} AS {newest}")
        ((rows,),) = execute(f"SELECT count(*) FROM {table}").fetchall()
        execute("DROP TABLE log_rows")
        execute("DROP TABLE last_rows")
        # With these forms of ids, several users of the log may be the same user.
        has_one_row = users == rows and not self._options.user_ids
        return NewestRows(table, tuple(self.columns), unreadable, has_one_row)

    def _select_in_time(self, slot: datetime) -> tuple[Unreadable, ...]:
        """Fill the table ``log_rows`` with the rows of the period. Returns the unreadable rows.

        The columns are the number, user, time, request and arm of each row.
        """
        execute = self._database.execute
        options = self._options
        served = self._served
        checks = [
            (served.time, ColumnKind.TIMES, "rankwatch_at IS NULL"),
            (options.user, ColumnKind.IDS, "rankwatch_to IS NULL"),
        ]
        request = "rankwatch_at"
        if served.request is not None:
            request = self.ids(served.request)
            checks.append((served.request, ColumnKind.IDS, "rankwatch_as IS NULL"))
        arm_sql, conditions = self.arm_sql(served)
        rows = f"arm_{self.name}"
        execute(
            f"CREATE TEMP VIEW {rows} AS SELECT *, {self.ids(options.user)} AS rankwatch_to, "
            f"{self._instant(served.time)} AS rankwatch_at, {request} AS rankwatch_as, "
            f"{arm_sql} AS {ARM_COLUMN} FROM {self.all_rows} WHERE {' AND '.join(conditions)}"
        )
        is_in_time = self.time_sql("rankwatch_at", served, slot)
        arms = served.each_arm
        aggregates = []
        for arm in arms:
            is_of_arm = "TRUE" if arm is None else f"{ARM_COLUMN} = {sql_text(arm)}"
            aggregates.append(f"count(*) FILTER (WHERE {is_in_time} AND {is_of_arm})")
            aggregates.append(f"max(rankwatch_at) FILTER (WHERE {is_of_arm})")
        unreadable, figures = self.count(rows, checks, aggregates)
        require_readable(unreadable, options.max_unreadable)
        for arm, count, last_at in zip(arms, figures[::2], figures[1::2], strict=True):
            if not count:
                unserved = served.describe_unserved(arm, slot, _format_newest(last_at))
                raise SourceError(f"{self.where} {unserved}", permanent=False)
        execute(
            f"CREATE TEMP TABLE log_rows AS SELECT {ROW_NUMBER}, rankwatch_to, rankwatch_at, "
            f"rankwatch_as, {ARM_COLUMN} FROM {rows} WHERE {is_in_time}"
        )
        return unreadable


def _format_newest(last_at: int | None) -> str | None:
    if last_at is None:
        return None
    # A time in the wrong unit may have a year that Python cannot represent.
    span = min(max(last_at, -_LONGEST_SPAN_US), _LONGEST_SPAN_US)
    return f"{_UNIX_EPOCH + timedelta(microseconds=span):%Y-%m-%dT%H:%M:%SZ}"
