"""Summarizes and draws a frame of scores, over all users and for each segment."""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup
from pandas.api.extensions import ExtensionArray

from monitor.charts.bars import draw_histogram
from monitor.charts.svg import Plot, element
from monitor.charts.time_chart import Level
from monitor.measures.frames.lists import ArrowTable, as_frame, as_list, refuses_broken_text
from monitor.measures.metrics import parse
from monitor.measures.summaries import summarize_one
from monitor.model.arrays import Array, Floats, Rows
from monitor.model.column_names import find_column, write_absent
from monitor.model.errors import InputError, MetricError
from monitor.model.rankings import ALL
from monitor.model.runs import Summary

SUMMARY_COLUMNS = {"p05": "p05", "p25": "p25", "median": "p50", "p75": "p75", "p95": "p95"}

MOST_HISTOGRAMS = 100

SegmentsBy = (
    Mapping[Any, Any] | pd.Series | pd.DataFrame | ArrowTable | Array | Sequence[Any] | Hashable
)
"""The segments of the users, in one of these forms:

- a mapping of user -> segment,
- a table of users with columns of segments,
- one segment for each row,
- the name of a column or of an index level.
"""


@refuses_broken_text
def summarize(frame: pd.DataFrame, by: SegmentsBy | None = None) -> pd.DataFrame:
    """Summarize the scores of `compare_many`.

    The result has one row for each metric. With ``by`` it has one row for each metric and segment.
    Its columns are:

    - ``n``: the number of users with a score,
    - ``n_undefined``: the number of users without a score,
    - ``mean``,
    - ``standard_error``: s / sqrt(n), NaN if n is below 2,
    - ``p05``, ``p25``, ``median``, ``p75`` and ``p95``: quantiles, interpolated linearly,
    - ``by_chance``: the mean score of two random lists. It is NaN if the frame does not have it.

    The statistics of the scores are NaN if n is 0.

    ``by`` gives the users' segments. It is a dict or Series of user -> segment, or an array or list
    with one segment for each row. It may also be the name of a column or index level of the frame,
    or a table of users (pandas, Arrow or polars). Each other column of such a table gives segments,
    such as ``country=DE``. The table's column of users must have the name of the index of
    ``frame``. ``user`` and ``user_id`` count as the same name. If the table has no such column, its
    index must contain the users.

    With ``by``, the index of the result has the levels ``metric`` and ``segment``. The segment
    ``all`` comes first. The other segments are ordered by their text. A user without a segment
    (None, NaN, or not in the dict) is counted in ``all`` only.

    Raises InputError if ``by`` is a name of neither a column nor an index level. It also raises
    InputError if the length of ``by`` is not that of the frame, or if ``by`` has no user of the
    frame. Values that are no numbers in a column of scores raise InputError too.
    """
    columns, segments = _read_frame(frame, by)
    chance = frame.attrs.get("by_chance", {})
    rows = []
    keys = []
    for name, values in columns.items():
        for segment, segment_rows in segments.items():
            keys.append((name, segment))
            rows.append({**_summary_row(values[segment_rows]), "by_chance": chance.get(name)})
    table = pd.DataFrame(rows, index=pd.MultiIndex.from_tuples(keys, names=["metric", "segment"]))
    table = table.astype(dict.fromkeys(table.columns.drop(["n", "n_undefined"]), np.float64))
    return table.droplevel("segment") if by is None else table


