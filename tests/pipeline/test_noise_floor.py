"""What a run measures beyond its pairs: how similar the baseline is to itself, each arm as a whole, weights, relevance."""

import threading
from dataclasses import replace
from math import nan
from typing import Any

import numpy as np
import pytest

from factories import DAY, SECOND, SLOT, changed, comparison, pull, rule
from monitor.model.alerts import Outcome
from monitor.model.errors import SourceError
from monitor.model.memory import Memory
from monitor.model.rankings import Traces
from monitor.model.rules import Direction, Keep
from monitor.model.runs import KeptLists, RunStatus
from monitor.model.statistics import NoiseFloor
from monitor.pipeline import pull as pulling
from pipeline.canned import Canned, CannedRelevance, CannedTitles, CannedWeights, ran, users
from tables import cells

OVERLAP = "overlap"
FLOORED = comparison(
    k=4,
    metrics=(OVERLAP, "footrule_normalized"),
    rules=(rule(metric=OVERLAP, min_users=1),),
    noise_floor=NoiseFloor.RETRAIN,
)


def means(result):
    return {(each.segment, each.metric): each.mean for each in result.summaries}


def test_the_noise_floor_and_the_excess_are_measured_for_each_user():
    asked = users("a", "b", "c", country=["UK", "DE", "UK"])
    second_baseline = Canned(pull("a:4321 b:5679"))  # nothing of c, whose excess is not known
    result = ran(
        FLOORED,
        "a:1234 b:5678 c:1234",
        "a:1239 b:6501 c:1234",
        asked,
        second_baseline=second_baseline,
    )

    found = means(result)
    assert result.status == RunStatus.OK
    assert result.reason is None
    assert found["all", "overlap"] == pytest.approx((0.75 + 0.5 + 1) / 3)
    assert found["all", "floor(overlap)"] == pytest.approx((1 + 0.75) / 2)
    assert found["all", "over_floor(overlap)"] == pytest.approx((0.25 + 0.25) / 2)
    assert found["country=UK", "over_floor(overlap)"] == pytest.approx(0.25)
    # The floor's own scores need no room: score and excess tell them. Where less is more alike the
    # excess is the score less the floor: 0 less 1 of a, which is turned round, and 1 less 0 of b.
    (scores,) = result.scores
    for name, excess in (("overlap", [0.25, 0.25, nan]), ("footrule_normalized", [-1, 1, nan])):
        np.testing.assert_allclose(scores.by_metric[f"over_floor({name})"], excess)
    assert len(scores.by_metric) == 4
    (told,) = (
        each
        for each in result.summaries
        if (each.segment, each.metric) == ("all", "over_floor(overlap)")
    )
    assert told.n == 2
    assert told.n_undefined == 1
    assert told.histogram.low == -1.0
    assert told.histogram.high == 1.0


def test_a_noise_floor_of_few_users_is_reported():
    result = ran(FLOORED, "a:1 b:1 c:1", "a:1 b:1 c:1", second_baseline=Canned(pull("A:1 b:1")))
    said = "only 1 of 3 compared users have a second list of the baseline: check that users' ids"
    assert said in result.reason


@pytest.mark.parametrize(
    "answer, reason",
    [
        (
            SourceError("no such file"),
            "item_weights: no such file; noise_floor: no such file; item_titles: no such file",
        ),
        (
            threading.Event(),
            (
                "item_weights: no answer when the run's deadline passed after 1.0 s; "
                "noise_floor: no answer when the run's deadline passed after 1.0 s; "
                "item_titles: no answer within 1 s: items are shown by their ids"
            ),
        ),
    ],
    ids=["unreadable", "hung"],
)
def test_a_missing_input_removes_only_the_metrics_that_need_it_and_the_run_names_it(
    monkeypatch, answer, reason
):
    monkeypatch.setattr(pulling, "SOURCE_GRACE_S", 0.05)
    watched = changed(WIDE, noise_floor=NoiseFloor.SERVE, metrics=(OVERLAP,), deadline=SECOND)
    more: Any = {
        "second_baseline": Canned(answer),
        "weights": CannedWeights(answer),
        "titles": CannedTitles(answer),
    }
    result = ran(watched, "a:1234", "a:1234", **more)
    if isinstance(answer, threading.Event):
        answer.set()
    assert result.status is RunStatus.OK
    assert result.reason == reason
    assert set(means(result)) == {("all", "overlap")}
    assert arm_values(result)["mean_popularity", "baseline"] == (None, 0)
    assert {item.title for item in result.explanation.gained} <= {None}


