"""Decides from values whether an incident is urgent: how many users it concerns, and in which arm."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from monitor.model.alerts import Transition
from monitor.model.errors import ConfigError
from monitor.model.explanation import Explanation, FaultKind
from monitor.model.immutable import immutable
from monitor.model.rankings import ALL, Arm
from monitor.model.rules import Condition, Direction, RuleKind, frozen_arms
from monitor.model.run_reasons import RunReasonKind, RunReasons
from monitor.model.statistics import CoverageShare, ListTrait, Statistic

URGENT_SHARE = 0.5
"""An incident is urgent if it affects at least this share of the users of a run."""
_FAR_MORE = 2.0
"""An alert names far more users than the explanation if it names this many times as many."""


@immutable
class Impact:
    """How many users an incident affects, and in which arms."""

    users: int
    compared: int  # number of users in the run. 0 if the run failed, which affects all users
    arms: tuple[Arm, ...] = ()  # the arms with the fault. Empty if they are unknown
    is_estimated: bool = False  # whether ``users`` is an estimate
    is_excess: bool = False  # whether healthy runs have such users, who are not counted
    # Whether users may see data about other users, because they get the lists of other users
    is_private: bool = False

    @property
    def share(self) -> float:
        """The share of the run's users, from 0 to 1."""
        return self.users / self.compared if self.compared else 1.0

    @property
    def is_urgent(self) -> bool:
        """Whether the owner of the arm has to be called at once."""
        return self.is_private or self.share >= URGENT_SHARE


def find_impact(
    changes: Iterable[Transition],
    explanation: Explanation | None,
    reasons: RunReasons = (),
) -> Impact | None:
    """Return how many users the alerts or the explanation name, or None if they name no number.

    The number of the explanation is used, because messages begin with it. But if an alert names
    far more users, or so many that it is urgent, the number of the alert is used. ``reasons`` say
    why the run could not be judged. Values of single segments are ignored, because they do not say
    how many users a run has. Alerts about the users of an A/B test have no such number.
    """
    changes = [change for change in changes if not change.is_about_test]
    if not changes:
        return None
    of_values = max(_of_values(changes, reasons), key=_share_of, default=None)
    if explanation is None or explanation.finding is None:
        return of_values
    finding = explanation.finding
    impact = Impact(
        users=finding.users,
        compared=finding.compared,
        arms=finding.arms,
        is_estimated=finding.is_estimated,
    )
    if of_values is not None:
        is_far_more = of_values.share > _FAR_MORE * impact.share
        is_urgent_alone = of_values.is_urgent and not impact.is_urgent
        if is_far_more or is_urgent_alone:
            impact = of_values
    return replace(impact, is_private=finding.kind is FaultKind.MIXED_UP)


def _share_of(impact: Impact) -> float:
    return impact.share


def _of_values(changes: Iterable[Transition], reasons: RunReasons) -> Iterator[Impact]:
    """Yield the impact of each alert on all users: a share, frozen lists, or an unjudged run."""
    for change in changes:
        if change.segment != ALL or change.is_about_rankwatch:
            continue
        if change.kind is RuleKind.CONDITION:
            yield from _of_condition(change, reasons)
        elif change.kind is RuleKind.STANDSTILL:
            arms = frozen_arms(change.statistic)
            if arms:
                yield Impact(users=change.users, compared=change.users, arms=arms)
        elif change.value is not None and change.direction is Direction.ABOVE:
            # Some users have the trait in healthy runs too. They are not counted.
            normal = change.normal or 0.0
            users = round((change.value - normal) * change.users)
            share_arms = _arms_of_share(change)
            if share_arms is not None and users > 0:
                yield Impact(
                    users=users,
                    compared=change.users,
                    arms=share_arms,
                    is_excess=round(normal * change.users) > 0,
                )


def _of_condition(change: Transition, reasons: RunReasons) -> Iterator[Impact]:
    """Yield the users without a list if the run failed, or if too few users were compared."""
    lost = [reason for reason in reasons if reason.kind is RunReasonKind.LOST_LISTS]
    if change.statistic == Condition.ERROR:
        arms = tuple(reason.arm for reason in lost if reason.arm is not None)
        yield Impact(users=0, compared=0, arms=arms)
    if change.statistic == Condition.NO_DATA:
        for reason in lost:
            if reason.arm is not None:
                yield Impact(users=reason.users, compared=reason.asked, arms=(reason.arm,))


def _arms_of_share(change: Transition) -> tuple[Arm, ...] | None:
    """Return the arms with the fault. None if the alert's value is not a share of users."""
    if change.kind is RuleKind.SIMILARITY and find_floor(change) is not None:
        return (Arm.CANDIDATE,)
    if change.kind is not RuleKind.COVERAGE:
        return None
    try:
        share = CoverageShare.parse(change.statistic)
    except ConfigError:
        return None  # another version stored the alert
    if share.trait is ListTrait.NOT_SERVED:
        return None  # nobody knows which users are missing
    return () if share.arm is None else (share.arm,)


def find_floor(change: Transition) -> float | None:
    """Return the x of an alert on ``share_below(x)``. None for alerts on other statistics."""
    try:
        return Statistic.parse(change.statistic).below
    except ConfigError:
        return None  # another version stored the alert
