"""SqlMaintenance: the database's state and size, who may write to it, and whether its clock may decide what is old."""

# ruff: noqa: D102 - the port's docstrings are the contract

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, Table, and_, exists, func, select, text, update

from monitor.model.instants import format_instant
from monitor.model.retention import Cutoffs, DatabaseSize, DataKind, KindSize, Pruned
from monitor.model.runs import Lease, RunStatus
from monitor.storage import leases, schema_version
from monitor.storage.database_url import describe
from monitor.storage.outbox import end_leases
from monitor.storage.partitions import bytes_of
from monitor.storage.prune import prune
from monitor.storage.rows import is_sqlite
from monitor.storage.run_store import as_abandoned
from monitor.storage.tables.alert_tables import alert_states, transitions
from monitor.storage.tables.metadata import metadata
from monitor.storage.tables.run_tables import daily, runs
from monitor.storage.transactions import Database, LeaseFence

CONFIRMED_AFTER = timedelta(days=2)
"""A daemon stores runs under a wrong clock within minutes: only slots at least so old confirm what the clock says."""
LONGEST_GAP = timedelta(days=8)
"""How long before that the newest of these slots may lie.

For schedules rarer than weekly, twice their interval.
"""

_SKEW = timedelta(hours=1)
_ADVICE = (
    "correct the clock; if it is right, old rows are deleted again once runs have been "
    "stored for two days"
)

_TAKEN_OVER = (
    "the daemon that ran it was stopped, frozen or cut off: another took over under epoch {epoch}"
)
_NAMES = {
    DataKind.SCORES: ("scores",),
    DataKind.LISTS: ("kept_lists",),
    DataKind.EVIDENCE: ("evidence", "explanations"),
    DataKind.SUMMARIES: (
        "summaries",
        "statistics",
        "coverage",
        "coverage_reasons",
        "arm_scores",
        "expectations",
    ),
    DataKind.DAILY: ("daily",),
    DataKind.RUNS: (
        "runs",
        "stages",
        "lessons",
        "standstills",
        "splits",
        "metrics",
        "score_places",
        "leases",
    ),
    DataKind.ALERTS: ("alert_states", "transitions", "deliveries", "notifications", "silences"),
}
TABLES: Mapping[DataKind, tuple[Table, ...]] = {
    kind: tuple(metadata.tables[name] for name in names) for kind, names in _NAMES.items()
}
"""The tables of each kind; the runs that hold any are counted in the first."""


