"""What the sources answered, cut into batches of users, and some users' answers put together again."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray

from monitor.kernels.ragged import find_cells, take_lists
from monitor.model.arrays import Flags, Floats, Ids, Rows
from monitor.model.rankings import Pairing, Panel, Pull, RankingTable, UserBatch
from monitor.model.runs import KeptLists
from monitor.pairing import pair
from monitor.pairing.id_mismatches import IdComparison
from monitor.pairing.ids import find_users
from monitor.summaries import SegmentRows


def users_at_once(k: int) -> int:
    """Most users that are compared at once: what a run holds beside the answers grows neither with its users nor with k."""
    return max(10_000, min(50_000, 1_000_000 // k))


def pair_users(users: UserBatch, k: int, compares: IdComparison | None = None) -> Pairing:
    """Both arms' lists cut to k and paired, with weights and relevance.

    ``compares`` looks at the ids of both arms.
    """
    return pair(
        users.panel,
        users.baseline,
        users.candidate,
        k,
        item_weights=users.weights,
        relevance=users.relevance,
        compares=compares,
    )


def take_users(users: UserBatch, is_taken: Flags) -> UserBatch:
    """Those of the users, bool (n,); the batch itself where it is all of them."""
    return users if is_taken.all() else next(_cut(users, [np.flatnonzero(is_taken)]))


def sort_users(users: UserBatch) -> UserBatch:
    """The users in the order of their keys; the very same batch where they are."""
    if users.panel.users.is_monotonic_increasing:
        return users
    return next(_cut(users, [users.panel.users.argsort()]))


def split_users(whole: UserBatch, size: int) -> Iterator[UserBatch]:
    """Batches of at most so many users, in the order of the panel.

    At least one, which may be the very same.
    """
    n = len(whole.panel)
    if n <= size:
        return iter([whole])
    return _cut(whole, [np.arange(start, min(start + size, n)) for start in range(0, n, size)])


def join_users(batches: Sequence[UserBatch], segments: Sequence[str]) -> UserBatch:
    """One batch of the users of all of them, in their order.

    Weights and relevance are those of the first.

    ``segments``: their names in the order that they shall have.
    """
    if len(batches) == 1:
        return batches[0]
    panels = [each.panel for each in batches]
    panel = Panel(
        users=panels[0].users.append([each.users for each in panels[1:]]),
        segments=join_segments(
            [len(each) for each in panels], [each.segments for each in panels], segments
        ),
    )
    again = [each.again for each in batches if each.again is not None]
    return replace(
        batches[0],
        panel=panel,
        baseline=_join_pulls([each.baseline for each in batches]),
        candidate=_join_pulls([each.candidate for each in batches]),
        again=_join_pulls(again) if again else None,
    )


def join_segments(
    counts: Sequence[int], parts: Sequence[SegmentRows], names: Sequence[str]
) -> dict[str, Rows]:
    """Rows by segment where parts of so many users stand one after the other.

    Segments that none of them has are left out.
    """
    joined: dict[str, list[Rows]] = {name: [] for name in names}
    for start, segments in zip(np.cumsum([0, *counts]), parts, strict=False):
        for name, rows in segments.items():
            joined[name].append(rows + start)
    return {name: np.concatenate(found) for name, found in joined.items() if found}


def join_tables(tables: Sequence[RankingTable]) -> RankingTable:
    """The lists of all tables, in their order.

    An arm's table without scores has NaN where another has them.
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
    """The lists of those of the users, bool (n,), in the order of their keys.

    A segment of nobody is left out.
    """
    rows, users = np.flatnonzero(is_taken), lists.panel.users
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


def _cut(whole: UserBatch, parts: Sequence[Rows]) -> Iterator[UserBatch]:
    """A batch for each part, positions of the panel."""
    baseline, candidate = (
        _PanelPull(whole.panel, pull) for pull in (whole.baseline, whole.candidate)
    )
    again = None if whole.again is None else _PanelPull(whole.panel, whole.again)
    for positions in parts:
        yield replace(
            whole,
            panel=cut_panel(whole.panel, positions),
            baseline=baseline.take(positions),
            candidate=candidate.take(positions),
            again=None if again is None else again.take(positions),
        )


def cut_panel(panel: Panel, positions: Rows) -> Panel:
    """The panel of the users at these positions, in this order; segments keep their names."""
    place = np.full(len(panel), -1, dtype=np.intp)
    place[positions] = np.arange(len(positions))
    segments = {name: place[rows] for name, rows in panel.segments.items()}
    kept = {name: np.sort(rows[rows >= 0]) for name, rows in segments.items()}
    return replace(panel, users=panel.users[positions], segments=kept)


class _PanelPull:
    """An arm's answer, looked up by position of the panel."""

    def __init__(self, panel: Panel, pull: Pull) -> None:
        self._pull = pull
        # Looked up once for all batches.
        self._rows = find_users(panel.users, pull.rankings.users)
        failed = list(pull.failures)
        self._failed = np.full(len(panel), -1, dtype=np.intp)
        if failed:  # an index of all users is dear
            positions = panel.users.get_indexer(pd.Index(failed, dtype="str"))
            self._failed[positions[positions >= 0]] = np.flatnonzero(positions >= 0)
        self._failures = failed
        self._versions = pull.versions

    def take(self, positions: Rows) -> Pull:
        rows, failed = self._rows[positions], self._failed[positions]
        users = [self._failures[place] for place in failed[failed >= 0]]
        versions, self._versions = (
            self._versions,
            {},
        )  # those of all users are counted with the first of them
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
    scores = None if table.scores is None else take_lists(table.scores, table.offsets, rows)[0]
    return RankingTable(users=table.users[rows], offsets=offsets, items=items, scores=scores)


def _join_pulls(pulls: Sequence[Pull]) -> Pull:
    failures = {user: reason for pull in pulls for user, reason in pull.failures.items()}
    notes = {reason: note for pull in reversed(pulls) for reason, note in pull.notes.items()}
    rankings = join_tables([pull.rankings for pull in pulls])
    return Pull(rankings=rankings, failures=failures, notes=notes)


def _join_ids(parts: Sequence[Ids]) -> Ids:
    filled = [part for part in parts if len(part)] or parts[:1]
    numbers = [part for part in filled if isinstance(part, np.ndarray)]
    if len(numbers) == len(filled):
        return np.concatenate(numbers)
    # Numbers in one batch, text in another: one of them spells its numbers, and as text both are
    # the same items.
    joined: ExtensionArray = pd.concat(
        [pd.Series(part).astype("str") for part in filled], ignore_index=True
    ).array
    return joined


def _join_scores(tables: Sequence[RankingTable]) -> Floats | None:
    if all(table.scores is None for table in tables):
        return None
    return np.concatenate(
        [
            np.full(len(table.items), np.nan) if table.scores is None else table.scores
            for table in tables
        ]
    )
