"""`compare` scores two lists. `compare_many` scores the lists of many users."""

import sys
import warnings
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from monitor.charts.slope_chart import draw_slopes
from monitor.charts.svg import Plot, element
from monitor.measures.frames.chunks import CodedPairs, chunks_of_pairs, encode_pairs
from monitor.measures.frames.columns import FrameColumns, Rankings, read_lists_of_any_shape
from monitor.measures.frames.lists import read_rows, read_scores, refuses_broken_text
from monitor.measures.frames.side_information import (
    Graded,
    Weights,
    read_graded_items,
    read_item_weights,
    read_relevance,
)
from monitor.measures.kernels.item_codes import distinct_items
from monitor.measures.metrics import (
    DEFAULT_METRICS,
    Metric,
    Need,
    chance_scores,
    parse,
    score_all,
    typical_length,
)
from monitor.measures.pairing.id_mismatches import (
    LEAST_COMMON_SHARE,
    IdComparison,
    find_user_mismatch,
)
from monitor.measures.pairing.ids import decode_row, find_users
from monitor.measures.reading.lists import without_items
from monitor.model.arrays import Array, Rows
from monitor.model.errors import InputError, MetricError
from monitor.model.rankings import Arm, ItemWeights, RankingTable, RelevanceTable
from monitor.model.run_reasons import IdMismatch
from monitor.texts.id_mismatches import Surface, write_mismatch

_MOST_DRAWN_PLACES = 50


_HOW = {
    Need.SCORES: (
        "give scores=; for compare_many, score= or scores= is the name of the column of scores"
    ),
    Need.ITEM_WEIGHTS: "give item_weights=, such as a dict of item -> weight",
    Need.RELEVANCE: (
        "give relevance=, such as user -> {item: grade} for compare_many, {item: grade} for compare"
    ),
}
Ranking = Sequence[Hashable] | Array | pd.Series | pd.Index
ScoreColumn = Sequence[float | None] | Array | pd.Series | pd.Index


class PairScores(dict[str, float]):
    """A dict of scores by metric.

    ``lists`` are the two lists that were compared: first the baseline's, then the candidate's.
    Their ids are text.
    """

    lists: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    @property
    def words(self) -> str:
        """The scores on one line."""
        return ", ".join(f"{name} {value:.4f}" for name, value in self.items())

    def _repr_html_(self) -> str:
        return draw_pair(*self.lists, {}, self.words).html


def draw_pair(
    baseline: Sequence[str],
    candidate: Sequence[str],
    titles: Mapping[str, str],
    caption: str,
) -> Plot:
    """The slope chart of two lists, with a caption above it. Long lists are cut."""
    longest = max(len(baseline), len(candidate))
    if longest > _MOST_DRAWN_PLACES:
        caption += f"; the first {_MOST_DRAWN_PLACES} of {longest:,} places"
    chart = draw_slopes(
        baseline[:_MOST_DRAWN_PLACES], candidate[:_MOST_DRAWN_PLACES], titles=titles
    )
    return Plot(Markup().join((element("p", caption), chart)))


def read_metrics(metrics: str | Metric | Sequence[str | Metric]) -> tuple[Metric, ...]:
    """The metrics with this name or these names.

    Raises MetricError for an unknown metric, and InputError if no metric is named.
    """
    if isinstance(metrics, str | Metric):
        metrics = (metrics,)
    try:
        names = tuple(metrics)
    except TypeError:
        raise InputError(
            f"metrics is {metrics!r}: give one name or a list of names, such as rbo(p=0.9)"
        ) from None
    if not names:
        raise InputError("metrics is empty: name at least one metric, such as rbo(p=0.9)")
    return tuple(name if isinstance(name, Metric) else parse(name) for name in names)


