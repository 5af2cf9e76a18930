"""Measures of weighted and of tied lists agree to 1e-12 with the definitions and with scipy, on a thousand pairs and more."""

import random
from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np
import pytest

from kernels import reference, reference_footrule, reference_rbo
from kernels import reference_kendall as slow
from kernels.conftest import limit_all_pairs
from kernels.reference_rbo import Tied
from monitor.kernels import Alignment, align
from monitor.kernels.engines import positions
from monitor.kernels.footrule import (
    element_weighted_footrule,
    element_weighted_footrule_normalized,
    footrule,
    footrule_normalized,
    generalized_footrule,
)
from monitor.kernels.kendall.element_weighted import (
    DISCOUNTS,
    element_weighted_kendall_distance,
    element_weighted_kendall_distance_normalized,
    element_weighted_tau,
    generalized_kendall_distance,
    position_weighted_kendall_distance,
)
from monitor.kernels.kendall.unweighted import extended_tau, kendall_distance, kendall_distance_normalized, kendall_tau
from monitor.kernels.kendall.weighted import weighted_tau
from monitor.model.arrays import Floats

both_shapes = pytest.mark.parametrize("even", [True, False])

chance = random.Random(7)  # noqa: S311 - test data
WHOLE = {item: chance.randint(1, 4) for item in range(200)}
PRICES = {item: 10 ** chance.uniform(-2, 2) for item in range(200)}
ONES = dict.fromkeys(PRICES, 1.0)


def weigh(pairs: Sequence[reference.Pair], weights: slow.Weights) -> Alignment:
    return align(slow.with_weights(pairs, weights))


MEASURES: dict[str, tuple[Callable[[Alignment], Floats], Callable[..., float]]] = {
    "element_weighted_kendall_distance": (element_weighted_kendall_distance, slow.element_weighted_kendall_distance),
    "element_weighted_kendall_distance_normalized": (
        element_weighted_kendall_distance_normalized,
        slow.element_weighted_kendall_distance_normalized,
    ),
    "element_weighted_footrule": (element_weighted_footrule, reference_footrule.weighted_footrule),
    "element_weighted_footrule_normalized": (
        element_weighted_footrule_normalized,
        reference_footrule.weighted_footrule_normalized,
    ),
    **{
        f"{of.__name__}, {discount}": (partial(of, discount=discount), partial(define, discount=discount))
        for of, define in (
            (generalized_kendall_distance, slow.generalized_kendall_distance),
            (
                position_weighted_kendall_distance,
                lambda a, b, _, discount: slow.generalized_kendall_distance(a, b, ONES, discount),
            ),
            (generalized_footrule, reference_footrule.weighted_footrule),
        )
        for discount in DISCOUNTS
    },
}


@pytest.mark.usefixtures("way")
@both_shapes
def test_measures_of_weighted_lists_are_their_definitions(even: bool) -> None:
    alignment = weigh(reference.draw(1050, 17, even=even), PRICES)

    for name, (measure, _) in MEASURES.items():
        np.testing.assert_allclose(measure(alignment), defined(even)[name], rtol=1e-12, atol=1e-10, err_msg=name)


@cache
def defined(even: bool) -> dict[str, list[float]]:
    """By definition, once for all ways to align and count."""
    pairs = reference.draw(1050, 17, even=even)
    return {name: [define(*pair, PRICES) for pair in pairs] for name, (_, define) in MEASURES.items()}


@pytest.mark.usefixtures("way")
@both_shapes
def test_taus_of_tied_lists_are_scipys(even: bool) -> None:
    pairs, plain, weighted = of_scipy(even)
    alignment = align(reference_rbo.batch(pairs))

    np.testing.assert_allclose(kendall_tau(alignment), plain, rtol=0, atol=1e-12)
    np.testing.assert_allclose(weighted_tau(alignment), weighted, rtol=0, atol=1e-12)


@cache
def of_scipy(even: bool) -> tuple[list[tuple[Tied, Tied]], list[float], list[float]]:
    """Pairs of tied lists and scipy's taus of them, once for all ways to align and count."""
    pairs = reference_rbo.draw(1400, 13, reference.SHORT, even=even)
    return pairs, [slow.tied_tau(*pair) for pair in pairs], [slow.tied_weighted_tau(*pair) for pair in pairs]


