"""Kendall's family agrees to 1e-12 with the definitions and with scipy, on a thousand random pairs and more."""

import random
from collections.abc import Callable
from functools import cache
from itertools import permutations

import numpy as np
import pytest

from kernels import reference
from kernels import reference_kendall as slow
from monitor.kernels import Alignment, align
from monitor.kernels.kendall import dominance
from monitor.kernels.kendall.element_weighted import (
    DISCOUNTS,
    element_weighted_kendall_distance,
    element_weighted_kendall_distance_normalized,
    element_weighted_tau,
    expect_position_weighted,
    generalized_kendall_distance,
    position_weighted_kendall_distance,
)
from monitor.kernels.kendall.extended import appended_tau, count_misordered, extended_tau, extended_tau_unscaled
from monitor.kernels.kendall.unweighted import (
    kendall_distance,
    kendall_distance_normalized,
    kendall_tau,
    topk_kendall,
    topk_kendall_normalized,
)
from monitor.kernels.kendall.weighted import tau_ap, tau_ap_symmetric, weighted_tau
from monitor.model.arrays import Floats

Lists = tuple[list[int], list[int]]
both_shapes = pytest.mark.parametrize("even", [True, False])
both_ways = pytest.mark.usefixtures("counting")

chance = random.Random(7)  # noqa: S311 - test data
WHOLE = {item: chance.randint(1, 4) for item in range(200)}
PRICES = {item: 10 ** chance.uniform(-2, 2) for item in range(200)}


@pytest.fixture(params=["all pairs", "merging"])
def counting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare ranks two by two, or merge, however long the lists are."""
    force(monkeypatch, 2500 if request.param == "all pairs" else 1)


def force(monkeypatch: pytest.MonkeyPatch, longest: int) -> None:
    for limit in ("COUNT_ALL_PAIRS_MAX_K", "SUM_ALL_PAIRS_MAX_K"):
        monkeypatch.setattr(dominance, limit, longest)


def weigh(pairs: list[Lists], weights: slow.Weights) -> Alignment:
    return align(slow.with_weights(pairs, weights))


def undefined(a: list[int], b: list[int]) -> float:
    return reference.unscaled_tau(a, b) if a and b else float("nan")


PLAIN: dict[str, tuple[Callable[[Alignment], Floats], Callable[..., float]]] = {
    "extended_tau_unscaled": (extended_tau_unscaled, undefined),
    "appended_tau": (appended_tau, slow.appended_tau),
    "kendall_tau": (kendall_tau, slow.kendall_tau),
    "kendall_distance": (kendall_distance, slow.kendall_distance),
    "weighted_tau": (weighted_tau, slow.weighted_tau),
    "tau_ap": (tau_ap, slow.tau_ap),
    "tau_ap_symmetric": (tau_ap_symmetric, lambda a, b: (slow.tau_ap(a, b) + slow.tau_ap(b, a)) / 2),
    "kendall_distance_normalized": (kendall_distance_normalized, lambda a, b: (1 - slow.kendall_tau(a, b)) / 2),
}


@both_ways
@both_shapes
@pytest.mark.parametrize("name", PLAIN)
def test_measures_of_lists_are_their_definitions(name: str, even: bool) -> None:
    for (alignment, _), expected in zip(slow.alignments(1001, 11, even=even), defined(name, even), strict=True):
        np.testing.assert_allclose(PLAIN[name][0](alignment), expected, rtol=0, atol=1e-12)


@cache
def defined(name: str, even: bool) -> list[list[float]]:
    """By definition, once for both ways to count."""
    return [[PLAIN[name][1](*pair) for pair in pairs] for _, pairs in slow.alignments(1001, 11, even=even)]


@both_shapes
@pytest.mark.parametrize("penalty", [0.0, 0.5])
def test_topk_kendall_is_its_four_cases(penalty: float, even: bool) -> None:
    for alignment, pairs in slow.alignments(1001, 12, even=even):
        raw = [slow.topk_kendall(*pair, penalty) for pair in pairs]
        shares = [slow.topk_kendall_normalized(*pair, penalty) for pair in pairs[:40]]

        np.testing.assert_allclose(topk_kendall(alignment, penalty), raw, rtol=0, atol=1e-10)
        np.testing.assert_allclose(topk_kendall_normalized(alignment, penalty)[:40], shares, rtol=0, atol=1e-12)


@both_ways
@both_shapes
def test_taus_of_tied_lists_are_scipys(even: bool) -> None:
    pairs, plain, weighted = of_scipy(even)
    alignment = align(slow.with_ties(pairs))

    np.testing.assert_allclose(kendall_tau(alignment), plain, rtol=0, atol=1e-12)
    np.testing.assert_allclose(weighted_tau(alignment), weighted, rtol=0, atol=1e-12)


@cache
def of_scipy(even: bool) -> tuple[list[tuple[list[list[int]], list[list[int]]]], list[float], list[float]]:
    """Pairs of tied lists and scipy's taus of them, once for both ways to count."""
    pairs = [(_tie(a), _tie(b)) for a, b in slow.draw(1400, 13, even=even)]
    return pairs, [slow.tied_tau(*pair) for pair in pairs], [slow.tied_weighted_tau(*pair) for pair in pairs]


