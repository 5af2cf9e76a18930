"""Reads item weights, and the grades that users gave items."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from monitor.measures.frames.columns import FrameColumns, read_long
from monitor.measures.frames.lists import (
    ArrowTable,
    as_frame,
    as_list,
    as_scores,
    checked_users,
    from_array,
    from_objects,
    list_first_names,
)
from monitor.measures.kernels.item_codes import distinct_items
from monitor.measures.kernels.labels import best_of_each
from monitor.measures.kernels.ragged import offsets_of
from monitor.measures.pairing.ids import encode_ids, ids_of
from monitor.model.arrays import Codes, Floats, Ids, Integers
from monitor.model.column_names import find_column
from monitor.model.errors import InputError
from monitor.model.rankings import LEAST_WEIGHT, MOST_WEIGHT, ItemWeights, RelevanceTable

_ITEM_WEIGHTS = "item_weights"
_MOST_EXAMPLES = 5

Weights = Mapping[Any, float] | pd.Series | pd.DataFrame | ArrowTable
"""A mapping of item -> weight, a Series with items as index, or a table with two columns.

The table is a frame or an Arrow table. Its columns are items and weights.
"""


_RELEVANCE = "relevance"
_GRADES = ("grade", "relevance")
Graded = Mapping[Any, Any] | pd.DataFrame | ArrowTable
"""A mapping of user -> {item: grade}, a mapping of user -> items, or a long table.

