"""Values worked out by hand or printed in the sources: of plain lists, of whole ones, of weights, of ties, by chance."""

import math
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from itertools import combinations, zip_longest

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kernels import reference, reference_rbo
from kernels.conftest import in_each_way
from kernels.reference import padded, with_weights
from monitor.measures.kernels import align
from monitor.measures.kernels.exposure import weigh_changes
from monitor.measures.kernels.kendall.weighted import rank_tied
from monitor.measures.kernels.list_traits import (
    flag_similar_lists,
    is_identical,
    is_top_reversed,
    largest_group,
    number_repeated,
)
from monitor.measures.kernels.sets import common_by_chance
from monitor.measures.metrics import parse
from tables import cells

Values = Mapping[str, float]
"""By the measure's name."""

PLAIN = """
# Lists of digits. (55/145 + 20/29) * 2 / (1 + 20/29) - 1.
0123456789:9876543210  extended_tau 13/49
# Van der Geer's table of tau before scaling, of which 1, 0.43, -0.23 and -0.71 are printed.
01234:01234  extended_tau_unscaled 1
01234:43210  extended_tau_unscaled 3/7  appended_tau -1
01234:56074  extended_tau_unscaled -8/35
# Disjoint lists of l items: -2 l / (3 l - 1), until it is scaled.
01234:86759  extended_tau_unscaled -5/7  extended_tau -1  appended_tau -5/7
# His examples of appended mismatches, printed as 0.15 and -0.45.
70134:01238  appended_tau 3/20
01234:81734  appended_tau -9/20
# A list without the last item counts as the whole.
123:12       appended_tau 1
# His example of plain tau, a third also without mismatches.
01237:18203  kendall_tau 2/6
1239:8312    kendall_distance 2  kendall_distance_normalized 2/3  kendall_tau -1/3
# A swap at the top. Pairs weigh 3/2, 4/3 and 5/6 for weighted tau, together 11/3; the swap costs its 3/2 twice.
123:213      weighted_tau 2/11
# Below 2 nothing above 1 is right, above 3 both are: 2/2 * (0 + 1) - 1.
123:213      tau_ap 0
123:213      footrule 2  footrule_normalized 2/4  topk_footrule 2  topk_footrule_normalized 2/12
123:213      position_weighted_kendall_distance(discount=hyperbolic) 1
123:213      position_weighted_kendall_distance(discount=dcg) 1
# One at the bottom. A step between ranks 1 and 2 is worth 1/2, between 2 and 3 1/6, a third of it, paid by both items.
123:132      weighted_tau 6/11
123:132      position_weighted_kendall_distance(discount=hyperbolic) 1/9
# 1 and 3 pay (1 + 1/3) / 2 a step, 2 keeps its rank and pays 1: 2/3 + 2/3 + 4/9.
123:321      position_weighted_kendall_distance(discount=hyperbolic) 16/9
# Read against the baseline: 0, then 1 of 2.
123:312      tau_ap -1/2
# 2/3 * (0 + 1/2 + 1) - 1, and the mean with 2/3 * (1 + 0 + 1) - 1.
1234:3124    tau_ap 0  tau_ap_symmetric 1/6
3124:1234    tau_ap 1/3
# 4 stands above 1, of which only the second list holds 4 (case 2); 2 and 3 against 4 and 5 (case 3); {2, 3} and {4, 5}
# (case 4). 1 moves from 1 to 2; 2 and 3 from 2 and 3 to 4; 4 and 5 from 1 and 3 to 4.
123:415      topk_kendall(penalty=0.0) 5  topk_kendall_normalized(penalty=0.0) 5/9
123:415      topk_kendall(penalty=0.5) 6  topk_kendall_normalized(penalty=0.5) 6/12
123:415      topk_kendall(penalty=1.0) 7  topk_kendall_normalized(penalty=1.0) 7/15
123:415      topk_footrule 8
# 2 stands above 1 (case 2), {2, 3}, {2, 4} and {3, 4} are unknown to the first list, which ranks 2, 3 and 4 second: 1 moves
# one, 2 one, 3 one and 4 two. Disjoint: 1 moves from 1 to 5, the others from 1, 2, 3 and 4 to 2.
1:2134       topk_kendall(penalty=0.5) 5/2  topk_kendall_normalized(penalty=0.5) 5/14
1:2134       topk_footrule 5  topk_footrule_normalized 5/8
# Ranks count among the items in common.
1823:29713   footrule 2
1234:4918    overlap 1/2
12:21        overlap 1  jaccard 1
123:345      jaccard 1/5
12:2134      overlap 1/2  jaccard 2/4
12345:21345  average_overlap 4/5
# Overlaps 1, 1/2, 2/3, 2/4.
12:1324      average_overlap 2/3
# The film example: agreement 0, 1/2, 1/3, 3/4, 1, 1, 1 at the seven depths. Below them it is taken to stay 1. Truncated it
# loses 0.9**7. At least it loses what the first seven ranks do not weigh, 1 - 0.7671390167731462.
1234567:2451367  rbo(p=0.9) 0.782775  rbo_max(p=0.9) 0.782775  rbo_truncated(p=0.9) 0.3044781
1234567:2451367  rbo_min(p=0.9) 0.5499140167731462  rbo_res(p=0.9) 0.2328609832268538
# Agreement 0, then 1: truncated p(1-p). The least adds (1-p)/p * 2 * (ln 2 - 1/2 - 1/8).
12:21        rbo(p=0.5) 1/2  rbo_max(p=0.5) 1/2  rbo_truncated(p=0.5) 1/4  rbo_min(p=0.5) 0.3862943611198906
# Seen: 0 at depth 1, 1 of 2 at depth 2, which is taken to stay: 1/2 * 1/4 + 1/2 * 1/4. The least is ln 2 - 1/2.
# Most: the short one goes on with 2, and it is 1 from there.
1:21         rbo(p=0.5) 1/4  rbo_max(p=0.5) 1/2  rbo_truncated(p=0.5) 0  rbo_min(p=0.5) 0.1931471805599453
# What the short list of the two begins may turn out the whole.
123:12       rbo(p=0.9) 1  rbo_max(p=0.9) 1
# Universe of 3: ranks 0 1 1 against 0 1 2. S = 2 of D = sqrt(2 * 3). Disjoint lists have S = -2, so low = -2 / sqrt(6):
# 2 * (-low - low) / (1 - low) - 1.
1:12         extended_tau 0.7979589711327124
# A list without two items does not count as the whole: 5 / sqrt(5 * 6).
1234:12      appended_tau 0.9128709291752769
# The ideal is 3 + 2 / log2(3) + 1 / 2. The first list has 2 + 3 / log2(3) + 1 / 2, the second loses 1 / 2.
123:213      ndcg_vs_baseline(gain=linear) 0.9224945116765986
123:129      ndcg_vs_baseline(gain=linear) 0.894999002123018
# A step between ranks 2 and 3 costs (1 / log2(3) - 1 / 2) / (1 - 1 / log2(3)), paid by both items.
123:132      position_weighted_kendall_distance(discount=dcg) 0.12585156813880247
"""

