"""Checks the answers of sources from installed packages."""

from collections.abc import Callable
from typing import Any

import numpy as np

from monitor.boundary.options import Options
from monitor.boundary.plugins import Guard
from monitor.measures.reading.numbers import numbers_of
from monitor.model.errors import SourceError
from monitor.model.rankings import CoverageReason, Pull
from monitor.model.runs import PullRequest
from monitor.sources.columns import on_one_line
from monitor.sources.list_collector import ListCollector
from monitor.sources.tables import Table

MAX_LIST_ITEMS = 10_000
"""The largest number of items in a list. A longer list is probably a mistake of the plugin."""


class AskedLists(ListCollector):
    """Collects a plugin's lists of the requested users.

    If the plugin gave lists of other users, the requested users without a list are ``wrong_user``.
    """

    def __init__(self, request: PullRequest, *, has_scores: bool) -> None:
        super().__init__(request.k, has_scores=has_scores)
        self._requested = set(request.users)
        self._other_count = 0
        self._other_example = ""

    def add(
        self,
        user: str,
        value: object,
        scores: object = None,
        version: object = None,
    ) -> None:
        """Add the user's list. If the options have ``scores``, each item needs a finite score."""
        length = len(value) if isinstance(value, list | tuple) else 0
        if user not in self._requested:
            self._other_count += 1
            self._other_example = self._other_example or on_one_line(str(user))
        elif length > MAX_LIST_ITEMS:
            self.fail(
                user, CoverageReason.TOO_LARGE, f"a list has more than {MAX_LIST_ITEMS:,} items"
            )
        elif self._has_scores and not _are_finite(scores):
            self.fail(user, CoverageReason.MALFORMED, "a score is not a finite number")
        else:
            super().add(user, value, scores, version)

    def fail(self, user: str, reason: CoverageReason, note: str) -> None:
        """Record why the user has no list."""
        if user in self._requested:
            super().fail(user, CoverageReason(reason), on_one_line(str(note), 300))

    def pull(self) -> Pull:
        """The lists and failures that were collected."""
        if self._other_count:
            note = (
                f"{self._other_count:,} answers were for other users, such as {self._other_example}"
            )
            for user in self._requested.difference(self._users, self._failures):
                super().fail(user, CoverageReason.WRONG_USER, note)
        return super().pull()


def _are_finite(scores: object) -> bool:
    if not isinstance(scores, list | tuple):
        return True  # the collector reports scores that are no list
    numbers, _ = numbers_of(scores)
    return bool(np.isfinite(numbers).all())


class PluginAnswers:
    """Reads from a plugin's source. A guard protects each call.

    Ports: Source, and those of `Table`. Rows of a `Table` need no check here, because it checks
    them.
    """

    def __init__(self, opened: Any, who: str, options: Options) -> None:  # noqa: ANN401 - any port
        self._opened = opened
        self._has_scores = getattr(options, "scores", None) is not None
        self._guard = Guard(who, SourceError, permanent=False)

    def pull(self, request: PullRequest) -> Pull:
        """The lists that the plugin collected."""
        lists = AskedLists(request, has_scores=self._has_scores)
        self._guard.run(lambda: self._opened.collect(request, lists))
        return lists.pull()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not isinstance(self._opened, Table):
            raise SourceError(
                f"{type(self._opened).__name__} reads only lists: it must be derived from Table"
            )
        return lambda *arguments: self._guard.run(lambda: getattr(self._opened, name)(*arguments))
