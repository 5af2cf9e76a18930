"""What chance gives: how many items unrelated lists have in common."""

import numpy as np
import pytest
from scipy.stats import hypergeom

from monitor.kernels.sets import common_by_chance


@pytest.mark.parametrize(("k", "catalogue"), [(1, 1), (1, 7), (5, 5), (5, 7), (10, 50), (100, 150), (100, 10_000)])
def test_the_chances_of_common_items_are_scipys(k: int, catalogue: int) -> None:
    expected = hypergeom(catalogue, k, k).pmf(np.arange(k + 1))

    np.testing.assert_allclose(common_by_chance(k, catalogue), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("k", "catalogue"), [(1000, 1500), (1000, 10**9), (10, 10**15)])
def test_the_chances_of_common_items_keep_their_mean_where_counts_overflow(k: int, catalogue: int) -> None:
    chances = common_by_chance(k, catalogue)

    assert chances.sum() == pytest.approx(1, abs=1e-12)
    assert chances @ np.arange(k + 1) == pytest.approx(k * k / catalogue, rel=1e-9)
