"""The size of the database by kind of data."""

from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd

from factories import SLOT
from monitor.model import DataKind, Scores
from monitor.storage import SqlStore, database_size
from monitor.storage.tables import metadata
from storage.worked import claimed, prune, result

DAY = timedelta(days=1)


def many(users: int) -> Scores:
    names = pd.Index([f"user-{number:06}" for number in range(users)], dtype="str")
    return Scores(users=names, by_metric={metric: np.full(users, 0.5) for metric in ("extended_tau", "rbo(p=0.9)")})


def stored(store: SqlStore, days: int, users: int, comparison: str = "home-feed", **changes: Any) -> int:
    claim = claimed(store, SLOT + days * DAY, comparison=comparison)
    assert store.runs.finish(result(claim, scores=many(users), **changes), receivers=())
    return claim.run_id


def test_every_table_is_of_one_kind() -> None:
    listed = [table.name for tables in database_size.TABLES.values() for table in tables]
    assert sorted(listed) == sorted(metadata.tables)


def test_sizes_tell_the_bytes_of_each_kind(store: SqlStore) -> None:
    for days in range(3):
        stored(store, days, users=2000)
    prune(store, now=SLOT + 3 * DAY)

    found = store.maintenance.sizes()

    assert tuple(found) == tuple(DataKind)
    assert 6_000 * 30 < found[DataKind.SCORES] < 6_000 * 300
    assert 0 < found[DataKind.EVIDENCE] < found[DataKind.SCORES]
    assert store.maintenance.sizes(anew=False) is store.maintenance.sizes(anew=False)
