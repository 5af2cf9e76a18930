"""Retention: what goes and what stays, by a clock that others confirm.

And what the rest takes on disk.
"""

from contextlib import closing

import pytest
from sqlalchemy import func, select

from factories import DAY, HOUR, MINUTE, SLOT
from monitor.model.notifications import DeliveryStatus
from monitor.model.retention import DataKind
from monitor.model.runs import RunStatus
from monitor.settings.configuration import RetentionOptions
from monitor.storage import maintenance, open_store
from monitor.storage.run_results import RUN_TABLES
from monitor.storage.tables.metadata import metadata
from monitor.storage.tables.run_tables import runs
from storage.worked import (
    LATER,
    NEVER,
    claimed,
    fired,
    lease,
    note,
    prune,
    record,
    resolved,
    run,
    runs_of,
    scored,
    silence,
    transitions,
)


def test_scores_and_evidence_of_older_slots_go_and_summaries_stay_as_long_as_their_runs(store):
    old, new = run(store, SLOT), run(store, SLOT + 9 * DAY)

    assert prune(store, scores=SLOT + 4 * DAY) == {"scores": 3}
    assert prune(store, evidence=SLOT + DAY) == {"evidence": 2}

    assert (scored(store, old), store.history.evidence(old), len(record(store, old).summaries)) == (
        0,
        (),
        2,
    )
    assert (scored(store, new), len(store.history.evidence(new))) == (3, 2)
    assert prune(store, scores=SLOT + DAY, evidence=SLOT + DAY) == {}

    run(store, SLOT)
    rows = "scores 3, score_places 2, evidence 2, coverage 2"
    gone = prune(store, runs=SLOT + DAY).items()
    expected = f"{rows}, summaries 2, runs 1".split(", ")
    assert {f"{table} {count}" for table, count in gone} == {*expected}
    assert [found.id for found in runs_of(store)] == [new]


def test_runs_that_somebody_is_at_stay(store):
    claimed(store)
    run(store, LATER)
    claimed(store, LATER, rerun=True)

    assert prune(store, scores=SLOT + DAY, evidence=SLOT + DAY, runs=SLOT + DAY) == {}
    assert [found.status for found in runs_of(store)] == [RunStatus.OK, RunStatus.RUNNING]


def test_transitions_go_only_when_nobody_is_owed_anything_of_their_firing_and_it_does_not_last(
    store,
):
    firing, lasting = fired(SLOT), fired(SLOT, segment="country=UK")
    run(store, SLOT, firing, lasting, receivers=("hook",))
    store.outbox.record(*(note(delivery, SLOT) for delivery in lease(store, SLOT)))
    run(store, LATER, resolved(LATER, firing[0]), receivers=("hook",))

    assert "transitions" not in prune(store, runs=SLOT + DAY)
    (end,) = lease(store, LATER)
    store.outbox.record(note(end, LATER, DeliveryStatus.HELD))
    assert "transitions" not in prune(store, runs=SLOT + DAY)
    store.outbox.record(note(end, SLOT + DAY, DeliveryStatus.DEAD))

    assert prune(store, runs=SLOT + DAY) == {"notifications": 3, "deliveries": 2, "transitions": 2}
    (left,) = transitions(store)
    assert (left.segment, left.is_start, store.alerts.firing()) == ("country=UK", True, (left,))
    assert len(store.alerts.states()) == 2


def test_silences_that_ended_long_ago_go_and_those_that_hold_stay(store):
    for ends_at in (SLOT, SLOT + 2 * DAY):
        store.alerts.add_silence(silence(NEVER, ends_at))

    assert prune(store, runs=SLOT + DAY) == {"silences": 1}
    assert [each.ends_at for each in store.alerts.silences(ending_after=None)] == [SLOT + 2 * DAY]


def housekept(store, now):
    """Deleted as the daemon and the command do it."""
    return store.maintenance.prune(RetentionOptions().cutoffs(now), now=now)


