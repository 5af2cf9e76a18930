"""`compare` and `compare_many`: two lists, or many users' lists, to scores."""

import sys
import warnings
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from markupsafe import Markup

from monitor.charts.slope_chart import draw_slopes
from monitor.charts.svg import Plot, element
from monitor.errors import InputError, MetricError
from monitor.frames.chunks import CodedPairs, chunks_of_pairs, encode_pairs
from monitor.frames.columns import FrameColumns, Rankings, read_lists
from monitor.frames.lists import read_rows, read_scores, refuses_broken_text
from monitor.frames.side_information import (
    Graded,
    Weights,
    read_graded_items,
    read_item_weights,
    read_relevance,
)
from monitor.kernels.exposure import distinct_items
from monitor.metrics import (
    DEFAULT_METRICS,
    Metric,
    Need,
    chance_scores,
    parse,
    score_all,
    typical_length,
)
from monitor.model.arrays import Floats, Rows
from monitor.model.id_mismatches import IdMismatch
from monitor.model.rankings import Arm, RankingTable
from monitor.pairing.id_mismatches import LEAST_COMMON, IdComparison, find_user_mismatch
from monitor.pairing.ids import decode, find_users
from monitor.reading.padding import without_items
from monitor.texts.id_mismatches import Surface, write_mismatch

_SHOWN = 50


_HOW = {
    Need.SCORES: (
        "give scores=; in compare_many the name of the column with each item's score, "
        "score= or scores="
    ),
    Need.ITEM_WEIGHTS: "give item_weights=, such as a dict of item -> weight",
    Need.RELEVANCE: (
        "give relevance=, such as a dict of user -> {item: grade}; in compare just {item: grade}"
    ),
}
Ranking = Sequence[Hashable] | npt.NDArray[Any] | pd.Series | pd.Index
Numbers = Sequence[float | None] | npt.NDArray[Any] | pd.Series | pd.Index


class PairScores(dict[str, float]):
    """A dict of scores by metric.

    ``lists`` are the baseline's and the candidate's as they were measured, ids as text.
    """

    lists: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())

    @property
    def words(self) -> str:
        """The scores on one line."""
        return ", ".join(f"{name} {value:.4f}" for name, value in self.items())

    def _repr_html_(self) -> str:
        return draw_pair(*self.lists, {}, self.words).html


def draw_pair(
    baseline: Sequence[str], candidate: Sequence[str], titles: Mapping[str, str], said: str
) -> Plot:
    """The slope chart of two lists, of long ones the first items, below what is said of them."""
    longest = max(len(baseline), len(candidate))
    said += f"; the first {_SHOWN} of {longest:,} places" if longest > _SHOWN else ""
    chart = draw_slopes(baseline[:_SHOWN], candidate[:_SHOWN], titles=titles)
    return Plot(Markup().join((element("p", said), chart)))


def read_metrics(metrics: str | Metric | Sequence[str | Metric]) -> tuple[Metric, ...]:
    """The metrics meant by one or several names.

    MetricError for an unknown one, InputError for none at all.
    """
    try:
        given = (metrics,) if isinstance(metrics, str | Metric) else tuple(metrics)
    except TypeError:
        raise InputError(
            f"metrics must be a name or several, such as rbo(p=0.9), not {metrics!r}"
        ) from None
    if not given:
        raise InputError("metrics is empty: name at least one, such as rbo(p=0.9)")
    return tuple(metric if isinstance(metric, Metric) else parse(metric) for metric in given)


def require_needs(
    metrics: Sequence[Metric],
    lists: Sequence[RankingTable],
    item_weights: object,
    relevance: object,
) -> None:
    """MetricError for a metric that needs what was not given, saying how to give it."""
    is_given = {
        Need.SCORES: any(part.scores is not None for part in lists),
        Need.ITEM_WEIGHTS: item_weights is not None,
        Need.RELEVANCE: relevance is not None,
    }
    for metric in metrics:
        if metric.need is not None and not is_given[metric.need]:
            raise MetricError(f"{metric} needs {metric.need}: {_HOW[metric.need]}")


def read_k(k: int | None) -> int | None:
    """How many items to look at, None for all.

    InputError for what is no whole number of at least 1.
    """
    return None if k is None else min(_read_count(k, "k", "use None for whole lists"), sys.maxsize)


