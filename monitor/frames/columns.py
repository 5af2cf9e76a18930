"""Lists from frames and Arrow tables, long or wide, and from whichever shape else they come in."""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.errors import InputError
from monitor.frames.lists import (
    ArrowTable,
    as_frame,
    as_scores,
    checked_users,
    from_array,
    read_column,
    read_matrix,
    read_rows,
    read_scores,
    shown,
    take_field,
)
from monitor.kernels.ragged import offsets_of
from monitor.model.arrays import Floats, Ids, Rows
from monitor.model.rankings import RankingTable
from monitor.pairing.batches import order_of_ties
from monitor.pairing.ids import encode

_RANKED = re.compile(r"(?P<stem>.*\D)(?P<rank>\d{1,4})")
Rankings = (
    Mapping[Any, Any] | pd.Series | pd.DataFrame | ArrowTable | npt.NDArray[Any] | Sequence[Any]
)
"""User -> list as a mapping or Series, a long or wide frame of pandas or Arrow, a 2-D array, or lists by row number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameColumns:
    """Column names of frames."""

    user: Hashable
    item: Hashable  # of long ones, as ``rank`` and ``score``
    rank: Hashable | None  # None: rows stand best first
    items: Hashable  # of wide ones, as ``scores``
    score: Hashable | None
    scores: Hashable | None


def read_frame(frame: pd.DataFrame, columns: FrameColumns, arm: str) -> RankingTable:
    """Lists from a long or a wide frame, whichever its columns make it."""
    frame = _with_field(_with_users(frame, columns.user), columns.items)
    is_long, is_wide = columns.item in frame.columns, columns.items in frame.columns
    if is_long and is_wide and columns.item != columns.items:
        msg = (
            f"{arm} has both a column {columns.item!r} (long form) and {columns.items!r} (wide "
            "form): drop or rename one"
        )
        raise InputError(msg)
    if not is_long and not is_wide and (ranked := _ranked_columns(frame)):
        return _read_ranked(frame, ranked, columns.user, arm)
    if not is_long and not is_wide:
        raise InputError(
            f"{arm} has neither a column {columns.item!r} (long form, an item a row) nor "
            f"{columns.items!r} (wide form, a list a row) nor one a rank (rec_0, rec_1 ...); found "
            f"{shown(frame.columns)}: name them with item=, rank=, items="
        )
    return _read_wide(frame, columns, arm) if is_wide else read_long(frame, columns, arm)


def _ranked_columns(frame: pd.DataFrame) -> list[str]:
    """Columns of an item a rank, such as rec_0 to rec_9, best first.

    None where several kinds of names could be meant.
    """
    found: dict[str, dict[int, str]] = {}
    for name in frame.columns:
        if match := _RANKED.fullmatch(str(name)):
            found.setdefault(match["stem"], {})[int(match["rank"])] = name
    ranked = sorted(next(iter(found.values())).items()) if len(found) == 1 else []
    is_whole = [rank for rank, _ in ranked] in ([*range(len(ranked))], [*range(1, len(ranked) + 1)])
    return [name for _, name in ranked] if is_whole else []


def _read_ranked(
    frame: pd.DataFrame, names: Sequence[str], user: Hashable, arm: str
) -> RankingTable:
    """Lists from a column a rank; what is missing behind a list's last item makes it shorter."""
    users = _read_users(frame, user, arm)
    _require_one_list(users, arm)
    is_there = frame[names].notna().to_numpy()
    if (is_there[:, 1:] & ~is_there[:, :-1]).any():
        raise InputError(
            (
                f"{arm} has an item behind a missing one in {names[0]} to {names[-1]}: leave no "
                "hole in a list"
            )
        )
    places = (
        np.arange(is_there.size).reshape(len(names), len(frame)).T[is_there]
    )  # row by row, of columns end to end
    items = pd.concat([frame[name] for name in names], ignore_index=True).iloc[places]
    offsets = offsets_of(is_there.sum(axis=1))
    return RankingTable(
        users=users, offsets=offsets, items=from_array(items, f"lists of the {arm}")
    )


