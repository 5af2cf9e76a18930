"""A pair's distance as membership, order and length; and what an item's exposure gained or lost."""

import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernels import reference
from metrics import known_pairs
from monitor.attribution.decomposition import compare_exposure
from monitor.attribution.parts import Parts, split_distances
from monitor.metrics import METRICS, Metric, Need, parse, score_all
from monitor.model.rankings import ByArm, PairBatch


def score_of(metric: Metric, batch: PairBatch) -> np.ndarray:
    return score_all(batch, [metric])[str(metric)] * (1 if metric.higher_is_more_alike else -1)


def split(name: str, batch: PairBatch) -> Parts:
    metric = parse(name)
    return split_distances(batch, lambda each: score_of(metric, each))


def split_one(name: str, baseline: list[int], candidate: list[int]) -> tuple[float, ...]:
    """Membership, order and length of one pair."""
    parts = split(name, reference.batch([(baseline, candidate)]))
    return tuple(float(values[0]) for values in (parts.membership, parts.order, parts.length))


@pytest.mark.parametrize(
    ("name", "baseline", "candidate", "membership", "order", "length"),
    [
        # Average overlap of [1, 2, 3]: 9 on top is (0 + 1/2 + 2/3) / 3 = 7/18, and what it pushes down has not moved.
        ("average_overlap", [1, 2, 3], [9, 1, 2], 11 / 18, 0, 0),
        # [1, 2, 9] is (1 + 1 + 2/3) / 3 = 8/9; swapping its head leaves (0 + 1 + 2/3) / 3 = 5/9.
        ("average_overlap", [1, 2, 3], [2, 1, 9], 1 / 9, 3 / 9, 0),
        ("average_overlap", [1, 2, 3], [7, 8, 9], 1, 0, 0),
        ("average_overlap", [1, 2, 3], [1, 2, 3], 0, 0, 0),
        # [1, 2] is 2/3 of [1, 2, 3]; with 9 for its tail 1 of 4 items is shared.
        ("jaccard", [1, 2, 3], [1, 9], 2 / 3 - 1 / 4, 0, 1 / 3),
        ("jaccard", [1, 2, 3], [1, 2], 0, 0, 1 / 3),
        # A longer list: swapped among its first two, which sets do not see; then one more item.
        ("jaccard", [1, 2], [2, 1, 9], 0, 0, 1 / 3),
        ("overlap", list(range(10)), list(range(5)), 0, 0, 0.5),
        # A prefix is all that rank-biased overlap asks for.
        ("rbo(p=0.9)", list(range(10)), list(range(5)), 0, 0, 0),
        # An empty list is a list of length 0.
        ("overlap", [1, 2, 3], [], 0, 0, 1),
        # A distance: one swap costs one pair.
        ("kendall_distance", [1, 2, 3], [2, 1, 3], 0, 1, 0),
    ],
)
def test_parts_agree_with_the_hand_worked_values(
    name: str, baseline: list[int], candidate: list[int], membership: float, order: float, length: float
) -> None:
    assert split_one(name, baseline, candidate) == pytest.approx((membership, order, length), abs=1e-12)


def test_an_item_from_below_the_cut_is_a_replaced_item() -> None:
    assert split_one("overlap", [1, 2, 3, 4], [1, 4]) == pytest.approx((0, 0, 0.5))
    assert split_one("average_overlap", [1, 2, 3, 4], [1, 4])[0] > 0


@pytest.mark.parametrize(("baseline", "candidate"), [([], [1, 2]), ([], [])])
def test_a_user_without_a_baseline_has_no_parts(baseline: list[int], candidate: list[int]) -> None:
    assert all(math.isnan(part) for part in split_one("rbo", baseline, candidate))


def test_a_user_with_one_undefined_step_has_no_part_at_all() -> None:
    def score(batch: PairBatch) -> np.ndarray:
        return np.where(batch.candidate_lengths == 2, np.nan, batch.candidate_lengths.astype(np.float64))

    parts = split_distances(reference.batch([([1, 2, 3], [1, 2]), ([1, 2, 3], [1])]), score)
    for values in (parts.membership, parts.order, parts.length, parts.whole):
        assert np.isnan(values).tolist() == [True, False]


def test_infinite_scores_count_as_undefined() -> None:
    parts = split_distances(reference.batch([([1], [2])]), lambda batch: np.full(len(batch), np.inf))
    assert np.isnan(parts.whole).all()


def test_no_users_have_no_parts() -> None:
    assert len(split("rbo", reference.batch([], 3))) == 0


