"""Types of numpy arrays. Each type has one name in the whole program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    # Importing pandas takes longer than all other imports that a configuration needs.
    from pandas.api.extensions import ExtensionArray

Array: TypeAlias = npt.NDArray[Any]
Floats: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]
# Items as codes >= 0, with -1 for padding. Also used for lengths of lists
Codes: TypeAlias = npt.NDArray[np.int32]
Rows: TypeAlias = npt.NDArray[np.intp]  # positions in another array
# Where each list begins in a flat array, and where the last one ends
Offsets: TypeAlias = npt.NDArray[np.int64]
Integers: TypeAlias = npt.NDArray[np.signedinteger[Any]]
Hashes: TypeAlias = npt.NDArray[np.uint64]
Ids: TypeAlias = "npt.NDArray[Any] | ExtensionArray"
"""Ids without nulls: int32, int64, pandas ``str``, or a Categorical of these.

`monitor.measures.pairing.ids` defines which ids are equal. For example, 42 and "42" are equal.
"""
