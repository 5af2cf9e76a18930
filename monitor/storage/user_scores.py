"""Per-user scores: many rows by the fastest path of each database, inside the caller's transaction; lookups by user and run.

Users come sorted, so rows are appended to the table's key. Rows are made in chunks: a million users need no more memory
than a few thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, delete, select

from monitor.model import Direction, Scores, UserScore
from monitor.storage.column_types import keys
from monitor.storage.dialects import insert, is_sqlite
from monitor.storage.partitions import belongs_to_run, day_of_slot, of_run
from monitor.storage.tables import metrics, runs, scores

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

CHUNK = 20_000
"""Users whose rows are in memory at once."""
_RUNS_AT_ONCE = 500

_TOGETHER = 10

_Columns = list[list[Any]]


def store_scores(connection: Connection, run_id: int, slot: datetime, found: Scores) -> None:
    """Insert every user's scores of the run of this slot; NaN becomes NULL."""
    if not found.by_metric:
        return
    numbers = _numbers(connection, list(found.by_metric))
    # In the order of the key, so that rows are appended to it.
    columns = dict(sorted((numbers[name], values) for name, values in found.by_metric.items()))
    # The driver's own connection, inside the transaction that SQLAlchemy began on it: its layer would double the time.
    driver = connection.connection.driver_connection
    chunks = _chunks(found, list(columns.values()))
    if is_sqlite(connection):
        _insert(driver, run_id, tuple(columns), chunks)
    else:
        _copy(driver, run_id, day_of_slot(slot), tuple(columns), chunks)


def replace_scores(connection: Connection, run_id: int, slot: datetime, found: Scores) -> None:
    """Store these scores in place of the run's scores of the same metrics."""
    of_these = select(metrics.c.id).where(metrics.c.name.in_(list(found.by_metric)))
    connection.execute(delete(scores).where(of_run(connection, run_id), scores.c.metric_id.in_(of_these)))
    store_scores(connection, run_id, slot, found)


def user_scores(connection: Connection, comparison: str, user: str, limit: int) -> tuple[UserScore, ...]:
    """The user's scores in the newest ``limit`` runs that scored them, newest run first, then by metric."""
    listed = select(runs.c.id).where(runs.c.comparison == comparison).order_by(runs.c.scheduled_for.desc())
    found: list[UserScore] = []
    seen: set[int] = set()
    ids = list(connection.scalars(listed))
    for start in range(0, len(ids), _RUNS_AT_ONCE):
        for score in _of_user(connection, ids[start : start + _RUNS_AT_ONCE], user):
            if score.run_id not in seen and len(seen) == limit:
                return tuple(found)
            seen.add(score.run_id)
            found.append(score)
    return tuple(found)


def worst_users(connection: Connection, run_id: int, metric: str, n: int, direction: Direction) -> tuple[UserScore, ...]:
    """The ``n`` users of the run with the lowest scores (with ``above`` the highest), worst first, then by name."""
    worst = scores.c.value if direction is Direction.BELOW else scores.c.value.desc()
    query = _query(connection).where(of_run(connection, run_id), metrics.c.name == metric, scores.c.value.is_not(None))
    return _read(connection, query.order_by(worst, scores.c.user_id).limit(n))


def run_scores(connection: Connection, run_id: int, names: Sequence[str]) -> Scores:
    """Scores of every user of the run in these metrics; metrics without any are left out."""
    import numpy as np
    import pandas as pd

    columns = {name: column for name in dict.fromkeys(names) if len(column := _column(connection, run_id, name))}
    table = pd.DataFrame(columns, dtype=np.float64).sort_index() if columns else pd.DataFrame(index=pd.Index([], dtype="str"))
    by_metric = {name: table[name].to_numpy(np.float64) for name in columns}
    return Scores(users=pd.Index(table.index, dtype="str"), by_metric=by_metric)


def _column(connection: Connection, run_id: int, name: str) -> pd.Series[float]:
    import numpy as np
    import pandas as pd

    number = select(metrics.c.id).where(metrics.c.name == name).scalar_subquery()
    query = select(scores.c.user_id, scores.c.value).where(of_run(connection, run_id), scores.c.metric_id == number)
    rows = connection.execute(query).all()
    values = np.array([row[1] for row in rows], dtype=np.float64)
    return pd.Series(values, index=pd.Index([row[0] for row in rows], dtype="str"))


