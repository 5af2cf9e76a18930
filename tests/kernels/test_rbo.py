"""RBO: the weights of ranks, lists that are cut, and what is refused.

`test_worked_values` has its values by hand, and `test_against_references` its definitions.
"""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kernels import reference, reference_rbo
from kernels.reference_rbo import draw
from monitor.measures.kernels import align
from monitor.measures.kernels.rbo.ties import rbo_a, rbo_b, rbo_w
from monitor.measures.kernels.rbo.untied import rbo_min, rbo_persistence, rbo_weight
from monitor.model.errors import MetricError


def test_longer_lists_in_the_batch_change_no_bit_of_rbo_min():
    short, long = ((list(range(length)),) * 2 for length in (20, 500))
    for p in (0.5, 0.75, 0.9):
        among_others, alone = (
            rbo_min(align(reference.batch(pairs)), p) for pairs in ([short, long], [short])
        )
        assert among_others[0] == alone[0]


def test_the_weights_of_all_ranks_are_what_they_are_by_definition():
    for d in [1, 2, 5, 30]:
        # Rank i belongs to every depth from i on, a share of 1/e of depth e.
        p = 0.8
        ranks = [sum((1 - p) * p ** (e - 1) / e for e in range(i, 400)) for i in range(1, d + 1)]

        assert rbo_weight(p, d) == pytest.approx(sum(ranks), abs=1e-13)


@given(top=st.integers(1, 300), share=st.floats(1e-6, 1 - 1e-6))
def test_the_persistence_gives_the_requested_share(top, share):
    p = rbo_persistence(top, share)

    assert 0 < p < 1
    assert rbo_weight(p, top) == pytest.approx(share, abs=1e-12)


def test_a_depth_a_share_or_a_persistence_beyond_its_range_is_refused():
    depths: Any = (0, 1.5, 1_000_001, math.nan)
    for depth in depths:
        with pytest.raises(MetricError, match="whole number of ranks from 1 to 1000000"):
            rbo_persistence(depth, 0.5)
        with pytest.raises(MetricError, match="whole number of ranks from 1 to 1000000"):
            rbo_weight(0.9, depth)
    for share in (0.0, 1.0, math.nan):
        with pytest.raises(MetricError, match=r"share is .*: give a number between 0 and 1"):
            rbo_persistence(10, share)
        with pytest.raises(MetricError, match=r"p is .*: give a number between 0 and 1"):
            rbo_weight(share, 10)
    with pytest.raises(
        MetricError, match="share is 1e-20: no p gives the first 1 ranks a share that small"
    ):
        rbo_persistence(1, 1e-20)


def scores_of(alignment):
    return np.stack([measure(alignment, 0.9) for measure in (rbo_w, rbo_a, rbo_b)])


def test_a_group_that_the_cut_goes_through_is_the_part_above_it():
    for depth in [1, 2, 3, 6, 14]:
        pairs = draw(100, 36, even=False)
        tops = [((a[0][:depth], a[1][:depth]), (b[0][:depth], b[1][:depth])) for a, b in pairs]

        whole, top = (align(reference_rbo.batch(each)) for each in (pairs, tops))

        np.testing.assert_array_equal(scores_of(whole.cut(depth)), scores_of(top))
