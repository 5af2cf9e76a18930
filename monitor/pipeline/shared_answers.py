"""Answers that the comparisons of several candidates share: whichever run asks first asks for all, and the others take it."""

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from monitor.model.comparison import Comparison
from monitor.model.rankings import Arm, Pull, UserTable
from monitor.model.runs import PullRequest
from monitor.pipeline.pull import Arms


@dataclass(slots=True, eq=False)
class _Answer:
    """What is asked once, who has not taken it yet, and what drops it when time is over."""

    awaited: set[str]
    forget: threading.Timer
    outcome: Future[Any] = field(default_factory=Future)


class SharedAnswers:
    """What the comparisons of a family are answered alike for a slot: users, lists of an arm, the baseline's second ones.

    An answer, or the error in its place, is kept until each of them has taken it, at most until the deadline of the run that
    asked. Whoever asks a second time for the same slot runs it again, and asks anew. Safe to share between threads.
    """

    def __init__(self) -> None:
        self._names = defaultdict[str, set[str]](set)
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, object], _Answer] = {}

    def shared_by(self, comparison: Comparison, arms: Arms) -> Arms:
        """The arms of one of them, with what it shares from now on."""
        lasts_s = comparison.measuring.deadline.total_seconds()

        def share(role: str, what: str) -> _SharedSource:
            self._names[what].add(comparison.name)
            return _SharedSource(
                getattr(arms, role), partial(self._take, comparison.name, what, lasts_s)
            )

        baseline, candidate = map(share, Arm, comparison.arms)
        again = arms.again and share("again", "again")
        return replace(
            arms, baseline=baseline, candidate=candidate, users=share("users", "users"), again=again
        )

    def _take(
        self, name: str, what: str, lasts_s: float, asked: object, ask: Callable[[], Any]
    ) -> Any:  # noqa: ANN401
        """The answer, asked for by whoever comes first.

        Waits as long as the source takes: whoever calls has a deadline.
        """
        key = what, asked
        with self._lock:
            answer = self._kept.get(key)
            if is_first := answer is None or name not in answer.awaited:
                answer = self._begin(key, lasts_s)
            answer.awaited.discard(name)
            if not answer.awaited:
                del self._kept[key]
                answer.forget.cancel()
        if is_first:
            try:
                answer.outcome.set_result(ask())
            except BaseException as error:  # noqa: BLE001 - raised below, in each thread that waits
                answer.outcome.set_exception(error)
        return answer.outcome.result()

    def _begin(self, key: tuple[str, object], lasts_s: float) -> _Answer:
        awaited = set(self._names[key[0]])
        forget = threading.Timer(lasts_s, self._forget, (key, awaited))
        forget.daemon = True
        forget.start()
        answer = self._kept[key] = _Answer(awaited, forget)
        return answer

    def _forget(self, key: tuple[str, object], awaited: set[str]) -> None:
        with self._lock:
            if key in self._kept and self._kept[key].awaited is awaited:
                del self._kept[key]


class _SharedSource:
    """A source that is asked once for all of a family. Ports: Source, UserSource."""

    def __init__(self, source: Any, take: Callable[[object, Callable[[], Any]], Any]) -> None:  # noqa: ANN401 - of either port
        self._source, self._take = source, take

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:
        """All users that may be asked for this slot."""
        found: UserTable = self._take(slot, lambda: self._source.users(slot, dimensions))
        return found

    def pull(self, request: PullRequest) -> Pull:
        """Lists of the requested users."""
        # Those who stop asking once they are certain ask round by round.
        asked, pull = self._take(
            (request.slot, *request.users[:1]), lambda: (request.users, self._source.pull(request))
        )
        # Of users that were read at another moment, as when a run of the family was repeated, lists
        # are no answer to this one.
        found: Pull = pull if asked.equals(request.users) else self._source.pull(request)
        return found