DRAWN = reference.draw(120, 3, even=False, lengths=range(1, 9))


@pytest.mark.parametrize("name", [name for name in sorted(METRICS) if parse(name).need is not Need.RELEVANCE])
def test_parts_sum_to_what_the_score_lost(name: str) -> None:
    """For every measure, those that need scores and weights too: they follow the walk."""
    metric, batch = parse(name), known_pairs.batch(DRAWN)
    lost = score_of(metric, twice(batch)) - score_of(metric, batch)
    whole = split(name, batch).whole
    known = ~np.isnan(whole)
    np.testing.assert_allclose(whole[known], lost[known], atol=1e-9)
    assert np.isnan(whole[~np.isfinite(lost)]).all()


def twice(batch: PairBatch) -> PairBatch:
    """The baseline in place of the candidate."""
    assert batch.scores is not None
    assert batch.weights is not None
    return replace(
        batch,
        candidate=batch.baseline,
        candidate_lengths=batch.baseline_lengths,
        scores=ByArm(baseline=batch.scores.baseline, candidate=batch.scores.baseline),
        weights=ByArm(baseline=batch.weights.baseline, candidate=batch.weights.baseline),
    )


SIMILAR = ["extended_tau", "rbo(p=0.9)", "average_overlap", "overlap", "topk_kendall_normalized", "topk_footrule"]


@pytest.mark.parametrize("name", SIMILAR)
def test_parts_of_even_lists_are_never_negative_and_know_no_length(name: str) -> None:
    parts = split(name, reference.batch(reference.draw(400, 4, even=True, lengths=range(1, 8))))
    assert (parts.membership >= -1e-12).all()
    assert (parts.order >= -1e-12).all()
    assert (parts.length == 0).all()


def in_baseline_order(baseline: list[int], candidate: list[int]) -> list[int]:
    """The slow way: pick the next common item of the baseline wherever the candidate holds a common one."""
    waiting = iter([item for item in baseline if item in candidate])
    return [next(waiting) if item in baseline else item for item in candidate]


def on_baseline_places(baseline: list[int], candidate: list[int]) -> list[int]:
    """The slow way: common items where the baseline has them, then place by place what is left."""
    left = iter([item for item in candidate if item not in baseline])
    return [item if item in candidate else next(left) for item in baseline]


def test_a_list_turned_upside_down_has_moved_even_where_a_new_item_came_up_with_it() -> None:
    """[9, 3, 2, 1] for [1, 2, 3, 4], average overlap: 9 for 4 alone costs 1/16; the common ones turned around alone, from
    [9, 1, 2, 3] with (0 + 1/2 + 2/3 + 3/4) / 4 to (0 + 0 + 2/3 + 3/4) / 4, cost 1/8; the rest, 11/24, is shared 1 to 2.
    """
    both = (1 - 1 / 16) - (1 / 2 + 2 / 3 + 3 / 4) / 4
    found = split_one("average_overlap", [1, 2, 3, 4], [9, 3, 2, 1])
    assert found == pytest.approx((1 / 16 + both / 3, 1 / 8 + 2 * both / 3, 0))


@pytest.mark.parametrize("name", SIMILAR)
def test_every_step_agrees_with_lists_built_one_by_one(name: str) -> None:
    metric = parse(name)
    parts = split(name, reference.batch(DRAWN))
    for row, (baseline, candidate) in enumerate(DRAWN):
        short = min(len(baseline), len(candidate))
        cut = candidate[:short]
        walk = [baseline, baseline[:short], in_baseline_order(baseline[:short], cut), cut, candidate]
        walk.append(on_baseline_places(baseline[:short], cut))
        *scores, placed = score_of(metric, reference.batch([(baseline, step) for step in walk])).tolist()
        steps = [earlier - later for earlier, later in pairwise(scores)]
        alone = scores[1] - placed
        weight = abs(alone) + abs(steps[2])
        both = (abs(steps[2]) / weight if weight > 1e-12 else 0.0) * (steps[1] - alone)
        expected = (steps[1] - both, steps[2] + both, steps[0] + steps[3])
        found = tuple(float(values[row]) for values in (parts.membership, parts.order, parts.length))
        assert found == pytest.approx(expected if not math.isnan(sum(expected)) else (math.nan,) * 3, abs=1e-9, nan_ok=True)


