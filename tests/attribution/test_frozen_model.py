"""A candidate that was frozen, on real lists: it knows nobody who came later."""

from functools import cache

import pandas as pd
import pytest

from attribution.world import Day, K, explain_day, remember
from drift_lists import lists_folder
from monitor.attribution import PastRuns
from monitor.model import Part

FROZEN = 4


def day_of(day: int) -> Day:
    baseline, candidate = (
        pd.read_parquet(lists_folder() / arm / f"2024-01-{day:02}.parquet") for arm in ("baseline", "stale3")
    )
    lists = dict(zip(candidate.user_id, candidate["items"], strict=True))
    return Day(
        values={dimension: baseline[dimension].to_numpy(dtype=str) for dimension in ("activity", "country")},
        baseline=[list(map(int, ranking[:K])) for ranking in baseline["items"]],
        candidate=[list(map(int, lists.get(user, [])[:K])) for user in baseline.user_id],
        is_missing=~baseline.user_id.isin(candidate.user_id).to_numpy(),
    )


@cache
def past(metric: str) -> PastRuns:
    return remember(map(day_of, range(1, FROZEN + 1)), metric)


@pytest.mark.parametrize("metric", ["extended_tau", "rbo(p=0.9)"])
@pytest.mark.parametrize("day", [8, 11, 14])
def test_a_frozen_model_fails_new_users_first(day: int, metric: str) -> None:
    found = explain_day(day_of(day), past(metric), metric)
    assert found.segment == "activity=new"
    assert found.causes[0].part is Part.MEMBERSHIP
