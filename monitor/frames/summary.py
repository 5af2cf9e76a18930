"""Summaries and charts of a frame of scores, over all users and by segment."""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from markupsafe import Markup

from monitor.charts.bars import draw_histogram
from monitor.charts.svg import Plot, element
from monitor.charts.time_chart import Level
from monitor.errors import InputError, MetricError
from monitor.frames.lists import ArrowTable, as_frame, refuses_broken_text
from monitor.metrics import parse
from monitor.model.arrays import Rows
from monitor.model.rankings import ALL
from monitor.model.runs import Summary
from monitor.summaries import summarize_one

SUMMARY_COLUMNS = {"p05": "p05", "p25": "p25", "median": "p50", "p75": "p75", "p95": "p95"}

MOST_CHARTS = 100

SegmentsBy = (
    Mapping[Any, Any]
    | pd.Series
    | pd.DataFrame
    | ArrowTable
    | npt.NDArray[Any]
    | Sequence[Any]
    | Hashable
)
"""Segment by user, a table of users, or one a row of the frame, or the name of a column or index level of the frame."""


@refuses_broken_text
def summarize(frame: pd.DataFrame, by: SegmentsBy | None = None) -> pd.DataFrame:
    """Summary of the scores of `compare_many`: a row a metric, or a metric and segment.

    Columns: ``n`` users with a score, ``n_undefined`` without, ``mean``, ``standard_error`` (s /
        sqrt(n), NaN for n under 2),
    ``p05``, ``p25``, ``median``, ``p75``, ``p95`` (interpolated linearly), and ``by_chance``, the
        mean that unrelated lists
    would have, where the frame has it. All numbers are NaN where n is 0.

    ``by``: the users' segments, as a dict or Series of user -> segment, an array or list of one
    segment a row, the name of a column or index level of the frame, or a table of users (pandas,
    Arrow, polars): each further column splits them anew, into segments such as ``country=DE``. Its
    users stand in the column that is named as the scores' index, else in its index. The index is
    then metric and segment, ``all`` first, segments in the order of their text; users without a
    segment (None, NaN, or not in the dict) count in ``all`` only.

    InputError for a ``by`` that names nothing, is not as long as the frame, or knows none of its
    users, and for a column of scores that holds no numbers."""
    columns, segments = _read(frame, by)
    chance = frame.attrs.get("by_chance", {})
    rows, keys = [], []
    for name, values in columns.items():
        for segment, chosen in segments.items():
            keys.append((name, segment))
            rows.append({**_row(values[chosen]), "by_chance": chance.get(name)})
    found = pd.DataFrame(rows, index=pd.MultiIndex.from_tuples(keys, names=["metric", "segment"]))
    found["by_chance"] = found["by_chance"].astype(np.float64)
    return found.droplevel("segment") if by is None else found


@refuses_broken_text
def plot_scores(frame: pd.DataFrame, by: SegmentsBy | None = None) -> Plot:
    """How the scores of `compare_many` are distributed over users: a chart a metric, or a metric and segment (``by``).

    A notebook shows it; ``html`` can be saved. The frame does not draw itself: a filter or join of it would be drawn too.
    """
    columns, segments = _read(frame, by)
    chance: Mapping[Hashable, float | None] = frame.attrs.get("by_chance", {})
    charts: list[Markup] = []
    for name, values in columns.items():
        ends = _ends(name)
        for segment, chosen in segments.items():
            if len(charts) < MOST_CHARTS:
                found = summarize_one(str(segment), str(name), values[chosen], ends)
                ends = (
                    found.histogram.low,
                    found.histogram.high,
                )  # those of everybody, who come first
                charts.append(draw_distribution(found, chance.get(name)))
    if more := len(columns) * len(segments) - len(charts):
        charts.append(element("p", f"and {more:,} more: choose columns, or fewer segments"))
    return Plot(Markup().join(charts))


def draw_distribution(found: Summary, by_chance: float | None) -> Markup:
    """One metric's scores over the users of one segment, below what they are."""
    known = [("mean", found.mean, "mean"), ("by chance", by_chance, "chance")]
    levels = [
        Level(value=value, name=f"{name} {value:.4f}", kind=kind)
        for name, value, kind in known
        if value is not None
    ]
    said = f"{found.metric}, {found.segment}: {found.n:,} users" + (
        f", {found.n_undefined:,} without" * bool(found.n_undefined)
    )
    bins = found.histogram
    return element("h2", said) + draw_histogram(
        bins.counts, bins.low, bins.high, label=said, levels=levels
    )


def _ends(name: Hashable) -> tuple[float, float]:
    """The range of the metric of that name, infinite for what is none."""
    try:
        metric = parse(str(name))
    except MetricError:
        return -math.inf, math.inf
    return metric.low, metric.high


