"""What a run measures beyond its pairs: how similar the baseline is to itself, each arm as a whole, weights, relevance."""

import threading
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest

from factories import SLOT, changed, claim, comparison, pull, rankings, rule
from monitor import compare
from monitor.errors import SourceError
from monitor.metrics.relevance import Ndcg
from monitor.model.alerts import State
from monitor.model.comparison import Keep
from monitor.model.memory import Memory
from monitor.model.rules import Direction
from monitor.model.runs import KeptLists, RunResult, RunStatus
from monitor.model.statistics import NoiseFloor
from monitor.pipeline import pull as pulling
from monitor.pipeline.run import execute
from pipeline.canned import Canned, CannedRelevance, CannedWeights, StillClock, arms, ran, users

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


def test_a_floor_that_cannot_be_had_leaves_the_run_ok_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulling, "GRACE_S", 0.05)
    lists = pull("a:1234")
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
    now = arms(pull("a:1234 b:1234"), pull("a:1234 b:1234"), users("a", "b"))
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


WIDE = comparison(
    k=2, rules=(), arm_metrics=("catalogue_coverage", "mean_popularity", "self_churn", "novelty"), keep_lists=Keep.ALL
)
NAMES = ("a", "b")


def arm_values(result: RunResult, segment: str = "all") -> dict[tuple[str, str], tuple[float | None, int]]:
    return {(each.metric, each.arm.value): (each.value, each.n) for each in result.arm_scores if each.segment == segment}


def test_a_run_measures_each_arm_as_a_whole_by_segment() -> None:
    result = ran(
        WIDE,
        pull("a:12 b:12"),
        pull("a:12 b:34"),
        users(*NAMES, country=["UK", "DE"]),
        weights=CannedWeights({1: 8.0, 2: 4.0, 3: 2.0, 4: 1.0}),
    )
    assert result.catalogue_size == 4
    assert arm_values(result)["catalogue_coverage", "baseline"] == (0.5, 2)
    assert arm_values(result)["catalogue_coverage", "candidate"] == (1.0, 2)
    assert arm_values(result, "country=DE")["catalogue_coverage", "candidate"] == (0.5, 1)
    assert arm_values(result)["mean_popularity", "baseline"][0] == pytest.approx(6.0)
    assert arm_values(result)["self_churn", "candidate"] == (None, 0)


def test_a_configured_catalogue_size_is_what_coverage_is_of() -> None:
    result = ran(changed(WIDE, catalogue_size=100), pull("a:12"), pull("a:12"), users("a"))
    assert result.catalogue_size == 100
    assert arm_values(result)["catalogue_coverage", "baseline"] == (0.02, 1)


def test_the_last_runs_lists_give_churn_and_novelty() -> None:
    before = ran(WIDE, pull({"a": [1, 2], "b": ["x", "y"]}), pull({"a": [1, 2], "b": ["x", "y"]}), users(*NAMES)).lists
    result = ran(
        WIDE,
        pull({"a": ["2", "7"], "c": ["1", "9"]}),
        pull("a:12 c:21"),
        users("a", "c"),
        memory=Memory(last_lists=before),
    )
    assert arm_values(result)["self_churn", "baseline"] == (0.5, 1)
    assert arm_values(result)["self_churn", "candidate"] == (0.0, 1)
    assert arm_values(result)["novelty", "baseline"] == (0.5, 2)  # 7 and 9 of 2, 7, 1, 9
    assert arm_values(result)["novelty", "candidate"] == (0.0, 2)


@pytest.mark.parametrize("items", [[1, 2, 3], ["x", "y", "z"], [2**40, 5, 7]])
def test_lists_are_kept_as_they_were_compared(items: list[Any]) -> None:
    x, y, z = items
    kept = ran(
        changed(WIDE, min_paired_share=0.4),
        pull({"a": [x, x, y, z], "b": [z], "c": []}),
        pull({"a": [z], "b": [y, x], "c": [x]}),
        users("a", "b", "c", country=["UK", "DE", "DE"]),
    ).lists
    assert kept is not None
    assert list(kept.baseline.users) == list(kept.candidate.users) == ["a", "b"]
    assert [list(kept.baseline.items), kept.baseline.offsets.tolist()] == [[x, z], [0, 1, 2]]
    assert [list(kept.candidate.items), kept.candidate.offsets.tolist()] == [[z, y, x], [0, 1, 3]]
    assert {name: rows.tolist() for name, rows in kept.segments.items()} == {
        "all": [0, 1],
        "country=DE": [1],
        "country=UK": [0],
    }


