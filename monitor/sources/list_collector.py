"""Collects lists into a Pull. The lists arrive user by user, as Python values."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, compress, islice

import numpy as np
import pandas as pd

from monitor.measures.kernels.ragged import offsets_of
from monitor.measures.reading.lists import FlatLists, NoItems, join_lists, parse_cell, read_lists
from monitor.model.id_forms import Forms, make_speller
from monitor.model.model_versions import count_versions
from monitor.model.rankings import CoverageReason, Pull, RankingTable

_TOGETHER = 5_000
"""How many lists wait until they are converted. Converted lists take less memory."""


def pull_without(
    pull: Pull,
    users: Iterable[str],
    reason: CoverageReason,
    note: str,
) -> Pull:
    """The pull without the lists of these users. They fail for this reason."""
    failures = {**pull.failures, **dict.fromkeys(users, reason)}
    return without_failed(replace(pull, failures=failures, notes={reason: note, **pull.notes}))


def without_failed(pull: Pull) -> Pull:
    """The pull without the lists of users that failed."""
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
    """The same lists, with item ids rewritten by ``forms``.

    If different items get the same id, the reason is ``duplicated``, and a note says so.
    """
    if not forms:
        return pull
    codes, distinct = pd.Series(pull.rankings.items, copy=False).factorize()
    texts = make_speller(forms)(list(map(str, distinct)))
    items = pd.array(texts, dtype="str").take(codes)
    notes = dict(pull.notes)
    if len(set(texts)) < len(texts):
        notes[CoverageReason.DUPLICATED] = "item_ids give the same id to several items"
    return replace(pull, rankings=replace(pull.rankings, items=items), notes=notes)


class ListCollector:
    """Collects the list or failure of each user into one Pull.

    It stores at most k items of a user. If a user has a list and a failure, the failure is used. A
    user with two lists is ``duplicate_user``. With ``has_scores``, every list must have as many
    scores as items. Values of ``no_item`` are skipped.
    """

    def __init__(self, k: int, *, has_scores: bool = False, no_item: NoItems = None) -> None:
        self._k = k
        self._no_item = no_item
        self._has_scores = has_scores
        self._failures: dict[str, CoverageReason] = {}
        self._notes: dict[CoverageReason, str] = {}
        self._users: dict[str, None] = {}
        self._waiting: list[tuple[object, object, object]] = []  # of the last users
        self._parts: list[tuple[list[str], list[object], FlatLists]] = []
        self._stored = 0  # the number of parts that `new_lists` has returned
        self._unreadable = 0
        self._example: object = None

    def add(
        self,
        user: str,
        value: object,
        scores: object = None,
        version: object = None,
    ) -> None:
        """Add the user's list and the version of the model that made it.

        Texts are parsed as JSON. The user is ``malformed`` if the value is no list of ids, or if
        the scores do not fit.
        """
        value = parse_cell(value)
        scores = parse_cell(scores)
        if user in self._users:
            note = "a user has more than one list"
            self.fail(user, CoverageReason.DUPLICATE_USER, note)
            return
        if isinstance(value, list | tuple) and not self._no_item:
            has_length = isinstance(scores, list | tuple) and len(scores) == len(value)
            scores = scores[: self._k] if has_length else None  # type: ignore[index]  # it is a list
            value = value[: self._k]
        self._users[user] = None
        self._waiting.append(
            (value, scores, version if isinstance(version, str | int | float) else None)
        )
        if len(self._waiting) == _TOGETHER:
            self._convert()

    def fail(self, user: str, reason: CoverageReason, note: str) -> None:
        """Record why the user has no list. The first note of each reason is stored."""
        self._failures.setdefault(user, reason)
        self._notes.setdefault(reason, note)

    def _convert(self) -> None:
        """Convert the lists that were added since the last conversion."""
        if not self._waiting:
            return
        cells, scores, versions = zip(*self._waiting, strict=True)
        self._waiting = []
        lists = read_lists(
            cells,
            "items",
            "",
            scores=scores if self._has_scores else None,
            k=self._k,
            no_item=self._no_item,
        )
        users = list(islice(self._users, len(self._users) - len(cells), None))
        is_left = ~(lists.is_malformed | lists.is_missing)
        for user, is_missing in zip(users, lists.is_missing, strict=True):
            if is_missing:
                self.fail(user, CoverageReason.MALFORMED, "expected a list of ids, found null")
        for row in np.flatnonzero(~is_left):
            self.fail(users[row], CoverageReason.MALFORMED, lists.note)
        left = list(compress(users, is_left)), list(compress(versions, is_left))
        self._parts.append((*left, lists.only(is_left)))
        if self._unreadable == 0:
            self._example = lists.example
        self._unreadable += lists.unreadable + int(lists.is_missing.sum())

    @property
    def unreadable(self) -> tuple[int, object]:
        """The number of unreadable lists, and the first unreadable value."""
        self._convert()
        return self._unreadable, self._example

    def pull(self) -> Pull:
        """The lists and failures that were collected."""
        self._convert()
        users = list(chain.from_iterable(users for users, _, _ in self._parts))
        versions = Counter(chain.from_iterable(versions for _, versions, _ in self._parts))
        nothing = read_lists([], "", "", scores=[] if self._has_scores else None)
        lists = join_lists([part for _, _, part in self._parts] or [nothing])
        table = lists.table(pd.Index(users, dtype="str"))
        return without_failed(
            Pull(
                rankings=table,
                failures=self._failures,
                notes=self._notes,
                versions=count_versions({}, versions.items()),
            )
        )

    def __len__(self) -> int:
        return len(self._users)

    def new_lists(self) -> list[tuple[object, ...]]:
        """The user, items, scores and version of each list that was added since the last call."""
        self._convert()
        lists: list[tuple[object, ...]] = []
        for users, versions, part in self._parts[self._stored :]:
            items = part.items.to_pylist()
            scores = [] if part.scores is None else part.scores.tolist()
            ends = np.cumsum(part.lengths).tolist()
            rows = zip(users, versions, [0, *ends], ends, strict=False)
            for user, version, start, end in rows:
                lists.append((user, items[start:end], scores[start:end], version))
        self._stored = len(self._parts)
        return lists
