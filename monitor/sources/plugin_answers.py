"""What sources of installed packages answer, and what of it can be used."""

from collections.abc import Callable
from math import isfinite
from typing import Any

from monitor.errors import SourceError
from monitor.model.rankings import CoverageReason, Pull
from monitor.model.runs import PullRequest
from monitor.options import Options
from monitor.plugins import Guard
from monitor.sources.columns import number_list, on_one_line
from monitor.sources.list_collector import ListCollector
from monitor.sources.tables import Table

MOST_ITEMS = 10_000
"""Items of the longest list that is cut to k: a longer one is an accident."""


class AskedLists(ListCollector):
    """Takes what a plugin has of the users asked.

    Where it has lists of others, those asked without one are ``wrong_user``.
    """

    def __init__(self, request: PullRequest, *, has_scores: bool) -> None:
        super().__init__(request.k, has_scores=has_scores)
        self._asked, self._others, self._other = set(request.users), 0, ""

    def add(self, user: str, value: object, scores: object = None, version: object = None) -> None:
        """Take the user's list, with as many finite scores where the options have ``scores``."""
        length = len(value) if isinstance(value, list | tuple) else 0
        if user not in self._asked:
            self._others, self._other = self._others + 1, self._other or on_one_line(str(user))
        elif length > MOST_ITEMS:
            self.fail(user, CoverageReason.TOO_LARGE, f"a list has more than {MOST_ITEMS:,} items")
        elif self._has_scores and not all(map(isfinite, number_list(scores, length) or ())):
            self.fail(user, CoverageReason.MALFORMED, "a score is no finite number")
        else:
            super().add(user, value, scores, version)

    def fail(self, user: str, reason: CoverageReason, note: str) -> None:
        """Take that the user has no list, and why."""
        if user in self._asked:
            super().fail(user, CoverageReason(reason), on_one_line(str(note), 300))

    def pull(self) -> Pull:
        """All that was taken."""
        told = f"{self._others:,} answers were for others, such as {self._other}"
        for user in self._asked.difference(self._lengths, self._failures) if self._others else ():
            super().fail(user, CoverageReason.WRONG_USER, told)
        return super().pull()


class PluginAnswers:
    """Asks what a plugin opened.

    Ports: Source, and those of a `Table`, which checks what it reads.
    """

    def __init__(self, opened: Any, who: str, options: Options) -> None:  # noqa: ANN401 - of any port
        self._opened, self._has_scores = opened, getattr(options, "scores", None) is not None
        self._guard = Guard(who, SourceError, permanent=False)

    def pull(self, request: PullRequest) -> Pull:
        """What it collected."""
        lists = AskedLists(request, has_scores=self._has_scores)
        self._guard.run(lambda: self._opened.collect(request, lists))
        return lists.pull()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if isinstance(self._opened, Table):
            return lambda *asked: self._guard.run(lambda: getattr(self._opened, name)(*asked))
        raise SourceError(
            f"{type(self._opened).__name__} reads nothing but lists: it must be derived from Table"
        )