def test_a_temporal_floor_compares_with_the_baseline_of_the_last_run():
    watched = comparison(k=4, metrics=(OVERLAP,), rules=(), noise_floor=NoiseFloor.TEMPORAL)
    now = "a:1234 b:1234"
    last = KeptLists(
        baseline=pull("a:1289 gone:1234").rankings,
        candidate=pull("a:7890 gone:1234").rankings,
        segments={"all": np.array([0, 1])},
    )

    first = ran(watched, now, now)
    later = ran(watched, now, now, memory=Memory(last_lists=last))

    assert first.reason == "noise_floor: no earlier run has stored its lists"
    assert later.reason is None
    # The candidate is nearer than the baseline's last lists.
    assert means(later)["all", "floor(overlap)"] == 0.5
    assert means(later)["all", "over_floor(overlap)"] == -0.5
    assert {each.n for each in later.summaries if each.metric != "overlap"} == {1}


WIDE = comparison(
    k=2,
    rules=(),
    arm_metrics=("catalogue_coverage", "mean_popularity", "self_churn", "novelty"),
    keep_lists=Keep.ALL,
)
NAMES = ("a", "b")


def arm_values(result, segment="all"):
    return {
        (each.metric, each.arm.value): (each.value, each.n)
        for each in result.arm_scores
        if each.segment == segment
    }


def test_arm_metrics_are_measured_for_each_arm_and_segment():
    asked = users(*NAMES, country=["UK", "DE"])
    weights = CannedWeights({1: 8.0, 2: 4.0, 3: 2.0})
    result, sized = (
        ran(changed(WIDE, catalogue_size=size), "a:12 b:12", "a:12 b:34", asked, weights=weights)
        for size in (None, 100)
    )
    assert result.catalogue_size == 4
    assert sized.catalogue_size == 100
    assert str(result.reason).startswith(
        "item_weights: 1 of 4 listed items have no weight, so metrics that need weights leave out 1 of 2 "
        "users"
    )
    found = arm_values(result)
    assert found["catalogue_coverage", "baseline"] == (0.5, 2)
    assert found["catalogue_coverage", "candidate"] == (1.0, 2)
    assert arm_values(result, "country=DE")["catalogue_coverage", "candidate"] == (0.5, 1)
    assert arm_values(sized)["catalogue_coverage", "baseline"] == (0.02, 2)
    assert found["mean_popularity", "baseline"][0] == pytest.approx(6.0)
    assert found["self_churn", "candidate"] == (None, 0)


def test_the_last_runs_lists_give_churn_and_novelty():
    before = pull({"a": [1, 2], "b": ["x", "y"]})
    memory = Memory(last_lists=ran(WIDE, before, before).lists)
    result = ran(
        WIDE, pull({"a": ["2", "7"], "c": ["1", "9"]}), "a:12 c:21", users("a", "c"), memory=memory
    )
    found = arm_values(result)
    assert found["self_churn", "baseline"] == (0.5, 1)
    assert found["self_churn", "candidate"] == (0.0, 1)
    # 7 and 9 of 2, 7, 1, 9.
    assert found["novelty", "baseline"] == (0.5, 2)
    assert found["novelty", "candidate"] == (0.0, 2)


NDCG = "ndcg(arm=candidate)"
LABELLED = comparison(
    k=2, rules=(), metrics=(OVERLAP, NDCG), keep_lists=Keep.ALL, relevance_within=7 * DAY
)


def test_a_run_with_only_relevance_metrics_has_no_evidence_before_labels_arrive():
    only = changed(LABELLED, metrics=(NDCG,))
    result = ran(only, "a:12", "a:21", relevance=CannedRelevance())
    assert result.status == RunStatus.OK
    assert not result.summaries
    assert not result.evidence


def test_a_run_without_readable_relevance_skips_its_metrics_and_waits_for_labels():
    unreadable = SourceError("bought.parquet has no column 'grades'")
    waits: Any = [
        ({}, None),
        ({SLOT: unreadable}, f"relevance: {unreadable}"),
    ]
    for known, reason in waits:
        result = ran(LABELLED, "a:12", "a:21", relevance=CannedRelevance(known))
        assert result.status == RunStatus.OK
        assert result.reason == reason
        assert {summary.metric for summary in result.summaries} == {"overlap"}
        assert not result.is_labelled
        assert result.labels_until == SLOT + 7 * DAY
        assert result.lists


