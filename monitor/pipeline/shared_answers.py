"""Shares the answers of sources between the comparisons of several candidates.

The first run asks a source, and the other runs use its answer.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from monitor.model.rankings import Pull, UserTable
from monitor.model.rules import Comparison
from monitor.model.runs import PullRequest
from monitor.pipeline.pull import Arms


@dataclass(slots=True, eq=False)
class _Answer:
    """A shared answer, the comparisons that have not taken it yet, and a timer that drops it."""

    awaited: set[str]
    forget: threading.Timer
    outcome: Future[Any] = field(default_factory=Future)


class SharedAnswers:
    """Answers for one slot that all comparisons of a family share: users, and lists of an arm.

    An answer (or an error) is dropped when each comparison has taken it, or at the deadline of the
    run that asked. If a comparison asks for the same slot again, it gets a new answer. Several
    threads may use one object.
    """

    def __init__(self) -> None:
        self._names = defaultdict[str, set[str]](set)
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, object], _Answer] = {}

    def shared_by(self, comparison: Comparison, arms: Arms) -> Arms:
        """Return the comparison's arms with sources that share their answers."""
        lasts_s = comparison.measuring.deadline.total_seconds()

        def share(source: object, what: str) -> _SharedSource:
            self._names[what].add(comparison.name)
            return _SharedSource(source, partial(self._take, comparison.name, what, lasts_s))

        baseline_name, candidate_name = comparison.arms
        shared = replace(
            arms,
            baseline=share(arms.baseline, baseline_name),
            candidate=share(arms.candidate, candidate_name),
            users=share(arms.users, "users"),
        )
        if arms.second_baseline is not None:
            shared = replace(shared, second_baseline=share(arms.second_baseline, "second baseline"))
        return shared

    def _take(
        self,
        name: str,
        what: str,
        lasts_s: float,
        request: object,
        ask: Callable[[], Any],
    ) -> Any:  # noqa: ANN401
        """Return the answer to the request for the comparison ``name``.

        The first caller asks the source. The other callers wait for its answer, without limit,
        because they have a deadline of their own.
        """
        key = what, request
        with self._lock:
            answer = self._answers.get(key)
            # A comparison that has taken this answer before wants a new one.
            is_first = answer is None or name not in answer.awaited
            if answer is None or is_first:
                answer = self._begin(key, lasts_s)
            answer.awaited.discard(name)
            if not answer.awaited:
                del self._answers[key]
                answer.forget.cancel()
        if is_first:
            try:
                answer.outcome.set_result(ask())
            except BaseException as error:  # noqa: BLE001 - raised below, in each thread that waits
                answer.outcome.set_exception(error)
        return answer.outcome.result()

    def _begin(self, key: tuple[str, object], lasts_s: float) -> _Answer:
        """Begin a new answer, which is dropped after ``lasts_s`` seconds."""
        awaited = set(self._names[key[0]])
        forget = threading.Timer(lasts_s, self._forget, (key, awaited))
        forget.daemon = True
        forget.start()
        self._answers[key] = _Answer(awaited, forget)
        return self._answers[key]

    def _forget(self, key: tuple[str, object], awaited: set[str]) -> None:
        """Drop the answer, if no newer answer has replaced it."""
        with self._lock:
            if key in self._answers and self._answers[key].awaited is awaited:
                del self._answers[key]


class _SharedSource:
    """A source whose answers all comparisons of a family share. Ports: Source, UserSource."""

    def __init__(
        self,
        source: Any,  # noqa: ANN401
        take: Callable[[object, Callable[[], Any]], Any],
    ) -> None:
        self._source = source
        self._take = take

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:
        """Return all users that may be asked for in this slot."""
        users: UserTable = self._take(slot, partial(self._source.users, slot, dimensions))
        return users

    def pull(self, request: PullRequest) -> Pull:
        """Return the lists of the requested users."""
        # A run may ask in rounds. Each round has another first user.
        users, pull = self._take(
            (request.slot, *request.users[:1]), lambda: (request.users, self._source.pull(request))
        )
        if not users.equals(request.users):
            # The run that asked has other users, because it read the list of users at another time.
            pull = self._source.pull(request)
        answer: Pull = pull
        return answer