def read_catalogue(catalogue: int | None, listed: int) -> int:
    """How many items could be listed: as given, else as many as are.

    InputError when it is fewer.
    """
    if catalogue is None:
        return listed
    size = _read_count(
        catalogue, "catalogue", "give the number of items that could be listed, or None"
    )
    if size < listed:
        raise InputError(
            (
                f"catalogue is {size}, but {listed} different items are listed: give how many "
                "could be, or None"
            )
        )
    return size


def _read_count(value: object, name: str, otherwise: str) -> int:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise InputError(f"{name} must be a whole number or None, not {value!r}")
    if value < 1:
        raise InputError(f"{name} must be at least 1, not {value}: {otherwise}")
    return int(value)


@refuses_broken_text
def compare(  # noqa: PLR0913 - what is known beside the lists, one argument each
    a: Ranking,
    b: Ranking,
    metrics: str | Metric | Sequence[str | Metric] = DEFAULT_METRICS,
    k: int | None = None,
    *,
    scores: Sequence[Numbers | None] | None = None,
    item_weights: Weights | None = None,
    relevance: Any = None,  # noqa: ANN401 - item -> grade, or items
    no_item: Collection[int | str] = (),
) -> PairScores:
    """How alike two best-first lists of item ids are: a dict of one number by canonical metric name, NaN where undefined.

    A notebook shows it with both lists; see `plot_pair`.

    ``a`` is the baseline. A list is a list, tuple, 1-D array, Series, Index or Arrow array. Ids are integers or text, also as
    UTF-8 bytes, UUIDs, and whole decimals and floats that are exact in their type. A whole number equals the text that spells
    it: 1, 1.0 and "1" are one item, "01" is another. There is a warning where one list's ids are numbers, the other's text, and
    not one is in both. Lists are cut to ``k`` (None, or a k beyond the lists: not at all), then later duplicates are dropped.

    ``scores``: a score for each item of both lists, NaN or None where there is none, or None for a list without. They never
    reorder a list. Neighbours with equal scores are tied: what is left of the lists is measured with tied items in the order of
    their ids (ascending as text, then by the name of their type), or as tied by a metric that handles ties. Where scores rise
    down the list the list rules all the same. Any number may be a score, negative and infinite ones too.

    ``item_weights``: item -> weight, as a dict, a Series or a frame of two columns. Every listed item must have a weight above
    0, from 1e-50 to 1e50; items that are not listed may have any.

    ``relevance``: the user's {item: grade}, or the relevant items, grade 1 each; grades are finite and at least 0. The ideal
    list is made of all graded items, cut to ``k`` and to a metric's depth.

    ``no_item``: values that only fill up short lists, such as -1. They are left out, with their scores.

    InputError for what is no list (a string, a set, a generator, a list of lists), a value that is no id, k under 1, and
    scores, weights or grades that cannot be read so; MetricError for an unknown metric, or one that needs what was not given.

    >>> compare(["a", "b", "c"], ["a", "c", "b"], metrics="overlap")
    {'overlap': 1.0}
    """
    wanted, depth, lists = read_metrics(metrics), read_k(k), _read_pair(a, b, scores, no_item)
    require_needs(wanted, lists, item_weights, relevance)
    pairs = encode_pairs(
        lists,
        (np.zeros(1, dtype=np.intp), np.zeros(1, dtype=np.intp)),
        depth,
        None if item_weights is None else read_item_weights(item_weights),
        None if relevance is None else read_graded_items(relevance),
    )
    _warn_of_mismatches(pairs)
    _, batch, _ = next(chunks_of_pairs(pairs))
    found = PairScores(
        {name: float(values[0]) for name, values in score_all(batch, wanted).items()}
    )
    found.lists = (
        decode(batch.baseline[0], pairs.vocabulary),
        decode(batch.candidate[0], pairs.vocabulary),
    )
    return found


def plot_pair(
    a: Ranking, b: Ranking, k: int | None = None, *, titles: Mapping[Hashable, str] | None = None
) -> Plot:
    """Both lists side by side as `compare` measures them.

    ``titles`` by item replace ids. ``html`` of it can be saved.
    """
    found = compare(a, b, k=k)
    return draw_pair(
        *found.lists, {str(item): title for item, title in (titles or {}).items()}, found.words
    )


