import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.attribution import bound_drop, decompose_all
from monitor.model import PartMeans


def row(n: int, asked: int, distance: float) -> PartMeans:
    return PartMeans(segment="all", asked=asked, n=n, membership=distance, order=0.0, length=0.0, spread=0.1)


def bounds(now: PartMeans, before: float, farthest: float) -> tuple[float, float]:
    (drop,) = decompose_all([now], [row(100, 100, before)])
    return bound_drop(drop, now, farthest)


def test_bounds_are_as_by_hand() -> None:
    """10 of 100 users are missing; distances up to 2."""
    assert bounds(row(90, 100, 0.5), 0.4, 2) == pytest.approx((0.9 * 0.5 - 0.4, 0.9 * 0.5 + 0.1 * 2 - 0.4))


def test_without_missing_users_the_bounds_are_the_drop_and_with_some_an_unbounded_metric_has_none() -> None:
    assert bounds(row(10, 10, 0.7), 0.5, math.inf) == pytest.approx((0.2, 0.2))
    assert bounds(row(9, 10, 0.7), 0.5, math.inf)[1] == math.inf


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.lists(st.floats(0, 1), max_size=10), st.floats(0, 1))
def test_the_drop_of_all_asked_users_lies_within_the_bounds(seen: list[float], unseen: list[float], before: float) -> None:
    least, most = bounds(row(len(seen), len(seen) + len(unseen), float(np.mean(seen))), before, 1)
    assert least - 1e-12 <= np.mean(seen + unseen) - before <= most + 1e-12