def require_needs(
    metrics: Sequence[Metric],
    lists: Sequence[RankingTable],
    item_weights: object,
    relevance: object,
) -> None:
    """Raise MetricError if the data that a metric needs were not given.

    The message of the error names the missing argument.
    """
    is_given = {
        Need.SCORES: any(table.scores is not None for table in lists),
        Need.ITEM_WEIGHTS: item_weights is not None,
        Need.RELEVANCE: relevance is not None,
    }
    for metric in metrics:
        if metric.need is not None and not is_given[metric.need]:
            raise MetricError(f"{metric} needs {metric.need}: {_HOW[metric.need]}")


def read_k(k: int | None) -> int | None:
    """Check ``k``, the number of items to compare in each list. None means all items.

    Raises InputError unless ``k`` is None or an integer of at least 1.
    """
    if k is None:
        return None
    return min(_read_count(k, "k", "use None for whole lists"), sys.maxsize)


def read_catalogue(catalogue: int | None, listed: int) -> int:
    """How many items can be listed. If ``catalogue`` is None, this is ``listed``.

    ``listed`` is the number of listed items. Raises InputError if ``catalogue`` is less than that.
    """
    if catalogue is None:
        return listed
    size = _read_count(
        catalogue, "catalogue", "give the number of items that can be listed, or None"
    )
    if size < listed:
        raise InputError(
            f"catalogue is {size}, but the lists have {listed} different items: give the number of "
            "items that can be listed, or None"
        )
    return size


def _read_count(value: object, name: str, otherwise: str) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise InputError(f"{name} must be a whole number or None, not {value!r}")
    if value < 1:
        raise InputError(f"{name} must be at least 1, not {value}: {otherwise}")
    return int(value)


def compare(  # noqa: PLR0913 - one argument for each kind of data
    a: Ranking,
    b: Ranking,
    metrics: str | Metric | Sequence[str | Metric] = DEFAULT_METRICS,
    k: int | None = None,
    *,
    scores: Sequence[ScoreColumn | None] | None = None,
    item_weights: Weights | None = None,
    relevance: Any = None,  # noqa: ANN401 - item -> grade, or items
    no_item: Collection[int | str] = (),
) -> PairScores:
    """Compare two best-first lists of item ids. Returns a dict of scores by metric name.

    The names are canonical, such as ``rbo(p=0.9)``. A score is NaN if it is undefined. A notebook
    displays the result together with a chart of both lists. `plot_pair` returns this chart.

    ``a`` is the baseline and ``b`` the candidate. Each is a list, tuple, 1-D array, Series, Index
    or Arrow array. Ids are integers or text. UTF-8 bytes and UUIDs are read as text. Decimals and
    floats are read as integers. They must be whole, and not too large to be exact in their type. A
    whole number is the same item as its digits as text. So 1, 1.0 and "1" are one item, and "01" is
    another item. ``compare`` warns if the ids of one list are numbers, those of the other list are
    text, and no id is in both lists.

    First, both lists are cut to their first ``k`` items. If ``k`` is None, they are not cut. Then,
    if an item occurs more than once in a list, only its first place is kept.

    ``scores`` contains one list of numbers for each of the two lists, with one number for each
    item. Use NaN or None for an item without a score, and None for a list without scores. A score
    may be any number, including negative and infinite numbers. Scores never reorder a list, even if
    a later item has a higher score. Neighbours with equal scores are tied. Some metrics handle
    ties. The other metrics order tied items by their ids as text, ascending.

    ``item_weights`` is item -> weight, as a dict, a Series or a frame of two columns. Every listed
    item must have a weight from 1e-50 to 1e50. Weights of other items are ignored.

    ``relevance`` is {item: grade} for the user, or only the relevant items. Items without grades
    get grade 1. Grades are finite and at least 0. The ideal list contains all graded items, best
    first. It is cut to ``k`` and to the depth of the metric.

    ``no_item`` lists values that are no items but pad short lists, such as -1. They are dropped
    with their scores, before the lists are cut.

    Raises InputError for a value that is no list of items, such as a string, a set, a generator or
    a list of lists. It also raises InputError for a value that is no id, for k below 1, and for
    scores, weights or grades that cannot be read. Raises MetricError for an unknown metric, and for
    a metric whose data were not given.

    >>> compare(["a", "b", "c"], ["a", "c", "b"], metrics="overlap")
    {'overlap': 1.0}
    """
    wanted = read_metrics(metrics)
    depth = read_k(k)
    lists = _read_pair(a, b, scores, no_item)
    require_needs(wanted, lists, item_weights, relevance)
    return _score_pair(
        lists,
        wanted,
        depth,
        None if item_weights is None else read_item_weights(item_weights),
        None if relevance is None else read_graded_items(relevance),
    )


