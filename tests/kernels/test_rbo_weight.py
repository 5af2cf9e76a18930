"""How RBO's weight lies over the ranks."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import MetricError
from monitor.kernels.rbo.weight import rbo_persistence, rbo_weight


@pytest.mark.parametrize(("p", "d", "expected"), [(0.9, 10, 0.8555854467473518), (0.75, 4, 0.8640174814931874)])
def test_the_weights_of_the_sources_are_met(p: float, d: int, expected: float) -> None:
    assert rbo_weight(p, d) == pytest.approx(expected, abs=1e-14)


def test_the_first_rank_s_weight_is_worked_by_hand() -> None:
    assert rbo_weight(0.5, 1) == pytest.approx(math.log(2), abs=1e-15)


def test_the_weights_of_all_ranks_are_what_they_are_by_definition() -> None:
    # Rank i belongs to every depth from i on, a share of 1/e of depth e.
    p = 0.8
    ranks = [sum((1 - p) * p ** (e - 1) / e for e in range(i, 400)) for i in range(1, 400)]

    for d in (1, 2, 5, 30):
        assert rbo_weight(p, d) == pytest.approx(sum(ranks[:d]), abs=1e-13)


@given(p=st.floats(1e-12, 1 - 1e-12), d=st.integers(1, 300))
def test_the_weight_rises_with_depth_and_stays_a_share(p: float, d: int) -> None:
    assert 0 <= rbo_weight(p, d) <= rbo_weight(p, d + 1) + 1e-12 <= 1 + 1e-12


@given(top=st.integers(1, 300), share=st.floats(1e-6, 1 - 1e-6))
def test_the_persistence_gives_the_share_it_was_asked_for(top: int, share: float) -> None:
    p = rbo_persistence(top, share)

    assert 0 < p < 1
    assert rbo_weight(p, top) == pytest.approx(share, abs=1e-12)


def test_the_persistence_of_the_known_weights_is_the_known_one() -> None:
    assert rbo_persistence(10, 0.8555854467473518) == pytest.approx(0.9, abs=1e-14)
    assert rbo_persistence(4, 0.8640174814931874) == pytest.approx(0.75, abs=1e-14)


@pytest.mark.parametrize("top", [0, -1, 1.5, 1_000_001, math.nan, math.inf])
def test_a_depth_that_is_no_count_of_ranks_is_refused(top: float) -> None:
    with pytest.raises(MetricError, match="whole number of ranks from 1 to 1000000"):
        rbo_persistence(top, 0.5)
    with pytest.raises(MetricError, match="whole number of ranks from 1 to 1000000"):
        rbo_weight(0.9, top)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [0.0, 1.0, -0.1, 1.1, math.nan])
def test_a_share_or_a_persistence_beyond_its_range_is_refused(wrong: float) -> None:
    with pytest.raises(MetricError, match="share must lie between 0 and 1"):
        rbo_persistence(10, wrong)
    with pytest.raises(MetricError, match="p must lie between 0 and 1"):
        rbo_weight(wrong, 10)


def test_a_share_too_small_for_any_persistence_below_one_is_refused() -> None:
    with pytest.raises(MetricError, match="no p gives the top 1 ranks a share as small as 1e-20"):
        rbo_persistence(1, 1e-20)
