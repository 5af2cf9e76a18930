"""Statistics, series of the noise floor, and shares of coverage, which rules can judge.

Their names can be parsed and printed.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Self

from monitor.model.errors import ConfigError
from monitor.model.rankings import Arm, CoverageReason, CoverageRow

_QUANTILE = re.compile(r"p(\d{2})")
_SHARE = re.compile(r"share_below\(\s*([^()\s]+)\s*\)")
_SHARE_PATTERN = re.compile(r"([a-z_]+)(?:\(\s*([a-z]+)\s*\))?")

CHURN = "self_churn"
"""The arm metric for the share of each list that was replaced since the last run."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """``mean``, a percentile ``p01`` to ``p99``, or ``share_below(x)``.

    ``share_below(x)`` is the share of users with a score strictly below ``x``.
    """

    quantile: float | None = None  # 0.01 to 0.99; None for the mean
    below: float | None = None  # the x of ``share_below(x)``; None for other statistics

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a statistic's name. Raises ConfigError if there is no such statistic."""
        name = text.strip()
        if name == "mean":
            return cls()
        if (match := _QUANTILE.fullmatch(name)) and match[1] != "00":
            return cls(quantile=int(match[1]) / 100)
        if match := _SHARE.fullmatch(name):
            try:
                limit = float(match[1])
            except ValueError:
                limit = float("nan")
            if math.isfinite(limit):
                return cls(below=limit)
        raise ConfigError(
            f"unknown statistic {text!r}: use mean, p01 to p99, or share_below(x) with a number x"
        )

    def __str__(self) -> str:
        if self.quantile is not None:
            return f"p{round(self.quantile * 100):02d}"
        return "mean" if self.below is None else f"share_below({self.below:.15g})"


class NoiseFloor(StrEnum):
    """What the baseline's lists are compared with, to measure its similarity to itself."""

    SERVE = "serve"  # second lists, requested at the same time
    TEMPORAL = "temporal"  # the baseline's lists of the last run
    RETRAIN = "retrain"  # the lists of a second training of the same model, from another source


class DerivedMetric(StrEnum):
    """Series derived from a metric.

    The first two are for compared users with a second baseline list. The others are for unpaired
    comparisons, in which each user has a pre-test list and a current list.
    """

    FLOOR = "floor"  # scores of the baseline's two lists
    # The candidate's distance from the baseline, minus the distance between the baseline's two
    # lists. A value above 0 means drift.
    OVER_FLOOR = "over_floor"
    BASELINE_SELF = "baseline_self"  # scores of both lists, of the baseline's users
    CANDIDATE_SELF = "candidate_self"  # scores of both lists, of the candidate's users
    # How much farther the candidate's users moved from their pre-test lists than the baseline's
    # users did: the difference of the mean scores.
    SELF_GAP = "self_gap"
    # The share of the candidate's users whose list is far from their pre-test list, minus this
    # share of the baseline's users.
    FAR_GAP = "far_gap"
    # An outcome of the candidate's users relative to the baseline's, minus 1, and both ends of its
    # interval. The name in brackets is a column of the log.
    OUTCOME = "outcome"
    OUTCOME_LOW = "outcome_low"
    OUTCOME_HIGH = "outcome_high"

    def of(self, metric: str) -> str:
        """Return the name of this series of a metric, such as ``floor(extended_tau@10)``."""
        return f"{self}({metric})"


PRE_TEST_SERIES = {
    Arm.BASELINE: DerivedMetric.BASELINE_SELF,
    Arm.CANDIDATE: DerivedMetric.CANDIDATE_SELF,
}
"""The series with the scores of each arm's users, in an unpaired comparison.

A score compares a user's current list with the user's pre-test list.
"""
GAPS = frozenset({DerivedMetric.SELF_GAP, DerivedMetric.FAR_GAP})
"""Series with one value for both arms, and no scores of users."""
DISTANCES = GAPS | {DerivedMetric.OVER_FLOOR}
"""Series that grow as lists drift apart, whatever their metric does."""
OUTCOME_SERIES = (DerivedMetric.OUTCOME, DerivedMetric.OUTCOME_LOW, DerivedMetric.OUTCOME_HIGH)
"""Series of an outcome, whose name is no metric."""
UNPAIRED_SERIES = GAPS.union(PRE_TEST_SERIES.values(), OUTCOME_SERIES)
_DERIVED = re.compile(rf"({'|'.join(DerivedMetric)})\((.+)\)", re.DOTALL)


class SeriesName(NamedTuple):
    """The name of a series, in two parts."""

    derived: DerivedMetric | None  # None if the series is the metric itself
    metric: str


def parse_derived(name: str) -> SeriesName:
    """Return the parts of the name: for ``over_floor(ndcg@10)``, over_floor and ``ndcg@10``."""
    if match := _DERIVED.fullmatch(name):
        return SeriesName(DerivedMetric(match[1]), match[2])
    return SeriesName(None, name)


def arm_of_scores(scores: Mapping[str, float | None]) -> Arm | None:
    """Return the arm that serves the user with these scores. None if no score shows it."""
    defined = {parse_derived(name).derived for name, score in scores.items() if score is not None}
    for arm, series in PRE_TEST_SERIES.items():
        if series in defined:
            return arm
    return None