def _score_pair(
    lists: tuple[RankingTable, RankingTable],
    wanted: Sequence[Metric],
    depth: int | None,
    item_weights: ItemWeights | None = None,
    relevance: RelevanceTable | None = None,
) -> PairScores:
    """Score one pair of lists, as `compare` describes it."""
    row = np.zeros(1, dtype=np.intp)
    pairs = encode_pairs(lists, (row, row), depth, item_weights, relevance)
    _warn_of_mismatches(pairs)
    _, batch, _ = next(chunks_of_pairs(pairs))
    pair_scores = PairScores()
    for name, values in score_all(batch, wanted).items():
        pair_scores[name] = float(values[0])
    pair_scores.lists = (
        decode_row(batch.baseline[0], pairs.vocabulary),
        decode_row(batch.candidate[0], pairs.vocabulary),
    )
    return pair_scores


def plot_pair(
    a: Ranking,
    b: Ranking,
    k: int | None = None,
    *,
    titles: Mapping[Hashable, str] | None = None,
) -> Plot:
    """Draw both lists next to each other. They are cut and cleaned as in `compare`.

    ``titles`` maps items to titles. The chart shows the title of an item instead of its id. To save
    the chart, write the ``html`` of the result to a file.
    """
    lists = _read_pair(a, b, None, ())
    scores = _score_pair(lists, read_metrics(DEFAULT_METRICS), read_k(k))
    titles_by_id = {str(item): title for item, title in (titles or {}).items()}
    return draw_pair(*scores.lists, titles_by_id, scores.words)


def _read_pair(
    a: Ranking,
    b: Ranking,
    scores: Sequence[ScoreColumn | None] | None,
    no_item: Collection[int | str],
) -> tuple[RankingTable, RankingTable]:
    """Read each list as a table with one user. The items in ``no_item`` are left out."""
    first = read_rows([a], "the first list")
    second = read_rows([b], "the second list")
    if scores is not None:
        if not isinstance(scores, tuple | list) or len(scores) != 2:  # noqa: PLR2004 - the two arms
            raise InputError(
                "scores must be two lists of numbers, one for each list: give None for a list "
                "without scores"
            )
        first = _with_scores(first, scores[0], "the first list")
        second = _with_scores(second, scores[1], "the second list")
    return without_items(first, no_item), without_items(second, no_item)


def _with_scores(lists: RankingTable, scores: ScoreColumn | None, what: str) -> RankingTable:
    if scores is None:
        return lists
    values = read_scores([scores], np.diff(lists.offsets), f"scores of {what}")
    return replace(lists, scores=values)


