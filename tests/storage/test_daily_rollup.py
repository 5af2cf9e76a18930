"""What each day came to: worked by hand, kept when its runs are gone, made anew when one of them changes."""

from dataclasses import replace

import pytest
from sqlalchemy import select

import factories
from factories import DAY, HOUR, SECOND, SLOT
from monitor.model.runs import Histogram, RunStatus
from monitor.storage.tables.run_tables import daily
from storage.worked import LATER, claimed, finish, prune, record, run, runs_of, select_rows


def summary(**changes):
    numbers = {"n": 10, "n_undefined": 1, "mean": 0.5, "standard_error": 0.1}
    shape = {
        "statistics": {"p50": 0.5, "share_below(0.3)": 0.2},
        "histogram": Histogram(low=0.0, high=1.0, counts=(4, 6)),
    }
    return factories.summary(**{**numbers, **shape, **changes})


def stored(store, slot, *summaries, comparison="home-feed", **changes):
    return run(store, slot, comparison=comparison, summaries=summaries, **changes)


def days(store):
    return select_rows(store, select(daily).order_by(daily.c.day, daily.c.segment))


def sums(store):
    """Runs and mean of each day and segment."""
    return [(day.runs, round(day.mean, 12)) for day in days(store)]


def test_only_the_last_attempt_of_a_slot_counts(store):
    first = stored(store, SLOT, summary(mean=0.5))
    again = replace(claimed(store, rerun=True), keeps_earlier=True)
    number = finish(store, again, summaries=(summary(mean=0.9),))
    assert [(run.comparison, run.attempt, run.id) for run in runs_of(store)] == [
        ("home-feed", 2, number),
        ("home-feed@1", 1, first),
    ]
    assert [each.mean for each in record(store, first).summaries] == [0.5]

    prune(store, now=SLOT + DAY)
    assert sums(store) == [(1, 0.9)]
    prune(store, now=SLOT + 2 * DAY, runs=SLOT + DAY)
    assert not runs_of(store)


def test_a_day_is_summed_up_by_users_and_not_as_a_mean_of_means(store):
    stored(store, SLOT, summary())
    stored(
        store,
        SLOT + 23 * HOUR,
        summary(
            n=30,
            n_undefined=2,
            mean=0.9,
            standard_error=0.02,
            statistics={"share_below(0.3)": 0.0},
            histogram=Histogram(low=0.0, high=1.0, counts=(0, 30)),
        ),
    )
    stored(store, SLOT + 5 * HOUR, summary(mean=-1.0), status=RunStatus.INSUFFICIENT)

    assert not prune(store, now=SLOT + DAY)

    (day,) = days(store)
    assert day.comparison == "home-feed"
    assert day.day == SLOT
    assert day.runs == 2
    assert day.n == 40
    assert day.n_undefined == 3
    assert day.lowest == 0.5
    assert day.highest == 0.9
    assert day.mean == pytest.approx((10 * 0.5 + 30 * 0.9) / 40)
    assert day.standard_error == pytest.approx((10 * 0.1 + 30 * 0.02) / 40)
    assert day.shares_below == {"0.3": pytest.approx(2 / 40)}
    assert day.histogram == Histogram(low=0.0, high=1.0, counts=(4, 36))


def test_a_day_with_different_bins_has_no_histogram_and_a_day_without_scores_no_mean(store):
    stored(store, SLOT, summary(n=0, mean=None, standard_error=None, statistics={}))
    other = Histogram(low=-1.0, high=1.0, counts=(1, 2))
    stored(store, SLOT + DAY, summary(), summary(segment="country=UK", n=1, standard_error=None))
    stored(store, SLOT + DAY + HOUR, summary(histogram=other))

    prune(store, now=SLOT + 2 * DAY)

    nobody, changed, alone = days(store)
    assert nobody.n == 0
    assert nobody.mean is None
    assert nobody.standard_error is None
    assert nobody.lowest is None
    assert changed.histogram is None
    assert alone.segment == "country=UK"
    assert alone.mean == 0.5
    assert alone.standard_error is None


def test_days_are_kept_longer_than_runs_and_expire_at_their_own_age(store):
    for number in range(3):
        run(store, SLOT + number * DAY)

    gone = prune(store, summaries=SLOT + 2 * DAY, now=SLOT + 3 * DAY)
    assert gone == {"coverage": 2, "summaries": 2}
    first, *_ = runs_of(store)[::-1]
    assert [each.segment for each in record(store, first.id).summaries] == ["all"]
    prune(store, runs=SLOT + 2 * DAY, now=SLOT + 3 * DAY)
    assert len(days(store)) == 3 * 2
    assert prune(store, daily=SLOT + DAY, now=SLOT + 3 * DAY) == {"daily": 2}


def test_summaries_that_expired_early_stay_in_the_sums_of_their_day(store):
    both = (summary(), summary(segment="country=UK", mean=0.25))
    for hours in range(3):
        stored(store, SLOT + hours * HOUR, *both)
    stored(store, SLOT + DAY, *both)
    prune(store, summaries=SLOT + DAY, now=SLOT + 3 * DAY)
    before = days(store)
    for slot in (SLOT + 2 * HOUR, SLOT + DAY):
        stored(store, slot, summary(mean=0.8), finished_at=SLOT + 3 * DAY)

    prune(store, now=SLOT + 4 * DAY)

    assert days(store)[:2] == before[:2]
    assert [(day.day, day.segment, day.mean) for day in days(store)[2:]] == [
        (SLOT + DAY, "all", 0.8)
    ]


def test_a_run_that_is_stored_late_is_added_to_its_day(store):
    stored(store, SLOT, summary(), finished_at=SLOT + DAY)
    prune(store, now=SLOT + DAY + 2 * SECOND)
    stored(store, SLOT + 23 * HOUR, summary(mean=0.7), finished_at=SLOT + DAY - SECOND)

    prune(store, now=SLOT + DAY + HOUR)

    assert sums(store) == [(2, 0.6)]


def test_a_run_whose_rerun_fails_is_removed_from_its_day(store):
    stored(store, SLOT, summary())
    stored(store, LATER, summary(mean=0.7))
    stored(store, SLOT + DAY, summary())
    prune(store, now=SLOT + 3 * DAY)
    for slot in (LATER, SLOT + DAY):
        stored(store, slot, status=RunStatus.FAILED, finished_at=SLOT + 3 * DAY)

    prune(store, now=SLOT + 4 * DAY)

    assert sums(store) == [(1, 0.5)]


def test_a_day_that_is_not_over_or_already_expired_is_not_summed_up(store):
    run_id = run(store, SLOT + 23 * HOUR)

    assert not prune(store, summaries=SLOT + DAY, now=SLOT + 23 * HOUR)
    assert len(record(store, run_id).summaries) == 2
    assert not prune(store, daily=LATER, now=SLOT + 2 * DAY)
    assert not days(store)