def test_lists_of_a_run_that_is_not_ok_are_not_kept_nor_those_nobody_wants() -> None:
    baseline, half = pull("a:12 b:12"), pull("a:89")
    assert ran(changed(WIDE, min_paired_share=0.9), baseline, half, users(*NAMES)).lists is None
    assert ran(changed(WIDE, keep_lists=Keep.NONE), baseline, baseline, users(*NAMES)).lists is None


def test_items_without_a_weight_are_told() -> None:
    result = ran(WIDE, pull("a:12"), pull("a:13"), users("a"), weights=CannedWeights({1: 2.0, 2: 1.0}))
    assert "1 of 3 listed items have no weight" in (result.reason or "")


NDCG = str(Ndcg(arm="candidate"))


def labelled(name: str) -> Any:
    return comparison(k=2, rules=(), metrics=("overlap", name), keep_lists=Keep.ALL, relevance_within=timedelta(days=7))


def test_relevance_that_is_there_already_is_measured_with_the_run() -> None:
    known = CannedRelevance({SLOT: {"a": {2: 1.0}}})
    result = ran(labelled(NDCG), pull("a:12 b:12"), pull("a:21 b:12"), users(*NAMES), relevance=known)
    found = {summary.metric: summary for summary in result.summaries}
    assert (found[NDCG].mean, found[NDCG].n, found[NDCG].n_undefined) == (1.0, 1, 1)
    assert (result.is_labelled, result.labels_until) == (True, SLOT + timedelta(days=7))
    (scores,) = result.scores or ()
    np.testing.assert_array_equal(scores.by_metric[NDCG], [1.0, np.nan])


def test_a_run_of_nothing_but_relevance_has_no_evidence_before_labels_arrive() -> None:
    opened = arms(pull("a:12"), pull("a:21"), users("a"), relevance=CannedRelevance())
    result = execute(changed(labelled(NDCG), metrics=(NDCG,)), opened, claim(), Memory(), StillClock())
    assert (result.status, result.summaries, result.evidence) == (RunStatus.OK, (), ())


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (SourceError("prices.csv: no such file"), "item_weights: prices.csv: no such file"),
        (threading.Event(), "item_weights: no answer when the run's deadline passed"),
    ],
    ids=["unreadable", "hung"],
)
def test_weights_that_cannot_be_had_cost_what_needs_them_and_not_the_run_which_says_so(
    monkeypatch: pytest.MonkeyPatch, answer: Any, why: str
) -> None:
    monkeypatch.setattr(pulling, "GRACE_S", 0.05)
    lists, quick = pull("a:12"), changed(WIDE, deadline=timedelta(seconds=1))
    result = ran(
        quick if isinstance(answer, threading.Event) else WIDE, lists, lists, users("a"), weights=CannedWeights(answer)
    )
    if isinstance(answer, threading.Event):
        answer.set()
    assert result.status is RunStatus.OK
    assert (result.reason or "").startswith(why)
    assert arm_values(result)["mean_popularity", "baseline"] == (None, 0)
    assert {summary.metric for summary in result.summaries} == {"extended_tau", "rbo(p=0.9)"}


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({}, None),
        ({SLOT: SourceError("bought.parquet has no column 'grades'")}, "relevance: bought.parquet has no column 'grades'"),
    ],
)
def test_relevance_that_has_not_arrived_or_cannot_be_read_is_left_out_and_waited_for(known: Any, reason: str | None) -> None:
    result = ran(labelled(NDCG), pull("a:12"), pull("a:21"), users("a"), relevance=CannedRelevance(known))
    assert (result.status, result.reason) == (RunStatus.OK, reason)
    assert {summary.metric for summary in result.summaries} == {"overlap"}
    assert (result.is_labelled, result.labels_until) == (False, SLOT + timedelta(days=7))
    assert result.lists is not None