@refuses_broken_text
def compare_many(  # noqa: PLR0913 - half of the arguments only rename columns
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
    relevance: Graded | None = None,
    catalogue: int | None = None,
    no_item: Collection[int | str] = (),
    progress: Callable[[int], object] | None = None,
) -> pd.DataFrame:
    """Compare the two lists of each user. Returns a frame with one row for each user.

    The index of the frame contains the users. The frame has one float column for each metric. A
    score is NaN if it is undefined. Each arm has one of these shapes:

    - a dict or Series of user -> list,
    - a long frame with columns ``user``, ``item`` and ``rank``. The smallest rank is the best. Use
      ``rank=None`` if the rows of each user are best first,
    - a wide frame with a column ``user`` and a column ``items`` of lists,
    - a frame with a column ``user`` and one column for each rank, such as ``rec_0`` and ``rec_1``.
      Another word may replace ``rec``,
    - a 2-D array or a sequence of lists. The users are the row numbers.

    A frame is a pandas frame, an Arrow table or record batch, or another object with the Arrow
    PyCapsule protocol, such as a polars frame. If a frame has no column ``user``, its column
    ``user_id`` is used. If it has no column ``item``, its column ``item_id`` is used. Likewise, if
    the argument is ``user_id`` and the frame has no such column, its column ``user`` is used. The
    two arms may have different shapes.

    Lists may have any length. In a 2-D array, short lists need padding. If the padding is -1, set
    ``no_item=[-1]``, because otherwise -1 is read as an id. First, values in ``no_item`` are
    dropped, and lists are cut to their first ``k`` items. If ``k`` is None, they are not cut. Then,
    if an item occurs more than once in a list, only its first place is kept. As in `compare`, 1 and
    "1" are the same item or user.

    Integers from 0 to 2**31 - 1 take almost no time to read. The same is true of categorical and
    dictionary columns. Text in Arrow tables and in columns of type ``str`` takes 30 to 200
    nanoseconds for each id.

    A long frame has its scores in the column ``score``. A wide frame has lists of scores in the
    column ``scores``. A list of scores has as many entries as the list of items. Use ``score=None``
    or ``scores=None`` to ignore these columns. `compare` describes the meaning of scores. If a long
    frame has scores but no ranks, its items are ordered by score, best first. Items with equal
    scores are ordered by id. In this case every item must have a score. An arm without scores has
    no ties.

    ``item_weights`` has the same form as in `compare`. ``relevance`` is user -> {item: grade}, or
    user -> items. Items without grades get grade 1. It may also be a long frame with columns
    ``user`` and ``item``, and optionally ``grade`` or ``relevance``. If a user graded an item
    twice, the highest grade is used. Metrics that need relevance are undefined for users without
    grades.

    The name of the index is ``user``. If the baseline is a Series whose index has a name, the index
    has that name. The rows have the order of the baseline's users. Users of only
    one arm are left out, and ``compare_many`` warns of them. ``frame.attrs`` contains:

    - ``only_baseline`` and ``only_candidate``: the users that were left out, as tuples,
    - ``duplicated_baseline`` and ``duplicated_candidate``: the number of compared lists with
      duplicates,
    - ``id_mismatches``: the reasons why the arms have hardly any id in common, and the items that
      seem to pad lists. Each entry is a dict. ``compare_many`` warns of each entry,
    - ``catalogue``: the number of items that can be listed. By default this is the number of
      distinct items in the lists of both arms,
    - ``by_chance``: for each metric the mean score of two random lists from the catalogue. Their
      length is the one that at least nine in ten of the compared lists have. The score is None if
      there is no such length, if the metric needs more data than lists, or if the computation would
      take too long.

    ``progress`` is called with the number of users that were compared since its last call.

    Raises InputError for shapes, columns, ids or users that cannot be read, and for two 2-D arrays
    with different numbers of rows. It also raises InputError if both arms have users but no user in
    common. Raises MetricError for an unknown metric, and for a metric whose data were not given.
    """
    wanted = read_metrics(metrics)
    depth = read_k(k)
    columns = FrameColumns(user=user, item=item, rank=rank, items=items, score=score, scores=scores)
    lists = (
        without_items(read_lists_of_any_shape(baseline, columns, Arm.BASELINE), no_item),
        without_items(read_lists_of_any_shape(candidate, columns, Arm.CANDIDATE), no_item),
    )
    heights = len(lists[0]), len(lists[1])
    are_arrays = isinstance(baseline, np.ndarray) and isinstance(candidate, np.ndarray)
    if are_arrays and heights[0] != heights[1]:
        raise InputError(
            f"baseline has {heights[0]} rows and candidate has {heights[1]}: give both 2-D arrays "
            "one row for each user"
        )
    require_needs(wanted, lists, item_weights, relevance)
    pairs = encode_pairs(
        lists,
        _join_users(*lists),
        depth,
        None if item_weights is None else read_item_weights(item_weights),
        None if relevance is None else read_relevance(relevance, user, item),
    )
    mismatches = _warn_of_mismatches(pairs)
    size = read_catalogue(catalogue, len(distinct_items(*(arm.codes for arm in pairs.arms))))
    frame = _score_pairs(lists, pairs, wanted, progress)
    _warn_of_users_alone(frame)
    frame.index.name = user
    if isinstance(baseline, pd.Series) and baseline.index.name is not None:
        frame.index.name = baseline.index.name
    mismatches += _warn_of_unlike_users(lists, pairs)
    length = typical_length(np.concatenate(pairs.lengths))
    frame.attrs["id_mismatches"] = tuple(map(asdict, mismatches))
    frame.attrs["catalogue"] = size
    frame.attrs["by_chance"] = chance_scores(wanted, length, size)
    return frame


