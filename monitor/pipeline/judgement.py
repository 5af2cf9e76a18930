"""The second half of a run: expectations, verdicts, alert states, and transitions with what was normal for each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain

from monitor.alerts import assign_incidents, evaluate_rules
from monitor.model import (
    ALL,
    COVERAGE,
    UNMEASURED,
    AlertState,
    Comparison,
    Coverage,
    CoverageRow,
    CoverageShare,
    Expectation,
    Findings,
    Histogram,
    Memory,
    PastRun,
    Rule,
    RuleKind,
    RunStatus,
    Summary,
    Transition,
)
from monitor.pipeline.expectations import compute_expectations, learning_rules
from monitor.pipeline.standstill import expect_standstills
from monitor.reference import estimate_interval, share_interval


def summarize_coverage(coverage: Coverage | None, rules: Sequence[Rule]) -> tuple[Summary, ...]:
    """One summary a segment of whom somebody was asked, with the shares that these rules learn; none where none does."""
    names = dict.fromkeys(rule.statistic for rule in rules if rule.metric == COVERAGE and rule.kind is not RuleKind.THRESHOLD)
    shares = [CoverageShare.parse(name) for name in names]
    rows = coverage.rows if coverage and shares else ()
    return tuple(_summarize(row, shares) for row in rows if row.asked)


def _summarize(row: CoverageRow, shares: Sequence[CoverageShare]) -> Summary:
    return Summary(
        segment=row.segment,
        metric=COVERAGE,
        n=row.asked,
        n_undefined=0,
        mean=None,
        standard_error=None,
        statistics={str(share): share.count(row) / row.asked for share in shares},
        histogram=Histogram(low=0.0, high=1.0, counts=()),
    )


RECENT = 10
"""Healthy runs before, of which the mean stands for what is normal where nothing learns it."""


def needs_recent(comparison: Comparison) -> bool:
    """Whether values are told beside what was normal that no rule learns, so that earlier summaries are wanted."""
    return not learning_rules(comparison) and any(rule.metric not in UNMEASURED for rule in comparison.rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeScales:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the rules that learn expected, the new state of every alert looked at, and the transitions in order."""

    expectations: tuple[Expectation, ...]
    states: tuple[AlertState, ...]
    transitions: tuple[Transition, ...]


def judge_findings(comparison: Comparison, found: Findings, memory: Memory, at: datetime) -> Judgement:
    """Judge a run at the time ``at``. The same arguments give the same answer."""
    measured, states = found.measured, memory.states
    seen = (*measured.summaries, *summarize_coverage(measured.coverage, comparison.rules))
    lost = _count_lost(measured.coverage)
    expectations = compute_expectations(comparison, found.slot, seen, memory.past, states, lost=lost) if seen else ()
    if found.status is RunStatus.OK:
        expectations += expect_standstills(comparison, measured.arm_scores, memory.past)
    moved, transitions = evaluate_rules(
        comparison,
        slot=found.slot,
        at=at,
        status=found.status,
        run_reason=found.reason,
        summaries=measured.summaries,
        states=states,
        thin=thin_segments(measured.coverage, comparison.min_paired_share),
        coverage=measured.coverage,
        expectations=expectations,
        arm_scores=measured.arm_scores,
    )
    moved, transitions = assign_incidents(moved, transitions, states, group_for=comparison.group_for)
    scales = ChangeScales(comparison=comparison, summaries=measured.summaries, expectations=expectations, past=memory.past)
    return Judgement(expectations=expectations, states=moved, transitions=scales.weigh(transitions))


def _count_lost(coverage: Coverage | None) -> dict[str, float]:
    """Share of the asked users that could not be compared, by segment."""
    return {row.segment: 1.0 - row.paired / row.asked for row in (coverage.rows if coverage else ()) if row.asked}


def thin_segments(coverage: Coverage | None, min_paired_share: float) -> dict[str, str]:
    """Segments of which too small a share was compared, with the figures: they are neither shown nor judged as the whole."""
    return {
        row.segment: f"{row.paired:,} of {row.asked:,} users, under min_paired_share {min_paired_share:.0%}"
        for row in (coverage.rows if coverage else ())
        if row.segment != ALL and row.paired < min_paired_share * row.asked
    }