class ListTrait(StrEnum):
    """What is wrong or unusual about a user's list. Rules judge the share of users with a trait."""

    MISSING = "missing"
    EMPTY = "empty"
    SHORT = "short"  # the user is still compared
    DUPLICATED = "duplicated"  # the user is still compared
    FAILED = "failed"  # any failure to answer: timeouts, errors, unreadable answers
    UNPAIRED = "unpaired"  # the user lacks one of the two lists, so this belongs to no arm
    NOT_SERVED = "not_served"  # the other arm served the user, in an unpaired comparison
    SHARED = "shared_list"
    UNCHANGED = "unchanged_list"
    # The users who get one item more or fewer than before, beyond the changes of other items. It is
    # the item with most of them
    EXPOSURE = "exposure_jump"
    SHIFTED = "shifted_list"  # the first item is new, or the former first item is gone
    REPLACED = "replaced_list"  # hardly any former item is in the list
    TURNED = "top_turned"  # the first three items are the former ones in opposite order
    # These five compare both arms (see `TRAITS_OF_BOTH_ARMS`). They are counted for the candidate.
    REVERSED = "top_reversed"
    FIRST_DIFFERS = "first_differs"
    IDENTICAL = "identical_list"
    ALIKE = "alike_list"  # nearly the same list in both arms
    INTERLEAVED = "interleaved_list"  # another list and the baseline's list may have taken turns


ABOUT_ORDER = (ListTrait.REVERSED, ListTrait.FIRST_DIFFERS, ListTrait.TURNED)
"""Traits of lists whose first items are in another order."""
NO_LIST = (ListTrait.MISSING, ListTrait.EMPTY, ListTrait.FAILED, ListTrait.UNPAIRED)
"""Traits of users without a list that can be compared."""
SIMILAR_LISTS = (ListTrait.ALIKE, ListTrait.INTERLEAVED)
"""Traits of lists that are like the other arm's lists, but not identical."""
OF_SIMILARITY = (ListTrait.IDENTICAL, *SIMILAR_LISTS)
TRAITS_OF_BOTH_ARMS = (ListTrait.REVERSED, ListTrait.FIRST_DIFFERS, *OF_SIMILARITY)
"""Traits that compare the lists of both arms."""
TRAITS_OF_LISTS_BEFORE_ALERTS = (
    ListTrait.EXPOSURE,
    ListTrait.SHIFTED,
    ListTrait.REPLACED,
    ListTrait.TURNED,
)
"""Traits that compare a list with the arm's list in the last run before the firing alerts."""
TRAITS_OF_EARLIER_LISTS = (ListTrait.UNCHANGED, *TRAITS_OF_LISTS_BEFORE_ALERTS)
"""Traits that compare a list with the arm's earlier list."""
MEASURED_TRAITS = frozenset({ListTrait.SHARED, *TRAITS_OF_EARLIER_LISTS, *TRAITS_OF_BOTH_ARMS})
"""Traits that arm metrics measure. The other traits are counted with the coverage, by reason."""

_REASON_OF_TRAIT = {
    trait: frozenset({CoverageReason(trait)})
    for trait in (ListTrait.MISSING, ListTrait.EMPTY, ListTrait.SHORT, ListTrait.DUPLICATED)
}
_REASONS = {
    **_REASON_OF_TRAIT,
    ListTrait.FAILED: frozenset(CoverageReason).difference(
        *_REASON_OF_TRAIT.values(), {CoverageReason.TOO_SLOW}
    ),
}


@dataclass(frozen=True, slots=True)
class CoverageShare:
    """The share of users, from 0 to 1, whose list from one arm has a trait.

    ``unpaired`` has no arm.
    """

    trait: ListTrait
    arm: Arm | None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``missing(candidate)``, ``missing`` (of the candidate) or ``unpaired``.

        Raises ConfigError if there is no such share.
        """
        match = _SHARE_PATTERN.fullmatch(text.strip())
        try:
            trait = ListTrait(match[1]) if match else None
            arm = Arm(match[2]) if match and match[2] else None
        except ValueError:
            trait = None
        if trait is None or (trait is ListTrait.UNPAIRED and arm is not None):
            kinds = ", ".join(trait for trait in ListTrait if trait is not ListTrait.UNPAIRED)
            raise ConfigError(
                f"unknown share {text!r}: use unpaired, or one of {kinds}, followed by an "
                "arm, such as missing(baseline)"
            )
        if trait is ListTrait.UNPAIRED:
            return cls(trait, None)
        return cls(trait, arm or Arm.CANDIDATE)

    def __str__(self) -> str:
        return self.trait if self.arm is None else f"{self.trait}({self.arm})"

    def count_asked(self, row: CoverageRow) -> int:
        """Return the number of users of whom this is a share."""
        if self.trait is ListTrait.NOT_SERVED:
            return row.asked if row.asked_by_arm else 0
        return row.asked_of(self.arm)

    def count(self, row: CoverageRow) -> int:
        """Return how many users of the row have this trait. Measured traits are not in the row."""
        if self.trait is ListTrait.UNPAIRED:
            return row.asked - row.paired
        if self.trait is ListTrait.NOT_SERVED:
            return row.asked - row.asked_of(self.arm)
        reasons = _REASONS[self.trait]
        return sum(
            users
            for (arm, reason), users in row.users_by_reason.items()
            if arm == self.arm and reason in reasons
        )
