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
from monitor.model.statistics import PRE_TEST_SERIES, DerivedMetric, parse_derived

USERS_IN_MEMORY = 1_000_000
"""If a run has more users than this, a spool stores the scores, and not the memory."""
_USERS_PER_BLOCK = 100_000
"""The number of users in one block of scores."""


def name_stored_series(scores: Scores, arm: Arm | None = None) -> Scores:
    """Return the scores by the names of the series that are stored.

    - If the users are served by one ``arm``, each metric becomes a series of this arm. The series
      of the other arm is NaN, because all blocks have the same series.
    - Otherwise the noise floor is left out, because it follows from the scores and the excess.
    """
    by_metric = {}
    for name, values in scores.by_metric.items():
        if arm is not None:
            by_metric[PRE_TEST_SERIES[arm].of(name)] = values
            by_metric[PRE_TEST_SERIES[arm.other].of(name)] = np.full(len(values), np.nan)
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
        self,
        open_spool: Callable[[], ScoreSpool] | None = None,
        users_in_memory: int = USERS_IN_MEMORY,
    ) -> None:
        """Begin without scores. If more than ``users_in_memory`` are added, a spool stores them.

        If ``open_spool`` is None, all scores stay in memory.
        """
        self.count = 0
        self.failed: Collection[str] = ()  # metrics that iteration leaves out
        self._open_spool = open_spool
        self._max_users_in_memory = users_in_memory
        self._in_memory: list[Scores] = []
        self._spool: ScoreSpool | None = None

    def add(self, scores: Scores) -> None:
        """Add scores of new users. Raises OutputError if the spool cannot store them."""
        self.count += len(scores.users)
        self._in_memory.append(scores)
        if self._open_spool is not None and self.count > self._max_users_in_memory:
            if self._spool is None:
                self._spool = self._open_spool()
            for block in self._in_memory:
                self._spool.add(block)
            self._in_memory = []

    def __iter__(self) -> Iterator[Scores]:
        blocks = self._sort_blocks() if self._spool is None else self._spool.blocks()
        for block in blocks:
            by_metric = {}
            for name, values in block.by_metric.items():
                # The series that are derived from a failed metric are left out too.
                if parse_derived(name).metric not in self.failed:
                    by_metric[name] = values
            yield replace(block, by_metric=by_metric)

    def _sort_blocks(self) -> Iterator[Scores]:
        """Yield the scores in memory in blocks, by ascending user. They are sorted only once."""
        if not self._in_memory:
            return
        scores = join_scores(self._in_memory)
        rows = ascending_rows(scores.users)
        if rows is not None:  # None means that the users are in order
            scores = take_rows(scores, rows)
        self._in_memory = [scores]
        for start in range(0, len(scores.users), _USERS_PER_BLOCK):
            yield take_rows(scores, slice(start, start + _USERS_PER_BLOCK))

    def close(self) -> None:
        """Free the memory of the scores, and delete the spool."""
        self._in_memory = []
        if self._spool is not None:
            self._spool.close()


def draw_scores(scores: Scores, keep: Keep | int, comparison: Comparison) -> Scores:
    """Draw users at random, and return the scores of these users, which a run stores.

    Drawing from parts, and then from the joined results, gives the same users as one draw from all
    scores. See `select_kept`.
    """
    if keep is Keep.ALL:
        return scores
    is_drawn = select_kept(scores.users, keep, comparison)
    return take_rows(scores, np.flatnonzero(is_drawn))


def join_scores(parts: Sequence[Scores]) -> Scores:
    """Join one or more parts. Users keep their order.

    If a part lacks a metric of another part, the scores of its users are NaN.
    """
    if len(parts) == 1:
        return parts[0]
    names: dict[str, None] = {}
    for part in parts:
        names |= dict.fromkeys(part.by_metric)

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
    # Drawing again after each block selects the same users as one draw from all blocks, but needs
    # less memory.
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
    not, nothing is written, because the earlier attempt stays the result of the run.
    """
    keeps_earlier_attempt = claim.has_ok_run and status is not RunStatus.OK
    if scores is None or keeps_earlier_attempt:
        return None
    metadata = {
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
        with sink.open(claim.slot, list(first.by_metric), metadata) as write:
            for block in chain([first], blocks):
                write(block)
    except OutputError as error:
        return str(error)
    return None