def _read_wide(frame: pd.DataFrame, columns: FrameColumns, arm: str) -> RankingTable:
    users = _read_users(frame, columns.user, arm)
    _require_one_list(users, arm)
    column = _take_column(frame, columns.items, "items", arm)
    if (whole := _read_list_column(column)) is None:
        lists = read_rows(column.tolist(), f"lists of the {arm}", users)
    else:
        items = from_array(whole[1], f"lists of the {arm}")
        lists = RankingTable(users=users, offsets=offsets_of(whole[0]), items=items)
    if not _has_column(frame, columns.scores, "scores", arm):
        return lists
    column, lengths, what = frame[columns.scores], np.diff(lists.offsets), f"scores of the {arm}"
    whole = _read_list_column(column)
    # Where lengths differ, reading row by row names the row.
    if whole is not None and np.array_equal(whole[0], lengths):
        scores = as_scores(whole[1], what)
    else:
        scores = read_scores(column.tolist(), lengths, what)
    return replace(lists, scores=scores)


def _read_list_column(column: pd.Series) -> tuple[npt.NDArray[np.int64], pd.Series] | None:
    """Lengths of the lists of a list column of Arrow's and their items, all in one.

    None for any other column.
    """
    if not hasattr(column, "list") or column.hasnans:
        return None
    # Read as a whole: a Python object a row would cost more than the comparison, and
    # ``Series.list.flatten`` would repeat each user's label besides.
    parts = [
        pd.Series(pd.arrays.ArrowExtensionArray(chunk.flatten()))
        for chunk in column.array.__arrow_array__().chunks
    ]
    items = (
        pd.concat(parts, ignore_index=True)
        if len(parts) > 1
        else parts[0]
        if parts
        else column.list.flatten()
    )
    return column.list.len().to_numpy(dtype=np.int64), items


def _with_field(frame: pd.DataFrame, name: Hashable) -> pd.DataFrame:
    """The frame with a column of one field of the objects in a list column of Arrow's, named such as ``recs.id``."""
    column, _, field = str(name).partition(".")
    if (
        name in frame.columns
        or column not in frame.columns
        or not isinstance(frame[column].dtype, pd.ArrowDtype)
    ):
        return frame
    try:
        return frame.assign(
            **{str(name): pd.Series(take_field(frame[column].array, field), index=frame.index)}
        )
    except KeyError:
        raise InputError(
            f"column {column!r} holds no lists of objects with a field {field!r}"
        ) from None


def _with_users(frame: pd.DataFrame, user: Hashable) -> pd.DataFrame:
    """The frame with the users in a column, where they stand in its index."""
    return frame.reset_index() if user not in frame.columns and user in frame.index.names else frame


def read_long(frame: pd.DataFrame, columns: FrameColumns, arm: str) -> RankingTable:
    """Lists from a frame of an item a row."""
    frame = _with_users(frame, columns.user)
    codes, users = pd.factorize(_read_users(frame, columns.user, arm))
    items = from_array(_take_column(frame, columns.item, "item", arm), f"lists of the {arm}")
    scores = None
    if _has_column(frame, columns.score, "score", arm):
        scores = as_scores(_take_column(frame, columns.score, "score", arm), f"scores of the {arm}")
    order: Rows | None
    if scores is not None and columns.rank == "rank" and "rank" not in frame.columns:
        order = _order_by_score(codes, scores, items, users, arm)
    else:
        rank = (
            None
            if columns.rank is None
            else _ranks(_take_column(frame, columns.rank, "rank", arm), arm)
        )
        order = _order(codes, rank, users, arm)
    return RankingTable(
        users=users,
        offsets=offsets_of(np.bincount(codes, minlength=len(users))),
        items=items if order is None else items.take(order),
        scores=scores if scores is None or order is None else scores.take(order),
    )


def _read_users(frame: pd.DataFrame, name: Hashable, arm: str) -> pd.Index:
    """The users in that column; InputError when one is missing."""
    column = _take_column(frame, name, "user", arm)
    return checked_users(
        pd.Index(read_column(column) if isinstance(column.dtype, pd.ArrowDtype) else column), arm
    )


def _require_one_list(users: pd.Index, arm: str) -> None:
    if users.has_duplicates:
        raise InputError(
            (
                f"{arm} lists user {users[users.duplicated()].tolist()[0]!r} twice: a user needs "
                "exactly one list"
            )
        )