FURTHER = [
    (range(300), range(300, 600), {"extended_tau_unscaled": -600 / 899, "extended_tau": -1.0}),
    # Codes that differ in their high bytes alone.
    ([65_537, 65_535], [1], {"overlap": 0.0}),
    (range(64), range(2**25, 2**25 + 64), {"overlap": 0.0}),
]

WEIGHED = """
# Lists of digits, and the weights of 1, 2 and 3.
# 1 1' 2 against 2 1 1', copies tied: of S = 9 + 2 - 2 * 2 = 7 and D = 9 + 2, (2 * 7 + 9 - 11) / (11 + 9).
12:21   2 1          element_weighted_tau 12/20
123:213  5 3 1        element_weighted_kendall_distance 15  element_weighted_kendall_distance_normalized 15/23
123:132  5 3 1        element_weighted_kendall_distance 3
# 1 of weight 5 moves past 3, 2 of weight 3 past 5; reversing either list of 5 3 1 or 3 5 1 costs 5 * 4 + 3 * 4 + 1 * 8
# and 3 * 6 + 5 * 2 + 1 * 8.
123:213  5 3 1        element_weighted_footrule 30  element_weighted_footrule_normalized 30/38
# Hyperbolic: both items of the swap at ranks 2 and 3 pay 1/3 a step. 3 * 2/9, and 2 * 3/3 * 2/3.
123:132  5 3 2        generalized_kendall_distance(discount=hyperbolic) 6/9  generalized_footrule(discount=hyperbolic) 4/3
# Rounding takes no reversal beyond 1.
123:321  0.1 0.9 0.6  element_weighted_footrule_normalized 1
"""


