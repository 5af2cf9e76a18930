"""Finds out why a run of an unpaired comparison cannot be judged."""

from collections.abc import Sequence

from monitor.model.alerts import AlertState, State
from monitor.model.rankings import Arm
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
    assigned = {arm: counts.assigned for arm, counts in unpaired.users.items()}
    if unpaired.log_e >= (_FIXED if _was_off(comparison, states) else split.LIMIT):
        obstacles.append(
            RunReason(
                kind=RunReasonKind.SPLIT_OFF,
                users=assigned[Arm.BASELINE],
                asked=sum(assigned.values()),
                limit=unpaired.baseline_share,
            )
        )
    users = sum(assigned.values()) + unpaired.switched
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


def _was_off(comparison: Comparison, states: Sequence[AlertState]) -> bool:
    """Whether the alert on the split is firing."""
    alerts = set()
    for rule in comparison.judging.rules:
        if isinstance(rule, ConditionRule) and rule.condition is Condition.SPLIT_OFF:
            alerts.add(rule.alert)
    return any(state.alert in alerts and state.state is State.FIRING for state in states)


def note_arms_differed(unpaired: UnpairedFindings) -> RunReasons:
    """Return the reason that says that the arms differed before the test, if they did."""
    if unpaired.before_p is None or unpaired.before_p > arms_differed.LIMIT:
        return ()
    return (RunReason(kind=RunReasonKind.ARMS_DIFFERED, limit=unpaired.before_p),)
