"""SqlMaintenance checks and measures the database, decides who may write, and deletes old data."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection, Table, and_, exists, func, literal, select, text, update

from monitor.model.instants import format_instant
from monitor.model.retention import Cutoffs, DatabaseSize, DataKind, KindSize, Pruned
from monitor.model.runs import Lease, RunStatus
from monitor.storage import leases, schema_version
from monitor.storage.database_url import describe_url
from monitor.storage.outbox import end_delivery_claims
from monitor.storage.partitions import bytes_of
from monitor.storage.prune import prune
from monitor.storage.rows import is_sqlite
from monitor.storage.run_store import abandoned_unless_finished
from monitor.storage.tables.alert_tables import transitions
from monitor.storage.tables.metadata import metadata
from monitor.storage.tables.run_tables import daily, runs
from monitor.storage.transactions import DatabasePart, LeaseCheck

MIN_AGE_TO_CONFIRM = timedelta(days=2)
"""A stored run confirms that the clock is right, but only if its slot is at least this old.

A daemon whose clock is wrong stores runs with wrong slots, so newer slots prove nothing.
"""
LONGEST_GAP = timedelta(days=8)
"""If no run confirms the clock for longer than this, rankwatch does not trust the clock.

The time is counted back from the newest slot that could confirm the clock (`MIN_AGE_TO_CONFIRM`
ago). If twice the time between the two newest slots is longer, it is used instead.
"""

_CLOCK_SKEW = timedelta(hours=1)
_ADVICE = (
    "correct the clock; if it is right, rankwatch deletes old rows again once it has stored runs "
    "for two days"
)

_TAKEN_OVER = (
    "the daemon that ran it was stopped, frozen or cut off: another daemon took over under epoch "
    "{epoch}"
)
_TABLE_NAMES = {
    DataKind.SCORES: ("scores",),
    DataKind.LISTS: ("kept_lists",),
    DataKind.EVIDENCE: ("evidence", "explanations"),
    DataKind.SUMMARIES: (
        "summaries",
        "coverage",
        "arm_scores",
        "expectations",
    ),
    DataKind.DAILY: ("daily",),
    DataKind.RUNS: (
        "runs",
        "lessons",
        "score_places",
        "leases",
    ),
    DataKind.ALERTS: ("alert_states", "transitions", "deliveries", "notifications", "silences"),
}
TABLES_OF_KIND: Mapping[DataKind, tuple[Table, ...]] = {
    kind: tuple(metadata.tables[name] for name in names) for kind, names in _TABLE_NAMES.items()
}
"""The tables of each kind of data. A run with data of a kind has rows in the kind's first table."""


