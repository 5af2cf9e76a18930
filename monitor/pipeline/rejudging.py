"""Stored runs judged once more, in order, as though the comparison had had these rules from its first run on."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field, replace

from monitor.model import (
    AlertState,
    Comparison,
    Expectation,
    PastRun,
    RuleKind,
    RunRecord,
    RunStatus,
    State,
    Transition,
    to_lessons,
)
from monitor.pipeline.expecting import REMEMBERED
from monitor.pipeline.explaining import explain_alerts
from monitor.pipeline.judging import Findings, judge_findings
from monitor.pipeline.weighing import needs_recent


def _empty_past() -> defaultdict[str, deque[PastRun]]:
    return defaultdict(lambda: deque(maxlen=REMEMBERED))


def _without_conditions(comparison: Comparison) -> Comparison:
    return replace(comparison, rules=tuple(rule for rule in comparison.rules if rule.kind is not RuleKind.CONDITION))


@dataclass(slots=True, kw_only=True)
class Rejudging:
    """States and memory of rules between the runs; nothing is written anywhere.

    With the rules that judged the runs when they were run, each in its turn, and the ``min_paired_share`` of then, it gives
    the very transitions of then, judged at the time of the slot.
    """

    comparison: Comparison
    states: dict[tuple[str, str], AlertState] = field(default_factory=dict)
    past: defaultdict[str, deque[PastRun]] = field(default_factory=_empty_past)

    def judge(self, record: RunRecord, *, is_whole: bool = True) -> tuple[Transition, ...]:
        """Judge the next run, of a later slot than those before it. An abandoned run was never judged, and is not now.

        Of conditions one that is not whole says nothing: what a rule lacks now, the run may have measured then.
        """
        run = record.run
        if run.status in (RunStatus.ABANDONED, RunStatus.RUNNING):
            return ()
        found = Findings(
            slot=run.slot,
            status=run.status,
            reason=run.reason,
            coverage=record.coverage,
            summaries=record.summaries,
            arm_scores=record.arm_scores,
        )
        past = tuple(self.past[run.config_hash])
        comparison = self.comparison if is_whole else _without_conditions(self.comparison)
        judgement = judge_findings(comparison, found, past, tuple(self.states.values()), at=run.slot)
        self.states |= {(state.alert, state.segment): state for state in judgement.states}
        if run.status is RunStatus.OK:
            self._remember(record, judgement.expectations)
        return explain_alerts(judgement.transitions, record.explanation)

    def _remember(self, record: RunRecord, expectations: tuple[Expectation, ...]) -> None:
        """What later runs of the same configuration learn from this one."""
        alarmed = {watch: state.state for watch, state in self.states.items() if state.state is not State.QUIET}
        summaries = tuple(record.summaries) if needs_recent(self.comparison) else ()
        past = PastRun(slot=record.run.slot, states=alarmed, lessons=to_lessons(expectations), summaries=summaries)
        self.past[record.run.config_hash].append(past)
