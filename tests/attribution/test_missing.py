import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.attribution import bound_missing
from monitor.model import PartMeans


def row(segment: str, n: int, asked: int, distance: float = 0.5) -> PartMeans:
    mean = distance if n else math.nan
    return PartMeans(segment=segment, asked=asked, n=n, membership=mean, order=mean * 0, length=mean * 0, spread=0.1)


def test_bounds_and_shares_are_as_by_hand() -> None:
    """10 of 100 users are newly missing, 8 of them in DE; distances up to 2."""
    before = [row("all", 100, 100, 0.4), row("c=DE", 20, 20), row("c=UK", 80, 80)]
    now = [row("all", 90, 100), row("c=DE", 12, 20), row("c=UK", 78, 80)]
    found = bound_missing(now, before, farthest=2)
    assert found is not None
    assert (found.rises.total.share, found.rises.total.share_before, found.rises.total.newly) == pytest.approx((0.1, 0, 0.1))
    assert [each.segment for each in found.rises.segments] == ["c=DE", "c=UK"]
    assert [each.share for each in found.rises.segments] == pytest.approx([0.4, 0.025])
    assert [each.newly for each in found.rises.segments] == pytest.approx([0.08, 0.02])
    assert (found.least, found.most) == pytest.approx((0.9 * 0.5 - 0.4, 0.9 * 0.5 + 0.1 * 2 - 0.4))
    assert found.hidden == pytest.approx(0.2)
    assert found.rises.leader is found.rises.segments[0]


def test_users_that_were_always_missing_hide_nothing_new() -> None:
    rows = [row("all", 90, 100), row("c=DE", 10, 20), row("c=UK", 80, 80)]
    found = bound_missing(rows, rows, farthest=2)
    assert found is not None
    assert (found.rises.total.newly, found.hidden, found.rises.leader) == (0, 0, None)
    assert found.most - found.least == pytest.approx(0.2)


def test_without_missing_users_the_bounds_are_the_drop_even_of_an_unbounded_metric() -> None:
    found = bound_missing([row("all", 10, 10, 0.7)], [row("all", 10, 10, 0.5)], farthest=math.inf)
    assert found is not None
    assert (found.least, found.most, found.hidden) == pytest.approx((0.2, 0.2, 0))
    assert found.rises.segments == ()


def test_missing_users_of_an_unbounded_metric_may_hide_anything() -> None:
    found = bound_missing([row("all", 9, 10)], [row("all", 10, 10)], farthest=math.inf)
    assert found is not None
    assert (found.most, found.hidden) == (math.inf, math.inf)


def test_a_new_segment_counts_from_nothing_and_nobody_scored_is_no_bound() -> None:
    found = bound_missing([row("all", 9, 10), row("c=FR", 0, 1)], [row("all", 10, 10)], farthest=1)
    assert found is not None
    assert (found.rises.segments[0].share, found.rises.segments[0].share_before) == (1, 0)
    assert bound_missing([row("all", 0, 10)], [row("all", 10, 10)], farthest=1) is None
    assert bound_missing([row("all", 10, 10)], [], farthest=1) is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.lists(st.floats(0, 1), max_size=10), st.floats(0, 1))
def test_the_drop_of_all_asked_users_lies_within_the_bounds(seen: list[float], unseen: list[float], before: float) -> None:
    now = row("all", len(seen), len(seen) + len(unseen), float(np.mean(seen)))
    found = bound_missing([now], [row("all", 5, 5, before)], farthest=1)
    assert found is not None
    assert found.least - 1e-12 <= np.mean(seen + unseen) - before <= found.most + 1e-12
