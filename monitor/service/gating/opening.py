"""A gate over a configuration file: what it opens, and closes at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from monitor.model import ALL
from monitor.service.clock import SystemClock
from monitor.service.gating.answering import Answerer
from monitor.service.gating.question import Question
from monitor.settings import Settings
from monitor.sources import open_users
from monitor.storage import open_store


@contextmanager
def answerer(settings: Settings, question: Question) -> Iterator[Answerer]:
    """The store, and where segments are asked for the source of users; both only read."""
    options = next(each for each in settings.comparisons if each.name == question.comparison.name)
    with closing(open_store(settings.database, create=False)) as store:
        found = Answerer(store=store, question=question, clock=SystemClock())
        if question.segments == (ALL,):
            yield found
            return
        with closing(open_users(options.users, options.baseline)) as users:
            found.users, found.dimensions = users, tuple(options.users.segments)
            yield found
