"""Finds out why a run of an unpaired comparison cannot be judged."""

from collections.abc import Sequence
from datetime import datetime

from monitor.model.alerts import AlertState, State
from monitor.model.rules import Comparison, Condition, ConditionRule
from monitor.model.run_reasons import RunReason, RunReasonKind, RunReasons
from monitor.model.unpaired import UnpairedFindings
from monitor.statistics.unpaired import arms_differed, split

MOST_SWITCHED = 0.01
"""If more than this share of the users switched arms, the run cannot be judged."""
_FIXED = split.LIMIT / 2
"""A split that was off is as planned again if the evidence against it is below this.

The evidence falls if more users come, although the users before them are still wrong. With a new
``since`` it begins at 0, and the chance that it ever exceeds this is 3 %.
"""


def find_unpaired_obstacles(
    comparison: Comparison, unpaired: UnpairedFindings, states: Sequence[AlertState]
) -> RunReasons:
    """Return the reasons why the run cannot be judged, the most important one first."""
    obstacles = []
    off_since = _off_since(comparison, states)
    if unpaired.log_e >= (split.LIMIT if off_since is None else _FIXED):
        shortfall = unpaired.shortfall
        obstacles.append(
            RunReason(
                kind=RunReasonKind.SPLIT_OFF,
                arm=shortfall.arm,
                users=shortfall.lacking,
                asked=shortfall.planned,
                slot=off_since,
            )
        )
    users = unpaired.assigned + unpaired.switched
    if unpaired.switched > MOST_SWITCHED * users:
        obstacles.append(
            RunReason(
                kind=RunReasonKind.SWITCHED,
                users=unpaired.switched,
                asked=users,
                limit=MOST_SWITCHED,
            )
        )
    least = comparison.judging.min_paired_share
    for arm, counts in unpaired.users.items():
        if not counts.served:
            obstacles.append(RunReason(kind=RunReasonKind.NOT_SERVED, arm=arm))
        elif counts.compared < max(1, least * counts.served):
            obstacles.append(
                RunReason(
                    kind=RunReasonKind.FEW_BEFORE,
                    arm=arm,
                    users=counts.compared,
                    asked=counts.served,
                    limit=least,
                )
            )
    return tuple(obstacles)


def _off_since(comparison: Comparison, states: Sequence[AlertState]) -> datetime | None:
    """The slot since which the alert on the split is firing. None if it is not firing."""
    alerts = set()
    for rule in comparison.judging.rules:
        if isinstance(rule, ConditionRule) and rule.condition is Condition.SPLIT_OFF:
            alerts.add(rule.alert)
    for state in states:
        if state.alert in alerts and state.state is State.FIRING:
            return state.since
    return None


def note_arms_differed(unpaired: UnpairedFindings) -> RunReasons:
    """Return the reason that says that the arms differed before the test, if they did."""
    if unpaired.before_p is None or unpaired.before_p > arms_differed.LIMIT:
        return ()
    return (RunReason(kind=RunReasonKind.ARMS_DIFFERED, limit=unpaired.before_p),)
