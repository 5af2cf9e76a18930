"""A stored run with alerts for tests of delivery, and a publisher that counts the results."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from factories import SLOT, comparison, evaluate, rule, summary
from monitor.alerts.incidents import assign_incidents
from storage.worked import run

WATCHED = comparison(rules=(rule(for_runs=1),))


def store_run(store, mean, *, slot=SLOT, to=("fake",), watched=WATCHED, segments=("all",)):
    """Judge and store a run in which every segment has this mean.

    The receivers ``to`` get the transitions.
    """
    return store_judged(
        store,
        watched,
        slot,
        tuple(summary(mean=mean, segment=segment) for segment in segments),
        to=to,
    )


def store_judged(store, watched, slot, found, *, to):
    """Judge and store a run with these summaries."""
    before = store.alerts.states(watched.name)
    states, transitions = evaluate(watched, slot=slot, summaries=found, states=before)
    states, transitions = assign_incidents(states, transitions, before, watched.judging)
    run(
        store,
        slot,
        comparison=watched.name,
        summaries=found,
        states=states,
        transitions=transitions,
        receivers=tuple(to),
        coverage=None,
        scores=None,
        evidence=(),
    )
    return transitions


@dataclass
class CountingPublisher:
    counts: Any = field(default_factory=Counter)
    troubles: Any = field(default_factory=Counter)

    def count(self, name, *labels):
        (self.counts if name == "notifications_total" else self.troubles)[labels] += 1
