"""What a run measures beyond pairs: each arm as a whole, weights of items, relevance; and the lists it keeps."""

import threading
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from factories import SLOT, changed, claim, comparison, pull
from monitor.errors import SourceError
from monitor.metrics.relevance import Ndcg
from monitor.model.comparison import Keep
from monitor.model.memory import Memory
from monitor.model.runs import RunResult, RunStatus
from monitor.pipeline import pull as pulling
from monitor.pipeline.run import execute
from pipeline.canned import CannedRelevance, CannedWeights, StillClock, arms, ran, users

WIDE = comparison(
    k=2, rules=(), arm_metrics=("catalogue_coverage", "mean_popularity", "self_churn", "novelty"), keep_lists=Keep.ALL
)
NAMES = ("a", "b")


def arm_values(result: RunResult, segment: str = "all") -> dict[tuple[str, str], tuple[float | None, int]]:
    return {(each.metric, each.arm.value): (each.value, each.n) for each in result.arm_scores if each.segment == segment}


def test_a_run_measures_each_arm_as_a_whole_by_segment() -> None:
    result = ran(
        WIDE,
        pull({"a": [1, 2], "b": [1, 2]}),
        pull({"a": [1, 2], "b": [3, 4]}),
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
    result = ran(changed(WIDE, catalogue_size=100), pull({"a": [1, 2]}), pull({"a": [1, 2]}), users("a"))
    assert result.catalogue_size == 100
    assert arm_values(result)["catalogue_coverage", "baseline"] == (0.02, 1)


def test_the_last_runs_lists_give_churn_and_novelty() -> None:
    before = ran(WIDE, pull({"a": [1, 2], "b": ["x", "y"]}), pull({"a": [1, 2], "b": ["x", "y"]}), users(*NAMES)).lists
    result = ran(
        WIDE,
        pull({"a": ["2", "7"], "c": ["1", "9"]}),
        pull({"a": [1, 2], "c": [2, 1]}),
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
    baseline, half = pull({"a": [1, 2], "b": [1, 2]}), pull({"a": [8, 9]})
    assert ran(changed(WIDE, min_paired_share=0.9), baseline, half, users(*NAMES)).lists is None
    assert ran(changed(WIDE, keep_lists=Keep.NONE), baseline, baseline, users(*NAMES)).lists is None


def test_a_segment_of_which_too_little_answered_has_no_arm_scores_and_no_kept_segment() -> None:
    names = [f"u{i:02}" for i in range(30)]
    lists = {name: [1, 2] for name in names}
    some = pull({name: [1, 2] for name in names[:23]})
    result = ran(WIDE, pull(lists), some, users(*names, country=["DE"] * 20 + ["UK"] * 10))
    assert {score.segment for score in result.arm_scores} == {"all", "country=DE"}
    assert result.lists is not None
    assert set(result.lists.segments) == {"all", "country=DE"}


def test_items_without_a_weight_are_told() -> None:
    result = ran(WIDE, pull({"a": [1, 2]}), pull({"a": [1, 3]}), users("a"), weights=CannedWeights({1: 2.0, 2: 1.0}))
    assert "1 of 3 listed items have no weight" in (result.reason or "")


NDCG = str(Ndcg(arm="candidate"))


def labelled(name: str) -> Any:
    return comparison(k=2, rules=(), metrics=("overlap", name), keep_lists=Keep.ALL, relevance_within=timedelta(days=7))


def test_relevance_that_is_there_already_is_measured_with_the_run() -> None:
    known = CannedRelevance({SLOT: {"a": {2: 1.0}}})
    result = ran(
        labelled(NDCG), pull({"a": [1, 2], "b": [1, 2]}), pull({"a": [2, 1], "b": [1, 2]}), users(*NAMES), relevance=known
    )
    found = {summary.metric: summary for summary in result.summaries}
    assert (found[NDCG].mean, found[NDCG].n, found[NDCG].n_undefined) == (1.0, 1, 1)
    assert (result.is_labelled, result.labels_until) == (True, SLOT + timedelta(days=7))
    (scores,) = result.scores or ()
    np.testing.assert_array_equal(scores.by_metric[NDCG], [1.0, np.nan])


def test_a_run_of_nothing_but_relevance_has_no_evidence_before_labels_arrive() -> None:
    opened = arms(pull({"a": [1, 2]}), pull({"a": [2, 1]}), users("a"), relevance=CannedRelevance())
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
    lists, quick = pull({"a": [1, 2]}), changed(WIDE, deadline=timedelta(seconds=1))
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
    result = ran(labelled(NDCG), pull({"a": [1, 2]}), pull({"a": [2, 1]}), users("a"), relevance=CannedRelevance(known))
    assert (result.status, result.reason) == (RunStatus.OK, reason)
    assert {summary.metric for summary in result.summaries} == {"overlap"}
    assert (result.is_labelled, result.labels_until) == (False, SLOT + timedelta(days=7))
    assert result.lists is not None
