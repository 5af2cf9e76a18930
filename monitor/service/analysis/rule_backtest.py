"""Backtest of rules: the transitions that other rules would have made on stored runs. Stores and sends nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from monitor.model import ACCEPTED, ALL, Comparison, RunRecord, RunStatus, Transition
from monitor.model.rules import Subject
from monitor.pipeline.rejudgement import Rejudgement, complete_record
from monitor.ports import History, Store

AT_ONCE = 100
"""Runs whose summaries are in memory at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """Slots from ``start`` to ``end``, both included, without end where None."""

    start: datetime | None = None
    end: datetime | None = None

    def holds(self, slot: datetime) -> bool:
        """Whether the slot lies inside."""
        return (self.start is None or slot >= self.start) and (self.end is None or slot <= self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """What became of one comparison in the period.

    ``runs`` by status; ``transitions`` that the rules would have made and ``stored`` those that were made, in order;
    ``lacking`` counts, by alert, the ok runs that a rule could not judge: what it looks at was neither summarized nor kept.
    ``measured``: values of what rules on similarity look at, over all users, by slot.
    """

    comparison: Comparison
    runs: Mapping[RunStatus, int]
    transitions: tuple[Transition, ...]
    stored: tuple[Transition, ...]
    lacking: Mapping[str, int]
    measured: Mapping[Subject, Mapping[datetime, float | None]]


def backtest_rules(comparison: Comparison, store: Store, period: Period) -> Backtest:
    """Judge all stored runs up to the end of the period by the comparison's rules; return what changes within it."""
    made = store.alerts.transitions(comparison=comparison.name, limit=None)
    accepted = tuple(each for each in made if each.alert == ACCEPTED)
    installation = store.alerts.installation(create=False)
    rejudging = Rejudgement(comparison=comparison, installation=installation, accepted=accepted)
    runs: Counter[RunStatus] = Counter()
    lacking: Counter[str] = Counter()
    transitions: list[Transition] = []
    measured: dict[Subject, dict[datetime, float | None]] = {}
    # From the first run on: those before the period teach what is normal, and may leave alerts firing.
    for record in finished_records(comparison.name, store.history, period.end):
        whole, lacks = complete_record(comparison, record, store.history)
        changed = rejudging.judge(whole, is_whole=not lacks)
        if period.holds(record.run.slot):
            runs[record.run.status] += 1
            transitions.extend(changed)
            whole_of = {each.metric: each for each in whole.summaries if each.segment == ALL}
            for metric, statistic in (rule.subject for rule in comparison.judging.similarity_rules):
                value = whole_of[metric].value(statistic) if metric in whole_of else None
                measured.setdefault(Subject(metric, statistic), {})[record.run.slot] = value
            if record.run.status is RunStatus.OK:
                lacking.update(lacks)
    return Backtest(
        comparison=comparison,
        runs=runs,
        transitions=tuple(transitions),
        stored=tuple(each for each in made if period.holds(each.slot) and each.alert != ACCEPTED),
        lacking=lacking,
        measured=measured,
    )


def finished_records(comparison: str, history: History, end: datetime | None) -> Iterator[RunRecord]:
    """All finished runs of the comparison up to this slot, oldest first, a few at a time."""
    after: datetime | None = None
    # A few at a time: a long history takes no more memory than a short one.
    while found := history.run_records(comparison, after=after, limit=AT_ONCE):
        for record in found:
            if end is not None and record.run.slot > end:
                return
            yield record
        after = found[-1].run.slot
