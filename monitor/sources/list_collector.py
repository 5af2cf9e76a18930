"""Lists that arrive one user at a time, as JSON or Python values, gathered into a Pull."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.extensions import ExtensionArray

from monitor.errors import SourceError
from monitor.model.model_versions import count_versions
from monitor.model.rankings import CoverageReason, ItemWeights, Pull, RankingTable, RelevanceTable, UserTable
from monitor.model.runs import PullRequest
from monitor.plugins import one_line
from monitor.sources.columns import item_ids, number_list, on_one_line
from monitor.sources.id_forms import Forms, speller

try:
    from pydantic_core import from_json as _read_json
except ImportError:  # on Spark's executors
    _read_json = json.loads  # type: ignore[assignment]  # called with a text or bytes alone

_ANSWERS: Mapping[str, Any] = {
    "pull": Pull, "users": UserTable, "weights": ItemWeights, "titles": Mapping, "relevance": RelevanceTable | None
}  # fmt: skip
MOST_ITEMS = 10_000
"""Items of the longest list of a plugin that is cut to k: a longer one is an accident."""


def pull_without(pull: Pull, users: Iterable[str], reason: CoverageReason, note: str) -> Pull:
    """Return the pull with these users' lists taken away for this reason."""
    failures, notes = {**pull.failures, **dict.fromkeys(users, reason)}, {reason: note, **pull.notes}
    return _without_failed(replace(pull, failures=failures, notes=notes))


def _without_failed(pull: Pull) -> Pull:
    table, failures = pull.rankings, pull.failures
    if failures:
        kept, lengths = ~table.users.isin(list(failures)), np.diff(table.offsets)
        is_left = np.repeat(kept, lengths)
        scores = None if table.scores is None else table.scores[is_left]
        offsets = np.concatenate([[0], np.cumsum(lengths[kept])])
        table = RankingTable(users=table.users[kept], offsets=offsets, items=table.items[is_left], scores=scores)
    return replace(pull, rankings=table)


def spell_items(pull: Pull, forms: Forms) -> Pull:
    """The same lists of items that are spelled so; items of a list that become one are ``duplicated``."""
    if not forms:
        return pull
    codes, distinct = pd.Series(pull.rankings.items, copy=False).factorize()
    texts = list(map(speller(forms), map(str, distinct)))
    items = pd.array(texts, dtype="str").take(codes)
    note = {CoverageReason.DUPLICATED: "item_ids make one of several items"} if len(set(texts)) < len(texts) else {}
    return replace(pull, rankings=replace(pull.rankings, items=items), notes={**pull.notes, **note})


class ListCollector:
    """Takes each user's list or failure and hands back one Pull. Keeps at most k items a user, 8 bytes for each integer.

    A failure outweighs a list. A user whose list comes twice ends as ``duplicate_user``. With ``has_scores`` every list needs
    its scores beside it, as many as items.
    """

    def __init__(self, k: int, *, has_scores: bool = False) -> None:
        self._k = k
        self._has_scores = has_scores
        self._scores: array[float] = array("d")
        self._failures: dict[str, CoverageReason] = {}
        self._notes: dict[CoverageReason, str] = {}
        self._lengths: dict[str, int] = {}
        self._items: array[int] | list[str] = array("q")
        self._versions: dict[str, int] = {}

    def add(self, user: str, value: object, scores: object = None, version: object = None) -> None:
        """Take the user's list, of this model; ``malformed`` when it is no list of ids, or the scores do not fit it."""
        items = item_ids(value, self._k)
        numbers = number_list(scores, len(value)) if self._has_scores and isinstance(value, list | tuple) else ()
        if items is None:
            self.fail(user, CoverageReason.MALFORMED, f"expected a list of ids, found {_kind(value)}")
        elif numbers is None:
            self.fail(user, CoverageReason.MALFORMED, "expected a list of numbers as scores, as many as items")
        elif user in self._lengths:
            self.fail(user, CoverageReason.DUPLICATE_USER, "a user has more than one list")
        else:
            self._lengths[user] = len(items)
            count_versions(self._versions, [(version, 1)])
            self._append(items)
            self._scores.extend(numbers[: self._k])

    def add_cell(self, user: str, value: object, scores: object = None, version: object = None) -> None:
        """Take the user's list from a table's cell: a list, the text of a JSON array, or null for ``missing``."""
        if value is None:
            self.fail(user, CoverageReason.MISSING, "the user's list is null")
            return
        try:
            items, numbers = from_json(value), from_json(scores)
        except ValueError:
            self.fail(user, CoverageReason.MALFORMED, "the text is no JSON array of ids")
        else:
            self.add(user, items, numbers, version)

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
        return _without_failed(Pull(rankings=table, failures=self._failures, notes=self._notes, versions=self._versions))

    @property
    def nbytes(self) -> int:
        """About how much memory the items take."""
        return len(self._items) * (8 if isinstance(self._items, array) else 64) + 8 * len(self._scores)

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


def check_answer(method: str, found: Any, *asked: Any) -> Any:  # noqa: ANN401 - of all ports of sources
    """What a plugin answered, as far as it can be used. SourceError where it is no answer at all."""
    if not isinstance(found, _ANSWERS[method]):
        msg = f"{method} of a plugin gave {type(found).__name__}, which is no answer to it"
        raise SourceError(msg)
    return _check_pull(found, asked[0]) if isinstance(found, Pull) else found


def _check_pull(pull: Pull, request: PullRequest) -> Pull:
    """The first k items of each list of those asked; who has no proper one has a reason.

    Where lists came for others, those asked who have none are ``wrong_user``.
    """
    offsets = pull.rankings.offsets.tolist()
    if offsets != sorted(offsets) or offsets[:1] + offsets[-1:] != [0, len(pull.rankings.items)]:
        msg = "offsets of a plugin's lists do not fit: make them with ListCollector"
        raise SourceError(msg)
    table, asked = pull.rankings, set(request.users)
    lists, strangers = ListCollector(request.k, has_scores=table.scores is not None), list[str]()
    for user, start, end in zip(table.users, offsets[:-1], offsets[1:], strict=True):
        scores = None if table.scores is None else table.scores[start:end].tolist()
        if user not in asked:
            strangers.append(on_one_line(str(user)))
        elif end - start > MOST_ITEMS:
            lists.fail(user, CoverageReason.TOO_LARGE, f"a list has more than {MOST_ITEMS:,} items")
        elif scores is not None and not all(map(isfinite, scores)):
            lists.fail(user, CoverageReason.MALFORMED, "a score is no finite number")
        else:
            lists.add(user, table.items[start:end].tolist(), scores)
    for user in asked & pull.failures.keys():
        why = CoverageReason(pull.failures[user])
        lists.fail(user, why, one_line(str(pull.notes.get(why, why))))
    for user in asked.difference(table.users, pull.failures) if strangers else ():
        told = f"{len(strangers):,} were answered who were not asked, such as {strangers[0]}"
        lists.fail(user, CoverageReason.WRONG_USER, told)
    count_versions(lists.versions, pull.versions.items())
    return lists.pull()


def from_json(cell: object) -> object:
    """What the text or bytes of JSON say, and any other value as it is; ValueError when they say nothing."""
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


def _kind(value: object) -> str:
    # The value is not repeated: it came from outside.
    if value is None:
        return "null"
    if isinstance(value, list | tuple):
        odd = next((item for item in value if item_ids([item], 1) is None), None)
        return f"a list with {'null' if odd is None else type(odd).__name__} in it"
    return {dict: "an object", str: "a text", bool: "a boolean", int: "a number", float: "a number"}.get(type(value), "no list")