PLACES = np.arange(500)
MANY = [f"u{number:03}" for number in PLACES]
OVER = rule(
    metric="over_floor(overlap)",
    direction=Direction.ABOVE,
    threshold=0.2,
    resolve_at=0.2,
    min_users=1,
)
SERVED = comparison(k=4, metrics=("overlap",), rules=(OVER,), noise_floor=NoiseFloor.SERVE)
FEW, ENOUGH = (np.where(count > PLACES, 0.0, nan) for count in (5, 6))


def answers(*, last=4, changed=0, came=PLACES, age=nan, ids=nan):
    """Lists that end so, the ``changed`` first ones otherwise."""
    found = pull({name: [1, 2, 3, last + (place < changed)] for place, name in enumerate(MANY)})
    came_s, age_s, of_ids = (each + 0.0 * PLACES for each in (came, age, ids))
    traces = Traces(came_s=came_s, age_s=age_s, ids=of_ids, cache_header="Age: 3")
    return replace(found, rankings=replace(found.rankings, traces=traces))


def measured(first, second, candidate=None, overlaps=()):
    asked = candidate or answers(last=9)
    memory = Memory(floor_overlaps=overlaps)
    return ran(SERVED, first, asked, users(*MANY), memory=memory, second_baseline=Canned(second))


ANSWERS: Any = {
    "plain": {},
    "aged": {"age": 3.0},
    "six aged": {"age": ENOUGH},
    "five aged": {"age": FEW},
    "stored then": {"came": PLACES + 0.5, "age": 0.0},  # the first one, when the second one came
    "own ids": {"ids": PLACES},
    "late, own ids": {"came": PLACES + 0.5, "ids": PLACES},
    "next ids": {"ids": PLACES + 1},
    "one id": {"ids": 5},
    "three ids": {"ids": PLACES % 3},  # those of machines
    "one changed": {"changed": 1},
}
UNTRUSTED = """
# first        second       overlaps before  told
plain          aged         -                a cache gave one of the two answers for 500 of 500 users (Age: 3)
plain          six aged     -                for 6 of 500 users
plain          five aged    1 1 1 1 1 1      -
stored then    plain        -                for 500 of 500 users (Age: 3)
late, own ids  next ids     -                -
own ids        own ids      -                both answers have the same id for 500 of 500 users
one id         one id       -                -
three ids      three ids    -                -
plain          plain        0.91 0.95 0.9    the last runs say that the chance of this is 1 in 1e11
plain          one changed  0.9 0.9 0.9      -
# Of two runs one does not know, and by chance it happens once in 4 million runs.
plain          plain        0.9 0.9          -
plain          plain        0.91 0.95 0.97   -
"""


def test_a_noise_floor_of_repeated_answers_is_not_judged_and_one_of_a_deterministic_baseline_is():
    for first, second, overlaps, told in cells(UNTRUSTED):
        before = tuple(map(float, overlaps.strip("-").split()))
        result = measured(answers(**ANSWERS[first]), answers(**ANSWERS[second]), overlaps=before)
        (state,), reason = result.states, str(result.reason)
        if told == "-":
            assert result.reason is None
            assert state.outcome == Outcome.BREACH
        else:
            assert reason.startswith("noise_floor is untrusted: ")
            assert told in reason
            assert state.outcome == Outcome.NO_DATA
            assert {each.metric for each in result.summaries} == {"overlap"}
            assert reason.startswith(str(state.reason))


def test_an_arm_that_answers_from_a_cache_is_named_and_the_noise_floor_is_kept():
    before = measured(answers(age=300.0), answers(came=PLACES + 9))
    assert (
        before.reason
        == "the baseline answered 500 of 500 users from a cache, up to 300 s old (Age: 3)"
    )
    assert {each.metric for each in before.summaries} > {"over_floor(overlap)"}
    candidate = measured(answers(), answers(), answers(last=9, age=ENOUGH))
    assert candidate.reason == "the candidate answered 6 of 500 users from a cache (Age: 3)"


def test_gaps_are_those_between_the_answers_of_each_user_who_has_both():
    result = measured(
        answers(),
        answers(came=PLACES - np.where(PLACES < 400, 0.25, 3.0)),
        answers(came=PLACES + 0.5),
    )
    assert result.gap_s == {
        "candidate": {"0.5": 0.5, "0.99": 0.5},
        "noise_floor": {"0.5": 0.25, "0.99": 3.0},
    }
    assert not measured(pull("u001:1"), answers()).gap_s
