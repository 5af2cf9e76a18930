"""Plan and results of an unpaired comparison, in which each user is served by one arm only.

A user's current list is compared with the user's own list from before the test. Then the users of
both arms are compared.
"""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import TYPE_CHECKING

from monitor.model.immutable import immutable
from monitor.model.rankings import ALL, Arm

if TYPE_CHECKING:
    import pandas as pd

ARM_COLUMN = "rankwatch_arm"
"""The name of the column with each user's arm, which sources make from the arm's column."""
ENOUGH_EVIDENCE = 1000.0
"""The users are not split as planned if the evidence against the plan is at least this large."""


@immutable
class UnpairedPlan:
    """How an unpaired comparison is measured. All times are aware UTC."""

    # A user's pre-test list is the last list that was served up to this time
    before: datetime
    since: datetime  # start of the test: users count as assigned from this time on
    baseline_share: float  # planned share of users in the baseline arm, above 0 and below 1
    outcomes: tuple[str, ...] = ()  # columns of the log


@immutable
class AssignedUsers:
    """The users that were assigned to the arms since the test began."""

    count: Mapping[Arm, int]  # users that switched arms are left out
    switched: "pd.Index[str]"


@immutable
class ArmCounts:
    """Counts of one arm's users. Users that switched arms are left out."""

    assigned: int  # users that were assigned to the arm since the test began
    served: int  # users of the run with a current list
    compared: int  # users of the run with a current list and a pre-test list


@immutable
class BetweenExcess:
    """How much less alike two users of different arms are than two users of one arm.

    All values are mean RBO over pairs of users of one segment, from 0 to 1.
    """

    segment: str
    baseline: float  # two users of the baseline arm
    candidate: float  # two users of the candidate arm
    across: float  # one user of each arm

    @property
    def excess(self) -> float:
        """The mean within the arms, minus the mean across them. Near 0 if the arms are alike."""
        return (self.baseline + self.candidate) / 2 - self.across


@immutable
class ItemExposure:
    """In how many lists of each arm an item is, and in how many of them it is first."""

    item: str
    lists: Mapping[Arm, int]
    first: Mapping[Arm, int]


@immutable
class ArmGap:
    """How much more a metric of one arm rose in the candidate than in the baseline.

    The current values are compared with those of the same users' pre-test lists.
    """

    segment: str
    metric: str
    values_before: Mapping[Arm, float]  # the value of the metric over the pre-test lists
    adjusted: float  # the rise in the candidate minus the rise in the baseline


@immutable
class OutcomeGap:
    """An outcome of the users since the test began, such as clicks, and how much the arms differ.

    The difference is that of the candidate relative to the baseline, so -0.02 is 2 % less. It is
    adjusted by the outcome before the test.
    """

    column: str  # of the log
    means: Mapping[Arm, float | None]  # mean over the users of each arm, None without users
    users: int  # users of both arms
    difference: float | None  # None if the mean of the baseline is not above 0
    # The interval has the true difference in all runs with a chance of 95 %. None if the mean of
    # the baseline is not clearly above 0
    low: float | None
    high: float | None


@immutable
class UnpairedResults:
    """What an unpaired run found in addition to its summaries."""

    baseline_share: float  # planned share of users in the baseline arm
    users: Mapping[Arm, ArmCounts]
    switched: int  # users that were in both arms since the test began
    # Evidence that the users are not split as planned. ln 1000 or more means that they are not
    log_e: float
    # Chance of a larger difference of the arms' pre-test lists, if users are assigned at random.
    # None if there are too few pre-test lists
    before_p: float | None = None
    between: tuple[BetweenExcess, ...] = ()
    # The items whose share of lists differs most between the arms, largest first
    items: tuple[ItemExposure, ...] = ()
    # The number of each arm's lists in which items were counted
    counted: Mapping[Arm, int] = field(default_factory=dict)
    arm_gaps: tuple[ArmGap, ...] = ()
    outcomes: tuple[OutcomeGap, ...] = ()
    # With `assignments`: the users whose newest list came from the other arm than the assigned one,
    # among the assigned users with a list of any arm in this run
    served_by_other: int = 0
    served_by_any: int = 0
    # The largest number of users since the test began, in this run or an earlier one
    most_users: int = 0

    @property
    def excess(self) -> BetweenExcess | None:
        """The between excess of all users, if it is known."""
        return self.between[0] if self.between and self.between[0].segment == ALL else None

    @property
    def assigned(self) -> int:
        """The number of users that were assigned to an arm since the test began."""
        return sum(counts.assigned for counts in self.users.values())

    @property
    def all_users(self) -> int:
        """The number of users since the test began. Users that switched arms are counted."""
        return self.assigned + self.switched
