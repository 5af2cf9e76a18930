"""The kinds of panel, each with every option that Grafana's schema asks for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from boards.colours import BAD, GREY, SEQUENTIAL, STATES
from boards.layout import DATABASE, METRICS, Json
from boards.queries import Sql, prove
from monitor.export.series import SERIES

Queries = Mapping[str, str] | Sql
"""Legends by PromQL, or one query to the database."""

_LEGEND = {"calcs": [], "displayMode": "list", "placement": "bottom", "showLegend": True}
_TOOLTIP = {"mode": "multi", "sort": "desc"}
_REDUCED = {"calcs": ["lastNotNull"], "fields": "", "values": False}
_UNITS = {"_seconds": "s", "_ratio": "percentunit", "_bytes": "bytes"}


def override(name: str, *, is_pattern: bool = False, **properties: Any) -> Json:  # noqa: ANN401 - JSON
    """Properties of the fields of that name, or whose whole name matches.

    ``__`` in a property stands for a dot.
    """
    matcher = (
        {"id": "byRegexp", "options": f"/^(?:{name})$/"}
        if is_pattern
        else {"id": "byName", "options": name}
    )
    listed = [{"id": key.replace("__", "."), "value": value} for key, value in properties.items()]
    return {"matcher": matcher, "properties": listed}


def fixed(colour: str) -> Json:
    """One colour."""
    return {"mode": "fixed", "fixedColor": colour}


def coloured(colours: Mapping[str, str], *, is_pattern: bool = False) -> list[Json]:
    """A colour for each of these fields."""
    return [
        override(name, is_pattern=is_pattern, color=fixed(colour))
        for name, colour in colours.items()
    ]


def dashed(colour: str, *, dash: int = 10) -> Json:
    """Properties of a line that is a bound, not a measurement."""
    return {
        "color": fixed(colour),
        "custom__lineStyle": {"fill": "dash", "dash": [dash, dash]},
        "custom__lineWidth": 1,
    }


def steps(*bounds: tuple[float | None, str]) -> Json:
    """Colours from each bound on; the first bound is None."""
    return {
        "mode": "absolute",
        "steps": [{"color": colour, "value": value} for value, colour in bounds],
    }


def states() -> list[Json]:
    """Names and colours of the values of ``alert_state``."""
    options = {
        str(number): {"text": text, "color": colour, "index": number}
        for number, (text, colour) in STATES.items()
    }
    return [{"type": "value", "options": options}]


def stat(title: str, queries: Queries, about: str = "", **more: Any) -> Json:  # noqa: ANN401 - JSON
    """One number now.

    ``text="name"`` shows the legend in its place. ``limits`` colour the background.
    """
    limits = more.pop("limits", None)
    options = {
        "reduceOptions": _REDUCED,
        "textMode": more.pop("text", "value"),
        "colorMode": "background" if limits else "none",
        "graphMode": "none",
        "justifyMode": "center",
        "orientation": "auto",
        "wideLayout": True,
        "showPercentChange": False,
        "percentChangeColorMode": "standard",
    }
    defaults = {
        "thresholds": limits or steps((None, GREY)),
        "color": {"mode": "thresholds"},
        "noValue": "no data",
    }
    return _panel(
        "stat",
        title,
        queries,
        about,
        defaults=defaults,
        options=options,
        **{"width": 4, "height": 4, **more},
    )


def lines(title: str, queries: Queries, about: str = "", **more: Any) -> Json:  # noqa: ANN401 - JSON
    """Values over time; ``is_stacked`` on each other, as bars."""
    is_stacked = more.pop("is_stacked", False)
    custom = {
        "drawStyle": "bars" if is_stacked else "line",
        "lineWidth": 1 if is_stacked else 2,
        "fillOpacity": 70 if is_stacked else 0,
        "showPoints": "never" if is_stacked else "auto",
        "spanNulls": False,
        "stacking": {"mode": "normal" if is_stacked else "none", "group": "A"},
        **more.pop("custom", {}),
    }
    defaults = {"custom": custom, "color": {"mode": SEQUENTIAL, "seriesBy": "last"}}
    return _panel(
        "timeseries",
        title,
        queries,
        about,
        defaults=defaults,
        options={"legend": _LEGEND, "tooltip": _TOOLTIP},
        **more,
    )


def timeline(title: str, queries: Queries, about: str = "", **more: Any) -> Json:  # noqa: ANN401 - JSON
    """States of alerts over time."""
    options = {
        "showValue": "auto",
        "mergeValues": True,
        "rowHeight": 0.9,
        "legend": {**_LEGEND, "showLegend": False},
        "tooltip": _TOOLTIP,
    }
    defaults = {
        "mappings": states(),
        "custom": {"fillOpacity": 80, "lineWidth": 0},
        "color": fixed(GREY),
    }
    return _panel(
        "state-timeline", title, queries, about, defaults=defaults, options=options, **more
    )


def heat_map(title: str, queries: Queries, about: str = "", **more: Any) -> Json:  # noqa: ANN401 - JSON
    """Buckets of a histogram over time, darker the fuller."""
    options = {
        "calculate": False,
        "cellGap": 1,
        "color": {
            "mode": "scheme",
            "scheme": "Viridis",
            "scale": "exponential",
            "exponent": 0.5,
            "fill": BAD,
            "reverse": False,
            "steps": 64,
        },
        "exemplars": {"color": BAD},
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "rowsFrame": {"layout": "auto", "value": "users"},
        "showValue": "never",
        "tooltip": {"mode": "single", "yHistogram": True, "showColorScale": True},
        "yAxis": {"axisPlacement": "left", "unit": "short"},
    }
    made = _panel("heatmap", title, queries, about, options=options, **more)
    return {**made, "targets": [{**target, "format": "heatmap"} for target in made["targets"]]}


def table(title: str, queries: Queries, about: str = "", **more: Any) -> Json:  # noqa: ANN401 - JSON
    """Rows and columns.

    ``columns`` maps the fields to show, in their order, to titles. Several queries meet in one row.
    """
    columns: dict[str, str] = more.pop("columns", {})
    hidden = dict.fromkeys(("Time", "__name__", "job", "instance"), True) if columns else {}
    arranged = {
        "id": "organize",
        "options": {
            "excludeByName": hidden,
            "renameByName": columns,
            "indexByName": {name: index for index, name in enumerate(columns)},
        },
    }
    defaults = {
        "custom": {
            "align": "auto",
            "cellOptions": {"type": "auto"},
            "inspect": True,
            "filterable": True,
        }
    }
    options = {
        "frameIndex": 0,
        "showHeader": True,
        "cellHeight": "sm",
        "sortBy": more.pop("sort", []),
    }
    transformations = [{"id": "merge", "options": {}}, arranged] if columns else []
    size = {"width": 24, **more}
    parts = {"defaults": defaults, "options": options, "transformations": transformations}
    return _panel("table", title, queries, about, **parts, **size)


def _panel(kind: str, title: str, queries: Queries, about: str, **more: Any) -> Json:  # noqa: ANN401 - JSON
    """One panel; ``unit``, ``width``, ``height``, ``overrides`` and more fields of the model are taken from ``more``."""
    first = _first_series(queries)
    unit = {"unit": more.pop("unit", _unit(first)), **more.pop("defaults", {})}
    settings = {
        key: more.pop(key) for key in ("min", "max", "decimals", "noValue", "links") if key in more
    }
    size = {"w": more.pop("width", 12), "h": more.pop("height", 8)}
    source = DATABASE if isinstance(queries, Sql) else METRICS
    return {
        "type": kind,
        "title": title,
        "description": about or SERIES[first].help,
        "datasource": source,
        "targets": _sql(kind, queries) if isinstance(queries, Sql) else _promql(kind, queries),
        "gridPos": size,
        "fieldConfig": {"defaults": {**unit, **settings}, "overrides": more.pop("overrides", [])},
        **more,
    }


def _promql(kind: str, queries: Mapping[str, str]) -> list[Json]:
    is_now = kind in {"stat", "table"}
    return [
        {
            "refId": chr(ord("A") + number),
            "datasource": METRICS,
            "expr": prove(query, legend),
            "legendFormat": legend,
            "instant": is_now,
            "range": not is_now,
            "format": "table" if kind == "table" else "time_series",
            "editorMode": "code",
        }
        for number, (query, legend) in enumerate(queries.items())
    ]


def _sql(kind: str, query: Sql) -> list[Json]:
    asked = {
        "refId": "A",
        "datasource": DATABASE,
        "rawSql": query.text.strip(),
        "rawQuery": True,
        "editorMode": "code",
    }
    return [{**asked, "format": "time_series" if kind == "timeseries" else "table"}]


def _first_series(queries: Queries) -> str:
    """Name, without prefix, of the first series of the table that the queries use.

    Empty where there is none.
    """
    found = re.findall(r"rankwatch_(\w+)\{", "" if isinstance(queries, Sql) else " ".join(queries))
    return next(
        (
            stem
            for name in found
            if (stem := re.sub(r"_(bucket|sum|count|gsum|gcount)$", "", name)) in SERIES
        ),
        "",
    )


def _unit(name: str) -> str:
    stem = name.removesuffix("_total")
    return next((unit for ending, unit in _UNITS.items() if stem.endswith(ending)), "short")
