"""Measures of one arm's lists against what users found relevant."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment
from monitor.kernels.relevance import (
    ARMS,
    DIFFERENCE,
    GAINS,
    LINEAR,
    average_precision,
    cg,
    dcg,
    expected_ndcg_vs_baseline,
    ndcg,
    ndcg_vs_baseline,
    of_arm,
    recall,
    reciprocal_rank,
)
from monitor.metrics.metric import Metric, Need
from monitor.model.arrays import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Cg(Metric):
    """Sum of the grades of the items listed; see `monitor.kernels.relevance.cg`.

    ``arm``: of the candidate's list, of the baseline's, or the ``difference`` candidate - baseline: above 0 the candidate is
    better, and identical lists give 0.
    """

    arm: str = DIFFERENCE

    name: ClassVar[str] = "cg"
    low: ClassVar[float] = -math.inf
    high: ClassVar[float] = math.inf
    is_symmetric: ClassVar[bool] = False
    identical: ClassVar[float | None] = None
    disjoint: ClassVar[float | None] = None
    one_empty: ClassVar[float | None] = None
    uneven: ClassVar[str] = "exact: a place without an item adds nothing"
    need: ClassVar[Need | None] = Need.RELEVANCE
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"arm": ARMS}
    source: ClassVar[str] = "Järvelin and Kekäläinen (2002), Cumulated gain-based evaluation of IR techniques, equation 1"

    def bounds(self, k: int) -> tuple[float, float]:
        """0 or more for one arm, without upper end."""
        del k
        return (-math.inf if self.arm == DIFFERENCE else 0.0), math.inf

    def measure(self, alignment: Alignment) -> Floats:
        """Cumulative gain of each user's list."""
        return of_arm(alignment, self.arm, lambda grades, _: cg(grades))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dcg(Metric):
    """Gains of the items listed, the top counting most; see `monitor.kernels.relevance.dcg`.

    ``gain``: the grade g (``linear``) or 2**g - 1 (``exponential``).

    ``arm``: of the candidate's list, of the baseline's, or the ``difference`` candidate - baseline: above 0 the candidate is
    better, and identical lists give 0.
    """

    arm: str = DIFFERENCE
    gain: str = LINEAR

    name: ClassVar[str] = "dcg"
    low: ClassVar[float] = -math.inf
    high: ClassVar[float] = math.inf
    is_symmetric: ClassVar[bool] = False
    identical: ClassVar[float | None] = None
    disjoint: ClassVar[float | None] = None
    one_empty: ClassVar[float | None] = None
    uneven: ClassVar[str] = "exact: a place without an item adds nothing"
    need: ClassVar[Need | None] = Need.RELEVANCE
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"arm": ARMS, "gain": GAINS}
    source: ClassVar[str] = (
        "Järvelin and Kekäläinen (2002), Cumulated gain-based evaluation of IR techniques; gain 2**g - 1: Burges et al. (2005)"
    )

    def bounds(self, k: int) -> tuple[float, float]:
        """0 or more for one arm, without upper end."""
        del k
        return (-math.inf if self.arm == DIFFERENCE else 0.0), math.inf

    def measure(self, alignment: Alignment) -> Floats:
        """Discounted cumulative gain of each user's list."""
        return of_arm(alignment, self.arm, lambda grades, _: dcg(grades, self.gain))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ndcg(Metric):
    """DCG by that of the user's best possible list; see `monitor.kernels.relevance.ndcg`.

    ``gain``: the grade g (``linear``) or 2**g - 1 (``exponential``). The ideal holds the user's best items, listed or not.

    ``arm``: of the candidate's list, of the baseline's, or the ``difference`` candidate - baseline: above 0 the candidate is
    better, and identical lists give 0.
    """

    arm: str = DIFFERENCE
    gain: str = LINEAR

    name: ClassVar[str] = "ndcg"
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    is_symmetric: ClassVar[bool] = False
    identical: ClassVar[float | None] = None
    disjoint: ClassVar[float | None] = None
    one_empty: ClassVar[float | None] = None
    uneven: ClassVar[str] = "exact: the ideal is as deep as the metric, so that a list too short loses by it"
    need: ClassVar[Need | None] = Need.RELEVANCE
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"arm": ARMS, "gain": GAINS}
    source: ClassVar[str] = (
        "Järvelin and Kekäläinen (2002), Cumulated gain-based evaluation of IR techniques; gain 2**g - 1: Burges et al. (2005)"
    )

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to 1 for one arm, -1 to 1 for the difference."""
        del k
        return (-1.0 if self.arm == DIFFERENCE else 0.0), 1.0

    def measure(self, alignment: Alignment) -> Floats:
        """NDCG of each user's list."""
        return of_arm(alignment, self.arm, lambda grades, labels: ndcg(grades, labels.ideal, self.gain))


