"""Stores the users' scores of runs in the caller's transaction, and reads them by run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain

from sqlalchemy import ColumnElement, Connection, delete, func, select

from monitor.model.runs import Scores
from monitor.storage.partitions import day_of_slot, of_run
from monitor.storage.rows import is_sqlite
from monitor.storage.tables.run_tables import PLACES, score_places, scores


def store_scores(
    connection: Connection,
    run_id: int,
    slot: datetime,
    blocks: Iterable[Scores],
    *,
    first_part: int = 0,
) -> None:
    """Insert the scores of every user in the run of this slot.

    A row has the scores of a user for the metrics of one part, because the table has only `PLACES`
    columns for scores. Parts are numbered from ``first_part``.

    All blocks have the same metrics. Inserting is fastest if all users ascend, because new rows are
    then appended.
    """
    # This module imports numpy, which commands that only read do not need.
    from monitor.storage.score_rows import copy_rows, insert_rows

    remaining = iter(blocks)
    first_block = next(remaining, None)
    if first_block is None or not first_block.by_metric:
        return
    metrics = list(first_block.by_metric)
    parts = [metrics[start : start + PLACES] for start in range(0, len(metrics), PLACES)]
    _store_places(connection, run_id, parts, first_part)
    # SQLAlchemy would take twice as long as the driver. The driver's connection is in the same
    # transaction.
    driver = connection.connection.driver_connection
    all_blocks = chain([first_block], remaining)
    if is_sqlite(connection):
        insert_rows(driver, run_id, first_part, parts, all_blocks)
    else:
        copy_rows(driver, run_id, day_of_slot(slot), first_part, parts, all_blocks)


def replace_scores(
    connection: Connection,
    run_id: int,
    slot: datetime,
    new: Scores,
) -> None:
    """Store these scores in place of the run's scores of the same metrics.

    Scores of other metrics stay.
    """
    is_of_run = score_places.c.run_id == run_id
    is_replaced = score_places.c.metric.in_(list(new.by_metric))
    connection.execute(delete(score_places).where(is_of_run, is_replaced))
    # Rows stay if they also have scores of other metrics. The replaced scores in them are ignored,
    # because ``score_places`` no longer contains their columns.
    used_parts = select(score_places.c.part).where(is_of_run)
    is_unused = scores.c.part.not_in(used_parts)
    connection.execute(delete(scores).where(of_run(connection, run_id), is_unused))
    last_part = connection.scalar(select(func.max(score_places.c.part)).where(is_of_run))
    first_part = 0 if last_part is None else last_part + 1
    store_scores(connection, run_id, slot, [new], first_part=first_part)


def scores_of_run(connection: Connection, run_id: int, metrics: Sequence[str]) -> Scores:
    """Return the scores of every user of the run for these metrics, ordered by user.

    Metrics without scores are left out.
    """
    import pandas as pd

    places = select(score_places).where(
        score_places.c.run_id == run_id, score_places.c.metric.in_(metrics)
    )
    columns_by_part: dict[int, dict[str, ColumnElement[float]]] = {}
    for row in connection.execute(places):
        columns_by_part.setdefault(row.part, {})[row.metric] = scores.c[f"v{row.place}"]
    # If there are no scores, the result is this empty table.
    tables = [pd.DataFrame(index=pd.Index([], dtype="str"))]
    for part, columns in columns_by_part.items():
        query = select(scores.c.user_id, *columns.values()).where(
            of_run(connection, run_id), scores.c.part == part
        )
        rows = list(map(tuple, connection.execute(query)))
        if rows:
            table = pd.DataFrame(rows, columns=["user", *columns]).set_index("user")
            tables.append(table.astype(float))
    joined = pd.concat(tables, axis=1).sort_index()
    by_metric = {}
    for metric in metrics:
        if metric in joined:
            by_metric[metric] = joined[metric].to_numpy()
    return Scores(users=pd.Index(joined.index, dtype="str"), by_metric=by_metric)


def _store_places(
    connection: Connection, run_id: int, parts: Sequence[Sequence[str]], first_part: int
) -> None:
    """Store the part and the column's number of each metric.

    ``parts`` are the metrics of each part, which are numbered from ``first_part``.
    """
    rows = []
    for part, metrics in enumerate(parts, start=first_part):
        for place, metric in enumerate(metrics, start=1):
            rows.append({"run_id": run_id, "metric": metric, "part": part, "place": place})
    connection.execute(score_places.insert(), rows)
