"""Per-user scores of runs: stored in batches inside the caller's transaction, replaced by metric, and read by run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, Connection, delete, func, select

from monitor.model.runs import Scores
from monitor.storage.column_types import keys
from monitor.storage.partitions import day_of_slot, of_run
from monitor.storage.rows import insert, is_sqlite
from monitor.storage.tables.run_tables import PLACES, metrics, score_places, scores

if TYPE_CHECKING:
    import pandas as pd


def store_scores(
    connection: Connection, run_id: int, slot: datetime, batches: Iterable[Scores]
) -> None:
    """Insert every user's scores of the run of this slot.

    NaN becomes NULL. Batches hold the same metrics, and come one by one.

    Users that ascend, from batch to batch too, are appended to the table's key; others cost more
    time."""
    # Commands that only read need no numpy.
    from monitor.storage.score_rows import copy_rows, insert_rows

    batches = iter(batches)
    head = next(batches, None)
    if head is None or not head.by_metric:
        return
    names = list(head.by_metric)
    parts = [names[start : start + PLACES] for start in range(0, len(names), PLACES)]
    first = _give_places(connection, run_id, parts)
    # The driver's own connection, inside the transaction that SQLAlchemy began on it: its layer
    # would double the time.
    driver = connection.connection.driver_connection
    found = chain([head], batches)
    if is_sqlite(connection):
        insert_rows(driver, run_id, first, parts, found)
    else:
        copy_rows(driver, run_id, day_of_slot(slot), first, parts, found)


def replace_scores(connection: Connection, run_id: int, slot: datetime, found: Scores) -> None:
    """Store these scores in place of the run's scores of the same metrics.

    The others stay as they are.
    """
    of_these = select(metrics.c.id).where(metrics.c.name.in_(list(found.by_metric)))
    is_of_run = score_places.c.run_id == run_id
    connection.execute(
        delete(score_places).where(is_of_run, score_places.c.metric_id.in_(of_these))
    )
    # Rows that still hold another metric stay; no place leads to what else is in them.
    placed = select(score_places.c.part).where(is_of_run)
    connection.execute(
        delete(scores).where(of_run(connection, run_id), scores.c.part.not_in(placed))
    )
    store_scores(connection, run_id, slot, [found])


def scores_of(connection: Connection, run_id: int, names: Sequence[str]) -> Scores:
    """Scores of every user of the run in these metrics; metrics without any are left out."""
    import numpy as np
    import pandas as pd

    query = select(metrics.c.name, score_places.c.part, score_places.c.place).join(
        metrics, metrics.c.id == score_places.c.metric_id
    )
    columns: dict[int, dict[str, ColumnElement[float]]] = {}
    for row in connection.execute(
        query.where(score_places.c.run_id == run_id, metrics.c.name.in_(names))
    ):
        columns.setdefault(row.part, {})[row.name] = scores.c[f"v{row.place}"]
    tables = [_table(connection, run_id, part, of_part) for part, of_part in columns.items()]
    found = [table for table in tables if len(table)]
    table = (
        pd.concat(found, axis=1).sort_index()
        if found
        else pd.DataFrame(index=pd.Index([], dtype="str"))
    )
    by_metric = {
        name: table[name].to_numpy(np.float64) for name in dict.fromkeys(names) if name in table
    }
    return Scores(users=pd.Index(table.index, dtype="str"), by_metric=by_metric)


def _table(
    connection: Connection, run_id: int, part: int, columns: dict[str, ColumnElement[float]]
) -> pd.DataFrame:
    import numpy as np
    import pandas as pd

    query = select(scores.c.user_id, *columns.values()).where(
        of_run(connection, run_id), scores.c.part == part
    )
    rows = connection.execute(query).all()
    values = {
        name: np.array([row[place] for row in rows], dtype=np.float64)
        for place, name in enumerate(columns, start=1)
    }
    return pd.DataFrame(values, index=pd.Index([row[0] for row in rows], dtype="str"))


def _give_places(connection: Connection, run_id: int, parts: Sequence[Sequence[str]]) -> int:
    """Note in which part and column the run's scores will hold each metric, behind the parts that it has; the first part."""
    numbers = _numbers(connection, [name for names in parts for name in names])
    last = connection.scalar(
        select(func.max(score_places.c.part)).where(score_places.c.run_id == run_id)
    )
    first = 0 if last is None else int(last) + 1
    placed = [
        {"run_id": run_id, "metric_id": numbers[name], "part": first + part, "place": place}
        for part, names in enumerate(parts)
        for place, name in enumerate(names, start=1)
    ]
    connection.execute(score_places.insert(), placed)
    return first


def _numbers(connection: Connection, names: Sequence[str]) -> dict[str, int]:
    """The number of each metric, given out when it is seen first."""
    # Sorted, so that two transactions never wait crosswise.
    connection.execute(
        insert(connection, metrics).on_conflict_do_nothing(),
        [{"name": name} for name in sorted(names)],
    )
    known = {
        name: number for number, name in connection.execute(select(metrics.c.id, metrics.c.name))
    }
    return {name: known[stored] for name, stored in zip(names, keys(list(names)), strict=True)}
