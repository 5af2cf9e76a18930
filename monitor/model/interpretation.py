"""What the mean of a metric says about lists. `monitor.texts.interpretation` writes sentences."""

from enum import StrEnum

from monitor.model.immutable import immutable


class Likeness(StrEnum):
    """How similar the lists of two arms are, between random lists and identical lists."""

    IDENTICAL = "identical"
    NEARLY_IDENTICAL = "nearly_identical"
    SIMILAR = "similar"
    DIFFERENT = "different"
    RANDOM = "random"
    BELOW_RANDOM = "below_random"  # less similar than random lists
    UNCERTAIN = "uncertain"  # too few users to say more


@immutable
class TrainingDistance:
    """The distance between two trainings of one model, compared with the candidate's distance."""

    mean: float  # mean of the metric between the lists of the two trainings
    standard_error: float
    # The candidate's distance from identical lists, divided by the trainings' distance
    ratio: float | None
    is_exceeded: bool  # whether the candidate's distance is larger than chance explains


class Concentration(StrEnum):
    """Whether few users' lists make the difference of two arms."""

    FEW_USERS = "few_users"
    MANY_USERS = "many_users"


@immutable
class Spread:
    """How the difference is distributed over the users."""

    concentration: Concentration
    half_share: float  # the smallest share of the users whose lists make half of the difference
    is_excess: bool  # whether the difference is only what exceeds that of two trainings


@immutable
class Interpretation:
    """The mean of a metric, compared with random lists, identical lists, and two trainings."""

    likeness: Likeness
    metric: str
    users: int
    mean: float
    standard_error: float
    by_chance: float
    identical: float
    trainings: TrainingDistance | None
    spread: Spread | None = None  # None with few users, or without a difference

    @property
    def excess(self) -> float:
        """The distance from identical lists, minus that of two trainings if it is known."""
        distance = abs(self.identical - self.mean)
        if self.trainings is None:
            return distance
        return distance - abs(self.identical - self.trainings.mean)

    @property
    def closeness(self) -> float:
        """The place of the mean between random lists (0) and identical lists (1).

        It is negative if the mean is below chance.
        """
        return (self.mean - self.by_chance) / (self.identical - self.by_chance)