def test_taus_of_tied_lists_do_not_depend_on_the_other_pairs_and_are_symmetric_to_the_last_bit() -> None:
    pairs = [(_tie(a), _tie(b)) for a, b in slow.draw(400, 26, even=False)]
    pairs += [([[item] for item in a], [[item] for item in b]) for a, b in slow.draw(400, 27, even=False)]
    batch = slow.with_ties(pairs)
    reverse = align(slow.with_ties([(b, a) for a, b in pairs]))

    for measure in (kendall_tau, weighted_tau):
        whole = measure(align(batch))
        parts = [measure(align(batch.take(slice(low, low + 1)))) for low in range(0, 800, 7)]

        np.testing.assert_allclose(np.concatenate(parts), whole[::7], rtol=0, atol=1e-14)
        np.testing.assert_array_equal(measure(reverse), whole)


def _tie(ranking: list[int]) -> list[list[int]]:
    """Runs of one to four items are tied."""
    groups = []
    while ranking:
        size = chance.choice((1, 1, 2, 4))
        groups.append(sorted(ranking[:size]))
        ranking = ranking[size:]
    return groups


@both_ways
@both_shapes
def test_element_weighted_tau_of_whole_weights_is_extended_tau_of_that_many_copies(even: bool) -> None:
    pairs = slow.draw(1001, 14, even=even)

    found = element_weighted_tau(weigh(pairs, WHOLE))

    np.testing.assert_allclose(found, copied(even), rtol=0, atol=1e-12)


@cache
def copied(even: bool) -> list[float]:
    """Extended tau of the copies, once for both ways to count."""
    return [slow.duplicated_tau(*pair, WHOLE) for pair in slow.draw(1001, 14, even=even)]


def test_element_weighted_tau_of_prices_is_its_definition_and_only_ratios_count() -> None:
    pairs = [pair for pair in slow.draw(1400, 15, even=False) if max(map(len, pair)) <= 12]
    assert len(pairs) >= 1000

    found = element_weighted_tau(weigh(pairs, PRICES))
    scaled = element_weighted_tau(weigh(pairs, {item: 7 * weight for item, weight in PRICES.items()}))

    np.testing.assert_allclose(found, [slow.element_weighted_tau(*pair, PRICES) for pair in pairs], rtol=0, atol=1e-12)
    np.testing.assert_allclose(scaled, found, rtol=0, atol=1e-12)


