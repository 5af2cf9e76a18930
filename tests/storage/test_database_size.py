"""What the database takes, and staying below a largest size: over a year of runs, on both databases."""

from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from factories import SLOT
from monitor.model import Arm, DataKind, Scores
from monitor.storage import SqlStore, database_size, open_store, shrinking
from monitor.storage.tables import kept_lists, metadata
from storage.worked import HOUR, claimed, cutoffs, evidence, prune, result, run

DAY = timedelta(days=1)
MB = 10**6


def many(users: int) -> Scores:
    names = pd.Index([f"user-{number:06}" for number in range(users)], dtype="str")
    return Scores(users=names, by_metric={metric: np.full(users, 0.5) for metric in ("extended_tau", "rbo(p=0.9)")})


def stored(store: SqlStore, days: int, users: int, comparison: str = "home-feed", **changes: Any) -> int:
    claim = claimed(store, SLOT + days * DAY, comparison=comparison)
    assert store.runs.finish(result(claim, scores=many(users), **changes), receivers=())
    return claim.run_id


def test_every_table_is_of_one_kind() -> None:
    listed = [table.name for tables in database_size.TABLES.values() for table in tables]
    assert sorted(listed) == sorted(metadata.tables)


def test_sizes_tell_bytes_rows_and_the_oldest_of_each_kind(store: SqlStore) -> None:
    for days in range(3):
        stored(store, days, users=2000)
    prune(store, now=SLOT + 3 * DAY)

    found = {each.kind: each for each in store.maintenance.measure().kinds}

    scores = found[DataKind.SCORES]
    assert (scores.rows, scores.is_estimate, scores.runs, scores.oldest) == (12_000, False, 3, SLOT)
    assert 12_000 * 20 < scores.used_bytes < 12_000 * 200
    assert (found[DataKind.DAILY].rows, found[DataKind.EVIDENCE].rows, found[DataKind.LISTS].rows) == (6, 6, 0)
    assert scores.bytes_per_run == pytest.approx(scores.used_bytes / 3)
    whole = store.maintenance.measure()
    assert sum(each.used_bytes for each in whole.kinds) == pytest.approx(whole.used_bytes, rel=0.1)
    assert whole.file_bytes >= whole.used_bytes
    assert whole.runs_per_day == pytest.approx(1.0)
    assert whole.days_until(whole.used_bytes) == 0
    assert store.maintenance.sizes()[DataKind.SCORES] == scores.used_bytes


def test_runs_a_day_are_those_of_each_comparison_s_own_pace_from_its_second_run_on(store: SqlStore) -> None:
    run(store, SLOT)
    assert store.maintenance.measure().runs_per_day == 1.0
    for minutes in range(1, 4):
        run(store, SLOT + minutes * HOUR / 60)
    run(store, SLOT - HOUR, comparison="search")
    run(store, SLOT, comparison="search")
    assert store.maintenance.measure().runs_per_day == pytest.approx(1440 + 24)


def test_lists_add_nothing_a_day_while_each_comparison_has_but_those_of_its_newest_run(store: SqlStore) -> None:
    ids = [stored(store, days, users=10) for days in range(3)]

    def keep(run_id: int) -> None:
        with store.database.write() as connection:
            connection.execute(
                kept_lists.insert().values(
                    run_id=run_id, arm=Arm.BASELINE, part=0, payload=np.random.default_rng(run_id).bytes(100_000)
                )
            )

    before = store.maintenance.measure().bytes_per_day
    keep(ids[2])
    assert store.maintenance.measure().bytes_per_day == pytest.approx(before, rel=0.1)
    keep(ids[1])  # waits for its relevance
    assert store.maintenance.measure().bytes_per_day > before + 50_000


def test_an_empty_database_has_sizes_too(store: SqlStore) -> None:
    found = store.maintenance.measure()
    assert (found.runs_per_day, found.bytes_per_day, found.days_until(MB)) == (0.0, 0.0, None)


def test_the_oldest_scores_go_first_and_only_as_many_as_must(store: SqlStore) -> None:
    ids = [stored(store, days, users=2000) for days in range(10)]
    of_run = store.maintenance.sizes()[DataKind.SCORES] / 10

    found = store.maintenance.prune(cutoffs(max_bytes=int((used(store) - 2.5 * of_run) / shrinking.FILL)), now=SLOT + 10 * DAY)

    left = [len(store.history.run_scores(run_id, ["extended_tau"]).users) for run_id in ids]
    assert left == [0] * 3 + [2000] * 7 or left == [0] * 4 + [2000] * 6  # by partition, two runs may go at once
    assert found.early[DataKind.SCORES] == 4000 * left.count(0)
    assert (found.aged, found.excess_bytes) == ({}, 0)
    assert [len(store.history.evidence(run_id)) for run_id in ids] == [2] * 10


