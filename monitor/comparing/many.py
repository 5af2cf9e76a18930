"""Comparing many users' lists at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.comparing.arguments import DEFAULT_METRICS, read_k, read_metrics
from monitor.comparing.ids import Codes, encode
from monitor.comparing.lists import Columns, Lists, Rankings, read
from monitor.errors import InputError
from monitor.kernels import pad
from monitor.kernels.ragged import take_lists
from monitor.metrics import Metric, score_all
from monitor.model import Arm, PairBatch

_CHUNK_CELLS = 1 << 22


def compare_many(  # noqa: PLR0913 - four of them only rename columns
    baseline: Rankings,
    candidate: Rankings,
    metrics: str | Metric | Sequence[str | Metric] = DEFAULT_METRICS,
    k: int | None = None,
    *,
    user: Hashable = "user",
    item: Hashable = "item",
    rank: Hashable | None = "rank",
    items: Hashable = "items",
    progress: Callable[[int], object] | None = None,
) -> pd.DataFrame:
    """How alike the two lists of each user are: a frame indexed by user with one float column a metric, NaN where undefined.

    Each arm is a dict of user -> list, a long frame (columns ``user``, ``item``, ``rank``, smallest rank best; with
    ``rank=None`` rows stand best first), a wide frame (``user`` and a list column ``items``), a 2-D array or a sequence of
    lists (users are then the row numbers). The arms may differ in shape. Lists are cut to ``k`` (None: not at all), then later
    duplicates are dropped. Item and user ids are equal as Python says: "1" and 1 differ; 1, 1.0 and True do not.

    Rows come in the baseline's order. Users of one arm alone are left out, and told in ``frame.attrs``: ``only_baseline`` and
    ``only_candidate`` (tuples of users), beside ``duplicated_baseline`` and ``duplicated_candidate`` (how many of the compared
    lists held duplicates). ``progress`` is called with the number of users done since the last call.

    InputError for shapes, columns, ids or users that cannot be read so, when both arms have users and share none, and for two
    2-D arrays of different height; MetricError for an unknown metric.
    """
    wanted, depth = read_metrics(metrics), read_k(k)
    columns = Columns(user=user, item=item, rank=rank, items=items)
    lists = (read(baseline, columns, Arm.BASELINE), read(candidate, columns, Arm.CANDIDATE))
    if all(isinstance(data, np.ndarray) for data in (baseline, candidate)) and len(lists[0]) != len(lists[1]):
        msg = f"baseline has {len(lists[0])} rows and candidate {len(lists[1])}: 2-D arrays need a row for each user"
        raise InputError(msg)
    rows = _join(*lists)
    scores, duplicated = _score(lists, rows, wanted, depth, progress)
    return _frame(lists, rows, scores, duplicated)


Rows = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]


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
    lists: tuple[Lists, Lists],
    rows: Rows,
    metrics: Sequence[Metric],
    k: int | None,
    progress: Callable[[int], object] | None,
) -> tuple[dict[str, npt.NDArray[np.float64]], list[int]]:
    """Scores of the joined rows, and how many lists of each arm held duplicates."""
    codes = encode(lists[0].items, lists[1].items)
    lengths = np.maximum(*(np.diff(arm.offsets)[taken] for arm, taken in zip(lists, rows, strict=True)))
    longest = np.maximum(lengths if k is None else np.minimum(lengths, k), 1)
    scores = {str(metric): np.empty(len(lengths)) for metric in metrics}
    duplicated = [0, 0]
    for chunk, width in _chunks(longest):
        parts = [_pad(codes[i], lists[i].offsets, rows[i][chunk], width) for i in (0, 1)]
        for name, values in score_all(_batch(parts), metrics).items():
            scores[name][chunk] = values
        for i in (0, 1):
            duplicated[i] += int(parts[i][2].sum())
        if progress is not None:
            progress(len(chunk))
    return scores, duplicated


def _chunks(longest: npt.NDArray[np.int64]) -> Iterator[tuple[npt.NDArray[np.intp], int]]:
    """Groups of rows and the width that holds their lists; rows of like length together, so that padding stays small."""
    order = np.argsort(longest, kind="stable")
    low = 0
    while low < len(order):
        widths = longest[order[low : low + max(1, _CHUNK_CELLS // int(longest[order[low]]))]]
        count = max(1, int((np.arange(1, len(widths) + 1) * widths <= _CHUNK_CELLS).sum()))
        yield order[low : low + count], int(widths[count - 1])
        low += count


def _pad(
    codes: Codes, offsets: npt.NDArray[np.int64], rows: npt.NDArray[np.intp], width: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    if (rows[1:] == rows[:-1] + 1).all():
        return pad(codes, offsets[rows[0] : rows[-1] + 2], width)
    return pad(*take_lists(codes, offsets, rows), width)


def _batch(parts: Sequence[tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.bool_]]]) -> PairBatch:
    (baseline, baseline_lengths, _), (candidate, candidate_lengths, _) = parts
    return PairBatch(
        baseline=baseline,
        candidate=candidate,
        baseline_lengths=baseline_lengths,
        candidate_lengths=candidate_lengths,
    )


def _frame(
    lists: tuple[Lists, Lists], rows: Rows, scores: dict[str, npt.NDArray[np.float64]], duplicated: Sequence[int]
) -> pd.DataFrame:
    frame = pd.DataFrame(scores, index=lists[0].users[rows[0]].rename("user"))
    for arm, part, taken, count in zip(Arm, lists, rows, duplicated, strict=True):
        alone = np.ones(len(part), dtype=np.bool_)
        alone[taken] = False
        frame.attrs[f"only_{arm}"] = tuple(part.users[alone].tolist())
        frame.attrs[f"duplicated_{arm}"] = count
    return frame