@refuses_broken_text
def plot_scores(frame: pd.DataFrame, by: SegmentsBy | None = None) -> Plot:
    """Draw histograms of the scores of `compare_many`.

    There is one chart for each metric. With ``by`` there is one chart for each metric and segment.
    ``by`` has the same forms as in `summarize`. A notebook displays the result. To save the charts,
    write the ``html`` of the result to a file. A frame is drawn only by this function, because
    otherwise notebooks would also draw filtered or joined frames.
    """
    columns, segments = _read_frame(frame, by)
    chance: Mapping[Hashable, float | None] = frame.attrs.get("by_chance", {})
    charts: list[Markup] = []
    for name, values in columns.items():
        ends = _metric_range(name)
        for segment, rows in segments.items():
            if len(charts) < MOST_HISTOGRAMS:
                summary = summarize_one(str(segment), str(name), values[rows], ends)
                # The first segment contains all users. All charts of the metric use its range.
                ends = summary.histogram.low, summary.histogram.high
                charts.append(draw_distribution(summary, chance.get(name)))
    more = len(columns) * len(segments) - len(charts)
    if more:
        charts.append(element("p", f"{more:,} more charts: choose fewer columns or segments"))
    return Plot(Markup().join(charts))


def draw_distribution(summary: Summary, by_chance: float | None) -> Markup:
    """A histogram of one metric over the users of one segment, with a title."""
    levels = []
    for name, value, kind in (("mean", summary.mean, "mean"), ("by chance", by_chance, "chance")):
        if value is not None:
            levels.append(Level(value=value, name=f"{name} {value:.4f}", kind=kind))
    title = f"{summary.metric}, {summary.segment}: {summary.n:,} users"
    if summary.n_undefined:
        title += f", {summary.n_undefined:,} without a score"
    bins = summary.histogram
    histogram = draw_histogram(bins.counts, bins.low, bins.high, label=title, levels=levels)
    return element("h2", title) + histogram


def _metric_range(name: Hashable) -> tuple[float, float]:
    """The lowest and highest score of the metric with this name, infinite if there is none."""
    try:
        metric = parse(str(name))
    except MetricError:
        return -math.inf, math.inf
    return metric.low, metric.high


def _read_frame(
    frame: pd.DataFrame, by: SegmentsBy | None
) -> tuple[dict[Any, Floats], dict[Any, Rows]]:
    """The scores of each metric, and the rows of each segment. The first one is ``all``."""
    if not isinstance(frame, pd.DataFrame):
        raise InputError(
            f"frame is of type {type(frame).__name__}: give the pandas frame of compare_many"
        )
    segments, segment_column = _segments(frame, by)
    columns = {}
    for name in frame.columns:
        if segment_column is None or name != segment_column:
            columns[name] = _values(frame, name)
    if not columns:
        raise InputError("frame has no column of scores: give the frame of compare_many")
    return columns, segments


def _summary_row(values: Floats) -> dict[str, float | None]:
    summary = summarize_one("", "", values, (-math.inf, math.inf))
    row = {
        "n": summary.n,
        "n_undefined": summary.n_undefined,
        "mean": summary.mean,
        "standard_error": summary.standard_error,
    }
    for name, statistic in SUMMARY_COLUMNS.items():
        row[name] = summary.statistics.get(statistic)
    return row


def _values(frame: pd.DataFrame, name: Hashable) -> Floats:
    column = frame[name]
    if column.ndim != 1 or not pd.api.types.is_numeric_dtype(column.dtype):
        raise InputError(
            f"frame: column {name!r} has no scores: give the frame of compare_many, or drop "
            "the column"
        )
    return column.to_numpy(dtype=float, na_value=np.nan)


def _segments(
    frame: pd.DataFrame, by: SegmentsBy | None
) -> tuple[dict[Any, Rows], Hashable | None]:
    """The rows of each segment, and the name of the frame's column with the segments.

    The name is None if the segments are not in the frame.
    """
    everybody = {ALL: np.arange(len(frame), dtype=np.intp)}
    if by is None:
        return everybody, None
    table = by if isinstance(by, pd.Series | Mapping) else as_frame(by, "by")
    if isinstance(table, pd.DataFrame):
        return everybody | _segments_of_table(frame, table), None
    labels, segment_column = _labels(frame, by)
    segments = _rows_by_label(labels)
    if ALL in segments:
        raise InputError(
            f"by has a segment named {ALL!r}, but that name is reserved for all users together: "
            "rename the segment"
        )
    return everybody | segments, segment_column


