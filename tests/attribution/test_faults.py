"""Faults that are planted in a shop's lists: kind, segment, share of users and arm of each must be told."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from bench.explanations import GROWN, HEALTHY, explain, judge, measure, remember
from faults import Fault, Kind, Shop, draw_fault
from monitor.model.explanation import FaultKind
from monitor.model.memory import Memory
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
