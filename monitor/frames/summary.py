"""Summaries of a frame of scores, over all users and by segment."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from monitor.errors import InputError
from monitor.frames.lists import refuses_broken_text
from monitor.model import ALL
from monitor.summaries import summarize_one

SUMMARY_COLUMNS = {"p05": "p05", "p25": "p25", "median": "p50", "p75": "p75", "p95": "p95"}

SegmentsBy = Mapping[Any, Any] | pd.Series | npt.NDArray[Any] | Sequence[Any] | Hashable
"""Segment by user, or one a row of the frame, or the name of a column or index level of the frame."""


@refuses_broken_text
def summarize(frame: pd.DataFrame, by: SegmentsBy | None = None) -> pd.DataFrame:
    """Summary of the scores of `compare_many`: a row a metric, or a metric and segment.

    Columns: ``n`` users with a score, ``n_undefined`` without, ``mean``, ``standard_error`` (s / sqrt(n), NaN for n under 2),
    ``p05``, ``p25``, ``median``, ``p75``, ``p95`` (interpolated linearly), and ``by_chance``, the mean that unrelated lists
    would have, where the frame has it. All numbers are NaN where n is 0.

    ``by``: the users' segments, as a dict or Series of user -> segment, an array or list of one segment a row, or the name of
    a column or index level of the frame. The index is then metric and segment, ``all`` first, segments in the order of their
    text; users without a segment (None, NaN, or not in the dict) count in ``all`` only.

    InputError for a ``by`` that names nothing, is not as long as the frame, or knows none of its users, and for a column of
    scores that holds no numbers.
    """
    if not hasattr(frame, "columns"):
        msg = f"frame is of type {type(frame).__name__}: give the frame of compare_many"
        raise InputError(msg)
    segments, without = _segments(frame, by)
    columns = {name: _values(frame, name) for name in frame.columns if without is None or name != without}
    if not columns:
        msg = "frame has no column of scores: give the frame of compare_many"
        raise InputError(msg)
    chance = frame.attrs.get("by_chance", {})
    rows, keys = [], []
    for name, values in columns.items():
        for segment, chosen in segments.items():
            keys.append((name, segment))
            rows.append({**_row(values[chosen]), "by_chance": chance.get(name)})
    found = pd.DataFrame(rows, index=pd.MultiIndex.from_tuples(keys, names=["metric", "segment"]))
    found["by_chance"] = found["by_chance"].astype(np.float64)
    return found.droplevel("segment") if by is None else found


def _row(values: npt.NDArray[np.float64]) -> dict[str, float]:
    found = summarize_one("", "", values, (-math.inf, math.inf))
    return {
        "n": found.n,
        "n_undefined": found.n_undefined,
        "mean": np.nan if found.mean is None else found.mean,
        "standard_error": np.nan if found.standard_error is None else found.standard_error,
        **{name: found.statistics.get(statistic, np.nan) for name, statistic in SUMMARY_COLUMNS.items()},
    }


def _values(frame: pd.DataFrame, name: Hashable) -> npt.NDArray[np.float64]:
    column = frame[name]
    if column.ndim != 1 or not pd.api.types.is_numeric_dtype(column.dtype):
        msg = f"frame: column {name!r} holds no scores: give the frame of compare_many, or drop the column"
        raise InputError(msg)
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _segments(frame: pd.DataFrame, by: SegmentsBy | None) -> tuple[dict[Any, npt.NDArray[np.intp]], Hashable | None]:
    """Rows of each segment, and the column that they come from, if any."""
    everybody = {ALL: np.arange(len(frame), dtype=np.intp)}
    if by is None:
        return everybody, None
    labels, without = _labels(frame, by)
    try:
        codes, names = pd.factorize(labels)
    except TypeError:
        msg = "by has segments that are no text or number: give each user one name of a segment"
        raise InputError(msg) from None
    if ALL in set(names):
        msg = f"by has a segment named {ALL!r}, which stands for all users: give it another name"
        raise InputError(msg)
    by_text = sorted(range(len(names)), key=lambda code: str(names[code]))
    return everybody | {names[code]: np.flatnonzero(codes == code) for code in by_text}, without


def _labels(frame: pd.DataFrame, by: SegmentsBy) -> tuple[pd.Series, Hashable | None]:
    if isinstance(by, Mapping):
        by = pd.Series(list(by.values()), index=pd.Index(list(by), tupleize_cols=False))
    if isinstance(by, pd.Series):
        return _by_user(frame, by), None
    if isinstance(by, str) or not isinstance(by, np.ndarray | pd.Index | pd.api.extensions.ExtensionArray | list | tuple):
        return _by_name(frame, by)
    if isinstance(by, np.ndarray) and by.ndim != 1:
        msg = "by has several dimensions: give one segment a row of the frame, or a dict of user -> segment"
        raise InputError(msg)
    if len(by) != len(frame):
        msg = f"by has {len(by)} segments for {len(frame)} users: give one a row of the frame, or a dict of user -> segment"
        raise InputError(msg)
    return pd.Series(by), None


def _by_user(frame: pd.DataFrame, by: pd.Series) -> pd.Series:
    if by.index.has_duplicates:
        msg = f"by has user {by.index[by.index.duplicated()].tolist()[0]!r} twice: give each user one segment"
        raise InputError(msg)
    found = by.reindex(frame.index)
    if len(frame) and len(by) and not by.index.isin(frame.index).any():
        msg = (
            f"by knows none of the users: it has users such as {by.index.tolist()[0]!r}, the frame "
            f"{frame.index.tolist()[0]!r}; ids must be of one type"
        )
        raise InputError(msg)
    return found


def _by_name(frame: pd.DataFrame, name: Hashable) -> tuple[pd.Series, Hashable | None]:
    if name in frame.columns:
        return frame[name], name
    if name in frame.index.names:
        return frame.index.get_level_values(frame.index.names.index(name)).to_series(), None
    msg = f"by: the frame has no column or index level {name!r}: give a dict of user -> segment, or one segment a row"
    raise InputError(msg)
