"""The RBO of what was seen, and the least and the most that it can become."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import reference
from monitor.kernels import align
from monitor.kernels.rbo.bounds import rbo, rbo_max, rbo_min, rbo_res, rbo_truncated
from monitor.kernels.rbo.weight import rbo_weight

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
