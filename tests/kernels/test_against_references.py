"""Agreement to 1e-12 with the definitions, with scipy and with the rbo package, on a thousand random pairs and more."""

import random
from functools import cache

import numpy as np
import pytest
from rbo import RankingSimilarity

from kernels import reference
from kernels.conftest import limit_all_pairs
from monitor.kernels import align
from monitor.kernels.alignment import Alignment
from monitor.kernels.kendall.extended import extended_tau
from monitor.kernels.rbo.extrapolated import rbo
from monitor.kernels.sets import overlap

LENGTHS = (1, 2, 3, 5, 10, 17, 40, 120)
TOPS = (0, 2**16 - 8, 2**24, 2**31 - 700)
"""Smallest codes: those that fit 16 bits, that straddle them, that need wide keys, and the largest there are."""


def draw(count: int, seed: int, *, even: bool) -> list[reference.Pair]:
    chance = random.Random(seed)  # noqa: S311 - test data
    pairs: list[reference.Pair] = []
    for i in range(count):
        k = LENGTHS[i % len(LENGTHS)]
        top = chance.choice(TOPS)
        catalogue = range(top, top + chance.choice((k, k + 1, 2 * k, 5 * k)))
        lengths = (k, k) if even else (chance.randint(0, k), chance.randint(0, k))
        pairs.append((chance.sample(catalogue, lengths[0]), chance.sample(catalogue, lengths[1])))
    return pairs


def by_length(pairs: list[reference.Pair]) -> list[list[reference.Pair]]:
    """Batches of pairs that share k, so that batches of full lists stay full."""
    groups: dict[int, list[reference.Pair]] = {}
    for i, pair in enumerate(pairs):
        groups.setdefault(LENGTHS[i % len(LENGTHS)], []).append(pair)
    return list(groups.values())


def alignments(count: int, seed: int, *, even: bool) -> list[tuple[Alignment, list[reference.Pair]]]:
    return [(align(reference.batch(group)), group) for group in by_length(draw(count, seed, even=even))]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("even", [True, False])
def test_extended_tau_is_scipys_tau_b_on_padded_ranks(even: bool) -> None:
    for (alignment, _), expected in zip(alignments(1040, 1, even=even), padded_taus(even), strict=True):
        np.testing.assert_allclose(extended_tau(alignment), expected, rtol=0, atol=1e-12)


@cache
def padded_taus(even: bool) -> list[list[float]]:
    """By scipy, once for all ways to align."""
    return [[reference.extended_tau(*pair) for pair in pairs] for _, pairs in alignments(1040, 1, even=even)]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("p", [0.3, 0.9, 0.99])
@pytest.mark.parametrize("even", [True, False])
def test_rbo_is_equation_32_and_overlap_its_definition(even: bool, p: float) -> None:
    for alignment, pairs in alignments(1040, 2, even=even):
        np.testing.assert_allclose(rbo(alignment, p), [reference.rbo(*pair, p) for pair in pairs], rtol=0, atol=1e-12)
        np.testing.assert_allclose(overlap(alignment), [reference.overlap(*pair) for pair in pairs], rtol=0, atol=0)


def test_rbo_is_the_rbo_packages_on_even_lists() -> None:
    for alignment, pairs in alignments(1040, 3, even=True):
        expected = [RankingSimilarity(list(a), list(b)).rbo_ext(p=0.9) for a, b in pairs]

        np.testing.assert_allclose(rbo(alignment, 0.9), expected, rtol=0, atol=1e-12)


def test_extended_tau_of_even_lists_is_its_closed_form_in_k0() -> None:
    for alignment, pairs in alignments(96, 4, even=True):
        k = alignment.k
        shared = [len(set(a) & set(b)) for a, b in pairs]
        full = k * (3 * k - 1) / 2
        raw = [
            (k * k + z * (z - 1) / 2 - 2 * reference.discordant(*pair)) / full for z, pair in zip(shared, pairs, strict=True)
        ]
        low = -k * k / full

        np.testing.assert_allclose(extended_tau(alignment), [2 * (t - low) / (1 - low) - 1 for t in raw], rtol=0, atol=1e-12)


def test_both_ways_of_aligning_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for longest in (0, 255):
        limit_all_pairs(monkeypatch, longest)
        found.append([(extended_tau(al), rbo(al, 0.9), overlap(al)) for al, _ in alignments(400, 5, even=False)])

    for one, other in zip(*found, strict=True):
        for ours, theirs in zip(one, other, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_lists_of_a_million_items_are_compared() -> None:
    top = np.arange(1_000_000)
    alignment = align(reference.batch([(top.tolist(), top[::-1].tolist())]))
    k = len(top)
    low = -2 * k / (3 * k - 1)
    raw = (k * k + k * (k - 1) / 2 - k * (k - 1)) / (k * (3 * k - 1) / 2)

    assert extended_tau(alignment)[0] == pytest.approx(2 * (raw - low) / (1 - low) - 1, abs=1e-12)
    assert rbo(alignment, 0.9)[0] == pytest.approx(0.0, abs=1e-12)


def test_weights_of_a_depth_add_up_to_the_same_bits_for_few_pairs_and_for_many() -> None:
    rng = np.random.default_rng(5)
    weights = rng.normal(size=40)
    lists = [(rng.permutation(60)[:40].tolist(), rng.permutation(60)[: i % 41].tolist()) for i in range(200)]
    many, few = align(reference.batch(lists)), [align(reference.batch(lists[i : i + 2])) for i in range(0, 200, 2)]

    np.testing.assert_array_equal(np.concatenate([part.sum_by_depth(weights) for part in few]), many.sum_by_depth(weights))
    assert not np.signbit(few[0].sum_by_depth(-weights)[few[0].common == 0]).any()
