"""Runs judged by rules that learn, whole histories of them: what fires, what ends, and what is said beside a value."""

import re
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from functools import cache, partial
from types import SimpleNamespace

import numpy as np
import pytest

import published
from factories import (
    DAY,
    HOUR,
    SLOT,
    changed,
    comparison,
    coverage_row,
    rankings,
    rule,
    summary,
    transition,
)
from monitor.model.alerts import Expectation, Outcome, State, accepted_level
from monitor.model.memory import PastRun
from monitor.model.model_versions import follow_models
from monitor.model.rankings import Arm, Coverage
from monitor.model.rules import Learning
from monitor.model.run_reasons import RunReason, RunReasonKind
from monitor.model.runs import FinishedRun, KeptLists, RunStatus, Scores
from monitor.pipeline.judgement import (
    AVERAGED_RUNS,
    Rejudgement,
    ValueContext,
    add_missing_summaries,
)
from monitor.texts.model_versions import write_models
from tables import cells

DROP = rule(learned=Learning.DROP, threshold=-1.0, resolve_at=-1.0, for_runs=1)
TREND = rule(alert="Trend", learned=Learning.TREND, threshold=-1.0, resolve_at=-1.0, for_runs=1)
MEANS = [0.50, 0.54, 0.52, 0.49, 0.55, 0.51, 0.53]
WATCH = ("SimilarityLow", "all")


def watched(*rules):
    return comparison(rules=rules or (DROP,))


def measured(mean, **changes):
    return summary(
        **{"mean": None if mean is None else float(mean), "n": 1000, "standard_error": 0.001}
        | changes
    )


def record(day, *summaries, status=RunStatus.OK, **changes):
    found = published.record(SLOT + day * DAY, *summaries, status=status, **changes)
    whole = Coverage(rows=(coverage_row(1000),))
    return replace(found, coverage=None if status is RunStatus.FAILED else whole)


def judged(records, what=None):
    rejudging = Rejudgement(comparison=what or watched())
    for each in records:
        rejudging.judge(each)
    return rejudging


def state(records):
    return judged(records).states[WATCH]


def days(means, **changes):
    return [record(day, measured(mean, **changes)) for day, mean in enumerate(means)]


def test_identical_arms_stay_ok_and_the_first_change_is_a_drop_also_after_a_gap_of_months():
    same = days([1.0] * 8, standard_error=0.0)
    assert state(same).outcome is Outcome.OK
    dropped = state([*same, record(200.25, measured(0.999, standard_error=0.0))])
    assert dropped.state == State.FIRING
    assert dropped.since == SLOT + 200.25 * DAY
    assert "1 was expected after 8 healthy runs" in dropped.reason


def test_a_changed_configuration_learns_again_and_the_old_reference_returns_with_the_old_configuration():
    before = days(MEANS)
    changed = [record(7 + day, measured(0.9), config_hash="other") for day in range(3)]

    assert state([*before, *changed]).reason == "learning what is normal: 2 of 5 healthy runs"
    back = state([*before, *changed, record(10, measured(0.1))])
    assert back.state is State.FIRING
    assert "0.52 was expected after 7 healthy runs" in back.reason


@pytest.mark.parametrize(
    "status, outcome, found",
    [
        (RunStatus.FAILED, Outcome.ERROR, ()),
        (RunStatus.INSUFFICIENT, Outcome.NO_DATA, (measured(0.1),)),
    ],
)
def test_runs_that_are_not_ok_keep_every_state_and_rules_do_not_learn_from_them(
    status, outcome, found
):
    reasons = (RunReason(kind=RunReasonKind.ERROR, text="connection refused"),)
    held = days(MEANS)
    for day in range(7, 14):
        held.append(record(day, *found, status=status, reasons=reasons))
    quiet = state(held)
    assert quiet.state == State.QUIET
    assert quiet.outcome == outcome
    assert quiet.reason == "connection refused"
    abandoned = record(14, status=RunStatus.ABANDONED)
    assert state([*held, abandoned]) == quiet  # it does not even tell
    assert "after 7 healthy runs" in state([*held, abandoned, record(15, measured(0.5))]).reason


def test_judging_a_slot_again_changes_nothing():
    rng = np.random.default_rng(9)
    records = days(
        [*(0.5 + 0.02 * rng.normal(size=25)), *(0.42 + 0.02 * rng.normal(size=10)), 0.1, 0.5]
    )
    whole, again = (
        [change for each in given for change in rejudging.judge(each)]
        for given in (records, [*records[:20], *records[19:]])
        for rejudging in [Rejudgement(comparison=watched(DROP, TREND))]
    )
    assert {change.alert for change in whole} == {"SimilarityLow", "Trend"}
    assert again == whole