def test_then_lists_evidence_and_segments_and_never_runs_and_what_cannot_be_met_is_told(store: SqlStore) -> None:
    for days in range(4):
        run(store, SLOT + days * DAY)

    found = store.maintenance.prune(cutoffs(max_bytes=1), now=SLOT + 5 * DAY)

    assert found.early[DataKind.EVIDENCE] == 3 * 2
    assert found.early[DataKind.SUMMARIES] == 3 * (1 + 1 + 2)
    assert set(found.early) == {DataKind.SCORES, DataKind.EVIDENCE, DataKind.SUMMARIES}
    assert found.excess_bytes > 0
    assert len(store.history.runs(comparison=None, limit=9)) == 4
    newest = store.history.runs(comparison=None, limit=1)[0].id
    assert (len(store.history.evidence(newest)), len(store.history.summaries(newest))) == (2, 2)
    assert len(store.history.worst_users(newest, "extended_tau", 9)) == 3


def test_a_dry_run_tells_what_would_go_and_changes_nothing(store: SqlStore) -> None:
    for days in range(6):
        run(store, SLOT + days * DAY)
    prune(store, now=SLOT + 6 * DAY)
    old = {"evidence": SLOT + DAY, "summaries": SLOT + 2 * DAY, "scores": SLOT + 4 * DAY, "runs": SLOT + DAY}

    foreseen = store.maintenance.prunable(cutoffs(max_bytes=None, **old), now=SLOT + 6 * DAY)

    assert len(store.history.runs(comparison=None, limit=9)) == 6
    assert dict(foreseen.rows) == prune(store, now=SLOT + 6 * DAY, max_bytes=None, **old)


def test_what_room_was_made_for_is_not_made_room_for_again(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL believes in deleted rows until they are counted anew; autovacuum would take a minute to come by."""
    monkeypatch.setattr(database_size, "_COUNTED_BYTES", 1 << 16)
    items = tuple(f"item-{rank}-{rank * 7919}" for rank in range(60))
    long = tuple(evidence(position=place, baseline=items) for place in range(40))
    ids = []
    for days in range(24):
        claim = claimed(store, SLOT + days * DAY)
        assert store.runs.finish(result(claim, scores=None, evidence=long), receivers=())
        ids.append(claim.run_id)
    assert database_size.refresh(store.database, ["evidence"]) == []
    most = int(used(store) * 0.6 / shrinking.FILL)

    first = store.maintenance.prune(cutoffs(max_bytes=most), now=SLOT + 60 * DAY)
    left = [len(store.history.evidence(run_id)) for run_id in ids]
    second = store.maintenance.prune(cutoffs(max_bytes=most), now=SLOT + 60 * DAY)

    assert first.early[DataKind.EVIDENCE] > 0
    assert (second.early, second.excess_bytes) == ({}, 0)
    assert left[-8:] == [40] * 8


ALONE = {"home-feed": 150}
BESIDE_A_LARGER_ONE = {"home-feed": 100, "search": 300}


@pytest.mark.parametrize(
    ("kind", "users", "slots", "most"),
    [
        ("sqlite", ALONE, range(365), 2_000_000),
        ("postgresql", ALONE, range(0, 365, 3), 8_000_000),  # a run takes thrice as long there
        ("sqlite", BESIDE_A_LARGER_ONE, range(40), 1_200_000),
        ("postgresql", BESIDE_A_LARGER_ONE, range(40), 6_000_000),
    ],
)
def test_runs_stay_below_their_size(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, users: dict[str, int], slots: range, most: int
) -> None:
    """A year of one comparison, and weeks of two, one three times larger; tidied up now and then, the size bites first."""
    url = f"sqlite:///{tmp_path / 'rankwatch.db'}" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    largest, early = 0, 0
    with closing(open_store(url, create=True)) as store:
        for number, day in enumerate(slots):
            for name, asked in users.items():
                stored(store, day, users=asked, comparison=name)
            if number % (7 // len(users)) == 0:
                largest = max(largest, used(store))
                now = SLOT + day * DAY + HOUR
                ages = {"scores": now - 300 * DAY, "evidence": now - 90 * DAY, "summaries": now - 180 * DAY}
                found = store.maintenance.prune(cutoffs(max_bytes=most, **ages), now=now)
                early += found.early.get(DataKind.SCORES, 0)
                assert found.excess_bytes == 0

        assert largest <= most
        assert early > 0
        assert len(store.history.runs(comparison=None, limit=999)) == len(slots) * len(users)


def used(store: SqlStore) -> int:
    with store.database.read() as connection:
        return database_size.used_bytes(connection)
