"""A fault that heals teaches nothing: when it comes back, the default rules fire as though it came for the first time."""

from collections import deque
from dataclasses import astuple, replace

import numpy as np
import pytest

from factories import DAY, HOUR, MINUTE, SLOT
from monitor.measures.summaries import summarize_one
from monitor.model.alerts import State
from monitor.model.memory import Lessons, LessonTopic, PastRun
from monitor.model.rankings import ALL
from monitor.model.rules import is_learned, judged_series
from monitor.pipeline.judgement import Rejudgement
from monitor.pipeline.rule_series import RuleSeries, read_lessons
from published import record
from settings.minimal import MINIMAL, comparison_of

USERS, HIT = 100, 0.4
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
    firing = [set() for _ in faults]  # type: ignore[var-annotated]
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


@pytest.mark.parametrize(("every", "fault", "gap"), [(5 * MINUTE, 2, 5), (DAY, 1, 1)])
def test_a_relapse_fires_the_rules_that_the_fault_alone_fires_but_for_one(every, fault, gap):
    check(every, fault, gap)


@pytest.mark.integration  # for its CPU
@pytest.mark.parametrize(
    ("every", "fault", "gap"),
    [
        (MINUTE, 3, 12),
        (MINUTE, 70, 8),
        (15 * MINUTE, 12, 84),
        (HOUR, 3, 45),
        (6 * HOUR, 1, 4),
        (DAY, 1, 2),
    ],
)
def test_so_it_is_with_a_run_a_minute_to_one_a_day_and_relapses_after_one_run_to_two_days(
    every, fault, gap
):
    check(every, fault, gap)
