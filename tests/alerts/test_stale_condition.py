"""No run succeeds any more: told once the clock and what was watched agree, ended by the next ok run."""

from dataclasses import replace
from datetime import timedelta

import pytest

from alerts.test_conditions import LOW, Judged, condition
from factories import SLOT, comparison, rule
from monitor.alerts.conditions import Staleness, judge_stale
from monitor.model.alerts import AlertState, State
from monitor.model.comparison import Comparison
from monitor.model.rules import Condition
from monitor.model.runs import RunStatus

HOUR = timedelta(hours=1)
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
