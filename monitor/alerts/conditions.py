"""Judges whether drift can be judged, whether runs succeed, and whether arms still change."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta

from monitor.alerts.state_machine import Evaluation, JudgedRule, advance
from monitor.alerts.verdicts import judge_status, verdict_without_value
from monitor.model.alerts import (
    AlertState,
    Outcome,
    RootCause,
    Standstill,
    State,
    Transition,
    Verdict,
)
from monitor.model.immutable import immutable
from monitor.model.memory import PastRun
from monitor.model.rankings import ALL, Arm
from monitor.model.rules import Comparison, Condition, ConditionRule, StandstillRule
from monitor.model.run_reasons import RunReasonKind, find_reason
from monitor.model.runs import ArmScore, MeasuredRun
from monitor.model.statistics import CHURN
from monitor.texts.conditions import (
    write_churn,
    write_clear,
    write_ignored,
    write_standstill,
    write_too_few,
    write_unlearned,
)
from monitor.texts.root_causes import write_missed, write_stale
from monitor.texts.run_reasons import write_run_reason

JUST_AFTER = timedelta(microseconds=1)
"""A verdict between two runs gets a slot that is this much later than the newest judged slot."""
LEAST_CHURN = 0.02
"""An arm's lists count as changed if at least this share of their items was replaced."""
STILL = 0.1
"""An arm is at a standstill if its share of replaced items is at most this part of the other arm's share.

While an alert on standstill is firing, the limit is twice as high. Both arms stand still if each
arm's share is at most this part of the newest change. So arms that always change a little do not
stand still.
"""


def judge_condition(
    rule: ConditionRule,
    measured: MeasuredRun,
    verdicts: Sequence[Verdict],
    *,
    is_unknown: bool,
) -> Verdict | None:
    """Judge a condition of one segment by the ``verdicts`` of the segment's other rules.

    None if the run does not decide about the condition. The conditions:

    - ``error``: the run failed.
    - ``no_data``: too few users of the run were compared, or no rule had data. Or the segment has
      no users any more (``is_unknown``).
    - ``too_few``: a rule had too few users.
    - ``stale``: no run can start this condition. An ok run ends it.

    ``no_data`` and ``too_few`` ignore rules that are still learning. A failed run does not decide
    about these two.
    """
    condition = rule.condition
    unjudged = judge_status(measured)
    if condition is Condition.STALE:
        return _make_clear_verdict(condition) if unjudged is None else None
    if unjudged is not None:
        if unjudged.outcome.value == condition.value:
            return _in_condition(unjudged, unjudged.reason)
        return _make_clear_verdict(condition) if condition is Condition.ERROR else unjudged
    if condition is Condition.NO_DATA and is_unknown:
        return verdict_without_value(
            Outcome.BREACH, "no user of the panel belongs to the segment any more"
        )
    lacking = [
        verdict
        for verdict in verdicts
        if verdict.outcome.value == condition.value and not verdict.is_learning
    ]
    # If any rule had data, the segment has data.
    is_judged = condition is Condition.NO_DATA and len(lacking) < len(verdicts)
    if not lacking or is_judged:
        return _make_clear_verdict(condition)
    reason = lacking[0].reason
    if len(lacking) > 1:
        reason += f" ({len(lacking):,} rules say so)"
    return _in_condition(lacking[0], reason)


def judge_reason(condition: Condition, measured: MeasuredRun) -> Verdict | None:
    """Judge a condition of `UNPAIRED_CONDITIONS`, which a reason of the run reports.

    None if the run did not compare the arms' users.
    """
    if measured.unpaired is None:
        return None
    # The kind of reason has the name of the condition.
    reason = find_reason(measured.reasons, RunReasonKind(condition))
    if reason is None:
        return _make_clear_verdict(condition)
    return verdict_without_value(
        Outcome.BREACH, write_run_reason(reason), measured.unpaired.assigned
    )


def apply_ignored(verdict: Verdict, ignored: Collection[Condition]) -> Verdict:
    """Return the verdict, marked as ignored if the configuration ignores its condition.

    An ignored verdict ends pending and firing alerts, because rankwatch does not wait for data
    then.
    """
    if verdict.is_learning or verdict.outcome in (Outcome.OK, Outcome.BREACH):
        return verdict
    if Condition(verdict.outcome) not in ignored:
        return verdict
    reason = write_ignored(verdict.reason, verdict.outcome)
    return replace(verdict, reason=reason, is_ignored=True)


