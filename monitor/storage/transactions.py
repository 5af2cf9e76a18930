"""Connections and transactions of one database, fenced by the lease, with the driver's errors translated."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, create_engine, event, exists, func, select, text
from sqlalchemy.engine import URL, Connection, Engine, Row
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from monitor.errors import ConfigError, DatabaseError, DatabaseTrouble, LeaseLostError
from monitor.model.runs import Lease
from monitor.storage.database_errors import translated
from monitor.storage.database_url import describe, file_of
from monitor.storage.rows import is_sqlite
from monitor.storage.sqlite_file import PinnedFiles, make_private
from monitor.storage.tables.run_tables import leases

LOCK_WAIT_S = 30.0
"""How long a transaction waits for another one that writes."""
QUEUE_WAIT_S = 300.0
"""How long a writer of SQLite waits for the other writers of this process."""
LEADING = "daemon"
"""The name of the lease on leading."""

# FULL: what was committed survives a power cut. It costs one flush a commit, and a run has few
# commits.
_SQLITE_SETTINGS = ("foreign_keys = ON", "synchronous = FULL", "journal_size_limit = 67108864")

# The connection used last is used next: each keeps pages and statements in memory.
_ENGINE: dict[str, Any] = {"hide_parameters": True, "pool_use_lifo": True}

# Prepared statements would break behind a pooler that hands each transaction to another server
# connection.
_POSTGRES_SETTINGS: dict[str, Any] = {
    "application_name": "rankwatch",
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "tcp_user_timeout": 60_000,
    "prepare_threshold": None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFence:
    """Lets only the lease's own epoch write, and without a lease nobody."""

    lease: Lease | None = None
    patience: timedelta = timedelta(0)  # the server ends a transaction that stands still for longer

    def enter(self, connection: Connection) -> None:
        """At the beginning of a transaction; LeaseLostError when the lease is not ours any more."""
        if self.lease is None:
            raise LeaseLostError(
                f"{describe(connection.engine.url)}: this daemon stands by: nothing was written"
            )
        # The name stands in the list of backends, where the next leader finds what is open still.
        name = func.set_config("application_name", f"rankwatch epoch {self.lease.epoch}", True)  # noqa: FBT003 - SQL
        settings = [] if is_sqlite(connection) else [name, _limit(self.patience)]
        if not connection.execute(
            select(exists().where(is_current(self.lease)), *settings)
        ).scalar_one():
            raise _lost(connection, self.lease)

    def leave(self, connection: Connection) -> None:
        """Right before the commit.

        LeaseLostError when the lease is not ours any more, else it stays ours until then.
        """
        if is_sqlite(connection) or self.lease is None:
            return
        query = (
            select(leases.c.epoch, _limit(self.patience / 3))
            .where(is_current(self.lease))
            .with_for_update(read=True)
        )
        if connection.execute(query).one_or_none() is None:
            raise _lost(connection, self.lease)


@dataclass(slots=True)
class WriterQueue:
    """The writers of this process to one SQLite file, one after the other in the order in which they came.

    SQLite lets one write at a time, but its own waiting is no queue: under load some never have their turn.
    """

    _guard: threading.Lock = field(default_factory=threading.Lock)
    _turns: deque[threading.Event] = field(default_factory=deque)

    @contextmanager
    def turn(self, place: str) -> Iterator[None]:
        """Wait for the turn, and keep it.

        DatabaseError when it does not come within `QUEUE_WAIT_S`.
        """
        turn = threading.Event()
        with self._guard:
            self._turns.append(turn)
            self._turns[0].set()
        try:
            if not turn.wait(QUEUE_WAIT_S):
                raise DatabaseError(
                    (
                        f"{place}: other work of this process has been writing for "
                        f"{QUEUE_WAIT_S:g} s: try again"
                    ),
                    permanent=False,
                    trouble=DatabaseTrouble.CONFLICT,
                )
            yield
        finally:
            with self._guard:
                self._turns.remove(turn)
                if self._turns:
                    self._turns[0].set()


@cache
def _writers_of(_file: Path) -> WriterQueue:
    return WriterQueue()