class SqlMaintenance:
    """Port Maintenance over SQLAlchemy Core, and what the daemon does to a database beyond it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sizes: Mapping[DataKind, int] = {}

    def prepare(self, *, create: bool) -> None:
        """Require a schema that fits.

        With ``create`` a database without our tables gets them first.
        """
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
        """Write under this lease from now on, while it is held, else LeaseLostError.

        Returns abandoned runs by comparison.

        First claims and leases of earlier epochs are taken over. ``patience``: how long a
        transaction may be idle."""
        # From here on a file put in its place is not written.
        self._database.pin()
        self._database.fence = LeaseFence(lease=lease, patience=patience)
        leases.terminate_older_epochs(self._database, lease.epoch)
        is_older = and_(runs.c.epoch < lease.epoch, runs.c.claimed_until.is_not(None))
        left = as_abandoned(_TAKEN_OVER.format(epoch=lease.epoch), now)
        taken = (
            update(runs)
            .where(is_older)
            .values(claimed_until=None, attempt=runs.c.attempt + 1, **left)
        )
        with self._database.write() as connection:
            if lease.before is not None:
                end_leases(connection, lease.before)
            ended = connection.execute(taken.returning(runs.c.comparison, runs.c.status))
            return Counter(name for name, status in ended if status is RunStatus.ABANDONED)

    def prune(self, cutoffs: Cutoffs, *, now: datetime) -> Pruned:
        with self._database.read() as connection:
            if (doubt := doubt_about(connection, now)) is not None:
                return Pruned(refused=doubt)
        pruned, by_kind = prune(self._database, cutoffs, now), Counter[DataKind]()
        kinds = {table.name: kind for kind, tables in TABLES.items() for table in tables}
        for table, count in pruned.rows.items():
            by_kind[kinds[table]] += count
        return replace(pruned, by_kind=dict(by_kind))

    def sizes(self, *, anew: bool = True) -> Mapping[DataKind, int]:
        if anew or not self._sizes:
            with self._database.read() as connection:
                self._sizes = bytes_by_kind(connection)
        return self._sizes

    def measure(self) -> DatabaseSize:
        """Everything that `rankwatch db size` prints."""
        with self._database.read() as connection:
            found = bytes_by_kind(connection)
            is_free = is_sqlite(connection)
            return DatabaseSize(
                used_bytes=sum(found.values()),
                free_bytes=_pragma(connection, "freelist_count") * _pragma(connection, "page_size")
                if is_free
                else 0,
                kinds=tuple(_kind(connection, kind, found[kind]) for kind in DataKind),
            )


def doubt_about(connection: Connection, now: datetime) -> str | None:
    """Why ``now`` must not decide what is old, None where it is confirmed: what a clock years ahead deletes stays gone."""
    if not is_sqlite(connection):
        server = connection.execute(select(func.clock_timestamp())).scalar_one()
        if now - server > _SKEW:
            return (
                f"this machine's clock says {format_instant(now)}, the database's "
                f"{format_instant(server)}: {_ADVICE}"
            )
    confirming = _newest_slots(connection, now - CONFIRMED_AFTER)
    if not confirming:
        # Without any slot that is old enough nothing is old, and every clock will do.
        return None
    gap = max(LONGEST_GAP, 2 * (confirming[0] - confirming[-1]))
    if now - CONFIRMED_AFTER - confirming[0] <= gap:
        return None
    said = (
        f"this machine's clock says {format_instant(now)}, and before that no run is newer "
        f"than {format_instant(confirming[0])}"
    )
    return f"{said}: {_ADVICE}"


def _newest_slots(connection: Connection, until: datetime) -> list[datetime]:
    slots = select(runs.c.scheduled_for).where(runs.c.scheduled_for <= until).distinct()
    found = list(connection.scalars(slots.order_by(runs.c.scheduled_for.desc()).limit(2)))
    # Where no run is left the newest day that was rolled up counts.
    newest_day = (
        None
        if found
        else connection.scalar(select(func.max(daily.c.day)).where(daily.c.day <= until))
    )
    return found if newest_day is None else [newest_day]


def bytes_by_kind(connection: Connection) -> dict[DataKind, int]:
    """Bytes on disk of each kind, indexes included.

    On SQLite without the room that is free inside the file.
    """
    if is_sqlite(connection):
        return _sqlite_bytes(connection)
    return {
        kind: sum(bytes_of(connection, table.name) for table in tables)
        for kind, tables in TABLES.items()
    }


def _kind(connection: Connection, kind: DataKind, used: int) -> KindSize:
    """How many runs hold rows of the kind, and the slot of the oldest.

    Of days likewise, of alerts the oldest transition.
    """
    table = TABLES[kind][0]
    if table in (alert_states, daily):
        oldest = connection.scalar(
            select(func.min(daily.c.day if table is daily else transitions.c.scheduled_for))
        )
        return KindSize(kind=kind, used_bytes=used, runs=0, oldest=oldest)
    query = select(func.count(), func.min(runs.c.scheduled_for))
    if table is not runs:
        query = query.where(exists(select(table.c.run_id).where(table.c.run_id == runs.c.id)))
    count, oldest = connection.execute(query).one()
    return KindSize(kind=kind, used_bytes=used, runs=count, oldest=oldest)


def _pragma(connection: Connection, name: str) -> int:
    return int(connection.execute(text(f"PRAGMA {name}")).scalar_one())


def _sqlite_bytes(connection: Connection) -> dict[DataKind, int]:
    # Scores fill most of the pages: they are what is left over, so that they need not be read.
    pages = text(
        "SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE aggregate = TRUE AND name IN (SELECT "
        "name FROM sqlite_master WHERE tbl_name = :table)"
    )
    found = {
        kind: sum(
            int(connection.execute(pages, {"table": table.name}).scalar_one()) for table in tables
        )
        for kind, tables in TABLES.items()
        if kind is not DataKind.SCORES
    }
    # Scores have the pages that no other table fills: counting their own would read most of the
    # file.
    pages_used = _pragma(connection, "page_count") - _pragma(connection, "freelist_count")
    return {
        DataKind.SCORES: max(0, pages_used * _pragma(connection, "page_size") - sum(found.values()))
    } | found
