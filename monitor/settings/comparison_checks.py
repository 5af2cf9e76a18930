"""What the settings of one comparison must agree on. Each check reads what could be read, so that all problems are found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from monitor.arm_metrics import ArmMetric, ArmNeed, parse_arm_metric
from monitor.errors import MetricError
from monitor.metrics import Metric, Need, parse
from monitor.model import Arm
from monitor.options import format_duration
from monitor.settings.problems import NAME_TAKEN, TWICE, KeyPath, Problem, duplicates, within
from monitor.settings.rule_checks import check_rule
from monitor.settings.rule_options import RuleOptions
from monitor.settings.schedule import SHORTEST_INTERVAL, schedule_of
from monitor.settings.validation import Partial
from monitor.sources import all_users_problem

_EXAMPLES = {
    Need.ITEM_WEIGHTS: "item_weights: {file: {path: ..., item: ..., weight: ...}}",
    Need.RELEVANCE: "relevance: {file: {path: ..., user: ..., items: ..., grades: ...}}",
}


def check_comparison(comparison: Partial, context: Mapping[str, object]) -> Iterator[Problem]:
    """Problems between settings of the comparison, whether or not each of them is right by itself."""
    rules = [(n, Partial(RuleOptions, item, context)) for n, item in comparison.items("rules")]
    yield from _schedule(comparison)
    yield from _metrics(comparison)
    yield from _inputs(comparison)
    yield from _users(comparison)
    yield from duplicates(
        ((("rules", n, "alert"), rule.get("alert")) for n, rule in rules),
        NAME_TAKEN.format("rule of this comparison"),
    )
    for n, rule in rules:
        yield from within(("rules", n), check_rule(rule, comparison))


def _schedule(comparison: Partial) -> Iterator[Problem]:
    every, cron, zone = (comparison.get(key) for key in ("every", "cron", "timezone"))
    if not comparison.has("every", "cron"):
        yield Problem((), "when does it run? give every (such as every: 15m) or cron")
        return
    if comparison.has("every") and comparison.has("cron"):
        yield Problem(("cron",), "give either every or cron, not both")
        return
    if comparison.has("timezone") and not comparison.has("cron"):
        yield Problem(("timezone",), "belongs to cron; every counts from 1970-01-01 00:00 UTC")
    if every is not None and every < SHORTEST_INTERVAL:
        yield Problem(("every",), "must be at least 1s")
        return
    if (every is None and cron is None) or zone is None:
        return
    deadline = comparison.get("deadline")
    interval = schedule_of(every, cron, zone).interval
    if deadline is not None and deadline >= interval:
        yield Problem(("deadline",), f"must be shorter than the time between two runs ({format_duration(interval)})")


def _metrics(comparison: Partial) -> Iterator[Problem]:
    k = comparison.get("k")
    read = [(("metrics", n), _find_metric(text)) for n, text in comparison.items("metrics")]
    yield from duplicates(((path, metric) for path, metric in read), f"{TWICE}, perhaps in another spelling")
    for path, metric in read:
        if metric is not None and metric.depth is not None and k is not None and metric.depth > k:
            yield Problem(path, f"looks at {metric.depth} items, and lists are cut to k: {k}")
    arm_metrics = ((("arm_metrics", n), text) for n, text in comparison.items("arm_metrics") if isinstance(text, str))
    yield from duplicates(arm_metrics, TWICE)


def _users(comparison: Partial) -> Iterator[Problem]:
    users, baseline = comparison.get("users"), comparison.get("baseline")
    if users is not None and users.all and baseline is not None and (problem := all_users_problem(baseline)):
        yield Problem(("users", "all"), problem)


def _inputs(comparison: Partial) -> Iterator[Problem]:
    """Metrics and arm metrics whose input is missing, and lists that are needed and not kept."""
    for n, text in comparison.items("metrics"):
        yield from _check_metric_input(("metrics", n), _find_metric(text), comparison)
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
    if users is not None and (size := users.sample_size) is not None and not size.fixed:
        yield Problem(
            ("noise_floor",),
            "a temporal noise floor compares with the lists of the last run, and rotating users were not asked then: "
            "add fixed: ... to users.sample, or take {serve: true} or {retrain: SOURCE}",
        )


def _find_metric(text: object) -> Metric | None:
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
        yield Problem(path, f"needs {need}: add {_EXAMPLES[Need(need)]} to the comparison")
