"""The change of a user's pair since an earlier run, whose it is and who changed alike.

Faults planted in a shop's lists.
"""

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from bench.incidents import find_wrong, read
from factories import comparison, pull
from faults import Fault, Kind, Shop, draw_fault, draw_shop
from kernels import reference
from kernels.reference import pairs
from monitor.measures.metrics import parse, score_all
from monitor.model.explanation import Change, ExampleLists, FaultKind
from monitor.model.memory import Memory
from monitor.model.rankings import Arm
from monitor.model.rules import Keep
from monitor.pipeline.user_batches import take_table
from monitor.statistics.attribution.change_features import (
    ChangeFeature,
    bin_lists,
    find_outlying_bins,
    least_affected_share,
    scale_to_part,
)
from monitor.statistics.attribution.changes import (
    ALL_CHANGES,
    OwnLists,
    classify_changes,
    compare_pairs,
    group_users,
    share_kinds,
)
from monitor.statistics.attribution.parts import Parts
from pipeline.canned import ran, users
from tables import cells

METRICS = ("extended_tau", "rbo(p=0.9)", "overlap", "topk_footrule")


BEFORE = "123456:427819"
"""Lists of two models that always differed."""


def change(name, former, present):
    """What became of these pairs, given as text or as lists."""
    metric = parse(name)
    then, now = (
        reference.batch(pairs(each) if isinstance(each, str) else each, 10)
        for each in (former, present)
    )

    def score(batch):
        return score_all(batch, [metric])[name] * (1 if metric.higher_is_more_alike else -1)

    found = compare_pairs(now, then, score)
    expected = np.where(found.is_known, score(then) - score(now), np.nan)
    np.testing.assert_allclose(found.parts.total, expected, atol=1e-9)
    return found


def amounts(found, arm, row=0):
    parts = found.by_arm[arm]
    return float(parts.membership[row]), float(parts.order[row]), float(parts.length[row])


def test_a_reversal_is_order_of_the_arm_that_was_reversed_and_nothing_else():
    for name in METRICS:
        for arm, present in (
            (Arm.BASELINE, "654321:427819"),
            (Arm.CANDIDATE, "123456:918724"),
        ):
            found = change(name, BEFORE, present)
            membership, _, length = amounts(found, arm)
            assert membership == 0.0
            assert length == 0.0
            assert amounts(found, arm.other) == (0.0, 0.0, 0.0)


def test_a_swap_a_truncation_and_a_replacement_agree_with_values_worked_by_hand():
    """Overlap of 1234 with itself: 9 for 4 costs a quarter, two of four a half.

    A swap is nothing that sets see.
    """
    same = "1234:1234 "
    found = change("overlap", same * 3, "1234:2134 1234:12 1234:1239")
    assert [amounts(found, Arm.CANDIDATE, row) for row in range(3)] == [
        (0, 0, 0),
        (0, 0, 0.5),
        (0.25, 0, 0),
    ]
    # Average overlap of 1234: 2134 is (0 + 1 + 1 + 1) / 4.
    assert amounts(change("average_overlap", same, "1234:2134"), Arm.CANDIDATE) == pytest.approx(
        (0, 0.25, 0)
    )


@given(st.integers(0, 10_000), st.sampled_from(METRICS))
@settings(max_examples=20)
def test_parts_sum_to_the_change_and_swapping_the_arms_swaps_their_shares(seed, name):
    former, present = (reference.draw(6, seed + day, even=False, lengths=(8,)) for day in (0, 1))
    found = change(name, former, present)
    turned = change(name, [(b, a) for a, b in former], [(b, a) for a, b in present])
    np.testing.assert_allclose(
        found.by_arm[Arm.BASELINE].total, turned.by_arm[Arm.CANDIDATE].total, atol=1e-9
    )


def test_an_arms_share_is_the_mean_of_the_two_ways_there():
    metric = parse("rbo(p=0.9)")
    # Before, the candidate's change alone, the baseline's alone, and both.
    walk = pairs("123456:427819 123456:123784 629413:427819 629413:123784")
    before, candidate, baseline, both = score_all(reference.batch(walk, 10), [metric])["rbo(p=0.9)"]
    found = change("rbo(p=0.9)", walk[:1], walk[3:])
    share = ((before - candidate) + (baseline - both)) / 2
    assert math.fsum(amounts(found, Arm.CANDIDATE)) == pytest.approx(share, abs=1e-12)


