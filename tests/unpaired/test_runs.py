"""Runs of unpaired comparisons over lists that were written by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from factories import DAY, SLOT, changed, claim, comparison, coverage_rule, pull, rule, state
from monitor.alerts.rule_evaluation import Figures
from monitor.model.alerts import State
from monitor.model.errors import SourceError
from monitor.model.instants import format_instant
from monitor.model.memory import Memory
from monitor.model.rankings import ALL, Arm, CoverageReason
from monitor.model.rules import Condition, ConditionRule
from monitor.model.run_reasons import RunReasonKind
from monitor.model.runs import RunStatus
from monitor.model.unpaired import ArmCounts, AssignedUsers, UnpairedPlan
from monitor.pipeline.pseudonyms import Pseudonyms
from monitor.pipeline.pull import ComparisonSources, UnpairedSources
from monitor.pipeline.rule_series import RuleSeries
from monitor.pipeline.run import execute
from monitor.pipeline.run_measurement import measure_slot
from monitor.pipeline.stopwatch import Stopwatch
from monitor.statistics.unpaired import split
from monitor.statistics.unpaired.gaps import AffectedUsers, angle_gap
from pipeline.canned import Canned, StillClock, users
from tables import cells

PLAN = UnpairedPlan(before=SLOT - DAY, since=SLOT - DAY, baseline_share=0.5)
SPLIT_OFF = ConditionRule(alert="SplitOff", condition=Condition.SPLIT_OFF)
NO_DATA = ConditionRule(alert="NoData", condition=Condition.NO_DATA)
ARMS_DIFFERED = ConditionRule(alert="ArmsDiffered", condition=Condition.ARMS_DIFFERED)
WHAT = comparison(
    k=2,
    unpaired=PLAN,
    metrics=("overlap",),
    arm_metrics=("shared_list", "identical_list"),
    rules=(),
)
BEFORE = "a:12 b:34 c:56 d:12 e:34 f:56"


def by_arm(baseline, candidate):
    """The values of both arms, by arm."""
    return dict(zip(Arm, (baseline, candidate), strict=True))


class Assigned(Canned):
    def assigned(self, _):
        return self.given(None)


def assign(baseline, candidate):
    """Users that were assigned to the arms. A user of both arms has switched."""
    switched = sorted({*baseline} & {*candidate})
    count = by_arm(len(baseline) - len(switched), len(candidate) - len(switched))
    return AssignedUsers(count=count, switched=pd.Index(switched, dtype="str"))


def sources(
    baseline="a:12 b:34 c:12", candidate="d:12 e:34 f:12", assigned=None, before=BEFORE, **more
):
    """The arms have these current lists. The users a, b and c are in the baseline."""
    assigned = assigned or assign("abc", "def")
    lists = (
        Canned(pull(each) if isinstance(each, str) else each) for each in (baseline, candidate)
    )
    return ComparisonSources(
        baseline=Canned(pull(before)),
        candidate=Canned(pull("")),
        users=users(
            *"abcdef",
            country=["UK", "UK", "DE"] * 2,
            rankwatch_arm=[*["baseline"] * 3, *["candidate"] * 3],
        ),
        dimensions=("country",),
        unpaired=UnpairedSources(lists=by_arm(*lists), assigned=Assigned(assigned)),
        **more,
    )


def ran(arms, what=WHAT, **remembered):
    return execute(what, arms, claim(), Memory(**remembered), StillClock())


def test_each_arm_is_compared_with_its_users_lists_of_before():
    result = ran(sources("a:12 b:34", "d:12 e:78 f:67"))
    assert (result.status, result.reasons) == (RunStatus.OK, ())
    found = {(each.segment, each.metric): each for each in result.summaries}
    of_all = [(each.metric, each.n, each.mean) for each in result.summaries if each.segment == ALL]
    # The lists of a, b and d did not change, and half of the list of f.
    assert of_all == [
        ("self_gap(overlap)", 5, 0.5),
        ("far_gap(overlap)", 5, pytest.approx(1 / 3)),
        ("baseline_self(overlap)", 2, 1.0),
        ("candidate_self(overlap)", 3, 0.5),
    ]
    far = AffectedUsers(affected=0, users=2), AffectedUsers(affected=1, users=3)
    learned = RuleSeries(rule(metric="far_gap(overlap)", min_users=1), ALL)
    figures = Figures.of(result.summaries, result.coverage.rows)
    assert learned.read(figures) == (angle_gap(*far).value, angle_gap(*far).error)
    of_three = RuleSeries(coverage_rule("missing(baseline)", min_users=3), ALL)
    assert np.isfinite(of_three.read(figures)).all()
    gap = found[ALL, "self_gap(overlap)"]
    assert gap.standard_error == found[ALL, "candidate_self(overlap)"].standard_error
    # In DE the baseline has no compared user.
    for name in ("self_gap", "far_gap"):
        assert found["country=DE", f"{name}(overlap)"].mean is None
    assert replace(learned, segment="country=DE").show_for_people([0.1], figures) == [None]
    assert found["country=UK", "self_gap(overlap)"].mean == 0.5
    everybody = result.coverage.all
    assert (everybody.asked, everybody.paired, everybody.comparable) == (6, 5, 5)
    assert everybody.users_by_reason == {(Arm.BASELINE, CoverageReason.MISSING): 1}
    assert [everybody.asked_of(arm) for arm in (*Arm, None)] == [3, 3, 6]
    (scores,) = result.scores
    assert "".join(scores.users) == "abdef"
    nan = np.nan
    np.testing.assert_array_equal(
        [*scores.by_metric.values()], [[1, 1, nan, nan, nan], [nan, nan, 1, 0, 0.5]]
    )
    assert {each.user: list(each.scores) for each in result.evidence} == {
        user: ["candidate_self(overlap)" if user in "def" else "baseline_self(overlap)"]
        for user in "abdef"
    }
    third = pytest.approx(1 / 3)
    traits = [(each.metric, each.value) for each in result.arm_scores if each.segment == ALL]
    of_baseline = [("shared_list", 0.5), ("identical_list", 1.0)]
    assert traits == [*of_baseline, ("shared_list", third), ("identical_list", third)]
    # Before as now, no two users of an arm have the same list.
    gaps = {each.metric: each for each in result.unpaired.arm_gaps if each.segment == ALL}
    assert gaps["shared_list"].values_before == by_arm(0.5, third)
    assert gaps["shared_list"].adjusted == 0
    found = result.unpaired
    assert found.users == by_arm(
        ArmCounts(assigned=3, served=2, compared=2), ArmCounts(assigned=3, served=3, compared=3)
    )
    assert (found.switched, found.log_e) == (0, split.log_evidence(3, 3, 0.5))
    exposure = {each.item: tuple(each.lists.values()) for each in found.items}
    assert exposure["3"] == (1, 0)
    assert exposure["7"] == (0, 2)


def test_the_size_of_batches_changes_nothing():
    arms = sources("a:12 b:34 c:78", "d:12 e:78 f:67")
    one, all_at_once = (
        measure_slot(WHAT, arms, SLOT, Memory(), Stopwatch(StillClock()), batch_users=size).run
        for size in (1, 100)
    )
    for name in ("summaries", "coverage", "evidence", "arm_scores", "unpaired", "explanation"):
        assert getattr(one, name) == getattr(all_at_once, name)


def test_an_arm_that_cannot_be_read_fails_the_run_with_its_reason():
    failed = pull("", dict.fromkeys("def", CoverageReason.UNAVAILABLE))
    failed = replace(failed, notes={CoverageReason.UNAVAILABLE: "log.parquet is missing"})
    result = ran(sources(candidate=failed))
    assert result.status is RunStatus.INSUFFICIENT
    assert result.reason == (
        "no user has a list from the candidate; the candidate gave no list for 3 of 3 users: "
        "log.parquet is missing; the baseline answered 3 of 3"
    )


def test_users_of_both_arms_are_left_out_even_if_users_have_pseudonyms():
    for pseudonyms in (None, Pseudonyms(b"k" * 32)):
        found = ran(sources(assigned=assign("abcd", "def"), pseudonyms=pseudonyms))
        assert found.unpaired.switched == 1
        assert found.unpaired.users == by_arm(
            ArmCounts(assigned=3, served=3, compared=3), ArmCounts(assigned=2, served=2, compared=2)
        )
        assert [each.kind for each in found.reasons] == [RunReasonKind.SWITCHED]


def test_users_since_the_test_began_that_are_gone_are_reported_in_all_later_runs():
    earlier = ran(sources()).unpaired
    assert earlier.most_users == 6
    result = ran(sources(assigned=assign("ab", "def")), last_unpaired=earlier)
    assert (result.status, result.unpaired.most_users) == (RunStatus.OK, 6)
    assert result.reason.startswith("there are 5 users since the test began, but an earlier run")


BEFORE = """
a:12 b:34 c:56 d:12  insufficient  only 1 of 3 users of the candidate (33 %) have a pre-test list, under min_paired_share 50 %
z:12                 failed        only 0 of 3 users of the baseline (0 %) have a pre-test list
"""


@pytest.mark.filterwarnings("error")
def test_a_run_is_not_judged_if_most_users_of_an_arm_have_no_list_of_before():
    for before, status, reason in cells(BEFORE):
        result = ran(sources(before=before))
        assert result.status == status
        assert result.reason.startswith(reason)


def test_shares_of_an_arm_are_shares_of_its_own_users():
    missing = coverage_rule("missing(baseline)", threshold=0.3, min_users=1)
    what = changed(WHAT, rules=(missing,))
    (judged,) = ran(sources("a:12 b:34", "d:12 e:34 f:12"), what).states
    assert (judged.value, judged.users, judged.state) == (pytest.approx(1 / 3), 3, State.FIRING)


CONDITIONS = """
# evidence  before  SplitOff  NoData
-1          quiet   quiet     quiet
6.8         quiet   quiet     quiet
6.91        quiet   firing    quiet
3.5         firing  firing    quiet
3.4         firing  quiet     quiet
"""


@pytest.mark.parametrize("evidence, before, after, no_data", cells(CONDITIONS))
def test_a_split_that_is_off_has_its_own_alert_until_the_test_begins_again(
    evidence, before, after, no_data, monkeypatch
):
    measured = "monitor.pipeline.unpaired_users.log_evidence"
    monkeypatch.setattr(measured, lambda *_: float(evidence))
    is_off = after == "firing"
    what = changed(WHAT, rules=(SPLIT_OFF, NO_DATA))
    states = [state(alert="SplitOff", state=State(before), dedup_key="k", judged_slot=SLOT - DAY)]
    arms = sources(assigned=assign("abc", "de"))
    result = ran(arms, what, states=tuple(states))
    now = {each.alert: each for each in result.states}
    assert (now["SplitOff"].state, now["SplitOff"].users) == (State(after), 5 if is_off else 0)
    assert "NoData" not in now or now["NoData"].state is State(no_data)
    assert result.status is (RunStatus.INSUFFICIENT if is_off else RunStatus.OK)
    if is_off:
        first_seen = ""
        if before == "firing":
            first_seen = f" (first seen in the run of {format_instant(states[0].since)})"
        assert result.reason.startswith(
            f"the users are not split as planned{first_seen}: the baseline has 3 users and the "
            "candidate 2, but 50 % each were planned. Until"
        )


@pytest.mark.parametrize("p, fires", [(0.001, True), (0.0011, False), (None, False)])
def test_arms_that_differed_before_the_test_have_an_alert_and_are_still_judged(
    p, fires, monkeypatch
):
    monkeypatch.setattr("monitor.pipeline.unpaired_explanation.compare_before", lambda *_: p)
    what = changed(WHAT, rules=(ARMS_DIFFERED,))
    result = ran(sources(), what)
    assert result.unpaired.before_p == p
    (judged,) = result.states
    assert ((judged.state is State.FIRING), result.status) == (fires, RunStatus.OK)


def test_a_run_without_users_fails_and_says_nothing_about_the_split():
    what = changed(WHAT, rules=(SPLIT_OFF, ARMS_DIFFERED))
    gone = SourceError("log.parquet is missing", permanent=False)
    result = ran(sources("a:12", "d:12", gone), what)
    assert (result.status, result.states) == (RunStatus.FAILED, ())
    assert "log.parquet is missing" in result.reason
