"""New levels by hand: healthy runs of 1.0 and 1.2 in turn, then a fault, level after level."""

import numpy as np
import pytest

from monitor.reference.prediction import Reference, refer
from monitor.reference.spread import SETTLED_RUNS, Levels, PastAlarms, find_levels

HEALTHY = [1.0, 1.2] * 10
FAULT = [0.0, 0.2] * 10


def alarms_of(values: list[float], first: int, last: int, **more: object) -> PastAlarms:
    """One series whose alert fired after the runs from ``first`` to before ``last``; nothing else kept runs from teaching."""
    fired = np.zeros((len(values), 1), dtype=bool)
    fired[first:last] = True
    return PastAlarms(healthy=~fired, alarms=fired, firing=fired, **more)  # type: ignore[arg-type]


def find(values: list[float], alarms: PastAlarms) -> Levels:
    return find_levels(np.array(values)[:, np.newaxis], alarms)


def learn(values: list[float], alarms: PastAlarms) -> Reference:
    return refer(np.array(values)[:, np.newaxis], np.zeros((len(values), 1)), alarms=alarms)


def test_a_level_is_the_new_normal_with_its_fourteenth_run_and_from_its_own_runs_alone() -> None:
    runs = SETTLED_RUNS - 1
    early, late = HEALTHY + FAULT[: runs - 1], HEALTHY + FAULT[:runs]

    before = learn(early, alarms_of(early, 20, 40))
    assert (before.center[0], before.since[0], before.runs[0]) == (pytest.approx(1.1), -1, 20)
    after = learn(late, alarms_of(late, 20, 40))
    assert (after.center[0], after.since[0], after.runs[0]) == (pytest.approx(np.mean(FAULT[:runs])), 20, runs)


def test_what_falls_on_is_no_level() -> None:
    falling = HEALTHY + [0.5 - 0.02 * run for run in range(20)]
    assert find(falling, alarms_of(falling, 20, 40)).since[0] == -1


def test_the_level_goes_on_to_teach_after_the_alert_has_ended_and_nobody_accepted_it() -> None:
    values = HEALTHY + FAULT
    found = learn(values, alarms_of(values, 20, 33))
    assert (found.center[0], found.since[0], found.runs[0]) == (pytest.approx(0.1), 20, 20)


def test_two_runs_nearer_to_normal_than_to_the_fault_are_a_level_with_the_spread_of_before() -> None:
    """The fault is healed, but the healthy level has moved from 1.1 to 0.8 meanwhile."""
    values = HEALTHY + FAULT[:10] + [0.8, 0.8]
    found = learn(values, alarms_of(values, 20, 32))

    assert (found.center[0], found.since[0], found.runs[0]) == (pytest.approx(0.8), 30, 22)
    plain = learn(HEALTHY, alarms_of(HEALTHY, 0, 0))
    # One half for the mean of two runs; those two lie at it and make the spread a little smaller.
    assert found.center_error[0] == pytest.approx(found.spread[0] * np.sqrt(1 / 22 + 1 / 2))
    assert 0.9 * plain.spread[0] < found.spread[0] < plain.spread[0]


def test_a_fault_that_goes_on_is_no_return() -> None:
    values = HEALTHY + FAULT[:10] + [0.4, 0.5]
    assert find(values, alarms_of(values, 20, 32)).since[0] == -1


def test_back_at_the_old_level_five_runs_undo_a_level_that_nobody_accepted() -> None:
    values = HEALTHY + FAULT[:14] + HEALTHY[:5]
    four, five = learn(values[:-1], alarms_of(values[:-1], 20, 33)), learn(values, alarms_of(values, 20, 33))

    assert four.since[0] == 20
    assert (five.since[0], five.runs[0], five.center[0]) == (-1, 25, pytest.approx(np.mean(HEALTHY + HEALTHY[:5])))


def test_accepted_runs_teach_whatever_alarms_say_and_for_good() -> None:
    values = HEALTHY + FAULT[:4]
    found = learn(values, alarms_of(values, 20, 24, accepted=[(20, 24)]))
    assert (found.since[0], found.runs[0], found.center[0]) == (-1, 24, pytest.approx(0.1))

    back = values + HEALTHY[:6]
    assert learn(back, alarms_of(back, 20, 24, accepted=[(20, 24)])).runs[0] == 30


def test_what_fires_after_the_acceptance_teaches_nothing() -> None:
    values = [*HEALTHY, *FAULT[:4], -1.0, -1.0]
    found = learn(values, alarms_of(values, 20, 26, accepted=[(20, 24)]))
    assert (found.runs[0], found.center[0]) == (24, pytest.approx(0.1))


def test_a_healthy_series_of_the_segment_keeps_its_level() -> None:
    values = np.array([HEALTHY + FAULT[:13], HEALTHY + HEALTHY[:13]]).T
    fired = np.zeros(values.shape, dtype=bool)
    fired[20:, 0] = True
    alarms = np.repeat(fired[:, :1], 2, axis=1)
    found = refer(values, np.zeros_like(values), alarms=PastAlarms(healthy=~alarms, alarms=alarms, firing=fired))
    assert found.center == pytest.approx([np.mean(FAULT[:13]), np.mean(HEALTHY[:13])])
