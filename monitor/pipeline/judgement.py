"""The second half of a run: expectations, verdicts, alert states, and transitions with what was normal for each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from monitor.alerts import assign_incidents, count_standstills, evaluate_rules
from monitor.model import (
    ALL,
    AlertState,
    Comparison,
    Expectation,
    Findings,
    Memory,
    PastRun,
    RuleKind,
    RunStatus,
    SimilarityRule,
    Standstill,
    Summary,
    Transition,
)
from monitor.pipeline.expectations import compute_expectations, learning_rules
from monitor.reference import estimate_interval, share_interval

RECENT = 10
"""Healthy runs before, of which the mean stands for what is normal where nothing learns it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What was expected, the new state of every alert looked at, and the transitions in order."""

    expectations: tuple[Expectation, ...]
    standstills: tuple[Standstill, ...]
    states: tuple[AlertState, ...]
    transitions: tuple[Transition, ...]


def judge_findings(comparison: Comparison, found: Findings, memory: Memory, at: datetime) -> Judgement:
    """Judge a run at the time ``at``. The same arguments give the same answer."""
    expectations = compute_expectations(comparison, found, memory.past, memory.states, memory.accepted)
    is_ok = found.status is RunStatus.OK
    standstills = count_standstills(comparison, found.measured.arm_scores, memory.past) if is_ok else ()
    states, transitions = evaluate_rules(comparison, found, memory, at, expectations=expectations, standstills=standstills)
    # Incidents are assigned last: they depend on which firings begin together.
    states, transitions = assign_incidents(states, transitions, memory.states, comparison.judging)
    scales = ChangeScales(
        comparison=comparison, summaries=found.measured.summaries, expectations=expectations, past=memory.past
    )
    return Judgement(
        expectations=expectations, standstills=standstills, states=states, transitions=scales.complete(transitions)
    )


def needs_recent(comparison: Comparison) -> bool:
    """Whether messages compare values with a normal that no rule learns, so that earlier summaries are wanted."""
    return not learning_rules(comparison) and bool(comparison.judging.similarity_rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeScales:
    """What puts the values of one run's transitions into proportion: how sure each is, and what was normal before.

    ``past`` oldest first, with summaries where no rule learns.
    """

    comparison: Comparison
    summaries: Sequence[Summary]
    expectations: Sequence[Expectation]
    past: Sequence[PastRun]

    def complete(self, changes: Iterable[Transition]) -> tuple[Transition, ...]:
        """The changes with ``interval`` and ``normal``, where they have a value and these are known."""
        return tuple(
            each if each.value is None else replace(each, interval=self._interval(each), normal=self._normal(each))
            for each in changes
        )

    def _interval(self, change: Transition) -> tuple[float, float] | None:
        if change.kind is RuleKind.COVERAGE:
            return share_interval(change.value or 0.0, change.users)
        found = (each for each in self.summaries if (each.segment, each.metric) == (change.segment, change.metric))
        summary = next(found, None)
        rule = next(rule for rule in self.comparison.judging.rules if rule.alert == change.alert)
        if summary is None or not isinstance(rule, SimilarityRule):
            return None
        return estimate_interval(summary, change.statistic, rule.scores)

    def _normal(self, change: Transition) -> float | None:
        subject = (change.metric, change.statistic)
        alike = {rule.alert for rule in self.comparison.judging.rules if rule.subject == subject}
        # The rule's own expectation comes first, then that of another rule that learns the same series.
        for each in sorted(self.expectations, key=lambda each: each.alert != change.alert):
            if each.alert in alike and each.segment == change.segment and each.expected is not None:
                return each.expected
        values = list(self._recent_values(change)) if needs_recent(self.comparison) else []
        return math.fsum(values) / len(values) if values else None

    def _recent_values(self, change: Transition) -> Iterator[float]:
        """Values of the same series in recent runs after which the alert was quiet, there and for all users."""
        for run in self.past[-RECENT:]:
            if (change.alert, change.segment) in run.states or (change.alert, ALL) in run.states:
                continue
            for each in run.summaries:
                value = each.value(change.statistic)
                if (each.segment, each.metric) == (change.segment, change.metric) and value is not None:
                    yield value