def _in_condition(verdict: Verdict, reason: str) -> Verdict:
    """Return a breach of the condition that the verdict of another rule shows."""
    return replace(verdict, outcome=Outcome.BREACH, reason=reason, value=None)


def _make_clear_verdict(condition: Condition) -> Verdict:
    """Return the verdict that the run is not in the condition."""
    return Verdict(outcome=Outcome.OK, reason=write_clear(condition), is_recovered=True)


@immutable
class Staleness:
    """The time since the last run that succeeded, measured by two clocks."""

    since: datetime  # slot of the newest ok run, or when the wait for the first ok run began
    has_succeeded: bool
    # `stale_after` runs may fail. This is the deadline of the last one of these runs.
    overdue_at: datetime
    # Monotonic time since the latest of these events: this process started, the comparison was
    # added, its schedule changed, the clock jumped, the machine slept.
    seen_s: float
    needed_s: float  # once ``seen_s`` reaches this, another run must have ended
    cause: RootCause = field(default_factory=RootCause)

    def is_over(self, now: datetime) -> bool:
        """Whether the time is too long by both clocks. A jump of the wall clock is not enough."""
        return now >= self.overdue_at and self.seen_s >= self.needed_s


def judge_stale(
    comparison: Comparison,
    states: Sequence[AlertState],
    wait: Staleness,
    now: datetime,
    *,
    installation: str = "",
) -> tuple[tuple[AlertState, ...], tuple[Transition, ...]]:
    """Return the states that change because no run succeeds, and their transitions.

    Nothing changes before the wait is over. Then the alerts of rules on staleness fire. Only the
    next ok run ends these alerts. If the configuration ignores staleness, the pending and firing
    alerts end instead.
    """
    if not wait.is_over(now):
        return (), ()
    stored = {(state.alert, state.segment): state for state in states}
    changed: list[AlertState] = []
    transitions: list[Transition] = []
    for rule, segment, verdict in _judge_wait(comparison, states, wait):
        before = stored.get((rule.alert, segment))
        # Failed runs may have judged this alert after the newest ok run. Then their slot is used.
        newest = max(wait.since, before.judged_slot) if before else wait.since
        evaluation = Evaluation(
            comparison=comparison.name,
            segment=segment,
            slot=newest + JUST_AFTER,
            at=now,
            installation=installation,
        )
        state, transition = advance(rule, verdict, before, evaluation)
        if transition is not None:
            changed.append(state)
            transitions.append(transition)
    return tuple(changed), tuple(transitions)


def _judge_wait(
    comparison: Comparison,
    states: Sequence[AlertState],
    wait: Staleness,
) -> Iterator[JudgedRule]:
    """Yield the verdicts on staleness, and the ends of other alerts if staleness is ignored."""
    missed = comparison.judging.stale_after
    headline = write_stale(wait.since, wait.cause, has_succeeded=wait.has_succeeded)
    reason = write_missed(headline, missed)
    rules = {rule.alert: rule for rule in comparison.judging.rules}
    for rule in rules.values():
        if isinstance(rule, ConditionRule) and rule.condition is Condition.STALE:
            verdict = Verdict(outcome=Outcome.BREACH, reason=reason, headline=headline)
            yield rule, ALL, verdict
    if Condition.STALE not in comparison.judging.ignored:
        return
    reason = write_ignored(reason, Condition.STALE)
    ended = Verdict(outcome=Outcome.ERROR, reason=reason, is_ignored=True)
    for state in states:
        if state.alert in rules and state.state is not State.QUIET:
            yield rules[state.alert], state.segment, ended


def count_standstills(
    comparison: Comparison,
    measured: MeasuredRun,
    past: Sequence[PastRun],
) -> tuple[Standstill, ...]:
    """Count this run for each rule with ``frozen``, and return the counts in the rules' order."""
    churn = {arm: score.value or 0.0 for arm, score in _find_churn(measured.arm_scores).items()}
    counts: Mapping[str, Standstill] = {}
    states: Mapping[tuple[str, str], State] = {}
    if past:
        counts = past[-1].standstills
        states = past[-1].states
    counted = []
    for rule in comparison.judging.rules:
        if not isinstance(rule, StandstillRule):
            continue
        before = counts.get(rule.alert)
        if before is None or before.arm is not rule.arm:
            # The rule is new, or it judged another arm before.
            before = Standstill(alert=rule.alert, arm=rule.arm)
        # Without lists of the last run, the changes of the arms are not known.
        if len(churn) == len(Arm):
            was_firing = states.get((rule.alert, ALL)) is State.FIRING
            before = _count_changes(
                replace(before, slot=measured.slot),
                churn,
                was_firing=was_firing,
                is_holiday=comparison.judging.is_holiday(measured.slot),
            )
        counted.append(before)
    return tuple(counted)