def test_what_is_old_is_deleted_again_once_two_days_of_runs_confirm_the_clock(store):
    run(store, SLOT)
    back = SLOT + 60 * DAY
    found = []
    for days in range(4):
        run(store, back + days * DAY)
        found.append(housekept(store, back + days * DAY + HOUR))

    assert [each.deleted_rows.get("scores", 0) for each in found] == [0, 0, 3, 0]
    assert [bool(each.reason) for each in found] == [True, True, False, False]
    doubt = "before the last two days is from 2024-01-08T00:00:00Z: correct the clock; if"
    assert doubt in str(found[0].reason)


@pytest.mark.parametrize("every", [HOUR, 31 * DAY])
def test_runs_of_every_schedule_confirm_the_clock_but_not_the_first_of_a_rare_one(store, every):
    """A young or empty database confirms every clock."""
    assert housekept(store, SLOT).reason is None
    run(store, SLOT)
    assert housekept(store, SLOT + 10 * DAY).reason is None
    assert housekept(store, SLOT + 10 * DAY + HOUR).reason
    for number in range(1, 6):
        run(store, SLOT + number * every)

    assert housekept(store, SLOT + 6 * every - HOUR).reason is None


def test_days_confirm_the_clock_where_no_run_is_left(store):
    run(store, SLOT)
    housekept(store, SLOT + DAY)
    with store.database.write() as connection:
        for table in (*RUN_TABLES, runs):
            connection.execute(table.delete())

    assert housekept(store, SLOT + 600 * DAY).reason
    assert housekept(store, SLOT + 6 * DAY).reason is None


def test_a_clock_ahead_of_the_servers_is_not_trusted_though_runs_confirm_it(migrated_url):
    with closing(open_store(migrated_url, create=False)) as store:
        with store.database.read() as connection:
            servers = connection.execute(select(func.clock_timestamp())).scalar_one()
        now = servers + 40 * DAY
        for days in range(0, 40, 5):
            run(store, now - days * DAY)

        found = housekept(store, now)
        in_time = housekept(store, servers)

    assert found.deleted_rows == {}
    assert found.reason
    assert "the database's clock says " in found.reason
    assert in_time.reason is None


def test_every_table_is_of_one_kind():
    listed = [table.name for tables in maintenance.TABLES_OF_KIND.values() for table in tables]
    assert sorted(listed) == sorted(metadata.tables)


def test_sizes_tell_bytes_rows_and_the_oldest_of_each_kind(store):
    for days in range(3):
        run(store, SLOT + days * DAY)
    prune(store, now=SLOT + 3 * DAY)

    found = {each.kind: each for each in store.maintenance.measure().kinds}

    scores = found[DataKind.SCORES]
    assert (scores.runs, scores.oldest) == (3, SLOT)
    assert (found[DataKind.EVIDENCE].runs, found[DataKind.LISTS].runs) == (3, 0)
    assert store.maintenance.sizes()[DataKind.SCORES] == scores.used_bytes
    assert store.maintenance.sizes(refresh=False) is store.maintenance.sizes(refresh=False)


def test_outages_that_overlap_count_once_and_those_that_ended_before_not_at_all(store):
    for begin, end in ((0, 10), (60, 100), (70, 90), (80, 130)):
        store.maintenance.record_outage(SLOT + begin * MINUTE, SLOT + end * MINUTE)
    assert store.maintenance.away_s_since(SLOT + 10 * MINUTE) == 70 * 60
    store.maintenance.record_outage(SLOT + 60 * MINUTE, SLOT + 120 * MINUTE)
    assert store.maintenance.away_s_since(SLOT) == (10 + 70) * 60
    store.maintenance.record_outage(SLOT + 9 * DAY, SLOT + 9 * DAY + MINUTE)
    assert store.maintenance.away_s_since(SLOT) == 60
