"""Decides from values whether an incident is urgent: how many users it concerns, and in which arm."""

from collections.abc import Iterable, Iterator

from monitor.model.alerts import Transition
from monitor.model.errors import ConfigError
from monitor.model.explanation import Explanation
from monitor.model.immutable import immutable
from monitor.model.rankings import ALL, Arm
from monitor.model.rules import Condition, Direction, RuleKind
from monitor.model.statistics import CoverageShare, Statistic

URGENT_SHARE = 0.5
"""An incident is urgent if it concerns at least this share of the users of a run."""


@immutable
class Concern:
    """The users that an incident concerns."""

    users: int
    compared: int  # number of users in the run. 0 if the run failed, which concerns all users
    arms: tuple[Arm, ...] = ()  # the arms with the fault. Empty if they are unknown

    @property
    def share(self) -> float:
        """The share of the run's users, from 0 to 1."""
        return self.users / self.compared if self.compared else 1.0

    @property
    def is_urgent(self) -> bool:
        """Whether the owner of the arm has to be called at once."""
        return self.share >= URGENT_SHARE


def find_concern(changes: Iterable[Transition], explanation: Explanation | None) -> Concern | None:
    """Return the largest number of users that a value or the explanation names, or None.

    Values of single segments are ignored, because they do not say how many users a run has.
    """
    concerns = list(_of_values(changes))
    if explanation is not None and explanation.finding is not None:
        finding = explanation.finding
        concerns.append(Concern(users=finding.users, compared=finding.compared, arms=finding.arms))
    return max(concerns, key=lambda concern: concern.share, default=None)


def _of_values(changes: Iterable[Transition]) -> Iterator[Concern]:
    for change in changes:
        if change.segment != ALL or change.is_about_rankwatch:
            continue
        if change.kind is RuleKind.CONDITION and change.statistic == Condition.ERROR:
            yield Concern(users=0, compared=0)
        elif change.kind is RuleKind.STANDSTILL and change.statistic in set(Arm):
            arm = Arm(change.statistic)
            yield Concern(users=change.users, compared=change.users, arms=(arm,))
        elif change.value is not None and change.direction is Direction.ABOVE and change.users:
            arms = _arms_of_share(change)
            if arms is not None:
                users = round(change.value * change.users)
                yield Concern(users=users, compared=change.users, arms=arms)


def _arms_of_share(change: Transition) -> tuple[Arm, ...] | None:
    """Return the arms with the fault. None if the alert's value is not a share of users."""
    if change.kind is RuleKind.SIMILARITY and find_floor(change) is not None:
        return (Arm.CANDIDATE,)
    if change.kind is not RuleKind.COVERAGE:
        return None
    try:
        arm = CoverageShare.parse(change.statistic).arm
    except ConfigError:
        return None  # another version stored the alert
    return () if arm is None else (arm,)


def find_floor(change: Transition) -> float | None:
    """Return the x of an alert on ``share_below(x)``. None for alerts on other statistics."""
    try:
        return Statistic.parse(change.statistic).floor
    except ConfigError:
        return None  # another version stored the alert