class Database:
    """One database: a pool of connections, and the two kinds of transaction.

    Safe to share between threads.

    ``on_error`` is called with every error before it is raised, and must not use the database.
    ``fence``: what transactions that write must pass. ``patience_s``: how long they wait for
    others, and all for a server that does not answer."""

    def __init__(self, url: URL, *, patience_s: float | None = None) -> None:
        self.url = url
        self.on_error: Callable[[DatabaseError], None] = lambda _: None
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self.fence: LeaseFence | None = None
        self._pinned: PinnedFiles | None = None
        self._lock_wait_s = patience_s or LOCK_WAIT_S
        self._engine = _sqlite_engine(url) if self.is_sqlite else _postgres_engine(url, patience_s)
        self._renewals, self._is_closed = 0, False
        # Both stay with the pools to come. None is added later: another thread may give a
        # connection back just then.
        event.listen(self._engine, "do_connect", self._stamp)
        event.listen(self._engine, "checkin", self._close_old)
        driver = self._engine.dialect.dbapi
        self._driver_error: type[Exception] = driver.Error if driver else SQLAlchemyError

    @property
    def epoch(self) -> int | None:
        """Epoch of the lease under which claims are made; None for a command."""
        return self.fence.lease.epoch if self.fence and self.fence.lease else None

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one moment of the database and changes nothing."""
        options: dict[str, Any] = (
            {}
            if self.is_sqlite
            else {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        )
        with self._transaction(**options) as connection:
            yield connection

    def rows(self, query: Select[Any]) -> Sequence[Row[*tuple[Any, ...]]]:
        """Every row of one query, read in a transaction of its own."""
        with self.read() as connection:
            return connection.execute(query).all()

    @contextmanager
    def write(self, *, is_fenced: bool = True) -> Iterator[Connection]:
        """A transaction that may write.

        On SQLite the only one at this moment. Rolled back by any exception.

        ``is_fenced`` False is for what any daemon may do at any time, leading or not.
        """
        fence = self.fence if is_fenced else None
        with self._transaction(is_writing=True) as connection:
            if not self.is_sqlite:
                connection.execute(text(f"SET LOCAL lock_timeout = {self._lock_wait_s * 1000:.0f}"))
            if fence is not None:
                fence.enter(connection)
            yield connection
            if fence is not None:
                fence.leave(connection)
            self._require_pinned()  # once more: it may have been replaced meanwhile

    def _turn(self, *, is_writing: bool) -> AbstractContextManager[None]:
        file = file_of(self.url)
        if file is None or not is_writing:
            return nullcontext()
        return _writers_of(file.resolve()).turn(describe(self.url))

    def pin(self) -> None:
        """Refuse from now on to work when the files of SQLite are not the ones any more that they are at the first call."""
        # Open connections would go on with files that nobody sees, new ones with others.
        file = file_of(self.url)
        if file is None or self._pinned is not None:
            return
        with translated(self.url, self._driver_error):
            anchor = self._engine.raw_connection()
            anchor.detach()  # none of the pool's
            self._pinned = PinnedFiles.of(file, anchor)

    def _require_pinned(self) -> None:
        if self._pinned is not None and (change := self._pinned.change()) is not None:
            raise DatabaseError(f"{describe(self.url)} {change}")

    def use_write_ahead_log(self) -> None:
        """Let readers and the writer of a SQLite file work side by side; the file remembers it."""
        # Two that wait for the lock that the change takes would hold each other up until one gives
        # up: we ask again instead.
        deadline = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                with (
                    translated(self.url, self._driver_error),
                    closing(self._engine.raw_connection()) as connection,
                ):
                    connection.detach()  # none of the pool's
                    connection.cursor().execute("PRAGMA busy_timeout = 0")
                    connection.cursor().execute("PRAGMA journal_mode = WAL")
            except DatabaseError as error:
                if error.permanent or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return

    @contextmanager
    def _transaction(self, **options: Any) -> Iterator[Connection]:  # noqa: ANN401 - execution options
        try:
            self._require_pinned()
            with (
                self._turn(is_writing="is_writing" in options),
                translated(self.url, self._driver_error),
                self._engine.connect() as connection,
                connection.execution_options(**options).begin(),
            ):
                yield connection
        except DatabaseError as error:
            if error.trouble is DatabaseTrouble.READ_ONLY:
                # A connection that was opened to a file that is read-only stays so.
                self.renew()
            self.on_error(error)
            raise

    def renew(self) -> None:
        """Use new connections from now on.

        Those still in use are closed when they are given back.
        """
        self._renewals += 1
        self._engine.dispose()

    def close(self) -> None:
        """Close every connection; those that another thread still uses, when it gives them back."""
        self._is_closed = True
        self.renew()
        pinned, self._pinned = self._pinned, None
        if pinned is not None:
            pinned.anchor.close()

    def _stamp(self, _dialect: object, record: ConnectionPoolEntry, *_: object) -> None:
        # As it begins to connect: a server that hangs may answer after a renewal.
        record.info["renewals"] = self._renewals

    def _close_old(self, _connection: object, record: ConnectionPoolEntry) -> None:
        if self._is_closed or record.info.get("renewals") != self._renewals:
            record.invalidate()

    def __repr__(self) -> str:
        return f"Database({describe(self.url)})"


def require_file(url: URL) -> None:
    """DatabaseError for a SQLite file that is not there: opening it would make an empty one."""
    file = file_of(url)
    if file is not None and not file.exists():
        msg = (
            f"{describe(url)} does not exist: run `rankwatch db upgrade` to create it, or "
            "correct its path in `database:`"
        )
        raise DatabaseError(msg)


def _sqlite_engine(url: URL) -> Engine:
    arguments = {} if "timeout" in url.query else {"timeout": LOCK_WAIT_S}
    engine = create_engine(url, connect_args=arguments, **_ENGINE)

    @event.listens_for(engine, "do_connect")
    def make_file(*_: object) -> None:
        if (file := file_of(url)) is not None:
            make_private(file)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: object) -> None:  # noqa: ANN401 - the driver's own
        connection.isolation_level = (
            None  # the driver begins no transaction by itself; `begin` below does
        )
        for setting in _SQLITE_SETTINGS:
            connection.execute(f"PRAGMA {setting}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that reads first and writes later cannot wait for its lock; one that will
        # write takes it at once.
        is_writing = connection.get_execution_options().get("is_writing")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")

    return engine


def _postgres_engine(url: URL, patience_s: float | None) -> Engine:
    arguments = {name: value for name, value in _POSTGRES_SETTINGS.items() if name not in url.query}
    if patience_s is not None:
        arguments |= {
            "connect_timeout": max(2, int(patience_s)),
            "tcp_user_timeout": int(patience_s * 1000),
        }
    try:
        return create_engine(
            url, connect_args=arguments, pool_pre_ping=True, pool_recycle=1800, **_ENGINE
        )
    except ModuleNotFoundError:
        raise ConfigError(
            "database: PostgreSQL needs an extra: install it with pip install 'rankwatch[postgres]'"
        ) from None


def is_current(lease: Lease) -> ColumnElement[bool]:
    """Whether nobody has taken the lease since."""
    # The holder is compared too: after a restore epochs may repeat.
    return and_(
        leases.c.name == LEADING, leases.c.epoch == lease.epoch, leases.c.holder == lease.holder
    )


def _lost(connection: Connection, lease: Lease) -> LeaseLostError:
    now = connection.execute(
        select(leases.c.holder, leases.c.epoch).where(leases.c.name == LEADING)
    ).one_or_none()
    leader = (
        f"{now.holder} (host:process) leads under epoch {now.epoch}" if now else "nobody holds it"
    )
    return LeaseLostError(
        (
            f"{describe(connection.engine.url)}: the lease of epoch {lease.epoch} is over, "
            f"{leader}: nothing was written"
        )
    )


def _limit(after: timedelta) -> ColumnElement[str]:
    return func.set_config(
        "idle_in_transaction_session_timeout", str(round(after.total_seconds() * 1000)), True
    )  # noqa: FBT003 - SQL