@dataclass(frozen=True, slots=True, kw_only=True)
class NdcgVsBaseline(Metric):
    """NDCG of the candidate's list, the baseline's ranks being the grades.

    ``gain``: grades l down to 1 (``linear``) or 2**grade - 1 (``exponential``). No labels needed, and none replaced: a
    candidate better than its baseline loses by it like one that is worse.
    """

    gain: str = LINEAR

    name: ClassVar[str] = "ndcg_vs_baseline"
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = 1.0
    is_symmetric: ClassVar[bool] = False
    identical: ClassVar[float] = 1.0
    disjoint: ClassVar[float] = 0.0
    one_empty: ClassVar[float] = 0.0
    uneven: ClassVar[str] = "exact: a candidate cut short loses what it lacks; items beyond the baseline's length add nothing"
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"gain": GAINS}
    source: ClassVar[str] = "NDCG of Järvelin and Kekäläinen (2002) with the baseline's ranks as grades"

    def measure(self, alignment: Alignment) -> Floats:
        """NDCG of each candidate's list against the baseline's."""
        return ndcg_vs_baseline(alignment, self.gain)

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """Exact: the mean of a ratio whose denominator is fixed."""
        return expected_ndcg_vs_baseline(k, catalogue, self.gain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Map(Metric):
    """Average precision, whose mean is the MAP; see `monitor.kernels.relevance.average_precision`.

    Divided by the number of the user's relevant items, as trec_eval does, not by min(that, k).

    ``arm``: of the candidate's list, of the baseline's, or the ``difference`` candidate - baseline: above 0 the candidate is
    better, and identical lists give 0.
    """

    arm: str = DIFFERENCE

    name: ClassVar[str] = "map"
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    is_symmetric: ClassVar[bool] = False
    identical: ClassVar[float | None] = None
    disjoint: ClassVar[float | None] = None
    one_empty: ClassVar[float | None] = None
    uneven: ClassVar[str] = "exact: a relevant item that a short list lacks adds nothing"
    need: ClassVar[Need | None] = Need.RELEVANCE
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"arm": ARMS}
    source: ClassVar[str] = "Buckley and Voorhees (2000), Evaluating evaluation measure stability; trec_eval, map_cut"

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to 1 for one arm, -1 to 1 for the difference."""
        del k
        return (-1.0 if self.arm == DIFFERENCE else 0.0), 1.0

    def measure(self, alignment: Alignment) -> Floats:
        """Average precision of each user's list."""
        return of_arm(alignment, self.arm, lambda grades, labels: average_precision(grades, labels.relevant))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mrr(Metric):
    """1 / rank of the first relevant item, whose mean is the MRR; see `monitor.kernels.relevance.reciprocal_rank`.

    ``arm``: of the candidate's list, of the baseline's, or the ``difference`` candidate - baseline: above 0 the candidate is
    better, and identical lists give 0.
    """

    arm: str = DIFFERENCE

    name: ClassVar[str] = "mrr"
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    is_symmetric: ClassVar[bool] = False
    identical: ClassVar[float | None] = None
    disjoint: ClassVar[float | None] = None
    one_empty: ClassVar[float | None] = None
    uneven: ClassVar[str] = "exact: a list that ends before its first relevant item scores 0"
    need: ClassVar[Need | None] = Need.RELEVANCE
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"arm": ARMS}
    source: ClassVar[str] = "Voorhees (1999), The TREC-8 question answering track report"

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to 1 for one arm, -1 to 1 for the difference."""
        del k
        return (-1.0 if self.arm == DIFFERENCE else 0.0), 1.0

    def measure(self, alignment: Alignment) -> Floats:
        """Reciprocal rank of each user's list."""
        return of_arm(alignment, self.arm, lambda grades, _: reciprocal_rank(grades))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall(Metric):
    """Share of the user's relevant items that are listed; see `monitor.kernels.relevance.recall`.

    ``arm``: of the candidate's list, of the baseline's, or the ``difference`` candidate - baseline: above 0 the candidate is
    better, and identical lists give 0.
    """

    arm: str = DIFFERENCE

    name: ClassVar[str] = "recall"
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0
    is_symmetric: ClassVar[bool] = False
    identical: ClassVar[float | None] = None
    disjoint: ClassVar[float | None] = None
    one_empty: ClassVar[float | None] = None
    uneven: ClassVar[str] = "exact: a shorter list has fewer places to be right in"
    need: ClassVar[Need | None] = Need.RELEVANCE
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"arm": ARMS}
    source: ClassVar[str] = "recall@k, relevant items listed / relevant items"

    def bounds(self, k: int) -> tuple[float, float]:
        """0 to 1 for one arm, -1 to 1 for the difference."""
        del k
        return (-1.0 if self.arm == DIFFERENCE else 0.0), 1.0

    def measure(self, alignment: Alignment) -> Floats:
        """Recall of each user's list."""
        return of_arm(alignment, self.arm, lambda grades, labels: recall(grades, labels.relevant))
