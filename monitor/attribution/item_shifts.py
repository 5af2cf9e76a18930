"""Items that gained and lost exposure, weighted by rank."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from monitor.kernels.exposure import compact_codes
from monitor.kernels.relevance import rank_discounts
from monitor.model.arrays import Codes, Floats, Rows
from monitor.model.explanation import ExposedItem

# Sums over ranks leave up to this where nothing changed.
_DUST = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposureShift:
    """Items by change of exposure, most changed first, and how many items came into the lists and left them altogether."""

    gained: tuple[ExposedItem, ...]
    lost: tuple[ExposedItem, ...]
    entered: int
    left: int


def compare_exposure(before: Codes, after: Codes, top: int, name: Callable[[int], str] = str) -> ExposureShift:
    """The ``top`` items that gained and that lost most exposure from one set of lists to another; equals go by code.

    ``before`` (n, k), ``after`` (m, j): codes >= 0, padding -1 at the end, distinct within a row, with one meaning in both;
    ``name``: a code's id. Hand in both arms of the same users, or one arm's last run and this one; numbers of lists may differ.
    An item at rank r (from 1) is exposed by 1 / log2(r + 1), the discount of DCG (Järvelin and Kekäläinen 2002). A side without
    lists exposes nothing. O(places + items).
    """
    ours, theirs, items = compact_codes(before, after)
    # Per list, so that sets of different size can be compared.
    exposures = [_expose(codes, len(items)) for codes in (ours, theirs)]
    shares = [np.bincount(codes[codes >= 0], minlength=len(items)) / max(1, len(codes)) for codes in (ours, theirs)]
    change = exposures[1] - exposures[0]

    def describe(places: Rows) -> tuple[ExposedItem, ...]:
        columns = zip(items[places].tolist(), *(values[places].tolist() for values in (*exposures, *shares)), strict=True)
        return tuple(
            ExposedItem(item=name(code), title=None, before=then, after=now, share_before=share_then, share_after=share_now)
            for code, then, now, share_then, share_now in columns
        )

    return ExposureShift(
        gained=describe(_highest(change, top)),
        lost=describe(_highest(-change, top)),
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


def _highest(change: Floats, top: int) -> Rows:
    """Places of the highest positive changes, highest first, equals in their order."""
    order = np.argsort(-change, kind="stable")[: max(0, top)]
    return order[change[order] > _DUST]