def _has_column(frame: pd.DataFrame, name: Hashable | None, role: str, arm: str) -> bool:
    """Whether the frame has that column."""
    # Under its usual name only it may be left out: another was asked for.
    if name is None or (name == role and name not in frame.columns):
        return False
    _take_column(frame, name, role, arm)
    return True


def _order(codes: Rows, rank: npt.NDArray[Any] | None, users: pd.Index, arm: str) -> Rows | None:
    """Order of the rows by user and rank.

    None when they stand so already. InputError for two items at one rank.
    """
    if rank is None:
        return None if (codes[1:] >= codes[:-1]).all() else np.argsort(codes, kind="stable")
    if ((codes[1:] > codes[:-1]) | ((codes[1:] == codes[:-1]) & (rank[1:] > rank[:-1]))).all():
        return None
    order = np.lexsort((rank, codes))
    codes, rank = codes[order], rank[order]
    if len(tied := np.flatnonzero((codes[1:] == codes[:-1]) & (rank[1:] == rank[:-1]))):
        user = users[codes[tied[:1]]].tolist()[0]
        raise InputError(
            (
                f"{arm} has two items at rank {rank[tied[0]]} of user {user!r}: ranks must differ "
                "within a list"
            )
        )
    return order


def _order_by_score(codes: Rows, scores: Floats, items: Ids, users: pd.Index, arm: str) -> Rows:
    """Order of the rows by user, highest score first, equal ones by id."""
    if len(missing := np.flatnonzero(np.isnan(scores))):
        user = users[codes[missing[:1]]].tolist()[0]
        msg = (
            f"{arm} has an item without a score for user {user!r}: without a rank column the "
            "scores make the order"
        )
        raise InputError(msg)
    order = np.lexsort((-scores, codes))
    owner, ordered = codes[order], scores[order]
    tied = np.concatenate(([False], (owner[1:] == owner[:-1]) & (ordered[1:] == ordered[:-1])))[
        : len(order)
    ]
    # Tied items have no other order than that of their ids.
    if tied.any():
        (coded,), vocabulary = encode(items.take(order))
        cells, by_id = order_of_ties(coded, tied, vocabulary)
        order[cells] = order[cells[by_id]]
    return order


def _ranks(column: pd.Series, arm: str) -> npt.NDArray[Any]:
    is_number = pd.api.types.is_any_real_numeric_dtype(column.dtype)
    if not is_number or column.isna().any():
        raise InputError(
            (
                f"{arm}: rank column {column.name!r} must hold numbers, none missing; the smallest "
                "is the best"
            )
        )
    return column.to_numpy()


def _take_column(frame: pd.DataFrame, name: Hashable, role: str, arm: str) -> pd.Series:
    """The column of that name; InputError when there is none, or several."""
    if name not in list(frame.columns):  # a name that cannot be hashed is none of them
        raise InputError(
            (
                f"{arm} has no column {name!r}; found {shown(frame.columns)}: name the right one "
                f"with {role}="
            )
        )
    column: pd.Series | pd.DataFrame = frame[name]
    if isinstance(column, pd.DataFrame):
        raise InputError(f"{arm} has several columns {name!r}: rename all but one")
    return column


def read_lists(data: Rankings, columns: FrameColumns, arm: str) -> RankingTable:
    """Lists from any of the shapes; InputError, naming the arm, for anything else."""
    if isinstance(data, pd.Series):
        lists = pd.DataFrame({columns.user: data.index, columns.items: data.array})
        return _read_wide(lists, replace(columns, scores=None), arm)
    if isinstance(frame := as_frame(data, arm), pd.DataFrame):
        return read_frame(frame, columns, arm)
    if isinstance(data, Mapping):
        users = pd.Index(list(data), tupleize_cols=False)
        return read_rows(list(data.values()), f"lists of the {arm}", checked_users(users, arm))
    if isinstance(data, np.ndarray):
        return read_matrix(data, arm)
    if isinstance(data, list | tuple):
        return read_rows(data, f"lists of the {arm}")
    raise InputError(
        f"{arm} is of type {type(data).__name__}: expected a dict or Series of user -> list, a "
        "DataFrame, an Arrow table, a 2-D array or a list of lists (row = user)"
    )
