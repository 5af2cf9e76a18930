"""Finished runs with all that rules judge them by."""

from datetime import timedelta

import factories
from factories import SLOT
from monitor.model import RunStatus
from monitor.storage import SqlStore
from storage import worked

DAY = timedelta(days=1)


def test_finished_runs_come_oldest_first_with_coverage_and_summaries_a_few_at_a_time(store: SqlStore) -> None:
    for day in (2, 0, 1):
        claim = worked.claimed(store, SLOT + day * DAY)
        assert store.runs.finish(worked.result(claim, summaries=(factories.summary(mean=day / 10),)), receivers=())

    first = store.history.run_records("home-feed", after=None, limit=2)
    assert [(each.run.slot, each.summaries[0].mean) for each in first] == [(SLOT, 0.0), (SLOT + DAY, 0.1)]
    assert first[0].coverage == worked.coverage()
    assert [each.run.slot for each in store.history.run_records("home-feed", after=first[-1].run.slot, limit=2)] == [
        SLOT + 2 * DAY
    ]
    assert store.history.run_records("home-feed", after=SLOT + 2 * DAY, limit=2) == ()
    assert store.history.run_records("other", after=None, limit=2) == ()


def test_runs_of_every_end_are_there_with_their_reason_and_running_ones_are_not(store: SqlStore) -> None:
    failed, abandoned = worked.claimed(store, SLOT), worked.claimed(store, SLOT + DAY)
    result = worked.result(failed, status=RunStatus.FAILED, reason="away", coverage=None, summaries=(), scores=None)
    assert store.runs.finish(result, receivers=())
    store.runs.abandon_expired(abandoned.until + DAY)
    worked.claimed(store, SLOT + 5 * DAY)

    found = store.history.run_records("home-feed", after=None, limit=9)
    assert found[0].run.reason == "away"
    assert [each.run.status for each in found] == [RunStatus.FAILED, RunStatus.ABANDONED]
    assert [(each.coverage, each.summaries) for each in found] == [(None, ()), (None, ())]
