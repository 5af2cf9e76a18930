"""Extended tau and measures of membership: values worked out by hand."""

import math
from collections.abc import Callable

import pytest

from kernels import reference
from monitor.kernels import Alignment, align
from monitor.kernels.kendall.extended import extended_tau
from monitor.kernels.sets import average_overlap, jaccard, overlap
from monitor.model.arrays import Floats

REVERSED_TEN = (55 / 145 + 20 / 29) * 2 / (1 + 20 / 29) - 1  # 0.2653
LOW = -2 / math.sqrt(6)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    ("measure", "one", "other", "expected"),
    [
        (extended_tau, range(10), range(9, -1, -1), REVERSED_TEN),
        # Universe of 3: ranks 0 1 1 against 0 1 2. S = 2 of D = sqrt(2 * 3); disjoint S = -2.
        (extended_tau, [1], [1, 2], 2 * (-LOW - LOW) / (1 - LOW) - 1),
        (overlap, [1, 2, 3, 4], [4, 9, 1, 8], 0.5),
        (overlap, [1, 2], [1, 2, 3, 4], 0.5),
        (overlap, [1, 2], [2, 1], 1.0),
        (jaccard, [1, 2, 3], [3, 4, 5], 1 / 5),
        (jaccard, [1, 2], [2, 1, 3, 4], 2 / 4),
        (jaccard, [1, 2], [2, 1], 1.0),
        # A swap at the top, one at the bottom, and uneven lists: 1, 1/2, 2/3, 2/4.
        (average_overlap, [1, 2, 3, 4, 5], [2, 1, 3, 4, 5], 0.8),
        (average_overlap, [1, 2, 3, 4, 5], [1, 2, 3, 5, 4], 0.95),
        (average_overlap, [1, 2], [1, 3, 2, 4], (1 + 1 / 2 + 2 / 3 + 1 / 2) / 4),
    ],
)
def test_values_are_those_worked_by_hand(
    measure: Callable[[Alignment], Floats], one: list[int], other: list[int], expected: float
) -> None:
    assert measure(align(reference.batch([(one, other)])))[0] == pytest.approx(expected, abs=1e-15)
