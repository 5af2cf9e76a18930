"""Cuts answers of sources into batches of users, and joins batches again."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray

from monitor.measures.kernels.ragged import find_cells, take_lists
from monitor.measures.pairing import pair
from monitor.measures.pairing.id_mismatches import IdComparison
from monitor.measures.pairing.ids import find_users
from monitor.measures.summaries import SegmentRows, rows_of_segments
from monitor.model.arrays import Flags, Floats, Ids, Rows
from monitor.model.rankings import CoverageReason, Pairing, Panel, Pull, RankingTable, UserBatch
from monitor.model.runs import KeptLists


def users_at_once(k: int) -> int:
    """How many users are compared at once. The limit keeps memory independent of users and of k."""
    return max(10_000, min(50_000, 1_000_000 // k))


def pair_users(users: UserBatch, k: int, id_differences: IdComparison | None = None) -> Pairing:
    """Both arms' lists cut to k and paired, with weights and relevance.

    ``id_differences`` collects differences between the ids of both arms.
    """
    return pair(
        users.panel,
        users.baseline,
        users.candidate,
        k,
        item_weights=users.weights,
        relevance=users.relevance,
        compares=id_differences,
    )


def take_users(users: UserBatch, is_taken: Flags) -> UserBatch:
    """The batch with the selected users, bool (n,). Returns ``users`` if all are selected."""
    return users if is_taken.all() else next(_cut(users, [np.flatnonzero(is_taken)]))


def sort_users(users: UserBatch) -> UserBatch:
    """The batch sorted by user. Returns ``users`` if it is already sorted."""
    if users.panel.users.is_monotonic_increasing:
        return users
    return next(_cut(users, [users.panel.users.argsort()]))


def split_users(users: UserBatch, size: int) -> Iterator[UserBatch]:
    """Split the users into batches of at most ``size`` users, in the order of the panel.

    Yields at least one batch.
    """
    n = len(users.panel)
    if n <= size:
        return iter([users])
    parts = []
    for start in range(0, n, size):
        parts.append(np.arange(start, min(start + size, n)))
    return _cut(users, parts)


def join_users(batches: Sequence[UserBatch], segments: Sequence[str]) -> UserBatch:
    """Join batches into one batch. The users keep their order.

    Weights and relevance are taken from the first batch. ``segments`` are the names of the
    segments, in the order of the result.
    """
    if len(batches) == 1:
        return batches[0]
    panels = [batch.panel for batch in batches]
    panel = Panel(
        users=panels[0].users.append([panel.users for panel in panels[1:]]),
        segments=join_segments(
            [len(panel) for panel in panels], [panel.segments for panel in panels], segments
        ),
    )
    again = [batch.again for batch in batches if batch.again is not None]
    return replace(
        batches[0],
        panel=panel,
        baseline=_join_pulls([batch.baseline for batch in batches]),
        candidate=_join_pulls([batch.candidate for batch in batches]),
        again=_join_pulls(again) if again else None,
    )


def join_segments(
    counts: Sequence[int],
    parts: Sequence[SegmentRows],
    names: Sequence[str],
) -> dict[str, Rows]:
    """Join the rows by segment of several parts into rows of the joined parts.

    ``names``: all segments, in the order of the result. Leaves out segments that no part has.
    """
    joined: dict[str, list[Rows]] = {name: [] for name in names}
    starts = np.cumsum([0, *counts])
    for start, segments in zip(starts, parts, strict=False):
        for name, rows in segments.items():
            joined[name].append(rows + start)
    return {name: np.concatenate(rows) for name, rows in joined.items() if rows}


def join_tables(tables: Sequence[RankingTable]) -> RankingTable:
    """Join tables into one table. The lists keep their order.

    If only some tables have scores, the scores of the other lists are NaN.
    """
    if len(tables) == 1:
        return tables[0]
    lengths = np.concatenate([np.diff(table.offsets) for table in tables])
    return RankingTable(
        users=tables[0].users.append([table.users for table in tables[1:]]),
        offsets=np.concatenate([[0], np.cumsum(lengths)]),
        items=_join_ids([table.items for table in tables]),
        scores=_join_scores(tables),
    )


def take_kept(lists: KeptLists, is_taken: Flags) -> KeptLists:
    """The lists of the selected users, bool (n,), sorted by user. Empty segments are left out."""
    rows = np.flatnonzero(is_taken)
    users = lists.panel.users
    if not users.is_monotonic_increasing:
        rows = rows[users[rows].argsort()]
    elif is_taken.all():
        return lists
    segments = cut_panel(lists.panel, rows).segments
    return KeptLists(
        baseline=take_table(lists.baseline, rows),
        candidate=take_table(lists.candidate, rows),
        segments={name: places for name, places in segments.items() if len(places)},
    )


def _cut(users: UserBatch, parts: Sequence[Rows]) -> Iterator[UserBatch]:
    """Yield one batch for each part. A part is an array of positions in the panel."""
    baseline = _PanelPull(users.panel, users.baseline)
    candidate = _PanelPull(users.panel, users.candidate)
    again = None if users.again is None else _PanelPull(users.panel, users.again)
    for positions in parts:
        yield replace(
            users,
            panel=cut_panel(users.panel, positions),
            baseline=baseline.take(positions),
            candidate=candidate.take(positions),
            again=None if again is None else again.take(positions),
        )


def cut_panel(panel: Panel, positions: Rows) -> Panel:
    """The panel of the users at these positions, in this order, with the same segments."""
    rows_by_segment = rows_of_segments(panel, positions)
    segments = {name: np.sort(rows) for name, rows in rows_by_segment.items()}
    return replace(panel, users=panel.users[positions], segments=segments)


class _PanelPull:
    """An arm's answer, from which users are taken by their position in the panel."""

    def __init__(self, panel: Panel, pull: Pull) -> None:
        self._pull = pull
        # The rows are looked up once for all batches.
        self._rows = find_users(panel.users, pull.rankings.users)
        self._failed_users = list(pull.failures)
        self._failed_rows = np.full(len(panel), -1, dtype=np.intp)
        if self._failed_users:  # an index of all users is expensive, so it is made only if needed
            positions = panel.users.get_indexer(pd.Index(self._failed_users, dtype="str"))
            self._failed_rows[positions[positions >= 0]] = np.flatnonzero(positions >= 0)
        self._versions = pull.versions

    def take(self, positions: Rows) -> Pull:
        rows = self._rows[positions]
        failed = self._failed_rows[positions]
        users = [self._failed_users[row] for row in failed[failed >= 0]]
        # The versions of all users belong to the first batch, so that they are counted once.
        versions = self._versions
        self._versions = {}
        return replace(
            self._pull,
            rankings=take_table(self._pull.rankings, rows[rows >= 0]),
            failures={user: self._pull.failures[user] for user in users},
            versions=versions,
        )


