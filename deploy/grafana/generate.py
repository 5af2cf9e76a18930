"""Writes dashboards/rankwatch.json, which Grafana reads. Run it after a change here: python deploy/grafana/generate.py."""  # noqa: INP001 - a script

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent / "dashboards" / "rankwatch.json"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_ONE = 'comparison="$comparison"'
_SIMILARITY = f'{_ONE}, metric="$metric"'
_ALL = f'{_SIMILARITY}, segment="all"'
_SEGMENTS = 'segment=~"$segment"'
_WIDTH = 24

# Okabe and Ito's colours: told apart by colour-blind people too.
_GOOD, _WARN, _BAD, _GREY = "#009E73", "#E69F00", "#D55E00", "#999999"
_STATES = {"0": ("quiet", _GOOD), "1": ("pending", _WARN), "2": ("firing", _BAD)}
_STATUSES = {"ok": _GOOD, "insufficient": _WARN, "failed": _BAD, "abandoned": _GREY}

_DASHED = {
    "matcher": {"id": "byName", "options": "by chance"},
    "properties": [
        {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [10, 10]}},
        {"id": "color", "value": {"mode": "fixed", "fixedColor": _GREY}},
    ],
}

Panel = dict[str, Any]


def _panel(kind: str, title: str, about: str, queries: dict[str, str], **more: Any) -> Panel:  # noqa: ANN401 - JSON
    """One panel; ``queries`` maps PromQL to its legend. ``unit``, ``width`` and ``height`` are taken from ``more``."""
    defaults = {"unit": more.pop("unit", "short"), **more.pop("defaults", {})}
    size = {"w": more.pop("width", 12), "h": more.pop("height", 8)}
    is_now = kind in {"stat", "table"}
    targets = [
        {
            "refId": chr(ord("A") + number),
            "datasource": _SOURCE,
            "expr": query,
            "legendFormat": legend,
            "instant": is_now,
            "range": not is_now,
            "format": "table" if kind == "table" else "time_series",
            "editorMode": "code",
        }
        for number, (query, legend) in enumerate(queries.items())
    ]
    overrides = more.pop("overrides", [])
    return {
        "type": kind,
        "title": title,
        "description": about,
        "datasource": _SOURCE,
        "targets": targets,
        "gridPos": size,
        "fieldConfig": {"defaults": defaults, "overrides": overrides},
        **more,
    }


def _stat(title: str, about: str, query: str, legend: str = "", **more: Any) -> Panel:  # noqa: ANN401 - JSON
    options = {
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        "textMode": more.pop("text", "value"),
        "colorMode": "background" if "steps" in more else "none",
        "graphMode": "none",
        "justifyMode": "center",
        "orientation": "auto",
    }
    steps = [{"color": color, "value": value} for value, color in more.pop("steps", ((None, _GREY),))]
    defaults = {
        "thresholds": {"mode": "absolute", "steps": steps},
        "noValue": "no data",
        "decimals": more.pop("decimals", None),
    }
    return _panel("stat", title, about, {query: legend}, defaults=defaults, options=options, width=4, height=4, **more)


def _lines(title: str, about: str, queries: dict[str, str], **more: Any) -> Panel:  # noqa: ANN401 - JSON
    stack = "normal" if more.pop("stacked", False) else "none"
    custom = {
        "lineWidth": 2,
        "fillOpacity": 30 if stack == "normal" else 0,
        "showPoints": "auto",
        "spanNulls": False,
        "stacking": {"mode": stack, "group": "A"},
    }
    options = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    return _panel("timeseries", title, about, queries, defaults={"custom": custom}, options=options, **more)


def _now() -> list[Panel]:
    firing = f"count(rankwatch_alert_state{{{_ONE}}} == 2) or vector(0)"
    share = f'rankwatch_paired_users{{{_ONE}, segment="all"}} / rankwatch_panel_users{{{_ONE}, segment="all"}}'
    last = f"time() - rankwatch_run_last_ok_timestamp_seconds{{{_ONE}}}"
    overrides = [
        {
            "matcher": {"id": "byName", "options": status},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}],
        }
        for status, color in _STATUSES.items()
    ]
    return [
        _stat("Alerts firing", "Alerts of this comparison that fire now.", firing, steps=((None, _GOOD), (1, _BAD))),
        _stat(
            "Newest run",
            "Status of the newest finished run. While it is not ok no similarity is shown.",
            f"rankwatch_run_status{{{_ONE}}} == 1",
            "{{status}}",
            text="name",
            overrides=overrides,
        ),
        _stat("Similarity", "Mean over all users of the newest run.", f"rankwatch_similarity_mean{{{_ALL}}}", decimals=3),
        _stat("Users compared", "Users behind the mean.", f"rankwatch_similarity_users{{{_ALL}}}"),
        _stat("Paired", "Share of the users asked whose two lists could be compared.", share, unit="percentunit", decimals=1),
        _stat("Last ok run", "Time since a run last ended ok.", last, unit="s"),
    ]


