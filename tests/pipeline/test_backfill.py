"""Relevance that arrives later is measured on the lists of the run, once, and never judged."""

import threading

import numpy as np
import pytest

from factories import DAY, SECOND, SLOT, comparison, rule
from monitor.model.alerts import Outcome
from monitor.model.errors import SourceError
from monitor.model.memory import Memory
from monitor.model.rules import Keep
from monitor.pipeline.backfill import backfill_relevance
from monitor.pipeline.run import execute
from monitor.storage.tables.run_tables import kept_lists
from pipeline.canned import CannedRelevance, StillClock, arms, users
from storage.worked import execute_sql, record, transitions

NDCG = "ndcg(arm=candidate, gain=linear)"
RECALL = "recall(arm=candidate)"


def watched(**changes):
    base = {
        "k": 3,
        "metrics": ("overlap", NDCG, RECALL),
        "rules": (rule(metric="overlap", threshold=0.0, resolve_at=0.0, segments="each"),),
        "keep_lists": Keep.ALL,
        "relevance_within": 7 * DAY,
        "min_paired_share": 0.1,
    }
    return comparison(**base | changes)


LISTS = "a:123 b:456 c:78"
OTHERS = "a:912 b:564 c:87"


def ran(store, what, slot=SLOT, known=None):
    """Run the slot and store it."""
    claim = store.runs.claim(
        what.name,
        slot,
        owner="t:1",
        now=slot,
        until=slot + DAY,
        config_hash=what.config_hash,
        rerun=True,
    )
    opened = arms(
        LISTS,
        OTHERS,
        users("a", "b", "c", country=["UK", "DE", "DE"]),
        relevance=CannedRelevance(known or {}),
    )
    result = execute(
        what, opened, claim, Memory(states=store.alerts.states(what.name)), StillClock(slot)
    )
    assert store.runs.finish(result, receivers=("hook",))
    return claim.run_id


def filled(store, what, source, now=SLOT + 2 * DAY, **slots):
    return list(backfill_relevance(what, store, source, StillClock(now), **slots))


def means(store, run_id):
    return {
        (each.segment, each.metric): (each.mean, each.n, each.n_undefined)
        for each in record(store, run_id).summaries
    }


BOUGHT = {"a": {1: 1.0}, "b": {6: 2.0, 99: 1.0}, "nobody": {1: 1.0}}


def test_late_relevance_gives_the_same_scores_as_relevance_that_is_there_at_once(store):
    late = watched(name="late")
    early = watched(name="early")
    at_once = ran(store, early, known={SLOT: BOUGHT})
    run_id = ran(store, late)
    assert ("all", NDCG) not in means(store, run_id)
    assert ("all", NDCG) in means(store, at_once)

    (found,) = filled(store, late, CannedRelevance({SLOT: BOUGHT}))

    assert found.run.id == run_id
    assert found.reason is None
    assert means(store, run_id) == means(store, at_once)
    assert means(store, run_id)["all", RECALL] == (0.75, 2, 1)
    assert means(store, run_id)["country=DE", RECALL] == (0.5, 1, 1)
    later, once = (
        store.history.run_scores(each, late.measuring.metrics) for each in (run_id, at_once)
    )
    assert list(later.users) == list(once.users) == list("abc")
    np.testing.assert_array_equal(
        [later.by_metric[name] for name in watched().measuring.metrics],
        list(once.by_metric.values()),
    )
    assert found.summaries == tuple(
        each for each in record(store, at_once).summaries if each.metric != "overlap"
    )


def test_relevance_is_not_requested_before_its_delay_is_over(store):
    what = watched(relevance_after=2 * DAY)
    source = CannedRelevance({SLOT: BOUGHT})
    run_id = ran(store, what, known=source.known)
    assert ("all", NDCG) not in means(store, run_id)
    assert filled(store, what, source, SLOT + 2 * DAY - SECOND) == []
    (found,) = filled(store, what, source)
    assert found.run.id == run_id
    assert means(store, run_id)["all", RECALL] == (0.75, 2, 1)


