"""Types of numpy arrays, each named once for the whole tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from pandas.api.extensions import (
        ExtensionArray,
    )  # pandas takes longer to load than all else that a configuration needs

Floats: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Codes: TypeAlias = npt.NDArray[
    np.int32
]  # items as codes >= 0, -1 for padding; lengths of lists likewise
Rows: TypeAlias = npt.NDArray[np.intp]  # places in another array
Offsets: TypeAlias = npt.NDArray[
    np.int64
]  # where each list begins in a flat array, and where the last one ends
Integers: TypeAlias = npt.NDArray[np.signedinteger[Any]]
Ids: TypeAlias = "npt.NDArray[Any] | ExtensionArray"
"""Ids without nulls: int32, int64, float64, pandas ``str``, a Categorical of one of these, or object for everything else.

Which ids are equal, `monitor.pairing.ids` says: 42 and "42" are."""
