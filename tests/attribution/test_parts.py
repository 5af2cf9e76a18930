"""A pair's distance as membership, order and length; and what an item's exposure gained or lost."""

import math
from dataclasses import fields, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from kernels import reference
from metrics import known_pairs
from monitor.measures.metrics import METRICS, Need, parse, score_all
from monitor.receivers.message.content import item_lines
from monitor.statistics.attribution.decomposition import compare_exposure
from monitor.statistics.attribution.parts import share_steps, split_distances, walk_to
from tables import cells


def score_of(metric, batch):
    return score_all(batch, [metric])[str(metric)] * (1 if metric.higher_is_more_alike else -1)


def split(name, batch):
    metric = parse(name)
    return split_distances(batch, lambda each: score_of(metric, each))


def split_one(name, pair):
    """Membership, order and length of one pair, an item a digit: "123:321"."""
    parts = split(name, reference.batch(reference.pairs(pair)))
    return tuple(float(values[0]) for values in (parts.membership, parts.order, parts.length))


WORKED = """
# measure         lists             membership  order  length
# Average overlap of 123: 9 on top is (0 + 1/2 + 2/3) / 3 = 7/18, and what it pushes down has not moved.
average_overlap   123:912           11/18       0      0
# 129 is (1 + 1 + 2/3) / 3 = 8/9; swapping its head leaves (0 + 1 + 2/3) / 3 = 5/9.
average_overlap   123:219           1/9         3/9    0
average_overlap   123:789           1           0      0
average_overlap   123:123           0           0      0
# 9 for 4 alone costs 1/16. The common ones turned around alone, from 9123 with (0 + 1/2 + 2/3 + 3/4) / 4 to
# (0 + 0 + 2/3 + 3/4) / 4, cost 1/8. The rest, 11/24, is shared 1 to 2.
average_overlap   1234:9321         31/144      31/72  0
# 12 is 2/3 of 123; with 9 for its tail 1 of 4 items is shared: 2/3 - 1/4.
jaccard           123:19            5/12        0      1/3
jaccard           123:12            0           0      1/3
# A longer list: swapped among its first two, which sets do not see; then one more item.
jaccard           12:219            0           0      1/3
overlap           0123456789:01234  0           0      1/2
# An item from below the cut is a replaced item, where places count: the last one is new at rank 2, for 1/4.
overlap           1234:14           0           0      1/2
average_overlap   12:13             1/4         0      0
# A prefix is all that rank-biased overlap asks for.
rbo(p=0.9)        0123456789:01234  0           0      0
# An empty list is a list of length 0.
overlap           123:              0           0      1
# A distance: one swap costs one pair.
kendall_distance  123:213           0           1      0
"""


EXAMPLE = ("12345:12345", "12345:9314")


@pytest.mark.parametrize(
    "name, pair, amounts", [(name, pair, amounts) for name, pair, *amounts in cells(WORKED)]
)
def test_parts_agree_with_the_hand_worked_values(name, pair, amounts):
    assert split_one(name, pair) == pytest.approx(
        [float(Fraction(amount)) for amount in amounts], abs=1e-12
    )


def test_the_worked_walk():
    """The example of `Walk`, with A to E as 1 to 5, and X as 9."""
    before, after = (reference.batch(reference.pairs(pair), 5) for pair in EXAMPLE)
    walk = walk_to(before, after)
    batches = [getattr(walk, each.name) for each in fields(walk)]
    lists = ["".join(map(str, each.candidate[0, : each.candidate_lengths[0]])) for each in batches]
    assert lists == ["12345", "1234", "1934", "9134", "9314", "9314"]
    metric = parse("average_overlap")
    scores = [score_of(metric, each)[0] for each in batches]
    assert scores == pytest.approx([1, 0.96, 0.70, 0.50, 0.40, 0.40], abs=0.005)
    parts = share_steps(walk, lambda batch: score_of(metric, batch))
    amounts = [parts.membership[0], parts.order[0], parts.length[0], parts.total[0]]
    assert amounts == pytest.approx([0.40, 0.16, 0.04, 0.60], abs=0.005)


def test_pairs_without_a_baseline_list_have_no_parts():
    for pair in [":12", ":"]:
        assert np.isnan(split_one("rbo", pair)).all()


@pytest.mark.parametrize("undefined", [math.nan, math.inf])
def test_a_user_with_one_undefined_step_has_no_part_at_all(undefined):
    def score(batch):
        return np.where(
            batch.candidate_lengths == 2, undefined, batch.candidate_lengths.astype(np.float64)
        )

    parts = split_distances(reference.batch([([1, 2, 3], [1, 2]), ([1, 2, 3], [1])]), score)
    for values in (parts.membership, parts.order, parts.length, parts.total):
        assert np.isnan(values).tolist() == [True, False]
    assert len(split_distances(reference.batch([], 3), score)) == 0


DRAWN = reference.draw(120, 3, even=False, lengths=range(1, 9))