def _similarity() -> list[Panel]:
    mean, error = f"rankwatch_similarity_mean{{{_ALL}}}", f"rankwatch_similarity_standard_error{{{_ALL}}}"
    chance = f"rankwatch_similarity_by_chance{{{_SIMILARITY}}}"
    floors = f"rankwatch_similarity_share_below_ratio{{{_ALL}}}"
    alerts = f"{_ONE}, {_SEGMENTS}"
    mappings = [
        {
            "type": "value",
            "options": {
                number: {"text": text, "color": color, "index": int(number)} for number, (text, color) in _STATES.items()
            },
        }
    ]
    return [
        _lines(
            "Similarity of all users",
            "Mean with the interval of two standard errors on either side; dashed: what two random lists would give. "
            "A gap means that a run was not ok.",
            {mean: "mean", f"{mean} + 2 * {error}": "upper", f"{mean} - 2 * {error}": "lower", chance: "by chance"},
            overrides=[_DASHED],
        ),
        _lines(
            "Alerts: value and threshold",
            "What each rule judged, and where it begins to breach.",
            {
                f"rankwatch_alert_value{{{alerts}}}": "{{alert}} {{segment}}",
                f"rankwatch_alert_threshold{{{alerts}}}": "{{alert}} {{segment}} threshold",
                f"rankwatch_alert_expected{{{alerts}}}": "{{alert}} {{segment}} expected",
            },
        ),
        _lines(
            "Noise floor",
            "How similar the baseline is to itself, and how much farther the candidate is from it, user by user.",
            {
                f"rankwatch_noise_floor_mean{{{_ALL}}}": "floor",
                f"rankwatch_over_floor_mean{{{_ALL}}}": "over the floor",
                f"rankwatch_over_floor_mean{{{_ALL}}} + 2 * rankwatch_over_floor_standard_error{{{_ALL}}}": "upper",
                f"rankwatch_over_floor_mean{{{_ALL}}} - 2 * rankwatch_over_floor_standard_error{{{_ALL}}}": "lower",
            },
        ),
        _lines(
            "Quantiles",
            "How similar the lists of the users at each quantile are.",
            {f"rankwatch_similarity_quantile{{{_ALL}}}": "q {{q}}"},
        ),
        _lines(
            "Share of users below a floor",
            "Users whose two lists are less alike than the floor.",
            {floors: "below {{floor}}"},
            unit="percentunit",
        ),
        _lines(
            "Similarity by segment",
            "Mean of each chosen segment.",
            {f"rankwatch_similarity_mean{{{_SIMILARITY}, {_SEGMENTS}}}": "{{segment}}"},
        ),
        _lines(
            "Users by segment",
            "Users behind each mean: a mean of few users moves by chance.",
            {f"rankwatch_similarity_users{{{_SIMILARITY}, {_SEGMENTS}}}": "{{segment}}"},
        ),
        _panel(
            "state-timeline",
            "Alerts",
            "Where each alert stood. An alert whose rule could not be judged keeps its state.",
            {f"rankwatch_alert_state{{{alerts}}}": "{{alert}} {{segment}}"},
            defaults={"mappings": mappings, "custom": {"fillOpacity": 80, "lineWidth": 0}},
            options={"showValue": "auto", "mergeValues": True, "rowHeight": 0.9, "legend": {"showLegend": False}},
        ),
        _lines(
            "Alerts that could not be judged",
            "1 while the newest run had no data, too few users or an error for the rule: quiet then does not mean well.",
            {f"1 - rankwatch_alert_judged{{{alerts}}}": "{{alert}} {{segment}}"},
        ),
    ]


def _arms() -> list[Panel]:
    chosen = f'{_ONE}, metric="$arm_metric", {_SEGMENTS}'
    return [
        _lines(
            "Arm-wide metric",
            "The chosen metric of all lists of one arm together, such as its coverage of the catalogue.",
            {f"rankwatch_arm_metric{{{chosen}}}": "{{arm}} {{segment}}"},
        ),
        _lines(
            "Runs that wait for labels",
            "Ok runs whose measures of relevance are missing because labels have not arrived.",
            {f"rankwatch_unlabelled_runs{{{_ONE}}}": "runs"},
        ),
    ]


def _coverage() -> list[Panel]:
    whole = f'{_ONE}, segment="all"'
    return [
        _lines(
            "Users lost or imperfect, by reason",
            "Users whose list was absent or imperfect, by arm and reason. Short and duplicated lists are compared.",
            {f"rankwatch_coverage_users{{{whole}}} > 0": "{{arm}} {{reason}}"},
            stacked=True,
        ),
        _lines(
            "Users asked and paired",
            "Size of the panel, and how much of it could be compared.",
            {f"rankwatch_panel_users{{{whole}}}": "asked", f"rankwatch_paired_users{{{whole}}}": "paired"},
        ),
    ]


