"""Retention: what goes and what stays, by a clock that others confirm.

And what the rest takes on disk.
"""

import pytest

from factories import DAY, HOUR, MINUTE, SLOT
from monitor.model.notifications import DeliveryStatus
from monitor.model.retention import DataKind
from monitor.model.runs import RunStatus
from monitor.settings.configuration import RetentionOptions
from monitor.storage import maintenance
from monitor.storage.run_results import RUN_TABLES
from monitor.storage.tables.metadata import metadata
from monitor.storage.tables.run_tables import runs
from storage.worked import (
    HOOK,
    LATER,
    NEVER,
    claimed,
    execute_sql,
    fired,
    lease,
    note,
    prune,
    record,
    resolved,
    run,
    runs_of,
    scored,
    select_rows,
    silence,
    store_at,
    transitions,
)


def test_scores_and_evidence_expire_before_the_summaries_of_their_runs(store):
    old = run(store, SLOT)
    new = run(store, SLOT + 9 * DAY)

    assert prune(store, scores=SLOT + 4 * DAY) == {"scores": 3}
    assert prune(store, evidence=SLOT + DAY) == {"evidence": 2}

    assert scored(store, old) == 0
    assert not store.history.evidence(old)
    assert len(record(store, old).summaries) == 2
    assert scored(store, new) == 3
    assert len(store.history.evidence(new)) == 2
    assert not prune(store, scores=SLOT + DAY, evidence=SLOT + DAY)

    run(store, SLOT)
    rows = "scores 3, score_places 2, evidence 2, coverage 2"
    gone = prune(store, runs=SLOT + DAY).items()
    expected = f"{rows}, summaries 2, runs 1".split(", ")
    assert {f"{table} {count}" for table, count in gone} == {*expected}
    assert [found.id for found in runs_of(store)] == [new]


def test_claimed_runs_are_not_deleted(store):
    claimed(store)
    run(store, LATER)
    claimed(store, LATER, rerun=True)

    assert not prune(store, scores=SLOT + DAY, evidence=SLOT + DAY, runs=SLOT + DAY)
    assert [found.status for found in runs_of(store)] == [RunStatus.OK, RunStatus.RUNNING]


def test_transitions_are_deleted_only_after_their_alert_ended_and_was_delivered(store):
    firing = fired()
    lasting = fired(segment="country=UK")
    run(store, SLOT, firing, lasting, receivers=HOOK)
    store.outbox.record(*(note(delivery, SLOT) for delivery in lease(store, SLOT)))
    run(store, LATER, resolved(LATER, firing[0]), receivers=HOOK)

    assert "transitions" not in prune(store, runs=SLOT + DAY)
    (end,) = lease(store)
    store.outbox.record(note(end, status=DeliveryStatus.HELD))
    assert "transitions" not in prune(store, runs=SLOT + DAY)
    store.outbox.record(note(end, SLOT + DAY, DeliveryStatus.DEAD))
    assert prune(store, runs=SLOT) == {}

    assert prune(store, runs=SLOT + DAY) == {"notifications": 3, "deliveries": 2, "transitions": 2}
    (left,) = transitions(store)
    assert left.segment == "country=UK"
    assert left.is_start
    assert store.alerts.firing() == (left,)
    assert len(store.alerts.states()) == 2


def test_only_silences_that_ended_long_ago_are_deleted(store):
    for ends_at in (SLOT, SLOT + 2 * DAY):
        store.alerts.add_silence(silence(NEVER, ends_at))

    assert prune(store, runs=SLOT + DAY) == {"silences": 1}
    assert [each.ends_at for each in store.alerts.silences(ending_after=None)] == [SLOT + 2 * DAY]


def housekept(store, now):
    """Deleted as the daemon and the command do it."""
    return store.maintenance.prune(RetentionOptions().cutoffs(now), now=now)


def test_old_rows_are_deleted_after_two_days_of_runs_confirm_the_clock(store):
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


def test_days_confirm_the_clock_if_no_run_is_left(store):
    run(store, SLOT)
    housekept(store, SLOT + DAY)
    for table in (*RUN_TABLES, runs):
        execute_sql(store, table.delete())

    assert housekept(store, SLOT + 600 * DAY).reason
    assert housekept(store, SLOT + 6 * DAY).reason is None


def test_a_clock_ahead_of_the_servers_is_not_trusted_though_runs_confirm_it(migrated_url):
    with store_at(migrated_url) as store:
        ((servers,),) = select_rows(store, "SELECT clock_timestamp()")
        now = servers + 40 * DAY
        for days in range(0, 40, 5):
            run(store, now - days * DAY)

        found = housekept(store, now)
        in_time = housekept(store, servers)

    assert not found.deleted_rows
    assert found.reason
    assert "the database's clock says " in found.reason
    assert in_time.reason is None


def test_every_table_is_of_one_kind():
    listed = [table.name for tables in maintenance.TABLES_OF_KIND.values() for table in tables]
    assert sorted(listed) == sorted(metadata.tables)


def test_sizes_give_bytes_rows_and_the_oldest_slot_of_each_kind(store):
    for days in range(3):
        run(store, SLOT + days * DAY)
    prune(store, evidence=SLOT + 2 * DAY, now=SLOT + 3 * DAY)

    found = {each.kind: each for each in store.maintenance.measure().kinds}

    scores = found[DataKind.SCORES]
    assert scores.runs == 3
    assert scores.oldest == SLOT
    assert found[DataKind.EVIDENCE].runs == 1
    assert found[DataKind.LISTS].runs == 0
    sizes = store.maintenance.sizes(refresh=False)
    assert sizes[DataKind.SCORES] == scores.used_bytes
    assert store.maintenance.sizes(refresh=False) is sizes is not store.maintenance.sizes()


def test_overlapping_outages_count_once_and_earlier_ones_do_not_count(store):
    for begin, end in ((0, 10), (60, 100), (70, 90), (80, 130)):
        store.maintenance.record_outage(SLOT + begin * MINUTE, SLOT + end * MINUTE)
    assert store.maintenance.away_s_since(SLOT + 10 * MINUTE) == 70 * 60
    store.maintenance.record_outage(SLOT + 60 * MINUTE, SLOT + 120 * MINUTE)
    assert store.maintenance.away_s_since(SLOT) == (10 + 70) * 60
    store.maintenance.record_outage(SLOT + 9 * DAY, SLOT + 9 * DAY + MINUTE)
    assert store.maintenance.away_s_since(SLOT) == 60