HEALTHY = list(0.5 + 0.02 * np.random.default_rng(5).normal(size=40))
ILL = [mean - 0.3 for mean in HEALTHY]


@cache
def after_healthy():
    """Twenty healthy days were judged."""
    return judged(days(HEALTHY[:20]), watched(DROP, TREND))


def judge(means, accepted=None):
    """Whether anything fires after each day, and the reasons of the ends, where these days follow on twenty healthy ones.

    ``accepted``: the level of one day after another.
    """
    levels = [
        accepted_level("home-feed", SLOT + day * DAY, "", SLOT + at * DAY + HOUR)
        for day, at in (accepted or {}).items()
    ]
    rejudging = replace(deepcopy(after_healthy()), accepted=tuple(levels))
    fires = [False] * 20
    ends = []
    for record in days([*HEALTHY[:20], *means])[20:]:
        ends += [change.reason for change in rejudging.judge(record) if change.is_end]
        fires.append(any(state.state is State.FIRING for state in rejudging.states.values()))
    return fires, ends


def starts(fires):
    return [day for day in range(1, len(fires)) if fires[day] and not fires[day - 1]]


def test_a_fault_of_ten_days_ends_within_three_healthy_runs_also_at_a_new_level():
    for moved in (0.0, -0.06):
        fires, _ = judge(ILL[:10] + [mean + moved for mean in HEALTHY[20:]])
        assert all(fires[20:30])
        assert not any(fires[32:])


def test_a_slow_loss_keeps_firing_and_rounding_after_a_trend_does_not_fire():
    assert all(judge([0.42 - 0.02 * day for day in range(20)])[0][20:])
    equal = days([0.5] * 20 + [0.4] * 10 + [0.5 - 1e-17] * 12)
    rejudging = judged(equal[:30], watched(DROP, TREND))
    for record in equal[30:]:
        rejudging.judge(record)
        assert {state.state for state in rejudging.states.values()} == {State.QUIET}


def test_a_lasting_level_becomes_the_new_normal_and_fires_again_when_it_becomes_worse():
    fires, (end, *_) = judge(ILL[:25] + [mean - 0.2 for mean in ILL[:2]])
    assert starts(fires) == [20, 45]
    assert fires[20:34] == [True] * 13 + [False]
    assert end.endswith(
        "after 13 healthy runs; new normal since 2024-01-28T00:00:00Z: accept it "
        "(rankwatch accept home-feed --since 2024-01-28T00:00:00Z) or roll back"
    )


def test_accepting_a_level_ends_its_alert_in_the_next_run_and_makes_only_this_level_normal():
    means = ILL[:16] + HEALTHY[20:30] + ILL[:3]  # it is left once and comes back
    fires, ends = judge(means, {20: 23})

    assert starts(fires) == [20]
    assert fires.index(False, 20) == 24
    assert "new normal" not in ends[0]
    assert starts(judge(means)[0]) == [20, 46]


def test_runs_on_holidays_are_not_judged_and_not_learned_and_alerts_keep_firing():
    what = changed(
        watched(DROP, TREND),
        holidays=((SLOT + 20 * DAY, SLOT + 23 * DAY), (SLOT + 31 * DAY, SLOT + 32 * DAY)),
    )
    rejudging = Rejudgement(comparison=what)
    said = []
    for record in days(
        HEALTHY[:20] + ILL[:3] + HEALTHY[23:30] + ILL[:1] + HEALTHY[:1] + HEALTHY[:1]
    ):
        rejudging.judge(record)
        said.append(rejudging.states[WATCH])

    assert [day for day, each in enumerate(said) if each.state is State.FIRING] == [30, 31]
    assert (
        said[20].reason
        == "not judged by what is normal, because the day is one of the comparison's holidays"
    )
    assert "was expected after 20 healthy runs" in said[23].reason
    assert "was expected after 27 healthy runs" in said[32].reason


def test_metrics_that_kept_lists_cannot_give_come_from_kept_scores():
    lists = rankings({"u1": ["i1"], "u2": ["i2"]})
    rows = {"all": np.arange(2)}
    scores = Scores(users=lists.users, by_metric={"floor(extended_tau)": np.array([0.2, 0.4])})
    history = SimpleNamespace(
        kept_lists=lambda _: KeptLists(baseline=lists, candidate=lists, segments=rows),
        run_scores=lambda *_: scores,
    )
    metrics = ("overlap", "floor(extended_tau)")
    rules = [rule(alert=name, metric=name, statistic="p50") for name in metrics]
    stored = published.record(SLOT, measured(0.3, metric=metrics[1], n=2, statistics={}))
    stored = replace(stored, coverage=Coverage(rows=(coverage_row(2),)))
    completed, lacking = add_missing_summaries(comparison(rules=tuple(rules)), stored, history)
    assert not lacking
    medians = {found.metric: found.value("p50") for found in completed.summaries}
    assert medians == {"overlap": 1.0, "floor(extended_tau)": pytest.approx(0.3)}


