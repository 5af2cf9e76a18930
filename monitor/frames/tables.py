"""Arrow tables as pandas frames, by what they can do: nothing here imports Arrow.

Tables and record batches of pyarrow keep their list columns as they are, without a Python object a row. Whatever else has
the Arrow PyCapsule protocol (polars, duckdb, nanoarrow) is read through pandas.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

import pandas as pd

from monitor.errors import InputError

_LISTS = ("list<", "large_list<", "fixed_size_list<")
_TEXTS = {"string", "large_string", "string_view"}


class ArrowTable(Protocol):
    """A table with the Arrow PyCapsule protocol: pyarrow, polars, duckdb and others."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


def is_table(data: object) -> bool:
    """Whether data is a table of Arrow's, or can be had as one; a pandas frame is none."""
    has_columns = hasattr(data, "schema") or hasattr(data, "columns")
    return has_columns and (hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"))


def read_table(data: Any, arm: str) -> pd.DataFrame:  # noqa: ANN401 - any table with the protocol
    """The table as a frame: list columns as ArrowDtype, text as ``str``, dictionaries as categories; or InputError."""
    try:
        if type(data).__module__.partition(".")[0] == "pyarrow" and hasattr(data, "to_pandas"):
            frame: pd.DataFrame = data.to_pandas(types_mapper=_as_pandas, split_blocks=True)
            return frame
        return cast("pd.DataFrame", pd.DataFrame.from_arrow(data))  # type: ignore[attr-defined] # pandas-stubs lags
    except (TypeError, ValueError, NotImplementedError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        msg = f"{arm} is a table of type {type(data).__name__} that cannot be read: {reason}"
        raise InputError(msg) from None


def as_frame(data: object, what: str) -> object:
    """A table of Arrow's as a frame; anything else as it is."""
    return read_table(data, what) if not isinstance(data, pd.DataFrame) and is_table(data) else data


def read_column(data: Any) -> pd.Series:  # noqa: ANN401 - any array with the protocol, a Series too
    """The array as a column of pandas' own types."""
    return cast("pd.Series", pd.Series.from_arrow(data))  # type: ignore[attr-defined] # pandas-stubs lags


def _as_pandas(kind: object) -> Any:  # noqa: ANN401 - a dtype of pandas, or None for the usual one
    name = str(kind)
    if name.startswith(_LISTS):
        return pd.ArrowDtype(kind)
    return pd.StringDtype(na_value=float("nan")) if name in _TEXTS else None
