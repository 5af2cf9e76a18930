"""The default rules over simulated runs: identical lists, and faults that come back.

If a candidate returns the baseline's lists, an alert names this and ends after it. It does not fire
if many lists are usually identical. Rules do not learn from a fault that heals. When the fault comes
back, the rules fire as if it came for the first time.
"""

from collections import deque
from copy import deepcopy
from dataclasses import astuple, replace
from functools import cache

import numpy as np
import pytest

from factories import DAY, HOUR, MINUTE, SLOT, arm_score, changed, summary
from monitor.measures.summaries import summarize_one
from monitor.model.alerts import Outcome, State
from monitor.model.memory import Lessons, LessonTopic, PastRun
from monitor.model.rankings import ALL
from monitor.model.rules import is_learned, judged_series
from monitor.pipeline.judgement import Rejudgement
from monitor.pipeline.rule_series import RuleSeries, read_lessons
from published import record
from settings.minimal import MINIMAL, comparison_of
from tables import cells

WATCHED = comparison_of(f"{MINIMAL}    rules: default\n")
USERS_BY_SEGMENT = {"all": 500, "country=NL": 88}


@cache
def after(share):
    """Twenty healthy runs with this share of identical lists were judged, by the rule on such lists only."""
    rules = [rule for rule in WATCHED.judging.rules if rule.alert == "IdenticalLists"]
    rejudging = Rejudgement(comparison=changed(WATCHED, rules=tuple(rules)))
    seen = play(healthy(20, share), rejudging, first=0)
    return rejudging, seen


def play(runs, rejudging, first=20):
    """The states of the alert by segment after each run, from the users with identical lists by segment."""
    seen = []
    for number, counts in enumerate(runs, start=first):
        scores = tuple(
            arm_score(segment=name, metric="identical_list", value=counts[name] / users, n=users)
            for name, users in USERS_BY_SEGMENT.items()
        )
        rejudging.judge(record(SLOT + number * 15 * MINUTE, summary(), arm_scores=scores))
        seen.append({name: rejudging.states["IdenticalLists", name] for name in USERS_BY_SEGMENT})
    return seen


def healthy(runs, share):
    rng = np.random.default_rng(3)
    return [
        {name: int(rng.binomial(users, share)) for name, users in USERS_BY_SEGMENT.items()}
        for _ in range(runs)
    ]


FAULTS = """
# segment   all  NL  said
all         500  88  500 of 500 users, normally 0.8
all         150  26  150 of 500 users (30 %), normally 0.8
country=NL  92   88  88 of 88 users of country=NL, normally
"""


def test_identical_lists_alert_in_the_second_run_and_end_in_the_second_good_run():
    for segment, everybody, dutch, said in cells(FAULTS):
        fault = {"all": int(everybody), "country=NL": int(dutch)}
        runs = [fault, fault, fault, *healthy(22, 0.01)[20:]]
        first, second, third, healed, over = [
            each[segment] for each in play(runs, deepcopy(after(0.01)[0]))
        ]

        assert first.state is State.PENDING
        assert second.state is third.state is healed.state is State.FIRING
        assert second.reason.startswith(
            f"the candidate answers with the baseline's list for {said}"
        )
        assert third.reason.endswith(" (after 20 healthy runs): is the experiment applied?")
        assert over.state is State.QUIET


def test_nothing_fires_if_many_lists_are_usually_identical():
    for share in [0.3, 0.97, 1.0]:
        rejudging, before = after(share)
        seen = [*before, *play(healthy(40, share)[20:], rejudging)]
        assert {state.state for states in seen for state in states.values()} == {State.QUIET}
        assert seen[-1]["all"].outcome is Outcome.OK


USERS = 100
HIT = 0.4
LEARNED = 72
"""Healthy runs before: three days of hours, ten weeks of days."""
METRICS = ("rbo(p=0.9)", "overlap")


def measure(what, run, *, is_ill):
    """Scores around 0.7 that move together from run to run.

    A fault takes nearly all from four users in ten.
    """
    rng = np.random.default_rng(run)
    scores = np.clip(rng.normal(0.7 + 0.02 * rng.normal(), 0.12, (len(METRICS), USERS)), 0.0, 1.0)
    if is_ill:
        scores[:, : int(HIT * USERS)] *= 0.05
    rules = what.judging.similarity_rules
    return tuple(
        summarize_one(
            "all",
            metric,
            np.sort(values),
            (0.0, 1.0),
            [rule.statistic for rule in rules if rule.metric == metric],
        )
        for metric, values in zip(METRICS, scores, strict=True)
    )


def remember(what, run):
    """What later runs learn from a healthy run. Each rule stores what it measured, as in a daemon."""
    past = PastRun(slot=run.slot, summaries=run.summaries, states={})
    series = [RuleSeries(rule, ALL) for rule in what.judging.rules if is_learned(rule)]
    numbers = np.stack(astuple(read_lessons(series, [past])))
    topics = tuple(
        LessonTopic(each.rule.alert, judged_series(each.rule), (ALL,)) for each in series
    )
    return replace(past, lessons=Lessons(topics=topics, numbers=numbers[:, 0]))


def fired(every, faults):
    """For each of these faults, the alerts that fire after any of its runs."""
    seconds = int(every.total_seconds())
    text = MINIMAL.replace("every: 15m", f"every: {seconds}s")
    what = comparison_of(f"{text}    metrics: [{', '.join(METRICS)}]\n    rules: default\n")
    rejudging = Rejudgement(comparison=what)
    start = SLOT - LEARNED * every
    firing = [set() for _ in faults]
    for run in range(faults[-1].stop):
        is_ill = any(run in fault for fault in faults)
        found = record(start + run * every, *measure(what, run, is_ill=is_ill))
        if run < LEARNED:
            past = remember(what, found)
            rejudging.past.setdefault(found.config_hash, deque()).append(past)
            continue
        rejudging.judge(found)
        states = rejudging.states.items()
        fires = {alert for (alert, _), state in states if state.state is State.FIRING}
        for alerts, fault in zip(firing, faults, strict=True):
            if run in fault:
                alerts.update(fires)
    return firing


def check(every, runs, gap):
    """Both faults last so many ``runs``, ``gap`` runs are between."""
    first = range(LEARNED, LEARNED + runs)
    second = range(first.stop + gap, first.stop + gap + runs)
    alone, again = fired(every, (first, second))
    assert len(alone) >= 3
    assert len(alone - again) <= 1, (alone, again)


@pytest.mark.parametrize("every, fault, gap", [(5 * MINUTE, 2, 5), (DAY, 1, 1)])
def test_a_relapse_fires_the_rules_that_the_fault_alone_fires_but_for_one(every, fault, gap):
    check(every, fault, gap)


@pytest.mark.integration  # for its CPU
@pytest.mark.parametrize(
    "every, fault, gap",
    [
        (MINUTE, 3, 12),
        (MINUTE, 70, 8),
        (15 * MINUTE, 12, 84),
        (HOUR, 3, 45),
        (6 * HOUR, 1, 4),
    ],
)
def test_a_relapse_fires_the_same_rules_for_every_schedule_and_pause(every, fault, gap):
    check(every, fault, gap)
