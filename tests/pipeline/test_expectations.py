"""What rules that learn expect of a run, from hand-made histories and from simulated ones."""

from dataclasses import replace

import numpy as np
import pytest
import scipy
from numpy.random import default_rng

from factories import DAY, SLOT, arm_score, comparison, coverage_rule, expect, rule, state, summary
from monitor.model.alerts import State
from monitor.model.memory import PastRun, to_lessons
from monitor.model.rankings import Arm
from monitor.model.rules import Direction, Learning, StandstillRule
from monitor.pipeline.expectations import AFTER_EXPECTED_FAULT, AFTER_HOLIDAY
from monitor.statistics.reference.thresholds import SAFETY
from tables import cells

N = 10_000


def drop(**changes):
    return rule(
        **{"learned": Learning.DROP, "threshold": -1.0, "resolve_at": -1.0, "for_runs": 1} | changes
    )


def watched(*rules, **changes):
    return comparison(**{"rules": rules or (drop(),), "runs_per_false_alert": 90.0} | changes)


def measured(mean, **changes):
    return summary(**{"mean": mean, "n": N, "standard_error": 0.0001} | changes)


def history(found):
    """A run a day, of which nothing was told."""
    runs = (measured(each) if isinstance(each, float) else each for each in found)
    return [
        PastRun(slot=SLOT + day * DAY, summaries=(each,), states={})
        for day, each in enumerate(runs)
    ]


def look(past, now, what=None):
    """What is expected of the day after these runs."""
    found = measured(now) if isinstance(now, float) else now
    (expected, *_) = expect(what or watched(), SLOT + len(past) * DAY, [found], past)
    return expected


MEANS = [0.50, 0.54, 0.52, 0.49, 0.55, 0.51, 0.53]


def test_the_limit_is_the_prediction_limit_of_students_t_at_the_share_of_the_budget():
    found = look(history(MEANS), 0.52)

    spread = float(np.std(MEANS, ddof=1))
    h = len(MEANS)
    share = 1 / (SAFETY * 90)  # one rule on one segment has the whole budget
    limit = np.mean(MEANS) - scipy.stats.t.isf(share, h - 1) * spread * np.sqrt(1 + 1 / h)
    assert found.expected == pytest.approx(np.mean(MEANS), abs=1e-9)
    assert found.limit == pytest.approx(limit, rel=1e-3)
    assert found.opposite == pytest.approx(2 * np.mean(MEANS) - limit, rel=1e-3)
    p = scipy.stats.t.cdf((0.52 - np.mean(MEANS)) / (spread * np.sqrt(1 + 1 / h)), h - 1)
    assert found.z == pytest.approx(-scipy.stats.norm.ppf(p), rel=1e-3)
    assert found.runs == h
    assert found.evidence is None
    assert found.fault_z is None


TAUGHT = """
SimilarityLow  all         firing   7  7
SimilarityLow  all         pending  7  7
SimilarityLow  country=DE  firing   8  7
Frozen         all         firing   7  7
# A threshold learns nothing.
Absolute       all         firing   8  8
"""
"""An alert of the last of eight runs, and the runs from which the rule learns for all users and for DE."""


def test_an_alert_of_all_users_excludes_the_run_from_every_segment_and_an_alert_of_a_segment_only_from_it():
    frozen = StandstillRule(alert="Frozen", arm=Arm.CANDIDATE)
    each = watched(drop(segments="each"), frozen, rule(alert="Absolute"))
    seen = (measured(0.5), measured(0.5, segment="country=DE"))
    *past, last = (PastRun(slot=SLOT + day * DAY, summaries=seen, states={}) for day in range(8))
    for alert, segment, now, *taught in cells(TAUGHT):
        alarmed = [*past, replace(last, states={(alert, segment): State(now)})]
        found = expect(each, SLOT + 8 * DAY, seen, alarmed)
        assert [str(series.runs) for series in found] == taught


