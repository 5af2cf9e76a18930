"""The noise floor of one run: how similar the baseline is to itself, and how much farther the candidate is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from monitor.metrics import Metric, Need, score_all
from monitor.model import Comparison, Derived, ItemWeights, KeptLists, NoiseFloor, PairBatch, Pairing, Panel, Pull
from monitor.pairing import pair

Floats = npt.NDArray[np.float64]
Bounds = tuple[float, float]


def recall_baseline(comparison: Comparison, last: KeptLists | None) -> tuple[Pull | None, str | None]:
    """The baseline's lists of the last run where they are its floor, else why there are none; nothing for another floor."""
    if comparison.noise_floor is not NoiseFloor.TEMPORAL:
        return None, None
    if last is None:
        return None, "noise_floor: no earlier run kept its lists"
    return Pull(rankings=last.baseline, failures={}), None


def measure_floor(
    panel: Panel, pairing: Pairing, pulls: tuple[Pull, Pull], k: int, metrics: Sequence[Metric], weights: ItemWeights | None
) -> dict[str, Floats]:
    """Scores of the baseline and itself by metric, one a row of ``pairing``; NaN for a user without a second list.

    ``pulls``: the baseline, and the baseline again. Left out are metrics that need relevance, and those that need scores or
    weights which are not known of both.
    """
    again = pair(panel, *pulls, k, item_weights=weights)
    rows = np.full(len(panel), -1, dtype=np.intp)
    rows[again.panel_rows] = np.arange(len(again.panel_rows))
    rows = rows[pairing.panel_rows]
    wanted = [metric for metric in metrics if _is_known(metric, again.batch)]
    found = score_all(again.batch, wanted) if wanted else {}
    return {name: np.append(values, np.nan)[rows] for name, values in found.items()}  # row -1 is the NaN


def _is_known(metric: Metric, batch: PairBatch) -> bool:
    has = {None: True, Need.SCORES: batch.scores is not None, Need.ITEM_WEIGHTS: batch.weights is not None}
    return has.get(metric.need, False)


def add_floor(
    scores: Mapping[str, Floats], floor: Mapping[str, Floats], metrics: Sequence[Metric], k: int
) -> tuple[dict[str, Floats], dict[str, Bounds]]:
    """The scores with the series of the floor behind them, and the bounds of those; each (n,), NaN where undefined."""
    series: dict[str, Floats] = dict(scores)
    bounds: dict[str, Bounds] = {}
    for metric in metrics:
        name = str(metric)
        if name not in floor:
            continue
        low, high = metric.bounds(k)
        excess = floor[name] - scores[name] if metric.higher_is_more_alike else scores[name] - floor[name]
        series |= {Derived.FLOOR.of(name): floor[name], Derived.OVER_FLOOR.of(name): excess}
        bounds |= {Derived.FLOOR.of(name): (low, high), Derived.OVER_FLOOR.of(name): (low - high, high - low)}
    return series, bounds
