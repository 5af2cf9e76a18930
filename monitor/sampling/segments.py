"""Name the slices of a panel: ``all``, and ``dimension=value`` for each value of each dimension."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.model import ALL

UNKNOWN = "unknown"
"""Value of a user who has none in a dimension."""
OTHER = "other"
"""Value that takes in the rarest values when a dimension has too many."""


_LONGEST = 120
"""Characters of a value that stand in a segment's name; segments become labels and keys."""


def split(
    n: int, dimensions: Mapping[str, pd.Categorical[Any]], kept: Mapping[str, Collection[int]]
) -> dict[str, npt.NDArray[np.intp]]:
    """Positions of n users by segment name, ``all`` first, then by dimension and value; no segment is empty.

    ``kept`` are the codes of each dimension that have a segment of their own; the users of the others are
    ``dimension=other``, those without a value ``dimension=unknown``.
    """
    segments = {ALL: np.arange(n, dtype=np.intp)}
    for dimension, categories in dimensions.items():
        codes = np.asarray(categories.codes)
        named: dict[str, list[npt.NDArray[np.intp]]] = {}
        for code in kept[dimension]:
            named.setdefault(_shortened(str(categories.categories[code])), []).append(np.flatnonzero(codes == code))
        named.setdefault(OTHER, []).append(np.flatnonzero((codes >= 0) & ~np.isin(codes, list(kept[dimension]))))
        named.setdefault(UNKNOWN, []).append(np.flatnonzero(codes < 0))
        for value in sorted(named):
            positions = np.sort(np.concatenate(named[value]))
            if len(positions):
                segments[f"{dimension}={value}"] = positions
    return segments


def frequent(categories: pd.Categorical[Any], most: int) -> tuple[int, ...]:
    """Codes of the ``most`` most frequent values; equal counts go by the value's text."""
    codes = np.asarray(categories.codes)
    values = [str(value) for value in categories.categories]
    counts = np.bincount(codes[codes >= 0], minlength=len(values))
    return tuple(sorted(range(len(values)), key=lambda code: (-counts[code], values[code]))[:most])


def _shortened(value: str) -> str:
    """The value, or the begin of a long one with a hash that tells it from others."""
    if len(value) <= _LONGEST:
        return value
    return f"{value[: _LONGEST - 9]}~{hashlib.sha256(value.encode(errors='surrogatepass')).hexdigest()[:8]}"