def _of_user(connection: Connection, run_ids: Sequence[int], user: str) -> tuple[UserScore, ...]:
    query = _query(connection).where(runs.c.id.in_(run_ids), scores.c.user_id == user)
    return _read(connection, query.order_by(runs.c.scheduled_for.desc(), metrics.c.name))


def _query(connection: Connection) -> Any:  # noqa: ANN401 - a select of five columns
    return (
        select(scores.c.run_id, runs.c.scheduled_for, scores.c.user_id, metrics.c.name, scores.c.value)
        .join(runs, belongs_to_run(connection))
        .join(metrics, metrics.c.id == scores.c.metric_id)
    )


def _read(connection: Connection, query: Any) -> tuple[UserScore, ...]:  # noqa: ANN401 - see _query
    return tuple(
        UserScore(run_id=run_id, slot=slot, user=user, metric=metric, value=value)
        for run_id, slot, user, metric, value in connection.execute(query)
    )


def _numbers(connection: Connection, names: Sequence[str]) -> dict[str, int]:
    """The number of each metric, given out when it is seen first."""
    # Sorted, so that two transactions never wait crosswise.
    connection.execute(insert(connection, metrics).on_conflict_do_nothing(), [{"name": name} for name in sorted(names)])
    known = {name: number for number, name in connection.execute(select(metrics.c.id, metrics.c.name))}
    return {name: known[stored] for name, stored in zip(names, keys(list(names)), strict=True)}


def _chunks(found: Scores, columns: Sequence[npt.NDArray[np.float64]]) -> Iterator[_Columns]:
    for start in range(0, len(found.users), CHUNK):
        part = slice(start, start + CHUNK)
        yield [keys(found.users[part].tolist()), *(_values(column[part]) for column in columns)]


def _values(column: npt.NDArray[np.float64]) -> list[float | None]:
    import numpy as np

    undefined = np.isnan(column)
    if not undefined.any():
        return list(column.tolist())
    return [None if missing else value for value, missing in zip(column.tolist(), undefined.tolist(), strict=True)]


def _insert(driver: Any, run_id: int, metric_ids: Sequence[int], chunks: Iterable[_Columns]) -> None:  # noqa: ANN401 - sqlite3
    cursor = driver.cursor()
    for columns in chunks:
        width = len(columns)
        flat = list(chain.from_iterable(zip(*columns, strict=True)))
        whole = len(flat) - len(flat) % (width * _TOGETHER)
        # Ten users a statement take a third of the time that one row a statement takes.
        cursor.executemany(_statement(run_id, metric_ids, _TOGETHER), _grouped(flat[:whole], width * _TOGETHER))
        cursor.executemany(_statement(run_id, metric_ids, 1), _grouped(flat[whole:], width))
    cursor.close()


def _statement(run_id: int, metric_ids: Sequence[int], users: int) -> str:
    # The rows of a user share the name.
    width = 1 + len(metric_ids)
    rows = ", ".join(
        f"({run_id:d}, ?{user * width + 1}, {metric:d}, ?{user * width + 1 + place})"
        for user in range(users)
        for place, metric in enumerate(metric_ids, start=1)
    )
    return f"INSERT INTO scores (run_id, user_id, metric_id, value) VALUES {rows}"  # noqa: S608 - numbers only


def _grouped(values: list[Any], size: int) -> Iterator[tuple[Any, ...]]:
    return zip(*[iter(values)] * size, strict=True)


def _copy(
    driver: Any,  # noqa: ANN401 - psycopg's
    run_id: int,
    day: date,
    metric_ids: Sequence[int],
    chunks: Iterable[_Columns],
) -> None:
    with (
        driver.cursor() as cursor,
        cursor.copy("COPY scores (run_id, day, user_id, metric_id, value) FROM STDIN (FORMAT BINARY)") as copy,
    ):
        copy.set_types(["int8", "date", "text", "int4", "float8"])
        write = copy.write_row
        for columns in chunks:
            for user, *values in zip(*columns, strict=True):
                for metric, value in zip(metric_ids, values, strict=True):
                    write((run_id, day, user, metric, value))