TIED = """
# Lists of digits, those in brackets tied.
# Of three pairs one is tied in each list, in none is the order opposite, one is in the same order.
1(23):(12)3  kendall_tau 1/2
(123):123    kendall_tau nan  weighted_tau nan
# Ranks by either list 0 1 2: the pairs of 1 agree and weigh 3/2 and 4/3, that of 2 and 3 weighs 5/6 and is tied in one:
# (17/6) / sqrt(17/6 * 11/3).
1(23):123    weighted_tau 0.8790490729915326
# Nothing agrees. The pairs of 1 weigh 3/2 and 4/3 by the one list, 4/3 and 5/6 by the other:
# -(sqrt(17/6) + sqrt(13/6)) / (2 * sqrt(11/3)).
1(23):321    weighted_tau -0.82387759388867
# The example of Corsi and Urbano, printed as 0.7068257, 0.6922853 and 0.7207131.
0(12)34:(10)5(367)2  rbo_w(p=0.95) 0.706825717092803  rbo_a(p=0.95) 0.6922853319692459  rbo_b(p=0.95) 0.7207131047474529
# w: 2*1/(2+1), then 1. a: 1/2, then 1. b: (1/2) / sqrt(1/4 + 1/4), then 1.
(12):12      rbo_w(p=0.5) 5/6  rbo_a(p=0.5) 3/4  rbo_b(p=0.5) 0.8535533905932737
# a: either order of each, 1/2 * (1 + 0.5).
(12):(12)    rbo_w(p=0.5) 1  rbo_a(p=0.5) 3/4  rbo_b(p=0.5) 1
"""


def exact(found):
    """Of cells such as "jaccard 1/5"."""
    return {
        name: math.nan if value == "nan" else float(Fraction(value))
        for name, value in map(str.split, found)
    }


def weighed(lists, weights):
    by_item = dict(enumerate(map(float, weights.split()), start=1))
    return with_weights(reference.pairs(lists), by_item)


BATCHES = [
    *((reference.batch(reference.pairs(lists)), exact(found)) for lists, *found in cells(PLAIN)),
    *((reference.batch([(one, other)]), values) for one, other, values in FURTHER),
    *((weighed(lists, weights), exact(found)) for lists, weights, *found in cells(WEIGHED)),
    *(
        (reference_rbo.batch([tuple(map(reference_rbo.parse, lists.split(":")))]), exact(found))
        for lists, *found in cells(TIED)
    ),
    # Items without a score are tied with nothing.
    (
        reference_rbo.batch([(([1, 2, 3], [math.nan] * 3), reference_rbo.parse("213"))]),
        {f"rbo_{kind}(p=0.9)": 0.9 for kind in "wab"},
    ),
]


@pytest.mark.parametrize("batch, values", BATCHES)
def test_values_are_those_worked_by_hand(batch, values, monkeypatch):
    for way in in_each_way(monkeypatch):
        alignment = align(batch)
        for name, expected in values.items():
            assert parse(name).measure(alignment)[0] == pytest.approx(
                expected, abs=2e-15, nan_ok=True
            ), (name, way)


FAR_ENDS = """
kendall_tau                                   -1
weighted_tau                                  -1
tau_ap                                        -1
tau_ap_symmetric                              -1
appended_tau                                  -1
kendall_distance_normalized                   1
footrule_normalized                           1
element_weighted_kendall_distance_normalized  1
element_weighted_footrule_normalized          1
"""


def test_a_reversed_list_is_at_the_far_end_of_the_range():
    for name, far_end in cells(FAR_ENDS):
        for length in (2, 3, 49, 120):
            top = list(range(length))
            weights = {item: 0.1 + item % 7 / 3 for item in top}
            found = parse(name).measure(align(with_weights([(top, top[::-1])], weights)))[0]
            assert -1.0 <= found <= 1.0
            assert found == pytest.approx(float(far_end), abs=1e-14)


def test_a_measure_without_the_weights_or_scores_that_it_needs_says_so():
    alignment = align(reference.batch([([1], [2])]))
    with pytest.raises(ValueError, match="no item weights"):
        parse("element_weighted_tau").measure(alignment)
    with pytest.raises(ValueError, match="no scores: give"):
        rank_tied(alignment, np.arange(1))
    with pytest.raises(ValueError, match="no scores, which ties need"):
        parse("rbo_w").measure(alignment)


def test_the_chances_of_common_items_keep_their_mean_where_counts_overflow():
    for k, catalogue in [(1000, 1500), (1000, 10**9), (10, 10**15)]:
        chances = common_by_chance(k, catalogue)

        assert chances.sum() == pytest.approx(1, abs=1e-12)
        assert chances @ np.arange(k + 1) == pytest.approx(k * k / catalogue, rel=1e-9)


RANKING = st.lists(st.integers(0, 4), unique=True, max_size=4)


