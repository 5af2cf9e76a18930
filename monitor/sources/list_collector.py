"""Lists that arrive one user at a time, as JSON or Python values, gathered into a Pull."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, islice, pairwise

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.extensions import ExtensionArray

from monitor.model.id_forms import Forms, speller
from monitor.model.model_versions import count_versions
from monitor.model.rankings import CoverageReason, Pull, RankingTable
from monitor.reading.dialects import recognize_dialect
from monitor.reading.ids import canonical_id, describe_value, item_ids
from monitor.reading.padding import NoItems, drop_padding
from monitor.sources.columns import number_list

try:
    from pydantic_core import from_json as _read_json
except ImportError:  # on Spark's executors
    _read_json = json.loads  # type: ignore[assignment]  # called with a text or bytes alone


def pull_without(pull: Pull, users: Iterable[str], reason: CoverageReason, note: str) -> Pull:
    """Return the pull with these users' lists taken away for this reason."""
    failures, notes = (
        {**pull.failures, **dict.fromkeys(users, reason)},
        {reason: note, **pull.notes},
    )
    return _without_failed(replace(pull, failures=failures, notes=notes))


def _without_failed(pull: Pull) -> Pull:
    table, failures = pull.rankings, pull.failures
    if failures:
        kept, lengths = ~table.users.isin(list(failures)), np.diff(table.offsets)
        is_left = np.repeat(kept, lengths)
        scores = None if table.scores is None else table.scores[is_left]
        offsets = np.concatenate([[0], np.cumsum(lengths[kept])])
        table = RankingTable(
            users=table.users[kept], offsets=offsets, items=table.items[is_left], scores=scores
        )
    return replace(pull, rankings=table)


def spell_items(pull: Pull, forms: Forms) -> Pull:
    """The same lists of items that are spelled so.

    Items of a list that become one are ``duplicated``.
    """
    if not forms:
        return pull
    codes, distinct = pd.Series(pull.rankings.items, copy=False).factorize()
    texts = speller(forms)([str(item) for item in distinct])
    items = pd.array(texts, dtype="str").take(codes)
    note = (
        {CoverageReason.DUPLICATED: "item_ids make one of several items"}
        if len(set(texts)) < len(texts)
        else {}
    )
    return replace(pull, rankings=replace(pull.rankings, items=items), notes={**pull.notes, **note})


