"""Sources that answer what they were given."""

import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pandas as pd

from factories import MINUTE, SLOT, HeldClock, claim, pull, relevance, weights
from monitor.model.memory import Memory
from monitor.model.rankings import UserTable
from monitor.pipeline.pull import ComparisonSources
from monitor.pipeline.run import execute


@dataclass
class StillClock(HeldClock):
    """It stands still at a moment after the slot."""

    at: datetime = SLOT + MINUTE


@dataclass
class Canned:
    """A source and a source of users at once: its answer, an error, or an event to wait for before it answers nothing."""

    answer: Any
    names: Any = ()
    segments: Any = field(default_factory=dict)
    requests: Any = field(default_factory=list)

    def given(self, nothing):
        if isinstance(self.answer, Exception):
            raise self.answer
        if isinstance(self.answer, threading.Event):
            self.answer.wait(30)
            return nothing
        return self.answer

    def pull(self, request):
        self.requests.append(request)
        return self.given(pull(""))

    def users(self, slot, dimensions):
        self.given(None)
        segments = {name: pd.Categorical(self.segments[name]) for name in dimensions}
        return UserTable(users=pd.Index(self.names, dtype="str"), segments=segments)


class CannedWeights(Canned):
    """Weights of items."""

    def weights(self, slot):
        assert slot == SLOT
        return weights(self.given({}))


class CannedTitles(Canned):
    """Titles of items."""

    def titles(self, slot, items):
        return {item: title for item, title in self.given({}).items() if item in items}


@dataclass
class CannedRelevance:
    """What is known by slot; of other slots nothing has arrived."""

    known: Any = field(default_factory=dict)
    asked: Any = field(default_factory=list)

    def relevance(self, slot):
        self.asked.append(slot)
        answer = Canned(self.known.get(slot)).given(None)
        return None if answer is None else relevance(answer)


def arms(baseline, candidate, asked=None, **more):
    """Lists may be given as text, as to `pull`.

    Asked for are the baseline's users, if no others are given.
    """
    both = [Canned(pull(each) if isinstance(each, str) else each) for each in (baseline, candidate)]
    asked = asked or users(*both[0].answer.rankings.users)
    return ComparisonSources(
        baseline=both[0], candidate=both[1], users=asked, dimensions=tuple(asked.segments), **more
    )


def users(*names, **segments):
    return Canned(pull(""), names=names, segments=segments)


def ran(what, baseline, candidate, asked=None, *, memory=None, **more):
    """The result of one slot run over these answers."""
    return execute(
        what, arms(baseline, candidate, asked, **more), claim(), memory or Memory(), StillClock()
    )