def _read_pair(
    a: Ranking, b: Ranking, scores: Sequence[Numbers | None] | None, no_item: Collection[int | str]
) -> tuple[RankingTable, RankingTable]:
    first, second = read_rows([a], "the first list"), read_rows([b], "the second list")
    scores = (None, None) if scores is None else scores
    if not isinstance(scores, tuple | list) or len(scores) != 2:  # noqa: PLR2004 - the two arms
        raise InputError(
            "scores must be two lists of numbers, one for each list; None for a list without scores"
        )
    first, second = (
        _with_scores(first, scores[0], "the first list"),
        _with_scores(second, scores[1], "the second list"),
    )
    return without_items(first, no_item), without_items(second, no_item)


def _with_scores(lists: RankingTable, scores: Numbers | None, what: str) -> RankingTable:
    found = (
        None
        if scores is None
        else read_scores([scores], np.diff(lists.offsets), f"scores of {what}")
    )
    return replace(lists, scores=found)


@refuses_broken_text
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
    relevance: Graded | None = None,
    catalogue: int | None = None,
    no_item: Collection[int | str] = (),
    progress: Callable[[int], object] | None = None,
) -> pd.DataFrame:
    """How alike the two lists of each user are: a frame indexed by user with one float column a metric, NaN where undefined.

    Each arm is a dict or Series of user -> list, a long frame (columns ``user``, ``item``, ``rank``, smallest rank best;
    with ``rank=None`` rows stand best first), a wide frame (``user`` and a list column ``items``, or a column a rank:
    ``rec_0``, ``rec_1`` and so on under any name), a 2-D array or a sequence of lists (users are then the row numbers). A
    frame is one of pandas, an Arrow table or record batch, or whatever has the Arrow PyCapsule protocol, such as a polars
    frame. The arms may differ in shape. Lists may be of any length (rows of a 2-D array are as long as it is wide: -1 is an
    id like any other, unless ``no_item=[-1]`` says that it is none); they are cut to ``k`` (None: not at all), then later
    duplicates are dropped. Ids of items and users are equal as in `compare`: 1 and "1" are one. Ids are coded once: whole
    numbers from 0 to 2**31 - 1 and categorical or dictionary columns almost for nothing, text that Arrow holds (tables, ``str``
    columns) in 30 to 200 nanoseconds an id,
    in 10 to 60 by machine code.

    Scores are read where a long frame has a column ``score`` or a wide one a list column ``scores``, each list as long as the
    items' (None: do not look). See `compare` for what they mean. A long frame with scores and without ranks is ordered by
    them, best first, where none may be missing; equal ones by id. An arm without scores has no ties.

    ``item_weights`` as in `compare`. ``relevance``: user -> {item: grade}, user -> items (grade 1 each), or a long frame with
    columns ``user``, ``item`` and, if grades differ, ``grade`` or ``relevance``; of an item
    that a user graded twice the highest counts. A user whom it does not know is undefined to the metrics that need it.

    The index is named as the baseline's users are: ``user``, or its index where it is a Series that names it. Rows come in
    the baseline's order. Users of one arm alone are left out, with a warning; ``frame.attrs`` has them as ``only_baseline`` and
    ``only_candidate`` (tuples of users), beside ``duplicated_baseline`` and ``duplicated_candidate`` (how many of the
    compared lists held duplicates), ``id_mismatches`` (as dicts: why hardly any id is in both arms, and items that fill
    up lists; there is a warning of each), ``catalogue`` (the items that could be listed: as given, else as many as either arm
    lists), and ``by_chance`` (by metric the mean that unrelated lists would have: of the length that nine in ten of the
    compared lists have, drawn from the catalogue; None where lists are more ragged than that or longer than 1000, or the
    metric needs more than lists). ``progress`` is called with the number of users done since the last call.

    InputError for shapes, columns, ids or users that cannot be read so, when both arms have users and share none, and for two
    2-D arrays of different height; MetricError for an unknown metric, or one that needs what was not given.
    """
    wanted, depth = read_metrics(metrics), read_k(k)
    columns = FrameColumns(user=user, item=item, rank=rank, items=items, score=score, scores=scores)
    given = zip(Arm, (baseline, candidate), strict=True)
    first, second = (without_items(read_lists(data, columns, arm), no_item) for arm, data in given)
    lists = (first, second)
    if all(isinstance(data, np.ndarray) for data in (baseline, candidate)) and len(lists[0]) != len(
        lists[1]
    ):
        msg = (
            f"baseline has {len(lists[0])} rows and candidate {len(lists[1])}: 2-D arrays need "
            "a row for each user"
        )
        raise InputError(msg)
    require_needs(wanted, lists, item_weights, relevance)
    pairs = encode_pairs(
        lists,
        _join(*lists),
        depth,
        None if item_weights is None else read_item_weights(item_weights),
        None if relevance is None else read_relevance(relevance, user, item),
    )
    mismatches = _warn_of_mismatches(pairs)
    size = read_catalogue(catalogue, len(distinct_items(*(arm.codes for arm in pairs.arms))))
    frame = _frame(lists, pairs, *_score(pairs, wanted, progress))
    _warn_of_users_alone(frame)
    own = baseline.index.name if isinstance(baseline, pd.Series) else None
    frame.index.name = user if own is None else own
    frame.attrs["id_mismatches"] = tuple(
        map(asdict, (*mismatches, *_warn_of_unlike_users(lists, pairs)))
    )
    frame.attrs["catalogue"] = size
    frame.attrs["by_chance"] = chance_scores(wanted, typical_length(pairs.lengths), size)
    return frame


