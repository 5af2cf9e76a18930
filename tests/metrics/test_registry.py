"""Every registered metric keeps what it declares."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import reference
from monitor.metrics import METRICS, Metric, score_all

RANKING = st.lists(st.integers(0, 12), unique=True, max_size=10)
PAIRS = st.lists(st.tuples(RANKING, RANKING), min_size=1, max_size=6)

every_metric = pytest.mark.parametrize(
    "metric", [kind(depth=depth) for kind in METRICS.values() for depth in (None, 3)], ids=str
)


def scores(metric: Metric, pairs: list[tuple[list[int], list[int]]]) -> list[float]:
    return list(score_all(reference.batch(pairs), [metric])[str(metric)])


@every_metric
@pytest.mark.parametrize("length", [1, 2, 10, 49, 100])
def test_the_declared_value_is_met_exactly(metric: Metric, length: int) -> None:
    top, other = list(range(length)), list(range(length, 2 * length))

    found = scores(metric, [(top, top), (top, other), (top, []), ([], top), ([], [])])

    expected = [metric.identical, metric.disjoint, metric.one_empty, metric.one_empty, metric.both_empty]
    np.testing.assert_array_equal(found, expected)


@every_metric
@given(pairs=PAIRS)
def test_scores_stay_in_the_declared_range(metric: Metric, pairs: list[tuple[list[int], list[int]]]) -> None:
    found = np.array(scores(metric, pairs))

    assert (np.isnan(found) | ((found >= metric.low) & (found <= metric.high))).all()


@every_metric
def test_the_declared_direction_is_right_and_the_source_is_told(metric: Metric) -> None:
    alike, unlike = scores(metric, [([1, 2, 3], [1, 2, 4]), ([1, 2, 3], [7, 8, 1])])

    assert (alike > unlike) == metric.higher_is_more_alike
    assert metric.source