def test_a_user_whose_score_is_undefined_or_who_had_no_list_has_no_parts():
    undefined = change("extended_tau", f"{BEFORE} {BEFORE}", f": {BEFORE}")
    assert np.isnan(undefined.parts.total).tolist() == [True, False]
    found = change("overlap", f":12 12: {BEFORE}", f"{BEFORE} {BEFORE} {BEFORE}")
    assert found.is_known.tolist() == [False, False, True]
    assert np.isnan(found.parts.total).tolist() == [True, True, False]


def parts(rows):
    membership, order, length = np.array(rows, dtype=np.float64).reshape(-1, 3).T
    return Parts(membership=membership, order=order, length=length)


KINDS = """
1234:1234  unchanged
1234:2134  reordered
1234:1298  partly_replaced
1234:1798  mostly_replaced
1234:6798  replaced
1234:12    cut_short
1234:19    cut_short
1234:89    replaced
12:1234    lengthened
12:        replaced
:12        replaced
:          unchanged
"""


def test_a_pair_has_the_expected_kind_of_change():
    for pair, kind in cells(KINDS):
        assert ALL_CHANGES[classify_changes(reference.batch(pairs(pair), 6))[0]].value == kind


def kinds(*changes):
    return np.array([ALL_CHANGES.index(change) for change in changes], dtype=np.int8)


def show(row):
    return ExampleLists(user=f"u{row}", baseline=(), candidate=())


def test_groups_that_grew_come_before_groups_that_were_always_there():
    changes = [Change.PARTLY_REPLACED] * 8 + [Change.REPLACED] * 2
    rows = [(0.5, 0.0, 0.0)] * 8 + [(1.0, 0.0, 0.0)] * 2
    before = share_kinds(kinds(Change.PARTLY_REPLACED))
    found = group_users(kinds(*changes), parts(rows), np.arange(10), before=before, show=show)
    assert [(group.change, group.users, group.share, group.share_before) for group in found] == [
        (Change.REPLACED, 2, 0.2, 0.0),
        (Change.PARTLY_REPLACED, 8, 0.8, 1.0),
    ]


def test_users_without_parts_do_not_count_and_groups_of_some_rows_show_rows_of_all():
    replaced = kinds(*[Change.REPLACED] * 4)
    (found,) = group_users(
        replaced,
        parts([(1, 0, 0), (np.nan,) * 3, (1, 0, 0), (1, 0, 0)]),
        np.array([3, 1]),
        show=show,
    )
    assert found.users == 1
    assert found.share == 0.5
    assert found.examples == (show(3),)
    assert not group_users(replaced, parts([(1, 0, 0)] * 4), np.arange(0), show=show)
    affected = np.array([False, False, True, False])
    (found,) = group_users(
        replaced, parts([(1, 0, 0)] * 4), np.arange(4), show=show, examples=2, affected=affected
    )
    assert found.examples == (show(2), show(0))


SHOP = Shop(users=800)
NO_FAULT = Fault(kind=Kind.NOISE, begins=99)
HEALTHY = 8
BEGINS = HEALTHY + 1
GROWN = 9
"""Days after which a slow loss is looked at: 5 % of the users."""


def measure(fault, day, past, shop=SHOP):
    """The run of that day."""
    what = comparison(
        k=shop.k,
        metrics=("extended_tau",),
        keep_lists=Keep.ALL,
        rules=(),
        evidence_users=2,
        min_paired_share=0.2,
    )
    segments = {name: list(values) for name, values in shop.values.items()}
    baseline, candidate = (pull(fault.lists(shop, arm, day)) for arm in Arm)
    return ran(what, baseline, candidate, users(*shop.names, **segments), memory=past)


@cache
def past(shop=SHOP, begins=BEGINS):
    """What healthy days leave."""
    found = Memory()
    for day in range(begins - HEALTHY, begins):
        result = measure(NO_FAULT, day, found, shop)
        assert result.split is not None, result.reason
        found = after(Memory(splits=(*found.splits, result.split)), result.lists)
    return found


def after(past, lists):
    """What was kept of the past if the last run had these lists."""
    return replace(past, last_lists=lists, former_lists=lists)


def explain(fault, past, shop=SHOP):
    """What is said of it on the day on which it is looked at, and what of it is wrong."""
    day = fault.begins + (GROWN if fault.kind is Kind.SLOW_LOSS else 0)
    found = measure(fault, day, past, shop).explanation
    return found, find_wrong(fault, shop, read(found.sentence), day)