def _warn_of_users_alone(frame: pd.DataFrame) -> None:
    counts = []
    for arm in Arm:
        count = len(frame.attrs[f"only_{arm}"])
        if count:
            counts.append(f"{count:,} that only the {arm} has (attrs['only_{arm}'])")
    if counts:
        warnings.warn(
            f"{len(frame):,} users were compared; users left out: {' and '.join(counts)}",
            stacklevel=4,
        )


def _warn_of_mismatches(pairs: CodedPairs) -> tuple[IdMismatch, ...]:
    compared = IdComparison()
    compared.add(pairs.arms, pairs.vocabulary, pairs.k)
    for mismatch in compared.mismatches:
        warnings.warn(write_mismatch(mismatch, Surface.PYTHON), stacklevel=4)
    return compared.mismatches


def _warn_of_unlike_users(
    lists: tuple[RankingTable, RankingTable], pairs: CodedPairs
) -> tuple[IdMismatch, ...]:
    if len(pairs.rows[0]) >= LEAST_COMMON_SHARE * min(map(len, lists)):
        return ()
    mismatch = find_user_mismatch(lists[0].users, lists[1].users)
    if mismatch is None:
        return ()
    warnings.warn(write_mismatch(mismatch, Surface.PYTHON), stacklevel=4)
    return (mismatch,)


def _join_users(baseline: RankingTable, candidate: RankingTable) -> tuple[Rows, Rows]:
    """For each arm, the rows of the users that both arms have, in the order of the baseline."""
    rows = find_users(baseline.users, candidate.users)
    shared = np.flatnonzero(rows >= 0)
    if len(baseline) and len(candidate) and not len(shared):
        mismatch = find_user_mismatch(baseline.users, candidate.users)
        if mismatch is None:
            raise InputError("no user is in both arms: compare lists of the same users")
        raise InputError(write_mismatch(mismatch, Surface.PYTHON))
    return shared, rows[shared]


def _score_pairs(
    lists: tuple[RankingTable, RankingTable],
    pairs: CodedPairs,
    metrics: Sequence[Metric],
    progress: Callable[[int], object] | None,
) -> pd.DataFrame:
    """The frame of scores. ``attrs`` has the users left out, and counts lists with duplicates."""
    scores = {str(metric): np.empty(len(pairs.rows[0])) for metric in metrics}
    duplicated = np.zeros(2, dtype=np.int64)
    for rows, batch, counts in chunks_of_pairs(pairs):
        for name, values in score_all(batch, metrics).items():
            scores[name][rows] = values
        duplicated += counts
        if progress is not None:
            progress(len(rows))
    frame = pd.DataFrame(scores, index=lists[0].users[pairs.rows[0]])
    for index, arm in enumerate(Arm):
        is_alone = np.ones(len(lists[index]), dtype=bool)
        is_alone[pairs.rows[index]] = False
        frame.attrs[f"only_{arm}"] = tuple(lists[index].users[is_alone].tolist())
        frame.attrs[f"duplicated_{arm}"] = int(duplicated[index])
    return frame