def take_table(table: RankingTable, rows: Rows) -> RankingTable:
    """The lists in these rows."""
    items: Ids
    if isinstance(table.items, np.ndarray):
        items, offsets = take_lists(table.items, table.offsets, rows)
    else:
        cells, offsets = find_cells(table.offsets, rows)
        items = table.items.take(cells)
    scores = None
    if table.scores is not None:
        scores, _ = take_lists(table.scores, table.offsets, rows)
    return RankingTable(users=table.users[rows], offsets=offsets, items=items, scores=scores)


def _join_pulls(pulls: Sequence[Pull]) -> Pull:
    failures: dict[str, CoverageReason] = {}
    notes: dict[CoverageReason, str] = {}
    for pull in pulls:
        failures |= pull.failures
        notes = {**pull.notes, **notes}
    rankings = join_tables([pull.rankings for pull in pulls])
    return Pull(rankings=rankings, failures=failures, notes=notes)


def _join_ids(parts: Sequence[Ids]) -> Ids:
    filled = [part for part in parts if len(part)] or parts[:1]
    numbers = [part for part in filled if isinstance(part, np.ndarray)]
    if len(numbers) == len(filled):
        return np.concatenate(numbers)
    # Some parts have numbers and other parts have text. As text, equal ids of an item are equal.
    texts = [pd.Series(part).astype("str") for part in filled]
    joined: ExtensionArray = pd.concat(texts, ignore_index=True).array
    return joined


def _join_scores(tables: Sequence[RankingTable]) -> Floats | None:
    if all(table.scores is None for table in tables):
        return None
    columns = []
    for table in tables:
        if table.scores is None:
            columns.append(np.full(len(table.items), np.nan))
        else:
            columns.append(table.scores)
    return np.concatenate(columns)