def test_limits_stay_in_the_range_of_the_metric():
    found = look(history([0.1, 0.9, 0.2, 0.8, 0.1]), 0.5, watched(drop(score_range=(-1.0, 1.0))))
    assert found.limit == -1.0
    assert found.opposite == 1.0
    shares = look(
        history(below(share, 100) for share in (0.1, 0.9, 0.2, 0.8, 0.1)),
        below(0.5, 100),
        watched(FAR),
    )
    assert shares.limit == 1.0
    assert shares.opposite == 0.0


def test_rules_do_not_learn_from_a_fault_in_the_first_runs():
    for place in range(5):
        means = MEANS[:4]
        means.insert(place, -0.4)
        past, _ = told([*means, *MEANS[4:]], watched())
        found = look(past, 0.52)
        assert found.runs == len(MEANS)
        assert found.expected == pytest.approx(np.mean(MEANS), abs=1e-9)


FAR = drop(alert="Far", statistic="share_below(0)", direction=Direction.ABOVE, threshold=1.0)


def below(share, n=N):
    return measured(0.5, n=n, statistics={"share_below(0)": share})


def test_a_share_is_judged_as_an_angle_and_shown_as_a_share():
    found = look(
        history(map(below, (0.06, 0.08, 0.07, 0.05, 0.06, 0.07))), below(0.2), watched(FAR)
    )
    assert found.expected == pytest.approx(0.065, abs=2e-3)
    assert 0.08 < found.limit < 0.2
    assert found.z > 3


def test_rules_neither_learn_from_nor_judge_too_few_users():
    past = history(measured(mean, n=20) for mean in MEANS)
    what = watched(drop(min_users=30))
    assert look(past, 0.5, what).runs == 0
    now = SLOT + 7 * DAY, [measured(0.5, n=20)], history(MEANS)
    assert expect(what, *now)[0].z is None
    # Whether an alert has recovered can be judged.
    assert expect(what, *now, [state(state=State.FIRING)])[0].z is not None


def told(means, what):
    """The history as it is stored run by run, without summaries, and what was expected of each run."""
    past = []
    expected = []
    for day, mean in enumerate(means):
        slot = SLOT + day * DAY
        expected.append(expect(what, slot, [measured(mean)], past))
        past.append(PastRun(slot=slot, states={}, lessons=to_lessons(expected[-1])))
    return past, expected


def test_small_falls_add_up_to_a_trend_but_none_of_them_is_a_drop():
    rng = default_rng(3)
    what = watched(drop(), drop(alert="Trend", learned=Learning.TREND))
    healthy = 0.5 + 0.03 * rng.normal(size=30)
    falling = 0.45 + 0.01 * rng.normal(size=20)
    _, expected = told([*healthy, *falling], what)

    trends = [trend for _, trend in expected]
    assert not any(each.evidence and each.evidence >= each.evidence_limit for each in trends[:30])
    assert any(each.evidence >= each.evidence_limit for each in trends[30:])
    assert all(each.judged >= each.limit for each, _ in expected[30:])


def test_a_segment_is_assumed_to_correlate_over_time_as_the_other_segments_do():
    """The runs of two segments follow each other, and those of the third one do not."""
    days = np.arange(40)
    slow = 0.5 + 0.03 * np.sin(days / 4)
    quick = 0.5 + 0.03 * np.where(days % 2, 1.0, -1.0)
    names = ("all", "country=DE", "country=FR")
    past = [
        PastRun(
            slot=SLOT + int(day) * DAY,
            states={},
            summaries=tuple(
                measured(float(series[day]), segment=name)
                for name, series in zip(names, (slow, slow, quick), strict=True)
            ),
        )
        for day in days
    ]
    now = [measured(0.48, segment=name) for name in names]
    trend = watched(drop(alert="Trend", learned=Learning.TREND, segments="each"))

    of_all, _, of_quick = expect(trend, SLOT + 40 * DAY, now, past)
    alone = watched(drop(alert="Trend", learned=Learning.TREND))
    (of_quick_alone,) = expect(
        alone,
        SLOT + 40 * DAY,
        [measured(0.48)],
        [replace(run, summaries=(replace(run.summaries[2], segment="all"),)) for run in past],
    )
    discounts = [(each.trend_z or 0) / (each.z or 1) for each in (of_all, of_quick, of_quick_alone)]
    assert discounts[1] == pytest.approx(discounts[0], rel=0.05)
    assert discounts[2] > 2 * discounts[1]


