"""The size of the database by kind of data."""

from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

from factories import SLOT
from monitor.model.retention import DataKind
from monitor.model.runs import Scores
from monitor.storage import SqlStore, maintenance
from monitor.storage.tables.metadata import metadata
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
    listed = [table.name for tables in maintenance.TABLES.values() for table in tables]
    assert sorted(listed) == sorted(metadata.tables)


def test_sizes_tell_bytes_rows_and_the_oldest_of_each_kind(store: SqlStore) -> None:
    for days in range(3):
        stored(store, days, users=2000)
    prune(store, now=SLOT + 3 * DAY)

    found = {each.kind: each for each in store.maintenance.measure().kinds}

    scores = found[DataKind.SCORES]
    assert (scores.runs, scores.oldest) == (3, SLOT)
    assert 6_000 * 30 < scores.used_bytes < 6_000 * 300
    assert (found[DataKind.EVIDENCE].runs, found[DataKind.LISTS].runs) == (3, 0)
    assert scores.bytes_per_run == pytest.approx(scores.used_bytes / 3)
    whole = store.maintenance.measure()
    assert sum(each.used_bytes for each in whole.kinds) == whole.used_bytes
    assert store.maintenance.sizes()[DataKind.SCORES] == scores.used_bytes
    assert store.maintenance.sizes(anew=False) is store.maintenance.sizes(anew=False)
