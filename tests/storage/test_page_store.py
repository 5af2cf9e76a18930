"""What pages read, on both databases: series, segments, users, lists and incidents."""

from datetime import timedelta
from typing import Any

import pytest

from factories import DAY
from monitor.model.notifications import DeliveryStatus, Notification
from monitor.model.pages import SeriesKey
from monitor.model.rankings import Arm, CoverageReason
from monitor.storage import SqlStore
from monitor.storage.tables.run_tables import summaries
from web.stored_pages import KEY, METRIC, SLOTS, fill, lists_of

NAME = "home-feed"
WHOLE: dict[str, Any] = {"since": SLOTS[0], "until": SLOTS[-1], "most": 100}


@pytest.fixture
def filled(store: SqlStore) -> SqlStore:
    fill(store)
    fill(store, "other")
    return store


def test_a_series_has_each_finished_run_with_what_was_expected_of_it(filled: SqlStore) -> None:
    claimed = SLOTS[-1] + DAY
    filled.runs.claim(NAME, claimed, owner="o", now=claimed, until=claimed + DAY, config_hash="0" * 64, rerun=False)
    found = filled.pages.series(SeriesKey(NAME, METRIC, "all"), alert="SimilarityDropped", **{**WHOLE, "until": claimed})
    assert [(each.slot, each.mean, each.n) for each in found] == list(
        zip(SLOTS, (0.5, 0.5, 0.5, 0.25), [1874] * 4, strict=True)
    )
    assert {(each.low, each.expected, each.high) for each in found} == {(0.4, 0.5, 0.6)}
    assert len({each.run_id for each in found}) == len(SLOTS)
    few = filled.pages.series(SeriesKey(NAME, METRIC, f"country={NAME}"), alert=None, **{**WHOLE, "most": 2})
    assert [(each.slot, each.mean, each.expected) for each in few] == [(SLOTS[0], 0.25, None), (SLOTS[3], 0.125, None)]
    (only,) = filled.pages.series(SeriesKey(NAME, "nope", "all"), alert=None, since=SLOTS[1], until=SLOTS[1], most=9)
    assert (only.mean, only.n) == (None, 0)


@pytest.mark.parametrize(
    ("change", "kept"), [(summaries.update().values(mean=0.125), (0.125, 1874)), (summaries.delete(), (None, 0))]
)
def test_of_many_runs_a_series_keeps_the_newest_and_the_lowest_or_one_without_a_mean(
    store: SqlStore, change: Any, kept: tuple[float | None, int]
) -> None:
    fill(store)
    (_, second, *_) = store.pages.series(SeriesKey(NAME, METRIC, "all"), alert=None, **WHOLE)
    with store.database.write() as connection:
        connection.execute(change.where(summaries.c.run_id == second.run_id, summaries.c.metric == METRIC))
    found = store.pages.series(SeriesKey(NAME, METRIC, "all"), alert=None, **{**WHOLE, "most": 2})
    assert [(each.slot, each.mean, each.n) for each in found] == [(SLOTS[1], *kept), (SLOTS[3], 0.25, 1874)]


def test_changes_are_those_of_the_slots_and_of_the_segment(filled: SqlStore) -> None:
    all_of_them = filled.pages.changes(NAME, None, since=SLOTS[0], until=SLOTS[-1])
    assert [(each.alert, each.segment, each.slot) for each in all_of_them] == [("SimilarityLow", "all", SLOTS[-1])]
    assert filled.pages.changes(NAME, "all", since=SLOTS[-1], until=SLOTS[-1]) == all_of_them
    assert filled.pages.changes(NAME, "all", since=SLOTS[0], until=SLOTS[2]) == ()
    assert filled.pages.changes(NAME, f"country={NAME}", since=SLOTS[0], until=SLOTS[-1]) == ()


def test_distributions_and_coverage_are_those_of_the_runs(filled: SqlStore) -> None:
    points = filled.pages.series(SeriesKey(NAME, METRIC, "all"), alert=None, **WHOLE)
    ids = [each.run_id for each in points[::-1]]
    assert filled.pages.histograms(ids, METRIC, "all").keys() == {*ids}
    assert filled.pages.histograms(ids[:1], METRIC, "all")[ids[0]].counts == (0, 1874)
    covered = filled.pages.coverage(ids, "country=UK")
    assert {run_id: (row.asked, dict(row.reasons)) for run_id, row in covered.items()} == {
        run_id: (50, {(Arm.BASELINE, CoverageReason.SHORT): 3}) for run_id in ids
    }


def test_segments_have_their_means_in_the_newest_runs(filled: SqlStore) -> None:
    found = filled.pages.segments(NAME, METRIC, until=SLOTS[-1], runs=3)
    assert [(each.segment, each.users, each.means) for each in found] == [
        ("all", 1874, (0.5, 0.5, 0.25)),
        (f"country={NAME}", 9, (0.25, 0.25, 0.125)),
    ]


def test_neighbours_are_the_finished_runs_before_and_after(filled: SqlStore) -> None:
    assert filled.pages.neighbours(NAME, SLOTS[1]) == (SLOTS[0], SLOTS[2])
    assert filled.pages.neighbours(NAME, SLOTS[0] - DAY) == (None, SLOTS[0])


def test_a_user_has_scores_in_every_run_and_lists_where_they_were_kept(filled: SqlStore) -> None:
    found = filled.pages.user_scores(NAME, "u1", until=SLOTS[-1], runs=3)
    assert [(each.slot, dict(each.scores)) for each in found] == [
        (slot, {METRIC: mean}) for slot, mean in zip(SLOTS[1:], (0.5, 0.5, 0.25), strict=True)
    ]
    assert filled.pages.user_scores(NAME, "nobody", until=SLOTS[-1], runs=3) == ()
    ids = [each.run_id for each in filled.pages.series(SeriesKey(NAME, METRIC, "all"), alert=None, **WHOLE)]
    for run_id in ids:  # from the evidence
        lists = filled.pages.user_lists(run_id, "u1")
        assert lists is not None
        assert (lists.baseline, lists.candidate) == tuple(lists_of(arm, NAME) for arm in Arm)
    kept = [filled.pages.user_lists(run_id, "zz") for run_id in ids]  # the newest lists, and those from before it fired
    assert [None if each is None else each.baseline for each in kept] == [None, None, ("i1",), ("i1",)]
    asked = (("zz", SLOTS[3]), ("x", SLOTS[3]), ("zz", SLOTS[2]))
    former = [filled.pages.former_lists(NAME, user, slot) for user, slot in asked]
    assert former == [(SLOTS[2], kept[2]), (None, None), (None, None)]


def test_an_incident_has_its_transitions_and_what_each_receiver_answered(filled: SqlStore) -> None:
    at = SLOTS[-1] + timedelta(minutes=1)
    (delivery, *_) = filled.outbox.claim_deliveries("pager", owner="o", now=at, until=at + DAY, limit=9)
    filled.outbox.record(
        Notification(delivery_id=delivery.id, at=at, status=DeliveryStatus.SENT, reason="answered 200", next_attempt_at=None)
    )
    found = filled.pages.incident(KEY)
    assert [(each.alert, each.slot) for each in found.transitions] == [("SimilarityLow", SLOTS[-1])] * 2  # of both comparisons
    assert [(each.receiver, each.at, each.status, each.reason) for each in found.attempts] == [
        ("pager", at, DeliveryStatus.SENT, "answered 200")
    ]
    assert filled.pages.incident("nope").transitions == ()
