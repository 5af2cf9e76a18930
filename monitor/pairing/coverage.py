"""Count what became of every user of the panel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.model import Arm, Coverage, CoverageReason, CoverageRow

LISTED = 0
"""Standing of a user whose list can be compared."""
_REASONS = tuple(CoverageReason)


def standing_code(reason: CoverageReason) -> int:
    """Code of a reason in ``ArmStanding.reason``."""
    return _REASONS.index(reason) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmStanding:
    """What became of each of n panel users in one arm: LISTED or a reason's code, and two flaws of listed ones."""

    reason: npt.NDArray[np.int8]
    is_short: npt.NDArray[np.bool_]
    is_duplicated: npt.NDArray[np.bool_]


def count_coverage(
    segments: Mapping[str, npt.NDArray[np.intp]], standings: Mapping[Arm, ArmStanding], is_paired: npt.NDArray[np.bool_]
) -> Coverage:
    """One row a segment, in the order of the segments."""
    return Coverage(
        rows=tuple(
            CoverageRow(
                segment=name,
                asked=len(positions),
                paired=int(is_paired[positions].sum()),
                reasons={
                    (arm, reason): count
                    for arm, standing in standings.items()
                    for reason, count in _counts(standing, positions).items()
                    if count
                },
            )
            for name, positions in segments.items()
        )
    )


def _counts(standing: ArmStanding, positions: npt.NDArray[np.intp]) -> dict[CoverageReason, int]:
    by_code = np.bincount(standing.reason[positions], minlength=len(_REASONS) + 1)
    counts = {reason: int(by_code[code]) for code, reason in enumerate(_REASONS, start=1)}
    counts[CoverageReason.SHORT] = int(standing.is_short[positions].sum())
    counts[CoverageReason.DUPLICATED] = int(standing.is_duplicated[positions].sum())
    return counts
