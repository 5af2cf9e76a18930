"""Judge stored runs by other rules.

This module stores nothing.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime

from monitor.model.alerts import ACCEPTED_LEVEL, Transition
from monitor.model.immutable import immutable
from monitor.model.rankings import ALL
from monitor.model.rules import Comparison, Subject
from monitor.model.runs import FinishedRun, RunStatus
from monitor.pipeline.judgement import Rejudgement, add_missing_summaries
from monitor.storage import SqlStore
from monitor.storage.run_history import SqlHistory

AT_ONCE = 100
"""The largest number of runs whose summaries are in memory at once."""


@immutable
class Backtest:
    """The result for one comparison in one period. Transitions are in the order of time."""

    comparison: Comparison
    runs: Mapping[RunStatus, int]
    transitions: tuple[Transition, ...]  # the changes that the rules would have made
    stored: tuple[Transition, ...]  # the changes that were stored
    # For each alert, the number of ok runs that the rule could not judge, because the statistic is
    # missing.
    lacking: Mapping[str, int]
    # The values of the rules' statistics over all users, by statistic and then by slot.
    measured: Mapping[Subject, Mapping[datetime, float | None]]


def backtest_rules(
    comparison: Comparison,
    store: SqlStore,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
) -> Backtest:
    """Judge all stored runs up to the slot ``end`` by the rules of the comparison.

    Returns the changes in the slots from ``start`` to ``end``.
    """

    def is_in_period(slot: datetime) -> bool:
        return (start is None or slot >= start) and (end is None or slot <= end)

    accepted = []
    stored = []
    for transition in store.alerts.transitions(comparison=comparison.name, limit=None):
        if transition.alert == ACCEPTED_LEVEL:
            accepted.append(transition)
        elif is_in_period(transition.slot):
            stored.append(transition)
    installation = store.alerts.installation(create=False)
    rejudging = Rejudgement(
        comparison=comparison,
        installation=installation,
        accepted=tuple(accepted),
    )
    runs: Counter[RunStatus] = Counter()
    lacking: Counter[str] = Counter()
    transitions: list[Transition] = []
    measured: dict[Subject, dict[datetime, float | None]] = {}
    # Begin with the first stored run. Rules learn from earlier runs, and an older alert may still
    # be firing in this period.
    for run in all_finished_runs(comparison.name, store.history, end):
        completed, missing = add_missing_summaries(comparison, run, store.history)
        changes = rejudging.judge(completed, has_all_summaries=not missing)
        slot = run.slot
        status = run.status
        if not is_in_period(slot):
            continue
        runs[status] += 1
        transitions += changes
        if status is RunStatus.OK:
            lacking.update(missing)
        by_metric = {
            summary.metric: summary for summary in completed.summaries if summary.segment == ALL
        }
        for rule in comparison.judging.similarity_rules:
            metric, statistic = rule.subject
            by_slot = measured.setdefault(rule.subject, {})
            by_slot[slot] = by_metric[metric].value(statistic) if metric in by_metric else None
    return Backtest(
        comparison=comparison,
        runs=runs,
        transitions=tuple(transitions),
        stored=tuple(stored),
        lacking=lacking,
        measured=measured,
    )


def all_finished_runs(
    comparison: str,
    history: SqlHistory,
    end: datetime | None,
) -> Iterator[FinishedRun]:
    """Yield the finished runs up to the slot ``end``, oldest first.

    The function reads AT_ONCE runs at a time.
    """
    after: datetime | None = None
    while runs := history.finished_runs(comparison, after=after, limit=AT_ONCE):
        for run in runs:
            if end is not None and run.slot > end:
                return
            yield run
        after = runs[-1].slot
