"""Comparing one pair of lists."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.comparing.arguments import DEFAULT_METRICS, read_k, read_metrics, require_needs
from monitor.comparing.batches import chunks, pair_up
from monitor.comparing.item_weights import Weights, read_item_weights
from monitor.comparing.lists import Lists
from monitor.comparing.relevance import read_graded_items
from monitor.comparing.rows import read_rows, read_scores
from monitor.errors import InputError
from monitor.metrics import Metric, Need, score_all

Ranking = Sequence[Hashable] | npt.NDArray[Any] | pd.Series | pd.Index
Numbers = Sequence[float | None] | npt.NDArray[Any] | pd.Series | pd.Index


def compare(  # noqa: PLR0913 - what is known beside the lists, one argument each
    a: Ranking,
    b: Ranking,
    metrics: str | Metric | Sequence[str | Metric] = DEFAULT_METRICS,
    k: int | None = None,
    *,
    scores: Sequence[Numbers | None] | None = None,
    item_weights: Weights | None = None,
    relevance: Any = None,  # noqa: ANN401 - item -> grade, or items
) -> dict[str, float]:
    """How alike two best-first lists of item ids are: one number by canonical metric name, NaN where undefined.

    ``a`` is the baseline. A list is a list, tuple, 1-D array, Series, Index or Arrow array. Ids are equal as Python says: "1"
    and 1 are two items; 1, 1.0 and True are one; tuples, dates, Decimals and whatever else is hashable may be ids. Lists are
    cut to ``k`` (None, or a k beyond the lists: not at all), then later duplicates are dropped.

    ``scores``: a score for each item of both lists, NaN or None where there is none, or None for a list without. They never
    reorder a list. Neighbours with equal scores are tied: what is left of the lists is measured with tied items in the order of
    their ids (ascending as text, then by the name of their type), or as tied by a metric that speaks of ties. Where scores rise
    down the list the list rules all the same. Any number may be a score, negative and infinite ones too.

    ``item_weights``: item -> weight, as a dict, a Series or a frame of two columns. Every listed item must have a weight above
    0, from 1e-50 to 1e50; items that are not listed may have any.

    ``relevance``: the user's {item: grade}, or the relevant items, grade 1 each; grades are finite and at least 0. The ideal
    list is made of all graded items, cut to ``k`` and to a metric's depth.

    InputError for what is no list (a string, a set, a generator, a list of lists), a missing (None, NaN, NA) or unhashable id,
    k under 1, and scores, weights or grades that cannot be read so; MetricError for an unknown metric, or one that needs what
    was not given.

    >>> compare(["a", "b", "c"], ["a", "c", "b"], metrics="overlap")
    {'overlap': 1.0}
    """
    wanted, depth, lists = read_metrics(metrics), read_k(k), _read(a, b, scores)
    told = {
        Need.SCORES: any(part.scores is not None for part in lists),
        Need.ITEM_WEIGHTS: item_weights is not None,
        Need.RELEVANCE: relevance is not None,
    }
    require_needs(wanted, [need for need, is_given in told.items() if is_given])
    pairs = pair_up(
        lists,
        (np.zeros(1, dtype=np.intp), np.zeros(1, dtype=np.intp)),
        depth,
        None if item_weights is None else read_item_weights(item_weights),
        None if relevance is None else read_graded_items(relevance),
    )
    _, batch, _ = next(chunks(pairs))
    return {name: float(values[0]) for name, values in score_all(batch, wanted).items()}


def _read(a: Ranking, b: Ranking, scores: Sequence[Numbers | None] | None) -> tuple[Lists, Lists]:
    first, second = read_rows([a], "the first list"), read_rows([b], "the second list")
    if scores is None:
        return first, second
    if not isinstance(scores, tuple | list) or len(scores) != 2:  # noqa: PLR2004 - the two arms
        msg = "scores must be two lists of numbers, one for each list; None for a list without scores"
        raise InputError(msg)
    return _with_scores(first, scores[0], "the first list"), _with_scores(second, scores[1], "the second list")


def _with_scores(lists: Lists, scores: Numbers | None, what: str) -> Lists:
    told = None if scores is None else read_scores([scores], np.diff(lists.offsets), f"scores of {what}")
    return replace(lists, scores=told)
