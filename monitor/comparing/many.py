"""Comparing many users' lists at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.comparing import relevance as graded
from monitor.comparing.arguments import DEFAULT_METRICS, read_catalogue, read_k, read_metrics, require_needs
from monitor.comparing.batches import Pairs, Rows, chunks, pair_up
from monitor.comparing.chance import by_chance, typical_length
from monitor.comparing.ids import count_distinct
from monitor.comparing.item_weights import Weights, read_item_weights
from monitor.comparing.lists import Columns, Floats, Lists
from monitor.comparing.reading import Rankings, read
from monitor.errors import InputError
from monitor.metrics import Metric, Need, score_all
from monitor.model import Arm


def compare_many(  # noqa: PLR0913 - half of them only rename columns
    baseline: Rankings,
    candidate: Rankings,
    metrics: str | Metric | Sequence[str | Metric] = DEFAULT_METRICS,
    k: int | None = None,
    *,
    user: Hashable = "user",
    item: Hashable = "item",
    rank: Hashable | None = "rank",
    items: Hashable = "items",
    score: Hashable | None = "score",
    scores: Hashable | None = "scores",
    item_weights: Weights | None = None,
    relevance: graded.Graded | None = None,
    catalogue: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> pd.DataFrame:
    """How alike the two lists of each user are: a frame indexed by user with one float column a metric, NaN where undefined.

    Each arm is a dict of user -> list, a long frame (columns ``user``, ``item``, ``rank``, smallest rank best; with
    ``rank=None`` rows stand best first), a wide frame (``user`` and a list column ``items``), a 2-D array or a sequence of
    lists (users are then the row numbers). A frame is one of pandas, an Arrow table or record batch, or whatever speaks the
    Arrow PyCapsule protocol, such as a polars frame. The arms may differ in shape. Lists may be of any length (rows of
    a 2-D array are as long as it is wide: -1 is an id like any other); they are cut to
    ``k`` (None: not at all), then later duplicates are dropped. Item and user ids are equal as Python says: "1" and 1 differ;
    1, 1.0 and True do not. Ids are coded once: whole numbers from 0 to 2**31 - 1 and categorical or dictionary columns almost
    for nothing, text that Arrow holds (tables, ``str`` columns) in 10 to 60 nanoseconds an id where there is machine code.

    Scores are read where a long frame has a column ``score`` or a wide one a list column ``scores``, each list as long as the
    items' (None: do not look). What they mean is told in `compare`. A long frame with scores and without ranks is ordered by
    them, best first, where none may be missing; equal ones by id. An arm without scores has no ties.

    ``item_weights`` as in `compare`. ``relevance``: user -> {item: grade}, user -> items (grade 1 each), or a long frame with
    columns ``user``, ``item`` and, if grades differ, ``grade`` or ``relevance``; of an item
    that a user graded twice the highest counts. A user whom it does not know is undefined to the metrics that need it.

    Rows come in the baseline's order. Users of one arm alone are left out, and told in ``frame.attrs``: ``only_baseline`` and
    ``only_candidate`` (tuples of users), beside ``duplicated_baseline`` and ``duplicated_candidate`` (how many of the compared
    lists held duplicates), ``catalogue`` (the items that could be listed: as given, else as many as either arm lists), and
    ``by_chance`` (by metric the mean that unrelated lists would have: of the length that nine in ten of the compared lists
    have, drawn from the catalogue; None where lists are more ragged than that or longer than 1000, or the metric needs more
    than lists). ``progress`` is called with the number of users done since the last call.

    InputError for shapes, columns, ids or users that cannot be read so, when both arms have users and share none, and for two
    2-D arrays of different height; MetricError for an unknown metric, or one that needs what was not given.
    """
    wanted, depth = read_metrics(metrics), read_k(k)
    columns = Columns(user=user, item=item, rank=rank, items=items, score=score, scores=scores)
    lists = (read(baseline, columns, Arm.BASELINE), read(candidate, columns, Arm.CANDIDATE))
    if all(isinstance(data, np.ndarray) for data in (baseline, candidate)) and len(lists[0]) != len(lists[1]):
        msg = f"baseline has {len(lists[0])} rows and candidate {len(lists[1])}: 2-D arrays need a row for each user"
        raise InputError(msg)
    require_needs(wanted, _given(lists, item_weights, relevance))
    pairs = pair_up(
        lists,
        _join(*lists),
        depth,
        None if item_weights is None else read_item_weights(item_weights),
        None if relevance is None else graded.read_relevance(relevance, graded.Columns(user=user, item=item)),
    )
    size = read_catalogue(catalogue, count_distinct(*(arm.codes for arm in pairs.arms)))
    frame = _frame(lists, pairs, *_score(pairs, wanted, progress))
    frame.attrs["catalogue"] = size
    frame.attrs["by_chance"] = by_chance(wanted, typical_length(pairs.lengths), size)
    return frame


def _given(lists: Sequence[Lists], item_weights: Any, relevance: Any) -> list[Need]:  # noqa: ANN401 - only whether they are
    told = {
        Need.SCORES: any(part.scores is not None for part in lists),
        Need.ITEM_WEIGHTS: item_weights is not None,
        Need.RELEVANCE: relevance is not None,
    }
    return [need for need, is_given in told.items() if is_given]


def _join(baseline: Lists, candidate: Lists) -> Rows:
    """Rows of the users that both arms have, in the baseline's order."""
    if baseline.users.equals(candidate.users):
        rows = np.arange(len(baseline), dtype=np.intp)
        return rows, rows
    found = candidate.users.get_indexer(baseline.users)
    shared = np.flatnonzero(found >= 0)
    if len(baseline) and len(candidate) and not len(shared):
        msg = (
            f"no user is in both arms: baseline has users such as {baseline.users[:1].tolist()[0]!r}, candidate such as "
            f"{candidate.users[:1].tolist()[0]!r}; ids must be of one type"
        )
        raise InputError(msg)
    return shared, found[shared]


def _score(
    pairs: Pairs, metrics: Sequence[Metric], progress: Callable[[int], object] | None
) -> tuple[dict[str, Floats], npt.NDArray[np.int64]]:
    """Scores of the pairs, and how many lists of each arm held duplicates."""
    scores = {str(metric): np.empty(len(pairs)) for metric in metrics}
    duplicated = np.zeros(2, dtype=np.int64)
    for rows, batch, repeats in chunks(pairs):
        for name, values in score_all(batch, metrics).items():
            scores[name][rows] = values
        duplicated += repeats
        if progress is not None:
            progress(len(rows))
    return scores, duplicated


def _frame(
    lists: tuple[Lists, Lists], pairs: Pairs, scores: dict[str, Floats], duplicated: npt.NDArray[np.int64]
) -> pd.DataFrame:
    rows = [arm.rows for arm in pairs.arms]
    frame = pd.DataFrame(scores, index=lists[0].users[rows[0]].rename("user"))
    for arm, part, taken, count in zip(Arm, lists, rows, duplicated.tolist(), strict=True):
        alone = np.ones(len(part), dtype=np.bool_)
        alone[taken] = False
        frame.attrs[f"only_{arm}"] = tuple(part.users[alone].tolist())
        frame.attrs[f"duplicated_{arm}"] = count
    return frame
