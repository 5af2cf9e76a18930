"""What pages read, on both databases: series, segments, users, lists and incidents."""

from dataclasses import replace

import pytest

import factories
from factories import DAY, HOUR, MINUTE, SLOT
from monitor.model.alerts import State
from monitor.model.notifications import DeliveryStatus
from monitor.model.pages import IncidentFilter, SeriesKey
from monitor.model.rankings import Arm, CoverageReason
from monitor.model.rules import Severity
from monitor.storage.alert_states import store_transitions, upsert_states
from monitor.storage.tables.run_tables import summaries
from storage.worked import claimed, execute_sql, lease, note
from tables import rows
from web.stored_pages import KEY, METRIC, SLOTS, fill

NAME = "home-feed"
WHOLE = {"since": SLOTS[0], "until": SLOTS[-1], "max_points": 100}


@pytest.fixture
def filled(store):
    fill(store)
    fill(store, "other")
    return store


def series(store, segment="all", metric=METRIC, alert=None, **changes):
    return store.pages.series(SeriesKey(NAME, metric, segment), alert=alert, **WHOLE | changes)


def test_a_series_has_each_finished_run_with_its_expectation(filled):
    running = claimed(filled, SLOTS[-1] + DAY)
    found = series(filled, alert="SimilarityDrop", until=running.slot)
    assert [(each.slot, each.mean, each.low, each.high) for each in found] == [
        *((slot, 0.5, 0.4, 0.6) for slot in SLOTS[:3]),
        (SLOTS[3], 0.25, 0.4, 0.6),
    ]
    few = series(filled, f"country={NAME}", max_points=2)
    assert [(each.slot, each.mean, each.expected) for each in few] == [
        (SLOTS[0], 0.25, None),
        (SLOTS[3], 0.125, None),
    ]
    (only,) = series(filled, metric="nope", since=SLOTS[1], until=SLOTS[1])
    assert only.mean is None
    assert only.n == 0


@pytest.mark.parametrize(
    "change, kept",
    [(summaries.update().values(mean=0.125), (0.125, 1874)), (summaries.delete(), (None, 0))],
)
def test_a_reduced_series_keeps_the_newest_and_the_lowest_run_or_one_without_a_mean(
    store, change, kept
):
    fill(store)
    (_, second, *_) = series(store)
    of_run = summaries.c.run_id == second.run_id
    execute_sql(store, change.where(of_run, summaries.c.metric == METRIC))
    found = series(store, max_points=2)
    assert [(each.slot, each.mean, each.n) for each in found] == [
        (SLOTS[1], *kept),
        (SLOTS[3], 0.25, 1874),
    ]


def test_changes_and_neighbours_are_found_by_slot_and_segment(filled):
    def changes(segment, first, last):
        found = filled.pages.changes(NAME, segment, since=SLOTS[first], until=SLOTS[last])
        return [(each.segment, each.slot) for each in found]

    assert changes(None, 0, 3) == changes("all", 3, 3) == [("all", SLOTS[3])]
    assert changes("all", 0, 2) == changes(f"country={NAME}", 0, 3) == []
    before, after = filled.pages.neighbours(NAME, SLOTS[1])
    assert before.slot == SLOTS[0]
    assert after.slot == SLOTS[2]
    assert filled.pages.neighbours(NAME, SLOTS[0] - DAY)[0] is None


def test_distributions_and_coverage_are_those_of_the_runs(filled):
    ids = [each.run_id for each in series(filled)[::-1]]
    assert filled.pages.histograms(ids, METRIC, "all").keys() == {*ids}
    assert filled.pages.histograms(ids[:1], METRIC, "all")[ids[0]].counts == (0, 1874)
    covered = filled.pages.coverage(ids, "country=UK")
    assert {run_id: (row.asked, dict(row.users_by_reason)) for run_id, row in covered.items()} == {
        run_id: (50, {(Arm.BASELINE, CoverageReason.SHORT): 3}) for run_id in ids
    }


def test_segments_have_their_means_in_the_newest_runs(filled):
    newest = series(filled)[-1].run_id
    execute_sql(filled, summaries.delete().where(summaries.c.run_id == newest))
    whole, part = filled.pages.segments(NAME, METRIC, until=SLOTS[-1], runs=3)
    assert part.segment == f"country={NAME}"
    assert part.means == (0.25, 0.25, None)
    paired = filled.pages.coverage([newest], "all").popitem()[1].paired
    assert whole.n == paired
    assert whole.means == (0.5, 0.5, None)


