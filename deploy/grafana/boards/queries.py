"""PromQL over the table of series: a name or label that rankwatch does not show fails here, before a panel is empty."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from monitor.export.series import PREFIX, SERIES, Kind

JOB = 'job=~"$job"'
ONE = 'comparison="$comparison"'
SOME = 'comparison=~"$comparison"'
RATE = "[$__rate_interval]"

_PROCESS = (
    "process_resident_memory_bytes",
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_max_fds",
)
_TARGET = frozenset({"job", "instance"})
_PARTS = {
    Kind.HISTOGRAM: ("bucket", "sum", "count"),
    Kind.GAUGE_HISTOGRAM: ("bucket", "gsum", "gcount"),
}
_SELECTOR = re.compile(r"\b((?:rankwatch|process|python)_\w+)(\{[^}]*\})?")
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right) ?\(([^)]*)\)")
_SHOWN = re.compile(r"\{\{(\w+)\}\}")


class UnknownError(ValueError):
    """A query names a series or a label that nothing shows."""


@dataclass(frozen=True, slots=True)
class Sql:
    """A query to the database, in PostgreSQL's words with Grafana's macros."""

    text: str


def labels_by_name() -> Mapping[str, frozenset[str]]:
    """Every name that a query may use, histograms by their parts, with its labels."""
    known = dict.fromkeys(_PROCESS, _TARGET) | {
        "python_gc_collections_total": _TARGET | {"generation"}
    }
    for one in SERIES.values():
        for part in _PARTS.get(one.kind, ("",)):
            extra = {"le"} if part == "bucket" else set()
            known["_".join(filter(None, (one.name, part)))] = _TARGET | set(one.labels) | extra
    return known


def prove(expr: str, legend: str = "") -> str:
    """The query itself, once every series, matcher, grouping and label of the legend is known.

    Else UnknownError.
    """
    known, usable = labels_by_name(), set(_TARGET)
    for name, selector in _SELECTOR.findall(expr):
        if name not in known:
            msg = f"{expr}: no series is called {name}"
            raise UnknownError(msg)
        _require(_MATCHER.findall(selector), known[name], f"{name}{selector}")
        usable |= known[name]
    _require(
        [
            label.strip()
            for group in _GROUPING.findall(expr)
            for label in group.split(",")
            if label.strip()
        ],
        usable,
        expr,
    )
    _require(_SHOWN.findall(legend), usable, f"{legend} of {expr}")
    return expr


def _require(labels: Iterable[str], known: Iterable[str], where: str) -> None:
    if unknown := sorted(set(labels) - set(known)):
        msg = f"{where}: there is no label {', '.join(unknown)}"
        raise UnknownError(msg)


def series(name: str, *matchers: str) -> str:
    """Selector of a series of rankwatch by its name without prefix, of the chosen jobs."""
    return f"{PREFIX}{name}{{{', '.join((JOB, *matchers))}}}"


def shown(name: str, *matchers: str, by: str = "") -> str:
    """A gauge that the leader and those standing by all show from one database: one of them, not their sum."""
    return f"max by ({by}) ({series(name, *matchers)})" if by else f"max({series(name, *matchers)})"


def none_known() -> str:
    """0 where a database answers: nothing is there to be counted.

    Nothing at all where none does: then nothing is known.
    """
    return f"0 * max({series('database_up')} == 1)"


def grown(name: str, *matchers: str, by: str) -> str:
    """How much a counter grew over a step of the graph, over all daemons: each counts what it did itself."""
    return f"sum by ({by}) (increase({series(name, *matchers)}{RATE}))"


def quantile(q: float, name: str, *matchers: str, by: str = "") -> str:
    """Quantile q of what a histogram saw over a step of the graph."""
    return (
        f"histogram_quantile({q}, sum by ({by or 'le'}) "
        f"(rate({series(f'{name}_bucket', *matchers)}{RATE})))"
    )
