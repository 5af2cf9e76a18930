import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attribution.world import Day, measure, remember
from kernels import reference
from monitor.attribution import CurrentRun, PastRuns, average_parts, explain_metric, split_distances
from monitor.attribution.sentences import LONGEST_SENTENCE
from monitor.metrics import parse, score_all

lists = st.lists(st.integers(0, 8), unique=True, min_size=1, max_size=6)
users = st.tuples(lists, lists, st.sampled_from(["DE", "UK"]), st.sampled_from(["new", "old"]), st.booleans())
days = st.lists(users, min_size=1, max_size=25).map(
    lambda drawn: Day(
        baseline=[user[0] for user in drawn],
        candidate=[user[1] for user in drawn],
        values={"country": np.array([user[2] for user in drawn]), "activity": np.array([user[3] for user in drawn])},
        is_missing=np.array([user[4] for user in drawn]),
    )
)


def test_a_segment_of_which_nobody_answers_leads_and_all_users_are_shown() -> None:
    """New users used to be alike and are gone today: the others lie as far apart as ever."""
    lists = {"new": [7, 8, 9], "old": [1, 2, 3]}

    def day(*, is_new_missing: bool) -> Day:
        activity = np.array(["new", "old"] * 50)
        candidate = [lists["new"]] * 100
        baseline = [lists["new"] if value == "new" else lists["old"] for value in activity]
        missing = (activity == "new") & is_new_missing
        return Day(values={"activity": activity}, baseline=baseline, candidate=candidate, is_missing=missing)

    past = remember([day(is_new_missing=False)], "rbo(p=0.9)")
    found = explain_metric(measure(day(is_new_missing=True), "rbo(p=0.9)"), past, farthest=1)
    assert found is not None
    assert found.segment == "activity=new"
    assert [group.users for group in found.groups] == [50]
    assert found.sentence == (
        "50 of 100 users (50 %), mostly in activity=new (100 % of its users), got no list from the candidate (0 % before). "
        "(No lists of earlier runs are kept.)"
    )


@given(days, st.lists(days, min_size=1, max_size=3), st.sampled_from(["extended_tau", "rbo(p=0.9)"]))
@settings(max_examples=30, deadline=None)
def test_any_run_is_explained_against_any_past_or_not_at_all(day: Day, past: list[Day], metric: str) -> None:
    present, known = measure(day, metric), remember(past, metric)
    found = explain_metric(present, known, farthest=2.0, top=3)
    if all(day.is_missing) or all(all(each.is_missing) for each in past):
        assert found is None
        return
    assert found is not None
    whole = present.parts.whole.mean() - known.means[0].whole
    assert math.fsum(cause.amount for cause in found.causes) == pytest.approx(whole, abs=1e-9)
    assert found.bounds[0] <= found.drop.whole + 1e-9
    assert found.drop.whole <= found.bounds[1] + 1e-9
    assert len(found.sentence) <= LONGEST_SENTENCE
    assert sum(group.share for group in found.groups) == pytest.approx(1)
    rows = [row for group in found.groups for row in group.medoids]
    assert len(set(rows)) == len(rows)
    assert all(0 <= row < len(present.batch) for row in rows)


def test_nothing_is_explained_where_the_metric_is_undefined_for_all() -> None:
    metric = parse("kendall_tau")
    batch = reference.batch([([1, 2], [3, 4])])
    parts = split_distances(batch, lambda each: score_all(each, [metric])["kendall_tau"])
    segments = {"all": np.arange(1)}
    means = average_parts(parts, segments, {})
    assert means[0].n == 0
    assert explain_metric(CurrentRun(batch=batch, parts=parts, segments=segments, means=means), PastRuns(means=means)) is None