@pytest.mark.parametrize("kind", Kind)
def test_the_planted_fault_is_named_and_the_causes_sum_to_the_drop(kind):
    found, wrong = explain(draw_fault(kind, 5, begins=BEGINS), past())
    assert not wrong
    assert math.fsum(cause.amount for cause in found.causes) == pytest.approx(found.drop, abs=1e-9)


BESIDE = """
ONE_SEGMENT 13120 13120 12
ARM_BROKE 13122 13120 12
TRUNCATED 13171 13168 9
TOP_SHUFFLED 13072 13072 12
BOTH_BROKE 17109 17104 13
MIXED_UP 33061 33056 8
NOISE 13065 13064 14
REORDERED 17043 17040 12
TRUNCATED 23129 23128 11
STALE 51060 51056 12
STALE 92144 92144 14
ONE_SEGMENT 92036 92032 11
ITEMS_GONE 57006 57000 11
TRUNCATED 9124 9124 13
TOP_SHUFFLED 93003 93001 11
TOP_SHUFFLED 99113 99113 14
ONE_SEGMENT 93009 93009 14
NEARLY_COPIED 93020 93017 13
ONE_SEGMENT 93053 93049 11
STALE 95049 95049 9
LOST_FILTER 95105 95105 11
"""
"""A kind of fault, its seed, that of its shop, and its day."""


@pytest.mark.integration  # for its CPU
@pytest.mark.parametrize("line", BESIDE.strip().splitlines())
def test_other_changes_of_the_lists_do_not_hide_the_planted_fault(line):
    kind, *numbers = line.split()
    seed, of_shop, begins = map(int, numbers)
    shop = draw_shop(of_shop)
    assert not explain(draw_fault(Kind[kind], seed, begins=begins), past(shop, begins), shop)[1]


def test_lists_that_are_identical_by_chance_are_no_finding():
    shop = draw_shop(57024)  # a tenth of its lists always are, and on day 10 more than ever before
    found = measure(NO_FAULT, 10, past(shop, 8), shop).explanation
    assert found.finding is None


def test_turned_lists_are_reported_as_a_change_of_the_first_items():
    shop = draw_shop(57024)
    fault = draw_fault(Kind.TOP_SHUFFLED, 57030, begins=8)
    lists = measure(fault, 9, past(shop, 8), shop).lists
    found = measure(fault, 10, after(past(shop, 8), lists), shop).explanation
    assert not find_wrong(fault, shop, read(found.sentence), 10)


def test_users_without_earlier_lists_are_assumed_to_behave_like_the_others():
    lists = past().last_lists
    rows = np.arange(0, SHOP.users, 2)
    arms = {arm: take_table(getattr(lists, arm), rows) for arm in Arm}
    half = after(past(), replace(lists, **arms))
    for kind in [Kind.TRUNCATED, Kind.STALE]:
        assert not explain(draw_fault(kind, 5, begins=BEGINS), half)[1]
    assert measure(NO_FAULT, BEGINS, half).explanation.finding is None


def test_users_who_share_a_list_since_earlier_days_are_all_counted():
    """On each day next to nobody comes to share one, and the others have the list that they had the day before."""
    slow = Fault(kind=Kind.SLOW_LOSS, begins=BEGINS)
    sudden = Fault(kind=Kind.SHARED_LIST, begins=BEGINS, share=0.01)
    for fault, days, concerned in [
        (slow, 4, "20 of 800 users (2 %)"),
        (sudden, 1, "8 of 800 users (1 %)"),
    ]:
        grown = past()
        for day in range(days):
            grown = after(grown, measure(fault, BEGINS + day, grown).lists)
        found = measure(fault, BEGINS + days, grown).explanation
        assert found.sentence.startswith(
            f"{concerned} get one and the same list from the candidate: the most popular items."
        )


def test_a_fault_that_both_arms_show_is_named_without_earlier_lists():
    for kind, told in [
        (Kind.SHARED_LIST, FaultKind.SHARED_LIST),
        (Kind.TRUNCATED, FaultKind.CUT_SHORT),
    ]:
        found, _ = explain(draw_fault(kind, 5, begins=BEGINS), Memory())
        assert found.finding.kind == told
        assert found.before is None
        assert found.sentence.endswith("(No earlier lists to compare with.)")


@dataclass
class Planted:
    """Arms give some users other lists, made of the other arm's list and of their own."""

    share: float
    change: Any
    arms: tuple[Arm, ...] = (Arm.CANDIDATE,)

    def lists(self, shop, arm, day):
        of_day = {each: NO_FAULT.lists(shop, each, day) for each in Arm}
        if arm in self.arms:
            for name in shop.names[: round(self.share * shop.users)]:
                items = self.change(of_day[arm.other][name], of_day[arm][name])
                of_day[arm][name] = list(dict.fromkeys(items))[: shop.k]
        return of_day[arm]


