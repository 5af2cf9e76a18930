"""Who may run a slot."""

from datetime import timedelta

import pytest
from sqlalchemy import insert, select, text

from factories import SLOT
from monitor.model.runs import RunStatus
from monitor.storage import SqlStore
from monitor.storage.tables.run_tables import runs
from statements import plans_of
from storage.worked import HOUR, attempt, claimed, result

LATER = SLOT + HOUR


def test_a_slot_never_run_is_taken_as_the_first_attempt(store: SqlStore) -> None:
    claim = claimed(store)

    (run,) = store.history.runs(comparison=None, limit=5)
    assert (claim.attempt, claim.slot, claim.owner, claim.until) == (1, SLOT, "a:1", SLOT + HOUR)
    assert (run.id, run.status, run.attempt, run.started_at, run.finished_at) == (claim.run_id, "running", 1, SLOT, None)
    assert (run.asked, run.paired, run.k) == (None, None, None)


@pytest.mark.parametrize("rerun", [False, True])
def test_a_slot_that_runs_is_not_to_be_had(store: SqlStore, rerun: bool) -> None:
    claimed(store)

    assert attempt(store, owner="b:2", now=SLOT + timedelta(minutes=59), rerun=rerun) is None
    assert attempt(store, owner="a:1", now=SLOT + timedelta(minutes=59), rerun=rerun) is None


def test_a_claim_that_ran_out_is_taken_over_as_the_next_attempt(store: SqlStore) -> None:
    first = claimed(store)

    second = claimed(store, owner="b:2", now=LATER, until=LATER + HOUR)

    assert (second.run_id, second.attempt, second.owner) == (first.run_id, 2, "b:2")
    assert store.history.runs(comparison=None, limit=5)[0].started_at == LATER


@pytest.mark.parametrize("status", [RunStatus.OK, RunStatus.INSUFFICIENT, RunStatus.FAILED])
def test_a_finished_slot_is_taken_only_to_run_it_again_and_shows_its_results_meanwhile(
    store: SqlStore, status: RunStatus
) -> None:
    store.runs.finish(result(claimed(store), status=status, reason="why"), receivers=())
    before = store.history.latest(["home-feed"])

    assert attempt(store, now=LATER) is None
    again = attempt(store, owner="b:2", now=LATER, until=LATER + HOUR, config_hash="other", rerun=True)

    assert again is not None
    assert again.attempt == 2
    (shown,) = store.history.latest(["home-feed"])
    assert (shown.run.status, shown.run.reason, shown.run.started_at, shown.run.config_hash) == (status, "why", SLOT, "hash")
    assert shown.summaries == before[0].summaries
    assert attempt(store, owner="c:3", now=LATER, rerun=True) is None
    assert attempt(store, owner="c:3", now=LATER + HOUR, rerun=True) is not None


def test_a_first_attempt_given_back_vanishes(store: SqlStore) -> None:
    store.runs.release(claimed(store))

    assert store.history.runs(comparison=None, limit=5) == ()
    assert store.runs.last_slot("home-feed") is None


def test_a_rerun_given_back_shows_the_earlier_results_and_can_be_claimed(store: SqlStore) -> None:
    store.runs.finish(result(claimed(store)), receivers=())
    before = store.history.latest(["home-feed"])[0]

    store.runs.release(claimed(store, rerun=True, now=LATER, until=LATER + HOUR))

    after = store.history.latest(["home-feed"])[0]
    assert (after.run.status, after.run.finished_at, after.summaries) == ("ok", before.run.finished_at, before.summaries)
    assert claimed(store, rerun=True, now=LATER).attempt == 3


def test_a_second_attempt_given_back_unrun_is_abandoned_and_can_be_taken(store: SqlStore) -> None:
    claimed(store)
    store.runs.release(claimed(store, owner="b:2", now=LATER, until=LATER + HOUR))

    assert store.history.runs(comparison=None, limit=1)[0].status is RunStatus.ABANDONED
    assert claimed(store, now=LATER).attempt == 3


