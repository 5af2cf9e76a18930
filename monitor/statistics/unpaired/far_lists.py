"""When a user's current list is far from the user's pre-test list."""

import math

from monitor.measures.metrics import Metric
from monitor.model.statistics import Statistic

FAR_SHARE = 0.05
"""A list is far if at most this part of the way from disjoint to identical lists is left.

The benchmark ``unpaired`` compared cuts. The figures are the chances that one run shows 1 % of
mixed-up users, and 1 % of users with the popular list. The cut 0.025 has 99.9 % and 92 %, this one
99.7 % and 94 %, 0.1 has 98 % and 92 %, and 0.25 has 43 % and 38 %. On lists of a shop, this cut has
80 % of mixed-up users, half of the users with a popular list, and at most 1 % of healthy users.
"""


def far_floor(disjoint: float, identical: float) -> float:
    """The score below which a list is far from the user's pre-test list.

    The arguments are the metric's scores of two disjoint lists and of two identical lists. The
    lowest possible score is not used, because some metrics give disjoint lists a higher score. If
    the metric is a distance, lists are far if their score is above the result. The result has no
    meaning for metrics that ignore items of only one list, such as ``kendall_tau``.
    """
    return disjoint + FAR_SHARE * (identical - disjoint)


def find_far_statistic(metric: Metric) -> Statistic | None:
    """The statistic for the share of users whose lists are far from their pre-test lists.

    None if the metric has no exact scores of disjoint and of identical lists. None for distances
    too, because statistics only have shares of users below a score.
    """
    if metric.disjoint is None or metric.identical is None or not metric.higher_is_more_alike:
        return None
    floor = far_floor(metric.disjoint, metric.identical)
    if not math.isfinite(floor):
        return None
    return Statistic(below=floor)
