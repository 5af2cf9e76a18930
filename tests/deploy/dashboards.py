"""The checked-in dashboards, ways through them, and what Grafana fills in before it sends a query."""

import json
import re
from collections.abc import Mapping, Sequence

from monitor.export.series import SERIES, SeriesKind
from monitor.model.immutable import immutable
from places import ROOT

FOLDER = ROOT / "deploy" / "grafana" / "dashboards"
NAMES = ("rankwatch-overview", "rankwatch-comparison", "rankwatch-unpaired", "rankwatch-daemon")


def read(name):
    return json.loads((FOLDER / f"{name}.json").read_text())


def panels(board):
    """Every panel that shows something."""
    return (panel for panel in board["panels"] if panel["type"] != "row")


def _targets(board):
    for owner in (*panels(board), *board["annotations"]["list"]):
        for target in owner["targets"] if "targets" in owner else [owner["target"]]:
            yield owner.get("title") or owner["name"], target


def promql(board):
    """Title and target of each query to Prometheus, of annotations too."""
    return ((title, target) for title, target in _targets(board) if "expr" in target)


def sql(board):
    """Title and text of each query to the database, of annotations too."""
    return ((title, target["rawSql"]) for title, target in _targets(board) if "rawSql" in target)


def variables(board):
    return {variable["name"]: variable for variable in board["templating"]["list"]}


_TARGET = {"job", "instance"}
_PARTS = {
    SeriesKind.HISTOGRAM: ("_bucket", "_sum", "_count"),
    SeriesKind.GAUGE_HISTOGRAM: ("_bucket", "_gsum", "_gcount"),
}
_SELECTOR = re.compile(r"\b((?:rankwatch|process|python)_\w+)(?:\{([^}]*)\})?")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right) ?\(([^)]*)\)")


def labels_by_name():
    """The labels of every series that a query may use, histograms by their parts."""
    labels = dict.fromkeys(
        (
            "process_resident_memory_bytes",
            "process_cpu_seconds_total",
            "process_open_fds",
            "process_max_fds",
        ),
        _TARGET,
    )
    labels["python_gc_collections_total"] = {*_TARGET, "generation"}
    for series in SERIES.values():
        for part in _PARTS.get(series.kind, ("",)):
            edges = {"le"} if part == "_bucket" else set()
            labels[series.name + part] = {*_TARGET, *series.labels, *edges}
    return labels


def unknown_names(query, legend):
    """The series and labels of a query and its legend that rankwatch does not show."""
    labels, usable, unknown = labels_by_name(), {*_TARGET}, set()
    for name, matchers in _SELECTOR.findall(query):
        if name not in labels:
            return {name}
        unknown |= {*re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', matchers)} - labels[name]
        usable |= labels[name]
    grouped = re.findall(r"\w+", " ".join(_GROUPING.findall(query)))
    return unknown | {*grouped, *re.findall(r"\{\{(\w+)\}\}", legend)} - usable


Value = str | Sequence[str]

_VARIABLE = re.compile(r"\$\{(?P<braced>\w+)(?::(?P<format>\w+))?\}|\$(?P<bare>\w+)")
_TIME_FILTER = re.compile(r"\$__timeFilter\(([^)]*)\)")


@immutable
class Page:
    """An open dashboard: the chosen values, and the chosen time as SQL takes it.

    A variable with many values is a sequence.
    """

    values: Mapping[str, Value]
    rate_interval: str = "1m"
    since: str = "1970-01-01T00:00:00Z"
    until: str = "2100-01-01T00:00:00Z"

    def promql(self, query):
        """As the Prometheus data source sends it, of values that need no escape."""
        return _VARIABLE.sub(self._in_promql, query)

    def sql(self, query):
        """As the PostgreSQL data source sends it."""
        timed = _TIME_FILTER.sub(rf"\1 BETWEEN '{self.since}' AND '{self.until}'", query)
        return _VARIABLE.sub(self._in_sql, timed)

    def _in_promql(self, found):
        if found["bare"] == "__rate_interval":
            return self.rate_interval
        assert found["format"] is None, (
            f"{found[0]}: Grafana escapes rightly for PromQL only without a format"
        )
        value = self.values[found["braced"] or found["bare"]]
        if isinstance(value, str):
            return value
        return value[0] if len(value) == 1 else f"({'|'.join(value)})"

    def _in_sql(self, found):
        assert found["format"] == "sqlstring", (
            f"{found[0]}: only :sqlstring keeps a quote in a name a quote"
        )
        value = self.values[found["braced"] or found["bare"]]
        return ",".join(
            "'" + each.replace("'", "''") + "'"
            for each in ([value] if isinstance(value, str) else value)
        )
