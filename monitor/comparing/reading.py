"""One arm's lists, from whichever shape they come in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.comparing.frames import read_frame
from monitor.comparing.lists import Columns, Lists
from monitor.comparing.rows import read_mapping, read_matrix, read_rows
from monitor.comparing.tables import ArrowTable, is_table, read_table
from monitor.errors import InputError

Rankings = Mapping[Any, Any] | pd.DataFrame | ArrowTable | npt.NDArray[Any] | Sequence[Any]
"""User -> list, a long or wide frame of pandas or Arrow, a 2-D array or a sequence of lists (row number = user)."""


def read(data: Rankings, columns: Columns, arm: str) -> Lists:
    """Lists from any of the shapes; InputError, naming the arm, for anything else."""
    if isinstance(data, pd.DataFrame):
        return read_frame(data, columns, arm)
    if isinstance(data, Mapping):
        return read_mapping(data, arm)
    if isinstance(data, np.ndarray):
        return read_matrix(data, arm)
    if isinstance(data, list | tuple):
        return read_rows(data, f"lists of the {arm}")
    if is_table(data):
        return read_frame(read_table(data, arm), columns, arm)
    msg = (
        f"{arm} is of type {type(data).__name__}: expected a dict of user -> list, a DataFrame, an Arrow table, a 2-D array or "
        "a list of lists (row = user)"
    )
    raise InputError(msg)