def _read(
    frame: pd.DataFrame, by: SegmentsBy | None
) -> tuple[dict[Any, npt.NDArray[np.float64]], dict[Any, Rows]]:
    """Scores by metric, and rows by segment, everybody first."""
    if not hasattr(frame, "columns"):
        raise InputError(f"frame is of type {type(frame).__name__}: give the frame of compare_many")
    segments, without = _segments(frame, by)
    columns = {
        name: _values(frame, name) for name in frame.columns if without is None or name != without
    }
    if not columns:
        raise InputError("frame has no column of scores: give the frame of compare_many")
    return columns, segments


def _row(values: npt.NDArray[np.float64]) -> dict[str, float]:
    found = summarize_one("", "", values, (-math.inf, math.inf))
    return {
        "n": found.n,
        "n_undefined": found.n_undefined,
        "mean": np.nan if found.mean is None else found.mean,
        "standard_error": np.nan if found.standard_error is None else found.standard_error,
        **{
            name: found.statistics.get(statistic, np.nan)
            for name, statistic in SUMMARY_COLUMNS.items()
        },
    }


def _values(frame: pd.DataFrame, name: Hashable) -> npt.NDArray[np.float64]:
    column = frame[name]
    if column.ndim != 1 or not pd.api.types.is_numeric_dtype(column.dtype):
        raise InputError(
            (
                f"frame: column {name!r} holds no scores: give the frame of compare_many, or drop "
                "the column"
            )
        )
    return column.to_numpy(dtype=np.float64, na_value=np.nan)


def _segments(
    frame: pd.DataFrame, by: SegmentsBy | None
) -> tuple[dict[Any, Rows], Hashable | None]:
    """Rows of each segment, and the column that they come from, if any."""
    everybody = {ALL: np.arange(len(frame), dtype=np.intp)}
    if by is None:
        return everybody, None
    table = by if isinstance(by, pd.Series | Mapping) else as_frame(by, "by")
    if isinstance(table, pd.DataFrame):
        return everybody | _segments_of_table(frame, table), None
    labels, without = _labels(frame, by)
    found = _rows_by_label(labels)
    if ALL in found:
        raise InputError(
            f"by has a segment named {ALL!r}, which stands for all users: give it another name"
        )
    return everybody | found, without


def _segments_of_table(frame: pd.DataFrame, table: pd.DataFrame) -> dict[Any, Rows]:
    """Rows of ``column=value``, by every column but that of the users."""
    known = table.set_index(frame.index.name) if frame.index.name in table.columns else table
    if not len(known.columns) or known.columns.has_duplicates:
        raise InputError(
            (
                "by: the table of users needs columns of segments, each named once, beside that of "
                "the users"
            )
        )
    return {
        f"{column}={label}": rows
        for column in known.columns
        for label, rows in _rows_by_label(_by_user(frame, known[column])).items()
    }


def _rows_by_label(labels: pd.Series) -> dict[Any, Rows]:
    try:
        codes, names = pd.factorize(labels)
    except TypeError:
        raise InputError(
            "by has segments that are no text or number: give each user one name of a segment"
        ) from None
    by_text = sorted(range(len(names)), key=lambda code: str(names[code]))
    return {names[code]: np.flatnonzero(codes == code) for code in by_text}


def _labels(frame: pd.DataFrame, by: Any) -> tuple[pd.Series, Hashable | None]:  # noqa: ANN401 - whatever tells them
    if isinstance(by, Mapping):
        by = pd.Series(list(by.values()), index=pd.Index(list(by), tupleize_cols=False))
    if isinstance(by, pd.Series):
        return _by_user(frame, by), None
    if isinstance(by, str) or not isinstance(
        by, np.ndarray | pd.Index | pd.api.extensions.ExtensionArray | list | tuple
    ):
        return _by_name(frame, by)
    if isinstance(by, np.ndarray) and by.ndim != 1:
        raise InputError(
            (
                "by has several dimensions: give one segment a row of the frame, or a dict of user "
                "-> segment"
            )
        )
    if len(by) != len(frame):
        msg = (
            f"by has {len(by)} segments for {len(frame)} users: give one a row of the frame, "
            "or a dict of user -> segment"
        )
        raise InputError(msg)
    return pd.Series(by), None


def _by_user(frame: pd.DataFrame, by: pd.Series) -> pd.Series:
    if by.index.has_duplicates:
        raise InputError(
            (
                f"by has user {by.index[by.index.duplicated()].tolist()[0]!r} twice: give each "
                "user one segment"
            )
        )
    found = by.reindex(frame.index)
    if len(frame) and len(by) and not by.index.isin(frame.index).any():
        raise InputError(
            f"by knows none of the users: it has users such as {by.index.tolist()[0]!r}, the frame "
            f"{frame.index.tolist()[0]!r}; ids must be of one type"
        )
    return found


def _by_name(frame: pd.DataFrame, name: Hashable) -> tuple[pd.Series, Hashable | None]:
    if name in frame.columns:
        return frame[name], name
    if name in frame.index.names:
        return frame.index.get_level_values(frame.index.names.index(name)).to_series(), None
    msg = (
        f"by: the frame has no column or index level {name!r}: give a dict of user -> segment, "
        "or one segment a row"
    )
    raise InputError(msg)