def test_a_claim_that_was_taken_over_cannot_be_given_back(store: SqlStore) -> None:
    first = claimed(store)
    claimed(store, owner="b:2", now=LATER, until=LATER + HOUR)

    store.runs.release(first)

    assert store.history.runs(comparison=None, limit=1)[0].owner == "b:2"
    assert attempt(store, owner="c:3", now=LATER) is None


def test_expired_runs_are_abandoned_once_and_say_why(store: SqlStore) -> None:
    claimed(store)
    claimed(store, LATER, until=LATER + HOUR)

    assert store.runs.abandon_expired(SLOT + HOUR - timedelta(microseconds=1)) == 0
    assert store.runs.abandon_expired(SLOT + HOUR) == 1
    assert store.runs.abandon_expired(SLOT + HOUR) == 0

    running, abandoned = store.history.runs(comparison="home-feed", limit=5)
    assert running.status is RunStatus.RUNNING
    assert (abandoned.status, abandoned.finished_at) == (RunStatus.ABANDONED, SLOT + HOUR)
    assert abandoned.reason == "its claim expired: the process that ran it was stopped or hung"
    assert claimed(store, now=LATER).attempt == 2


def test_a_finished_run_whose_rerun_expired_is_not_abandoned(store: SqlStore) -> None:
    store.runs.finish(result(claimed(store)), receivers=())
    claimed(store, rerun=True)

    assert store.runs.abandon_expired(SLOT + HOUR) == 0
    assert store.history.runs(comparison=None, limit=1)[0].status is RunStatus.OK
    assert attempt(store, rerun=True) is not None


def test_expired_claims_and_unlabelled_runs_are_found_without_a_look_at_all_runs(store: SqlStore) -> None:
    first = claimed(store)
    store.runs.finish(result(first), receivers=())
    with store.database.write() as connection:
        row = dict(connection.execute(select(runs)).one()._mapping)
        slots = [
            {**row, "id": number, "scheduled_for": SLOT + (number - first.run_id) * HOUR}
            for number in range(first.run_id + 1, first.run_id + 3000)
        ]
        connection.execute(insert(runs), slots)
        connection.execute(text("ANALYZE"))

    expired = plans_of(lambda: store.runs.abandon_expired(SLOT))
    waiting = plans_of(lambda: store.runs.awaiting_relevance("home-feed", since=SLOT))
    shown = plans_of(lambda: store.history.latest(["home-feed"]))

    assert "ix_runs_claimed" in expired[-1]
    assert "ix_runs_unlabelled" in waiting[-1]
    assert sum("ix_runs_unlabelled" in plan for plan in shown) == 1


def test_the_last_slot_is_the_newest_ever_claimed_whatever_became_of_it(store: SqlStore) -> None:
    claimed(store, LATER)
    claimed(store, SLOT)
    claimed(store, LATER + HOUR, comparison="search")
    store.runs.abandon_expired(LATER + 9 * HOUR)

    assert store.runs.last_slot("home-feed") == LATER
    assert store.runs.last_slot("nobody") is None


def test_runs_come_newest_slot_first_and_up_to_the_limit(store: SqlStore) -> None:
    for hours in (2, 0, 1):
        claimed(store, SLOT + hours * HOUR)
    claimed(store, SLOT + 3 * HOUR, comparison="search")

    slots = [run.slot for run in store.history.runs(comparison="home-feed", limit=2)]
    assert slots == [SLOT + 2 * HOUR, SLOT + HOUR]
    assert [run.comparison for run in store.history.runs(comparison=None, limit=9)] == ["search", *["home-feed"] * 3]


def test_who_holds_a_slot_is_told_until_it_is_given_back(store: SqlStore) -> None:
    claim = claimed(store)

    assert store.runs.held_claim(claim.comparison, SLOT) == claim
    assert store.runs.held_claim(claim.comparison, LATER) is None
    store.runs.release(claim)
    assert store.runs.held_claim(claim.comparison, SLOT) is None
