"""What a change of an alert tells beside the value: how sure it is, and what was normal before."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from monitor.model import ALL, COVERAGE, UNMEASURED, Comparison, Expectation, PastRun, Rule, Summary, Transition
from monitor.pipeline.expecting import learning_rules
from monitor.reference import estimate_interval, share_interval

RECENT = 10
"""Healthy runs before, of which the mean stands for what is normal where nothing learns it."""


def needs_recent(comparison: Comparison) -> bool:
    """Whether values are told beside what was normal that no rule learns, so that earlier summaries are wanted."""
    return not learning_rules(comparison) and any(rule.metric not in UNMEASURED for rule in comparison.rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scales:
    """What the changes of one run are weighed with; ``past`` oldest first, with summaries where no rule learns."""

    comparison: Comparison
    summaries: Sequence[Summary]
    expectations: Sequence[Expectation]
    past: Sequence[PastRun]

    def weigh(self, changes: Iterable[Transition]) -> tuple[Transition, ...]:
        """The changes with ``interval`` and ``normal``, where they have a value and these are known."""
        rules = {rule.alert: rule for rule in self.comparison.rules}
        return tuple(
            each if each.value is None else replace(each, interval=self._measure(each, rules), normal=self._find_normal(each))
            for each in changes
        )

    def _measure(self, change: Transition, rules: dict[str, Rule]) -> tuple[float, float] | None:
        if change.metric == COVERAGE:
            return share_interval(change.value or 0.0, change.users)
        found = (each for each in self.summaries if (each.segment, each.metric) == (change.segment, change.metric))
        summary = next(found, None)
        return None if summary is None else estimate_interval(summary, change.statistic, rules[change.alert].scores)

    def _find_normal(self, change: Transition) -> float | None:
        """What the rule expected, or else another one that learns the same series; or else the mean of recent healthy runs."""
        own = (each.expected for each in self.expectations if (each.alert, each.segment) == (change.alert, change.segment))
        alike = {rule.alert for rule in self.comparison.rules if _looks_at(rule, change)}
        others = (each.expected for each in self.expectations if each.alert in alike and each.segment == change.segment)
        known = [expected for expected in chain(own, others) if expected is not None]
        if known:
            return known[0]
        values = list(self._recall(change)) if needs_recent(self.comparison) else []
        return math.fsum(values) / len(values) if values else None

    def _recall(self, change: Transition) -> Iterator[float]:
        """Values of the same series in recent runs after which the alert was quiet, there and for all users."""
        for run in self.past[-RECENT:]:
            if (change.alert, change.segment) in run.states or (change.alert, ALL) in run.states:
                continue
            for each in run.summaries:
                value = each.value(change.statistic)
                if (each.segment, each.metric) == (change.segment, change.metric) and value is not None:
                    yield value


def _looks_at(rule: Rule, change: Transition) -> bool:
    return (rule.metric, rule.statistic) == (change.metric, change.statistic)