def test_a_run_waits_until_its_relevance_arrives(store):
    what = watched()
    source = CannedRelevance({SLOT + DAY: BOUGHT})
    first = ran(store, what)
    second = ran(store, what, SLOT + DAY)
    found = [
        (each.run.id, bool(each.summaries), each.reason) for each in filled(store, what, source)
    ]
    assert found == [(first, False, None), (second, True, None)]
    assert source.asked == [SLOT, SLOT + DAY]
    assert [run.id for run in store.runs.awaiting_relevance(what.name, since=SLOT)] == [first]


def test_two_processes_that_add_the_same_relevance_store_it_once(store, monkeypatch):
    what = watched()
    source = CannedRelevance({SLOT: BOUGHT})
    run_id = ran(store, what)
    listed = store.runs.awaiting_relevance(what.name, since=SLOT)
    filled(store, what, source)
    before = record(store, run_id).summaries
    # The other one listed the runs before the first was done.
    monkeypatch.setattr(type(store.runs), "awaiting_relevance", lambda *_, **__: listed)
    (again,) = filled(store, what, source)
    assert again.reason is None
    assert sorted(map(repr, record(store, run_id).summaries)) == sorted(map(repr, before))


def troubles(found):
    return [(each.run.slot, each.reason) for each in found]


def test_damaged_lists_are_reported_and_do_not_block_the_next_run(store):
    what = watched()
    broken = ran(store, what)
    _ = ran(store, what, SLOT + DAY)
    execute_sql(
        store, kept_lists.update().where(kept_lists.c.run_id == broken).values(payload=b"x")
    )

    first, second = troubles(
        filled(store, what, CannedRelevance({SLOT: BOUGHT, SLOT + DAY: BOUGHT}))
    )

    assert first[0] == SLOT
    assert second == (SLOT + DAY, None)
    assert f"stored lists of run {broken} are damaged" in str(first[1])


def test_relevance_is_not_requested_if_no_metric_needs_it(store):
    source = CannedRelevance({SLOT: BOUGHT})
    ran(store, watched())
    for what in (watched(metrics=("overlap",)), watched(relevance_within=None)):
        assert filled(store, what, source) == []
        assert source.asked == []


@pytest.mark.parametrize(
    "trouble, said, goes_on",
    [
        (SourceError("no column 'grades'"), "no column 'grades'", True),
        (SourceError("connection refused", permanent=False), "connection refused", False),
        (threading.Event(), "relevance of home-feed: the source did not answer within 0 s", False),
    ],
    ids=["unreadable", "away", "hung"],
)
def test_an_unreadable_slot_does_not_block_the_next_and_an_unreachable_source_is_requested_once(
    store, trouble, said, goes_on
):
    what = watched(deadline=(0.1 if isinstance(trouble, threading.Event) else 10) * SECOND)
    ran(store, what)
    ran(store, what, SLOT + DAY)
    source = CannedRelevance({SLOT: trouble, SLOT + DAY: BOUGHT})

    found = troubles(filled(store, what, source))
    if isinstance(trouble, threading.Event):
        trouble.set()

    assert found == [(SLOT, said), (SLOT + DAY, None)][: 1 + goes_on]
    assert len(source.asked) == len(found)


def test_runs_that_no_longer_wait_and_slots_outside_of_the_range_are_ignored(store):
    what = watched()
    source = CannedRelevance({SLOT: BOUGHT, SLOT + DAY: BOUGHT})
    run_id = ran(store, what)
    _ = ran(store, what, SLOT + DAY)
    assert filled(store, what, source, SLOT + 9 * DAY) == []
    assert [
        each.run.id for each in filled(store, what, source, SLOT + 9 * DAY, start=SLOT, end=SLOT)
    ] == [run_id]


def test_adding_relevance_twice_adds_nothing_and_changes_no_alert_and_no_delivery(store):
    def alerts():
        return store.alerts.states(what.name), transitions(store), store.outbox.waiting(SLOT)

    what = watched()
    source = CannedRelevance({SLOT: BOUGHT})
    run_id = ran(store, what)
    before = alerts()
    filled(store, what, source)
    once = record(store, run_id).summaries

    assert filled(store, what, source) == []
    assert record(store, run_id).summaries == once
    assert source.asked == [SLOT]
    assert alerts() == before
    assert {state.outcome for state in before[0]} <= {Outcome.OK, Outcome.TOO_FEW}