def _segments_of_table(frame: pd.DataFrame, table: pd.DataFrame) -> dict[Any, Rows]:
    """The rows of each segment ``column=value``, for every column of the table except the users."""
    user = find_column(frame.index.name, [*table.columns, *table.index.names])
    if user in table.columns:
        table = table.set_index(user)
    elif user not in table.index.names:
        has_users = table.index.isin(frame.index).any()
        if not has_users and len(frame) and len(table):
            absent = write_absent("user" if user is None else user, table.columns)
            raise InputError(
                f"by: the table of users has no column {absent}: rename the column of users to "
                "the name of the scores' index"
            )
    if not len(table.columns) or table.columns.has_duplicates:
        raise InputError(
            "by: the table of users has no columns of segments, or two columns of the same name: "
            "give it one column for each kind of segment"
        )
    segments = {}
    for column in table.columns:
        for label, rows in _rows_by_label(_by_user(frame, table[column])).items():
            segments[f"{column}={label}"] = rows
    return segments


def _rows_by_label(labels: pd.Series) -> dict[Any, Rows]:
    try:
        codes, names = pd.factorize(labels)
    except TypeError:
        raise InputError(
            "by has segments that are neither text nor numbers: give each user the name of one "
            "segment"
        ) from None
    if all(isinstance(name, float | np.floating) and name.is_integer() for name in names):
        # pandas stores whole numbers as floats if one is missing.
        names = pd.Index(list(map(int, names)))
    by_text = sorted(range(len(names)), key=lambda code: str(names[code]))
    return {names[code]: np.flatnonzero(codes == code) for code in by_text}


def _labels(frame: pd.DataFrame, by: Any) -> tuple[pd.Series, Hashable | None]:  # noqa: ANN401
    """The segment of each row of the frame, and the name of the frame's column with the segments.

    The name is None if the segments are not in the frame.
    """
    if isinstance(by, Mapping):
        by = pd.Series(list(by.values()), index=pd.Index(list(by), tupleize_cols=False))
    if isinstance(by, pd.Series):
        return _by_user(frame, by), None
    by = as_list(by)
    if not isinstance(by, np.ndarray | pd.Index | ExtensionArray | list | tuple):
        return _by_name(frame, by)
    if isinstance(by, np.ndarray) and by.ndim != 1:
        raise InputError(
            "by has several dimensions: give one segment for each row of the frame, or a dict of "
            "user -> segment"
        )
    if len(by) != len(frame):
        raise InputError(
            f"by has {len(by)} segments for {len(frame)} users: give one segment for each row of "
            "the frame, or a dict of user -> segment"
        )
    return pd.Series(by), None


def _by_user(frame: pd.DataFrame, by: pd.Series) -> pd.Series:
    if by.index.has_duplicates:
        twice = by.index[by.index.duplicated()].tolist()[0]
        raise InputError(f"by has user {twice!r} twice: give each user one segment")
    if len(frame) and len(by) and not by.index.isin(frame.index).any():
        raise InputError(
            f"by has none of the users: it has users such as {by.index.tolist()[0]!r}, the frame "
            f"has users such as {frame.index.tolist()[0]!r}: spell each user in the same way"
        )
    return by.reindex(frame.index)


def _by_name(frame: pd.DataFrame, name: Hashable) -> tuple[pd.Series, Hashable | None]:
    """Return the column or index level of this name, and the name if it is a column, else None."""
    if name in list(frame.columns):  # in a list, because a name may be unhashable
        return frame[name], name
    if name in frame.index.names:
        return frame.index.get_level_values(frame.index.names.index(name)).to_series(), None
    names = [other for other in (*frame.index.names, *frame.columns) if other is not None]
    absent = write_absent(name, names)
    raise InputError(
        f"by: the frame has no column or index level {absent}: name one that it has, or give a "
        "table of users, a dict of user -> segment, or one segment for each row"
    )
