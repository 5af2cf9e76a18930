"""When alerts of rules that learn begin and end, over whole histories of one series: healed, changed for good, accepted."""

from collections.abc import Sequence
from datetime import timedelta

import numpy as np
import pytest

from factories import SLOT, changed
from monitor.model.alerts import State, accepted_level
from monitor.pipeline.judgement import Rejudgement
from pipeline.test_rejudgement import DAY, DROP, TREND, days, watched

HEALTHY = list(0.5 + 0.02 * np.random.default_rng(5).normal(size=40))
ILL = [mean - 0.3 for mean in HEALTHY]
HOUR = timedelta(hours=1)


def judge(means: Sequence[float], accepted: dict[int, int] | None = None) -> tuple[list[bool], list[str]]:
    """Whether anything fires after each day, and the reasons of the ends; ``accepted`` the level of one day after another."""
    levels = [accepted_level("home-feed", SLOT + day * DAY, "", SLOT + at * DAY + HOUR) for day, at in (accepted or {}).items()]
    rejudging = Rejudgement(comparison=watched(DROP, TREND), accepted=tuple(levels))
    fires, ends = [], []
    for record in days(means):
        ends += [change.reason for change in rejudging.judge(record) if change.is_end]
        fires.append(any(state.state is State.FIRING for state in rejudging.states.values()))
    return fires, ends


def starts(fires: Sequence[bool]) -> list[int]:
    return [day for day in range(1, len(fires)) if fires[day] and not fires[day - 1]]


@pytest.mark.parametrize("moved", [0.0, -0.06])
def test_a_fault_of_ten_days_ends_within_three_runs_of_healing_also_where_healthy_runs_lie_elsewhere_then(moved: float) -> None:
    fires, _ = judge(HEALTHY[:20] + ILL[:10] + [mean + moved for mean in HEALTHY[20:]])
    assert all(fires[20:30])
    assert not any(fires[32:])


def test_twelve_equal_days_after_a_trend_do_not_fire_for_rounding() -> None:
    fires, _ = judge([0.5] * 20 + [0.4] * 10 + [0.5 - 1e-17] * 12)
    assert not any(fires[30:])


def test_a_level_that_stays_ends_as_the_new_normal_is_said_once_and_pages_again_when_it_becomes_worse() -> None:
    fires, ends = judge(HEALTHY[:20] + ILL[:25] + [mean - 0.2 for mean in ILL[:2]])

    assert (starts(fires), fires[20:34]) == ([20, 45], [True] * 13 + [False])
    assert ends[0].endswith(
        "after 13 healthy runs; new normal since 2024-01-28T00:00:00Z: accept it "
        "(rankwatch accept home-feed --from 2024-01-28T00:00:00Z) or roll back"
    )


def test_a_level_nobody_accepted_pages_again_once_it_was_left() -> None:
    fires, _ = judge(HEALTHY[:20] + ILL[:16] + HEALTHY[20:30] + ILL[:3])
    assert starts(fires) == [20, 46]


def test_an_accepted_level_ends_with_the_next_run_and_is_normal_for_good() -> None:
    fires, ends = judge(HEALTHY[:20] + ILL[:25], {20: 23})

    assert (starts(fires), fires.index(False, 20)) == ([20], 24)
    assert "new normal" not in ends[0]
    back, _ = judge(HEALTHY[:20] + ILL[:16] + HEALTHY[20:30] + ILL[:3], {20: 23})
    assert starts(back) == [20]


def test_runs_of_holidays_are_not_judged_and_teach_nothing_and_what_fires_goes_on() -> None:
    what = changed(watched(DROP, TREND), holidays=((SLOT + 20 * DAY, SLOT + 23 * DAY), (SLOT + 31 * DAY, SLOT + 32 * DAY)))
    means = HEALTHY[:20] + ILL[:3] + HEALTHY[23:30] + ILL[:1] + HEALTHY[:1] + HEALTHY[:1]
    rejudging, said = Rejudgement(comparison=what), []
    for record in days(means):
        rejudging.judge(record)
        said.append(rejudging.states["SimilarityLow", "all"])

    assert [day for day, each in enumerate(said) if each.state is State.FIRING] == [30, 31]
    assert said[20].reason == "not judged by what is normal: the day is one of the holidays of the comparison"
    assert "was expected after 20 healthy runs" in said[23].reason
    assert "was expected after 27 healthy runs" in said[32].reason


def test_a_slow_loss_that_goes_on_goes_on_firing() -> None:
    fires, _ = judge(HEALTHY[:20] + [0.42 - 0.02 * day for day in range(20)])
    assert all(fires[20:])