@given(st.lists(RANKING, max_size=12))
def test_the_largest_group_is_that_of_the_most_common_list(rows):
    numbers = number_repeated(padded(rows)[0])
    counts = Counter(tuple(row) for row in rows if row)

    assert largest_group(numbers) == max(counts.values(), default=1)
    assert [number >= 0 for number in numbers] == [counts[tuple(row)] > 1 for row in rows]


def test_lists_differ_by_order_and_length_and_many_random_lists_by_their_hash():
    many = np.random.default_rng(1).integers(0, 12, (20_000, 4), dtype=np.int32)
    counts = Counter(map(tuple, many.tolist()))
    assert largest_group(number_repeated(many)) == max(counts.values())
    lists = [[1, 2], [2, 1], [1], [0, 1], [1, 2, 3], [], [4, 5, 6, 7, 8, 9], [4, 5, 6, 7, 8, 3]]
    assert number_repeated(padded(lists, 6)[0]).max() == -1


def test_lists_are_identical_item_by_item():
    found = reference.batch(reference.pairs("12:12 12:21 12:17 1:12 12: :1 1:1"))
    is_equal = is_identical(found.baseline, found.candidate)
    np.testing.assert_array_equal(is_equal, [1, 0, 0, 0, np.nan, np.nan, 1])


LIKE = """
# lists                 alike  interleaved
0123456789:0123456789   1      1
# One swapped pair, one item less, one of each, and a list that begins one place later.
0123456789:0123456798   1      1
0123456789:012356789x   1      0
0123456789:01236x5789   0      0
0123456789:123456789x   1      0
# Both lists take turns. The other list begins, or the baseline, or both have the third item.
0123456789:a0b1c2d3e4   0      1
0123456789:0a1b2c3d4e   0      1
0123456789:a0b12c3d4e   0      1
# The other list has two turns in a row.
0123456789:0abc123456   0      0
0123456789:01ab2c3d4e   0      0
# Interleaving does not shorten lists, and lists of one item say nothing.
0123456789:1xyz         0      0
0123456789:a0b1         0      0
0123:a0b123456          0      1
01:10                   1      1
0:0                     nan    nan
"""


def test_lists_that_are_nearly_the_same_and_mixed_lists_are_those_worked_by_hand():
    for pair, alike, interleaved in cells(LIKE):
        lists = [[int(item, 36) for item in side] for side in pair.split(":")]
        found = flag_similar_lists(reference.batch([tuple(lists)], 10))
        np.testing.assert_array_equal(np.ravel(found), [float(alike), float(interleaved)])


@given(RANKING, RANKING)
def test_two_lists_that_took_turns_are_always_found(own, other):
    turns = [item for pair in zip_longest(own, other) for item in pair if item is not None]
    mixed = list(dict.fromkeys(turns))[:4]
    _, is_interleaved = flag_similar_lists(reference.batch([(other, mixed)], 4))
    assert is_interleaved != 0


def compare_by_definition(one, other):
    """Whether most of the first three items are reversed, and whether the lists are equal."""
    is_reversed, is_equal = math.nan, math.nan
    if len(one) >= 3 and set(one[:3]) == set(other[:3]):
        pairs = combinations(one[:3], 2)
        is_reversed = sum(other.index(x) > other.index(y) for x, y in pairs) >= 2
    if one and other:
        is_equal = one == other
    return is_reversed, is_equal


@given(st.lists(st.tuples(RANKING, RANKING), min_size=1, max_size=8))
def test_both_arms_lists_are_compared_by_their_definition(pairs):
    batch = reference.batch(pairs, 4)
    kernels = (is_top_reversed, is_identical)
    found = [kernel(batch.baseline, batch.candidate) for kernel in kernels]
    expected = [compare_by_definition(*pair) for pair in pairs]
    np.testing.assert_array_equal(np.transpose(found), expected)
    assert np.isnan(is_top_reversed(batch.baseline[:, :2], batch.candidate[:, :2])).all()


def test_a_change_of_one_item_has_weight_if_other_items_change_less():
    """Half of 200 other items of 40 lists gain 4 users, and the others lose 4."""
    for before, now, weight in [
        (59, 0, 51),  # an item vanishes from the lists of 59 users
        (0, 21, 13),  # 21 users get a new item
        (130, 65, 13.7),  # half of an item's lists
        (60, 80, 0),  # as in a healthy training
    ]:
        change = np.tile([4, -4], 100)
        others = np.full(200, 40)
        befores = np.append(others, before)
        weighed = weigh_changes(befores, np.append(others + change, now))
        assert weighed[-1] == pytest.approx(weight, abs=0.1)
        assert not weighed[:-1].any()


def test_a_change_of_all_items_has_no_weight():
    befores = np.arange(20, 220)
    assert not weigh_changes(befores, befores * 2).any()