@both_ways
@both_shapes
def test_weights_of_one_give_the_measures_without_weights(even: bool) -> None:
    pairs = slow.draw(1050, 16, even=even)
    ones = weigh(pairs, dict.fromkeys(WHOLE, 1.0))

    np.testing.assert_allclose(element_weighted_tau(ones), extended_tau(ones), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(element_weighted_kendall_distance(ones), kendall_distance(ones))
    np.testing.assert_allclose(
        element_weighted_kendall_distance_normalized(ones), kendall_distance_normalized(ones), rtol=0, atol=1e-12
    )
    np.testing.assert_allclose(
        generalized_kendall_distance(ones, "dcg"), position_weighted_kendall_distance(ones, "dcg"), rtol=0, atol=1e-12
    )


@both_ways
@both_shapes
def test_distances_with_weights_are_their_definitions(even: bool) -> None:
    pairs = slow.draw(1050, 17, even=even)
    alignment = weigh(pairs, PRICES)

    raw = element_weighted_kendall_distance(alignment)
    share = element_weighted_kendall_distance_normalized(alignment)

    expected = [slow.element_weighted_kendall_distance(*pair, PRICES) for pair in pairs]
    shares = [slow.element_weighted_kendall_distance_normalized(*pair, PRICES) for pair in pairs]
    np.testing.assert_allclose(raw, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(share, shares, rtol=0, atol=1e-12)


@both_shapes
@pytest.mark.parametrize("discount", ["dcg", "hyperbolic"])
def test_distances_with_position_weights_are_their_definitions(discount: str, even: bool) -> None:
    pairs = slow.draw(1050, 18, even=even)
    alignment = weigh(pairs, PRICES)
    ones = dict.fromkeys(WHOLE, 1.0)

    alone = position_weighted_kendall_distance(alignment, discount)
    together = generalized_kendall_distance(alignment, discount)

    expected = [slow.generalized_kendall_distance(*pair, ones, discount) for pair in pairs]
    weighted = [slow.generalized_kendall_distance(*pair, PRICES, discount) for pair in pairs]
    np.testing.assert_allclose(alone, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(together, weighted, rtol=1e-12, atol=1e-12)


def test_misordered_pairs_are_counted_as_fagin_does() -> None:
    for alignment, pairs in slow.alignments(350, 19, even=False):
        np.testing.assert_array_equal(count_misordered(alignment), [reference.discordant(*pair) for pair in pairs])


def test_long_lists_are_measured_by_merging() -> None:
    rng = np.random.default_rng(20)
    pairs = [(rng.permutation(3000)[:2600].tolist(), rng.permutation(3000)[:2500].tolist()) for _ in range(2)]
    alignment = align(reference.batch(pairs))

    for measure, define in (PLAIN[name] for name in ("kendall_tau", "weighted_tau")):
        np.testing.assert_allclose(measure(alignment), [define(*pair) for pair in pairs], rtol=0, atol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 7, 64, 300])
def test_merging_finds_what_all_pairs_find(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(k)
    ranks, weights = rng.integers(0, k, (k, 9)).astype(np.uint16), rng.random((k, 9))
    found = []
    for longest in (0, 2500):
        force(monkeypatch, longest)
        found.append((dominance.count_earlier_larger(ranks), dominance.sum_earlier_larger(ranks, weights)))

    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=0, atol=1e-12)


def test_no_pairs_give_no_scores() -> None:
    alignment = align(reference.batch([], k=5))

    assert all(len(measure(alignment)) == 0 for measure, _ in PLAIN.values())


@pytest.mark.parametrize("discount", DISCOUNTS)
def test_the_expected_position_weighted_distance_is_the_mean_over_all_orders(discount: str) -> None:
    means = []
    for count in range(2, 6):
        orders = align(reference.batch([(list(range(count)), list(order)) for order in permutations(range(count))]))
        means.append(position_weighted_kendall_distance(orders, discount).mean())

    assert expect_position_weighted(5, discount) == pytest.approx([0.0, 0.0, *means], abs=1e-13)