def test_a_user_has_scores_in_every_run_and_lists_if_they_were_kept(filled):
    found = filled.pages.user_scores(NAME, "u1", until=SLOTS[-1], runs=3)
    assert [each.scores[METRIC] for each in found] == [0.5, 0.5, 0.25]
    assert not filled.pages.user_scores(NAME, "nobody", until=SLOTS[-1], runs=3)
    ids = [each.run_id for each in series(filled)]
    lists = filled.pages.user_lists(ids[0], "u1")  # from the evidence
    assert (lists.baseline, lists.candidate) == ((NAME, "i2", "i3"), ("i2", NAME, "i4"))
    # Of others the newest lists are kept, and those from before the alert fired.
    kept = [filled.pages.user_lists(run_id, "zz") for run_id in ids]
    assert [each and each.baseline for each in kept] == [None, None, ("i1",), ("i1",)]
    asked = (("zz", SLOTS[3]), ("x", SLOTS[3]), ("zz", SLOTS[2]))
    former = [filled.pages.former_lists(NAME, user, slot) for user, slot in asked]
    assert former == [(SLOTS[2], kept[2]), (None, None), (None, None)]


def test_an_incident_has_its_transitions_and_what_each_receiver_answered(filled):
    at = SLOTS[-1] + MINUTE
    (delivery, *_) = lease(filled, at, receiver="pager")
    filled.outbox.record(note(delivery, at, reason="answered 200"))
    found = filled.pages.incident(KEY)
    assert [(each.alert, each.slot) for each in found.transitions] == [
        ("SimilarityLow", SLOTS[-1])
    ] * 2  # of both comparisons
    assert [(each.receiver, each.at, each.status, each.reason) for each in found.answers] == [
        ("pager", at, DeliveryStatus.SENT, "answered 200")
    ]
    assert not filled.pages.incident("nope").transitions


def change(number, incident, alert="A", **changes):
    """A start, ``number`` hours after the first slot."""
    at = SLOT + number * HOUR
    about = {
        "slot": at,
        "at": at,
        "alert": alert,
        "incident": incident,
        "dedup_key": f"{incident} {alert}",
    }
    return factories.transition(**about, **changes)


def ended(number, start):
    at = SLOT + number * HOUR
    return replace(start, slot=at, at=at, from_state=State.FIRING, to_state=State.QUIET)


@pytest.fixture
def incidents(store):
    """`two` has two alerts and ended, `old` ended, a part of `one` fires."""
    first = change(0, "two", severity=Severity.WARNING, segment="100%_\x00", reason="ÄRGER")
    second = change(1, "two", "B")
    old = change(2, "old", severity=Severity.INFO)
    over = change(3, "one", comparison="other")
    lasting = change(4, "one", "B", comparison="other")
    ends = [ended(5, first), ended(6, second), ended(7, old), ended(8, over)]
    firing = factories.state(
        comparison="other",
        alert="B",
        state=State.FIRING,
        dedup_key=lasting.dedup_key,
        incident="one",
    )
    with store.database.write() as connection:
        store_transitions(connection, [first, second, old, over, lasting, *ends], ())
        upsert_states(connection, [firing])
    return store


def keys_of(store, *, is_firing=False, before=None, limit=9, **wanted):
    found = store.pages.incidents(
        IncidentFilter(**wanted), is_firing=is_firing, before_number=before, limit=limit
    )
    return [each.key for each in found]


def test_ended_incidents_are_found_page_by_page_newest_first_with_all_changes(incidents):
    assert keys_of(incidents, is_firing=True) == ["one"]
    (newest,) = incidents.pages.incidents(
        IncidentFilter(), is_firing=False, before_number=None, limit=1
    )
    assert newest.key == "old"
    assert newest.at == SLOT + 2 * HOUR
    assert keys_of(incidents, before=newest.number) == ["two"]
    changes = incidents.pages.incident_changes(["two", "old"])
    assert [(each.alert, each.is_start) for each in changes if each.incident == "two"] == [
        *(("A", True), ("B", True), ("A", False), ("B", False))
    ]
    assert len(changes) == 6


FILTERS = """
comparison other | -
comparison home-feed | old, two
severity critical | two
severity warning | -
severity info | old
text b | old, two
text 0%_\x00 | two
text ÄRGER | two
text % | two
text nothing | -
"""
"""The second alert of `two` is critical. Every reason has a "b", as in "below"."""


@pytest.mark.parametrize("wanted, found", rows(FILTERS))
def test_incidents_are_found_by_comparison_by_worst_severity_and_by_text(incidents, wanted, found):
    name, value = wanted.split(" ", 1)
    conditions = {name: Severity(value) if name == "severity" else value}
    assert (", ".join(keys_of(incidents, **conditions)) or "-") == found
