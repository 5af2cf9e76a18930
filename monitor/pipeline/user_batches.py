"""Cuts the answers of sources into batches of users."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from monitor.measures.kernels.ragged import find_cells, take_lists
from monitor.measures.pairing.ids import find_users
from monitor.measures.summaries import rows_of_segments
from monitor.model.arrays import Ids, Rows
from monitor.model.rankings import Panel, Pull, RankingTable, UserBatch

_FEWEST_USERS = 10_000
_MOST_USERS = 50_000
_MOST_ITEMS = 1_000_000


def users_at_once(k: int) -> int:
    """Return how many users are compared at once, so that memory does not grow with users or k.

    These users have about `_MOST_ITEMS` items in each arm. There are at least `_FEWEST_USERS` and
    at most `_MOST_USERS` users.
    """
    return max(_FEWEST_USERS, min(_MOST_USERS, _MOST_ITEMS // k))


def split_users(users: UserBatch, size: int) -> Iterator[UserBatch]:
    """Split the users into batches of at most ``size`` users, in the order of the panel.

    There is at least one batch, even without users.
    """
    count = len(users.panel)
    if count <= size:
        return iter([users])
    parts = []
    for start in range(0, count, size):
        parts.append(np.arange(start, min(start + size, count)))
    return _cut_batches(users, parts)


def _cut_batches(users: UserBatch, parts: Sequence[Rows]) -> Iterator[UserBatch]:
    """Yield one batch for each part. A part is an array of positions in the panel."""
    baseline = PanelPull(users.panel, users.baseline)
    candidate = PanelPull(users.panel, users.candidate)
    second_baseline = (
        None if users.second_baseline is None else PanelPull(users.panel, users.second_baseline)
    )
    for positions in parts:
        yield replace(
            users,
            panel=cut_panel(users.panel, positions),
            baseline=baseline.take(positions),
            candidate=candidate.take(positions),
            second_baseline=None if second_baseline is None else second_baseline.take(positions),
        )


def leave_out(users: UserBatch, left_out: "pd.Index[str]") -> UserBatch:
    """Return the batch without these users."""
    if not len(left_out):
        return users
    positions = np.flatnonzero(~users.panel.users.isin(left_out))
    return next(_cut_batches(users, [positions]))


def cut_panel(panel: Panel, positions: Rows) -> Panel:
    """Return a panel of the users at these positions, in this order, with the same segments."""
    rows_by_segment = rows_of_segments(panel, positions)
    segments = {name: np.sort(rows) for name, rows in rows_by_segment.items()}
    return replace(panel, users=panel.users[positions], segments=segments)


class PanelPull:
    """The answer of a source. `take` selects users by their positions in the panel."""

    def __init__(self, panel: Panel, pull: Pull) -> None:
        self._pull = pull
        # The row of the list of each user of the panel, -1 for a user without a list.
        self._rows = find_users(panel.users, pull.rankings.users)
        # The index in ``_failed_users`` of each user of the panel, -1 for a user that did not fail.
        self._failed_users = list(pull.failures)
        self._failed_indexes = np.full(len(panel), -1, dtype=np.intp)
        if self._failed_users:  # looking up users is expensive
            positions = panel.users.get_indexer(pd.Index(self._failed_users, dtype="str"))
            is_in_panel = positions >= 0
            self._failed_indexes[positions[is_in_panel]] = np.flatnonzero(is_in_panel)
        self._versions = pull.versions

    def take(self, positions: Rows) -> Pull:
        """Return the answers for the users at these positions of the panel.

        Only the first call returns the versions of the model, so that each user is counted once.
        """
        rows = self._rows[positions]
        failed_indexes = self._failed_indexes[positions]
        failed_indexes = failed_indexes[failed_indexes >= 0]
        failed_users = [self._failed_users[index] for index in failed_indexes]
        versions = self._versions
        self._versions = {}
        return replace(
            self._pull,
            rankings=take_table(self._pull.rankings, rows[rows >= 0]),
            failures={user: self._pull.failures[user] for user in failed_users},
            versions=versions,
        )


def take_table(table: RankingTable, rows: Rows) -> RankingTable:
    """Return a table of these rows. It has no `Traces`, which say how the rows arrived."""
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