def _count_changes(
    before: Standstill, churn: Mapping[Arm, float], *, was_firing: bool, is_holiday: bool = False
) -> Standstill:
    """Return the counts with this run. ``churn`` is the share of each arm's items that changed."""
    if before.arm is None:
        largest = max(churn.values())
        has_changed = largest >= LEAST_CHURN
        # On a holiday, possibly nobody trains a model.
        is_still = largest <= STILL * before.churn and not (has_changed or is_holiday)
    else:
        is_still = _stands_still(churn, before.arm, was_firing=was_firing)
        has_changed = churn[before.arm] >= LEAST_CHURN
    if is_still:
        return replace(before, missed=before.missed + 1)
    # The arm did not change, but this is no standstill, because the other arm did not change enough,
    # or the arms changed a little.
    if not has_changed:
        return before
    # A standstill that fired was not normal, so its length is not learned.
    longest = before.longest if was_firing else max(before.longest, before.missed)
    return replace(
        before,
        missed=0,
        longest=longest,
        changes=before.changes + 1,
        churn=max(churn.values()),
        first_change=before.first_change or before.slot,
    )


def _stands_still(churn: Mapping[Arm, float], arm: Arm, *, was_firing: bool) -> bool:
    """Return whether the arm hardly changed in a run in which the other arm changed."""
    still = STILL * churn[arm.other]
    if was_firing:
        # Otherwise the alert would start and end repeatedly if the arm's churn is about a tenth of
        # the other arm's churn.
        still *= 2
    return churn[arm.other] >= LEAST_CHURN and churn[arm] <= still


def judge_standstill(
    rule: StandstillRule, measured: MeasuredRun, standstill: Standstill | None
) -> Verdict:
    """Judge whether the arm's lists, or the lists of both arms, stopped changing.

    The value is the number of times that the other arm changed since this arm's last change. For
    both arms, it is the number of runs since the last change of either arm. ``standstill`` is None
    if there is no earlier run to compare with.

    - ``breach``: the value exceeds the learned limit. The verdict is recovered after the arm's next
      change, or after the next change of either arm.
    - ``no_data``: the lists of this run cannot be compared with those of the last run.
    - ``too_few``: too few users were compared, or the rule is still learning.
    """
    unjudged = judge_status(measured)
    if unjudged is not None:
        return unjudged
    churn = _find_churn(measured.arm_scores)
    if len(churn) < len(Arm) or standstill is None:
        return verdict_without_value(
            Outcome.NO_DATA, "there are no lists of an earlier run to compare with"
        )
    counts = [score.n for arm, score in churn.items() if rule.arm in (arm, None)]
    users = min(counts)
    if users < rule.min_users:
        return verdict_without_value(Outcome.TOO_FEW, write_too_few(users, rule.min_users), users)
    if measured.unpaired is not None:
        users = sum(counts)  # each arm has its own users
    # Before that, the usual time between changes is not known.
    if standstill.limit is None:
        reason = write_unlearned(standstill)
        return verdict_without_value(Outcome.TOO_FEW, reason, users, is_learning=True)
    headline = write_standstill(standstill, standstill.limit)
    first = rule.arm or Arm.BASELINE
    replaced = write_churn(first, churn[first].value or 0.0, churn[first.other].value or 0.0)
    return Verdict(
        outcome=Outcome.BREACH if standstill.missed > standstill.limit else Outcome.OK,
        reason=f"{headline}; {replaced}",
        value=float(standstill.missed),
        users=users,
        is_recovered=standstill.missed == 0,
        headline=headline,
    )


def _find_churn(scores: Sequence[ArmScore]) -> dict[Arm, ArmScore]:
    """Return the share of items that changed since the last run, for each arm with such a share."""
    churn = {}
    for score in scores:
        if score.segment == ALL and score.metric == CHURN and score.value is not None:
            churn[score.arm] = score
    return churn
