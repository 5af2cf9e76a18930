"""The commands `metrics` and `series`. They list metrics, and series for Prometheus."""

from __future__ import annotations

import math
from dataclasses import MISSING, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.completion import complete_metrics
from monitor.cli.output import (
    attributes_of,
    print_error,
    print_json,
    print_line,
    print_objects,
    print_table,
    table_cell,
)
from monitor.cli.parameters import AsJson
from monitor.model.errors import MetricError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from monitor.measures.arm_metrics import ArmMetric
    from monitor.measures.metrics import Metric

PAIRWISE = ("metric", "range", "identical>", "disjoint>", "needs", "meaning")
ARM_WIDE = ("metric", "range", "needs", "meaning")
CHANCE_K = 10
CHANCE_CATALOGUES = (10, 20, 50, 100, 1000)


def metrics(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="METRIC",
            autocompletion=complete_metrics,
            help="Metric to show with all its properties. The name may have parameters, such as "
            "rbo(p=0.8)@5.",
        ),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List the metrics that can be measured.

    The output shows the range of each metric, its scores for identical and for disjoint lists, the
    data that it needs, and its meaning. `rankwatch series` lists the series for Prometheus.
    """
    from monitor.measures.arm_metrics import ARM_METRICS
    from monitor.measures.metrics import METRICS

    if name is not None:
        _print_metric(_parse_metric(name), as_json=as_json)
        return
    kinds = METRICS | METRICS.installed()
    pairwise = [_describe_pair_metric(kind()) for kind in kinds.values()]
    arm_wide = [_describe_arm(metric) for metric in ARM_METRICS.values()]
    for problem in METRICS.problems():
        print_error(problem)
    if as_json:
        print_json(*pairwise, *arm_wide)
        return
    print_table(PAIRWISE, map(_metric_row, pairwise), title="metrics: they compare two lists")
    print_line()
    print_table(
        ARM_WIDE, map(_metric_row, arm_wide), title="arm_metrics: they measure one arm's lists"
    )


def series(*, as_json: AsJson = False) -> None:
    """List the series that the daemon exports to Prometheus."""
    from monitor.export.series import SERIES

    objects = []
    for entry in SERIES.values():
        record = {"series": entry.name, "type": entry.kind, "labels": entry.labels}
        objects.append({**record, "meaning": entry.help})
    print_objects(objects, "series type labels meaning", as_json=as_json)


def _parse_metric(expression: str) -> Metric | ArmMetric:
    """Return the metric with this name and these parameters. Raises MetricError without one."""
    from monitor.measures.arm_metrics import ARM_METRICS
    from monitor.measures.metrics import METRICS, parse

    name = expression.partition("(")[0].partition("@")[0].strip()
    if name in ARM_METRICS:
        if expression.strip() != name:
            raise MetricError(
                f"{name} measures all lists of one arm: write it without parameters and depth"
            )
        return ARM_METRICS[name]
    if name in METRICS or METRICS.installed(name):
        return parse(expression)
    hint = "rankwatch metrics lists all"
    near = get_close_matches(name.lower(), [*METRICS, *ARM_METRICS], n=1)
    if near:
        hint = f"did you mean {near[0]!r}?"
    raise MetricError(f"unknown metric {name!r}: {hint}")


def _print_metric(metric: Metric | ArmMetric, *, as_json: bool) -> None:
    """Print all properties of one metric."""
    from monitor.measures.metrics import Metric

    if isinstance(metric, Metric):
        facts = _describe_pair_metric(metric) | _write_chance(metric)
    else:
        facts = _describe_arm(metric)
    if as_json:
        print_json(facts)
        return
    title = f"{facts.pop('metric')}: {facts.pop('meaning')}"
    rows = [(key.replace("_", " "), _write_property(value)) for key, value in facts.items()]
    print_table(("", ""), rows, title=title)


def _describe_pair_metric(metric: Metric) -> dict[str, object]:
    """Return the properties of a metric that compares two lists."""
    summary = (type(metric).__doc__ or "").strip().splitlines()[0]
    return {
        "metric": str(metric),
        "meaning": summary.rstrip(".").replace("`", ""),
        "parameters": _parameters(metric),
        **attributes_of(metric, "low", "high"),
        "more_alike": "higher" if metric.higher_is_more_alike else "lower",
        "is_symmetric": metric.is_symmetric,
        "identical": _value_text(metric.identical),
        "disjoint": _value_text(metric.disjoint),
        "one_empty": _value_text(metric.one_empty),
        "both_empty": _value_text(metric.both_empty),
        **attributes_of(metric, "uneven", "ties"),
        "need": metric.need,
        "source": metric.source,
    }


def _describe_arm(metric: ArmMetric) -> dict[str, object]:
    return {
        "metric": str(metric),
        **attributes_of(metric, "meaning", "low", "high", "arms"),
        "need": metric.need,
        "source": metric.source,
    }


def _write_chance(metric: Metric) -> dict[str, object]:
    from monitor.measures.metrics import expected_by_chance

    scores = {str(size): expected_by_chance(metric, CHANCE_K, size) for size in CHANCE_CATALOGUES}
    has_score = any(score is not None for score in scores.values())
    return {f"by_chance_k{CHANCE_K}": scores if has_score else None}


def _parameters(metric: Metric) -> dict[str, object]:
    """Return the value, the default and the possible values of each parameter."""
    parameters: dict[str, object] = {}
    for field in fields(metric):
        name = field.name
        if name in metric.parameters():
            default = None if field.default is MISSING else field.default
            parameter = {"value": getattr(metric, name), "default": default}
            if name in metric.choices:
                parameter["choices"] = list(metric.choices[name])
            parameters[name] = parameter
    return parameters


def _value_text(value: float | None) -> float | str:
    if value is None:
        return "depends"
    return "undefined" if math.isnan(value) else value


def _metric_row(facts: Mapping[str, object]) -> tuple[str, ...]:
    """Return the table cells of a metric. Arm metrics have fewer cells."""
    scores = [_write_property(facts[key]) for key in ("identical", "disjoint") if key in facts]
    limits = f"{_write_property(facts['low'])} to {_write_property(facts['high'])}"
    return (
        str(facts["metric"]),
        limits,
        *scores,
        _write_property(facts["need"]),
        str(facts["meaning"]),
    )


def _write_property(value: object) -> str:
    """Write a property of a metric."""
    if isinstance(value, float):
        return "any" if math.isinf(value) else f"{value:.4g}"
    if isinstance(value, dict):
        parts = []
        for key, part in value.items():
            if isinstance(part, dict):
                parts.append(f"{key} ({_write_property(part)})")
            else:
                parts.append(f"{key}: {_write_property(part)}")
        return ", ".join(parts)
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return table_cell(value)
