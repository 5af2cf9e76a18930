"""Earlier runs as rules learn from them."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np

import factories
from factories import DAY, SLOT
from monitor.model.alerts import Expectation, State
from monitor.model.memory import MemoryRequest
from monitor.model.rules import SimilarityRule, describe_series
from monitor.model.runs import RunStatus, Watermark
from monitor.model.statistics import Statistic
from monitor.storage import SqlStore
from monitor.storage.tables.run_tables import lessons
from storage import worked

LOW = factories.rule(alert="Low", segments="each")
FULL = Expectation(alert="Low", segment="all", runs=9, expected=0.5, limit=0.4, z=1.5, evidence=12.0, evidence_limit=1e4)
LEARNING = Expectation(alert="Low", segment="country=DE", runs=3)
SEEN = (
    replace(FULL, series=describe_series(LOW), judged=0.1 + 0.2, error=1e-17, lost=0.125, steady=1.25),
    replace(LEARNING, series=describe_series(LOW), judged=0.25),
)


def stored(store: SqlStore, day: int, *, mean: float = 0.5, config_hash: str = "hash", **changes: Any) -> int:
    slot = SLOT + day * DAY
    claim = worked.claimed(store, slot, config_hash=config_hash)
    result = worked.result(claim, summaries=(factories.summary(mean=mean),), config_hash=config_hash, **changes)
    assert store.runs.finish(result, receivers=())
    return claim.run_id


def request(before: datetime, runs: int, *rules: SimilarityRule) -> MemoryRequest:
    series = {rule.alert: describe_series(rule) for rule in rules}
    return MemoryRequest(comparison="home-feed", config_hash="hash", before=before, runs=runs, series=series)


def test_what_was_expected_is_read_back_as_it_was_stored_and_goes_when_the_slot_is_run_again(store: SqlStore) -> None:
    stored(store, 0, expectations=SEEN)
    (latest,) = store.history.latest(["home-feed"])
    assert latest.expectations == (FULL, LEARNING)

    claim = worked.claimed(store, SLOT, rerun=True)
    assert store.runs.finish(worked.result(claim), receivers=())
    (latest,) = store.history.latest(["home-feed"])
    (run,) = store.history.past_runs(request(SLOT + DAY, 5))
    assert latest.expectations == ()
    assert run.lessons == {}


def test_runs_of_another_configuration_do_not_teach_and_are_told_as_learning_anew(store: SqlStore) -> None:
    stored(store, 0, config_hash="former")
    stored(store, 1)
    asked = request(SLOT + 2 * DAY, 5)

    other = store.history.memory_of(asked)
    assert ([run.slot for run in other.past], other.anew_since) == ([SLOT + DAY], SLOT + DAY)
    assert store.history.memory_of(replace(asked, config_hash="new")).anew_since == SLOT + 2 * DAY


def test_memory_knows_the_last_run_that_ended_ok_whatever_its_configuration(store: SqlStore) -> None:
    stored(store, 0, config_hash="other")
    stored(store, 1, status=RunStatus.FAILED)
    assert [store.history.memory_of(request(SLOT + day * DAY, 0)).last_ok for day in (0, 1, 2)] == [None, SLOT, SLOT]


def test_a_lesson_comes_back_to_the_last_bit(store: SqlStore) -> None:
    stored(store, 0, expectations=SEEN)
    (run,) = store.history.past_runs(request(SLOT + DAY, 5, LOW))

    lesson = run.lessons["Low"]
    assert (lesson.series, lesson.segments) == (describe_series(LOW), ("all", "country=DE"))
    told = [[0.1 + 0.2, 0.25], [1e-17, np.nan], [1.5, np.nan], [0.125, 0.0], [1.25, np.nan]]
    np.testing.assert_array_equal(lesson.numbers, told)


def test_summaries_are_read_only_of_runs_that_do_not_teach_the_rules(store: SqlStore) -> None:
    stored(store, 0)
    stored(store, 1, expectations=SEEN)

    def read(*rules: SimilarityRule) -> list[int]:
        runs = store.history.past_runs(request(SLOT + 2 * DAY, 5, *rules))
        return [len(run.summaries) for run in runs]

    assert read(LOW) == [1, 0]
    assert read() == [0, 0]
    assert read(replace(LOW, statistic=Statistic.parse("p05"))) == read(LOW, factories.rule(alert="New")) == [1, 1]


def test_a_damaged_lesson_is_none(store: SqlStore) -> None:
    stored(store, 0, expectations=SEEN)
    with store.database.write() as connection:
        connection.execute(lessons.update().values(numbers=b"short"))

    (run,) = store.history.past_runs(request(SLOT + DAY, 5, LOW))
    assert run.lessons == {}
    assert len(run.summaries) == 1


def test_what_others_stored_since_is_found_without_reading_it(store: SqlStore) -> None:
    names, now = ["home-feed", "search", "new"], SLOT + 9 * DAY
    worked.run(store, SLOT)
    worked.run(store, SLOT, comparison="search")
    everything, seen = store.history.changes(names, Watermark(), until=now)
    assert everything == {"home-feed", "search"}
    assert store.history.changes(names, seen, until=now) == (frozenset(), seen)

    # A newer run, an older one that changes nothing, one in the future of a clock that ran ahead, one that still runs.
    worked.run(store, SLOT + DAY, comparison="search")
    worked.run(store, SLOT - DAY)
    worked.run(store, now + DAY)
    worked.claimed(store, SLOT + 2 * DAY)
    changed, seen = store.history.changes(names, seen, until=now)
    assert changed == {"search"}

    claim = worked.claimed(store, SLOT, rerun=True, now=now)
    assert store.runs.finish(worked.result(claim), receivers=())
    changed, seen = store.history.changes(names, seen, until=now)
    assert changed == {"home-feed"}

    fired = factories.transition(from_state=State.QUIET)
    store.alerts.store_states((factories.state(state=State.FIRING),), (fired,), receivers=())
    assert store.history.changes(["search"], seen, until=now)[0] == frozenset()
    assert store.history.changes(names, seen, until=now)[0] == {"home-feed"}
    assert store.history.changes(names, Watermark(transition=10**6), until=now)[0] == set(names)
    assert store.history.changes([], seen, until=now)[0] == frozenset()


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
    (latest,) = store.history.latest(["home-feed"])
    assert (latest.run.status, latest.last_ok_slot, latest.last_ok_at) == (RunStatus.FAILED, None, None)
    store.runs.abandon_expired(abandoned.until + DAY)
    worked.claimed(store, SLOT + 5 * DAY)

    found = store.history.run_records("home-feed", after=None, limit=9)
    assert found[0].run.reason == "away"
    assert [each.run.status for each in found] == [RunStatus.FAILED, RunStatus.ABANDONED]
    assert [(each.coverage, each.summaries) for each in found] == [(None, ()), (None, ())]