def _warn_of_users_alone(frame: pd.DataFrame) -> None:
    if counts := {
        arm: len(frame.attrs[f"only_{arm}"]) for arm in Arm if frame.attrs[f"only_{arm}"]
    }:
        told = " and ".join(
            f"{count:,} in {arm} alone (attrs['only_{arm}'])" for arm, count in counts.items()
        )
        warnings.warn(
            f"{len(frame):,} users were compared, and left out {told}", UserWarning, stacklevel=4
        )


def _warn_of_mismatches(pairs: CodedPairs) -> tuple[IdMismatch, ...]:
    compares = IdComparison()
    compares.add(pairs.arms, pairs.vocabulary, pairs.k)
    for each in compares.mismatches:
        warnings.warn(write_mismatch(each, Surface.PYTHON), UserWarning, stacklevel=4)
    return compares.mismatches


def _warn_of_unlike_users(
    lists: tuple[RankingTable, RankingTable], pairs: CodedPairs
) -> tuple[IdMismatch, ...]:
    if len(pairs.rows[0]) >= LEAST_COMMON * min(map(len, lists)):
        return ()
    found = find_user_mismatch(lists[0].users, lists[1].users)
    if found is None:
        return ()
    warnings.warn(write_mismatch(found, Surface.PYTHON), UserWarning, stacklevel=4)
    return (found,)


def _join(baseline: RankingTable, candidate: RankingTable) -> tuple[Rows, Rows]:
    """Rows of the users that both arms have, in the baseline's order."""
    found = find_users(baseline.users, candidate.users)
    shared = np.flatnonzero(found >= 0)
    if len(baseline) and len(candidate) and not len(shared):
        mismatch = find_user_mismatch(baseline.users, candidate.users)
        raise InputError(
            "no user is in both arms"
            if mismatch is None
            else write_mismatch(mismatch, Surface.PYTHON)
        )
    return shared, found[shared]


def _score(
    pairs: CodedPairs, metrics: Sequence[Metric], progress: Callable[[int], object] | None
) -> tuple[dict[str, Floats], npt.NDArray[np.int64]]:
    """Scores of the pairs, and how many lists of each arm held duplicates."""
    scores = {str(metric): np.empty(len(pairs.rows[0])) for metric in metrics}
    duplicated = np.zeros(2, dtype=np.int64)
    for rows, batch, repeats in chunks_of_pairs(pairs):
        for name, values in score_all(batch, metrics).items():
            scores[name][rows] = values
        duplicated += repeats
        if progress is not None:
            progress(len(rows))
    return scores, duplicated


def _frame(
    lists: tuple[RankingTable, RankingTable],
    pairs: CodedPairs,
    scores: dict[str, Floats],
    duplicated: npt.NDArray[np.int64],
) -> pd.DataFrame:
    frame = pd.DataFrame(scores, index=lists[0].users[pairs.rows[0]])
    for arm, part, taken, count in zip(Arm, lists, pairs.rows, duplicated.tolist(), strict=True):
        alone = np.ones(len(part), dtype=np.bool_)
        alone[taken] = False
        frame.attrs[f"only_{arm}"] = tuple(part.users[alone].tolist())
        frame.attrs[f"duplicated_{arm}"] = count
    return frame