SCORES = (-1.0, 1.0)
LOW = rule(score_range=SCORES)


scales = partial(
    ValueContext,
    comparison=comparison(rules=(LOW,)),
    summaries=(summary(mean=0.254),),
    expectations=(),
    recent=(),
)


def past(*means, alarmed=False):
    states = {("SimilarityLow", "all"): State.FIRING} if alarmed else {}
    return tuple(
        PastRun(slot=SLOT - n * DAY, states=states, summaries=(summary(mean=mean),))
        for n, mean in enumerate(means)
    )


def expected(alert, level, segment="all"):
    return Expectation(alert=alert, segment=segment, runs=9, expected=level)


def test_a_mean_and_a_share_have_an_interval_and_a_condition_has_none():
    """Of 20 in 100: arcsin sqrt(20.375 / 100.75) = 0.466423, -+ 1.959964 / (2 sqrt(100.5)) = 0.097755."""
    share = transition(metric="coverage", statistic="missing(candidate)", value=0.2, users=100)
    nothing = transition(metric="condition", statistic="no_data", value=None)
    mean, of_asked, neither = scales().add_to([transition(), share, nothing])
    assert mean.interval == pytest.approx((0.254 - 0.0196, 0.254 + 0.0196), abs=1e-4)
    assert mean.normal is None
    assert of_asked.interval == pytest.approx((0.12710, 0.28433), abs=5e-5)
    assert scales(recent=past(0.5)).add_to([nothing]) == (neither,) == (nothing,)


def test_the_normal_value_comes_from_the_rule_or_from_another_rule_on_the_same_series():
    learned = comparison(rules=(rule(score_range=SCORES, learned=Learning.DROP),))
    (told,) = scales(
        comparison=learned, expectations=(expected("SimilarityLow", 0.51),), recent=past(0.9)
    ).add_to([transition()])
    assert told.normal == 0.51
    rules = (LOW, rule(alert="Dropped", learned=Learning.DROP), rule(alert="Tail", statistic="p05"))
    several = (
        expected("Tail", -0.2),
        expected("Dropped", 0.7, segment="country=UK"),
        expected("Dropped", 0.52),
    )
    (told,) = scales(comparison=comparison(rules=rules), expectations=several).add_to(
        [transition()]
    )
    assert told.normal == 0.52


