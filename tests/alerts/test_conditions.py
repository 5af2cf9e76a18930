"""What is told while nothing can be said of drift: failed runs, no data, too few users, no run that succeeds any more."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from factories import DAY, HOUR, SLOT, comparison, evaluate, rule, summary
from monitor.alerts.conditions import Staleness, judge_stale
from monitor.model.alerts import AlertState, Outcome, State, Transition
from monitor.model.comparison import Comparison
from monitor.model.rankings import Arm, Coverage, CoverageRow
from monitor.model.rules import Condition, ConditionRule, Learning, Rule, Severity, StandstillRule
from monitor.model.runs import RunStatus, Summary

QUIET, PENDING, FIRING = State.QUIET, State.PENDING, State.FIRING
OK, INSUFFICIENT, FAILED = RunStatus.OK, RunStatus.INSUFFICIENT, RunStatus.FAILED


def condition(what: Condition, **changes: Any) -> ConditionRule:
    return replace(ConditionRule(alert=what.name, condition=what, severity=Severity.CRITICAL), **changes)


def watched(*rules: Rule, ignored: frozenset[Condition] = frozenset()) -> Comparison:
    return comparison(rules=(*rules, *map(condition, Condition)), ignored=ignored)


class Judged:
    """A comparison judged day after day."""

    def __init__(self, what: Comparison) -> None:
        self.what = what
        self.states: dict[tuple[str, str], AlertState] = {}
        self.day = -1

    def run(
        self, summaries: Sequence[Summary] = (), status: RunStatus = OK, coverage: Coverage | None = None
    ) -> tuple[Transition, ...]:
        self.day += 1
        slot = SLOT + self.day * DAY
        states, transitions = evaluate(
            self.what,
            slot=slot,
            status=status,
            run_reason=None if status is OK else "candidate is down",
            summaries=summaries,
            states=tuple(self.states.values()),
            coverage=coverage,
        )
        self.states |= {(state.alert, state.segment): state for state in states}
        return transitions

    def alarms(self) -> set[str]:
        return {alert for (alert, _), state in self.states.items() if state.state is not QUIET}


GOOD = (summary(),)
FEW = (summary(n=3),)
EMPTY = (summary(n=0, mean=None, statistics={}),)

RUNS: dict[str, tuple[Sequence[Summary], RunStatus]] = {
    "good": (GOOD, OK),
    "few": (FEW, OK),
    "empty": (EMPTY, OK),
    "insufficient": (FEW, INSUFFICIENT),
    "failed": ((), FAILED),
    "abandoned": ((), RunStatus.ABANDONED),
}
CELLS: dict[str, dict[str, State | str]] = {
    "good": {"ERROR": QUIET, "NO_DATA": QUIET, "TOO_FEW": QUIET, "STALE": QUIET},
    "few": {"ERROR": QUIET, "NO_DATA": QUIET, "TOO_FEW": FIRING, "STALE": QUIET},
    "empty": {"ERROR": QUIET, "NO_DATA": FIRING, "TOO_FEW": QUIET, "STALE": QUIET},
    "insufficient": {"ERROR": QUIET, "NO_DATA": FIRING, "TOO_FEW": "held", "STALE": "not judged"},
    "failed": {"ERROR": FIRING, "NO_DATA": "held", "TOO_FEW": "held", "STALE": "not judged"},
    "abandoned": {"ERROR": FIRING, "NO_DATA": "held", "TOO_FEW": "held", "STALE": "not judged"},
}


@pytest.mark.parametrize("was", [QUIET, FIRING])
@pytest.mark.parametrize(("run", "alert"), [(run, alert) for run in CELLS for alert in CELLS[run]])
def test_each_condition_meets_each_run(run: str, alert: str, was: State) -> None:
    judged = Judged(watched(rule(min_users=30)))
    start = next(name for name, cells in CELLS.items() if cells[alert] is was) if alert != "STALE" or was is QUIET else "good"
    judged.run(*RUNS[start])
    before = judged.states[alert, "all"]

    judged.run(*RUNS[run])

    after, wanted = judged.states[alert, "all"], CELLS[run][alert]
    if wanted == "not judged":
        assert after == before
    elif wanted == "held":
        assert (after.state, after.streak, after.outcome in (Outcome.ERROR, Outcome.NO_DATA)) == (
            before.state,
            before.streak,
            True,
        )
    else:
        assert after.state is wanted
        assert (after.dedup_key is not None) == (wanted is FIRING)


def test_a_failed_run_between_two_without_data_leaves_them_in_a_row() -> None:
    what = comparison(rules=(rule(), condition(Condition.NO_DATA, for_runs=2), condition(Condition.ERROR, for_runs=2)))
    judged = Judged(what)
    judged.run(FEW, INSUFFICIENT)
    judged.run((), FAILED)
    changes = judged.run(FEW, INSUFFICIENT)
    assert [(change.alert, change.to_state) for change in changes] == [("NO_DATA", FIRING), ("ERROR", QUIET)]


@pytest.mark.parametrize(
    ("rules", "alert", "outcome"),
    [
        ((rule(), rule(alert="Other", metric="overlap")), "Other", Outcome.NO_DATA),
        ((rule(learned=Learning.DROP),), "SimilarityLow", Outcome.TOO_FEW),
        ((StandstillRule(alert="Frozen", arm=Arm.CANDIDATE), rule()), "Frozen", Outcome.NO_DATA),
    ],
    ids=["another metric", "a rule that learns", "no lists to look back at"],
)
def test_what_one_rule_lacks_is_no_want_of_data_or_users(rules: tuple[Rule, ...], alert: str, outcome: Outcome) -> None:
    judged = Judged(watched(*rules))
    judged.run(GOOD)
    assert judged.states[alert, "all"].outcome is outcome
    assert judged.alarms() == set()


def covering(*names: str) -> Coverage:
    return Coverage(rows=tuple(CoverageRow(segment=name, asked=100, paired=100, reasons={}) for name in ("all", *names)))


def test_conditions_speak_of_all_users_only_unless_each_segment_is_asked_for() -> None:
    judged = Judged(watched(rule(segments="each")))
    judged.run((*GOOD, summary(segment="country=UK", n=0, mean=None)), OK, covering("country=UK"))
    assert {segment for alert, segment in judged.states if alert != "SimilarityLow"} == {"all"}
    assert judged.alarms() == set()


def test_of_each_segment_one_that_vanished_has_no_data_until_it_is_back() -> None:
    uk = summary(segment="country=UK")
    judged = Judged(comparison(rules=(rule(segments="each"), condition(Condition.NO_DATA, segments="each", for_runs=2))))
    judged.run((*GOOD, uk), OK, covering("country=UK"))
    assert judged.alarms() == set()
    for _ in range(2):
        judged.run(GOOD, OK, covering())
    assert judged.states["NO_DATA", "country=UK"].state is FIRING
    assert "no user of the panel belongs to the segment any more" in judged.states["NO_DATA", "country=UK"].reason
    judged.run((*GOOD, uk), OK, covering("country=UK"))
    assert judged.alarms() == set()


SILENCES = {
    Condition.ERROR: ((), FAILED),
    Condition.NO_DATA: (EMPTY, OK),
    Condition.TOO_FEW: (FEW, OK),
}
LOW = (summary(mean=0.1),)


@pytest.mark.parametrize("condition_", SILENCES)
@pytest.mark.parametrize("policy", ["keep", "ignore"])
@pytest.mark.parametrize("was", [QUIET, PENDING, FIRING])
def test_an_alert_that_cannot_be_judged_is_kept_or_ends_unseen(condition_: Condition, policy: str, was: State) -> None:
    ignored = frozenset({condition_} if policy == "ignore" else ())
    judged = Judged(comparison(rules=(rule(min_users=30, for_runs=2),), ignored=ignored))
    for _ in range([QUIET, PENDING, FIRING].index(was)):
        judged.run(LOW)

    changes = judged.run(*SILENCES[condition_])

    after = judged.states["SimilarityLow", "all"]
    is_ended = policy == "ignore" and was is not QUIET
    assert after.state is (QUIET if is_ended else was)
    assert after.outcome.value == condition_.value
    assert ("not seen to recover" in after.reason) == is_ended
    assert [change.to_state for change in changes] == ([QUIET] if is_ended else [])


def test_what_is_ignored_is_that_condition_alone() -> None:
    judged = Judged(comparison(rules=(rule(for_runs=1, min_users=30),), ignored=frozenset({Condition.NO_DATA})))
    judged.run(LOW)
    judged.run((), FAILED)
    judged.run(FEW)
    assert judged.alarms() == {"SimilarityLow"}
    judged.run(EMPTY)
    assert judged.alarms() == set()


def test_learning_anew_ends_no_firing_though_too_few_is_ignored() -> None:
    judged = Judged(comparison(rules=(rule(for_runs=1),), ignored=frozenset({Condition.TOO_FEW})))
    judged.run(LOW)
    judged.what = comparison(rules=(rule(for_runs=1, learned=Learning.DROP),), ignored=frozenset({Condition.TOO_FEW}))
    judged.run(LOW)
    assert judged.states["SimilarityLow", "all"].outcome is Outcome.TOO_FEW
    assert judged.alarms() == {"SimilarityLow"}


WAIT = Staleness(since=SLOT, has_succeeded=True, overdue_at=SLOT + 3 * HOUR, seen_s=7200.0, needed_s=3660.0)
WATCHED = comparison(rules=(condition(Condition.STALE, alert="Stale"), rule(for_runs=1)))
NOW = SLOT + 4 * HOUR


@pytest.mark.parametrize(
    ("wait", "now"),
    [
        pytest.param(WAIT, SLOT + 3 * HOUR - timedelta(seconds=1), id="too early by the clock"),
        pytest.param(replace(WAIT, seen_s=3659.0), SLOT + 1000 * HOUR, id="the clock jumped, or the machine slept"),
        pytest.param(WAIT, SLOT - HOUR, id="the clock went back"),
    ],
)
def test_it_takes_both_clocks_to_be_stale(wait: Staleness, now: object) -> None:
    assert judge_stale(WATCHED, (), wait, now) == ((), ())  # type: ignore[arg-type]


def test_a_comparison_without_success_for_too_long_is_stale_once() -> None:
    states, (start,) = judge_stale(WATCHED, (), WAIT, NOW)
    assert (start.alert, start.is_start, start.at) == ("Stale", True, NOW)
    assert "since that of 2024-01-08 00:00 UTC" in start.reason
    again = replace(WAIT, seen_s=9999.0)
    assert judge_stale(WATCHED, states, again, NOW + HOUR) == ((), ())


def test_two_daemons_find_the_same_start() -> None:
    (_, (one,)), (_, (other,)) = (judge_stale(WATCHED, (), WAIT, NOW + n * HOUR) for n in range(2))
    assert replace(other, at=one.at) == one


def test_the_next_run_that_succeeds_ends_it_and_one_that_fails_does_not() -> None:
    judged = Judged(WATCHED)
    judged.run(LOW)
    states, _ = judge_stale(WATCHED, tuple(judged.states.values()), WAIT, NOW)
    judged.states |= {(state.alert, state.segment): state for state in states}

    assert judged.run((), RunStatus.FAILED) == ()
    (end,) = judged.run(LOW)

    assert (end.alert, end.is_end) == ("Stale", True)
    assert judged.states["Stale", "all"].state is State.QUIET


def test_one_that_never_succeeded_says_so() -> None:
    _, (start,) = judge_stale(WATCHED, (), replace(WAIT, has_succeeded=False), NOW)
    assert start.reason.startswith("no run has succeeded yet, waited for since 2024-01-08 00:00 UTC")


def firing(what: Comparison) -> tuple[AlertState, ...]:
    judged = Judged(what)
    judged.run(LOW)
    judged.run((), RunStatus.FAILED)
    return tuple(judged.states.values())


def test_where_staleness_is_kept_nothing_happens() -> None:
    what = comparison(rules=(rule(for_runs=1),))
    assert judge_stale(what, firing(what), WAIT, NOW + 50 * HOUR) == ((), ())


def test_where_staleness_is_ignored_what_fires_ends_unseen_and_once() -> None:
    what = comparison(rules=(rule(for_runs=1),), ignored=frozenset({Condition.STALE}))
    states, (end,) = judge_stale(what, firing(what), WAIT, NOW)
    assert (end.alert, end.is_end) == ("SimilarityLow", True)
    assert end.reason.endswith("stale is ignored: ended, but not seen to recover")
    assert judge_stale(what, states, WAIT, NOW + HOUR) == ((), ())