def test_taus_of_tied_lists_do_not_depend_on_the_other_pairs_and_are_symmetric_to_the_last_bit() -> None:
    pairs = reference_rbo.draw(400, 26, reference.SHORT, even=False)
    pairs += [
        (reference_rbo.cut_into_groups(a, []), reference_rbo.cut_into_groups(b, []))
        for a, b in reference.draw(400, 27, even=False)
    ]
    batch = reference_rbo.batch(pairs)
    reverse = align(reference_rbo.batch([(b, a) for a, b in pairs]))

    for measure in (kendall_tau, weighted_tau):
        whole = measure(align(batch))
        parts = [measure(align(batch.take(slice(low, low + 1)))) for low in range(0, 800, 7)]

        np.testing.assert_allclose(np.concatenate(parts), whole[::7], rtol=0, atol=1e-14)
        np.testing.assert_array_equal(measure(reverse), whole)


@pytest.mark.usefixtures("way")
@both_shapes
def test_element_weighted_tau_of_whole_weights_is_extended_tau_of_that_many_copies(even: bool) -> None:
    found = element_weighted_tau(weigh(reference.draw(1001, 14, even=even), WHOLE))

    np.testing.assert_allclose(found, copied(even), rtol=0, atol=1e-12)


@cache
def copied(even: bool) -> list[float]:
    """Extended tau of the copies, once for all ways to align and count."""
    return [slow.duplicated_tau(*pair, WHOLE) for pair in reference.draw(1001, 14, even=even)]


def test_element_weighted_tau_of_prices_is_its_definition_and_only_ratios_count() -> None:
    pairs = reference.draw(1000, 15, even=False, lengths=(1, 2, 3, 5, 8, 12))

    found = element_weighted_tau(weigh(pairs, PRICES))
    scaled = element_weighted_tau(weigh(pairs, {item: 7 * weight for item, weight in PRICES.items()}))

    np.testing.assert_allclose(found, [slow.element_weighted_tau(*pair, PRICES) for pair in pairs], rtol=0, atol=1e-12)
    np.testing.assert_allclose(scaled, found, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("way")
@both_shapes
def test_weights_of_one_give_the_measures_without_weights(even: bool) -> None:
    ones = weigh(reference.draw(1050, 16, even=even), ONES)

    for weighted, plain in (
        (element_weighted_tau, extended_tau),
        (element_weighted_kendall_distance, kendall_distance),
        (element_weighted_kendall_distance_normalized, kendall_distance_normalized),
        (element_weighted_footrule, footrule),
        (element_weighted_footrule_normalized, footrule_normalized),
    ):
        np.testing.assert_allclose(weighted(ones), plain(ones), rtol=0, atol=1e-12)


def test_the_footrule_lies_between_kendalls_distance_and_its_double() -> None:
    # Diaconis and Graham (1977).
    for alignment, _ in reference.alignments(350, 25, even=False):
        moved, inverted = footrule(alignment), kendall_distance(alignment)
        assert (np.isnan(moved) | ((inverted <= moved) & (moved <= 2 * inverted))).all()


def test_long_lists_are_measured_by_merging() -> None:
    rng = np.random.default_rng(20)
    pairs = [(rng.permutation(3000)[:2600].tolist(), rng.permutation(3000)[:2500].tolist()) for _ in range(2)]
    alignment = align(reference.batch(pairs))

    for measure, define in ((kendall_tau, slow.kendall_tau), (weighted_tau, slow.weighted_tau)):
        np.testing.assert_allclose(measure(alignment), [define(*pair) for pair in pairs], rtol=0, atol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 7, 64, 300])
def test_merging_finds_what_all_pairs_find(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(k)
    ranks, weights = rng.integers(0, k, (k, 9)).astype(np.uint16), rng.random((k, 9))
    found = []
    for longest in (0, 2500):
        limit_all_pairs(monkeypatch, longest)
        found.append((positions.count_earlier_larger(ranks), positions.sum_earlier_larger(ranks, weights)))

    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=0, atol=1e-12)