def test_names_of_items_padding_and_other_users_change_nothing() -> None:
    names = np.random.default_rng(5).permutation(range(100, 140)).tolist()
    renamed = [([names[i] for i in a], [names[i] for i in b]) for a, b in DRAWN]
    plain, wide = split("extended_tau", reference.batch(DRAWN)), split("extended_tau", reference.batch(renamed, 11))
    alone = [split("extended_tau", reference.batch([pair])) for pair in DRAWN]
    for part in ("membership", "order", "length"):
        np.testing.assert_allclose(getattr(plain, part), getattr(wide, part), atol=1e-12)
        np.testing.assert_allclose(getattr(plain, part), np.concatenate([getattr(each, part) for each in alone]), atol=1e-12)


def test_a_weight_goes_with_its_item() -> None:
    seen: list[PairBatch] = []

    def watch(batch: PairBatch) -> np.ndarray:
        seen.append(batch)
        return np.zeros(len(batch))

    batch = known_pairs.batch(DRAWN)
    split_distances(batch, watch)
    for step in seen:
        assert step.weights is not None
        rows = [[item for item in row if item >= 0] for row in step.candidate.tolist()]
        direct = known_pairs.batch([(a, row) for (a, _), row in zip(DRAWN, rows, strict=True)], step.candidate.shape[1])
        assert direct.weights is not None
        np.testing.assert_array_equal(step.weights.candidate, direct.weights.candidate)
        np.testing.assert_array_equal((step.candidate >= 0).sum(axis=1), step.candidate_lengths)


Lists = list[list[int]]

lists = st.lists(st.lists(st.integers(0, 9), unique=True, max_size=5), max_size=8)


def codes(drawn: Lists, k: int = 5) -> np.ndarray:
    return reference.batch([(ranking, []) for ranking in drawn], k).baseline


def test_exposure_moves_as_by_hand() -> None:
    """7 leaves the top of one list of two; 8 comes in its place, and 9 swaps places with 5 in the other list."""
    found = compare_exposure(codes([[7, 1], [9, 5]]), codes([[8, 1], [5, 9]]), 10)
    second = 1 / math.log2(3)
    assert [item.item for item in (*found.gained, *found.lost)] == ["8", "5", "7", "9"]
    assert [item.after - item.before for item in found.gained] == pytest.approx([0.5, (1 - second) / 2])
    assert [item.after - item.before for item in found.lost] == pytest.approx([-0.5, (second - 1) / 2])
    assert (found.entered, found.left) == (1, 1)
    assert (found.lost[0].share_before, found.lost[0].share_after) == (0.5, 0)


def test_only_the_top_is_told_and_equals_go_by_code() -> None:
    found = compare_exposure(codes([[1], [2], [3]]), codes([[6], [5], [4]]), 2)
    assert [item.item for item in found.gained] == ["4", "5"]
    assert [item.item for item in found.lost] == ["1", "2"]
    assert (found.entered, found.left) == (3, 3)


@given(lists, lists)
def test_exposure_agrees_with_adding_up_place_by_place(before: Lists, after: Lists) -> None:
    change: Counter[int] = Counter()
    for sign, drawn in ((-1, before), (1, after)):
        for ranking in drawn:
            for rank, item in enumerate(ranking, 1):
                change[item] += sign / math.log2(rank + 1) / len(drawn)  # type: ignore[assignment]
    found = compare_exposure(codes(before), codes(after), 20)
    told = {int(item.item): item.after - item.before for item in (*found.gained, *found.lost)}
    lists_with = [Counter(item for ranking in drawn for item in ranking) for drawn in (before, after)]
    percents = [
        [round(100 * had[item] / max(1, len(drawn))) for had, drawn in zip(lists_with, (before, after), strict=True)]
        for item in range(10)
    ]
    expected = {
        item: amount
        for item, amount in change.items()
        if abs(amount) > 1e-12 and (percents[item][1] - percents[item][0]) * amount >= 0
    }
    assert told == pytest.approx(expected, abs=1e-12)
    ours, theirs = ({item for ranking in drawn for item in ranking} for drawn in (before, after))
    assert (found.entered, found.left) == (len(theirs - ours), len(ours - theirs))
    amounts = [item.after - item.before for item in found.gained]
    assert amounts == sorted(amounts, reverse=True)


@given(lists, st.randoms())
def test_the_order_of_lists_changes_no_bit(drawn: Lists, random: Random) -> None:
    shuffled = random.sample(drawn, len(drawn))
    assert compare_exposure(codes([[1]]), codes(drawn), 20) == compare_exposure(codes([[1]]), codes(shuffled), 20)
