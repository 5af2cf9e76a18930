"""What users found relevant, from whichever shape it comes in."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from monitor.comparing.frames import read_users, take_column
from monitor.comparing.ids import from_array, from_objects
from monitor.comparing.lists import Floats, Lists, checked_users, offsets_of, shown
from monitor.comparing.rows import as_scores
from monitor.comparing.tables import ArrowTable, is_table, read_table
from monitor.errors import InputError

WHAT = "relevance"
_GRADES = ("grade", "relevance")

Graded = Mapping[Any, Any] | pd.DataFrame | ArrowTable
"""User -> {item: grade}, user -> items (grade 1 each), or a long frame or Arrow table of users, items and, if told, grades."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Column names of a long frame; the grades stand in ``grade`` or ``relevance``, and without either all are 1.

    Of an item that a user graded twice the highest grade counts.
    """

    user: Hashable
    item: Hashable


def read_relevance(data: Graded, columns: Columns) -> Lists:
    """Graded items of each user: a `Lists` whose scores are the grades. InputError for anything else, or a grade below 0."""
    if isinstance(data, Mapping):
        graded = _read_mapping(data)
    else:
        frame = read_table(data, WHAT) if not isinstance(data, pd.DataFrame) and is_table(data) else data
        if not isinstance(frame, pd.DataFrame):
            msg = (
                f"{WHAT} is of type {type(data).__name__}: expected a dict of user -> items or user -> {{item: grade}}, "
                "or a long frame"
            )
            raise InputError(msg)
        graded = _read_frame(frame, columns)
    _check_grades(graded)
    return graded


def read_graded_items(data: Any) -> Lists:  # noqa: ANN401 - item -> grade, or items
    """The same for one user: {item: grade}, or the items."""
    graded = _read_mapping({0: data})
    _check_grades(graded, is_one_user=True)
    return graded


def _read_mapping(data: Mapping[Any, Any]) -> Lists:
    users = checked_users(pd.Index(list(data), tupleize_cols=False), WHAT)
    rows = [_as_items(row) for row in data.values()]
    grades = [row.values() if isinstance(row, Mapping) else np.ones(len(row)) for row in rows]
    return Lists(
        users=users,
        offsets=offsets_of(map(len, rows)),
        items=from_objects(list(chain.from_iterable(rows)), WHAT),
        scores=as_scores(pd.Series(list(chain.from_iterable(grades)), dtype=object), WHAT),
    )


def _as_items(row: object) -> Any:  # noqa: ANN401 - a mapping, or a list without duplicates
    if isinstance(row, Mapping):
        return row
    if isinstance(row, str | bytes | pd.Series | pd.DataFrame) or not isinstance(row, Iterable):
        # A Series may hold the items or, by item, the grades; guessing wrong would look like nothing relevant.
        msg = f"{WHAT}: found a value of type {type(row).__name__} where a user's items, or item -> grade, were expected"
        if isinstance(row, pd.Series):
            msg += ": write .tolist() for items, .to_dict() for grades by item"
        raise InputError(msg)
    items = list(row)
    try:
        return list(dict.fromkeys(items))
    except TypeError:
        return items  # whoever reads the ids says which one is odd


def _read_frame(frame: pd.DataFrame, columns: Columns) -> Lists:
    if columns.user not in frame.columns and columns.user in frame.index.names:
        frame = frame.reset_index()
    for name in (columns.user, columns.item):
        if name not in frame.columns:
            msg = f"{WHAT} has no column {name!r}; found {shown(frame.columns)}: name the right one with user=, item="
            raise InputError(msg)
    codes, users = pd.factorize(read_users(frame, columns.user, WHAT))
    items = from_array(take_column(frame, columns.item, "item", WHAT), WHAT)
    grades = _grades(frame)
    order = np.lexsort((-grades, codes))  # of an item graded twice the first counts
    return Lists(
        users=users,
        offsets=offsets_of(np.bincount(codes, minlength=len(users))),
        items=items.take(order),
        scores=grades.take(order),
    )


def _grades(frame: pd.DataFrame) -> Floats:
    named = [name for name in _GRADES if name in frame.columns]
    if len(named) > 1:
        msg = f"{WHAT} has both columns grade and relevance: drop one"
        raise InputError(msg)
    return as_scores(take_column(frame, named[0], "grade", WHAT), WHAT) if named else np.ones(len(frame))


def _check_grades(graded: Lists, *, is_one_user: bool = False) -> None:
    grades = graded.scores
    if grades is None or not len(odd := np.flatnonzero(~(np.isfinite(grades) & (grades >= 0)))):
        return
    row = int(np.searchsorted(graded.offsets, odd[0], side="right")) - 1
    user, item = graded.users[row : row + 1].tolist()[0], graded.items.take(odd[:1]).tolist()[0]
    whose = "" if is_one_user else f" for user {user!r}"
    msg = (
        f"{WHAT}: {len(odd)} grades are not finite numbers of at least 0, such as {grades[odd[0]]:g} of item {item!r}{whose}: "
        "use 0 for what is known to be irrelevant, and leave out what is not known"
    )
    raise InputError(msg)
