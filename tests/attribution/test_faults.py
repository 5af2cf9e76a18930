"""Faults that are planted in a shop's lists: kind, segment, share of users and arm; and how many users lie beyond a habit."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from bench.explanations import GROWN, HEALTHY, explain, judge, measure, remember
from faults import Fault, Kind, Shop, draw_fault
from kernels import reference
from monitor.attribution.changes import OwnLists
from monitor.attribution.habits import Habit, bin_lists, find_excess, pool_bins, share_bins, widest
from monitor.model.explanation import FaultKind
from monitor.model.memory import Memory
from monitor.model.rankings import PairBatch
from monitor.pipeline.user_batches import take_kept

SHOP = Shop(users=800)
BEGINS = HEALTHY + 1


@cache
def past() -> Memory:
    return remember(SHOP, BEGINS)


@pytest.mark.parametrize("kind", Kind)
def test_what_was_planted_is_told_and_the_pieces_sum_to_the_drop(kind: Kind) -> None:
    fault = draw_fault(kind, 5, begins=BEGINS)
    found = explain(fault, SHOP, past())
    assert judge(fault, SHOP, found).wrong == ()
    assert math.fsum(cause.amount for cause in found.causes) == pytest.approx(found.drop, abs=1e-9)


@pytest.mark.parametrize("kind", [Kind.TRUNCATED, Kind.STALE, Kind.CANDIDATE_BROKE])
def test_users_who_were_not_asked_before_are_taken_to_be_as_others_are(kind: Kind) -> None:
    lists = past().last_lists
    assert lists is not None
    half = take_kept(lists, np.arange(SHOP.users) % 2 == 0)
    fault = draw_fault(kind, 5, begins=BEGINS)
    assert judge(fault, SHOP, explain(fault, SHOP, replace(past(), last_lists=half, former_lists=half))).wrong == ()


@pytest.mark.parametrize("day", range(BEGINS, BEGINS + GROWN))
def test_nothing_is_blamed_for_a_healthy_day(day: int) -> None:
    found = measure(Fault(kind=Kind.NOISE, begins=day + 1), SHOP, day, past()).explanation
    assert found is not None
    assert (found.finding, found.segment) == (None, "all")


@pytest.mark.parametrize(("kind", "told"), [(Kind.SHARED_LIST, FaultKind.SHARED_LIST), (Kind.TRUNCATED, FaultKind.CUT_SHORT)])
def test_what_two_arms_alone_give_away_is_told_without_earlier_lists(kind: Kind, told: FaultKind) -> None:
    found = explain(draw_fault(kind, 5, begins=BEGINS), SHOP, Memory())
    assert found.finding is not None
    assert (found.finding.kind, found.before) == (told, None)
    assert found.sentence.endswith("(No earlier lists to hold this against.)")


def lists(former: list[list[int]], present: list[list[int]]) -> OwnLists:
    batch: PairBatch = reference.batch(list(zip(former, present, strict=True)), 10)
    return OwnLists(
        former=batch.baseline, former_lengths=batch.baseline_lengths, present=batch.candidate, lengths=batch.candidate_lengths
    )


def test_users_lie_in_the_bins_that_a_person_would_say() -> None:
    ten = list(range(10))
    found = bin_lists(
        lists([ten] * 4, [ten, ten[::-1], [*ten[:7], 11, 12, 13], [2, 1, 0, *ten[3:]]]), np.array([True, *[False] * 3])
    )
    assert {habit: bins.tolist() for habit, bins in found.items()} == {
        Habit.REPLACED: [0, 0, 3, 0],
        Habit.TURNED: [0, 10, 0, 0],
        Habit.TOP_TURNED: [0, -1, 0, 3],
        Habit.STILL: [1, 0, 0, 0],
    }


def test_shares_leave_out_who_is_not_known_and_runs_count_alike() -> None:
    assert share_bins(np.array([0, 2, 2, -1, 0])) == (0.5, 0.0, 0.5)
    assert pool_bins([(1.0,), (0.5, 0.5)]) == (0.75, 0.25)
    assert widest((0.9, 0.1), (0.8, 0.15, 0.05)) == pytest.approx((0.8, 0.15, 0.05))


USUAL = (0.1, 0.3, 0.3, 0.2, 0.08, 0.02)


def drawn(shares: tuple[float, ...], n: int) -> np.ndarray:
    return np.repeat(np.arange(len(shares)), np.rint(np.array(shares) * n).astype(int))


def test_a_fifth_of_the_users_far_out_is_found_with_its_share() -> None:
    now = np.concatenate((drawn(USUAL, 800), np.full(200, 9)))
    found = find_excess(now, USUAL)
    assert found is not None
    assert (found.least, found.usual) == (6, 0.0)
    assert found.concerned == pytest.approx(0.2)


def test_when_nobody_is_left_among_the_ordinary_everybody_is_concerned() -> None:
    found = find_excess(drawn((0, 0.05, 0.15, 0.2, 0.3, 0.3), 1000), USUAL)
    assert found is not None
    assert found.concerned == pytest.approx(1.0)


@pytest.mark.parametrize("n", [10, 100, 1000, 100_000])
def test_a_training_that_is_worse_by_a_half_is_usual_still(n: int) -> None:
    assert find_excess(drawn((0.05, 0.22, 0.3, 0.28, 0.12, 0.03), n), USUAL) is None


def test_four_users_are_nobody_and_without_users_there_is_nothing() -> None:
    assert find_excess(np.concatenate((drawn(USUAL, 1000), np.full(4, 9))), USUAL) is None
    assert find_excess(np.array([-1, -1]), USUAL) is None
