"""How RBO's weight lies over the ranks: what was seen, and the least and the most that it can become."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import reference
from monitor.errors import MetricError
from monitor.kernels import align
from monitor.kernels.rbo.untied import rbo, rbo_max, rbo_min, rbo_persistence, rbo_res, rbo_truncated, rbo_weight

MEASURES = (rbo_truncated, rbo_min, rbo, rbo_max, rbo_res)
FILMS = ([1, 2, 3, 4, 5, 6, 78], [2, 4, 5, 1, 3, 6, 78])

RANKING = st.lists(st.integers(0, 14), unique=True, max_size=12)
PAIRS = st.lists(st.tuples(RANKING, RANKING), min_size=1, max_size=6)
P = st.floats(0.001, 0.999)


def scores(pairs: list[reference.Pair], p: float) -> np.ndarray:
    alignment = align(reference.batch(pairs))
    return np.stack([measure(alignment, p) for measure in MEASURES])


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("p", "expected"), [(0.9, 0.782775), (0.75, 0.5361328125)])
def test_the_film_examples_numbers_are_the_extrapolated_ones(p: float, expected: float) -> None:
    # Agreement 0, 1/2, 1/3, 3/4, 1, 1, 1 at the seven depths; below them it is taken to stay 1.
    agreement = [0, 1 / 2, 1 / 3, 3 / 4, 1, 1, 1]
    seen = sum((1 - p) * p**i * share for i, share in enumerate(agreement))

    truncated, least, extrapolated, most, _ = scores([FILMS], p)[:, 0]

    assert extrapolated == pytest.approx(expected, abs=1e-15)
    assert truncated == pytest.approx(seen, abs=1e-15)
    assert extrapolated == pytest.approx(seen + p**7, abs=1e-15)
    assert most == pytest.approx(expected, abs=1e-15)
    assert least == pytest.approx(seen + p**7 - (1 - rbo_weight(p, 7)), abs=1e-14)


@pytest.mark.usefixtures("way")
def test_a_swap_at_the_top_is_worked_by_hand() -> None:
    # Agreement 0, then 1: truncated p(1-p) = 1/4; the least adds (1-p)/p * 2 * (ln 2 - 1/2 - 1/8) at p = 1/2.
    truncated, least, extrapolated, most, open_ = scores([([1, 2], [2, 1])], 0.5)[:, 0]

    assert (truncated, extrapolated, most) == (0.25, 0.5, 0.5)
    assert least == pytest.approx(0.25 + 2 * (math.log(2) - 0.625), abs=1e-15)
    assert open_ == most - least


@pytest.mark.usefixtures("way")
def test_one_item_against_two_is_worked_by_hand() -> None:
    # [1] against [2, 1] at p = 1/2. Seen: 0 at depth 1, 1 of 2 at depth 2. Most: the short one goes on with 2: 1 from there.
    truncated, least, extrapolated, most, _ = scores([([1], [2, 1])], 0.5)[:, 0]

    assert truncated == 0.0
    assert least == pytest.approx(math.log(2) - 0.5, abs=1e-15)
    assert extrapolated == 0.25  # agreement 1/2 at depth 2 and taken to stay: 1/2 * 1/4 + 1/2 * 1/4
    assert most == 0.5


@given(pairs=PAIRS, p=P, more=st.lists(st.integers(0, 40), unique=True, max_size=20))
def test_however_lists_go_on_rbo_stays_between_the_bounds(pairs: list[reference.Pair], p: float, more: list[int]) -> None:
    longer: list[reference.Pair] = [
        ([*a, *(i for i in more if i not in a)], [*b, *(i for i in reversed(more) if i not in b)]) for a, b in pairs if a and b
    ]
    _, least, _, most, _ = scores([pair for pair in pairs if all(pair)], p)
    _, least_later, extrapolated_later, most_later, _ = scores(longer, p)

    assert (least <= least_later + 1e-12).all()
    assert (least_later <= extrapolated_later + 1e-12).all()
    assert (extrapolated_later <= most_later + 1e-12).all()
    assert (most_later <= most + 1e-12).all()


@given(pairs=PAIRS, p=P)
def test_the_measures_stand_in_order_and_the_most_is_the_least_and_the_residual(pairs: list[reference.Pair], p: float) -> None:
    truncated, least, extrapolated, most, open_ = scores([pair for pair in pairs if any(pair)], p)

    np.testing.assert_array_equal(most, least + open_)
    for lower, higher in (
        (0, truncated),
        (truncated, least + 1e-12),
        (least, extrapolated + 1e-12),
        (extrapolated, most + 1e-12),
    ):
        assert (lower <= higher).all()
    assert (most <= 1).all()
    assert (open_ >= 0).all()


@pytest.mark.parametrize("p", [0.5, 0.75, 0.9])
def test_longer_lists_beside_it_change_no_bit_of_the_least_of_a_pair(p: float) -> None:
    pair, long = (list(range(20)), list(range(20))), (list(range(500)), list(range(500)))
    assert scores([pair, long], p)[1, 0] == scores([pair], p)[1, 0]


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
