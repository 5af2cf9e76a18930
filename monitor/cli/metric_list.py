"""The command `metrics`: every metric there is, and what it declares."""

from __future__ import annotations

import math
from dataclasses import MISSING, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated

import typer

from monitor.cli.output import cell, pick, print_error, print_json, print_line, print_table
from monitor.cli.parameters import AsJson
from monitor.errors import MetricError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from monitor.arm_metrics import ArmMetric
    from monitor.metrics import Metric

PAIRWISE = ("metric", "range", "identical>", "disjoint>", "needs", "meaning")
ARM_WIDE = ("metric", "range", "needs", "meaning")
CHANCE_K = 10
CHANCE_CATALOGUES = (10, 20, 50, 100, 1000)


def metrics(
    name: Annotated[
        str | None,
        typer.Argument(
            help="One metric, all that it declares; parameters may be given: rbo(p=0.8)@5."
        ),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """List every metric and what it declares.

    Its range, what identical and disjoint lists score, what it needs, and what it means.
    """
    from monitor.arm_metrics import ARM_METRICS
    from monitor.metrics import METRICS

    if name is not None:
        _show(_find(name), as_json=as_json)
        return
    pairwise = [_describe(kind()) for kind in {**METRICS, **METRICS.installed()}.values()]
    arm_wide = [_describe_arm(metric) for metric in ARM_METRICS.values()]
    for problem in METRICS.problems():
        print_error(problem)
    if as_json:
        print_json(*pairwise, *arm_wide)
        return
    print_table(PAIRWISE, map(_row, pairwise), title="Of two lists: metrics")
    print_line()
    print_table(ARM_WIDE, map(_row, arm_wide), title="Of one arm's lists together: arm_metrics")


def _find(text: str) -> Metric | ArmMetric:
    from monitor.arm_metrics import ARM_METRICS
    from monitor.metrics import METRICS, parse

    name = text.partition("(")[0].partition("@")[0].strip()
    if name in ARM_METRICS:
        if text.strip() != name:
            raise MetricError(
                f"{name} measures one arm's lists together: it takes no parameters and no depth"
            )
        return ARM_METRICS[name]
    if name in METRICS or METRICS.installed(name):
        return parse(text)
    near = get_close_matches(name.lower(), [*METRICS, *ARM_METRICS], n=1)
    msg = f"unknown metric {name!r}" + (
        f"; did you mean {near[0]!r}?" if near else "; see rankwatch metrics for all"
    )
    raise MetricError(msg)


def _show(metric: Metric | ArmMetric, *, as_json: bool) -> None:
    from monitor.metrics import Metric

    facts = (
        _describe(metric) | _chance(metric) if isinstance(metric, Metric) else _describe_arm(metric)
    )
    if as_json:
        print_json(facts)
        return
    rows = [
        (key.replace("_", " "), _text(value))
        for key, value in facts.items()
        if key not in {"metric", "meaning"}
    ]
    print_table(("", ""), rows, title=f"{facts['metric']}: {facts['meaning']}")


def _describe(metric: Metric) -> dict[str, object]:
    declared = {
        name: _value_text(getattr(metric, name))
        for name in ("identical", "disjoint", "one_empty", "both_empty")
    }
    return {
        "metric": str(metric),
        "meaning": (type(metric).__doc__ or "")
        .strip()
        .splitlines()[0]
        .rstrip(".")
        .replace("`", ""),
        "parameters": _parameters(metric),
        **pick(metric, "low", "high"),
        "more_alike": "higher" if metric.higher_is_more_alike else "lower",
        "symmetric": metric.is_symmetric,
        **declared,
        **pick(metric, "uneven", "ties"),
        "needs": metric.need,
        "source": metric.source,
    }


def _describe_arm(metric: ArmMetric) -> dict[str, object]:
    return {
        "metric": str(metric),
        **pick(metric, "meaning", "low", "high", "arms"),
        "needs": metric.need,
        "source": metric.source,
    }


def _chance(metric: Metric) -> dict[str, object]:
    from monitor.metrics import expected_by_chance

    found = {str(size): expected_by_chance(metric, CHANCE_K, size) for size in CHANCE_CATALOGUES}
    return {
        f"by_chance_k{CHANCE_K}": found
        if any(value is not None for value in found.values())
        else None
    }


def _parameters(metric: Metric) -> dict[str, object]:
    """Value and default of each parameter, and the words that it may be."""
    return {
        field.name: {
            "value": getattr(metric, field.name),
            "default": None if field.default is MISSING else field.default,
            **(
                {"choices": list(metric.choices[field.name])}
                if field.name in metric.choices
                else {}
            ),
        }
        for field in fields(metric)
        if field.name in metric.parameters()
    }


def _value_text(value: float | None) -> float | str:
    if value is None:
        return "depends"
    return "undefined" if math.isnan(value) else value


def _row(facts: Mapping[str, object]) -> tuple[str, ...]:
    """The cells of a metric of two lists; of one arm's lists without the two scores."""
    scores = [_text(facts[key]) for key in ("identical", "disjoint") if key in facts]
    reach = f"{_text(facts['low'])} to {_text(facts['high'])}"
    return (str(facts["metric"]), reach, *scores, _text(facts["needs"]), str(facts["meaning"]))


def _text(value: object) -> str:
    if isinstance(value, float):
        return "any" if math.isinf(value) else f"{value:.4g}"
    if isinstance(value, dict):
        return ", ".join(
            f"{key} ({_text(each)})" if isinstance(each, dict) else f"{key}: {_text(each)}"
            for key, each in value.items()
        )
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else cell(value)
