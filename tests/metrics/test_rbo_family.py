"""The RBO family as metrics: how p is said, what is declared."""

from __future__ import annotations

import math

import pytest

from kernels import reference, reference_rbo
from metrics import known_pairs
from monitor.errors import MetricError
from monitor.kernels.rbo.weight import rbo_weight
from monitor.metrics import score_all
from monitor.metrics.rbo import Persistent, Rbo, RboA, RboB, RboMax, RboMin, RboRes, RboTruncated, RboW

FAMILY: dict[str, type[Persistent]] = {
    kind.name: kind for kind in (Rbo, RboA, RboB, RboMax, RboMin, RboRes, RboTruncated, RboW)
}
every_kind = pytest.mark.parametrize("kind", FAMILY.values(), ids=FAMILY.keys())


@every_kind
def test_a_persistence_beyond_its_range_is_refused_under_the_metrics_own_name(kind: type[Persistent]) -> None:
    for p in (0.0, 1.0, math.nan, math.inf, -0.1):
        with pytest.raises(MetricError, match=rf"{kind.name}\(p={p}\): p must lie .*, such as {kind.name}\(p=0.9\)"):
            kind(p=p)


@pytest.mark.parametrize("kind", [RboMax, RboMin, RboRes, RboTruncated])
@pytest.mark.parametrize("p", [0.3, 0.9, 0.99])
def test_the_bounds_are_tight(kind: type[Persistent], p: float) -> None:
    for k in (1, 3, 10, 60):
        top = list(range(k))
        ends: list[known_pairs.Pair] = [(top, top), (top, [item + k for item in top]), (top, [])]

        found = known_pairs.scores(kind(p=p), ends, k=k)

        assert [found.min(), found.max()] == pytest.approx(kind(p=p).bounds(k), abs=1e-14)


def test_bounds_look_no_deeper_than_the_depth() -> None:
    assert RboMin(depth=3).bounds(10) == RboMin().bounds(3)
    assert RboMin().bounds(10)[1] == pytest.approx(rbo_weight(0.9, 10), abs=1e-14)
    assert RboTruncated().bounds(10)[1] == pytest.approx(1 - 0.9**10, abs=1e-14)
    assert Rbo().bounds(10) == (0.0, 1.0)


def test_tied_items_are_measured_by_each_treatment() -> None:
    tied, untied = ([1, 2], [1.0, 1.0]), ([1, 2], [2.0, 1.0])
    batch = reference_rbo.batch([(tied, untied)])

    found = score_all(batch, [RboW(p=0.5), RboA(p=0.5), RboB(p=0.5), Rbo(p=0.5)])

    assert [scores[0] for scores in found.values()] == pytest.approx([5 / 6, 3 / 4, (1 + math.sqrt(0.5)) / 2, 1.0], abs=1e-15)


def test_the_bounds_of_very_long_lists_keep_their_order() -> None:
    # What rounding left of one rank's weight, times 100,000 items in common, lifted the least above the rest.
    batch = reference.batch([(list(range(100_000)), [*range(200_000, 201_000), *range(1000, 100_000)])])

    least, middle, most = (score_all(batch, [kind(p=0.9)])[f"{kind.name}(p=0.9)"][0] for kind in (RboMin, Rbo, RboMax))

    assert 0 <= least <= middle <= most < 1e-12


@every_kind
def test_any_p_between_0_and_1_gives_a_score_in_range(kind: type[Persistent]) -> None:
    for p in (5e-324, 1e-300, 1e-17, 1 - 2**-53):
        pairs = [([1, 2, 3], [1, 3]), ([1], [1]), ([1], [2]), (list(range(99)), list(range(99)))]

        found = known_pairs.scores(kind(p=p), pairs)

        assert ((found >= 0) & (found <= 1)).all(), p
