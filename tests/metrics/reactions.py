"""The guide's table of how each measure reacts to what can happen to a list.

``make generated`` writes it.
"""

import math

import numpy as np

from kernels import reference
from monitor.measures.metrics import METRICS, expected_by_chance, score_all

K = 10
CATALOGUE = 1000
BASE = list(range(K))


def reactions_table():
    """A row a measure that needs nothing but the lists, a column a change of the candidate's list of ten."""
    columns = {f"{rank}, {rank + 1} swapped": [(BASE, _swapped(rank))] for rank in (1, 5, 9)}
    columns |= {
        f"{rank} replaced": [(BASE, [*BASE[: rank - 1], 99, *BASE[rank:]])] for rank in (1, 5, 10)
    }
    columns |= {
        "reversed": [(BASE, BASE[::-1])],
        "cut to 5": [(BASE, BASE[:5])],
        "popular": _popularity(),
    }
    lines = [["metric", *columns, "chance"], ["---", *["---:"] * (len(columns) + 1)]]
    for metric in (kind() for kind in METRICS.values() if kind.need is None):
        scores = [
            *(_score(metric, pairs) for pairs in columns.values()),
            expected_by_chance(metric, K, CATALOGUE),
        ]
        lines.append([f"`{metric}`", *map(_shown, scores)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _swapped(rank):
    return [*BASE[: rank - 1], BASE[rank], BASE[rank - 1], *BASE[rank + 1 :]]


def _popularity():
    """Lists of users with tastes of their own in a shop where few items sell much, against the ten that sell most."""
    rng = np.random.default_rng(11)
    appeal = -np.log(np.arange(1, CATALOGUE + 1)) * 0.9
    own = np.argsort(-(appeal + rng.gumbel(size=(2000, CATALOGUE))), axis=1)[:, :K]
    return [(row, BASE) for row in own.tolist()]


def _score(metric, pairs):
    (scores,) = score_all(reference.batch(pairs, K), [metric]).values()
    return float(np.nanmean(scores)) if (~np.isnan(scores)).any() else math.nan


def _shown(score):
    if score is None or math.isnan(score):
        return ""
    return (f"{score:.2f}" if abs(score) < K else f"{score:.0f}").replace("-0.00", "0.00")
