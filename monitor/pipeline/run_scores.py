"""Collects the scores of a run, selects those that are stored, and writes all to a sink."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import pandas as pd

from monitor.measures.reading.text_order import ascending_rows
from monitor.measures.sampling import select_kept
from monitor.model.arrays import Floats
from monitor.model.errors import OutputError
from monitor.model.instants import format_instant
from monitor.model.ports import ScoreSink, ScoreSpool
from monitor.model.rankings import Arm
from monitor.model.rules import Comparison, Keep
from monitor.model.runs import Claim, RunStatus, Scores
from monitor.model.statistics import SELF_SERIES, DerivedMetric, parse_derived

HELD_USERS = 1_000_000
"""Memory has the scores of at most this many users. If there are more, a spool stores them."""
_USERS_OF_BLOCK = 100_000
"""The number of users in one block of scores."""


def name_stored_series(scores: Scores, arm: Arm | None = None) -> Scores:
    """Return the scores by the series that are stored.

    - If the users are served by one ``arm``, these are the series of this arm. The series of the
      other arm are NaN.
    - Otherwise the noise floor is left out, because it follows from the scores and the excess.
    """
    by_metric = {}
    for name, values in scores.by_metric.items():
        if arm is not None:
            by_metric[SELF_SERIES[arm].of(name)] = values
            by_metric[SELF_SERIES[arm.other].of(name)] = np.full(len(values), np.nan)
        elif parse_derived(name).derived is not DerivedMetric.FLOOR:
            by_metric[name] = values
    if arm is not None:
        by_metric = dict(sorted(by_metric.items()))
    return replace(scores, by_metric=by_metric)


class RunScores:
    """The scores of a run. Each user occurs once. The scores can be read until `close`.

    Iterating gives blocks. All blocks have the same metrics. The users are in ascending order.
    """

    def __init__(
        self, open_spool: Callable[[], ScoreSpool] | None = None, held_users: int = HELD_USERS
    ) -> None:
        """Begin without scores. If more than ``held_users`` are added, a spool stores them."""
        self.count = 0
        self.failed: Collection[str] = ()  # metrics that the blocks leave out
        self._open_spool = open_spool
        self._max_held_users = held_users
        self._held: list[Scores] = []
        self._spool: ScoreSpool | None = None

    def add(self, scores: Scores) -> None:
        """Add scores of new users. Raises OutputError if the spool cannot store them."""
        self.count += len(scores.users)
        self._held.append(scores)
        if self._open_spool is not None and self.count > self._max_held_users:
            if self._spool is None:
                self._spool = self._open_spool()
            for held in self._held:
                self._spool.add(held)
            self._held = []

    def __iter__(self) -> Iterator[Scores]:
        blocks = self._sorted() if self._spool is None else self._spool.blocks()
        for block in blocks:
            by_metric = {}
            for name, values in block.by_metric.items():
                # The series that are derived from a failed metric are left out too.
                if parse_derived(name).metric not in self.failed:
                    by_metric[name] = values
            yield replace(block, by_metric=by_metric)

    def _sorted(self) -> Iterator[Scores]:
        """Yield the scores in memory in blocks, by ascending user. Sorts them only once."""
        if not self._held:
            return
        scores = join_scores(self._held)
        rows = ascending_rows(scores.users)
        if rows is not None:  # the users were not in order
            scores = take_rows(scores, rows)
        self._held = [scores]
        for start in range(0, len(scores.users), _USERS_OF_BLOCK):
            yield take_rows(scores, slice(start, start + _USERS_OF_BLOCK))

    def close(self) -> None:
        """Free the memory of the scores, and delete the spool."""
        self._held = []
        if self._spool is not None:
            self._spool.close()


def draw_scores(scores: Scores, keep: Keep | int, comparison: Comparison) -> Scores:
    """Draw the scores that a run stores.

    Drawn scores of blocks may be joined and drawn again. The result is the same as one draw from
    all scores. See `select_kept`.
    """
    if keep is Keep.ALL:
        return scores
    return take_rows(scores, np.flatnonzero(select_kept(scores.users, keep, comparison)))


def join_scores(parts: Sequence[Scores]) -> Scores:
    """Join the parts, at least one. Users keep their order.

    If a part lacks a metric that another part has, its scores are NaN.
    """
    if len(parts) == 1:
        return parts[0]
    names = dict.fromkeys(name for part in parts for name in part.by_metric)

    def column(name: str) -> Floats:
        columns = []
        for part in parts:
            undefined = np.full(len(part.users), np.nan)
            columns.append(part.by_metric.get(name, undefined))
        return np.concatenate(columns)

    users: pd.Index[str] = parts[0].users.append([part.users for part in parts[1:]])
    return Scores(users=users, by_metric={name: column(name) for name in names})


def take_rows(scores: Scores, rows: slice | np.ndarray) -> Scores:
    """Return the scores in these rows, in this order."""
    return Scores(
        users=scores.users[rows],
        by_metric={name: values[rows] for name, values in scores.by_metric.items()},
    )


def select_stored(
    comparison: Comparison, scores: Iterable[Scores] | None
) -> Iterable[Scores] | None:
    """Return the scores that `keep_scores` selects, in blocks. None if it selects no scores."""
    keep = comparison.measuring.keep_scores
    if scores is None or keep is Keep.NONE:
        return None
    if keep is Keep.ALL:
        return scores
    # Users are drawn again after each block. This selects the same users as one draw from all
    # blocks, but needs less memory.
    drawn: list[Scores] = []
    for block in scores:
        drawn = [draw_scores(join_scores([*drawn, block]), keep, comparison)]
    return drawn


def write_scores(
    comparison: Comparison,
    sink: ScoreSink,
    claim: Claim,
    status: RunStatus,
    scores: Iterable[Scores] | None,
) -> str | None:
    """Write all scores to the sink before the run is stored. Returns the error, or None.

    ``scores`` has at least one block. If an earlier attempt of this run was ok and this attempt is
    not, nothing is written.
    """
    # The scores of the earlier attempt stay in the sink, because its result stays too.
    if scores is None or (claim.has_ok and status is not RunStatus.OK):
        return None
    about = {
        "comparison": comparison.name,
        "slot": format_instant(claim.slot),
        "config_hash": comparison.config_hash,
        "run": str(claim.run_id),
        "attempt": str(claim.attempt),
        "status": status.value,
    }
    try:
        blocks = iter(scores)
        first = next(blocks)
        # All blocks have the same metrics.
        with sink.open(claim.slot, list(first.by_metric), about) as write:
            for block in chain([first], blocks):
                write(block)
    except OutputError as error:
        return str(error)
    return None