class ListCollector:
    """Takes each user's list or failure and hands back one Pull.

    Keeps at most k items a user, 8 bytes for each integer.

    A failure outweighs a list. A user whose list comes twice ends as ``duplicate_user``. With
    ``has_scores`` every list needs its scores beside it, as many as items. Values of ``no_item``
    are left out."""

    def __init__(self, k: int, *, has_scores: bool = False, no_item: NoItems = None) -> None:
        self._k = k
        self._no_item = no_item
        self._has_scores = has_scores
        self._scores: array[float] = array("d")
        self._failures: dict[str, CoverageReason] = {}
        self._notes: dict[CoverageReason, str] = {}
        self._lengths: dict[str, int] = {}
        self._items: array[int] | list[str] = array("q")
        self.versions: dict[str, int] = {}
        self.unreadable = 0
        self.example: object = None

    def add(self, user: str, value: object, scores: object = None, version: object = None) -> None:
        """Take the user's list, of this model.

        ``malformed`` when it is no list of ids, or the scores do not fit it.
        """
        if self._no_item and isinstance(value, list | tuple):
            value, scores = drop_padding(value, scores, self._no_item)
        items = item_ids(value, self._k)
        numbers = (
            number_list(scores, len(value))
            if self._has_scores and isinstance(value, list | tuple)
            else ()
        )
        if items is None:
            self._count(_odd_item(value))
            self.fail(
                user, CoverageReason.MALFORMED, f"expected a list of ids, found {_kind(value)}"
            )
        elif numbers is None:
            self.fail(
                user,
                CoverageReason.MALFORMED,
                "expected a list of numbers as scores, as many as items",
            )
        elif user in self._lengths:
            self.fail(user, CoverageReason.DUPLICATE_USER, "a user has more than one list")
        else:
            self._lengths[user] = len(items)
            count_versions(self.versions, [(version, 1)])
            self._append(items)
            self._scores.extend(numbers[: self._k])

    def add_cell(
        self, user: str, value: object, scores: object = None, version: object = None
    ) -> None:
        """Take the user's list from a table's cell: a list, the text of a JSON array, or null for ``missing``."""
        if value is None:
            self.fail(user, CoverageReason.MISSING, "the user's list is null")
            return
        try:
            items, numbers = from_json(value), from_json(scores)
        except ValueError:
            self._count(value)
            self.fail(user, CoverageReason.MALFORMED, _no_json(value))
        else:
            self.add(user, items, numbers, version)

    def _count(self, example: object) -> None:
        self.example = example if not self.unreadable else self.example
        self.unreadable += 1

    def fail(self, user: str, reason: CoverageReason, note: str) -> None:
        """Take that the user has no list, and why; the first note of each reason is kept."""
        self._failures.setdefault(user, reason)
        self._notes.setdefault(reason, note)

    def pull(self) -> Pull:
        """All that was taken."""
        table = RankingTable(
            users=pd.Index(list(self._lengths), dtype="str"),
            offsets=np.cumsum([0, *self._lengths.values()], dtype=np.int64),
            items=self._array(),
            scores=np.array(self._scores, dtype=np.float64) if self._has_scores else None,
        )
        return _without_failed(
            Pull(rankings=table, failures=self._failures, notes=self._notes, versions=self.versions)
        )

    def __len__(self) -> int:
        return len(self._lengths)

    def since(self, count: int) -> list[tuple[str, list[object], list[float]]]:
        """User, items and scores of all lists but the first so many that were taken."""
        users = list(islice(self._lengths, count, None))
        lengths = [self._lengths[user] for user in users]
        ends = accumulate(lengths, initial=len(self._items) - sum(lengths))
        return [
            (u, list(self._items[a:b]), list(self._scores[a:b]))
            for u, (a, b) in zip(users, pairwise(ends), strict=True)
        ]

    @property
    def nbytes(self) -> int:
        """About how much memory the items take."""
        return len(self._items) * (8 if isinstance(self._items, array) else 64) + 8 * len(
            self._scores
        )

    def _append(self, items: Sequence[int | str]) -> None:
        if isinstance(self._items, array):
            whole = [item for item in items if isinstance(item, int)]
            if len(whole) == len(items):
                self._items.extend(whole)
                return
            self._items = list(map(str, self._items))
        self._items.extend(map(str, items))

    def _array(self) -> npt.NDArray[np.int64] | ExtensionArray:
        if isinstance(self._items, array):
            return np.array(self._items, dtype=np.int64)
        return pd.array(self._items, dtype="str")


def from_json(cell: object) -> object:
    """What the text or bytes of JSON say, and any other value as it is.

    ValueError when they say nothing.
    """
    if not isinstance(cell, str | bytes):
        return cell
    try:
        return _read_json(cell)
    except (TypeError, ValueError):
        # Python is slower, and alone takes byte order marks and halves of characters.
        text = cell if isinstance(cell, str) else cell.decode("utf-8-sig")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError from None


def _odd_item(value: object) -> object:
    """The first item of the list that is no id; what is no list itself."""
    if not isinstance(value, list | tuple):
        return value
    return next(item for item in value if canonical_id(item) is None)


def _kind(value: object) -> str:
    # The value is not repeated: it came from outside.
    if isinstance(value, list | tuple):
        return f"a list with {describe_value(_odd_item(value))} in it"
    return {str: "a text", int: "a number", float: "a number"}.get(type(value)) or describe_value(
        value
    )


def _no_json(cell: object) -> str:
    dialect = recognize_dialect(cell)
    known = "" if dialect is None else f", but {dialect.name}: {dialect.advice}"
    return f"the text is no JSON array of ids{known}"
