"""What metrics need to know beside the lists, against what a comparison is told to read and keep."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.arm_metrics import ArmMetric, ArmNeed, parse_arm_metric
from monitor.errors import MetricError
from monitor.metrics import Metric, Need, parse
from monitor.model import Arm
from monitor.settings.judged_metric import find_judged_metric
from monitor.settings.problems import KeyPath, Problem
from monitor.settings.translation import sample_size
from monitor.settings.validation import Partial

_GIVES = {
    Need.ITEM_WEIGHTS: "item_weights: {file: {path: ..., item: ..., weight: ...}}",
    Need.RELEVANCE: "relevance: {file: {path: ..., user: ..., items: ..., grades: ...}}",
}
_LATE = "needs relevance, which arrives after the run: it is measured then, and never judged; use a metric of the lists alone"


def check_required_inputs(comparison: Partial) -> Iterator[Problem]:
    """Problems of metrics and arm metrics that something is missing for, and of lists that are needed and not kept."""
    for n, text in comparison.items("metrics"):
        yield from _check_metric_input(("metrics", n), find_metric(text), comparison)
    for n, text in comparison.items("arm_metrics"):
        yield from _check_metric_input(("arm_metrics", n), _find_arm_metric(text), comparison)
    floor = comparison.get("noise_floor")
    if floor is not None and floor.temporal:
        yield from _check_temporal(comparison)
    if comparison.has("relevance") and comparison.get("keep_lists") is False:
        yield Problem(("keep_lists",), "relevance that arrives later is held against kept lists: remove this key")


def _check_temporal(comparison: Partial) -> Iterator[Problem]:
    if comparison.get("keep_lists") is False:
        yield Problem(("keep_lists",), "a temporal noise floor compares with the lists of the last run: remove this key")
    users = comparison.get("users")
    if users is not None and users.sample is not None and not sample_size(users.sample).fixed:
        yield Problem(
            ("noise_floor",),
            "a temporal noise floor compares with the lists of the last run, and rotating users were not asked then: "
            "add fixed: ... to users.sample, or take {serve: true} or {retrain: SOURCE}",
        )


def check_judged(rule: Partial) -> Iterator[Problem]:
    """A problem of a rule on a metric that no run can judge, because it is measured when relevance arrives."""
    quantity = find_judged_metric(rule.get("metric"))
    if quantity is not None and quantity.metric.need is Need.RELEVANCE:
        yield Problem(("metric",), _LATE)


def find_metric(text: object) -> Metric | None:
    """The metric of that name, None where there is none."""
    try:
        return parse(text) if isinstance(text, str) else None
    except MetricError:
        return None


def _find_arm_metric(text: object) -> ArmMetric | None:
    try:
        return parse_arm_metric(text)
    except MetricError:
        return None


def _check_metric_input(path: KeyPath, metric: Metric | ArmMetric | None, comparison: Partial) -> Iterator[Problem]:
    need = None if metric is None else metric.need
    if need == Need.SCORES:
        arms = [arm for arm in Arm if (source := comparison.get(arm)) is not None and not source.has_scores]
        if arms:
            yield Problem(path, f"needs the models' own scores: add scores: ... to the {' and the '.join(arms)}'s source")
    elif need == ArmNeed.KEEP_LISTS:
        if comparison.get("keep_lists") is False:
            yield Problem(path, "compares with the lists of the last run: remove keep_lists: false")
    elif need is not None and not comparison.has(need):
        yield Problem(path, f"needs {need}: add {_GIVES[Need(need)]} to the comparison")
