"""Faults that go through whole runs: what was planted stands first in the stored explanation, and every split sums up."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from typing import Any

import numpy as np
import pytest

from attribution.world import ITEMS, Day, K, draw_day
from factories import SLOT, claim, comparison, pull
from monitor.model import Explanation, Memory, Part, RunResult, Split
from monitor.pipeline.run import execute
from pipeline.canned import StillClock, arms, users

HEALTHY = 5
TAU, RBO = "extended_tau", "rbo(p=0.9)"
POPULAR = tuple(range(200, 200 + K))
CATEGORY = tuple(range(30))
LAUNCHED = tuple(range(ITEMS, ITEMS + 4))


@dataclass(frozen=True)
class Fault:
    """A way to break a day, and what its explanation must begin with; ``says`` by metric where a metric cannot see it."""

    plant: Callable[[Day], Day]
    part: Part | None
    segment: str = "all"
    gained: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    says: str = ""
    blind: str = ""


def everybody(day: Day) -> np.ndarray:
    return np.arange(len(day.baseline))


def shuffled(ranking: list[int]) -> list[int]:
    return [ranking[place] for place in np.random.default_rng(ranking[0]).permutation(len(ranking))]


def without(ranking: list[int], items: tuple[int, ...]) -> list[int]:
    """The list without these items, filled up from the end of the catalogue."""
    kept = [item for item in ranking if item not in items]
    return [*kept, *range(ITEMS + 50, ITEMS + 50 + K - len(kept))]


def unanswered(day: Day) -> Day:
    return replace(day, is_missing=(day.values["activity"] == "q1") & (np.arange(len(day.baseline)) % 3 == 0))


def swapped(day: Day, rows: np.ndarray, others: np.ndarray) -> Day:
    """These users get the lists of those."""
    candidate = list(day.candidate)
    for row, other in zip(rows, np.resize(others, len(rows)), strict=True):
        candidate[row] = day.candidate[other]
    return replace(day, candidate=candidate)


def rolled(day: Day) -> Day:
    rows = day.users(activity="q3")
    return swapped(day, rows, np.roll(rows, 7))


def frozen(day: Day) -> Day:
    """Four items are launched and the baseline shows them to everybody, the frozen candidate to nobody."""
    return replace(day, baseline=[[*LAUNCHED, *ranking[: K - len(LAUNCHED)]] for ranking in day.baseline])


FAULTS = {
    "popular lists for one country": Fault(
        lambda day: day.giving(day.users(country="DE"), lambda _: list(POPULAR)),
        Part.MEMBERSHIP,
        "country=DE",
        gained=POPULAR,
        says="of the drop: country=DE, ",
    ),
    "popular lists for new users of one country": Fault(
        lambda day: day.giving(day.users(country="FR", activity="new"), lambda _: list(POPULAR)),
        Part.MEMBERSHIP,
        "activity=new and country=FR",
        gained=POPULAR,
        says="of the drop: activity=new and country=FR, ",
    ),
    "shuffled lists": Fault(
        lambda day: day.giving(everybody(day), shuffled), Part.ORDER, says="of the drop: everywhere, items moved"
    ),
    "reversed lists for new users": Fault(
        lambda day: day.giving(day.users(activity="new"), lambda ranking: ranking[::-1]),
        Part.ORDER,
        "activity=new",
        says="of the drop: activity=new, items moved",
    ),
    "lists cut short for one country": Fault(
        lambda day: day.giving(day.users(country="FR"), lambda ranking: ranking[:4]),
        Part.LENGTH,
        "country=FR",
        says="country=FR, lists cut short",
        blind="of lists cut short (0 % before), 100 % in country=FR",
    ),
    "one item over and over for one country": Fault(
        lambda day: day.giving(day.users(country="FR"), lambda ranking: [*ranking[:4], *[ranking[0]] * 6]),
        Part.LENGTH,
        "country=FR",
        says="country=FR, lists cut short",
        blind="of lists cut short (0 % before), 100 % in country=FR",
    ),
    "a third of one quartile unanswered": Fault(unanswered, None, says=" % of users have no list (0 % before), "),
    "a category gone from all lists": Fault(
        lambda day: day.giving(everybody(day), lambda ranking: without(ranking, CATEGORY)),
        Part.MEMBERSHIP,
        lost=CATEGORY,
        says="of the drop: everywhere, ",
    ),
    "a block of items on top of all lists": Fault(
        lambda day: day.giving(everybody(day), lambda ranking: [*POPULAR[:3], *ranking[: K - 3]]),
        Part.MEMBERSHIP,
        gained=POPULAR[:3],
        says="of the drop: everywhere, ",
    ),
    "lists of one quartile mixed up": Fault(rolled, Part.MEMBERSHIP, "activity=q3", says="of the drop: activity=q3, "),
    "one country served the lists of another": Fault(
        lambda day: swapped(day, day.users(country="DE"), day.users(country="FR")),
        Part.MEMBERSHIP,
        "country=DE",
        says="of the drop: country=DE, ",
    ),
    "a frozen candidate while items are launched": Fault(
        frozen, Part.MEMBERSHIP, lost=LAUNCHED, says="of the drop: everywhere, "
    ),
}


def run(day: Day, metric: str, past: tuple[Split, ...] = (), slot: int = 0, **changes: Any) -> RunResult:
    names = [f"u{row:05}" for row in range(len(day.baseline))]
    answered = {name: day.candidate[row] for row, name in enumerate(names) if not day.is_missing[row]}
    baseline = dict(zip(names, day.baseline, strict=True))
    segments = {name: [str(value) for value in values] for name, values in day.values.items()}
    opened = arms(pull(baseline), pull(answered), users(*names, **segments))
    watched = comparison(metrics=(metric,), rules=(), **changes)
    moment = SLOT + slot * timedelta(days=1)
    return execute(watched, opened, claim(slot=moment), Memory(splits=past), StillClock(moment))


@cache
def history(metric: str) -> tuple[RunResult, ...]:
    """Healthy runs, each held against those before."""
    results: list[RunResult] = []
    for seed in range(HEALTHY):
        past = tuple(result.split for result in results if result.split)
        results.append(run(draw_day(seed), metric, past, seed))
    return tuple(results)


@cache
def broken(name: str, metric: str) -> RunResult:
    past = tuple(result.split for result in history(metric) if result.split)
    return run(FAULTS[name].plant(draw_day(HEALTHY)), metric, past, HEALTHY)


def explained(result: RunResult) -> Explanation:
    assert result.explanation is not None
    return result.explanation


def mean_of(result: RunResult) -> tuple[float, int]:
    (row,) = [each for each in result.summaries if each.segment == "all"]
    assert row.mean is not None
    return row.mean, row.n


def check_sums(found: Explanation, result: RunResult, past: tuple[RunResult, ...]) -> None:
    """The drop straight from the stored means, against the sum of pieces, and of each dimension's segments and parts."""
    means = [mean_of(each) for each in past]
    before = math.fsum(mean * n for mean, n in means) / sum(n for _, n in means)
    drop = before - mean_of(result)[0]
    assert math.fsum(cause.amount for cause in found.causes) == pytest.approx(drop, abs=1e-9)
    for dimension in ("activity", "country"):
        falls = [fall for fall in found.falls if fall.segment.startswith(f"{dimension}=")]
        assert math.fsum(amount for fall in falls for amount in fall.parts.values()) == pytest.approx(drop, abs=1e-9)
    assert len(found.falls) == 7


