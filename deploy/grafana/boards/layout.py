"""A dashboard around its panels: places, ids, variables, annotations, links to the others."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from boards.queries import prove

Json = dict[str, Any]

TAG = "rankwatch"
METRICS = {"type": "prometheus", "uid": "${datasource}"}
DATABASE = {"type": "grafana-postgresql-datasource", "uid": "${database}"}
SCHEMA_VERSION = 42
_WIDTH = 24


def render(board: Json) -> str:
    """The file's text."""
    return json.dumps(board, indent=2, ensure_ascii=False) + "\n"


def place(sections: Mapping[str, Sequence[Json]]) -> list[Json]:
    """Every section a row, its panels from left to right as long as they fit; ids count up."""
    numbers, placed, top = count(1), [], 0
    for title, panels in sections.items():
        placed.append(_at(_row(title), next(numbers), 0, top))
        top, left, height = top + 1, 0, 0
        for panel in panels:
            if left + panel["gridPos"]["w"] > _WIDTH:
                top, left, height = top + height, 0, 0
            placed.append(_at(panel, next(numbers), left, top))
            left, height = left + panel["gridPos"]["w"], max(height, panel["gridPos"]["h"])
        top += height
    return placed


def _row(title: str) -> Json:
    return {
        "type": "row",
        "title": title,
        "collapsed": False,
        "panels": [],
        "gridPos": {"w": _WIDTH, "h": 1},
    }


def _at(panel: Json, number: int, x: int, y: int) -> Json:
    return {"id": number, **panel, "gridPos": {**panel["gridPos"], "x": x, "y": y}}


def data_source(name: str, label: str, plugin: str) -> Json:
    """A variable that chooses among the data sources of one kind."""
    return {
        "type": "datasource",
        "name": name,
        "label": label,
        "query": plugin,
        "refresh": 1,
        "includeAll": False,
        "multi": False,
    }


def choice(name: str, label: str, query: str, *, is_many: bool = False) -> Json:
    """A variable whose values are those of a label.

    ``is_many``: several may be chosen, at first all.
    """
    found = prove(query)
    shown = {"current": {"text": ["All"], "value": ["$__all"]}} if is_many else {}
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": METRICS,
        "query": {"qryType": 1, "query": found, "refId": f"variable-{name}"},
        "refresh": 2,
        "sort": 1,
        "multi": is_many,
        "includeAll": is_many,
        **shown,
    }


def text_box(name: str, label: str, value: str, about: str) -> Json:
    """A variable that people type."""
    option = {"text": value, "value": value}
    box = {"type": "textbox", "name": name, "label": label, "description": about, "query": value}
    return {**box, "current": option, "options": [{**option, "selected": True}]}


JOBS = choice("job", "Job", "label_values(rankwatch_build_info, job)", is_many=True)
"""Which scrape jobs are looked at: those with a rankwatch."""


def annotation(name: str, colour: str, source: Json, target: Json, **texts: Any) -> Json:  # noqa: ANN401 - JSON
    """Marks over time: ``target`` is the query as the data source takes it."""
    return {
        "name": name,
        "enable": True,
        "iconColor": colour,
        "datasource": source,
        "target": {"refId": "Anno", **target},
        **texts,
    }


def dashboard(
    name: str,
    about: str,
    sections: Mapping[str, Sequence[Json]],
    variables: Iterable[Json],
    **more: Any,
) -> Json:  # noqa: ANN401 - JSON
    """The dashboard ``rankwatch-<name>`` in Grafana's JSON model."""
    link = {
        "type": "dashboards",
        "title": "rankwatch",
        "icon": "external link",
        "tags": [TAG],
        "tooltip": "",
        "url": "",
    }
    return {
        "uid": f"rankwatch-{name}",
        "title": f"rankwatch: {name.capitalize()}",
        "description": about,
        "tags": [TAG],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": more.pop("since", "now-24h"), "to": "now"},
        "timezone": "browser",
        "annotations": {"list": more.pop("annotations", [])},
        "templating": {"list": list(variables)},
        "links": [
            {
                **link,
                "includeVars": True,
                "keepTime": True,
                "targetBlank": False,
                "asDropdown": False,
            }
        ],
        "panels": place(sections),
    }
