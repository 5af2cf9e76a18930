"""Faults injected into real lists: segment, items and kind of each come first in the explanation."""

from collections import Counter
from functools import cache

import numpy as np
import pandas as pd
import pytest

from attribution.world import Day, K, explain_day
from drift_lists import lists_folder
from kernels import reference
from monitor.attribution import CodedExplanation
from monitor.metrics import parse, score_all
from monitor.model import Part

METRICS = ["extended_tau", "rbo(p=0.9)"]


@cache
def day_of(name: str, day: int) -> Day:
    baseline, candidate = (pd.read_parquet(lists_folder() / arm / f"2024-01-{day:02}.parquet") for arm in ("baseline", name))
    lists = dict(zip(candidate.user_id, candidate["items"], strict=True))
    return Day(
        values={dimension: baseline[dimension].to_numpy(dtype=str) for dimension in ("activity", "country")},
        baseline=[list(map(int, ranking[:K])) for ranking in baseline["items"]],
        candidate=[list(map(int, lists.get(user, [])[:K])) for user in baseline.user_id],
        is_missing=~baseline.user_id.isin(candidate.user_id).to_numpy(),
    )


@cache
def explanation(name: str, day: int, metric: str, healthy_until: int = 7) -> CodedExplanation:
    return explain_day(day_of(name, day), [day_of(name, each) for each in range(1, healthy_until + 1)], metric)


def popular(name: str, day: int) -> set[int]:
    """The items of the popularity list: the candidate's list that most users share."""
    return set(Counter(map(tuple, day_of(name, day).candidate)).most_common(1)[0][0])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("day", range(8, 15))
def test_the_country_on_popular_items_comes_first(day: int, metric: str) -> None:
    found = explanation("seg2-nonUK-pop", day, metric)
    assert found.segment == "country=nonUK"
    assert (found.causes[0].part, found.causes[0].segment) == (Part.MEMBERSHIP, "country=nonUK")
    assert {item.code for item in found.items.gained[:3]} <= popular("seg2-nonUK-pop", day)
    assert " of the drop: country=nonUK, " in found.sentence
    assert found.rises
    assert " % of lists mostly replaced" in found.sentence


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("day", range(8, 15))
def test_every_fifth_user_on_popular_items_is_no_segment_and_its_items_come_first(day: int, metric: str) -> None:
    found = explanation("pop20", day, metric)
    assert found.segment == "all"
    assert found.causes[0].part is Part.MEMBERSHIP
    assert {item.code for item in found.items.gained[:3]} <= popular("pop20", day)
    shown = [set(day_of("pop20", day).candidate[row]) for row in found.groups[0].medoids]
    assert shown.count(popular("pop20", day)) > len(shown) / 2


@pytest.mark.parametrize("day", range(8, 15))
def test_short_lists_come_first_where_the_metric_sees_them(day: int) -> None:
    found = explanation("trunc5", day, "extended_tau")
    assert (found.segment, found.causes[0].part) == ("all", Part.LENGTH)
    assert ": everywhere, lists cut short; " in found.sentence


@pytest.mark.parametrize("day", range(8, 15))
def test_short_lists_come_first_where_the_metric_does_not_see_them(day: int) -> None:
    found = explanation("trunc5", day, "rbo(p=0.9)")
    assert found.drop.parts[Part.LENGTH] == pytest.approx(0)
    assert found.sentence.startswith("100 % of lists cut short (0 % before); ")


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("day", range(8, 15))
def test_missing_users_come_first(day: int, metric: str) -> None:
    found = explanation("missing5", day, metric)
    assert found.segment == "all"
    assert found.sentence.startswith("5 % of users have no list (0 % before); ")
    assert found.missing.most - found.missing.least > found.drop.whole


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("day", range(8, 15))
def test_a_frozen_model_fails_new_users_first(day: int, metric: str) -> None:
    """Nobody told the frozen model of users who came later: they get popular items."""
    found = explanation("stale3", day, metric, 4)
    assert found.segment == "activity=new"
    assert found.causes[0].part is Part.MEMBERSHIP


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", ["ok-seed", "ok-hyper"])
@pytest.mark.parametrize("day", range(8, 15))
def test_no_segment_is_blamed_for_a_healthy_candidate(name: str, day: int, metric: str) -> None:
    found = explanation(name, day, metric)
    assert found.segment == "all"
    assert "no list" not in found.sentence
    assert "cut short" not in found.sentence


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", ["ok-seed", "pop20", "trunc5", "missing5", "stale3"])
def test_parts_sum_to_the_difference_of_the_means_on_every_day(name: str, metric: str) -> None:
    """Means taken straight from the scores."""
    kind = parse(metric)
    means = []
    for each in (day_of(name, 1), day_of(name, 11)):
        rows = np.flatnonzero(~each.is_missing)
        batch = reference.batch([(each.baseline[row], each.candidate[row]) for row in rows], K)
        means.append(float(score_all(batch, [kind])[metric].mean()))
    found = explain_day(day_of(name, 11), [day_of(name, 1)], metric)
    assert sum(found.drop.parts.values()) == pytest.approx(means[0] - means[1], abs=1e-9)
    assert sum(each.whole for each in found.drop.segments) == pytest.approx(means[0] - means[1], abs=1e-9)
