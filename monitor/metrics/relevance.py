"""Measures of one arm's lists against what users found relevant."""

import math
from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from monitor.kernels import Alignment, relevance
from monitor.metrics.metric import Metric, Need, Similarity
from monitor.model.arrays import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class OfArm(Metric, ABC):
    """A measure of one arm's lists: of the candidate's, of the baseline's, or the ``difference`` candidate - baseline.

    Above 0 the candidate is better, and identical lists give 0. Undefined for users of whom no relevance is known.
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
        """From 0 up for one arm, the whole range for the difference."""
        return (self.low if self.arm == relevance.DIFFERENCE else 0.0), self.high

    def measure(self, alignment: Alignment) -> Floats:
        """What each user's list is worth, in the arm or as a difference.

        Kernels take grades, labels and own parameters.
        """
        own = [getattr(self, name) for name in self.parameters() if name != "arm"]
        return relevance.of_arm(
            alignment, self.arm, lambda grades, labels: type(self).kernel(grades, labels, *own)
        )


class Cg(OfArm):
    """Sum of the grades of the items listed."""

    name = "cg"
    kernel = staticmethod(lambda grades, _: relevance.cg(grades))
    low = -math.inf
    high = math.inf
    uneven = "exact: a place without an item adds nothing"
    source = (
        "Järvelin and Kekäläinen (2002), Cumulated gain-based evaluation of IR techniques, "
        "equation 1"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Discounted(OfArm, ABC):
    """A measure of gains that are worth less the lower they stand."""

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
    """Gains of the items listed, the top counting most.

    ``gain``: the grade g (``linear``) or 2**g - 1 (``exponential``).
    """

    name = "dcg"
    kernel = staticmethod(lambda grades, _, gain: relevance.dcg(grades, gain))
    low = -math.inf
    high = math.inf
    uneven = "exact: a place without an item adds nothing"


class Ndcg(Discounted):
    """DCG by that of the user's best possible list.

    ``gain``: the grade g (``linear``) or 2**g - 1 (``exponential``). The ideal holds the user's
    best items, listed or not."""

    name = "ndcg"
    kernel = staticmethod(lambda grades, labels, gain: relevance.ndcg(grades, labels.ideal, gain))
    uneven = "exact: the ideal is as deep as the metric, so that a list too short loses by it"


@dataclass(frozen=True, slots=True, kw_only=True)
class NdcgVsBaseline(Similarity):
    """NDCG of the candidate's list, the baseline's ranks being the grades.

    ``gain``: grades l down to 1 (``linear``) or 2**grade - 1 (``exponential``). No labels needed,
    and none replaced: a candidate better than its baseline loses by it like one that is worse."""

    gain: str = relevance.LINEAR

    kernel = staticmethod(relevance.ndcg_vs_baseline)
    is_symmetric = False
    uneven = (
        "exact: a candidate cut short loses what it lacks; items beyond the baseline's "
        "length add nothing"
    )
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"gain": relevance.GAINS}
    source = "NDCG of Järvelin and Kekäläinen (2002) with the baseline's ranks as grades"

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """Exact: the mean of a ratio whose denominator is fixed."""
        return relevance.expected_ndcg_vs_baseline(k, catalogue, self.gain)


class Map(OfArm):
    """Average precision, whose mean is the MAP.

    Divided by the number of the user's relevant items, as trec_eval does, not by min(that, k).
    """

    name = "map"
    kernel = staticmethod(
        lambda grades, labels: relevance.average_precision(grades, labels.relevant)
    )
    uneven = "exact: a relevant item that a short list lacks adds nothing"
    source = (
        "Buckley and Voorhees (2000), Evaluating evaluation measure stability; trec_eval, map_cut"
    )


class Mrr(OfArm):
    """1 / rank of the first relevant item, whose mean is the MRR."""

    name = "mrr"
    kernel = staticmethod(lambda grades, _: relevance.reciprocal_rank(grades))
    uneven = "exact: a list that ends before its first relevant item scores 0"
    source = "Voorhees (1999), The TREC-8 question answering track report"


class Recall(OfArm):
    """Share of the user's relevant items that are listed."""

    name = "recall"
    kernel = staticmethod(lambda grades, labels: relevance.recall(grades, labels.relevant))
    uneven = "exact: a shorter list has fewer places to be right in"
    source = "recall@k, relevant items listed / relevant items"