def test_without_a_learning_rule_the_normal_value_is_the_mean_of_the_newest_runs_without_the_alert():
    before = (
        *past(*[0.9] * 5),
        *past(0.1, alarmed=True),
        *past(*[0.4, 0.6] * (AVERAGED_RUNS // 2 - 1), 0.5),
    )
    (told,) = scales(recent=before).add_to([transition()])
    assert told.normal == pytest.approx(0.5)


BY_MODEL = comparison(rules=(DROP, TREND), by_model=True)
Versions = str | Mapping[str, int] | None


def days_of(versions, means):
    """Runs in which the candidate answered by these versions, each of 100 users where it is one alone."""
    found = list[FinishedRun]()
    models = None
    for day, (version, mean) in enumerate(zip(versions, means, strict=True)):
        users = {version: 100} if isinstance(version, str) else version or {}
        models = follow_models(models, {Arm.CANDIDATE: users}, SLOT + day * DAY)
        found.append(record(day, measured(mean), models=models))
    return found


def judged_by(versions, means):
    rejudging = Rejudgement(comparison=BY_MODEL)
    changes = [change for each in days_of(versions, means) for change in rejudging.judge(each)]
    return rejudging.states[WATCH], changes


OLD = ["v12"] * 7


UNCLEAR = {"unknown": None, "nobody": {}, "half": {"v12": 49, "v13": 51}}
ANSWERED = """
# versions by run, or the users of each          now  before  since
v12 v13                                          v13  v12     1
v12 v12:49,v13:51 v12:51,v13:49                  v12  None    None
v12 v12:49,v13:51 v12:20,v13:80 v12:60,v13:40    v13  v12     2
v12 unknown nobody v12                           v12  None    None
unknown v12 v13 v12                              v12  v13     3
a:1,b:1,c:1,d:1,e:1,f:1                          None  None    None
"""


def test_the_model_is_the_last_version_that_answered_two_thirds_of_the_users():
    for row in cells(ANSWERED):
        by_run = []
        for text in row[0].split():
            users = dict(each.split(":") for each in text.split(",") if ":" in each)
            mixed = {name: int(count) for name, count in users.items()}
            by_run.append(UNCLEAR.get(text, mixed or text))
        (found,) = (days_of(by_run, [0.5] * len(by_run))[-1].models or {}).values()
        since = None if found.since is None else (found.since - SLOT).days
        assert [str(each) for each in (found.now, found.before, since)] == row[1:]


AFTER_OLD = """
# The first run of a model is not judged, the second one is by its level.
v13              0.30                 too_few  not judged by what was normal before: the candidate's model changed
v13 v13          0.30 0.31            ok       2024-01-15T00:00:00Z: the candidate's model changed with the run of
v13 v13          0.30 0.10            breach   0.3 was expected after 8 healthy runs
# One that comes back is judged at once by what was normal of it.
v13 v13 v13 v12  0.30 0.31 0.29 0.52  ok       0.52 was expected after 7 healthy runs
v13 v13 v13 v12  0.30 0.31 0.29 0.30  breach   0.52 was expected after 7 healthy runs
# Where they change with every run, each second one at least is judged.
v13 v14          0.52 0.51            ok       after 8 healthy runs
v13 v14          0.52 0.10            breach   after 8 healthy runs
# A deployment under way and an unknown version change nothing until it is done.
half             0.30                 breach   after 7 healthy runs
unknown          0.30                 breach   after 7 healthy runs
half v13         0.50 0.30            too_few  not judged by what was normal before: the candidate's model changed
"""
"""Versions and means of the runs after `OLD`; what is found of the last one, and what is said of it."""


def test_a_run_is_judged_by_the_normal_values_of_its_model():
    for versions, means, outcome, said in cells(AFTER_OLD):
        after = [UNCLEAR.get(version, version) for version in versions.split()]
        found, _ = judged_by([*OLD, *after], [*MEANS, *map(float, means.split())])
        assert found.outcome == outcome
        assert (found.state is State.FIRING) == (outcome == "breach")
        assert said in found.reason


def test_runs_without_a_version_count_and_a_model_change_is_mentioned_only_for_a_while():
    known, _ = judged_by([None, None, *OLD[2:], UNCLEAR["half"], "v12"], [*MEANS, 0.50, 0.52])
    assert known.outcome == Outcome.OK
    assert "after 8 healthy runs" in known.reason
    later, _ = judged_by(
        [*OLD, *["v13"] * 20], [*MEANS, *[0.30 + mean / 10 for mean in MEANS * 3][:20]]
    )
    assert later.outcome == Outcome.OK
    assert "new normal" not in later.reason


def test_an_alert_ends_as_the_new_normal_after_the_model_changed():
    means = [*MEANS, 0.30, 0.30, 0.31]
    assert judged_by([*OLD, "v12", "v13"], means[:-1])[0].state is State.FIRING
    ended, changes = judged_by([*OLD, "v12", "v13", "v13"], means)
    assert ended.state is State.QUIET
    start, end = (each for each in changes if each.alert == WATCH[0])
    assert start.slot == SLOT + 7 * DAY
    assert not start.is_new_normal
    assert end.slot == SLOT + 9 * DAY
    assert end.is_new_normal


def test_evidence_of_a_trend_starts_again_with_a_new_model():
    falling = [0.515, 0.509, 0.503, 0.497, 0.491]
    for version, least, most in (("v12", 2, 9), ("v13", 0, 1)):
        rejudging = Rejudgement(comparison=BY_MODEL)
        for each in days_of(
            [*OLD, *["v12"] * 5, *[version] * 3], [*MEANS, *falling, 0.515, 0.50, 0.51]
        ):
            rejudging.judge(each)
        evidence = re.search(
            r"no lasting fall so far \(evidence ([0-9.]+),", rejudging.states["Trend", "all"].reason
        )
        assert evidence is not None
        assert least < float(evidence[1]) < most


def test_a_change_of_the_model_is_mentioned_in_messages_for_a_week():
    models = days_of(["v12", "v13"], [0.5] * 2)[-1].models
    (now,), (later,), never = (write_models(models, SLOT + day * DAY) for day in (1, 7, 8))
    assert now == "The candidate's model changed with this run, v12 → v13."
    assert later == now.replace("this run", "the run of 2024-01-09T00:00:00Z")
    assert never == write_models(None, SLOT) == ()
