"""Stores runs, scores, alert states and the outbox in SQLite or PostgreSQL.

`SqlStore` implements the port Store. This package also checks and migrates the schema.
"""

from contextlib import closing

from pydantic import SecretStr

from monitor.storage.alert_store import SqlAlertStore
from monitor.storage.database_url import describe_url, parse_url
from monitor.storage.maintenance import SqlMaintenance
from monitor.storage.outbox import SqlOutbox
from monitor.storage.page_store import SqlPageStore
from monitor.storage.run_history import SqlHistory
from monitor.storage.run_store import SqlRunStore
from monitor.storage.transactions import Database, require_file


class SqlStore:
    """Implements the port Store. All parts use the same connections to the database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.runs = SqlRunStore(database)
        self.history = SqlHistory(database)
        self.alerts = SqlAlertStore(database)
        self.outbox = SqlOutbox(database)
        self.pages = SqlPageStore(database)
        self.maintenance = SqlMaintenance(database)

    @property
    def location(self) -> str:
        """The name of the database in messages, without secrets."""
        return describe_url(self.database.url)

    def close(self) -> None:
        """Close every connection."""
        self.database.close()


def open_store(url: SecretStr | str, *, create: bool) -> SqlStore:
    """Open the database, and check that its schema fits this version of rankwatch.

    If ``create`` is True, a missing SQLite file and missing tables are created. Existing tables are
    never changed. Raises DatabaseError if the file is missing. Raises SchemaError if tables are
    missing or belong to another version.
    """
    store = unopened_store(url)
    try:
        if not create:
            require_file(store.database.url)
        store.maintenance.prepare(create=create)
    except BaseException:
        store.close()
        raise
    return store


def opened_store(url: SecretStr | str) -> closing[SqlStore]:
    """Open an existing database, and close it at the end of the ``with`` block."""
    return closing(open_store(url, create=False))


def unopened_store(url: SecretStr | str) -> SqlStore:
    """Return a store that has not connected yet.

    Call `SqlMaintenance.prepare` before anything else.
    """
    return SqlStore(Database(parse_url(url)))
