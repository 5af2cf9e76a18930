"""Metrics of one arm's lists against the items that users found relevant."""

import math
from abc import ABC
from collections.abc import Mapping
from typing import ClassVar

from monitor.immutable import immutable
from monitor.kernels import Alignment, relevance
from monitor.metrics.metric import Metric, Need, Similarity
from monitor.model.arrays import Floats
from monitor.model.rankings import Labels


@immutable
class OfArm(Metric, ABC):
    """A metric of one arm's lists, or the ``difference`` candidate - baseline.

    A difference above 0 means that the candidate is better. Identical lists give 0. The metric is
    undefined for users without relevant items.
    """

    arm: str = relevance.DIFFERENCE

    low = -1.0
    high = 1.0
    is_symmetric = False
    identical = None
    disjoint = None
    one_empty = None
    need = Need.RELEVANCE
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"arm": relevance.ARMS}

    def bounds(self, k: int) -> tuple[float, float]:  # noqa: ARG002 - the base's signature
        """From 0 up for one arm, the full range for the difference."""
        if self.arm == relevance.DIFFERENCE:
            return self.low, self.high
        return 0.0, self.high

    def measure(self, alignment: Alignment) -> Floats:
        """Score of each user's list in the arm, or the difference.

        Kernels take grades, labels, and the parameters other than ``arm``.
        """
        parameters = [getattr(self, name) for name in self.parameters() if name != "arm"]

        def score(grades: Floats, labels: Labels) -> Floats:
            return type(self).kernel(grades, labels, *parameters)

        return relevance.of_arm(alignment, self.arm, score)


class Cg(OfArm):
    """Sum of the grades of the items listed."""

    name = "cg"
    low = -math.inf
    high = math.inf
    uneven = "exact: a place without an item adds nothing"
    source = (
        "Järvelin and Kekäläinen (2002), Cumulated gain-based evaluation of IR techniques, "
        "equation 1"
    )

    @staticmethod
    def kernel(grades: Floats, _: Labels) -> Floats:
        """The CG of each list, float64 (n,)."""
        return relevance.cg(grades)


@immutable
class Discounted(OfArm, ABC):
    """A metric of gains that are discounted by rank."""

    gain: str = relevance.LINEAR

    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "arm": relevance.ARMS,
        "gain": relevance.GAINS,
    }
    source = (
        "Järvelin and Kekäläinen (2002), Cumulated gain-based evaluation of IR techniques; "
        "gain 2**g - 1: Burges et al. (2005)"
    )


class Dcg(Discounted):
    """Gains of the listed items, with most weight at the top.

    ``gain``: the grade g (``linear``) or 2**g - 1 (``exponential``).
    """

    name = "dcg"
    low = -math.inf
    high = math.inf
    uneven = "exact: a place without an item adds nothing"

    @staticmethod
    def kernel(grades: Floats, _: Labels, gain: str) -> Floats:
        """The DCG of each list, float64 (n,)."""
        return relevance.dcg(grades, gain)


class Ndcg(Discounted):
    """DCG divided by the DCG of the user's best possible list.

    ``gain``: the grade g (``linear``) or 2**g - 1 (``exponential``). The ideal contains the user's
    best items, listed or not.
    """

    name = "ndcg"
    uneven = "exact: the ideal has the depth of the metric, so a shorter list scores less"

    @staticmethod
    def kernel(grades: Floats, labels: Labels, gain: str) -> Floats:
        """The NDCG of each list, float64 (n,)."""
        return relevance.ndcg(grades, labels.ideal, gain)


@immutable
class NdcgVsBaseline(Similarity):
    """NDCG of the candidate's list, with the baseline's ranks as grades.

    ``gain``: grades l down to 1 (``linear``) or 2**grade - 1 (``exponential``). It needs no labels
    and does not replace them: a candidate that is better than its baseline scores less, as a worse
    one.
    """

    gain: str = relevance.LINEAR

    kernel = staticmethod(relevance.ndcg_vs_baseline)
    is_symmetric = False
    uneven = (
        "exact: a shorter candidate scores less; items beyond the baseline's length add nothing"
    )
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"gain": relevance.GAINS}
    source = "NDCG of Järvelin and Kekäläinen (2002) with the baseline's ranks as grades"

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """Exact: the mean of a ratio whose denominator is fixed."""
        return relevance.expected_ndcg_vs_baseline(k, catalogue, self.gain)


class Map(OfArm):
    """Average precision, whose mean is the MAP.

    It is divided by the number of the user's relevant items, as in trec_eval, not by min(that, k).
    """

    name = "map"
    uneven = "exact: a relevant item that is not listed adds nothing"
    source = (
        "Buckley and Voorhees (2000), Evaluating evaluation measure stability; trec_eval, map_cut"
    )

    @staticmethod
    def kernel(grades: Floats, labels: Labels) -> Floats:
        """The average precision of each list, float64 (n,)."""
        return relevance.average_precision(grades, labels.relevant)


class Mrr(OfArm):
    """1 / rank of the first relevant item, whose mean is the MRR."""

    name = "mrr"
    uneven = "exact: a list that ends before its first relevant item scores 0"
    source = "Voorhees (1999), The TREC-8 question answering track report"

    @staticmethod
    def kernel(grades: Floats, _: Labels) -> Floats:
        """The reciprocal rank of each list, float64 (n,)."""
        return relevance.reciprocal_rank(grades)


class Recall(OfArm):
    """Share of the user's relevant items that are listed."""

    name = "recall"
    uneven = "exact: a shorter list has fewer places for relevant items"
    source = "recall@k, relevant items listed / relevant items"

    @staticmethod
    def kernel(grades: Floats, labels: Labels) -> Floats:
        """The recall of each list, float64 (n,)."""
        return relevance.recall(grades, labels.relevant)