The table is a frame or an Arrow table. It has users, items and optionally grades. Without grades,
every item has grade 1.
"""


def read_item_weights(data: Weights) -> ItemWeights:
    """Item weights from data of any supported shape.

    Raises InputError for any other data, and if an item has two weights.
    """
    if isinstance(data, Mapping):
        items = from_objects(list(data), _ITEM_WEIGHTS)
        weights = pd.Series(list(data.values()), dtype=object)
    elif isinstance(data, pd.Series):
        items = from_array(data.index.to_series(), _ITEM_WEIGHTS)
        weights = data
    else:
        items, weights = _read_weights_frame(data)
    index = pd.Index(items)
    if index.has_duplicates:
        twice = index[index.duplicated()].tolist()[0]
        raise InputError(f"item_weights: item {twice!r} has two weights: give each item one weight")
    return ItemWeights(items=items, weights=as_scores(weights, _ITEM_WEIGHTS))


def _read_weights_frame(data: object) -> tuple[Ids, pd.Series]:
    """The columns ``item`` and ``weight`` of a frame, or else its first and second column."""
    frame = as_frame(data, _ITEM_WEIGHTS)
    if not isinstance(frame, pd.DataFrame):
        raise InputError(
            f"item_weights is of type {type(data).__name__}: give a dict of item -> weight, a "
            "pandas Series, or a frame of two columns"
        )
    item = find_column("item", frame.columns)
    if {item, "weight"} <= set(frame.columns):
        frame = frame[[item, "weight"]]
    if len(frame.columns) != 2:  # noqa: PLR2004 - items and weights
        raise InputError(
            f"item_weights has columns {list_first_names(frame.columns)}: rename two of them to "
            "'item' and 'weight', or give exactly two columns, first the items and then the weights"
        )
    return from_array(frame.iloc[:, 0], _ITEM_WEIGHTS), frame.iloc[:, 1]


def require_weights(
    listed: Sequence[Integers],
    weighted: Codes,
    weights: Floats,
    vocabulary: pd.Index | None,
) -> None:
    """Raise InputError unless every listed item has a valid weight.

    ``listed`` has the codes of the listed items of each arm. ``weighted`` has the codes of the
    items that ``weights`` belong to. The error gives the number of items without a valid weight,
    and shows the first ones.
    """
    is_valid = (weights >= LEAST_WEIGHT) & (weights <= MOST_WEIGHT)
    items = distinct_items(*listed)
    missing = items[~np.isin(items, weighted[is_valid])]
    if not len(missing):
        return
    weight_of = dict(zip(weighted.tolist(), weights.tolist(), strict=True))
    examples = []
    first = missing[:_MOST_EXAMPLES]
    for item, code in zip(ids_of(first, vocabulary), first.tolist(), strict=True):
        weight = f"{weight_of[code]:g}" if code in weight_of else "no weight"
        examples.append(f"{item!r} ({weight})")
    raise InputError(
        f"item_weights: {len(missing)} of {len(items)} listed items have no weight from "
        f"{LEAST_WEIGHT:g} to {MOST_WEIGHT:g}, such as {', '.join(examples)}: give every listed "
        "item such a weight, or remove these items from the lists"
    )


def read_relevance(data: Graded, user: Hashable, item: Hashable) -> RelevanceTable:
    """The graded items of each user, from data of any supported shape.

    If a user graded an item twice, the highest grade is used. The grades of a frame are in its
    column ``grade`` or ``relevance``. If it has no such column, all grades are 1. Raises InputError
    for any other shape, and for a grade that is below 0 or not finite.
    """
    if isinstance(data, Mapping):
        graded = _read_mapping(data)
    else:
        frame = as_frame(data, _RELEVANCE)
        if not isinstance(frame, pd.DataFrame):
            raise InputError(
                f"relevance is of type {type(data).__name__}: give a dict of user -> items, a dict "
                "of user -> {item: grade}, or a long frame"
            )
        graded = _read_frame(frame, user, item)
    _check_grades(graded)
    if isinstance(data, Mapping):
        return graded  # keys are unique, so no item has two grades
    return _keep_highest(graded)


def read_graded_items(data: Any) -> RelevanceTable:  # noqa: ANN401 - item -> grade, or items
    """The graded items of one user, from {item: grade} or from the relevant items alone."""
    graded = _read_mapping({0: data})
    _check_grades(graded, is_one_user=True)
    return _keep_highest(graded)


def _keep_highest(graded: RelevanceTable) -> RelevanceTable:
    """Keep each item of a user only once, with its highest grade."""
    (codes,), _ = encode_ids(graded.items)
    owners = np.repeat(np.arange(len(graded)), np.diff(graded.offsets))
    order = best_of_each(owners, codes, graded.grades)
    return RelevanceTable(
        users=graded.users,
        offsets=offsets_of(np.bincount(owners[order], minlength=len(graded))),
        items=graded.items.take(order),
        grades=graded.grades.take(order),
    )


def _read_mapping(data: Mapping[Any, Any]) -> RelevanceTable:
    users = checked_users(pd.Index(list(data), tupleize_cols=False), _RELEVANCE)
    rows = [_as_items(row) for row in data.values()]
    grades = [row.values() if isinstance(row, Mapping) else [1.0] * len(row) for row in rows]
    return RelevanceTable(
        users=users,
        offsets=offsets_of(map(len, rows)),
        items=from_objects(list(chain.from_iterable(rows)), _RELEVANCE),
        grades=as_scores(pd.Series(list(chain.from_iterable(grades)), dtype=object), _RELEVANCE),
    )


def _as_items(row: object) -> Any:  # noqa: ANN401 - a mapping, or a list without duplicates
    """What one user found relevant: a mapping of item -> grade, or a list of distinct items."""
    if isinstance(row, Mapping):
        return row
    if isinstance(row, str | bytes | pd.Series | pd.DataFrame) or not isinstance(row, Iterable):
        # A Series may contain items. It may also contain grades of the items in its index. If the
        # code guessed wrongly, no listed item would be relevant. So a Series is refused.
        msg = (
            f"relevance: found a value of type {type(row).__name__} where a list of items or a "
            "dict of item -> grade was expected"
        )
        if isinstance(row, pd.Series):
            msg += ": add .tolist() if the values are items, .to_dict() if they are grades"
        raise InputError(msg)
    items = list(as_list(row))
    try:
        return list(dict.fromkeys(items))
    except TypeError:
        return items  # reading the ids raises an error that names the item


def _read_frame(frame: pd.DataFrame, user: Hashable, item: Hashable) -> RelevanceTable:
    names = [name for name in _GRADES if name in frame.columns]
    if len(names) > 1:
        raise InputError("relevance has both columns grade and relevance: drop one of them")
    grade = names[0] if names else None
    columns = FrameColumns(user=user, item=item, rank=None, items=item, score=grade, scores=None)
    lists = read_long(frame, columns, _RELEVANCE)
    grades = np.ones(len(lists.items)) if lists.scores is None else lists.scores
    return RelevanceTable(
        users=lists.users,
        offsets=lists.offsets,
        items=lists.items,
        grades=grades,
    )


def _check_grades(graded: RelevanceTable, *, is_one_user: bool = False) -> None:
    grades = graded.grades
    wrong = np.flatnonzero(~(np.isfinite(grades) & (grades >= 0)))
    if not len(wrong):
        return
    row = int(np.searchsorted(graded.offsets, wrong[0], side="right")) - 1
    user = graded.users[row : row + 1].tolist()[0]
    item = graded.items.take(wrong[:1]).tolist()[0]
    whose = "" if is_one_user else f" for user {user!r}"
    raise InputError(
        f"relevance: {len(wrong)} grades are not finite numbers of at least 0, such as "
        f"{grades[wrong[0]]:g} of item {item!r}{whose}: use 0 for items that are not relevant, "
        "and leave out items without a grade"
    )