def explain_planted(*planted):
    return measure(Planted(*planted), BEGINS, past()).explanation


def test_an_item_that_is_first_in_both_arms_is_named_instead_of_more_similar_arms():
    def put_first(_, own):
        return [1000, 1001, 1002, *own[:-3]]

    found = explain_planted(0.5, put_first, tuple(Arm)).finding
    assert (found.kind, found.arms, found.users) == ("items_risen", tuple(Arm), 400)


def test_an_item_that_moves_to_the_first_place_or_from_it_is_named():
    """87 lists have item 13 and did not have it first. Item 9 was first in 16 lists.

    If lists are sorted, one item is first in many more lists, but all items moved.
    """

    def lift(_, own):
        return [13, *own] if 13 in own else own

    def lower(_, own):
        return [*own[1:], 9] if own[0] == 9 else own

    for change, count in ((lift, 87), (lower, 16)):
        found = explain_planted(1, change).finding
        assert (found.kind, found.users) == ("first_item", count)
    few = replace(SHOP, items=20)
    planted = Planted(0.5, lambda _, own: sorted(own))
    assert measure(planted, BEGINS, past(few), few).explanation.finding.kind == "reordered"


@pytest.mark.parametrize(
    "arm, kind, left", [(Arm.CANDIDATE, "missing", 0), (Arm.BASELINE, "cut_short", 5)]
)
def test_a_second_fault_of_other_users_is_named_too(arm, kind, left):
    """A fifth of the users get one list from the candidate, and others get fewer items."""

    class Two(Planted):
        def lists(self, shop, of_arm, day):
            served = super().lists(shop, of_arm, day)
            if of_arm is arm:
                served |= {name: served[name][:left] for name in shop.names[-160:]}
            return served

    found = measure(Two(0.2, lambda *_: range(10)), BEGINS, past()).explanation
    assert (found.finding.kind, found.also.kind, found.also.arms) == ("shared_list", kind, (arm,))
    assert "Another fault: 160 of 800 users (20 %)" in found.sentence


def test_a_category_that_both_arms_lost_is_named_with_all_its_items():
    fault = Fault(kind=Kind.CATEGORY_GONE, begins=BEGINS, arms=tuple(Arm))
    found, wrong = explain(fault, past())
    assert not wrong
    assert found.finding.detail["items"] > 20


def test_a_segment_with_mixed_lists_is_named():
    fault = Fault(kind=Kind.INTERLEAVED, begins=BEGINS, segment="country=FR")
    assert not explain(fault, past())[1]


def serve(shop):
    """What is found if the candidate serves the last items of that shop's lists."""
    rankings = iter(shop.rank(Arm.CANDIDATE, BEGINS))
    return explain_planted(1, lambda *_: next(rankings)[-SHOP.k :]).finding


def test_lists_that_begin_five_places_later_are_called_shifted():
    found = serve(replace(SHOP, k=15))
    assert (found.kind, found.arms) == ("shifted", (Arm.CANDIDATE,))
    assert found.detail == {"places": 5.0, "up": 1.0}


def test_lists_of_people_outside_the_run_are_not_called_lists_of_other_users():
    assert serve(replace(SHOP, seed=1)).kind == "noise"


def test_new_items_of_all_places_are_named_and_a_few_popular_ones_among_them_are_not_enough():
    """Half of the users get items of another catalogue. One of its items is in all of these lists.

    Or they get one new item at place 4, which few others get.
    """

    for change in (
        lambda _, own: [1000, *(2000 + item for item in own[1:])],
        lambda _, own: [*own[:3], 1000 + sum(own), *own[3:]],
    ):
        found = explain_planted(0.5, change).finding
        assert (found.kind, found.users) == ("items_new", 400)


def test_as_many_lists_have_the_item_that_moved_most_as_its_change_weighs():
    own = lists("1234567:1234567 " * 20 + "1234567:8234567 " * 30)
    assert own.has_item_change.sum() == own.item_counts.weighed_changes.max().round() == 30
    exchanged = lists("1234567:1234568 " * 20 + "1234568:1234567 " * 20)
    assert exchanged.has_item_change.sum() == 0


