"""How similar the baseline is to itself, and how much farther the candidate is."""

import threading
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

from factories import changed, claim, comparison, pull, rankings, rule
from monitor import compare
from monitor.errors import SourceError
from monitor.model.alerts import State
from monitor.model.memory import Memory
from monitor.model.rules import Direction
from monitor.model.runs import KeptLists, RunResult, RunStatus
from monitor.model.statistics import NoiseFloor
from monitor.pipeline import pull as pulling
from monitor.pipeline.run import execute
from pipeline.canned import Canned, StillClock, arms, ran, users

OVERLAP = "overlap"
FLOORED = comparison(
    k=4, metrics=(OVERLAP, "footrule_normalized"), rules=(rule(metric=OVERLAP, min_users=1),), noise_floor=NoiseFloor.RETRAIN
)


def means(result: RunResult) -> dict[tuple[str, str], Any]:
    return {(each.segment, each.metric): each.mean for each in result.summaries}


def measured(a: list[int], b: list[int]) -> float:
    return compare(a, b, metrics="footrule_normalized")["footrule_normalized"]


def test_the_floor_and_the_excess_over_it_are_series_of_their_own_paired_by_user() -> None:
    baseline = {"a": [1, 2, 3, 4], "b": [5, 6, 7, 8], "c": [1, 2, 3, 4]}
    candidate = {"a": [1, 2, 3, 9], "b": [6, 5, 10, 11], "c": [1, 2, 3, 4]}
    again = {"a": [4, 3, 2, 1], "b": [5, 6, 7, 13]}  # nothing of c, whose excess is not known

    result = ran(
        FLOORED, pull(baseline), pull(candidate), users("a", "b", "c", country=["UK", "DE", "UK"]), again=Canned(pull(again))
    )

    found = means(result)
    assert (result.status, result.reason) == (RunStatus.OK, None)
    assert found["all", "overlap"] == pytest.approx((0.75 + 0.5 + 1) / 3)
    assert found["all", "floor(overlap)"] == pytest.approx((1 + 0.75) / 2)
    assert found["all", "over_floor(overlap)"] == pytest.approx((0.25 + 0.25) / 2)
    assert found["country=UK", "over_floor(overlap)"] == pytest.approx(0.25)
    # Where less is more alike the excess is the score less the floor.
    far, near = ([measured(baseline[user], lists[user]) for user in "ab"] for lists in (candidate, again))
    excess = [over - under for over, under in zip(far, near, strict=True)]
    assert found["all", "over_floor(footrule_normalized)"] == pytest.approx(sum(excess) / 2)
    counted = {each.metric: (each.n, each.n_undefined) for each in result.summaries if each.segment == "all"}
    assert (counted["overlap"], counted["over_floor(overlap)"]) == ((3, 0), (2, 1))
    (told,) = (each for each in result.summaries if (each.segment, each.metric) == ("all", "over_floor(overlap)"))
    assert (told.histogram.low, told.histogram.high) == (-1.0, 1.0)
    (scores,) = result.scores or ()  # the floor's own scores need no room: score and excess tell them
    assert set(scores.by_metric) == {
        "overlap",
        "footrule_normalized",
        "over_floor(overlap)",
        "over_floor(footrule_normalized)",
    }
    np.testing.assert_allclose(scores.by_metric["over_floor(overlap)"], [0.25, 0.25, np.nan])


def test_a_baseline_that_answers_alike_twice_makes_the_excess_the_distance() -> None:
    lists = {"a": [1, 2, 3, 4], "b": [5, 6, 7, 8]}

    found = means(
        ran(FLOORED, pull(lists), pull({"a": [1, 2, 9, 8], "b": [1, 2, 3, 4]}), users("a", "b"), again=Canned(pull(lists)))
    )

    assert found["all", "floor(overlap)"] == 1.0
    assert found["all", "over_floor(overlap)"] == 1.0 - found["all", "overlap"] == 0.75


def test_a_floor_that_cannot_be_had_leaves_the_run_ok_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulling, "GRACE_S", 0.05)
    lists = pull({"a": [1, 2, 3, 4]})
    broken = SourceError("file: again.parquet is not there", permanent=True)
    hung = threading.Event()

    for answer, why in (
        (broken, "noise_floor: file: again.parquet is not there"),
        (hung, "noise_floor: no answer when the run's deadline passed"),
    ):
        slow = StillClock()
        watched = changed(FLOORED, rules=(), noise_floor=NoiseFloor.SERVE, deadline=timedelta(seconds=1), metrics=(OVERLAP,))
        result = execute(watched, arms(lists, lists, users("a"), again=Canned(answer)), claim(), Memory(), slow)
        assert result.status is RunStatus.OK
        assert why in str(result.reason)
        assert set(means(result)) == {("all", "overlap")}
    hung.set()


def test_a_temporal_floor_compares_with_the_baseline_of_the_last_run() -> None:
    watched = comparison(k=4, metrics=(OVERLAP,), rules=(), noise_floor=NoiseFloor.TEMPORAL)
    now = arms(pull({"a": [1, 2, 3, 4], "b": [1, 2, 3, 4]}), pull({"a": [1, 2, 3, 4], "b": [1, 2, 3, 4]}), users("a", "b"))
    last = KeptLists(
        baseline=rankings({"a": [1, 2, 8, 9], "gone": [1, 2, 3, 4]}),
        candidate=rankings({"a": [7, 8, 9, 10], "gone": [1, 2, 3, 4]}),
        segments={"all": np.array([0, 1])},
    )

    first = execute(watched, now, claim(), Memory(), StillClock())
    later = execute(watched, now, claim(), Memory(last_lists=last), StillClock())

    assert first.reason == "noise_floor: no earlier run kept its lists"
    assert later.reason is None
    assert means(later)["all", "floor(overlap)"] == 0.5
    assert means(later)["all", "over_floor(overlap)"] == -0.5  # the candidate is nearer than the baseline's last lists
    assert {each.n for each in later.summaries if each.metric != "overlap"} == {1}


def test_ids_as_text_are_matched_between_the_two_answers_of_the_baseline() -> None:
    text = {"a": ["x", "y", "z", "w"]}
    asked = arms(pull(text), pull({"a": ["x", "y", "q", "r"]}), users("a"), again=Canned(pull({"a": ["w", "x", "y", "k"]})))

    found = means(execute(FLOORED, asked, claim(), Memory(), StillClock()))

    assert (found["all", "overlap"], found["all", "floor(overlap)"]) == (0.5, 0.75)
    assert isinstance(asked.baseline, Canned)
    assert pd.api.types.is_string_dtype(asked.baseline.answer.rankings.items.dtype)


def test_a_rule_on_the_excess_breaches_above_its_margin() -> None:
    lists = {name: [1, 2, 3, 4] for name in "abc"}
    over = rule(metric="over_floor(overlap)", direction=Direction.ABOVE, threshold=0.2, resolve_at=0.2, for_runs=1, min_users=1)
    watched = comparison(k=4, metrics=(OVERLAP,), rules=(over,), noise_floor=NoiseFloor.SERVE)

    (transition,) = ran(
        watched, pull(lists), pull({name: [1, 2, 3, 9] for name in "abc"}), users(*"abc"), again=Canned(pull(lists))
    ).transitions

    assert transition.to_state is State.FIRING
    assert transition.reason == "mean of over_floor(overlap) is 0.25 over 3 users, above 0.2"
