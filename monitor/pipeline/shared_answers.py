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
from monitor.pipeline.pull import ComparisonSources


@dataclass(slots=True, eq=False)
class _Answer:
    """A shared answer, the comparisons that have not taken it yet, and a timer that drops it."""

    not_yet_taken_by: set[str]  # the comparisons' names
    drop_timer: threading.Timer
    outcome: Future[Any] = field(default_factory=Future)


class SharedAnswers:
    """Answers for one slot that all comparisons of a family share: users, and lists of an arm.

    An answer (or an error) is dropped when each comparison has taken it, or at the deadline of the
    run that asked first. A comparison that asks for the same slot again gets a new answer. Several
    threads may use one object.
    """

    def __init__(self) -> None:
        # The names of the comparisons that share the answers of each source, by the source's name.
        self._sharing = defaultdict[str, set[str]](set)
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, object], _Answer] = {}

    def shared_by(self, comparison: Comparison, sources: ComparisonSources) -> ComparisonSources:
        """Return the sources. They share their answers with the family's other comparisons."""
        valid_s = comparison.measuring.deadline.total_seconds()

        def share(source: object, source_name: str) -> _SharedSource:
            self._sharing[source_name].add(comparison.name)
            get_or_ask = partial(self._get_or_ask, comparison.name, source_name, valid_s)
            return _SharedSource(source, get_or_ask)

        baseline_name, candidate_name = comparison.arms
        shared = replace(
            sources,
            baseline=share(sources.baseline, baseline_name),
            candidate=share(sources.candidate, candidate_name),
            users=share(sources.users, "users"),
        )
        if sources.second_baseline is not None:
            shared = replace(
                shared, second_baseline=share(sources.second_baseline, "second baseline")
            )
        return shared

    def _get_or_ask(
        self,
        name: str,
        source_name: str,
        valid_s: float,
        request: object,
        ask: Callable[[], Any],
    ) -> Any:  # noqa: ANN401
        """Return the answer of the source to the request, for the comparison ``name``.

        The first caller asks the source. The other callers wait for the answer. The wait has no
        limit, because the callers of this method have a deadline.
        """
        key = source_name, request
        with self._lock:
            answer = self._answers.get(key)
            must_ask = False
            # A comparison that has already taken this answer asks for a new one.
            if answer is None or name not in answer.not_yet_taken_by:
                must_ask = True
                answer = self._store_new(key, valid_s)
            answer.not_yet_taken_by.discard(name)
            if not answer.not_yet_taken_by:
                del self._answers[key]
                answer.drop_timer.cancel()
        if must_ask:
            try:
                answer.outcome.set_result(ask())
            except BaseException as error:  # noqa: BLE001 - raised below, in each thread that waits
                answer.outcome.set_exception(error)
        return answer.outcome.result()

    def _store_new(self, key: tuple[str, object], valid_s: float) -> _Answer:
        """Store an answer without an outcome, which is dropped after ``valid_s`` seconds."""
        source_name, _ = key
        sharing = set(self._sharing[source_name])
        drop_timer = threading.Timer(valid_s, self._drop, (key, sharing))
        drop_timer.daemon = True
        drop_timer.start()
        self._answers[key] = _Answer(sharing, drop_timer)
        return self._answers[key]

    def _drop(self, key: tuple[str, object], not_yet_taken_by: set[str]) -> None:
        """Drop the answer, if no newer answer has replaced it."""
        with self._lock:
            if key in self._answers and self._answers[key].not_yet_taken_by is not_yet_taken_by:
                del self._answers[key]


@dataclass(slots=True)
class _SharedSource:
    """A source whose answers all comparisons of a family share. Ports: Source, UserSource."""

    source: Any
    get_or_ask: Callable[[object, Callable[[], Any]], Any]

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:
        """Return all users that may be asked for in this slot."""
        users: UserTable = self.get_or_ask(slot, partial(self.source.users, slot, dimensions))
        return users

    def pull(self, request: PullRequest) -> Pull:
        """Return the lists of the requested users."""
        # A run may ask in rounds. The first user distinguishes the rounds.
        key = (request.slot, *request.users[:1])
        users, pull = self.get_or_ask(key, lambda: (request.users, self.source.pull(request)))
        if not users.equals(request.users):
            # The run that asked read the list of users at another time, so its users differ.
            pull = self.source.pull(request)
        answer: Pull = pull
        return answer