def _runs() -> list[Panel]:
    seconds = f"rankwatch_run_duration_seconds_bucket{{{_ONE}}}[$__rate_interval]"
    total, number = (f"rate(rankwatch_stage_duration_seconds_{part}{{{_ONE}}}[$__rate_interval])" for part in ("sum", "count"))
    runs, skipped = (f"rankwatch_{name}_total{{{_ONE}}}[$__rate_interval]" for name in ("runs", "slots_skipped"))
    return [
        _lines(
            "Runs by status",
            "Runs that ended.",
            {f"sum by (status) (increase({runs}))": "{{status}}"},
            interval="1h",
            stacked=True,
        ),
        _lines(
            "Slots skipped",
            "Slots that did not run.",
            {f"sum by (reason) (increase({skipped}))": "{{reason}}"},
            interval="1h",
            stacked=True,
        ),
        _lines(
            "Duration of runs",
            "Median and 95th percentile of the time from claim to end.",
            {
                f"histogram_quantile(0.5, sum by (le) (rate({seconds})))": "median",
                f"histogram_quantile(0.95, sum by (le) (rate({seconds})))": "p95",
            },
            unit="s",
            interval="1h",
        ),
        _lines(
            "Duration of stages",
            "Mean time of each stage of a run.",
            {f"sum by (stage) ({total}) / sum by (stage) ({number})": "{{stage}}"},
            unit="s",
            interval="1h",
            stacked=True,
        ),
    ]


def _daemon() -> list[Panel]:
    sent = "rankwatch_notifications_total[$__rate_interval]"
    return [
        _lines(
            "Outbox",
            "Deliveries that wait to be sent, and those that are held back.",
            {"rankwatch_outbox_pending": "{{receiver}}", "rankwatch_outbox_held": "{{receiver}}, held back"},
        ),
        _lines(
            "Age of the oldest delivery",
            "How long it has waited.",
            {"rankwatch_outbox_oldest_age_seconds": "{{receiver}}"},
            unit="s",
        ),
        _lines(
            "Attempts to deliver",
            "By receiver and outcome.",
            {f"sum by (receiver, outcome) (increase({sent}))": "{{receiver}} {{outcome}}"},
            interval="1h",
        ),
        _lines(
            "Configuration in force",
            "0 while the file last read was refused.",
            {"rankwatch_config_last_reload_successful": "{{instance}}"},
        ),
        _lines(
            "Memory",
            "Resident memory of the process.",
            {'process_resident_memory_bytes{job="rankwatch"}': "{{instance}}"},
            unit="bytes",
        ),
        _lines("CPU", "Cores in use.", {'rate(process_cpu_seconds_total{job="rankwatch"}[$__rate_interval])': "{{instance}}"}),
    ]


def _place(sections: dict[str, list[Panel]]) -> list[Panel]:
    """Rows of panels from left to right, each row under the one before."""
    placed: list[Panel] = []
    numbers, top = count(1), 0
    for title, panels in sections.items():
        placed.append(
            {
                "type": "row",
                "title": title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": top, "w": _WIDTH, "h": 1},
            }
        )
        left, top, height = 0, top + 1, 0
        for panel in panels:
            size = panel["gridPos"]
            if left + size["w"] > _WIDTH:
                left, top = 0, top + height
            panel["gridPos"] = {"x": left, "y": top, **size}
            left, height = left + size["w"], size["h"]
            placed.append(panel)
        top += height
    return [{"id": next(numbers), **panel} for panel in placed]


def _variable(name: str, label: str, query: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": _SOURCE,
        "definition": query,
        "query": {"qryType": 1, "query": query, "refId": f"variable-{name}"},
        "refresh": 2,
        "sort": 1,
        "multi": False,
        "includeAll": False,
        **more,
    }


def _variables() -> list[dict[str, Any]]:
    everything = {"text": ["All"], "value": ["$__all"]}
    return [
        {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus", "refresh": 1},
        _variable("comparison", "Comparison", "label_values(rankwatch_run_status, comparison)"),
        _variable("metric", "Metric", f"label_values(rankwatch_similarity_users{{{_ONE}}}, metric)"),
        _variable("arm_metric", "Arm-wide metric", f"label_values(rankwatch_arm_metric{{{_ONE}}}, metric)"),
        _variable(
            "segment",
            "Segment",
            f"label_values(rankwatch_panel_users{{{_ONE}}}, segment)",
            multi=True,
            includeAll=True,
            current=everything,
        ),
    ]


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana's JSON model."""
    sections = {
        "Now": _now(),
        "Similarity": _similarity(),
        "Each arm by itself": _arms(),
        "Coverage": _coverage(),
        "Runs": _runs(),
        "Delivery and process": _daemon(),
    }
    firing = {
        "name": "Alerts firing",
        "enable": True,
        "iconColor": _BAD,
        "datasource": _SOURCE,
        "expr": f"rankwatch_alert_state{{{_ONE}}} == 2",
        "titleFormat": "{{alert}}",
        "textFormat": "{{segment}}",
        "step": "60s",
    }
    return {
        "uid": "rankwatch",
        "title": "rankwatch",
        "description": "How alike the lists of two recommenders are, for whom, and whether rankwatch itself is well.",
        "tags": ["rankwatch"],
        "schemaVersion": 41,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "timezone": "browser",
        "annotations": {"list": [firing]},
        "templating": {"list": _variables()},
        "links": [],
        "panels": _place(sections),
    }


def text() -> str:
    """The file's text."""
    return json.dumps(dashboard(), indent=2) + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
