"""What is told while nothing can be said of drift: failed runs, no data, too few users, no run that succeeds any more."""

from dataclasses import replace

import pytest

from factories import DAY, HOUR, SLOT, changed, comparison, coverage_row, evaluate, rule, summary
from monitor.alerts.conditions import Staleness, judge_stale
from monitor.model.alerts import Outcome, State
from monitor.model.rankings import Arm, Coverage
from monitor.model.rules import Condition, ConditionRule, Learning, Severity, StandstillRule
from monitor.model.runs import RunStatus
from tables import cells

QUIET = State.QUIET
FIRING = State.FIRING
OK = RunStatus.OK
INSUFFICIENT = RunStatus.INSUFFICIENT
FAILED = RunStatus.FAILED


def condition(what, **changes):
    return replace(
        ConditionRule(alert=what.name, condition=what, severity=Severity.CRITICAL), **changes
    )


EVERY = tuple(map(condition, Condition))


class Judged:
    """A comparison judged day after day."""

    def __init__(self, *rules, ignored=frozenset()):
        self.what = comparison(rules=rules, ignored=ignored)
        self.day = -1
        self.states = {}

    def run(self, summaries=(), status=OK, coverage=None):
        self.day += 1
        states, changes = evaluate(
            self.what,
            slot=SLOT + self.day * DAY,
            states=tuple(self.states.values()),
            status=status,
            run_reason=None if status is OK else "candidate is down",
            summaries=summaries,
            coverage=coverage,
        )
        return self.remember(states, changes)

    def stale(self, wait, now):
        return self.remember(*judge_stale(self.what, tuple(self.states.values()), wait, now))

    def remember(self, states, changes):
        self.states |= {(state.alert, state.segment): state for state in states}
        return changes

    def alarms(self):
        return {alert for (alert, _), state in self.states.items() if state.state is not QUIET}


GOOD = (summary(),)
FEW = (summary(n=3),)
EMPTY = (summary(n=0, mean=None, statistics={}),)

RUNS = {
    "good": (GOOD, OK),
    "few": (FEW, OK),
    "empty": (EMPTY, OK),
    "insufficient": (FEW, INSUFFICIENT),
    "failed": ((), FAILED),
    "abandoned": ((), RunStatus.ABANDONED),
}
TABLE = """
              ERROR   NO_DATA  TOO_FEW  STALE
good          quiet   quiet    quiet    quiet
few           quiet   quiet    firing   quiet
empty         quiet   firing   quiet    quiet
insufficient  quiet   firing   held     not_judged
failed        firing  held     held     not_judged
abandoned     firing  held     held     not_judged
"""
ALERTS, *ROWS = cells(TABLE)
CELLS = {(run, alert): cell for run, *row in ROWS for alert, cell in zip(ALERTS, row, strict=True)}


@pytest.mark.parametrize("was", [QUIET, FIRING])
@pytest.mark.parametrize("run, alert", CELLS)
def test_each_condition_meets_each_run(run, alert, was):
    judged = Judged(rule(min_users=30), *EVERY)
    start = next((name for name in RUNS if CELLS[name, alert] == was), "good")
    judged.run(*RUNS[start])
    before = judged.states[alert, "all"]

    judged.run(*RUNS[run])

    after = judged.states[alert, "all"]
    wanted = CELLS[run, alert]
    if wanted == "not_judged":
        assert after == before
    elif wanted == "held":
        assert after.state == before.state
        assert after.streak == before.streak
        assert after.outcome in (Outcome.ERROR, Outcome.NO_DATA)
    else:
        assert after.state == wanted
        assert (after.dedup_key is not None) == (wanted == FIRING)


def test_a_rule_without_data_fires_no_condition():
    frozen = StandstillRule(alert="Frozen", arm=Arm.CANDIDATE)
    lacking = (
        rule(alert="Metric", metric="overlap"),
        rule(alert="Learns", learned=Learning.DROP),
        frozen,
    )
    judged = Judged(rule(), *lacking, *EVERY)
    judged.run(GOOD)
    outcomes = [judged.states[each.alert, "all"].outcome for each in lacking]
    assert outcomes == [Outcome.NO_DATA, Outcome.TOO_FEW, Outcome.NO_DATA]
    assert not judged.alarms()


def covering(*names):
    return Coverage(rows=tuple(coverage_row(100, segment=name) for name in ("all", *names)))