# Mean tau of 899 users. From the 13th day on the candidate has lost a tenth of the items.
ITEMS_GONE = """
0.5577 0.5933 0.6342 0.6225 0.5567 0.5760 0.6121 0.5303 0.6503 0.5978 0.5196 0.6234
0.4925 0.4204 0.4486 0.4318 0.4940 0.4342
"""


def test_a_fault_after_twelve_runs_is_a_trend_before_it_is_taken_for_normal():
    what = watched(drop(alert="Trend", learned=Learning.TREND), runs_per_false_alert=4032.0)
    _, expected = told([float(mean) for mean in ITEMS_GONE.split()], what)
    trends = [(each.runs, each.evidence >= 20_160) for (each,) in expected[12:]]
    assert trends == [(12, False), *[(13, False)] * 2, *[(12, False)] * 2, (12, True)]


def test_rules_learn_from_a_run_that_nearly_was_a_drop_only_after_three_more_runs():
    what = watched(
        drop(), runs_per_false_alert=1e6
    )  # so rarely that evidence of a trend casts no suspicion
    past, expected = told([*MEANS * 2, 0.41, *MEANS[:1] * 5], what)
    first = 2 * len(MEANS)
    assert 2 < past[first].lessons.numbers[2, 0] < 6
    *seen, after_three, _ = (found.runs for (found,) in expected[first + 1 :])
    assert seen == [first, first + 1, first + 2]
    assert after_three >= first + 3


def test_a_drift_does_not_become_normal_before_its_alert_or_while_it_fires():
    rng = default_rng(4)
    what = watched(drop(alert="Trend", learned=Learning.TREND))
    *past, last = told(
        [*(0.5 + 0.03 * rng.normal(size=30)), *(0.4 + 0.03 * rng.normal(size=6))], what
    )[0]

    found = look([*past, replace(last, states={("Trend", "all"): State.FIRING})], 0.4, what)
    assert found.expected == pytest.approx(0.5, abs=0.02)
    assert 0 < found.evidence < 100
    assert found.fault_z == last.lessons.numbers[2, 0]


def random_run(rng, segments):
    """Runs of a few users to a few thousand, now and then without a value, without a segment, or without an error."""
    found = []
    for segment in segments:
        n = int(rng.integers(1, 3000))
        value = None if rng.random() < 0.1 else float(rng.normal(0.5, 0.05))
        statistics = {
            name: float(rng.normal(level, 0.02))
            for name, level in (("p01", -0.5), ("p05", -0.2), ("p10", 0.0))
        }
        statistics["share_below(0)"] = float(rng.integers(0, n + 1) / n)
        error = None if rng.random() < 0.1 else 0.3 / n**0.5
        if rng.random() > 0.1:
            found.append(
                measured(value, segment=segment, n=n, standard_error=error, statistics=statistics)
            )
    return found


