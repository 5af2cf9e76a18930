"""Metrics that compare one arm's lists with the items that users found relevant."""

import math
from abc import ABC
from collections.abc import Mapping
from typing import ClassVar

from monitor.measures.kernels import Alignment, relevance
from monitor.measures.metrics.metric import Metric, Need, Similarity
from monitor.model.arrays import Floats
from monitor.model.immutable import immutable
from monitor.model.rankings import Labels


@immutable
class OfArm(Metric, ABC):
    """A metric of one arm's lists, or the difference of both arms.

    The ``difference`` is the candidate's score minus the baseline's score. A difference above 0
    means that the candidate is better. It is 0 for identical lists. The metric is undefined for
    users without relevant items.
    """

    arm: str = relevance.DIFFERENCE

    low = -1.0
    high = 1.0
    is_symmetric = False
    identical = None
    disjoint = None
    one_empty = None
    need = Need.RELEVANCE
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"arm": relevance.RELEVANCE_SIDES}
    labels: ClassVar[tuple[str, ...]] = ()  # the fields of `Labels` that the kernel takes

    def bounds(self, k: int) -> tuple[float, float]:  # noqa: ARG002 - the base's signature
        """Ranges from 0 to ``high`` for one arm. The difference ranges from ``low`` to ``high``."""
        if self.arm == relevance.DIFFERENCE:
            return self.low, self.high
        return 0.0, self.high

    def measure(self, alignment: Alignment) -> Floats:
        """The score of each user's list in the arm, or the difference of both arms.

        A kernel takes the grades, some fields of the labels, and all parameters except ``arm``.
        """
        parameters = [getattr(self, name) for name in self.parameters() if name != "arm"]

        def score(grades: Floats, labels: Labels) -> Floats:
            fields = [getattr(labels, name) for name in self.labels]
            return type(self).kernel(grades, *fields, *parameters)

        return relevance.of_arm(alignment, self.arm, score)


class Cg(OfArm):
    """Sum of the grades of the listed items."""

    kernel = staticmethod(relevance.cg)
    low = -math.inf
    high = math.inf
    uneven = "a place without an item adds nothing"
    source = (
        "Järvelin and Kekäläinen (2002), Cumulated gain-based evaluation of IR techniques, "
        "equation 1"
    )


@immutable
class Discounted(OfArm, ABC):
    """A metric that discounts the gain of an item by the item's rank."""

    gain: str = relevance.LINEAR

    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "arm": relevance.RELEVANCE_SIDES,
        "gain": relevance.GAINS,
    }
    source = (
        "Järvelin and Kekäläinen (2002), Cumulated gain-based evaluation of IR techniques; gain "
        "2**g - 1: Burges et al. (2005)"
    )


class Dcg(Discounted):
    """Sum of the gains of the listed items, with the highest weight at the top.

    The gain of an item with grade g is g if ``gain`` is ``linear``. It is 2**g - 1 if ``gain`` is
    ``exponential``.
    """

    kernel = staticmethod(relevance.dcg)
    low = -math.inf
    high = math.inf
    uneven = "a place without an item adds nothing"


class Ndcg(Discounted):
    """DCG divided by the DCG of the user's best possible list.

    The gain of an item with grade g is g if ``gain`` is ``linear``. It is 2**g - 1 if ``gain`` is
    ``exponential``. The best possible list has the user's best items, even if they are not listed.
    """

    kernel = staticmethod(relevance.ndcg)
    labels = ("ideal",)
    uneven = "the best possible list has the depth of the metric, so a shorter list scores less"


@immutable
class NdcgVsBaseline(Similarity):
    """NDCG of the candidate's list, with grades from the baseline's ranks.

    The baseline's l items have the grades l, l - 1 and so on, down to 1. The gain is the grade if
    ``gain`` is ``linear``. It is 2**grade - 1 if ``gain`` is ``exponential``. This metric needs no
    relevance. But it cannot show which arm is better, because a better candidate scores below 1
    just as a worse candidate does.
    """

    gain: str = relevance.LINEAR

    kernel = staticmethod(relevance.ndcg_vs_baseline)
    is_symmetric = False
    uneven = (
        "a shorter list of the candidate scores less; items that only the candidate has add nothing"
    )
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"gain": relevance.GAINS}
    source = "NDCG of Järvelin and Kekäläinen (2002) with the baseline's ranks as grades"

    def expected_by_chance(self, k: int, catalogue: int) -> float:
        """The exact mean, because the denominator of the score is the same for all lists."""
        return relevance.expected_ndcg_vs_baseline(k, catalogue, self.gain)


class Map(OfArm):
    """Average precision. Its mean over the users is the MAP.

    The sum of precisions is divided by R, the number of the user's relevant items, as in trec_eval.
    Other programs divide it by min(R, k).
    """

    name = "map"
    kernel = staticmethod(relevance.average_precision)
    labels = ("relevant",)
    uneven = "a relevant item that is not listed adds nothing"
    source = (
        "Buckley and Voorhees (2000), Evaluating evaluation measure stability; trec_eval, map_cut"
    )


class Mrr(OfArm):
    """1 / rank of the first relevant item. Its mean over the users is the MRR."""

    name = "mrr"
    kernel = staticmethod(relevance.reciprocal_rank)
    uneven = "a list without a relevant item scores 0"
    source = "Voorhees (1999), The TREC-8 question answering track report"


class Recall(OfArm):
    """Share of the user's relevant items that are in the list."""

    kernel = staticmethod(relevance.recall)
    labels = ("relevant",)
    uneven = "a shorter list has fewer places for relevant items"
    source = "recall@k, relevant items listed / relevant items"
