"""Which row of one table belongs to which user of another."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd


def rows_of(wanted: pd.Index[str], present: pd.Index[str]) -> npt.NDArray[np.intp]:
    """Position of each wanted user among those present, -1 where absent."""
    if present is wanted or present.equals(wanted):
        return np.arange(len(wanted), dtype=np.intp)
    codes, _ = pd.factorize(pd.concat([pd.Series(wanted), pd.Series(present)], ignore_index=True))
    row_of = np.full(len(codes), -1, dtype=np.intp)
    row_of[codes[len(wanted) :]] = np.arange(len(present))
    return row_of[: len(wanted)]
