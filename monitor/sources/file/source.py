"""Lists, users and tables from files, in bounded memory."""


from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from monitor.deadline import Deadline, OverdueError
from monitor.model.rankings import CoverageReason, Pull, UserTable
from monitor.model.runs import PullRequest
from monitor.model.unreadable import require_readable
from monitor.reading.tally import Tally
from monitor.slot_templates import fill_slot
from monitor.sources.file import FileOptions, FileSourceOptions, FileUsersOptions
from monitor.sources.file.database import KEY, FileView, open_database
from monitor.sources.file.file_set import FileSet, find_files, read_files
from monitor.sources.file.views import ListView, UserView
from monitor.sources.lookup_tables import user_table
from monitor.sources.table_lists import TableBatch, check_size
from monitor.sources.tables import Table

_BATCH_ROWS = 8192
_USER_BYTES = 64  # least memory of one user
_CACHED_USERS = 100_000  # most users that are cached


class FileLists:
    """One arm's lists in files. Port: Source.

    If the deadline passes, all users are ``timeout``: half a file is no answer.
    """

    def __init__(self, options: FileSourceOptions) -> None:
        self._options = options

    def pull(self, request: PullRequest) -> Pull:
        """Lists of the requested users."""
        deadline = Deadline.after(request.timeout_s)
        return read_files(self._options, request.slot, partial(self._pull, request, deadline))

    def _pull(self, request: PullRequest, deadline: Deadline, files: FileSet) -> Pull:
        options = self._options
        try:
            deadline.require_time()
            with open_database([files], deadline, in_order=bool(options.in_order)) as database:
                lists = ListView(database, "asked", options, files, request.k)
                pull = lists.pull_asked(request.users, deadline, options.max_bytes)
        except OverdueError:
            note = f"{files.where} was not read when the run's deadline passed"
            return Pull.failed(request.users, CoverageReason.TIMEOUT, note)
        require_readable(pull.unreadable, options.max_unreadable)
        return pull


class FileUsers:
    """Users in files. Port: UserSource."""

    def __init__(self, options: FileUsersOptions) -> None:
        self._options = options
        self._cached: tuple[tuple[object, ...], UserTable] | None = None

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:
        """All users of the files, with these columns as segments.

        Small files are read again only if they changed.
        """
        return read_files(self._options, slot, partial(self._users, dimensions))

    def _users(self, dimensions: Sequence[str], files: FileSet) -> UserTable:
        log_slot = self._options.served and files.slot
        cache_key = (files.paths, files.signatures, tuple(dimensions), log_slot)
        if self._cached is not None and self._cached[0] == cache_key:
            return self._cached[1]
        with open_database([files]) as database:
            view = UserView(database, files, self._options, dimensions)
            ((count,),) = database.execute(f"SELECT count(*) FROM {view.name}").fetchall()
            # Checked before any user is read: more memory than the texts of the users is used.
            check_size(count * _USER_BYTES, self._options.max_bytes, files.where)
            rows = []
            query = f"SELECT {', '.join((KEY, *view.columns))} FROM {view.name}"
            for record in database.sql(query).to_arrow_reader(_BATCH_ROWS):
                segments = dict(zip(dimensions, record.columns[1:], strict=True))
                rows.append((record[KEY], segments))
        table = replace(user_table(rows, Tally(files.where)), unreadable=view.unreadable)
        files.require_unchanged()
        self._cached = (cache_key, table) if count <= _CACHED_USERS else None
        return table


class FileTable(Table):
    """Files of a slot."""

    def __init__(self, options: FileOptions) -> None:
        super().__init__(options)
        self.max_bytes = options.max_bytes

    def where(self, slot: datetime) -> str:
        """The path of the slot's files."""
        return fill_slot(self._options.path, slot)

    def batches(self, slot: datetime, columns: Sequence[str]) -> Iterator[TableBatch]:
        """Rows of the slot's files in their order. The last batch has no row."""
        files = find_files(self._options, slot)
        with open_database([files], in_order=True) as database:
            rows = FileView(database, files, columns, "rows")
            for record in database.sql(f"SELECT * FROM {rows.name}").to_arrow_reader(_BATCH_ROWS):
                yield {name: rows.values(name, record[name]) for name in columns}
            yield rows.empty(columns)
        files.require_unchanged()
