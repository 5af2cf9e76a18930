"""Choose the users whose lists are kept for a person to read."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from monitor.model import EvidenceKind


def choose_evidence(
    values: npt.NDArray[np.float64], count: int, *, higher_is_more_alike: bool = True
) -> list[tuple[EvidenceKind, int, int]]:
    """(kind, position within the kind, row) of the ``count`` worst and of the ``count`` most ordinary users.

    Worst are the lowest scores, of a distance the highest; ordinary those nearest to the median that are not among the worst;
    equals go by row. Undefined scores are passed over.
    """
    rows = np.flatnonzero(~np.isnan(values))
    by_score = rows[np.argsort(values[rows] if higher_is_more_alike else -values[rows], kind="stable")]
    worst, rest = by_score[:count], by_score[count:]
    distance = np.abs(values[rest] - np.median(values[rows])) if len(rest) else np.empty(0)
    ordinary = rest[np.lexsort((rest, distance))][:count]
    return [
        (kind, position, int(row))
        for kind, chosen in ((EvidenceKind.WORST, worst), (EvidenceKind.REPRESENTATIVE, ordinary))
        for position, row in enumerate(chosen)
    ]