class SqlMaintenance(DatabasePart):
    """Checks, measures and prunes the database."""

    _sizes: Mapping[DataKind, int] | None = None

    def prepare(self, *, create: bool) -> None:
        """Check the version of the schema. ``create`` True creates missing tables first."""
        if create:
            schema_version.create_tables(self._database)
        self.ping()

    def ping(self) -> None:
        """Raise DatabaseError if the database does not answer or its schema is wrong."""
        with self._database.read() as connection:
            schema_version.require_newest(connection, describe_url(self._database.url))

    def probe_write(self) -> None:
        """Raise DatabaseError if the database cannot be written now."""
        # A transaction that changes nothing would succeed on a full disk. So a stored value is
        # written again.
        with self._database.write(needs_lease=False) as connection:
            schema_version.rewrite_value(connection)

    def record_outage(self, since: datetime, until: datetime) -> None:
        """Store when an outage of the database began and ended. It is kept for a week.

        A second call with the same ``since`` changes the end.
        """
        with self._database.write(needs_lease=False) as connection:
            leases.store_outage(connection, since, until)

    def away_s_since(self, instant: datetime) -> float:
        """Return the total seconds of the database's outages that ended after the instant."""
        with self._database.read() as connection:
            return leases.away_s_since(connection, instant)

    def stand_by(self) -> None:
        """Let `Database.write` raise LeaseLostError from now on, because another daemon leads."""
        self._database.lease_check = LeaseCheck()

    def lead(self, lease: Lease, *, patience: timedelta, now: datetime) -> Mapping[str, int]:
        """Write under this lease from now on, and end the claims of earlier leaders.

        Runs that earlier leaders did not finish become abandoned. The database ends transactions
        that are idle for longer than ``patience``. Returns the number of abandoned runs of each
        comparison. Raises LeaseLostError if another daemon has taken the lease.
        """
        self._database.lease_check = LeaseCheck(lease=lease, patience=patience)
        is_older_claim = and_(runs.c.epoch < lease.epoch, runs.c.claimed_until.is_not(None))
        abandoned_if_running = abandoned_unless_finished(_TAKEN_OVER.format(epoch=lease.epoch), now)
        # An earlier leader cannot store a result any more, because the attempt has a higher number.
        end_claims = (
            update(runs)
            .where(is_older_claim)
            .values(claimed_until=None, attempt=runs.c.attempt + 1, **abandoned_if_running)
            .returning(runs.c.comparison, runs.c.status)
        )
        with self._database.write() as connection:
            if lease.last_holder is not None:
                end_delivery_claims(connection, lease.last_holder)
            ended = connection.execute(end_claims)
            # A finished slot that was run again has kept the status of its earlier result.
            return Counter(name for name, status in ended if status is RunStatus.ABANDONED)

    def prune(self, cutoffs: Cutoffs, *, now: datetime) -> Pruned:
        """Delete expired data, in many small transactions.

        - Deletes nothing if ``now`` seems wrong. ``Pruned.reason`` then has the reason.
        - Never deletes alert states, or transitions whose deliveries still wait.
        - Stores the daily sums of past days first.
        - Also deletes stored lists that have not expired but are not needed. The newest lists of
          each comparison and the lists of runs that wait for relevance are needed.
        - On PostgreSQL, deletes the scores of whole days only.
        """
        with self._database.read() as connection:
            clock_error = find_clock_error(connection, now)
        if clock_error is not None:
            return Pruned(reason=clock_error)
        pruned = prune(self._database, cutoffs, now)
        by_kind = Counter[DataKind]()
        for kind, tables in TABLES_OF_KIND.items():
            for table in tables:
                by_kind[kind] += pruned.deleted_rows.get(table.name, 0)
        # The plus sign drops zeros.
        return replace(pruned, deleted_by_kind=dict(+by_kind))

    def sizes(self, *, refresh: bool = True) -> Mapping[DataKind, int]:
        """Return the bytes on disk of each kind of data.

        Without ``refresh``, the last result is returned, because SQLite must read most of its file
        to measure the sizes.
        """
        if refresh or self._sizes is None:
            with self._database.read() as connection:
                self._sizes = bytes_by_kind(connection)
        return self._sizes

    def measure(self) -> DatabaseSize:
        """Return everything that `rankwatch db size` prints."""
        with self._database.read() as connection:
            sizes = bytes_by_kind(connection)
            free_bytes = 0
            if is_sqlite(connection):
                free_pages = _read_pragma(connection, "freelist_count")
                free_bytes = free_pages * _read_pragma(connection, "page_size")
            return DatabaseSize(
                used_bytes=sum(sizes.values()),
                free_bytes=free_bytes,
                kinds=tuple(_measure_kind(connection, kind, sizes[kind]) for kind in DataKind),
            )


