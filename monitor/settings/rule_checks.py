"""Checks whether the keys of one rule fit each other and their comparison."""

from collections.abc import Iterator

from monitor.metrics import Need
from monitor.model.rankings import ALL
from monitor.model.rules import Direction, Keep
from monitor.model.statistics import Lack, Statistic
from monitor.options.problems import TWICE, Partial, Problem, duplicates, suggestion
from monitor.settings.rule_options import JudgedMetric, RuleOptions, parse_judged_metric

# For each key: the fields that it excludes, and the message for an excluded field.
_EXCLUDED = {
    "frozen": (
        (
            "metric",
            "coverage",
            "statistic",
            "segments",
            "below",
            "above",
            "learned",
            "watch",
            "for_runs",
            "resolve_above",
            "resolve_below",
            "resolve_after",
        ),
        "does not go with frozen, which learns how often an arm's lists change: remove this key",
    ),
    "coverage": (
        ("metric", "statistic"),
        "does not go with coverage, which is itself a share of users: remove this key or coverage",
    ),
    "learned": (
        ("below", "above", "resolve_above", "resolve_below"),
        "does not go with learned, which learns its limit from earlier runs: remove this key",
    ),
}


def check_rule(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    """Yield the problems of one rule of the comparison."""
    if rule.has("frozen"):
        yield from _excluded(rule, "frozen")
        if lacks_lists(comparison):
            yield Problem(
                ("frozen",),
                "compares with the lists of the last run, which are not stored for all users: "
                "remove keep_lists from the comparison",
            )
        return
    if rule.has("coverage"):
        yield from _coverage(rule, comparison)
    else:
        yield from _metric(rule, comparison)
    yield from _thresholds(rule, comparison.k)
    yield from _segments(rule, comparison)
    yield from _users_asked(rule, comparison)


def lacks_lists(comparison: Partial) -> bool:
    """Whether the comparison does not store the lists of all users."""
    return comparison.keep_lists not in (None, Keep.ALL)


def _excluded(rule: Partial, by: str) -> Iterator[Problem]:
    keys, message = _EXCLUDED[by]
    for name in keys:
        if rule.has(name):
            yield Problem((RuleOptions.model_fields[name].alias or name,), message)


def _judged(rule: Partial) -> JudgedMetric | None:
    name = rule.metric
    return None if name is None else parse_judged_metric(name)


def _metric(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    if not rule.has("metric", "coverage", "frozen"):
        yield Problem((), "has nothing to judge: give metric, coverage, or frozen")
    judged = _judged(rule)
    if judged is None:
        return
    if judged.derived and not comparison.has("noise_floor"):
        yield Problem(
            ("metric",),
            "needs a noise floor: add one to the comparison, such as noise_floor: {temporal: true}",
        )
    metrics = comparison.metrics
    if metrics is not None and str(judged.metric) not in metrics:
        yield Problem(
            ("metric",),
            f"is not measured here: add it to metrics, or use one of {', '.join(metrics)}",
        )
    if judged.metric.need is Need.RELEVANCE:
        yield Problem(
            ("metric",),
            "needs relevance, which arrives after the rules have judged the run: use a metric "
            "that needs the lists only",
        )


def _coverage(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    yield from _excluded(rule, "coverage")
    if Lack.UNCHANGED in (rule.coverage or "") and comparison.keep_lists is Keep.NONE:
        yield Problem(
            ("coverage",),
            "compares with the lists of the last run, which are not stored: remove keep_lists from "
            "the comparison",
        )
    if rule.has("below"):
        yield Problem(
            ("below",),
            "does not go with coverage, whose shares rise as more lists are at fault: write above",
        )


def _thresholds(rule: Partial, k: int | None) -> Iterator[Problem]:
    if rule.has("learned"):
        yield from _learned(rule)
        return
    if rule.has("watch"):
        yield Problem(
            ("watch",),
            "is only for learned, because below and above name their own side: remove it",
        )
    if rule.has("below") and rule.has("above"):
        yield Problem(("above",), "give either below or above, not both")
        return
    if not rule.has("below", "above"):
        yield Problem((), "has no threshold: give below (above for share_below), or learned: drop")
        return
    if rule.has("below"):
        yield from _side(rule, "below", "resolve_above", "resolve_below")
        yield from _reach(rule, "below", "resolve_above", k)
    else:
        yield from _side(rule, "above", "resolve_below", "resolve_above")
        yield from _reach(rule, "above", "resolve_below", k)


def _side(
    rule: Partial,
    side: str,
    resolve: str,
    wrong_resolve: str,
) -> Iterator[Problem]:
    if rule.has(wrong_resolve):
        yield Problem((wrong_resolve,), f"does not go with {side}: write {resolve}")
    threshold = getattr(rule, side)
    end = getattr(rule, resolve)
    if threshold is None or end is None:
        return
    if side == "below" and end < threshold:
        order = "at least"
    elif side == "above" and end > threshold:
        order = "at most"
    else:
        return
    yield Problem(
        (resolve,),
        f"must be {order} {threshold:g}, the value of {side}: the alert would end while the rule "
        "is in breach",
    )


def _learned(rule: Partial) -> Iterator[Problem]:
    yield from _excluded(rule, "learned")
    kind = rule.learned
    if rule.has("coverage") and kind == "drop":
        yield Problem(
            ("learned",),
            "drop does not go with coverage, whose shares rise as more lists are at fault: write "
            "jump",
        )
    if not rule.has("coverage") and kind == "jump":
        yield Problem(
            ("learned",),
            "jump is only for coverage: write drop, which finds every run outside the normal range",
        )


def _reach(rule: Partial, side: str, resolve: str, k: int | None) -> Iterator[Problem]:
    """Report thresholds that the statistic can never pass. Such a rule fires never or always."""
    if rule.has("coverage"):
        yield from _bounds(rule, side, resolve, "a share", 0.0, 1.0)
        return
    judged = _judged(rule)
    statistic = rule.statistic
    if judged is None or statistic is None:
        return
    name = judged.metric.name
    if judged.derived is not None:
        name = judged.derived.of(name)
    lowest, highest = judged.bounds(k)
    floor = Statistic.parse(statistic).floor
    if floor is None:
        yield from _bounds(rule, side, resolve, name, lowest, highest)
        return
    if not lowest < floor <= highest:
        yield Problem(
            ("statistic",),
            f"{name} is always between {lowest:g} and {highest:g}: choose such an x for "
            "share_below(x)",
        )
    if side == "below" and judged.drifts is Direction.BELOW:
        yield Problem(("below",), f"{statistic} grows as the lists drift apart: write above")
    else:
        yield from _bounds(rule, side, resolve, str(statistic), 0.0, 1.0)


def _bounds(
    rule: Partial,
    side: str,
    resolve: str,
    name: str,
    lowest: float,
    highest: float,
) -> Iterator[Problem]:
    message = (
        f"can never be reached, because {name} is between {lowest:g} and {highest:g}: change it"
    )
    threshold = getattr(rule, side)
    end = getattr(rule, resolve)
    is_reachable = True
    if threshold is not None and side == "below":
        is_reachable = lowest < threshold <= highest
    elif threshold is not None:
        is_reachable = lowest <= threshold < highest
    if not is_reachable:
        yield Problem((side,), message)
    elif end is not None and not lowest <= end <= highest:
        yield Problem((resolve,), message)


def _segments(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    """Report segments that are named twice, and segments that no user can be in."""
    if not isinstance(rule.segments, tuple):
        return
    named = [(("segments", n), name) for n, name in enumerate(rule.segments)]
    yield from duplicates(named, f"{TWICE}: remove one of them")
    if comparison.users is None:
        return
    dimensions = comparison.users.segments
    for path, name in named:
        dimension = name.partition("=")[0]
        if name == ALL or dimension in dimensions:
            continue
        hint = suggestion(dimension, dimensions) or f", which has {', '.join(dimensions) or 'none'}"
        yield Problem(path, f"its dimension is not among users.segments{hint}")


def _users_asked(rule: Partial, comparison: Partial) -> Iterator[Problem]:
    users = comparison.users
    size = None if users is None else users.sample_size
    min_users = rule.min_users
    if size is None or min_users is None:
        return
    sampled = max(size.fixed + size.rotating, size.minimum)
    if min_users > sampled:
        yield Problem(
            ("min_users",) if rule.has("min_users") else (),
            f"the rule would never judge, because min_users is {min_users} and a run asks only "
            f"{sampled} users: lower min_users, or ask more users",
        )
