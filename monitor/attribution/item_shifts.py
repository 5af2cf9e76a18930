"""Items that gained and lost exposure, weighted by rank. Knows codes only; ids and titles are looked up by the caller."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.kernels.exposure import compact_codes
from monitor.kernels.relevance import rank_discounts
from monitor.model.arrays import Codes, Floats

# Sums over ranks leave up to this where nothing changed.
_DUST = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemShift:
    """How one item's exposure changed, per list: the weights of the places where it stands, averaged over all lists.

    ``before``, ``after``: exposure, 1 for an item on top of every list. ``share_before``, ``share_after``: lists that hold it.
    """

    code: int
    before: float
    after: float
    share_before: float
    share_after: float

    @property
    def change(self) -> float:
        """Exposure gained, negative when lost, from -1 to 1."""
        return self.after - self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureShift:
    """Items by change of exposure, most changed first, and how many items came into the lists and left them altogether."""

    gained: tuple[ItemShift, ...]
    lost: tuple[ItemShift, ...]
    entered: int
    left: int


def compare_exposure(before: Codes, after: Codes, top: int) -> ExposureShift:
    """The ``top`` items that gained and that lost most exposure from one set of lists to another; equals go by code.

    ``before`` (n, k), ``after`` (m, j): codes >= 0, padding -1 at the end, distinct within a row, with one meaning in both.
    Hand in both arms of the same users, or one arm's last run and this one; numbers of lists may differ. An item at rank r
    (from 1) is exposed by 1 / log2(r + 1), the discount of DCG (Järvelin and Kekäläinen 2002). A side without lists exposes
    nothing. O(places + items).
    """
    ours, theirs, items = compact_codes(before, after)
    exposures = [_expose(codes, len(items)) for codes in (ours, theirs)]
    # Per list, so that sets of different size can be compared.
    shares = [np.bincount(codes[codes >= 0], minlength=len(items)) / max(1, len(codes)) for codes in (ours, theirs)]
    change = exposures[1] - exposures[0]

    def shifts(places: npt.NDArray[np.intp]) -> tuple[ItemShift, ...]:
        columns = zip(items[places], *(values[places] for values in (*exposures, *shares)), strict=True)
        return tuple(
            ItemShift(code=int(code), before=float(b), after=float(a), share_before=float(sb), share_after=float(sa))
            for code, b, a, sb, sa in columns
        )

    return ExposureShift(
        gained=shifts(_highest(change, top)),
        lost=shifts(_highest(-change, top)),
        entered=int(((shares[0] == 0) & (shares[1] > 0)).sum()),
        left=int(((shares[0] > 0) & (shares[1] == 0)).sum()),
    )


def _expose(codes: Codes, items: int) -> Floats:
    """Mean exposure of each item over the lists."""
    total = np.zeros(items)
    # Added up rank by rank, so that the order of lists changes no bit.
    for weight, places in zip(rank_discounts(codes.shape[1]), codes.T, strict=True):
        total += weight * np.bincount(places[places >= 0], minlength=items)
    return total / max(1, len(codes))


def _highest(change: Floats, top: int) -> npt.NDArray[np.intp]:
    """Places of the highest positive changes, highest first, equals in their order."""
    order = np.argsort(-change, kind="stable")[: max(0, top)]
    return order[change[order] > _DUST]
