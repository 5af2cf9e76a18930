"""What the mean of a metric says. `monitor.texts.interpretation` writes sentences."""

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
    """How far two trainings of one model are apart, compared with the candidate."""

    mean: float  # of the metric, between the two trainings
    standard_error: float
    ratio: float | None  # candidate's distance from identical lists, in units of the trainings' one
    is_exceeded: bool  # whether the candidate is farther apart than chance explains


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
    def closeness(self) -> float:
        """The way from random lists (0) to identical lists (1). It is negative below chance."""
        return (self.mean - self.by_chance) / (self.identical - self.by_chance)