@pytest.mark.parametrize("metric", [TAU, RBO])
@pytest.mark.parametrize("name", FAULTS)
def test_what_was_planted_stands_first_and_the_split_sums_to_the_whole(name: str, metric: str) -> None:
    fault, result = FAULTS[name], broken(name, metric)
    found = explained(result)
    check_sums(found, result, history(metric))
    is_blind = metric == RBO and bool(fault.blind)
    assert (fault.blind if is_blind else fault.says) in found.sentence
    if fault.part is not None and not is_blind:
        assert (found.causes[0].part, found.segment) == (fault.part, fault.segment)
    if fault.gained:
        assert {int(item.item) for item in found.gained[: len(fault.gained)]} == set(fault.gained[:10])
    if fault.lost:
        told = [int(item.item) for item in found.lost]
        assert set(told[: len(fault.lost)]) <= set(fault.lost)


@pytest.mark.parametrize("metric", [TAU, RBO])
def test_every_healthy_run_sums_up_too_and_blames_no_segment(metric: str) -> None:
    runs = history(metric)
    for day in range(1, HEALTHY):
        found = explained(runs[day])
        check_sums(found, runs[day], runs[:day])
        assert (found.segment, found.runs) == ("all", day)


def test_missing_users_lead_the_shares_that_rose_with_the_segment_that_misses_them() -> None:
    found = explained(broken("a third of one quartile unanswered", TAU))
    assert [(each.change, each.segment) for each in found.rises[:2]] == [(None, "all"), (None, "activity=q1")]
    assert found.sentence[: found.sentence.index(" %")].isdigit()


def test_representative_users_have_the_fault_and_their_lists_are_shown() -> None:
    found = explained(broken("popular lists for one country", TAU))
    first = found.groups[0].examples
    assert len(first) == 3
    day = draw_day(HEALTHY)
    for each in first:
        assert each.candidate == tuple(map(str, POPULAR))
        assert each.baseline == tuple(map(str, day.baseline[int(each.user[1:])]))