def test_parts_sum_to_what_the_score_lost():
    """For every measure, those that need scores and weights too: they follow the walk."""
    for name in [name for name in sorted(METRICS) if parse(name).need is not Need.RELEVANCE]:
        metric = parse(name)
        batch = known_pairs.batch(DRAWN)
        same = known_pairs.batch([(baseline, baseline) for baseline, _ in DRAWN])
        lost = score_of(metric, same) - score_of(metric, batch)
        whole = split(name, batch).total
        known = ~np.isnan(whole)
        np.testing.assert_allclose(whole[known], lost[known], atol=1e-9)
        assert np.isnan(whole[~np.isfinite(lost)]).all()


SIMILAR = [
    "extended_tau",
    "rbo(p=0.9)",
    "average_overlap",
    "overlap",
    "topk_kendall_normalized",
    "topk_footrule",
]


def in_baseline_order(baseline, candidate):
    """The slow way: pick the next common item of the baseline wherever the candidate holds a common one."""
    waiting = iter([item for item in baseline if item in candidate])
    return [next(waiting) if item in baseline else item for item in candidate]


def on_baseline_places(baseline, candidate):
    """The slow way: common items where the baseline has them, then place by place what is left."""
    left = iter([item for item in candidate if item not in baseline])
    return [item if item in candidate else next(left) for item in baseline]


def test_every_step_agrees_with_lists_built_one_by_one():
    for name in SIMILAR:
        metric = parse(name)
        parts = split(name, reference.batch(DRAWN))
        for row, (baseline, candidate) in enumerate(DRAWN):
            short = min(len(baseline), len(candidate))
            cut = candidate[:short]
            walk = [
                baseline,
                baseline[:short],
                in_baseline_order(baseline[:short], cut),
                cut,
                candidate,
            ]
            walk.append(on_baseline_places(baseline[:short], cut))
            *scores, placed = score_of(
                metric, reference.batch([(baseline, step) for step in walk])
            ).tolist()
            steps = [earlier - later for earlier, later in pairwise(scores)]
            alone = scores[1] - placed
            weight = abs(alone) + abs(steps[2])
            both = (abs(steps[2]) / weight if weight > 1e-12 else 0.0) * (steps[1] - alone)
            expected = (steps[1] - both, steps[2] + both, steps[0] + steps[3])
            found = tuple(
                float(values[row]) for values in (parts.membership, parts.order, parts.length)
            )
            assert found == pytest.approx(
                expected if not math.isnan(sum(expected)) else (math.nan,) * 3,
                abs=1e-9,
                nan_ok=True,
            )


def test_a_weight_stays_with_its_item():
    seen = []

    def watch(batch):
        seen.append(batch)
        return np.zeros(len(batch))

    split_distances(known_pairs.batch(DRAWN), watch)
    for step in seen:
        rows = [[item for item in row if item >= 0] for row in step.candidate.tolist()]
        direct = known_pairs.batch(
            [(a, row) for (a, _), row in zip(DRAWN, rows, strict=True)], step.candidate.shape[1]
        )
        assert step.weights is not None
        assert direct.weights is not None
        np.testing.assert_array_equal(step.weights.candidate, direct.weights.candidate)
        assert [len(row) for row in rows] == step.candidate_lengths.tolist()


def codes(lists):
    return reference.padded(lists)[0]


def test_exposure_moves_as_by_hand():
    """7 leaves the top of one list of two.

    8 comes in its place, and 9 swaps places with 5 in the other list.
    """
    before = codes([[7, 1], [9, 5]])
    after = codes([[8, 1], [5, 9]])
    found = compare_exposure(before, after, 10)
    moved = [*found.gained, *found.lost]
    second = 1 / math.log2(3)
    assert [item.item for item in moved] == ["8", "5", "7", "9"]
    assert [item.after - item.before for item in moved] == pytest.approx(
        [0.5, (1 - second) / 2, -0.5, (second - 1) / 2]
    )
    assert found.entered == found.left == 1
    assert found.lost[0].share_before == 0.5
    assert found.lost[0].share_after == 0
    first = compare_exposure(before, after, 1)
    assert [item.item for item in (*first.gained, *first.lost)] == ["8", "7"]


def test_an_item_that_moved_up_in_fewer_lists_neither_rose_nor_fell():
    """Item 1: last in 28 of 100 lists, then first in 23. Item 2 rises, item 3 falls."""
    before = codes([[2, 4, 5, 1]] * 28 + [[3, 4, 5, 6]] * 72)
    after = codes([[1, 4, 5, 2]] * 23 + [[2, 4, 5, 6]] * 77)
    found = compare_exposure(before, after, 10)

    assert "1" not in [each.item for each in (*found.gained, *found.lost)]
    assert item_lines(found.gained, None)[0].startswith(
        "2: in 28 % of baseline lists, 100 % of candidate lists"
    )
    assert not item_lines([replace(found.gained[0], share_after=0.281)], None)


def test_items_with_equal_exposure_are_ordered_by_code():
    found = compare_exposure(codes([[1], [2], [3]]), codes([[6], [5], [4]]), 2)
    assert [item.item for item in (*found.gained, *found.lost)] == ["4", "5", "1", "2"]
