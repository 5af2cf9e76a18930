"""Retention: what goes, what stays, and that others may write meanwhile."""

import threading
from datetime import timedelta

from factories import SLOT
from monitor.model.notifications import DeliveryStatus, Silence
from monitor.model.runs import RunStatus
from monitor.storage import SqlStore
from storage.worked import HOUR, NEVER, attempt, claimed, fired, lease, note, prune, record, resolved, run

DAY = timedelta(days=1)


def scored(store: SqlStore, run_id: int) -> int:
    return len(store.history.run_scores(run_id, ["extended_tau"]).users)


def test_scores_and_evidence_of_older_slots_go_and_summaries_stay(store: SqlStore) -> None:
    old, new = run(store, SLOT), run(store, SLOT + 9 * DAY)

    assert prune(store, scores=SLOT + 4 * DAY) == {"scores": 3}
    assert prune(store, evidence=SLOT + DAY) == {"evidence": 2}

    assert (scored(store, old), store.history.evidence(old)) == (0, ())
    assert len(record(store, old).summaries) == 2
    assert scored(store, new) == 3
    assert len(store.history.evidence(new)) == 2
    assert prune(store, scores=SLOT + DAY, evidence=SLOT + DAY) == {}


def test_old_runs_go_with_all_that_belongs_to_them(store: SqlStore) -> None:
    run(store, SLOT)
    new = run(store, SLOT + DAY)

    assert prune(store, runs=SLOT + DAY) == {
        "scores": 3,
        "score_places": 2,
        "evidence": 2,
        "stages": 2,
        "coverage_reasons": 2,
        "coverage": 2,
        "statistics": 4,
        "summaries": 2,
        "runs": 1,
    }
    assert [found.id for found in store.history.runs(comparison=None, limit=9)] == [new]


def test_others_write_between_the_runs(store: SqlStore) -> None:
    for hours in range(20):
        run(store, SLOT + hours * HOUR)
    claims: list[object] = []
    writer = threading.Thread(target=lambda: claims.append(attempt(store, SLOT + DAY)))

    writer.start()
    gone = prune(store, runs=SLOT + DAY)
    writer.join()

    assert gone["runs"] == 20
    assert [claim is not None for claim in claims] == [True]


def test_runs_that_somebody_is_at_stay(store: SqlStore) -> None:
    claimed(store)
    run(store, SLOT + HOUR)
    claimed(store, SLOT + HOUR, rerun=True)

    assert prune(store, scores=SLOT + DAY, evidence=SLOT + DAY, runs=SLOT + DAY) == {}
    assert [found.status for found in store.history.runs(comparison=None, limit=9)] == [RunStatus.OK, RunStatus.RUNNING]


def test_transitions_go_only_when_nobody_is_owed_anything_of_their_firing_and_it_does_not_last(store: SqlStore) -> None:
    firing, lasting = fired(SLOT), fired(SLOT, segment="country=UK")
    run(store, SLOT, firing, lasting, receivers=("hook",))
    store.outbox.record(*(note(delivery, SLOT) for delivery in lease(store, SLOT)))
    run(store, SLOT + HOUR, resolved(SLOT + HOUR, firing[0]), receivers=("hook",))

    assert "transitions" not in prune(store, runs=SLOT + DAY)
    (end,) = lease(store, SLOT + HOUR)
    store.outbox.record(note(end, SLOT + HOUR, DeliveryStatus.HELD))
    assert "transitions" not in prune(store, runs=SLOT + DAY)
    store.outbox.record(note(end, SLOT + DAY, DeliveryStatus.DEAD))

    assert prune(store, runs=SLOT + DAY) == {"notifications": 3, "deliveries": 2, "transitions": 2}
    (left,) = store.alerts.transitions(comparison=None, limit=None)
    assert (left.segment, left.is_start, store.alerts.firing()) == ("country=UK", True, (left,))
    assert len(store.alerts.states()) == 2


def test_silences_that_ended_long_ago_go_and_those_that_hold_stay(store: SqlStore) -> None:
    for ends_at in (SLOT, SLOT + 2 * DAY):
        wanted = Silence(
            id=0, matchers=("segment=all",), author="anna", comment="", created_at=NEVER, starts_at=NEVER, ends_at=ends_at
        )
        store.alerts.add_silence(wanted)

    assert prune(store, runs=SLOT + DAY) == {"silences": 1}
    assert [each.ends_at for each in store.alerts.silences(ending_after=None)] == [SLOT + 2 * DAY]
