"""Sources that answer what they were given."""

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from factories import MINUTE, SLOT, HeldClock, claim, pull, rankings
from monitor.model.memory import Memory
from monitor.model.rankings import ItemWeights, Pull, RelevanceTable, UserTable
from monitor.model.rules import Comparison
from monitor.model.runs import PullRequest
from monitor.pipeline.pull import Arms
from monitor.pipeline.run import execute


@dataclass
class StillClock(HeldClock):
    """It stands still at a moment after the slot."""

    at: datetime = SLOT + MINUTE


@dataclass
class Canned:
    """A source and a source of users at once: its answer, an error, or an event to wait for before it answers nothing."""

    answer: Any
    names: tuple[str, ...] = ()
    segments: dict[str, list[str]] = field(default_factory=dict)
    requests: list[PullRequest] = field(default_factory=list)

    def given(self, nothing: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        if isinstance(self.answer, threading.Event):
            self.answer.wait(30)
            return nothing
        return self.answer

    def pull(self, request: PullRequest) -> Pull:
        self.requests.append(request)
        found: Pull = self.given(pull(""))
        return found

    def users(self, slot: datetime, dimensions: Sequence[str]) -> UserTable:
        self.given(None)
        segments: dict[str, pd.Categorical[Any]] = {
            name: pd.Categorical(self.segments[name]) for name in dimensions
        }
        return UserTable(users=pd.Index(self.names, dtype="str"), segments=segments)


class CannedWeights(Canned):
    """Weights of items."""

    def weights(self, slot: datetime) -> ItemWeights:
        assert slot == SLOT
        found = self.given({})
        return ItemWeights(
            items=rankings({"": list(found)}).items,
            weights=np.array(list(found.values()), dtype=np.float64),
        )


class CannedTitles(Canned):
    """Titles of items."""

    def titles(self, slot: datetime, items: Collection[str]) -> Mapping[str, str]:
        return {item: title for item, title in self.given({}).items() if item in items}


Grades = Mapping[str, Mapping[Any, float]]


def graded(grades: Grades) -> RelevanceTable:
    table = rankings({user: list(of_user) for user, of_user in grades.items()})
    values = [grade for of_user in grades.values() for grade in of_user.values()]
    return RelevanceTable(
        users=table.users,
        offsets=table.offsets,
        items=table.items,
        grades=np.array(values, dtype=np.float64),
    )


@dataclass
class CannedRelevance:
    """What is known by slot; of other slots nothing has arrived."""

    known: dict[datetime, Grades | Exception | threading.Event] = field(default_factory=dict)
    asked: list[datetime] = field(default_factory=list)

    def relevance(self, slot: datetime) -> RelevanceTable | None:
        self.asked.append(slot)
        answer = Canned(self.known.get(slot)).given(None)
        return None if answer is None else graded(answer)


def arms(baseline: Any, candidate: Any, asked: Canned | None = None, **more: Any) -> Arms:
    """Lists may be given as text, as to `pull`.

    Asked for are the baseline's users, if no others are given.
    """
    both = [Canned(pull(each) if isinstance(each, str) else each) for each in (baseline, candidate)]
    asked = asked or users(*both[0].answer.rankings.users)
    return Arms(
        baseline=both[0], candidate=both[1], users=asked, dimensions=tuple(asked.segments), **more
    )


def users(*names: str, **segments: list[str]) -> Canned:
    return Canned(pull(""), names=names, segments=segments)


def ran(
    what: Comparison,
    baseline: Any,
    candidate: Any,
    asked: Canned | None = None,
    *,
    memory: Memory | None = None,
    **more: Any,
) -> Any:
    """The result of one slot run over these answers."""
    return execute(
        what, arms(baseline, candidate, asked, **more), claim(), memory or Memory(), StillClock()
    )
