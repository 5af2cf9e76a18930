"""SqlMaintenance: the state of the database, who may write to it, and deleting what is old."""

# ruff: noqa: D102 - the port's docstrings are the contract

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import and_, update

from monitor.model import Cutoffs, DataKind, Lease, Pruned, RunStatus
from monitor.storage import database_size, leases, schema_version
from monitor.storage.clock_trust import doubt_about
from monitor.storage.database_url import describe
from monitor.storage.outbox import end_leases
from monitor.storage.prune import prune
from monitor.storage.run_store import as_abandoned
from monitor.storage.tables import runs
from monitor.storage.transactions import Database, LeaseFence

_TAKEN_OVER = "the daemon that ran it was stopped, frozen or cut off: another took over under epoch {epoch}"


class SqlMaintenance:
    """Port Maintenance over SQLAlchemy Core, and what the daemon does to a database beyond it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sizes: Mapping[DataKind, int] = {}

    def prepare(self, *, create: bool) -> None:
        """Require a schema that fits; with ``create`` a database without our tables gets them first."""
        if create:
            schema_version.create(self._database)
        self.ping()

    def ping(self) -> None:
        with self._database.read() as connection:
            schema_version.require_head(connection, describe(self._database.url))

    def probe_write(self) -> None:
        # A transaction that changes nothing would succeed on a full disk.
        with self._database.write(is_fenced=False) as connection:
            schema_version.rewrite(connection)

    def stand_by(self) -> None:
        """Write nothing from now on: each attempt is a LeaseLostError."""
        self._database.fence = LeaseFence()

    def lead(self, lease: Lease, *, patience: timedelta, now: datetime) -> Mapping[str, int]:
        """Write under this lease from now on, each time only if it is still held, else it is a LeaseLostError.

        First the claims and leases of earlier epochs are taken over, so that their slots and deliveries are free; returns how
        many runs were abandoned, by comparison. ``patience``: after how long the server may end an idle transaction.
        """
        # From here on a file put in its place is not written.
        self._database.pin()
        self._database.fence = LeaseFence(lease=lease, patience=patience)
        leases.terminate_older_epochs(self._database, lease.epoch)
        is_older = and_(runs.c.epoch < lease.epoch, runs.c.claimed_until.is_not(None))
        left = as_abandoned(_TAKEN_OVER.format(epoch=lease.epoch), now)
        taken = update(runs).where(is_older).values(claimed_until=None, attempt=runs.c.attempt + 1, **left)
        with self._database.write() as connection:
            if lease.before is not None:
                end_leases(connection, lease.before)
            ended = connection.execute(taken.returning(runs.c.comparison, runs.c.status))
            return Counter(name for name, status in ended if status is RunStatus.ABANDONED)

    def prune(self, cutoffs: Cutoffs, *, now: datetime) -> Pruned:
        with self._database.read() as connection:
            if (doubt := doubt_about(connection, now)) is not None:
                return Pruned(refused=doubt)
        pruned = prune(self._database, cutoffs, now)
        return replace(pruned, by_kind=database_size.rows_by_kind(pruned.rows))

    def sizes(self, *, anew: bool = True) -> Mapping[DataKind, int]:
        if anew or not self._sizes:
            with self._database.read() as connection:
                self._sizes = database_size.bytes_by_kind(connection)
        return self._sizes
