"""Faults that are planted here: segment, items and kind of each must come first in the explanation."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

from attribution.world import ITEMS, Day, K, draw_day, explain_day, remember
from monitor.attribution import CodedExplanation, PastRuns, find_leader
from monitor.model import Part

POPULAR = list(range(200, 200 + K))
"""Items that hardly anybody is shown on a healthy day."""


@dataclass(frozen=True)
class Fault:
    """A way to break a day, and what its explanation must begin with."""

    plant: Callable[[Day], Day]
    part: Part | None
    segment: str = "all"
    gained: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    says: str = ""


def without(items: range) -> Callable[[list[int]], list[int]]:
    """The list without these items, filled up from the end of the catalogue."""
    return lambda ranking: [*(kept := [item for item in ranking if item not in items]), *range(ITEMS, ITEMS + K - len(kept))]


def every(share: int, day: Day) -> np.ndarray:
    return np.arange(0, len(day.baseline), share)


FAULTS = {
    "popular items for one country": Fault(
        lambda day: day.giving(day.users(country="DE"), lambda _: POPULAR),
        Part.MEMBERSHIP,
        "country=DE",
        gained=tuple(POPULAR),
        says="mostly in country=DE (100 % of its users), all get the same list from the candidate. This explains ",
    ),
    "popular items for new users of one country": Fault(
        lambda day: day.giving(day.users(country="FR", activity="new"), lambda _: POPULAR),
        Part.MEMBERSHIP,
        "activity=new and country=FR",
        gained=tuple(POPULAR),
        says="mostly in activity=new and country=FR (100 % of its users), all get the same list from the candidate.",
    ),
    "popular items for every tenth user": Fault(
        lambda day: day.giving(every(10, day), lambda _: POPULAR),
        Part.MEMBERSHIP,
        gained=tuple(POPULAR),
        says="120 of 1,200 users (10 %) all get the same list from the candidate. This explains ",
    ),
    "the first five upside down for new users": Fault(
        lambda day: day.giving(day.users(activity="new"), lambda ranking: [*ranking[4::-1], *ranking[5:]]),
        Part.ORDER,
        "activity=new",
        says="of the drop: activity=new, items moved",
    ),
    "the first five upside down for everybody": Fault(
        lambda day: day.giving(every(1, day), lambda ranking: [*ranking[4::-1], *ranking[5:]]),
        Part.ORDER,
        says="of the drop: everywhere, items moved",
    ),
    "half lists for one country": Fault(
        lambda day: day.giving(day.users(country="FR"), lambda ranking: ranking[: K // 2]),
        Part.LENGTH,
        "country=FR",
        says="mostly in country=FR (100 % of its users), get shorter lists from the candidate: 5 items instead of 10.",
    ),
    "three items for everybody": Fault(
        lambda day: day.giving(every(1, day), lambda ranking: ranking[:3]),
        Part.LENGTH,
        says="1,200 of 1,200 users (100 %) get shorter lists from the candidate: 3 items instead of 10. This explains all",
    ),
    "an advertisement on top of every list": Fault(
        lambda day: day.giving(every(1, day), lambda ranking: [ITEMS, *ranking[:-1]]),
        Part.MEMBERSHIP,
        gained=(ITEMS,),
        says="of the drop: everywhere, ",
    ),
    "a category gone for one quartile": Fault(
        lambda day: day.giving(day.users(activity="q2"), without(range(40))),
        Part.MEMBERSHIP,
        "activity=q2",
        lost=tuple(range(40)),
        says="of the drop: activity=q2, ",
    ),
    "one country unanswered": Fault(
        lambda day: replace(day, is_missing=(day.values["country"] == "DE") & (np.arange(len(day.baseline)) % 2 == 0)),
        None,
        says=" % of its users), got no list from the candidate (0 % before). The mean of all users ",
    ),
    "a panel of new users": Fault(
        lambda _: draw_day(5, share_of_new=0.9),
        Part.COMPOSITION,
        "activity=new",
        says="of the drop: activity=new, other users asked than before",
    ),
    "frozen lists for new users": Fault(
        lambda day: day.giving(day.users(activity="new"), without(range(0, ITEMS, 2))),
        Part.MEMBERSHIP,
        "activity=new",
        lost=tuple(range(0, ITEMS, 2)),
        says="of the drop: activity=new, ",
    ),
}


@cache
def healthy(seed: int) -> Day:
    return draw_day(seed)


@cache
def past(metric: str) -> PastRuns:
    return remember(map(healthy, range(5)), metric)


def explanation(plant: Callable[[Day], Day], metric: str) -> CodedExplanation:
    return explain_day(plant(healthy(5)), past(metric), metric)


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        (name, metric)
        for name, fault in FAULTS.items()
        for metric in ("extended_tau", "rbo(p=0.9)")
        # A prefix is as good as the whole list to rbo: tests of their own.
        if (metric, fault.part) != ("rbo(p=0.9)", Part.LENGTH)
    ],
)
def test_what_was_planted_comes_first(name: str, metric: str) -> None:
    fault = FAULTS[name]
    found = explanation(fault.plant, metric)
    assert fault.says in found.sentence
    if fault.part is not None:
        assert found.causes[0].part is fault.part
        assert found.segment == fault.segment
    if fault.gained:
        assert {item.code for item in found.items.gained[: len(fault.gained)]} == set(fault.gained)
    if fault.lost:
        assert {item.code for item in found.items.lost[:10]} <= set(fault.lost)


def test_lists_cut_short_are_told_first_even_where_the_mean_rises() -> None:
    found = explanation(FAULTS["three items for everybody"].plant, "rbo(p=0.9)")
    assert found.drop.whole < 0
    assert "get shorter lists from the candidate: 3 items instead of 10. The mean of all users did not fall." in found.sentence


def test_a_segment_cut_short_is_told_where_the_metric_does_not_see_it() -> None:
    found = explanation(FAULTS["half lists for one country"].plant, "rbo(p=0.9)")
    assert "users (22 %), mostly in country=FR (100 % of its users), get shorter lists from the candidate" in found.sentence


def test_a_segment_that_falls_is_named_while_the_mean_rises() -> None:
    days = remember((day.giving(every(1, day), sorted) for day in map(healthy, range(5))), "rbo(p=0.9)")
    broken = healthy(5).giving(healthy(5).users(country="DE"), lambda _: POPULAR)
    found = explain_day(broken, days, "rbo(p=0.9)")
    assert found.drop.whole < 0
    assert "mostly in country=DE (100 % of its users), all get the same list from the candidate." in found.sentence
    assert "The mean of all users did not fall." in found.sentence


def test_missing_users_are_told_first_with_the_segment_that_misses_them() -> None:
    found = explanation(FAULTS["one country unanswered"].plant, "extended_tau")
    assert found.finding is not None
    assert found.finding.segment == "country=DE"


def test_representative_users_are_users_with_the_fault() -> None:
    day = FAULTS["popular items for every tenth user"].plant(healthy(5))
    found = explanation(FAULTS["popular items for every tenth user"].plant, "extended_tau")
    assert [day.candidate[row] for row in found.groups[0].medoids] == [POPULAR] * len(found.groups[0].medoids)


@pytest.mark.parametrize("seed", range(20, 40))
def test_no_segment_is_blamed_for_a_healthy_day(seed: int) -> None:
    found = explain_day(draw_day(seed), past("extended_tau"), "extended_tau")
    assert found.segment == "all"
    assert find_leader(found.drop) is None
    assert re.match(r"No (clear )?drop: |All of the drop: everywhere, |\d+ % of the drop: everywhere, ", found.sentence)


def test_the_same_run_is_explained_in_the_same_words() -> None:
    plant = FAULTS["popular items for new users of one country"].plant
    assert str(explanation(plant, "extended_tau")) == str(explanation(plant, "extended_tau"))
