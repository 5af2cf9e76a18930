"""Opens connections and transactions of a database, checks the lease, and translates errors."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, create_engine, event, exists, func, select, text
from sqlalchemy.engine import URL, Connection, Engine, Row
from sqlalchemy.exc import SQLAlchemyError

from monitor.model.errors import ConfigError, DatabaseError, DatabaseErrorKind, LeaseLostError
from monitor.model.immutable import immutable
from monitor.model.ports import do_nothing
from monitor.model.runs import Lease
from monitor.storage.column_types import read_document
from monitor.storage.database_errors import translated
from monitor.storage.database_url import describe_url, file_of
from monitor.storage.rows import is_sqlite
from monitor.storage.sqlite_file import identity, make_private
from monitor.storage.tables.run_tables import leases
from monitor.texts.wording import write_extra

LOCK_WAIT_S = 30.0
"""How long a transaction waits for another transaction that writes."""
QUEUE_WAIT_S = 300.0
"""How long a writer of SQLite waits for the other writers of this process."""
LEADING = "daemon"
"""The name of the lease that makes a daemon the leader."""

_RETRY_S = 0.05
_RECYCLE_S = 1800  # a PostgreSQL connection is replaced at this age
# With `synchronous = FULL`, commits survive a power cut. A commit costs one
# flush, but a run makes few commits.
_SQLITE_SETTINGS = ("foreign_keys = ON", "synchronous = FULL", "journal_size_limit = 67108864")

# The connection that was used last is used next, because it has pages and statements in memory.
_ENGINE: dict[str, Any] = {
    "hide_parameters": True,
    "pool_use_lifo": True,
    "json_deserializer": read_document,
}

# Prepared statements fail behind a pooler that uses another server connection for each
# transaction.
_POSTGRES_SETTINGS: dict[str, Any] = {
    "application_name": "rankwatch",
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "tcp_user_timeout": 60_000,
    "prepare_threshold": None,
}


@immutable
class LeaseCheck:
    """Lets a daemon write only while it has the lease. Each new lease has a higher epoch."""

    lease: Lease | None = None
    patience: timedelta = timedelta(0)  # the server ends transactions that are idle for longer

    def check_at_begin(self, connection: Connection) -> None:
        """Check the lease when a transaction begins.

        Raises LeaseLostError if another daemon has the lease.
        """
        if self.lease is None:
            raise LeaseLostError(
                f"{describe_url(connection.engine.url)}: this daemon is a standby: nothing was written"
            )
        query = _lease_exists(self.lease)
        if not is_sqlite(connection):
            # The same statement also limits the time for which the transaction may be idle.
            query = query.add_columns(_limit_idle_time(self.patience))
        if not connection.execute(query).scalar_one():
            raise _lease_lost(connection, self.lease)

    def check_before_commit(self, connection: Connection) -> None:
        """Check the lease right before the commit.

        The lease's row is locked until the commit, so no other daemon takes the lease meanwhile.
        Raises LeaseLostError if another daemon has the lease.
        """
        if is_sqlite(connection) or self.lease is None:
            return
        # Another daemon that wants the lease waits for this lock. So the same statement shortens
        # the time for which the server lets this transaction be idle.
        query = (
            select(leases.c.epoch, _limit_idle_time(self.patience / 3))
            .where(is_current(self.lease))
            .with_for_update(read=True)
        )
        if connection.execute(query).one_or_none() is None:
            raise _lease_lost(connection, self.lease)


@dataclass(slots=True)
class WriterQueue:
    """Lets the threads of this process write to one SQLite file in the order in which they came.

    SQLite lets only one transaction write at a time, and takes waiting writers in any order.
    Without this queue, some writers would wait for ever under load.
    """

    _guard: threading.Lock = field(default_factory=threading.Lock)
    _turns: deque[threading.Event] = field(default_factory=deque)

    @contextmanager
    def turn(self, location: str) -> Iterator[None]:
        """Wait until this thread may write. The turn ends with the ``with`` block.

        Raises DatabaseError if the wait is longer than `QUEUE_WAIT_S`.
        """
        # The first event of the queue is set: the thread that waits for this event may write.
        turn = threading.Event()
        with self._guard:
            self._turns.append(turn)
            self._turns[0].set()
        try:
            if not turn.wait(QUEUE_WAIT_S):
                raise DatabaseError(
                    f"{location}: other work of this process has been writing for {QUEUE_WAIT_S:g} s: "
                    "try again",
                    permanent=False,
                    kind=DatabaseErrorKind.CONFLICT,
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
    """A pool of connections to one database, and transactions that read or write.

    Threads may share it. ``on_error`` is called with each error before the error is raised, and
    must not use the database. Transactions that write must pass the checks of ``lease_check``. They
    wait for ``patience_s`` seconds for a lock, or for a server that does not answer.
    """

    def __init__(self, url: URL, *, patience_s: float | None = None) -> None:
        self.url = url
        self.on_error: Callable[[DatabaseError], None] = do_nothing
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self.lease_check: LeaseCheck | None = None
        self._lock_wait_s = patience_s or LOCK_WAIT_S
        self._engine = _sqlite_engine(url) if self.is_sqlite else _postgres_engine(url, patience_s)
        self._used_file: tuple[int, int] | None = None  # device and inode of the SQLite file
        self._is_closed = False
        driver = self._engine.dialect.dbapi
        self._driver_error: type[Exception] = driver.Error if driver else SQLAlchemyError

    @property
    def epoch(self) -> int | None:
        """The number of the daemon's lease. None if this process has no lease."""
        if self.lease_check is None or self.lease_check.lease is None:
            return None
        return self.lease_check.lease.epoch

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Begin a transaction that sees one state of the database and changes nothing."""
        with self._transaction(is_writing=False) as connection:
            yield connection

    def rows(
        self, query: Select[Any], parameters: Mapping[str, object] | None = None
    ) -> Sequence[Row[*tuple[Any, ...]]]:
        """Execute one query in a transaction, and return all rows."""
        with self.read() as connection:
            return connection.execute(query, parameters).all()

    @contextmanager
    def write(self, *, needs_lease: bool = True) -> Iterator[Connection]:
        """Begin a transaction that may write. An exception rolls the transaction back.

        On SQLite only one transaction writes at a time. If this process is a daemon, it must have
        the lease at the begin and at the end of the transaction. ``needs_lease`` False lets it
        write without the lease.
        """
        lease_check = self.lease_check if needs_lease else None
        with self._transaction(is_writing=True) as connection:
            if not self.is_sqlite:
                connection.execute(text(f"SET LOCAL lock_timeout = {self._lock_wait_s * 1000:.0f}"))
            if lease_check is not None:
                lease_check.check_at_begin(connection)
            yield connection
            if lease_check is not None:
                lease_check.check_before_commit(connection)

    def _turn(self) -> AbstractContextManager[None]:
        """Return a context in which this thread may write. On PostgreSQL, writers do not wait."""
        file = file_of(self.url)
        if file is None:
            return nullcontext()
        return _writers_of(file.resolve()).turn(describe_url(self.url))

    def use_write_ahead_log(self) -> None:
        """From now on, let readers and the writer of a SQLite file work at the same time."""
        # Two processes that wait for the lock would block each other, so rankwatch retries instead.
        deadline = time.monotonic() + LOCK_WAIT_S
        while True:
            try:
                with (
                    translated(self.url, self._driver_error),
                    closing(self._engine.raw_connection()) as connection,
                ):
                    connection.detach()  # the pool must not use this connection again
                    connection.cursor().execute("PRAGMA busy_timeout = 0")
                    connection.cursor().execute("PRAGMA journal_mode = WAL")
            except DatabaseError as error:
                if error.permanent or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_S)
            else:
                return

    @contextmanager
    def _transaction(self, *, is_writing: bool) -> Iterator[Connection]:
        """Yield a connection in a transaction. Raises and reports errors as DatabaseError."""
        # `_sqlite_engine` reads the first option, and SQLAlchemy the others.
        options: dict[str, Any] = {"is_writing": is_writing}
        if not is_writing and not self.is_sqlite:
            options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        pool = self._engine.pool
        try:
            self._require_same_file()
            turn = self._turn() if is_writing else nullcontext()
            with (
                turn,
                translated(self.url, self._driver_error),
                self._engine.connect() as connection,
                connection.execution_options(**options).begin(),
            ):
                yield connection
        except DatabaseError as error:
            if error.kind is DatabaseErrorKind.READ_ONLY:
                # A connection to a read-only file stays read-only.
                self.renew_connections()
            self.on_error(error)
            raise
        finally:
            # If the pool was replaced meanwhile, the connection has returned to the old pool.
            if self._is_closed or pool is not self._engine.pool:
                pool.dispose()

    def _require_same_file(self) -> None:
        """Raise DatabaseError if the path of a SQLite file names another file than before."""
        path = file_of(self.url)
        present = None if path is None else identity(path)
        if self._used_file is None:
            self._used_file = present
        elif self._used_file != present:
            # Open connections still use the first file.
            raise DatabaseError(
                f"{describe_url(self.url)} was deleted or replaced by another file while in use: put "
                "the file back, or restart rankwatch"
            )

    def renew_connections(self) -> None:
        """Let later transactions use new connections.

        Connections in use are closed when their transactions end.
        """
        self._engine.dispose()

    def close(self) -> None:
        """Close all connections. Connections in use are closed when their transactions end."""
        self._is_closed = True
        self._engine.dispose()

    def __repr__(self) -> str:
        return f"Database({describe_url(self.url)})"


class DatabasePart:
    """A part of the store. All parts use the same connections to the database."""

    def __init__(self, database: Database) -> None:
        self._database = database


def require_file(url: URL) -> None:
    """Raise DatabaseError if a SQLite file is missing. Opening it would create an empty file."""
    file = file_of(url)
    if file is not None and not file.exists():
        raise DatabaseError(
            f"{describe_url(url)} does not exist yet: run `rankwatch run-once`, or start the daemon "
            "with `rankwatch serve`. Both create it. If it should exist, correct `database:`"
        )


def _sqlite_engine(url: URL) -> Engine:
    """Return an engine that creates a missing file, which only this account can read."""
    arguments = {} if "timeout" in url.query else {"timeout": LOCK_WAIT_S}
    engine = create_engine(url, connect_args=arguments, **_ENGINE)

    @event.listens_for(engine, "do_connect")
    def make_file(*_: object) -> None:
        file = file_of(url)
        if file is not None:
            make_private(file)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: object) -> None:  # noqa: ANN401 - the driver's own
        # The driver must not begin transactions, because `begin` does so.
        connection.isolation_level = None
        for setting in _SQLITE_SETTINGS:
            connection.execute(f"PRAGMA {setting}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that has read cannot wait for the lock to write. So a transaction that will
        # write takes the lock at once.
        is_writing = connection.get_execution_options().get("is_writing")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")

    return engine


def _postgres_engine(url: URL, patience_s: float | None) -> Engine:
    """Return an engine that gives up connecting and sending after ``patience_s`` seconds.

    None means the usual limits. Raises ConfigError if the driver is not installed.
    """
    arguments = {name: value for name, value in _POSTGRES_SETTINGS.items() if name not in url.query}
    if patience_s is not None:
        arguments |= {
            "connect_timeout": max(2, int(patience_s)),
            "tcp_user_timeout": int(patience_s * 1000),
        }
    try:
        return create_engine(
            url,
            connect_args=arguments,
            pool_pre_ping=True,
            pool_recycle=_RECYCLE_S,
            **_ENGINE,
        )
    except ModuleNotFoundError:
        raise ConfigError(
            f"database: PostgreSQL needs an extra: {write_extra('postgres')}"
        ) from None


def is_current(lease: Lease) -> ColumnElement[bool]:
    """Return the condition that no other daemon has taken the lease."""
    # The holder is compared too, because epochs may repeat after a backup was restored.
    return and_(
        leases.c.name == LEADING, leases.c.epoch == lease.epoch, leases.c.holder == lease.holder
    )


@lru_cache(maxsize=8)
def _lease_exists(lease: Lease) -> Select[Any]:
    # Each transaction that writes executes this statement, and building it takes longer.
    return select(exists().where(is_current(lease)))


def _lease_lost(connection: Connection, lease: Lease) -> LeaseLostError:
    """Return the error that the lease is over, with the name of the daemon that leads now."""
    query = select(leases.c.holder, leases.c.epoch).where(leases.c.name == LEADING)
    row = connection.execute(query).one_or_none()
    leader = "no daemon has it now"
    if row is not None:
        leader = f"{row.holder} (host:process) leads under epoch {row.epoch}"
    return LeaseLostError(
        f"{describe_url(connection.engine.url)}: the lease of epoch {lease.epoch} is over, "
        f"{leader}: nothing was written"
    )


def _limit_idle_time(limit: timedelta) -> ColumnElement[str]:
    """Return SQL that lets PostgreSQL end this transaction if it is idle for longer than this."""
    return func.set_config(
        "idle_in_transaction_session_timeout",
        str(round(limit.total_seconds() * 1000)),
        True,  # noqa: FBT003 - SQL
    )