def find_clock_error(connection: Connection, now: datetime) -> str | None:
    """Return a sentence if ``now`` may be too late, or None if nothing contradicts ``now``.

    If a clock is years ahead, rankwatch must not delete the data that seems to be old.
    """
    if not is_sqlite(connection):
        server_time = connection.execute(select(func.clock_timestamp())).scalar_one()
        if now - server_time > _CLOCK_SKEW:
            return (
                f"this machine's clock says {format_instant(now)}, and the database's clock says "
                f"{format_instant(server_time)}: {_ADVICE}"
            )
    # The slots of runs show which times have really been reached. Slots of the last days are
    # ignored, because a wrong clock may have produced them.
    last_confirming_slot = now - MIN_AGE_TO_CONFIRM
    slots_from_newest = _newest_slots(connection, last_confirming_slot)
    if not slots_from_newest:
        # Without older slots, there is no data to delete.
        return None
    newest = slots_from_newest[0]
    last_gap = newest - slots_from_newest[-1]  # 0 if there is only one slot
    # If the clock is right, there is a run in nearly every period of this length.
    longest_gap = max(LONGEST_GAP, 2 * last_gap)
    if last_confirming_slot - newest <= longest_gap:
        return None
    return (
        f"this machine's clock says {format_instant(now)}, but the newest run before the last two "
        f"days is from {format_instant(newest)}: {_ADVICE}"
    )


def _newest_slots(connection: Connection, until: datetime) -> list[datetime]:
    """Return the two newest slots with runs until ``until``, newest first.

    Runs of several comparisons may have the same slot. The result is shorter if there are fewer
    slots. Without runs, the newest day with daily sums replaces the slots.
    """
    slots = select(runs.c.slot).where(runs.c.slot <= until).distinct()
    newest_two = slots.order_by(runs.c.slot.desc()).limit(2)
    newest = list(connection.scalars(newest_two))
    if newest:
        return newest
    day = connection.scalar(select(func.max(daily.c.day)).where(daily.c.day <= until))
    return [] if day is None else [day]


def bytes_by_kind(connection: Connection) -> dict[DataKind, int]:
    """Return the bytes on disk of each kind of data, with the indexes.

    Free pages of a SQLite file are not counted.
    """
    is_sqlite_file = is_sqlite(connection)
    bytes_of_table = _sqlite_bytes_of if is_sqlite_file else bytes_of
    sizes = dict.fromkeys(TABLES_OF_KIND, 0)
    for kind, tables in TABLES_OF_KIND.items():
        if kind is DataKind.SCORES and is_sqlite_file:
            continue  # computed below
        for table in tables:
            sizes[kind] += bytes_of_table(connection, table.name)
    if is_sqlite_file:
        # All other pages belong to scores. Counting the pages of scores would read most of the
        # file.
        free_pages = _read_pragma(connection, "freelist_count")
        used_pages = _read_pragma(connection, "page_count") - free_pages
        used_bytes = used_pages * _read_pragma(connection, "page_size")
        sizes[DataKind.SCORES] = max(0, used_bytes - sum(sizes.values()))
    return sizes


def _measure_kind(connection: Connection, kind: DataKind, used: int) -> KindSize:
    """Return the size of the kind: bytes (``used``), runs with data of the kind, and oldest slot.

    Daily sums and alerts do not belong to runs, so the number of runs is 0.
    """
    table = TABLES_OF_KIND[kind][0]
    if kind is DataKind.DAILY:
        query = select(literal(0), func.min(daily.c.day))
    elif kind is DataKind.ALERTS:
        query = select(literal(0), func.min(transitions.c.slot))
    else:
        query = select(func.count(), func.min(runs.c.slot))
        if table is not runs:
            query = query.where(exists().where(table.c.run_id == runs.c.id))
    count, oldest = connection.execute(query).one()
    return KindSize(kind=kind, used_bytes=used, runs=count, oldest=oldest)


def _read_pragma(connection: Connection, name: str) -> int:
    """Return the value of a setting of SQLite that is a number."""
    return int(connection.execute(text(f"PRAGMA {name}")).scalar_one())


def _sqlite_bytes_of(connection: Connection, table: str) -> int:
    pages = text(
        "SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE aggregate = TRUE AND name IN (SELECT "
        "name FROM sqlite_master WHERE tbl_name = :table)"
    )
    return int(connection.execute(pages, {"table": table}).scalar_one())
