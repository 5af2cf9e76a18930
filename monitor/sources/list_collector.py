"""Collects lists into a Pull. The lists arrive user by user, as JSON or as Python values."""

import json
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray

from monitor.kernels.ragged import offsets_of
from monitor.model.arrays import Integers
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
    _read_json = json.loads  # type: ignore[assignment]  # it is called with one text or bytes


def pull_without(
    pull: Pull,
    users: Iterable[str],
    reason: CoverageReason,
    note: str,
) -> Pull:
    """The pull without the lists of these users. They fail for this reason."""
    failures = {**pull.failures, **dict.fromkeys(users, reason)}
    notes = {reason: note, **pull.notes}
    return _without_failed(replace(pull, failures=failures, notes=notes))


def _without_failed(pull: Pull) -> Pull:
    table = pull.rankings
    if not pull.failures:
        return pull
    is_left = ~table.users.isin(list(pull.failures))
    lengths = np.diff(table.offsets)
    is_item_left = np.repeat(is_left, lengths)
    scores = None if table.scores is None else table.scores[is_item_left]
    left = RankingTable(
        users=table.users[is_left],
        offsets=offsets_of(lengths[is_left]),
        items=table.items[is_item_left],
        scores=scores,
    )
    return replace(pull, rankings=left)


def spell_items(pull: Pull, forms: Forms) -> Pull:
    """The same lists, with item ids rewritten in these forms.

    If different items get the same id, they are ``duplicated`` and a note is added.
    """
    if not forms:
        return pull
    codes, distinct = pd.Series(pull.rankings.items, copy=False).factorize()
    texts = speller(forms)(list(map(str, distinct)))
    items = pd.array(texts, dtype="str").take(codes)
    notes = dict(pull.notes)
    if len(set(texts)) < len(texts):
        notes[CoverageReason.DUPLICATED] = "item_ids give the same id to several items"
    return replace(pull, rankings=replace(pull.rankings, items=items), notes=notes)


class ListCollector:
    """Collects the list or failure of each user into one Pull.

    It stores at most k items of a user. An integer takes 8 bytes. If a user has a list and a
    failure, the failure is used. A user with two lists is ``duplicate_user``. With ``has_scores``,
    every list must have as many scores as items. Values of ``no_item`` are skipped.
    """

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
        self.example: object = None  # the first unreadable value

    def add(
        self,
        user: str,
        value: object,
        scores: object = None,
        version: object = None,
    ) -> None:
        """Add the user's list and the version of the model that made it.

        The user is ``malformed`` if the value is no list of ids, or if the scores do not fit.
        """
        numbers: Sequence[float] | None = ()
        if isinstance(value, list | tuple):
            if self._no_item:
                value, scores = drop_padding(value, scores, self._no_item)
            if self._has_scores:
                numbers = number_list(scores, len(value))
        items = item_ids(value, self._k)
        if items is None:
            self._count_unreadable(_odd_item(value))
            note = f"expected a list of ids, found {_describe(value)}"
            self.fail(user, CoverageReason.MALFORMED, note)
        elif numbers is None:
            note = "expected a list of scores with one number for each item"
            self.fail(user, CoverageReason.MALFORMED, note)
        elif user in self._lengths:
            self.fail(user, CoverageReason.DUPLICATE_USER, "a user has more than one list")
        else:
            self._lengths[user] = len(items)
            count_versions(self.versions, [(version, 1)])
            self._append(items)
            self._scores.extend(numbers[: self._k])

    def add_cell(
        self,
        user: str,
        value: object,
        scores: object = None,
        version: object = None,
    ) -> None:
        """Add the user's list from a cell of a table: a list, the text of a JSON array, or null.

        The user is ``missing`` if the cell is null.
        """
        if value is None:
            self.fail(user, CoverageReason.MISSING, "the user's list is null")
            return
        try:
            items = from_json(value)
            numbers = from_json(scores)
        except ValueError:
            self._count_unreadable(value)
            self.fail(user, CoverageReason.MALFORMED, _no_json(value))
        else:
            self.add(user, items, numbers, version)

    def _count_unreadable(self, example: object) -> None:
        if not self.unreadable:
            self.example = example
        self.unreadable += 1

    def fail(self, user: str, reason: CoverageReason, note: str) -> None:
        """Record why the user has no list. The first note of each reason is stored."""
        self._failures.setdefault(user, reason)
        self._notes.setdefault(reason, note)

    def pull(self) -> Pull:
        """The lists and failures that were collected."""
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
        """The user, items and scores of each list, without the first ``count`` lists."""
        lists: list[tuple[str, list[object], list[float]]] = []
        users = list(islice(self._lengths, count, None))
        end = len(self._items)
        for user in reversed(users):
            start = end - self._lengths[user]
            lists.append((user, list(self._items[start:end]), list(self._scores[start:end])))
            end = start
        lists.reverse()
        return lists

    @property
    def nbytes(self) -> int:
        """An estimate of the memory of the items and scores, in bytes."""
        item_bytes = 8 if isinstance(self._items, array) else 64
        return item_bytes * len(self._items) + 8 * len(self._scores)

    def _append(self, items: Sequence[int | str]) -> None:
        if isinstance(self._items, array):
            numbers = [item for item in items if isinstance(item, int)]
            if len(numbers) == len(items):
                self._items.extend(numbers)
                return
            self._items = list(map(str, self._items))
        self._items.extend(map(str, items))

    def _array(self) -> Integers | ExtensionArray:
        if isinstance(self._items, array):
            return np.array(self._items, dtype=np.int64)
        return pd.array(self._items, dtype="str")


def from_json(cell: object) -> object:
    """The value of a JSON text or bytes. Any other cell is returned unchanged.

    Raises ValueError if the text is not JSON.
    """
    if not isinstance(cell, str | bytes):
        return cell
    try:
        return _read_json(cell)
    except (TypeError, ValueError):
        # Python's reader is slower, but it accepts byte order marks and lone surrogates.
        text = cell if isinstance(cell, str) else cell.decode("utf-8-sig")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError from None


def _odd_item(value: object) -> object:
    """The first item of a list that is no id. If the value is no list, the value itself."""
    if not isinstance(value, list | tuple):
        return value
    return next(item for item in value if canonical_id(item) is None)


def _describe(value: object) -> str:
    # The value is not repeated, because it is from outside.
    if isinstance(value, list | tuple):
        return f"a list with {describe_value(_odd_item(value))} in it"
    plain_names = {str: "a text", int: "a number", float: "a number"}
    return plain_names.get(type(value)) or describe_value(value)


def _no_json(cell: object) -> str:
    problem = "the text is not a JSON array of ids"
    dialect = recognize_dialect(cell)
    if dialect is not None:
        problem += f", but {dialect.name}: {dialect.advice}"
    return problem
