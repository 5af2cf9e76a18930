"""What pages read, on both databases: series, segments, users, lists and incidents."""

from typing import Any

import pytest

from factories import DAY, MINUTE
from monitor.model.notifications import DeliveryStatus
from monitor.model.pages import SeriesKey
from monitor.model.rankings import Arm, CoverageReason
from monitor.storage import SqlStore
from monitor.storage.tables.run_tables import summaries
from storage.worked import claimed, lease, note
from web.stored_pages import KEY, METRIC, SLOTS, fill, lists_of

NAME = "home-feed"
WHOLE: dict[str, Any] = {"since": SLOTS[0], "until": SLOTS[-1], "most": 100}


@pytest.fixture
def filled(store: SqlStore) -> SqlStore:
    fill(store)
    fill(store, "other")
    return store


def series(
    store: SqlStore,
    segment: str = "all",
    metric: str = METRIC,
    alert: str | None = None,
    **changes: Any,
) -> Any:
    return store.pages.series(SeriesKey(NAME, metric, segment), alert=alert, **{**WHOLE, **changes})


def test_a_series_has_each_finished_run_with_what_was_expected_of_it(filled):
    running = claimed(filled, SLOTS[-1] + DAY)
    found = series(filled, alert="SimilarityDropped", until=running.slot)
    means = (0.5, 0.5, 0.5, 0.25)
    assert [(each.slot, each.mean, each.n) for each in found] == [
        (slot, mean, 1874) for slot, mean in zip(SLOTS, means, strict=True)
    ]
    assert {(each.low, each.expected, each.high) for each in found} == {(0.4, 0.5, 0.6)}
    assert len({each.run_id for each in found}) == len(SLOTS)
    few = series(filled, f"country={NAME}", most=2)
    assert [(each.slot, each.mean, each.expected) for each in few] == [
        (SLOTS[0], 0.25, None),
        (SLOTS[3], 0.125, None),
    ]
    (only,) = series(filled, metric="nope", since=SLOTS[1], until=SLOTS[1])
    assert (only.mean, only.n) == (None, 0)


@pytest.mark.parametrize(
    ("change", "kept"),
    [(summaries.update().values(mean=0.125), (0.125, 1874)), (summaries.delete(), (None, 0))],
)
def test_of_many_runs_a_series_keeps_the_newest_and_the_lowest_or_one_without_a_mean(
    store, change, kept
):
    fill(store)
    (_, second, *_) = series(store)
    with store.database.write() as connection:
        connection.execute(
            change.where(summaries.c.run_id == second.run_id, summaries.c.metric == METRIC)
        )
    found = series(store, most=2)
    assert [(each.slot, each.mean, each.n) for each in found] == [
        (SLOTS[1], *kept),
        (SLOTS[3], 0.25, 1874),
    ]


def test_changes_are_those_of_the_slots_and_of_the_segment_and_neighbours_the_finished_runs_before_and_after(
    filled,
):
    def changes(segment: str | None, first: int, last: int) -> list[tuple[Any, ...]]:
        found = filled.pages.changes(NAME, segment, since=SLOTS[first], until=SLOTS[last])
        return [(each.alert, each.segment, each.slot) for each in found]

    assert changes(None, 0, 3) == changes("all", 3, 3) == [("SimilarityLow", "all", SLOTS[3])]
    assert changes("all", 0, 2) == changes(f"country={NAME}", 0, 3) == []
    assert filled.pages.neighbours(NAME, SLOTS[1]) == (SLOTS[0], SLOTS[2])
    assert filled.pages.neighbours(NAME, SLOTS[0] - DAY) == (None, SLOTS[0])


def test_distributions_and_coverage_are_those_of_the_runs(filled):
    ids = [each.run_id for each in series(filled)[::-1]]
    assert filled.pages.histograms(ids, METRIC, "all").keys() == {*ids}
    assert filled.pages.histograms(ids[:1], METRIC, "all")[ids[0]].counts == (0, 1874)
    covered = filled.pages.coverage(ids, "country=UK")
    assert {run_id: (row.asked, dict(row.reasons)) for run_id, row in covered.items()} == {
        run_id: (50, {(Arm.BASELINE, CoverageReason.SHORT): 3}) for run_id in ids
    }


def test_segments_have_their_means_in_the_newest_runs(filled):
    found = filled.pages.segments(NAME, METRIC, until=SLOTS[-1], runs=3)
    assert [(each.segment, each.users, each.means) for each in found] == [
        ("all", 1874, (0.5, 0.5, 0.25)),
        (f"country={NAME}", 9, (0.25, 0.25, 0.125)),
    ]


def test_a_user_has_scores_in_every_run_and_lists_where_they_were_kept(filled):
    found = filled.pages.user_scores(NAME, "u1", until=SLOTS[-1], runs=3)
    assert [(each.slot, dict(each.scores)) for each in found] == [
        (slot, {METRIC: mean}) for slot, mean in zip(SLOTS[1:], (0.5, 0.5, 0.25), strict=True)
    ]
    assert filled.pages.user_scores(NAME, "nobody", until=SLOTS[-1], runs=3) == ()
    ids = [each.run_id for each in series(filled)]
    for run_id in ids:  # from the evidence
        lists = filled.pages.user_lists(run_id, "u1")
        assert lists is not None
        assert (lists.baseline, lists.candidate) == tuple(lists_of(arm, NAME) for arm in Arm)
    kept = [
        filled.pages.user_lists(run_id, "zz") for run_id in ids
    ]  # the newest lists, and those from before it fired
    assert [None if each is None else each.baseline for each in kept] == [
        None,
        None,
        ("i1",),
        ("i1",),
    ]
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
    assert [(each.receiver, each.at, each.status, each.reason) for each in found.attempts] == [
        ("pager", at, DeliveryStatus.SENT, "answered 200")
    ]
    assert filled.pages.incident("nope").transitions == ()