def test_lessons_give_the_same_expectations_as_the_summaries_of_the_same_runs():
    """The slow reference: every value measured anew from every summary of every past run."""
    rng = default_rng(11)
    trend = drop(alert="Trend", learned=Learning.TREND)
    watches = (drop(alert="Mean"), drop(alert="Tail", statistic="p05"), trend, FAR)
    what = watched(*(replace(each, segments="each", min_users=30) for each in watches))
    fast = list[PastRun]()
    slow = list[PastRun]()
    for day in range(30):
        slot = SLOT + day * DAY
        run = random_run(rng, ["all", "x=1", "x=2", f"x={day // 20 + 3}"])
        found = expect(what, slot, run, fast)
        assert found == expect(what, slot, run, slow)
        states = {("Mean", "x=1"): State.FIRING} if day % 9 == 8 else {}
        lessons = to_lessons(found)
        assert lessons is not None
        fast.append(PastRun(slot=slot, states=states, lessons=lessons))
        other = replace(
            lessons, topics=tuple(topic._replace(series=None) for topic in lessons.topics)
        )
        slow.append(PastRun(slot=slot, states=states, lessons=other, summaries=tuple(run)))
    assert sum(each.limit is not None for each in found) >= 8


def test_a_rule_whose_statistic_changed_learns_from_the_summaries():
    past = told(MEANS, watched())[0]
    other = watched(drop(statistic="p50"))
    quantiles = [
        measured(0.5, statistics={"p50": mean, "p25": mean - 0.1, "p75": mean + 0.1})
        for mean in MEANS
    ]

    full = look(
        [replace(run, summaries=(each,)) for run, each in zip(past, quantiles, strict=True)],
        0.5,
        other,
    )
    assert look(past, 0.5, other).runs == 0
    assert full.runs == len(MEANS)
    assert full.expected == pytest.approx(np.mean(MEANS), abs=1e-3)


def test_a_falling_share_is_judged_by_the_users_outside_of_it():
    for share in [0.0003, 0.07]:
        near = replace(FAR, alert="Near", limit=drop(direction=Direction.BELOW).limit)
        shares = [share + change for change in (0, 0.0001, 0, 0.0002, 0, 0.0001)]
        risen = look(history(map(below, shares)), below(0.1), watched(FAR))
        outside = [below(1 - each) for each in shares]
        fallen = look(history(outside), below(0.9), watched(near))
        assert fallen.limit == pytest.approx(1 - risen.limit)
        assert (fallen.z, fallen.expected) == pytest.approx((risen.z, 1 - risen.expected))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_rollback_to_the_level_before_a_new_normal_is_no_alert(sign):
    rise = drop(alert="Rise", direction=Direction.ABOVE, threshold=1.0)
    what = watched(drop(), rise)
    moved = [mean - sign * 0.2 for mean in MEANS * 2]
    past = history([*MEANS * 2, *moved])
    for place in range(14, len(past)):
        past[place] = replace(past[place], states={("SimilarityLow", "all"): State.FIRING})
    slot = SLOT + len(past) * DAY

    # The rule that watches the side of the level before.
    rule_of_return = (1 + sign) // 2
    back = expect(what, slot, [measured(0.52)], past)[rule_of_return]
    beyond = expect(what, slot, [measured(0.52 + sign * 0.28)], past)[rule_of_return]
    assert back.expected == pytest.approx(0.52 - sign * 0.2, abs=0.01)
    assert back.z < 1
    assert beyond.z > 5
    assert 0.03 < sign * (back.limit - 0.52) < 0.28


def test_lists_are_not_compared_with_those_of_a_holiday_or_of_a_fault_that_was_expected():
    shifted = coverage_rule("shifted_list", learned=Learning.DROP)
    scores = [arm_score(metric="shifted_list", value=0.2, n=N)]
    slot = SLOT + 14 * DAY
    for last, day_off, note in [
        (0.5, slot - DAY, AFTER_HOLIDAY),
        (0.1, slot, AFTER_EXPECTED_FAULT),
    ]:
        what = watched(drop(), shifted, holidays=((day_off, slot),))
        past, _ = told([*MEANS, *MEANS[1:], last], what)
        of_mean, of_shifts = expect(what, slot, [measured(0.5)], past, arm_scores=scores)
        assert of_mean.note == ""
        assert (of_shifts.runs, of_shifts.note) == (0, note)
