"""Stores the users' scores of runs in the caller's transaction, and reads them by run.

A row of ``scores`` has the scores of one user for at most `SCORE_COLUMNS` metrics, in the columns
v1, v2 and so on. If a run has more metrics, they are divided into parts, and a user has one row for
each part. The table ``score_places`` says where the scores of each metric of a run are: ``part`` is
the number of the part, and ``place`` is the number of the column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain

from sqlalchemy import ColumnElement, Connection, delete, func, select

from monitor.model.runs import Scores
from monitor.storage.partitions import day_of_slot, of_run
from monitor.storage.rows import is_sqlite
from monitor.storage.tables.run_tables import SCORE_COLUMNS, score_places, scores


def store_scores(
    connection: Connection,
    run_id: int,
    slot: datetime,
    blocks: Iterable[Scores],
    *,
    first_part: int = 0,
) -> None:
    """Insert the scores of every user in the run of this slot.

    The table has only `SCORE_COLUMNS` columns for scores. So the metrics are divided into parts,
    and a row has the scores of a user for the metrics of one part. Parts are numbered from
    ``first_part``.

    All blocks have the same metrics. Inserting is fastest if the users of all blocks are sorted by
    id, because new rows are then appended.
    """
    # This module imports numpy, which commands that only read do not need.
    from monitor.storage.score_rows import copy_rows, insert_rows

    remaining = iter(blocks)
    first_block = next(remaining, None)
    if first_block is None or not first_block.by_metric:
        return
    metrics = list(first_block.by_metric)
    parts = [
        metrics[start : start + SCORE_COLUMNS] for start in range(0, len(metrics), SCORE_COLUMNS)
    ]
    _store_metric_columns(connection, run_id, parts, first_part)
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
    # A row of ``scores`` contains one part of the run's metrics, and stays if a metric of the part
    # was not replaced. Nobody reads the old scores in this row, because ``score_places`` no longer
    # says in which column they are.
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

    # A user has one row of ``scores`` for each part of the run's metrics. ``place`` is the number
    # of a metric's column in the rows of its part.
    query = select(score_places).where(
        score_places.c.run_id == run_id, score_places.c.metric.in_(metrics)
    )
    columns_by_part: dict[int, dict[str, ColumnElement[float]]] = {}
    for row in connection.execute(query):
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


def _store_metric_columns(
    connection: Connection, run_id: int, parts: Sequence[Sequence[str]], first_part: int
) -> None:
    """Store which rows and which column of ``scores`` have the scores of each metric.

    The rows have the metric's part. ``parts`` are the metrics of each part. Parts are numbered from
    ``first_part``, and columns from 1.
    """
    rows = []
    for part, metrics in enumerate(parts, start=first_part):
        for column, metric in enumerate(metrics, start=1):
            rows.append({"run_id": run_id, "metric": metric, "part": part, "place": column})
    connection.execute(score_places.insert(), rows)