def test_conditions_judge_all_users_only_unless_each_segment_is_configured():
    judged = Judged(rule(segments="each"), *EVERY)
    judged.run((*GOOD, summary(segment="country=UK", n=0, mean=None)), OK, covering("country=UK"))
    assert {segment for alert, segment in judged.states if alert != "SimilarityLow"} == {"all"}
    assert not judged.alarms()


def test_a_vanished_segment_has_no_data_until_it_is_back():
    both = (*GOOD, summary(segment="country=UK")), OK, covering("country=UK")
    judged = Judged(
        rule(segments="each"), condition(Condition.NO_DATA, segments="each", for_runs=2)
    )
    judged.run(*both)
    assert not judged.alarms()
    for _ in range(2):
        judged.run(GOOD, OK, covering())
    gone = judged.states["NO_DATA", "country=UK"]
    assert gone.state is FIRING
    assert "no user of the panel belongs to the segment any more" in gone.reason
    judged.run(*both)
    assert not judged.alarms()


SILENCES = {
    Condition.ERROR: ((), FAILED),
    Condition.NO_DATA: (EMPTY, OK),
    Condition.TOO_FEW: (FEW, OK),
}
LOW = (summary(mean=0.1),)


@pytest.mark.parametrize("ignored", SILENCES)
def test_an_alert_that_cannot_be_judged_ends_only_if_the_condition_is_ignored(ignored):
    judged = Judged(rule(for_runs=1, min_users=30), ignored=frozenset({ignored}))
    judged.run(LOW)
    for condition_, run in SILENCES.items():
        if condition_ is not ignored:
            judged.run(*run)
    assert judged.alarms() == {"SimilarityLow"}
    (end,) = judged.run(*SILENCES[ignored])
    assert end.is_end
    assert judged.states["SimilarityLow", "all"].outcome.value == ignored
    assert "not seen to recover" in end.reason


def test_learning_again_ends_no_alert_even_if_too_few_is_ignored():
    judged = Judged(rule(for_runs=1), ignored=frozenset({Condition.TOO_FEW}))
    judged.run(LOW)
    judged.what = changed(judged.what, rules=(rule(for_runs=1, learned=Learning.DROP),))
    judged.run(LOW)
    assert judged.states["SimilarityLow", "all"].outcome is Outcome.TOO_FEW
    assert judged.alarms() == {"SimilarityLow"}


WAIT = Staleness(
    since=SLOT, has_succeeded=True, overdue_at=SLOT + 3 * HOUR, seen_s=7200.0, needed_s=3660.0
)
STALE = condition(Condition.STALE)
LOW_RULE = rule(for_runs=1)
NOW = SLOT + 4 * HOUR


def test_a_comparison_without_success_is_stale_once_and_two_daemons_find_the_same_start():
    judged = Judged(STALE, LOW_RULE)
    assert judged.stale(WAIT, SLOT) == ()
    (start,) = judged.stale(WAIT, NOW)
    assert start.at == NOW
    assert "since the run of 2024-01-08 00:00 UTC" in start.reason
    assert not judged.stale(replace(WAIT, seen_s=9999.0), NOW + HOUR)
    (other,) = Judged(STALE, LOW_RULE).stale(WAIT, NOW + HOUR)
    assert replace(other, at=start.at) == start
    (never,) = Judged(STALE, LOW_RULE).stale(replace(WAIT, has_succeeded=False), NOW)
    assert never.reason.startswith(
        "no run has succeeded yet, although rankwatch has waited since 2024-01-08 00:00 UTC"
    )


def test_the_next_successful_run_ends_staleness_and_a_failed_run_does_not():
    judged = Judged(STALE, LOW_RULE)
    judged.run(LOW)
    judged.stale(WAIT, NOW)

    assert not judged.run((), FAILED)
    (end,) = judged.run(LOW)

    assert end.alert == "STALE"
    assert end.is_end


def test_if_staleness_is_ignored_alerts_end_once_and_otherwise_they_keep_firing():
    kept = Judged(LOW_RULE)
    ignored = Judged(LOW_RULE, ignored=frozenset({Condition.STALE}))
    for judged in (kept, ignored):
        judged.run(LOW)
        judged.run((), FAILED)
    assert not kept.stale(WAIT, NOW + 50 * HOUR)
    (end,) = ignored.stale(WAIT, NOW)
    assert end.alert == "SimilarityLow"
    assert end.is_end
    assert end.reason.endswith(
        "the configuration ignores stale; the alert ended, but was not seen to recover"
    )
    assert not ignored.stale(WAIT, NOW + HOUR)