def test_a_small_change_of_all_lists_is_named_for_all_users():
    def add_some(baseline, own):
        return [*own[:5], *reversed(baseline)]

    def insert_two(_, own):
        return [*own[:4], own[0] * 7 % SHOP.items, own[1] * 7 % SHOP.items, *own[4:]]

    def sort_tail(_, own):
        return [*own[:2], *sorted(own[2:])]

    def mix_in(_, own):
        return [each for item in own for each in (item, (item * 7 + 1) % SHOP.items)]

    for change, kind in [
        (add_some, FaultKind.ALIKE),
        (mix_in, FaultKind.REPLACED),
        (insert_two, FaultKind.REPLACED),
        (sort_tail, FaultKind.REORDERED),
    ]:
        found = explain_planted(1.0, change).finding
        assert (found.kind, found.arms, found.users) == (kind, (Arm.CANDIDATE,), 800)
        assert ("mixed_in" in found.detail) is (change is mix_in)


@pytest.mark.parametrize("kept, is_shift", [(slice(1, None), False), (slice(-1), True)])
def test_new_items_in_front_are_a_shift_only_if_the_others_moved(kept, is_shift):
    def put_in_front(_, own):
        return [1000 + own[0], *own[kept]]

    found = explain_planted(1.0, put_in_front)
    told = "get 1 new item in front from the candidate: the others stand 1 place lower"
    assert (told in found.sentence) is is_shift


def test_four_users_with_one_popular_list_are_named_if_there_is_no_other_fault():
    found = explain_planted(0.005, lambda *_: range(SHOP.k))
    assert found.sentence.startswith(
        "4 of 800 users (0.5 %) get one and the same list from the candidate: the most popular items."
    )


def lists(text):
    return OwnLists.of_pairs(reference.batch(pairs(text), 10))


def test_users_are_in_the_expected_bins():
    """The same list, one turned round, one with three of seven other items, one whose first three are turned: 3 of 21 pairs."""
    own = lists("1234567:1234567 1234567:7654321 1234567:1234089 1234567:3214567")
    found = bin_lists(own, np.array([True, *[False] * 3]))
    expected = """
        replaced     0 0 4 0
        reordered    0 10 0 1
        total        0 10 4 1
        first_moved  0 -1 0 2
        first_gone   0 0 0 0
        first_new    0 0 0 0
        item_moved   0 0 0 0
        first_item_moved  0 0 0 1
        unchanged    1 0 0 0
        shared       0 0 0 0
    """
    assert [[feature, " ".join(map(str, bins))] for feature, bins in found.items()] == cells(
        expected
    )


def test_a_lost_best_item_and_a_new_first_item_are_seen():
    own = lists("12345:23456 12345:01234 12345:12345")
    found = bin_lists(own, np.zeros(3, dtype=bool))
    assert found[ChangeFeature.FIRST_GONE].tolist() == [1, 0, 0]
    assert found[ChangeFeature.FIRST_NEW].tolist() == [0, 1, 0]


def test_items_are_counted_over_users_with_both_lists():
    """Item 1 left two of three lists, and 9 came to two; whoever had no list before is left out."""
    own = lists("123:239 124:249 125:125 :129")
    counts = own.item_counts
    assert sorted((counts.now - counts.before).tolist()) == [-2, 0, 0, 0, 0, 2]
    assert own.has_item_change.sum() >= 2


USUAL = (0.1, 0.3, 0.3, 0.2, 0.08, 0.02)


def drawn(*shares, n=1000):
    return np.repeat(np.arange(len(shares)), np.rint(np.array(shares) * n).astype(int))


def test_a_fifth_of_the_users_far_out_is_found_with_its_share_and_four_users_are_nobody():
    now = np.concatenate((drawn(*USUAL, n=800), np.full(200, 9)))
    found = find_outlying_bins(now, USUAL)
    assert found is not None
    assert found.lowest_bin == 6
    assert found.greatest_normal_share == 0.0
    assert (found.affected_share, least_affected_share(now, USUAL)) == pytest.approx((0.2, 0.2))
    for nothing in (np.append(drawn(*USUAL), [9] * 4), np.array([-1, -1])):
        assert find_outlying_bins(nothing, USUAL) is None


def test_a_part_whose_lists_changed_twice_as_often_usually_does():
    usual = scale_to_part((0.7, 0.2, 0.1), (0.6, 0.4, 0), (0.8, 0.2, 0))
    assert usual == pytest.approx((0.4, 0.5, 0.1))


def test_a_training_that_changes_half_more_is_still_usual():
    for n in (10, 1000, 100_000):
        assert find_outlying_bins(drawn(0.05, 0.22, 0.3, 0.28, 0.12, 0.03, n=n), USUAL) is None
